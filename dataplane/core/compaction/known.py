"""What a log knows of rounds of compaction: those that stand in it, the last that was applied to it, and what
it may lack because the logs that it was copied from were compacted.

The log's storage feeds this with every append, cut and pass, as it feeds the leader epochs, and stores it
beside the log. A machine crash that may have cost the log its end counts as a cut to where it ends now:
another replica may have dropped a tombstone because this one had it.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from typing import NamedTuple

from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.records import iter_records

from .rounds import Round, decode_round, is_round_key, must_restart, must_restart_after_cut


class PlacedRound(NamedTuple):
    """A round, and the offset of its record."""

    offset: int
    round_: Round


def round_in(header: BatchHeader, batch: memoryview) -> PlacedRound | None:
    """Return the round that a control batch is; None if it is none. Raise NewerFormat for a round of a later
    release."""
    if header.record_count != 1 or header.has_producer_id:
        return None
    with suppress(CorruptBatch):
        (record,) = iter_records(batch)
        if is_round_key(record.key):
            return PlacedRound(record.offset, decode_round(record.value))
    return None


class KnownRounds:
    """The rounds of one log.

    applied: the last that was applied as a whole. reaches: passes have rewritten what lies below this offset.
    floor: the highest of the rounds whose passes were made. floor_known: see `must_restart`. whole_from:
        while the log ends below this offset it may lack records whose newer ones it has not copied yet; cut
        to below it, it would lack them for ever.
    """

    __slots__ = ("_applying", "_pending", "applied", "floor", "floor_known", "reaches", "whole_from")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """The log starts over, empty."""
        self.applied: PlacedRound | None = None
        #: The one of which a pass has been made already.
        self._applying: PlacedRound | None = None
        #: In the log above those, in order; committed or not.
        self._pending: list[PlacedRound] = []
        self.reaches = 0
        self.floor = 0
        self.floor_known = 0
        self.whole_from = 0

    @classmethod
    def restored(
        cls,
        begun: PlacedRound | None,
        *,
        reaches: int,
        floor: int,
        floor_known: int,
        whole_from: int,
    ) -> KnownRounds:
        """Return what a process knows when it starts again, before `on_appended` for each later round. begun:
        the round of the last pass, which has come to `reaches`."""
        rounds = cls()
        rounds.floor_known, rounds.whole_from = floor_known, whole_from
        if begun is not None:
            rounds._pending.append(begun)
            rounds.on_pass(begun, reaches=reaches)
            rounds.floor = floor
        return rounds

    def copy(self) -> KnownRounds:
        other = copy(self)
        other._pending = list(self._pending)
        return other

    @property
    def pending(self) -> tuple[PlacedRound, ...]:
        """Return the rounds in the log that were not applied as a whole, in order."""
        return tuple(self._pending)

    @property
    def last_placed(self) -> PlacedRound | None:
        """Return the last round of the log."""
        return self._pending[-1] if self._pending else self.applied

    @property
    def last(self) -> Round | None:
        """Return the round that a leader's next one follows."""
        last = self.last_placed
        return None if last is None else last.round_

    @property
    def is_settled(self) -> bool:
        """Return whether every round that stands in the log was applied to it."""
        return not self._pending

    def due(self, high_watermark: int) -> PlacedRound | None:
        """Return the round to apply next: it is committed, and those before it were applied."""
        first = self._pending[0] if self._pending else None
        return None if first is None or first.offset >= high_watermark else first

    @property
    def compacted_to(self) -> int:
        """Return the offset below which batches may be others than another replica holds."""
        return max(self.reaches, self.whole_from)

    @property
    def compacted(self) -> Compacted | None:
        """Return what a leader tells with each answer to a follower; None if its log is complete."""
        if not self.compacted_to:
            return None
        return Compacted(max(self.floor, self.floor_known), self.compacted_to)

    def must_restart(self, told: Compacted, *, log_end_offset: int) -> bool:
        """Return whether a log with records has to start over before anything of this leader's is added."""
        return must_restart(
            log_end_offset=log_end_offset, floor_known=self.floor_known, leader_floor=told.tombstone_floor
        )

    def is_spoilt_by_cut(self, offset: int) -> bool:
        """Return whether the log, cut to this offset, would lack records, and has to start over."""
        return offset < self.whole_from or must_restart_after_cut(cut_to=offset, applied_at=self._begun_at)

    @property
    def _begun_at(self) -> int | None:
        begun = self._applying or self.applied
        return None if begun is None else begun.offset

    def on_appended(self, header: BatchHeader, batch: memoryview) -> None:
        """Take in a control batch that is in the log. One that says that it is a round and is none changes
        nothing, on any replica. Raise NewerFormat for a round of a later release."""
        placed = round_in(header, batch)
        if placed is not None and (self.applied is None or placed.offset > self.applied.offset):
            self._pending.append(placed)

    def on_begun(self, placed: PlacedRound) -> None:
        """A pass that applies the round begins beside the log. A cut to below the round spoils the log from
        now on: the pass may have been committed by then."""
        self._applying = placed

    def on_pass(self, placed: PlacedRound, *, reaches: int) -> None:
        """A pass is durable that applied the round up to `reaches`."""
        self.reaches = max(self.reaches, reaches)
        self.floor = max(self.floor, placed.round_.tombstone_floor)
        self._applying = placed
        if reaches >= placed.round_.end_offset:
            self.applied, self._applying = placed, None
            self._pending = [later for later in self._pending if later.offset > placed.offset]

    def on_told(self, told: Compacted, *, log_start_offset: int, log_end_offset: int) -> bool:
        """Take in what the leader's log lacks, before records of it are added; return whether that is
        news, to be stored with them."""
        before = self.floor_known, self.whole_from
        if log_end_offset >= told.tombstone_floor or log_end_offset == log_start_offset:
            self.floor_known = max(self.floor_known, told.tombstone_floor)
        self.whole_from = max(self.whole_from, told.end_offset)
        return before != (self.floor_known, self.whole_from)

    def on_read_again(self) -> None:
        """The log is about to be read from its beginning: its rounds come again."""
        self._pending.clear()

    def on_cut(self, offset: int) -> None:
        """The log ends here now. One that was cut below an applied round starts over; if it lost its end
        to a crash, it gets the rest from its leader again, and is rewritten once more."""
        self._pending = [placed for placed in self._pending if placed.offset < offset]
        self.floor_known = min(self.floor_known, offset)
        begun_at = self._begun_at
        if begun_at is not None and begun_at >= offset:
            self.whole_from = max(self.whole_from, begun_at + 1)
            self.applied = self._applying = None
            self.reaches = 0
