"""Fetch answers: a leader writes them, followers and clients read them.

An answer is written as a list of chunks: the fields between record sets are packed into bytes, the record
sets stay what they are, views of the log's tail or ranges of a file. It is read into views of the received
frame. Versions 4-17 are written and read.

Written by hand because the general codec (codec.py) takes three to four times as long and copies the
records. While records flow, each answer to a follower carries one partition without an error: that one is
written with one pack and read with one unpack. Tests hold all of it against the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from .apis import REPLICA_FETCH_VERSION, ApiKey
from .compression import Buffer
from .errors import ErrorCode, error_code
from .fetch_request import (
    FLEXIBLE_SINCE,
    LOG_START_OFFSET_SINCE,
    RACK_SINCE,
    SESSION_SINCE,
    TOPIC_ID_BYTES,
    Topic,
    read_topic,
    topic_bytes_min,
    write_topic,
)
from .framing import Chunk
from .headers import decode_response_header
from .leader_hints import CurrentLeader, NodeEndpoint, encode_endpoints_section, encode_leader_tag
from .primitives import (
    MALFORMED_CAUSES,
    RESPONSE_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    topic_runs,
    uvarint_bytes,
    write_count,
    write_uvarint,
)

NODE_ENDPOINTS_SINCE = 16

_DIVERGING_EPOCH_TAG = 0
_CURRENT_LEADER_TAG = 1
_COMPACTED_TAG = 10_000  # carries a rule, too, and every release knows it
_APPLIED_ROUND_TAG = 10_001
_PRODUCERS_TAG = 10_002
RULE_TAGS = range(10_100, 10_200)
"""Our own tags of later releases that carry a rule for the reader of the records: one that does not know it
must not go on as if it were not there, as it may with any other tag. A leader writes one only at a level that
has it (springtide/levels.py)."""

_INT32 = struct.Struct(">i")
_HEAD_V7 = struct.Struct(">ihi")
_FIELDS_V4 = struct.Struct(">ihqq")
_FIELDS_V5 = struct.Struct(">ihqqq")
_ANSWER_V4 = struct.Struct(">ihqqi")  # the last: aborted transactions, -1 is null
_ANSWER_V5 = struct.Struct(">ihqqqi")
_ANSWER_V11 = struct.Struct(">ihqqqii")
_ANSWER_V12 = struct.Struct(">ihqqqbi")  # null is one byte, 0
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")
_COMPACTED = struct.Struct(">qq")
_APPLIED_ROUND = struct.Struct(">qqq")

# The usual answer's frame. Correlation id, tags; throttle, error, session; topics, topic id, partitions; the
# partition up to its records.
_USUAL = struct.Struct(f">iB ihi B{TOPIC_ID_BYTES}sB ihqqqBi")
_USUAL_TAIL = bytes(3)  # the partition's, the topic's, the answer's tags
_ONE = 2  # a compact array's count plus one
_NULL = 0
_VARINT_BYTES_MAX = 4
"""Lengths of five bytes are left to the general reader, which checks that they do not exceed 32 bits."""
_NO_RECORDS = memoryview(b"")


class UnknownRule(MalformedRequest):
    """An answer has a rule of a later release."""


class EpochEnd(NamedTuple):
    """An epoch and where it ends: where the leader's history stops agreeing with the follower's (KIP-595's
    diverging epoch), or the answer to OffsetForLeaderEpoch (KIP-101)."""

    leader_epoch: int
    end_offset: int


class Compacted(NamedTuple):
    """Our own tag for followers, and for readers below `tombstone_floor`: what is gone from a leader's
    compacted log. Tombstones below `tombstone_floor`, and below `end_offset` records whose newer ones may
    stand above a follower's end."""

    tombstone_floor: int
    end_offset: int


class AppliedRound(NamedTuple):
    """Our own tag for debugging consumers, who read one replica: the last round of compaction that it has
    applied as a whole, by the offset of the round's record; -1 before the first. Below `end_offset` records
    may be gone, below `tombstone_floor` tombstones too. Replicas that tell the same `offset` and `end_offset`
    hold the same records."""

    offset: int
    end_offset: int
    tombstone_floor: int


class AbortedTransaction(NamedTuple):
    """Records of `producer_id` from `first_offset` up to its next abort marker are not to be read."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """One partition of an answer. `records` are whole batches in order, in as many pieces as they come; in an
    answer of Kafka they may end in the middle of a batch."""

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
    #: Under read_committed: of the transactions whose records are among these, in order of their first
    #: offsets. None: not asked for.
    aborted: tuple[AbortedTransaction, ...] | None = None
    compacted: Compacted | None = None
    applied_round: AppliedRound | None = None
    #: Our own tag for followers that ask: what the leader knows of producers (core/producer_state.py).
    producers: Buffer = b""

    @property
    def error(self) -> ErrorCode:
        return error_code(self.error_code)

    @property
    def view(self) -> memoryview:
        """Return the records of an answer that was received: one view of its frame."""
        if not self.records:
            return _NO_RECORDS
        (view,) = self.records
        assert isinstance(view, memoryview)
        return view


class FetchResponse(NamedTuple):
    """An answer that was received. Each partition's `records` is one view of the frame, or none."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]

    @property
    def error(self) -> ErrorCode:
        return error_code(self.error_code)


def encode_fetch_response(
    api_version: int,
    partitions: Sequence[FetchedPartition],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Chunk]:
    """Return the body as chunks; the record chunks are those of `partitions`, untouched.

    Partitions of one topic that follow one another share a topic entry, as in Kafka. A hint (diverging
    epoch, current leader) that the version lacks is left out.
    """
    is_flexible = api_version >= FLEXIBLE_SINCE
    chunks: list[Chunk] = []
    if api_version >= SESSION_SINCE:
        out = bytearray(_HEAD_V7.pack(throttle_time_ms, error_code, session_id))
    else:
        out = bytearray(_INT32.pack(throttle_time_ms))
    runs = topic_runs(partitions)
    write_count(out, len(runs), is_flexible=is_flexible)
    for run in runs:
        write_topic(out, run[0].topic, api_version)
        write_count(out, len(run), is_flexible=is_flexible)
        for partition in run:
            out = _write_partition(chunks, out, partition, api_version)
        if is_flexible:
            out.append(0)
    if is_flexible:
        out += encode_endpoints_section(node_endpoints if api_version >= NODE_ENDPOINTS_SINCE else ())
    if out:
        chunks.append(bytes(out))
    return chunks


def _write_partition(
    chunks: list[Chunk], out: bytearray, data: FetchedPartition, api_version: int
) -> bytearray:
    """Append one partition; return the bytearray to continue with, a new one after record chunks."""
    partition, error_code = data.partition, data.error_code
    high_watermark, stable, log_start = data.high_watermark, data.last_stable_offset, data.log_start_offset
    records_bytes = sum(map(len, data.records))
    if data.aborted is not None:
        _write_answer_with_aborted(out, data, data.aborted, api_version)
        if api_version >= FLEXIBLE_SINCE:
            write_uvarint(out, records_bytes + 1)
        else:
            out += _INT32.pack(records_bytes)
    elif api_version >= FLEXIBLE_SINCE:
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


def _write_answer_with_aborted(
    out: bytearray, data: FetchedPartition, aborted: Sequence[AbortedTransaction], api_version: int
) -> None:
    """Append the fields of a partition up to its records, with an array of aborted transactions."""
    is_flexible = api_version >= FLEXIBLE_SINCE
    stable = data.last_stable_offset
    if api_version >= LOG_START_OFFSET_SINCE:
        out += _FIELDS_V5.pack(
            data.partition, data.error_code, data.high_watermark, stable, data.log_start_offset
        )
    else:
        out += _FIELDS_V4.pack(data.partition, data.error_code, data.high_watermark, stable)
    write_count(out, len(aborted), is_flexible=is_flexible)
    for one in aborted:
        out += _ABORTED.pack(*one)
        if is_flexible:
            out.append(0)
    if api_version >= RACK_SINCE:
        out += _INT32.pack(data.preferred_read_replica)


def _write_partition_tags(out: bytearray, data: FetchedPartition) -> None:
    diverging, leader, compacted = data.diverging_epoch, data.current_leader, data.compacted
    applied = data.applied_round
    tags = sum(tag is not None for tag in (diverging, leader, compacted, applied))
    out.append(tags + bool(data.producers))
    if diverging is not None:
        out += bytes((_DIVERGING_EPOCH_TAG, _EPOCH_END.size + 1))
        out += _EPOCH_END.pack(diverging.leader_epoch, diverging.end_offset)
        out.append(0)
    if leader is not None:
        out += encode_leader_tag(leader, tag=_CURRENT_LEADER_TAG)
    if compacted is not None:
        write_uvarint(out, _COMPACTED_TAG)
        out.append(_COMPACTED.size + 1)
        out += _COMPACTED.pack(*compacted)
        out.append(0)
    if applied is not None:
        write_uvarint(out, _APPLIED_ROUND_TAG)
        out.append(_APPLIED_ROUND.size + 1)
        out += _APPLIED_ROUND.pack(*applied)
        out.append(0)
    if data.producers:
        write_uvarint(out, _PRODUCERS_TAG)
        write_uvarint(out, len(data.producers))
        out += data.producers


def encode_fetch_frame(
    *,
    correlation_id: int,
    session_id: int,
    topic_id: bytes,
    partition: int,
    offsets: tuple[int, int, int],
    records: Sequence[Chunk],
    records_bytes: int,
) -> list[Chunk]:
    """Return a whole answer about one partition without an error, for versions that name topics by id, whose
    reader has not asked which transactions were aborted. offsets: the high watermark, the last stable offset,
    the log's start."""
    length = uvarint_bytes(records_bytes + 1)
    head = (
        _INT32.pack(_USUAL.size + len(length) + records_bytes + len(_USUAL_TAIL))
        + _USUAL.pack(
            correlation_id,
            0,
            0,
            0,
            session_id,
            _ONE,
            topic_id,
            _ONE,
            partition,
            0,
            *offsets,
            _NULL,
            -1,
        )
        + length
    )
    return [head, *records, _USUAL_TAIL] if records_bytes else [head + _USUAL_TAIL]


def decode_fetch_response(api_version: int, frame: Buffer, position: int) -> FetchResponse:
    """Return the answer whose body is `frame` from `position` on, records as views of `frame`. Raise
    MalformedRequest, nothing else."""
    try:
        return read_fetch_response(Reader(frame, position, elements_max=RESPONSE_ELEMENTS_MAX), api_version)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Fetch answer: {error}") from error


def read_fetch_response(reader: Reader, api_version: int) -> FetchResponse:
    """Return an answer of any shape. Raise one of MALFORMED_CAUSES or MalformedRequest."""
    is_flexible = api_version >= FLEXIBLE_SINCE
    if api_version >= SESSION_SINCE:
        throttle_time_ms, error_code, session_id = reader.fixed(_HEAD_V7)
    else:
        throttle_time_ms, error_code, session_id = reader.int32(), 0, 0
    bytes_min = _ANSWER_V12.size + 2 if is_flexible else _ANSWER_V4.size + _INT32.size
    partitions: list[FetchedPartition] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=topic_bytes_min(api_version)
    )
    for _ in range(topics):
        topic = read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=bytes_min)
        for _ in range(count):
            partitions.append(_read_partition(reader, topic, api_version))
        if is_flexible:
            reader.skip_tagged_fields()
    if is_flexible:
        reader.skip_tagged_fields()  # node endpoints: followers and clients learn addresses elsewhere
    reader.finish()
    return FetchResponse(throttle_time_ms, error_code, session_id, partitions)


def _read_partition(reader: Reader, topic: Topic, api_version: int) -> FetchedPartition:
    is_flexible = api_version >= FLEXIBLE_SINCE
    log_start = -1
    if api_version >= LOG_START_OFFSET_SINCE:
        partition, error_code, high_watermark, stable, log_start = reader.fixed(_FIELDS_V5)
    else:
        partition, error_code, high_watermark, stable = reader.fixed(_FIELDS_V4)
    aborted: tuple[AbortedTransaction, ...] | None = None
    count = reader.array_count(is_flexible=is_flexible, element_bytes_min=_ABORTED.size + is_flexible)
    if count >= 0:
        aborted = tuple(_read_aborted(reader, is_flexible=is_flexible) for _ in range(count))
    preferred_read_replica = reader.int32() if api_version >= RACK_SINCE else -1
    records = reader.nullable_view(is_flexible=is_flexible)
    diverging_epoch: EpochEnd | None = None
    current_leader: CurrentLeader | None = None
    compacted: Compacted | None = None
    applied_round: AppliedRound | None = None
    producers: Buffer = b""
    if is_flexible:
        if reader.buffer[reader.position] == 0:
            reader.position += 1
        else:
            tags = _read_partition_tags(reader)
            diverging_epoch, current_leader, compacted, applied_round, producers = tags
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
        aborted,
        compacted,
        applied_round,
        producers,
    )


def _read_aborted(reader: Reader, *, is_flexible: bool) -> AbortedTransaction:
    aborted = AbortedTransaction._make(reader.fixed(_ABORTED))
    if is_flexible:
        reader.skip_tagged_fields()
    return aborted


def _read_partition_tags(
    reader: Reader,
) -> tuple[EpochEnd | None, CurrentLeader | None, Compacted | None, AppliedRound | None, Buffer]:
    diverging_epoch: EpochEnd | None = None
    current_leader: CurrentLeader | None = None
    compacted: Compacted | None = None
    applied_round: AppliedRound | None = None
    producers: Buffer = b""

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal diverging_epoch, current_leader, compacted, applied_round, producers
        if tag == _DIVERGING_EPOCH_TAG:
            diverging_epoch = EpochEnd(*content.fixed(_EPOCH_END))
        elif tag == _CURRENT_LEADER_TAG:
            current_leader = CurrentLeader(*content.fixed(_LEADER))
        elif tag == _COMPACTED_TAG:
            compacted = Compacted(*content.fixed(_COMPACTED))
        elif tag == _APPLIED_ROUND_TAG:
            applied_round = AppliedRound(*content.fixed(_APPLIED_ROUND))
        elif tag == _PRODUCERS_TAG:
            producers = content.take(content.remaining)
            return True
        elif tag in RULE_TAGS:
            raise UnknownRule(
                f"its answer has a rule of a later release (tag {tag}), unknown to this one: upgrade "
                "this process"
            )
        else:
            return False
        content.skip_tagged_fields()
        return True

    reader.tagged_fields(on_tag)
    return diverging_epoch, current_leader, compacted, applied_round, producers


def decode_fetch_frame(
    frame: memoryview, api_version: int = REPLICA_FETCH_VERSION
) -> tuple[int, FetchResponse]:
    """Return (correlation id, answer) of a whole frame in one of REPLICA_FETCH_VERSIONS, records as views of
    it. Raise MalformedRequest, nothing else."""
    usual = _read_usual(frame)
    if usual is not None:
        return usual
    correlation_id, position = decode_response_header(frame, api_key=ApiKey.FETCH, api_version=api_version)
    return correlation_id, decode_fetch_response(api_version, frame, position)


def _read_usual(frame: memoryview) -> tuple[int, FetchResponse] | None:
    """Return an answer about one partition without any tag; None for any other shape, good or bad."""
    position = _USUAL.size
    size = len(frame)
    if size < position + 1 + len(_USUAL_TAIL):
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
        partition_error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
    ) = _USUAL.unpack_from(frame)
    if header_tags or topics != _ONE or partitions != _ONE or aborted != _NULL:
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
    if length == _NULL or end + len(_USUAL_TAIL) != size or frame[end:] != _USUAL_TAIL:
        return None
    return correlation_id, FetchResponse(
        throttle_time_ms,
        error_code,
        session_id,
        [
            FetchedPartition(
                topic_id,
                partition,
                partition_error,
                high_watermark,
                last_stable_offset,
                log_start_offset,
                (frame[position:end],) if end > position else (),
                preferred_read_replica,
            )
        ],
    )
