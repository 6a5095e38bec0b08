"""Our classes of messages against kio's, in every version that is served, and against hostile bytes.

kio's decoder is only ever given bytes that its own encoder wrote.
"""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from kio.serial import entity_reader, entity_writer

from springtide.wire.apis import APIS, ApiKey
from springtide.wire.codec import request_class, response_class
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import ApiMessage
from springtide.wire.messages import (
    DescribeTopicPartitionsRequest,
    FetchReplicaState,
    FetchRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetForLeaderEpochResponse,
)
from springtide.wire.primitives import MalformedRequest, uvarint_bytes
from springtide.wire.typed import error_codes, read_message, write_message
from tests.kit.springtide.wire_classes import request_of, response_of, versions_of
from tests.kit.springtide.wire_messages import as_ours

RandomMessage = Callable[[type[Any], random.Random], Any]
MIB = 1024 * 1024


class Pair(NamedTuple):
    """A message of one version: our class, and kio's."""

    ours: type[ApiMessage]
    version: int
    kios: type[Any]


def served() -> Iterator[Pair]:
    for spec in APIS.values():
        for version in versions_of(spec):
            yield Pair(request_class(spec.api_key), version, request_of(spec.api_key, version))
            yield Pair(response_class(spec.api_key), version, response_of(spec.api_key, version))


PAIRS = list(served())


def kio_bytes(message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def test_every_version_has_the_bytes_and_the_values_of_kio(random_message: RandomMessage) -> None:
    for ours, version, kios in PAIRS:
        rng = random.Random(f"{ours.__name__} {version}")
        for _ in range(25):
            theirs = random_message(kios, rng)
            encoded = kio_bytes(theirs)
            assert entity_reader(kios)(encoded, 0) == (theirs, len(encoded))
            message = read_message(ours, version, encoded)
            assert message == as_ours(theirs, ours)
            assert write_message(message, version) == encoded


def test_what_a_version_lacks_is_left_out_and_read_as_its_default() -> None:
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=(OffsetCommitRequestPartition(committed_offset=5, committed_leader_epoch=3),),
    )
    whole = OffsetCommitRequest(group_id="g", group_instance_id="i", retention_time_ms=7, topics=(topic,))
    seen = read_message(OffsetCommitRequest, 3, write_message(whole, 3))
    assert (seen.group_instance_id, seen.retention_time_ms) == (None, 7)
    assert seen.topics[0].partitions[0].committed_leader_epoch == -1
    seen = read_message(OffsetCommitRequest, 9, write_message(whole, 9))
    assert (seen.group_instance_id, seen.retention_time_ms) == ("i", -1)
    assert seen.topics[0].partitions[0].committed_leader_epoch == 3


def test_null_is_empty_in_a_version_that_has_no_null_for_a_field() -> None:
    assert read_message(MetadataRequest, 0, write_message(MetadataRequest(topics=None), 0)).topics == ()
    assert read_message(MetadataRequest, 1, write_message(MetadataRequest(topics=None), 1)).topics is None


def test_a_field_of_another_name_is_no_field() -> None:
    with pytest.raises(TypeError):
        MetadataRequest(topic=None)  # type: ignore[call-arg]


def test_a_cut_message_is_malformed_wherever_it_is_cut(random_message: RandomMessage) -> None:
    rng = random.Random(1)
    for ours, version, kios in PAIRS:
        whole = kio_bytes(random_message(kios, rng))
        cuts = range(len(whole)) if len(whole) < 80 else sorted(rng.sample(range(len(whole)), 60))
        for cut in cuts:
            with pytest.raises(MalformedRequest):
                read_message(ours, version, whole[:cut])


def test_bytes_after_a_message_are_malformed_unless_they_are_asked_for(random_message: RandomMessage) -> None:
    for ours, version, kios in PAIRS:
        whole = kio_bytes(random_message(kios, random.Random(2)))
        with pytest.raises(MalformedRequest):
            read_message(ours, version, whole + b"\0")
        rest: list[int] = []
        seen = read_message(ours, version, whole + b"abc", on_rest=rest.append)
        assert write_message(seen, version) == whole
        assert rest == [3]


def test_mutated_messages_are_read_or_are_malformed_and_nothing_else(random_message: RandomMessage) -> None:
    rng = random.Random(3)
    for _ in range(15_000):
        ours, version, kios = rng.choice(PAIRS)
        data = bytearray(kio_bytes(random_message(kios, rng)))
        for _ in range(rng.randint(1, 4)):
            if data and rng.random() < 0.7:
                data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            else:
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(5))
        try:
            read_message(ours, version, data)
        except MalformedRequest:
            continue


def test_random_bytes_take_bounded_memory() -> None:
    rng = random.Random(4)
    for ours, version, _ in PAIRS:  # what is compiled stays, and is none of theirs
        write_message(ours(), version)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            data = rng.randbytes(rng.randrange(40))
            if rng.random() < 0.5:
                data = bytes(rng.choice([0, 1, 2, 0x7F, 0xFF]) for _ in range(rng.randrange(40)))
            ours, version, _kios = rng.choice(PAIRS)
            try:
                read_message(ours, version, data)
            except MalformedRequest:
                continue
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_eleven_bytes_that_claim_four_billion_topics_cost_nothing() -> None:
    hostile = bytes.fromhex("00ffff000003e8ffffffff0f")
    tracemalloc.start()
    try:
        for ours, version, _ in PAIRS:
            with pytest.raises(MalformedRequest):
                read_message(ours, version, hostile)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_elements_of_one_byte_can_not_buy_gigabytes() -> None:
    partitions = 5_000_000
    body = struct.pack(">i", partitions) + b"\0\0" * partitions  # as many empty topic names
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match="budget"):
            read_message(MetadataRequest, 1, body)
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
    if is_good:
        expected = MetadataRequest(topics=(MetadataRequestTopic(name="a"),), allow_auto_topic_creation=True)
        assert read_message(MetadataRequest, 12, V12 + tail) == expected
    else:
        with pytest.raises(MalformedRequest):
            read_message(MetadataRequest, 12, V12 + tail)


def test_a_known_tag_must_use_up_its_bytes() -> None:
    fetch = write_message(FetchRequest(replica_state=FetchReplicaState()), 17)
    assert fetch.endswith(b"\0")
    replica_state = struct.pack(">iqb", 3, 9, 0)
    good = fetch[:-1] + b"\x01\x01" + uvarint_bytes(len(replica_state)) + replica_state
    assert read_message(FetchRequest, 17, good).replica_state.replica_id == 3
    with pytest.raises(MalformedRequest, match="left over"):
        read_message(
            FetchRequest, 17, good[: -len(replica_state) - 1] + uvarint_bytes(14) + replica_state + b"\0"
        )


@pytest.mark.parametrize(
    ("ours", "version", "body", "why"),
    [
        (MetadataRequest, 12, b"\x02" + bytes(16) + b"\x03\xc3\x28\x00\x01\x00\x00", "not UTF-8"),
        (MetadataRequest, 12, b"\x02" + bytes(16) + b"\x04\xed\xa0\x80\x00\x01\x00\x00", "a lone surrogate"),
        (MetadataRequest, 1, struct.pack(">i", -2), "an array count of -2"),
        (MetadataRequest, 1, struct.pack(">ih", 1, -1), "a null topic name"),
        (MetadataRequest, 1, struct.pack(">ih", 1, -2), "a string length of -2"),
        (OffsetForLeaderEpochResponse, 4, struct.pack(">i", 0) + b"\x00\x00", "a null array"),
        (DescribeTopicPartitionsRequest, 0, b"\x01" + struct.pack(">i", 1) + b"\x02\x00", "a marker of 2"),
    ],
)
def test_what_the_schema_forbids_is_malformed(
    ours: type[ApiMessage], version: int, body: bytes, why: str
) -> None:
    with pytest.raises(MalformedRequest):
        read_message(ours, version, body)
        pytest.fail(why)


def test_an_error_code_of_a_later_release_becomes_the_unknown_one() -> None:
    body = struct.pack(">i", 0) + b"\x02\x02t\x02" + struct.pack(">hiiq", 9999, 0, 0, 0) + b"\0\0\0"
    (topic,) = read_message(OffsetForLeaderEpochResponse, 4, body).topics
    assert topic.partitions[0].error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_only_the_errors_that_a_version_has_are_counted() -> None:
    partition = MetadataResponsePartition(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    answer = MetadataResponse(
        error_code=ErrorCode.REBOOTSTRAP_REQUIRED, topics=(MetadataResponseTopic(partitions=(partition,)),)
    )
    assert list(error_codes(answer, 12)) == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert sorted(error_codes(answer, 13)) == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REBOOTSTRAP_REQUIRED]
    assert ApiKey.METADATA is MetadataResponse.API
