"""Produce, both ends: brokers read requests and write answers, clients the reverse.

A request is read into (topic, partition, view of the records), the views pointing into the received frame,
and written as pieces around the caller's own batches. Nothing of a record batch is looked at here
(record_batch.check_produced_batch does). The whole request is read before any of it is handed out, so a
request that is malformed at its end appends nothing.

Versions 0-13. Before version 13 a topic is named, from 13 on it is its 16-byte id. Those below 3 are read
only so that they can be refused partition by partition (see apis.py).
Written by hand because the general codec takes 11.6 us for the usual request, not 1.8, and 15 us for its
answer, not 2. Everything the general codec checks is checked here; tests hold the two against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from . import shortcuts
from .apis import ApiKey, response_header_version
from .compression import Buffer
from .fetch_request import TOPIC_ID_BYTES, Topic
from .leader_hints import CurrentLeader, NodeEndpoint, encode_endpoints_section, encode_leader_tag
from .primitives import (
    MALFORMED_CAUSES,
    RESPONSE_ELEMENTS_MAX,
    MalformedRequest,
    OnRest,
    Reader,
    topic_runs,
    write_count,
    write_string,
    write_uvarint,
)

FLEXIBLE_SINCE = 9
TRANSACTIONAL_ID_SINCE = 3
THROTTLE_TIME_SINCE = 1
LOG_APPEND_TIME_SINCE = 2
LOG_START_OFFSET_SINCE = 5
ERROR_MESSAGE_SINCE = 8
CURRENT_LEADER_SINCE = 10
TOPIC_ID_SINCE = 13
ZSTD_SINCE = 7
"""KIP-110: a client below this does not know zstd, and must not be let to store it (check_produced_batch)."""

_TOPIC_BYTES_MIN = {True: 3, False: 6}
_PARTITION_BYTES_MIN = {True: 6, False: 8}
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_SINGLE_HEAD = struct.Struct(">BhiBB")
_SINGLE_PARTITION = struct.Struct(">BiB")
_SINGLE_BY_ID = struct.Struct(f">BhiB{TOPIC_ID_BYTES}sBiB")
_FIXED_HEAD = struct.Struct(">hhiih")
_FIXED_PARTITION = struct.Struct(">iii")
_SINGLE_SHIFT_MAX = 21  # lengths of four bytes: above any frame
_PARTITION_AND_SIZE = struct.Struct(">ii")
_OUTCOME_V0 = struct.Struct(">ihq")
_OUTCOME_V2 = struct.Struct(">ihqq")
_OUTCOME_V5 = struct.Struct(">ihqqq")
_LEADER_TAG = 0
_RECORD_ERROR_BYTES_MIN = 6
ANSWER_FORMS_MAX = 4096
_INT_MARK = 0x5A5B5C5D
_LONG_MARK = 0x5A5B5C5D5E5F6061

ProducedPartition = tuple[Topic, int, memoryview]
"""Topic, partition, the records field: empty if it was null."""


class ProduceRequest(NamedTuple):
    """`acks` is -1, 0 or 1 in a sane request; anything else is the handler's to refuse."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducedPartition]


class ProduceOutcome(NamedTuple):
    """One partition of an answer. -1: unknown, or not applicable. record_errors: (index in the batch, reason)
    of each record for which the batch was refused (KIP-467)."""

    topic: Topic
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: CurrentLeader | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


def decode_produce_request(
    api_version: int, frame: Buffer, position: int, *, on_rest: OnRest | None = None
) -> ProduceRequest:
    """Return the request whose body is `frame` from `position` on. Raise MalformedRequest, nothing else."""
    usual = shortcuts.produce_request(api_version, frame, position)
    if usual is not None:
        return tuple.__new__(ProduceRequest, usual)
    try:
        if api_version >= FLEXIBLE_SINCE:
            request = _read_single(memoryview(frame), position, api_version)
        elif api_version >= TRANSACTIONAL_ID_SINCE:
            request = _read_fixed_single(memoryview(frame), position)
        else:
            request = None
        if request is not None:
            return request
    except MALFORMED_CAUSES:
        pass  # another shape, perhaps a good one
    try:
        return _read_request(Reader(frame, position), api_version, on_rest)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Produce v{api_version}: {error}") from error


def _read_single(
    frame: memoryview, position: int, api_version: int, transactional_id: str | None = None
) -> ProduceRequest | None:
    """Return a request of the usual shape: one partition, a short topic name, no tags.

    librdkafka sends nothing else, and it is worth half the decoding time. None for any other shape, good or
    bad: `_read_request` then judges it. transactional_id: the one that ends at `position`.
    """
    topic_id = None
    if api_version >= TOPIC_ID_SINCE:
        head = _SINGLE_BY_ID.unpack_from(frame, position)
        null, acks, timeout_ms, topics, topic_id, partitions, partition, byte = head
        if null != 0 and transactional_id is None:
            return _read_transactional(frame, position, api_version)
        if topics != 2 or partitions != 2:
            return None
        start = position + _SINGLE_BY_ID.size
    else:
        null, acks, timeout_ms, topics, name_length = _SINGLE_HEAD.unpack_from(frame, position)
        if null != 0 and transactional_id is None:
            return _read_transactional(frame, position, api_version)
        if topics != 2 or not 0 < name_length < 0x80:
            return None
        position += _SINGLE_HEAD.size
        name_end = position + name_length - 1
        partitions, partition, byte = _SINGLE_PARTITION.unpack_from(frame, name_end)
        if partitions != 2:
            return None
        start = name_end + _SINGLE_PARTITION.size
    length = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > _SINGLE_SHIFT_MAX:
            return None
        byte = frame[start]
        start += 1
        length |= (byte & 0x7F) << shift
        shift += 7
    end = start + length - 1
    if end < start or end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    topic = str(frame[position:name_end], "utf-8") if topic_id is None else topic_id
    return ProduceRequest(transactional_id, acks, timeout_ms, [(topic, partition, frame[start:end])])


def _read_transactional(frame: memoryview, position: int, api_version: int) -> ProduceRequest | None:
    """`_read_single` behind a short transactional id: its last byte stands where the null would."""
    length = frame[position]
    if length >= 0x80:
        return None
    end = position + length
    transactional_id = str(frame[position + 1 : end], "utf-8")
    return _read_single(frame, end - 1, api_version, transactional_id)


def _read_fixed_single(frame: memoryview, position: int) -> ProduceRequest | None:
    """`_read_single` for versions 3 to 8, whose lengths have fixed sizes."""
    transactional_id, acks, timeout_ms, topics, name_length = _FIXED_HEAD.unpack_from(frame, position)
    if transactional_id != -1 or topics != 1 or name_length < 0:
        return None
    position += _FIXED_HEAD.size
    name_end = position + name_length
    partitions, partition, size = _FIXED_PARTITION.unpack_from(frame, name_end)
    start = name_end + _FIXED_PARTITION.size
    if partitions != 1 or size < 0 or start + size != len(frame):
        return None
    topic = str(frame[position:name_end], "utf-8")
    return ProduceRequest(None, acks, timeout_ms, [(topic, partition, frame[start:])])


def _read_request(reader: Reader, api_version: int, on_rest: OnRest | None) -> ProduceRequest:
    is_flexible = api_version >= FLEXIBLE_SINCE
    partition_bytes_min = _PARTITION_BYTES_MIN[is_flexible]
    transactional_id = None
    if api_version >= TRANSACTIONAL_ID_SINCE:
        transactional_id = reader.nullable_string(is_flexible=is_flexible)
    acks, timeout_ms = reader.fixed(_ACKS_AND_TIMEOUT)
    partitions: list[ProducedPartition] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=_TOPIC_BYTES_MIN[is_flexible]
    )
    for _ in range(topics):
        topic = _read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=partition_bytes_min)
        for _ in range(count):
            (partition,) = reader.fixed(_INT32)
            length = reader.uvarint() - 1 if is_flexible else reader.int32()
            records = reader.take(length if length != -1 else 0)
            if is_flexible:
                reader.skip_tagged_fields()
            partitions.append((topic, partition, records))
        if is_flexible:
            reader.skip_tagged_fields()
    if is_flexible:
        reader.skip_tagged_fields()
    reader.finish(on_rest)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _read_topic(reader: Reader, api_version: int) -> Topic:
    if api_version >= TOPIC_ID_SINCE:
        return bytes(reader.take(TOPIC_ID_BYTES))
    return reader.string(is_flexible=api_version >= FLEXIBLE_SINCE)


def _write_topic(out: bytearray, topic: Topic, api_version: int) -> None:
    if api_version >= TOPIC_ID_SINCE:
        assert isinstance(topic, bytes)
        out += topic
    else:
        assert isinstance(topic, str)
        write_string(out, topic, is_flexible=api_version >= FLEXIBLE_SINCE)


def encode_produce_response(
    api_version: int,
    outcomes: Sequence[ProduceOutcome],
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the body. Outcomes of one topic that follow one another share a topic entry, as in Kafka.

    `node_endpoints` (v10 on) are the addresses of the leaders that `current_leader` fields name.
    """
    is_flexible = api_version >= FLEXIBLE_SINCE
    out = bytearray()
    runs = topic_runs(outcomes)
    write_count(out, len(runs), is_flexible=is_flexible)
    for run in runs:
        _write_topic(out, run[0].topic, api_version)
        write_count(out, len(run), is_flexible=is_flexible)
        for outcome in run:
            _write_outcome(out, outcome, api_version)
        if is_flexible:
            out.append(0)
    if api_version >= THROTTLE_TIME_SINCE:
        out += _INT32.pack(throttle_time_ms)
    if is_flexible:
        out += encode_endpoints_section(node_endpoints if api_version >= CURRENT_LEADER_SINCE else ())
    return bytes(out)


def _write_outcome(out: bytearray, outcome: ProduceOutcome, api_version: int) -> None:
    if api_version >= LOG_START_OFFSET_SINCE:
        out += _OUTCOME_V5.pack(
            outcome.partition,
            outcome.error_code,
            outcome.base_offset,
            outcome.log_append_time_ms,
            outcome.log_start_offset,
        )
    elif api_version >= LOG_APPEND_TIME_SINCE:
        out += _OUTCOME_V2.pack(
            outcome.partition, outcome.error_code, outcome.base_offset, outcome.log_append_time_ms
        )
    else:
        out += _OUTCOME_V0.pack(outcome.partition, outcome.error_code, outcome.base_offset)
    if api_version < ERROR_MESSAGE_SINCE:
        return
    is_flexible = api_version >= FLEXIBLE_SINCE
    write_count(out, len(outcome.record_errors), is_flexible=is_flexible)
    for index, reason in outcome.record_errors:
        out += _INT32.pack(index)
        write_string(out, reason, is_flexible=is_flexible)
        if is_flexible:
            out.append(0)
    write_string(out, outcome.error_message, is_flexible=is_flexible)
    if not is_flexible:
        return
    if outcome.current_leader is not None and api_version >= CURRENT_LEADER_SINCE:
        out.append(1)
        out += encode_leader_tag(outcome.current_leader, tag=_LEADER_TAG)
    else:
        out.append(0)


class ProduceAnswerForm(NamedTuple):
    """The usual answer: one partition, no error. `layout` is that of the whole frame: size, correlation id,
    head; the outcome's numbers; tail."""

    layout: struct.Struct
    size: int
    head: bytes
    tail: bytes


@lru_cache(maxsize=ANSWER_FORMS_MAX)
def produce_answer_form(api_version: int, topic: Topic) -> ProduceAnswerForm:
    """Cut the form out of an answer of the encoder above, around the numbers that change."""
    body = encode_produce_response(
        api_version, [ProduceOutcome(topic, _INT_MARK, 0, _LONG_MARK, _LONG_MARK, _LONG_MARK)]
    )
    longs = 1 + (api_version >= LOG_APPEND_TIME_SINCE) + (api_version >= LOG_START_OFFSET_SINCE)
    numbers = struct.pack(f">ih{longs}q", _INT_MARK, 0, *[_LONG_MARK] * longs)
    head, found, tail = body.rpartition(numbers)
    assert found, "the encoder writes an outcome's numbers side by side"
    if response_header_version(ApiKey.PRODUCE, api_version):
        head = b"\x00" + head
    layout = struct.Struct(f">ii{len(head)}sih{longs}q{len(tail)}s")
    return ProduceAnswerForm(layout, layout.size - _INT32.size, head, tail)


def encode_produce_frame(
    api_version: int,
    *,
    correlation_id: int,
    topic: Topic,
    partition: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """Return a whole answer about one partition without an error, for versions that are served (3 and later).

    Nearly every answer of a busy broker is this one, and the encoder above takes longer than the append.
    """
    layout, size, head, tail = produce_answer_form(api_version, topic)
    if api_version >= LOG_START_OFFSET_SINCE:
        return layout.pack(
            size, correlation_id, head, partition, 0, base_offset, log_append_time_ms, log_start_offset, tail
        )
    return layout.pack(size, correlation_id, head, partition, 0, base_offset, log_append_time_ms, tail)


def encode_produce_request(
    api_version: int, batches: Iterable[tuple[tuple[Topic, int], Buffer]], *, acks: int, timeout_ms: int
) -> list[Buffer]:
    """Return the body in pieces, without a transactional id. For versions that are served (3 and later).

    `batches` are ((topic, partition), records); the records are not copied.
    """
    is_flexible = api_version >= FLEXIBLE_SINCE
    by_topic: dict[Topic, list[tuple[int, Buffer]]] = {}
    for (topic, partition), records in batches:
        by_topic.setdefault(topic, []).append((partition, records))
    pieces: list[Buffer] = []
    out = bytearray()
    write_string(out, None, is_flexible=is_flexible)
    out += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    write_count(out, len(by_topic), is_flexible=is_flexible)
    for topic, partitions in by_topic.items():
        _write_topic(out, topic, api_version)
        write_count(out, len(partitions), is_flexible=is_flexible)
        for partition, records in partitions:
            size = memoryview(records).nbytes
            if is_flexible:
                out += _INT32.pack(partition)
                write_uvarint(out, size + 1)
            else:
                out += _PARTITION_AND_SIZE.pack(partition, size)
            pieces += (bytes(out), records)
            out = bytearray(is_flexible)  # the partition's tags
        if is_flexible:
            out.append(0)
    if is_flexible:
        out.append(0)
    pieces.append(bytes(out))
    return pieces


def decode_produce_response(api_version: int, frame: Buffer, position: int) -> list[ProduceOutcome]:
    """Return the answer whose body is `frame` from `position` on. Raise MalformedRequest, nothing else.

    The errors of single records and hints about leaders are skipped: clients take leaders from Metadata.
    """
    try:
        return _read_response(Reader(frame, position, elements_max=RESPONSE_ELEMENTS_MAX), api_version)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"Produce answer: {error}") from error


def _read_response(reader: Reader, api_version: int) -> list[ProduceOutcome]:
    is_flexible = api_version >= FLEXIBLE_SINCE
    outcomes: list[ProduceOutcome] = []
    topics = reader.present_array_count(
        is_flexible=is_flexible, element_bytes_min=_TOPIC_BYTES_MIN[is_flexible]
    )
    for _ in range(topics):
        topic = _read_topic(reader, api_version)
        count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=_OUTCOME_V0.size)
        for _ in range(count):
            outcomes.append(_read_outcome(reader, topic, api_version))
        if is_flexible:
            reader.skip_tagged_fields()
    if api_version >= THROTTLE_TIME_SINCE:
        reader.int32()
    if is_flexible:
        reader.skip_tagged_fields()
    reader.finish()
    return outcomes


def _read_outcome(reader: Reader, topic: Topic, api_version: int) -> ProduceOutcome:
    is_flexible = api_version >= FLEXIBLE_SINCE
    if api_version >= LOG_START_OFFSET_SINCE:
        layout = _OUTCOME_V5
    elif api_version >= LOG_APPEND_TIME_SINCE:
        layout = _OUTCOME_V2
    else:
        layout = _OUTCOME_V0
    partition, error_code, base_offset, append_time_ms, log_start = (*reader.fixed(layout), -1, -1)[:5]
    message = None
    if api_version >= ERROR_MESSAGE_SINCE:
        message = _read_error_message(reader, is_flexible=is_flexible)
    if is_flexible:
        reader.skip_tagged_fields()
    return ProduceOutcome(topic, partition, error_code, base_offset, append_time_ms, log_start, message)


def _read_error_message(reader: Reader, *, is_flexible: bool) -> str | None:
    """Return the partition's message; skip the errors of single records in front of it."""
    errors = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=_RECORD_ERROR_BYTES_MIN)
    for _ in range(errors):
        reader.int32()
        reader.nullable_string(is_flexible=is_flexible)
        if is_flexible:
            reader.skip_tagged_fields()
    return reader.nullable_string(is_flexible=is_flexible)
