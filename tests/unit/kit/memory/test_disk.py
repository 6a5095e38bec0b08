"""The disk in memory does what ext4 was seen to do, and nothing that no disk may do."""

from __future__ import annotations

import errno
import math
from random import Random

import pytest

from dataplane.storage.disk import replace_durably
from tests.kit.memory.disk import SECTOR_BYTES, MemoryDisk

OLD, NEW = b"o" * (3 * SECTOR_BYTES), b"n" * (6 * SECTOR_BYTES)


def a_disk(synced: bytes = b"") -> MemoryDisk:
    """With a durable directory /data and in it a durable file f."""
    disk = MemoryDisk()
    disk.mkdir("/data")
    file = disk.open("/data/f", create=True)
    file.pwrite(synced, 0)
    file.fsync()
    disk.fsync_dir("/data")
    disk.fsync_dir("/")
    return disk


def images(disk: MemoryDisk, count: int = 300) -> list[MemoryDisk]:
    return [disk.power_cut_image(Random(seed)) for seed in range(count)]


def contents(disk: MemoryDisk) -> set[bytes]:
    return {bytes(image.content("/data/f")) for image in images(disk)}


def sectors(data: bytes) -> list[bytes]:
    return [data[start : start + SECTOR_BYTES] for start in range(0, len(data), SECTOR_BYTES)]


def test_synced_bytes_survive_every_power_cut() -> None:
    assert contents(a_disk(OLD)) == {OLD}


def test_of_an_unsynced_overwrite_any_sectors_survive() -> None:
    disk = a_disk(OLD)
    disk.open("/data/f").pwrite(b"n" * len(OLD), 0)
    found = contents(disk)
    for data in found:
        assert len(data) == len(OLD)
    whole = {tuple(sector[:1] for sector in sectors(data)) for data in found}
    assert whole >= {(a, b, c) for a in (b"o", b"n") for b in (b"o", b"n") for c in (b"o", b"n")}


def test_an_unsynced_extension_leaves_a_size_of_some_moment_zeros_and_torn_writes() -> None:
    disk = a_disk(OLD)
    file = disk.open("/data/f")
    file.pwrite(NEW, len(OLD))
    found = contents(disk)
    assert {OLD, OLD + NEW, OLD + bytes(len(NEW))} <= found
    assert any(len(data) % SECTOR_BYTES for data in found), "no torn write"
    for data in found:
        assert data.startswith(OLD)
        assert set(data[len(OLD) :]) <= {0, ord("n")}


def test_a_sector_written_twice_may_hold_the_version_in_between() -> None:
    disk = a_disk(b"o" * 100)
    file = disk.open("/data/f")
    file.pwrite(b"m" * 100, 0)
    file.pwrite(b"n" * 100, 0)
    assert {b"o" * 100, b"m" * 100, b"n" * 100} <= contents(disk)


def test_what_a_truncation_cut_may_be_back_beside_what_was_written_since() -> None:
    disk = a_disk(OLD)
    file = disk.open("/data/f")
    file.truncate(SECTOR_BYTES)
    file.pwrite(b"n" * SECTOR_BYTES, SECTOR_BYTES)
    found = {bytes(sector[0] for sector in sectors(data)) for data in contents(disk)}
    assert {b"ooo", b"ono", b"on", b"oo"} <= found
    file.fsync()
    assert contents(disk) == {b"o" * SECTOR_BYTES + b"n" * SECTOR_BYTES}


def test_names_are_durable_after_fsync_dir_and_until_then_a_prefix_of_their_changes() -> None:
    disk = a_disk()
    for name in "abc":
        disk.open(f"/data/{name}", create=True).fsync()
    disk.unlink("/data/f")
    found = {tuple(image.listdir("/data")) for image in images(disk)}
    assert found == {("f",), ("a", "f"), ("a", "b", "f"), ("a", "b", "c", "f"), ("a", "b", "c")}
    disk.fsync_dir("/data")
    assert {tuple(image.listdir("/data")) for image in images(disk)} == {("a", "b", "c")}


def test_a_rename_is_atomic_and_needs_the_fsync_of_its_directory() -> None:
    disk = a_disk(OLD)
    new = disk.open("/data/g", create=True)
    new.pwrite(NEW, 0)
    new.fsync()
    disk.fsync_dir("/data")
    disk.rename("/data/g", "/data/f")
    assert {(tuple(image.listdir("/data")), bytes(image.content("/data/f"))) for image in images(disk)} == {
        (("f", "g"), OLD),
        (("f",), NEW),
    }
    disk.fsync_dir("/data")
    assert contents(disk) == {NEW}


def test_a_rename_without_an_fsync_of_the_file_may_leave_an_empty_or_zeroed_file() -> None:
    disk = a_disk(OLD)
    disk.open("/data/g", create=True).pwrite(NEW, 0)
    disk.rename("/data/g", "/data/f")
    disk.fsync_dir("/data")
    assert {b"", bytes(len(NEW)), NEW} <= contents(disk)


def test_replacing_durably_leaves_the_old_content_or_the_new_at_every_moment() -> None:
    disk = a_disk(OLD)
    seen: set[bytes] = set()
    disk.on_operation = lambda _operation, _path, _is_done: seen.update(contents(disk))
    replace_durably(disk, "/data/f", NEW)
    assert seen == {OLD, NEW}


def test_a_file_whose_name_is_not_durable_is_gone_however_often_it_was_synced() -> None:
    disk = a_disk()
    disk.open("/data/g", create=True).fsync()
    assert any(not image.exists("/data/g") for image in images(disk))


def test_what_is_in_a_directory_moves_with_it_and_is_gone_without_it() -> None:
    disk = a_disk()
    disk.mkdir("/data/d")
    file = disk.open("/data/d/g", create=True)
    file.fsync()
    disk.fsync_dir("/data/d")
    disk.rename("/data/d", "/data/e")
    found = {tuple(image.files()) for image in images(disk)}
    assert found == {("/data/f",), ("/data/d/g", "/data/f"), ("/data/e/g", "/data/f")}
    disk.fsync_dir("/data")
    assert {tuple(image.files()) for image in images(disk)} == {("/data/e/g", "/data/f")}


def test_a_failed_fsync_drops_the_bytes_and_the_next_one_succeeds() -> None:
    disk = a_disk(OLD)
    file = disk.open("/data/f")
    file.pwrite(b"n", 0)
    disk.fail_next("fsync", OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output"):
        file.fsync()
    file.fsync()
    assert contents(disk) == {OLD}
    assert disk.content("/data/f") == OLD


def test_a_full_disk_writes_what_fits() -> None:
    disk = a_disk()
    disk.free_bytes_left = 5
    with pytest.raises(OSError, match="no space") as full:
        disk.open("/data/f").pwrite(b"0123456789", 0)
    assert full.value.errno == errno.ENOSPC
    assert disk.content("/data/f") == b"01234"


def test_faults_strike_once_or_until_they_are_healed() -> None:
    disk = a_disk(OLD)
    disk.fail_next("pread", OSError(errno.EIO, "unreadable"))
    with pytest.raises(OSError, match="unreadable"):
        disk.open("/data/f").pread(1, 0)
    assert disk.open("/data/f").pread(1, 0) == b"o"
    disk.fail_always("pread", OSError(errno.EIO, "unreadable"), path_contains="/f")
    for _ in range(2):
        with pytest.raises(OSError, match="unreadable"):
            disk.open("/data/f").pread(1, 0)
    disk.heal()
    assert disk.open("/data/f").pread(1, 0) == b"o"


def test_a_read_only_disk_is_read_only() -> None:
    disk = a_disk(OLD)
    disk.is_read_only = True
    assert disk.open("/data/f").pread(1, 0) == b"o"
    for refused in (
        lambda: disk.open("/data/new", create=True),
        lambda: disk.open("/data/f").pwrite(b"x", 0),
        lambda: disk.rename("/data/f", "/data/g"),
        lambda: disk.fsync_dir("/data"),
    ):
        with pytest.raises(OSError, match="read-only"):
            refused()


def test_bytes_at_rest_can_rot_get_lost_and_land_elsewhere() -> None:
    disk = a_disk(b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES + b"c" * SECTOR_BYTES)
    disk.flip_bit("/data/f", 0, bit=1)
    disk.misdirect_sector("/data/f", 1, onto=2)
    (left,) = contents(disk)
    assert left == b"c" + b"a" * (SECTOR_BYTES - 1) + bytes(SECTOR_BYTES) + b"b" * SECTOR_BYTES


def test_slow_operations_owe_time() -> None:
    disk = a_disk()
    disk.latency_ms = lambda operation, _path: {"fsync": 40.0, "fsync_dir": math.inf}.get(operation, 0.0)
    disk.open("/data/f").fsync()
    disk.open("/data/f").fsync()
    assert disk.take_latency_ms() == 80
    disk.fsync_dir("/data")
    assert disk.take_latency_ms() == math.inf
    assert disk.take_latency_ms() == 0


def test_a_backup_brings_the_older_state_back_and_a_new_disk_is_empty() -> None:
    disk = a_disk()
    file = disk.open("/data/f")
    file.pwrite(OLD, 0)
    backup = disk.snapshot()
    file.pwrite(NEW, 0)
    file.fsync()
    for _ in range(2):
        disk.restore(backup)
        assert contents(disk) == {OLD}
        disk.open("/data/f").pwrite(NEW, 0)
    with pytest.raises(OSError, match="earlier life"):
        file.pread(1, 0)
    disk.wipe()
    assert disk.files() == []


def test_a_process_crash_keeps_everything_and_kills_the_handles() -> None:
    disk = a_disk(OLD)
    file = disk.open("/data/f")
    file.pwrite(NEW, 0)
    lock = disk.lock("/data/.lock")
    disk.crash_process()
    assert disk.content("/data/f") == NEW
    with pytest.raises(OSError, match="earlier life"):
        file.fsync()
    assert disk.lock("/data/.lock") is not lock
    assert OLD in {
        bytes(disk.power_cut_image(Random(seed)).content("/data/f"))[: len(OLD)] for seed in range(99)
    }


def test_a_write_under_way_is_torn_by_a_crash() -> None:
    disk = a_disk()
    process: set[bytes] = set()
    machine: set[bytes] = set()

    def look(operation: str, _path: str, is_done: bool) -> None:
        if operation == "pwrite" and not is_done:
            process.update(
                bytes(disk.process_crash_image(Random(seed)).content("/data/f")) for seed in range(200)
            )
            machine.update(contents(disk))

    disk.on_operation = look
    disk.open("/data/f").pwrite(NEW, 0)
    for found in (process, machine):
        assert {b"", NEW} <= found
        assert any(0 < len(data) < len(NEW) for data in found)
    assert all(NEW.startswith(data) for data in process)


def test_an_image_leaves_the_disk_as_it_is() -> None:
    disk = a_disk(OLD)
    disk.open("/data/f").pwrite(NEW, 0)
    disk.open("/data/g", create=True)
    before = contents(disk)
    for image in (*images(disk, 20), disk.process_crash_image(Random(1))):
        image.open("/data/f").pwrite(b"!", 0)
        image.unlink("/data/f")
        image.fsync_dir("/data")
    assert contents(disk) == before
    assert disk.files() == ["/data/f", "/data/g"]
