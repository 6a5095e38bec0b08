"""What the checkpoints of a directory say of its logs, and the other small files there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from dataplane.core.titles import with_title
from dataplane.storage.checked_json import encode_checked
from dataplane.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    PartitionKey,
    read_checkpoint,
    read_title,
    write_checkpoint,
)
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.partition_file import PARTITION_FILE, read_partition
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.stored_offsets import StoredOffsets
from tests.kit.dataplane.storage import PARTITION, TOPIC_ID, append, batch, new_log
from tests.kit.memory.disk import MemoryDisk

KEY, GONE, DAMAGED = (TOPIC_ID, 0), (TOPIC_ID, 1), (TOPIC_ID, 2)
MARK = "/data/mount-mark"


@dataclass
class Stored:
    """A directory with one log of five records."""

    disk: MemoryDisk
    log: PartitionLog
    logs: dict[PartitionKey, PartitionLog]
    operations: list[str] = field(default_factory=list)

    def open(self) -> StoredOffsets:
        mark = self.disk.open(MARK, create=True)
        return StoredOffsets(self.disk, DirectoryHealth("/data"), self.logs, mark)

    def file(self, name: str) -> dict[PartitionKey, int]:
        return read_checkpoint(self.disk, "/data", name).offsets


@pytest.fixture
def stored() -> Stored:
    disk, log = new_log()
    append(log, batch(0, records=5))
    found = Stored(disk, log, {KEY: log})
    disk.on_operation = lambda operation, _path, is_done: found.operations.append(operation)
    return found


def test_what_is_said_of_logs_that_are_not_here_is_forgotten_once_all_are_loaded(stored: Stored) -> None:
    for name, of_the_log in ((HIGH_WATERMARKS, 9), (RECOVERY_POINTS, 0), (LOG_STARTS, 0)):
        write_checkpoint(stored.disk, "/data", name, {KEY: of_the_log, GONE: 3, DAMAGED: 4})
    offsets = stored.open()
    assert [offsets.high_watermark(key) for key in (KEY, GONE, DAMAGED)] == [9, 3, 4]
    assert offsets.checkpoint_high_watermarks({KEY: 2})
    assert stored.file(HIGH_WATERMARKS) == {KEY: 2, GONE: 3, DAMAGED: 4}  # not loaded yet, or never
    offsets.damaged[DAMAGED] = "/data/damaged"
    offsets.finish_loading()
    assert stored.file(RECOVERY_POINTS) == {KEY: 0, DAMAGED: 4}
    assert (offsets.high_watermark(GONE), offsets.recovery_point(GONE), offsets.log_start(GONE)) == (0, 0, 0)
    offsets.settle_forgotten()
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS):
        assert stored.file(name).keys() == {KEY, DAMAGED}
    stored.operations.clear()
    offsets.settle_forgotten()
    assert stored.operations == []
    del stored.logs[KEY]
    offsets.checkpoint_high_watermarks({})
    assert stored.file(HIGH_WATERMARKS) == {DAMAGED: 4}


def test_a_log_is_not_said_to_be_committed_beyond_its_end(stored: Stored) -> None:
    write_checkpoint(stored.disk, "/data", HIGH_WATERMARKS, {KEY: 9})
    offsets = stored.open()
    offsets.finish_loading()
    assert offsets.high_watermark(KEY) == 5
    append(stored.log, batch(9))
    stored.log.truncate_to(7)  # a gap: the next opening finds the end of the last batch
    for high_watermark, kept in ((7, 5), (5, 5), (4, 4)):
        offsets.checkpoint_high_watermarks({KEY: high_watermark})
        assert stored.file(HIGH_WATERMARKS) == {KEY: kept}


def test_a_log_of_which_nothing_is_stored_has_no_high_watermark(stored: Stored) -> None:
    stored.log.restart_at(0)
    offsets = stored.open()
    stored.operations.clear()
    offsets.settle_forgotten()
    assert stored.operations == []
    offsets.finish_loading()
    offsets.lower_high_watermark(PARTITION, 0)
    assert offsets.high_watermark(KEY, 7) == 7


def test_a_cut_lowers_what_is_stored_at_once_and_what_was_read_before_it_is_not_stored(
    stored: Stored,
) -> None:
    offsets = stored.open()
    offsets.finish_loading()
    cuts = offsets.cuts
    assert offsets.checkpoint_high_watermarks({KEY: 5}, cuts=cuts)
    stored.operations.clear()
    offsets.lower_high_watermark(PARTITION, 5)
    assert stored.operations == []
    offsets.lower_high_watermark(PARTITION, 3)
    assert stored.file(HIGH_WATERMARKS) == {KEY: 3}
    assert not offsets.checkpoint_high_watermarks({KEY: 5}, cuts=cuts)
    assert stored.file(HIGH_WATERMARKS) == {KEY: 3}


def test_what_is_known_of_a_log_that_is_taken_up_is_stored_and_its_mount_mark_stays_in_use(
    stored: Stored,
) -> None:
    offsets = stored.open()
    offsets.finish_loading()
    stored.log.durability.flush()
    stored.log.advance_log_start(2)
    offsets.bring_back(KEY, high_watermark=4)
    found = [stored.file(name) for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)]
    assert found == [{KEY: 4}, {KEY: 5}, {KEY: 2}]
    assert bytes(stored.disk.content(MARK)) == b"\n"
    again = stored.open()
    assert (again.high_watermark(KEY), again.recovery_point(KEY), again.log_start(KEY)) == (4, 5, 2)
    again.forget(KEY)
    assert (again.high_watermark(KEY), again.recovery_point(KEY), again.log_start(KEY)) == (0, 0, 0)


def test_a_checkpoint_that_can_not_be_read_is_told_of(stored: Stored) -> None:
    assert stored.open().problems == []
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        write_checkpoint(stored.disk, "/data", name, {KEY: 1})
    stored.disk.content(f"/data/{HIGH_WATERMARKS}")[-2] ^= 1
    stored.disk.content(f"/data/{RECOVERY_POINTS}")[:] = with_title(RECOVERY_POINTS, b"topic 0 many\n")
    offsets = stored.open()
    assert [problem.partition(":")[0] for problem in offsets.problems] == [HIGH_WATERMARKS, RECOVERY_POINTS]
    assert (offsets.high_watermark(KEY), offsets.recovery_point(KEY)) == (0, 0)
    assert read_title(stored.disk, "/data", HIGH_WATERMARKS) == ""
    assert read_title(stored.disk, "/data", RECOVERY_POINTS).startswith(RECOVERY_POINTS)
    assert read_title(stored.disk, "/data", LOG_STARTS) == ""


@pytest.mark.parametrize("field_name", PARTITION._fields)
@pytest.mark.parametrize("value", [None, 1.5, [], "left out"])
def test_a_directory_that_does_not_say_which_partition_it_holds_is_refused(
    field_name: str, value: Any
) -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    file = disk.open(f"/data/{PARTITION_FILE}", create=True)
    fields = {**PARTITION._asdict(), field_name: value}
    if value == "left out":
        del fields[field_name]
    file.pwrite(encode_checked(fields), 0)
    with pytest.raises(LogDirRefused, match="lacks a field"):
        read_partition(disk, "/data")
    file.pwrite(encode_checked(PARTITION._asdict()), 0)
    file.truncate(len(encode_checked(PARTITION._asdict())))
    assert read_partition(disk, "/data") == PARTITION
