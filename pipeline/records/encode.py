"""Arrow to record batches: one partition's stream of rows becomes the batches a producer sends.

Where the stream is cut is a pure function of the rows (cut.py), and so is every byte of a batch, given the
options, the producer and the timestamp for rows without one: a repeated attempt sends what was sent before.
Rows are encoded many at a time, column by column, without an object per record, once they fill a batch; those
behind the last full one are its successor's beginning, and are not touched again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from springtide.wire.compression import Compression
from springtide.wire.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
)

from .compress import check_level, compress
from .cut import cuts
from .rows import RecordRows, concatenated, joined, lengths, record_rows, varint_column
from .varints import Words, varint_sizes, zigzag

BATCH_BYTES_MAX = 1_000_000
"""A little below the default of message.max.bytes (1048588)."""
BATCH_BYTES_LIMIT = 512 * 1024 * 1024
RECORD_BYTES_MAX = 100_000_000
"""Below the default of socket.request.max.bytes (104857600): a broker does not answer a larger request."""
RECORDS_MAX = 2**16
ENCODE_BYTES_MAX = 64 * 1024 * 1024
"""Rows are encoded together up to so many bytes; Arrow's offsets allow 2^31."""

_HEAD = struct.Struct(">qiibI")
_SEALED = struct.Struct(">hiqqqhii")
"""A header in front of its CRC and behind it, where what the CRC covers begins."""
_BASE_OFFSET, _NO_LEADER_EPOCH = 0, -1


class RecordTooLarge(Exception):
    """Row `row` fits no batch: its record can take `size_bytes`, as Kafka's producer counts."""

    def __init__(self, row: int, *, size_bytes: int, bytes_max: int) -> None:
        super().__init__(f"row {row}: a record of up to {size_bytes} bytes; {bytes_max} are the most")
        self.row = row
        self.size_bytes = size_bytes


class BatchOptions(NamedTuple):
    """The options of batches. Attempts that have to send the same batches must have the same options."""

    compression: Compression = Compression.NONE
    level: int | None = None
    """The codec's level; None is its default."""
    batch_bytes_max: int = BATCH_BYTES_MAX
    """No batch of several records is larger, header included, before or after compression. A larger record is
    alone in its batch, as with Kafka's producer, and the topic's max.message.bytes decides."""
    records_max: int = RECORDS_MAX
    record_bytes_max: int = RECORD_BYTES_MAX
    """A larger record is refused before it is sent, unless `batch_bytes_max` has room for it."""

    def check(self) -> None:
        """Raise ValueError for options that no batch can be made with."""
        check_level(self.compression, self.level)
        if not HEADER_BYTES < self.batch_bytes_max <= BATCH_BYTES_LIMIT:
            raise ValueError(f"a batch has more than {HEADER_BYTES} and at most {BATCH_BYTES_LIMIT} bytes")
        if self.records_max < 1:
            raise ValueError("a batch has at least one record")


class EncodedBatch(NamedTuple):
    """One batch, sealed, with base offset 0 as a producer sends it."""

    data: bytes
    first_row: int
    """Its first row, counted from the beginning of the partition's stream."""
    record_count: int
    base_sequence: int
    """-1 without a producer id."""
    max_timestamp: int
    """Unix milliseconds."""

    @property
    def last_sequence(self) -> int:
        """Return the last record's sequence, -1 without a producer id; 0 follows 2^31-1 (KAFKA-7692)."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.record_count - 1) & SEQUENCE_MAX


class PartitionEncoder:
    """Cuts and encodes the stream of one topic-partition.

    `timestamp_ms` is given to rows without a timestamp. With a producer id the sequence of a record is its
    place in the stream, modulo 2^31. `first_row` is the place of the first row that will be added: the number
    of stored rows, for an attempt that resumes behind them.
    """

    def __init__(
        self,
        *,
        options: BatchOptions,
        timestamp_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        first_row: int = 0,
    ) -> None:
        options.check()
        if (producer_id < 0) != (producer_epoch < 0):
            raise ValueError("a producer id and its epoch come together")
        if timestamp_ms < 0:
            raise ValueError("timestamp_ms is negative")
        self._options = options
        self._records_bytes_max = options.batch_bytes_max - HEADER_BYTES
        self._timestamp_ms = timestamp_ms
        self._producer = (producer_id, producer_epoch)
        self._next_row = first_row
        self._waiting: list[RecordRows] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._open: _OpenBatch | None = None

    @property
    def rows_added(self) -> int:
        """Return the rows of the stream up to now, those before `first_row` included."""
        return self._next_row

    def add(self, rows: pa.RecordBatch | pa.Table) -> list[EncodedBatch]:
        """Return the batches that `rows` made full, in order.

        Raise BadColumn, BadRow or RecordTooLarge; the stream can't continue then.
        """
        batches = rows.to_batches() if isinstance(rows, pa.Table) else (rows,)
        encoded: list[EncodedBatch] = []
        for batch in batches:
            encoded += self._add(batch)
        return encoded

    def finish(self) -> list[EncodedBatch]:
        """Return the rest of the stream as its last batch; no batch if no row waits."""
        encoded = self._encode_waiting()
        return encoded if self._open is None else [*encoded, self._seal()]

    def _add(self, batch: pa.RecordBatch) -> list[EncodedBatch]:
        rows = record_rows(batch, timestamp_ms=self._timestamp_ms, first_row=self._next_row)
        if not rows:
            return []
        self._check_sizes(rows)
        self._next_row += len(rows.size_max)
        self._waiting.append(rows)
        self._waiting_rows += len(rows.size_max)
        self._waiting_bytes += int(rows.size_max.sum())
        records, size_max = (0, 0) if self._open is None else (self._open.record_count, self._open.size_max)
        if (
            size_max + self._waiting_bytes <= self._records_bytes_max
            and records + self._waiting_rows <= self._options.records_max
        ):
            return []
        return self._encode_waiting()

    def _check_sizes(self, rows: RecordRows) -> None:
        bytes_max = max(self._records_bytes_max, self._options.record_bytes_max)
        is_large = rows.size_max > bytes_max
        if is_large.any():
            place = int(is_large.argmax())
            raise RecordTooLarge(
                self._next_row + place,
                size_bytes=int(rows.size_max[place]),
                bytes_max=bytes_max,
            )

    def _encode_waiting(self) -> list[EncodedBatch]:
        """Encode the rows that wait; return the batches that they made full."""
        if not self._waiting:
            return []
        rows = joined(self._waiting)
        next_row = self._next_row - self._waiting_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        encoded: list[EncodedBatch] = []
        count = len(rows.size_max)
        first = 0
        for last in (*cuts(rows.size_max, bytes_max=ENCODE_BYTES_MAX, records_max=count), count):
            encoded += self._encode(rows.sliced(first, last), next_row + first)
            first = last
        return encoded

    def _encode(self, rows: RecordRows, first_row: int) -> list[EncodedBatch]:
        """Encode rows as the stream's next; return the batches that they made full. The last rows are the
        beginning of a batch that stays open."""
        encoded: list[EncodedBatch] = []
        opened = self._open
        ends = cuts(
            rows.size_max,
            bytes_max=self._records_bytes_max,
            records_max=self._options.records_max,
            bytes_open=0 if opened is None else opened.size_max,
            records_open=0 if opened is None else opened.record_count,
        )
        if ends and ends[0] == 0:
            encoded.append(self._seal())
            opened = None
            del ends[0]
        starts = np.array([0, *ends])
        counts = np.diff(starts, append=len(rows.size_max))
        base_timestamps = rows.timestamp_ms[starts]
        offsets = np.arange(len(rows.size_max)) - np.repeat(starts, counts)
        if opened is not None:
            base_timestamps[0] = opened.base_timestamp
            offsets[: counts[0]] += opened.record_count
        deltas = rows.timestamp_ms - np.repeat(base_timestamps, counts)
        records = _records(rows, zigzag(deltas), zigzag(offsets))
        byte_end = 0
        max_timestamps = np.maximum.reduceat(rows.timestamp_ms, starts).tolist()
        sizes_max = np.add.reduceat(rows.size_max, starts).tolist()
        byte_ends = np.cumsum(np.add.reduceat(lengths(records), starts)).tolist()
        data = memoryview(records.buffers()[2])
        for index, record_count in enumerate(counts.tolist()):
            if index:
                encoded.append(self._seal())
            if self._open is None:
                self._open = _OpenBatch(first_row + int(starts[index]), int(base_timestamps[index]))
            byte_start, byte_end = byte_end, byte_ends[index]
            self._open.add(
                data[byte_start:byte_end],
                record_count=record_count,
                max_timestamp=max_timestamps[index],
                size_max=sizes_max[index],
            )
        return encoded

    def _seal(self) -> EncodedBatch:
        """End the open batch."""
        opened, self._open = self._open, None
        assert opened is not None
        compression = self._options.compression
        parts = opened.parts
        if compression is not Compression.NONE:
            records = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            payload = compress(compression, records, self._options.level)
            if len(payload) < len(records):
                parts = [memoryview(payload)]
            else:  # no gain, and it might exceed the limit
                compression = Compression.NONE
        producer_id, producer_epoch = self._producer
        base_sequence = opened.first_row & SEQUENCE_MAX if producer_id >= 0 else NO_SEQUENCE
        sealed = _SEALED.pack(
            compression,
            opened.record_count - 1,
            opened.base_timestamp,
            opened.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            opened.record_count,
        )
        crc = crc32c(sealed)
        for part in parts:
            crc = crc32c(part, crc)
        length = BATCH_LENGTH_MIN + sum(map(len, parts))
        head = _HEAD.pack(_BASE_OFFSET, length, _NO_LEADER_EPOCH, MAGIC, crc)
        data = b"".join((head, sealed, *parts))
        assert len(data) <= self._options.batch_bytes_max or opened.record_count == 1
        return EncodedBatch(data, opened.first_row, opened.record_count, base_sequence, opened.max_timestamp)


class _OpenBatch:
    """A batch that is not full yet. parts: its encoded records. size_max: the most bytes that they could
    take."""

    __slots__ = ("base_timestamp", "first_row", "max_timestamp", "parts", "record_count", "size_max")

    def __init__(self, first_row: int, base_timestamp: int) -> None:
        self.first_row = first_row
        self.base_timestamp = self.max_timestamp = base_timestamp
        self.record_count = self.size_max = 0
        self.parts: list[memoryview] = []

    def add(self, part: memoryview, *, record_count: int, max_timestamp: int, size_max: int) -> None:
        self.parts.append(part)
        self.record_count += record_count
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.size_max += size_max


def _records(rows: RecordRows, deltas: Words, offsets: Words) -> pa.Array:
    """Return the records' bytes, a value a row."""
    key_lengths, value_lengths = lengths(rows.key), lengths(rows.value)
    key_sizes, value_sizes = zigzag(key_lengths), zigzag(value_lengths)
    body_bytes = (
        1
        + varint_sizes(deltas)
        + varint_sizes(offsets)
        + varint_sizes(key_sizes)
        + np.maximum(key_lengths, 0)
        + varint_sizes(value_sizes)
        + np.maximum(value_lengths, 0)
        + lengths(rows.tail)
    )
    return concatenated(
        varint_column(zigzag(body_bytes), None, deltas, offsets, key_sizes),
        rows.key,
        varint_column(value_sizes),
        rows.value,
        rows.tail,
    )
