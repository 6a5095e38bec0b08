"""ZooKeeper's tree, to lines and back.

Each write to a cluster sets its head (controller.shell.rows), so a cluster that was read while its head
stayed the same was read as of one moment; else it is read again. The controller epoch is read last: no
cluster that was read has been written under a later one. Ephemeral znodes say which controllers run, and are
left out.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, RolledBackError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, Id

from controller.backup.archive import BackupInvalid
from controller.shell.leadership import CLUSTERS_PATH, EPOCH_PATH, EpochRow
from controller.shell.rows import HeadRow, cluster_path, decode_level, head_path, level_path
from springtide.levels import UNTOLD, Level

#: Znodes asked for at a time.
BATCH: Final = 256
#: Of one write: below jute.maxbuffer with room for paths and ACLs.
WRITE_BYTES_MAX: Final = 500_000
WRITE_ZNODES_MAX: Final = 500
TRIES_MAX: Final = 30
PAUSE_S_MAX: Final = 5.0

Acl = tuple[tuple[int, str, str], ...]


class ChangesTooFast(Exception):
    """A cluster was changed each time while it was read."""


class Znode(NamedTuple):
    """path: below the root, empty for the root itself."""

    path: str
    acl: Acl
    data: bytes


class ClusterRead(NamedTuple):
    level: Level
    head: HeadRow | None


def to_line(znode: Znode, acls: list[Acl]) -> list[Any]:
    """acls: those that are known; a new one is added."""
    if znode.acl not in acls:
        acls.append(znode.acl)
    return [znode.path, acls.index(znode.acl), base64.b64encode(znode.data).decode()]


def from_line(line: Any, acls: Sequence[Acl]) -> Znode:
    """Raise BackupInvalid."""
    try:
        path, acl, data = line
        if not isinstance(path, str) or (path and not path.startswith("/")) or "/../" in f"{path}/":
            raise ValueError(f"{path!r} is no path")
        return Znode(path, acls[acl], base64.b64decode(data, validate=True))
    except (TypeError, ValueError, IndexError) as error:
        raise BackupInvalid(f"a line is no znode: {error}") from error


def read_outside(client: KazooClient, root: str) -> Iterator[Znode]:
    """Yield the znodes that are no cluster's, but for the controller epoch. Raise kazoo's errors, NoNodeError
    if there is no root."""
    client.sync(root)
    clusters = {f"{CLUSTERS_PATH}/{name}" for name in cluster_names(client, root)}
    return _walk(client, root, "", skip={EPOCH_PATH, *clusters})


def cluster_names(client: KazooClient, root: str) -> list[str]:
    try:
        return sorted(client.get_children(root + CLUSTERS_PATH))
    except NoNodeError:
        return []


def read_epoch(client: KazooClient, root: str) -> tuple[Znode, int] | None:
    """Return the controller epoch's znode and the number in it; None before the first election."""
    client.sync(root)
    try:
        data, _ = client.get(root + EPOCH_PATH)
        acls, _ = client.get_acls(root + EPOCH_PATH)
    except NoNodeError:
        return None
    row = msgspec.json.decode(data, type=EpochRow)
    return Znode(EPOCH_PATH, _acl(acls), data), int(row.controller_epoch)


def read_cluster(
    client: KazooClient,
    root: str,
    cluster: str,
    begin: Callable[[], Callable[[Znode], None]],
    *,
    on_retry: Callable[[int], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> ClusterRead:
    """Read a cluster as of one moment. begin: called before each try, returns what takes the znodes in, in
    place of those of the try before. Raise ChangesTooFast, and kazoo's errors."""
    for attempt in range(TRIES_MAX):
        before = _head(client, root, cluster)
        take = begin()
        for znode in _walk(client, root, cluster_path(cluster)):
            take(znode)
        if _head(client, root, cluster) == before:
            head = None if before is None else msgspec.json.decode(before[1], type=HeadRow)
            return ClusterRead(_level(client, root, cluster), head)
        on_retry(attempt + 1)
        sleep(min(0.1 * 2**attempt, PAUSE_S_MAX))
    raise ChangesTooFast(
        f"cluster {cluster!r} was changed each of {TRIES_MAX} times while it was read: try again when fewer "
        "partitions change (GET /audit shows what does)"
    )


def _head(client: KazooClient, root: str, cluster: str) -> tuple[int, bytes] | None:
    """Return when it was written, and what."""
    path = root + head_path(cluster)
    client.sync(path)
    try:
        data, stat = client.get(path)
    except NoNodeError:
        return None
    return stat.mzxid, data


def _level(client: KazooClient, root: str, cluster: str) -> Level:
    try:
        data, _ = client.get(root + level_path(cluster))
        return decode_level(data)
    except NoNodeError:
        return UNTOLD


def _walk(client: KazooClient, root: str, top: str, *, skip: set[str] | None = None) -> Iterator[Znode]:
    """Yield the znode and all below it that are not ephemeral, parents first."""
    waiting = [top]
    while waiting:
        batch, waiting = waiting[-BATCH:], waiting[:-BATCH]
        asked = [
            (path, client.get_async(root + path), client.get_acls_async(root + path))
            for path in batch
            if skip is None or path not in skip
        ]
        parents = []
        for path, data, acls in asked:
            try:
                found: tuple[bytes, ZnodeStat] = data.get()
                if found[1].ephemeralOwner:
                    continue
                yield Znode(path, _acl(acls.get()[0]), found[0])
                if found[1].numChildren:
                    parents.append((path, client.get_children_async(root + path)))
            except NoNodeError:
                if path == top:
                    raise
                # Deleted meanwhile: of a cluster, its head tells.
        for path, children in parents:
            with suppress(NoNodeError):
                waiting += [f"{path}/{name}" for name in sorted(children.get(), reverse=True)]


def _acl(acls: Sequence[ACL]) -> Acl:
    return tuple((one.perms, one.id.scheme, one.id.id) for one in acls)


def kazoo_acl(acl: Acl) -> list[ACL]:
    return [ACL(perms, Id(scheme, name)) for perms, scheme, name in acl]


class TreeWriter:
    """Creates znodes, many in one write, parents first. Nothing is overwritten."""

    def __init__(self, client: KazooClient, root: str, written: Callable[[int], None]) -> None:
        self._client = client
        self._root = root
        self._written = written
        self._waiting: list[Znode] = []
        self._bytes = 0

    def add(self, znode: Znode) -> None:
        """Raise BackupInvalid if the znode is there already, or has no parent, and kazoo's errors."""
        size = len(znode.data) + len(znode.path)
        if self._waiting and (len(self._waiting) >= WRITE_ZNODES_MAX or self._bytes + size > WRITE_BYTES_MAX):
            self.flush()
        self._waiting.append(znode)
        self._bytes += size

    def flush(self) -> None:
        if not self._waiting:
            return
        write = self._client.transaction()
        for znode in self._waiting:
            write.create(self._root + znode.path, znode.data, acl=kazoo_acl(znode.acl))
        for znode, result in zip(self._waiting, write.commit(), strict=True):
            if isinstance(result, NodeExistsError):
                raise BackupInvalid(
                    f"{self._root}{znode.path} is there already: did a controller start meanwhile?"
                )
            if isinstance(result, Exception) and not isinstance(result, RolledBackError):
                raise BackupInvalid(f"{self._root}{znode.path} can't be created: {result!r}")
        self._written(len(self._waiting))
        self._waiting, self._bytes = [], 0
