"""A copy of what a truncation dropped is read by offset, exactly, and never silently short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.core.log_port import LogSlice
from dataplane.storage import divergent_log
from dataplane.storage.disk import File
from dataplane.storage.divergent import (
    DivergentCopy,
    copy_divergent,
    find_copy,
    is_copy_name,
    list_copies,
)
from dataplane.storage.divergent_log import DivergentLog, open_copy
from dataplane.storage.health import CorruptLog, DirectoryHealth
from dataplane.storage.recovery import OpenedLog
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import BATCH_LENGTH_MIN, decode_header, iter_headers
from springtide.wire.records import seal_batch
from tests.kit.dataplane.storage import TOPIC_ID, append, batch, open_log
from tests.kit.memory.disk import MemoryDisk

ASIDE = "/data/divergent"
NAME = f"orders-0.{TOPIC_ID}.{4:020d}-{18:020d}.0"


def disk_with_copy(sizes: list[int], *, first_offset: int, gaps: frozenset[int] = frozenset()) -> MemoryDisk:
    """Batches of three records each, of these value sizes, one offset missing before those in `gaps`."""
    disk = MemoryDisk()
    opened = open_log(disk)
    assert isinstance(opened, OpenedLog)
    offset = 0
    for number, size in enumerate(sizes):
        offset += number in gaps
        append(opened.log, batch(offset, records=3, value=b"v" * size))
        offset += 3
    written = copy_divergent(
        disk,
        ASIDE,
        opened.log,
        first_offset=first_offset,
        high_watermark=9,
        leader_epoch=LeaderEpoch(4),
        reason="unclean election",
        now_ms=1,
        health=DirectoryHealth("/data"),
    )
    assert isinstance(written, DivergentCopy)
    return disk


def opened_copy(disk: MemoryDisk) -> DivergentLog:
    (found,) = list_copies(disk, ASIDE)
    return open_copy(disk, found)


def ranges_of(piece: LogSlice) -> list[tuple[int, int]]:
    """[first offset, next offset) of each batch in a slice; the bytes must be whole batches."""
    data = b""
    for part in piece.parts:
        assert isinstance(part, FileChunk)
        file: File = part.source  # type: ignore[assignment]
        data += file.pread(part.length, part.position)
    assert len(data) == piece.size_bytes
    headers = [header for _, header in iter_headers(memoryview(data))]
    assert sum(header.size_bytes for header in headers) == len(data)
    return [(header.base_offset, header.next_offset) for header in headers]


def test_a_copy_is_found_by_its_name_which_tells_what_it_holds() -> None:
    disk = disk_with_copy([10] * 6, first_offset=4)
    assert [found.name for found in list_copies(disk, ASIDE)] == [NAME]
    assert is_copy_name(NAME)
    found = find_copy(disk, ASIDE, NAME)
    assert (found.range.first_offset, found.range.next_offset, found.range.high_watermark) == (4, 18, 9)
    with pytest.raises(FileNotFoundError):
        find_copy(disk, ASIDE, NAME.removesuffix("0") + "1")


@pytest.mark.parametrize(
    "name", ["", "orders", "../" + NAME, NAME + "/x", NAME + ".json", NAME + "\n", "a/" + NAME, "x" * 300]
)
def test_what_is_no_name_of_a_copy_is_never_looked_for_on_the_disk(name: str) -> None:
    assert not is_copy_name(name)


def test_reading_begins_with_the_batch_that_holds_the_offset_and_keeps_to_the_limit() -> None:
    log = opened_copy(disk_with_copy([10] * 6, first_offset=4))
    everything = log.read(4, max_bytes=1 << 20, at_least_one=True)
    assert ranges_of(everything) == [(3, 6), (6, 9), (9, 12), (12, 15), (15, 18)]
    assert everything.next_offset == 18
    size = everything.size_bytes // 5
    two = log.read(10, max_bytes=2 * size + 1, at_least_one=False)
    assert (ranges_of(two), two.next_offset) == ([(9, 12), (12, 15)], 15)
    assert log.read(10, max_bytes=size - 1, at_least_one=False) == LogSlice((), 0, 10)
    one = log.read(10, max_bytes=size - 1, at_least_one=True)
    assert (ranges_of(one), one.next_offset) == ([(9, 12)], 12)
    assert log.read(18, max_bytes=1 << 20, at_least_one=True) == LogSlice((), 0, 18)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 700), min_size=1, max_size=30),
    st.frozensets(st.integers(1, 29), max_size=5),
    st.integers(1, 5_000),
    st.data(),
)
def test_reads_of_any_size_give_every_batch_once_and_in_order(
    sizes: list[int], gaps: frozenset[int], max_bytes: int, data: st.DataObject
) -> None:
    """With an index of a few hundred bytes, so that reads meet its boundaries in all ways."""
    before, divergent_log.INDEX_INTERVAL_BYTES = divergent_log.INDEX_INTERVAL_BYTES, 500
    try:
        end = 3 * len(sizes) + len([gap for gap in gaps if gap < len(sizes)])
        first_offset = data.draw(st.integers(0, end - 1))
        log = opened_copy(disk_with_copy(sizes, first_offset=first_offset, gaps=gaps))
        whole = ranges_of(log.read(first_offset, max_bytes=1 << 30, at_least_one=True))
        assert whole[-1][1] == end
        assert whole[0][1] > first_offset
        position, seen = first_offset, []
        while position < end:
            piece = log.read(position, max_bytes=max_bytes, at_least_one=True)
            ranges = ranges_of(piece)
            assert ranges[0][1] > position
            assert len(ranges) == 1 or piece.size_bytes <= max_bytes
            assert ranges[-1][1] <= piece.next_offset
            seen += ranges
            position = piece.next_offset
        assert seen == whole
    finally:
        divergent_log.INDEX_INTERVAL_BYTES = before


@pytest.mark.parametrize("change", ["shorter", "flipped", "longer", "other range"])
def test_a_copy_that_is_not_what_was_written_is_not_opened(change: str) -> None:
    disk = disk_with_copy([10] * 6, first_offset=4)
    (found,) = list_copies(disk, ASIDE)
    file = disk.open(found.path)
    if change == "shorter":
        file.truncate(found.size_bytes - 1)
    elif change == "flipped":
        disk.flip_bit(found.path, found.size_bytes - 1)
    elif change == "longer":
        file.pwrite(batch(18), found.size_bytes)
    else:
        described = disk.open(found.path.replace(".batches", ".json"))
        text = described.pread(1 << 16, 0).replace(b'"next_offset": 18', b'"next_offset": 17')
        described.pwrite(text, 0)
        (found,) = list_copies(disk, ASIDE)
    with pytest.raises(CorruptLog):
        open_copy(disk, found)


def test_a_copy_that_is_cut_while_it_is_open_is_corrupt_and_not_short() -> None:
    disk = disk_with_copy([10] * 6, first_offset=4)
    log = opened_copy(disk)
    disk.open(log.path).truncate(70)
    with pytest.raises(CorruptLog, match="shorter"):
        log.read(17, max_bytes=1 << 20, at_least_one=True)


def test_a_description_of_absurd_size_is_not_read() -> None:
    disk = disk_with_copy([10], first_offset=0)
    (found,) = list_copies(disk, ASIDE)
    disk.open(found.path.replace(".batches", ".json")).truncate(1 << 20)
    told: list[CorruptLog] = []
    assert list_copies(disk, ASIDE, on_corrupt=told.append) == []
    assert "1048576 bytes" in str(told[0])


SIZE = len(batch(0, records=3, value=b"v" * 10))


@pytest.mark.parametrize("interval", [SIZE, 2 * SIZE, 2 * SIZE + 1, 3 * SIZE - 1])
def test_a_read_from_any_offset_begins_with_the_batch_that_comes_there(
    interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a gap between two stretches of the index, and behind a batch that is larger than a stretch."""
    monkeypatch.setattr(divergent_log, "INDEX_INTERVAL_BYTES", interval)
    sizes = [10] * 7 + [900] + [10] * 8
    log = opened_copy(disk_with_copy(sizes, first_offset=0, gaps=frozenset(range(1, 16))))
    whole = ranges_of(log.read(0, max_bytes=1 << 20, at_least_one=True))
    assert whole == [(4 * number, 4 * number + 3) for number in range(16)]
    assert log.read(63, max_bytes=1 << 20, at_least_one=True) == LogSlice((), 0, 63)
    size_bytes = log.read(0, max_bytes=1 << 20, at_least_one=True).size_bytes
    for offset in range(63):
        following = [found for found in whole if found[1] > offset]
        for max_bytes in (1, SIZE, SIZE + 1, 3 * SIZE):
            piece = log.read(offset, max_bytes=max_bytes, at_least_one=True)
            ranges = ranges_of(piece)
            assert ranges == following[: len(ranges)] != []
            assert len(ranges) == 1 or piece.size_bytes <= max_bytes
            assert following[len(ranges) - 1][1] <= piece.next_offset
            assert piece.next_offset <= (following[len(ranges) :] or [(64, 0)])[0][0]
    for less in (0, 1):
        assert len(ranges_of(log.read(0, max_bytes=size_bytes - less, at_least_one=True))) >= 16 - less * 3


def test_a_copy_ends_with_a_batch_that_a_compaction_left_empty() -> None:
    disk = disk_with_copy([10] * 3, first_offset=4)
    (found,) = list_copies(disk, ASIDE)
    header = decode_header(batch(9, records=3))
    empty = seal_batch(header._replace(batch_length=BATCH_LENGTH_MIN, record_count=0), b"")
    disk.open(found.path).pwrite(empty, found.size_bytes)
    described = replace(found.range, next_offset=12)
    log = open_copy(disk, replace(found, size_bytes=found.size_bytes + len(empty), range=described))
    assert ranges_of(log.read(9, max_bytes=1, at_least_one=True)) == [(9, 12)]
    with pytest.raises(CorruptLog, match="good bytes"):
        open_copy(disk, found)


def test_a_read_below_a_copy_begins_with_it_and_what_rots_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergent_log, "INDEX_INTERVAL_BYTES", SIZE)
    disk = disk_with_copy([10] * 6, first_offset=9)
    log = opened_copy(disk)
    assert ranges_of(log.read(0, max_bytes=1, at_least_one=True)) == [(9, 12)]
    disk.open(log.path).pwrite(bytes(61), 2 * SIZE)
    with pytest.raises(CorruptLog, match="no record batch here any more"):
        log.read(17, max_bytes=1, at_least_one=True)
