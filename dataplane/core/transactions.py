"""The transactions of one partition, as its log tells them (KIP-98): pure values.

A producer's first transactional batch opens its transaction here, a marker ends it. Everything follows from
the log's bytes, so that leader, followers and a log that was read again after a crash agree.

**The last stable offset** is where readers of committed records stop: the lowest first offset of a
transaction that is open, or whose marker is not below the high watermark yet; the high watermark without
any. It never goes back in a leadership, because a new transaction begins at the log's end.

**The aborted entries** say which records such a reader must not see. Each names a transaction that had
records here, from its first to its abort marker, and the last stable offset at that marker: no later entry
begins before it, which ends a look-up.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

import msgspec

from springtide.wire.compression import Buffer
from springtide.wire.markers import Marker, Outcome, read_marker
from springtide.wire.record_batch import BatchHeader, CorruptBatch

NO_OFFSET = -1

_ENTRY = struct.Struct(">hqqqq")  # Kafka's AbortedTxn
ENTRY_BYTES = _ENTRY.size
_ENTRY_VERSION = 0


class IsolationLevel(IntEnum):
    """Which records a consumer reads: Kafka's isolation_level of Fetch and ListOffsets."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class MarkerToWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator asks of a leader (WriteTxnMarkers): end the producer's transaction here.

    transaction_version: 2 if the marker carries the producer's next epoch (KIP-890), lower if it carries that
        of the transaction.
    attempt: the number of the coordinator's request, which rises with each under one coordinator epoch; -1 of
        an operator's tool.
    leader_epoch: the leadership that is asked; -1: whoever leads.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    outcome: Outcome
    transaction_version: int = 0
    attempt: int = -1
    leader_epoch: int = -1


class AbortedEntry(NamedTuple):
    """An aborted transaction. Offsets of its first record and of its marker; the last stable offset then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_entry(entry: AbortedEntry) -> bytes:
    return _ENTRY.pack(_ENTRY_VERSION, *entry)


def decode_entries(encoded: bytes) -> list[AbortedEntry]:
    """Reverse `encode_entry` for many. Raise ValueError if the bytes are no entries."""
    if len(encoded) % ENTRY_BYTES:
        raise ValueError(f"{len(encoded)} bytes")
    found = []
    for version, *fields in _ENTRY.iter_unpack(encoded):
        if version != _ENTRY_VERSION:
            raise ValueError(f"version {version}")
        found.append(AbortedEntry._make(fields))
    return found


class AbortedRanges:
    """The ranges of offsets in which each producer's transactional records are aborted."""

    __slots__ = ("_by_producer",)

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for entry in sorted(aborted, key=lambda each: each.first_offset):
            self._by_producer.setdefault(entry.producer_id, []).append(
                (entry.first_offset, entry.last_offset)
            )

    def hold(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch are aborted. Its marker is no record of it."""
        ranges = self._by_producer.get(header.producer_id)
        if ranges is None or not header.is_transactional or header.is_control:
            return False
        at = bisect_right(ranges, header.base_offset, key=lambda each: each[0]) - 1
        return at >= 0 and header.base_offset <= ranges[at][1]


def marker_in(header: BatchHeader, batch: Buffer) -> Marker | None:
    """Return the marker that a batch of the log is; None: it is none. One that says so and is none changes
    nothing, on any replica."""
    if header.producer_id < 0:
        return None
    try:
        return read_marker(batch, header)
    except CorruptBatch:
        return None


class PartitionTransactions:
    """What is open, and what has ended above the high watermark. It belongs to the producers' states
    (producer_state.py), which feed it, store it and roll it back."""

    __slots__ = ("_ended", "_open")

    def __init__(self, open_: Iterable[tuple[int, int]] = (), ended: Iterable[tuple[int, int]] = ()) -> None:
        """open_: (producer id, first offset) each. ended: (first offset, the marker's offset) each."""
        self._open: OrderedDict[int, int] = OrderedDict(sorted(open_, key=lambda each: each[1]))
        self._ended = list(ended)  # a heap; what the high watermark has passed goes when it is on top
        heapify(self._ended)

    @property
    def open(self) -> Mapping[int, int]:
        """Return the first offset of each open transaction by producer id, lowest offset first."""
        return self._open

    @property
    def ended(self) -> tuple[tuple[int, int], ...]:
        """Return (first offset, the marker's offset) of those that have ended and may be above the high
        watermark."""
        return tuple(sorted(self._ended))

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def first_offset_of(self, producer_id: int) -> int:
        """Return where a producer's open transaction begins, -1 without one."""
        return self._open.get(producer_id, NO_OFFSET)

    def on_data(self, header: BatchHeader) -> None:
        """Take in a transactional batch that is in the log."""
        self._open.setdefault(header.producer_id, header.base_offset)

    def on_marker(self, header: BatchHeader, marker: Marker) -> AbortedEntry | None:
        """Take in a marker that is in the log. Return the entry of a transaction that it aborts."""
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is None:
            return None
        heappush(self._ended, (first_offset, header.base_offset))
        if marker.outcome is Outcome.COMMIT:
            return None
        stable = next(iter(self._open.values()), header.next_offset)
        return AbortedEntry(header.producer_id, first_offset, header.base_offset, stable)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget what has ended below it."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            heappop(ended)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return it for the replica's high watermark, which never goes back but with a cut of the log."""
        if not self._open and not self._ended:
            return high_watermark
        self.on_high_watermark(high_watermark)
        stable = min(high_watermark, next(iter(self._open.values()), high_watermark))
        return min(stable, self._ended[0][0]) if self._ended else stable

    def oldest(self, count: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the open transactions with the lowest first offsets."""
        return list(islice(self._open.items(), count))
