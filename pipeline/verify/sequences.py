"""The check that the batches of each idempotent producer follow each other without gap or repetition.

The rules are a Kafka leader's for appends (KIP-98, ProducerAppendInfo): within a producer epoch sequences go
on by one and wrap at 2^31; a new epoch begins at 0; an older epoch is fenced. A log that breaks them has lost
records, or got some twice, after they were accepted. One case is no fault: a leader may forget a producer
that is idle for longer than `producer.id.expiration.ms`, which then begins anywhere.

Ranges of one log are read in parallel, so each also reports how each producer begins and ends in it
(`ProducerEnds`); the same rule judges what meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from pipeline.records.headers import BatchHeaders
from pipeline.verify.findings import Flaw
from springtide.wire.record_batch import SEQUENCE_MAX

EXPIRY_MS_DEFAULT = 24 * 60 * 60 * 1000
PRODUCERS_MAX = 100_000
"""Remembered in one range, as a broker remembers in one partition; batches of further ones are not judged."""
_HALF = (SEQUENCE_MAX + 1) // 2


class SequencedBatch(NamedTuple):
    """The fields of a batch that the rules need. `last_sequence` is inclusive; `timestamp_ms` is the
    batch's largest timestamp."""

    producer_epoch: int
    base_sequence: int
    last_sequence: int
    timestamp_ms: int
    base_offset: int
    last_offset: int


class ProducerEnds(msgspec.Struct, frozen=True, array_like=True):
    """A producer's first and last batch in a range."""

    producer_id: int
    first: SequencedBatch
    last: SequencedBatch


class Misfit(NamedTuple):
    """A batch that does not follow its producer's batch before it."""

    kind: Flaw
    batch: SequencedBatch
    detail: str


def judge(
    producer_id: int, before: SequencedBatch, batch: SequencedBatch, *, expiry_ms: int
) -> Misfit | None:
    """Return why `batch` can't follow `before`; None if it can."""
    if batch.timestamp_ms - before.timestamp_ms >= expiry_ms:
        return None
    epoch = batch.producer_epoch
    of_whom = f"producer {producer_id}, epoch {epoch}"
    if epoch < before.producer_epoch:
        detail = f"{of_whom}, after epoch {before.producer_epoch} at offset {before.base_offset}"
        return Misfit(Flaw.PRODUCER_EPOCH_GOES_BACK, batch, detail)
    due = 0 if epoch > before.producer_epoch else (before.last_sequence + 1) & SEQUENCE_MAX
    if batch.base_sequence == due:
        return None
    detail = (
        f"{of_whom}: sequence {batch.base_sequence} where {due} was due after offset {before.last_offset}"
    )
    is_ahead = epoch > before.producer_epoch or (batch.base_sequence - due) & SEQUENCE_MAX < _HALF
    return Misfit(Flaw.SEQUENCE_GAP if is_ahead else Flaw.SEQUENCE_REPEATED, batch, detail)


class ProducerSequences:
    """The producers of one range; takes its batches in the order of the log."""

    def __init__(self, *, expiry_ms: int = EXPIRY_MS_DEFAULT) -> None:
        self._expiry_ms = expiry_ms
        self._first: dict[int, SequencedBatch] = {}
        self._last: dict[int, SequencedBatch] = {}
        self.left_out = 0
        """Batches of producers beyond PRODUCERS_MAX."""

    @property
    def edges(self) -> list[ProducerEnds]:
        """Return each producer's first and last batch, by producer id."""
        return [ProducerEnds(pid, self._first[pid], self._last[pid]) for pid in sorted(self._first)]

    def follow(self, headers: BatchHeaders, start: int, stop: int) -> Iterator[Misfit]:
        """Yield the misfits among batches `start` to `stop` (exclusive), producer by producer."""
        rows = slice(start, stop)
        counts = (headers.producer_id[rows] >= 0) & (headers.base_sequence[rows] >= 0)
        counts &= ~headers.is_control[rows]
        index = np.flatnonzero(counts) + start
        if not len(index):
            return
        index = index[np.argsort(headers.producer_id[index], kind="stable")]
        producer_id = headers.producer_id[index]
        epoch = headers.producer_epoch[index]
        base = headers.base_sequence[index].astype(np.int64)
        span = headers.last_offset[index] - headers.base_offset[index]
        due = (base + span + 1) & SEQUENCE_MAX
        is_new = np.ones(len(index), np.bool_)
        is_new[1:] = producer_id[1:] != producer_id[:-1]
        fits = np.zeros(len(index), np.bool_)
        fits[1:] = (epoch[1:] == epoch[:-1]) & (base[1:] == due[:-1])
        # Only producers' first batches here, and batches that don't fit, are judged one by one.
        for row in np.flatnonzero(is_new | ~fits).tolist():
            batch = _batch(headers, int(index[row]))
            pid = int(producer_id[row])
            before = self._last.get(pid) if is_new[row] else _batch(headers, int(index[row - 1]))
            if before is not None:
                misfit = judge(pid, before, batch, expiry_ms=self._expiry_ms)
                if misfit is not None:
                    yield misfit
            elif len(self._first) < PRODUCERS_MAX:
                self._first[pid] = batch
        is_last = np.ones(len(index), np.bool_)
        is_last[:-1] = is_new[1:]
        for row in np.flatnonzero(is_last).tolist():
            pid = int(producer_id[row])
            if pid in self._first:
                self._last[pid] = _batch(headers, int(index[row]))
            else:
                self.left_out += 1


def _batch(headers: BatchHeaders, index: int) -> SequencedBatch:
    base_offset, last_offset = int(headers.base_offset[index]), int(headers.last_offset[index])
    base_sequence = int(headers.base_sequence[index])
    return SequencedBatch(
        int(headers.producer_epoch[index]),
        base_sequence,
        (base_sequence + last_offset - base_offset) & SEQUENCE_MAX,
        int(headers.max_timestamp[index]),
        base_offset,
        last_offset,
    )
