"""Accepts connections and drives them all: one pass over what is ready, then one push of what it completed.

A *turn* is the work between two waits: a pass over all sockets that can be read, a replica fetcher that
appends an answer, a timer that fires. Its results leave at its end, in `end_turn`: first the waiting fetches
that its appends woke, then one send per connection that has answers. No task is woken for a request or an
answer; a pass over a hundred small producers ends in one answer to each follower, and a high watermark that
completes a hundred requests costs as many sends as there are connections.

Sockets stay registered with one epoll of our own, in which trio sees a single descriptor. Waiting for each
through trio costs a task switch and a system call per request, which is half of a small one. Even one wait
through trio costs a fifth of a small request, so after a turn the server first waits a moment in its own
epoll, unless another task has something to do. It does so only while waits are that short: where they are
longer it would wake once more for each.

The server also watches: peers that connect too often, send nothing, stop in the middle of a frame, or do not
take their answers are closed, each by a bound with a name.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Mapping

import trio

from springtide.node.clock import Clock, sleep_to_beat
from springtide.node.connection import Connection, Dispatch
from springtide.node.counters import NodeCounters
from springtide.node.mutes import Mutes
from springtide.node.net import READABLE, Channel, Listener, Poller
from springtide.node.server_limits import ServerLimits
from springtide.node.threads import Threads

_log = logging.getLogger(__name__)

LINGER_MS = 1
"""How long the server waits for the next bytes after a turn while other tasks can't run, such as one whose
thread ends meanwhile. epoll counts in milliseconds."""
TASKS_WAIT_US_MAX = 2_000
"""After so long without other tasks no turn begins before they have run."""
TURN_FILE_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of files that a turn sends for all readers together: a millisecond or two, for which small requests
wait."""
LOOK_INTERVAL_MS = 250
WATCH_INTERVAL_MS = 500
"""After so long without a turn connections are looked after, too. Only turns make them hold more."""
PARTIAL_FRAME_BYTES_PER_MS = 64
HANDSHAKE_MS_MAX = 30_000
"""The time that a peer has for the handshake of TLS."""
IDLE_BUFFER_MS = 5_000
"""After so long without a byte a connection's buffer shrinks to that of a new one."""
UNSENT_MS_MAX = 60_000
"""The time for which a peer may take none of the answers that wait for it."""
ACCEPT_RETRY_MS = 100
#: Out of descriptors or buffers: waiting helps.
ACCEPT_RETRY_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPROTO}
)


class Server:
    def __init__(
        self,
        *,
        listeners: Mapping[str, Listener],
        poller: Poller,
        dispatch: Dispatch,
        clock: Clock,
        threads: Threads,
        counters: NodeCounters,
        limits: ServerLimits,
        on_turn_end: Callable[[], None],
        begin: Callable[[Connection], None] = lambda _connection: None,
        identify: Callable[[Connection], None] = lambda _connection: None,
        on_connection_closed: Callable[[Connection], None] | None = None,
        connection_delay_ms: Callable[[str, str], int] | None = None,
    ) -> None:
        """begin: takes a connection that is accepted. identify: sets who the client is, as far as it is known
        before its first request; called once, when its first bytes have come. It may raise
        CertificateUnusable."""
        self._listeners = listeners
        self._dispatch = dispatch
        self._limits = limits
        self._on_turn_end = on_turn_end
        self._on_connection_closed = on_connection_closed
        self._begin = begin
        self.identify = identify
        self._nursery: trio.Nursery | None = None
        #: In order of arrival; a dict, because a set has no fixed order.
        self._connections: dict[Connection, None] = {}
        self._per_peer: dict[str, int] = {}
        self._held_bytes = 0
        self._looked_ms = clock.mono_ms()
        self._ready_again: dict[Connection, None] = {}
        self._is_waiting = False
        self._is_stopped = False
        self.poller = poller
        self.clock = clock
        self.threads = threads
        #: Monotonic time of the running pass.
        self.now_ms = clock.mono_ms()
        #: What the running turn may still send of files.
        self.file_bytes_left = TURN_FILE_BYTES_MAX
        self.counters = counters
        self.mutes = Mutes(clock)
        self._connection_delay_ms = connection_delay_ms
        #: Connections whose head answer is complete.
        self.dirty: list[Connection] = []

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def serve(self) -> None:
        """Accept connections and keep them within their bounds until cancelled; then close every connection.
        `drive` answers them. Return at once if the server was stopped before."""
        if self._is_stopped:
            return
        for listener in self._listeners.values():
            listener.begin()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._watch)
                nursery.start_soon(self.mutes.run)
                for name in self._listeners:
                    nursery.start_soon(self._accept, name)
        finally:
            self._nursery = None
            self._close_listeners()
            for connection in list(self._connections):
                connection.close()

    async def _accept(self, name: str) -> None:
        listener = self._listeners[name]
        while True:
            try:
                channel = await listener.accept()
            except trio.ClosedResourceError:
                return  # stop_serving
            except OSError as error:
                if error.errno not in ACCEPT_RETRY_ERRORS:
                    raise
                _log.error("connections_not_accepted cause=%s", error)
                await self.clock.sleep_ms(ACCEPT_RETRY_MS)
                continue
            self._admit(channel, name)

    async def drive(self) -> None:
        """Run the loop that serves every channel; it holds the processor for a pass at most.

        It also runs before connections are let in, because the replica fetchers' channels are in the poller.
        """
        poller, clock = self.poller, self.clock
        tasks_ran_us = ended_us = 0
        was_wait_short = False
        while True:
            if self._ready_again:
                await trio.lowlevel.checkpoint()
                tasks_ran_us = clock.mono_us()
            elif not was_wait_short or ended_us - tasks_ran_us >= TASKS_WAIT_US_MAX or not self._linger():
                self._is_waiting = True
                await poller.wait()
                self._is_waiting = False
                tasks_ran_us = clock.mono_us()
            started_us = clock.mono_us()
            was_wait_short = started_us - ended_us < LINGER_MS * 1000
            self.now_ms = started_us // 1000
            again, self._ready_again = self._ready_again, {}
            poller.dispatch()
            for connection in again:
                if not connection.closed:
                    connection.on_ready(READABLE)
            self.end_turn()
            if self.now_ms - self._looked_ms >= LOOK_INTERVAL_MS:
                self.look_after_connections()
            ended_us = clock.mono_us()
            self.counters.busy_us += ended_us - started_us

    def _linger(self) -> bool:
        """Wait a moment for the next turn's work, unless trio has other tasks to run now or in that time;
        return whether there is some."""
        tasks = trio.lowlevel.current_statistics()
        return (
            not tasks.tasks_runnable
            and not tasks.run_sync_soon_queue_size
            and tasks.seconds_to_next_deadline > LINGER_MS / 1000
            and self.poller.linger(LINGER_MS)
        )

    def ready_again(self, connection: Connection) -> None:
        """Begin the next pass with this connection: whole requests are left over from its turn."""
        self._ready_again[connection] = None
        if self._is_waiting:  # the turn was another task's
            self.poller.wake()

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(work)

    def stop_serving(self) -> None:
        """Refuse new connections and end the others. To a controller that probes, the refusal proves that
        this broker is gone."""
        self._is_stopped = True
        self._close_listeners()
        for connection in list(self._connections):
            connection.close()

    def _close_listeners(self) -> None:
        for listener in self._listeners.values():
            listener.close()

    def _admit(self, channel: Channel, listener: str) -> None:
        limits = self._limits
        if (
            len(self._connections) >= limits.connections_max
            or self._per_peer.get(channel.peer, 0) >= limits.connections_per_ip_max
        ):
            self.counters.connections_refused += 1
            channel.close()
            return
        self.counters.connections_opened += 1
        connection = Connection(
            channel=channel,
            server=self,
            dispatch=self._dispatch,
            frame_bytes_max=limits.request_bytes_max,
            listener=listener,
            number=self.counters.connections_opened,
        )
        self._connections[connection] = None
        self._per_peer[channel.peer] = self._per_peer.get(channel.peer, 0) + 1
        self._begin(connection)
        self.poller.add(channel, connection.on_ready)
        if self._connection_delay_ms is not None:
            delay_ms = self._connection_delay_ms(channel.peer, listener)
            if delay_ms:
                self.counters.connections_throttled += 1
                connection.mute(self.clock.mono_ms() + delay_ms, then_close=True)

    # The end of a turn

    def end_turn(self) -> None:
        """Call `on_turn_end`, in which a broker wakes waiting fetches; then send the complete answers."""
        self._on_turn_end()
        dirty = self.dirty
        while dirty:
            self.dirty = []
            for connection in dirty:
                connection.flush()
            dirty = self.dirty
        self.file_bytes_left = TURN_FILE_BYTES_MAX

    # Bounds

    def is_over_memory(self) -> bool:
        """Return whether the last look counted too many bytes: in a turn it is a quarter of a second old at
        most, and free on the hot path."""
        return self._held_bytes >= self._limits.memory_bytes_max

    async def _watch(self) -> None:
        while True:
            await sleep_to_beat(self.clock, LOOK_INTERVAL_MS if self.is_over_memory() else WATCH_INTERVAL_MS)
            self.look_after_connections()

    def look_after_connections(self) -> None:
        """Close overdue connections, count the bytes of the others, and resume those that were stopped by
        that count alone."""
        now_ms = self._looked_ms = self.clock.mono_ms()
        held_bytes = 0
        for connection in list(self._connections):
            reason = self._overdue(connection, now_ms)
            if reason is not None:
                _log.info("connection_closed peer=%s cause=%s", connection.peer, reason)
                self.counters.connections_closed_idle += 1
                connection.close()
            elif connection.sasl is not None and (reason := connection.sasl.reason_to_close(now_ms)):
                _log.info("connection_closed peer=%s cause=%s", connection.peer, reason)
                connection.close()
            else:
                if now_ms - connection.last_progress_ms > IDLE_BUFFER_MS:
                    connection.release_buffer()
                held_bytes += connection.held_bytes
        self._held_bytes = held_bytes
        if not self.is_over_memory():
            for connection in list(self._connections):
                connection.resume()

    def _overdue(self, connection: Connection, now_ms: int) -> str | None:
        quiet_ms = now_ms - connection.last_progress_ms
        if connection.has_unsent:
            return "it does not take its answers" if quiet_ms > UNSENT_MS_MAX else None
        if connection.muted_until_ms:
            return None
        if connection.is_handshaking and quiet_ms > HANDSHAKE_MS_MAX:
            return "its TLS handshake stayed incomplete"
        if connection.partial_since_ms is not None and not connection.has_unstarted:
            allowed_ms = self._limits.partial_frame_ms_max
            if not self.is_over_memory():  # a large frame must not get more time then
                allowed_ms += connection.buffered_bytes // PARTIAL_FRAME_BYTES_PER_MS
            if now_ms - connection.partial_since_ms > allowed_ms:
                return "a request stayed incomplete"
        if not connection.is_waiting and quiet_ms > self._limits.idle_ms_max:
            return "idle"
        return None

    def on_malformed(self, connection: Connection, reason: str) -> None:
        self.counters.connections_closed_malformed += 1
        _log.info("connection_closed peer=%s cause=%s", connection.peer, reason)

    def on_closed(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        left = self._per_peer.get(connection.peer, 1) - 1
        if left:
            self._per_peer[connection.peer] = left
        else:
            self._per_peer.pop(connection.peer, None)
        if self._on_connection_closed is not None:
            self._on_connection_closed(connection)
