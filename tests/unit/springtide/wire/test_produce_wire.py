"""Produce by hand against Produce by the general codec, for every version, good bytes and bad."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from springtide.wire.apis import APIS, ApiKey, response_header_version
from springtide.wire.codec import build, decode, encode, request_type, response_type, version_of
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import TOPIC_ID_BYTES, Topic
from springtide.wire.framing import encode_response_frame
from springtide.wire.leader_hints import CurrentLeader, NodeEndpoint
from springtide.wire.primitives import MalformedRequest
from springtide.wire.produce import (
    TOPIC_ID_SINCE,
    ProducedPartition,
    ProduceOutcome,
    ProduceRequest,
    decode_produce_request,
    decode_produce_response,
    encode_produce_frame,
    encode_produce_request,
    encode_produce_response,
)

pytestmark = pytest.mark.usefixtures("both_ways")

RandomMessage = Callable[[type[Any], random.Random], Any]
VERSIONS = range(APIS[ApiKey.PRODUCE].served_since, APIS[ApiKey.PRODUCE].version_max + 1)
MIB = 1024 * 1024


def topic_of(message: Any, entry: Any) -> Topic:
    """An entry's name, or the 16 bytes of its id; the general codec has None for zeros."""
    if version_of(type(message)) < TOPIC_ID_SINCE:
        name: str = entry.name
        return name
    topic_id: UUID = entry.topic_id or UUID(int=0)
    return topic_id.bytes


def topic_in(version: int, name: str) -> Topic:
    """A topic as requests of the version have it."""
    return name if version < TOPIC_ID_SINCE else name.encode()[:1] * TOPIC_ID_BYTES


def topic_fields(topic: Topic) -> dict[str, object]:
    return {"name": topic} if isinstance(topic, str) else {"topic_id": UUID(bytes=topic)}


def by_the_general_codec(message: Any) -> ProduceRequest:
    partitions: list[ProducedPartition] = [
        (topic_of(message, topic), partition.index, memoryview(partition.records or b""))
        for topic in message.topic_data
        for partition in topic.partition_data
    ]
    return ProduceRequest(message.transactional_id, message.acks, message.timeout_ms, partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_as_the_general_codec_reads_it(version: int, random_message: RandomMessage) -> None:
    rng = random.Random(version)
    for _ in range(50):
        message = random_message(request_type(ApiKey.PRODUCE, version), rng)
        body = encode(message)
        assert decode_produce_request(version, b"head" + body, 4) == by_the_general_codec(message)
        for cut in range(0, len(body), max(1, len(body) // 20)):
            with pytest.raises(MalformedRequest):
                decode_produce_request(version, body[:cut], 0)
        with pytest.raises(MalformedRequest):
            decode_produce_request(version, body + b"\0", 0)


def test_mutated_requests_are_judged_alike_by_both(random_message: RandomMessage) -> None:
    rng = random.Random(7)
    for _ in range(10_000):
        version = rng.choice(VERSIONS)
        message_type = request_type(ApiKey.PRODUCE, version)
        body = bytearray(encode(random_message(message_type, rng)))
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            expected = by_the_general_codec(decode(message_type, body))
        except MalformedRequest:
            with pytest.raises(MalformedRequest):
                decode_produce_request(version, body, 0)
        else:
            assert decode_produce_request(version, body, 0) == expected


def test_records_are_views_of_the_frame() -> None:
    message = build(
        request_type(ApiKey.PRODUCE, 9),
        {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"r" * 100}]}]},
    )
    frame = memoryview(encode(message))
    ((_, _, records),) = decode_produce_request(9, frame, 0).partitions
    assert records.obj is frame.obj
    assert bytes(records) == b"r" * 100


@pytest.mark.parametrize("version", [8, 9, 11, 13])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 2_097_150, 2_097_151, 2_097_152])
@pytest.mark.parametrize("name", ["t", "x" * 126, "x" * 127, "x" * 249, "\N{ROCKET}"])
def test_every_width_of_a_length_is_read(version: int, size: int, name: str) -> None:
    partition = {"index": 2**31 - 1, "records": b"r" * size}
    topic = topic_in(version, name)
    topics = [{**topic_fields(topic), "partition_data": [partition]}]
    values: dict[str, object] = {"acks": 0, "timeout_ms": 1, "topic_data": topics}
    body = encode(build(request_type(ApiKey.PRODUCE, version), values))
    expected = ProduceRequest(None, 0, 1, [(topic, 2**31 - 1, memoryview(b"r" * size))])
    assert decode_produce_request(version, body, 0) == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "transactional_id", ["", "\0", "t", "x" * 126, "x" * 127, "x" * 32_767, "\N{ROCKET}"]
)
def test_a_request_of_a_transaction_is_read_whatever_its_id(version: int, transactional_id: str) -> None:
    topic = topic_in(version, "orders")
    topics = [{**topic_fields(topic), "partition_data": [{"index": 3, "records": b"r" * 300}]}]
    values: dict[str, object] = {"acks": -1, "timeout_ms": 1, "topic_data": topics}
    body = encode(
        build(request_type(ApiKey.PRODUCE, version), {**values, "transactional_id": transactional_id})
    )
    expected = ProduceRequest(transactional_id, -1, 1, [(topic, 3, memoryview(b"r" * 300))])
    assert decode_produce_request(version, b"head" + body, 4) == expected
    for end in (*range(0, len(body), 7), len(body) - 1):
        with pytest.raises(MalformedRequest):
            decode_produce_request(version, body[:end], 0)


def test_a_tag_on_a_request_of_the_usual_shape_is_skipped() -> None:
    partition = {"index": 0, "records": b"rr"}
    topics = [{"name": "t", "partition_data": [partition]}]
    body = encode(build(request_type(ApiKey.PRODUCE, 9), {"acks": 1, "timeout_ms": 1, "topic_data": topics}))
    assert body.endswith(b"rr\0\0\0")
    for place in (1, 2, 3):
        tagged = body[:-place] + b"\x01\x09\x02ab" + body[len(body) - place + 1 :]
        assert decode_produce_request(9, tagged, 0).partitions == [("t", 0, memoryview(b"rr"))]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_too_old_to_serve_can_still_be_read_and_refused(version: int) -> None:
    body = struct.pack(">hiih1siii", -1, 1500, 1, 1, b"t", 1, 3, 2) + b"rr"
    request = decode_produce_request(version, body, 0)
    assert request == ProduceRequest(None, -1, 1500, [("t", 3, memoryview(b"rr"))])
    outcome = ProduceOutcome("t", 3, ErrorCode.UNSUPPORTED_VERSION)
    answer = struct.pack(">ih1siihq", 1, 1, b"t", 1, 3, 35, -1)
    answer += {0: b"", 1: struct.pack(">i", 9), 2: struct.pack(">qi", -1, 9)}[version]
    assert encode_produce_response(version, [outcome], throttle_time_ms=9) == answer


@pytest.mark.parametrize(
    "body",
    [
        bytes.fromhex("00ffff000003e8ffffffff0f"),
        bytes.fromhex("00ffff000003e802027400"),  # a null array of partitions
        bytes.fromhex("00ffff000003e80200"),  # a null topic name
        bytes.fromhex("00ffff000003e800"),  # a null array of topics
        b"",
    ],
)
def test_a_hostile_body_is_malformed_and_costs_nothing(body: bytes) -> None:
    tracemalloc.start()
    try:
        for version in range(14):
            with pytest.raises(MalformedRequest):
                decode_produce_request(version, body, 0)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_random_bytes_are_malformed_or_a_request_in_every_version() -> None:
    rng = random.Random(8)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            body = bytes(rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) for _ in range(rng.randrange(30)))
            try:
                decode_produce_request(rng.randrange(14), body, 0)
            except MalformedRequest:
                continue
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


OUTCOMES = [
    ProduceOutcome("a", 0, 0, base_offset=2**40, log_append_time_ms=1_700_000_000_000, log_start_offset=5),
    ProduceOutcome("a", 1, ErrorCode.INVALID_RECORD, error_message="bad \N{ROCKET}"),
    ProduceOutcome("b" * 249, 7, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=CurrentLeader(3, 9)),
]
ENDPOINTS = [NodeEndpoint(3, "host", 9092, None), NodeEndpoint(4, "other", 9093, "rack")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_response_is_what_the_general_codec_writes(version: int, count: int) -> None:
    outcomes = [one._replace(topic=topic_in(version, str(one.topic))) for one in OUTCOMES[:count]]
    endpoints = ENDPOINTS if count == 3 else []
    topics: dict[Topic, list[dict[str, object]]] = {}
    for outcome in outcomes:
        leader = outcome.current_leader or CurrentLeader(-1, -1)
        topics.setdefault(outcome.topic, []).append(
            {
                "index": outcome.partition,
                "error_code": outcome.error_code,
                "base_offset": outcome.base_offset,
                "log_append_time_ms": outcome.log_append_time_ms,
                "log_start_offset": outcome.log_start_offset,
                "error_message": outcome.error_message,
                "current_leader": leader._asdict(),
            }
        )
    message = build(
        response_type(ApiKey.PRODUCE, version),
        {
            "responses": [
                {**topic_fields(topic), "partition_responses": partitions}
                for topic, partitions in topics.items()
            ],
            "throttle_time_ms": 42,
            "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
        },
    )
    assert encode_produce_response(
        version, outcomes, throttle_time_ms=42, node_endpoints=endpoints
    ) == encode(message)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["orders", "ö", "t" * 249])
def test_the_packed_answer_is_the_general_one(version: int, name: str) -> None:
    topic = topic_in(version, name)
    outcome = ProduceOutcome(topic, 7, 0, 2**40, -1, 12)
    general = encode_response_frame(
        -5,
        [encode_produce_response(version, [outcome])],
        has_flexible_header=bool(response_header_version(ApiKey.PRODUCE, version)),
    )
    packed = encode_produce_frame(
        version,
        correlation_id=-5,
        topic=topic,
        partition=7,
        base_offset=2**40,
        log_append_time_ms=-1,
        log_start_offset=12,
    )
    assert packed == b"".join(bytes(chunk) for chunk in general)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_written_request_reads_as_it_was_meant_and_its_batches_are_not_copied(version: int) -> None:
    a, b = topic_in(version, "a"), topic_in(version, "b")
    batches: list[tuple[tuple[Topic, int], bytes | bytearray | memoryview]] = [
        ((a, 0), memoryview(b"r" * 300)),
        ((b, 1), b""),
        ((a, 2), bytearray(b"s")),
    ]
    pieces = encode_produce_request(version, batches, acks=-1, timeout_ms=1_500)
    assert all(any(piece is batch for piece in pieces) for _, batch in batches)
    expected: list[ProducedPartition] = [
        (topic, partition, memoryview(batch))
        for (topic, partition), batch in (batches[0], batches[2], batches[1])  # one entry a topic
    ]
    message: Any = decode(request_type(ApiKey.PRODUCE, version), b"".join(pieces))
    assert by_the_general_codec(message) == ProduceRequest(None, -1, 1_500, expected)
    assert len(message.topic_data) == 2


def outcomes_by_the_general_codec(message: Any) -> list[ProduceOutcome]:
    return [
        ProduceOutcome(
            topic_of(message, topic),
            one.index,
            one.error_code,
            one.base_offset,
            one.log_append_time_ms,
            one.log_start_offset,
            one.error_message,
        )
        for topic in message.responses
        for one in topic.partition_responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_reads_as_the_general_codec_reads_it(version: int, random_message: RandomMessage) -> None:
    rng = random.Random(version)
    for _ in range(50):
        message = random_message(response_type(ApiKey.PRODUCE, version), rng)
        body = encode(message)
        assert decode_produce_response(version, b"head" + body, 4) == outcomes_by_the_general_codec(message)
        for cut in range(0, len(body), max(1, len(body) // 20)):
            with pytest.raises(MalformedRequest):
                decode_produce_response(version, body[:cut], 0)
        with pytest.raises(MalformedRequest):
            decode_produce_response(version, body + b"\0", 0)
