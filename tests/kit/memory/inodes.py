"""Files and directories of the disk in memory: what is cached, what is durable, what a power cut may leave.

A file keeps its cached bytes and, since its last fsync, what each write replaced: so its state at any moment
since then can be had back, and an fsync costs nothing. A directory keeps its names twice, cached and durable.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
PAGE_BYTES = 4096
PENDING_MAX = 4096
"""Unsynced writes of one file; beyond that the older half counts as written back, as a kernel would."""


_moments = count()


class Write(NamedTuple):
    """new: None for a truncation to `position`. replaced: the bytes that went."""

    position: int
    new: bytes | None
    replaced: bytes
    size_before: int


class Inode:
    """A file's bytes. pending: what happened since the last fsync, oldest first. has_mount_mark: a mark that
    is only in the kernel's memory. born, modified: moments, of which each is another one; a copy has the
    `modified` of what it was made of."""

    __slots__ = ("born", "data", "has_mount_mark", "modified", "pending", "rotten", "shown")

    def __init__(self, data: bytearray | None = None) -> None:
        self.data = bytearray() if data is None else data
        self.pending: list[Write] = []
        self.has_mount_mark = False
        self.born = self.modified = next(_moments)
        #: Position -> bits that are wrong on the platter, until something is written over them; and which of
        #: them the page cache shows by now.
        self.rotten: dict[int, int] = {}
        self.shown: set[int] = set()

    def forget(self, length: int, position: int) -> None:
        """The page cache drops clean pages: from now on all see what the platter holds."""
        if not self.rotten or self.pending:
            return
        first = position // PAGE_BYTES * PAGE_BYTES
        last = -(-(position + length) // PAGE_BYTES) * PAGE_BYTES
        for at in [at for at in self.rotten if first <= at < last and at not in self.shown]:
            self.data[at] ^= self.rotten[at]
            self.shown.add(at)

    def _heal(self, first: int, last: int) -> None:
        for at in [at for at in self.rotten if first <= at < last]:
            del self.rotten[at]
            self.shown.discard(at)

    def write(self, new: bytes, position: int) -> None:
        self.modified = next(_moments)
        data = self.data
        size = len(data)
        replaced = bytes(data[position : position + len(new)])
        if size < position:
            data.extend(bytes(position - size))
        data[position : position + len(new)] = new
        if self.rotten:
            self._heal(position, position + len(new))
        self._note(Write(position, new, replaced, size))

    def truncate(self, size_bytes: int) -> None:
        self.modified = next(_moments)
        size = len(self.data)
        replaced = bytes(self.data[size_bytes:])
        if self.rotten:
            self._heal(size_bytes, size)
        if size < size_bytes:
            self.data.extend(bytes(size_bytes - size))
        else:
            del self.data[size_bytes:]
        self._note(Write(size_bytes, None, replaced, size))

    def drop_pending(self) -> None:
        """Back to the last fsync."""
        self.data = self.version(0)
        self.pending.clear()

    def version(self, count: int) -> bytearray:
        """The bytes after the first `count` of the pending writes."""
        data = bytearray(self.data)
        for write in reversed(self.pending[count:]):
            del data[write.size_before :]
            if write.new is None:
                data.extend(write.replaced)
            else:
                data[write.position : write.position + len(write.replaced)] = write.replaced
        return data

    def _note(self, write: Write) -> None:
        self.pending.append(write)
        if len(self.pending) > PENDING_MAX:
            del self.pending[: PENDING_MAX // 2]


class Directory:
    """entries: as processes see them. durable: as of the last fsync of the directory."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}

    def set_durable(self, name: str, node: Inode | Directory | None) -> None:
        _set(self.durable, name, node)


Move = list[tuple[Directory, str, Inode | Directory | None]]
"""One atomic change of names: each of them now stands for this node, or (None) for nothing. A rename has two,
the old name first. Durable after an fsync of the last one's directory."""


def survivors_of_power_cut(
    root: Directory, pending: list[Move], writing: tuple[Inode, int, bytes] | None, random: Random
) -> Directory:
    """A tree of its own with what a power cut may leave: a prefix of the changes of names, and of each file
    that is still there some mixture of its sectors."""
    kept = pending[: random.choice((0, len(pending), random.randint(0, len(pending))))]
    names: dict[int, dict[str, Inode | Directory]] = {}
    for move in kept:
        for directory, name, node in move:
            _set(names.setdefault(id(directory), dict(directory.durable)), name, node)

    copies: dict[int, Inode] = {}

    def copy(node: Inode | Directory) -> Inode | Directory:
        if isinstance(node, Inode):
            if id(node) not in copies:
                survivor = Inode(_surviving_bytes(node, writing, random))
                survivor.rotten = {at: bits for at, bits in node.rotten.items() if at < len(survivor.data)}
                survivor.shown = node.shown & survivor.rotten.keys()
                survivor.forget(len(survivor.data), 0)
                copies[id(node)] = survivor
            return copies[id(node)]
        made = Directory()
        for name, child in names.get(id(node), node.durable).items():
            made.entries[name] = copy(child)
        made.durable = dict(made.entries)
        return made

    tree = copy(root)
    assert isinstance(tree, Directory)
    return tree


def _surviving_bytes(inode: Inode, writing: tuple[Inode, int, bytes] | None, random: Random) -> bytearray:
    if writing is not None and writing[0] is inode:
        inode = clone_inode(inode)
        inode.write(writing[2], writing[1])
    count = len(inode.pending)
    if not count:
        return bytearray(inode.data)
    fate = random.random()
    if fate < 0.15:
        return inode.version(0)
    if fate < 0.30:
        return bytearray(inode.data)
    if fate < 0.50:
        return _torn_moment(inode, random.randrange(count), random)
    moments = sorted({0, count, random.randint(0, count), random.randint(0, count)})
    return _mixed_sectors(inode, [inode.version(moment) for moment in moments], random)


def _torn_moment(inode: Inode, moment: int, random: Random) -> bytearray:
    """All up to a moment, and a part of the write that came next."""
    data = inode.version(moment)
    position, new, _, _ = inode.pending[moment]
    if new is None:
        return data
    torn = new[: random.randint(0, len(new))]
    if len(data) < position:
        data.extend(bytes(position - len(data)))
    data[position : position + len(torn)] = torn
    return data


def _mixed_sectors(inode: Inode, versions: list[bytearray], random: Random) -> bytearray:
    """Each sector as it was at some moment. Often all but a few are of one moment: that is where a missing
    fsync shows."""
    size = len(random.choice(versions))
    first = min(write.position for write in inode.pending) // SECTOR_BYTES * SECTOR_BYTES
    favourite = random.choice(versions)
    others_share = random.choice((0.1, 0.5, 1.0))
    mixed = bytearray(size)
    mixed[:first] = versions[-1][: min(first, size)]
    del mixed[size:]
    for start in range(first, size, SECTOR_BYTES):
        version = random.choice(versions) if random.random() < others_share else favourite
        sector = version[start : min(start + SECTOR_BYTES, size)]
        mixed[start : start + len(sector)] = sector  # beyond the size of its moment: zeros
    return mixed


def clone_inode(inode: Inode) -> Inode:
    clone = Inode(bytearray(inode.data))
    clone.pending = list(inode.pending)
    clone.has_mount_mark = inode.has_mount_mark
    clone.born, clone.modified = inode.born, inode.modified
    clone.rotten, clone.shown = dict(inode.rotten), set(inode.shown)
    return clone


def clone_tree(node: Inode | Directory, copies: dict[int, Inode | Directory]) -> Inode | Directory:
    """The node and all below it, cached and durable; `copies` remembers by id what was copied already."""
    known = copies.get(id(node))
    if known is not None:
        return known
    if isinstance(node, Inode):
        copies[id(node)] = clone = clone_inode(node)
        return clone
    copies[id(node)] = directory = Directory()
    directory.entries = {name: clone_tree(child, copies) for name, child in node.entries.items()}
    directory.durable = {name: clone_tree(child, copies) for name, child in node.durable.items()}
    return directory


def _set(names: dict[str, Inode | Directory], name: str, node: Inode | Directory | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
