"""The port to ZooKeeper: what the controller needs of it, in values.

Everything above this line (election, metadata store, drivers) is written against `Meta`, so that a simulated
ZooKeeper with versions, sessions, expiry and lost answers can stand in for the real one. No type of a client
library passes through.

The one rule that shapes it: the outcome of a write is a *value* with three cases. `Committed` and `Rejected`
are definite; `Unknown` means that the answer was lost, and the write may have happened, may not have, or may
still happen as long as the session lives. A caller that gets `Unknown` reads back before it decides anything
(S17, a write's answer was lost).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controller.shell.clock import ControllerClock

#: A version that no znode has: the operation does not look at versions.
ANY_VERSION = -1


class SessionState(StrEnum):
    """kazoo's three states, which are also the three answers to "may I decide?": yes, not now, never
    again."""

    CONNECTED = "connected"
    #: The connection is gone and the session may or may not still live.
    SUSPENDED = "suspended"
    #: The session is gone, with its ephemeral znodes and watches; a new one comes with the next connection.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class MetaSession:
    """The session as last heard of.

    generation: +1 per change, so that a reader who was away notices changes that were undone since.
    session_id: 0 before the first connection.
    timeout_ms: as negotiated with the server, which may not grant what was asked for.
    """

    state: SessionState
    generation: int
    session_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Node:
    """A znode's bytes and what of its Stat matters. `owner` is the session of an ephemeral one, else 0;
    `created_zxid` tells a znode from an earlier one of the same path."""

    data: bytes
    version: int
    owner: int
    created_zxid: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """Fails the whole write unless `path` exists in `version`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int


Operation = CheckVersion | Create | SetData | Delete


class WriteRejection(StrEnum):
    """Why an operation of a write could not be done."""

    BAD_VERSION = "bad_version"
    NO_NODE = "no_node"
    NODE_EXISTS = "node_exists"
    NOT_EMPTY = "not_empty"
    #: Permissions, quotas, anything else that ZooKeeper states and that asking again will not change.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Committed:
    """All operations were applied, atomically."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was applied, because of the operation at `index`."""

    index: int
    reason: WriteRejection
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The answer was lost."""

    detail: str


Outcome = Committed | Rejected | Unknown


class MetaUnavailable(Exception):
    """ZooKeeper could not be read: no connection, or it went away before the answer."""


class PendingWrite(Protocol):
    """A write on its way. Abandoning it does not call it back."""

    async def outcome(self) -> Outcome: ...


class Watch(Protocol):
    """A znode as it was read, and a single notice of what follows."""

    @property
    def node(self) -> Node | None: ...

    async def changed(self) -> None:
        """Return at the first change after `node` was read, or as soon as changes can't be noticed any more
        (the connection was lost): read again either way."""
        ...


class Meta(Protocol):
    """A ZooKeeper session. Paths are absolute, below the configured root."""

    @property
    def session(self) -> MetaSession: ...

    async def ensure_root(self) -> None:
        """Create the path below which everything is, with its parents. Raise MetaUnavailable."""
        ...

    async def session_changed(self, seen: MetaSession) -> MetaSession:
        """Wait until the session is another one than `seen`, and return it."""
        ...

    def start_write(self, operations: Sequence[Operation]) -> PendingWrite:
        """Send one atomic write. Writes are applied in the order in which they were started, but a later one
        does not fail because an earlier one did: chain them by versions."""
        ...

    async def get(self, path: str) -> Node | None:
        """Raise MetaUnavailable. May lag behind other sessions' writes, never behind our own."""
        ...

    async def get_synced(self, path: str) -> Node | None:
        """Read after ZooKeeper's leader has seen us: what is returned was true after the call began, and our
        session was alive then. Raise MetaUnavailable."""
        ...

    async def keep_reading(
        self, path: str, *, pause_ms: int, clock: ControllerClock, on_read: Callable[[int, Node | None], bool]
    ) -> None:
        """Read as `get_synced` does, every `pause_ms` and at once after a reconnection, and tell when each
        read was sent and what it found. Return when `on_read` returns False. It is called in another thread
        where the store has threads: an answer waits neither for the loop nor for what the loop does."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Several reads at once, in the order of `paths`; not a snapshot. Raise MetaUnavailable."""
        ...

    async def children(self, path: str) -> list[str]:
        """Sorted names; none when the path does not exist. Raise MetaUnavailable."""
        ...

    async def watch(self, path: str) -> Watch:
        """Raise MetaUnavailable."""
        ...
