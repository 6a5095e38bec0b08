"""/clusters/{cluster}/reassignments and a partition's assignment"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import accepted, show
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, PartitionPath, ReasonQuery, TopicName, TopicPath
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.operations.models import OperationView
from admin_api.reassignments import service
from admin_api.reassignments.models import AssignReplicas, ReassignmentList, ReassignmentPlan
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute, tags=["Reassignments"])

_ASSIGNMENT = "/clusters/{cluster}/topics/{topic}/partitions/{partition:int}/assignment"
_PROBLEMS = (
    "cluster_not_found",
    "topic_not_found",
    "partition_not_found",
    "reassignment_not_safe",
    *CONDITION_PROBLEMS,
)
_answers = partial(accepted, ReassignmentPlan, "Dry run: the partition right after the request")


@router.get(
    "/clusters/{cluster}/reassignments",
    operation_id="listReassignments",
    summary="List the partitions that are on their way to other brokers",
    response_model=ReassignmentList,
    responses=problems("cluster_not_found"),
)
async def list_reassignments(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    topic: Annotated[TopicName | None, Query(description="only this topic's")] = None,
    blocked: Annotated[bool | None, Query(description="only those that do, or do not, get on")] = None,
    paging: Paged,
) -> Response:
    """List reassignments, with the progress of each and what blocks it. Answered by the active controller
    only: a standby receives no reports of leaders."""
    services.engine.cluster(cluster)
    chosen = [
        found
        for found in services.engine.cluster(cluster).reassignments()
        if topic in (None, found.topic) and blocked in (None, found.blocked is not None)
    ]
    page, token = paging.page_of(
        chosen, lambda found: (found.topic, found.partition), name="reassignments", kinds=(str, int)
    )
    operations = services.operations.reassigning(cluster)
    items = [service.reassignment_view(found, operations) for found in page]
    return show(request, ReassignmentList(items=items, next_page_token=token))


@router.put(
    _ASSIGNMENT,
    operation_id="assignPartition",
    summary="Move a partition's replicas to these brokers",
    status_code=202,
    response_model=OperationView,
    responses=_answers(
        "approval_required",
        "invalid_replica_assignment",
        "invalid_replication_factor",
        "unknown_broker",
        "ineligible_broker",
        *_PROBLEMS,
    ),
)
async def assign_partition(
    *,
    body: AssignReplicas,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    partition: PartitionPath,
) -> Response:
    """Assign a partition to brokers, in any number and order; the old ones are removed at the moment in which
    all new ones are in sync. While a reassignment is in progress, another target replaces the first."""
    asked = Asked(
        cluster=cluster,
        action="assign_partition",
        entity=Entity.PARTITION,
        entity_id=f"{topic}/{partition}",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=topic,
        partition=partition,
        brokers=tuple(sorted(set(body.replicas))),
        is_operation=True,
    )
    return await write.carry_out(
        asked, partial(service.assign, services, cluster, topic, partition, body=body, condition=condition)
    )


@router.delete(
    _ASSIGNMENT,
    operation_id="cancelReassignment",
    summary="Cancel a partition's reassignment",
    status_code=202,
    response_model=OperationView,
    responses=_answers("no_reassignment_in_progress", *_PROBLEMS),
)
async def cancel_reassignment(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    partition: PartitionPath,
    reason: ReasonQuery = None,
) -> Response:
    """Give a partition its original replicas back, in their order, and delete what the new ones have copied.
    Refused while too few of the original ones are in sync: records that only the new ones hold would be
    lost."""
    asked = Asked(
        cluster=cluster,
        action="cancel_reassignment",
        entity=Entity.PARTITION,
        entity_id=f"{topic}/{partition}",
        body={"topic": topic, "partition": partition},
        reason=reason,
        topic=topic,
        partition=partition,
        is_operation=True,
    )
    return await write.carry_out(
        asked, partial(service.cancel, services, cluster, topic, partition, condition=condition)
    )
