"""The list of a log's segments: where a cut falls, what is kept for a flush, and which snapshots stand."""

from __future__ import annotations

from random import Random

import pytest

from dataplane.core.producer_state import ProducerStates
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    append,
    batch,
    new_log,
    open_log,
    opened,
    read_all,
)
from tests.kit.memory.disk import MemoryDisk


def in_segments(count: int = 20) -> tuple[MemoryDisk, PartitionLog]:
    disk, log = new_log(NO_TAIL)
    for offset in range(count):
        append(log, batch(offset, producer_id=7, base_sequence=offset, value=b"v" * 60))
    assert len(log.segments) > 4
    return disk, log


@pytest.mark.parametrize(
    ("cut", "start", "end", "end_of_batches"),
    [
        (0, 0, 0, 0),
        (2, 0, 0, 0),
        (3, 0, 3, 3),
        (4, 0, 4, 3),  # in a gap
        (5, 0, 5, 3),
        (7, 0, 7, 3),
        (8, 0, 8, 8),
        (9, 0, 8, 8),
        (10, 0, 10, 10),
        (12, 0, 12, 10),
        (15, 0, 15, 14),  # in a gap at the end
        (2, 1, 1, 1),  # the log starts inside the batch
    ],
)
def test_a_cut_tells_where_the_batches_end_that_it_leaves(
    cut: int, start: int, end: int, end_of_batches: int
) -> None:
    _, log = new_log(NO_TAIL)
    for base, records in ((0, 3), (7, 1), (8, 2), (13, 1)):
        append(log, batch(base, records=records))
    place = log._segments.place_to_cut(cut, log_start_offset=start)
    assert (place.kept, place.end_offset, place.end_of_batches) == (1, end, end_of_batches)


def test_a_segment_is_found_by_its_very_name() -> None:
    _, log = in_segments()
    name = log.segments[1].base_offset
    assert log._segments.find(name) is log.segments[1]
    assert log._segments.find(name - 1) is None


def test_whoever_comes_during_a_change_is_told_that_it_was_one() -> None:
    segments = in_segments()[1]._segments
    for _ in range(2):
        before = segments.changes
        with segments.changing():
            during = segments.changes
            assert segments.has_changed_since(before)
            assert segments.has_changed_since(during)
        assert segments.has_changed_since(before)
        assert segments.has_changed_since(during)
        assert not segments.has_changed_since(segments.changes)


def test_a_cut_keeps_the_flush_of_what_it_keeps_and_no_snapshot_beyond() -> None:
    _, log = in_segments()
    snapshots = log._segments.snapshots
    assert snapshots.offsets == [segment.base_offset for segment in log.segments[1:]]
    kept = log.segments[:3]
    log.truncate_to(kept[-1].base_offset + 1)
    assert log.segments == kept
    assert log._segments.take_unflushed(include_active=False).closed == kept
    assert snapshots.offsets == [segment.base_offset for segment in kept[1:]]
    assert log.detach_old_segments() == []


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_started_over_outlives_a_power_cut_once_it_was_flushed(seed: int) -> None:
    disk, log = in_segments()
    log.durability.flush()
    log.restart_at(30)
    append(log, batch(30))
    log.durability.flush()
    disk.crash_machine(Random(seed))
    again = opened(
        open_log(
            disk,
            last_shutdown=ShutdownKind.MACHINE_CRASH,
            recovery_point=31,
            log_start_offset=30,
            options=NO_TAIL,
        )
    )
    assert read_all(again) == batch(30)


# Snapshots of producer states.


def test_a_recovery_writes_the_snapshots_between_segments_that_are_missing() -> None:
    """Retention may delete the segments that they stand for."""
    disk, log = in_segments()
    bases = [segment.base_offset for segment in log.segments]
    for base in (bases[1], bases[3]):
        disk.unlink(f"{DIRECTORY}/{base:020d}.snapshot")
    kept = bytes(disk.content(f"{DIRECTORY}/{bases[2]:020d}.snapshot"))
    disk.crash_process()
    written: list[str] = []
    disk.on_operation = lambda operation, path, _: written.append(path) if operation == "rename" else None
    log = opened(
        open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=bases[3], options=NO_TAIL)
    )
    assert log._segments.snapshots.offsets == [*bases[2:], 20]
    assert f"{DIRECTORY}/{bases[2]:020d}.snapshot" not in written
    assert bytes(disk.content(f"{DIRECTORY}/{bases[2]:020d}.snapshot")) == kept
    for path in disk.files():
        if path.endswith(".snapshot"):
            disk.unlink(path)
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert log._segments.snapshots.offsets == [*bases[1:], 20]


@pytest.mark.parametrize(("start", "is_whole"), [(0, True), (1, False)])
def test_without_a_snapshot_only_a_log_from_its_first_record_on_knows_all_producers(
    start: int, is_whole: bool
) -> None:
    _, log = new_log(NO_TAIL)
    log.restart_at(start)
    append(log, batch(start))
    log.rebuild_producers()
    assert log.producers.is_whole is is_whole


def test_a_hole_below_the_snapshot_is_not_needed() -> None:
    disk, log = in_segments()
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", 66)
    hole = log.holes.check(log.holes.place_near(0), end_offset=20, bytes_max=10_000).hole
    assert hole is not None
    log.holes.note(hole, log_start_offset=0)
    log.truncate_to(log.segments[1].base_offset)
    log.rebuild_producers()
    assert log.producers.has_batch_at_or_beyond(0)


@pytest.mark.parametrize(
    ("has_producer", "has_batch", "is_written"),
    [(False, False, False), (True, False, True), (False, True, True)],
)
def test_a_close_writes_a_snapshot_of_all_that_is_no_new_log(
    has_producer: bool, has_batch: bool, is_written: bool
) -> None:
    _, log = new_log(NO_TAIL)
    told = ProducerStates()
    if has_producer:
        _, other = in_segments()
        told = other.producers
    if has_batch:
        append(log, batch(0))
    log._segments.write_snapshot(told)
    assert bool(log._segments.snapshots.offsets) is is_written


def test_a_close_writes_over_the_snapshot_of_producers_that_are_forgotten() -> None:
    disk, log = new_log(NO_TAIL)
    log.learn_producers(in_segments()[1].producers)
    log.producers.clear(is_whole=True)
    log.close_cleanly()
    assert not opened(open_log(disk, options=NO_TAIL)).producers
