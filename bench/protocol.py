"""The few requests that the raw load speaks: Metadata v1, ListOffsets v1, Produce v7, Fetch v11.

Every version is one that Kafka 3.3 to 4.x and Springtide both serve and that stock clients speak. Requests
are encoded before the clock runs; of the answers, the one to Produce has always the same length and is
checked against a layout, and the one to Fetch is walked batch by batch, never record by record.

Answers come from the server under test, which may be broken: whatever does not fit raises BadAnswer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from springtide.wire.primitives import MALFORMED_CAUSES, RESPONSE_ELEMENTS_MAX, MalformedRequest, Reader
from springtide.wire.record_batch import HEADER_BYTES, LENGTH_FIELD_END
from springtide.wire.records import NewRecord, encode_batch

CLIENT_ID = b"bench"
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, METADATA_VERSION = 7, 11, 1, 1
EARLIEST, LATEST = -2, -1
PRODUCE_TIMEOUT_MS = 30_000
FETCH_MAX_BYTES = 50 * 1024 * 1024
FETCH_WAIT_MS = 500
FETCH_PARTITION_BYTES = 1024 * 1024
"""Clients' defaults (fetch.max.bytes, fetch.max.wait.ms, max.partition.fetch.bytes)."""
NO_SESSION_EPOCH = -1
"""A Fetch that neither has nor wants a session, as librdkafka sends it."""

_FRAME_HEAD = struct.Struct(">ihhih")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
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


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _frame(api_key: int, api_version: int, correlation_id: int, body: bytes) -> bytes:
    size = _FRAME_HEAD.size - _INT32.size + len(CLIENT_ID) + len(body)
    head = _FRAME_HEAD.pack(size, api_key, api_version, correlation_id, len(CLIENT_ID))
    return head + CLIENT_ID + body


def encode_metadata(topic: str) -> bytes:
    return _frame(METADATA, METADATA_VERSION, 0, _INT32.pack(1) + _string(topic))


def decode_leaders(answer: memoryview) -> list[Leader]:
    """The leaders of the one topic asked about, by partition. `answer` is a frame without its size."""
    reader = _open(answer)
    try:
        brokers: dict[int, tuple[str, int]] = {}
        for _ in range(reader.int32()):
            broker_id = reader.int32()
            brokers[broker_id] = (reader.string(is_flexible=False), reader.int32())
            reader.nullable_string(is_flexible=False)
        reader.int32()
        leaders: list[Leader] = []
        for _ in range(reader.int32()):
            _require_none(reader.int16(), "Metadata")
            reader.string(is_flexible=False)
            reader.int8()
            for _ in range(reader.int32()):
                _require_none(reader.int16(), "Metadata of a partition")
                partition, leader = reader.int32(), reader.int32()
                reader.take(4 * reader.int32())
                reader.take(4 * reader.int32())
                leaders.append(Leader(partition, *brokers[leader]))
    except (*MALFORMED_CAUSES, MalformedRequest, KeyError) as error:
        raise BadAnswer(f"no Metadata answer: {error!r}") from error
    return sorted(leaders)


def encode_list_offsets(topic: str, partition: int, timestamp: int) -> bytes:
    body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">iiq", 1, partition, timestamp)
    return _frame(LIST_OFFSETS, LIST_OFFSETS_VERSION, 0, body)


def decode_listed_offset(answer: memoryview) -> int:
    """The offset of the one partition asked about."""
    reader = _open(answer)
    try:
        reader.int32()
        reader.string(is_flexible=False)
        _, _, error_code, _, log_offset = reader.fixed(struct.Struct(">iihqq"))
    except (*MALFORMED_CAUSES, MalformedRequest) as error:
        raise BadAnswer(f"no ListOffsets answer: {error!r}") from error
    _require_none(error_code, "ListOffsets")
    return log_offset


def encode_produced_batch(*, batch_records: int, record_bytes: int, timestamp_ms: int) -> bytes:
    """A batch of records of that many bytes, each different, as a producer sends it."""
    assert batch_records > 0
    pattern = bytes(range(32, 127)) * (record_bytes // 95 + 2)
    return encode_batch(
        NewRecord(value=pattern[index % 95 :][:record_bytes], timestamp=timestamp_ms)
        for index in range(batch_records)
    )


def encode_produce(*, topic: str, partition: int, acks: int, batch: bytes, correlation_id: int) -> bytes:
    body = (
        struct.pack(">hhii", -1, acks, PRODUCE_TIMEOUT_MS, 1)
        + _string(topic)
        + struct.pack(">iii", 1, partition, len(batch))
        + batch
    )
    return _frame(PRODUCE, PRODUCE_VERSION, correlation_id, body)


class ProduceAnswers:
    """Checks answers to Produce for one partition: all have the same length and differ in three places."""

    __slots__ = ("_layout", "_partition", "_topic", "size")

    def __init__(self, *, topic: str, partition: int) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._layout = struct.Struct(f">iiih{len(self._topic)}siihqqqi")
        self.size = self._layout.size
        """Bytes of an answer, its size field included."""

    def check(self, buffer: bytearray | memoryview, position: int, *, correlation_id: int) -> int:
        """The base offset that the answer at `position` gives. Raises BadAnswer."""
        size, answered, topics, name_bytes, topic, partitions, partition, error_code, base_offset, *_ = (
            self._layout.unpack_from(buffer, position)
        )
        if error_code or answered != correlation_id or size != self.size - _INT32.size:
            self._explain(size, answered, error_code, correlation_id)
        if (topics, name_bytes, topic, partitions, partition) != (
            1,
            len(self._topic),
            self._topic,
            1,
            self._partition,
        ):
            raise BadAnswer("an answer to Produce that is not about what was produced")
        return int(base_offset)

    def _explain(self, size: int, answered: int, error_code: int, correlation_id: int) -> None:
        if size != self.size - _INT32.size:
            raise BadAnswer(f"an answer to Produce of {size} bytes where {self.size - 4} are due")
        if answered != correlation_id:
            raise BadAnswer(f"answer {answered} where {correlation_id} is due")
        _require_none(error_code, "Produce")


def encode_fetch(*, topic: str, partition: int, fetch_offset: int, correlation_id: int) -> bytes:
    body = (
        struct.pack(">iiiibii", -1, FETCH_WAIT_MS, 1, FETCH_MAX_BYTES, 0, 0, NO_SESSION_EPOCH)
        + _INT32.pack(1)
        + _string(topic)
        + struct.pack(">iiiqqi", 1, partition, -1, fetch_offset, -1, FETCH_PARTITION_BYTES)
        + struct.pack(">ih", 0, 0)
    )
    return _frame(FETCH, FETCH_VERSION, correlation_id, body)


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
    reader = _open(answer)
    try:
        _, error_code, _, topics = reader.fixed(struct.Struct(">ihii"))
        _require_none(error_code, "Fetch")
        if topics == 0:
            return Fetched(0, 0, fetch_offset, 0, 0, [])
        reader.string(is_flexible=False)
        _, _, error_code, high_watermark, _, log_start_offset = reader.fixed(struct.Struct(">iihqqq"))
        _require_none(error_code, "Fetch of a partition")
        reader.take(16 * max(0, reader.int32()))
        reader.int32()
        records = reader.take(max(0, reader.int32()))
        return _walk(records, high_watermark, log_start_offset, fetch_offset)
    except (*MALFORMED_CAUSES, MalformedRequest) as error:
        raise BadAnswer(f"no Fetch answer: {error!r}") from error


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


def _open(answer: memoryview) -> Reader:
    """A reader after the correlation id."""
    return Reader(answer, _INT32.size, elements_max=RESPONSE_ELEMENTS_MAX)


def _require_none(error_code: int, what: str) -> None:
    if error_code:
        raise BadAnswer(f"{what} was answered with error code {error_code}")
