"""Frames on a byte stream, without the stream: bytes go in, requests come out.

A frame is a four-byte size and so many bytes. FrameReader owns the buffers a socket reads into and hands
out each complete frame as a view of them.

Invariants:
- A region that a frame was handed out from is never written again, because a produce frame's bytes may live
  on in the log's tail cache. A used-up buffer is replaced by a new one; only the partial frame at its end is
  copied.
- Memory follows what a peer has sent, not what it claims: a claim of 100 MiB backed by four bytes buys four
  bytes and room for the next read. Growing copies a frame's part once at each factor of GROWTH_FACTOR, and a
  connection that has sent a frame of some size gets buffers of that size from then on, or for a large frame
  that comes alone of its own size up to GROWTH_FACTOR times that.
- A size that no request can have is an error as soon as its four bytes are there, and stays one: HTTP and
  TLS bytes on a Kafka port read as sizes above any sane limit.

Responses leave as a list of chunks, so that record bytes are never copied and file ranges can be handed to
sendfile.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .compression import Buffer

SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes."""
SIZE_BYTES = 4
FIRST_BUFFER_BYTES = 4 * 1024
"""The size of an idle connection's buffer."""
BUFFER_BYTES_MAX = 64 * 1024
"""A connection of small frames grows its buffers to this: one read can then carry hundreds of requests."""
BATCHED_BUFFER_BYTES_MAX = 1024 * 1024
"""A connection of middling frames gets buffers for FRAMES_PER_BUFFER of them, up to this."""
FRAMES_PER_BUFFER = 4
LONE_FRAME_BYTES_MIN = 32 * 1024
"""Where one frame comes at a time, one behind a frame of this size begins in a small buffer, and goes on in
one of its own size as soon as that is known."""
GROWTH_FACTOR = 4
READ_BYTES_MIN = 512
"""A buffer with less room than this is used up."""

_SIZE = struct.Struct(">i")
_TLS_HANDSHAKE = 0x1603
"""How a connection of TLS begins."""
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_SIZE_CORRELATION_NO_TAGS = struct.Struct(">iib")


class FrameError(Exception):
    """The peer's bytes are not a frame. Nothing after them can be understood: close the connection."""


class FrameReader:
    """One connection's incoming side: read into `writable()`, call `received(n)`, then `next_frame()` until
    it returns None. is_lone: frames come one at a time, because each answers a question; a large one then has
    a buffer of its own, so that it can be kept without a copy, and nothing behind it has to be moved."""

    __slots__ = (
        "_buffer",
        "_buffer_bytes",
        "_end",
        "_frame_bytes_last",
        "_frame_bytes_max",
        "_frames",
        "_is_lone",
        "_start",
    )

    def __init__(self, *, frame_bytes_max: int = SOCKET_REQUEST_MAX_BYTES, is_lone: bool = False) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._is_lone = is_lone
        self._buffer_bytes = FIRST_BUFFER_BYTES
        self._frame_bytes_last = 0
        self._start = 0
        self._end = 0
        self._buffer = memoryview(bytearray(FIRST_BUFFER_BYTES))
        self._frames = self._buffer.toreadonly()

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of an incomplete frame. At the end of the stream they are a request cut short."""
        return self._end - self._start

    @property
    def buffer_bytes(self) -> int:
        """Return the size of this reader's own buffer; frames may hold earlier ones."""
        return len(self._buffer)

    def writable(self) -> memoryview:
        """Return the room for the next bytes, at least READ_BYTES_MIN. Valid until the next call."""
        if not self._has_room():
            size = self._next_buffer_bytes()
            self._buffer_bytes = min(self._buffer_bytes * GROWTH_FACTOR, BUFFER_BYTES_MAX)
            self._renew(size)
        return self._buffer[self._end :]

    def received(self, count: int) -> None:
        """Note that `count` bytes were read into the start of `writable()`."""
        assert 0 <= count <= len(self._buffer) - self._end, "more bytes received than were asked for"
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, read-only; None if it is not complete.

        Raise FrameError for a size of zero or less or above the limit, at every further call too.
        """
        start = self._start
        available = self._end - start - SIZE_BYTES
        if available < 0:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if size <= 0 or size > self._frame_bytes_max:
            raise FrameError(
                "the client speaks TLS, and this listener does not"
                if size >> 16 == _TLS_HANDSHAKE
                else f"frame size {size} is not within 1 and {self._frame_bytes_max}"
            )
        if available < size:
            return None
        start += SIZE_BYTES
        self._start = start + size
        self._frame_bytes_last = max(size, self._frame_bytes_last // 2) if self._is_lone else size
        return self._frames[start : self._start]

    def limit(self, frame_bytes_max: int) -> None:
        """Take frames of up to this size from now on."""
        self._frame_bytes_max = frame_bytes_max

    @property
    def has_frame(self) -> bool:
        """Return whether `next_frame` would return a frame or raise."""
        available = self._end - self._start - SIZE_BYTES
        if available < 0:
            return False
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        return bool(size <= available or size > self._frame_bytes_max)

    def release(self) -> None:
        """Replace an empty buffer by a small one, because the peer is idle."""
        if self._start == self._end and len(self._buffer) > FIRST_BUFFER_BYTES:
            self._buffer_bytes = FIRST_BUFFER_BYTES
            self._frame_bytes_last = 0
            self._renew(FIRST_BUFFER_BYTES)

    def _has_room(self) -> bool:
        """Return whether to continue in this buffer. Moving while little of a frame is here copies least."""
        size, frame_bytes = len(self._buffer), self._claimed_frame_bytes()
        if self._end - self._start < frame_bytes <= size - self._start:
            return True
        return (
            size - self._end >= READ_BYTES_MIN
            and not size - self._start < frame_bytes <= self._next_buffer_bytes()
        )

    def _claimed_frame_bytes(self) -> int:
        """Return the size of the incomplete frame, its size field included; 0 while it is not known."""
        if self._end - self._start < SIZE_BYTES:
            return 0
        return SIZE_BYTES + int(_SIZE.unpack_from(self._buffer, self._start)[0])

    def _next_buffer_bytes(self) -> int:
        """Return the size of the buffer after this one."""
        held = self._end - self._start
        last = SIZE_BYTES + self._frame_bytes_last
        claimed = self._claimed_frame_bytes()
        if self._is_lone and last >= LONE_FRAME_BYTES_MIN:
            near = min(claimed, GROWTH_FACTOR * max(last, held))
            return near if near > held else max(FIRST_BUFFER_BYTES, held + READ_BYTES_MIN)
        return max(
            min(self._buffer_bytes * GROWTH_FACTOR, BUFFER_BYTES_MAX),
            last,
            min(FRAMES_PER_BUFFER * last, BATCHED_BUFFER_BYTES_MAX),
            # Room for the whole frame if that is near; else for a multiple of what has been sent of it.
            min(claimed, GROWTH_FACTOR * held),
            held + READ_BYTES_MIN,
        )

    def _renew(self, size: int) -> None:
        fresh = memoryview(bytearray(size))
        held = self._end - self._start
        if held:
            fresh[:held] = self._buffer[self._start : self._end]
        self._buffer = fresh
        self._frames = fresh.toreadonly()
        self._start = 0
        self._end = held


class FileSource(Protocol):
    """The source of a FileChunk: an open file of the storage layer. One without a descriptor, whose `fileno`
    raises OSError, is read instead."""

    def fileno(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes: ...

    def is_cached(self, length: int, position: int) -> bool:
        """Return whether these bytes can very probably be read without waiting for a disk."""


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Bytes of a response that the shell sends from a file. Only the shell opens `source`."""

    source: FileSource
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


Chunk = Buffer | FileChunk
"""A piece of an outgoing frame. Its `len` is its bytes on the wire."""


def encode_response_frame(
    correlation_id: int, chunks: Iterable[Chunk], *, has_flexible_header: bool
) -> list[Chunk]:
    """Return size, response header (v1 if flexible, else v0) and `chunks`, none of them copied.

    A first chunk of bytes is joined to the head, so that a small response is one chunk and one send.
    """
    rest = list(chunks)
    size = sum(map(len, rest))
    if has_flexible_header:
        head = _SIZE_CORRELATION_NO_TAGS.pack(5 + size, correlation_id, 0)
    else:
        head = _SIZE_AND_CORRELATION.pack(4 + size, correlation_id)
    if rest and isinstance(rest[0], bytes):
        rest[0] = head + rest[0]
        return rest
    return [head, *rest]


def encode_request_frame(head: bytes, body: Buffer) -> bytes:
    """Return a request's size, header (headers.encode_request_header) and body. For small bodies."""
    return _SIZE.pack(len(head) + len(body)) + head + body
