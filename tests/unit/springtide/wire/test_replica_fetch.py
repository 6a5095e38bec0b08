"""The one-partition exchange of followers, held against the general reader and writer of Fetch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from springtide.wire.apis import REPLICA_FETCH_VERSION, ApiKey
from springtide.wire.compression import Buffer
from springtide.wire.fetch_request import (
    CONSUMER_ID,
    REPLICA_STATE_SINCE,
    FetchPartition,
    FetchRequest,
    LogMark,
    RequestTemplate,
    decode_fetch_request,
    encode_fetch_request,
    read_fetch_request,
)
from springtide.wire.fetch_response import (
    AbortedTransaction,
    AppliedRound,
    Compacted,
    EpochEnd,
    FetchedPartition,
    FetchResponse,
    decode_fetch_frame,
    decode_fetch_response,
    encode_fetch_frame,
    encode_fetch_response,
)
from springtide.wire.framing import Chunk, FileChunk, encode_request_frame, encode_response_frame
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.leader_hints import CurrentLeader
from springtide.wire.primitives import REQUEST_ELEMENTS_MAX, MalformedRequest, read_whole
from tests.kit.springtide.unread_file import UnreadFile

P = ParamSpec("P")
T = TypeVar("T")
int8s = st.integers(-(2**7), 2**7 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.binary(min_size=16, max_size=16)
versions = st.integers(REPLICA_STATE_SINCE - 2, REPLICA_FETCH_VERSION)

marked_batches = st.lists(st.tuples(int64s, st.integers(0, 2**32 - 1)), max_size=3).map(tuple)
marks = st.builds(LogMark, int32s, int64s, marked_batches)
asked_partitions = st.builds(
    FetchPartition,
    topic_ids,
    int32s,
    int32s,
    int64s,
    int32s,
    int64s,
    int32s,
    st.none() | marks,
    st.booleans(),
)
requests = st.builds(
    FetchRequest,
    replica_id=int32s,
    broker_epoch=int64s,
    max_wait_ms=int32s,
    min_bytes=int32s,
    max_bytes=int32s,
    isolation_level=int8s,
    session_id=int32s,
    session_epoch=int32s,
    partitions=st.lists(asked_partitions, max_size=2) | asked_partitions.map(lambda one: [one]),
    forgotten=st.just([]) | st.lists(st.tuples(topic_ids, int32s), max_size=2),
    rack_id=st.sampled_from(["", "", "rack"]),
)
#: Where to change a message, and to what; lengths around the usual one are what a fast reader gets wrong.
changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)
tails = st.sampled_from([b"", b"", b"\x00", b"\x01\x00\x00"])

answered_partitions = st.builds(
    FetchedPartition,
    topic_ids,
    int32s,
    st.just(0) | int16s,
    int64s,
    int64s,
    int64s,
    st.sampled_from([0, 1, 99, 126, 127, 128, 129, 16_382, 16_383, 16_384]).map(
        lambda size: (b"r" * size,) if size else ()
    ),
    int32s,
    st.none() | st.builds(EpochEnd, int32s, int64s),
    st.none() | st.builds(CurrentLeader, int32s, int32s),
    st.none() | st.lists(st.builds(AbortedTransaction, int64s, int64s), max_size=2).map(tuple),
    compacted=st.none() | st.builds(Compacted, int64s, int64s),
    applied_round=st.none() | st.builds(AppliedRound, int64s, int64s, int64s),
)


def outcome(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | str:
    """What reading gives; that it is refused, whatever the words."""
    try:
        return read(*args, **kwargs)
    except MalformedRequest:
        return "malformed"


def general_request(version: int, frame: Buffer, position: int) -> FetchRequest:
    return read_whole(
        lambda reader: read_fetch_request(reader, version),
        frame,
        position,
        elements_max=REQUEST_ELEMENTS_MAX,
    )


@pytest.mark.parametrize("replica_id", [-1, 2])
def test_bytes_after_a_request_are_a_clients_only(replica_id: int) -> None:
    message = FetchRequest(replica_id, -1, 3, 4, 5, 0, 6, 7, [], [])
    frame = encode_fetch_request(REPLICA_FETCH_VERSION, message) + b"abc"
    rest: list[int] = []
    if replica_id == -1:
        assert decode_fetch_request(REPLICA_FETCH_VERSION, frame, 0, on_rest=rest.append) == message
        assert rest == [3]
    else:
        with pytest.raises(MalformedRequest):
            decode_fetch_request(REPLICA_FETCH_VERSION, frame, 0, on_rest=rest.append)


TELLING_BYTES = (0, 1, 2, 3, 13, 126, 127, 128, 129, 254, 255)


def each_byte_changed(message: bytes) -> Iterator[memoryview]:
    """The message itself; cut or continued by a byte; and each byte of it changed to what means something."""
    yield from (memoryview(message), memoryview(message)[:-1], memoryview(message + b"\x00"))
    for position, was in enumerate(message):
        for value in (*TELLING_BYTES, was ^ 1):
            yield changed(message, [(position, value)], b"")


def changed(message: bytes, at: list[tuple[int, int]], tail: bytes, cut: int = 0) -> memoryview:
    out = bytearray(message)
    for position, value in at:
        out[position % len(out)] = value
    return memoryview(bytes(out[: len(out) - cut]) + tail)


@given(requests, versions, changes, tails, st.integers(0, 3))
def test_a_request_good_or_bad_means_what_the_general_reader_says(
    request_: FetchRequest, version: int, at: list[tuple[int, int]], tail: bytes, cut: int
) -> None:
    frame = changed(b"head" + encode_fetch_request(REPLICA_FETCH_VERSION, request_), at, tail, cut)
    expected = outcome(general_request, version, frame, 4)
    assert outcome(decode_fetch_request, version, frame, 4) == expected


def test_a_usual_request_with_any_byte_changed_means_what_the_general_reader_says() -> None:
    asked = FetchPartition(bytes(range(16)), 1, 2, 3, 4, 5, 6)
    body = encode_fetch_request(REPLICA_FETCH_VERSION, FetchRequest(1, 2, 3, 4, 5, 0, 6, 7, [asked]))
    read = decode_fetch_request(REPLICA_FETCH_VERSION, memoryview(body), 0)
    assert read.partitions == [asked]
    for version in range(REPLICA_STATE_SINCE - 1, REPLICA_FETCH_VERSION + 1):
        for frame in each_byte_changed(body):
            expected = outcome(general_request, version, frame, 0)
            assert outcome(decode_fetch_request, version, frame, 0) == expected


@pytest.mark.parametrize("records_bytes", [0, 1, 126, 127, 200])
def test_a_usual_answer_with_any_byte_changed_means_what_the_general_reader_says(records_bytes: int) -> None:
    records = (b"\x00" * records_bytes,) if records_bytes else ()
    body = encode_fetch_response(
        REPLICA_FETCH_VERSION, [FetchedPartition(bytes(range(16)), 1, 0, 2, 2, 0, records)], session_id=3
    )
    message = joined(encode_response_frame(1, body, has_flexible_header=True))[4:]
    assert decode_fetch_frame(memoryview(message))[1].partitions[0].high_watermark == 2
    for frame in each_byte_changed(message):
        assert outcome(decode_fetch_frame, frame) == outcome(general_answer, frame)


@given(
    asked=asked_partitions.map(lambda one: one._replace(mark=None, wants_producers=False)),
    session_id=int32s,
    replica_id=int32s.filter(lambda replica_id: replica_id != CONSUMER_ID),
    broker_epoch=int64s,
    client_id=st.text(max_size=20),
    number=st.integers(0, 2**31 - 1),
)
def test_a_templates_request_is_the_general_one(
    *, asked: FetchPartition, session_id: int, replica_id: int, broker_epoch: int, client_id: str, number: int
) -> None:
    template = RequestTemplate(
        client_id=client_id,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_485_760,
    )
    frame = template.encode(
        correlation_id=number,
        session_id=session_id,
        session_epoch=number,
        topic_id=bytes(asked.topic),  # type: ignore[arg-type]
        partition=asked.partition,
        leader_epoch=asked.leader_epoch,
        fetch_offset=asked.fetch_offset,
        last_fetched_epoch=asked.last_fetched_epoch,
        log_start_offset=asked.log_start_offset,
        partition_bytes_max=asked.max_bytes,
    )
    message = FetchRequest(
        replica_id, broker_epoch, 500, 1, 10_485_760, 0, session_id, number, [asked], [], ""
    )
    header = encode_request_header(
        api_key=ApiKey.FETCH, api_version=REPLICA_FETCH_VERSION, correlation_id=number, client_id=client_id
    )
    assert frame == encode_request_frame(header, encode_fetch_request(REPLICA_FETCH_VERSION, message))


def joined(chunks: list[Chunk]) -> bytes:
    return b"".join(b"f" * chunk.length if isinstance(chunk, FileChunk) else bytes(chunk) for chunk in chunks)


@given(
    number=st.integers(0, 2**31 - 1),
    topic_id=topic_ids,
    partition=int32s,
    offset=int64s,
    sizes=st.lists(st.integers(1, 20_000), max_size=3),
)
@example(number=1, topic_id=bytes(16), partition=0, offset=0, sizes=[126])
@example(number=1, topic_id=bytes(16), partition=0, offset=0, sizes=[127])
@example(number=1, topic_id=bytes(16), partition=0, offset=0, sizes=[16_383])
def test_an_answer_is_the_general_one_and_its_records_stay_what_they_are(
    *, number: int, topic_id: bytes, partition: int, offset: int, sizes: list[int]
) -> None:
    records = [
        FileChunk(UnreadFile(), 0, size) if index == 1 else memoryview(b"r" * size)
        for index, size in enumerate(sizes)
    ]
    chunks = encode_fetch_frame(
        correlation_id=number,
        session_id=-number,
        topic_id=topic_id,
        partition=partition,
        offsets=(offset, offset // 2, ~offset),
        records=records,
        records_bytes=sum(sizes),
    )
    body = encode_fetch_response(
        REPLICA_FETCH_VERSION,
        [FetchedPartition(topic_id, partition, 0, offset, offset // 2, ~offset, records)],
        session_id=-number,
    )
    assert joined(chunks) == joined(encode_response_frame(number, body, has_flexible_header=True))
    assert all(chunk is record for chunk, record in zip(chunks[1:-1], records, strict=True))


def general_answer(frame: memoryview) -> tuple[int, FetchResponse]:
    correlation_id, position = decode_response_header(
        frame, api_key=ApiKey.FETCH, api_version=REPLICA_FETCH_VERSION
    )
    return correlation_id, decode_fetch_response(REPLICA_FETCH_VERSION, frame, position)


@given(
    partitions=st.lists(answered_partitions, max_size=2) | answered_partitions.map(lambda one: [one]),
    number=int32s,
    error_code=int16s,
    at=changes,
    tail=tails,
    cut=st.integers(0, 3),
)
def test_an_answer_good_or_bad_means_what_the_general_reader_says(
    *,
    partitions: list[FetchedPartition],
    number: int,
    error_code: int,
    at: list[tuple[int, int]],
    tail: bytes,
    cut: int,
) -> None:
    body = encode_fetch_response(
        REPLICA_FETCH_VERSION, partitions, error_code=error_code, session_id=number, throttle_time_ms=number
    )
    frame = changed(joined(encode_response_frame(number, body, has_flexible_header=True))[4:], at, tail, cut)
    assert outcome(decode_fetch_frame, frame) == outcome(general_answer, frame)


def test_records_of_the_usual_answer_are_a_view_of_the_frame() -> None:
    chunks = encode_fetch_frame(
        correlation_id=1,
        session_id=2,
        topic_id=bytes(16),
        partition=3,
        offsets=(4, 4, 0),
        records=[b"r" * 200],
        records_bytes=200,
    )
    buffer = bytearray(joined(chunks)[4:])
    _, answer = decode_fetch_frame(memoryview(buffer))
    (records,) = answer.partitions[0].records
    buffer[:] = b"\xee" * len(buffer)
    assert bytes(records) == b"\xee" * 200  # type: ignore[arg-type]
