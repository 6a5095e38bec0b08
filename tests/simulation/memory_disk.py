"""A disk in memory that forgets what was not synced: the Disk port for tests.

Every inode holds its current bytes and those of its last fsync; every directory its current names and those
of its last fsync_dir. `crash_machine` keeps a legal subset of what was pending, drawn from a seeded RNG: any
sectors of the unsynced bytes, the new or the old size, and a prefix of the unsynced changes of names.
`crash_process` keeps everything. Either way the handles of the old life are dead.

Faults: `fail_next(operation, error)` makes one coming operation raise; `free_bytes_left` makes writes hit
ENOSPC after some bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random

from dataplane.storage.disk import Buffer, DirectoryLocked, File

SECTOR_BYTES = 512


class _Inode:
    __slots__ = ("data", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""


class MemoryFile:
    def __init__(self, disk: MemoryDisk, inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._life = disk.life

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a file in memory has no descriptor")

    def size_bytes(self) -> int:
        self._check("size")
        return len(self._inode.data)

    def pread(self, length: int, position: int) -> bytes:
        self._check("pread")
        return bytes(self._inode.data[position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        self._check("pwrite")
        room = self._disk.take_free_bytes(len(data))
        inode = self._inode.data
        if len(inode) < position:
            inode.extend(bytes(position - len(inode)))
        inode[position : position + room] = bytes(data)[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, "no space left in memory")

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(bytes(buffer) for buffer in buffers), position)

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        del self._inode.data[size_bytes:]

    def fsync(self) -> None:
        try:
            self._check("fsync")
        except OSError:
            # As Linux does: the dirty pages are dropped, and the next fsync will find nothing to do.
            self._inode.data = bytearray(self._inode.synced)
            raise
        self._inode.synced = bytes(self._inode.data)
        self._disk.synced_paths.append(self._path)

    def close(self) -> None:
        self._disk.locks.discard(id(self))

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EIO, "a handle of an earlier life")
        self._disk.check(operation, self._path)


class MemoryDisk:
    def __init__(self) -> None:
        self.life = 0
        self.free_bytes_left: int | None = None
        self.synced_paths: list[str] = []
        self.locks: set[int] = set()
        self._names: dict[str, _Inode | None] = {"": None}  # None is a directory
        self._synced_names: dict[str, _Inode | None] = {"": None}
        self._pending: list[tuple[str, str, _Inode | None]] = []  # (what, path, inode), in order
        self._faults: list[tuple[str, Callable[[str], bool], OSError]] = []
        self._locked: dict[str, MemoryFile] = {}

    # ---- faults

    def fail_next(self, operation: str, error: OSError, *, path_contains: str = "") -> None:
        self._faults.append((operation, lambda path: path_contains in path, error))

    def check(self, operation: str, path: str) -> None:
        for index, (failing, is_hit, error) in enumerate(self._faults):
            if failing == operation and is_hit(path):
                del self._faults[index]
                raise error

    def take_free_bytes(self, wanted: int) -> int:
        if self.free_bytes_left is None:
            return wanted
        granted = min(wanted, self.free_bytes_left)
        self.free_bytes_left -= granted
        return granted

    def crash_process(self) -> None:
        self.life += 1
        self._locked.clear()
        self.locks.clear()

    def crash_machine(self, random: Random) -> None:
        self.crash_process()
        for what, path, target in self._pending[: random.randint(0, len(self._pending))]:
            self._apply(what, path, target)
        survivors: dict[str, _Inode | None] = {"": None}
        for path in sorted(self._synced_names):
            if path and path.rpartition("/")[0] in survivors:
                survivors[path] = self._synced_names[path]
        self._pending.clear()
        for inode in {id(inode): inode for inode in survivors.values() if inode is not None}.values():
            _tear(inode, random)
        self._names = survivors
        self._synced_names = dict(survivors)

    # ---- Disk

    def open(self, path: str, *, create: bool = False) -> File:
        self.check("open", path)
        if path not in self._names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._need_parent(path)
            self._names[path] = _Inode()
            self._pending.append(("link", path, self._names[path]))
        inode = self._names[path]
        if inode is None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return MemoryFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return path in self._names

    def is_dir(self, path: str) -> bool:
        return path in self._names and self._names[path] is None

    def listdir(self, path: str) -> list[str]:
        self.check("listdir", path)
        prefix = f"{path}/"
        return sorted(
            name[len(prefix) :]
            for name in self._names
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        )

    def mkdir(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if path not in self._names:
                self._names[path] = None
                self._pending.append(("link", path, None))

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        self._need_parent(target)
        for name in [name for name in self._names if name == source or name.startswith(f"{source}/")]:
            self._names[target + name[len(source) :]] = self._names.pop(name)
        # What still waits inside a renamed directory waits under its new name.
        self._pending = [
            (what, target + path[len(source) :] if path.startswith(f"{source}/") else path, inode)
            for what, path, inode in self._pending
        ]
        self._pending.append((f"rename {source}", target, self._names[target]))

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        del self._names[path]
        self._pending.append(("unlink", path, None))

    def rmdir(self, path: str) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        del self._names[path]
        self._pending.append(("unlink", path, None))

    def fsync_dir(self, path: str) -> None:
        self.check("fsync_dir", path)
        path = path.rstrip("/")
        waiting = []
        for change in self._pending:
            if change[1].rpartition("/")[0] == path:
                self._apply(*change)
            else:
                waiting.append(change)
        self._pending = waiting

    def _apply(self, what: str, path: str, inode: _Inode | None) -> None:
        """Make one change of names durable."""
        names = self._synced_names
        if what == "link":
            names[path] = inode
        elif what == "unlink":
            names.pop(path, None)
        else:
            source = what.removeprefix("rename ")
            for name in [name for name in names if name == source or name.startswith(f"{source}/")]:
                names[path + name[len(source) :]] = names.pop(name)
            names[path] = inode

    def free_bytes(self, path: str) -> int:
        return 2**40 if self.free_bytes_left is None else self.free_bytes_left

    def lock(self, path: str) -> File:
        held = self._locked.get(path)
        if held is not None and id(held) in self.locks:
            raise DirectoryLocked(path)
        file = self.open(path, create=True)
        assert isinstance(file, MemoryFile)
        self._locked[path] = file
        self.locks.add(id(file))
        return file

    # ---- for tests

    def content(self, path: str) -> bytearray:
        """The current bytes, to look at or to damage."""
        inode = self._names[path]
        assert inode is not None, path
        return inode.data

    def _need_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)


def _tear(inode: _Inode, random: Random) -> None:
    """Some legal mixture of the synced bytes and the newer ones."""
    new, old = bytes(inode.data), inode.synced
    size = random.choice([len(new), len(old)])
    mixed = bytearray(size)
    for start in range(0, size, SECTOR_BYTES):
        stop = min(start + SECTOR_BYTES, size)
        source = new if random.random() < 0.5 else old
        sector = source[start:stop]
        mixed[start : start + len(sector)] = sector  # beyond the old size: zeros
    if random.random() < 0.2 and new[: len(old)] == old and len(new) > len(old):
        mixed = bytearray(new[: random.randint(len(old), len(new))])  # a plain prefix
    inode.data = mixed
    inode.synced = bytes(mixed)
