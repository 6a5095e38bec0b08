"""A small ext4 in a file, whose power can be cut.

The loop device and the mount stand in a record as long as they exist: whoever comes next removes what a
killed run has left, and nothing else. Needs root and loop devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

RECORDS = Path("build/powercuts")
SIZE_BYTES = 64 * 2**20
OPTIONS = b"commit=300,noauto_da_alloc"
"""Nothing is written back before somebody syncs it: what is not fsynced is lost for certain."""
MEMORY = Path("/dev/shm")

IN_USE_SECONDS_MAX = 10.0

_SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN
_NO_LOG_FLUSH = 2
_CLONE_NEWNS = 0x00020000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


class Record(msgspec.Struct, frozen=True):
    """What exists outside of this process, and whose it is."""

    pid: int
    directory: str
    loop: str = ""


class Volume:
    """mount: where it is, empty at first."""

    def __init__(self, loop: str, mount: Path) -> None:
        self.loop = loop
        self.mount = mount

    def cut_power(self) -> None:
        """From now on the file system answers EIO, and what was not durable is gone."""
        fd = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Everything that is written becomes durable, as when somebody else on the machine asks for it."""
        fd = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _libc.syncfs(fd):
                raise _failed(f"syncing {self.mount}")
        finally:
            os.close(fd)

    def mount_again(self) -> None:
        """As after a boot: the journal is replayed. OSError if somebody else keeps it mounted, such as a
        mount namespace that was made meanwhile: then it is not a new life but the one that was ended."""
        deadline = time.monotonic() + IN_USE_SECONDS_MAX
        while True:
            self.umount()
            self.mount_first()
            try:
                probe = self.mount / "probe"
                probe.touch()
                probe.unlink()
                return
            except OSError as error:
                if error.errno != errno.EIO or time.monotonic() >= deadline:
                    raise OSError(error.errno, f"{self.loop} is mounted elsewhere, and shut down") from error
            time.sleep(0.1)

    def mount_first(self) -> None:
        if _libc.mount(self.loop.encode(), os.fsencode(self.mount), b"ext4", 0, OPTIONS):
            raise _failed(f"mounting {self.loop}")

    def umount(self) -> None:
        gc.collect()  # files close with their last reference
        if _libc.umount2(os.fsencode(self.mount), 0):
            raise _failed(f"unmounting {self.mount}")


@contextlib.contextmanager
def ext4_volume(records: Path = RECORDS) -> Iterator[Volume]:
    """Made, mounted, and removed at the end, however it comes. Raises OSError or CalledProcessError where no
    loop device can be had."""
    remove_leftovers(records)
    records.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="springtide-power-", dir=MEMORY if MEMORY.is_dir() else None))
    record = Record(os.getpid(), str(directory))
    path = records / f"{directory.name}.json"
    path.write_bytes(msgspec.json.encode(record))
    try:
        image = directory / "disk.img"
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(image))
        loop = _run("losetup", "--find", "--show", str(image)).strip()
        record = msgspec.structs.replace(record, loop=loop)
        path.write_bytes(msgspec.json.encode(record))
        (directory / "mount").mkdir()
        volume = Volume(loop, directory / "mount")
        volume.mount_first()
        yield volume
    finally:
        gc.collect()
        _remove(record)
        path.unlink(missing_ok=True)


def remove_leftovers(records: Path = RECORDS) -> None:
    """What runs have left that were killed before they could."""
    for path in sorted(records.glob("*.json")):
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        if not Path(f"/proc/{record.pid}").exists():
            _remove(record)
            path.unlink(missing_ok=True)


def enter_own_mounts() -> None:
    """What this process mounts from now on no other sees, and it goes with this process."""
    if _libc.unshare(_CLONE_NEWNS) or _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise _failed("leaving the machine's mounts")


def why_impossible() -> str | None:
    """Why no power can be cut here; None if it can."""
    if os.geteuid():
        return "mounting needs root"
    if missing := [name for name in ("mkfs.ext4", "losetup") if shutil.which(name) is None]:
        return f"{' and '.join(missing)} missing"
    try:
        with ext4_volume():
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no ext4 on a loop device: {error}"


def _remove(record: Record) -> None:
    mount = Path(record.directory) / "mount"
    if mount.is_mount():
        _libc.umount2(os.fsencode(mount), 2)  # MNT_DETACH: a writer that is just dying may hold a file
    backing = Path(f"/sys/block/{Path(record.loop).name}/loop/backing_file")
    if record.loop and backing.exists() and record.directory in backing.read_text():
        _run("losetup", "--detach", record.loop)
    shutil.rmtree(record.directory, ignore_errors=True)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _failed(doing: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{doing}: {os.strerror(number)}")
