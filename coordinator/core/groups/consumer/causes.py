"""Why a `consumer` group was assigned anew, and what that moved: for people. Lost with the process."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from coordinator.core.consumer_group_records import Partitions, TopicPartition

MOVES_KEPT_MAX = 1_000
"""Of one assignment."""
CAUSES_KEPT_MAX = 100
"""Of one assignment."""


class CauseKind(StrEnum):
    """What has raised a group's epoch."""

    JOINED = "joined"
    RETURNED = "returned"  # a static member, with another subscription than it left with
    LEFT = "left"
    SILENT = "silent"  # no heartbeat for its session
    KEPT_PARTITIONS = "kept_partitions"  # did not give them up within its rebalance timeout
    MISSED_REBALANCE = "missed_rebalance"  # of the classic protocol: did not join again or sync in that time
    SUBSCRIPTION = "subscription"
    ASSIGNOR = "assignor"
    TOPICS = "topics"  # created, deleted, or more partitions: no member did it


class Cause(NamedTuple):
    """epoch: that the group has since. member_id: who; empty for no member. at_ms: Unix time."""

    epoch: int
    kind: CauseKind
    at_ms: int
    member_id: str = ""
    instance_id: str | None = None


class Move(NamedTuple):
    """A partition that is to go from a member to another; None: from or to none."""

    partition: TopicPartition
    before: str | None
    after: str | None


class Assigned(NamedTuple):
    """A new target. causes, moves: the first ones; moved: how many moves there are."""

    epoch: int
    made_ms: int
    assignor: str
    causes: tuple[Cause, ...]
    moves: tuple[Move, ...]
    moved: int


def moves_between(
    before: Mapping[str, Partitions], after: Mapping[str, Partitions]
) -> tuple[tuple[Move, ...], int]:
    """Return the first moves between two targets, by partition, and how many there are."""
    old = {one: member_id for member_id, partitions in before.items() for one in partitions}
    new = {one: member_id for member_id, partitions in after.items() for one in partitions}
    moved = sorted(one for one in old.keys() | new.keys() if old.get(one) != new.get(one))
    kept = islice(moved, MOVES_KEPT_MAX)
    return tuple(Move(one, old.get(one), new.get(one)) for one in kept), len(moved)
