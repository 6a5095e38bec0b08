"""What an append refuses, what a read returns, retention, and the tail kept in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.core.log_port import LogChanged, RottenBytes, SuspectBytes
from dataplane.storage.disk import File
from dataplane.storage.durability import flush_together
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.retention import SegmentView, segments_to_delete
from dataplane.storage.segment import NEAR_ENOUGH
from dataplane.storage.tail_cache import TailBudget, TailCache
from springtide.contract.session import ShutdownKind
from springtide.wire.framing import FileChunk
from tests.kit.dataplane.storage import (
    NO_TAIL,
    SMALL,
    append,
    batch,
    content,
    header_of,
    new_log,
    open_log,
    opened,
    read_all,
)
from tests.kit.memory.disk import MemoryDisk
from tests.kit.memory.log import MemoryLog


@pytest.mark.parametrize(
    "bad",
    [
        [batch(1, leader_epoch=2)],  # offset goes back
        [batch(2, leader_epoch=1)],  # epoch goes back
        [batch(5, leader_epoch=2), batch(4, leader_epoch=2)],
    ],
)
def test_batches_that_go_back_are_refused_with_nothing_written(bad: list[bytes]) -> None:
    _, log = new_log()
    append(log, batch(0, leader_epoch=2, records=2))
    with pytest.raises(ValueError, match="goes back"):
        append(log, *bad)
    assert (log.log_end_offset, log.size_bytes) == (2, len(batch(0, records=2)))


def test_chunks_that_are_not_the_batches_are_refused() -> None:
    _, log = new_log()
    with pytest.raises(ValueError, match="chunks"):
        log.append([header_of(batch(0))], [batch(0), b"more"], now_ms=0)
    assert log.log_end_offset == 0


def test_an_epoch_begins_where_the_one_before_ended_although_its_first_batches_are_gone() -> None:
    """They were compacted away at the leader; a log that ends between the two is no prefix of this one."""
    _, log = new_log()
    append(log, batch(0, leader_epoch=1), batch(9, leader_epoch=2))
    assert [(entry.leader_epoch, entry.start_offset) for entry in log.epochs.entries] == [(1, 0), (2, 1)]


def test_a_batch_may_come_in_any_pieces() -> None:
    _, log = new_log()
    first, second = batch(0), batch(1, value=b"x" * 50)
    both = first + second
    log.append(
        [header_of(first), header_of(second)],
        [both[:7], memoryview(both)[7:90], bytearray(both[90:])],
        now_ms=0,
    )
    assert read_all(log) == both


def test_a_writable_buffer_may_be_reused_after_the_append() -> None:
    _, log = new_log(options=replace(SMALL, tail_bytes_max=1 << 20))
    for size in (10, 40_000):  # gathered, and kept as a block of its own
        base = log.log_end_offset
        buffer = bytearray(batch(base, value=b"x" * size))
        expected = bytes(buffer)
        log.append([header_of(expected)], [memoryview(buffer)], now_ms=0)
        buffer[:] = bytes(len(buffer))
        piece = log.read(base, max_bytes=1, end_offset=base + 1)
        assert isinstance(piece.parts[0], memoryview)
        assert content(piece) == expected


def test_read_only_bytes_are_kept_without_a_copy() -> None:
    _, log = new_log(options=replace(SMALL, tail_bytes_max=1 << 20))
    encoded = batch(0, value=b"x" * 40_000)
    log.append([header_of(encoded)], [encoded[:16], memoryview(encoded)[16:]], now_ms=0)
    piece = log.read(0, max_bytes=1, end_offset=1)
    assert any(isinstance(part, memoryview) and part.obj is encoded for part in piece.parts)


def test_bytes_handed_out_never_change_though_the_log_is_cut_and_written_again() -> None:
    _, log = new_log()
    append(log, batch(0), batch(1))
    piece = log.read(0, max_bytes=1000, end_offset=2)
    before = content(piece)
    log.truncate_to(1)
    append(log, batch(1, value=b"z"))
    assert content(piece) == before
    assert read_all(log) == batch(0) + batch(1, value=b"z")


@given(max_bytes=st.integers(min_value=1, max_value=6_000), start=st.integers(min_value=0, max_value=99))
def test_a_read_from_files_fills_nearly_its_limit_and_tells_what_comes_next(
    max_bytes: int, start: int
) -> None:
    """It may end at an entry of the index that is near enough."""
    _, log = new_log(replace(NO_TAIL, segment_bytes=100_000, index_interval_bytes=200))
    batches = [batch(offset) for offset in range(100)]
    append(log, *batches)
    piece = log.read(start, max_bytes=max_bytes, end_offset=100)
    assert content(piece) == b"".join(batches[start : piece.next_offset])
    fitting = max(1, min(100 - start, max_bytes // len(batches[0])))
    assert fitting - fitting // NEAR_ENOUGH <= piece.next_offset - start <= fitting


@pytest.mark.parametrize("options", [SMALL, NO_TAIL])
def test_a_read_stops_before_the_end_offset_and_the_byte_limit(options: object) -> None:
    _, log = new_log(options=options)  # type: ignore[arg-type]
    batches = [batch(i, value=b"v" * 20) for i in range(4)]
    append(log, *batches)
    size = len(batches[0])

    def read(start: int, max_bytes: int, end: int, at_least_one: bool = True) -> tuple[int, int]:
        piece = log.read(start, max_bytes=max_bytes, end_offset=end, at_least_one=at_least_one)
        assert content(piece) == b"".join(batches)[start * size :][: piece.size_bytes]
        return piece.size_bytes, piece.next_offset

    assert read(0, 10_000, 3) == (3 * size, 3)
    assert read(1, 2 * size, 4) == (2 * size, 3)
    assert read(1, 2 * size - 1, 4) == (size, 2)
    assert read(1, 0, 4) == (size, 2)
    assert read(1, size - 1, 4, at_least_one=False) == (0, 1)
    assert read(2, 10_000, 2) == (0, 2)
    assert read(4, 10_000, 9) == (0, 4)


def test_old_bytes_come_from_the_file_and_new_ones_from_memory() -> None:
    _, log = new_log(options=replace(SMALL, tail_bytes_max=5000))
    for i in range(100):
        append(log, batch(i, value=b"v" * 200))
    assert not log.is_in_memory(0)
    assert log.is_in_memory(99)
    assert isinstance(log.read(0, max_bytes=1, end_offset=100).parts[0], FileChunk)
    assert isinstance(log.read(99, max_bytes=1, end_offset=100).parts[0], memoryview)
    assert isinstance(log.read(99, max_bytes=1, end_offset=100, from_disk=True).parts[0], FileChunk)


def test_a_file_that_was_changed_under_the_log_is_seen_from_disk_though_memory_knows_better() -> None:
    disk, log = new_log()
    append(log, batch(0), batch(1))
    segment = next(path for path in disk.files() if path.endswith(".log"))
    disk.flip_bit(segment, log.size_bytes - 2)
    assert content(log.read(1, max_bytes=1, end_offset=2)) == batch(1)
    wounded = content(log.read(1, max_bytes=1, end_offset=2, from_disk=True))
    assert [at - len(wounded) for at, byte in enumerate(wounded) if byte != batch(1)[at]] == [-2]


def test_the_segment_rolls_by_size_by_age_and_when_its_index_is_full() -> None:
    for options, now_ms in (
        (replace(SMALL, segment_bytes=100), 0),
        (replace(SMALL, segment_ms=50), 60),
        (replace(SMALL, index_interval_bytes=1, index_bytes_max=16), 0),
    ):
        _, log = new_log(options=options)
        append(log, batch(0), now_ms=0)
        append(log, batch(1), now_ms=1)
        append(log, batch(2), now_ms=now_ms)
        assert len(log.segments) > 1, options


SEGMENTS = [SegmentView(i * 10, i * 10 + 10, 100, 1000 * i) for i in range(5)]


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "high_watermark", "count"),
    [
        (-1, -1, 50, 0),
        (2500, -1, 50, 2),
        (2500, -1, 19, 1),  # I26
        (0, -1, 50, 4),
        (-1, 250, 50, 2),
        (-1, 0, 50, 5),
        (-1, 0, 49, 4),
        (-1, 0, 5, 0),
    ],
)
def test_retention_by_time_and_size_never_passes_the_high_watermark(
    retention_ms: int, retention_bytes: int, high_watermark: int, count: int
) -> None:
    assert (
        segments_to_delete(
            SEGMENTS,
            expiry_ms=4000,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            high_watermark=high_watermark,
        )
        == count
    )


def test_without_a_time_that_clocks_agree_on_only_the_size_deletes() -> None:
    def count(retention_bytes: int) -> int:
        return segments_to_delete(
            SEGMENTS, expiry_ms=None, retention_ms=0, retention_bytes=retention_bytes, high_watermark=50
        )

    assert (count(-1), count(250)) == (0, 2)


def expired(log: PartitionLog, *, high_watermark: int) -> list[str]:
    """Everything is older than its limit."""
    return log.apply_retention(
        now_ms=10**9,
        expiry_ms=10**9,
        retention_ms=1,
        retention_bytes=-1,
        high_watermark=high_watermark,
    )


def test_an_expired_log_ends_empty_at_its_high_watermark() -> None:
    disk, log = new_log()
    for i in range(10):
        append(log, batch(i, value=b"v" * 100))
    log.unlink_detached(expired(log, high_watermark=10))
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert [name for name in disk.listdir(log.directory) if name.endswith(".log")] == [f"{10:020d}.log"]


def test_retention_leaves_every_unlink_and_close_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either waits for a flush of that file's bytes. The last to hold a file closes it."""
    disk, log = new_log()
    files: list[weakref.ref[File]] = []
    opens = disk.open

    def watched_open(path: str, *, create: bool = False) -> File:
        file = opens(path, create=create)
        if path.endswith(".log"):
            files.append(weakref.ref(file))
        return file

    monkeypatch.setattr(disk, "open", watched_open)
    for i in range(10):
        append(log, batch(i, value=b"v" * 100))
    unlinked: list[str] = []
    with monkeypatch.context() as watched:
        watched.setattr(disk, "unlink", unlinked.append)
        detached = expired(log, high_watermark=10)
    assert unlinked == []
    assert len(files) > 1
    assert all(file() is not None for file in files)
    log.unlink_detached(detached)
    assert [file() is not None for file in files] == [False] * (len(files) - 1) + [True]
    names = disk.listdir(log.directory)
    assert [name for name in names if name.endswith(".snapshot")] == [f"{10:020d}.snapshot"]
    assert not [name for name in names if name.endswith(".deleted")]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), min_size=1, max_size=25),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_a_log_on_disk_finds_by_time_what_one_in_memory_finds(
    batches: list[tuple[int, int]], start_at: int, end_at: int
) -> None:
    """Timestamps in any order, a log start anywhere, an end at any batch."""
    _, log = new_log(options=NO_TAIL)
    memory = MemoryLog()
    ends = [0]
    for timestamp, records in batches:
        encoded = batch(ends[-1], timestamp=timestamp, records=records, value=b"v" * 40)
        append(log, encoded)
        memory.append([header_of(encoded)], [encoded], now_ms=0)
        ends.append(ends[-1] + records)
    start = start_at % (ends[-1] + 1)
    end = ends[end_at % len(ends)]
    log.advance_log_start(start)
    memory.advance_log_start(start)
    assert log.find_max_timestamp(end_offset=end) == memory.find_max_timestamp(end_offset=end)
    for timestamp in (0, 7, 15, 29, 40):
        assert log.find_timestamp(timestamp, end_offset=end) == memory.find_timestamp(
            timestamp, end_offset=end
        )


def test_a_lookup_is_cold_unless_it_begins_in_what_memory_holds() -> None:
    _, log = new_log(options=replace(SMALL, segment_bytes=2_000, tail_bytes_max=1_000))
    for i in range(40):
        append(log, batch(i, timestamp=i, value=b"v" * 60))
    assert len(log.segments) > 1
    assert log.is_lookup_cold(0)
    assert not log.is_lookup_cold(39)
    assert not log.is_lookup_cold(None)
    assert not log.is_lookup_cold(1_000)  # beyond all: nothing is read
    append(log, batch(40, timestamp=0, value=b"v" * 2_000))  # the largest lies in a closed segment now
    assert log.is_lookup_cold(None)


class ChangingDisk(MemoryDisk):
    """Makes one change in the middle of a read, which then finds its file gone."""

    change: Callable[[], None] | None = None

    def check(self, operation: str, path: str) -> None:
        change = self.change
        if change is not None and operation == "pread":
            self.change = None
            change()
            raise FileNotFoundError(path)
        super().check(operation, path)


def test_a_reader_under_which_the_log_is_cut_or_deleted_is_told_to_look_again() -> None:
    for change in (
        lambda log: log.truncate_to(1),
        lambda log: log.unlink_detached(expired(log, high_watermark=30)),
        lambda log: log.restart_at(100),
    ):
        disk = ChangingDisk()
        log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, options=NO_TAIL))
        for i in range(30):
            append(log, batch(i, timestamp=i, value=b"v" * 60))
        disk.change = lambda log=log, change=change: change(log)
        with pytest.raises(LogChanged):
            log.find_timestamp(5, end_offset=30)
        log.find_timestamp(5, end_offset=30)  # nothing is wrong with it


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40_000)), max_size=40))
def test_the_budget_of_the_broker_holds_over_all_partitions(appends: list[tuple[int, int]]) -> None:
    budget = TailBudget(100_000)
    caches = [TailCache(budget, bytes_max=60_000) for _ in range(3)]
    ends = [0, 0, 0]
    last: dict[int, bytes] = {}
    for which, size in appends:
        encoded = batch(ends[which], value=b"v" * size)
        caches[which].append([header_of(encoded)], [encoded], len(encoded))
        ends[which] += 1
        last[which] = encoded
        assert budget.used_bytes <= budget.bytes_max
        held = caches[which].read(ends[which] - 1, max_bytes=1, end_offset=ends[which], at_least_one=True)
        if held is not None:
            assert b"".join(held[0]) == encoded
    for cache in caches:
        cache.clear()
    assert budget.used_bytes == 0


def test_the_newest_batch_is_held_unless_it_is_larger_than_the_cache() -> None:
    cache = TailCache(TailBudget(), bytes_max=10_000)
    for i in range(50):
        encoded = batch(i, value=b"v" * 900)
        cache.append([header_of(encoded)], [encoded], len(encoded))
        assert cache.read(i, max_bytes=1, end_offset=i + 1, at_least_one=True) is not None
    encoded = batch(50, value=b"v" * 20_000)
    cache.append([header_of(encoded)], [encoded], len(encoded))
    assert cache.first_offset is None


def test_the_size_below_an_offset_is_exact_between_segments_and_in_proportion_within_one() -> None:
    _, log = new_log(options=replace(SMALL, segment_bytes=1_000))
    while len(log.segments) < 4:
        append(log, batch(log.log_end_offset, value=b"v" * 100))
    segments = log.segments
    before = 0
    for segment in segments:
        assert log.size_below(segment.base_offset) == before
        span = segment.next_offset - segment.base_offset
        for inside in range(span):
            size = log.size_below(segment.base_offset + inside)
            assert size == before + segment.size_bytes * inside // span
        before += segment.size_bytes
    assert log.size_below(log.log_end_offset) == log.size_below(2**62) == log.size_bytes == before
    log.advance_log_start(segments[1].next_offset)
    log.unlink_detached(log.detach_old_segments())
    assert log.size_below(0) == log.size_below(log.log_start_offset) == 0
    assert log.size_below(log.log_end_offset) == log.size_bytes


def test_a_log_on_disk_tells_its_last_batches_as_one_in_memory_does() -> None:
    disk, log = new_log(options=SMALL)
    memory = MemoryLog()
    for i in range(60):
        data = batch(i, value=b"v" * (i * 7), leader_epoch=1 + i // 40)
        append(log, data)
        append(memory, data)
    last = log.last_batches(60)
    assert last is not None
    assert [each.next_offset for each in last][-1] == 60
    assert {each.leader_epoch for each in last} == {2}
    for first in (0, 37, 59):
        assert log.last_batches(60, first_offset=first) == memory.last_batches(60, first_offset=first)
    assert log.last_batches(59) == log.last_batches(59, first_offset=log.last_batches(59)[0].base_offset)  # type: ignore[index]
    assert log.last_batches(0) == []
    for each in (log, memory):
        each.advance_log_start(57)
    assert log.last_batches(60, first_offset=57) == memory.last_batches(60, first_offset=57)
    assert log.last_batches(60, first_offset=56) is memory.last_batches(60, first_offset=56) is None
    segment = max(path for path in disk.files() if path.endswith(".log"))
    disk.flip_bit(segment, log.segments[-1].size_bytes - 2)
    assert log.last_batches(60) is None  # damage is for the scrub to find


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_last_data_batches_are_found_in_the_bytes_however_far_back(is_reopened: bool) -> None:
    disk, log = new_log(options=SMALL)
    memory = MemoryLog()
    for i in range(60):
        data = batch(i, value=b"v" * (i * 7 % 90), producer_id=i // 7, base_sequence=i, is_control=i >= 30)
        append(log, data)
        append(memory, data)
    if is_reopened:
        log.durability.flush()
        for path in disk.files():
            if path.endswith((".index", ".producers")):
                disk.unlink(path)
        log = opened(open_log(disk))
    for count in (1, 5, 30, 99):
        found = log.last_data_batches(count)
        assert found == memory.last_data_batches(count)
        assert [header.base_offset for header in found] == list(range(30 - min(count, 30), 30))
    log.truncate_to(20)
    assert [header.base_offset for header in log.last_data_batches(2)] == [18, 19]
    log.restart_at(100)
    assert log.last_data_batches(2) == []


def test_the_last_data_batches_are_not_told_while_they_are_damaged() -> None:
    disk, log = new_log(options=SMALL)
    for i in range(9):
        append(log, batch(i, value=b"v" * 100))
    segment = max(path for path in disk.files() if path.endswith(".log"))
    disk.flip_bit(segment, log.segments[-1].size_bytes - 2)
    with pytest.raises(SuspectBytes) as suspect:
        log.last_data_batches(1)
    assert suspect.value.bad_offset == 8
    checked = log.holes.check(log.holes.place_near(8), end_offset=9, bytes_max=1 << 20)
    assert checked.hole is not None
    log.holes.note(checked.hole, log_start_offset=0)
    with pytest.raises(RottenBytes):
        log.last_data_batches(1)


def test_a_flush_together_that_can_not_begin_leaves_every_log_free_to_flush() -> None:
    logs = [new_log()[1] for _ in range(2)]
    for log in logs:
        append(log, batch(0))
    flushes = [log.durability for log in logs]
    flushes[1]._segments = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        flush_together(flushes, lambda: None)
    assert [flush.lock.locked() for flush in flushes] == [False, False]
