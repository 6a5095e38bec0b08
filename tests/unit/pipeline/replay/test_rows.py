"""Rows of a lake as the sink takes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from pipeline.errors import ReplayError
from pipeline.replay.plan import NO_TIME, Partitioning, ReplaySettings, Timestamps
from pipeline.replay.rows import MILLISECONDS, columns_of, merged_by_offset, sink_rows

KEEP = ReplaySettings(
    run_id="r", source="/lake", topic="t", topic_id="", partition_count=3, partitioning=Partitioning.KEEP
)
BY_KEY = replace(KEEP, partitioning=Partitioning.MURMUR2)
NOW_MS = 5_000


def moments(*values: int | None, unit: str = "us", tz: str | None = "UTC") -> pa.Array:
    scale = {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
    return pa.array([None if ms is None else ms * scale for ms in values], pa.timestamp(unit, tz=tz))


def told(rows: pa.RecordBatch) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = rows.to_pydict()
    if "timestamp" in columns:
        at = rows.schema.get_field_index("timestamp")
        columns["timestamp"] = rows.column(at).cast(pa.int64()).to_pylist()
    return columns


def test_all_that_makes_a_record_is_kept_and_nothing_else() -> None:
    headers = pa.array([[{"key": "h", "value": b"1"}], None, []])
    rows = pa.record_batch(
        {
            "value": pa.array([b"a", None, b"c"]),
            "key": pa.array(["x", None, "z"]),
            "headers": headers,
            "timestamp": moments(1, 2, 3),
            "partition": pa.array([2, 0, 1], pa.int64()),
            "offset": [7, 8, 9],
        }
    )
    assert told(sink_rows(rows, KEEP, now_ms=NOW_MS)) == {
        "value": [b"a", None, b"c"],
        "key": ["x", None, "z"],
        "headers": headers.to_pylist(),
        "partition": [2, 0, 1],
        "timestamp": [1, 2, 3],
    }
    assert "partition" not in sink_rows(rows, BY_KEY, now_ms=NOW_MS).schema.names


def test_the_files_partition_stands_for_all_its_rows() -> None:
    rows = pa.record_batch({"value": [b"a", b"b"], "partition": pa.array([0, 0], pa.int32())})
    assert told(sink_rows(rows, KEEP, partition=2, now_ms=NOW_MS))["partition"] == [2, 2]


def test_a_partition_that_nobody_tells_is_not_made_up() -> None:
    for partition in ({}, {"partition": pa.array([0, None], pa.int32())}):
        rows = pa.record_batch({"value": [b"a", b"b"], **partition})
        with pytest.raises(ReplayError, match="no partition to keep") as caught:
            sink_rows(rows, KEEP, now_ms=NOW_MS)
        assert "murmur2" in caught.value.advice
        assert sink_rows(rows, BY_KEY, now_ms=NOW_MS).num_rows == 2


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("tz", [None, "UTC", "Europe/Berlin"])
def test_only_records_of_the_time_that_is_asked_for_come(unit: str, tz: str | None) -> None:
    rows = pa.record_batch(
        {"value": list("abcde"), "timestamp": moments(9, 10, 19, 20, None, unit=unit, tz=tz)}
    )
    span = replace(BY_KEY, from_ms=10, until_ms=20)
    assert told(sink_rows(rows, span, now_ms=NOW_MS)) == {"value": ["b", "c"], "timestamp": [10, 19]}
    since = replace(BY_KEY, from_ms=19)
    assert told(sink_rows(rows, since, now_ms=NOW_MS))["value"] == ["c", "d"]
    until = replace(BY_KEY, from_ms=NO_TIME, until_ms=10)
    assert told(sink_rows(rows, until, now_ms=NOW_MS))["value"] == ["a"]


def test_a_record_without_a_time_gets_that_of_the_round() -> None:
    rows = pa.record_batch({"value": list("abc"), "timestamp": moments(None, -1, 3)})
    assert told(sink_rows(rows, BY_KEY, now_ms=NOW_MS))["timestamp"] == [NOW_MS, NOW_MS, 3]
    rows = pa.record_batch({"value": list("ab")})
    assert told(sink_rows(rows, BY_KEY, now_ms=NOW_MS))["timestamp"] == [NOW_MS, NOW_MS]


def test_all_may_get_the_time_of_the_round() -> None:
    rows = pa.record_batch({"value": list("abc"), "timestamp": moments(1, 2, 3)})
    now = replace(BY_KEY, timestamps=Timestamps.NOW, from_ms=2)
    assert told(sink_rows(rows, now, now_ms=NOW_MS)) == {"value": ["b", "c"], "timestamp": [NOW_MS] * 2}
    assert sink_rows(rows, now, now_ms=NOW_MS).schema.field("timestamp").type == MILLISECONDS


# --- columns --------------------------------------------------------------------------------------------


def test_columns_are_found_whatever_their_case() -> None:
    schema = pa.schema({"VALUE": pa.large_string(), "Key": pa.binary(), "offset": pa.int64(), "x": pa.int8()})
    assert columns_of(schema, "f") == {"value": "VALUE", "key": "Key", "offset": "offset"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": pa.binary()}, "no column 'value'"),
        ({"value": pa.int64()}, "must be string or binary"),
        ({"value": pa.binary(), "Value": pa.binary()}, "differ only in case"),
        ({"value": pa.binary(), "timestamp": pa.int64()}, "must be a timestamp"),
        ({"value": pa.binary(), "partition": pa.string()}, "must be a whole number"),
        ({"value": pa.binary(), "headers": pa.map_(pa.string(), pa.binary())}, "must be array"),
        ({"value": pa.binary(), "headers": pa.list_(pa.struct({"key": pa.string()}))}, "must be array"),
    ],
)
def test_columns_that_are_no_records_are_refused(fields: dict[str, pa.DataType], message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        columns_of(pa.schema(fields), "f.parquet")


# --- one range in several files ---------------------------------------------------------------------------


def chunks(offsets: list[int], dice: random.Random) -> Iterator[pa.RecordBatch]:
    left = list(offsets)
    while left:
        size = dice.randint(0, 4)
        some, left = left[:size], left[size:]
        yield pa.record_batch({"offset": pa.array(some, pa.int64()), "value": [str(n) for n in some]})


def test_offsets_of_one_range_come_together_again_in_order() -> None:
    for seed in range(150):
        dice = random.Random(seed)
        where = {offset: dice.randrange(3) for offset in range(dice.randint(0, 60)) if dice.random() < 0.8}
        sources = [[offset for offset in where if where[offset] == n] for n in range(3)]
        rows = list(merged_by_offset([chunks(each, dice) for each in sources]))
        got = [offset for batch in rows for offset in batch.column("offset").to_pylist()]
        assert got == sorted(where), seed
        assert [v for batch in rows for v in batch.column("value").to_pylist()] == [str(n) for n in got]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([[1, 3], [2, 3]], "is there twice"),
        ([[1, 2], [2, 3]], "is there twice"),
        ([[1, 3, 2], [5]], "not in the order"),
        ([[1, 1], [5]], "not in the order"),
    ],
)
def test_files_that_are_not_what_a_manifest_says_are_refused(sources: list[list[int]], message: str) -> None:
    for size in (1, 2, 10):

        def parts(offsets: list[int], size: int = size) -> Iterator[pa.RecordBatch]:
            for at in range(0, len(offsets), size):
                some = offsets[at : at + size]
                yield pa.record_batch({"offset": pa.array(some, pa.int64()), "value": [b"v"] * len(some)})

        with pytest.raises(ReplayError, match=message):
            list(merged_by_offset([parts(each) for each in sources]))
