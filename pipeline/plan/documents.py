"""What controllers say, as far as a plan needs it. Pure.

The structs name the fields that are used and pass over all others, so that a newer controller's answers are
understood; a missing field or one of another type is no answer at all (msgspec refuses it).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class BrokerItem(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: Count
    state: str
    endpoint: str
    cordoned: bool = False
    draining: bool = False

    @property
    def receives(self) -> bool:
        """Whether moves may bring replicas to it."""
        return self.state == "active" and not (self.cordoned or self.draining)


class FollowerItem(msgspec.Struct, frozen=True, kw_only=True):
    """-1: not heard of in this leader epoch."""

    broker_id: Count
    lag_records: int = -1
    lag_ms: int = -1


class PartitionItem(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets and size are None while no leader has reported them."""

    topic: str
    topic_id: str
    partition: Count
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: Annotated[list[Count], msgspec.Meta(min_length=1)]
    log_start_offset: Count | None = None
    log_end_offset: Count | None = None
    size_bytes: Count | None = None
    followers: list[FollowerItem] = []


class ProgressItem(msgspec.Struct, frozen=True, kw_only=True):
    throttle_bytes_per_s: int | None = None


class OperationItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    state: str
    progress: ProgressItem = ProgressItem()


class MoveItem(msgspec.Struct, frozen=True, kw_only=True):
    """bytes: that all newcomers copied."""

    fate: str
    replicas_before: list[int]
    replicas_after: list[int]
    bytes: Count | None = None
    begun_at: datetime | None = None
    ended_at: datetime | None = None


class BrokerPage(msgspec.Struct):
    items: list[BrokerItem]


class PartitionPage(msgspec.Struct):
    items: list[PartitionItem]


class OperationPage(msgspec.Struct):
    items: list[OperationItem]


class MovePage(msgspec.Struct):
    items: list[MoveItem]


class TotalsItem(msgspec.Struct, frozen=True, kw_only=True):
    moves: Count = 0
    bytes: Count = 0


class LoadItem(msgspec.Struct, frozen=True, kw_only=True):
    """How a weight lies on the brokers that serve. broker_id: that carries the highest."""

    weight: str
    total: Count
    highest: Count
    brokers: Count
    broker_id: int | None
    highest_over_mean: float

    @property
    def mean(self) -> float:
        return self.total / self.brokers if self.brokers else 0.0


class LevelsItem(msgspec.Struct, frozen=True, kw_only=True):
    loads: list[LoadItem]


class SkippedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A weight that is not as even as was wanted, and why."""

    weight: str
    detail: str


class PlannedMoveItem(msgspec.Struct, frozen=True, kw_only=True):
    """Preferred leader first. bytes: that all newcomers copy."""

    topic: str
    partition: Count
    replicas_before: list[int]
    replicas_after: list[int]
    bytes: Count

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def changes_leader(self) -> bool:
        return self.replicas_after[0] != self.replicas_before[0]


class PlannedMovePage(msgspec.Struct):
    items: list[PlannedMoveItem]


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """id: None: nobody keeps it. moves: the first ones, in the order in which they pay."""

    before: LevelsItem
    after: LevelsItem
    skipped: list[SkippedItem]
    id: str | None = None
    outcome: str = "no_improvement"
    totals: TotalsItem = TotalsItem()
    moves: list[PlannedMoveItem] = []
    expires_at: str | None = None


class NothingToDo(msgspec.Struct, frozen=True, kw_only=True):
    """The problem of a request whose plan would be empty."""

    code: Literal["no_improvement"]
    facts: PlanItem
