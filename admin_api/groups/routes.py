"""/clusters/{cluster}/groups"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from admin_api.groups import resetting, service
from admin_api.groups.models import (
    GroupList,
    GroupPhase,
    GroupSummary,
    GroupView,
    OffsetsReset,
    ResetOffsets,
)
from admin_api.groups.rebalances import RebalanceList
from admin_api.groups.service import GroupPath
from admin_api.http.answers import done, show
from admin_api.http.models import NAMES_MAX, ClusterPath, Reason, ReasonQuery, Search, is_found
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from controller.face.cluster import Entity
from controller.face.groups import GroupListing

router = APIRouter(route_class=StrictRoute, tags=["Groups"])

GroupSort = Literal[
    "group_id", "-group_id", "lag", "-lag", "lag_ms", "-lag_ms", "members", "-members", "state", "-state"
]
#: Characters of a group's id by which the audit finds it; its body has the whole id.
ENTITY_ID_CHARS = 300


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """The groups that a list is narrowed to."""

    state: str | None
    prefix: str | None
    search: str | None
    named: frozenset[str]

    def takes(self, group: GroupListing) -> bool:
        return (
            (self.state is None or group.state == self.state)
            and (self.prefix is None or group.group_id.startswith(self.prefix))
            and is_found(self.search, group.group_id)
            and (not self.named or group.group_id in self.named)
        )


async def filter_of(
    *,
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
    search: Search = None,
    group: Annotated[
        list[str],
        Query(default_factory=list, max_length=NAMES_MAX, description="only these; may be repeated"),
    ],
) -> GroupFilter:
    return GroupFilter(None if state is None else state.value, prefix, search, frozenset(group))


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
    wanted: Annotated[GroupFilter, Depends(filter_of)],
    sort: Annotated[
        GroupSort, Query(description="`-` before it: descending; what is not known comes below 0")
    ] = "group_id",
) -> Response:
    """List the groups that coordinators know: each page asks them again, and no broker. Lag and members are
    as they told them last."""
    with service.as_problems(services):
        found, unanswered = await services.groups.listed(cluster)
    view = services.engine.cluster(cluster)
    groups, token = paging.page_of(
        filter(wanted.takes, found),
        lambda one: (service.sort_value(view, one, sort), *service.order_of(one)),
        name=f"groups {sort}",
        kinds=(int, str, str),
        descending=sort.startswith("-"),
    )
    items = [service.summary(services, cluster, one) for one in groups]
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


@router.get(
    "/clusters/{cluster}/rebalances/{group_id:whole}",
    operation_id="listGroupRebalances",
    summary="Look at why a consumer group was rebalanced, and what that moved",
    response_model=RebalanceList,
    responses=problems("cluster_not_found"),
)
async def list_group_rebalances(
    request: Request, services: Serving, cluster: ClusterPath, group_id: GroupPath
) -> Response:
    """Show a group's last ten rebalances: what made each necessary, which partitions went from whom to whom
    and how long they had no member, and whom a running one waits for. All of it is as coordinators told the
    active controller with their heartbeats; empty if none has told of the group."""
    view = services.engine.cluster(cluster)
    items = service.rebalances(view, group_id)
    return show(request, RebalanceList(items=items), view=view)


def _asked(action: str, cluster: str, group_id: str, body: dict[str, object], reason: Reason | None) -> Asked:
    return Asked(
        cluster=cluster,
        action=action,
        entity=Entity.GROUP,
        entity_id=group_id[:ENTITY_ID_CHARS],
        body={"group_id": group_id, **body},
        reason=reason,
    )
