"""Rows to batches: what is written is read back by all readers, and the cut depends on nothing but the
rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.memory_records import MemoryRecords
from lz4.frame import get_frame_info

from pipeline.records.cut import RECORD_OVERHEAD_MAX
from pipeline.records.decode import RECORD_COLUMNS
from pipeline.records.encode import BatchOptions, EncodedBatch, PartitionEncoder, RecordTooLarge
from pipeline.records.fields import HEADERS_TYPE
from pipeline.records.rows import BadColumn, BadRow
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import check_produced_records
from springtide.wire.record_batch import HEADER_BYTES, check_produced_batch, decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.pipeline.record_rows import decoded, new_records, rows_of

NOW_MS = 1_700_000_000_123
PLAIN = BatchOptions()
MIB = 1024 * 1024

streams = st.lists(new_records, max_size=8).map(lambda parts: [record for part in parts for record in part])


def table_of(records: Sequence[NewRecord]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp * 1000 for record in records], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "headers": pa.array(
                [
                    [{"key": name, "value": value} for name, value in record.headers] or None
                    for record in records
                ],
                HEADERS_TYPE,
            ),
        }
    )


def encoded(
    chunks: Sequence[pa.RecordBatch | pa.Table], *, options: BatchOptions = PLAIN, **producer: int
) -> list[EncodedBatch]:
    encoder = PartitionEncoder(options=options, timestamp_ms=NOW_MS, **producer)
    batches = [batch for chunk in chunks for batch in encoder.add(chunk)]
    batches += encoder.finish()
    assert encoder.finish() == []
    return batches


def on_a_log(batches: Sequence[EncodedBatch]) -> bytes:
    """The batches with the offsets a leader gives them, which are outside the CRC."""
    return b"".join(batch.first_row.to_bytes(8) + batch.data[8:] for batch in batches)


@given(streams, st.sampled_from(Compression), st.integers(HEADER_BYTES + 400, 3000), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(
    records: list[NewRecord], compression: Compression, bytes_max: int, records_max: int
) -> None:
    options = BatchOptions(compression, batch_bytes_max=bytes_max, records_max=records_max)
    batches = encoded([table_of(records)], options=options, producer_id=5, producer_epoch=2)
    assert decoded(on_a_log(batches)) == rows_of(records)
    row = 0
    for batch in batches:
        view = memoryview(batch.data)
        assert check_produced_batch(view, max_message_bytes=bytes_max) is ErrorCode.NONE
        header = decode_header(view)
        checked = check_produced_records(view, header, decompressed_bytes_max=MIB)
        assert (checked.error, checked.header) == (ErrorCode.NONE, header)
        assert (header.producer_id, header.producer_epoch) == (5, 2)
        assert header.base_sequence == batch.base_sequence == batch.first_row == row
        assert header.record_count == batch.record_count <= records_max
        assert header.last_sequence == batch.last_sequence
        assert header.max_timestamp == batch.max_timestamp
        assert header.max_timestamp == max(record.timestamp for record in iter_records(view))
        row += batch.record_count
    assert row == len(records)


@given(new_records, st.sampled_from(Compression))
@settings(max_examples=60, deadline=None)
def test_foreign_readers_read_it(records: list[NewRecord], compression: Compression) -> None:
    (batch,) = encoded([table_of(records)], options=BatchOptions(compression))
    aio = AioBatch(batch.data)
    assert aio.validate_crc()
    assert [NewRecord(one.key, one.value, one.timestamp, tuple(one.headers)) for one in aio] == records
    foreign = MemoryRecords(batch.data).next_batch()
    assert isinstance(foreign, KafkaPythonBatch)
    assert foreign.validate_crc()
    assert [NewRecord(one.key, one.value, one.timestamp, tuple(one.headers)) for one in foreign] == records


@given(new_records)
@settings(max_examples=60, deadline=None)
def test_a_batch_is_byte_for_byte_what_our_plain_encoder_makes(records: list[NewRecord]) -> None:
    (batch,) = encoded([table_of(records)], producer_id=9, producer_epoch=0)
    assert batch.data == encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=0)


@given(streams, st.data(), st.sampled_from([Compression.NONE, Compression.ZSTD]))
@settings(max_examples=60, deadline=None)
def test_the_cut_does_not_depend_on_how_rows_arrive(
    records: list[NewRecord], data: st.DataObject, compression: Compression
) -> None:
    options = BatchOptions(compression, batch_bytes_max=600, records_max=5)
    whole = table_of(records)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=5)))
    pieces = [
        whole.slice(first, last - first)
        for first, last in zip([0, *bounds], [*bounds, len(records)], strict=True)
    ]
    expected = encoded([whole], options=options, producer_id=1, producer_epoch=0)
    assert encoded(pieces, options=options, producer_id=1, producer_epoch=0) == expected
    table = pa.Table.from_batches(pieces, whole.schema)
    assert encoded([table], options=options, producer_id=1, producer_epoch=0) == expected


@given(streams, st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_an_attempt_that_resumes_behind_a_stored_batch_sends_the_same_rest(
    records: list[NewRecord], stored: int
) -> None:
    options = BatchOptions(batch_bytes_max=600, records_max=5)
    first = encoded([table_of(records)], options=options, producer_id=1, producer_epoch=0)
    done = sum(batch.record_count for batch in first[:stored])
    resumed = encoded(
        [table_of(records).slice(done)], options=options, producer_id=1, producer_epoch=0, first_row=done
    )
    assert resumed == first[stored:]


def test_compression_and_timestamps_do_not_move_the_cut() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%05d" % (index % 7) * 9 for index in range(300)]})
    shapes = {
        tuple(
            batch.record_count
            for batch in encoded(
                [rows.append_column("timestamp", pa.array([time] * 300, pa.timestamp("ms")))],
                options=BatchOptions(compression, batch_bytes_max=1000),
            )
        )
        for compression in Compression
        for time in (0, 2**40)
    }
    assert len(shapes) == 1
    assert sum(next(iter(shapes))) == 300


def test_batches_are_as_full_as_they_may_be() -> None:
    size = RECORD_OVERHEAD_MAX + 1 + 2 + 100 + 1  # null key, a length of two bytes, the value, no headers
    rows = pa.RecordBatch.from_pydict({"value": [b"v" * 100] * 9})
    for room, expected in ((4 * size, [4, 4, 1]), (4 * size - 1, [3, 3, 3]), (9 * size, [9])):
        options = BatchOptions(batch_bytes_max=HEADER_BYTES + room)
        assert [batch.record_count for batch in encoded([rows], options=options)] == expected


def test_what_does_not_shrink_is_stored_plain_and_never_too_large() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [random.Random(n).randbytes(1500) for n in range(9)]})
    for compression in Compression:
        for batch in encoded([rows], options=BatchOptions(compression, batch_bytes_max=2000)):
            assert decode_header(batch.data).compression == Compression.NONE
            assert len(batch.data) <= 2000


def test_lz4_frames_have_independent_blocks_as_kafkas_java_clients_demand() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"v" * 1000] * 300})
    (batch,) = encoded([rows], options=BatchOptions(Compression.LZ4))
    info = get_frame_info(batch.data[HEADER_BYTES:])
    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert not info["content_checksum"]


def test_sequences_go_on_from_where_the_stream_was_resumed_and_wrap() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"v"] * 4})
    options = BatchOptions(records_max=3)
    batches = encoded([rows], options=options, producer_id=1, producer_epoch=0, first_row=2**31 - 2)
    assert [(batch.base_sequence, batch.last_sequence) for batch in batches] == [(2**31 - 2, 0), (1, 1)]
    assert [batch.base_sequence for batch in encoded([rows], options=options)] == [-1, -1]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
)
def test_keys_and_values_may_be_of_any_string_or_binary_type(kind: pa.DataType) -> None:
    texts = ["skipped", "é", None, ""]
    values = [text.encode() if text is not None and "binary" in str(kind) else text for text in texts]
    column = pa.array(values, kind)
    rows = pa.RecordBatch.from_pydict({"key": column, "value": column}).slice(1)
    got = decoded(on_a_log(encoded([rows])))
    assert [(row["key"], row["value"]) for row in got] == [("é".encode(),) * 2, (None,) * 2, (b"",) * 2]
    assert {row["timestamp"] for row in got} == {NOW_MS}


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp(unit, tz=zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")],
)
def test_timestamps_of_any_unit_keep_their_millisecond(kind: pa.DataType) -> None:
    times = pa.array([1_700_000_000_000, None, 1_000], pa.timestamp("ms")).cast(pa.int64())
    column = times.cast(pa.timestamp("ms")).cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    got = decoded(on_a_log(encoded([pa.RecordBatch.from_pydict({"timestamp": column})])))
    assert [row["timestamp"] for row in got] == [1_700_000_000_000, NOW_MS, 1_000]


def test_fractions_of_a_millisecond_are_cut_off() -> None:
    column = pa.array([1_999, 2_000], pa.timestamp("us"))
    got = decoded(on_a_log(encoded([pa.RecordBatch.from_pydict({"timestamp": column})])))
    assert [row["timestamp"] for row in got] == [1, 2]


def test_sliced_rows_take_their_own_headers() -> None:
    two = [{"key": "b", "value": None}, {"key": "c", "value": b""}]
    lists = [[{"key": "a", "value": b"1"}], None, two, []]
    rows = pa.RecordBatch.from_pydict({"headers": pa.array(lists, HEADERS_TYPE)}).slice(1)
    got = decoded(on_a_log(encoded([rows])), columns=("headers",))
    assert [row["headers"] for row in got] == [None, two, None]


def test_sparks_own_header_type_and_column_order_do_not_matter() -> None:
    kind = pa.large_list(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())]))
    rows = pa.RecordBatch.from_pydict(
        {"other": [1], "headers": pa.array([[{"key": "k", "value": b"v"}]], kind), "value": ["x"]}
    )
    (row,) = decoded(on_a_log(encoded([rows])), columns=RECORD_COLUMNS)
    assert (row["value"], row["headers"]) == (b"x", [{"key": "k", "value": b"v"}])


def test_a_record_that_is_larger_than_a_batch_is_alone_in_one() -> None:
    sizes = [10, 2000, 10, 10, 3000, 1500, 10]
    rows = pa.RecordBatch.from_pydict({"value": [b"v" * size for size in sizes]})
    for compression in Compression:
        options = BatchOptions(compression, batch_bytes_max=1000)
        whole = encoded([rows], options=options)
        assert [batch.record_count for batch in whole] == [1, 1, 2, 1, 1, 1]
        assert encoded([rows.slice(n, 1) for n in range(len(sizes))], options=options) == whole
        assert [len(row["value"]) for row in decoded(on_a_log(whole))] == sizes


def test_a_row_that_no_batch_holds_is_named() -> None:
    options = BatchOptions(batch_bytes_max=1000, record_bytes_max=900)
    encoder = PartitionEncoder(options=options, timestamp_ms=0, first_row=7)
    encoder.add(pa.RecordBatch.from_pydict({"value": [b"", b""]}))
    with pytest.raises(RecordTooLarge, match="row 10") as caught:
        encoder.add(pa.RecordBatch.from_pydict({"value": [b"", b"v" * 1000]}))
    assert caught.value.row == 10
    assert caught.value.size_bytes > 1000


@pytest.mark.parametrize(
    ("column", "name", "reason"),
    [
        (pa.array([1_000, -1], pa.timestamp("us")), "timestamp", "before 1970"),
        (pa.array([1, 2**62], pa.timestamp("s")), "timestamp", "beyond"),
        (pa.array([None, [{"key": None, "value": b""}]], HEADERS_TYPE), "headers", "without a key"),
        (pa.array([[], [None]], HEADERS_TYPE), "headers", "without a key"),
    ],
)
def test_a_row_that_no_record_can_say_is_named(column: pa.Array, name: str, reason: str) -> None:
    encoder = PartitionEncoder(options=BatchOptions(), timestamp_ms=0, first_row=5)
    with pytest.raises(BadRow, match=reason) as caught:
        encoder.add(pa.RecordBatch.from_pydict({name: column}))
    assert caught.value.row == 6


@pytest.mark.parametrize(
    "columns",
    [{"value": [1]}, {"key": [1.5]}, {"timestamp": [5]}, {"headers": ["h"]}, {"headers": [[{"name": "n"}]]}],
)
def test_a_type_that_is_not_accepted_is_told_with_its_column(columns: dict[str, Any]) -> None:
    with pytest.raises(BadColumn, match=f"column {next(iter(columns))} must be"):
        encoded([pa.RecordBatch.from_pydict(columns)])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (BatchOptions(Compression.ZSTD, level=23), "levels 1 to 22"),
        (BatchOptions(Compression.SNAPPY, level=1), "no compression levels"),
        (BatchOptions(batch_bytes_max=61), "a batch has"),
        (BatchOptions(records_max=0), "at least one"),
    ],
)
def test_options_that_make_no_batch_are_refused(options: BatchOptions, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PartitionEncoder(options=options, timestamp_ms=0)


@pytest.mark.parametrize(
    "options",
    [BatchOptions(Compression.ZSTD, level) for level in (1, 9)]
    + [BatchOptions(Compression.LZ4, level) for level in (1, 9, 12)]
    + [BatchOptions(Compression.GZIP, level) for level in (1, 9)],
)
def test_every_level_is_read_back(options: BatchOptions) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%d" % index * 20 for index in range(2000)]})
    batches = encoded([rows], options=options)
    assert [row["value"] for row in decoded(on_a_log(batches))] == rows.column("value").to_pylist()
    assert decode_header(batches[0].data).compression == options.compression


def test_rows_beyond_one_encoding_are_encoded_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%04d" % index * 30 for index in range(500)]})
    options = BatchOptions(batch_bytes_max=1000)
    expected = encoded([rows], options=options)
    monkeypatch.setattr("pipeline.records.encode.ENCODE_BYTES_MAX", 2500)
    assert encoded([rows], options=options) == expected
    monkeypatch.setattr("pipeline.records.encode.ENCODE_BYTES_MAX", 1)
    assert encoded([rows], options=options) == expected


def test_no_rows_make_no_batch() -> None:
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})
    assert encoded([empty, pa.table({"value": []})]) == []
