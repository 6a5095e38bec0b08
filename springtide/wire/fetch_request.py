"""Fetch requests: a leader reads them, followers and clients write them.

Versions 4-18 are read and written. Before version 13 a topic is named, from 13 on it is its 16-byte id; here
it is a `Topic`, which is `str` or `bytes` accordingly.

Written by hand because the general codec (codec.py) takes three to four times as long. A follower that is in
step asks about the one partition that moved, for every small write: that request is read with one unpack and
written with one pack (`RequestTemplate`). Tests hold all of it against the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from .apis import REPLICA_FETCH_VERSION, ApiKey
from .compression import Buffer
from .headers import encode_request_header
from .primitives import (
    MALFORMED_CAUSES,
    MalformedRequest,
    OnRest,
    Reader,
    topic_runs,
    write_count,
    write_string,
    write_uvarint,
)

LOG_START_OFFSET_SINCE = 5
SESSION_SINCE = 7
LEADER_EPOCH_SINCE = 9
ZSTD_SINCE = 10
"""KIP-110: a client below this can't read zstd; a partition that holds it gets
UNSUPPORTED_COMPRESSION_TYPE."""
RACK_SINCE = 11
FLEXIBLE_SINCE = 12
TOPIC_ID_SINCE = 13
REPLICA_STATE_SINCE = 15

CONSUMER_ID = -1
"""The replica id of a client that is no replica."""
DEBUGGING_CONSUMER_ID = -2
"""A fetch with this replica id is answered by any replica, in sync or not, with what that replica holds
(Kafka's ReplicaVerificationTool); never beyond the high watermark that the replica knows."""
TOPIC_ID_BYTES = 16

Topic = str | bytes
"""A name (before v13) or the 16 bytes of a topic id."""

_REPLICA_STATE_TAG = 1
_MARK_TAG = 10_000
"""Far above what Kafka numbers."""
_WANTS_PRODUCERS_TAG = 10_001

_INT32 = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iq")
_REPLICA_STATE_ALONE = struct.Struct(">BBBiqB")
_REPLICA_STATE_FRAME = [1, _REPLICA_STATE_TAG, _REPLICA_STATE.size + 1]
_MARK = struct.Struct(">iq")
_MARKED_BATCH = struct.Struct(">qI")
_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_PARTITION_V12_TAGS = struct.Struct(">iiqiqib")

# The usual request. Limits; session; topics, topic id, partitions; the partition; its tags, the topic's tags;
# forgotten; rack; the request's tags, tag, size; replica id, broker epoch; the tag's tags.
_USUAL = f"iiib ii B{TOPIC_ID_BYTES}sB iiqiqi BB B B BBBiqB"
_USUAL_REQUEST = struct.Struct(">" + _USUAL)
_USUAL_CONSTANTS = [0, 0, 1, 1, *_REPLICA_STATE_FRAME]
"""From the partition's tags to the size of the replica state."""
_ONE = 2  # a compact array's count plus one


class LogMark(NamedTuple):
    """Our own tag between brokers, in the first fetch of a partition in a session: what a follower holds
    before its fetch offset, so that its leader can compare (docs/replication.md 3.10, a host that goes back).
    partition_epoch: of the state that the follower has applied. log_start_offset: the highest that the leader
    has told it in this leader epoch, -1 if none. batches: base offset and CRC of each."""

    partition_epoch: int
    log_start_offset: int
    batches: tuple[tuple[int, int], ...]


class FetchPartition(NamedTuple):
    """One partition that is asked for. -1 in an epoch or the log start offset: not stated. wants_producers:
    our own tag between brokers (docs/replication.md 6.10, a copy knows its producers)."""

    topic: Topic
    partition: int
    leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    max_bytes: int = 0
    mark: LogMark | None = None
    wants_producers: bool = False


class FetchRequest(NamedTuple):
    """`broker_epoch` is the replica's incarnation as of v15 (KIP-903), -1 from consumers and older versions.

    `session_id` 0 and `session_epoch` -1 ask for no session, which is what versions below 7 mean.
    """

    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2**31 - 1
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    partitions: Sequence[FetchPartition] = ()
    forgotten: Sequence[tuple[Topic, int]] = ()
    rack_id: str = ""


def decode_fetch_request(
    api_version: int, frame: Buffer, position: int, *, on_rest: OnRest | None = None
) -> FetchRequest:
    """Return the request whose body is `frame` from `position` on. Raise MalformedRequest, nothing else."""
    if api_version >= REPLICA_STATE_SINCE and len(frame) - position == _USUAL_REQUEST.size:
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
        ) = _USUAL_REQUEST.unpack_from(frame, position)
        if topics == partitions == _ONE and constants == _USUAL_CONSTANTS and not state_tags:
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
    try:
        return read_fetch_request(Reader(frame, position), api_version, on_rest)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Fetch v{api_version}: {error}") from error


def read_fetch_request(reader: Reader, api_version: int, on_rest: OnRest | None = None) -> FetchRequest:
    """Return a request of any shape. Raise one of MALFORMED_CAUSES or MalformedRequest."""
    is_flexible = api_version >= FLEXIBLE_SINCE
    replica_id = CONSUMER_ID
    broker_epoch = -1
    if api_version < REPLICA_STATE_SINCE:
        replica_id = reader.int32()
    limits = reader.fixed(_LIMITS)
    session = (0, -1) if api_version < SESSION_SINCE else reader.fixed(_SESSION)
    partitions = _read_partitions(reader, api_version)
    forgotten = _read_forgotten(reader, api_version) if api_version >= SESSION_SINCE else []
    rack_id = reader.string(is_flexible=is_flexible) if api_version >= RACK_SINCE else ""
    if is_flexible:
        if api_version >= REPLICA_STATE_SINCE and reader.buffer[reader.position] != 0:
            replica_id, broker_epoch = _read_replica_state(reader)
        else:
            reader.skip_tagged_fields()
    reader.finish(on_rest if replica_id == CONSUMER_ID else None)
    return FetchRequest._make((replica_id, broker_epoch, *limits, *session, partitions, forgotten, rack_id))


def read_topic(reader: Reader, api_version: int) -> Topic:
    if api_version >= TOPIC_ID_SINCE:
        return bytes(reader.take(TOPIC_ID_BYTES))
    return reader.string(is_flexible=api_version >= FLEXIBLE_SINCE)


def topic_bytes_min(api_version: int) -> int:
    if api_version >= TOPIC_ID_SINCE:
        return TOPIC_ID_BYTES + 2
    return 3 if api_version >= FLEXIBLE_SINCE else 6


def _read_partitions(reader: Reader, api_version: int) -> list[FetchPartition]:
    is_flexible = api_version >= FLEXIBLE_SINCE
    if is_flexible:
        layout = _PARTITION_V12
    elif api_version >= LEADER_EPOCH_SINCE:
        layout = _PARTITION_V9
    elif api_version >= LOG_START_OFFSET_SINCE:
        layout = _PARTITION_V5
    else:
        layout = _PARTITION_V4
    bytes_min = layout.size + is_flexible
    partitions: list[FetchPartition] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=topic_bytes_min(api_version)
    )
    for _ in range(topics):
        topic = read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=bytes_min)
        for _ in range(count):
            fields = reader.fixed(layout)
            if is_flexible:
                partitions.append(FetchPartition._make((topic, *fields, *_read_tags(reader))))
            elif layout is _PARTITION_V9:
                partition, leader_epoch, offset, log_start_offset, max_bytes = fields
                partitions.append(
                    FetchPartition(topic, partition, leader_epoch, offset, -1, log_start_offset, max_bytes)
                )
            elif layout is _PARTITION_V5:
                partition, offset, log_start_offset, max_bytes = fields
                partitions.append(
                    FetchPartition(topic, partition, -1, offset, -1, log_start_offset, max_bytes)
                )
            else:
                partition, offset, max_bytes = fields
                partitions.append(FetchPartition(topic, partition, -1, offset, -1, -1, max_bytes))
        if is_flexible:
            reader.skip_tagged_fields()
    return partitions


def _read_tags(reader: Reader) -> tuple[LogMark | None, bool]:
    """Return our own tags of a partition. The replica's directory id (v17) is not used."""
    if reader.buffer[reader.position] == 0:  # nearly always
        reader.position += 1
        return None, False
    mark: LogMark | None = None
    wants_producers = False

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal mark, wants_producers
        if tag == _WANTS_PRODUCERS_TAG:
            wants_producers = True
            return True
        if tag != _MARK_TAG:
            return False
        partition_epoch, log_start_offset = content.fixed(_MARK)
        count = content.remaining // _MARKED_BATCH.size
        batches = tuple((offset, crc) for offset, crc in (content.fixed(_MARKED_BATCH) for _ in range(count)))
        mark = LogMark(partition_epoch, log_start_offset, batches)
        return True

    reader.tagged_fields(on_tag)
    return mark, wants_producers


def _read_forgotten(reader: Reader, api_version: int) -> list[tuple[Topic, int]]:
    is_flexible = api_version >= FLEXIBLE_SINCE
    forgotten: list[tuple[Topic, int]] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=topic_bytes_min(api_version)
    )
    for _ in range(topics):
        topic = read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=4)
        forgotten += [(topic, reader.int32()) for _ in range(count)]
        if is_flexible:
            reader.skip_tagged_fields()
    return forgotten


def _read_replica_state(reader: Reader) -> tuple[int, int]:
    """Return (replica id, broker epoch) from the section that ends a request."""
    if reader.remaining == _REPLICA_STATE_ALONE.size:  # as brokers send it, ours and Kafka's
        *frame, replica_id, broker_epoch, inner_tags = _REPLICA_STATE_ALONE.unpack_from(
            reader.buffer, reader.position
        )
        if frame == _REPLICA_STATE_FRAME and inner_tags == 0:
            reader.position += _REPLICA_STATE_ALONE.size
            return replica_id, broker_epoch
    state = (CONSUMER_ID, -1)

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal state
        if tag != _REPLICA_STATE_TAG:
            return False
        replica_id, broker_epoch = content.fixed(_REPLICA_STATE)
        content.skip_tagged_fields()
        state = (replica_id, broker_epoch)
        return True

    reader.tagged_fields(on_tag)
    return state


def encode_fetch_request(api_version: int, request: FetchRequest) -> bytes:
    """Return the body. Neighbours of one topic share an entry. Fields that the version lacks are left out."""
    is_flexible = api_version >= FLEXIBLE_SINCE
    out = bytearray()
    if api_version < REPLICA_STATE_SINCE:
        out += _INT32.pack(request.replica_id)
    out += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if api_version >= SESSION_SINCE:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    runs = topic_runs(request.partitions)
    write_count(out, len(runs), is_flexible=is_flexible)
    for run in runs:
        write_topic(out, run[0].topic, api_version)
        write_count(out, len(run), is_flexible=is_flexible)
        for one in run:
            if not is_flexible:
                _write_partition(out, one, api_version)
                continue
            out += _PARTITION_V12_TAGS.pack(*one[1:7], (one.mark is not None) + one.wants_producers)
            if one.mark is not None:
                _write_mark(out, one.mark)
            if one.wants_producers:
                write_uvarint(out, _WANTS_PRODUCERS_TAG)
                out.append(0)
        if is_flexible:
            out.append(0)
    if api_version >= SESSION_SINCE:
        _write_forgotten(out, request.forgotten, api_version)
    if api_version >= RACK_SINCE:
        write_string(out, request.rack_id, is_flexible=is_flexible)
    if api_version >= REPLICA_STATE_SINCE and request.replica_id != CONSUMER_ID:
        out += _REPLICA_STATE_ALONE.pack(*_REPLICA_STATE_FRAME, request.replica_id, request.broker_epoch, 0)
    elif is_flexible:
        out.append(0)
    return bytes(out)


def _write_mark(out: bytearray, mark: LogMark) -> None:
    partition_epoch, log_start_offset, batches = mark
    write_uvarint(out, _MARK_TAG)
    write_uvarint(out, _MARK.size + _MARKED_BATCH.size * len(batches))
    out += _MARK.pack(partition_epoch, log_start_offset)
    for batch in batches:
        out += _MARKED_BATCH.pack(*batch)


def _write_partition(out: bytearray, asked: FetchPartition, api_version: int) -> None:
    _, partition, leader_epoch, offset, _, log_start_offset, max_bytes, *_ = asked
    if api_version >= LEADER_EPOCH_SINCE:
        out += _PARTITION_V9.pack(partition, leader_epoch, offset, log_start_offset, max_bytes)
    elif api_version >= LOG_START_OFFSET_SINCE:
        out += _PARTITION_V5.pack(partition, offset, log_start_offset, max_bytes)
    else:
        out += _PARTITION_V4.pack(partition, offset, max_bytes)


def _write_forgotten(out: bytearray, forgotten: Sequence[tuple[Topic, int]], api_version: int) -> None:
    is_flexible = api_version >= FLEXIBLE_SINCE
    by_topic: dict[Topic, list[int]] = {}
    for topic, partition in forgotten:
        by_topic.setdefault(topic, []).append(partition)
    write_count(out, len(by_topic), is_flexible=is_flexible)
    for topic, indexes in by_topic.items():
        write_topic(out, topic, api_version)
        write_count(out, len(indexes), is_flexible=is_flexible)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        if is_flexible:
            out.append(0)


def write_topic(out: bytearray, topic: Topic, api_version: int) -> None:
    if isinstance(topic, str):
        assert api_version < TOPIC_ID_SINCE, "from v13 on topics go by id"
        write_string(out, topic, is_flexible=api_version >= FLEXIBLE_SINCE)
    else:
        assert api_version >= TOPIC_ID_SINCE, "before v13 topics go by name"
        assert len(topic) == TOPIC_ID_BYTES
        out += topic


class RequestTemplate:
    """The usual request of a follower to one leader, with the bytes that stay the same packed once.
    api_version: one of REPLICA_FETCH_VERSIONS, in all of which the request looks alike."""

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
        api_version: int = REPLICA_FETCH_VERSION,
    ) -> None:
        head = encode_request_header(
            api_key=ApiKey.FETCH,
            api_version=api_version,
            correlation_id=0,
            client_id=client_id,
        )
        start, rest = head[:4], head[8:]  # around the correlation id
        self._layout = struct.Struct(f">i4si{len(rest)}s" + _USUAL)
        self._head = (self._layout.size - _INT32.size, start, rest)
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
        """Return a whole request frame."""
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
            *_USUAL_CONSTANTS,
            self._replica_id,
            self._broker_epoch,
            0,
        )
