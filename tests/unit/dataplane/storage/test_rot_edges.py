"""Which batch is good, where a hole ends, and how much of a file a slice of a scrub reads."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from dataplane.storage import rot
from dataplane.storage.health import CorruptLog
from dataplane.storage.rot import (
    ROTTEN_FILE,
    CheckedSlice,
    ScrubPlace,
    check_slice,
    read_at_rest,
    read_rotten,
)
from dataplane.storage.segment import TO_THE_END, Hole, Segment, create_segment
from springtide.wire.record_batch import HEADER_BYTES, decode_header
from springtide.wire.records import seal_batch
from tests.kit.dataplane.storage import batch
from tests.kit.memory.disk import MemoryDisk, MemoryFile

START = ScrubPlace(0, 0, 0)
SIZE = len(batch(0))
EPOCH = 2


def good(offset: int, *, records: int = 1, leader_epoch: int = EPOCH) -> bytes:
    return batch(offset, records=records, leader_epoch=leader_epoch)


def moved(encoded: bytes, base_offset: int) -> bytes:
    """With another base offset, which no CRC covers."""
    return struct.pack(">q", base_offset) + encoded[8:]


def rotten(encoded: bytes) -> bytes:
    return encoded[:-1] + bytes([encoded[-1] ^ 1])


def segment_of(
    *batches: bytes,
    base_offset: int = 0,
    interval: int = 1,
    behind: bytes = b"",
    disk: MemoryDisk | None = None,
) -> Segment:
    """behind: bytes that it holds after its batches."""
    disk = disk or MemoryDisk()
    disk.mkdir("/log")
    segment = create_segment(disk, "/log", base_offset=base_offset, index_interval_bytes=interval, now_ms=0)
    for encoded in batches:
        segment.append([decode_header(encoded)], [encoded], now_ms=0)
    segment.file.pwrite(behind, segment.size_bytes)
    segment.size_bytes += len(behind)
    return segment


def put(segment: Segment, number: int, encoded: bytes) -> None:
    """Rot one of the batches of SIZE bytes into another."""
    segment.file.pwrite(encoded, number * SIZE)


def check(
    *segments: Segment,
    place: ScrubPlace = START,
    end_offset: int = 100,
    bytes_max: int = 1 << 20,
    epoch: int = EPOCH,
) -> CheckedSlice:
    return check_slice(
        segments[0].disk,
        segments,
        place,
        end_offset=end_offset,
        bytes_max=bytes_max,
        epoch_at=lambda _offset: epoch,
    )


def holes_of(*segments: Segment, epoch: int = EPOCH) -> list[tuple[int, int, int]]:
    """(first offset, position, end) of all that a pass finds."""
    found: list[tuple[int, int, int]] = []
    place: ScrubPlace | None = START
    for _ in range(50):
        if place is None:
            return found
        checked = check(*segments, place=place, epoch=epoch)
        if checked.hole is not None:
            found.append((checked.hole.first_offset, checked.hole.position, checked.hole.end_position))
        place = checked.place
    raise AssertionError("the pass does not end")


def six(interval: int = 1) -> Segment:
    return segment_of(*map(good, range(6)), interval=interval)


# ---- which batch is good


def without_an_offset(offset: int) -> bytes:
    header = decode_header(good(offset))
    return seal_batch(header._replace(last_offset_delta=-1), good(offset)[HEADER_BYTES:])


@pytest.mark.parametrize(
    ("number", "other", "epoch", "is_good"),
    [
        (1, good(1, leader_epoch=EPOCH - 1), EPOCH, False),
        (1, good(1, leader_epoch=EPOCH + 1), EPOCH, False),
        (1, good(1, leader_epoch=7), -1, True),  # the history does not say
        (1, without_an_offset(1), EPOCH, False),
        (2, moved(good(2), 1), EPOCH, False),
        (1, moved(good(1), 2), EPOCH, False),  # it would reach into the next one
        (5, moved(good(5), 6), EPOCH, False),  # it would reach into the next segment
    ],
)
def test_a_header_that_rots_is_a_hole_although_no_crc_covers_it(
    number: int, other: bytes, epoch: int, is_good: bool
) -> None:
    segment = six()
    put(segment, number, other)
    end = TO_THE_END if number == 5 else (number + 1) * SIZE
    assert holes_of(segment, epoch=epoch) == ([] if is_good else [(number, number * SIZE, end)])


def test_an_epoch_of_0_is_one_that_the_history_names() -> None:
    segment = segment_of(*(good(number, leader_epoch=0) for number in range(3)))
    assert holes_of(segment, epoch=0) == []
    put(segment, 1, good(1, leader_epoch=1))
    assert holes_of(segment, epoch=0) == [(1, SIZE, 2 * SIZE)]


def test_a_length_beyond_the_end_is_no_batch_and_rotten_records_are_told_from_that() -> None:
    for wrong, reason in (
        (good(5)[:11] + bytes([good(5)[11] + 1]) + good(5)[12:], "no record batch that continues"),
        (rotten(good(5)), "CRC does not match"),
    ):
        segment = six()
        put(segment, 5, wrong)
        checked = check(segment)
        assert checked.hole is not None
        assert reason in checked.hole.reason


GAP = (good(0), good(1, records=3), good(7))
"""Offsets 4 to 6 are gone."""
GAP_BYTES = sum(map(len, GAP))


def test_a_gap_before_the_next_batch_or_the_end_is_none_in_the_bytes() -> None:
    assert holes_of(segment_of(*GAP, good(8))) == []
    assert holes_of(segment_of(*GAP)) == []
    grown = segment_of(*GAP)
    grown.file.pwrite(good(3), GAP_BYTES)  # written since, or left over: not looked at
    assert holes_of(grown) == []


@pytest.mark.parametrize("behind", [b"torn", bytes(70)])
def test_a_batch_behind_a_gap_is_good_although_what_follows_is_not(behind: bytes) -> None:
    assert holes_of(segment_of(*GAP, behind=behind)) == [(8, GAP_BYTES, TO_THE_END)]


def test_a_file_that_is_shorter_than_its_batches_is_a_hole_from_there_on() -> None:
    segment = segment_of(*GAP, good(8))
    segment.file.truncate(GAP_BYTES + 10)
    assert holes_of(segment) == [(8, GAP_BYTES, TO_THE_END)]


# ---- where a hole ends


@pytest.mark.parametrize(
    ("second", "ends_at"),
    [
        (good(2), 2),
        (rotten(good(2)), 3),
        (moved(good(2), 1), 3),
        (good(2, leader_epoch=EPOCH + 1), 3),
    ],
)
def test_a_hole_goes_up_to_the_next_batch_that_is_good_and_comes_later(second: bytes, ends_at: int) -> None:
    segment = six()
    put(segment, 1, rotten(good(1)))
    put(segment, 2, second)
    checked = check(segment, place=ScrubPlace(0, SIZE, 1))
    assert checked.hole is not None
    assert checked.hole[:5] == (0, SIZE, ends_at * SIZE, 1, ends_at)


def test_where_the_bad_batch_says_that_it_ends_comes_before_what_the_index_knows() -> None:
    segment = six(interval=3 * SIZE + 1)
    assert segment.index.positions_after(0) == [4 * SIZE]
    put(segment, 1, rotten(good(1)))
    assert holes_of(segment) == [(1, SIZE, 2 * SIZE)]
    put(segment, 1, moved(good(1), 0))
    assert holes_of(segment) == [(1, SIZE, 4 * SIZE)]


# ---- slices


def at(number: int) -> ScrubPlace:
    return ScrubPlace(0, number * SIZE, number)


def test_a_slice_tells_what_it_read_and_where_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = six()
    following = segment_of(good(6), base_offset=6, disk=segment.disk)  # type: ignore[arg-type]
    assert check(segment, place=at(1), end_offset=3) == CheckedSlice(None, 2 * SIZE)
    assert check(segment, place=at(1), bytes_max=SIZE + HEADER_BYTES + 3) == CheckedSlice(at(2), SIZE)
    assert check(segment, place=at(1), bytes_max=SIZE + 9) == CheckedSlice(at(2), SIZE)
    assert check(segment, place=at(1), bytes_max=1) == CheckedSlice(at(2), SIZE)
    assert check(segment, following, place=at(1)) == CheckedSlice(at(6), 5 * SIZE)
    assert check(segment, following, place=at(6)) == CheckedSlice(ScrubPlace(1, 0, 6), 0)
    assert check(segment, following, place=ScrubPlace(1, 0, 6)).size_bytes == SIZE
    assert check(segment, place=at(6)) == CheckedSlice(None, 0)
    assert check(segment, place=ScrubPlace(1, 0, 6)) == CheckedSlice(None, 0)
    monkeypatch.setattr(rot, "BATCHES_MAX", 2)
    rest = b"".join(map(good, range(3, 6)))
    assert check(segment, place=at(1)) == CheckedSlice(at(3)._replace(unchecked=rest), 2 * SIZE)


def test_a_slice_ends_before_a_batch_that_reaches_beyond_the_end_offset() -> None:
    segment = segment_of(good(0), good(1), good(2, records=3))
    assert check(segment, place=at(1), end_offset=4) == CheckedSlice(None, SIZE)
    segment = six()
    put(segment, 3, rotten(good(3)))
    assert check(segment, place=at(1), end_offset=3) == CheckedSlice(None, 2 * SIZE)


def test_a_slice_with_a_hole_goes_on_behind_it() -> None:
    segment = six()
    put(segment, 2, rotten(good(2)))
    checked = check(segment, place=at(1))
    assert checked.hole is not None
    assert checked == CheckedSlice(at(3), 2 * SIZE, checked.hole)
    put(segment, 5, rotten(good(5)))
    checked = check(segment, place=at(4), end_offset=50)
    assert checked.hole is not None
    assert checked == CheckedSlice(ScrubPlace(1, 0, 50), 2 * SIZE, checked.hole)


def test_a_place_that_is_gone_or_cut_begins_with_the_segment_that_is_there() -> None:
    segment = segment_of(*(good(number) for number in range(6, 9)), base_offset=6)
    put(segment, 0, rotten(good(6)))
    for place in (at(1), at(99), ScrubPlace(6, 99 * SIZE, 50)):
        checked = check(segment, place=place)
        assert checked.hole is not None
        assert checked.hole.first_offset == 6


def test_a_hole_that_is_known_is_passed_over_and_nothing_before_it() -> None:
    segment = six()
    segment.holes = (Hole(0, 2 * SIZE, 3 * SIZE, 2, 3, "known"),)
    assert check(segment, place=at(2)) == CheckedSlice(at(3), 0)
    put(segment, 0, rotten(good(0)))
    assert holes_of(segment) == [(0, 0, SIZE)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(position, length) of each read at rest from now on."""
    told: list[tuple[int, int]] = []

    def read(file: MemoryFile, length: int, position: int) -> bytes:
        told.append((position, length))
        return read_at_rest(file, length, position)

    monkeypatch.setattr(rot, "read_at_rest", read)
    return told


def test_a_slice_reads_what_it_is_asked_for(reads: list[tuple[int, int]]) -> None:
    check(six(), place=at(1), bytes_max=100)
    check(six(), place=at(1))
    assert reads == [(SIZE, 100), (SIZE, 5 * SIZE)]


def test_what_is_read_at_rest_comes_from_the_disk_and_stays_in_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = six()
    done: list[tuple[str, int, int]] = []
    pread, forget = MemoryFile.pread, MemoryFile.forget

    def read(file: MemoryFile, length: int, position: int) -> bytes:
        done.append(("read", length, position))
        return pread(file, length, position)

    def forget_pages(file: MemoryFile, length: int, position: int) -> None:
        done.append(("forget", length, position))
        forget(file, length, position)

    monkeypatch.setattr(MemoryFile, "pread", read)
    monkeypatch.setattr(MemoryFile, "forget", forget_pages)
    read_at_rest(segment.file, 100, 7)
    assert done == [("forget", 100, 7), ("read", 100, 7), ("forget", 100, 7)]


def test_a_rewritten_segment_is_read_again_only_if_its_crc_was_another(
    reads: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rot, "READ_AGAIN_BYTES", 100)
    segment = six()
    whole = segment.file.pread(6 * SIZE, 0)
    segment.crc = crc32c(whole)
    place = check(segment).place
    assert place == at(6)._replace(crc=segment.crc)
    assert check(segment, place=place) == CheckedSlice(None, 0)
    assert len(reads) == 1
    assert check(segment, place=at(6)._replace(crc=segment.crc ^ 1)) == CheckedSlice(None, 0)
    put(segment, 2, rotten(good(2)))
    assert check(segment, place=at(6)) == CheckedSlice(None, 0), "not all of it was read by this pass"
    with pytest.raises(CorruptLog, match="a compaction wrote") as raised:
        check(segment, place=at(6)._replace(crc=segment.crc ^ 1))
    assert (raised.value.base_offset, raised.value.position) == (0, 0)


def test_a_list_of_holes_that_can_not_be_read_is_an_error_and_no_empty_one() -> None:
    disk = MemoryDisk()
    disk.mkdir("/log")
    assert read_rotten(disk, "/log") == ()
    disk.open(f"/log/{ROTTEN_FILE}", create=True).pwrite(b"[[", 0)
    with pytest.raises(CorruptLog, match=ROTTEN_FILE):
        read_rotten(disk, "/log")
