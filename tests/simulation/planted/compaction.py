"""Bugs of compaction: what a round takes, from which replica, and what is told of it."""

from __future__ import annotations

from typing import Any

from coordinator.core import replay
from coordinator.core.replay import ShardReplay
from dataplane.core import leader
from dataplane.core.compaction import deciding, newest
from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.compaction.newest import NewestRecords
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Dirt, Round
from dataplane.core.leader import Leader
from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import BatchHeader
from springtide.wire.record_spans import RecordSpans, has_value, read_spans
from tests.kit.memory.log import MemoryLog
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I35", seen="redpanda 28087: a replica without the tombstone keeps what it deleted", compacted=True
)
def no_restart_below_the_floor() -> Patches:
    return [(KnownRounds, "must_restart", lambda self, told, *, log_end_offset: False)]


@plant(
    breaks="I35",
    seen="KAFKA-4545: tombstones go with the pass that removes what they delete",
    compacted=True,
)
def tombstones_go_at_once() -> Patches:
    original = Rewrite.__init__

    def init(self: Rewrite, round_: Round, **kwargs: Any) -> None:
        original(self, round_._replace(tombstone_floor=round_.end_offset), **kwargs)

    return [(Rewrite, "__init__", init)]


@plant(breaks="I35", seen="what was copied from a compacted log counts as compacted", compacted=True)
def copied_counts_as_compacted() -> Patches:
    original = KnownRounds.on_told

    def on_told(self: KnownRounds, told: Compacted, **offsets: int) -> bool:
        self.reaches = max(self.reaches, told.end_offset)
        return original(self, told, **offsets)

    return [(KnownRounds, "on_told", on_told)]


@plant(breaks="I35", seen="KAFKA-7400: a pass whose map of keys is full goes on to the end", compacted=True)
def full_map_goes_unnoticed() -> Patches:
    original = NewestRecords.add

    def add(self: NewestRecords, *args: Any) -> bool:
        return original(self, *args) or True

    return [(NewestRecords, "add", add)]


@plant(breaks="I35", seen="a key's hash stands for the key, too short", compacted=True)
def keys_collide() -> Patches:
    return [(newest, "fingerprints", lambda keys: [None if key is None else key[0] & 3 for key in keys])]


@plant(breaks="L5", seen="replicas at different rounds are compared byte by byte", compacted=True)
def marks_compared_across_rounds() -> Patches:
    original = Leader._parts_from

    def parts_from(self: Leader, mark: Any, fetch_offset: int) -> Any:
        rounds = self._log.rounds
        kept = rounds.reaches, rounds.whole_from
        rounds.reaches = rounds.whole_from = 0
        try:
            return original(self, mark, fetch_offset)
        finally:
            rounds.reaches, rounds.whole_from = kept

    return [(Leader, "_parts_from", parts_from)]


@plant(
    breaks="I13",
    seen="a cleaner passes the high watermark: a record goes because of one that an election takes back",
    coordinators=2,
    compacted=True,
)
def a_round_passes_the_high_watermark() -> Patches:
    measure = MemoryLog.dirt

    def dirt(self: MemoryLog, high_watermark: int, *, before_ms: int) -> Dirt:
        return measure(self, self.log_end_offset, before_ms=before_ms)

    def decide(known: KnownRounds, found: Dirt, *args: Any, last_stable_offset: int, **others: Any) -> Any:
        end_offset = max(last_stable_offset, found.end_offset)
        return deciding.due_round(known, found, *args, last_stable_offset=end_offset, **others)

    def due(self: KnownRounds, high_watermark: int) -> PlacedRound | None:
        return self.pending[0] if self.pending else None

    return [(MemoryLog, "dirt", dirt), (leader, "due_round", decide), (KnownRounds, "due", due)]


@plant(
    breaks="I31",
    seen="KIP-534: a deletion goes before a reader had the time to read it, here a standby that stood still",
    coordinators=2,
    compacted=True,
)
def a_standby_reads_on_below_the_floor() -> Patches:
    return [(ShardReplay, "has_missed_deletions", lambda _replay, _floor: False)]


@plant(breaks="I31", seen="a replay passes over records without a value", coordinators=2, compacted=True)
def deletions_are_not_replayed() -> Patches:
    def of_values(payload: bytes, header: BatchHeader) -> RecordSpans:
        found = read_spans(payload, header)
        kept = [number for number, place in enumerate(found.places) if has_value(payload, place)]
        deltas, positions = ([of[n] for n in kept] for of in (found.deltas, found.positions))
        return RecordSpans(found.base_offset, deltas, positions, [found.keys[n] for n in kept])

    return [(replay, "read_spans", of_values)]
