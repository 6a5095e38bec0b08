"""The log that the replicas agree on, checked as it comes: offsets, leader epochs, producers, and what it
holds.

Findings here are about the log on all replicas (EVERY_REPLICA), unless a replica is checked alone. Each range
is checked by itself; joining.py judges how ranges meet, by what `LogOrder` notes of their ends.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from pipeline.records.headers import BatchHeaders
from pipeline.records.varints import Int64s
from pipeline.verify.findings import EVERY_REPLICA, Findings, Flaw
from pipeline.verify.sequences import EXPIRY_MS_DEFAULT, ProducerSequences
from pipeline.verify.transactions import RangeTransactions

HELD_MAX = 100_000
"""Stretches kept of one range. Only a compacted log with many holes has more."""

EPOCHS_MAX = 10_000
"""Spans kept of one range. Only a log whose leader epochs go back has more."""


class OrderRules(NamedTuple):
    """Rules that a log must keep. `is_dense`: offsets and producers' sequences have no gaps, as in every log
    that is not compacted. `keeps_held`: note which offsets hold records, to count what has landed."""

    is_dense: bool = True
    keeps_held: bool = False
    expiry_ms: int = EXPIRY_MS_DEFAULT


class EpochSpan(msgspec.Struct, frozen=True, array_like=True):
    """The batches that were written under one leader epoch. `next_offset` is exclusive."""

    leader_epoch: int
    first_offset: int
    next_offset: int
    batches: int
    records: int
    size_bytes: int


class Held(msgspec.Struct, frozen=True, array_like=True):
    """Offsets `first_offset` to `next_offset` (exclusive) hold so many records, without control records."""

    first_offset: int
    next_offset: int
    records: int

    @property
    def is_dense(self) -> bool:
        return self.records == self.next_offset - self.first_offset


class LogOrder:
    """Checks the batches of one range in their order."""

    def __init__(self, findings: Findings, rules: OrderRules, *, broker_id: int = EVERY_REPLICA) -> None:
        self._broker_id = broker_id
        self._findings = findings
        self._rules = rules
        self.sequences = ProducerSequences(expiry_ms=rules.expiry_ms)
        self.transactions = RangeTransactions()
        self.first_offset = -1
        """Base offset of the first batch; -1: none came."""
        self.next_offset = -1
        """After the last batch; -1: none came."""
        self.log_start_offset = 0
        """Offsets below this were removed by retention, which is no gap."""
        self.batches = 0
        self.records = 0
        self.size_bytes = 0
        self.epochs: list[EpochSpan] = []
        self._leader_epoch: int | None = None
        self.held: list[Held] = []
        self.held_left_out = 0

    def take(self, data: memoryview, headers: BatchHeaders, start: int, stop: int) -> None:
        """Take batches `start` to `stop` (exclusive) of `data`, which ascend and begin at or after the last
        one."""
        rows = slice(start, stop)
        base, last = headers.base_offset[rows], headers.last_offset[rows]
        if self.first_offset < 0:
            self.first_offset = int(base[0])
        self._check_gaps(base, last)
        self._check_epochs(headers, start, stop)
        if self._rules.is_dense:
            for misfit in self.sequences.follow(headers, start, stop):
                batch = misfit.batch
                self._add(misfit.kind, batch.base_offset, batch.last_offset, misfit.detail)
        for wrong in self.transactions.follow(data, headers, start, stop):
            self._add(wrong.kind, wrong.offset, wrong.offset, wrong.detail)
        is_control = headers.is_control[rows]
        count = np.where(is_control, 0, headers.record_count[rows].astype(np.int64))
        self._note_epochs(headers, start, stop, count)
        if self._rules.keeps_held:
            self._note_held(base, last, count)
        self.batches += stop - start
        self.records += int(count.sum())
        self.size_bytes += int(headers.size_bytes[rows].sum())
        self.next_offset = int(last[-1]) + 1

    def _add(self, kind: Flaw, first_offset: int, last_offset: int, detail: str, *, batches: int = 1) -> None:
        self._findings.add(kind, self._broker_id, first_offset, last_offset, detail, batches=batches)

    def _check_gaps(self, base: Int64s, last: Int64s) -> None:
        if not self._rules.is_dense:
            return
        due = np.empty(len(base), np.int64)
        due[0] = base[0] if self.next_offset < 0 else self.next_offset
        due[1:] = last[:-1] + 1
        for row in np.flatnonzero(base != due).tolist():
            first, following = max(int(due[row]), self.log_start_offset), int(base[row])
            if first < following:
                self._add(
                    Flaw.OFFSET_GAP,
                    first,
                    following - 1,
                    f"offset {following} follows {int(due[row]) - 1}",
                    batches=0,
                )

    def _check_epochs(self, headers: BatchHeaders, start: int, stop: int) -> None:
        epoch = headers.leader_epoch[start:stop]
        before = np.empty(len(epoch), np.int64)
        before[0] = epoch[0] if self._leader_epoch is None else self._leader_epoch
        before[1:] = epoch[:-1]
        for row in np.flatnonzero(epoch < before).tolist():
            index = start + row
            self._add(
                Flaw.LEADER_EPOCH_GOES_BACK,
                int(headers.base_offset[index]),
                int(headers.last_offset[index]),
                f"leader epoch {int(epoch[row])} after {int(before[row])}",
            )
        self._leader_epoch = int(epoch[-1])

    def _note_epochs(self, headers: BatchHeaders, start: int, stop: int, count: Int64s) -> None:
        epoch = headers.leader_epoch[start:stop]
        cuts = [0, *(np.flatnonzero(epoch[1:] != epoch[:-1]) + 1).tolist(), len(epoch)]
        for first, after in pairwise(cuts):
            span = EpochSpan(
                int(epoch[first]),
                int(headers.base_offset[start + first]),
                int(headers.last_offset[start + after - 1]) + 1,
                after - first,
                int(count[first:after].sum()),
                int(headers.size_bytes[start + first : start + after].sum()),
            )
            if self.epochs and self.epochs[-1].leader_epoch == span.leader_epoch:
                span = together(self.epochs.pop(), span)
            if len(self.epochs) < EPOCHS_MAX:
                self.epochs.append(span)

    def _note_held(self, base: Int64s, last: Int64s, count: Int64s) -> None:
        following = last + 1
        is_dense = count == following - base
        goes_on = np.zeros(len(base), np.bool_)
        goes_on[1:] = is_dense[1:] & is_dense[:-1] & (base[1:] == following[:-1])
        cuts = [*np.flatnonzero(~goes_on).tolist(), len(base)]
        for first, after in pairwise(cuts):
            held = Held(int(base[first]), int(following[after - 1]), int(count[first:after].sum()))
            before = self.held[-1] if self.held else None
            if before and before.is_dense and held.is_dense and before.next_offset == held.first_offset:
                records = before.records + held.records
                self.held[-1] = Held(before.first_offset, held.next_offset, records)
            elif len(self.held) < HELD_MAX:
                self.held.append(held)
            else:
                self.held_left_out += 1


def together(before: EpochSpan, after: EpochSpan) -> EpochSpan:
    """Join two adjacent spans of one leader epoch."""
    return EpochSpan(
        before.leader_epoch,
        before.first_offset,
        after.next_offset,
        before.batches + after.batches,
        before.records + after.records,
        before.size_bytes + after.size_bytes,
    )
