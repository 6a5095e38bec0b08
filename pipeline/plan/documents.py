"""Controllers' answers, as far as a plan needs them. Pure.

The structs name the fields that are used, so a newer controller's answers are understood; msgspec refuses an
answer in which such a field is missing or of another type.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0)]


class Items(msgspec.Struct, Generic[T]):
    """A page of a list."""

    items: list[T]


class BrokerItem(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: Count
    state: str
    endpoint: str
    cordoned: bool = False
    draining: bool = False

    @property
    def receives(self) -> bool:
        """Return whether moves may bring replicas to this broker."""
        return self.state == "active" and not (self.cordoned or self.draining)


class FollowerItem(msgspec.Struct, frozen=True, kw_only=True):
    """-1: unknown in this leader epoch."""

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
    """bytes: copied by all new replicas."""

    fate: str
    replicas_before: list[int]
    replicas_after: list[int]
    bytes: Count | None = None
    begun_at: datetime | None = None
    ended_at: datetime | None = None


class TotalsItem(msgspec.Struct, frozen=True, kw_only=True):
    moves: Count = 0
    bytes: Count = 0


class LoadItem(msgspec.Struct, frozen=True, kw_only=True):
    """A weight on the brokers that serve. broker_id: the one with the highest."""

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
    """A weight that is not as even as wanted, and why."""

    weight: str
    detail: str


class PlannedMoveItem(msgspec.Struct, frozen=True, kw_only=True):
    """Preferred leader first. bytes: copied by all new replicas."""

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


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """id: None if the controller does not keep it. moves: the first ones, the best first."""

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
