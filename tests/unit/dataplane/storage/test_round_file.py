"""What a log keeps of its rounds of compaction: when it is written, durable, and forgotten."""

from __future__ import annotations

from random import Random

import pytest

from dataplane.core.compaction.known import KnownRounds
from dataplane.storage.health import CorruptLog, DirectoryHealth, LogHealth
from dataplane.storage.round_file import (
    COPIED_FILE,
    ROUNDS_FILE,
    RoundFile,
    StoredRounds,
    read_rounds,
    read_whole_from,
)
from springtide.wire.fetch_response import Compacted
from tests.kit.memory.disk import MemoryDisk

LOG = "/log"
COPIED, ROUNDS = f"{LOG}/{COPIED_FILE}", f"{LOG}/{ROUNDS_FILE}"


def file_on(disk: MemoryDisk, *, floor_known: int = 0, whole_from: int = 0) -> RoundFile:
    """As after a start that found this."""
    disk.mkdir(LOG)
    disk.fsync_dir("")
    rounds = KnownRounds.restored(None, reaches=0, floor=0, floor_known=floor_known, whole_from=whole_from)
    return RoundFile(disk, LogHealth(disk, LOG, DirectoryHealth("")), rounds)


def tell(file: RoundFile, floor: int, end: int, *, log_end_offset: int) -> None:
    file.note_told(Compacted(floor, end), log_start_offset=0, log_end_offset=log_end_offset)


def operations(disk: MemoryDisk) -> list[str]:
    """Hears of all operations from now on."""
    told: list[str] = []
    disk.on_operation = lambda operation, path, is_done: (
        told.append(f"{operation} {path}") if is_done else None
    )
    return told


def after_power_cuts(disk: MemoryDisk) -> list[tuple[StoredRounds | None, int]]:
    images = [disk.power_cut_image(Random(seed)) for seed in range(20)]
    return [(read_rounds(image, LOG), read_whole_from(image, LOG)) for image in images]


def test_what_the_leaders_log_lacks_is_durable_at_once_and_stored_once() -> None:
    disk = MemoryDisk()
    file = file_on(disk)
    tell(file, 0, 10, log_end_offset=10)
    assert disk.files() == [], "the log has all of it already"
    tell(file, 0, 12, log_end_offset=11)
    assert set(after_power_cuts(disk)) == {(StoredRounds(), 12)}
    told = operations(disk)
    tell(file, 0, 12, log_end_offset=11)
    tell(file, 0, 9, log_end_offset=8)
    assert told == []
    tell(file, 0, 13, log_end_offset=11)
    assert read_whole_from(disk, LOG) == 13


def test_a_floor_that_is_told_is_durable_with_the_next_flush() -> None:
    disk = MemoryDisk()
    file = file_on(disk)
    assert not file.fsync(), "nothing was written"
    tell(file, 3, 0, log_end_offset=4)
    assert read_rounds(disk, LOG) == StoredRounds(floor_known=3)
    assert file.fsync()
    disk.fsync_dir(LOG)
    assert set(after_power_cuts(disk)) == {(StoredRounds(floor_known=3), 0)}
    assert not file.fsync()
    tell(file, 4, 0, log_end_offset=4)
    file.on_syncing()
    assert not file.fsync(), "it was synced with other logs' files"


def test_a_log_that_starts_over_has_neither_file_s_content_and_is_told_anew() -> None:
    disk = MemoryDisk()
    file = file_on(disk)
    tell(file, 3, 12, log_end_offset=11)
    file.clear()
    assert (file.rounds.floor_known, file.rounds.whole_from) == (0, 0)
    assert (read_rounds(disk, LOG), read_whole_from(disk, LOG)) == (StoredRounds(), 0)
    tell(file, 0, 1, log_end_offset=0)
    assert read_whole_from(disk, LOG) == 1


def test_a_log_that_lost_its_end_to_a_crash_may_start_over() -> None:
    """It knows by itself what it may lack (KnownRounds.on_cut); no leader's log said so."""
    disk = MemoryDisk()
    file_on(disk, whole_from=7).clear()
    assert disk.files() == []


@pytest.mark.parametrize("is_torn", [False, True])
def test_after_a_recovery_the_file_says_durably_what_is_known(is_torn: bool) -> None:
    disk = MemoryDisk()
    before = file_on(disk)
    before.settle()
    assert (disk.files(), before.fsync()) == ([], False)
    tell(before, 3, 0, log_end_offset=4)
    if is_torn:
        disk.flip_bit(ROUNDS, 5)
        assert read_rounds(disk, LOG) is None
    file = file_on(disk, floor_known=3)
    file.settle()
    if file.fsync():
        assert not is_torn, "it was made again"
        disk.fsync_dir(LOG)
    assert set(after_power_cuts(disk)) == {(StoredRounds(floor_known=3), 0)}


def test_bytes_that_rot_do_not_make_a_log_whole() -> None:
    disk = MemoryDisk()
    tell(file_on(disk), 0, 12, log_end_offset=11)
    disk.flip_bit(COPIED, disk.open(COPIED).size_bytes() - 3)
    with pytest.raises(CorruptLog, match=COPIED_FILE):
        read_whole_from(disk, LOG)
