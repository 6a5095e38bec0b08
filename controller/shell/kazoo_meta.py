"""kazoo behind the `Meta` port. kazoo, its threads and its traps stay in this file, kazoo_access.py, which
makes the client, and kazoo_answers.py.

Six things kazoo does that would hurt (docs/replication.md 8.6, kazoo), and what is done about them here:

- `TransactionRequest.commit()` *returns* the exception of each operation instead of raising; a failed
  compare-and-set looks like success to a caller that does not look. `outcome_of_multi` looks at each one.
- `KazooRetry` runs a command again after a lost connection. No command here goes through it: only the
  `*_async` calls, which send once, are used. (Reconnecting, which is safe, does retry.)
- Its callbacks run in kazoo's threads. They only append to one queue; a single thread of ours carries the
  queue's items to the event loop, in order. kazoo's threads therefore never wait for the loop, which could
  deadlock a stopping process and would delay the session's own pings.
- What proves that our claim still stands is asked and judged in threads alone (`keep_reading`), so it
  waits for nothing that the loop does.
- It tells every server the highest zxid that it has seen, and a server that has seen less closes the
  connection, so that no client reads backwards. In a ZooKeeper that was put back to an earlier copy every
  server does, for ever. After `REFUSALS_MAX` in a row one is asked for a new session; who grants it was
  serving.
- Its thread ends for good by an answer that it did not expect, which a ZooKeeper whose own processing failed
  gives ("Destruction averted"): a controller that never connects again. Such a client is replaced.

A request made while the connection is down would sit in kazoo's queue and be sent whenever it returns; so
requests are refused here unless the session is connected.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import NoneType
from typing import Any, Final, Never, assert_never

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.abc import TaskStatus
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL

from controller.shell.clock import ControllerClock
from controller.shell.kazoo_access import ZooKeeperAccess, explain_drop, is_open
from controller.shell.kazoo_answers import describe, node_of, outcome_of_multi
from controller.shell.meta import (
    CheckVersion,
    Create,
    Delete,
    MetaSession,
    MetaUnavailable,
    Node,
    Operation,
    Outcome,
    SessionState,
    SetData,
    Unknown,
)

log = logging.getLogger(__name__)

#: Connections that were closed without an answer, one after the other, before a new session is asked for.
REFUSALS_MAX: Final = 5
#: Between a client that failed and the next one.
REPLACEMENT_PAUSE_S: Final = 0.5
#: Reads of one `get_many` that are on their way at a time: bounds the bytes that wait to be decoded.
READS_IN_FLIGHT_MAX: Final = 256
#: Reads of one `keep_reading` that are on their way at a time.
REPEATED_READS_MAX: Final = 8

_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class _Answer:
    """One request's answer, filled on the loop."""

    __slots__ = ("_done", "error", "value")

    def __init__(self) -> None:
        self._done = anyio.Event()
        self.value: Any = None
        self.error: Exception | None = None

    def fill(self, value: Any, error: Exception | None) -> None:
        self.value, self.error = value, error
        self._done.set()

    async def wait(self) -> None:
        await self._done.wait()


@dataclass(frozen=True, slots=True)
class _Write:
    """A multi on its way; see `PendingWrite`."""

    _operations: int
    _answer: _Answer

    async def outcome(self) -> Outcome:
        await self._answer.wait()
        if self._answer.error is not None:
            # Connection lost, session expired, client closed: none of these is ZooKeeper's word on the
            # operations.
            return Unknown(describe(self._answer.error))
        return outcome_of_multi(self._answer.value, self._operations)


@dataclass(frozen=True, slots=True)
class _Watch:
    """See `Watch`."""

    node: Node | None
    _changed: anyio.Event

    async def changed(self) -> None:
        await self._changed.wait()


class _RepeatedRead:
    """See `Meta.keep_reading`. Everything but `stop` runs in threads."""

    def __init__(
        self,
        client: KazooClient,
        path: str,
        clock: ControllerClock,
        on_read: Callable[[int, Node | None], bool],
    ) -> None:
        self.nudge = threading.Event()
        self._client = client
        self._path = path
        self._clock = clock
        self._on_read = on_read
        self._is_over = False
        self._in_flight = 0  # Raised by one thread, set to zero by the other: a bound, not a count.

    def stop(self) -> None:
        self._is_over = True
        self.nudge.set()

    def run_in_worker_thread(self, pause_ms: int) -> None:
        while not self._is_over:
            if self._client.connected and self._in_flight < REPEATED_READS_MAX:
                self._in_flight += 1
                sent_ms = self._clock.now_mono_ms()
                synced = self._client.sync_async(self._path)
                read = self._client.get_async(self._path)  # Answered after the sync.
                read.rawlink(functools.partial(self._answer_in_kazoo_thread, sent_ms, synced))
            self.nudge.wait(pause_ms / 1000)
            self.nudge.clear()

    def _answer_in_kazoo_thread(self, sent_ms: int, synced: Any, read: Any) -> None:
        """Complete the read, in kazoo's thread. `synced`, `read`: kazoo's IAsyncResult."""
        self._in_flight = 0
        is_gone = isinstance(read.exception, NoNodeError)
        if isinstance(synced.exception, NoneType | NoNodeError) and (is_gone or read.exception is None):
            node = None if is_gone else node_of(read.value)
            if not self._is_over and not self._on_read(sent_ms, node):
                self.stop()


class KazooMeta:
    """One ZooKeeper session over kazoo. `run` holds it open; it reconnects and renews the session by itself.

    Args:
        hosts: `host:port,host:port`, without a chroot.
        root: absolute path below which all paths are, e.g. `/springtide`; created when absent.
        session_timeout_ms: asked for; what the server granted is in `session.timeout_ms`.
        access: TLS and identities; without them, as every client of that ZooKeeper.

    Raises TlsFilesInvalid.
    """

    def __init__(
        self, *, hosts: str, root: str, session_timeout_ms: int, access: ZooKeeperAccess | None = None
    ) -> None:
        self._root = root.rstrip("/")
        self._access = access or ZooKeeperAccess()
        #: Of znodes that are created.
        self._acl = self._access.acl
        self._make_client = functools.partial(
            self._access.client, hosts=hosts, session_timeout_ms=session_timeout_ms
        )
        self._client = self._new_client()
        self._hosts = max(1, len(self._client.hosts))
        self._negotiated_ms = session_timeout_ms
        self._refusals = 0
        self._told_cause: str | None = None
        self._session = MetaSession(SessionState.LOST, 0, 0, session_timeout_ms)
        self._session_changed = anyio.Event()
        #: Set by each change of the connection: repeated reads read at once.
        self._nudges: dict[threading.Event, None] = {}
        self._arrivals: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def _new_client(self) -> KazooClient:
        client = self._make_client()
        self._wrap_connecting(client)
        client.add_listener(functools.partial(self._on_state_in_kazoo_thread, client))
        return client

    def _wrap_connecting(self, client: KazooClient) -> None:
        """kazoo keeps the negotiated session timeout to itself; the liveness proof must not assume a longer
        one than the server granted. `_connect` returns (read timeout, connect timeout) in milliseconds, and
        the second is the negotiated timeout divided by the number of hosts.

        It also holds on to a session until a server says that it has expired, and a ZooKeeper that went back
        never says so."""
        connection = client._connection
        original = connection._connect

        @functools.wraps(original)
        def connect(*args: Any) -> tuple[float, float]:
            try:
                read_timeout, connect_timeout = original(*args)
            except AuthFailedError as error:
                if self._is_news(describe(error)):
                    log.error("zookeeper_refuses_identities cause=%s", describe(error))
                raise ConnectionDropped("identities refused") from error  # kazoo would never try again
            except ConnectionDropped as error:
                self._tell_why(error, host=args[0])
                if connection._socket is None:
                    raise  # no server listens
                self._refusals += 1
                if self._refusals < REFUSALS_MAX or not client.last_zxid:
                    raise
                read_timeout, connect_timeout = self._connect_anew(functools.partial(original, *args))
            self._refusals = 0
            self._told_cause = None
            self._negotiated_ms = round(connect_timeout * self._hosts)
            return read_timeout, connect_timeout

        connection._connect = connect

    def _tell_why(self, error: ConnectionDropped, *, host: str) -> None:
        cause = explain_drop(error) if self._access.tls is not None else None
        if cause is not None and self._is_news(cause):
            hint = "--zookeeper-ca names the CA of its certificate, --zookeeper-client-cert what it is shown"
            log.error("zookeeper_tls_failed host=%s cause=%s hint=%s", host, cause, hint)

    def _is_news(self, cause: str) -> bool:
        """Return whether to log this: once until the cause is another or a connection stands."""
        is_news = cause != self._told_cause
        self._told_cause = cause
        return is_news

    def _connect_anew(self, connect: Callable[[], tuple[float, float]]) -> tuple[float, float]:
        """Ask for a new session, in kazoo's thread. A server without a quorum closes connections too: it
        grants no session, and then ours is kept."""
        client = self._client
        kept = (client._session_id, client._session_passwd, client.last_zxid)
        client._connection._socket.close()
        client._reset_session()
        client.last_zxid = 0
        try:
            timeouts = connect()
        except Exception:
            client._session_id, client._session_passwd, client.last_zxid = kept
            raise
        log.error(
            "zookeeper_went_back zxid_seen=%s consequence=%s",
            f"{kept[2]:#x}",
            "a new session; what it forgot is not known here",
        )
        return timeouts

    # -- life --

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Open the session and serve it until cancelled; then close it, which removes our ephemeral znodes at
        once instead of after the session timeout."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._carry_arrivals)
                self._client.start_async()
                task_status.started()
                try:
                    await self._replace_failed_clients()
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(_stop_in_worker_thread, self._client)
                    self._arrivals.put(None)
        finally:
            self._set_session(SessionState.LOST, 0)

    async def _replace_failed_clients(self) -> Never:
        session = self._session
        while True:
            session = await self.session_changed(session)
            if session.state is not SessionState.LOST or self._client.client_state != KeeperState.CLOSED:
                continue
            log.error(
                "zookeeper_client_failed consequence=%s",
                "a new client, with a new session; what its thread met is told above",
            )
            await anyio.to_thread.run_sync(_stop_in_worker_thread, self._client)
            await anyio.sleep(REPLACEMENT_PAUSE_S)
            self._client = self._new_client()
            self._client.start_async()

    async def _carry_arrivals(self) -> None:
        """The one thread between kazoo's threads and the loop. It ends by the None that closing puts in."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._carry_in_worker_thread, limiter=anyio.CapacityLimiter(1))

    def _carry_in_worker_thread(self) -> None:
        is_open = True
        while is_open:
            batch = [self._arrivals.get()]
            while not self._arrivals.empty():
                batch.append(self._arrivals.get())
            is_open = None not in batch
            anyio.from_thread.run_sync(_call_each, [arrival for arrival in batch if arrival is not None])

    # -- session --

    @property
    def session(self) -> MetaSession:
        return self._session

    async def session_changed(self, seen: MetaSession) -> MetaSession:
        while self._session.generation == seen.generation:
            await self._session_changed.wait()
        return self._session

    def _on_state_in_kazoo_thread(self, client: KazooClient, state: str) -> None:
        session_id = client.client_id[0] if client.client_id is not None else 0
        self._arrivals.put(functools.partial(self._set_session, _STATES[state], session_id))
        for nudge in list(self._nudges):
            nudge.set()

    def _set_session(self, state: SessionState, session_id: int) -> None:
        self._session = MetaSession(state, self._session.generation + 1, session_id, self._negotiated_ms)
        self._session_changed.set()
        self._session_changed = anyio.Event()

    @property
    def _is_connected(self) -> bool:
        # The client's own view is newer than the session value, whose news travels through the queue.
        return bool(self._client.connected) and self._session.state is SessionState.CONNECTED

    # -- requests --

    def start_write(self, operations: Sequence[Operation]) -> _Write:
        answer = _Answer()
        if not self._is_connected:
            answer.fill(None, MetaUnavailable("not connected to ZooKeeper"))
            return _Write(len(operations), answer)
        multi = self._client.transaction()
        for operation in operations:
            match operation:
                case CheckVersion(path, version):
                    multi.check(self._root + path, version)
                case Create(path, data, ephemeral):
                    multi.create(self._root + path, data, acl=self._acl, ephemeral=ephemeral)
                case SetData(path, data, version):
                    multi.set_data(self._root + path, data, version)
                case Delete(path, version):
                    multi.delete(self._root + path, version)
                case _:
                    assert_never(operation)
        self._link(multi.commit_async(), answer)
        return _Write(len(operations), answer)

    async def get(self, path: str) -> Node | None:
        return await self._read(self._start_get(path))

    async def get_synced(self, path: str) -> Node | None:
        self._require_connection()
        synced = _Answer()
        self._link(self._client.sync_async(self._root + path), synced)
        read = self._start_get(path)  # Requests of one session are answered in order: no need to wait.
        await self._answered(synced)
        return await self._read(read)

    async def keep_reading(
        self, path: str, *, pause_ms: int, clock: ControllerClock, on_read: Callable[[int, Node | None], bool]
    ) -> None:
        reading = _RepeatedRead(self._client, self._root + path, clock, on_read)
        self._nudges[reading.nudge] = None
        try:
            await anyio.to_thread.run_sync(
                reading.run_in_worker_thread,
                pause_ms,
                abandon_on_cancel=True,
                limiter=anyio.CapacityLimiter(1),
            )
        finally:
            reading.stop()
            del self._nudges[reading.nudge]

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for start in range(0, len(paths), READS_IN_FLIGHT_MAX):
            reads = [self._start_get(path) for path in paths[start : start + READS_IN_FLIGHT_MAX]]
            nodes.extend([await self._read(read) for read in reads])
        return nodes

    async def children(self, path: str) -> list[str]:
        self._require_connection()
        answer = _Answer()
        self._link(self._client.get_children_async(self._root + path), answer)
        names = await self._answered(answer)
        return [] if names is None else sorted(names)

    async def watch(self, path: str) -> _Watch:
        """kazoo sets a data watch with a successful read and an existence watch with `exists`; the latter
        works for both cases, so it goes first, and the read that follows can only be newer than the
        watch."""
        self._require_connection()
        changed = anyio.Event()

        def on_event_in_kazoo_thread(_event: object) -> None:
            self._arrivals.put(changed.set)

        answer = _Answer()
        self._link(self._client.exists_async(self._root + path, watch=on_event_in_kazoo_thread), answer)
        read = self._start_get(path)
        await self._answered(answer)
        return _Watch(await self._read(read), changed)

    def _start_get(self, path: str) -> _Answer:
        self._require_connection()
        answer = _Answer()
        self._link(self._client.get_async(self._root + path), answer)
        return answer

    async def _read(self, answer: _Answer) -> Node | None:
        value = await self._answered(answer)
        return None if value is None else node_of(value)

    async def _answered(self, answer: _Answer) -> Any:
        """Return the answer; None if there is no such znode. Raise MetaUnavailable."""
        await answer.wait()
        if isinstance(answer.error, NoNodeError):
            return None
        if answer.error is not None:
            raise MetaUnavailable(describe(answer.error)) from answer.error
        return answer.value

    def _require_connection(self) -> None:
        if not self._is_connected:
            raise MetaUnavailable("not connected to ZooKeeper")

    def _link(self, result: Any, answer: _Answer) -> None:
        """`result` is kazoo's IAsyncResult."""

        def on_result_in_kazoo_thread(done: Any) -> None:
            # Not get_nowait(): it raises what we want as a value.
            self._arrivals.put(functools.partial(answer.fill, done.value, done.exception))

        result.rawlink(on_result_in_kazoo_thread)

    # -- bootstrap --

    async def ensure_root(self) -> None:
        """Create the root path and its parents, which belong to our identities, and take the root's ACL for
        all that is created below it. Raise MetaUnavailable."""
        parts = self._root.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            if not parts[0]:
                return
            self._require_connection()
            answer = _Answer()
            path = "/" + "/".join(parts[:depth])
            self._link(self._client.create_async(path, b"", acl=self._access.acl), answer)
            await answer.wait()
            if answer.error is not None and not isinstance(answer.error, NodeExistsError):
                raise MetaUnavailable(describe(answer.error)) from answer.error
        if self._access.identities:
            self._acl = await self._acl_of_root()

    async def _acl_of_root(self) -> list[ACL]:
        """Return the root's ACL. Where it is open, so is what is created: controllers that have no identity
        yet must be able to read it. Raise MetaUnavailable if it gives no identity of ours all rights."""
        self._require_connection()
        answer = _Answer()
        self._link(self._client.get_acls_async(self._root), answer)
        acl: list[ACL] = (await self._answered(answer) or [[]])[0]
        if is_open(acl):
            log.warning(
                "zookeeper_open root=%s consequence=%s hint=%s",
                self._root,
                "every client of this ZooKeeper can read and change what is below",
                "once all controllers have --zookeeper-auth-file, run `controller secure-zookeeper`",
            )
        elif not set(acl) & set(self._access.acl):
            raise MetaUnavailable(describe(NoAuthError()))
        return acl


def _stop_in_worker_thread(client: KazooClient) -> None:
    """End a client in bounded time even without a connection: kazoo waits for its own threads, and those
    never wait for the loop."""
    try:
        client.stop()
        client.close()
    except (OSError, KazooException) as error:
        log.warning("zookeeper_close_failed error=%s", describe(error))


def _call_each(arrivals: Sequence[Callable[[], None]]) -> None:
    for arrival in arrivals:
        arrival()
