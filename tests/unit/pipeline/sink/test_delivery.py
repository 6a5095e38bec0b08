"""The delivery's rules one by one; the simulation puts them together."""

from __future__ import annotations

import pytest

from pipeline.sink.commit import Question, SeenWhole, lost, questions
from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery, PartitionOpening
from pipeline.sink.identity import DERIVED, EPOCHS, ProducerIdentity, derive_identity
from pipeline.sink.log_trace import LogTrace, TracedBatch
from pipeline.sink.steps import (
    Action,
    AwaitBatch,
    Away,
    Batch,
    Checked,
    CheckWatermark,
    Delivered,
    Describe,
    Described,
    Ended,
    Event,
    Failed,
    Failure,
    Known,
    NoUsableAnswer,
    Offered,
    Opened,
    Pause,
    Scan,
    Scanned,
    Send,
    SendAnswered,
    Stored,
    Woken,
    is_whole,
    scan_start,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd

IDENTITY = ProducerIdentity(77, 4)
OPENING = PartitionOpening(start_offset=100, leader_epoch=9, opened_ms=1_000)
FIRST, SECOND, THIRD = (Batch(0, 9, b"first", 1), Batch(10, 19, b"second", 2), Batch(20, 29, b"third", 3))
STORED = tuple(
    Stored(batch.base_sequence, batch.last_sequence, batch.crc) for batch in (FIRST, SECOND, THIRD)
)
OTHER = Stored(10, 19, 99)
"""Of an attempt that has its rows in another order."""
OK, OK_SECOND = SendAnswered(ErrorCode.NONE, base_offset=100), SendAnswered(ErrorCode.NONE, base_offset=110)
DUPLICATE = SendAnswered(ErrorCode.NONE)
NOW = 2_000
HOURS = 60 * 60 * 1000


def delivery() -> PartitionDelivery:
    return PartitionDelivery(IDENTITY, OPENING, now_ms=NOW)


def play(machine: PartitionDelivery, *events: Event, now_ms: int = NOW) -> list[Action | None]:
    return [machine.step(event, now_ms=now_ms) for event in events]


def begun(*batches: Batch) -> PartitionDelivery:
    """With nothing stored, and these batches offered: the first one is under way."""
    machine = delivery()
    play(machine, Opened(), Described(9), *(Offered(batch) for batch in batches))
    return machine


def scanned(count: int, *, leader_epoch: int = 10, end_offset: int = 150) -> Scanned:
    """The first so many of the three batches."""
    return Scanned(leader_epoch, 4, count * 10 - 1, STORED[:count], end_offset)


def failure_of(action: Action | None) -> Failure:
    assert isinstance(action, Failed)
    return action.failure


def test_a_new_stream_is_described_sent_in_order_and_checked() -> None:
    machine = delivery()
    assert play(machine, Opened(), Described(9)) == [Describe(), AwaitBatch()]
    assert machine.resumes_at == 0
    assert play(machine, Offered(FIRST), OK, Offered(SECOND), OK_SECOND, Ended(), Checked(9, 120)) == [
        Send(FIRST, 9),
        AwaitBatch(),
        Send(SECOND, 9),
        AwaitBatch(),
        CheckWatermark(),
        Delivered(20, 9, 120),
    ]


def test_nothing_is_asked_while_an_answer_is_awaited() -> None:
    machine = delivery()
    play(machine, Opened(), Described(9))
    assert play(machine, Offered(FIRST), Offered(SECOND), Ended()) == [Send(FIRST, 9), None, None]


def test_a_partition_without_records_needs_nothing_but_the_questions() -> None:
    assert play(delivery(), Opened(), Described(9), Ended(), Checked(9, 120)) == [
        Describe(),
        AwaitBatch(),
        CheckWatermark(),
        Delivered(0, 9, 120),
    ]


def test_what_is_stored_is_read_and_the_batches_go_on_behind_it() -> None:
    machine = delivery()
    assert play(machine, Opened(), Described(9, 4, 19), scanned(2, leader_epoch=9)) == [
        Describe(),
        Scan(100, 9),
        AwaitBatch(),
    ]
    assert machine.resumes_at == 20
    assert play(machine, Offered(THIRD), SendAnswered(ErrorCode.NONE, base_offset=150), Ended()) == [
        Send(THIRD, 9),
        AwaitBatch(),
        CheckWatermark(),
    ]


def test_what_is_described_and_not_yet_committed_is_waited_for() -> None:
    machine = delivery()
    assert play(
        machine, Opened(), Described(9, 4, 19), scanned(1), Woken(), Described(9, 4, 19), scanned(2), Ended()
    ) == [Describe(), Scan(100, 9), Pause(100), Describe(), Scan(100, 9), AwaitBatch(), CheckWatermark()]


def test_what_a_leader_describes_twice_and_has_not_from_the_opening_on_was_written_before_it() -> None:
    """The checkpoint is an older copy of itself, or its folder springtide-sink/ is gone."""
    told = Described(9, 4, 19, end_offset=150)
    empty = scanned(0, leader_epoch=9)
    machine = delivery()
    failed = play(machine, Opened(), told, empty, Woken(), told, empty)[-1]
    assert isinstance(failed, Failed) and failed.failure is Failure.FORGOTTEN
    assert "20 records" in failed.detail and "from offset 100 on" in failed.detail
    assert "springtide-sink/" in failed.advice and "'sinkId'" in failed.advice


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (Described(9, 4, 19, end_offset=151), scanned(0, leader_epoch=9)),  # not yet committed
        (Described(9, 4, 19), scanned(0, leader_epoch=9)),  # brokers that don't know the epoch
        (Described(9, 4, 19, end_offset=150), scanned(0, leader_epoch=10)),  # an election
    ],
)
def test_what_may_still_become_committed_is_waited_for(told: Described, found: Scanned) -> None:
    assert isinstance(play(delivery(), Opened(), told, found, Woken(), told, found)[-1], Pause)


def test_the_end_of_a_busy_log_is_the_one_when_the_records_were_known_to_be_in_it() -> None:
    machine = delivery()
    play(machine, Opened())
    for end_offset in (150, 160, 170):
        told = Described(9, 4, 19, end_offset=end_offset)
        action = play(machine, told, scanned(0, leader_epoch=9, end_offset=end_offset - 1))[-1]
        if isinstance(action, Pause):
            play(machine, Woken())
    assert failure_of(action) is Failure.FORGOTTEN


def test_an_older_epoch_of_the_producer_has_stored_nothing_of_ours() -> None:
    machine = delivery()
    assert play(machine, Opened(), Described(9, 3, 500), Offered(FIRST))[-1] == Send(FIRST, 9)


def test_a_newer_epoch_fences() -> None:
    assert failure_of(play(delivery(), Opened(), Described(9, 5, 0))[-1]) is Failure.FENCED
    fenced = play(delivery(), Opened(), Described(10), Scanned(10, 5, -1))[-1]
    assert failure_of(fenced) is Failure.FENCED
    assert isinstance(fenced, Failed) and "1 after this one" in fenced.detail
    assert "springtide-sink/" in fenced.advice


def test_another_leader_than_at_the_opening_is_not_believed_and_the_log_is_read() -> None:
    assert play(delivery(), Opened(), Described(10), scanned(1), Ended(), Checked(10, 130)) == [
        Describe(),
        Scan(100, 9),
        AwaitBatch(),
        CheckWatermark(),
        Delivered(10, 10, 130),
    ]


@pytest.mark.parametrize("now_ms", [1_001 + 6 * HOURS, 999 - 6 * HOURS])
def test_an_opening_that_is_old_or_in_the_future_makes_the_log_be_read(now_ms: int) -> None:
    assert play(delivery(), Opened(), Described(9), now_ms=now_ms)[-1] == Scan(100, 9)
    assert play(delivery(), Opened(), Described(9), now_ms=1_000 + 6 * HOURS)[-1] == AwaitBatch()


# Other attempts at the same time.


@pytest.mark.parametrize("answered", [DUPLICATE, SendAnswered(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_what_another_attempt_stored_under_our_sequences_is_read_and_is_not_ours(
    answered: SendAnswered,
) -> None:
    machine = begun(FIRST, SECOND)
    play(machine, OK, answered)
    if answered is not DUPLICATE:
        assert machine.step(Woken(), now_ms=NOW) == Describe()
    assert machine.step(Described(9, 4, 19), now_ms=NOW) == Scan(100, 9, Known(9, 110, 9))
    overtaken = machine.step(Scanned(9, 4, 19, (OTHER,), 120), now_ms=NOW)
    assert failure_of(overtaken) is Failure.OVERTAKEN


def test_what_another_attempt_stored_of_the_same_rows_is_as_good_as_ours() -> None:
    machine = begun(FIRST, SECOND)
    play(machine, OK, DUPLICATE, Described(9, 4, 29))
    ahead = Scanned(9, 4, 29, STORED[1:], 130)
    assert play(machine, ahead, Offered(THIRD), Ended()) == [AwaitBatch(), AwaitBatch(), CheckWatermark()]


def test_rows_that_another_attempt_is_ahead_with_are_compared_when_they_come() -> None:
    machine = begun(FIRST)
    play(machine, DUPLICATE, Described(9, 4, 19))
    (awaits, overtaken) = play(machine, Scanned(9, 4, 19, (STORED[0], OTHER), 120), Offered(SECOND))
    assert awaits == AwaitBatch()
    assert failure_of(overtaken) is Failure.OVERTAKEN


def test_a_log_that_was_cut_and_filled_by_another_attempt_is_not_ours() -> None:
    machine = begun(FIRST, SECOND)
    play(machine, OK, OK_SECOND, Ended(), Checked(10, 130), Described(10, 4, 19))
    assert failure_of(machine.step(Scanned(10, 4, 19, (STORED[0], OTHER), 120), now_ms=NOW)) is (
        Failure.OVERTAKEN
    )


def test_a_gap_or_a_repetition_in_the_log_ends_every_attempt() -> None:
    (*_, failed) = play(
        delivery(), Opened(), Described(10), Scanned(10, 4, 3, anomaly="sequence 8 follows 3")
    )
    assert isinstance(failed, Failed)
    assert failed.failure is Failure.GAP
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
    machine = begun(FIRST, SECOND)
    assert play(machine, SendAnswered(error), Woken(), Described(9, 4, 9), scanned(1, leader_epoch=9)) == [
        Pause(100),
        Describe(),
        Scan(100, 9),
        Send(SECOND, 9),
    ]


def test_a_lost_answer_voids_the_evidence_too() -> None:
    assert play(begun(FIRST), NoUsableAnswer("hung up"), Woken(), Described(9)) == [
        Pause(100),
        Describe(),
        Send(FIRST, 9),
    ]


def test_after_a_lost_request_nothing_is_read_that_was_compared_already() -> None:
    machine = begun(FIRST, SECOND)
    assert play(machine, OK, NoUsableAnswer("hung up"), Woken(), Described(9, 4, 9)) == [
        Send(SECOND, 9),
        Pause(100),
        Describe(),
        Send(SECOND, 9),
    ]


@pytest.mark.parametrize("error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_errors_that_stay_end_the_attempt(error: ErrorCode) -> None:
    (*_, failed) = play(begun(FIRST), SendAnswered(error, "said the broker"))
    assert failed == Failed(Failure.REFUSED, f"{error.name} ({int(error)}): said the broker")


def test_pauses_double_up_to_a_bound_and_an_attempt_without_progress_ends() -> None:
    machine = delivery()
    machine.step(Opened(), now_ms=0)
    pauses = []
    for now_ms in range(0, 120_000, 20_000):
        action = machine.step(NoUsableAnswer("no leader"), now_ms=now_ms)
        assert isinstance(action, Pause)
        pauses.append(action.pause_ms)
        machine.step(Woken(), now_ms=now_ms)
    assert pauses == [100, 200, 400, 800, 1000, 1000]
    assert machine.step(NoUsableAnswer("no leader"), now_ms=120_000) == Failed(
        Failure.STALLED, "for 120000 ms; at last no leader"
    )


def test_time_that_the_task_was_away_for_is_no_delay_of_the_brokers() -> None:
    machine = begun(FIRST)
    assert machine.step(Away(HOURS), now_ms=NOW + HOURS) is None
    assert isinstance(machine.step(NoUsableAnswer("cut off"), now_ms=NOW + HOURS + 119_999), Pause)
    machine.step(Woken(), now_ms=NOW + HOURS + 119_999)
    ended = machine.step(NoUsableAnswer("cut off"), now_ms=NOW + HOURS + 120_000)
    assert failure_of(ended) is Failure.STALLED


def test_the_time_a_task_needs_for_its_rows_is_no_stall() -> None:
    machine = begun(FIRST)
    machine.step(OK, now_ms=NOW)
    assert machine.step(Offered(SECOND), now_ms=NOW + 240_000) == Send(SECOND, 9)
    assert machine.step(NoUsableAnswer("hung up"), now_ms=NOW + 240_001) == Pause(100)


def test_an_attempt_that_was_silent_asks_again_before_it_sends() -> None:
    machine = begun(FIRST)
    machine.step(OK, now_ms=NOW)
    silence_ms = DeliveryOptions().silence_ms_max
    assert machine.step(Offered(SECOND), now_ms=NOW + silence_ms + 1) == Describe()


def test_an_answer_that_was_long_under_way_counts_from_when_it_was_asked_for() -> None:
    machine = delivery()
    machine.step(Opened(), now_ms=NOW)
    late_ms = NOW + DeliveryOptions().silence_ms_max + 1
    assert play(machine, Described(9), Offered(FIRST), now_ms=late_ms) == [AwaitBatch(), Describe()]


def test_another_leader_at_the_end_makes_the_rest_of_the_log_be_compared() -> None:
    machine = begun(FIRST)
    play(machine, OK, Ended())
    nothing_more = Scanned(10, -1, 9, (), 112)
    assert play(machine, Checked(10, 130), Described(10, 4, 9), nothing_more, Checked(10, 131)) == [
        Describe(),
        Scan(100, 9, Known(9, 110, 9)),
        CheckWatermark(),
        Delivered(10, 10, 131),
    ]


def test_records_that_were_acknowledged_and_are_gone_end_the_attempt_not_the_batch() -> None:
    machine = begun(FIRST)
    play(machine, OK, Ended())
    lost = play(machine, Checked(10, 90), Described(10), Scanned(10))[-1]
    assert failure_of(lost) is Failure.RECORDS_LOST


def test_more_stored_than_this_attempt_has_shows_other_rows() -> None:
    machine = begun(FIRST)
    play(machine, DUPLICATE, Described(9, 4, 19))
    failed = play(machine, Scanned(9, 4, 19, STORED[:2], 120), Ended())[-1]
    assert failure_of(failed) is Failure.PLAN_CHANGED
    assert "must be the same rows" in str(failed)


def test_sequences_end_where_they_would_wrap() -> None:
    failed = play(delivery(), Opened(), Described(9), Offered(Batch(0, 2**31, b"")))[-1]
    assert failure_of(failed) is Failure.REFUSED


def test_a_scan_begins_below_the_opening_where_the_log_was_cut_below_it() -> None:
    scan = Scan(start_offset=100, leader_epoch=9)
    assert scan_start(scan, EpochEnd(9, 250), log_start_offset=7) == 100
    assert scan_start(scan, EpochEnd(9, 60), log_start_offset=7) == 60
    assert scan_start(scan, EpochEnd(8, 40), log_start_offset=7) == 40
    assert scan_start(scan, EpochEnd(-1, -1), log_start_offset=7) == 7


def test_only_what_follows_is_read_while_the_log_is_whole_up_to_what_is_known() -> None:
    assert is_whole(Known(19, 120, 9), EpochEnd(9, 120))
    assert not is_whole(Known(19, 120, 9), EpochEnd(9, 119))
    assert not is_whole(Known(19, 120, 9), EpochEnd(-1, -1))


def test_a_trace_counts_the_gapless_run_of_its_own_epoch() -> None:
    trace = LogTrace(IDENTITY)
    trace.add([TracedBatch(3, 0, 50), TracedBatch(4, 0, 10, 7)])
    trace.add([TracedBatch(4, 10, 1, 8)])
    run = (Stored(0, 9, 7), Stored(10, 10, 8))
    assert trace.summary(leader_epoch=9, end_offset=70) == Scanned(9, 4, 10, run, 70)
    trace.add([TracedBatch(5, 0, 1)])
    assert trace.summary(leader_epoch=9, end_offset=71) == Scanned(9, 5, 10, run, 71)


def test_a_trace_may_begin_behind_what_is_known() -> None:
    trace = LogTrace(IDENTITY, after_sequence=9)
    assert trace.summary(leader_epoch=9, end_offset=70) == Scanned(9, -1, 9, (), 70)
    trace.add([TracedBatch(4, 10, 5, 7)])
    assert trace.summary(leader_epoch=9, end_offset=75) == Scanned(9, 4, 14, (Stored(10, 14, 7),), 75)


@pytest.mark.parametrize(("sequence", "count"), [(12, 1), (5, 5), (0, 11), (11, 0), (-1, 1)])
def test_a_trace_tells_what_does_not_follow(sequence: int, count: int) -> None:
    trace = LogTrace(IDENTITY)
    trace.add([TracedBatch(4, 0, 11), TracedBatch(4, sequence, count), TracedBatch(4, 11, 1)])
    summary = trace.summary(leader_epoch=9, end_offset=0)
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
