"""Small pieces decoded together: whatever decode_together gives, decode_records gives piece by piece."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records.decode import RECORD_COLUMNS, decode_records, record_schema
from pipeline.records.headers import DamagedBatch
from pipeline.records.small_pieces import Piece, decode_together
from springtide.wire.compression import Compression
from springtide.wire.record_batch import TimestampType
from springtide.wire.records import NewRecord, encode_batch

FIRST_MS = 1_700_000_000_000
SOME = st.binary(max_size=6)
RECORDS = st.builds(
    NewRecord,
    st.none() | SOME,
    st.none() | SOME,
    st.integers(FIRST_MS, FIRST_MS + 10_000),
    st.lists(st.tuples(st.text(max_size=3), st.none() | SOME), max_size=2).map(tuple),
)
BATCHES = st.tuples(
    st.lists(RECORDS, min_size=1, max_size=4),
    st.integers(0, 3),  # offsets that compaction has taken before it
    st.sampled_from(Compression),
    st.sampled_from(TimestampType),
    st.sampled_from([False, False, False, True]),  # a control batch
)


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    offset = draw(st.integers(0, 20))
    data = b""
    for records, gap, compression, timestamp_type, is_control in draw(st.lists(BATCHES, max_size=3)):
        offset += gap
        data += encode_batch(
            records,
            base_offset=offset,
            compression=compression,
            timestamp_type=timestamp_type,
            is_control=is_control,
        )
        offset += len(records)
    first = draw(st.integers(0, 30))
    return Piece(
        draw(st.sampled_from(["orders", "clicks"])),
        draw(st.integers(0, 3)),
        data,
        first,
        first + draw(st.integers(0, 30)),
    )


def one_by_one(some: list[Piece], columns: tuple[str, ...]) -> pa.Table:
    """Raises DamagedBatch."""
    batches = [
        rows
        for piece in some
        for rows in decode_records(
            piece.records,
            topic=piece.topic,
            partition=piece.partition,
            columns=columns,
            first_offset=piece.first_offset,
            end_offset=piece.end_offset,
        )
    ]
    return pa.Table.from_batches(batches, record_schema(columns))


@settings(deadline=None)
@given(st.lists(pieces(), max_size=6), st.sampled_from([RECORD_COLUMNS, ("offset", "value"), ()]))
def test_the_rows_are_those_of_one_after_another(some: list[Piece], columns: tuple[str, ...]) -> None:
    rows = decode_together(some, columns=columns)
    assert rows is not None, "there is nothing wrong with them"
    assert pa.Table.from_batches([rows]).equals(one_by_one(some, columns))


@settings(deadline=None)
@given(st.lists(pieces(), min_size=1, max_size=4), st.data())
def test_damage_is_never_decoded(some: list[Piece], data: st.DataObject) -> None:
    number = data.draw(st.sampled_from(range(len(some))))
    wounded = bytearray(some[number].records)
    if wounded:
        at = data.draw(st.integers(0, len(wounded) - 1))
        wounded[at] ^= data.draw(st.integers(1, 255))
        wounded = wounded[: data.draw(st.sampled_from([len(wounded), at, len(wounded) - 1]))]
    some[number] = some[number]._replace(records=bytes(wounded))
    rows = decode_together(some, columns=RECORD_COLUMNS)
    if rows is not None:
        # Where nobody has to look: behind a range's end, or in what no CRC covers.
        assert pa.Table.from_batches([rows]).equals(one_by_one(some, RECORD_COLUMNS))


def test_a_batch_whose_crc_is_wrong_is_left_to_whoever_can_name_it() -> None:
    whole = [encode_batch([NewRecord(b"k", b"%d" % n, FIRST_MS)]) for n in range(3)]
    broken = whole[1][:-1] + bytes([whole[1][-1] ^ 1])
    assert decode_together([Piece("t", n, data) for n, data in enumerate(whole)]) is not None
    some = [Piece("t", 0, whole[0]), Piece("t", 1, broken), Piece("t", 2, whole[2])]
    assert decode_together(some) is None
    with pytest.raises(DamagedBatch, match="CRC does not match"):
        one_by_one(some, RECORD_COLUMNS)


def test_more_than_is_opened_at_a_time_is_left_to_whoever_opens_a_little_at_a_time() -> None:
    value = bytes(3 * 1024 * 1024)
    data = encode_batch([NewRecord(None, value, FIRST_MS)], compression=Compression.ZSTD)
    assert len(data) < 10_000
    assert decode_together([Piece("t", n, data) for n in range(3)]) is None
