"""The client's hand-made messages, held against the general codec and cut at every byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.errors import MalformedAnswer
from pipeline.client.messages import SPOKEN
from pipeline.client.payloads import (
    CONSUMER_ID,
    DEBUGGING_CONSUMER_ID,
    WantedRecords,
    decode_fetch,
    encode_fetch,
    encode_produce,
)
from pipeline.client.values import AbortedTransaction, TopicPartition
from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.errors import ErrorCode

TOPICS = st.sampled_from(["a", "orders", "x" * 249])
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
OFFSETS = st.integers(-1, 2**63 - 1)

WANTED = st.builds(WantedRecords, PARTITIONS, OFFSETS, st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1))


@settings(deadline=None)
@given(
    st.dictionaries(PARTITIONS, st.binary(max_size=300), max_size=6),
    st.sampled_from([-1, 1]),
    st.integers(0, 2**31 - 1),
)
def test_a_produce_request_is_what_the_general_codec_reads(
    batches: dict[TopicPartition, bytes], acks: int, timeout_ms: int
) -> None:
    body = b"".join(encode_produce(batches, acks=acks, timeout_ms=timeout_ms))
    message: Any = decode(request_type(ApiKey.PRODUCE, SPOKEN[ApiKey.PRODUCE]), body)
    read = {
        TopicPartition(topic.name, one.index): one.records
        for topic in message.topic_data
        for one in topic.partition_data
    }
    assert read == batches
    assert (message.transactional_id, message.acks) == (None, acks)
    assert message.timeout.total_seconds() * 1000 == pytest.approx(timeout_ms)
    assert len({topic.name for topic in message.topic_data}) == len(message.topic_data)


def test_a_produced_batch_is_not_copied() -> None:
    batch = memoryview(bytes(1000))
    assert any(
        piece is batch for piece in encode_produce({TopicPartition("t", 0): batch}, acks=-1, timeout_ms=1)
    )


@settings(deadline=None)
@given(
    st.lists(WANTED, max_size=6),
    st.sampled_from([0, 1]),
    st.sampled_from(["", "rack-1"]),
    st.sampled_from([CONSUMER_ID, DEBUGGING_CONSUMER_ID]),
)
def test_a_fetch_request_is_what_the_general_codec_reads(
    wanted: list[WantedRecords], isolation_level: int, rack: str, replica_id: int
) -> None:
    body = encode_fetch(
        wanted,
        max_wait_ms=7,
        max_bytes=99,
        isolation_level=isolation_level,
        rack=rack,
        replica_id=replica_id,
    )
    message: Any = decode(request_type(ApiKey.FETCH, SPOKEN[ApiKey.FETCH]), body)
    read = [
        WantedRecords(
            TopicPartition(topic.topic, one.partition),
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
        )
        for topic in message.topics
        for one in topic.partitions
    ]
    assert read == wanted
    assert (message.replica_id, message.max_bytes, message.min_bytes) == (replica_id, 99, 1)
    assert (message.session_id, message.session_epoch) == (0, -1)
    assert (message.isolation_level, message.rack_id) == (isolation_level, rack)


ANSWERS = st.fixed_dictionaries(
    {
        "partition_index": st.integers(0, 2**31 - 1),
        "error_code": st.sampled_from([0, 1, 6, 127]),
        "high_watermark": OFFSETS,
        "last_stable_offset": OFFSETS,
        "log_start_offset": OFFSETS,
        "preferred_read_replica": st.integers(-1, 5),
        "records": st.none() | st.binary(max_size=200),
        "aborted_transactions": st.none()
        | st.lists(st.fixed_dictionaries({"producer_id": OFFSETS, "first_offset": OFFSETS}), max_size=3),
        "diverging_epoch": st.fixed_dictionaries({"epoch": st.integers(-1, 5), "end_offset": OFFSETS}),
        "current_leader": st.fixed_dictionaries(
            {"leader_id": st.integers(-1, 5), "leader_epoch": st.integers(-1, 5)}
        ),
    }
)
TOPIC_ANSWERS = st.lists(
    st.fixed_dictionaries({"topic": TOPICS, "partitions": st.lists(ANSWERS, max_size=3)}), max_size=3
)


def fetch_answer(topics: list[dict[str, Any]], error: int = 0) -> bytes:
    fields = {"responses": topics, "error_code": error, "throttle_time": 5}
    return encode(build(response_type(ApiKey.FETCH, SPOKEN[ApiKey.FETCH]), fields))


@settings(deadline=None)
@given(TOPIC_ANSWERS, st.sampled_from([0, 70]))
def test_a_fetch_answer_is_read_as_the_general_codec_writes_it(
    topics: list[dict[str, Any]], error: int
) -> None:
    answer = decode_fetch(b"head" + fetch_answer(topics, error), 4)
    assert (answer.throttle_time_ms, answer.error) == (5, error)
    expected = [(topic["topic"], one) for topic in topics for one in topic["partitions"]]
    assert len(answer.partitions) == len(expected)
    for read, (topic, one) in zip(answer.partitions, expected, strict=True):
        assert read.where == (topic, one["partition_index"])
        assert read.error == one["error_code"]
        assert read.high_watermark == one["high_watermark"]
        assert read.last_stable_offset == one["last_stable_offset"]
        assert read.log_start_offset == one["log_start_offset"]
        assert read.preferred_read_replica == one["preferred_read_replica"]
        assert bytes(read.records) == (one["records"] or b"")
        aborted = one["aborted_transactions"] or []
        assert read.aborted == tuple(
            AbortedTransaction(each["producer_id"], each["first_offset"]) for each in aborted
        )


SAMPLE = fetch_answer(
    [
        {
            "topic": "t",
            "partitions": [
                {
                    "partition_index": 1,
                    "records": b"r" * 30,
                    "preferred_read_replica": -1,
                    "aborted_transactions": [{"producer_id": 1, "first_offset": 2}],
                    "current_leader": {"leader_id": 2, "leader_epoch": 3},
                }
            ],
        }
    ]
)


def test_every_cut_and_every_byte_too_many_is_refused() -> None:
    for length in range(len(SAMPLE)):
        with pytest.raises(MalformedAnswer):
            decode_fetch(SAMPLE[:length], 0)
    with pytest.raises(MalformedAnswer):
        decode_fetch(SAMPLE + b"\x00", 0)


@settings(deadline=None)
@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255))
def test_any_byte_may_be_wrong(position: int, value: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[position] = value
    try:
        answer = decode_fetch(bytes(damaged), 0)
    except MalformedAnswer:
        return
    assert sum(len(one.records) for one in answer.partitions) <= len(SAMPLE)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    try:
        decode_fetch(data, 0)
    except MalformedAnswer:
        return


def test_an_error_code_of_a_later_release_is_unknown() -> None:
    topics = [{"topic": "t", "partitions": [{"partition_index": 0, "error_code": 0}]}]
    body = fetch_answer(topics).replace(b"t\x02\x00\x00\x00\x00\x00\x00", b"t\x02\x00\x00\x00\x00\x01\x00")
    assert decode_fetch(body, 0).partitions[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
