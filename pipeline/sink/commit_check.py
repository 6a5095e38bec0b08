"""Whether what the tasks of a micro-batch stored is still there when the micro-batch is committed.

Spark does not run a finished task again. Between its end and the commit an unclean election may cut the
log, and then nobody would notice: so the commit asks each partition's leader where the epochs end in which
tasks saw their records committed (OffsetForLeaderEpoch, as KIP-320 does), and fails if one ends below what
they saw. The micro-batch is then run again, and finds what is missing. After the commit, lost records are
salvage's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from pipeline.client.values import EpochEnd

P = TypeVar("P")


class SeenWhole(NamedTuple):
    """The log was committed up to `high_watermark` (exclusive) under `leader_epoch`."""

    leader_epoch: int
    high_watermark: int


class Question(NamedTuple, Generic[P]):
    """Where does `leader_epoch` end in `partition`? At or above `high_watermark`, if nothing was lost."""

    partition: P
    leader_epoch: int
    high_watermark: int

    def is_lost(self, end: EpochEnd) -> bool:
        """`end`: the leader's answer. A leader that can't tell (-1, -1) has lost it."""
        return end.leader_epoch < 0 or end.end_offset < self.high_watermark


def questions(seen: Iterable[tuple[P, SeenWhole]]) -> list[Question[P]]:
    """One per partition and leader epoch, with the highest high watermark, in the order first seen."""
    highest: dict[tuple[P, int], int] = {}
    for partition, whole in seen:
        key = partition, whole.leader_epoch
        highest[key] = max(highest.get(key, 0), whole.high_watermark)
    return [Question(partition, epoch, mark) for (partition, epoch), mark in highest.items()]


def lost(asked: Iterable[Question[P]], ends: Mapping[Question[P], EpochEnd]) -> list[Question[P]]:
    """The questions whose answers say that records are gone. Every question needs its answer."""
    return [question for question in asked if question.is_lost(ends[question])]
