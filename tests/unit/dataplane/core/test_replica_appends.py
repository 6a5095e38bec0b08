"""What a leader appends, refuses, and acknowledges."""

from __future__ import annotations

from dataplane.core.effects import (
    DATA_APPENDED,
    HIGH_WATERMARK_MOVED,
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    STOP_FETCHING,
    CompleteProduce,
    ReportProblem,
)
from dataplane.core.producer_state import ProducerView
from dataplane.core.results import AppendResult, ProducersResult
from dataplane.core.role import Offline
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import ProblemCode, ReplicaProblem
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import TimestampType, crc_is_valid
from springtide.wire.records import iter_records
from tests.kit.dataplane.replica import TOPIC_ID, WALL_MS, Bench, batch_of, held_lease, log_of


def leading(**options: object) -> Bench:
    bench = Bench(**options)  # type: ignore[arg-type]
    bench.apply()
    return bench


def test_acks_all_waits_and_all_waiters_of_an_offset_complete_in_one_effect() -> None:
    bench = leading()
    assert bench.append("a") == (AppendResult(ErrorCode.NONE, 0, -1, 0, True), (DATA_APPENDED,))
    assert bench.append("b", records=2)[0] == AppendResult(ErrorCode.NONE, 1, -1, 0, True)
    assert bench.fetch(2, 3)[1] == NO_EFFECTS
    result, effects = bench.fetch(3, 3)
    assert effects == (HIGH_WATERMARK_MOVED, CompleteProduce(("a", "b"), ErrorCode.NONE))
    assert result.high_watermark == 3


def test_acks_one_and_none_are_done_with_the_append() -> None:
    bench = leading()
    for acks in (1, 0):
        result, _ = bench.append(acks=acks)
        assert (result.error, result.is_waiting) == (ErrorCode.NONE, False)
    assert not bench.replica.has_waiters


def test_a_sole_member_with_minimum_one_commits_with_the_append() -> None:
    bench = Bench()
    bench.apply(replicas=(1,), isr=(1,), min_insync_replicas=1)
    assert bench.append() == (
        AppendResult(ErrorCode.NONE, 0, -1, 0, False),
        (DATA_APPENDED, HIGH_WATERMARK_MOVED),
    )


def test_the_batch_is_stored_as_received_behind_a_stamped_head() -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=4)
    bench.append(records=2, producer_id=9, producer_epoch=0, base_sequence=0)
    header, data = bench.log.batches[-1]
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (2, 4, 4)
    assert crc_is_valid(memoryview(data), header)
    assert data[16:] == batch_of([b"v", b"v"], producer_id=9, producer_epoch=0, base_sequence=0)[16:]


def test_log_append_time_rewrites_header_and_crc_and_is_told_to_the_producer() -> None:
    bench = leading(is_append_time=True)
    result, _ = bench.append()
    header, data = bench.log.batches[0]
    assert result.log_append_time_ms == WALL_MS + bench.now_ms == header.max_timestamp
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_is_valid(memoryview(data), header)
    assert [record.timestamp for record in iter_records(data)] == [WALL_MS + bench.now_ms]


def test_below_the_minimum_acks_all_writes_nothing() -> None:
    bench = Bench()
    bench.apply(isr=(1,), elr=(2, 3))
    assert bench.append() == (AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS), NO_EFFECTS)
    assert bench.log.log_end_offset == 0
    assert bench.append(acks=1)[0].error is ErrorCode.NONE
    assert bench.high_watermark == 0  # frozen, although the ISR has only the leader


def test_s31_when_the_isr_falls_below_the_minimum_the_wait_ends_in_no_success() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    data = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    bench.append("a", timeout_ms=100, **data)
    bench.apply(isr=(1,), elr=(2,), partition_epoch=2)
    assert bench.tick(99) == NO_EFFECTS
    assert bench.tick(1) == (CompleteProduce(("a",), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),)
    # After recovery the retry succeeds, once.
    bench.apply(isr=(1, 2), partition_epoch=3)
    bench.fetch(2, 1)
    assert bench.high_watermark == 1
    assert bench.append("a", **data)[0] == AppendResult(ErrorCode.NONE, 0, WALL_MS, 0, False)
    assert bench.log.log_end_offset == 1


def test_a_wait_ends_at_its_own_time_whatever_the_order() -> None:
    bench = leading()
    bench.append("slow", timeout_ms=500)
    bench.append("quick", timeout_ms=100)
    assert bench.tick(100) == (CompleteProduce(("quick",), ErrorCode.REQUEST_TIMED_OUT),)
    assert bench.tick(400) == (CompleteProduce(("slow",), ErrorCode.REQUEST_TIMED_OUT),)


def test_waiters_are_bounded() -> None:
    bench = leading(waiters_max=1)
    bench.append("a")
    assert bench.append("b")[0] == AppendResult(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert bench.log.log_end_offset == 1


def test_i4_demotion_fails_all_waiters_at_once() -> None:
    bench = leading()
    bench.append("a")
    bench.append("b")
    effects = bench.apply(leader=2, leader_epoch=2, partition_epoch=2)
    assert effects[:2] == (
        CompleteProduce(("a", "b"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        LEADERSHIP_CHANGED,
    )
    assert bench.append()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_i4_a_request_of_an_earlier_leadership_never_succeeds_on_another_ones_records() -> None:
    bench = leading()
    bench.append("old")
    bench.apply(leader=2, leader_epoch=2, partition_epoch=2)
    bench.log.truncate_to(0)
    bench.apply(leader=1, leader_epoch=3, partition_epoch=3)
    bench.append("new")
    bench.fetch(2, 1)
    assert bench.fetch(3, 1)[1] == (HIGH_WATERMARK_MOVED, CompleteProduce(("new",), ErrorCode.NONE))


def test_i4_waiters_outlive_an_epoch_in_which_nobody_else_led_here() -> None:
    bench = leading()
    bench.append("a")
    assert not [e for e in bench.apply(leader_epoch=3, partition_epoch=3) if isinstance(e, CompleteProduce)]
    bench.fetch(2, 1)
    assert bench.fetch(3, 1)[1] == (HIGH_WATERMARK_MOVED, CompleteProduce(("a",), ErrorCode.NONE))


def test_l1_deletion_fails_all_waiters() -> None:
    bench = leading()
    bench.append("a")
    assert bench.replica.on_deleted() == (
        CompleteProduce(("a",), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        LEADERSHIP_CHANGED,
        STOP_FETCHING,
    )


def test_s28_a_failed_write_takes_the_replica_offline_and_is_never_acknowledged() -> None:
    bench = leading()
    bench.append("a")
    bench.log.failing = "EIO"
    result, effects = bench.append("b")
    assert result == AppendResult(ErrorCode.KAFKA_STORAGE_ERROR)
    assert effects == (
        CompleteProduce(("a",), ErrorCode.KAFKA_STORAGE_ERROR),
        LEADERSHIP_CHANGED,
        STOP_FETCHING,
        ReportProblem(
            ReplicaProblem(
                topic_id=TOPIC_ID,
                partition=0,
                code=ProblemCode.STORAGE_ERROR,
                detail="EIO",
                leader_epoch=LeaderEpoch(1),
                high_watermark=0,
            )
        ),
    )
    bench.log.failing = None  # the disk seems to work again: never trust it (fsyncgate)
    assert bench.apply(leader_epoch=2, partition_epoch=2) == NO_EFFECTS
    assert isinstance(bench.replica.role, Offline)
    assert bench.append()[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.fetch(2, 0)[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.replica.go_offline("again") == NO_EFFECTS


# Idempotence.


def sequence(first: int) -> dict[str, int]:
    return {"producer_id": 5, "producer_epoch": 0, "base_sequence": first}


def test_i23_a_duplicate_is_answered_with_its_offset_and_time_and_waits_like_the_original() -> None:
    bench = leading()
    bench.append("first", **sequence(0))
    bench.append("other")
    result, effects = bench.append("retry", **sequence(0))
    assert (result, effects) == (AppendResult(ErrorCode.NONE, 0, WALL_MS, 0, True), NO_EFFECTS)
    assert bench.log.log_end_offset == 2
    bench.fetch(2, 1)
    assert bench.fetch(3, 1)[1] == (HIGH_WATERMARK_MOVED, CompleteProduce(("first", "retry"), ErrorCode.NONE))
    assert not bench.append("late", **sequence(0))[0].is_waiting


def test_i23_gaps_and_old_epochs_are_refused_before_the_append() -> None:
    bench = leading()
    bench.append(producer_id=5, producer_epoch=3, base_sequence=0)
    gap, _ = bench.append(producer_id=5, producer_epoch=3, base_sequence=7)
    old, _ = bench.append(producer_id=5, producer_epoch=2, base_sequence=0)
    assert gap == AppendResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, log_start_offset=0)
    assert old == AppendResult(ErrorCode.INVALID_PRODUCER_EPOCH, log_start_offset=0)
    assert bench.log.log_end_offset == 1


def test_s21_five_batches_in_flight_are_retried_at_the_new_leader_without_gap_or_repetition() -> None:
    old = leading()
    for n in range(5):
        old.append(n, **sequence(n))
    # Broker 1 dies; broker 2 has copied everything and leads.
    new = Bench(2, log=old.log)
    new.apply(leader=2, leader_epoch=2, partition_epoch=2, isr=(2, 3))
    for n in range(5):
        assert new.append(n, **sequence(n))[0] == AppendResult(ErrorCode.NONE, n, WALL_MS, 0, True)
    assert new.append(5, **sequence(5))[0].base_offset == 5
    _, effects = new.fetch(3, 6)
    assert effects[-1] == CompleteProduce((0, 1, 2, 3, 4, 5), ErrorCode.NONE)


def test_s22_after_a_truncation_a_retry_is_no_duplicate_of_what_is_gone() -> None:
    bench = leading()
    bench.append(**sequence(0))
    bench.append(**sequence(1))
    bench.apply(leader=2, leader_epoch=2, partition_epoch=2)
    bench.log.truncate_to(1)
    bench.apply(leader=1, leader_epoch=3, partition_epoch=3)
    assert bench.append(**sequence(1))[0] == AppendResult(ErrorCode.NONE, 1, -1, 0, True)
    assert bench.log.log_end_offset == 2


def test_s23_a_restarted_leader_knows_more_than_the_last_batch() -> None:
    bench = leading()
    for n in range(4):
        bench.append(**sequence(n))
    bench.log.recover()
    again = Bench(log=bench.log)
    again.apply(leader_epoch=2, partition_epoch=2)
    assert again.append(**sequence(1))[0] == AppendResult(ErrorCode.NONE, 1, WALL_MS, 0, True)


NAMED = 2**62 + 12345
"""A producer id that no controller hands out: the client made it up."""


def named(number: int, *, epoch: int = 0) -> dict[str, int]:
    return {"producer_id": NAMED, "producer_epoch": epoch, "base_sequence": number}


def test_a_client_may_name_its_own_producer_id_and_each_epoch_of_it_begins_at_zero() -> None:
    bench = leading()
    assert bench.append(**named(0))[0] == AppendResult(ErrorCode.NONE, 0, -1, 0, True)
    assert bench.append(**named(1, epoch=1))[0].error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.append(**named(0, epoch=1))[0] == AppendResult(ErrorCode.NONE, 1, -1, 0, True)
    assert bench.append(**named(1))[0].error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.log_end_offset == 2


def test_a_duplicate_of_any_age_is_acknowledged_no_earlier_than_it_is_committed() -> None:
    bench = leading()
    for n in range(20):
        bench.append(n, **named(n))
    assert bench.append("again", **named(3))[0] == AppendResult(ErrorCode.NONE, -1, -1, 0, True)
    assert bench.append("recut", records=4, **named(2))[0].is_waiting
    bench.fetch(2, 15)
    _, effects = bench.fetch(3, 15)
    (completed,) = [effect for effect in effects if isinstance(effect, CompleteProduce)]
    # Where so old a batch stands is not known, so its answer waits for all that the five last ones follow.
    assert completed.waiters == (*range(15), "again", "recut")
    assert bench.append("committed", **named(3))[0] == AppendResult(ErrorCode.NONE, -1, -1, 0, False)
    assert bench.log.log_end_offset == 20


def test_the_leader_describes_what_its_log_holds_committed_or_not() -> None:
    bench = leading()
    bench.append(records=3, **named(0, epoch=2))
    bench.append(producer_id=4, producer_epoch=0, base_sequence=0)
    assert bench.high_watermark == 0
    assert bench.replica.role.describe_producers(bench.now_ms) == ProducersResult(
        ErrorCode.NONE, (ProducerView(4, 0, 0, WALL_MS), ProducerView(NAMED, 2, 2, WALL_MS))
    )


def test_a_follower_describes_what_its_own_log_holds_to_who_wants_a_copy() -> None:
    bench = leading()
    bench.append(**named(0))
    bench.apply(leader=2, leader_epoch=2, partition_epoch=2)
    found = bench.replica.role.describe_producers(bench.now_ms, is_copy_enough=True)
    assert found == ProducersResult(ErrorCode.NONE, (ProducerView(NAMED, 0, 0, WALL_MS),))


def test_nobody_else_describes_producers() -> None:
    """Its reader would send again what this replica has not heard of yet."""
    bench = leading(lease=held_lease(lease_ms=5_000))
    bench.append(**named(0))
    bench.now_ms = 20_000  # silent: neither lease nor followers
    nobody = ProducersResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.replica.role.describe_producers(bench.now_ms) == nobody
    assert bench.replica.role.describe_producers(bench.now_ms, is_copy_enough=True) == nobody
    bench.apply(leader=2, leader_epoch=2, partition_epoch=2)
    assert bench.replica.role.describe_producers(bench.now_ms) == nobody
    bench.replica.go_offline("EIO")
    offline = ProducersResult(ErrorCode.KAFKA_STORAGE_ERROR)
    assert bench.replica.role.describe_producers(bench.now_ms) == offline
