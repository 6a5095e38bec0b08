"""Record batches to Arrow: the records of a fetch as the rows of Spark's Kafka source.

Batches are opened a few megabytes at a time: their records become one payload (the fetched bytes themselves
when nothing is compressed, else one joined buffer), the spans of all records are found together (spans.py),
every field is read as a column (fields.py), and Arrow copies keys and values out. No object is made per
record.

Only right rows are returned: each batch's CRC is checked before it is opened, every length against its
container, and offsets must ascend within the span of their header. Otherwise DamagedBatch names the batch.
The caller's figures bound memory, not the bytes' claims: about `payload_bytes_target` and one batch of at
most `batch_bytes_max` opened at a time, and some ten 64-bit numbers for each record, which has at least seven
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from springtide.wire.compression import Buffer, Compression, CorruptCompressedData, DecompressedTooLarge
from springtide.wire.record_batch import CRC_START, HEADER_BYTES, RECORD_BYTES_MIN

from .compress import Arena
from .fields import HEADERS_TYPE, Fields, header_column, read_fields
from .headers import BatchHeaders, scan_headers
from .isolation import aborted_batches
from .spans import Lanes, Malformed, binary_column, record_spans, refuse_first
from .varints import Bools, Int64s, Octets, Payload

PAYLOAD_BYTES_TARGET = 4 * 1024 * 1024
"""Bytes opened at a time: enough that a call of NumPy costs little per record, few enough for a cache."""
BATCH_BYTES_MAX = 256 * 1024 * 1024
"""Cap of one batch's records once opened, above what any sane max.message.bytes expands to."""
PAYLOAD_BYTES_LIMIT = 2**31 - 1
"""Arrow's binary arrays have 32-bit offsets."""
OFFSET_MAX = 2**63 - 1

_FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
RECORD_COLUMNS = tuple(_FIELDS)
"""The columns of Spark's Kafka source, in its order; `headers` is what its option includeHeaders adds."""
PLAIN_COLUMNS = RECORD_COLUMNS[:-1]

_TIMESTAMP_MS_LIMIT = (2**63 - 1) // 1000
_US_PER_MS = 1000
_EXPANSION_EXPECTED = 4


def record_schema(columns: Sequence[str] = PLAIN_COLUMNS) -> pa.Schema:
    """Return these columns as Spark expects them of Arrow, each nullable. Raise ValueError for unknown
    names."""
    unknown = [name for name in columns if name not in _FIELDS]
    if unknown:
        raise ValueError(f"unknown columns {', '.join(unknown)}: there are {', '.join(RECORD_COLUMNS)}")
    return pa.schema([(name, _FIELDS[name]) for name in columns])


def decode_records(
    data: Buffer,
    headers: BatchHeaders | None = None,
    *,
    topic: str,
    partition: int,
    columns: Sequence[str] = PLAIN_COLUMNS,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    aborted: Sequence[tuple[int, int]] = (),
    payload_bytes_target: int = PAYLOAD_BYTES_TARGET,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `data` with first_offset <= offset < end_offset, in order, in the columns of
    record_schema(columns).

    `headers` is scan_headers(data) if the caller has it. Its `next_offset` says how far the fetch went, which
    rows can't, because control batches (KIP-98) and aborted ones are dropped. `aborted` holds the (producer
    id, first offset) pairs of the Fetch answer; only a read_committed one has any. Batches behind
    `end_offset` are not read. Empty record batches are not yielded. Timestamps are exact to the millisecond;
    under LogAppendTime each is the batch's.

    Raise DamagedBatch at the first bad batch, an undefined codec, or a timestamp beyond microseconds in 64
    bits; the rows before are right.
    """
    schema = record_schema(columns)
    if not 0 < batch_bytes_max <= PAYLOAD_BYTES_LIMIT // 2 or payload_bytes_target > PAYLOAD_BYTES_LIMIT // 2:
        raise ValueError("at most 1 GiB of records can be opened at a time")
    view = memoryview(data)
    if headers is None:
        headers = scan_headers(view)
    is_wanted = holds_wanted(headers, first_offset, end_offset)
    if len(aborted):
        is_wanted &= ~aborted_batches(view, headers, aborted)
    decoder = Decoder(headers, schema, topic, partition, (first_offset, end_offset))
    opener = Opener(view, headers, batch_bytes_max)
    in_range = int(np.searchsorted(headers.base_offset, end_offset))
    for group in opener.groups(np.flatnonzero(is_wanted), in_range, payload_bytes_target):
        rows = decoder.decode(*group)
        if rows.num_rows:
            yield rows


def holds_wanted(headers: BatchHeaders, first_offset: Int64s | int, end_offset: Int64s | int) -> Bools:
    """Return which batches may have a user's record with first_offset <= offset < end_offset. Offsets are the
    same for all batches, or one each."""
    is_wanted = (headers.last_offset >= first_offset) & (headers.base_offset < end_offset)
    wanted: Bools = is_wanted & ~headers.is_control & (headers.record_count > 0)
    return wanted


class Opener:
    """Checks CRCs and makes payloads of groups of batches."""

    def __init__(self, view: memoryview, headers: BatchHeaders, batch_bytes_max: int) -> None:
        self._view = view
        self._headers = headers
        self._batch_bytes_max = batch_bytes_max
        self._position = headers.position.tolist()
        self._size = headers.size_bytes.tolist()
        self._crc = headers.crc.tolist()
        self._codec = headers.compression.tolist()
        self._checked = 0

    def groups(
        self, wanted: Int64s, in_range: int, bytes_target: int
    ) -> Iterator[tuple[Int64s, Buffer | Octets, Lanes]]:
        """Yield (batch numbers, payload, lanes in it), each of about `bytes_target` of opened records.

        The CRCs of all `in_range` batches are checked, also of unwanted ones: their headers say that they are
        unwanted, and the CRC covers all of a header but offset, length and leader epoch.
        """
        is_compressed = bool((self._headers.compression[wanted] != Compression.NONE).any())
        first = 0
        while first < len(wanted):
            opened = self._joined if is_compressed else self._as_fetched
            group, payload, lanes = opened(wanted[first:], bytes_target)
            yield group, payload, lanes
            first += len(group)
        self._check_crcs(in_range)

    def _as_fetched(self, wanted: Int64s, bytes_target: int) -> tuple[Int64s, Buffer | Octets, Lanes]:
        candidates = wanted[: bytes_target // HEADER_BYTES + 1]
        starts, sizes = self._headers.position[candidates], self._headers.size_bytes[candidates]
        count = int(np.searchsorted(np.cumsum(sizes), bytes_target, side="right"))
        group = wanted[: max(count, 1)]
        starts, ends = starts[: len(group)], (starts + sizes)[: len(group)]
        self._check_crcs(int(group[-1]) + 1)
        for index in group.tolist():
            if self._size[index] - HEADER_BYTES > self._batch_bytes_max:
                raise self._headers.damaged(index, f"more than {self._batch_bytes_max} bytes of records")
        first = int(starts[0])
        lanes = Lanes(starts - first + HEADER_BYTES, ends - first, self._counts(group))
        return group, self._view[first : int(ends[-1])], lanes

    def _joined(self, wanted: Int64s, bytes_target: int) -> tuple[Int64s, Buffer | Octets, Lanes]:
        # A fresh arena for each group: Arrow's data must not change.
        arena = Arena(min(bytes_target + bytes_target // 4, self._view.nbytes * _EXPANSION_EXPECTED))
        ends: list[int] = []
        for index in map(int, wanted):
            self._check_crcs(index + 1)
            self._open(arena, index)
            ends.append(arena.used)
            if arena.used >= bytes_target:
                break
        group = wanted[: len(ends)]
        lane_ends = np.array(ends, np.int64)
        lane_starts = np.concatenate((np.zeros(1, np.int64), lane_ends[:-1]))
        counts = self._counts(group)
        too_many = counts * RECORD_BYTES_MIN > lane_ends - lane_starts
        if too_many.any():
            bad = int(group[int(too_many.argmax())])
            raise self._headers.damaged(bad, "record count exceeds what the bytes can hold")
        return group, arena.octets, Lanes(lane_starts, lane_ends, counts)

    def _counts(self, group: Int64s) -> Int64s:
        return self._headers.record_count[group].astype(np.int64)

    def _check_crcs(self, end: int) -> None:
        """Check the batches before number `end` that have not been checked."""
        for index in range(self._checked, end):
            start = self._position[index]
            if crc32c(self._view[start + CRC_START : start + self._size[index]]) != self._crc[index]:
                raise self._headers.damaged(index, "CRC does not match")
        self._checked = max(end, self._checked)

    def _open(self, arena: Arena, index: int) -> None:
        codec = self._codec[index]
        if codec > Compression.ZSTD:
            raise self._headers.damaged(index, f"unknown codec {codec}")
        start = self._position[index]
        records = self._view[start + HEADER_BYTES : start + self._size[index]]
        try:
            arena.add(Compression(codec), records, bytes_max=self._batch_bytes_max)
        except CorruptCompressedData as error:
            name = Compression(codec).name.lower()
            raise self._headers.damaged(index, f"records are no {name}: {error}") from error
        except DecompressedTooLarge:
            reason = f"more than {self._batch_bytes_max} bytes of records"
            raise self._headers.damaged(index, reason) from None


class OpenedGroup(NamedTuple):
    """The wanted rows of one group, a row a record."""

    payload: Payload
    data: pa.Buffer
    fields: Fields
    offsets: Int64s
    batch_of: Int64s
    """Each row's batch, by its number in the headers."""


class Decoder:
    """Makes rows of one opened group after another."""

    def __init__(
        self,
        headers: BatchHeaders,
        schema: pa.Schema,
        topic: str,
        partition: int,
        offsets: tuple[int, int],
    ) -> None:
        self._headers = headers
        self._schema = schema
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._first_offset, self._end_offset = offsets

    def decode(self, group: Int64s, payload_bytes: Buffer | Octets, lanes: Lanes) -> pa.RecordBatch:
        payload = Payload(payload_bytes)
        try:
            starts, ends = record_spans(payload, lanes)
        except Malformed as error:
            raise self._headers.damaged(int(group[error.row]), error.reason) from None
        batch_of = np.repeat(group, lanes.records)
        try:
            fields = read_fields(payload, starts, ends)
            offsets = self._offsets(fields, batch_of)
            which = self._within(offsets, batch_of)
            fields, offsets, batch_of = fields.picked(which), offsets[which], batch_of[which]
            opened = OpenedGroup(payload, pa.py_buffer(payload.octets), fields, offsets, batch_of)
            arrays = [self._column(name, opened) for name in self._schema.names]
        except Malformed as error:
            raise self._headers.damaged(int(batch_of[error.row]), error.reason) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, opened: OpenedGroup) -> pa.Array:
        fields = opened.fields
        match name:
            case "key":
                return binary_column(opened.data, fields.key_start, fields.key_end, fields.key_is_null)
            case "value":
                return binary_column(opened.data, fields.value_start, fields.value_end, fields.value_is_null)
            case "topic":
                return self._topics(opened)
            case "partition":
                return self._partitions(opened)
            case "offset":
                return pa.array(opened.offsets)
            case "timestamp":
                return self._timestamps(fields, opened.batch_of)
            case "timestampType":
                return pa.array(self._headers.is_append_time[opened.batch_of].astype(np.int32))
            case _:
                return header_column(opened.payload, opened.data, fields)

    def _within(self, offsets: Int64s, batch_of: Int64s) -> slice | Bools:
        """Return the rows to make columns of."""
        first, last = np.searchsorted(offsets, (self._first_offset, self._end_offset)).tolist()
        return slice(first, last)

    def _topics(self, opened: OpenedGroup) -> pa.Array:
        return pa.repeat(self._topic, len(opened.offsets))

    def _partitions(self, opened: OpenedGroup) -> pa.Array:
        return pa.repeat(self._partition, len(opened.offsets))

    def _offsets(self, fields: Fields, batch_of: Int64s) -> Int64s:
        """Return absolute offsets, ascending within the span of the batch's header. Compaction leaves
        gaps."""
        base, last = self._headers.base_offset[batch_of], self._headers.last_offset[batch_of]
        offsets = base + fields.offset_delta
        is_bad = (fields.offset_delta < 0) | (offsets > last)
        is_bad[1:] |= (offsets[1:] <= offsets[:-1]) & (batch_of[1:] == batch_of[:-1])
        refuse_first(is_bad, "offsets do not ascend within what the header spans")
        return offsets

    def _timestamps(self, fields: Fields, batch_of: Int64s) -> pa.Array:
        headers = self._headers
        base = np.where(headers.is_append_time, headers.max_timestamp, headers.base_timestamp)[batch_of]
        delta = np.where(headers.is_append_time[batch_of], 0, fields.timestamp_delta)
        # Both within the limit, their sum cannot wrap; a delta may span it from end to end.
        limit = _TIMESTAMP_MS_LIMIT
        is_bad = (base > limit) | (base < -limit) | (delta > 2 * limit) | (delta < -2 * limit)
        milliseconds = base + np.where(is_bad, 0, delta)
        is_bad |= (milliseconds > limit) | (milliseconds < -limit)
        refuse_first(is_bad, "timestamp is beyond what microseconds in 64 bits can hold")
        return pa.array(milliseconds * _US_PER_MS).cast(pa.timestamp("us", tz="UTC"))
