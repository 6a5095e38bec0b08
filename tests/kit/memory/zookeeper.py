"""A ZooKeeper in memory behind the controller's `Meta` port: for the shell's tests, on any anyio backend.

It keeps what the port promises and breaks what ZooKeeper breaks: answers are lost after or before the write
was applied, connections drop and come back, sessions expire with their ephemeral znodes, watches fire once,
a request above jute.maxbuffer closes the connection. Writes of all sessions are in one order. `history`
holds every applied write with its session, to check who wrote what after whom (I5, one writer of metadata).

tests/integration runs the same operations against this model and a real ZooKeeper and compares the answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio
import anyio.lowlevel

from controller.shell.clock import ControllerClock
from controller.shell.meta import (
    ANY_VERSION,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Meta,
    MetaSession,
    MetaUnavailable,
    Node,
    Operation,
    Outcome,
    Rejected,
    SessionState,
    SetData,
    Unknown,
    WriteRejection,
)

REQUEST_BYTES_MAX = 1_048_575
HEADER_BYTES = 40


@dataclass(frozen=True, slots=True)
class Applied:
    """One write that was applied."""

    zxid: int
    session_id: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """A fault: the next write's answer is lost, and the connection with it. is_applied: whether the write
    was done nevertheless."""

    is_applied: bool


#: What wall clocks show when a run begins.
WALL_START_MS = 1_700_000_000_000


def _loops_wall_ms() -> int:
    return WALL_START_MS + round(anyio.current_time() * 1000)


@dataclass(slots=True)
class MemoryZooKeeper:
    """The server. `latency_ms` passes between a request and its answer."""

    latency_ms: int = 1
    wall_ms: Callable[[], int] = _loops_wall_ms
    nodes: dict[str, Node] = field(default_factory=dict)
    history: list[Applied] = field(default_factory=list)
    zxid: int = 0
    sessions: dict[int, MemoryMeta] = field(default_factory=dict)
    _sessions_ever: int = 0

    def connect(self, *, timeout_ms: int = 4_000) -> MemoryMeta:
        meta = MemoryMeta(self, timeout_ms=timeout_ms)
        meta.reconnect()
        return meta

    def begin_session(self, meta: MemoryMeta) -> int:
        self._sessions_ever += 1
        self.sessions[self._sessions_ever] = meta
        return self._sessions_ever

    def end_session(self, session_id: int) -> None:
        """Removes its ephemeral znodes, as expiry and closing both do."""
        self.sessions.pop(session_id, None)
        for path in [path for path, node in self.nodes.items() if node.owner == session_id]:
            self.zxid += 1
            del self.nodes[path]
            self._notify(path)

    def apply(self, session_id: int, operations: Sequence[Operation]) -> Outcome:
        staged = dict(self.nodes)
        now_ms = self.wall_ms()
        for index, operation in enumerate(operations):
            reason = _stage(staged, operation, zxid=self.zxid + 1, session_id=session_id, now_ms=now_ms)
            if reason is not None:
                return Rejected(index, reason)
        self.zxid += 1
        self.nodes = staged
        self.history.append(Applied(self.zxid, session_id, tuple(operations)))
        for operation in operations:
            if not isinstance(operation, CheckVersion):
                self._notify(operation.path)
        return Committed()

    def restore(self, nodes: dict[str, Node], zxid: int) -> None:
        """The servers come up with what they held at `zxid`, and know nobody's session."""
        for session_id in list(self.sessions):
            self.end_session(session_id)
        self.nodes = dict(nodes)
        self.zxid = zxid

    def _notify(self, path: str) -> None:
        for meta in list(self.sessions.values()):
            meta.notify(path)


def _stage(
    nodes: dict[str, Node], operation: Operation, *, zxid: int, session_id: int, now_ms: int
) -> WriteRejection | None:
    path = operation.path
    node = nodes.get(path)
    match operation:
        case Create(data=data, ephemeral=ephemeral):
            parent = path.rpartition("/")[0]
            if node is not None:
                return WriteRejection.NODE_EXISTS
            if parent and parent not in nodes:
                return WriteRejection.NO_NODE
            owner = session_id if ephemeral else 0
            nodes[path] = Node(data=data, version=0, owner=owner, created_zxid=zxid, modified_ms=now_ms)
            return None
        case CheckVersion(version=version) | SetData(version=version) | Delete(version=version):
            if node is None:
                return WriteRejection.NO_NODE
            if version not in (ANY_VERSION, node.version):
                return WriteRejection.BAD_VERSION
            if isinstance(operation, SetData):
                nodes[path] = replace(node, data=operation.data, version=node.version + 1, modified_ms=now_ms)
            elif isinstance(operation, Delete):
                if any(other.startswith(path + "/") for other in nodes):
                    return WriteRejection.NOT_EMPTY
                del nodes[path]
            return None


class _Write:
    def __init__(self, latency_ms: int) -> None:
        self._answered = anyio.Event()
        self._latency_ms = latency_ms
        self._outcome: Outcome = Unknown("unanswered")

    def answer(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._answered.set()

    async def outcome(self) -> Outcome:
        await self._answered.wait()
        await anyio.sleep(self._latency_ms / 1000)
        return self._outcome


class _Watch:
    def __init__(self, node: Node | None, fired: anyio.Event) -> None:
        self.node = node
        self._fired = fired

    async def changed(self) -> None:
        await self._fired.wait()


class MemoryMeta:
    """One client of a MemoryZooKeeper, with the handles of its faults."""

    def __init__(self, server: MemoryZooKeeper, *, timeout_ms: int) -> None:
        self._server = server
        self._session = MetaSession(SessionState.LOST, 0, 0, timeout_ms)
        self._changed = anyio.Event()
        self._watches: dict[str, list[anyio.Event]] = {}
        self._held: deque[tuple[tuple[Operation, ...], _Write]] | None = None
        self._held_more = anyio.Event()
        self.faults: deque[LostAnswer] = deque()
        self.reads = 0

    # -- faults --

    def disconnect(self) -> None:
        """The connection drops; the session lives on at the server. What is held is answered "unknown"."""
        self._set_state(SessionState.SUSPENDED, self._session.session_id)
        held, self._held = self._held, None
        for _, write in held or ():
            write.answer(Unknown("connection lost"))
        for fired in [fired for watchers in self._watches.values() for fired in watchers]:
            fired.set()
        self._watches = {}

    def reconnect(self) -> None:
        """Returns to the same session, or begins a new one when it has expired."""
        session_id = self._session.session_id
        if session_id not in self._server.sessions:
            if self._session.state is SessionState.SUSPENDED:
                self._set_state(SessionState.LOST, session_id)
            session_id = self._server.begin_session(self)
        self._set_state(SessionState.CONNECTED, session_id)

    def expire_at_server(self) -> None:
        """The server gives the session up. The client learns of it when it reconnects."""
        self._server.end_session(self._session.session_id)

    def lose_session(self) -> None:
        """Expiry, and the client's learning of it, in one."""
        self.disconnect()
        self.expire_at_server()
        self.reconnect()

    def hold_writes(self) -> None:
        """Requests reach the server, which does not get to them: a stalled disk."""
        self._held = deque()

    def release_writes(self) -> None:
        held, self._held = self._held, None
        for operations, write in held or ():
            self._execute(operations, write)

    def forget_held_writes(self, *, after: int) -> None:
        """The server dies with all but the first `after` of the held writes unseen."""
        assert self._held is not None
        while len(self._held) > after:
            self._held.pop()

    async def until_held(self, count: int) -> None:
        """Waits until so many writes are held."""
        while len(self._held or ()) < count:
            self._held_more = anyio.Event()
            await self._held_more.wait()

    # -- the port --

    @property
    def session(self) -> MetaSession:
        return self._session

    async def ensure_root(self) -> None:
        await self._reach()

    async def session_changed(self, seen: MetaSession) -> MetaSession:
        while self._session.generation == seen.generation:
            await self._changed.wait()
        return self._session

    def start_write(self, operations: Sequence[Operation]) -> _Write:
        write = _Write(self._server.latency_ms)
        if self._session.state is not SessionState.CONNECTED:
            write.answer(Unknown("not connected"))
        elif self._held is not None:
            self._held.append((tuple(operations), write))
            self._held_more.set()
        else:
            self._execute(tuple(operations), write)
        return write

    async def get(self, path: str) -> Node | None:
        await self._reach()
        return self._server.nodes.get(path)

    async def get_synced(self, path: str) -> Node | None:
        return await self.get(path)

    async def keep_reading(
        self, path: str, *, pause_ms: int, clock: ControllerClock, on_read: Callable[[int, Node | None], bool]
    ) -> None:
        await keep_reading(self, path, pause_ms=pause_ms, clock=clock, on_read=on_read)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        await self._reach()
        return [self._server.nodes.get(path) for path in paths]

    async def children(self, path: str) -> list[str]:
        await self._reach()
        prefix = path + "/"
        below = (name.removeprefix(prefix) for name in self._server.nodes if name.startswith(prefix))
        return sorted(name for name in below if "/" not in name)

    async def watch(self, path: str) -> _Watch:
        await self._reach()
        fired = anyio.Event()
        self._watches.setdefault(path, []).append(fired)
        return _Watch(self._server.nodes.get(path), fired)

    # -- inside --

    def notify(self, path: str) -> None:
        for fired in self._watches.pop(path, []):
            fired.set()

    async def _reach(self) -> None:
        self.reads += 1
        generation = self._session.generation
        await anyio.sleep(self._server.latency_ms / 1000)
        if self._session.state is not SessionState.CONNECTED or self._session.generation != generation:
            raise MetaUnavailable("connection lost")

    def _execute(self, operations: tuple[Operation, ...], write: _Write) -> None:
        size = sum(HEADER_BYTES + len(op.path) + len(getattr(op, "data", b"")) for op in operations)
        if size > REQUEST_BYTES_MAX:
            self._drop(write, "the request is larger than jute.maxbuffer")
            return
        fault = self.faults.popleft() if self.faults else None
        if fault is None:
            write.answer(self._server.apply(self._session.session_id, operations))
            return
        if fault.is_applied:
            self._server.apply(self._session.session_id, operations)
        self._drop(write, "connection lost")

    def _drop(self, write: _Write, detail: str) -> None:
        write.answer(Unknown(detail))
        self.disconnect()
        self.reconnect()

    def _set_state(self, state: SessionState, session_id: int) -> None:
        self._session = MetaSession(state, self._session.generation + 1, session_id, self._session.timeout_ms)
        self._changed.set()
        self._changed = anyio.Event()


async def keep_reading(
    meta: Meta,
    path: str,
    *,
    pause_ms: int,
    clock: ControllerClock,
    on_read: Callable[[int, Node | None], bool],
) -> None:
    """`Meta.keep_reading` where there are no threads."""
    is_wanted = True
    while is_wanted:
        session = meta.session
        sent_ms = clock.now_mono_ms()
        try:
            node = await meta.get_synced(path)
        except MetaUnavailable:
            while session.state is not SessionState.CONNECTED:
                session = await meta.session_changed(session)
            await clock.sleep_ms(1)  # So that it counts as sent after the suspension.
            continue
        is_wanted = on_read(sent_ms, node)
        if is_wanted:
            with clock.timeout_ms(pause_ms):
                await meta.session_changed(session)
