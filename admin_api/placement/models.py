"""The REST models of placements and their origins."""

from __future__ import annotations

from pydantic import Field

from admin_api.history.models import AuditView, audit_view
from admin_api.names import timestamp
from admin_api.views import View
from controller.audit.change import Snapshot
from controller.audit.placements import Placement
from controller.audit.provenance import Origin, ReplicaOrigins
from controller.contract.partition_state import NO_LEADER, PartitionState


class PlacementView(View):
    """The brokers that have, or had, a partition's replicas."""

    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    replicas: list[int] = Field(description="the first is the preferred leader", examples=[[1, 2, 3]])
    adding_replicas: list[int]
    removing_replicas: list[int]
    leader: int | None = Field(examples=[1])
    leader_epoch: int
    partition_epoch: int
    isr: list[int] = Field(examples=[[1, 2, 3]])
    elr: list[int]
    changed_at: str | None = Field(description="since when it was so")
    audit_id: int | None = Field(description="the row that says so; null in an answer about now")
    is_certain: bool = Field(
        description="false: rows are missing, and it may have changed again before the time asked for"
    )


class AssignmentView(View):
    """The placement of a whole cluster, by topic and partition.

    A change made while the audit could not be written first appears in the row that closed the gap.
    """

    as_of: str | None = Field(
        description="the time asked for; null: now", examples=["2026-11-21T09:30:00.000Z"]
    )
    is_complete: bool = Field(
        description="false: this controller has changes that are not in the audit yet; ask again"
    )
    items: list[PlacementView]
    next_page_token: str | None = Field(
        description="a page may hold fewer items than `limit` and not be the last"
    )


def placement_now(state: PartitionState, *, changed_at_ms: int | None) -> PlacementView:
    return PlacementView(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
        leader=None if state.leader == NO_LEADER else state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=list(state.isr),
        elr=list(state.elr),
        changed_at=None if changed_at_ms is None else timestamp(changed_at_ms),
        audit_id=None,
        is_certain=True,
    )


def placement_then(placement: Placement) -> PlacementView:
    snapshot: Snapshot = placement.snapshot
    leader = snapshot["leader"]
    return PlacementView(
        topic=placement.topic,
        topic_id=placement.topic_id,
        partition=placement.partition,
        replicas=snapshot["replicas"],
        adding_replicas=snapshot.get("adding_replicas", []),
        removing_replicas=snapshot.get("removing_replicas", []),
        leader=None if leader == NO_LEADER else leader,
        leader_epoch=snapshot["leader_epoch"],
        partition_epoch=snapshot["partition_epoch"],
        isr=snapshot["isr"],
        elr=snapshot.get("elr", []),
        changed_at=timestamp(placement.changed_at_ms),
        audit_id=placement.audit_id,
        is_certain=placement.is_certain,
    )


class OriginView(View):
    """The change that caused the current state, and what led to that change."""

    change: AuditView
    is_exact: bool = Field(description="false: it may have come about earlier, unrecorded")
    caused_by: list[AuditView] = Field(
        description=(
            "nearest first: the broker's own change in the same step (it died, it came back), then the "
            "operator's request, with its actor and reason"
        )
    )


class ReplicaView(View):
    """One replica, and the reasons for its state. An origin is null while the audit does not show it."""

    broker_id: int = Field(examples=[1])
    is_leader: bool
    in_isr: bool
    placed: OriginView | None = Field(description="why the broker holds a replica of this partition")
    synced: OriginView | None = Field(description="why the replica is in the ISR, or out of it")
    elected: OriginView | None = Field(description="why it leads; null for those that do not")


class ReplicaList(View):
    """The origin of each replica of a partition, in order of preference."""

    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    partition_epoch: int
    items: list[ReplicaView]


def replica_view(state: PartitionState, origins: ReplicaOrigins) -> ReplicaView:
    return ReplicaView(
        broker_id=origins.broker_id,
        is_leader=origins.broker_id == state.leader,
        in_isr=origins.broker_id in state.isr,
        placed=_origin_view(origins.placed),
        synced=_origin_view(origins.in_sync),
        elected=_origin_view(origins.leads),
    )


def _origin_view(origin: Origin | None) -> OriginView | None:
    if origin is None:
        return None
    return OriginView(
        change=audit_view(origin.row),
        is_exact=origin.is_exact,
        caused_by=[audit_view(row) for row in origin.caused_by],
    )
