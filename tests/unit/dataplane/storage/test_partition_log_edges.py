"""Bounds of what a log does at its ends, and when its end has come, each found by a mutant that no other test
noticed (tests/mutation)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Round, encode_round
from dataplane.core.producer_state import ProducerStates
from dataplane.storage.disk import DELETED_SUFFIX
from dataplane.storage.health import DAMAGED_FILE, ClosedLog, CorruptLog
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.rot import ScrubPlace
from dataplane.storage.round_file import ROUNDS_FILE, read_rounds
from dataplane.storage.segment import Hole
from dataplane.storage.timestamp_reading import TimestampReading
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.fetch_response import Compacted
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    SMALL,
    append,
    bases,
    batch,
    content,
    filled,
    new_log,
    open_log,
    opened,
    read_all,
    settings_for,
)
from tests.kit.memory.disk import MemoryDisk

A_ROUND = Round(1, 0, tombstone_floor=0, producers_floor=0)
RETENTION: dict[str, Any] = {
    "expiry_ms": None,
    "retention_ms": -1,
    "retention_bytes": -1,
    "high_watermark": 0,
}


USES: dict[str, Callable[[PartitionLog], object]] = {
    "append": lambda log: append(log, batch(20)),
    "roll": lambda log: log.roll(now_ms=0),
    "begin_leader_epoch": lambda log: log.begin_leader_epoch(LeaderEpoch(3)),
    "note_reconciled": lambda log: log.note_reconciled(LeaderEpoch(3)),
    "note_compacted": lambda log: log.note_compacted(Compacted(0, 0)),
    "learn_producers": lambda log: log.learn_producers(ProducerStates()),
    "read": lambda log: log.read(0, max_bytes=1, end_offset=20),
    "read_in_thread": lambda log: log.read_in_thread(0, max_bytes=1, end_offset=20),
    "last_batches": lambda log: log.last_batches(20),
    "last_data_batches": lambda log: log.last_data_batches(1),
    "find_timestamp": lambda log: log.find_timestamp(0, end_offset=20),
    "find_max_timestamp": lambda log: log.find_max_timestamp(end_offset=20),
    "truncate_to": lambda log: log.truncate_to(20),
    "restart_at": lambda log: log.restart_at(20),
    "apply_retention": lambda log: log.apply_retention(now_ms=0, **RETENTION),
    "due_to_be_read": lambda log: log.due_to_be_read(**RETENTION),
    "read_timestamps": lambda log: log.read_timestamps(
        TimestampReading(log._segments, log.segments[0]), bytes_max=1
    ),
    "measure_dirt": lambda log: log.measure_dirt(
        clean_to=0, high_watermark=20, young_ms=None, has_max_lag=False
    ),
    "finish_compaction": lambda log: log.finish_compaction(),
    "write_for_close": lambda log: log.write_for_close(),
    "flush": lambda log: log.durability.flush(),
    "persist_epochs": lambda log: log.durability.persist_epochs(),
    "remove the seal": lambda log: log.seal.remove(),
}


@pytest.mark.parametrize("use", USES)
def test_a_log_that_has_ended_refuses_every_use(use: str) -> None:
    """Its directory may be another log's by now."""
    _, log = filled()
    log.abandon()
    with pytest.raises(ClosedLog):
        USES[use](log)


def test_a_log_that_was_closed_cleanly_gives_its_memory_back_and_needs_no_scan() -> None:
    disk = MemoryDisk()
    settings = settings_for(disk)
    log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, settings=settings))
    append(log, batch(0, producer_id=5, base_sequence=0))
    assert settings.tail_budget.used_bytes > 0
    log.close_cleanly()
    assert settings.tail_budget.used_bytes == 0
    with pytest.raises(ClosedLog):
        append(log, batch(1))
    for suffix in ("0.index", "1.snapshot"):
        path = next(path for path in disk.files() if path.endswith(suffix))
        assert disk.is_clean(path)
    disk.crash_machine(Random(0))
    again = opened(open_log(disk, recovery_point=1))
    assert (again.log_end_offset, again.producers.has_batch_at_or_beyond(0)) == (1, True)


def test_every_write_is_known_to_the_fresh_mark() -> None:
    """A mark that is older than a write would pass for a copy's (fresh_mark.py)."""
    writes: list[Callable[[PartitionLog], object]] = [
        lambda log: append(log, batch(20, value=b"v" * 60)),
        lambda log: append(log, batch(21, value=b"v" * 60)),
        lambda log: log.roll(now_ms=0),
        lambda log: log.truncate_to(10),
        lambda log: log.durability.flush(),
    ]
    _, log = filled()
    health = log._health.directory
    for write in writes:
        health.has_changed = False
        write(log)
        assert health.has_changed
    health.has_changed = False
    with health.guarded("writing checkpoints"):
        assert health.has_changed


# Where it rolls, and what memory holds.


@pytest.mark.parametrize(
    ("options", "now_ms", "segments"),
    [
        (replace(SMALL, segment_bytes=2 * len(batch(0))), 0, 1),
        (replace(SMALL, segment_bytes=2 * len(batch(0)) - 1), 0, 2),
        (replace(SMALL, segment_ms=50), 49, 1),
        (replace(SMALL, segment_ms=50), 50, 2),
    ],
)
def test_a_segment_is_full_and_is_old_at_its_very_limit(
    options: LogOptions, now_ms: int, segments: int
) -> None:
    _, log = new_log(options)
    append(log, batch(0), now_ms=0)
    append(log, batch(1), now_ms=now_ms)
    assert len(log.segments) == segments


def test_what_is_in_memory_needs_no_thread() -> None:
    _, log = filled(options=replace(SMALL, tail_bytes_max=1_000))
    first = log._tail.first_offset
    assert first is not None and 0 < first < 19
    assert [log.is_in_memory(offset) for offset in (0, first - 1, first, 19, 20)] == [
        False,
        False,
        *[True] * 3,
    ]
    _, log = filled(options=NO_TAIL)
    assert [log.is_in_memory(offset) for offset in (0, 19, 20)] == [False, False, True]


def test_a_lookup_is_cold_where_an_index_is_on_disk_or_the_batch_is() -> None:
    _, log = new_log(replace(SMALL, tail_bytes_max=100_000))
    for offset in range(20):
        append(log, batch(offset, timestamp=offset, value=b"v" * 60))
    assert log.is_in_memory(0)
    assert log.is_lookup_cold(0)  # a closed segment, whose index is in a file
    _, log = new_log(NO_TAIL)
    append(log, batch(0, timestamp=0))
    assert log.is_lookup_cold(0)


def test_a_read_in_a_thread_returns_a_batch_however_small_its_limit_is() -> None:
    _, log = filled()
    assert content(log.read_in_thread(3, max_bytes=1, end_offset=20)) == batch(3, value=b"v" * 60)


# Cuts.


def test_a_cut_below_the_log_start_starts_the_log_over() -> None:
    _, log = filled()
    log.advance_log_start(5)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)


def test_a_cut_at_the_end_changes_nothing() -> None:
    _, log = filled()
    changes = log.changes
    log.truncate_to(20)
    assert (log.changes, log.log_end_offset) == (changes, 20)


def test_a_cut_in_a_gap_leaves_the_gap_and_one_in_a_batch_takes_it_whole() -> None:
    _, log = new_log()
    append(log, batch(0, records=3), batch(7, leader_epoch=2))
    log.begin_leader_epoch(LeaderEpoch(4))
    log.truncate_to(5)
    assert (log.log_end_offset, log.end_of_batches, log.epochs.entries) == (5, 3, ((0, 0), (2, 3)))
    assert [log.size_below(offset) for offset in (0, 3, 4, 5)] == [0, *[log.size_bytes] * 3]
    log.advance_log_start(1)
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1, 1, 0)


def test_an_epoch_of_which_nothing_was_written_is_forgotten_by_a_cut_at_or_beyond_its_begin() -> None:
    for offset in (20, 30):
        _, log = filled()
        log.begin_leader_epoch(LeaderEpoch(4))
        log.truncate_to(offset)
        assert log.epochs.latest == 0


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_cut_lowers_the_recovery_point_to_the_begin_of_the_segment_that_is_cut(part: int) -> None:
    disk, lowered = MemoryDisk(), list[int]()
    settings = settings_for(disk, options=NO_TAIL, lowered=lowered)
    log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, settings=settings))
    for offset in range(20):
        append(log, batch(offset, value=b"v" * 60))
    assert log.durability.flush() == 20
    append(log, batch(20))
    log.truncate_to(20)
    assert (log.recovery_point, lowered) == (20, [])  # nothing that was flushed is cut
    base = bases(log)[part]
    log.truncate_to(base + 1)
    assert (log.recovery_point, len(lowered)) == (base, 1)


def test_a_cut_takes_the_rounds_that_lie_behind_it_from_their_file() -> None:
    disk, log = new_log()
    append(log, batch(0), encode_round(A_ROUND, leader_epoch=LeaderEpoch(0), base_offset=1))
    assert [each.offset for each in log.rounds.pending] == [1]
    log.truncate_to(1)
    stored = read_rounds(disk, DIRECTORY)
    assert stored is not None
    assert (list(log.rounds.pending), list(stored.pending)) == ([], [])
    assert disk.exists(f"{DIRECTORY}/{ROUNDS_FILE}")


def with_a_hole() -> tuple[MemoryDisk, PartitionLog, Hole]:
    """Of three batches of three records the one in the middle has rotted."""
    disk, log = new_log(NO_TAIL)
    for offset in (0, 3, 6):
        append(log, batch(offset, records=3))
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", len(batch(0, records=3)) + 66)
    hole = log.holes.check(ScrubPlace(0, 0, 0), end_offset=9, bytes_max=10_000).hole
    assert hole is not None and (hole.first_offset, hole.next_offset) == (3, 6)
    log.holes.note(hole, log_start_offset=0)
    return disk, log, hole


@pytest.mark.parametrize(
    ("cut", "end", "is_rotten"), [(2, 0, False), (3, 3, False), (6, 6, True), (7, 6, True)]
)
def test_a_cut_beside_what_has_rotted_is_like_any_other(cut: int, end: int, is_rotten: bool) -> None:
    _, log, hole = with_a_hole()
    log.truncate_to(cut)
    assert (log.log_end_offset, bool(log.rotten)) == (end, is_rotten)
    assert log.size_bytes == {0: 0, 3: hole.position, 6: hole.end_position}[end]


@pytest.mark.parametrize("cut", [4, 5])
def test_a_cut_within_what_has_rotted_ends_the_log(cut: int) -> None:
    disk, log, _ = with_a_hole()
    with pytest.raises(CorruptLog, match="to be cut within"):
        log.truncate_to(cut)
    with pytest.raises(CorruptLog):
        append(log, batch(9))
    assert disk.exists(f"{DIRECTORY}/{DAMAGED_FILE}")


def test_producers_are_not_rebuilt_from_batches_that_have_rotted() -> None:
    _, log, hole = with_a_hole()
    with pytest.raises(CorruptLog, match=f"at {hole.position}: known to be rotten"):
        log.rebuild_producers()


def test_nothing_is_read_up_to_what_has_rotted_without_an_error() -> None:
    _, log, _ = with_a_hole()
    assert log.read(3, max_bytes=100, end_offset=3).size_bytes == 0


def test_rot_below_the_log_start_is_forgotten_and_rot_before_what_is_asked_is_no_matter() -> None:
    _, log, _ = with_a_hole()
    assert log.last_batches(9, first_offset=6) is None
    assert [header.base_offset for header in log.last_data_batches(1)] == [6]
    log.advance_log_start(6)
    found = log.last_batches(9, first_offset=6)
    assert found is not None
    assert (list(log.rotten), [header.base_offset for header in found]) == ([], [6])


@pytest.mark.parametrize("seed", range(8))
def test_what_was_deleted_does_not_come_back_before_what_a_new_leader_writes(seed: int) -> None:
    """After an unclean election: the log was cut to its start, and all its bytes lay below it."""
    disk, log = new_log(NO_TAIL)
    append(log, batch(0, records=4, leader_epoch=5), batch(4, leader_epoch=5))
    log.advance_log_start(4)
    log.truncate_to(4)
    assert [path for path in disk.files() if path.endswith(DELETED_SUFFIX)] == []
    append(log, batch(4, leader_epoch=3))
    disk.crash_machine(Random(seed))
    again = opened(
        open_log(
            disk,
            last_shutdown=ShutdownKind.MACHINE_CRASH,
            recovery_point=log.recovery_point,
            log_start_offset=4,
            options=NO_TAIL,
        )
    )
    assert read_all(again) in (b"", batch(4, leader_epoch=3))


# Starting over, and the log start.


@pytest.mark.parametrize(("start", "recovery_point"), [(0, 0), (1, 1), (2, 2), (30, 4)])
def test_a_log_that_starts_over_keeps_nothing(start: int, recovery_point: int) -> None:
    disk = MemoryDisk()
    settings = settings_for(disk)
    log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, settings=settings))
    for offset in range(20):
        append(
            log,
            batch(offset, leader_epoch=3, producer_id=5, base_sequence=offset, value=b"v" * 60),
            now_ms=7_000,
        )
    log.durability.flush()
    log.seal.begin(BrokerEpoch(1), end_offset=20)
    log.roll(now_ms=7_000)
    assert log.durability._segments.has_unflushed
    log.advance_log_start(bases(log)[1])
    log.unlink_detached(log.detach_old_segments())
    assert bases(log)[0] == 4
    changes = log.changes
    log.restart_at(start)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (start, start, 0)
    assert log.recovery_point == recovery_point
    assert (bases(log), log.segments[0].first_append_ms) == ([start], 7_000)
    assert (log.epochs.entries, log.producers.has_batch_at_or_beyond(0)) == ((), False)
    assert log.producers.is_whole is (start == 0)
    assert log.vouched_end_offset == min(start, 20)
    assert settings.tail_budget.used_bytes == 0
    assert log.has_changed_since(changes)
    names = {path.rpartition("/")[2] for path in disk.files()}
    assert {name for name in names if name[0].isdigit()} == {f"{start:020d}.log"}
    assert not log.durability._segments.has_unflushed
    append(log, batch(start, records=3))
    assert (read_all(log), log.vouched_end_offset) == (batch(start, records=3), min(start, 20))


@pytest.mark.parametrize("seed", range(8))
def test_after_a_power_cut_a_log_that_started_over_holds_nothing_from_before(seed: int) -> None:
    disk, log = filled()
    log.durability.flush()
    log.restart_at(30)
    append(log, batch(30))
    disk.crash_machine(Random(seed))
    again = opened(
        open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=0, log_start_offset=30)
    )
    assert (again.log_start_offset, read_all(again) in (b"", batch(30))) == (30, True)


def test_the_log_start_does_not_pass_the_end() -> None:
    _, log = filled()
    log.advance_log_start(20)
    with pytest.raises(ValueError, match="beyond the end"):
        log.advance_log_start(21)
    assert log.log_start_offset == 20


def test_retention_of_some_segments_leaves_the_active_one_open() -> None:
    _, log = filled()
    before = bases(log)
    log.apply_retention(
        now_ms=0,
        expiry_ms=None,
        retention_ms=-1,
        retention_bytes=log.segments[-1].size_bytes,
        high_watermark=20,
    )
    assert (bases(log), log.log_start_offset) == (before[-1:], before[-1])


# Passes of compaction.


@pytest.mark.parametrize("swap", [PartitionLog.finish_compaction, PartitionLog.detach_old_segments])
def test_rot_that_is_found_after_a_pass_was_committed_goes_with_the_replaced_segment(
    swap: Callable[[PartitionLog], object],
) -> None:
    disk, log = filled()
    placed = PlacedRound(20, Round(bases(log)[3], 0, tombstone_floor=0, producers_floor=0))
    append(log, encode_round(placed.round_, leader_epoch=LeaderEpoch(0), base_offset=20))
    log.advance_log_start(bases(log)[1])
    begun = log.begin_compaction(placed, now_ms=0)
    begun.write()
    begun.commit()
    disk.flip_bit(f"{DIRECTORY}/{bases(log)[2]:020d}.log", 66)
    hole = log.holes.check(log.holes.place_near(bases(log)[2]), end_offset=20, bytes_max=10_000).hole
    assert hole is not None
    log.holes.note(hole, log_start_offset=log.log_start_offset)
    assert log.rotten
    swap(log)
    assert list(log.rotten) == []


def test_a_pass_that_begins_puts_the_one_before_in_its_place() -> None:
    _, log = filled()
    placed = PlacedRound(20, Round(bases(log)[2], 0, tombstone_floor=0, producers_floor=0))
    append(log, encode_round(placed.round_, leader_epoch=LeaderEpoch(0), base_offset=20))
    first = log.begin_compaction(placed, now_ms=0)
    first.write()
    first.commit()
    old = log.segments[0]
    log.begin_compaction(placed, now_ms=0)
    assert log.segments[0] is not old


def test_a_round_behind_other_records_does_not_keep_its_segment_open() -> None:
    _, log = new_log(NO_TAIL)
    append(log, batch(0), now_ms=1_000)
    placed = encode_round(A_ROUND, leader_epoch=LeaderEpoch(0), base_offset=1)
    append(log, placed, now_ms=1_000)
    log.roll_for_compaction(now_ms=1_600, max_lag_ms=600)
    assert len(log.segments) == 1
    log.roll_for_compaction(now_ms=1_601, max_lag_ms=600)
    assert len(log.segments) == 2


def test_a_missing_file_is_no_failure_of_the_disk_once_the_log_has_ended() -> None:
    _, log = filled()
    log.abandon()
    health = log._health
    assert isinstance(health.failed(FileNotFoundError(), "reading"), ClosedLog)
    assert health.directory.failure is None
    assert not isinstance(health.failed(OSError(5, "broken"), "reading"), ClosedLog)
    assert health.directory.failure is not None
