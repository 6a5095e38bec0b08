"""What tells whether two records are the same one, from the bytes of their batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records.decode import decode_records
from pipeline.records.headers import DamagedBatch
from pipeline.salvage.identity import (
    IDENTITY_SCHEMA,
    NO_TIMESTAMP,
    RecordsPlace,
    TimeWindow,
    TransactionPart,
    identity_rows,
)
from pipeline.salvage.marks import HEADER, marked, with_marks, without_marks
from pipeline.sink.identity import DERIVED
from springtide.wire.compression import Compression
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.record_batch import TimestampType, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch, write_varint

Headers = tuple[tuple[str, bytes | None], ...]


def record(
    key: bytes | None = None, value: bytes | None = b"v", timestamp: int = 1_000, headers: Headers = ()
) -> NewRecord:
    return NewRecord(key, value, timestamp, headers)


PLACE = RecordsPlace(0)


def identified(data: bytes, place: RecordsPlace = PLACE, **options: Any) -> list[dict[str, Any]]:
    bounds = {"first_offset": 0, "end_offset": 2**62, **options}
    batches = list(identity_rows(data, place, **bounds))
    assert all(batch.schema == IDENTITY_SCHEMA for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def content(of: NewRecord) -> bytes:
    (row,) = identified(encode_batch([of]))
    found: bytes = row["content"]
    assert len(found) == 16
    return found


def test_a_row_tells_where_a_record_stands_and_who_sent_it() -> None:
    first = encode_batch(
        [record(b"a"), record(b"b", timestamp=2_000)],
        base_offset=10,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 1,
    )
    second = encode_batch([record(b"a")], base_offset=12, leader_epoch=5, compression=Compression.ZSTD)
    rows = identified(
        first + second,
        RecordsPlace(6, copy=2, copy_first=11, high_watermark=12),
        first_offset=11,
        with_keys=True,
    )
    told = [{name: row[name] for name in row if name not in ("content", "key")} for row in rows]
    assert told == [
        {
            "target": 6,
            "copy": 2,
            "copy_first": 11,
            "is_committed": True,
            "leader_epoch": 4,
            "offset": 11,
            "producer_id": 77,
            "producer_epoch": 3,
            "sequence": 0,  # sequences wrap (KAFKA-7692)
            "timestamp": 2_000,
            "is_marked": False,
            "transaction": -1,
        },
        {
            "target": 6,
            "copy": 2,
            "copy_first": 11,
            "is_committed": False,
            "leader_epoch": 5,
            "offset": 12,
            "producer_id": -1,
            "producer_epoch": -1,
            "sequence": -1,
            "timestamp": 1_000,
            "is_marked": False,
            "transaction": -1,
        },
    ]
    assert len({row["key"] for row in rows}) == 2
    assert identified(second)[0]["key"] is None, "keys cost: only where they are asked for"
    assert identified(encode_batch([record(None)]), with_keys=True)[0]["key"] is None


def test_a_sequence_counts_from_the_batch_s_first_offset_also_where_compaction_left_a_gap() -> None:
    whole = decode_header(
        encode_batch([record()] * 3, base_offset=20, producer_id=1, producer_epoch=0, base_sequence=100)
    )
    body = bytearray(b"\0\0\x04\x01\x02b\0")  # offset delta 2, null key, value b"b"
    one = bytearray()
    write_varint(one, len(body))
    kept = seal_batch(whole._replace(record_count=1, batch_length=49 + len(one) + len(body)), one + body)
    assert [(row["offset"], row["sequence"]) for row in identified(kept)] == [(22, 102)]


def test_the_brokers_own_timestamps_tell_nothing() -> None:
    stamped = encode_batch([record(timestamp=5)], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert identified(stamped)[0]["timestamp"] == NO_TIMESTAMP
    assert len(identified(stamped, window=TimeWindow(900, 1_000))) == 1, "and no window leaves them out"


def test_records_outside_the_window_are_left_out() -> None:
    data = encode_batch([record(timestamp=time) for time in (999, 1_000, 1_500, 2_000, 2_001)])
    rows = identified(data, window=TimeWindow(1_000, 2_000))
    assert [row["timestamp"] for row in rows] == [1_000, 1_500, 2_000]


octets = st.none() | st.binary(max_size=3)
headers_of = st.lists(st.tuples(st.sampled_from(["", "a", "ab"]), octets), max_size=2).map(tuple)


contents = st.tuples(octets, octets, headers_of)


@settings(max_examples=60, deadline=None)
@given(contents, contents)
def test_contents_have_one_hash_if_and_only_if_they_are_equal(
    one: tuple[bytes | None, bytes | None, Headers], other: tuple[bytes | None, bytes | None, Headers]
) -> None:
    hashes = [
        content(record(key, value, time, headers)) for time, (key, value, headers) in enumerate((one, other))
    ]
    assert (hashes[0] == hashes[1]) is (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record(b"ab", b"c"), record(b"a", b"bc")),
        (record(None, b"c"), record(b"", b"c")),
        (record(b"a", None), record(b"a", b"")),
        (record(headers=(("a", None),)), record(headers=(("a", b""),))),
        (record(headers=(("a", b"b"),)), record(headers=(("ab", b""),))),
        (record(headers=(("a", b"1"), ("b", b"2"))), record(headers=(("b", b"2"), ("a", b"1")))),
    ],
)
def test_bytes_that_run_together_to_the_same_are_other_contents(one: NewRecord, other: NewRecord) -> None:
    assert content(one) != content(other)


def test_the_mark_is_no_part_of_the_content_and_is_seen_where_a_merge_wrote_it() -> None:
    plain = record(b"k", headers=(("a", b"1"),))
    merged = record(b"k", headers=(("a", b"1"), (HEADER, b"{}")))
    (one,) = identified(encode_batch([plain]))
    ours = encode_batch([merged, plain], producer_id=DERIVED + 5, producer_epoch=0, base_sequence=0)
    (again, unmarked) = identified(ours)
    assert again["content"] == unmarked["content"] == one["content"]
    assert (again["is_marked"], unmarked["is_marked"]) == (True, False)
    # An application may have a header of that name: then it is its own.
    (foreign,) = identified(encode_batch([merged], producer_id=5, producer_epoch=0, base_sequence=0))
    assert foreign["content"] != one["content"]
    assert not foreign["is_marked"]


def decoded_headers(*records: NewRecord) -> pa.Array:
    (rows,) = decode_records(encode_batch(records), topic="t", partition=0, columns=("headers",))
    return rows["headers"]


def test_marks_are_set_once_and_taken_away_again() -> None:
    headers = decoded_headers(
        record(), record(headers=(("a", b"1"), ("b", None))), record(headers=((HEADER, b"old"), ("a", b"1")))
    )
    offsets, epochs = np.array([17, 18, 19]), np.array([3, 3, 4])
    merged = with_marks(headers, offsets, epochs, broker_id=2)
    assert merged.type == headers.type
    assert merged.to_pylist() == [
        [{"key": HEADER, "value": b'{"offset":17,"leaderEpoch":3,"broker":2}'}],
        [
            {"key": "a", "value": b"1"},
            {"key": "b", "value": None},
            {"key": HEADER, "value": b'{"offset":18,"leaderEpoch":3,"broker":2}'},
        ],
        [{"key": HEADER, "value": b"old"}, {"key": "a", "value": b"1"}],
    ]
    assert marked(headers).tolist() == [False, False, True]
    assert marked(merged).tolist() == [True, True, True]
    left = without_marks(merged)
    assert left.type == headers.type
    assert left.to_pylist() == [None, headers.to_pylist()[1], [{"key": "a", "value": b"1"}]]
    assert without_marks(headers.slice(0, 1)).to_pylist() == [None]
    assert with_marks(headers.slice(1, 1), offsets[:1], epochs[:1], broker_id=9)[0].as_py()[2]["value"] == (
        b'{"offset":17,"leaderEpoch":3,"broker":9}'
    )


def test_damage_is_told_and_gives_no_row() -> None:
    data = bytearray(encode_batch([record(b"k")]))
    data[-1] ^= 1
    with pytest.raises(DamagedBatch, match="CRC"):
        identified(bytes(data))


def test_records_of_transactions_and_their_markers_are_told_apart_from_others() -> None:
    plain = encode_batch([record(b"a")], base_offset=0)
    begun = encode_batch(
        [record(b"b"), record(b"c")], base_offset=1, producer_id=7, producer_epoch=2, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    ends = [
        encode_marker(
            outcome, coordinator_epoch=3, producer_id=7, producer_epoch=2, base_offset=offset,
            leader_epoch=4, timestamp_ms=5,
        )
        for offset, outcome in ((3, Outcome.COMMIT), (4, Outcome.ABORT), (5, Outcome.COMMIT))
    ]  # fmt: skip
    rows = identified(plain + begun + b"".join(ends), end_offset=5)
    assert [(row["offset"], TransactionPart(row["transaction"])) for row in rows] == [
        (0, TransactionPart.NONE),
        (1, TransactionPart.RECORD),
        (2, TransactionPart.RECORD),
        (3, TransactionPart.COMMIT),
        (4, TransactionPart.ABORT),
    ]
    assert rows[3]["leader_epoch"] == 4
    assert (rows[3]["producer_id"], rows[3]["content"], rows[3]["timestamp"]) == (7, None, NO_TIMESTAMP)
