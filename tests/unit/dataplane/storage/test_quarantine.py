"""Logs that were set aside: which of them may be taken up, and what earlier releases left."""

from __future__ import annotations

import pytest

from dataplane.storage import quarantine
from dataplane.storage.disk import read_whole
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_file import PARTITION_FILE, encode_partition
from dataplane.storage.quarantine import DESCRIPTION_FILE, Quarantine, SetAsideNote, free_name, read_note
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.holdings import SetAsideLog
from tests.kit.memory.disk import MemoryDisk

IDS = ["A" * 22, "B" * 22, "C" * 22]


def put(quarantined: Quarantine, disk: MemoryDisk, topic_id: str, *, epoch: int = 0, end: int = 0) -> None:
    disk.mkdir("/data/log")
    log = SetAsideLog(
        directory="",
        topic_id=topic_id,
        topic="orders",
        partition=0,
        leader_epoch=LeaderEpoch(epoch),
        log_end_offset=end,
        why="unknown",
        is_whole=True,
    )
    quarantined.put("/data/log", SetAsideNote(log=log))


def test_of_the_logs_of_a_partition_the_one_of_the_latest_epoch_and_then_the_longest_is_taken() -> None:
    disk = MemoryDisk()
    quarantined = Quarantine(disk, "/data/quarantine", DirectoryHealth("/data"))
    for topic_id in (IDS[0], IDS[2]):
        put(quarantined, disk, topic_id)
    assert quarantined.takeable((IDS[1], 0)) is None
    for epoch, end in ((3, 9), (4, 6), (4, 7), (2, 99)):
        put(quarantined, disk, IDS[1], epoch=epoch, end=end)
    taken = quarantined.takeable((IDS[1], 0))
    assert taken is not None
    assert (taken.leader_epoch, taken.log_end_offset) == (4, 7)


def test_a_log_that_an_earlier_release_set_aside_is_listed_and_a_folder_that_is_none_is_not() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data/quarantine/old")
    disk.mkdir("/data/quarantine/other")
    partition = PartitionId(IDS[0], "orders", 3)
    disk.open(f"/data/quarantine/old/{PARTITION_FILE}", create=True).pwrite(encode_partition(partition), 0)
    quarantined = Quarantine(disk, "/data/quarantine", DirectoryHealth("/data"))
    quarantined.find()
    ((name, note),) = quarantined.notes.items()
    assert (name, note.log.topic, note.log.partition, note.log.why) == ("old", "orders", 3, "not known")
    assert quarantined.takeable((IDS[0], 3)) is None


def test_a_note_with_a_flipped_bit_is_read_or_is_none() -> None:
    disk = MemoryDisk()
    quarantined = Quarantine(disk, "/data/quarantine", DirectoryHealth("/data"))
    put(quarantined, disk, IDS[0])
    (name,) = quarantined.notes
    directory = f"/data/quarantine/{name}"
    path = f"{directory}/{DESCRIPTION_FILE}"
    for at in range(len(read_whole(disk, path, bytes_max=10_000) or b"")):
        for bit in range(8):
            disk.flip_bit(path, at, bit=bit)
            read_note(disk, directory)
            disk.flip_bit(path, at, bit=bit)
    assert read_note(disk, directory) is not None


def test_there_is_a_bound_on_folders_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "SAME_NAME_MAX", 2)
    disk, names = MemoryDisk(), []
    for _ in range(2):
        names.append(free_name(disk, "/log", suffix=".deleted"))
        disk.mkdir(names[-1])
    assert names == ["/log.deleted", "/log.1.deleted"]
    with pytest.raises(OSError, match="2 directories"):
        free_name(disk, "/log", suffix=".deleted")
