"""The usual exchange of a follower and its leader in one pack and one unpack each: one partition, no error.

While records flow, each fetch of a follower names the one partition that moved, and each answer carries it:
four messages for every small write that waits for two followers, and the general codec takes longer over
them than the logs over the records. So the fields of that shape are read and written at once here. Whatever
else a message says (several partitions, forgotten ones, a divergence, a hint, any tag) is left to wire.fetch.

Invariant: no message means anything else here than there, and none is accepted here that is refused there.
Tests hold the two against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .apis import HIGHEST_FETCH_VERSION, ApiKey
from .compression import Buffer
from .fetch import (
    TOPIC_ID_BYTES,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_request,
    decode_fetch_response,
)
from .framing import Chunk
from .headers import decode_response_header, encode_request_header
from .primitives import uvarint_bytes

REQUEST_SINCE = 15
"""The first version whose requests have this shape."""

_ONE = 2  # a compact array's count plus one
_NONE = 1
_NO_TAGS = 0
_NULL = 0

# limits; session; topics, topic id, partitions; the partition; its, the topic's tags; forgotten; rack
_ASKED = f"iiib ii B{TOPIC_ID_BYTES}sB iiqiqi BB B B"
_STATE = "BBBiqB"  # tags, tag, size; replica id, broker epoch; its tags
_REQUEST = struct.Struct(">" + _ASKED + _STATE)
_STATE_TAG = 1
_STATE_BYTES = 13
#: From the partition's tags to the size of the replica state, the only tag of the request.
_REQUEST_CONSTANTS = [_NO_TAGS, _NO_TAGS, _NONE, _NONE, 1, _STATE_TAG, _STATE_BYTES]
# correlation id, tags; throttle, error, session; topics, topic id, partitions; the partition up to records
_ANSWER = struct.Struct(f">iB ihi B{TOPIC_ID_BYTES}sB ihqqqBi")
_FRAME_SIZE = struct.Struct(">i")
_ANSWER_TAIL = bytes(3)  # the partition's, the topic's, the answer's tags
_VARINT_BYTES_MAX = 4
"""Lengths of five bytes are the general reader's, which checks that they do not exceed 32 bits."""


class RequestTemplate:
    """What a follower asks a leader about one partition, all but what changes kept as it is on the wire."""

    __slots__ = ("_broker_epoch", "_head", "_layout", "_limits", "_replica_id")

    def __init__(
        self,
        *,
        client_id: str,
        replica_id: int,
        broker_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> None:
        head = encode_request_header(
            api_key=ApiKey.FETCH,
            api_version=HIGHEST_FETCH_VERSION,
            correlation_id=0,
            client_id=client_id,
        )
        start, rest = head[:4], head[8:]  # around the correlation id
        self._layout = struct.Struct(f">i4si{len(rest)}s" + _ASKED + _STATE)
        self._head = (self._layout.size - _FRAME_SIZE.size, start, rest)
        self._limits = (max_wait_ms, min_bytes, max_bytes)
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch

    def encode(
        self,
        *,
        correlation_id: int,
        session_id: int,
        session_epoch: int,
        topic_id: bytes,
        partition: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_bytes_max: int,
    ) -> bytes:
        """A whole request frame."""
        size, start, rest = self._head
        return self._layout.pack(
            size,
            start,
            correlation_id,
            rest,
            *self._limits,
            0,
            session_id,
            session_epoch,
            _ONE,
            topic_id,
            _ONE,
            partition,
            leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            partition_bytes_max,
            *_REQUEST_CONSTANTS,
            self._replica_id,
            self._broker_epoch,
            _NO_TAGS,
        )


def decode_request(api_version: int, frame: Buffer, position: int) -> FetchRequest:
    """The request whose body is `frame` from `position` on. Raises MalformedRequest, nothing else."""
    if api_version >= REQUEST_SINCE and len(frame) - position == _REQUEST.size:
        (
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            topic_id,
            partitions,
            partition,
            leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            partition_bytes_max,
            *constants,
            replica_id,
            broker_epoch,
            state_tags,
        ) = _REQUEST.unpack_from(frame, position)
        if topics == partitions == _ONE and constants == _REQUEST_CONSTANTS and state_tags == _NO_TAGS:
            asked = FetchPartition(
                topic_id,
                partition,
                leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                log_start_offset,
                partition_bytes_max,
            )
            return FetchRequest(
                replica_id,
                broker_epoch,
                max_wait_ms,
                min_bytes,
                max_bytes,
                isolation_level,
                session_id,
                session_epoch,
                [asked],
                [],
            )
    return decode_fetch_request(api_version, frame, position)


def encode_answer(
    *,
    correlation_id: int,
    session_id: int,
    topic_id: bytes,
    partition: int,
    high_watermark: int,
    log_start_offset: int,
    records: Sequence[Chunk],
    records_bytes: int,
) -> list[Chunk]:
    """A whole response frame, for versions that name topics by id, of one partition without an error. The
    last stable offset is the high watermark: there are no transactions."""
    length = uvarint_bytes(records_bytes + 1)
    head = (
        _FRAME_SIZE.pack(_ANSWER.size + len(length) + records_bytes + len(_ANSWER_TAIL))
        + _ANSWER.pack(
            correlation_id,
            _NO_TAGS,
            0,
            0,
            session_id,
            _ONE,
            topic_id,
            _ONE,
            partition,
            0,
            high_watermark,
            high_watermark,
            log_start_offset,
            _NULL,
            -1,
        )
        + length
    )
    return [head, *records, _ANSWER_TAIL] if records_bytes else [head + _ANSWER_TAIL]


def decode_answer(frame: memoryview) -> tuple[int, FetchResponse]:
    """(correlation id, answer) of a whole response frame in HIGHEST_FETCH_VERSION, records as views of it.
    Raises MalformedRequest, nothing else."""
    usual = _decode_usual_answer(frame)
    if usual is not None:
        return usual
    correlation_id, position = decode_response_header(
        frame, api_key=ApiKey.FETCH, api_version=HIGHEST_FETCH_VERSION
    )
    return correlation_id, decode_fetch_response(frame, position)


def _decode_usual_answer(frame: memoryview) -> tuple[int, FetchResponse] | None:
    position = _ANSWER.size
    size = len(frame)
    if size < position + 1 + len(_ANSWER_TAIL):
        return None
    (
        correlation_id,
        header_tags,
        throttle_time_ms,
        error_code,
        session_id,
        topics,
        topic_id,
        partitions,
        partition,
        partition_error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
    ) = _ANSWER.unpack_from(frame)
    if header_tags != _NO_TAGS or topics != _ONE or partitions != _ONE or aborted != _NULL:
        return None
    byte = frame[position]
    length = byte & 0x7F
    shift = 7
    while byte & 0x80:
        position += 1
        if shift > 7 * (_VARINT_BYTES_MAX - 1) or position >= size:
            return None
        byte = frame[position]
        length |= (byte & 0x7F) << shift
        shift += 7
    position += 1
    end = position + length - 1
    if length == _NULL or end + len(_ANSWER_TAIL) != size or frame[end:] != _ANSWER_TAIL:
        return None
    return correlation_id, FetchResponse(
        throttle_time_ms,
        error_code,
        session_id,
        [
            FetchedPartition(
                topic_id,
                partition,
                partition_error_code,
                high_watermark,
                last_stable_offset,
                log_start_offset,
                (frame[position:end],) if end > position else (),
                preferred_read_replica,
            )
        ],
    )
