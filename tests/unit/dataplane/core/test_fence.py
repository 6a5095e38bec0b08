"""Who may write a shard's log: judged by its last batches, whatever happened to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core import fence as fence_module
from dataplane.core.effects import HIGH_WATERMARK_MOVED, NO_EFFECTS, CheckAtRest, CompleteProduce, Effects
from dataplane.core.fence import Fence
from dataplane.core.leader import Leader
from dataplane.core.producer_state import Duplicate
from dataplane.core.results import AppendResult
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WRITER_IDS, Shard, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import SEQUENCE_MAX, BatchHeader, decode_header
from tests.kit.dataplane.mini_cluster import Violation
from tests.kit.dataplane.replica import WALL_MS, Bench, batch_of
from tests.kit.dataplane.shard_cluster import ShardCluster
from tests.kit.memory.log import MemoryLog


def writer_id(number: int, epoch: int = 0) -> WriterId:
    return WriterId(WRITER_IDS.start + number, epoch)


def shard_bench(named: WriterId, *, log: MemoryLog | None = None, leader_epoch: int = 1) -> Bench:
    """A leader that knows of this writer."""
    bench = Bench(log=log)
    name(bench, named, leader_epoch=leader_epoch, partition_epoch=1)
    return bench


def name(bench: Bench, writer: WriterId, **changes: int) -> None:
    bench.apply(shard=Shard(owner=1001, writer=writer), **changes)


def write(
    bench: Bench,
    writer: WriterId,
    sequence: int,
    value: bytes = b"v",
    *,
    waiter: object = "w",
    acks: int = -1,
) -> tuple[AppendResult, Effects]:
    data = batch_of(
        [value],
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        base_sequence=sequence,
    )
    return bench.replica.role.append(
        decode_header(data),
        memoryview(data),
        acks=acks,
        waiter=waiter,
        expires_ms=bench.now_ms + 10_000,
        now_ms=bench.now_ms,
        wall_ms=WALL_MS,
    )


def error_of(answer: tuple[AppendResult, Effects]) -> ErrorCode:
    return answer[0].error


FIRST, SECOND, THIRD = writer_id(1), writer_id(2), writer_id(3)


def test_the_named_writer_opens_with_sequence_zero_and_goes_on() -> None:
    bench = shard_bench(FIRST)
    for sequence in (1, -1):
        assert error_of(write(bench, FIRST, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [error_of(write(bench, FIRST, n)) for n in range(3)] == [ErrorCode.NONE] * 3
    assert error_of(write(bench, FIRST, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.log.log_end_offset == 3


def test_i27_an_old_writer_goes_on_until_the_next_has_opened_and_never_after() -> None:
    bench = shard_bench(FIRST)
    write(bench, FIRST, 0)
    name(bench, SECOND, partition_epoch=2)
    assert error_of(write(bench, FIRST, 1)) is ErrorCode.NONE
    assert error_of(write(bench, SECOND, 0)) is ErrorCode.NONE
    assert error_of(write(bench, FIRST, 2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(write(bench, SECOND, 1)) is ErrorCode.NONE


def test_a_writer_that_never_opened_is_fenced_once_a_later_one_is_named() -> None:
    bench = shard_bench(FIRST)
    name(bench, SECOND, partition_epoch=2)
    assert error_of(write(bench, FIRST, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_writer_that_this_leader_has_not_heard_of_is_told_to_try_again() -> None:
    bench = shard_bench(FIRST)
    error = error_of(write(bench, SECOND, 0))
    assert error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error.is_retriable
    name(bench, SECOND, partition_epoch=2)
    assert error_of(write(bench, SECOND, 0)) is ErrorCode.NONE


def test_ids_and_epochs_are_compared_as_one_number() -> None:
    bench = shard_bench(writer_id(1, 7))
    write(bench, writer_id(1, 7), 0)
    name(bench, writer_id(2, 0), partition_epoch=2)
    assert error_of(write(bench, writer_id(1, 8), 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(write(bench, writer_id(2, 0), 0)) is ErrorCode.NONE
    assert error_of(write(bench, writer_id(1, 7), 1)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("producer_id", [-1, 0, 12, WRITER_IDS.start - 1, WRITER_IDS.stop, 2**63 - 1])
def test_clients_do_not_write_a_shards_log(producer_id: int) -> None:
    bench = shard_bench(FIRST)
    result, effects = bench.append(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    assert (result.error, effects) == (ErrorCode.INVALID_TOPIC_EXCEPTION, NO_EFFECTS)
    assert bench.log.log_end_offset == 0


def test_a_retry_is_answered_with_the_stored_batch_once_that_is_committed() -> None:
    bench = shard_bench(FIRST)
    for n in range(3):
        write(bench, FIRST, n, b"%d" % n, waiter=n)
    assert write(bench, FIRST, 1, b"1", waiter="again") == (
        AppendResult(ErrorCode.NONE, 1, WALL_MS, 0, True),
        NO_EFFECTS,
    )
    bench.fetch(2, 2)
    assert bench.fetch(3, 2)[1] == (HIGH_WATERMARK_MOVED, CompleteProduce((0, 1, "again"), ErrorCode.NONE))
    assert not write(bench, FIRST, 0, b"0")[0].is_waiting
    assert bench.log.log_end_offset == 3


def test_other_bytes_under_a_stored_sequence_are_no_duplicate() -> None:
    """So writes a process that uses the writer of another: success for it would be a lie."""
    bench = shard_bench(FIRST)
    write(bench, FIRST, 0, b"one")
    assert error_of(write(bench, FIRST, 0, b"other")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_is_recognised_among_as_many_batches_as_a_writer_has_in_flight() -> None:
    bench = shard_bench(FIRST)
    for n in range(WRITER_BATCHES_MAX + 1):
        write(bench, FIRST, n)
    again = [error_of(write(bench, FIRST, n)) for n in range(WRITER_BATCHES_MAX + 1)]
    assert again == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] + [ErrorCode.NONE] * WRITER_BATCHES_MAX


def test_batches_of_a_writer_that_was_replaced_are_fenced_even_as_retries() -> None:
    bench = shard_bench(FIRST)
    write(bench, FIRST, 0)
    name(bench, SECOND, partition_epoch=2)
    write(bench, SECOND, 0)
    assert error_of(write(bench, FIRST, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_stored_batch_is_never_told_that_nothing_was_written() -> None:
    bench = shard_bench(FIRST)
    write(bench, FIRST, 0)
    bench.apply(isr=(1,), elr=(2, 3), partition_epoch=2, shard=Shard(owner=1001, writer=FIRST))
    assert write(bench, FIRST, 0) == (AppendResult(ErrorCode.NONE, 0, WALL_MS, 0, True), NO_EFFECTS)
    assert error_of(write(bench, FIRST, 1)) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_retry_waits_for_nothing_where_as_many_wait_as_may() -> None:
    bench = Bench(waiters_max=2)
    name(bench, FIRST, leader_epoch=1, partition_epoch=1)
    write(bench, FIRST, 0)
    assert write(bench, FIRST, 0)[0].is_waiting
    for acks in (-1, 1):
        too_many = AppendResult(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        assert write(bench, FIRST, 0, acks=acks) == (too_many, NO_EFFECTS)
    assert bench.log.log_end_offset == 1


def test_sequences_wrap() -> None:
    log = MemoryLog()
    data = batch_of(
        producer_id=FIRST.producer_id, producer_epoch=0, base_sequence=SEQUENCE_MAX, leader_epoch=0
    )
    log.append((decode_header(data),), (data,), now_ms=WALL_MS)
    bench = shard_bench(FIRST, log=log)
    assert error_of(write(bench, FIRST, 0)) is ErrorCode.NONE


def test_what_was_cut_is_forgotten_and_what_another_leader_wrote_is_known() -> None:
    bench = shard_bench(FIRST)
    for n in range(4):
        write(bench, FIRST, n)
    name(bench, SECOND, leader=2, leader_epoch=2, partition_epoch=2)
    bench.log.truncate_to(2)
    other = Bench(2, log=bench.log)
    name(other, SECOND, leader=2, leader_epoch=2, partition_epoch=2)
    assert error_of(write(other, FIRST, 2)) is ErrorCode.NONE
    assert error_of(write(other, SECOND, 0)) is ErrorCode.NONE
    name(bench, SECOND, leader=1, leader_epoch=3, partition_epoch=3)
    assert error_of(write(bench, FIRST, 3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(bench, SECOND, 0)[0].base_offset == 3
    assert error_of(write(bench, SECOND, 1)) is ErrorCode.NONE


def test_nothing_of_the_fence_expires_or_is_evicted() -> None:
    bench = shard_bench(FIRST)
    write(bench, FIRST, 0)
    name(bench, SECOND, partition_epoch=2)
    write(bench, SECOND, 0)
    bench.log.producers.clear()
    assert error_of(write(bench, FIRST, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(write(bench, SECOND, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = shard_bench(SECOND, log=bench.log, leader_epoch=2)
    assert error_of(write(again, FIRST, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(again, SECOND, 0)[0].base_offset == 1


def test_nothing_is_appended_while_the_last_batches_are_damaged() -> None:
    bench = shard_bench(FIRST)
    for n in range(3):
        write(bench, FIRST, n)
    for follower in (2, 3):
        bench.fetch(follower, 3)
    bench.log.rot(2, is_cached=False)
    again = Bench(log=bench.log, high_watermark=3)
    name(again, FIRST, leader_epoch=2, partition_epoch=2)
    assert write(again, FIRST, 3) == (AppendResult(ErrorCode.CORRUPT_MESSAGE), (CheckAtRest(2),))
    (found,) = bench.log.scrub(3)
    bench.log.note_rotten(found)
    assert error_of(write(again, FIRST, 3)) is ErrorCode.CORRUPT_MESSAGE


# Against a model that keeps everything, and schedules.

_attempts = st.tuples(
    st.sampled_from([FIRST, SECOND, THIRD]), st.integers(0, 8), st.sampled_from([b"a", b"b"])
)
_steps = st.lists(
    st.one_of(_attempts, st.sampled_from(["name", "cut", "lead anew"])), min_size=1, max_size=60
)


def naive(stored: list[BatchHeader], asked: BatchHeader, named: WriterId) -> ErrorCode | int:
    """The rule as it is said, over the whole log; an int: the offset of the duplicate."""
    writers = [WriterId(h.producer_id, h.producer_epoch) for h in stored]
    writer = WriterId(asked.producer_id, asked.producer_epoch)
    if writers and writers[-1] == writer:
        if asked.base_sequence == stored[-1].base_sequence + 1:
            return ErrorCode.NONE
        for header in stored[-WRITER_BATCHES_MAX:]:
            if (header.base_sequence, header.crc) == (asked.base_sequence, asked.crc) and (
                header.producer_id == asked.producer_id
            ):
                return header.base_offset
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if writer < named or (writers and writer < writers[-1]):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if writer > named:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if asked.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@given(_steps)
def test_the_fence_judges_as_a_model_that_keeps_the_whole_log(
    steps: list[str | tuple[WriterId, int, bytes]],
) -> None:
    named, epoch = FIRST, 1
    bench = shard_bench(named)
    for step in steps:
        if isinstance(step, tuple):
            writer, sequence, value = step
            data = batch_of([value], producer_id=writer.producer_id, producer_epoch=0, base_sequence=sequence)
            expected = naive([h for h, _ in bench.log.batches], decode_header(data), named)
            result, _ = write(bench, writer, sequence, value)
            if isinstance(expected, ErrorCode):
                assert result.error is expected
                assert result.log_append_time_ms == -1
            else:
                assert (result.error, result.base_offset) == (ErrorCode.NONE, expected)
            continue
        epoch += 1
        if step == "name":
            named = SECOND if named == FIRST else THIRD
            name(bench, named, partition_epoch=epoch, leader_epoch=bench.replica.leader_epoch)
            continue
        if step == "cut":
            bench.log.truncate_to(max(0, bench.log.log_end_offset - 2))
        name(bench, named, partition_epoch=epoch, leader_epoch=epoch)


def run_schedules(seeds: int, *, is_epoch_reused: bool = False) -> set[str]:
    reached: set[str] = set()
    for seed in range(seeds):
        cluster = ShardCluster(seed, is_epoch_reused=is_epoch_reused)
        try:
            cluster.run(500)
        except AssertionError as error:
            tail = "\n".join(cluster.log[-40:])
            raise Violation(f"seed {seed}: {error}\n{tail}") from error
        reached |= cluster.reached
    return reached


def test_i27_no_schedule_mixes_two_writers_or_loses_what_one_was_answered() -> None:
    reached = run_schedules(60)
    assert reached >= {
        "acked",
        "append INVALID_PRODUCER_EPOCH",
        "append NONE again",
        "append NOT_ENOUGH_REPLICAS",
        "append OUT_OF_ORDER_SEQUENCE_NUMBER",
        "append UNKNOWN_LEADER_EPOCH",
        "crash kill",
        "crash power",
        "crash tear",
        "crash wipe",
        "divergent",
    }


def test_a_writer_that_is_used_twice_is_never_answered_for_what_the_other_wrote() -> None:
    """The controller never lets it come to that. If it did, the bytes would tell."""
    assert run_schedules(20, is_epoch_reused=True) >= {"acked", "append OUT_OF_ORDER_SEQUENCE_NUMBER"}


def admits_lower_writers(fence: Fence, header: BatchHeader, *, named: WriterId) -> ErrorCode | Duplicate:
    verdict = _judge(fence, header, named=named)
    return ErrorCode.NONE if verdict is ErrorCode.INVALID_PRODUCER_EPOCH else verdict


def admits_any_sequence(fence: Fence, header: BatchHeader, *, named: WriterId) -> ErrorCode | Duplicate:
    verdict = _judge(fence, header, named=named)
    return ErrorCode.NONE if verdict is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else verdict


def takes_any_bytes_for_a_retry(fence: Fence, header: BatchHeader) -> Duplicate | None:
    for stored in fence._batches:
        if stored.base_sequence == header.base_sequence and stored.producer_id == header.producer_id:
            return Duplicate(stored.base_offset, stored.last_offset, stored.max_timestamp)
    return None


_judge = Fence.judge


@pytest.mark.parametrize(
    ("method", "bug", "is_epoch_reused", "found"),
    [
        ("judge", admits_lower_writers, False, "I27"),
        ("judge", admits_any_sequence, False, "I27"),
        ("_find_stored", takes_any_bytes_for_a_retry, True, "not stored"),
    ],
)
def test_planted_bugs_do_not_get_past_the_schedules(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    bug: Callable[..., object],
    is_epoch_reused: bool,
    found: str,
) -> None:
    monkeypatch.setattr(fence_module.Fence, method, bug)
    with pytest.raises(Violation, match=found):
        run_schedules(40, is_epoch_reused=is_epoch_reused)


def test_a_fence_by_producer_state_that_expired_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_producer_state(leader: Leader, header: BatchHeader, *_: object, **__: object) -> None:
        leader._log.producers.clear()

    monkeypatch.setattr(Leader, "_settle_writer", by_producer_state)
    with pytest.raises(Violation, match="I27"):
        run_schedules(20)
