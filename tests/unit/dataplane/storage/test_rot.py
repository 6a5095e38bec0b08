"""Reading stored bytes again, what is found rotten, and writing good bytes over it (5.7, scrubbing)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataplane.core.log_port import RottenBytes
from dataplane.core.scrubbing import fitting_bytes
from dataplane.storage import rot
from dataplane.storage.disk import File
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.rot import BATCHES_MAX, ROTTEN_FILE, ScrubPlace, read_at_rest
from dataplane.storage.segment import Hole
from springtide.contract.session import ShutdownKind
from springtide.wire.record_batch import HEADER_BYTES
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    append,
    bases,
    batch,
    new_log,
    open_log,
    opened,
    read_all,
)
from tests.kit.memory.disk import MemoryDisk

START = ScrubPlace(0, 0, 0)
COUNT = 24


def path_of(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def stored(count: int = COUNT) -> tuple[MemoryDisk, PartitionLog, list[bytes]]:
    """`count` batches in segments of about five, all of them on the disk."""
    disk, log = new_log(NO_TAIL)
    batches = [batch(i, leader_epoch=i // 4, value=b"value %d" % i) for i in range(count)]
    for encoded in batches:
        append(log, encoded)
    log.durability.flush()
    return disk, log, batches


def scrub(log: PartitionLog, *, end_offset: int = COUNT, bytes_max: int = 100) -> list[Hole]:
    """One pass in small slices."""
    holes, place = [], START
    for _ in range(1_000):
        checked = log.holes.check(place, end_offset=end_offset, bytes_max=bytes_max)
        if checked.hole is not None:
            holes.append(checked.hole)
        if checked.place is None:
            return holes
        place = checked.place
    raise AssertionError("the pass does not end")


@pytest.mark.parametrize("bytes_max", [1, 61, 100, 1_000_000])
def test_a_pass_over_good_bytes_finds_nothing_and_ends(bytes_max: int) -> None:
    _, log, _ = stored()
    assert len(bases(log)) > 2
    assert scrub(log, bytes_max=bytes_max) == []


def test_small_batches_are_checked_a_few_at_a_time_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = new_log(replace(NO_TAIL, segment_bytes=1 << 20))
    batches = [batch(i, value=b"value %d" % i) for i in range(3 * BATCHES_MAX)]
    for encoded in batches:
        append(log, encoded)
    log.durability.flush()
    ends = [sum(map(len, batches[:count])) for count in range(len(batches) + 1)]
    reads: list[tuple[int, int]] = []

    def read(file: File, length: int, position: int) -> bytes:
        reads.append((position, length))
        return read_at_rest(file, length, position)

    monkeypatch.setattr(rot, "read_at_rest", read)
    disk.rot_bit(path_of(0), ends[BATCHES_MAX + 6] - 1)
    checked, seen = log.holes.check(START, end_offset=len(batches), bytes_max=1 << 20), []
    while checked.place is not None:
        seen.append((checked.place.next_offset, checked.hole is not None))
        checked = log.holes.check(checked.place, end_offset=len(batches), bytes_max=1 << 20)
    behind = BATCHES_MAX + 6
    assert seen == [
        (BATCHES_MAX, False),
        (behind, True),
        (behind + BATCHES_MAX, False),
        (len(batches), False),
    ]
    assert reads == [(0, ends[-1]), (ends[behind], ends[-1] - ends[behind])]

    for more in (0, 1, HEADER_BYTES, HEADER_BYTES + 1):  # what a slice leaves is no batch, or a part of one
        (hole,) = scrub(log, end_offset=len(batches), bytes_max=ends[BATCHES_MAX] + more)
        assert hole.first_offset == behind - 1


def test_every_bit_that_rots_is_found_and_mended_byte_for_byte() -> None:
    """In headers, too, where nobody can tell any more where the next batch begins but the index."""
    disk, log, batches = stored()
    whole = b"".join(batches)
    for base in bases(log):
        size = next(s.size_bytes for s in log.segments if s.base_offset == base)
        for position in range(size):
            disk.rot_bit(path_of(base), position, bit=position % 8)
            holes = scrub(log)
            (hole,) = holes
            assert hole.base_offset == base
            assert hole.position <= position
            log.holes.note(hole, log_start_offset=log.log_start_offset)
            (known,) = log.holes.all
            assert position < known.end_position
            lacking = b"".join(batches[known.first_offset : known.next_offset])
            size_bytes, next_offset = fitting_bytes(
                memoryview(lacking),
                first_offset=known.first_offset,
                next_offset=known.next_offset,
                size_bytes=known.end_position - known.position,
                epoch_at=log.epochs.epoch_at,
            )
            log.holes.mend(known, lacking[:size_bytes])
            log.holes.close(known, size_bytes=size_bytes, next_offset=next_offset, log_start_offset=0)
            assert list(log.rotten) == []
            assert read_all(log) == whole


def test_the_page_cache_is_not_believed() -> None:
    disk, log, batches = stored()
    disk.rot_bit(path_of(0), len(batches[0]) + 66)
    assert read_all(log) == b"".join(batches)
    (hole,) = scrub(log)
    assert (hole.first_offset, hole.next_offset) == (1, 2)
    assert (hole.position, hole.end_position) == (len(batches[0]), len(batches[0]) + len(batches[1]))


def test_what_is_rotten_is_not_given_to_anyone_and_the_rest_is() -> None:
    disk, log, batches = stored()
    disk.flip_bit(path_of(0), len(batches[0]) + 66)
    log.holes.note(scrub(log)[0], log_start_offset=0)
    piece = log.read(0, max_bytes=10_000, end_offset=COUNT)
    assert piece.next_offset == 1
    with pytest.raises(RottenBytes):
        log.read(1, max_bytes=10_000, end_offset=COUNT)
    assert read_all(log, start=2) == b"".join(batches[2:])


def test_a_restart_makes_no_rotten_log_whole() -> None:
    disk, log, batches = stored()
    disk.flip_bit(path_of(0), len(batches[0]) + 66)
    log.holes.note(scrub(log)[0], log_start_offset=0)
    log.close_cleanly()
    again = opened(open_log(disk, last_shutdown=ShutdownKind.CLEAN, recovery_point=COUNT, options=NO_TAIL))
    assert list(again.rotten) == list(log.rotten) != []
    with pytest.raises(RottenBytes):
        again.read(1, max_bytes=10_000, end_offset=COUNT)


def test_rot_goes_with_what_is_deleted_or_cut() -> None:
    disk, log, _ = stored()
    first, last = bases(log)[0], bases(log)[-1]
    for base in (first, last):
        disk.flip_bit(path_of(base), 66)
    for hole in scrub(log):
        log.holes.note(hole, log_start_offset=log.log_start_offset)
    assert [found.first_offset for found in log.rotten] == [first, last]
    log.truncate_to(last)
    assert [found.first_offset for found in log.rotten] == [first]
    log.advance_log_start(bases(log)[1])
    log.detach_old_segments()
    assert list(log.rotten) == []
    assert not disk.exists(f"{DIRECTORY}/{ROTTEN_FILE}")


def test_nothing_is_read_at_or_beyond_the_high_watermark() -> None:
    disk, log, _ = stored()
    last = bases(log)[-1]
    disk.flip_bit(path_of(last), 66)
    assert scrub(log, end_offset=last) == []
    assert [hole.first_offset for hole in scrub(log, end_offset=last + 1)] == [last]
