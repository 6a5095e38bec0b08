"""An older copy that is put over the files of a stopped broker keeps inodes and mount, and is found out."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.core.log_port import LogError
from dataplane.storage.directory_claim import MARKER_FILE
from dataplane.storage.disk import Disk, PosixDisk, replace_durably
from dataplane.storage.fresh_mark import FRESH_MARK_FILE, FreshMark, is_mark_fresh
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.recovery import OpenedLog
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.log_dirs import load_all
from tests.kit.dataplane.storage import SMALL, append, batch
from tests.kit.memory.disk import MemoryDisk

ORDERS = PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", 0)
KEY = ("AAAAAAAAAAAAAAAAAAAAAA", 0)


def start(disk: Disk, path: str) -> LogDir:
    return open_log_dir(disk, path, broker_id=1, new_dir_id="dir-1", boot_id="boot-1", options=SMALL)


def running(disk: Disk, path: str, *, broker_epoch: int = 5) -> LogDir:
    """Loaded and registered."""
    log_dir = start(disk, path)
    assert all(isinstance(entry, OpenedLog) for entry in load_all(log_dir, now_ms=0))
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(broker_epoch))
    return log_dir


def copied_back(disk: Disk, path: str, back_up: Callable[[], None], restore: Callable[[], None]) -> LogDir:
    """Return the directory as it is found after a kill, with a copy over it that lacks one record of two."""
    log_dir = running(disk, path)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0))
    log_dir.renew_fresh_mark()
    back_up()
    append(log, batch(1))
    log_dir.renew_fresh_mark()
    log_dir.abandon()
    restore()
    return start(disk, path)


def copy_all(data: Path, backup: Path) -> None:
    subprocess.run(["cp", "-a", f"{data}/.", f"{backup}/"], check=True)


def copy_visible(data: Path, backup: Path) -> None:
    """As a shell's `*` has it: what begins with a dot stays."""
    subprocess.run(["cp", "-a", *map(str, data.glob("[!.]*")), str(backup)], check=True)


def copy_without_times(data: Path, backup: Path) -> None:
    subprocess.run(["cp", "-r", f"{data}/.", f"{backup}/"], check=True)


def sync_in_place(data: Path, backup: Path) -> None:
    subprocess.run(["rsync", "-a", "--inplace", "--delete", f"{data}/", f"{backup}/"], check=True)


def sync(data: Path, backup: Path) -> None:
    subprocess.run(["rsync", "-a", f"{data}/", f"{backup}/"], check=True)


def pack(data: Path, backup: Path) -> None:
    """tar, unpacked over what is there, by a tar that writes in place."""
    packed = backup.parent / "packed.tar"
    subprocess.run(["tar", "-cf", str(packed), "-C", str(data), "."], check=True)
    subprocess.run(["tar", "-xf", str(packed), "-C", str(backup), "--overwrite"], check=True)


COPIES = [copy_all, copy_visible, copy_without_times, pack]
COPIES += [sync, sync_in_place] if shutil.which("rsync") else []


@pytest.mark.parametrize("copy", COPIES)
def test_an_older_copy_over_the_files_that_are_there_is_no_process_crash(
    copy: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    backup.mkdir()
    again = copied_back(PosixDisk(), str(data), lambda: copy(data, backup), lambda: copy(backup, data))
    assert again.claim.last_shutdown is ShutdownKind.MACHINE_CRASH
    assert again.claim.is_copy_suspected is again.claim.mount_mark.has_mount_mark()
    again.abandon()  # dies before a controller has heard of it
    assert start(PosixDisk(), str(data)).claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_a_killed_process_of_a_real_directory_is_proved_as_far_as_this_machine_can(tmp_path: Path) -> None:
    disk, path = PosixDisk(), str(tmp_path / "data")
    log_dir = running(disk, path)
    append(log_dir.create(ORDERS, now_ms=0), batch(0))
    log_dir.renew_fresh_mark()
    is_marked = log_dir.claim.is_mount_marked
    log_dir.abandon()
    again = start(disk, path)
    crash = ShutdownKind.PROCESS_CRASH if is_marked else ShutdownKind.MACHINE_CRASH
    assert (again.claim.last_shutdown, again.claim.is_copy_suspected) == (crash, False)


def test_the_disk_in_memory_does_as_the_real_one() -> None:
    disk = MemoryDisk()
    backups: list[MemoryDisk] = []
    again = copied_back(
        disk, "/data", lambda: backups.append(disk.snapshot()), lambda: disk.overwrite(backups[0])
    )
    assert again.claim.mount_mark.has_mount_mark(), "the mark of the mount alone says nothing of it"
    assert again.claim.last_shutdown is ShutdownKind.MACHINE_CRASH
    assert again.claim.is_copy_suspected
    load_all(again, now_ms=0)
    assert again.logs[KEY].log_end_offset == 1
    again.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(6))
    again.abandon()
    assert start(disk, "/data").claim.last_shutdown is ShutdownKind.PROCESS_CRASH


def test_the_mark_is_made_anew_after_a_write_and_not_at_rest() -> None:
    disk = MemoryDisk()
    log_dir = running(disk, "/data")
    log = log_dir.create(ORDERS, now_ms=0)
    log_dir.renew_fresh_mark()
    renewed: list[str] = []
    disk.on_operation = lambda operation, path, is_done: (
        renewed.append(operation) if is_done and path.endswith(FRESH_MARK_FILE) else None
    )
    assert not log_dir.must_renew_fresh_mark
    append(log, batch(0))
    assert log_dir.must_renew_fresh_mark
    log_dir.renew_fresh_mark()
    assert not log_dir.must_renew_fresh_mark
    assert renewed == ["rename"]


def test_no_mark_is_made_before_a_registration_was_recorded_nor_after_the_directory_was_released() -> None:
    """Before, it would make the crash forgotten that the controller is to hear of; after, another process
    may have the directory."""
    disk = MemoryDisk()
    log_dir = start(disk, "/data")
    log_dir.renew_fresh_mark()
    assert not disk.exists(f"/data/{FRESH_MARK_FILE}")
    log_dir.abandon()
    log_dir = running(disk, "/data")
    assert log_dir.close_cleanly({})
    disk.unlink(f"/data/{FRESH_MARK_FILE}")
    log_dir.renew_fresh_mark()
    assert not disk.exists(f"/data/{FRESH_MARK_FILE}")


def test_where_no_file_tells_when_it_was_made_only_a_clean_stop_is_believed() -> None:
    disk = MemoryDisk()
    disk.has_birth_times = False
    log_dir = running(disk, "/data")
    assert not log_dir.claim.is_mount_marked
    disk.crash_process()
    assert start(disk, "/data").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def stopped_cleanly(disk: Disk, path: str, back_up: Callable[[], None]) -> None:
    """A broker runs, is backed up while it does, writes on and stops in order."""
    log_dir = running(disk, path)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0))
    log.durability.flush()
    log_dir.offsets.checkpoint_high_watermarks({KEY: 1})
    log_dir.offsets.checkpoint_recovery_points()
    back_up()
    append(log, batch(1))
    assert log_dir.close_cleanly({KEY: 2})


@pytest.mark.parametrize("copy", COPIES)
def test_an_older_copy_over_the_files_of_a_broker_that_stopped_in_order_is_no_clean_stop(
    copy: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    backup.mkdir()
    stopped_cleanly(PosixDisk(), str(data), lambda: copy(data, backup))
    copy(backup, data)
    assert start(PosixDisk(), str(data)).claim.last_shutdown is ShutdownKind.MACHINE_CRASH


@pytest.mark.parametrize("copy", COPIES)
def test_a_directory_that_is_moved_by_a_copy_after_a_clean_stop_is_believed(
    copy: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    data, moved = tmp_path / "data", tmp_path / "moved"
    moved.mkdir()
    stopped_cleanly(PosixDisk(), str(data), lambda: None)
    copy(data, moved)
    again = start(PosixDisk(), str(moved))
    assert again.claim.last_shutdown is ShutdownKind.CLEAN
    (entry,) = load_all(again, now_ms=0)
    assert isinstance(entry, OpenedLog)
    assert entry.log.log_end_offset == 2


def test_the_marker_of_an_older_release_names_no_checkpoints_and_is_believed() -> None:
    disk = MemoryDisk()
    stopped_cleanly(disk, "/data", lambda: None)
    replace_durably(disk, f"/data/{MARKER_FILE}", b'{"broker_epoch": 5}')
    assert start(disk, "/data").claim.last_shutdown is ShutdownKind.CLEAN


def test_a_mark_is_made_anew_over_what_a_dying_process_left_and_not_after_the_release() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    assert not is_mark_fresh(disk, "/data"), "there is none"
    disk.open(f"/data/{FRESH_MARK_FILE}.tmp", create=True).pwrite(b"x", 0)
    mark = FreshMark(disk, "/data", DirectoryHealth("/data"))
    assert mark.renew()
    assert is_mark_fresh(disk, "/data")
    mark.release()
    disk.unlink(f"/data/{FRESH_MARK_FILE}")
    assert not mark.renew()
    assert disk.listdir("/data") == []


def test_a_disk_that_takes_no_mark_has_failed() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    health = DirectoryHealth("/data")
    disk.fail_next("rename", OSError(errno.EIO, "bad sector"))
    with pytest.raises(LogError, match="fresh mark"):
        FreshMark(disk, "/data", health).renew()
    assert health.failure is not None
