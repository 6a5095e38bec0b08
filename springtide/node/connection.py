"""One client's connection: requests start in order, run side by side, and are answered in order.

Kafka mutes a connection while one of its requests waits; here the next request is read and appended
while the ones before it wait for replication, and only the answers queue. Each request gets a
`PendingAnswer`, its place in the queue. The handler completes it, at once or when the high watermark moves;
the complete answers at the head of the queue leave in one send.

No task belongs to a connection. The server calls it when its socket can be read or written; only a range of
a file that has to come from a disk is sent by a task and a thread.

Bounds limit what a peer can make a broker hold: requests and bytes in flight, bytes not yet taken by the
peer. A connection at a bound is not read from until it is below again; one whose client is above a quota is
not read from until the client has waited. One that does not take its answers is closed. Bytes that are not a
request end the connection: nothing after them can be understood.

Its phase, the way its answers leave, and the reasons for which it is not read are values, and a table says
which may follow which (core/connection_states.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from springtide.node.authorization import ClientRights
from springtide.node.clock import Clock
from springtide.node.core.connection_states import ConnectionPhase, PauseReason, Pauses, Sending, follow
from springtide.node.mutes import Mutes
from springtide.node.net import SEND_CHUNKS_MAX, Buffer, Channel, ChannelReadiness, Poller
from springtide.node.refusals import UNKNOWN_SOFTWARE
from springtide.node.threads import Threads
from springtide.node.tls_channel import TlsFailed
from springtide.security.acls.model import ANONYMOUS
from springtide.security.principal_rules import CertificateUnusable
from springtide.wire.apis import UnsupportedApi
from springtide.wire.framing import Chunk, FileChunk, FileSource, FrameError, FrameReader
from springtide.wire.primitives import MalformedRequest

if TYPE_CHECKING:
    from springtide.node.sasl_connection import SaslConnection

_log = logging.getLogger(__name__)

IN_FLIGHT_REQUESTS_MAX = 256
"""Requests of one connection that may wait for their answers."""
IN_FLIGHT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of requests of one connection that may wait for their answers; one request may exceed it alone."""
UNSENT_BYTES_MAX = 8 * 1024 * 1024
"""Answer bytes that the peer has not taken yet, beyond which none of its requests is started."""
TURN_BYTES_MAX = 1024 * 1024
TURN_REQUESTS_MAX = 64
"""The work of one connection before the others get their turn."""
JOINED_BYTES_MAX = 8 * 1024
"""Answers up to this size are copied together before they are sent."""
SEND_FILE_BYTES_MAX = 1024 * 1024
"""Bytes of a file per turn or, if a disk is needed, per sendfile call in a thread: one slow reader does not
hold either for long."""
READ_FILE_BYTES_MAX = 256 * 1024
"""Bytes of a file that are read at once where the channel has to encrypt them."""


# As the hot path asks for them: a look into an Enum takes longer.
_NEW, _ENDING, _CLOSED = ConnectionPhase.NEW, ConnectionPhase.ENDING, ConnectionPhase.CLOSED
_FREE, _BLOCKED = Sending.FREE, Sending.BLOCKED

"""The principal of a client that is not known: the listener has neither SASL nor client certificates."""

_FILE_ENDED = "a log segment ended before the range that was to be sent from it"
"""The file is shorter than was promised; the frame can't be completed any more."""


class Host(Protocol):
    """The server as its connections use it; see `Server`."""

    poller: Poller
    clock: Clock
    threads: Threads
    now_ms: int
    file_bytes_left: int
    dirty: list[Connection]
    mutes: Mutes

    def ready_again(self, connection: Connection) -> None: ...

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None: ...

    def is_over_memory(self) -> bool: ...

    def identify(self, connection: Connection) -> None: ...

    def on_malformed(self, connection: Connection, reason: str) -> None: ...

    def on_closed(self, connection: Connection) -> None: ...


class PendingAnswer:
    """A request's place in the queue of answers."""

    __slots__ = ("_chunks", "connection", "is_complete", "request_bytes")

    def __init__(self, connection: Connection, request_bytes: int) -> None:
        self.connection = connection
        self.request_bytes = request_bytes
        self.is_complete = False
        self._chunks: Sequence[Chunk] = ()

    def complete(self, chunks: Sequence[Chunk]) -> None:
        """Set the answer. `chunks` are a whole response frame, or nothing (acks=0 has no answer)."""
        assert not self.is_complete, "a request is answered once"
        self.is_complete = True
        self._chunks = chunks
        self.connection.on_answer(self)

    def take(self) -> Sequence[Chunk]:
        chunks, self._chunks = self._chunks, ()
        return chunks


#: Decodes and starts one request; completes `answer` now or later. Raises MalformedRequest or
#: UnsupportedApi.
Dispatch = Callable[["Connection", memoryview, PendingAnswer], None]


class Connection:
    """See the module."""

    __slots__ = (
        "_answers",
        "_channel",
        "_dispatch",
        "_has_unstarted",
        "_in_flight_bytes",
        "_is_dirty",
        "_pauses",
        "_phase",
        "_reader",
        "_sending",
        "_server",
        "_turn_requests",
        "_unsent",
        "_unsent_bytes",
        "certificate_names",
        "client_id",
        "fetch_session",
        "last_progress_ms",
        "listener",
        "may_be_members",
        "muted_until_ms",
        "number",
        "partial_since_ms",
        "peer",
        "principal",
        "rights",
        "sasl",
        "software",
    )

    def __init__(
        self,
        *,
        channel: Channel,
        server: Host,
        dispatch: Dispatch,
        frame_bytes_max: int,
        listener: str = "",
        number: int = 0,
    ) -> None:
        self._channel = channel
        self._server = server
        self._dispatch = dispatch
        self._reader = FrameReader(frame_bytes_max=frame_bytes_max)
        self._answers: deque[PendingAnswer] = deque()
        self._in_flight_bytes = 0
        self._unsent: deque[Chunk] = deque()
        self._unsent_bytes = 0
        self._phase = _NEW
        self._sending = _FREE
        self._pauses = Pauses()
        #: Monotonic; 0: not muted.
        self.muted_until_ms = 0
        #: Whether it is among those that the server flushes at the end of the turn.
        self._is_dirty = False
        #: Whether whole requests may wait in the reader because a bound or the turn's budget stopped us.
        self._has_unstarted = False
        self._turn_requests = 0
        self.peer = channel.peer
        #: The name of the listener that it came by.
        self.listener = listener
        #: In the order in which the server has taken them, from 1.
        self.number = number
        self.client_id: str | None = None
        #: What the client says that it is made with (ApiVersions, KIP-511).
        self.software = UNKNOWN_SOFTWARE
        #: Who the client is, with Kafka's prefix: by its certificate or by SASL.
        self.principal = ANONYMOUS
        #: The alternative names of the certificate that it has shown: DNS names in lower case, and IP
        #: addresses. Set, as the principal is, before its first request.
        self.certificate_names: frozenset[str] = frozenset()
        #: Its authentication, on a listener that has SASL.
        self.sasl: SaslConnection | None = None
        #: What the client may do, once the authorizer was asked.
        self.rights: ClientRights | None = None
        #: The Fetch handler's: the session last used here, so that it can end with the connection.
        self.fetch_session: object | None = None
        #: Whether it carries what a group's member sends (core/listed_coordinators.py).
        self.may_be_members = False
        self.last_progress_ms = server.clock.mono_ms()
        #: When the first byte of a frame that is still incomplete came, or None.
        self.partial_since_ms: int | None = None

    @property
    def closed(self) -> bool:
        return self._phase is _CLOSED

    @property
    def is_waiting(self) -> bool:
        """Return whether an answer is due to the peer, so that its silence proves nothing."""
        return bool(self._answers)

    @property
    def has_unstarted(self) -> bool:
        """Return whether a whole request was read and not begun, so that it waits for the broker."""
        return self._has_unstarted

    @property
    def is_handshaking(self) -> bool:
        return self._channel.is_handshaking

    @property
    def certificate(self) -> bytes | None:
        """Return the certificate, in DER, that the client has shown and that our CAs vouch for."""
        return self._channel.peer_certificate

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def held_bytes(self) -> int:
        return self._in_flight_bytes + self._unsent_bytes + self._reader.buffer_bytes

    def release_buffer(self) -> None:
        """Shrink the buffer of a quiet connection to that of a new one."""
        self._reader.release()

    @property
    def buffered_bytes(self) -> int:
        return self._reader.buffered_bytes

    # Reading

    def on_ready(self, readiness: ChannelReadiness) -> None:
        """Read or send: the socket is ready, or the connection's turn has come again."""
        if readiness.is_writable:
            self._send()
        if self._phase is _CLOSED:
            return
        if self._pauses:
            if readiness.is_hung_up:  # the peer will not take our answers
                self.close()
            return
        try:
            self._read_turn()
        except (FrameError, MalformedRequest, UnsupportedApi, CertificateUnusable) as error:
            self._server.on_malformed(self, str(error))
            self.close()
        except TlsFailed as error:
            self._server.on_malformed(self, f"TLS: {error}")
            self.close()
        except OSError:
            self.close()
        except Exception:
            # A bug in one handler must not stop the broker and the other clients' data path.
            _log.exception("connection_failed peer=%s", self.peer)
            self.close()

    def _read_turn(self) -> None:
        """Start the requests read before, read more, start those; within the turn's budget."""
        reader, recv_into = self._reader, self._channel.recv_into
        self._turn_requests = 0
        taken = 0
        if self._has_unstarted:
            self._start_requests()
        while not (self._has_unstarted or self._pauses or self._phase is _CLOSED) and taken < TURN_BYTES_MAX:
            room = reader.writable()
            try:
                count = recv_into(room)
            except BlockingIOError:
                break
            if count == 0:
                self.close()
                return
            reader.received(count)
            taken += count
            if self._phase is _NEW:  # here the handshake of TLS is over
                self._phase = follow(_NEW, ConnectionPhase.OPEN)
                self._server.identify(self)
            self._start_requests()
            if count < len(room):  # the kernel had no more
                break
        if self._phase is _CLOSED:
            return
        if taken:
            self.last_progress_ms = self._server.now_ms
            if self._has_unstarted or reader.buffered_bytes == 0:
                self.partial_since_ms = None
            elif self.partial_since_ms is None:
                self.partial_since_ms = self.last_progress_ms
        if self._has_unstarted:
            if self._pauses or self._is_at_bound():
                self._pause(PauseReason.BOUND)
            else:
                self._server.ready_again(self)
        elif reader.buffered_bytes and self._server.is_over_memory():
            # Its frame may not grow now, but the peer's time to complete it still counts. Incomplete frames
            # would otherwise keep the broker over its bound indefinitely.
            self._pause(PauseReason.BOUND)

    def _start_requests(self) -> None:
        """Start the whole requests that were read, until a bound stops it: what is left waits its turn."""
        reader = self._reader
        while True:
            if self._turn_requests >= TURN_REQUESTS_MAX or self._pauses or self._is_at_bound():
                self._has_unstarted = reader.has_frame
                return
            frame = reader.next_frame()
            if frame is None:
                self._has_unstarted = False
                return
            self._turn_requests += 1
            size = len(frame)
            answer = PendingAnswer(self, size)
            self._answers.append(answer)
            self._in_flight_bytes += size
            self._dispatch(self, frame, answer)
            if self._phase is _CLOSED:
                return

    def _is_at_bound(self) -> bool:
        return (
            len(self._answers) >= IN_FLIGHT_REQUESTS_MAX
            or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
            or self._unsent_bytes >= UNSENT_BYTES_MAX
            or self._server.is_over_memory()
        )

    def limit_requests(self, request_bytes_max: int) -> None:
        """Take requests of up to this size from now on."""
        self._reader.limit(request_bytes_max)

    def hold(self) -> None:
        """Read and start nothing more until `release`."""
        if self._phase is not _CLOSED:
            self._pause(PauseReason.HELD)

    def release(self) -> None:
        self._pauses.lift(PauseReason.HELD)
        self.resume()

    def resume(self) -> None:
        """Read again if nothing but a bound was in the way, and the connection is below all of them."""
        if self._pauses and self._pauses.may_end and self._phase is not _CLOSED and not self._is_at_bound():
            self._pauses.clear()
            self._update_interest()
            self._server.ready_again(self)

    def mute(self, until_ms: int, *, then_close: bool = False) -> None:
        """Read nothing before that time, monotonic; answers leave as before. then_close: end the connection
        instead of reading again."""
        if until_ms <= self.muted_until_ms or self._phase is _CLOSED:
            return
        self.muted_until_ms = until_ms
        self._pause(PauseReason.TURNED_AWAY if then_close else PauseReason.MUTED)
        self._server.mutes.add(self)

    def end_mute(self, now_ms: int) -> None:
        """Read again. The peer's times begin anew, since it was we who did not read."""
        self.muted_until_ms = 0
        if PauseReason.TURNED_AWAY in self._pauses:
            self.close()
            return
        self.last_progress_ms = now_ms
        if self.partial_since_ms is not None:
            self.partial_since_ms = now_ms
        self._pauses.lift(PauseReason.MUTED)
        self.resume()

    def _pause(self, reason: PauseReason) -> None:
        self._pauses.add(reason)
        self._update_interest()

    def _update_interest(self) -> None:
        self._server.poller.set_interest(
            self._channel, is_readable=not self._pauses, is_writable=self._sending is _BLOCKED
        )

    # Answering

    def on_answer(self, answer: PendingAnswer) -> None:
        """Note that an answer is complete. Only the head of the queue can leave and make the connection
        dirty."""
        if not self._is_dirty and self._answers and self._answers[0] is answer and self._phase is not _CLOSED:
            self._is_dirty = True
            self._server.dirty.append(self)

    def flush(self) -> None:
        """Send the complete answers at the head of the queue, as far as the kernel takes them."""
        self._is_dirty = False
        if self._phase is _CLOSED:
            return
        answers, unsent = self._answers, self._unsent
        while answers and answers[0].is_complete:
            answer = answers.popleft()
            self._in_flight_bytes -= answer.request_bytes
            for chunk in answer.take():
                size = len(chunk)
                if size:
                    unsent.append(chunk)
                    self._unsent_bytes += size
        if self._sending is not _BLOCKED:
            self._send()

    def _send(self) -> None:
        """Send what waits, until the kernel takes no more, the turn is over, or a disk is needed."""
        if self._sending is not _FREE and self._sending is not _BLOCKED:
            return
        unsent, server = self._unsent, self._server
        file_bytes = 0
        sending = _FREE
        try:
            while unsent and file_bytes < SEND_FILE_BYTES_MAX:
                head = unsent[0]
                if not isinstance(head, FileChunk):
                    self._send_some()
                elif server.file_bytes_left <= 0:
                    sending = _BLOCKED
                    break
                elif _is_cached(head):
                    sent = self._send_cached(head)
                    file_bytes += sent
                    server.file_bytes_left -= sent
                else:
                    sending = Sending.FROM_DISK
                    self._server.spawn(self._send_from_disk)
                    break
            else:
                if unsent:
                    sending = _BLOCKED
        except BlockingIOError:
            sending = _BLOCKED
        except OSError:
            self.close()
            return
        if sending is not self._sending:
            self._set_sending(sending)
        if self._phase is _ENDING and not unsent:
            self.close()
        elif self._pauses:
            self.resume()

    def _set_sending(self, sending: Sending) -> None:
        former, self._sending = self._sending, follow(self._sending, sending)
        if _BLOCKED in (former, sending):
            self._update_interest()

    def _send_some(self) -> None:
        """Send the buffers in front once. Raise BlockingIOError if the kernel takes nothing."""
        unsent = self._unsent
        batch: list[Buffer] = []
        is_file_next = False
        for chunk in unsent:
            if isinstance(chunk, FileChunk):
                is_file_next = True
                break
            if len(batch) == SEND_CHUNKS_MAX:
                break
            batch.append(chunk)
        if len(batch) > 1 and self._unsent_bytes <= JOINED_BYTES_MAX:
            batch = [b"".join(batch)]  # cheaper than to tell the kernel of each
        sent = self._channel.send(batch, is_more_at_hand=is_file_next)
        self._unsent_bytes -= sent
        self.last_progress_ms = self._server.now_ms
        while sent:
            head = unsent[0]
            size = len(head)
            if sent < size:
                assert not isinstance(head, FileChunk)
                unsent[0] = memoryview(head)[sent:]
                return
            unsent.popleft()
            sent -= size

    def _send_cached(self, part: FileChunk) -> int:
        """Send or read the beginning of a range here and return its size. Raise BlockingIOError, OSError."""
        source = part.source
        descriptor = self._descriptor(source)
        if descriptor is None:
            data = source.pread(min(part.length, READ_FILE_BYTES_MAX), part.position)
            self._put_in_front(part, data)
            return len(data)
        length = min(part.length, SEND_FILE_BYTES_MAX)
        sent = self._channel.send_file(descriptor, position=part.position, length=length)
        self._on_sent(part, sent)
        self.last_progress_ms = self._server.now_ms
        return sent

    async def _send_from_disk(self) -> None:
        """Send or read the beginning of the range in front in a thread, as a task; then go on as usual."""
        is_full = False
        try:
            if not self.closed:
                await self._send_in_thread(cast(FileChunk, self._unsent[0]))
                self.last_progress_ms = self._server.clock.mono_ms()
        except BlockingIOError:
            is_full = True
        except OSError:
            self.close()
        finally:
            self._set_sending(_FREE)
        if self.closed:
            return
        if is_full:
            self._set_sending(_BLOCKED)
        else:
            self._send()

    async def _send_in_thread(self, part: FileChunk) -> None:
        """Raise BlockingIOError, OSError."""
        source, length = part.source, min(part.length, SEND_FILE_BYTES_MAX)
        descriptor = self._descriptor(source)
        if descriptor is None:
            data = await self._server.threads.run(lambda: source.pread(length, part.position))
            if not self.closed:
                self._put_in_front(part, data)
            return
        self._set_sending(Sending.IN_THREAD)
        try:
            sent = await self._server.threads.run(
                lambda: self._channel.send_file(descriptor, position=part.position, length=length)
            )
        finally:
            self._set_sending(Sending.FROM_DISK)
            if self.closed:
                self._channel.close()
        if not self.closed:  # by the peer's leaving, while the thread sent: nothing is left to account for
            self._on_sent(part, sent)

    def _descriptor(self, source: FileSource) -> int | None:
        """Return the descriptor to send from; None if the bytes are to be read."""
        if not self._channel.sends_files:
            return None
        try:
            return source.fileno()
        except OSError:
            return None

    def _on_sent(self, part: FileChunk, sent: int) -> None:
        if sent == 0:
            raise OSError(_FILE_ENDED)
        self._unsent_bytes -= sent
        if sent == part.length:
            self._unsent.popleft()
        else:
            self._unsent[0] = FileChunk(part.source, part.position + sent, part.length - sent)

    def _put_in_front(self, part: FileChunk, data: bytes) -> None:
        """Put what was read of a range in front of the rest of it; it is sent as bytes are."""
        if not data:
            raise OSError(_FILE_ENDED)
        unsent, size = self._unsent, len(data)
        unsent[0] = data
        if size < part.length:
            unsent.insert(1, FileChunk(part.source, part.position + size, part.length - size))

    # Ending

    def end(self) -> None:
        """Send the complete answers at the head of the queue, then close; others are not sent."""
        if self._phase is _CLOSED:
            return
        self._phase = follow(self._phase, _ENDING)
        self._pause(PauseReason.HELD)
        self.flush()
        if not self._unsent:
            self.close()

    def close(self) -> None:
        if self._phase is _CLOSED:
            return
        self._phase = follow(self._phase, _CLOSED)
        self._server.poller.remove(self._channel)
        if self._sending is not Sending.IN_THREAD:
            self._channel.close()
        self._unsent.clear()
        self._unsent_bytes = 0
        self._answers.clear()
        self._in_flight_bytes = 0
        self._server.on_closed(self)


def _is_cached(part: FileChunk) -> bool:
    source = part.source
    return source.is_cached(min(part.length, SEND_FILE_BYTES_MAX), part.position)
