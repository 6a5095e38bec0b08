"""What a reading of records tells of a segment's age, slice by slice, and when it is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.segment import Hole
from dataplane.storage.timestamp_reading import TimestampReading
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.storage import DIRECTORY, NO_TAIL, batch, new_log
from tests.kit.memory.disk import MemoryDisk

TIMES = [50, 900, 70, 60]
SIZE = len(batch(0, timestamp=50))
APPENDED_MS = 5_000


def unread() -> tuple[MemoryDisk, PartitionLog]:
    """Four batches of one size, from a leader that believed its producers."""
    disk, log = new_log(replace(NO_TAIL, segment_bytes=1 << 20))
    for offset, timestamp in enumerate(TIMES):
        add(log, offset, timestamp)
    return disk, log


def add(log: PartitionLog, offset: int, timestamp: int) -> None:
    encoded = batch(offset, timestamp=timestamp)
    log.append([decode_header(encoded)], [encoded], now_ms=APPENDED_MS)


def reading_of(log: PartitionLog) -> TimestampReading | None:
    return log.due_to_be_read(
        expiry_ms=10**6, retention_ms=1, retention_bytes=-1, high_watermark=log.log_end_offset
    )


@pytest.mark.parametrize(
    ("bytes_max", "slices"), [(1, 4), (SIZE, 4), (SIZE + 1, 2), (2 * SIZE, 2), (10**6, 1)]
)
def test_a_segment_is_as_young_as_its_youngest_record(bytes_max: int, slices: int) -> None:
    _, log = unread()
    reading = reading_of(log)
    assert reading is not None
    read = [log.read_timestamps(reading, bytes_max=bytes_max) for _ in range(slices)]
    assert read == [False] * (slices - 1) + [True]
    assert reading.settle()
    (segment,) = log.segments
    assert (segment.read_timestamp_ms, segment.latest_ms) == (900, 900)
    assert reading_of(log) is None, "once is enough"


@pytest.mark.parametrize("fault", ["rot", "a known hole"])
def test_a_segment_with_records_that_can_not_be_read_is_as_young_as_its_last_append(fault: str) -> None:
    disk, log = unread()
    (segment,) = log.segments
    if fault == "rot":
        disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", 4 * SIZE - 1)
    else:
        log.holes.note(Hole(0, SIZE, 2 * SIZE, 1, 2, "rotten"), log_start_offset=0)
    reading = reading_of(log)
    assert reading is not None
    assert log.read_timestamps(reading, bytes_max=10**6)
    assert reading.settle()
    assert segment.latest_ms == APPENDED_MS


def test_a_reading_of_a_segment_that_grew_meanwhile_is_not_believed() -> None:
    _, log = unread()
    reading = reading_of(log)
    assert reading is not None
    assert log.read_timestamps(reading, bytes_max=10**6)
    add(log, 4, 2_000)
    assert not reading.settle()
    assert reading_of(log) is not None
