"""Fetch, by hand, from both ends: a leader reads requests and writes answers, a follower the reverse.

Answers are lists of chunks: the fields between record sets are packed into bytes, the record sets stay what
they are, views of the log's tail or ranges of a file. A follower reads an answer into views of the received
frame.

By hand, because it pays: three to four times less than the general codec for each of the four, and no copy
of the records. Requests of versions 4-17 are read. Before version 13 a topic is named, from 13 on it is its
16-byte id; here it is a `Topic`, which is `str` or `bytes` accordingly. Our followers speak the highest
version only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from .apis import HIGHEST_FETCH_VERSION
from .compression import Buffer
from .framing import Chunk
from .leader_hints import CurrentLeader, NodeEndpoint, encode_endpoints_section, encode_leader_tag
from .primitives import (
    MALFORMED_CAUSES,
    RESPONSE_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    uvarint_bytes,
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
NODE_ENDPOINTS_SINCE = 16

CONSUMER_ID = -1
"""The replica id of those who are no replica."""
TOPIC_ID_BYTES = 16

Topic = str | bytes
"""A name (before v13) or the 16 bytes of a topic id."""

_REPLICA_STATE_TAG = 1
_MARK_TAG = 10_000
"""Far above what Kafka numbers."""
_DIVERGING_EPOCH_TAG = 0
_CURRENT_LEADER_TAG = 1

_INT32 = struct.Struct(">i")
_REPLICA_ID = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iq")
_REPLICA_STATE_ALONE = struct.Struct(">BBBiqB")
_REPLICA_STATE_FRAME = [1, _REPLICA_STATE_TAG, _REPLICA_STATE.size + 1]
_MARK = struct.Struct(">qi")
_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_PARTITION_V12_NO_TAGS = struct.Struct(">iiqiqib")
_ANSWER_HEAD_V4 = struct.Struct(">i")
_ANSWER_HEAD_V7 = struct.Struct(">ihi")
_ANSWER_V4 = struct.Struct(">ihqqi")  # the last: aborted transactions, -1 is null
_ANSWER_V5 = struct.Struct(">ihqqqi")
_ANSWER_V11 = struct.Struct(">ihqqqii")
_ANSWER_V12 = struct.Struct(">ihqqqbi")  # null is one byte, 0
_ANSWER_FIXED = struct.Struct(">ihqqq")
_ABORTED_BYTES_MIN = 17
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")


class LogMark(NamedTuple):
    """Our own tag between brokers, in the first fetch of a partition in a session: what a follower holds
    before its fetch offset, so that its leader can compare (docs/replication.md 3.10). crcs: of the batches
    from first_offset on. partition_epoch: of the state that the follower has applied."""

    first_offset: int
    partition_epoch: int
    crcs: tuple[int, ...]


class FetchPartition(NamedTuple):
    """One partition that is asked for. -1 in an epoch or the log start offset: not stated."""

    topic: Topic
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    mark: LogMark | None = None


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


class EpochEnd(NamedTuple):
    """Up to where the leader's history agrees with the follower's (KIP-595's diverging epoch)."""

    leader_epoch: int
    end_offset: int


class FetchedPartition(NamedTuple):
    """One partition of an answer. `records` are whole batches in order, in as many pieces as they come."""

    topic: Topic
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Chunk] = ()
    preferred_read_replica: int = -1
    diverging_epoch: EpochEnd | None = None
    current_leader: CurrentLeader | None = None


class FetchResponse(NamedTuple):
    """What a follower reads. Each partition's `records` is one view of the frame, or none."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]


# --- the leader's end
# --------------------------------------------------------------------------------------------


def decode_fetch_request(api_version: int, frame: Buffer, position: int) -> FetchRequest:
    """The request whose body is `frame` from `position` on. Raises MalformedRequest, nothing else."""
    try:
        return _read_request(Reader(frame, position), api_version)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Fetch v{api_version}: {error}") from error


def _read_request(reader: Reader, api_version: int) -> FetchRequest:
    is_flexible = api_version >= FLEXIBLE_SINCE
    replica_id = CONSUMER_ID
    broker_epoch = -1
    if api_version < REPLICA_STATE_SINCE:
        (replica_id,) = reader.fixed(_REPLICA_ID)
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.fixed(_LIMITS)
    session_id, session_epoch = (0, -1) if api_version < SESSION_SINCE else reader.fixed(_SESSION)
    partitions = _read_partitions(reader, api_version)
    forgotten = _read_forgotten(reader, api_version) if api_version >= SESSION_SINCE else []
    rack_id = reader.string(is_flexible=is_flexible) if api_version >= RACK_SINCE else ""
    if is_flexible:
        if api_version >= REPLICA_STATE_SINCE and reader.buffer[reader.position] != 0:
            replica_id, broker_epoch = _read_replica_state(reader)
        else:
            reader.skip_tagged_fields()
    reader.finish()
    return FetchRequest(
        replica_id,
        broker_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id,
    )


def _read_topic(reader: Reader, api_version: int) -> Topic:
    if api_version >= TOPIC_ID_SINCE:
        return bytes(reader.take(TOPIC_ID_BYTES))
    return reader.string(is_flexible=api_version >= FLEXIBLE_SINCE)


def _topic_bytes_min(api_version: int) -> int:
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
        is_flexible=is_flexible, element_bytes_min=_topic_bytes_min(api_version)
    )
    for _ in range(topics):
        topic = _read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=bytes_min)
        for _ in range(count):
            fields = reader.fixed(layout)
            if is_flexible:
                partitions.append(FetchPartition._make((topic, *fields, _read_mark(reader))))
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


def _read_mark(reader: Reader) -> LogMark | None:
    """Of a partition's tags. v17's own one, the replica's directory id, we have no use for."""
    if reader.buffer[reader.position] == 0:  # nearly always
        reader.position += 1
        return None
    mark: LogMark | None = None

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal mark
        if tag != _MARK_TAG:
            return False
        first_offset, partition_epoch = content.fixed(_MARK)
        crcs = content.fixed(struct.Struct(f">{content.remaining // 4}I"))
        mark = LogMark(first_offset, partition_epoch, crcs)
        return True

    reader.tagged_fields(on_tag)
    return mark


def _read_forgotten(reader: Reader, api_version: int) -> list[tuple[Topic, int]]:
    is_flexible = api_version >= FLEXIBLE_SINCE
    forgotten: list[tuple[Topic, int]] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=_topic_bytes_min(api_version)
    )
    for _ in range(topics):
        topic = _read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=4)
        forgotten += [(topic, reader.int32()) for _ in range(count)]
        if is_flexible:
            reader.skip_tagged_fields()
    return forgotten


def _read_replica_state(reader: Reader) -> tuple[int, int]:
    """(replica id, broker epoch) from the section that ends a request."""
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


def encode_fetch_response(
    api_version: int,
    partitions: Sequence[FetchedPartition],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Chunk]:
    """The response body as chunks; the record chunks are those of `partitions`, untouched.

    Partitions of one topic that follow one another share a topic entry, as in Kafka. Aborted transactions
    are null: there are no transactions. A hint (diverging epoch, current leader) that the version lacks is
    left out.
    """
    is_flexible = api_version >= FLEXIBLE_SINCE
    chunks: list[Chunk] = []
    if api_version >= SESSION_SINCE:
        out = bytearray(_ANSWER_HEAD_V7.pack(throttle_time_ms, error_code, session_id))
    else:
        out = bytearray(_ANSWER_HEAD_V4.pack(throttle_time_ms))
    write_count(out, _count_topics(partitions), is_flexible=is_flexible)
    start = 0
    while start < len(partitions):
        topic = partitions[start].topic
        end = start + 1
        while end < len(partitions) and partitions[end].topic == topic:
            end += 1
        _write_topic(out, topic, api_version)
        write_count(out, end - start, is_flexible=is_flexible)
        for index in range(start, end):
            out = _write_partition(chunks, out, partitions[index], api_version)
        if is_flexible:
            out.append(0)
        start = end
    if is_flexible:
        out += encode_endpoints_section(node_endpoints if api_version >= NODE_ENDPOINTS_SINCE else ())
    if out:
        chunks.append(bytes(out))
    return chunks


def _count_topics(partitions: Sequence[FetchedPartition]) -> int:
    count = 0
    last: Topic | None = None
    for partition in partitions:
        if partition.topic != last:
            last = partition.topic
            count += 1
    return count


def _write_topic(out: bytearray, topic: Topic, api_version: int) -> None:
    if isinstance(topic, str):
        assert api_version < TOPIC_ID_SINCE, "from v13 on topics go by id"
        write_string(out, topic, is_flexible=api_version >= FLEXIBLE_SINCE)
    else:
        assert api_version >= TOPIC_ID_SINCE, "before v13 topics go by name"
        assert len(topic) == TOPIC_ID_BYTES
        out += topic


def _write_partition(
    chunks: list[Chunk], out: bytearray, data: FetchedPartition, api_version: int
) -> bytearray:
    """Append one partition; the bytearray to go on with, a new one after record chunks."""
    partition, error_code = data.partition, data.error_code
    high_watermark, stable, log_start = data.high_watermark, data.last_stable_offset, data.log_start_offset
    records_bytes = sum(map(len, data.records))
    if api_version >= FLEXIBLE_SINCE:
        replica = data.preferred_read_replica
        out += _ANSWER_V12.pack(partition, error_code, high_watermark, stable, log_start, 0, replica)
        write_uvarint(out, records_bytes + 1)
    else:
        if api_version >= RACK_SINCE:
            replica = data.preferred_read_replica
            out += _ANSWER_V11.pack(partition, error_code, high_watermark, stable, log_start, -1, replica)
        elif api_version >= LOG_START_OFFSET_SINCE:
            out += _ANSWER_V5.pack(partition, error_code, high_watermark, stable, log_start, -1)
        else:
            out += _ANSWER_V4.pack(partition, error_code, high_watermark, stable, -1)
        out += _INT32.pack(records_bytes)
    if records_bytes:
        chunks.append(bytes(out))
        chunks += data.records
        out = bytearray()
    if api_version >= FLEXIBLE_SINCE:
        _write_partition_tags(out, data)
    return out


def _write_partition_tags(out: bytearray, data: FetchedPartition) -> None:
    diverging, leader = data.diverging_epoch, data.current_leader
    if diverging is None and leader is None:
        out.append(0)
        return
    out.append((diverging is not None) + (leader is not None))
    if diverging is not None:
        out += bytes((_DIVERGING_EPOCH_TAG, _EPOCH_END.size + 1))
        out += _EPOCH_END.pack(diverging.leader_epoch, diverging.end_offset)
        out.append(0)
    if leader is not None:
        out += encode_leader_tag(leader, tag=_CURRENT_LEADER_TAG)


# --- the follower's end
# ------------------------------------------------------------------------------------------


def encode_fetch_request(request: FetchRequest) -> bytes:
    """The body of a request in HIGHEST_FETCH_VERSION. Topics are ids; neighbours of one topic share an
    entry."""
    out = bytearray(
        _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    )
    out += _SESSION.pack(request.session_id, request.session_epoch)
    body = bytearray()
    topics = 0
    partitions = request.partitions
    start = 0
    while start < len(partitions):
        topic = partitions[start].topic
        end = start + 1
        while end < len(partitions) and partitions[end].topic == topic:
            end += 1
        _write_topic(body, topic, HIGHEST_FETCH_VERSION)
        write_uvarint(body, end - start + 1)
        for index in range(start, end):
            *fields, mark = partitions[index][1:]
            body += _PARTITION_V12_NO_TAGS.pack(*fields, mark is not None)
            if mark is not None:
                write_uvarint(body, _MARK_TAG)
                write_uvarint(body, _MARK.size + 4 * len(mark.crcs))
                body += _MARK.pack(mark.first_offset, mark.partition_epoch)
                body += struct.pack(f">{len(mark.crcs)}I", *mark.crcs)
        body.append(0)
        topics += 1
        start = end
    write_uvarint(out, topics + 1)
    out += body
    _write_forgotten(out, request.forgotten)
    write_string(out, request.rack_id, is_flexible=True)
    if request.replica_id == CONSUMER_ID:
        out.append(0)
    else:
        out += _REPLICA_STATE_ALONE.pack(*_REPLICA_STATE_FRAME, request.replica_id, request.broker_epoch, 0)
    return bytes(out)


def _write_forgotten(out: bytearray, forgotten: Sequence[tuple[Topic, int]]) -> None:
    by_topic: dict[Topic, list[int]] = {}
    for topic, partition in forgotten:
        by_topic.setdefault(topic, []).append(partition)
    write_uvarint(out, len(by_topic) + 1)
    for topic, indexes in by_topic.items():
        _write_topic(out, topic, HIGHEST_FETCH_VERSION)
        out += uvarint_bytes(len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)


def decode_fetch_response(frame: Buffer, position: int) -> FetchResponse:
    """An answer in HIGHEST_FETCH_VERSION, records as views of `frame`. Raises MalformedRequest, nothing
    else."""
    try:
        return _read_response(Reader(frame, position, elements_max=RESPONSE_ELEMENTS_MAX))
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Fetch answer: {error}") from error


def _read_response(reader: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = reader.fixed(_ANSWER_HEAD_V7)
    partitions: list[FetchedPartition] = []
    topics = reader.present_array_count(is_flexible=True, element_bytes_min=TOPIC_ID_BYTES + 2)
    for _ in range(topics):
        topic = bytes(reader.take(TOPIC_ID_BYTES))
        count = reader.present_array_count(is_flexible=True, element_bytes_min=_ANSWER_V12.size + 2)
        for _ in range(count):
            partitions.append(_read_fetched(reader, topic))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()  # node endpoints: the controller tells us where leaders are
    reader.finish()
    return FetchResponse(throttle_time_ms, error_code, session_id, partitions)


def _read_fetched(reader: Reader, topic: bytes) -> FetchedPartition:
    partition, error_code, high_watermark, stable, log_start = reader.fixed(_ANSWER_FIXED)
    aborted = reader.array_count(is_flexible=True, element_bytes_min=_ABORTED_BYTES_MIN)
    for _ in range(aborted):
        reader.take(_ABORTED_BYTES_MIN - 1)
        reader.skip_tagged_fields()
    (preferred_read_replica,) = reader.fixed(_INT32)
    records = reader.nullable_view(is_flexible=True)
    diverging_epoch: EpochEnd | None = None
    current_leader: CurrentLeader | None = None
    if reader.buffer[reader.position] == 0:
        reader.position += 1
    else:

        def on_tag(tag: int, content: Reader) -> bool:
            nonlocal diverging_epoch, current_leader
            if tag == _DIVERGING_EPOCH_TAG:
                diverging_epoch = EpochEnd(*content.fixed(_EPOCH_END))
            elif tag == _CURRENT_LEADER_TAG:
                current_leader = CurrentLeader(*content.fixed(_LEADER))
            else:
                return False
            content.skip_tagged_fields()
            return True

        reader.tagged_fields(on_tag)
    return FetchedPartition(
        topic,
        partition,
        error_code,
        high_watermark,
        stable,
        log_start,
        (records,) if records else (),
        preferred_read_replica,
        diverging_epoch,
        current_leader,
    )
