"""The delivery's rules one by one; the simulation puts them together."""

from __future__ import annotations

import pytest

from dataplane.wire.errors import ErrorCode
from pipeline.client.values import EpochEnd
from pipeline.sink.commit_check import Question, SeenWhole, lost, questions
from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery, PartitionOpening
from pipeline.sink.identity import DERIVED, EPOCHS, ProducerIdentity, derive_identity
from pipeline.sink.log_trace import LogTrace, SequencedBatch
from pipeline.sink.steps import (
    Action,
    Answered,
    AwaitBatch,
    Batch,
    Check,
    Checked,
    Delivered,
    Describe,
    Described,
    Ended,
    Event,
    Failed,
    Failure,
    Offered,
    Pause,
    Scan,
    Scanned,
    Send,
    Unsettled,
    Woken,
    scan_start,
)

IDENTITY = ProducerIdentity(77, 4)
OPENING = PartitionOpening(start_offset=100, leader_epoch=9, opened_ms=1_000)
FIRST, SECOND, THIRD = (Batch(0, 9, b"first"), Batch(10, 19, b"second"), Batch(20, 29, b"third"))
OK = Answered(ErrorCode.NONE)
NOW = 2_000
HOURS = 60 * 60 * 1000


def delivery() -> PartitionDelivery:
    return PartitionDelivery(IDENTITY, OPENING, now_ms=NOW)


def play(machine: PartitionDelivery, *events: Event, now_ms: int = NOW) -> list[Action | None]:
    return [machine.step(event, now_ms=now_ms) for event in events]


def test_a_new_stream_is_described_sent_in_order_and_checked() -> None:
    assert play(
        delivery(), Offered(FIRST), Described(9), OK, Offered(SECOND), OK, Ended(), Checked(9, 120)
    ) == [
        Describe(),
        Send(FIRST, 9),
        AwaitBatch(),
        Send(SECOND, 9),
        AwaitBatch(),
        Check(),
        Delivered(20, 9, 120),
    ]


def test_nothing_is_asked_while_an_answer_is_awaited() -> None:
    assert play(delivery(), Offered(FIRST), Offered(SECOND), Ended()) == [Describe(), None, None]


def test_a_partition_without_records_needs_nothing() -> None:
    assert play(delivery(), Ended()) == [Delivered(0, -1, 0)]


def test_stored_batches_are_skipped_and_the_next_one_is_sent() -> None:
    assert play(delivery(), Offered(FIRST), Offered(SECOND), Offered(THIRD), Described(9, 4, 19)) == [
        Describe(),
        None,
        None,
        Send(THIRD, 9),
    ]


def test_the_last_stored_batch_is_sent_again_when_nothing_else_is() -> None:
    assert play(
        delivery(), Offered(FIRST), Offered(SECOND), Described(9, 4, 19), Ended(), OK, Checked(9, 120)
    ) == [Describe(), None, AwaitBatch(), Send(SECOND, 9), Check(), Delivered(20, 9, 120)]


def test_an_older_epoch_of_the_producer_has_stored_nothing_of_ours() -> None:
    assert play(delivery(), Offered(FIRST), Described(9, 3, 500))[-1] == Send(FIRST, 9)


def test_a_newer_epoch_fences() -> None:
    (_, failed) = play(delivery(), Offered(FIRST), Described(9, 5, 0))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.FENCED
    (*_, failed) = play(delivery(), Offered(FIRST), Described(10), Scanned(10, 5, -1))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.FENCED


def test_another_leader_than_at_the_opening_is_not_believed_and_the_log_is_read() -> None:
    assert play(delivery(), Offered(FIRST), Described(10), Scanned(10, 4, 9), Ended(), Checked(10, 130)) == [
        Describe(),
        Scan(100, 9),
        AwaitBatch(),
        Check(),
        Delivered(10, 10, 130),
    ]


@pytest.mark.parametrize("now_ms", [1_001 + 6 * HOURS, 999 - 6 * HOURS])
def test_an_opening_that_is_old_or_in_the_future_makes_the_log_be_read(now_ms: int) -> None:
    assert play(delivery(), Offered(FIRST), Described(9), now_ms=now_ms)[-1] == Scan(100, 9)
    assert play(delivery(), Offered(FIRST), Described(9), now_ms=1_000 + 6 * HOURS)[-1] == Send(FIRST, 9)


def test_what_a_scan_found_is_not_sent_again() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Offered(SECOND), Described(10))
    assert machine.step(Scanned(10, 4, 9), now_ms=NOW) == Send(SECOND, 10)
    machine = delivery()
    play(machine, Offered(FIRST), Described(10), Scanned(10, 4, 9))
    assert machine.step(Ended(), now_ms=NOW) == Check()


def test_a_gap_or_a_repetition_in_the_log_ends_every_attempt() -> None:
    (*_, failed) = play(delivery(), Offered(FIRST), Described(10), Scanned(10, 4, 3, "sequence 8 follows 3"))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.GAP
    assert failed.failure.is_final
    assert "sequence 8 follows 3" in str(failed)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_after_such_an_error_it_is_asked_again_what_is_stored(error: ErrorCode) -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Offered(SECOND), Described(9))
    assert play(machine, Answered(error), Woken(), Described(9, 4, 9)) == [
        Pause(100),
        Describe(),
        Send(SECOND, 9),
    ]


def test_a_lost_answer_voids_the_evidence_too() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Described(9))
    assert play(machine, Unsettled("hung up"), Woken(), Described(9)) == [
        Pause(100),
        Describe(),
        Send(FIRST, 9),
    ]


@pytest.mark.parametrize("error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_errors_that_stay_end_the_attempt(error: ErrorCode) -> None:
    (*_, failed) = play(delivery(), Offered(FIRST), Described(9), Answered(error, "said the broker"))
    assert failed == Failed(Failure.REFUSED, f"{error.name} ({int(error)}): said the broker")


def test_pauses_double_up_to_a_bound_and_an_attempt_without_progress_ends() -> None:
    machine = delivery()
    machine.step(Offered(FIRST), now_ms=0)
    pauses = []
    for now_ms in range(0, 120_000, 20_000):
        action = machine.step(Unsettled("no leader"), now_ms=now_ms)
        assert isinstance(action, Pause)
        pauses.append(action.pause_ms)
        machine.step(Woken(), now_ms=now_ms)
    assert pauses == [100, 200, 400, 800, 1000, 1000]
    assert machine.step(Unsettled("no leader"), now_ms=120_000) == Failed(
        Failure.STALLED, "for 120000 ms; at last no leader"
    )


def test_the_time_a_task_needs_for_its_rows_is_no_stall() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Described(9), OK)
    assert machine.step(Offered(SECOND), now_ms=NOW + 240_000) == Send(SECOND, 9)
    assert machine.step(Unsettled("hung up"), now_ms=NOW + 240_001) == Pause(100)


def test_an_attempt_that_was_silent_asks_again_before_it_sends() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Described(9), OK)
    silence_ms = DeliveryOptions().silence_ms_max
    assert machine.step(Offered(SECOND), now_ms=NOW + silence_ms + 1) == Describe()


def test_an_answer_that_was_long_under_way_counts_from_when_it_was_asked_for() -> None:
    machine = delivery()
    machine.step(Offered(FIRST), now_ms=NOW)
    late_ms = NOW + DeliveryOptions().silence_ms_max + 1
    assert machine.step(Described(9), now_ms=late_ms) == Describe()


def test_another_leader_at_the_end_makes_the_log_be_compared() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Described(9), OK, Ended())
    assert play(machine, Checked(10, 130), Described(10, 4, 9), Scanned(10, 4, 9), Checked(10, 131)) == [
        Describe(),
        Scan(100, 9),
        Check(),
        Delivered(10, 10, 131),
    ]


def test_records_that_were_acknowledged_and_are_gone_end_the_attempt_not_the_batch() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Described(9), OK, Ended())
    (*_, failed) = play(machine, Checked(10, 90), Described(10), Scanned(10))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.RECORDS_LOST
    assert not failed.failure.is_final


def test_records_described_but_not_yet_committed_are_waited_for() -> None:
    machine = delivery()
    play(machine, Offered(FIRST), Offered(SECOND), Described(9, 4, 19), Offered(THIRD))  # skips up to 19
    assert play(machine, Unsettled("hung up"), Woken(), Described(10, 4, 19), Scanned(10, 4, 9)) == [
        Pause(100),
        Describe(),
        Scan(100, 9),
        Pause(200),
    ]


@pytest.mark.parametrize("stored", [4, 14])
def test_a_stored_end_inside_a_batch_shows_other_rows(stored: int) -> None:
    (*_, failed) = play(delivery(), Offered(FIRST), Offered(SECOND), Described(9, 4, stored))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.PLAN_CHANGED


def test_more_stored_than_this_attempt_has_shows_other_rows() -> None:
    (*_, failed) = play(delivery(), Offered(FIRST), Described(9, 4, 19), Ended())
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.PLAN_CHANGED
    assert failed.failure.is_final


def test_sequences_end_where_they_would_wrap() -> None:
    machine = delivery()
    (failed,) = play(machine, Offered(Batch(0, 2**31, b"")))
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.REFUSED


def test_a_scan_begins_below_the_opening_where_the_log_was_cut_below_it() -> None:
    scan = Scan(start_offset=100, leader_epoch=9)
    assert scan_start(scan, EpochEnd(9, 250), log_start_offset=7) == 100
    assert scan_start(scan, EpochEnd(9, 60), log_start_offset=7) == 60
    assert scan_start(scan, EpochEnd(8, 40), log_start_offset=7) == 40
    assert scan_start(scan, EpochEnd(-1, -1), log_start_offset=7) == 7


def test_a_trace_counts_the_gapless_run_of_its_own_epoch() -> None:
    trace = LogTrace(IDENTITY)
    trace.add([SequencedBatch(3, 0, 50), SequencedBatch(4, 0, 10)])
    trace.add([SequencedBatch(4, 10, 1)])
    assert trace.summary(leader_epoch=9) == Scanned(9, 4, 10)
    trace.add([SequencedBatch(5, 0, 1)])
    assert trace.summary(leader_epoch=9) == Scanned(9, 5, 10)


@pytest.mark.parametrize(("sequence", "count"), [(12, 1), (5, 5), (0, 11), (11, 0), (-1, 1)])
def test_a_trace_tells_what_does_not_follow(sequence: int, count: int) -> None:
    trace = LogTrace(IDENTITY)
    trace.add([SequencedBatch(4, 0, 11), SequencedBatch(4, sequence, count), SequencedBatch(4, 11, 1)])
    summary = trace.summary(leader_epoch=9)
    assert summary.last_sequence == 10
    assert str(sequence) in summary.anomaly


def test_a_commit_asks_once_for_each_partition_and_epoch_and_finds_what_was_cut() -> None:
    asked = questions([("p", SeenWhole(3, 50)), ("q", SeenWhole(3, 9)), ("p", SeenWhole(3, 60))])
    assert asked == [Question("p", 3, 60), Question("q", 3, 9)]
    first, second = asked
    assert lost(asked, {first: EpochEnd(3, 60), second: EpochEnd(3, 9)}) == []
    assert lost(asked, {first: EpochEnd(3, 59), second: EpochEnd(2, 9)}) == [first]
    assert lost(asked, {first: EpochEnd(-1, -1), second: EpochEnd(3, 8)}) == asked


def test_an_identity_is_the_tasks_own_and_its_epoch_the_micro_batch() -> None:
    first = derive_identity("sink", batch_id=7, task_index=2)
    assert first == derive_identity("sink", batch_id=7, task_index=2)
    assert DERIVED <= first.producer_id < 2**63
    assert first.producer_epoch == 7
    following = derive_identity("sink", batch_id=8, task_index=2)
    assert following == ProducerIdentity(first.producer_id, 8)
    others = {
        derive_identity("sink", batch_id=7, task_index=3).producer_id,
        derive_identity("other", batch_id=7, task_index=2).producer_id,
        derive_identity("sink", batch_id=7 + EPOCHS, task_index=2).producer_id,
    }
    assert len(others | {first.producer_id}) == 4
    assert derive_identity("sink", batch_id=EPOCHS, task_index=0).producer_epoch == 0


@pytest.mark.parametrize(("sink_id", "batch_id", "task"), [("", 0, 0), ("x" * 1001, 0, 0), ("x", -1, 0)])
def test_an_identity_needs_a_name_and_numbers(sink_id: str, batch_id: int, task: int) -> None:
    with pytest.raises(ValueError, match=r"sink id|negative"):
        derive_identity(sink_id, batch_id=batch_id, task_index=task)
