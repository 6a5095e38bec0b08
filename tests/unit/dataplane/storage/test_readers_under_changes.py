"""Threads that read a log while the loop changes it, at each operation on the disk that the change makes.
They are told to look again, and take no file that is gone for a failure of the disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.rot import ScrubPlace
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import NO_TAIL, append, at_each_operation, batch, open_log, opened, read_all
from tests.kit.memory.disk import MemoryDisk

COUNT = 30


def scrub(log: PartitionLog) -> None:
    place: ScrubPlace | None = ScrubPlace(0, 0, 0)
    while place is not None:
        checked = log.holes.check(place, end_offset=COUNT, bytes_max=200)
        assert checked.hole is None
        place = checked.place


def look_up(log: PartitionLog) -> None:
    log.find_timestamp(COUNT - 1, end_offset=COUNT)


def copy(log: PartitionLog) -> None:
    log.read_in_thread(log.log_start_offset, max_bytes=10_000, end_offset=log.log_end_offset)


def delete(log: PartitionLog) -> None:
    log.advance_log_start(12)
    log.unlink_detached(log.detach_old_segments())


CHANGES: dict[str, Callable[[PartitionLog], None]] = {
    "deletion": delete,
    "cut within a segment": lambda log: log.truncate_to(COUNT - 1),
    "cut of segments": lambda log: log.truncate_to(3),
    "restart": lambda log: log.restart_at(100),
}


@pytest.mark.parametrize("read", [scrub, look_up, copy], ids=lambda read: read.__name__)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_reader_that_comes_while_the_log_is_changed_looks_again(
    change: Callable[[PartitionLog], None], read: Callable[[PartitionLog], None]
) -> None:
    disk = MemoryDisk()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, options=NO_TAIL))
    for offset in range(COUNT):
        append(log, batch(offset, timestamp=offset, value=b"v" * 60))
    assert len(log.segments) > 4
    with at_each_operation(disk, lambda: read(log)) as operations:
        change(log)
    assert operations
    read(log)
    append(log, batch(log.log_end_offset, leader_epoch=1))
    assert read_all(log), "the directory has not failed"
