"""The batch header, the walk over it, and every rule a leader applies before it appends."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    check_produced_batch,
    crc_is_valid,
    decode_header,
    iter_headers,
    restamp_append_time,
    stamp_head,
)
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch

ONE = encode_batch([NewRecord(b"key", b"value", 1_700_000_000_000)])
MANY = encode_batch([NewRecord(b"key", b"v" * n, 1_700_000_000_000 + n) for n in range(20)])


def check(batch: bytes, **options: Any) -> ErrorCode:
    return check_produced_batch(memoryview(batch), **{"max_message_bytes": 1 << 20, **options})


def altered(batch: bytes = MANY, **changes: Any) -> bytes:
    """`batch` with untrue header fields under a true CRC."""
    return seal_batch(decode_header(batch)._replace(**changes), batch[HEADER_BYTES:])


def test_the_header_names_every_field_of_the_layout() -> None:
    batch = encode_batch(
        [NewRecord(timestamp=100), NewRecord(timestamp=300), NewRecord(timestamp=200)],
        base_offset=5,
        leader_epoch=3,
        producer_id=77,
        producer_epoch=2,
        base_sequence=10,
        compression=Compression.GZIP,
        is_transactional=True,
    )
    header = decode_header(b"xx" + batch, 2)
    assert header == BatchHeader(
        base_offset=5,
        batch_length=len(batch) - 12,
        leader_epoch=3,
        magic=2,
        crc=struct.unpack_from(">I", batch, 17)[0],
        attributes=0x11,
        last_offset_delta=2,
        base_timestamp=100,
        max_timestamp=300,
        producer_id=77,
        producer_epoch=2,
        base_sequence=10,
        record_count=3,
    )
    assert (header.last_offset, header.next_offset, header.size_bytes) == (7, 8, len(batch))
    assert (header.last_sequence, header.compression) == (12, Compression.GZIP)
    assert (header.is_transactional, header.is_control) == (True, False)
    assert header.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize(
    ("base", "count", "last"), [(2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 5, 2), (-1, 3, -1)]
)
def test_sequences_wrap_from_the_largest_integer_to_zero(base: int, count: int, last: int) -> None:
    header = decode_header(ONE)._replace(base_sequence=base, last_offset_delta=count - 1)
    assert header.last_sequence == last


def test_fewer_than_61_bytes_are_no_header() -> None:
    with pytest.raises(CorruptBatch):
        decode_header(ONE[:60])
    with pytest.raises(CorruptBatch):
        decode_header(ONE, len(ONE) - 60)


def test_the_walk_names_each_whole_batch_and_stops_before_a_partial_one() -> None:
    log = ONE + MANY + ONE
    positions = [0, len(ONE), len(ONE) + len(MANY)]
    assert [position for position, _ in iter_headers(log)] == positions
    assert [position for position, _ in iter_headers(log, positions[1])] == positions[1:]
    for cut in (1, 12, 60, len(ONE) - 1):
        assert [position for position, _ in iter_headers(log[: positions[2] + cut])] == positions[:2]
        assert [position for position, _ in iter_headers(log, limit=positions[2] + cut)] == positions[:2]
    assert list(iter_headers(b"")) == []


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_the_walk_refuses_a_length_that_no_batch_can_have(length: int) -> None:
    bad = bytearray(ONE)
    struct.pack_into(">i", bad, 8, length)
    walk = iter_headers(MANY + bytes(bad))
    assert next(walk)[0] == 0
    with pytest.raises(CorruptBatch) as caught:
        next(walk)
    assert caught.value.position == len(MANY)


def test_the_walk_refuses_another_magic() -> None:
    with pytest.raises(CorruptBatch, match="magic 1"):
        list(iter_headers(ONE[:16] + b"\x01" + ONE[17:]))


@given(st.integers(0, len(MANY) * 8 - 1))
def test_a_flipped_bit_behind_the_crc_breaks_it_and_one_before_does_not(bit: int) -> None:
    batch = bytearray(MANY)
    batch[bit // 8] ^= 1 << bit % 8
    covered = bit // 8 >= 17
    view = memoryview(batch)
    header = decode_header(view)._replace(batch_length=len(MANY) - 12)
    assert crc_is_valid(view, header) is not covered


def test_a_crc_is_not_valid_for_a_batch_that_is_cut_off_and_ignores_what_follows() -> None:
    header = decode_header(MANY)
    assert not crc_is_valid(memoryview(MANY)[:-1], header)
    assert crc_is_valid(memoryview(MANY + b"junk"), header)


def test_a_stamped_head_leaves_the_crc_valid() -> None:
    header = decode_header(MANY)
    head = stamp_head(base_offset=1234, header=header, leader_epoch=8)
    stamped = memoryview(head + MANY[len(head) :])
    assert decode_header(stamped) == header._replace(base_offset=1234, leader_epoch=8)
    assert crc_is_valid(stamped, decode_header(stamped))


def test_append_time_is_stamped_under_a_new_crc_and_the_records_stay() -> None:
    header = decode_header(MANY)
    head = restamp_append_time(memoryview(MANY), header, base_offset=50, leader_epoch=4, append_time_ms=9_999)
    batch = head + MANY[HEADER_BYTES:]
    stamped = decode_header(batch)
    assert stamped == header._replace(
        base_offset=50, leader_epoch=4, attributes=0x08, max_timestamp=9_999, crc=stamped.crc
    )
    assert {record.timestamp for record in iter_records(batch)} == {9_999}


@pytest.mark.parametrize("batch", [ONE, MANY])
def test_a_good_batch_is_accepted(batch: bytes) -> None:
    assert check(batch) is ErrorCode.NONE
    assert check(batch, header=decode_header(batch), max_message_bytes=len(batch)) is ErrorCode.NONE


def test_a_good_idempotent_batch_is_accepted() -> None:
    assert check(altered(producer_id=0, producer_epoch=0, base_sequence=0)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (MANY[:60], ErrorCode.CORRUPT_MESSAGE),
        (MANY[:-1], ErrorCode.CORRUPT_MESSAGE),
        (MANY[:-1] + bytes([MANY[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
        (altered(batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
        (altered(batch_length=48), ErrorCode.CORRUPT_MESSAGE),
        (altered(batch_length=2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
        (MANY + ONE, ErrorCode.INVALID_RECORD),
        (MANY + b"\0", ErrorCode.INVALID_RECORD),
        (altered(magic=0), ErrorCode.INVALID_RECORD),
        (altered(magic=1), ErrorCode.INVALID_RECORD),
        (altered(magic=3), ErrorCode.INVALID_RECORD),
        (altered(record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (altered(record_count=-5, last_offset_delta=-6), ErrorCode.INVALID_RECORD),
        (altered(record_count=19), ErrorCode.INVALID_RECORD),
        (altered(last_offset_delta=20), ErrorCode.INVALID_RECORD),
        (altered(base_offset=1), ErrorCode.INVALID_RECORD),
        (altered(base_offset=-1), ErrorCode.INVALID_RECORD),
        (altered(attributes=0x20), ErrorCode.INVALID_RECORD),
        (altered(producer_id=1, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (altered(producer_id=1, producer_epoch=-1, base_sequence=0), ErrorCode.INVALID_RECORD),
        (altered(producer_id=-2), ErrorCode.INVALID_RECORD),
        (altered(attributes=0x05), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (altered(attributes=0x07), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (altered(attributes=0x10), ErrorCode.INVALID_TXN_STATE),
        (altered(attributes=0x7F80 - 0x8000), ErrorCode.NONE),  # reserved bits are kept, not judged
    ],
)
def test_a_bad_batch_gets_the_code_kafka_gives(batch: bytes, code: ErrorCode) -> None:
    assert check(batch) is code


def test_a_batch_above_the_topics_limit_is_too_large_whatever_its_crc() -> None:
    damaged = MANY[:-1] + bytes([MANY[-1] ^ 1])
    assert check(damaged, max_message_bytes=len(MANY) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_is_refused_to_clients_that_predate_it() -> None:
    batch = encode_batch([NewRecord(value=b"v")], compression=Compression.ZSTD)
    assert check(batch) is ErrorCode.NONE
    assert check(batch, is_zstd_allowed=False) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@given(st.binary(max_size=200))
def test_any_bytes_get_a_code_and_never_an_exception(data: bytes) -> None:
    assert check(data) is not ErrorCode.NONE


@given(st.binary(min_size=1, max_size=200))
def test_bytes_after_the_one_batch_are_refused(data: bytes) -> None:
    assert check(MANY + data) is ErrorCode.INVALID_RECORD
