"""Rows of a lake as the sink takes them: which columns, which rows, and in which order. Pure.

Names are matched without regard to case. Other columns than key, value, headers, timestamp and partition are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ReplayError
from pipeline.replay.plan import NO_PARTITION, NO_TIME, Partitioning, ReplaySettings, Timestamps

MILLISECONDS = pa.timestamp("ms", tz="UTC")
OFFSET = "offset"
COLUMNS = ("key", "value", "headers", "timestamp", "partition", OFFSET)
NO_PARTITION_ADVICE = (
    "--partitioning murmur2 places records by their keys, as Kafka's producers do; or add a column "
    "'partition' (int)."
)


def columns_of(schema: pa.Schema, path: str) -> dict[str, str]:
    """Return the file's own names by those of COLUMNS. Raises ReplayError if they can't be a topic's
    records."""
    found: dict[str, str] = {}
    for field in schema:
        name = field.name.lower()
        if name not in COLUMNS:
            continue
        if name in found:
            raise ReplayError(f"{path}: columns {found[name]!r} and {field.name!r} differ only in case")
        if not _is_allowed(name, field.type):
            raise ReplayError(f"{path}: column {field.name!r} is {field.type}, and must be {_WANTED[name]}")
        found[name] = field.name
    if "value" not in found:
        raise ReplayError(
            f"{path} has no column 'value': its columns are {', '.join(schema.names[:20])}",
            "Write the records with the columns key, value, headers, timestamp and partition; only value is "
            "required.",
        )
    return found


_WANTED = {
    "key": "string or binary",
    "value": "string or binary",
    "headers": "array<struct<key: string, value: binary>>",
    "timestamp": "a timestamp",
    "partition": "a whole number",
    OFFSET: "a whole number",
}


def _is_allowed(name: str, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(kind):
        return True
    match name:
        case "key" | "value":
            return _is_bytes(kind)
        case "headers":
            if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
                return False
            parts = {part.name: part.type for part in kind.value_type}
            return parts.keys() >= {"key", "value"} and _is_bytes(parts["key"]) and _is_bytes(parts["value"])
        case "timestamp":
            return bool(types.is_timestamp(kind))
        case _:
            return bool(types.is_integer(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return any(
        check(kind)
        for check in (
            types.is_string,
            types.is_binary,
            types.is_large_string,
            types.is_large_binary,
            types.is_string_view,
            types.is_binary_view,
            types.is_fixed_size_binary,
        )
    )


def sink_rows(
    rows: pa.RecordBatch, settings: ReplaySettings, *, partition: int = NO_PARTITION, now_ms: int
) -> pa.RecordBatch:
    """Return the rows that are replayed, as the sink takes them; perhaps none.

    rows: columns of COLUMNS. partition: of all rows, if there is no such column. now_ms: takes the place of
    every timestamp, or of those that are missing or below 0 (Kafka's -1 is "no timestamp").
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    times = columns.pop("timestamp", None)
    if times is None or pa.types.is_null(times.type):
        times = pa.nulls(rows.num_rows, MILLISECONDS)
    else:
        if times.type.tz is None:
            times = times.cast(pa.timestamp(times.type.unit, tz="UTC"))
        times = times.cast(MILLISECONDS, safe=times.type.unit == "s")
    chosen = _within(times, settings.from_ms, settings.until_ms)
    columns.pop(OFFSET, None)
    given = columns.pop("partition", None)
    if settings.partitioning is Partitioning.KEEP:
        if partition != NO_PARTITION:
            given = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
        elif given is None or given.null_count:
            raise ReplayError("a row has no partition to keep", NO_PARTITION_ADVICE)
        columns["partition"] = given.cast(pa.int32())
    now = pa.scalar(now_ms, pa.int64()).cast(MILLISECONDS)
    if settings.timestamps is Timestamps.NOW:
        columns["timestamp"] = pa.repeat(now, rows.num_rows)
    else:
        known = pc.greater_equal(times.cast(pa.int64()), 0)
        columns["timestamp"] = pc.if_else(pc.fill_null(known, False), times, now)
    picked = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return picked if chosen is None else picked.filter(chosen)


def _within(times: pa.Array, from_ms: int, until_ms: int) -> pa.Array | None:
    """Return which timestamps are asked for; None if all are, also missing ones."""
    if from_ms == until_ms == NO_TIME:
        return None
    numbers = times.cast(pa.int64())
    chosen = pc.greater_equal(numbers, max(from_ms, 0))
    if until_ms != NO_TIME:
        chosen = pc.and_(chosen, pc.less(numbers, until_ms))
    return pc.fill_null(chosen, False)


def merged_by_offset(sources: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge rows of several sources that each ascend in the column `offset`: one range of a log that landed
    in several folders, by the hour. Raises ReplayError for a source that does not ascend, or an offset that
    is there twice."""
    reached = -1
    heads = [head for head in (_Head.of(source) for source in sources) if head is not None]
    while heads:
        until = min(int(head.offsets[-1]) for head in heads)
        parts = [head.take_until(until) for head in heads]
        rows = pa.Table.from_batches([part for part in parts if part.num_rows]).combine_chunks()
        offsets = rows.column(OFFSET).to_numpy()
        order = np.argsort(offsets, kind="stable")
        if int(offsets[order[0]]) <= reached or bool((np.diff(offsets[order]) == 0).any()):
            raise ReplayError(f"an offset at or below {until} is there twice")
        reached = until
        yield from rows.take(pa.array(order)).to_batches()
        heads = [head for head in heads if head.refill()]


class _Head:
    """The next rows of a source."""

    def __init__(self, rows: pa.RecordBatch, source: Iterator[pa.RecordBatch]) -> None:
        self._source = source
        self._set(rows, -1)

    @classmethod
    def of(cls, source: Iterator[pa.RecordBatch]) -> _Head | None:
        first = next((rows for rows in source if rows.num_rows), None)
        return None if first is None else cls(first, source)

    def _set(self, rows: pa.RecordBatch, reached: int) -> None:
        self._rows = rows
        self.offsets = rows.column(rows.schema.get_field_index(OFFSET)).to_numpy(zero_copy_only=False)
        if int(self.offsets[0]) <= reached or bool((np.diff(self.offsets) <= 0).any()):
            raise ReplayError("a file's rows are not in the order of their offsets")

    def take_until(self, offset: int) -> pa.RecordBatch:
        """Take the rows up to this offset, inclusive."""
        count = int(np.searchsorted(self.offsets, offset, side="right"))
        taken, self._rows = self._rows.slice(0, count), self._rows.slice(count)
        self._reached = int(self.offsets[count - 1]) if count else -1
        self.offsets = self.offsets[count:]
        return taken

    def refill(self) -> bool:
        """Read on if needed; return whether there are rows left."""
        if len(self.offsets):
            return True
        rows = next((rows for rows in self._source if rows.num_rows), None)
        if rows is not None:
            self._set(rows, self._reached)
        return rows is not None
