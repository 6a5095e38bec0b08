"""Why a `consumer` group was assigned anew, and what that moved: for people. Lost with the process."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from coordinator.core.consumer_group_records import PartitionsByTopic, TopicPartition

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


class Moves:
    """Collects what a new target moves, member by member."""

    __slots__ = ("_after", "_before")

    def __init__(self) -> None:
        self._before: dict[UUID, dict[int, str]] = {}
        self._after: dict[UUID, dict[int, str]] = {}

    def note(self, member_id: str, before: PartitionsByTopic, after: PartitionsByTopic) -> None:
        """Take in what a member was to have, and is to have."""
        for topic_id in before.keys() | after.keys():
            old, new = set(before.get(topic_id, ())), set(after.get(topic_id, ()))
            if old - new:
                self._before.setdefault(topic_id, {}).update(dict.fromkeys(old - new, member_id))
            if new - old:
                self._after.setdefault(topic_id, {}).update(dict.fromkeys(new - old, member_id))

    def told(self) -> tuple[tuple[Move, ...], int]:
        """Return the first moves, by partition, and how many there are."""
        kept: list[Move] = []
        moved = 0
        for topic_id in sorted(self._before.keys() | self._after.keys()):
            old, new = self._before.get(topic_id, {}), self._after.get(topic_id, {})
            found = sorted(one for one in old.keys() | new.keys() if old.get(one) != new.get(one))
            moved += len(found)
            kept += (
                Move(TopicPartition(topic_id, one), old.get(one), new.get(one))
                for one in found[: MOVES_KEPT_MAX - len(kept)]
            )
        return tuple(kept), moved
