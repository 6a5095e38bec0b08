"""What controllers say, as far as a plan needs it, and what it means for placement. Pure.

The structs name the fields that are used and pass over all others, so that a newer controller's answers are
understood; a missing field or one of another type is no answer at all (msgspec refuses it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec

from pipeline.plan.placement import Broker, Move, Partition, Placement

Count = Annotated[int, msgspec.Meta(ge=0)]
_SERVING: Final = "active"
_ONLINE: Final = "online"


class BrokerItem(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: Count
    state: str
    endpoint: str
    rack: str | None = None
    cordoned: bool = False
    draining: bool = False
    demoted: bool = False


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
    state: str
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: Annotated[list[Count], msgspec.Meta(min_length=1)]
    isr: list[Count]
    adding_replicas: list[int] = []
    removing_replicas: list[int] = []
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
    moves: Count
    bytes: Count


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """id: None: a dry run, which nobody keeps."""

    id: str | None
    outcome: str
    totals: TotalsItem
    expires_at: str | None = None


def host_of(endpoint: str) -> str:
    """`store1:9092` and `[::1]:9092` without the port."""
    return endpoint.rpartition(":")[0] or endpoint


def broker_of(item: BrokerItem, free_bytes: int | None = None) -> Broker:
    """One that is being drained is left to that: it gets nothing, gives nothing, and its load is not held
    against the others."""
    is_serving = item.state == _SERVING and not item.draining
    return Broker(
        broker_id=item.broker_id,
        host=host_of(item.endpoint),
        rack=item.rack,
        is_serving=is_serving,
        receives=is_serving and not item.cordoned,
        leads=is_serving and not item.demoted,
        free_bytes=free_bytes,
    )


def partition_of(item: PartitionItem) -> Partition:
    locked = None
    if item.adding_replicas or item.removing_replicas:
        locked = "it is being reassigned"
    elif item.state != _ONLINE:
        locked = f"it is {item.state}"
    return Partition(
        topic=item.topic,
        topic_id=item.topic_id,
        partition=item.partition,
        partition_epoch=item.partition_epoch,
        replicas=tuple(item.replicas),
        isr=tuple(item.isr),
        size_bytes=item.size_bytes,
        locked=locked,
    )


def placement_of(
    brokers: Iterable[BrokerItem], partitions: Iterable[PartitionItem], free: Mapping[int, int]
) -> Placement:
    """free: bytes by broker, where it is known."""
    return Placement(
        tuple(
            broker_of(item, free.get(item.broker_id))
            for item in sorted(brokers, key=lambda item: item.broker_id)
            if item.state != "waiting"
        ),
        tuple(
            sorted((partition_of(item) for item in partitions), key=lambda one: (one.topic, one.partition))
        ),
    )


def plan_body(
    moves: Sequence[Move], *, reason: str | None = None, expires_in_s: int | None = None
) -> dict[str, object]:
    """What the controller's plans resource takes."""
    body: dict[str, object] = {
        "goal": {
            "kind": "assign",
            "assignments": [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "replicas": list(move.replicas),
                }
                for move in moves
            ],
        }
    }
    if reason is not None:
        body["reason"] = reason
    if expires_in_s is not None:
        body["expires_in_s"] = expires_in_s
    return body
