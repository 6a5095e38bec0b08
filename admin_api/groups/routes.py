"""/clusters/{cluster}/groups"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.groups import resetting, service
from admin_api.groups.models import (
    GroupList,
    GroupPhase,
    GroupSummary,
    GroupView,
    OffsetsReset,
    ResetOffsets,
)
from admin_api.groups.service import GroupPath
from admin_api.http.answers import done, show
from admin_api.http.models import ClusterPath, Reason, ReasonQuery
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute, tags=["Groups"])

#: Characters of a group's id by which the audit finds it; its body has the whole id.
ENTITY_ID_CHARS = 300


@router.get(
    "/clusters/{cluster}/groups",
    operation_id="listGroups",
    summary="List consumer groups",
    response_model=GroupList,
    responses=problems("cluster_not_found", "coordinator_unavailable"),
)
async def list_groups(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
    state: Annotated[GroupPhase | None, Query(description="only groups in this state")] = None,
    prefix: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=249,
            description="only groups whose ids begin with this",
            examples=["billing"],
        ),
    ] = None,
) -> Response:
    """List the groups that coordinators know, by the beginnings of their ids. Each page asks them again."""
    with service.as_problems(services):
        found, unanswered = await services.groups.listed(cluster)
    groups, token = paging.page_of(
        (
            group
            for group in found
            if (state is None or group.state == state.value)
            and (prefix is None or group.group_id.startswith(prefix))
        ),
        service.order_of,
        name="groups",
        kinds=(str, str),
    )
    items = [service.summary(group) for group in groups]
    return show(request, GroupList(items=items, next_page_token=token, unanswered=unanswered))


@router.get(
    "/clusters/{cluster}/groups/{group_id:whole}",
    operation_id="getGroup",
    summary="Look at a consumer group: members, offsets, lag",
    response_model=GroupView,
    responses=problems("cluster_not_found", "group_not_found", "coordinator_unavailable"),
)
async def get_group(
    request: Request, services: Serving, cluster: ClusterPath, group_id: GroupPath
) -> Response:
    """Show who reads what and how far, in records and, where leaders answer at once, in time. Answers 404 if
    its coordinator knows no consumer group of this id."""
    return show(request, await service.group_view(services, cluster, group_id))


@router.delete(
    "/clusters/{cluster}/groups/{group_id:whole}",
    operation_id="deleteGroup",
    summary="Delete a consumer group without members, with its offsets",
    response_model=GroupSummary,
    responses=done(
        "Done: the group as it was; of a dry run, it would be",
        "cluster_not_found",
        "group_not_found",
        "group_in_use",
        "coordinator_unavailable",
    ),
)
async def delete_group(
    services: Serving, write: Write, cluster: ClusterPath, group_id: GroupPath, reason: ReasonQuery = None
) -> Response:
    """Delete a group. If its clients come back, they begin as new ones, where `auto.offset.reset` says."""
    asked = _asked("delete_group", cluster, group_id, {}, reason)
    return await write.carry_out(asked, partial(service.delete_group, services, cluster, group_id))


@router.post(
    "/clusters/{cluster}/groups/{group_id:whole}:reset-offsets",
    operation_id="resetGroupOffsets",
    summary="Set the offsets at which a consumer group without members continues",
    response_model=OffsetsReset,
    responses=done(
        "Done; of a dry run, as it would be",
        "cluster_not_found",
        "group_not_found",
        "group_in_use",
        "unknown_topic",
        "log_unavailable",
        "reset_incomplete",
        "coordinator_unavailable",
    ),
)
async def reset_offsets(
    body: ResetOffsets, services: Serving, write: Write, cluster: ClusterPath, group_id: GroupPath
) -> Response:
    """Set the committed offsets of a group whose clients are stopped. A group that does not exist gets those
    of the topics or partitions that are named."""
    asked = _asked("reset_group_offsets", cluster, group_id, body.model_dump(mode="json"), body.reason)
    reset = partial(resetting.reset_offsets, services, cluster, group_id, body=body)
    return await write.carry_out(asked, reset)


def _asked(action: str, cluster: str, group_id: str, body: dict[str, object], reason: Reason | None) -> Asked:
    return Asked(
        cluster=cluster,
        action=action,
        entity=Entity.GROUP,
        entity_id=group_id[:ENTITY_ID_CHARS],
        body={"group_id": group_id, **body},
        reason=reason,
    )
