"""Batches from our encoder and from two foreign ones, good and bad."""

from __future__ import annotations

import io
import random
import struct
import time
import tracemalloc

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from springtide.wire.compression import (
    Compression,
    CorruptCompressedData,
    DecompressedTooLarge,
    compress,
    decompress,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import check_produced_records
from springtide.wire.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    TimestampType,
    check_produced_batch,
    decode_header,
)
from springtide.wire.record_spans import (
    copy_records,
    largest_timestamp_delta,
    read_payload,
    read_spans,
)
from springtide.wire.records import (
    NewRecord,
    Record,
    encode_batch,
    iter_records,
    seal_batch,
)

MIB = 1024 * 1024

new_records = st.lists(
    st.builds(
        NewRecord,
        key=st.none() | st.binary(max_size=40),
        value=st.none() | st.binary(max_size=200),
        timestamp=st.integers(0, 2**42),
        headers=st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=20,
)


def deep(batch: bytes, *, cap: int = MIB) -> ErrorCode:
    view = memoryview(batch)
    assert check_produced_batch(view, max_message_bytes=2**31) is ErrorCode.NONE
    return check_produced_records(view, decode_header(view), decompressed_bytes_max=cap).error


@given(new_records, st.sampled_from(Compression), st.integers(0, 2**60))
def test_what_is_encoded_is_read_back(
    records: list[NewRecord], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(records, compression=compression, base_offset=base_offset)
    expected = [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]
    assert list(iter_records(batch)) == expected
    assert list(iter_records(batch + b"next batch")) == expected


@given(new_records, st.sampled_from(Compression))
@settings(max_examples=50)
def test_a_foreign_reader_reads_our_batches(records: list[NewRecord], compression: Compression) -> None:
    batch = DefaultRecordBatch(encode_batch(records, compression=compression))
    assert batch.validate_crc()
    seen = [NewRecord(r.key, r.value, r.timestamp, tuple(r.headers)) for r in batch]
    assert seen == records


@pytest.mark.parametrize("compression", list(Compression))
def test_a_foreign_writers_batches_pass_both_checks(compression: Compression) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for index in range(50):
        builder.append(index, timestamp=1000 + index, key=b"k", value=b"v" * index, headers=[("h", None)])
    batch = bytes(builder.build())
    assert deep(batch) is ErrorCode.NONE
    assert [record.value for record in iter_records(batch)] == [b"v" * index for index in range(50)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_record_without_a_key_is_refused_where_keys_are_needed(compression: Compression) -> None:
    def judged(*keys: bytes | None) -> ErrorCode:
        batch = memoryview(encode_batch([NewRecord(key, b"v") for key in keys], compression=compression))
        header = decode_header(batch)
        return check_produced_records(batch, header, decompressed_bytes_max=MIB, needs_keys=True).error

    assert judged(b"k", b"", b"k" * 70) is ErrorCode.NONE
    assert judged(b"k", None) is ErrorCode.INVALID_RECORD


def test_append_time_replaces_each_records_timestamp() -> None:
    batch = encode_batch(
        [NewRecord(timestamp=5), NewRecord(timestamp=9)], timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    assert [record.timestamp for record in iter_records(batch)] == [9, 9]


def test_snappy_is_read_raw_as_librdkafka_writes_it() -> None:
    plain = encode_batch([NewRecord(value=b"v" * 500)])
    raw = bytes(cramjam.snappy.compress_raw(plain[HEADER_BYTES:]))
    header = decode_header(plain)._replace(attributes=2, batch_length=49 + len(raw))
    assert [record.value for record in iter_records(seal_batch(header, raw))] == [b"v" * 500]


def test_gzip_of_several_members_is_one_stream() -> None:
    data = compress(Compression.GZIP, b"one") + compress(Compression.GZIP, b"two")
    assert decompress(Compression.GZIP, data, decompressed_bytes_max=6) == b"onetwo"


def test_the_cost_of_empty_gzip_members_grows_as_their_bytes_do() -> None:
    """A leader opens batches between two of its answers. Each member once copied all that followed it: four
    times the bytes took sixteen times as long."""

    def cost_s(members: int) -> float:
        data = compress(Compression.GZIP, b"") * members
        began = time.process_time()
        assert decompress(Compression.GZIP, data, decompressed_bytes_max=1) == b""
        return time.process_time() - began

    assert min(cost_s(80_000) for _ in range(3)) < 9 * min(cost_s(20_000) for _ in range(3))


def test_lz4_blocks_do_not_lean_on_each_other() -> None:
    """LZ4's frame format: bit 5 of the byte after the magic. Java clients refuse the batch without it."""
    frame = compress(Compression.LZ4, bytes(range(256)) * 4096)
    assert frame[4] & 0b0010_0000


@pytest.mark.parametrize("compression", [c for c in Compression if c is not Compression.NONE])
def test_a_cap_is_exact_for_every_codec(compression: Compression) -> None:
    data = compress(compression, bytes(100_000))
    assert bytes(decompress(compression, data, decompressed_bytes_max=100_000)) == bytes(100_000)
    with pytest.raises(DecompressedTooLarge):
        decompress(compression, data, decompressed_bytes_max=99_999)


@pytest.mark.parametrize("compression", [c for c in Compression if c is not Compression.NONE])
@pytest.mark.parametrize("damage", ["truncated", "empty", "junk"])
def test_a_broken_stream_is_corrupt_for_every_codec(compression: Compression, damage: str) -> None:
    whole = compress(compression, bytes(range(256)) * 400)
    data = {"truncated": whole[: len(whole) // 2], "empty": b"", "junk": b"\xff" * 64}[damage]
    with pytest.raises(CorruptCompressedData):
        decompress(compression, data, decompressed_bytes_max=10 * MIB)


@given(st.sampled_from(Compression), st.binary(max_size=300))
def test_decompression_of_any_bytes_fails_only_in_named_ways(compression: Compression, data: bytes) -> None:
    try:
        out = decompress(compression, data, decompressed_bytes_max=10_000)
    except (CorruptCompressedData, DecompressedTooLarge):
        return
    assert len(out) <= 10_000


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_too_large_and_never_takes_more_memory_than_its_cap(compression: Compression) -> None:
    bomb = compress(compression, bytes(64 * MIB))
    header = decode_header(encode_batch([NewRecord()]))
    batch = seal_batch(header._replace(attributes=int(compression), batch_length=49 + len(bomb)), bomb)
    tracemalloc.start()
    try:
        assert deep(batch, cap=2 * MIB) is ErrorCode.MESSAGE_TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 6 * MIB
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_claims_the_impossible_is_corrupt_before_anything_is_allocated() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"abc"  # 4 GiB out of three bytes
    with pytest.raises(CorruptCompressedData, match="claims more"):
        decompress(Compression.SNAPPY, claim, decompressed_bytes_max=2**40)


def lying(payload: bytes, *, count: int = 1) -> bytes:
    header = decode_header(encode_batch([NewRecord()]))
    return seal_batch(
        header._replace(batch_length=49 + len(payload), record_count=count, last_offset_delta=count - 1),
        payload,
    )


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\x0c\x00\x00\x02\x01\x01\x00", "offset delta 1 where 0 is due"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "key length -2"),
        (b"\x0c\x00\x00\x00\x20\x01\x00", "key length 16 in a record of six bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "header count -1"),
        (b"\x0c\x00\x00\x00\x01\x01\x7e", "63 headers in no bytes"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "null header key"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "a byte left over inside the record"),
        (b"\x0c\x00\x80\x80\x80\x80\x80", "varint without an end"),
    ],
)
def test_a_record_that_breaks_its_layout_is_invalid(payload: bytes, why: str) -> None:
    batch = lying(payload)
    assert deep(batch) is ErrorCode.INVALID_RECORD, why
    if "offset delta" not in why:  # a log that was compacted has gaps: a reader takes any delta
        with pytest.raises(CorruptBatch):
            list(iter_records(batch))


def test_a_compressed_batch_whose_inner_count_lies_is_invalid() -> None:
    payload = compress(Compression.ZSTD, encode_batch([NewRecord(), NewRecord()])[HEADER_BYTES:])
    for count in (1, 3):
        header = decode_header(encode_batch([NewRecord()]))._replace(
            attributes=4, batch_length=49 + len(payload), record_count=count, last_offset_delta=count - 1
        )
        batch = seal_batch(header, payload)
        assert deep(batch) is ErrorCode.INVALID_RECORD
        with pytest.raises(CorruptBatch):
            list(iter_records(batch))


def test_reading_refuses_a_bad_crc_and_an_old_magic() -> None:
    batch = bytearray(encode_batch([NewRecord(value=b"v")]))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        list(iter_records(batch))
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        list(iter_records(batch))


def test_a_header_round_trips_through_struct_and_io() -> None:
    batch = encode_batch([NewRecord()], base_offset=2**40, leader_epoch=9)
    head = io.BytesIO(batch).read(16)
    assert struct.unpack(">qii", head) == (2**40, len(batch) - 12, 9)


def test_mutated_records_under_a_true_crc_fail_only_in_named_ways_and_the_walks_agree() -> None:
    rng = random.Random(6)
    good = [NewRecord(b"key", b"v" * n, n, (("h", b"x"), ("i", None))) for n in range(5)]
    refused = 0
    for _ in range(5000):
        compression = rng.choice(list(Compression))
        batch = encode_batch(good, compression=compression)
        payload = bytearray(batch[HEADER_BYTES:])
        for _ in range(rng.randint(1, 3)):
            payload[rng.randrange(len(payload))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        mutated = memoryview(seal_batch(decode_header(batch), payload))
        code = check_produced_records(mutated, decode_header(mutated), decompressed_bytes_max=MIB).error
        try:
            list(iter_records(mutated, decompressed_bytes_max=MIB))
        except CorruptBatch as error:  # a header name's characters are the reader's concern alone
            assert code is not ErrorCode.NONE or "UTF-8" in error.reason
        try:
            records = read_payload(mutated, decode_header(mutated))
            places = read_spans(records, decode_header(mutated)).places
            copy_records(records, places)
            largest_timestamp_delta(records, places)
        except CorruptBatch:
            assert code is not ErrorCode.NONE
        refused += code is not ErrorCode.NONE
    assert refused > 1000
