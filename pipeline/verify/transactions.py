"""The transactions of one range of a log: their markers, in order, and which of them were aborted.

A reader of committed records leaves out what its broker's index calls aborted (KIP-98). So the index of each
replica is held against the log's own bytes: each aborted transaction must be told where its records begin,
and no other. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.records.headers import BatchHeaders
from pipeline.verify.findings import Flaw
from springtide.wire.markers import Outcome, read_marker
from springtide.wire.record_batch import CorruptBatch, decode_header

OPEN_MAX = 100_000
"""Transactions that are followed at a time; further ones are not judged."""
ABORTED_MAX = 100
"""Of one range, whose index entries are looked up. The first ones and, from there on, the latest."""


class AbortedSpan(NamedTuple):
    """An aborted transaction: its first record and its marker. Both are in the range."""

    producer_id: int
    first_offset: int
    marker_offset: int


class WrongMarker(NamedTuple):
    kind: Flaw
    offset: int
    detail: str


class RangeTransactions:
    """Takes the batches of a range in their order."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self.aborted: list[AbortedSpan] = []
        self.left_out = 0
        """Aborted transactions beyond ABORTED_MAX, and those that were open beyond OPEN_MAX."""

    def follow(self, data: memoryview, headers: BatchHeaders, start: int, stop: int) -> Iterator[WrongMarker]:
        """Yield what is wrong with the markers among batches `start` to `stop` (exclusive)."""
        for index in (np.flatnonzero(headers.is_transactional[start:stop]) + start).tolist():
            producer_id, offset = int(headers.producer_id[index]), int(headers.base_offset[index])
            if headers.is_control[index]:
                yield from self._end(data, headers, index, producer_id)
            elif producer_id not in self._open:
                if len(self._open) < OPEN_MAX:
                    self._open[producer_id] = offset
                else:
                    self.left_out += 1

    def _end(
        self, data: memoryview, headers: BatchHeaders, index: int, producer_id: int
    ) -> Iterator[WrongMarker]:
        position, offset = int(headers.position[index]), int(headers.base_offset[index])
        batch = data[position : position + int(headers.size_bytes[index])]
        try:
            marker = read_marker(batch, decode_header(batch))
        except CorruptBatch as error:
            yield WrongMarker(Flaw.MALFORMED_BATCH, offset, f"a transaction's marker: {error.reason}")
            return
        if marker is None:
            return
        before = self._epochs.get(producer_id, -1)
        if marker.coordinator_epoch < before:
            detail = f"producer {producer_id}: coordinator epoch {marker.coordinator_epoch} after {before}"
            yield WrongMarker(Flaw.COORDINATOR_EPOCH_GOES_BACK, offset, detail)
        self._epochs[producer_id] = marker.coordinator_epoch
        first = self._open.pop(producer_id, None)
        if first is not None and marker.outcome is Outcome.ABORT:
            if len(self.aborted) >= ABORTED_MAX:
                self.left_out += 1
                del self.aborted[ABORTED_MAX // 2]
            self.aborted.append(AbortedSpan(producer_id, first, offset))


def differences(
    span: AbortedSpan, told: Sequence[tuple[int, int]], known: Sequence[AbortedSpan], *, start_offset: int
) -> Iterator[WrongMarker]:
    """Yield what a replica's index says wrongly of the records at `span`'s first one. told: (producer id,
    first offset). known: all of the range, from start_offset on; None of them may be left out."""
    if (span.producer_id, span.first_offset) not in told:
        detail = f"producer {span.producer_id}, whose abort marker is at offset {span.marker_offset}"
        yield WrongMarker(Flaw.ABORTED_NOT_TOLD, span.first_offset, detail)
    right = {(one.producer_id, one.first_offset) for one in known}
    for producer_id, first_offset in told:
        if first_offset >= start_offset and (producer_id, first_offset) not in right:
            detail = f"producer {producer_id}: the log has no such aborted transaction"
            yield WrongMarker(Flaw.ABORTED_WRONGLY, first_offset, detail)
