"""Produce requests and Fetch answers, by hand: the two messages whose bytes are mostly record batches.

The general codec would copy the batches; here a request is a list of pieces around the caller's own bytes,
and an answer is read into views of the received frame. Versions are those of messages.SPOKEN, and tests hold
both against the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.client.errors import MalformedAnswer
from pipeline.client.values import AbortedTransaction, TopicPartition
from springtide.wire.compression import Buffer
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.primitives import (
    MALFORMED_CAUSES,
    RESPONSE_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    write_count,
    write_string,
    write_uvarint,
)

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_LIMITS = struct.Struct(">iiiibii")
_PARTITION = struct.Struct(">iiqiqi")
_ANSWER_HEAD = struct.Struct(">ihi")
_ANSWER_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_TOPIC_BYTES_MIN = 3
CONSUMER_ID = -1
DEBUGGING_CONSUMER_ID = -2
"""A fetch with this replica id is answered by any replica, in sync or not, with what that replica holds
(Kafka's ReplicaVerificationTool); never beyond the high watermark that the replica knows."""
_NO_SESSION = (0, -1)


class WantedRecords(NamedTuple):
    """One partition of a fetch. `leader_epoch` -1: any epoch of the leader."""

    where: TopicPartition
    offset: int
    bytes_max: int
    leader_epoch: int = -1


class FetchedPartition(NamedTuple):
    """One partition of an answer; `records` may end in the middle of a batch, as Kafka may answer."""

    where: TopicPartition
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    preferred_read_replica: int
    records: memoryview


class FetchAnswer(NamedTuple):
    throttle_time_ms: int
    error: ErrorCode
    partitions: list[FetchedPartition]


def encode_produce(batches: Mapping[TopicPartition, Buffer], *, acks: int, timeout_ms: int) -> list[Buffer]:
    """Return the body of a Produce request (v9) in pieces; the caller's batches are not copied."""
    by_topic: dict[str, list[tuple[int, Buffer]]] = {}
    for where, records in batches.items():
        by_topic.setdefault(where.topic, []).append((where.partition, records))
    pieces: list[Buffer] = []
    out = bytearray(b"\x00")  # no transactional id
    out += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    write_count(out, len(by_topic), is_flexible=True)
    for topic, partitions in by_topic.items():
        write_string(out, topic, is_flexible=True)
        write_count(out, len(partitions), is_flexible=True)
        for partition, records in partitions:
            out += _INT32.pack(partition)
            write_uvarint(out, memoryview(records).nbytes + 1)
            pieces += (bytes(out), records)
            out = bytearray(b"\x00")  # the partition's tags
        out.append(0)
    out.append(0)
    pieces.append(bytes(out))
    return pieces


def encode_fetch(
    wanted: Sequence[WantedRecords],
    *,
    max_wait_ms: int,
    max_bytes: int,
    isolation_level: int,
    rack: str = "",
    min_bytes: int = 1,
    replica_id: int = CONSUMER_ID,
) -> bytes:
    """Return the body of a Fetch request (v12) without a session. Neighbours of one topic share an entry."""
    runs: list[list[WantedRecords]] = []
    for one in wanted:
        if runs and runs[-1][0].where.topic == one.where.topic:
            runs[-1].append(one)
        else:
            runs.append([one])
    out = bytearray(
        _LIMITS.pack(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, *_NO_SESSION)
    )
    write_count(out, len(runs), is_flexible=True)
    for run in runs:
        write_string(out, run[0].where.topic, is_flexible=True)
        write_count(out, len(run), is_flexible=True)
        for one in run:
            out += _PARTITION.pack(one.where.partition, one.leader_epoch, one.offset, -1, -1, one.bytes_max)
            out.append(0)
        out.append(0)
    write_count(out, 0, is_flexible=True)  # nothing forgotten
    write_string(out, rack, is_flexible=True)
    out.append(0)
    return bytes(out)


def decode_fetch(frame: Buffer, position: int) -> FetchAnswer:
    """Return the answer to `encode_fetch`, records as views of `frame`. Raises MalformedAnswer, nothing
    else."""
    try:
        return _read_answer(Reader(frame, position, elements_max=RESPONSE_ELEMENTS_MAX))
    except (*MALFORMED_CAUSES, MalformedRequest) as error:
        raise MalformedAnswer(f"FETCH: {error}") from error


def _read_answer(reader: Reader) -> FetchAnswer:
    throttle_time_ms, error, _session_id = reader.fixed(_ANSWER_HEAD)
    partitions: list[FetchedPartition] = []
    topics = reader.present_array_count(is_flexible=True, element_bytes_min=_TOPIC_BYTES_MIN)
    for _ in range(topics):
        topic = reader.string(is_flexible=True)
        count = reader.present_array_count(is_flexible=True, element_bytes_min=_ANSWER_PARTITION.size + 7)
        partitions += [_read_partition(reader, topic) for _ in range(count)]
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    reader.finish()
    return FetchAnswer(throttle_time_ms, error_code(error), partitions)


def _read_partition(reader: Reader, topic: str) -> FetchedPartition:
    partition, error, high_watermark, last_stable_offset, log_start_offset = reader.fixed(_ANSWER_PARTITION)
    aborted: list[AbortedTransaction] = []
    count = reader.array_count(is_flexible=True, element_bytes_min=_ABORTED.size + 1)
    for _ in range(count):
        aborted.append(AbortedTransaction(*reader.fixed(_ABORTED)))
        reader.skip_tagged_fields()
    preferred_read_replica = reader.int32()
    records = reader.nullable_view(is_flexible=True)
    reader.skip_tagged_fields()  # divergence is not asked about, and leaders come from Metadata
    return FetchedPartition(
        TopicPartition(topic, partition),
        error_code(error),
        high_watermark,
        last_stable_offset,
        log_start_offset,
        tuple(aborted),
        preferred_read_replica,
        memoryview(b"") if records is None else records,
    )
