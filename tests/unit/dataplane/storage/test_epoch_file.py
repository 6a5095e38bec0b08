"""The file of a log's leader epochs: when it is written, and when it is durable."""

from __future__ import annotations

from random import Random

import pytest

from dataplane.core.leader_epochs import LeaderEpochs, decode_leader_epochs
from dataplane.storage.epoch_file import EPOCHS_FILE, EpochFile
from dataplane.storage.health import DirectoryHealth, LogHealth
from springtide.contract.epochs import LeaderEpoch
from tests.kit.memory.disk import MemoryDisk

LOG = "/log"
PATH = f"{LOG}/{EPOCHS_FILE}"


def file_on(disk: MemoryDisk, *starts: tuple[int, int]) -> EpochFile:
    """As after a start that found these epochs."""
    disk.mkdir(LOG)
    disk.fsync_dir("")
    epochs = LeaderEpochs()
    for leader_epoch, start_offset in starts:
        epochs.assign(leader_epoch, start_offset=start_offset)
    return EpochFile(disk, LogHealth(disk, LOG, DirectoryHealth("")), epochs)


def stored(disk: MemoryDisk) -> list[tuple[int, int]]:
    return [(epoch, start) for epoch, start in decode_leader_epochs(bytes(disk.content(PATH))).entries]


def is_durable(disk: MemoryDisk) -> bool:
    images = [disk.power_cut_image(Random(seed)) for seed in range(20)]
    return all(image.exists(PATH) and image.content(PATH) == disk.content(PATH) for image in images)


def test_an_epoch_is_written_and_durable_when_it_is_asked_for_and_only_once() -> None:
    disk = MemoryDisk()
    file = file_on(disk)
    assert not file.fsync(), "nothing was written"
    file.begin(LeaderEpoch(3), start_offset=0)
    assert disk.files() == []
    assert file.fsync()
    disk.fsync_dir(LOG)
    assert is_durable(disk)
    assert not file.fsync()
    file.begin(LeaderEpoch(4), start_offset=7)
    file.on_syncing()
    assert stored(disk) == [(3, 0), (4, 7)]
    assert not file.fsync(), "it was synced with other logs' files"


def test_a_cut_is_written_if_it_takes_an_epoch() -> None:
    disk = MemoryDisk()
    file = file_on(disk, (3, 0), (4, 7))
    file.truncate_from_end(8)
    assert disk.files() == []
    file.truncate_from_end(7)
    assert stored(disk) == [(3, 0)]
    file.clear()
    assert (file.epochs.latest, stored(disk)) == (-1, [])


@pytest.mark.parametrize("is_behind", [False, True])
def test_after_a_recovery_the_file_is_the_history_and_durable_with_the_flush(is_behind: bool) -> None:
    disk = MemoryDisk()
    file_on(disk, (3, 0)).write()
    file = file_on(disk, (3, 0), *([(4, 7)] if is_behind else []))
    file.settle()
    if file.fsync():
        assert not is_behind, "it was made again"
        disk.fsync_dir(LOG)
    assert stored(disk) == ([(3, 0), (4, 7)] if is_behind else [(3, 0)])
    assert is_durable(disk)
