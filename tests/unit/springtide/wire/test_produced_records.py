"""What a leader sees in the records of a batch, whatever the header says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import check_produced_records, latest_record_ms
from springtide.wire.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    check_produced_batch,
    crc_is_valid,
    decode_header,
)
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch
from tests.kit.springtide.poison import NOW_MS, POISON, of_payload, sized, varint

DAY_MS = 86_400_000
MIB = 1024 * 1024
LONG_MAX = 2**63 - 1


def altered(
    records: list[NewRecord], *, compression: Compression = Compression.NONE, **changes: Any
) -> bytes:
    """A batch with untrue header fields under a true CRC."""
    batch = encode_batch(records, compression=compression)
    return seal_batch(decode_header(batch)._replace(**changes), batch[HEADER_BYTES:])


def judge(batch: bytes, *, cap: int = MIB, **options: Any) -> ErrorCode:
    view = memoryview(batch)
    assert check_produced_batch(view, max_message_bytes=MIB) is ErrorCode.NONE, "the header passes for good"
    return check_produced_records(view, decode_header(view), decompressed_bytes_max=cap, **options).error


@pytest.mark.parametrize(("batch", "code"), POISON.values(), ids=POISON)
def test_a_batch_that_would_fail_its_readers_is_refused(batch: bytes, code: ErrorCode) -> None:
    """KAFKA-6554, RP#29624, KAFKA-5211, aiokafka#321: there such batches were stored, and stopped readers."""
    assert judge(batch) is code


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("lie", [-1, 0, 1, NOW_MS - DAY_MS, NOW_MS + DAY_MS, LONG_MAX, -(2**63)])
def test_the_maximum_timestamp_becomes_that_of_the_records(compression: Compression, lie: int) -> None:
    records = [NewRecord(b"k", b"v", NOW_MS + ms) for ms in (5, 9, -3)]
    right = encode_batch(records, compression=compression)
    view = memoryview(altered(records, compression=compression, max_timestamp=lie))
    checked = check_produced_records(view, decode_header(view), decompressed_bytes_max=MIB)
    assert (checked.error, bytes(checked.batch)) == (ErrorCode.NONE, right)
    assert checked.header == decode_header(right)
    assert crc_is_valid(checked.batch, checked.header)


def test_a_batch_whose_header_is_right_is_appended_as_it_came() -> None:
    view = memoryview(encode_batch([NewRecord(b"k", b"v", NOW_MS), NewRecord(b"k", b"v", NOW_MS - 1)]))
    header = decode_header(view)
    checked = check_produced_records(view, header, decompressed_bytes_max=MIB)
    assert checked.batch is view
    assert checked.header is header


@pytest.mark.parametrize(("times", "expected"), [((-1, -1), -1), ((-5, -7), -1), ((-1, 7), 7)])
def test_a_batch_without_timestamps_keeps_none(times: tuple[int, ...], expected: int) -> None:
    view = memoryview(altered([NewRecord(timestamp=ms) for ms in times], max_timestamp=NOW_MS))
    checked = check_produced_records(view, decode_header(view), decompressed_bytes_max=MIB)
    assert (checked.error, checked.header.max_timestamp) == (ErrorCode.NONE, expected)


def test_a_batch_with_append_time_is_left_to_the_leaders_stamp() -> None:
    view = memoryview(altered([NewRecord(timestamp=NOW_MS)], max_timestamp=0, base_timestamp=LONG_MAX))
    checked = check_produced_records(
        view, decode_header(view), decompressed_bytes_max=MIB, is_append_time=True, timestamp_ms_max=1
    )
    assert checked.error is ErrorCode.NONE
    assert checked.batch is view


@pytest.mark.parametrize("compression", list(Compression))
def test_a_producers_claim_of_append_time_is_taken_away_or_refused_where_the_leader_stamps(
    compression: Compression,
) -> None:
    """As Kafka's LogValidator does; the records' own times count."""
    records = [NewRecord(timestamp=NOW_MS), NewRecord(timestamp=NOW_MS + 1)]
    right = encode_batch(records, compression=compression)
    view = memoryview(
        altered(records, compression=compression, attributes=0x08 | compression, max_timestamp=7)
    )
    checked = check_produced_records(view, decode_header(view), decompressed_bytes_max=MIB)
    assert (checked.error, bytes(checked.batch)) == (ErrorCode.NONE, right)
    assert judge(bytes(view), timestamp_ms_max=NOW_MS) is ErrorCode.INVALID_TIMESTAMP
    assert judge(bytes(view), is_append_time=True) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS, LONG_MAX])
def test_limits_judge_the_oldest_and_the_newest_record_and_no_header(claimed: int) -> None:
    batch = altered([NewRecord(timestamp=NOW_MS + ms) for ms in (0, 50, -50)], max_timestamp=claimed)
    oldest, newest = NOW_MS - 50, NOW_MS + 50
    assert judge(batch, timestamp_ms_min=oldest, timestamp_ms_max=newest) is ErrorCode.NONE
    assert judge(batch, timestamp_ms_min=oldest + 1) is ErrorCode.INVALID_TIMESTAMP
    assert judge(batch, timestamp_ms_max=newest - 1) is ErrorCode.INVALID_TIMESTAMP


def test_a_missing_timestamp_keeps_within_all_limits_unless_others_are_there() -> None:
    none, some = NewRecord(timestamp=-1), NewRecord(timestamp=NOW_MS)
    bounds = {"timestamp_ms_min": NOW_MS, "timestamp_ms_max": NOW_MS}
    assert judge(encode_batch([none, none]), **bounds) is ErrorCode.NONE
    assert judge(encode_batch([none, some]), **bounds) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("base", "delta", "code"),
    [
        (LONG_MAX, 0, ErrorCode.NONE),
        (LONG_MAX, 1, ErrorCode.INVALID_TIMESTAMP),
        (LONG_MAX, LONG_MAX, ErrorCode.INVALID_TIMESTAMP),
        (LONG_MAX, -LONG_MAX, ErrorCode.NONE),
        (-(2**63), -1, ErrorCode.INVALID_TIMESTAMP),
        (0, LONG_MAX, ErrorCode.NONE),
    ],
)
def test_a_time_beyond_64_bits_is_refused(base: int, delta: int, code: ErrorCode) -> None:
    assert judge(of_payload(sized(b"\0" + varint(delta) + b"\0\1\1\0"), base_timestamp=base)) is code


def test_a_stored_batch_tells_its_latest_record_if_it_can_be_read() -> None:
    lying = altered([NewRecord(timestamp=NOW_MS)], compression=Compression.ZSTD, max_timestamp=0)
    assert latest_record_ms(memoryview(lying), decode_header(lying), decompressed_bytes_max=MIB) == NOW_MS
    for bad, _ in POISON.values():
        assert latest_record_ms(memoryview(bad), decode_header(bad), decompressed_bytes_max=MIB) is None


def test_what_the_check_lets_pass_a_reader_reads_to_its_end() -> None:
    """Whatever single byte of a batch's records is changed, under a true CRC."""
    pick = random.Random(3)
    good = encode_batch(
        [NewRecord(b"key", b"v" * 70, NOW_MS + n, ((str(n), b"x"), ("e", None))) for n in range(4)]
    )
    passed = 0
    for position in range(HEADER_BYTES, len(good)):
        payload = bytearray(good[HEADER_BYTES:])
        payload[position - HEADER_BYTES] = pick.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
        batch = memoryview(seal_batch(decode_header(good), payload))
        checked = check_produced_records(batch, decode_header(batch), decompressed_bytes_max=MIB)
        if checked.error is ErrorCode.NONE:
            passed += 1
            try:
                records = list(iter_records(checked.batch))
            except CorruptBatch as error:  # a header name's characters are the reader's concern alone
                assert "UTF-8" in error.reason
                continue
            assert [record.offset for record in records] == [0, 1, 2, 3]
            assert max(record.timestamp for record in records) == checked.header.max_timestamp
    assert passed > 100
