"""What was written aside is found and read again, and a copy that is not whole never passes for one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from dataplane.core.log_port import LogChanged, LogError
from dataplane.storage import divergent
from dataplane.storage.divergent import (
    DESCRIPTION_BYTES_MAX,
    DivergentCopy,
    FoundCopy,
    NotWritten,
    copy_divergent,
    list_copies,
    topic_of_copy,
)
from dataplane.storage.health import CorruptLog, DirectoryHealth
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import OpenedLog
from springtide.contract.epochs import LeaderEpoch
from tests.kit.dataplane.divergent_copies import read_copy
from tests.kit.dataplane.storage import DIRECTORY, NO_TAIL, SMALL, TOPIC_ID, append, batch, new_log, open_log
from tests.kit.memory.disk import MemoryDisk

ASIDE = "/data/divergent"


def disk_with_copy(
    *, first_offset: int, on_operation: Callable[[MemoryDisk], None] | None = None
) -> MemoryDisk:
    """Six batches of three records, offsets 0 to 17, of which those from `first_offset` on are set aside.
    on_operation: called before and after each operation of the copy."""
    disk = MemoryDisk()
    opened = open_log(disk)
    assert isinstance(opened, OpenedLog)
    for number in range(6):
        append(opened.log, batch(3 * number, records=3, value=b"batch %d" % number))
    if on_operation is not None:
        disk.on_operation = lambda *_: on_operation(disk)
    written = copy_divergent(
        disk,
        ASIDE,
        opened.log,
        first_offset=first_offset,
        high_watermark=18,
        leader_epoch=LeaderEpoch(4),
        reason="unclean election",
        now_ms=1,
        health=DirectoryHealth("/data"),
    )
    assert isinstance(written, DivergentCopy)
    return disk


@pytest.mark.parametrize("options", [SMALL, NO_TAIL], ids=["from the tail cache too", "from files"])
def test_a_log_that_is_cut_during_the_copy_is_no_failure_of_the_disk(options: LogOptions) -> None:
    """The leader changed while a thread was copying, and the next one's copy was done first."""
    disk = MemoryDisk()
    opened = open_log(disk, options=options)
    assert isinstance(opened, OpenedLog)
    for number in range(40):
        append(opened.log, batch(number, value=b"v" * 100))
    health = DirectoryHealth("/data")

    def cut(operation: str, path: str, is_done: bool) -> None:
        if operation == "pwrite" and path.endswith(".batches") and is_done:
            opened.log.truncate_to(3)

    disk.on_operation = cut
    with pytest.raises(LogChanged):
        copy_divergent(
            disk,
            ASIDE,
            opened.log,
            first_offset=2,
            high_watermark=2,
            leader_epoch=LeaderEpoch(4),
            reason="the leader's log has other records here",
            now_ms=1,
            health=health,
        )
    assert health.failure is None
    assert disk.listdir(ASIDE) == []


def test_what_is_rotten_is_left_out_of_the_copy_and_the_rest_can_be_read() -> None:
    disk = MemoryDisk()
    opened = open_log(disk, options=NO_TAIL)
    assert isinstance(opened, OpenedLog)
    log = opened.log
    batches = [batch(number, value=b"v" * 100) for number in range(20)]
    append(log, *batches)
    log.durability.flush()
    for rotten in (3, 4, 11):
        segment = next(s for s in reversed(log.segments) if s.base_offset <= rotten)
        at = sum(len(encoded) for encoded in batches[segment.base_offset : rotten])
        disk.rot_bit(f"{log.directory}/{segment.base_offset:020d}.log", at + 90)
        checked = log.holes.check(log.holes.place_near(rotten), end_offset=20, bytes_max=1 << 20)
        assert checked.hole is not None
        log.holes.note(checked.hole, log_start_offset=0)
    left_out = {offset for found in log.rotten for offset in range(found.first_offset, found.next_offset)}
    assert left_out == {3, 4, 11}
    written = copy_divergent(
        disk,
        ASIDE,
        log,
        first_offset=0,
        high_watermark=20,
        leader_epoch=LeaderEpoch(4),
        reason="rotten",
        now_ms=1,
        health=DirectoryHealth("/data"),
    )
    assert isinstance(written, DivergentCopy)
    found = only_copy(disk)
    kept = [record.offset for record in read_copy(disk, found)]
    assert kept == [offset for offset in range(20) if offset not in left_out]
    assert found.range.reason == f"rotten; {len(log.rotten)} rotten ranges are left out"


@pytest.mark.parametrize("file", [".batches", ".json"])
def test_a_copy_for_which_the_disk_is_too_full_leaves_nothing(file: str) -> None:
    """It is tried again and again while the truncation is held; each try would take more of the disk."""
    disk = MemoryDisk()
    opened = open_log(disk)
    assert isinstance(opened, OpenedLog)
    append(opened.log, batch(0, records=3))
    disk.fail_next("pwrite", OSError(errno.ENOSPC, "no space left"), path_contains=file)
    written = copy_divergent(
        disk,
        ASIDE,
        opened.log,
        first_offset=0,
        high_watermark=3,
        leader_epoch=LeaderEpoch(4),
        reason="unclean election",
        now_ms=1,
        health=DirectoryHealth("/data"),
    )
    assert isinstance(written, NotWritten)
    assert disk.listdir(ASIDE) == []


def only_copy(disk: MemoryDisk) -> FoundCopy:
    (found,) = list_copies(disk, ASIDE)
    return found


def test_a_copy_is_read_from_the_cut_on_although_it_begins_with_the_whole_batch() -> None:
    disk = disk_with_copy(first_offset=10)
    found = only_copy(disk)
    assert (found.range.topic, found.range.partition) == ("orders", 0)
    assert (found.range.first_offset, found.range.next_offset) == (10, 18)
    records = list(read_copy(disk, found))
    assert [record.offset for record in records] == list(range(10, 18))
    assert [record.value for record in records[:3]] == [b"batch 3", b"batch 3", b"batch 4"]


def test_a_directory_in_which_nothing_was_ever_cut_has_no_copies() -> None:
    assert list_copies(MemoryDisk(), ASIDE) == []


def test_batches_without_a_description_are_no_copy() -> None:
    disk = disk_with_copy(first_offset=10)
    disk.unlink(only_copy(disk).path.replace(".batches", ".json"))
    assert list_copies(disk, ASIDE) == []


def test_a_description_that_is_none_is_corrupt() -> None:
    disk = disk_with_copy(first_offset=10)
    path = only_copy(disk).path.replace(".batches", ".json")
    disk.open(path).pwrite(b"[", 0)
    with pytest.raises(CorruptLog, match="does not describe a copy"):
        list_copies(disk, ASIDE)


def test_a_copy_that_a_crash_interrupts_is_whole_or_none() -> None:
    """A broker that was killed here left a description without a byte, which no reader took."""
    images: list[MemoryDisk] = []

    def crash(disk: MemoryDisk) -> None:
        images.append(disk.process_crash_image(Random(len(images))))
        images.extend(disk.power_cut_image(Random(seed)) for seed in range(20))

    disk_with_copy(first_offset=10, on_operation=crash)
    counts = set()
    for image in images:
        copies = list_copies(image, ASIDE)
        for found in copies:
            assert [record.offset for record in read_copy(image, found)] == list(range(10, 18))
        counts.add(len(copies))
    assert counts == {0, 1}


@pytest.mark.parametrize("missing_bytes", [1, 80])
def test_a_copy_that_lacks_its_end_gives_its_good_batches_and_then_fails(missing_bytes: int) -> None:
    disk = disk_with_copy(first_offset=10)
    found = only_copy(disk)
    disk.open(found.path).truncate(found.size_bytes - missing_bytes)
    records = read_copy(disk, found)
    assert [next(records).offset for _ in range(2)] == [10, 11]
    with pytest.raises(CorruptLog, match="good bytes"):
        list(records)


def test_a_copy_that_lacks_whole_batches_fails_too() -> None:
    disk = disk_with_copy(first_offset=9)
    found = only_copy(disk)
    disk.open(found.path).truncate(found.size_bytes // 3)
    with pytest.raises(CorruptLog, match="good bytes"):
        list(read_copy(disk, found))


def test_a_flipped_bit_in_a_copy_is_seen() -> None:
    disk = disk_with_copy(first_offset=10)
    found = only_copy(disk)
    disk.flip_bit(found.path, found.size_bytes - 1)
    with pytest.raises(CorruptLog):
        list(read_copy(disk, found))


def set_aside(disk: MemoryDisk, log: PartitionLog, *, health: DirectoryHealth) -> DivergentCopy | NotWritten:
    return copy_divergent(
        disk,
        ASIDE,
        log,
        first_offset=0,
        high_watermark=0,
        leader_epoch=LeaderEpoch(4),
        reason="unclean election",
        now_ms=1,
        health=health,
    )


def in_one_segment(count: int = 8) -> tuple[MemoryDisk, PartitionLog, list[bytes]]:
    disk, log = new_log(replace(NO_TAIL, segment_bytes=1 << 20))
    batches = [batch(number, value=b"v" * (40 + number)) for number in range(count)]
    append(log, *batches)
    return disk, log, batches


@pytest.mark.parametrize("left", ["batches", "json"])
def test_no_copy_is_written_over_what_an_earlier_one_left_and_there_are_not_too_many(
    left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, log, _ = in_one_segment()
    disk.mkdir(ASIDE)
    stem = f"{ASIDE}/orders-0.{TOPIC_ID}.{0:020d}-{8:020d}"
    disk.open(f"{stem}.0.{left}", create=True)
    monkeypatch.setattr(divergent, "SAME_RANGE_MAX", 3)
    written = [set_aside(disk, log, health=DirectoryHealth("/data")) for _ in range(3)]
    assert [each.path for each in written if isinstance(each, DivergentCopy)] == [
        f"{stem}.1.batches",
        f"{stem}.2.batches",
    ]
    assert written[2] == NotWritten("3 copies of this range exist already")
    assert disk.content(f"{stem}.0.{left}") == b""


def test_a_range_is_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergent, "COPY_BYTES_MAX", 70)  # less than a batch
    disk, log, batches = in_one_segment()
    written = set_aside(disk, log, health=DirectoryHealth("/data"))
    assert isinstance(written, DivergentCopy)
    assert written.size_bytes == len(b"".join(batches))
    assert disk.content(written.path) == b"".join(batches)


@pytest.mark.parametrize("who", ["the loop", "a stranger"])
def test_a_segment_that_is_cut_under_the_copy_is_a_failure_only_if_the_log_was_not(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergent, "COPY_BYTES_MAX", 70)
    disk, log, _ = in_one_segment()
    health = DirectoryHealth("/data")

    def cut(operation: str, path: str, is_done: bool) -> None:
        if operation == "pwrite" and path.startswith(ASIDE) and is_done:
            disk.on_operation = None
            if who == "the loop":
                log.truncate_to(0)
            else:
                disk.open(f"{DIRECTORY}/{0:020d}.log").truncate(70)

    disk.on_operation = cut
    with pytest.raises(LogError) as raised:
        set_aside(disk, log, health=health)
    assert isinstance(raised.value, LogChanged) is (health.failure is None) is (who == "the loop")
    assert disk.listdir(ASIDE) == []


def test_a_disk_that_fails_is_not_taken_for_a_full_one() -> None:
    disk, log, _ = in_one_segment()
    health = DirectoryHealth("/data")
    disk.fail_next("pwrite", OSError(errno.EIO, "bad sector"), path_contains=ASIDE)
    with pytest.raises(LogError):
        set_aside(disk, log, health=health)
    assert health.failure is not None


def test_a_name_tells_the_topic_of_a_copy() -> None:
    (found,) = list_copies(disk_with_copy(first_offset=10), ASIDE)
    assert topic_of_copy(found.name) == ("orders", TOPIC_ID)
    assert topic_of_copy(f"{found.name}.json") is None


@pytest.mark.parametrize("more", [0, 1])
def test_a_description_has_a_largest_size(more: int) -> None:
    disk = disk_with_copy(first_offset=10)
    file = disk.open(only_copy(disk).path.replace(".batches", ".json"))
    size = file.size_bytes()
    file.pwrite(b" " * (DESCRIPTION_BYTES_MAX + more - size), size)
    told: list[CorruptLog] = []
    assert len(list_copies(disk, ASIDE, on_corrupt=told.append)) == 1 - more == 1 - len(told)
