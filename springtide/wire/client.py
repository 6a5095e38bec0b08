"""The asking side of a connection, without the connection: requests become bytes, bytes become answers. Pure.

A node answers the requests of one connection in their order. So an answer belongs to the oldest request that
has none; its correlation id must say the same. What does not fit raises MalformedRequest or FrameError, and
then nothing more on that connection can be understood: its owner closes it. What has no answer by then is
lost, which the owner has to tell; the node may have carried it out.

The owner keeps the time: a WireClient knows no clock and no socket. Its owner reads into `frames` and calls
`received` and `next_answer`, or reads whole frames itself and hands them to `answer_in`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from . import codec
from .compression import Buffer
from .framing import FrameError, FrameReader
from .headers import decode_response_header, encode_request_header
from .primitives import RESPONSE_ELEMENTS_MAX, MalformedRequest

T = TypeVar("T")

ANSWER_BYTES_MIN: Final = 4
"""A correlation id."""
IN_FLIGHT_MAX: Final = 1_000
"""Requests of one connection without an answer."""
API_VERSIONS_VERSION: Final = 0
"""The one version of ApiVersions that every node of every age answers (KIP-511)."""

_SIZE = struct.Struct(">i")
_CORRELATION_IDS = 2**31


class TooManyInFlight(OSError):
    """The node takes requests and answers none: its connection is to be given up, as a silent one is."""


class WireRequest(NamedTuple, Generic[T]):
    """A request that was sent. note: the owner's own mark of it."""

    correlation_id: int
    api_key: int
    api_version: int
    note: T


class WireAnswer(NamedTuple, Generic[T]):
    """The answer to a request. position: where in its frame the API's own bytes begin."""

    asked: WireRequest[T]
    frame: memoryview
    position: int

    def message(self) -> Any:
        """Return the answer in the definition of its API and version. Raise MalformedRequest."""
        answered = codec.response_type(self.asked.api_key, self.asked.api_version)
        return codec.decode(answered, self.frame, self.position, elements_max=RESPONSE_ELEMENTS_MAX)


class WireClient(Generic[T]):
    """One connection's requests and answers. answer_bytes_max: of a whole answer; a larger one is refused as
    soon as its size is read."""

    __slots__ = ("_client_id", "_correlation_id", "_in_flight", "_in_flight_max", "frames")

    def __init__(self, client_id: str, *, answer_bytes_max: int, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self._client_id = client_id
        self._in_flight_max = in_flight_max
        self._correlation_id = 0
        self._in_flight: deque[WireRequest[T]] = deque()
        self.frames = FrameReader(frame_bytes_max=answer_bytes_max)

    @property
    def in_flight(self) -> Sequence[WireRequest[T]]:
        """Return the requests without an answer, oldest first."""
        return self._in_flight

    def ask(self, api_key: int, api_version: int, body: Sequence[Buffer], note: T) -> list[Buffer]:
        """Return the pieces to send; those of the body are not copied. Raise TooManyInFlight."""
        if len(self._in_flight) >= self._in_flight_max:
            raise TooManyInFlight(f"{len(self._in_flight)} requests have no answer yet")
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        asked = WireRequest(self._correlation_id, api_key, api_version, note)
        head = encode_request_header(
            api_key=api_key,
            api_version=api_version,
            correlation_id=asked.correlation_id,
            client_id=self._client_id,
        )
        size = len(head) + sum(memoryview(piece).nbytes for piece in body)
        self._in_flight.append(asked)
        return [_SIZE.pack(size) + head, *body]

    def received(self, count: int) -> None:
        """Note that `count` bytes were read into `frames.writable()`. None mean that the node has closed the
        connection: raise ConnectionResetError."""
        if not count:
            where = "in the middle of" if self.frames.buffered_bytes else "without"
            raise ConnectionResetError(f"it closed the connection {where} an answer")
        self.frames.received(count)

    def next_answer(self) -> WireAnswer[T] | None:
        """Return the next answer that is here whole. Raise FrameError, MalformedRequest."""
        frame = self.frames.next_frame()
        return None if frame is None else self.answer_in(frame)

    def answer_in(self, frame: memoryview) -> WireAnswer[T]:
        """Return the answer that this whole frame is. Raise MalformedRequest."""
        if not self._in_flight:
            raise MalformedRequest("an answer to nothing that was asked")
        asked = self._in_flight[0]
        correlation_id, position = decode_response_header(
            frame, api_key=asked.api_key, api_version=asked.api_version
        )
        if correlation_id != asked.correlation_id:
            raise MalformedRequest(f"answer {correlation_id} where {asked.correlation_id} is due")
        self._in_flight.popleft()
        return WireAnswer(asked, frame, position)


def request_body(api_key: int, api_version: int, fields: Mapping[str, object]) -> bytes:
    """Return the body of a request by the names of its fields, which are trusted."""
    return codec.encode(codec.build(codec.request_type(api_key, api_version), fields))


def answer_size(head: Buffer, *, answer_bytes_max: int) -> int:
    """Return the size that the first SIZE_BYTES of an answer claim. Raise FrameError if none can have it."""
    (size,) = _SIZE.unpack_from(head)
    if not ANSWER_BYTES_MIN <= size <= answer_bytes_max:
        raise FrameError(f"an answer of {size} bytes is not within {ANSWER_BYTES_MIN} and {answer_bytes_max}")
    return int(size)


def spoken_versions(told: Any) -> dict[int, tuple[int, int]]:
    """Return (lowest, highest version) by API of an answer to ApiVersions. Its error is ignored: a node tells
    its versions even then."""
    return {int(one.api_key): (one.min_version, one.max_version) for one in told.api_keys}


def speaks(versions: Mapping[int, tuple[int, int]], api_key: int, api_version: int) -> bool:
    """Return whether a node that told these versions speaks this one."""
    lowest, highest = versions.get(api_key, (0, -1))
    return lowest <= api_version <= highest
