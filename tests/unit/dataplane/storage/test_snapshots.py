"""Which snapshots of producers stay, which go, and which are still to be synced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dataplane.core.producer_state import ProducerStates
from dataplane.storage.snapshots import ProducerSnapshots
from tests.kit.memory.disk import MemoryDisk

OFFSETS = [3, 5, 8]


def path_of(offset: int) -> str:
    return f"/log/{offset:020d}.snapshot"


def with_snapshots() -> tuple[MemoryDisk, ProducerSnapshots, list[str]]:
    disk = MemoryDisk()
    disk.mkdir("/log")
    told: list[str] = []
    snapshots = ProducerSnapshots(disk, "/log", [], told.append)
    for offset in reversed(OFFSETS):
        snapshots.write(ProducerStates(), log_offset=offset)
    return disk, snapshots, told


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda it: it.delete_beyond(8), [3, 5, 8]),
        (lambda it: it.delete_beyond(5), [3, 5]),
        (lambda it: it.delete_beyond(2), []),
        (lambda it: it.delete_before(2), [3, 5, 8]),
        (lambda it: it.delete_before(3), [3, 5, 8]),
        (lambda it: it.delete_before(7), [5, 8]),
        (lambda it: it.delete_before(8), [8]),
        (lambda it: it.detach_before(2), [3, 5, 8]),
        (lambda it: it.detach_before(7), [5, 8]),
    ],
)
def test_what_goes_is_gone_from_the_disk_and_is_not_synced_any_more(
    change: Callable[[ProducerSnapshots], list[str] | None], left: list[int]
) -> None:
    disk, snapshots, _ = with_snapshots()
    detached = change(snapshots) or []
    assert snapshots.offsets == left
    assert set(disk.files()) == {path_of(offset) for offset in left} | set(detached)
    assert all(name.endswith(".snapshot.deleted") for name in detached)
    assert sorted(snapshots.take_unsynced()) == [path_of(offset) for offset in left]
    assert snapshots.take_unsynced() == []
    snapshots.distrust()
    assert snapshots.take_unsynced() == [path_of(offset) for offset in left], "after an unclean stop"


def test_one_that_can_not_be_read_is_told_and_removed() -> None:
    disk, snapshots, told = with_snapshots()
    disk.flip_bit(path_of(8), 0)
    loaded = snapshots.load_newest(offset_max=9)
    assert loaded is not None
    assert loaded[1] == 5
    assert (snapshots.offsets, disk.exists(path_of(8)), len(told)) == ([3, 5], False, 1)
    assert snapshots.load_newest(offset_max=2) is None
