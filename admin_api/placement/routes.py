"""/clusters/{cluster}/assignment, and the origins of a partition's replicas."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response

from admin_api.answers import AGE_HEADERS, show
from admin_api.clusters.routes import ClusterPath
from admin_api.history.models import Moment, milliseconds
from admin_api.names import TopicName, timestamp
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, cut_page, decode_position, encode_token
from admin_api.partitions.routes import PartitionPath
from admin_api.partitions.service import find_partition
from admin_api.placement.models import (
    AssignmentView,
    ReplicaList,
    placement_now,
    placement_then,
    replica_view,
)
from admin_api.problem import FieldProblem, ProblemError, problems
from admin_api.services import Services, Serving
from admin_api.strict_route import StrictRoute
from admin_api.topics.routes import TopicPath
from controller.audit.placements import Page, Position, audited_since_ms, placements_at
from controller.audit.provenance import explain_replicas
from controller.contract.partition_state import PartitionState
from controller.shell.published import Published

router = APIRouter(route_class=StrictRoute)

_LIST = "assignment"


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
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """Show the placement: the current one from the controller's memory, one at an earlier time from the
    audit, whose rows are whole snapshots."""
    view = services.engine.image(cluster)
    after = None if page_token is None else Position(*decode_position(page_token, _LIST, str, int, str))
    if as_of is None:
        return show(request, _now(view, topic=topic, after=after, limit=limit), view=view)
    return show(request, await _then(services, cluster, as_of, topic=topic, after=after, limit=limit))


@router.get(
    "/clusters/{cluster}/topics/{topic}/partitions/{partition:int}/replicas",
    operation_id="explainReplicas",
    tags=["Partitions"],
    summary="Ask why each replica is where it is",
    response_model=ReplicaList,
    responses=problems("cluster_not_found", "topic_not_found", "partition_not_found", "audit_unavailable"),
)
async def explain(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath, partition: PartitionPath
) -> Response:
    """Explain each replica of a partition: the change that placed it, the one that took it into or out of the
    ISR, and the one that made it the leader. Each change has its actor, time and reason, and the broker's
    death or the operator's request that led to it."""
    state = find_partition(services.engine.image(cluster), cluster, topic, partition)
    found = await services.database.read(partial(explain_replicas, cluster=cluster, state=state))
    body = ReplicaList(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        partition_epoch=state.partition_epoch,
        items=[replica_view(state, origins) for origins in found],
    )
    return show(request, body)


def _now(view: Published, *, topic: str | None, after: Position | None, limit: int) -> AssignmentView:
    image = view.image
    names = sorted(image.topic_ids) if topic is None else [topic]
    found: list[PartitionState] = []
    for name in names:
        if name not in image.topic_ids or (after is not None and name < after.topic):
            continue
        states = image.partitions_of(image.topic_ids[name])
        if after is not None and name == after.topic:
            states = tuple(state for state in states if state.partition > after.partition)
        found += states[: limit + 1 - len(found)]
        if len(found) > limit:
            break
    page, token = cut_page(found, limit, lambda state: [_LIST, state.topic, state.partition, state.topic_id])
    items = []
    for state in page:
        change = view.partition_changes.get((state.topic_id, state.partition))
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
        partial(_read_then, cluster=cluster, at_ms=at_ms, topic=topic, after=after, limit=limit)
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
