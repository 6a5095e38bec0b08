"""Arrow to record batches: one partition's stream of rows becomes the batches a producer sends.

Where the stream is cut is a pure function of the rows (cut.py), and so is every byte of a batch, given the
options, the producer and the timestamp for rows without one: a repeated attempt sends what was sent before.
Batches that are full together are encoded together, column by column, without an object per record.
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
from .varints import varint_sizes, zigzag

BATCH_BYTES_MAX = 1_000_000
"""A little below the default of message.max.bytes (1048588)."""
BATCH_BYTES_LIMIT = 512 * 1024 * 1024
RECORD_BYTES_MAX = 100_000_000
"""Below the default of socket.request.max.bytes (104857600): a broker does not answer a larger request."""
RECORDS_MAX = 2**16
ENCODE_BYTES_MAX = 64 * 1024 * 1024
"""Batches are encoded together up to so many bytes; Arrow's offsets allow 2^31."""

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
        if not self._waiting_rows:
            return []
        return self._encode(self._take_waiting(), [self._waiting_rows])

    def _add(self, batch: pa.RecordBatch) -> list[EncodedBatch]:
        rows = record_rows(batch, timestamp_ms=self._timestamp_ms, first_row=self._next_row)
        if not rows:
            return []
        self._check_sizes(rows)
        self._next_row += len(rows.size_max)
        self._waiting.append(rows)
        self._waiting_rows += len(rows.size_max)
        self._waiting_bytes += int(rows.size_max.sum())
        if self._waiting_bytes <= self._records_bytes_max and self._waiting_rows <= self._options.records_max:
            return []
        waiting = self._take_waiting()
        ends = cuts(
            waiting.size_max, bytes_max=self._records_bytes_max, records_max=self._options.records_max
        )
        return self._encode(waiting, ends)

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

    def _take_waiting(self) -> RecordRows:
        waiting = joined(self._waiting)
        self._waiting = []
        return waiting

    def _encode(self, rows: RecordRows, ends: list[int]) -> list[EncodedBatch]:
        """Return the batches that end before the rows `ends`; later rows wait again."""
        first_row = self._next_row - len(rows.size_max)
        encoded: list[EncodedBatch] = []
        first = 0
        for group in _groups(rows, ends):
            part = rows.sliced(first, group[-1])
            bounds = [end - first for end in group]
            encoded += self._encode_group(part, bounds, first_row + first)
            first = group[-1]
        rest = rows.sliced(first, len(rows.size_max))
        self._waiting = [rest] if rest else []
        self._waiting_rows = len(rest.size_max)
        self._waiting_bytes = int(rest.size_max.sum())
        return encoded

    def _encode_group(self, rows: RecordRows, ends: list[int], first_row: int) -> list[EncodedBatch]:
        counts = np.diff(ends, prepend=0)
        starts = np.array(ends) - counts
        base_timestamps = rows.timestamp_ms[starts]
        max_timestamps = np.maximum.reduceat(rows.timestamp_ms, starts).tolist()
        deltas = zigzag(rows.timestamp_ms - np.repeat(base_timestamps, counts))
        offsets = zigzag(np.arange(len(rows.size_max)) - np.repeat(starts, counts))
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
        body_sizes = zigzag(body_bytes)
        payload = concatenated(
            varint_column(body_sizes, None, deltas, offsets, key_sizes),
            rows.key,
            varint_column(value_sizes),
            rows.value,
            rows.tail,
        )
        data = memoryview(payload.buffers()[2])
        byte_ends = np.cumsum(body_bytes + varint_sizes(body_sizes))[np.array(ends) - 1].tolist()
        assert byte_ends[-1] == len(data) or byte_ends[-1] == int(lengths(payload).sum())
        batches: list[EncodedBatch] = []
        byte_start = 0
        for index, byte_end in enumerate(byte_ends):
            batches.append(
                self._seal(
                    data[byte_start:byte_end],
                    first_row=first_row + int(starts[index]),
                    record_count=int(counts[index]),
                    base_timestamp=int(base_timestamps[index]),
                    max_timestamp=max_timestamps[index],
                )
            )
            byte_start = byte_end
        return batches

    def _seal(
        self,
        records: memoryview,
        *,
        first_row: int,
        record_count: int,
        base_timestamp: int,
        max_timestamp: int,
    ) -> EncodedBatch:
        compression = self._options.compression
        payload: memoryview | bytes = records
        if compression is not Compression.NONE:
            payload = compress(compression, records, self._options.level)
            if len(payload) >= len(records):  # no gain, and it might exceed the limit
                compression, payload = Compression.NONE, records
        producer_id, producer_epoch = self._producer
        base_sequence = first_row & SEQUENCE_MAX if producer_id >= 0 else NO_SEQUENCE
        sealed = _SEALED.pack(
            compression,
            record_count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
        crc = crc32c(payload, crc32c(sealed))
        head = _HEAD.pack(_BASE_OFFSET, BATCH_LENGTH_MIN + len(payload), _NO_LEADER_EPOCH, MAGIC, crc)
        data = b"".join((head, sealed, payload))
        assert len(data) <= self._options.batch_bytes_max or record_count == 1
        return EncodedBatch(data, first_row, record_count, base_sequence, max_timestamp)


def _groups(rows: RecordRows, ends: list[int]) -> list[list[int]]:
    """Return `ends` in runs whose rows take at most ENCODE_BYTES_MAX, or that are one larger batch."""
    bytes_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.size_max)))
    groups: list[list[int]] = []
    start = 0
    for end in ends:
        if groups and bytes_before[end] - bytes_before[start] <= ENCODE_BYTES_MAX:
            groups[-1].append(end)
        else:
            start = groups[-1][-1] if groups else 0
            groups.append([end])
    return groups
