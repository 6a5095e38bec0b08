"""What a scan finds in a file, and what readers find in segments: bounds, each found by a mutant that no
other test noticed (tests/mutation)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dataplane.core.log_port import TimestampHit
from dataplane.storage import reads, scan
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.reads import (
    COMPARED_MAX,
    find_max_timestamp,
    find_timestamp,
    last_batches,
    read_segments,
)
from dataplane.storage.scan import ScanStop, SegmentScan
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, CorruptBatch, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from tests.kit.dataplane.storage import NO_TAIL, append, batch, content, new_log
from tests.kit.memory.disk import MemoryDisk


def scanned(*parts: bytes, leader_epoch: int = -1) -> tuple[list[int], ScanStop, int]:
    """Base offsets of the batches that a scan accepts, why it stops, and where."""
    disk = MemoryDisk()
    file = disk.open("/file", create=True)
    file.pwrite(b"".join(parts), 0)
    found = SegmentScan(file, next_offset=0, leader_epoch=leader_epoch)
    return [header.base_offset for _, header in found], found.stop, found.position


BATCHES = [batch(offset, value=b"v" * (20 + 30 * offset)) for offset in range(6)]
EMPTY = seal_batch(decode_header(batch(6))._replace(record_count=0, batch_length=BATCH_LENGTH_MIN), b"")


def with_epoch(encoded: bytes, leader_epoch: int) -> bytes:
    """The CRC does not cover it."""
    return encoded[:12] + leader_epoch.to_bytes(4) + encoded[16:]


@pytest.mark.parametrize("chunk_bytes", [HEADER_BYTES, 100, len(BATCHES[0]), 200, 1_000_000])
def test_a_scan_finds_the_same_whatever_it_reads_at_once(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(scan, "SCAN_CHUNK_BYTES", chunk_bytes)
    whole, size = b"".join(BATCHES), sum(map(len, BATCHES))
    assert len(EMPTY) == HEADER_BYTES
    assert scanned(whole) == ([0, 1, 2, 3, 4, 5], ScanStop.END, size)
    assert scanned(whole, EMPTY) == ([0, 1, 2, 3, 4, 5, 6], ScanStop.END, size + HEADER_BYTES)
    assert scanned(whole, EMPTY[:-1]) == ([0, 1, 2, 3, 4, 5], ScanStop.TORN, size)
    assert scanned(whole[:-1]) == ([0, 1, 2, 3, 4], ScanStop.TORN, size - len(BATCHES[5]))
    assert scanned(whole, bytes(500)) == ([0, 1, 2, 3, 4, 5], ScanStop.ZEROS, size)
    assert scanned(whole, bytes(500), b"x") == ([0, 1, 2, 3, 4, 5], ScanStop.CORRUPT, size)
    rotten = whole[:-1] + bytes([whole[-1] ^ 1])
    assert scanned(rotten) == ([0, 1, 2, 3, 4], ScanStop.CORRUPT, size - len(BATCHES[5]))


def test_a_scan_reads_no_byte_twice_and_no_more_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SCAN_CHUNK_BYTES", 300)
    disk = MemoryDisk()
    file = disk.open("/file", create=True)
    file.pwrite(b"".join(BATCHES), 0)
    lengths: list[int] = []
    pread = file.pread

    def watched(length: int, position: int) -> bytes:
        lengths.append(length)
        return pread(length, position)

    monkeypatch.setattr(file, "pread", watched)
    assert len(list(SegmentScan(file, next_offset=0, leader_epoch=-1))) == 6
    assert max(lengths) <= 300
    assert len(lengths) <= 5


@pytest.mark.parametrize(
    ("second", "leader_epoch"),
    [
        (batch(1, records=2), 3),  # goes back in offset
        (batch(4, leader_epoch=2), 3),  # and in epoch
        (with_epoch(batch(4), 2), 3),
    ],
)
def test_a_scan_stops_at_what_does_not_continue_the_log(second: bytes, leader_epoch: int) -> None:
    first = batch(0, records=2, leader_epoch=3)
    assert scanned(first, with_epoch(batch(2, records=2), leader_epoch)) == (
        [0, 2],
        ScanStop.END,
        2 * len(first),
    )
    assert scanned(first, second) == ([0], ScanStop.CORRUPT, len(first))
    backwards = seal_batch(decode_header(first)._replace(last_offset_delta=-1), first[HEADER_BYTES:])
    assert scanned(backwards) == ([], ScanStop.CORRUPT, 0)
    assert scanned(first, leader_epoch=4) == ([], ScanStop.CORRUPT, 0)


# Reads.


ONE_SEGMENT = replace(NO_TAIL, segment_bytes=1_000_000, index_interval_bytes=1_000_000)


def logged(*batches: bytes, options: LogOptions = NO_TAIL) -> PartitionLog:
    _, log = new_log(options)
    for each in batches:
        append(log, each)
    return log


def test_a_read_ends_before_a_batch_that_reaches_beyond_its_end_or_its_limit() -> None:
    log = logged(batch(0), batch(1, records=3), batch(4))

    def read(
        offset: int, end_offset: int, *, max_bytes: int = 10_000, at_least_one: bool = True
    ) -> tuple[bytes, int]:
        piece = read_segments(
            log.segments, offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=at_least_one
        )
        return content(piece), piece.next_offset

    assert read(0, 3) == (batch(0), 1)
    assert read(1, 3) == (b"", 1)
    assert read(1, 4) == (batch(1, records=3), 4)
    assert read(0, 5, max_bytes=0, at_least_one=False) == (b"", 0)
    assert read(0, 5, max_bytes=0) == (batch(0), 1)
    assert read(5, 5) == (b"", 5)
    assert read(0, 0) == (b"", 0)


def test_a_log_that_begins_at_0_is_read_from_its_first_record() -> None:
    log = logged(batch(0, records=1))
    piece = read_segments(log.segments, 0, max_bytes=1, end_offset=1, at_least_one=True)
    assert (content(piece), piece.next_offset) == (batch(0), 1)


def test_an_offset_before_the_first_segment_is_looked_for_in_the_first() -> None:
    _, log = new_log(NO_TAIL)
    log.restart_at(10)
    append(log, batch(10))
    assert reads.segment_index(log.segments, 3) == 0


def offsets(found: object) -> list[int] | None:
    return None if found is None else [header.base_offset for header in found]  # type: ignore[attr-defined]


def test_the_last_batches_are_those_of_one_epoch_and_no_more_than_are_compared() -> None:
    count = 74
    log = logged(*(batch(offset, leader_epoch=offset // 70) for offset in range(count)), options=ONE_SEGMENT)

    def last(end: int, first: int | None = None) -> list[int] | None:
        return offsets(last_batches(log.segments, end, first_offset=first))

    assert last(count) == [70, 71, 72, 73]
    assert last(70) == list(range(70 - COMPARED_MAX, 70))
    assert last(count, 0) == list(range(COMPARED_MAX))
    assert last(count, 3) == list(range(3, 3 + COMPARED_MAX))
    assert last(5, 3) == [3, 4]
    few = logged(batch(0, records=3), batch(3, records=2))
    assert offsets(last_batches(few.segments, 5, first_offset=None)) == [0, 3]
    assert offsets(last_batches(few.segments, 4, first_offset=None)) == [0]
    assert offsets(last_batches(few.segments, 5, first_offset=2)) == [0, 3]


def at(*timestamps: int, base: int) -> bytes:
    records = [NewRecord(value=b"v" * 30, timestamp=timestamp) for timestamp in timestamps]
    return encode_batch(records, base_offset=base, leader_epoch=0)


def test_a_timestamp_is_found_between_the_log_start_and_the_end_that_is_asked() -> None:
    log = logged(at(50, 10, base=0), at(20, 30, base=2), at(5, base=4), at(30, 40, base=5), at(0, base=7))
    log.roll(now_ms=0)
    append(log, at(7, base=8))

    def found(timestamp: int, start: int, end: int) -> int | None:
        hit = find_timestamp(log.segments, timestamp, log_start_offset=start, end_offset=end)
        return None if hit is None else hit.offset

    assert [found(30, 0, end) for end in (9, 1, 0)] == [0, 0, None]
    assert [found(30, start, 9) for start in (1, 2, 3, 4, 6, 7)] == [3, 3, 3, 5, 6, None]
    assert [found(40, 1, end) for end in (6, 7)] == [None, 6]
    assert [found(7, start, 9) for start in (0, 7, 8)] == [0, 8, 8]
    assert found(7, 7, 8) is None

    def largest(start: int, end: int) -> tuple[int, int] | None:
        hit = find_max_timestamp(log.segments, log_start_offset=start, end_offset=end)
        return None if hit is None else (hit.offset, hit.timestamp_ms)

    assert [largest(start, 9) for start in (0, 1, 2, 3, 4)] == [(0, 50), (6, 40), (6, 40), (6, 40), (6, 40)]
    assert [largest(start, 9) for start in (7, 8)] == [(8, 7), (8, 7)]
    assert largest(7, 8) == (7, 0)
    assert [largest(1, end) for end in (4, 2)] == [(3, 30), (1, 10)]
    assert largest(9, 9) is None


def test_a_batch_of_nonsense_under_a_valid_crc_is_found_by_its_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = logged(at(10, 30, base=0), at(20, 25, base=2))

    def fails(_view: object) -> Callable[[], None]:
        raise CorruptBatch("nonsense")

    monkeypatch.setattr(reads, "iter_records", fails)
    for start, offset in ((0, 0), (1, 1)):
        hit = find_timestamp(log.segments, 15, log_start_offset=start, end_offset=4)
        assert hit == TimestampHit(offset, 30, LeaderEpoch(0))
        assert find_max_timestamp(log.segments, log_start_offset=start, end_offset=4) == hit
    assert find_timestamp(log.segments, 15, log_start_offset=2, end_offset=4) == TimestampHit(
        2, 25, LeaderEpoch(0)
    )
    assert find_timestamp(log.segments, 15, log_start_offset=2, end_offset=2) is None
    assert find_timestamp(log.segments, 28, log_start_offset=2, end_offset=4) is None
    assert find_max_timestamp(log.segments, log_start_offset=2, end_offset=4) == TimestampHit(
        2, 25, LeaderEpoch(0)
    )
    log = logged(at(5, base=0), at(20, base=1))
    assert find_timestamp(log.segments, 15, log_start_offset=0, end_offset=2) == TimestampHit(
        1, 20, LeaderEpoch(0)
    )
