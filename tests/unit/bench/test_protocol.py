"""What the raw load sends, and what it makes of answers, good and bad."""

from __future__ import annotations

import struct

import pytest

from bench.protocol import (
    BadAnswer,
    Fetched,
    Leader,
    ProduceAnswers,
    decode_fetched,
    decode_isr_sizes,
    decode_leaders,
    decode_listed_offset,
    encode_produce,
    encode_produced_batch,
)
from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, encode, response_type
from springtide.wire.compression import Compression
from springtide.wire.produce import ProduceOutcome, decode_produce_request, encode_produce_response
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records

TOPIC = "orders"
CORRELATION = struct.Struct(">i")


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_a_produced_batch_holds_the_records_that_a_case_names() -> None:
    batch = encode_produced_batch(batch_records=3, record_bytes=100, timestamp_ms=7)
    values = [record.value for record in iter_records(batch)]
    assert [len(value or b"") for value in values] == [100, 100, 100]
    assert len(set(values)) == 3


@pytest.mark.parametrize("codec", [Compression.ZSTD, Compression.LZ4])
def test_a_compressed_batch_shrinks_by_about_half_as_real_records_do(codec: Compression) -> None:
    plain = encode_produced_batch(batch_records=600, record_bytes=100, timestamp_ms=7)
    batch = encode_produced_batch(batch_records=600, record_bytes=100, timestamp_ms=7, compression=codec)
    assert 0.4 < len(batch) / len(plain) < 0.75
    assert [len(record.value or b"") for record in iter_records(batch)] == [100] * 600


def test_in_sync_sets_are_read_by_their_size_and_a_partition_without_a_leader_has_none() -> None:
    sizes = [(0, [1, 2, 3]), (5, [1]), (0, [2])]
    partitions = [
        {"error_code": error, "partition_index": number, "leader_id": 1, "isr_nodes": isr}
        for number, (error, isr) in enumerate(sizes)
    ]
    fields = {"brokers": [], "topics": [{"name": TOPIC, "partitions": partitions}]}
    answer = CORRELATION.pack(0) + encode(build(response_type(ApiKey.METADATA, 1), fields))
    assert decode_isr_sizes(memoryview(answer)) == [3, 0, 1]


def test_the_broker_reads_a_produce_request_as_it_was_meant() -> None:
    batch = encode_produced_batch(batch_records=1, record_bytes=10, timestamp_ms=7)
    frame = encode_produce(topic=TOPIC, partition=2, acks=-1, batch=batch, correlation_id=5)
    assert struct.unpack_from(">ihhi", frame) == (len(frame) - 4, 0, 7, 5)
    header_bytes = 4 + 2 + 2 + 4 + 2 + len("bench")
    request = decode_produce_request(7, frame, header_bytes)
    assert (request.acks, request.transactional_id) == (-1, None)
    assert [(topic, partition, bytes(records)) for topic, partition, records in request.partitions] == [
        (TOPIC, 2, batch)
    ]


def produce_answer(*, correlation_id: int = 5, error_code: int = 0, topic: str = TOPIC) -> bytes:
    body = encode_produce_response(7, [ProduceOutcome(topic, 2, error_code, base_offset=42)])
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def test_a_good_produce_answer_gives_its_base_offset_wherever_it_stands() -> None:
    answers = ProduceAnswers(topic=TOPIC, partition=2)
    assert len(produce_answer()) == answers.size
    assert answers.check(bytearray(b"xyz" + produce_answer()), 3, correlation_id=5) == 42


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (produce_answer(error_code=6), "error code 6"),
        (produce_answer(correlation_id=4), "answer 4 where 5 is due"),
        (produce_answer(topic="others"), "not about what was produced"),
        (struct.pack(">i", 3) + produce_answer()[4:], "of 3 bytes"),
    ],
)
def test_a_bad_produce_answer_ends_the_run(answer: bytes, complaint: str) -> None:
    answers = ProduceAnswers(topic=TOPIC, partition=2)
    with pytest.raises(BadAnswer, match=complaint):
        answers.check(bytearray(answer), 0, correlation_id=5)


def metadata_answer(*, leaders: list[int], error_code: int = 0) -> memoryview:
    brokers = b"".join(
        struct.pack(">i", broker_id) + string("127.0.0.1") + struct.pack(">ih", 9000 + broker_id, -1)
        for broker_id in (1, 2)
    )
    partitions = b"".join(
        struct.pack(">hiiiiii", 0, index, leader, 1, 1, 1, 1) for index, leader in enumerate(leaders)
    )
    topic = struct.pack(">h", error_code) + string(TOPIC) + struct.pack(">bi", 0, len(leaders)) + partitions
    return memoryview(CORRELATION.pack(0) + struct.pack(">i", 2) + brokers + struct.pack(">ii", 1, 1) + topic)


def test_leaders_come_with_their_addresses_in_the_order_of_partitions() -> None:
    assert decode_leaders(metadata_answer(leaders=[2, 1])) == [
        Leader(0, "127.0.0.1", 9002),
        Leader(1, "127.0.0.1", 9001),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        metadata_answer(leaders=[1], error_code=3),
        metadata_answer(leaders=[-1]),
        metadata_answer(leaders=[1])[:-5],
        memoryview(CORRELATION.pack(0) + struct.pack(">i", 2**31 - 1)),
    ],
    ids=["unknown topic", "no leader", "cut off", "absurd count"],
)
def test_metadata_that_names_no_leader_is_refused(answer: memoryview) -> None:
    with pytest.raises(BadAnswer):
        decode_leaders(answer)


def listed(*, error_code: int) -> memoryview:
    return memoryview(
        CORRELATION.pack(0)
        + struct.pack(">i", 1)
        + string(TOPIC)
        + struct.pack(">iihqq", 1, 0, error_code, -1, 17)
    )


def test_a_listed_offset_is_read_and_an_error_is_not() -> None:
    assert decode_listed_offset(listed(error_code=0)) == 17
    with pytest.raises(BadAnswer, match="error code 6"):
        decode_listed_offset(listed(error_code=6))


def fetch_answer(records: bytes, *, error_code: int = 0, high_watermark: int = 99) -> memoryview:
    return memoryview(
        CORRELATION.pack(0)
        + struct.pack(">ihii", 0, 0, 0, 1)
        + string(TOPIC)
        + struct.pack(">iihqqq", 1, 0, error_code, high_watermark, high_watermark, 0)
        + struct.pack(">iii", -1, -1, len(records))
        + records
    )


def batch_at(base_offset: int, records: int) -> bytes:
    return encode_batch([NewRecord(value=b"v")] * records, base_offset=base_offset)


def test_whole_batches_are_counted_and_one_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole = batch_at(10, 3) + batch_at(13, 2)
    assert decode_header(whole).record_count == 3
    fetched = decode_fetched(fetch_answer(whole + batch_at(15, 1)[:-1]), fetch_offset=10)
    assert fetched == Fetched(
        high_watermark=99,
        log_start_offset=0,
        next_offset=15,
        records=5,
        bytes=len(whole),
        batches=[(10, 13), (13, 15)],
    )


def test_an_empty_answer_goes_on_where_it_was() -> None:
    assert decode_fetched(fetch_answer(b""), fetch_offset=10).next_offset == 10


def test_the_first_batch_may_begin_before_the_offset_that_was_asked_for() -> None:
    assert decode_fetched(fetch_answer(batch_at(8, 4)), fetch_offset=10).next_offset == 12


@pytest.mark.parametrize(
    "answer",
    [
        fetch_answer(batch_at(11, 1)),
        fetch_answer(batch_at(10, 1) + batch_at(12, 1)),
        fetch_answer(struct.pack(">qi", 10, -12) + bytes(60)),
        fetch_answer(b"", error_code=1),
        fetch_answer(b"")[:-3],
    ],
    ids=["gap at the start", "gap between", "batch of no length", "out of range", "cut off"],
)
def test_a_fetch_answer_with_a_gap_or_an_error_ends_the_run(answer: memoryview) -> None:
    with pytest.raises(BadAnswer):
        decode_fetched(answer, fetch_offset=10)
