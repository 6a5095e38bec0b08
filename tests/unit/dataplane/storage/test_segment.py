"""One segment: what a search reads and finds, what an index may lie about, what is known after a cut."""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from random import Random

import pytest

from dataplane.storage.health import CorruptLog
from dataplane.storage.index import ENTRY_BYTES, POSITION_MAX, RELATIVE_OFFSET_MAX, START
from dataplane.storage.segment import (
    NEAR_ENOUGH,
    WALK_CHUNK_BYTES_MAX,
    WALK_CHUNK_BYTES_MIN,
    Segment,
    create_segment,
    index_path,
    log_path,
    open_segment,
    unlink_segment,
)
from springtide.wire.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, decode_header
from springtide.wire.records import seal_batch
from tests.kit.dataplane.storage import batch
from tests.kit.memory.disk import MemoryDisk, MemoryFile

BASE = 1_000
INTERVAL = 2_048
LOG, INDEX = log_path("/log", BASE), index_path("/log", BASE)


def sized(offset: int, size_bytes: int, *, timestamp: int = 1_000) -> bytes:
    """A batch of one record and exactly so many bytes; at HEADER_BYTES one that a compaction left empty."""
    if size_bytes == HEADER_BYTES:
        header = decode_header(batch(offset, timestamp=timestamp))
        return seal_batch(header._replace(batch_length=BATCH_LENGTH_MIN, record_count=0), b"")
    for value in range(size_bytes):
        encoded = batch(offset, value=b"v" * (size_bytes - HEADER_BYTES - value), timestamp=timestamp)
        if len(encoded) <= size_bytes:
            break
    assert len(encoded) == size_bytes, "no record has this size"
    return encoded


def segment_of(
    *batches: bytes, interval: int = INTERVAL, base_offset: int = BASE, disk: MemoryDisk | None = None
) -> Segment:
    disk = disk or MemoryDisk()
    disk.mkdir("/log")
    segment = create_segment(disk, "/log", base_offset=base_offset, index_interval_bytes=interval, now_ms=3)
    for encoded in batches:
        segment.append([decode_header(encoded)], [encoded], now_ms=4)
    return segment


def reopened(segment: Segment) -> Segment:
    return open_segment(
        segment.disk, "/log", base_offset=segment.base_offset, index_interval_bytes=INTERVAL, now_ms=3
    )


def many(count: int = 300, *, seed: int = 1) -> list[bytes]:
    random = Random(seed)
    return [
        batch(BASE + number, value=b"v" * random.randint(200, 500), timestamp=1_000 + number)
        for number in range(count)
    ]


def ends_of(batches: list[bytes]) -> list[int]:
    return list(accumulate(map(len, batches), initial=0))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(position, length) of each read from now on."""
    told: list[tuple[int, int]] = []
    pread = MemoryFile.pread

    def heard(file: MemoryFile, length: int, position: int) -> bytes:
        assert length >= 0
        told.append((position, length))
        return pread(file, length, position)

    monkeypatch.setattr(MemoryFile, "pread", heard)
    return told


# ---- appends


def test_an_append_of_several_pieces_is_written_and_its_times_are_noted() -> None:
    segment = segment_of()
    assert (segment.first_append_ms, segment.last_append_ms) == (3, 3)
    for now_ms, encoded in ((5, batch(BASE)), (9, batch(BASE + 1))):
        segment.append([decode_header(encoded)], [encoded[:16], memoryview(encoded)[16:]], now_ms=now_ms)
    assert segment.file.pread(1_000, 0) == batch(BASE) + batch(BASE + 1)
    assert (segment.first_append_ms, segment.last_append_ms) == (5, 9)


def test_an_index_entry_comes_with_the_first_batch_beyond_the_interval() -> None:
    encoded = [batch(BASE + number, timestamp=500 - number) for number in range(8)]
    size = len(encoded[0])
    for interval, positions in ((2 * size, [2, 4, 6]), (2 * size + 1, [3, 6]), (size, [1, 2, 3, 4, 5, 6, 7])):
        segment = segment_of(*encoded, interval=interval)
        assert segment.index.positions_after(0) == [size * number for number in positions]
        last = segment.index.last()
        assert (last.relative_offset, last.max_timestamp_before_ms) == (positions[-1], 500)


def test_a_batch_without_records_has_no_time_of_its_own() -> None:
    empty = sized(BASE + 1, HEADER_BYTES, timestamp=7_000)
    assert segment_of(batch(BASE), empty).max_timestamp_ms == 1_000
    assert [segment_of(each).latest_ms for each in (batch(BASE, timestamp=0), empty)] == [0, 4]


def test_a_segment_has_room_as_long_as_the_index_can_say_where_a_batch_is() -> None:
    segment = segment_of(*many(20))
    header = decode_header(batch(BASE + 20))
    more = RELATIVE_OFFSET_MAX - 21
    known = segment.index.size_bytes
    for offset, size_bytes, index_bytes_max, has_room in (
        (BASE + 20 + more, 100, known + 1, True),
        (BASE + 21 + more, 100, known + 1, False),
        (BASE + 20, POSITION_MAX - segment.size_bytes, known + 1, True),
        (BASE + 20, POSITION_MAX - segment.size_bytes + 1, known + 1, False),
        (BASE + 20, 100, known, False),
    ):
        moved = header._replace(base_offset=offset)
        assert segment.has_room_for(moved, size_bytes, index_bytes_max=index_bytes_max) is has_room


def test_what_an_earlier_segment_of_the_name_held_is_gone() -> None:
    disk = MemoryDisk()
    disk.mkdir("/log")
    disk.open(LOG, create=True).pwrite(b"left over", 0)
    segment = segment_of(disk=disk)
    assert disk.content(LOG) == b""
    segment.close_index()
    segment.fsync()
    assert disk.synced_paths == [LOG, INDEX]
    unlink_segment(disk, "/log", BASE)
    assert disk.files() == []


# ---- searches


def test_a_range_ends_at_the_last_boundary_or_at_an_entry_of_the_index_near_it() -> None:
    batches = many(100)
    ends, segment = ends_of(batches), segment_of(*batches)
    entries = set(segment.index.positions_after(0))
    for after in (ends[0], ends[1], ends[47], ends[100]):
        for end_offset in (BASE, BASE + 1, BASE + 50, BASE + 99, BASE + 100, BASE + 999):
            for position_max in [end + more for end in (*ends[::4], ends[-1]) for more in (-1, 0, 200)]:
                fitting = [
                    (end, BASE + number)
                    for number, end in enumerate(ends)
                    if after < end <= position_max and BASE + number <= end_offset
                ]
                best = fitting[-1] if fitting else (after, -1)
                found = segment.boundary_before(position_max, after=after, end_offset=end_offset)
                assert found == best or (
                    found in fitting
                    and found[0] in entries
                    and position_max - found[0] <= (found[0] - after) // NEAR_ENOUGH
                )


def test_a_long_range_costs_a_look_at_its_end(reads: list[tuple[int, int]]) -> None:
    batches = many()
    ends, segment = ends_of(batches), segment_of(*batches)
    entry = segment.index.positions_after(28_000)[0]
    near = entry + entry // NEAR_ENOUGH
    offset = BASE + ends.index(entry)
    everything = BASE + len(batches)
    assert segment.boundary_before(near, after=0, end_offset=everything) == (entry, offset)
    last = max(end for end in ends if end <= near + 1)
    beyond = (last, BASE + ends.index(last))
    assert beyond > (entry, offset)
    assert segment.boundary_before(near + 1, after=0, end_offset=everything) == beyond
    assert segment.boundary_before(ends[-1], after=0, end_offset=offset) == (entry, offset)
    assert len(reads) == 3
    assert {length for _, length in reads} == {WALK_CHUNK_BYTES_MIN}
    assert segment.boundary_before(ends[-1], after=0, end_offset=everything) == (ends[-1], everything)
    assert segment.boundary_before(ends[-1], after=ends[-1], end_offset=everything) == (ends[-1], -1)
    assert len(reads) == 3, "nothing is read for the whole"
    assert segment.boundary_before(5, after=0, end_offset=everything) == (0, -1)


def test_a_search_reads_a_piece_behind_an_index_entry(reads: list[tuple[int, int]]) -> None:
    batches = many()
    ends, segment = ends_of(batches), segment_of(*batches)
    for number in (0, 5, 130, 299):
        found = segment.find(BASE + number)
        assert found is not None
        assert found[0] == ends[number]
    assert [min(length, ends[-1] - position) == length for position, length in reads] == [True] * 4
    assert max(length for _, length in reads) == WALK_CHUNK_BYTES_MIN > reads[-1][1]
    assert segment.find(BASE + 300) is None


def test_boundaries_before_an_offset_or_a_time_and_stretches_are_those_of_the_index() -> None:
    batches = many()
    ends, segment = ends_of(batches), segment_of(*batches)
    entries = [0, *segment.index.positions_after(0)]
    for before, entry in pairwise(entries):
        number = ends.index(entry)
        assert segment.boundary_at(BASE + number) == entry
        assert segment.boundary_at(BASE + number, is_wide=True) == before
        assert segment.boundary_at(BASE + number - 1) == before
        assert segment.timestamp_start(1_000 + number) == entry
        assert segment.offset_at(entry) == BASE + number
    assert segment.boundary_at(BASE + 1, is_wide=True) == 0
    stretches = list(segment.stretches_back())
    assert [stretch[0][0] for stretch in stretches] == entries[::-1]
    assert sum(map(len, stretches)) == len(batches)
    for end in (0, 1, 40, 299, 300, 301):
        expected = max((1_000 + number for number in range(min(end, 300))), default=-1)
        assert segment.max_timestamp_below(BASE + end) == expected


# ---- walks


def lengths_of_a_walk(sizes: list[int], reads: list[tuple[int, int]]) -> list[int]:
    segment = segment_of(*(sized(BASE + number, size) for number, size in enumerate(sizes)))
    reads.clear()
    assert [header.size_bytes for _, header in segment.walk()] == sizes
    return [length for _, length in reads]


def test_a_walk_reads_much_at_once_between_small_batches_and_little_between_large_ones(
    reads: list[tuple[int, int]],
) -> None:
    least, most = WALK_CHUNK_BYTES_MIN, WALK_CHUNK_BYTES_MAX
    rest = 128 * 3
    count = (2 * most + 5 * least + rest) // 128
    assert lengths_of_a_walk([128] * count, reads) == [least, 4 * least, most, most, rest]
    large = 2 * least
    assert lengths_of_a_walk([large] * 3, reads) == [least] * 3, "what lies two pieces on is not near"
    assert lengths_of_a_walk([large - 1] * 4, reads) == [least, 4 * least, large - 1]
    assert lengths_of_a_walk([large - 1, 128, 9 * least, 128], reads) == [least, 4 * least, 128]
    assert lengths_of_a_walk([least - HEADER_BYTES, HEADER_BYTES], reads) == [least]
    assert lengths_of_a_walk([large, HEADER_BYTES], reads) == [least, HEADER_BYTES]


@pytest.mark.parametrize(
    ("size_bytes", "file_bytes", "reason"),
    [
        (210, 210, "fewer bytes than a header"),
        (199, 200, "no record batch here"),
        (200, 130, "shorter than what was written"),
        (300, 300, "no record batch here"),  # zeros
    ],
)
def test_a_walk_over_what_is_no_batch_is_never_quietly_short(
    size_bytes: int, file_bytes: int, reason: str
) -> None:
    segment = segment_of(sized(BASE, 100), sized(BASE + 1, 100))
    segment.file.truncate(file_bytes)
    segment.size_bytes = size_bytes
    with pytest.raises(CorruptLog, match=reason):
        list(segment.walk())


# ---- the index as a hint


def set_entry(disk: MemoryDisk, number: int, *, offset: int, position: int) -> None:
    disk.open(INDEX).pwrite(struct.pack(">II", offset, position), number * ENTRY_BYTES)


@pytest.mark.parametrize("position", [9_999, 2**31], ids=["no boundary", "beyond the end"])
def test_a_search_that_an_index_misleads_finds_what_is_there_and_mends_the_index(
    position: int, reads: list[tuple[int, int]]
) -> None:
    disk = MemoryDisk()
    batches = many(60)
    segment = segment_of(*batches, disk=disk)
    segment.close_index()
    good = bytes(disk.content(INDEX))
    set_entry(disk, len(good) // ENTRY_BYTES - 1, offset=57, position=position)
    for _ in range(2):
        reads.clear()
        found = segment.find(BASE + 58)
        assert found is not None
        assert found[0] == ends_of(batches)[58]
    assert sum(length for _, length in reads) <= WALK_CHUNK_BYTES_MIN + len(good)
    assert disk.content(INDEX) == good
    assert not segment.index.is_in_memory


def test_an_index_in_memory_stays_there_when_it_is_made_again() -> None:
    segment = segment_of(*many(60))
    entries = segment.index.positions_after(0)
    segment.rebuild_index()
    assert segment.index.is_in_memory
    assert segment.index.positions_after(0) == entries
    assert not segment.disk.exists(INDEX)


def test_an_entry_is_believed_if_the_batch_that_it_tells_of_is_there_whole() -> None:
    batches = many(60)
    segment = segment_of(*batches)
    entry = segment.index.last()
    assert segment.agrees_with(entry)
    for offset in (entry.relative_offset - 1, entry.relative_offset + 1):
        assert not segment.agrees_with(entry._replace(relative_offset=offset))
    for size_bytes, agrees in ((HEADER_BYTES, True), (HEADER_BYTES - 1, False), (10, False), (0, False)):
        segment.size_bytes = entry.position + size_bytes
        assert segment.agrees_with(entry) is agrees
    segment.size_bytes = ends_of(batches)[-1]
    for magic in (1, 3):
        segment.file.pwrite(bytes([magic]), entry.position + 16)
        assert not segment.agrees_with(entry)
    segment.file.truncate(entry.position + 20)
    assert not segment.agrees_with(entry), "the file is shorter than what was written to it"


@pytest.mark.parametrize("index", ["whole", "missing", "torn", "lies"])
def test_a_segment_that_is_opened_knows_what_it_knew(index: str, reads: list[tuple[int, int]]) -> None:
    batches = many()
    segment = segment_of(*batches)
    segment.close_index()
    disk = segment.disk
    assert isinstance(disk, MemoryDisk)
    good = bytes(disk.content(INDEX))
    if index == "missing":
        disk.unlink(INDEX)
    elif index == "torn":
        disk.open(INDEX).truncate(len(good) - 1)
    elif index == "lies":
        set_entry(disk, len(good) // ENTRY_BYTES - 1, offset=299, position=90_000)
    reads.clear()
    again = reopened(segment)
    assert (again.size_bytes, again.next_offset) == (segment.size_bytes, segment.next_offset)
    assert again.max_timestamp_ms == segment.max_timestamp_ms == 1_299
    assert not again.index.is_in_memory
    assert disk.content(INDEX) == good
    is_quick = sum(length for _, length in reads) < 2 * WALK_CHUNK_BYTES_MIN + len(good)
    assert is_quick is (index == "whole")


def test_an_empty_segment_is_opened_empty() -> None:
    segment = segment_of()
    segment.close_index()
    again = reopened(segment)
    assert (again.size_bytes, again.next_offset, again.index.last()) == (0, BASE, START)


# ---- cuts


@pytest.mark.parametrize("kept", [0, 1, 9, 60])
def test_a_segment_that_was_cut_or_closed_goes_on_as_if_it_had_been_written_so(kept: int) -> None:
    batches = [batch(BASE + n, value=b"v" * 300, timestamp=5_000 - n) for n in range(60)]
    others = [batch(BASE + n, value=b"o" * 250, timestamp=9_000 + n) for n in range(kept, 70)]
    fresh, cut = segment_of(*batches[:kept]), segment_of(*batches)
    cut.crc = 77
    cut.truncate(fresh.size_bytes)
    closed = segment_of(*batches[:kept])
    closed.close_index()
    closed = reopened(closed)
    closed.reopen_for_append()
    for segment in (cut, closed):
        assert (segment.size_bytes, segment.next_offset, segment.max_timestamp_ms, segment.crc) == (
            fresh.size_bytes,
            fresh.next_offset,
            fresh.max_timestamp_ms,
            None,
        )
    for encoded in others:
        for segment in (fresh, cut, closed):
            segment.append([decode_header(encoded)], [encoded], now_ms=9)
    for segment in (cut, closed):
        assert segment.index.positions_after(0) == fresh.index.positions_after(0)
        assert segment.index.last() == fresh.index.last()
