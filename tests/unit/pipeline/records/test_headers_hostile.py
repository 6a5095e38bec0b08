"""Bytes that lie: an error that names the batch, bounded memory, and never a row that was not written."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records.headers import DamagedBatch, scan_headers
from springtide.wire.compression import Compression, compress
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from tests.kit.pipeline.record_rows import decoded
from tests.kit.springtide.poison import varint

MIB = 1024 * 1024
RECORDS = [
    NewRecord(key=b"k%d" % index, value=b"v" * 9, timestamp=5, headers=(("h", b"x"),)) for index in range(3)
]
HEADER = decode_header(encode_batch(RECORDS))
UNSEALED_BYTES = 16
"""Base offset, length and leader epoch stand before what the CRC covers."""


def sealed(
    payload: bytes, *, count: int = 1, compression: Compression = Compression.NONE, **fields: int
) -> bytes:
    """A batch with a valid CRC around whatever `payload` is."""
    records = compress(compression, payload)
    header = HEADER._replace(
        attributes=int(compression),
        batch_length=HEADER_BYTES - 12 + len(records),
        last_offset_delta=count - 1,
        record_count=count,
    )
    return seal_batch(header._replace(**fields), records)


def record(
    *,
    offset: bytes = b"\0",
    time_delta: bytes = b"\0",
    key: bytes = b"\x01",
    value: bytes = b"\x02v",
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    body = b"\0" + time_delta + offset + key + value + headers
    return varint(len(body) if length is None else length) + body


LIES: dict[str, bytes] = {
    "record length beyond the batch": record(length=100),
    "record length short of its fields": record(length=3),
    "record length longer than its fields": record(headers=b"\0\0"),
    "record length negative": record(length=-1),
    "record length zero": b"\0",
    "record length five bytes of ones": b"\xff\xff\xff\xff\x0f" + record(),
    "record length six bytes": b"\x80\x80\x80\x80\x80\x01" + record(),
    "record length without an end": b"\xff" * 12,
    "key length beyond the record": record(key=varint(1000)),
    "key length of two gigabytes": record(key=varint(2**31 - 1)),
    "key length below null": record(key=varint(-2)),
    "key length that never ends": record(key=b"\xff" * 6),
    "value length beyond the record": record(value=varint(1000)),
    "value length below null": record(value=varint(-5) + b"v"),
    "value length of int64": record(value=varint(2**40)),
    "offset delta beyond the header's": record(offset=varint(1)),
    "offset delta negative": record(offset=varint(-1)),
    "offset delta that never ends": record(offset=b"\xff" * 8),
    "timestamp delta of eleven bytes": record(time_delta=b"\xff" * 10 + b"\x01"),
    "timestamp delta beyond 64 bits": record(time_delta=b"\xff" * 9 + b"\x02"),
    "header count negative": record(headers=varint(-1)),
    "header count beyond the record": record(headers=varint(2**31 - 1)),
    "header count one, bytes none": record(headers=b"\x02"),
    "header key null": record(headers=b"\x02\x01\x01"),
    "header key length below null": record(headers=b"\x02\x03\x01"),
    "header key beyond the record": record(headers=b"\x02\x7e\x01"),
    "header key not UTF-8": record(headers=b"\x02\x02\xff\x01"),
    "header value beyond the record": record(headers=b"\x02\x02k\x7e"),
    "header value length below null": record(headers=b"\x02\x02k\x03"),
    "header length that never ends": record(headers=b"\x02" + b"\xff" * 7),
    "headers shorter than their record": record(headers=b"\x02\x02k\x01\x00"),
    "junk behind the last record": record() + b"junk",
    "a record too many": record() + record(offset=b"\x02"),
    "nothing at all": b"",
}


@pytest.mark.parametrize("lanes", [1, 150], ids=["alone", "among others"])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_under_a_valid_crc_is_an_error_that_names_its_batch(
    lie: str, compression: Compression, lanes: int
) -> None:
    honest = b"".join(encode_batch(RECORDS, base_offset=3 * index) for index in range(lanes - 1))
    data = honest + sealed(LIES[lie], compression=compression, base_offset=3 * lanes)
    with pytest.raises(DamagedBatch) as caught:
        decoded(data)
    assert (caught.value.position, caught.value.base_offset) == (len(honest), 3 * lanes)


def test_a_record_that_lies_among_many_in_one_batch_is_found() -> None:
    records = [record(offset=varint(index)) for index in range(300)]
    assert len(decoded(sealed(b"".join(records), count=300))) == 300
    for place in (0, 150, 299):
        late = record(offset=varint(place + 1))
        for lie in (record(key=varint(1000)), late, record(length=40), b"\xff" * 9):
            bad = [*records[:place], lie, *records[place + 1 :]]
            with pytest.raises(DamagedBatch):
                decoded(sealed(b"".join(bad), count=300))


@pytest.mark.parametrize("compression", list(Compression))
def test_every_truncation_gives_whole_batches_or_none_of_it(compression: Compression) -> None:
    first = encode_batch(RECORDS, compression=compression)
    second = encode_batch(RECORDS, compression=compression, base_offset=3)
    data, rows = first + second, decoded(first + second)
    for size in range(len(data)):
        whole = 0 if size < len(first) else 3
        assert decoded(data[:size]) == rows[:whole]
        headers = scan_headers(data[:size])
        assert (headers.end, headers.next_offset) == ((len(first), 3) if whole else (0, None))


@pytest.mark.parametrize("compression", list(Compression))
def test_no_flipped_bit_gives_a_row_that_was_not_written(compression: Compression) -> None:
    first = encode_batch(RECORDS, compression=compression)
    data = first + encode_batch(RECORDS, compression=compression, base_offset=3)
    rows = decoded(data)
    found = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        in_batch = bit // 8 % len(first)
        try:
            got = decoded(bytes(flipped))
        except DamagedBatch:
            found += 1
            continue
        if 8 <= in_batch < 12:  # a length that leads beyond the data is a torn batch
            assert got == rows[: 3 * (bit // 8 // len(first))]
        elif in_batch < 8:  # no CRC covers a base offset: only that offsets ascend is seen
            assert [row["value"] for row in got] == [row["value"] for row in rows]
        else:
            assert 12 <= in_batch < UNSEALED_BYTES
            assert got == rows
    assert found >= 2 * 8 * (len(first) - UNSEALED_BYTES)


@pytest.mark.parametrize("compression", list(Compression))
def test_bits_flipped_under_a_valid_crc_raise_nothing_but_damage(compression: Compression) -> None:
    records = [record(offset=varint(index), headers=b"\x02\x02k\x02v") for index in range(4)]
    honest = compress(compression, b"".join(records))
    header = HEADER._replace(
        attributes=int(compression),
        batch_length=HEADER_BYTES - 12 + len(honest),
        last_offset_delta=3,
        record_count=4,
    )
    for bit in range(8 * len(honest)):
        payload = bytearray(honest)
        payload[bit // 8] ^= 1 << bit % 8
        try:
            rows = decoded(seal_batch(header, bytes(payload)))
        except DamagedBatch:
            continue
        assert [row["offset"] for row in rows] == sorted({row["offset"] for row in rows})
        assert len(rows) == 4


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_rows_damage_or_a_torn_batch(junk: bytes) -> None:
    for data in (junk, encode_batch(RECORDS) + junk, sealed(junk), sealed(junk, compression=Compression.LZ4)):
        try:
            decoded(data)
        except DamagedBatch as error:
            assert 0 <= error.position <= len(data)


FIELD_LIES: dict[str, Callable[[BatchHeader], BatchHeader]] = {
    "count of two billion": lambda header: header._replace(
        record_count=2**31 - 1, last_offset_delta=2**31 - 2
    ),
    "count negative": lambda header: header._replace(record_count=-1),
    "count beyond the offsets": lambda header: header._replace(record_count=4),
    "count too small": lambda header: header._replace(record_count=2),
    "offsets that end before they begin": lambda header: header._replace(
        record_count=0, last_offset_delta=-1
    ),
    "offset negative": lambda header: header._replace(base_offset=-1),
    "offset beyond 2^63": lambda header: header._replace(base_offset=2**63 - 2),
    "last offset short of the records": lambda header: header._replace(last_offset_delta=1),
    "unknown codec": lambda header: header._replace(attributes=5),
    "a codec that it is not": lambda header: header._replace(attributes=4),
    "format 1": lambda header: header._replace(magic=1),
}


@pytest.mark.parametrize("lie", FIELD_LIES)
def test_a_header_that_lies_is_an_error(lie: str) -> None:
    first = encode_batch(RECORDS)
    batch = seal_batch(FIELD_LIES[lie](HEADER._replace(base_offset=3)), first[HEADER_BYTES:])
    with pytest.raises(DamagedBatch) as caught:
        decoded(first + batch)
    assert caught.value.position == len(first)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_that_no_batch_has_is_an_error_and_what_came_before_can_be_had(length: int) -> None:
    first = encode_batch(RECORDS)
    with pytest.raises(DamagedBatch, match="impossible batch length") as caught:
        scan_headers(first + struct.pack(">qi", 3, length))
    assert caught.value.base_offset == 3
    assert scan_headers((first + b"more")[: caught.value.position]).next_offset == 3


def test_a_torn_batch_of_another_format_is_an_error_as_soon_as_it_shows() -> None:
    old = struct.pack(">qiib", 3, 1000, 0, 1)
    with pytest.raises(DamagedBatch, match="unknown record format 1"):
        scan_headers(encode_batch(RECORDS) + old)
    assert scan_headers(encode_batch(RECORDS) + old[:16]).next_offset == 3


@pytest.mark.parametrize("base_offset", [0, 2])
def test_offsets_that_do_not_ascend_are_an_error(base_offset: int) -> None:
    first = encode_batch(RECORDS)
    with pytest.raises(DamagedBatch, match="do not ascend") as caught:
        scan_headers(first + encode_batch(RECORDS, base_offset=base_offset))
    assert caught.value.position == len(first)


def test_a_flip_that_would_drop_a_batch_by_its_header_is_found() -> None:
    first = encode_batch(RECORDS)
    data = first + encode_batch(RECORDS, base_offset=3)
    dropping: list[tuple[int, dict[str, Any]]] = [
        (22, {}),  # attributes: a control batch
        (26, {"first_offset": 3}),  # last offset delta: a batch behind the reader's position
        (60, {}),  # record count
    ]
    for byte, options in dropping:
        for bit in range(8):
            flipped = bytearray(data)
            flipped[byte] ^= 1 << bit
            with pytest.raises(DamagedBatch):
                decoded(bytes(flipped), **options)


@pytest.mark.parametrize("compression", [one for one in Compression if one is not Compression.NONE])
def test_a_bomb_costs_what_is_allowed_and_no_more(compression: Compression) -> None:
    bomb = sealed(bytes(64 * MIB), compression=compression)
    assert len(bomb) < 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBatch, match="more than 1048576 bytes of records"):
            decoded(bomb, batch_bytes_max=MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_an_honest_large_batch_passes_where_it_is_allowed_and_not_where_it_is_not() -> None:
    batch = encode_batch([NewRecord(value=bytes(2 * MIB))])
    for data in (batch, encode_batch([NewRecord(value=bytes(2 * MIB))], compression=Compression.GZIP)):
        assert len(decoded(data, batch_bytes_max=3 * MIB)) == 1
        with pytest.raises(DamagedBatch, match="more than 1048576 bytes of records"):
            decoded(data, batch_bytes_max=MIB)


def test_claimed_counts_allocate_nothing() -> None:
    tracemalloc.start()
    try:
        for compression in (Compression.NONE, Compression.ZSTD):
            for payload in (b"", record(headers=varint(2**31 - 1))):
                with pytest.raises(DamagedBatch):
                    decoded(sealed(payload, count=2**31 - 1, compression=compression))
                with pytest.raises(DamagedBatch):
                    decoded(sealed(payload, count=1, compression=compression))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_million_headers_of_one_record_take_no_round_each() -> None:
    many = record(headers=varint(100_000) + b"\x02k\x01" * 100_000)
    started = time.process_time()
    (row,) = decoded(sealed(many))
    assert len(row["headers"]) == 100_000
    assert time.process_time() - started < 5


def test_an_aborted_range_whose_marker_cannot_be_read_is_an_error() -> None:
    control = encode_batch([NewRecord(key=b"\0")], producer_id=7, is_control=True, is_transactional=True)
    with pytest.raises(DamagedBatch, match="without a marker"):
        decoded(control, aborted=[(7, 0)])
    with pytest.raises(DamagedBatch, match="CRC"):
        decoded(control[:-1] + b"\x01", aborted=[(7, 0)])


@pytest.mark.parametrize(
    "limits", [{"batch_bytes_max": 0}, {"batch_bytes_max": 2**31}, {"payload_bytes_target": 2**31}]
)
def test_limits_beyond_arrows_offsets_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="1 GiB"):
        decoded(encode_batch(RECORDS), **limits)
