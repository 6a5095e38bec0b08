"""A disk in memory that forgets what was not synced: the Disk port for tests.

What ext4 was seen to do, and POSIX allows, is what this disk does (each was measured on a real one):

- a file's bytes are durable after its `fsync`. Until then any 512-byte sector may hold what it held at any
  moment since, the size may be that of any moment since, and what the size covers and no sector filled is
  zeros. The last write may be torn;
- a name (create, mkdir, rename, unlink) is durable after `fsync_dir` of its directory. Until then a power cut
  keeps a prefix of the changes of names, in the order in which they were made;
- a failed fsync drops the dirty bytes, and the next one succeeds because it has nothing to do.

`crash_machine` draws such a state from a seeded RNG, `crash_process` keeps everything; either way the handles
of the old life are dead. `power_cut_image` and `process_crash_image` give the state to a new disk and leave
this one as it is: so one run has as many crashes as one likes to look at. A volume that is detached without
a flush and attached again, on a machine that runs on, has had a power cut. A mount mark outlives processes,
and no power cut, snapshot or new disk.

Faults: `fail_next` and `fail_always` make operations raise (EIO, ENOSPC), `free_bytes_left` makes writes hit
ENOSPC after some bytes, `is_read_only` is a remounted file system, `latency_ms` makes operations take
virtual time (or for ever), `flip_bit`, `lose_sector` and `misdirect_sector` damage what is at rest,
`snapshot` and `restore` bring an older state back, `overwrite` puts it over the files that are there, `wipe`
is a new, empty disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random

from dataplane.storage.disk import Buffer, DirectoryLocked, File
from tests.kit.memory.inodes import (
    SECTOR_BYTES,
    Directory,
    Inode,
    Move,
    clone_tree,
    survivors_of_power_cut,
)

__all__ = ["SECTOR_BYTES", "MemoryDisk", "MemoryFile"]

MUTATIONS = frozenset(
    {"create", "pwrite", "truncate", "fsync", "fsync_dir", "mkdir", "rename", "unlink", "rmdir"}
)
SYNCED_PATHS_MAX = 10_000


class MemoryFile:
    """An open file. Its handle is dead after a crash."""

    def __init__(self, disk: MemoryDisk, inode: Inode, path: str) -> None:
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
        if length < 0:
            raise OSError(errno.EINVAL, "a negative length", self._path)
        return bytes(self._inode.data[position : position + length])

    def is_cached(self, length: int, position: int) -> bool:
        """Of four readers three find their bytes cached, the other one needs a thread."""
        return position // SECTOR_BYTES % 4 > 0

    def forget(self, length: int, position: int) -> None:
        self._check("forget")
        self._inode.forget(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._check("pwrite")
        whole = bytes(data)
        room = self._disk.take_free_bytes(len(whole))
        self._disk.writing = (self._inode, position, whole[:room])
        self._disk.tell("pwrite", self._path, is_done=False)
        self._disk.writing = None
        self._inode.write(whole[:room], position)
        self._disk.tell("pwrite", self._path, is_done=True)
        if room < len(whole):
            raise OSError(errno.ENOSPC, "no space left in memory")

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(bytes(buffer) for buffer in buffers), position)

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        with _Told(self._disk, "truncate", self._path):
            self._inode.truncate(size_bytes)

    def fsync(self) -> None:
        try:
            self._check("fsync")
        except OSError:
            # As Linux does: the dirty pages are dropped, and the next fsync will find nothing to do.
            self._inode.drop_pending()
            raise
        with _Told(self._disk, "fsync", self._path):
            self._inode.pending.clear()
        self._disk.note_synced(self._path)

    def can_sync_all(self) -> bool:
        return self._disk.syncs_all

    def sync_all(self) -> None:
        """A disk whose fsync fails fails here as well."""
        assert self._disk.syncs_all
        try:
            self._check("fsync")
        except OSError:
            for path in self._disk.files():
                self._disk.drop_pending(path)
            raise
        with _Told(self._disk, "fsync", self._path):
            self._disk.sync_all()

    def set_mount_mark(self) -> bool:
        self._check("set_mount_mark")
        self._inode.has_mount_mark = self._disk.has_mount_marks
        return self._inode.has_mount_mark

    def has_mount_mark(self) -> bool:
        return self._inode.has_mount_mark

    def is_untouched(self) -> bool:
        self._check("is_untouched")
        return self._disk.has_birth_times and self._inode.modified == self._inode.born

    def close(self) -> None:
        self._disk.locks.discard(id(self))

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EIO, "a handle of an earlier life")
        self._disk.check(operation, self._path)


class MemoryDisk:
    """on_operation: called with (operation, path, is_done) before and after each operation of MUTATIONS.
    has_mount_marks, has_birth_times: whether kernel and file system know of such a mark, and such a time.
    syncs_all: whether they can sync everything at once.
    latency_ms: how long an operation on a path takes, of which `take_latency_ms` gives the sum: the shell's
        thread waits for it in virtual time. `math.inf` is a disk that hangs."""

    def __init__(self) -> None:
        self.life = 0
        self.free_bytes_left: int | None = None
        #: What it says is free, though there is room; None: the truth.
        self.told_free_bytes: int | None = None
        self.is_read_only = False
        self.has_mount_marks = True
        self.has_birth_times = True
        self.syncs_all = True
        self.latency_ms: Callable[[str, str], float] | None = None
        self.on_operation: Callable[[str, str, bool], None] | None = None
        self.synced_paths: list[str] = []
        self.locks: set[int] = set()
        #: The write under way while `on_operation` hears that it begins: a crash may leave a part of it.
        self.writing: tuple[Inode, int, bytes] | None = None
        self._root = Directory()
        self._pending: list[Move] = []
        self._faults: list[tuple[str, str, OSError, bool]] = []
        self._locked: dict[str, MemoryFile] = {}
        self._latency_owed_ms = 0.0

    # ---- faults

    @property
    def is_failing(self) -> bool:
        """Whether something raises, or would if it were asked for."""
        return bool(self._faults) or self.free_bytes_left is not None or self.is_read_only

    def fail_next(self, operation: str, error: OSError, *, path_contains: str = "") -> None:
        """One coming operation raises. Operations: MUTATIONS, and `open`, `size`, `pread`, `listdir`."""
        self._faults.append((operation, path_contains, error, True))

    def fail_always(self, operation: str, error: OSError, *, path_contains: str = "") -> None:
        """Until `heal`."""
        self._faults.append((operation, path_contains, error, False))

    def heal(self) -> None:
        """No fault is left; damaged bytes stay damaged."""
        self._faults.clear()
        self.free_bytes_left = None
        self.is_read_only = False
        self.latency_ms = None

    def check(self, operation: str, path: str) -> None:
        """Raises what is due for this operation."""
        if self.latency_ms is not None:
            self._latency_owed_ms += self.latency_ms(operation, path)
        for index, (failing, part, error, is_once) in enumerate(self._faults):
            if failing == operation and part in path:
                if is_once:
                    del self._faults[index]
                raise error
        if self.is_read_only and operation in MUTATIONS:
            raise OSError(errno.EROFS, "read-only file system", path)

    def take_latency_ms(self) -> float:
        """What the operations since the last call should have taken."""
        owed_ms, self._latency_owed_ms = self._latency_owed_ms, 0.0
        return owed_ms

    def take_free_bytes(self, wanted: int) -> int:
        if self.free_bytes_left is None:
            return wanted
        granted = min(wanted, self.free_bytes_left)
        self.free_bytes_left -= granted
        return granted

    def flip_bit(self, path: str, position: int, *, bit: int = 0) -> None:
        """Bit rot at rest: cached and durable bytes alike."""
        self._inode(path).data[position] ^= 1 << bit

    def rot_bit(self, path: str, position: int, *, bit: int = 0) -> None:
        """Bit rot on the platter alone: the page cache gives the right byte until it has forgotten it."""
        self._inode(path).rotten[position] = 1 << bit

    def rotten_paths(self) -> list[str]:
        """Files in which some bit is wrong, seen or not."""
        found: list[str] = []

        def walk(directory: Directory, prefix: str) -> None:
            for name, node in directory.entries.items():
                if isinstance(node, Directory):
                    walk(node, f"{prefix}/{name}")
                elif node.rotten:
                    found.append(f"{prefix}/{name}")

        walk(self._root, "")
        return found

    def is_clean(self, path: str) -> bool:
        """Whether all that was written to a file was written back."""
        return not self._inode(path).pending

    def lose_sector(self, path: str, sector: int) -> None:
        """A write that was reported as done and never was: the sector holds zeros."""
        data = self._inode(path).data
        stop = min((sector + 1) * SECTOR_BYTES, len(data))
        data[sector * SECTOR_BYTES : stop] = bytes(stop - sector * SECTOR_BYTES)

    def misdirect_sector(self, path: str, sector: int, *, onto: int) -> None:
        """A write that went to another sector of the file: this one keeps zeros, that one is overwritten."""
        data = self._inode(path).data
        moved = data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]
        stop = min(onto * SECTOR_BYTES + len(moved), len(data))
        data[onto * SECTOR_BYTES : stop] = moved[: stop - onto * SECTOR_BYTES]
        self.lose_sector(path, sector)

    # ---- crashes, copies

    def crash_process(self) -> None:
        """The page cache lives."""
        self.life += 1
        self._locked.clear()
        self.locks.clear()

    def crash_machine(self, random: Random) -> None:
        """Some legal subset of what was not synced is left."""
        self._adopt(self.power_cut_image(random))

    def power_cut_image(self, random: Random) -> MemoryDisk:
        """What a power cut at this moment may leave, as another disk."""
        image = MemoryDisk()
        image._root = survivors_of_power_cut(self._root, self._pending, self.writing, random)
        return image

    def process_crash_image(self, random: Random) -> MemoryDisk:
        """What a SIGKILL at this moment may leave, as another disk: everything, and a part of the write under
        way. A later power cut there loses what is not synced here."""
        image, copies = self._copy()
        if self.writing is not None:
            inode, position, data = self.writing
            torn = data[: random.choice((0, len(data), random.randint(0, len(data))))]
            written = clone_tree(inode, copies)
            assert isinstance(written, Inode)
            written.write(torn, position)
        return image

    def snapshot(self) -> MemoryDisk:
        """A backup: the present content, all of it durable."""
        backup, _ = self._copy()
        backup._settle()
        return backup

    def restore(self, backup: MemoryDisk) -> None:
        """This machine comes back with an older state of its disk. Handles die."""
        self._adopt(backup.snapshot())

    def overwrite(self, backup: MemoryDisk) -> None:
        """Copy an older state over this one, as `cp -a` does: files that are there keep their inodes, with
        what the kernel knows of them, and no file goes. The page cache lives; handles die. Who copies makes
        room first."""
        self.crash_process()
        self.free_bytes_left = None
        for path in backup.files():
            source = backup._inode(path)
            self.mkdir(path.rpartition("/")[0])
            file = self.open(path, create=True)
            file.truncate(0)
            file.pwrite(source.data, 0)
            self._inode(path).modified = source.modified

    def wipe(self) -> None:
        """A new, empty disk in place of this one."""
        self._adopt(MemoryDisk())

    def content(self, path: str) -> bytearray:
        """The current bytes, to look at or to damage."""
        return self._inode(path).data

    def files(self) -> list[str]:
        """Every file's path, sorted."""
        found: list[str] = []

        def walk(directory: Directory, path: str) -> None:
            for name, node in directory.entries.items():
                if isinstance(node, Directory):
                    walk(node, f"{path}/{name}")
                else:
                    found.append(f"{path}/{name}")

        walk(self._root, "")
        return sorted(found)

    # ---- Disk

    def open(self, path: str, *, create: bool = False) -> File:
        self.check("open", path)
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("create", path)
            node = Inode()
            with _Told(self, "create", path):
                self._apply([(parent, name, node)])
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return MemoryFile(self, node, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def listdir(self, path: str) -> list[str]:
        self.check("listdir", path)
        return sorted(self._directory(path).entries)

    def mkdir(self, path: str) -> None:
        self.check("mkdir", path)
        directory = self._root
        for part in _parts(path):
            node = directory.entries.get(part)
            if node is None:
                node = Directory()
                with _Told(self, "mkdir", path):
                    self._apply([(directory, part, node)])
            if not isinstance(node, Directory):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        from_directory, from_name = self._parent(source)
        to_directory, to_name = self._parent(target)
        node = from_directory.entries.get(from_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        replaced = to_directory.entries.get(to_name)
        if isinstance(replaced, Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, "directory not empty", target)
        with _Told(self, "rename", target):
            self._apply([(from_directory, from_name, None), (to_directory, to_name, node)])

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        parent, name = self._parent(path)
        if name not in parent.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(parent.entries[name], Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        with _Told(self, "unlink", path):
            self._apply([(parent, name, None)])

    def rmdir(self, path: str) -> None:
        self.check("rmdir", path)
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        with _Told(self, "rmdir", path):
            self._apply([(*self._parent(path), None)])

    def fsync_dir(self, path: str) -> None:
        self.check("fsync_dir", path)
        directory = self._directory(path)
        with _Told(self, "fsync_dir", path):
            # A change also takes with it what happened before to the same names.
            touched: set[tuple[int, str]] = set()
            durable: list[Move] = []
            waiting: list[Move] = []
            for move in reversed(self._pending):
                names = {(id(where), name) for where, name, _ in move}
                if move[-1][0] is directory or names & touched:
                    durable.append(move)
                    touched |= names
                else:
                    waiting.append(move)
            for move in reversed(durable):
                for where, name, node in move:
                    where.set_durable(name, node)
            self._pending = waiting[::-1]

    def free_bytes(self, path: str) -> int:
        if self.told_free_bytes is not None:
            return self.told_free_bytes
        return 2**40 if self.free_bytes_left is None else self.free_bytes_left

    def total_bytes(self, path: str) -> int:
        return 2**41

    def lock(self, path: str) -> File:
        held = self._locked.get(path)
        if held is not None and id(held) in self.locks:
            raise DirectoryLocked(path)
        file = self.open(path, create=True)
        assert isinstance(file, MemoryFile)
        self._locked[path] = file
        self.locks.add(id(file))
        return file

    # ---- inside

    def tell(self, operation: str, path: str, *, is_done: bool) -> None:
        if self.on_operation is not None:
            self.on_operation(operation, path, is_done)

    def note_synced(self, path: str) -> None:
        self.synced_paths.append(path)
        if len(self.synced_paths) > SYNCED_PATHS_MAX:
            del self.synced_paths[: SYNCED_PATHS_MAX // 2]

    def _apply(self, move: Move) -> None:
        for directory, name, node in move:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._pending.append(move)

    def _copy(self) -> tuple[MemoryDisk, dict[int, Inode | Directory]]:
        """The same content, with the same parts of it not yet durable; and the copy of each node, by id."""
        image = MemoryDisk()
        copies: dict[int, Inode | Directory] = {}
        root = clone_tree(self._root, copies)
        assert isinstance(root, Directory)
        image._root = root
        for move in self._pending:
            image._pending.append(
                [
                    (_as_directory(clone_tree(where, copies)), name, node and clone_tree(node, copies))
                    for where, name, node in move
                ]
            )
        return image, copies

    def sync_all(self) -> None:
        """Every byte and every name is durable."""
        for move in self._pending:
            for where, name, node in move:
                where.set_durable(name, node)
        self._pending.clear()
        for path in self.files():
            self._inode(path).pending.clear()

    def drop_pending(self, path: str) -> None:
        self._inode(path).drop_pending()

    def _settle(self) -> None:
        self.sync_all()
        for path in self.files():
            inode = self._inode(path)
            inode.has_mount_mark = False
            inode.born = -1  # a file of its own, made when the copy was

    def _adopt(self, other: MemoryDisk) -> None:
        self.crash_process()
        self._root = other._root
        self._pending = other._pending

    def _find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self._root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(part)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        if not parts:
            raise OSError(errno.EBUSY, "the root stays", path)
        return self._directory("/".join(parts[:-1])), parts[-1]

    def _inode(self, path: str) -> Inode:
        node = self._find(path)
        assert isinstance(node, Inode), path
        return node


class _Told:
    """Tells before and, if it went well, after an operation."""

    __slots__ = ("_disk", "_operation", "_path")

    def __init__(self, disk: MemoryDisk, operation: str, path: str) -> None:
        self._disk = disk
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        self._disk.tell(self._operation, self._path, is_done=False)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._disk.tell(self._operation, self._path, is_done=True)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _as_directory(node: Inode | Directory) -> Directory:
    assert isinstance(node, Directory)
    return node
