"""The compiled codec against kio's own, for every message of the protocol, and against hostile bytes.

kio's decoder is only ever given bytes that its own encoder wrote.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import struct
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.index import schema_name_map
from kio.schema.metadata.v0.response import MetadataResponse as MetadataResponseV0
from kio.schema.metadata.v1.request import MetadataRequest as MetadataRequestV1
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.produce.v9.response import ProduceResponse
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from springtide.wire.apis import APIS
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.primitives import MalformedRequest, uvarint_bytes

RandomMessage = Callable[[type[Any], random.Random], Any]
MIB = 1024 * 1024


def every_message_type() -> Iterator[type[Any]]:
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                if kind is not EntityType.header:
                    yield load_entity_schema(name, version, kind)


def ours() -> Iterator[type[Any]]:
    for spec in APIS.values():
        for version in range(spec.served_since, spec.version_max + 1):
            yield request_type(spec.api_key, version)
            yield response_type(spec.api_key, version)


def kio_bytes(message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def agree(message: Any) -> None:
    encoded = kio_bytes(message)
    assert encode(message) == encoded
    assert decode(type(message), encoded) == message
    assert entity_reader(type(message))(encoded, 0) == (message, len(encoded))


def test_both_codecs_agree_on_every_message_of_the_protocol(random_message: RandomMessage) -> None:
    for message_type in every_message_type():
        agree(random_message(message_type, random.Random(message_type.__module__)))


def test_both_codecs_agree_on_what_we_speak(random_message: RandomMessage) -> None:
    for message_type in ours():
        rng = random.Random(message_type.__module__)
        for _ in range(25):
            agree(random_message(message_type, rng))


def test_a_cut_message_is_malformed_wherever_it_is_cut(random_message: RandomMessage) -> None:
    rng = random.Random(1)
    for message_type in ours():
        whole = encode(random_message(message_type, rng))
        cuts = range(len(whole)) if len(whole) < 80 else sorted(rng.sample(range(len(whole)), 60))
        for cut in cuts:
            with pytest.raises(MalformedRequest):
                decode(message_type, whole[:cut])


def test_bytes_after_a_message_are_malformed_unless_they_are_asked_for(random_message: RandomMessage) -> None:
    for message_type in ours():
        whole = encode(random_message(message_type, random.Random(2)))
        with pytest.raises(MalformedRequest):
            decode(message_type, whole + b"\0")
        rest: list[int] = []
        assert encode(decode(message_type, whole + b"abc", on_rest=rest.append)) == whole
        assert rest == [3]


def test_mutated_messages_decode_or_are_malformed_and_nothing_else(random_message: RandomMessage) -> None:
    rng = random.Random(3)
    types = list(ours())
    for _ in range(15_000):
        message_type = rng.choice(types)
        data = bytearray(encode(random_message(message_type, rng)))
        for _ in range(rng.randint(1, 4)):
            if data and rng.random() < 0.7:
                data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            else:
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(5))
        try:
            decode(message_type, data)
        except MalformedRequest:
            continue


def test_random_bytes_take_bounded_memory() -> None:
    rng = random.Random(4)
    types = list(ours())
    tracemalloc.start()
    try:
        for _ in range(10_000):
            data = rng.randbytes(rng.randrange(40))
            if rng.random() < 0.5:
                data = bytes(rng.choice([0, 1, 2, 0x7F, 0xFF]) for _ in range(rng.randrange(40)))
            try:
                decode(rng.choice(types), data)
            except MalformedRequest:
                continue
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_eleven_bytes_that_claim_four_billion_topics_cost_nothing() -> None:
    hostile = bytes.fromhex("00ffff000003e8ffffffff0f")
    tracemalloc.start()
    try:
        hostile_to: list[type[Any]] = [ProduceRequest, *ours()]
        for message_type in hostile_to:
            with pytest.raises(MalformedRequest):
                decode(message_type, hostile)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_elements_of_one_byte_can_not_buy_gigabytes() -> None:
    partitions = 5_000_000
    body = struct.pack(">i", partitions) + b"\0\0" * partitions  # as many empty topic names
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match="budget"):
            decode(MetadataRequestV1, body)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


V12 = b"\x02" + bytes(16) + b"\x02a\x00" + b"\x01\x00"  # one topic named "a", flags


@pytest.mark.parametrize(
    ("tail", "is_good"),
    [
        (b"\x00", True),
        (b"\x01\x05\x02ab", True),  # an unknown tag is skipped
        (b"\x02\x05\x00\x07\x01x", True),
        (b"\x02\x05\x00\x05\x00", False),  # repeated
        (b"\x02\x07\x00\x05\x00", False),  # descending
        (b"\x01\x05\x03ab", False),  # longer than what is left
        (b"\x05\x05\x00", False),  # fewer than counted
        (b"\xff\xff\xff\xff\x0f", False),
        (b"\x80\x80\x80\x80\x80\x01", False),  # a varint of six bytes
        (b"\xff\xff\xff\xff\x1f", False),  # 33 bits
        (b"\x80\x00", True),  # long-winded zero, as Kafka takes it
        (b"", False),
    ],
)
def test_tagged_fields_ascend_fit_and_may_be_unknown(tail: bytes, is_good: bool) -> None:
    expected = MetadataRequest(
        topics=(build(MetadataRequestTopic, {"name": "a"}),),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    if is_good:
        assert decode(MetadataRequest, V12 + tail) == expected
    else:
        with pytest.raises(MalformedRequest):
            decode(MetadataRequest, V12 + tail)


def test_a_known_tag_must_use_up_its_bytes() -> None:
    fetch = encode(build(FetchRequest, {}))
    assert fetch.endswith(b"\0")
    replica_state = struct.pack(">iqb", 3, 9, 0)
    good = fetch[:-1] + b"\x01\x01" + uvarint_bytes(len(replica_state)) + replica_state
    assert decode(FetchRequest, good).replica_state.replica_id == 3
    with pytest.raises(MalformedRequest, match="left over"):
        decode(FetchRequest, good[: -len(replica_state) - 1] + uvarint_bytes(14) + replica_state + b"\0")


@pytest.mark.parametrize(
    ("message_type", "body", "why"),
    [
        (MetadataRequest, b"\x02" + bytes(16) + b"\x03\xc3\x28\x00\x01\x00\x00", "not UTF-8"),
        (MetadataRequest, b"\x02" + bytes(16) + b"\x04\xed\xa0\x80\x00\x01\x00\x00", "a lone surrogate"),
        (MetadataRequestV1, struct.pack(">i", -2), "an array count of -2"),
        (MetadataRequestV1, struct.pack(">ih", 1, -1), "a null topic name"),
        (MetadataRequestV1, struct.pack(">ih", 1, -2), "a string length of -2"),
        (OffsetForLeaderEpochResponse, struct.pack(">i", 0) + b"\x00\x00", "a null array"),
        (DescribeTopicPartitionsRequest, b"\x01" + struct.pack(">i", 1) + b"\x02\x00", "a marker of 2"),
    ],
)
def test_what_the_schema_forbids_is_malformed(message_type: type[Any], body: bytes, why: str) -> None:
    with pytest.raises(MalformedRequest):
        decode(message_type, body)
        pytest.fail(why)


def test_a_null_array_is_null_where_the_schema_has_it() -> None:
    assert decode(MetadataRequestV1, struct.pack(">i", -1)).topics is None


def test_a_time_beyond_the_calendar_is_malformed() -> None:
    body = bytearray(encode(build(CreateDelegationTokenResponse, {"issue_timestamp": None})))
    first_time = len(body) - 1 - 4 - 1 - 1 - 24
    body[first_time : first_time + 8] = b"\x7f" + b"\xff" * 7
    with pytest.raises(MalformedRequest):
        decode(CreateDelegationTokenResponse, body)


def test_an_error_code_of_a_later_release_becomes_the_unknown_one() -> None:
    body = struct.pack(">i", 0) + b"\x02\x02t\x02" + struct.pack(">hiiq", 9999, 0, 0, 0) + b"\0\0\0"
    (topic,) = decode(OffsetForLeaderEpochResponse, body).topics
    assert topic.partitions[0].error_code is SchemaErrorCode.unknown_server_error


def test_build_serves_every_version_from_one_set_of_values() -> None:
    topic_id = uuid.UUID(int=7)
    values: dict[str, object] = {
        "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [
            {"name": "t", "topic_id": topic_id, "partitions": [{"leader_epoch": 5, "isr_nodes": (1,)}]}
        ],
    }
    newest = build(MetadataResponse, values)
    assert newest.topics[0].topic_id == topic_id
    assert newest.topics[0].partitions[0].isr_nodes == (1,)
    assert newest.throttle_time == datetime.timedelta(0)
    oldest = build(MetadataResponseV0, values)
    assert oldest == build(MetadataResponseV0, newest)
    assert [field.name for field in dataclasses.fields(oldest)] == ["brokers", "topics"]
    for version in range(13):
        assert encode(build(response_type(3, version), newest)) == encode(
            build(response_type(3, version), values)
        )


def test_build_upgrades_an_old_request_with_the_definitions_defaults() -> None:
    old = MetadataRequestV1(topics=None)
    assert build(MetadataRequest, old) == MetadataRequest(
        topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )


def test_durations_may_be_given_as_milliseconds() -> None:
    by_number = build(MetadataResponse, {"throttle_time": 1500})
    by_value = build(MetadataResponse, {"throttle_time": datetime.timedelta(milliseconds=1500)})
    assert encode(by_number) == encode(by_value)


def test_times_may_be_given_as_milliseconds_and_null_is_minus_one() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def encoded(time: object) -> bytes:
        partition = {"log_append_time": time}
        return encode(build(ProduceResponse, {"responses": [{"partition_responses": [partition]}]}))

    assert encoded(moment) == encoded(round(moment.timestamp() * 1000))
    assert encoded(None) == encoded(-1)
