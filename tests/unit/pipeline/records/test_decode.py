"""Batches to Arrow: every row as written, whoever wrote the batch, and no row at all where bytes are bad."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from pipeline.records.decode import PLAIN_COLUMNS, RECORD_COLUMNS, decode_records, record_schema
from pipeline.records.headers import DamagedBatch, scan_headers
from springtide.wire.compression import Compression
from springtide.wire.record_batch import HEADER_BYTES, TimestampType, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch, write_varint
from tests.kit.pipeline.record_rows import TOPIC, Row, decoded, new_records, rows_of


@given(new_records, st.sampled_from(Compression), st.integers(0, 2**60))
@settings(max_examples=60, deadline=None)
def test_what_is_in_a_batch_is_in_the_rows(
    records: list[NewRecord], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(records, compression=compression, base_offset=base_offset)
    assert decoded(batch) == rows_of(records, base_offset=base_offset)


@given(
    st.lists(st.tuples(new_records, st.sampled_from(Compression)), min_size=1, max_size=6),
    st.integers(1, 3000),
    st.integers(0, 80),
)
@settings(max_examples=60, deadline=None)
def test_many_batches_give_the_same_rows_however_they_are_grouped_and_cut_off(
    batches: list[tuple[list[NewRecord], Compression]], target: int, torn: int
) -> None:
    data = b""
    expected: list[Row] = []
    for records, compression in batches:
        offset = len(expected)
        data += encode_batch(records, compression=compression, base_offset=offset)
        expected += rows_of(records, base_offset=offset)
    more = encode_batch([NewRecord(value=b"torn" * 10)], base_offset=len(expected))
    assert decoded(data + more[:torn], payload_bytes_target=target) == expected


@given(st.data(), st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_lanes_of_all_lengths_are_found_in_rounds_and_by_walking(data: st.DataObject, count: int) -> None:
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    fetched = b""
    expected: list[Row] = []
    for size in sizes:
        value = b"v" * (len(expected) % 300)
        records = [NewRecord(key=b"%d" % index, value=value, timestamp=index) for index in range(size)]
        offset = len(expected)
        fetched += encode_batch(records, base_offset=offset)
        expected += rows_of(records, base_offset=offset)
    assert decoded(fetched) == expected


@pytest.mark.parametrize(
    "size", [0, 1, 50, 55, 56, 57, 62, 63, 64, 8176, 8183, 8184, 8185, 8192, 1_048_570, 1_048_577]
)
def test_sizes_at_which_a_length_grows_are_read(size: int) -> None:
    data = b""
    expected: list[Row] = []
    for offset in range(0, 400, 2):  # lanes enough for rounds, one of them long
        value = b"v" * (size if offset in {40, 398} else size % 100)
        records = [NewRecord(value=value, timestamp=size), NewRecord(key=value)]
        data += encode_batch(records, base_offset=offset)
        expected += rows_of(records, base_offset=offset)
    assert decoded(data) == expected


@pytest.mark.parametrize("builder", [AioBuilder, KafkaPythonBuilder])
@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
@given(records=new_records)
@settings(max_examples=20, deadline=None)
def test_foreign_writers_batches_are_read(builder: Any, compression: int, records: list[NewRecord]) -> None:
    foreign = builder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=3,
        batch_size=1 << 24,
    )
    for index, record in enumerate(records):
        appended = foreign.append(
            index,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert appended
    assert decoded(bytes(foreign.build())) == rows_of(records)


def test_append_time_replaces_each_records_timestamp() -> None:
    records = [NewRecord(timestamp=5), NewRecord(timestamp=9)]
    batch = encode_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert decoded(batch) == rows_of(records, append_time=9)


def test_a_record_without_headers_has_null_and_one_with_an_empty_value_has_not() -> None:
    batch = encode_batch([NewRecord(), NewRecord(value=b"", headers=(("h", None),))])
    rows = next(iter(decode_records(batch, topic=TOPIC, partition=0, columns=RECORD_COLUMNS))).to_pylist()
    assert [row["headers"] for row in rows] == [None, [{"key": "h", "value": None}]]
    assert [row["value"] for row in rows] == [None, b""]


@given(new_records, st.integers(0, 25), st.integers(0, 25), st.sampled_from(Compression))
@settings(max_examples=60, deadline=None)
def test_rows_outside_the_range_are_dropped(
    records: list[NewRecord], first: int, count: int, compression: Compression
) -> None:
    half = len(records) // 2
    data = b"".join(
        encode_batch(part, base_offset=10 + at, compression=compression)
        for at, part in ((0, records[:half]), (half, records[half:]))
        if part
    )
    expected = rows_of(records, base_offset=10)[max(first - 10, 0) : max(first + count - 10, 0)]
    assert decoded(data, first_offset=first, end_offset=first + count) == expected


@pytest.mark.parametrize("columns", [("value",), ("offset", "key"), ("headers", "topic"), PLAIN_COLUMNS])
def test_only_the_columns_asked_for_are_made_in_their_order(columns: tuple[str, ...]) -> None:
    records = [NewRecord(key=b"k", value=b"v", headers=(("a", b"b"),))]
    expected = [{name: row[name] for name in columns} for row in rows_of(records)]
    assert decoded(encode_batch(records), columns=columns) == expected


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown columns nonsense"):
        record_schema(["key", "nonsense"])


def test_the_schema_is_what_spark_makes_of_the_kafka_sources_types() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    convert = pytest.importorskip("pyspark.sql.pandas.types").to_arrow_schema
    spark = types.StructType(
        [
            types.StructField("key", types.BinaryType()),
            types.StructField("value", types.BinaryType()),
            types.StructField("topic", types.StringType()),
            types.StructField("partition", types.IntegerType()),
            types.StructField("offset", types.LongType()),
            types.StructField("timestamp", types.TimestampType()),
            types.StructField("timestampType", types.IntegerType()),
            types.StructField(
                "headers",
                types.ArrayType(
                    types.StructType(
                        [
                            types.StructField("key", types.StringType()),
                            types.StructField("value", types.BinaryType()),
                        ]
                    )
                ),
            ),
        ]
    )
    assert convert(spark, timezone="UTC").equals(record_schema(RECORD_COLUMNS))


def test_control_batches_are_dropped_and_still_progress() -> None:
    control = encode_batch(
        [NewRecord(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
        base_offset=1,
        is_control=True,
        is_transactional=True,
    )
    data = encode_batch([NewRecord(value=b"a")]) + control
    assert [row["offset"] for row in decoded(data)] == [0]
    assert scan_headers(data).next_offset == 2


def test_aborted_transactions_are_dropped_up_to_their_marker() -> None:
    def batch(offset: int, producer_id: int, **options: Any) -> bytes:
        return encode_batch(
            [NewRecord(value=b"%d" % offset)], base_offset=offset, producer_id=producer_id, **options
        )

    def marker(offset: int, producer_id: int, kind: int) -> bytes:
        return encode_batch(
            [NewRecord(key=struct.pack(">hh", 0, kind), value=b"\0\0\0\0\0\0")],
            base_offset=offset,
            producer_id=producer_id,
            is_control=True,
            is_transactional=True,
        )

    data = (
        batch(0, 7, is_transactional=True)  # before the first aborted offset: committed
        + batch(1, 7, is_transactional=True)
        + batch(2, 8, is_transactional=True)
        + batch(3, 7)  # not transactional
        + marker(4, 8, 1)
        + marker(5, 7, 0)
        + batch(6, 7, is_transactional=True)
    )
    assert [row["offset"] for row in decoded(data, aborted=[(7, 1)])] == [0, 2, 3, 6]
    assert [row["offset"] for row in decoded(data, aborted=[(8, 2), (7, 1)])] == [0, 3, 6]
    assert [row["offset"] for row in decoded(data)] == [0, 1, 2, 3, 6]


def test_compacted_batches_keep_their_gaps_and_may_be_empty() -> None:
    header = decode_header(
        encode_batch([NewRecord(value=b"a"), NewRecord(value=b"b"), NewRecord(value=b"c")])
    )
    one = bytearray()
    body = bytearray(b"\0\0\x02\x01\x02b\0")  # offset delta 1, null key, value b"b"
    write_varint(one, len(body))
    kept = seal_batch(header._replace(record_count=1, batch_length=49 + len(one) + len(body)), one + body)
    empty = seal_batch(header._replace(base_offset=3, record_count=0, batch_length=49), b"")
    rows = decoded(kept + empty)
    assert [(row["offset"], row["value"]) for row in rows] == [(1, b"b")]
    assert scan_headers(kept + empty).next_offset == 6


def test_snappy_is_read_raw_as_librdkafka_writes_it() -> None:
    plain = encode_batch([NewRecord(value=b"v" * 500)])
    raw = bytes(cramjam.snappy.compress_raw(plain[HEADER_BYTES:]))
    header = decode_header(plain)._replace(attributes=2, batch_length=49 + len(raw))
    assert [row["value"] for row in decoded(seal_batch(header, raw))] == [b"v" * 500]


@pytest.mark.parametrize("time_ms", [-1, -62_135_596_800_000, 2**53])
def test_timestamps_of_all_ages_are_exact(time_ms: int) -> None:
    data = encode_batch([NewRecord(timestamp=0), NewRecord(timestamp=time_ms)])
    (batch,) = decode_records(data, topic=TOPIC, partition=0)
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [0, time_ms * 1000]


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**63), 2**62, 9_223_372_036_854_776])
def test_a_timestamp_that_microseconds_cannot_hold_is_an_error(time_ms: int) -> None:
    with pytest.raises(DamagedBatch, match="timestamp"):
        decoded(encode_batch([NewRecord(timestamp=time_ms)]))
