"""/clusters/{cluster}/assignment, and the origins of a partition's replicas."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from admin_api.audit.models import AuditView, audit_view
from admin_api.http.answers import AGE_HEADERS, show
from admin_api.http.models import (
    ClusterPath,
    Moment,
    PartitionPath,
    TopicName,
    TopicPath,
    View,
    milliseconds,
    optional_timestamp,
    timestamp,
)
from admin_api.http.paging import Paged, Paging, encode_token
from admin_api.http.problems import FieldProblem, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.partitions.service import find_partition
from controller.face.cluster import KnownCluster, Snapshot
from controller.face.history import (
    Origin,
    Page,
    Placement,
    Position,
    ReplicaOrigins,
    audited_since_ms,
    explain_replicas,
    placements_at,
)
from springtide.contract.partition_state import NO_LEADER, PartitionState

router = APIRouter(route_class=StrictRoute)
_LIST = "assignment"


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
    return PlacementView.of(
        state,
        leader=None if state.leader == NO_LEADER else state.leader,
        changed_at=optional_timestamp(changed_at_ms),
        audit_id=None,
        is_certain=True,
    )


def placement_then(placement: Placement) -> PlacementView:
    snapshot: Snapshot = placement.snapshot
    leader = snapshot["leader"]
    return PlacementView.of(
        placement,
        replicas=snapshot["replicas"],
        adding_replicas=snapshot.get("adding_replicas", []),
        removing_replicas=snapshot.get("removing_replicas", []),
        leader=None if leader == NO_LEADER else leader,
        leader_epoch=snapshot["leader_epoch"],
        partition_epoch=snapshot["partition_epoch"],
        isr=snapshot["isr"],
        elr=snapshot.get("elr", []),
        changed_at=timestamp(placement.changed_at_ms),
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


@router.get(
    "/clusters/{cluster}/assignment",
    operation_id="getAssignment",
    tags=["Clusters"],
    summary="Look at the whole placement, now or at a time",
    response_model=AssignmentView,
    responses={
        200: {"headers": AGE_HEADERS},
        **problems("cluster_not_found", "before_the_audit", "audit_unavailable"),
    },
)
async def get_assignment(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    as_of: Annotated[
        Moment | None,
        Query(description="a time since the audit began (RFC 3339)", examples=["2026-11-21T09:30:00Z"]),
    ] = None,
    topic: Annotated[TopicName | None, Query(description="only this topic's partitions")] = None,
    paging: Paged,
) -> Response:
    """Show the placement: the current one from the controller's memory, one at an earlier time from the
    audit, whose rows are whole snapshots."""
    view = services.engine.cluster(cluster)
    position = paging.after(_LIST, str, int, str)
    after = None if position is None else Position(*position)
    if as_of is None:
        return show(request, _now(view, paging, topic=topic, after=after), view=view)
    return show(request, await _then(services, cluster, as_of, topic=topic, after=after, limit=paging.limit))


@router.get(
    "/clusters/{cluster}/topics/{topic}/partitions/{partition:int}/replicas",
    operation_id="explainReplicas",
    tags=["Partitions"],
    summary="Ask why each replica is where it is",
    response_model=ReplicaList,
    responses={
        200: {"headers": AGE_HEADERS},
        **problems("cluster_not_found", "topic_not_found", "partition_not_found", "audit_unavailable"),
    },
)
async def explain(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath, partition: PartitionPath
) -> Response:
    """Explain each replica of a partition: the change that placed it, the one that took it into or out of the
    ISR, and the one that made it the leader. Each change has its actor, time and reason, and the broker's
    death or the operator's request that led to it."""
    view = services.engine.cluster(cluster)
    state = find_partition(view, cluster, topic, partition)
    found = await services.database.read(explain_replicas, cluster=cluster, state=state)
    items = [replica_view(state, origins) for origins in found]
    return show(request, ReplicaList.of(state, items=items), view=view)


def _now(view: KnownCluster, paging: Paging, *, topic: str | None, after: Position | None) -> AssignmentView:
    image = view.image
    names = sorted(image.topic_ids) if topic is None else [topic]
    found: list[PartitionState] = []
    for name in names:
        if name not in image.topic_ids or (after is not None and name < after.topic):
            continue
        states = image.partitions_of(image.topic_ids[name])
        if after is not None and name == after.topic:
            states = tuple(state for state in states if state.partition > after.partition)
        found += states[: paging.rows - len(found)]
        if len(found) > paging.limit:
            break
    page, token = paging.cut(found, lambda state: [_LIST, state.topic, state.partition, state.topic_id])
    items = []
    for state in page:
        change = view.last_change_of_partition((state.topic_id, state.partition))
        items.append(placement_now(state, changed_at_ms=None if change is None else change.at_ms))
    return AssignmentView(as_of=None, is_complete=True, items=items, next_page_token=token)


async def _then(
    services: Services,
    cluster: str,
    as_of: datetime,
    *,
    topic: str | None,
    after: Position | None,
    limit: int,
) -> AssignmentView:
    at_ms = milliseconds(as_of)
    assert at_ms is not None
    if at_ms > services.clock.now_wall_ms():
        problem = FieldProblem(parameter="as_of", message="lies in the future")
        raise ProblemError("invalid_request", "as_of: lies in the future", errors=(problem,))
    # Read before the rows: changes that are pending now may be missing in them.
    is_complete = services.outbox.depth == 0 and cluster not in services.outbox.behind
    page, since_ms = await services.database.read(
        _read_then, cluster=cluster, at_ms=at_ms, topic=topic, after=after, limit=limit
    )
    if page is None:
        began = "has not begun" if since_ms is None else f"goes back to {timestamp(since_ms)}"
        raise ProblemError("before_the_audit", f"the audit of cluster {cluster!r} {began}")
    token = None
    if page.next is not None:
        token = encode_token([_LIST, page.next.topic, page.next.partition, page.next.entity_id])
    return AssignmentView(
        as_of=timestamp(at_ms),
        is_complete=is_complete,
        items=[placement_then(placement) for placement in page.items],
        next_page_token=token,
    )


def _read_then(
    connection: sa.Connection,
    *,
    cluster: str,
    at_ms: int,
    topic: str | None,
    after: Position | None,
    limit: int,
) -> tuple[Page | None, int | None]:
    """Read a page in one transaction, so that retention removes nothing in between. Return no page if the
    time is before the oldest row, and the time of the oldest row."""
    page = placements_at(connection, cluster=cluster, at_ms=at_ms, topic=topic, after=after, limit=limit)
    since_ms = audited_since_ms(connection, cluster)  # after the rows: these are no younger
    return (None if since_ms is None or at_ms < since_ms else page), since_ms
