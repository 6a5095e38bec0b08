"""What a producer is told of a batch that is refused for its records."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import check_produced_records
from springtide.wire.record_batch import HEADER_BYTES, TimestampType, check_produced_batch, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from springtide.wire.refused_records import (
    APPEND_TIME,
    NO_BATCH,
    NO_KEY,
    RECORDS_LOOKED_AT_MAX,
    RECORDS_TOLD_MAX,
    RefusedRecords,
    refused_records,
)
from tests.kit.springtide.poison import NOW_MS, PLAIN, POISON, of_payload, sized

MIB = 1 << 20
KEYED, KEYLESS = NewRecord(b"k", b"v", NOW_MS), NewRecord(None, b"v", NOW_MS)


def refused(batch: bytes, **changes: Any) -> tuple[ErrorCode, RefusedRecords]:
    """Return the code by which the leader refuses the batch, and what is told of it."""
    limits: dict[str, Any] = {
        "decompressed_bytes_max": MIB,
        "needs_keys": False,
        "is_append_time": False,
        "timestamp_ms_min": None,
        "timestamp_ms_max": None,
    } | changes
    view = memoryview(batch)
    header = decode_header(view) if len(view) >= HEADER_BYTES else None
    code = check_produced_batch(view, max_message_bytes=MIB)
    if code is ErrorCode.NONE and header is not None:
        code = check_produced_records(view, header, **limits).error
    return code, refused_records(view, header, **limits)


@pytest.mark.parametrize("compression", list(Compression))
def test_each_record_without_a_key_is_named(compression: Compression) -> None:
    batch = encode_batch([KEYED, KEYLESS, KEYED, KEYLESS], compression=compression)
    code, told = refused(batch, needs_keys=True)
    assert code is ErrorCode.INVALID_RECORD
    assert told.records == ((1, NO_KEY), (3, NO_KEY))
    assert told.message == (
        f"the batch is refused for single records. record 1: {NO_KEY}; record 3: {NO_KEY}"
    )


def test_each_record_beyond_the_topics_bounds_is_named_with_its_time() -> None:
    times = (NOW_MS, NOW_MS + 9, -1, NOW_MS - 9)
    batch = encode_batch([NewRecord(None, b"v", time_ms) for time_ms in times])
    code, told = refused(batch, timestamp_ms_max=NOW_MS + 5)
    assert code is ErrorCode.INVALID_TIMESTAMP
    assert told.records == ((1, f"its timestamp {NOW_MS + 9} is later than the topic takes: {NOW_MS + 5}"),)
    assert told.records[0][1] in told.message
    code, told = refused(batch, timestamp_ms_min=NOW_MS - 5)
    earlier = f"its timestamp {NOW_MS - 9} is earlier than the topic takes: {NOW_MS - 5}"
    assert (code, told.records) == (ErrorCode.INVALID_TIMESTAMP, ((3, earlier),))


def test_the_first_record_that_cant_be_read_is_named() -> None:
    bad = PLAIN + sized(b"\0\0\2" + b"\1\1\2\1\2x")  # a header whose key is null
    code, told = refused(of_payload(bad, record_count=2, last_offset_delta=1))
    assert (code, [index for index, _ in told.records]) == (ErrorCode.INVALID_RECORD, [1])
    code, told = refused(of_payload(PLAIN * 2, record_count=2, last_offset_delta=1))
    assert (code, told.records) == (
        ErrorCode.INVALID_RECORD,
        ((1, "its offset in the batch is 0, not 1"),),
    )


@pytest.mark.parametrize("name", [name for name, (_, code) in POISON.items() if code == 87])
def test_whatever_is_refused_for_its_records_has_a_reason(name: str) -> None:
    batch, _ = POISON[name]
    code, told = refused(batch)
    assert code is ErrorCode.INVALID_RECORD
    assert told.message and len(told.message) < 500


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"magic": 1}, "magic 1"),
        ({"record_count": 7}, "counts 7 records, at offsets 0 to 0"),
        ({"base_offset": 5}, "at offsets 5 to 0"),
        ({"attributes": 0x20}, "control records"),
        ({"producer_id": 4, "producer_epoch": 0, "base_sequence": -1}, "producer id 4 with epoch 0"),
    ],
)
def test_a_header_that_is_refused_is_told(changes: dict[str, int], told: str) -> None:
    good = encode_batch([KEYED])
    batch = seal_batch(decode_header(good)._replace(**changes), good[HEADER_BYTES:])
    code, why = refused(batch)
    assert code is ErrorCode.INVALID_RECORD
    assert told in why.message
    assert why.records == ()


def test_no_batch_and_two_batches_are_told() -> None:
    assert refused(b"") == (ErrorCode.INVALID_RECORD, RefusedRecords(NO_BATCH))
    code, told = refused(encode_batch([KEYED]) * 2)
    assert (code, told.message) == (
        ErrorCode.INVALID_RECORD,
        "more than one batch for a partition, or bytes after it",
    )


def test_who_claims_the_leaders_stamp_is_told_so_where_the_leader_stamps() -> None:
    batch = encode_batch([KEYED], timestamp_type=TimestampType.LOG_APPEND_TIME)
    code, told = refused(batch, is_append_time=True, timestamp_ms_max=0)
    assert (code, told) == (ErrorCode.INVALID_TIMESTAMP, RefusedRecords(APPEND_TIME))
    code, told = refused(batch, timestamp_ms_max=NOW_MS - 1)
    assert (code, [index for index, _ in told.records]) == (ErrorCode.INVALID_TIMESTAMP, [0])


def test_an_answer_names_so_many_records_and_looks_at_no_more_than_it_may() -> None:
    code, told = refused(encode_batch([KEYLESS] * (RECORDS_TOLD_MAX + 1)), needs_keys=True)
    assert code is ErrorCode.INVALID_RECORD
    assert len(told.records) == RECORDS_TOLD_MAX
    assert told.message.count("record ") < 10 and f"; {RECORDS_TOLD_MAX - 3} more" in told.message
    late = encode_batch([KEYED] * RECORDS_LOOKED_AT_MAX + [KEYLESS])
    assert refused(late, needs_keys=True)[1].records == ()
