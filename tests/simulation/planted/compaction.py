"""Bugs of compaction: what a round takes, from which replica, and what is told of it."""

from __future__ import annotations

from typing import Any

from dataplane.core.compaction import newest
from dataplane.core.compaction.known import KnownRounds
from dataplane.core.compaction.newest import NewestOffsets
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Round
from dataplane.core.leader import Leader
from springtide.wire.fetch_response import Compacted
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
    original = NewestOffsets.add

    def add(self: NewestOffsets, *args: Any) -> bool:
        return original(self, *args) or True

    return [(NewestOffsets, "add", add)]


@plant(breaks="I35", seen="a key's hash stands for the key, too short", compacted=True)
def keys_collide() -> Patches:
    return [(newest, "fingerprint", lambda key: bytes((key[0] & 3,)))]


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
