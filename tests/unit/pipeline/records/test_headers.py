"""Headers as columns: what KIP-98's 61 bytes say, and the rows of the view `batches`."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records.headers import (
    HEADER_SCHEMA,
    BatchHeaders,
    computed_crcs,
    header_rows,
    scan_headers,
    survey_headers,
)
from springtide.wire.compression import Compression
from springtide.wire.record_batch import BatchHeader, TimestampType, iter_headers
from springtide.wire.records import NewRecord, encode_batch

batches = st.lists(
    st.builds(
        lambda count, **fields: encode_batch([NewRecord(value=b"v", timestamp=7)] * count, **fields),
        count=st.integers(1, 5),
        leader_epoch=st.integers(-1, 2**31 - 1),
        producer_id=st.integers(-1, 2**63 - 1),
        producer_epoch=st.integers(-1, 2**15 - 1),
        base_sequence=st.integers(-1, 2**31 - 1),
        compression=st.sampled_from(Compression),
        timestamp_type=st.sampled_from(TimestampType),
        is_transactional=st.booleans(),
        is_control=st.booleans(),
    ),
    max_size=8,
)


def log_of(parts: list[bytes]) -> bytes:
    """The batches with ascending offsets, a gap of one before each."""
    data, offset = b"", 1
    for part in parts:
        data += offset.to_bytes(8) + part[8:]
        ((_, header),) = iter_headers(part)
        offset += header.last_offset_delta + 2
    return data


def row_of(headers: BatchHeaders, index: int) -> BatchHeader:
    return BatchHeader(
        base_offset=int(headers.base_offset[index]),
        batch_length=int(headers.size_bytes[index]) - 12,
        leader_epoch=int(headers.leader_epoch[index]),
        magic=2,
        crc=int(headers.crc[index]),
        attributes=int(headers.attributes[index]),
        last_offset_delta=int(headers.last_offset[index] - headers.base_offset[index]),
        base_timestamp=int(headers.base_timestamp[index]),
        max_timestamp=int(headers.max_timestamp[index]),
        producer_id=int(headers.producer_id[index]),
        producer_epoch=int(headers.producer_epoch[index]),
        base_sequence=int(headers.base_sequence[index]),
        record_count=int(headers.record_count[index]),
    )


@given(batches)
@settings(max_examples=60, deadline=None)
def test_a_scan_says_what_a_walk_header_by_header_says(parts: list[bytes]) -> None:
    data = log_of(parts)
    headers = scan_headers(memoryview(bytearray(data)))
    walked = list(iter_headers(data))
    assert [(int(headers.position[index]), row_of(headers, index)) for index in range(len(headers))] == walked
    assert headers.end == len(data)
    assert headers.next_offset == (walked[-1][1].next_offset if walked else None)
    assert headers.is_control.tolist() == [header.is_control for _, header in walked]
    assert headers.is_transactional.tolist() == [header.is_transactional for _, header in walked]
    assert headers.is_append_time.tolist() == [bool(header.timestamp_type) for _, header in walked]
    assert headers.compression.tolist() == [header.compression for _, header in walked]
    assert (computed_crcs(data, headers) == headers.crc).all()


def test_the_view_of_batches_shows_a_crc_that_does_not_match() -> None:
    first = encode_batch(
        [NewRecord(value=b"a")] * 2, leader_epoch=4, producer_id=9, producer_epoch=1, base_sequence=5
    )
    second = bytearray(encode_batch([NewRecord(value=b"b")], base_offset=2))
    second[-1] ^= 1
    data = first + bytes(second)
    headers = scan_headers(data)
    rows = header_rows(data, headers, topic="orders", partition=3, raw=True)
    rows.validate(full=True)
    sound, damaged = rows.to_pylist()
    assert sound == {
        "topic": "orders",
        "partition": 3,
        "base_offset": 0,
        "last_offset": 1,
        "leader_epoch": 4,
        "crc": int(headers.crc[0]),
        "computed_crc": int(headers.crc[0]),
        "size_bytes": len(first),
        "attributes": 0,
        "producer_id": 9,
        "producer_epoch": 1,
        "base_sequence": 5,
        "record_count": 2,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "raw": first,
    }
    assert damaged["crc"] != damaged["computed_crc"]
    assert damaged["raw"] == bytes(second)
    assert header_rows(data, headers, topic="orders", partition=3).schema == HEADER_SCHEMA


def test_no_bytes_are_no_batches() -> None:
    headers = scan_headers(b"")
    assert len(headers) == headers.end == 0
    assert headers.next_offset is None
    assert header_rows(b"", headers, topic="t", partition=0, raw=True).num_rows == 0
    assert computed_crcs(b"", headers).dtype == np.uint32


@given(batches, st.data())
@settings(max_examples=60, deadline=None)
def test_a_survey_tells_every_fault_and_goes_on_after_it(parts: list[bytes], data: st.DataObject) -> None:
    log = bytearray(log_of(parts))
    found = [position for position, _ in iter_headers(bytes(log))]
    bad = data.draw(st.sets(st.sampled_from(range(len(parts))))) if parts else set()
    for index in bad:
        log[found[index] + 16] = 1  # the format
    surveyed = survey_headers(bytes(log))
    assert surveyed.headers.position.tolist() == found
    assert surveyed.faults == dict.fromkeys(sorted(bad), "not record format 2")
    assert surveyed.broken is None


def test_a_survey_says_where_no_batch_begins_any_more() -> None:
    batch = encode_batch([NewRecord(value=b"v")])
    broken = batch[:8] + (3).to_bytes(4) + batch[12:]
    surveyed = survey_headers(batch + broken + batch)
    assert len(surveyed.headers) == 1
    assert surveyed.broken is not None
    assert (surveyed.broken.position, surveyed.broken.reason) == (len(batch), "impossible batch length 3")


def test_a_survey_leaves_it_to_the_caller_whether_offsets_ascend() -> None:
    batch = encode_batch([NewRecord(value=b"v")])
    surveyed = survey_headers(batch + batch)
    assert len(surveyed.headers) == 2
    assert not surveyed.faults
