"""The sparse index: what its searches find, in memory and on disk."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataplane.storage.index as index_module
from dataplane.storage.disk import File
from dataplane.storage.index import START, IndexEntry, SparseIndex, new_index, open_index
from tests.kit.memory.disk import MemoryDisk

PATH = "/a.index"
ENTRIES = [IndexEntry(10 * number, 1_000 * number, 15 * ((number + 1) // 3)) for number in range(1, 24)]


def built(disk: MemoryDisk) -> SparseIndex:
    index = new_index(disk, PATH)
    for entry in ENTRIES:
        index.append(*entry)
    return index


@given(
    keys=st.lists(st.integers(min_value=0, max_value=250), min_size=1, max_size=6),
    at_once=st.integers(min_value=1, max_value=30),
)
def test_a_search_finds_the_last_entry_at_or_before_its_key(keys: list[int], at_once: int) -> None:
    """On disk its last steps are made in memory, over as many entries as one read takes, or took the last
    time."""
    disk = MemoryDisk()
    index = built(disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "ENTRIES_PER_READ", at_once)
        for _ in ("in memory", "on disk"):
            for key in keys:
                at_or_before = [START, START, *(entry for entry in ENTRIES if entry.relative_offset <= key)]
                before = [START, *(entry for entry in ENTRIES if entry.max_timestamp_before_ms < key)]
                assert index.for_offset(key) == at_or_before[-1]
                assert index.two_for_position(100 * key) == tuple(at_or_before[-2:])
                assert index.for_timestamp(key) == before[-1]
            assert index.last() == ENTRIES[-1]
            index.write()


def test_what_a_look_up_read_serves_the_next_until_the_index_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_module, "BLOCKS_MAX", 1)
    disk = MemoryDisk()
    index = built(disk)
    index.write()
    assert index.for_offset(15) == ENTRIES[0]
    disk.unlink(PATH)
    assert index.for_offset(25) == ENTRIES[1], "from memory"
    built(disk).write()
    index.load()
    index.truncate_to_position(ENTRIES[1].position)
    index.write()
    assert index.for_offset(25) == ENTRIES[0]
    disk.unlink(PATH)
    assert index.for_offset(25) == ENTRIES[0], "from memory"
    other = new_index(disk, "/b.index")
    other.append(*ENTRIES[0])
    other.write()
    assert other.last() == ENTRIES[0]
    with pytest.raises(FileNotFoundError):
        index.for_offset(25)


@pytest.mark.parametrize("at_once", [1, 4, 512])
def test_entries_that_are_gone_from_the_file_are_not_found(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "ENTRIES_PER_READ", at_once)
    disk = MemoryDisk()
    built(disk).write()
    index = open_index(disk, PATH)
    assert index is not None
    disk.open(PATH).truncate(2 * struct.calcsize(">IIq") + 3)
    assert index.last() == ENTRIES[1]
    built(disk).write()
    assert index.last() == ENTRIES[-1], "what was torn is not remembered"


class CountingDisk(MemoryDisk):
    """opened: each path that was opened, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False) -> File:
        self.opened.append(path)
        return super().open(path, create=create)


def test_look_ups_near_one_another_are_served_by_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "ENTRIES_PER_READ", 8)
    disk = CountingDisk()
    index = built(disk)
    index.write()
    disk.opened.clear()
    for entry in ENTRIES:
        assert index.for_offset(entry.relative_offset) == entry
    assert len(disk.opened) < len(ENTRIES) // 2


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_block_in_memory_does_not_decide_what_the_next_one_may_know_better(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of one timestamp may stand in two blocks."""
    monkeypatch.setattr(index_module, "ENTRIES_PER_READ", at_once)
    index = built(MemoryDisk())
    index.write()
    for entry in ENTRIES:
        for other in ENTRIES:
            assert index.for_offset(entry.relative_offset) == entry, "its block is in memory now"
            found = index.for_timestamp(other.max_timestamp_before_ms + 1)
            assert found == max(each for each in ENTRIES if each[2] == other[2])


def test_the_blocks_that_were_used_last_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BLOCKS_MAX", 2)
    disk = CountingDisk()
    indexes = {name: new_index(disk, name) for name in ("a", "b", "c")}
    for index in indexes.values():
        index.append(*ENTRIES[0])
        index.write()
    disk.opened.clear()
    for name in ("a", "b", "a", "c", "a", "b"):
        indexes[name].last()
    assert disk.opened == ["a", "b", "c", "b"]


def test_the_entries_beyond_a_position_are_listed_as_far_as_they_are_there() -> None:
    disk = MemoryDisk()
    index = built(disk)
    for _ in ("in memory", "on disk"):
        assert index.positions_after(20_999) == [21_000, 22_000, 23_000]
        assert index.positions_after(21_000) == [22_000, 23_000]
        assert index.positions_after(0) == [entry.position for entry in ENTRIES]
        index.write()
    disk.open(PATH).truncate(2 * struct.calcsize(">IIq") + 3)
    assert index.positions_after(0) == [1_000, 2_000]


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_an_index_that_was_cut_is_written_without_what_it_lost_and_can_be_synced(kept: int) -> None:
    disk = MemoryDisk()
    index = built(disk)
    index.fsync()
    assert index.is_in_memory
    assert disk.synced_paths == [], "it has no file yet"
    index.write()
    index.load()
    index.truncate_to_position(ENTRIES[kept].position)
    index.write()
    assert not index.is_in_memory
    index.fsync()
    assert disk.synced_paths == [PATH]
    found = open_index(disk, PATH)
    assert found is not None
    assert (found.count, found.last()) == (kept, ([START, *ENTRIES])[kept])
