"""Fetch by hand against Fetch by the general codec: both ends, every version, good bytes and bad."""

from __future__ import annotations

import random
import tracemalloc
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from msgspec import structs

from springtide.wire.apis import APIS, REPLICA_FETCH_VERSION, ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type, version_of
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import (
    CONSUMER_ID,
    REPLICA_STATE_SINCE,
    TOPIC_ID_SINCE,
    FetchPartition,
    FetchRequest,
    LogMark,
    Topic,
    decode_fetch_request,
    encode_fetch_request,
)
from springtide.wire.fetch_response import (
    AbortedTransaction,
    AppliedRound,
    Compacted,
    EpochEnd,
    FetchedPartition,
    FetchResponse,
    UnknownRule,
    decode_fetch_response,
    encode_fetch_response,
)
from springtide.wire.framing import Chunk, FileChunk
from springtide.wire.leader_hints import CurrentLeader, NodeEndpoint
from springtide.wire.primitives import MalformedRequest, uuid_bytes, write_uvarint
from tests.kit.springtide.unread_file import UnreadFile

T = TypeVar("T")
RandomMessage = Callable[[type[Any], random.Random], Any]
VERSIONS = range(APIS[ApiKey.FETCH].served_since, APIS[ApiKey.FETCH].version_max + 1)
MIB = 1024 * 1024
A = uuid.UUID(int=0xA << 120)
B = uuid.UUID(int=0xB)


def topic_of(message: Any, entry: Any) -> Topic:
    by_id = version_of(type(message)) >= TOPIC_ID_SINCE
    return uuid_bytes(entry.topic_id) if by_id else str(entry.topic)


def by_the_general_codec(message: Any) -> FetchRequest:
    state = message.replica_state if version_of(type(message)) >= REPLICA_STATE_SINCE else None
    return FetchRequest(
        replica_id=message.replica_id if state is None else state.replica_id,
        broker_epoch=-1 if state is None else state.replica_epoch,
        max_wait_ms=message.max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        partitions=[
            FetchPartition(
                topic=topic_of(message, topic),
                partition=partition.partition,
                leader_epoch=partition.current_leader_epoch,
                fetch_offset=partition.fetch_offset,
                last_fetched_epoch=partition.last_fetched_epoch,
                log_start_offset=partition.log_start_offset,
                max_bytes=partition.partition_max_bytes,
            )
            for topic in message.topics
            for partition in topic.partitions
        ],
        forgotten=[
            (topic_of(message, topic), partition)
            for topic in message.forgotten_topics_data
            for partition in topic.partitions
        ],
        rack_id=message.rack_id,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_as_the_general_codec_reads_it(version: int, random_message: RandomMessage) -> None:
    rng = random.Random(version)
    for _ in range(50):
        message = random_message(request_type(ApiKey.FETCH, version), rng)
        body = encode(message)
        assert decode_fetch_request(version, b"head" + body, 4) == by_the_general_codec(message)
        for cut in range(0, len(body), max(1, len(body) // 20)):
            with pytest.raises(MalformedRequest):
                decode_fetch_request(version, body[:cut], 0)
        with pytest.raises(MalformedRequest):
            decode_fetch_request(version, body + b"\0", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_written_request_reads_as_it_was_meant(version: int, random_message: RandomMessage) -> None:
    rng = random.Random(version)
    message_type = request_type(ApiKey.FETCH, version)
    for _ in range(50):
        meant = by_the_general_codec(random_message(message_type, rng))
        if version >= REPLICA_STATE_SINCE and meant.replica_id == CONSUMER_ID:
            meant = meant._replace(broker_epoch=-1)  # a client that is no replica has none
        body = encode_fetch_request(version, meant)
        seen = by_the_general_codec(decode(message_type, body))
        assert seen._replace(forgotten=[]) == meant._replace(forgotten=[])
        assert sorted(seen.forgotten) == sorted(meant.forgotten)


def test_mutated_requests_never_read_as_something_else(random_message: RandomMessage) -> None:
    rng = random.Random(11)
    for _ in range(10_000):
        version = rng.choice(VERSIONS)
        message_type = request_type(ApiKey.FETCH, version)
        body = bytearray(encode(random_message(message_type, rng)))
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            seen = decode_fetch_request(version, body, 0)
        except MalformedRequest:
            with pytest.raises(MalformedRequest):
                decode(message_type, body)
            continue
        try:
            expected = by_the_general_codec(decode(message_type, body))
        except MalformedRequest:
            continue  # inside a tag that we skip (cluster id, directory id) nothing is looked at
        assert seen == expected


def test_random_bytes_are_malformed_or_a_request_in_every_version() -> None:
    rng = random.Random(12)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            body = bytes(rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) for _ in range(rng.randrange(60)))
            version = rng.choice(VERSIONS)
            try:
                if rng.random() < 0.7:
                    decode_fetch_request(version, body, 0)
                else:
                    decode_fetch_response(17, body, 0)
            except MalformedRequest:
                continue
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_hundred_thousand_partitions_are_read_and_a_million_are_refused() -> None:
    few = [FetchPartition(A.bytes, index, 0, 0, 0, 0, 1) for index in range(100_000)]
    body = encode_fetch_request(17, FetchRequest(partitions=few))
    assert len(decode_fetch_request(17, body, 0).partitions) == 100_000
    body = encode_fetch_request(17, FetchRequest(partitions=few * 10))
    with pytest.raises(MalformedRequest, match="budget"):
        decode_fetch_request(17, body, 0)


FOLLOWER = FetchRequest(
    replica_id=2,
    broker_epoch=2**50,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=10 * MIB,
    session_id=77,
    session_epoch=5,
    partitions=[
        FetchPartition(A.bytes, 0, 4, 2**33, 3, 10, MIB),
        FetchPartition(A.bytes, 1, 4, 0, -1, 0, MIB),
        FetchPartition(B.bytes, 0, 9, 5, 9, 0, MIB),
    ],
    forgotten=[(A.bytes, 7), (A.bytes, 9), (B.bytes, 1)],
    rack_id="r1",
)


@pytest.mark.parametrize(
    "request_", [FOLLOWER, FetchRequest(), FOLLOWER._replace(replica_id=-1, broker_epoch=-1)]
)
def test_what_a_follower_asks_a_leader_reads(request_: FetchRequest) -> None:
    body = encode_fetch_request(REPLICA_FETCH_VERSION, request_)
    seen = decode_fetch_request(REPLICA_FETCH_VERSION, body, 0)
    assert seen == request_._replace(partitions=list(request_.partitions), forgotten=list(request_.forgotten))
    assert by_the_general_codec(decode(request_type(ApiKey.FETCH, 17), body)) == seen


def test_what_a_follower_marks_a_leader_reads_and_others_skip() -> None:
    marks = (LogMark(7, -1, ((2**40, 1), (2**41, 2**32 - 1))), None, LogMark(-1, 5, ()))
    marked = [
        each._replace(mark=mark, wants_producers=mark is not marks[2])
        for each, mark in zip(FOLLOWER.partitions, marks, strict=True)
    ]
    body = encode_fetch_request(REPLICA_FETCH_VERSION, FOLLOWER._replace(partitions=marked))
    assert decode_fetch_request(REPLICA_FETCH_VERSION, body, 0).partitions == marked
    skipped = by_the_general_codec(decode(request_type(ApiKey.FETCH, 17), body))
    assert list(skipped.partitions) == list(FOLLOWER.partitions)


def test_the_section_that_ends_a_brokers_request_is_read_whatever_its_shape() -> None:
    body = encode_fetch_request(REPLICA_FETCH_VERSION, FOLLOWER)
    head, section = body[:-16], body[-16:]
    assert section[:3] == b"\x01\x01\x0d"

    def replica(tail: bytes) -> tuple[int, int]:
        request = decode_fetch_request(REPLICA_FETCH_VERSION, head + tail, 0)
        return request.replica_id, request.broker_epoch

    assert replica(section) == (2, 2**50)
    assert replica(b"\x02" + section[1:] + b"\x09\x00") == (2, 2**50)  # a later tag
    assert replica(b"\x02\x00\x02\x02c" + section[1:]) == (2, 2**50)
    assert replica(b"\x01\x05" + section[2:]) == (-1, -1)  # another tag of the same size
    assert replica(b"\x01\x01\x11" + section[3:-1] + b"\x01\x07\x02ab") == (2, 2**50)
    for bad in (section[:-1] + b"\x01", section[:2] + b"\x0c" + section[3:], section + b"\0"):
        with pytest.raises(MalformedRequest):
            replica(bad)


def answer_of(version: int) -> list[FetchedPartition]:
    first, second = (A.bytes, B.bytes) if version >= TOPIC_ID_SINCE else ("a", "bb")
    return [
        FetchedPartition(first, 0, 0, 100, 100, 3, (memoryview(b"r" * 300), b"s" * 5)),
        FetchedPartition(first, 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        FetchedPartition(second, 0, 0, 7, 7, 0, (), preferred_read_replica=4),
        FetchedPartition(second, 1, 0, 9, 9, 0, (), diverging_epoch=EpochEnd(3, 2**40)),
        FetchedPartition(
            second,
            2,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            diverging_epoch=EpochEnd(1, 2),
            current_leader=CurrentLeader(5, 6),
        ),
        FetchedPartition(first, 9, 0, 1, 1, 0, (b"t",)),
        FetchedPartition(
            first,
            10,
            0,
            9,
            8,
            0,
            (b"u",),
            2,
            aborted=(AbortedTransaction(2**40, 3), AbortedTransaction(5, 2**33)),
        ),
        FetchedPartition(first, 11, 0, 9, 8, 0, (), aborted=()),
    ]


def general_answer(
    version: int, partitions: Sequence[FetchedPartition], endpoints: Sequence[NodeEndpoint]
) -> Any:
    responses: list[dict[str, Any]] = []
    key: Topic | None = None
    for data in partitions:
        if not responses or key != data.topic:
            key = data.topic
            named = isinstance(data.topic, str)
            responses.append(
                {
                    "topic": data.topic if named else "",
                    "topic_id": None if named else uuid.UUID(bytes=data.topic),  # type: ignore[arg-type]
                    "partitions": [],
                }
            )
        fields: dict[str, object] = {
            "partition_index": data.partition,
            "error_code": data.error_code,
            "high_watermark": data.high_watermark,
            "last_stable_offset": data.last_stable_offset,
            "log_start_offset": data.log_start_offset,
            "aborted_transactions": None
            if data.aborted is None
            else [each._asdict() for each in data.aborted],
            "preferred_read_replica": data.preferred_read_replica,
            "records": joined(data.records),
        }
        if data.diverging_epoch is not None:
            epoch, end_offset = data.diverging_epoch
            fields["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
        if data.current_leader is not None:
            fields["current_leader"] = data.current_leader._asdict()
        responses[-1]["partitions"].append(fields)
    return build(
        response_type(ApiKey.FETCH, version),
        {
            "throttle_time_ms": 8,
            "error_code": 0,
            "session_id": 55,
            "responses": responses,
            "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
        },
    )


def joined(chunks: Sequence[Chunk]) -> bytes:
    parts = []
    for chunk in chunks:
        assert not isinstance(chunk, FileChunk)
        parts.append(bytes(chunk))
    return b"".join(parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_what_the_general_codec_writes(version: int) -> None:
    endpoints = [NodeEndpoint(5, "host", 9092, "rack")]
    partitions = answer_of(version)
    for chosen, hints in [(partitions, endpoints), *(([one], []) for one in partitions), ([], [])]:
        chunks = encode_fetch_response(
            version, chosen, session_id=55, throttle_time_ms=8, node_endpoints=hints
        )
        assert joined(chunks) == encode(general_answer(version, chosen, hints))


def test_what_a_leader_tells_of_its_log_and_producers_is_read_by_followers_and_skipped_by_others() -> None:
    plain = FetchedPartition(A.bytes, 0, 0, 9, 9, 0, (memoryview(b"r"),), diverging_epoch=EpochEnd(3, 4))
    told = plain._replace(
        compacted=Compacted(5, 2**40), applied_round=AppliedRound(7, 2**41, 6), producers=b"p" * 300
    )
    body = joined(encode_fetch_response(REPLICA_FETCH_VERSION, [told], session_id=55, throttle_time_ms=8))
    (read,) = decode_fetch_response(REPLICA_FETCH_VERSION, memoryview(body), 0).partitions
    assert read == told
    skipped = decode(response_type(ApiKey.FETCH, REPLICA_FETCH_VERSION), body)
    expected = encode(general_answer(REPLICA_FETCH_VERSION, [plain], []))
    assert skipped == decode(response_type(ApiKey.FETCH, REPLICA_FETCH_VERSION), expected)


def test_records_leave_as_the_chunks_they_came_in() -> None:
    view, cold = memoryview(b"r" * 300), FileChunk(source=UnreadFile(), position=64, length=1000)
    data = FetchedPartition(A.bytes, 0, 0, 1, 1, 0, (view, cold))
    chunks = encode_fetch_response(17, [data, data._replace(partition=1, records=())])
    assert chunks[1] is view
    assert chunks[2] is cold
    assert [type(chunk) for chunk in chunks] == [bytes, memoryview, FileChunk, bytes]
    whole = chunks[0] + bytes(view) + bytes(1000) + chunks[3]  # type: ignore[operator]
    first, second = decode_fetch_response(17, whole, 0).partitions
    assert len(first.records[0]) == 1300
    assert second.records == ()


def test_a_follower_reads_what_a_leader_answers_without_copying_records() -> None:
    partitions = answer_of(17)
    chunks = encode_fetch_response(17, partitions, error_code=0, session_id=55, throttle_time_ms=8)
    frame = memoryview(b"head" + joined(chunks))
    response = decode_fetch_response(17, frame, 4)
    expected = [data._replace(records=(joined(data.records),) if data.records else ()) for data in partitions]
    assert response == FetchResponse(8, 0, 55, expected)
    view = response.partitions[0].records[0]
    assert isinstance(view, memoryview)
    assert view.obj is frame.obj


def test_an_answer_of_a_broker_with_transactions_and_endpoints_is_read_too() -> None:
    message = general_answer(17, answer_of(17), [NodeEndpoint(1, "h", 1)])
    (first, *_) = message.responses
    built = build(
        response_type(ApiKey.FETCH, 17),
        {
            "session_id": 55,
            "node_endpoints": message.node_endpoints,
            "responses": [
                {
                    "topic_id": A,
                    "partitions": [
                        {
                            "partition_index": 3,
                            "aborted_transactions": [{"producer_id": 1, "first_offset": 2}],
                        },
                        first.partitions[0],
                    ],
                }
            ],
        },
    )
    response = decode_fetch_response(17, encode(built), 0)
    assert [data.partition for data in response.partitions] == [3, 0]
    body = encode(built)
    for cut in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode_fetch_response(17, body[:cut], 0)


def answer_by_the_general_codec(message: Any) -> FetchResponse:
    return FetchResponse(
        message.throttle_time_ms,
        message.error_code,
        message.session_id,
        [
            FetchedPartition(
                topic_of(message, topic),
                one.partition_index,
                one.error_code,
                one.high_watermark,
                one.last_stable_offset,
                one.log_start_offset,
                (one.records,) if one.records else (),
                one.preferred_read_replica,
                none_if_unset(EpochEnd, one.diverging_epoch),
                none_if_unset(CurrentLeader, one.current_leader),
                None
                if one.aborted_transactions is None
                else tuple(
                    AbortedTransaction(each.producer_id, each.first_offset)
                    for each in one.aborted_transactions
                ),
            )
            for topic in message.responses
            for one in topic.partitions
        ],
    )


def none_if_unset(kind: Callable[..., T], message: Any) -> T | None:
    """A hint without a field set is one that is not there."""
    values = () if message is None else structs.astuple(message)
    return None if set(values) <= {-1} else kind(*values)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_reads_as_the_general_codec_reads_it(version: int, random_message: RandomMessage) -> None:
    rng = random.Random(version)
    for _ in range(50):
        message = random_message(response_type(ApiKey.FETCH, version), rng)
        body = encode(message)
        assert decode_fetch_response(version, b"head" + body, 4) == answer_by_the_general_codec(message)
        for cut in range(0, len(body), max(1, len(body) // 20)):
            with pytest.raises(MalformedRequest):
                decode_fetch_response(version, body[:cut], 0)
        with pytest.raises(MalformedRequest):
            decode_fetch_response(version, body + b"\0", 0)


def test_mutated_answers_never_read_as_something_else(random_message: RandomMessage) -> None:
    rng = random.Random(13)
    for _ in range(3_000):
        version = rng.choice(VERSIONS)
        message_type = response_type(ApiKey.FETCH, version)
        body = bytearray(encode(random_message(message_type, rng)))
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            seen = decode_fetch_response(version, body, 0)
        except MalformedRequest:
            with pytest.raises(MalformedRequest):
                decode(message_type, body)
            continue
        try:
            expected = decode(message_type, body)
        except MalformedRequest:
            continue  # inside a tag that we skip nothing is looked at
        for one, other in zip(seen.partitions, answer_by_the_general_codec(expected).partitions, strict=True):
            assert one._replace(error_code=0, diverging_epoch=None, current_leader=None) == other._replace(
                error_code=0, diverging_epoch=None, current_leader=None
            )


def test_an_error_code_of_a_later_release_is_unknown() -> None:
    assert FetchedPartition("t", 0, 256).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert FetchResponse(0, 256, 0, []).error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("tag", "is_rule"), [(10_003, False), (10_099, False), (10_100, True), (10_199, True)]
)
def test_a_rule_of_a_later_release_is_refused_and_a_hint_skipped(tag: int, is_rule: bool) -> None:
    version = REPLICA_FETCH_VERSION
    data = FetchedPartition(bytes(range(16)), 0, 0, 5, 5, 0)
    tags = bytearray(b"\x01")
    write_uvarint(tags, tag)
    tags += b"\x02hi"
    body = joined(encode_fetch_response(version, [data])).removesuffix(bytes(3)) + tags + bytes(2)
    if is_rule:
        with pytest.raises(UnknownRule, match=f"tag {tag}"):
            decode_fetch_response(version, memoryview(body), 0)
    else:
        assert decode_fetch_response(version, memoryview(body), 0).partitions == [data]
