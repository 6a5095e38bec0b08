"""The disk port: every byte that the storage layer reads or writes passes here.

One narrow surface, so that a simulated disk can drop unsynced bytes, tear writes and fail fsyncs, and so
that the rules of durability can be read in one place: a *file's bytes* are durable after `fsync`, a *name*
(create, rename, unlink) after `fsync_dir` of its directory (KAFKA-3968: a fresh segment vanished with a power
cut).

Thousands of files at once are made durable by `sync_all`, which costs one wait instead of one each. It takes
along what others have written to the same file system, so it is for batches only.

A *mount mark* is a mark on a file that only the kernel's memory holds: it outlives processes and bind mounts,
and is gone once the file system was mounted again, and at the latest with the kernel.

Paths are strings with "/". Failures are OSError; what they mean (the directory is finished) is decided above.
No mmap: an error on a mapped page is a signal that kills the process.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview

DELETED_SUFFIX = ".deleted"
"""A file or folder whose name ends so only waits to be unlinked, in a thread: an unlink frees what the file
had, and waits for a flush that is writing its bytes."""
PAGE_BYTES = 4096
PROBE_BYTES = 128 * 1024
"""Linux reads ahead, and so fills its page cache, in pieces of this size by default (read_ahead_kb)."""
IOV_MAX = 1024
"""Linux takes so many buffers in one pwritev."""

F_GET_RW_HINT, F_SET_RW_HINT = 1035, 1036
RWH_WRITE_LIFE_EXTREME = 5
"""The mount mark: a hint how long a file's data will live. Linux (4.13 on) keeps it in the inode in memory,
and no file system writes it to the medium."""
LOCAL_FILE_SYSTEMS = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # xfs
        0x9123683E,  # btrfs
        0xF2F52010,  # f2fs
        0x01021994,  # tmpfs
        0x794C7630,  # overlayfs
    }
)
"""`f_type` of those whose inodes in memory do not outlive what their files hold: a network file system's may
stay while its server goes back, and ZFS rolls a mounted one back."""
STATFS_BYTES = 512
AT_EMPTY_PATH = 0x1000
STATX_MTIME, STATX_BTIME = 0x40, 0x800
STATX_BYTES = 256
STATX_TIME = struct.Struct("=qI")
STATX_BTIME_AT, STATX_MTIME_AT = 80, 112
"""Where statx(2) puts seconds and nanoseconds of a file's birth and last modification."""
_statx = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
"""None where the C library has no such call."""
SYNCED_FILE_SYSTEMS = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010})
"""`f_type` of ext4, xfs, btrfs and f2fs: syncfs(2) waits there until everything is on the medium."""
SYNCFS_KERNEL_MIN = (5, 8)
"""Earlier ones don't tell syncfs of a failed write."""


class DirectoryLocked(Exception):
    """Another process holds this directory."""


class File(Protocol):
    """An open file. It stays usable after its name is gone, until the last reference to it is dropped."""

    def fileno(self) -> int:
        """Return the descriptor for sendfile. A simulated disk raises OSError: read with pread instead."""

    def size_bytes(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""

    def is_cached(self, length: int, position: int) -> bool:
        """Return whether these bytes are very probably in the page cache. False if the file system can't
        tell."""

    def forget(self, length: int, position: int) -> None:
        """Drop what the kernel remembers of these bytes, so that the next read comes from the disk. A page
        that was not written back stays."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """All of `data`, or OSError (some of it may be there then)."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """All buffers one after another, or OSError."""

    def truncate(self, size_bytes: int) -> None: ...

    def fsync(self) -> None: ...

    def can_sync_all(self) -> bool: ...

    def sync_all(self) -> None:
        """Make durable all that was written to this file's file system until now, names included. Only if
        `can_sync_all`. Raise OSError if anything written since this file was opened could not be stored."""

    def set_mount_mark(self) -> bool:
        """Set a mark that stays for as long as this file is in the kernel's memory (`has_mount_mark`). Return
        False if this kernel or file system has no such mark."""

    def has_mount_mark(self) -> bool: ...

    def is_untouched(self) -> bool:
        """Return whether nothing has written to the file, or set its times, since it was made. False where
        the file system does not tell."""

    def close(self) -> None:
        """Idempotent. Only for a file without another holder; otherwise drop the reference."""


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing. Raise FileNotFoundError if it is missing, unless `create`."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Names, sorted."""

    def mkdir(self, path: str) -> None:
        """Parents too; no error if it exists. Durable after fsync_dir of the parent."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file."""

    def unlink(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> File:
        """An exclusive lock, held until the file is closed or the process ends. Raises DirectoryLocked."""


class PosixFile:
    """A file descriptor that closes itself with its last reference: a slice of a segment that retention has
    deleted meanwhile can still be sent."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd

    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing and (data := os.pread(self._fd, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def is_cached(self, length: int, position: int) -> bool:
        fd, probe, last = self._fd, (bytearray(1),), position + length - 1
        try:
            for probed in range(position, last, PROBE_BYTES):
                if not os.preadv(fd, probe, probed, os.RWF_NOWAIT):
                    return False
            return os.preadv(fd, probe, last, os.RWF_NOWAIT) > 0
        except OSError:  # EAGAIN: a disk is needed. EOPNOTSUPP: it can't be told.
            return False

    def forget(self, length: int, position: int) -> None:
        # Only whole pages are dropped.
        first = position // PAGE_BYTES * PAGE_BYTES
        last = -(-(position + length) // PAGE_BYTES) * PAGE_BYTES
        os.posix_fadvise(self._fd, first, last - first, os.POSIX_FADV_DONTNEED)

    def pwrite(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(view):  # a short write: the next one tells why
            written += os.pwrite(self._fd, view[written:], position + written)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        total = sum(map(len, buffers))
        if len(buffers) <= IOV_MAX and os.pwritev(self._fd, buffers, position) == total:
            return
        for buffer in buffers:  # short, or too many: again, one by one, over the same bytes
            self.pwrite(buffer, position)
            position += len(buffer)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def fsync(self) -> None:
        os.fsync(self._fd)

    def can_sync_all(self) -> bool:
        return (
            sys.platform == "linux"
            and _kernel_version() >= SYNCFS_KERNEL_MIN
            and _file_system_of(self._fd) in SYNCED_FILE_SYSTEMS
        )

    def sync_all(self) -> None:
        if ctypes.CDLL(None, use_errno=True).syncfs(self._fd) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def set_mount_mark(self) -> bool:
        if sys.platform != "linux" or _file_system_of(self._fd) not in LOCAL_FILE_SYSTEMS:
            return False
        try:
            fcntl.fcntl(self._fd, F_SET_RW_HINT, struct.pack("@Q", RWH_WRITE_LIFE_EXTREME))
        except OSError:  # an older kernel, or one that lets only the file's owner
            return False
        return self.has_mount_mark()

    def has_mount_mark(self) -> bool:
        if sys.platform != "linux" or _file_system_of(self._fd) not in LOCAL_FILE_SYSTEMS:
            return False
        try:
            (hint,) = struct.unpack("@Q", fcntl.fcntl(self._fd, F_GET_RW_HINT, bytes(8)))
        except OSError:
            return False
        return bool(hint == RWH_WRITE_LIFE_EXTREME)

    def is_untouched(self) -> bool:
        found = ctypes.create_string_buffer(STATX_BYTES)
        wanted = STATX_MTIME | STATX_BTIME
        if _statx is None or _statx(self._fd, b"", AT_EMPTY_PATH, wanted, found) != 0:
            return False
        has_both = int.from_bytes(found.raw[:4], sys.byteorder) & wanted == wanted
        born, modified = (STATX_TIME.unpack_from(found, at) for at in (STATX_BTIME_AT, STATX_MTIME_AT))
        return has_both and born == modified

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixDisk:
    """The real one."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return PosixFile(os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def listdir(self, path: str) -> list[str]:
        return sorted(entry.name for entry in Path(path).iterdir())

    def mkdir(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        Path(source).replace(target)

    def unlink(self, path: str) -> None:
        Path(path).unlink()

    def rmdir(self, path: str) -> None:
        Path(path).rmdir()

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> File:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DirectoryLocked(path) from None
        except OSError:
            os.close(fd)
            raise
        return PosixFile(fd)


def _kernel_version() -> tuple[int, ...]:
    """Major and minor; () where the release does not begin with two numbers."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return () if found is None else (int(found[1]), int(found[2]))


def _file_system_of(fd: int) -> int:
    """`f_type` of statfs(2), which Python does not give; -1 where it can't be had."""
    found = ctypes.create_string_buffer(STATFS_BYTES)
    if ctypes.CDLL(None).fstatfs(fd, found) != 0:
        return -1
    return ctypes.c_ulong.from_buffer(found).value


def read_whole(disk: Disk, path: str, *, bytes_max: int) -> bytes | None:
    """A small file's content; None if there is no such file. OSError if it is larger than `bytes_max`."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        size = file.size_bytes()
        if size > bytes_max:
            raise OSError(f"{path} has {size} bytes, more than {bytes_max}")
        return file.pread(size, 0)
    finally:
        file.close()


def stored_bytes(disk: Disk, path: str) -> int:
    """Return a file's size. Raise OSError, FileNotFoundError."""
    with closing(disk.open(path)) as file:
        return file.size_bytes()


def fsync_file(disk: Disk, path: str) -> None:
    with closing(disk.open(path)) as file:
        file.fsync()


def replace(disk: Disk, path: str, data: bytes, *, is_synced: bool = False) -> None:
    """Write a small file under a temporary name, and rename it. Not durable unless `is_synced`."""
    temporary = f"{path}.tmp"
    with closing(disk.open(temporary, create=True)) as file:
        file.truncate(0)
        file.pwrite(data, 0)
        if is_synced:
            file.fsync()
    disk.rename(temporary, path)


def mkdir_durably(disk: Disk, path: str) -> None:
    """Make the directory if it is not there, and its name durable. Raise OSError."""
    if not disk.exists(path):
        disk.mkdir(path)
        disk.fsync_dir(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))


def set_to_be_unlinked(disk: Disk, path: str) -> str:
    """Rename a file to a name that only waits to be unlinked, and return that."""
    disk.rename(path, path + DELETED_SUFFIX)
    return path + DELETED_SUFFIX


def replace_durably(disk: Disk, path: str, data: bytes) -> None:
    """Write a small file so that a crash leaves either the old content or the new: temporary file, fsync,
    rename, fsync of the directory. Leaving out any of these was seen to bring back zeros or the old name."""
    replace(disk, path, data, is_synced=True)
    disk.fsync_dir(path.rpartition("/")[0])


def rename_durably(disk: Disk, source: str, target: str) -> None:
    """Rename a file or directory, durably in the directory that it comes into and in the one it leaves."""
    disk.rename(source, target)
    disk.fsync_dir(target.rpartition("/")[0])
    disk.fsync_dir(source.rpartition("/")[0])


def unlink_durably(disk: Disk, path: str) -> None:
    """Unlink a file, if there is one, durably."""
    if disk.exists(path):
        disk.unlink(path)
        disk.fsync_dir(path.rpartition("/")[0])
