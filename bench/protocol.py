"""The few requests that the raw loads speak: Metadata v1, ListOffsets v1, Produce v7, Fetch v11, and groups'.

Every version is one that Kafka 3.3 to 4.x and Springtide both serve and that stock clients speak. Requests
are encoded before the clock runs; of the answers, the one to Produce has always the same length and is
checked against its form, and the one to Fetch is walked batch by batch, never record by record.

Answers come from the server under test, which may be broken: an answer that does not fit raises BadAnswer.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.compression import Buffer, Compression
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import decode_fetch_response
from springtide.wire.framing import encode_request_frame
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.primitives import MalformedRequest
from springtide.wire.produce import encode_produce_request, produce_answer_form
from springtide.wire.record_batch import HEADER_BYTES, LENGTH_FIELD_END
from springtide.wire.records import NewRecord, encode_batch

CLIENT_ID = "bench"
VERSIONS = {
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.METADATA: 1,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 7,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.OFFSET_COMMIT: 8,
}
EARLIEST, LATEST = -2, -1
PRODUCE_TIMEOUT_MS = 30_000
FETCH_MAX_BYTES = 50 * 1024 * 1024
FETCH_WAIT_MS = 500
FETCH_PARTITION_BYTES = 1024 * 1024
"""Clients' defaults (fetch.max.bytes, fetch.max.wait.ms, max.partition.fetch.bytes)."""

_BATCH_HEAD = struct.Struct(">qi")
_BATCH_COUNTS = struct.Struct(">i30xi")
"""Of a batch from its last_offset_delta on: that, and the record count."""
_LAST_OFFSET_DELTA_AT = 23


class BadAnswer(Exception):
    """The server answered with an error code, or with bytes that are no answer."""


class Leader(NamedTuple):
    """Where a partition's leader listens."""

    partition: int
    host: str
    port: int


def _frame(api: ApiKey, correlation_id: int, body: Buffer) -> bytes:
    head = encode_request_header(
        api_key=api, api_version=VERSIONS[api], correlation_id=correlation_id, client_id=CLIENT_ID
    )
    return encode_request_frame(head, body)


def encode_question(api: ApiKey, fields: Mapping[str, object]) -> bytes:
    """A whole request with its size. Answers come in the order of the questions, so each has the number 0."""
    return _frame(api, 0, encode(build(request_type(api, VERSIONS[api]), fields)))


def decode_answer(api: ApiKey, frame: memoryview) -> Any:
    """The message in a frame without its size. Raises BadAnswer."""
    try:
        return decode(response_type(api, VERSIONS[api]), frame, _body_position(api, frame))
    except MalformedRequest as error:
        raise BadAnswer(f"no {api.name} answer: {error!r}") from error


def _body_position(api: ApiKey, frame: memoryview) -> int:
    return decode_response_header(frame, api_key=api, api_version=VERSIONS[api])[1]


def encode_metadata(topic: str) -> bytes:
    return encode_question(ApiKey.METADATA, {"topics": [{"name": topic}]})


def decode_leaders(answer: memoryview) -> list[Leader]:
    """The leaders of the one topic asked about, by partition. `answer` is a frame without its size."""
    message = decode_answer(ApiKey.METADATA, answer)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in message.brokers}
    leaders: list[Leader] = []
    for topic in message.topics:
        _require_none(topic.error_code, "Metadata")
        for one in topic.partitions:
            _require_none(one.error_code, "Metadata of a partition")
            if one.leader_id not in brokers:
                raise BadAnswer(f"Metadata names no leader of partition {one.partition_index}")
            leaders.append(Leader(one.partition_index, *brokers[one.leader_id]))
    return sorted(leaders)


def decode_isr_sizes(answer: memoryview) -> list[int]:
    """The sizes of the in-sync sets of the one topic asked about; 0 for a partition without a leader."""
    (topic,) = decode_answer(ApiKey.METADATA, answer).topics
    return [0 if one.error_code else len(one.isr_nodes) for one in topic.partitions]


def encode_list_offsets(topic: str, partitions: Sequence[int], timestamp: int) -> bytes:
    asked = [{"partition_index": partition, "timestamp": timestamp} for partition in partitions]
    return encode_question(
        ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}
    )


def check_listed(answer: memoryview) -> None:
    """Raises BadAnswer if the broker does not serve one of the partitions that were asked about."""
    for topic in decode_answer(ApiKey.LIST_OFFSETS, answer).topics:
        for one in topic.partitions:
            _require_none(one.error_code, "ListOffsets")


def decode_listed_offset(answer: memoryview) -> int:
    """The offset of the one partition asked about."""
    try:
        ((one,),) = (topic.partitions for topic in decode_answer(ApiKey.LIST_OFFSETS, answer).topics)
    except ValueError as error:
        raise BadAnswer("an answer to ListOffsets that is not about what was asked") from error
    _require_none(one.error_code, "ListOffsets")
    return int(one.offset)


def encode_produced_batch(
    *,
    batch_records: int,
    record_bytes: int,
    timestamp_ms: int,
    compression: Compression = Compression.NONE,
) -> bytes:
    """A batch of records of that many bytes, each different, as a producer sends it. Half of what is
    compressed is noise: a pattern alone would shrink to nothing."""
    assert batch_records > 0
    pattern = bytes(range(32, 127)) * (record_bytes // 95 + 2)
    noise_bytes = 0 if compression is Compression.NONE else record_bytes // 2
    rng = random.Random(1)
    return encode_batch(
        (
            NewRecord(
                value=rng.randbytes(noise_bytes) + pattern[index % 95 :][: record_bytes - noise_bytes],
                timestamp=timestamp_ms,
            )
            for index in range(batch_records)
        ),
        compression=compression,
    )


def encode_produce(*, topic: str, partition: int, acks: int, batch: bytes, correlation_id: int) -> bytes:
    pieces = encode_produce_request(
        VERSIONS[ApiKey.PRODUCE], [((topic, partition), batch)], acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS
    )
    return _frame(ApiKey.PRODUCE, correlation_id, b"".join(pieces))


class ProduceAnswers:
    """Checks answers to Produce for one partition: all have the same length and differ in three places."""

    __slots__ = ("_form", "_partition", "size")

    def __init__(self, *, topic: str, partition: int) -> None:
        self._form = produce_answer_form(VERSIONS[ApiKey.PRODUCE], topic)
        self._partition = partition
        self.size = self._form.layout.size
        """Bytes of an answer, its size field included."""

    def check(self, buffer: bytearray | memoryview, position: int, *, correlation_id: int) -> int:
        """The base offset that the answer at `position` gives. Raises BadAnswer."""
        layout, due, due_head, _ = self._form
        size, answered, head, partition, error_code, base_offset, *_ = layout.unpack_from(buffer, position)
        if error_code or answered != correlation_id or size != due:
            self._explain(size, answered, error_code, correlation_id)
        if head != due_head or partition != self._partition:
            raise BadAnswer("an answer to Produce that is not about what was produced")
        return int(base_offset)

    def _explain(self, size: int, answered: int, error_code: int, correlation_id: int) -> None:
        if size != self._form.size:
            raise BadAnswer(f"an answer to Produce of {size} bytes where {self._form.size} are due")
        if answered != correlation_id:
            raise BadAnswer(f"answer {answered} where {correlation_id} is due")
        _require_none(error_code, "Produce")


def encode_fetch(*, topic: str, partition: int, fetch_offset: int, correlation_id: int) -> bytes:
    """Without a session, as librdkafka sends it."""
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_MAX_BYTES,
        partitions=[
            FetchPartition(topic, partition, fetch_offset=fetch_offset, max_bytes=FETCH_PARTITION_BYTES)
        ],
    )
    return _frame(ApiKey.FETCH, correlation_id, encode_fetch_request(VERSIONS[ApiKey.FETCH], request))


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition's answer."""

    high_watermark: int
    log_start_offset: int
    next_offset: int
    """Where to go on."""
    records: int
    bytes: int
    batches: list[tuple[int, int]]
    """Base offset and next offset of each whole batch, in order."""


def decode_fetched(answer: memoryview, *, fetch_offset: int) -> Fetched:
    """The answer to a Fetch of one partition from `fetch_offset`. Raises BadAnswer.

    The batches must follow one another without a gap and the first must hold `fetch_offset`. A last batch
    that is cut off, which the protocol allows, is left out.
    """
    try:
        position = _body_position(ApiKey.FETCH, answer)
        response = decode_fetch_response(VERSIONS[ApiKey.FETCH], answer, position)
    except MalformedRequest as error:
        raise BadAnswer(f"no Fetch answer: {error!r}") from error
    _require_none(response.error_code, "Fetch")
    for one in response.partitions:
        _require_none(one.error_code, "Fetch of a partition")
        return _walk(one.view, one.high_watermark, one.log_start_offset, fetch_offset)
    return Fetched(0, 0, fetch_offset, 0, 0, [])


def _walk(view: memoryview, high_watermark: int, log_start_offset: int, fetch_offset: int) -> Fetched:
    position = count = 0
    next_offset = fetch_offset
    batches: list[tuple[int, int]] = []
    while len(view) - position >= HEADER_BYTES:
        base_offset, length = _BATCH_HEAD.unpack_from(view, position)
        end = position + length + LENGTH_FIELD_END
        if end > len(view):
            break
        last_offset_delta, records = _BATCH_COUNTS.unpack_from(view, position + _LAST_OFFSET_DELTA_AT)
        is_due = base_offset == next_offset or (not batches and base_offset < next_offset)
        if not is_due or end <= position:
            raise BadAnswer(f"a batch at offset {base_offset} where {next_offset} is due")
        next_offset = base_offset + last_offset_delta + 1
        batches.append((base_offset, next_offset))
        count += records
        position = end
    return Fetched(high_watermark, log_start_offset, next_offset, count, position, batches)


def _require_none(error_code: int, what: str) -> None:
    if error_code:
        raise BadAnswer(f"{what} was answered with error code {error_code}")
