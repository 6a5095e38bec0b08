"""The Produce and Fetch of the client, in the versions it speaks: test_*_wire.py hold every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.errors import MalformedAnswer
from pipeline.client.messages import SPOKEN, fetch_request, parse_fetched, parse_produced, produce_request
from pipeline.client.values import ProduceResult, TopicPartition
from springtide.wire.apis import ApiKey
from springtide.wire.codec import decode, request_type
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import CONSUMER_ID, DEBUGGING_CONSUMER_ID, FetchPartition
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.produce import ProduceOutcome, encode_produce_response

TOPICS = st.sampled_from(["a", "orders", "x" * 249])
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
OFFSETS = st.integers(-1, 2**63 - 1)
INT32S = st.integers(-1, 2**31 - 1)
WANTED = st.builds(
    FetchPartition, TOPICS, INT32S, INT32S, OFFSETS, INT32S, OFFSETS, INT32S, st.none(), st.just(False)
)
T0 = TopicPartition("t", 0)


@settings(deadline=None)
@given(
    st.dictionaries(PARTITIONS, st.binary(max_size=300), max_size=6),
    st.sampled_from([-1, 1]),
    st.integers(0, 2**31 - 1),
)
def test_a_produce_request_is_what_the_general_codec_reads(
    batches: dict[TopicPartition, bytes], acks: int, timeout_ms: int
) -> None:
    body = b"".join(produce_request(batches, acks=acks, timeout_ms=timeout_ms))
    message: Any = decode(request_type(ApiKey.PRODUCE, SPOKEN[ApiKey.PRODUCE]), body)
    read = {
        TopicPartition(topic.name, one.index): one.records
        for topic in message.topic_data
        for one in topic.partition_data
    }
    assert read == batches
    assert (message.transactional_id, message.acks) == (None, acks)
    assert message.timeout_ms == timeout_ms
    assert len({topic.name for topic in message.topic_data}) == len(message.topic_data)


def test_a_produce_answer_is_about_what_was_asked() -> None:
    outcomes = [ProduceOutcome("t", 0, 0, 7, 8, 9), ProduceOutcome("t", 1, 45, error_message="why")]
    body = encode_produce_response(SPOKEN[ApiKey.PRODUCE], outcomes)
    assert parse_produced(b"head" + body, 4, [T0]) == {T0: ProduceResult(ErrorCode.NONE, 7, 8, 9)}
    with pytest.raises(MalformedAnswer, match="says nothing of t-2"):
        parse_produced(body, 0, [T0, TopicPartition("t", 2)])
    with pytest.raises(MalformedAnswer, match="PRODUCE"):
        parse_produced(body[:-1], 0, [T0])


@settings(deadline=None)
@given(
    st.lists(WANTED, max_size=6),
    st.sampled_from([0, 1]),
    st.sampled_from(["", "rack-1"]),
    st.sampled_from([CONSUMER_ID, DEBUGGING_CONSUMER_ID]),
)
def test_a_fetch_request_is_what_the_general_codec_reads(
    wanted: list[FetchPartition], isolation_level: int, rack: str, replica_id: int
) -> None:
    (body,) = fetch_request(
        wanted,
        max_wait_ms=7,
        max_bytes=99,
        isolation_level=isolation_level,
        rack=rack,
        replica_id=replica_id,
    )
    message: Any = decode(request_type(ApiKey.FETCH, SPOKEN[ApiKey.FETCH]), body)
    read = [
        FetchPartition(
            topic.topic,
            one.partition,
            one.current_leader_epoch,
            one.fetch_offset,
            one.last_fetched_epoch,
            one.log_start_offset,
            one.partition_max_bytes,
        )
        for topic in message.topics
        for one in topic.partitions
    ]
    assert read == wanted
    assert (message.replica_id, message.max_bytes, message.min_bytes) == (replica_id, 99, 1)
    assert (message.session_id, message.session_epoch) == (0, -1)
    assert (message.isolation_level, message.rack_id) == (isolation_level, rack)


SAMPLE = b"".join(
    bytes(chunk)  # type: ignore[arg-type]
    for chunk in encode_fetch_response(
        SPOKEN[ApiKey.FETCH],
        [FetchedPartition("t", 1, 0, 5, 4, 3, (b"r" * 30,)), FetchedPartition("u", 0, 6)],
    )
)


def test_a_fetch_answer_is_read_and_every_cut_and_every_byte_too_many_is_refused() -> None:
    first, second = parse_fetched(b"head" + SAMPLE, 4).partitions
    assert (TopicPartition.of(first), first.error, bytes(first.view)) == (("t", 1), ErrorCode.NONE, b"r" * 30)
    assert (second.error, len(second.view)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    for length in range(len(SAMPLE)):
        with pytest.raises(MalformedAnswer, match="FETCH"):
            parse_fetched(SAMPLE[:length], 0)
    with pytest.raises(MalformedAnswer):
        parse_fetched(SAMPLE + b"\x00", 0)


@settings(deadline=None)
@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255))
def test_any_byte_may_be_wrong(position: int, value: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[position] = value
    try:
        answer = parse_fetched(bytes(damaged), 0)
    except MalformedAnswer:
        return
    assert sum(len(one.view) for one in answer.partitions) <= len(SAMPLE)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    try:
        parse_fetched(data, 0)
    except MalformedAnswer:
        return
