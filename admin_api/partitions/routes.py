"""/clusters/{cluster}/topics/{topic}/partitions"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.openapi.models import Example

from admin_api.http.answers import (
    AGE_HEADERS,
    ETAG_HEADERS,
    accepted,
    show,
)
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, PartitionPath, TopicPath
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.rights import CHANGE_PROTECTION
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.operations.models import OperationView
from admin_api.partitions import elections, service
from admin_api.partitions.elections import find_loss
from admin_api.partitions.models import (
    ElectionPlan,
    ElectLeaderBody,
    LossPreviewView,
    PartitionList,
    PartitionView,
    PreferredElectionPlan,
    RestorePreferredLeaders,
)
from admin_api.topics.service import find_topic
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute, tags=["Partitions"])
_PREFIX = "/clusters/{cluster}/topics/{topic}/partitions"
_MISSING = ("cluster_not_found", "topic_not_found", "partition_not_found")

StateWord = Literal["online", "under_replicated", "under_min_isr", "recovering", "leaderless", "creating"]


_EXAMPLES: dict[str, Example] = {
    "preferred": {
        "summary": "Back to the preferred leader",
        "value": {"election": "preferred", "reason": "after maintenance of store1"},
    },
    "unclean": {
        "summary": "Accept what is lost",
        "value": {
            "election": "unclean",
            "broker_id": 2,
            "partition_epoch": 17,
            "lost_records_max": 30,
            "reason": "brokers 1 and 3 are lost for good",
        },
    },
}


@router.post(
    _PREFIX + "/{partition:int}:elect-leader",
    operation_id="electLeader",
    summary="Elect a partition's leader",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        ElectionPlan,
        "Dry run: the partition after the election",
        *_MISSING,
        "election_not_needed",
        "partition_changed",
        "ineligible_broker",
        "loss_too_large",
        "loss_unknown",
        *CONDITION_PROBLEMS,
        description="Done: the operation says who leads",
    ),
)
async def elect_leader(
    *,
    body: Annotated[ElectLeaderBody, Body(openapi_examples=_EXAMPLES)],
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    partition: PartitionPath,
) -> Response:
    """`preferred` gives the leadership back to the first replica and loses nothing. `unclean` (role admin)
    chooses a leader for a partition without one and loses the records that its log lacks, at most
    `lost_records_max`: look at the loss preview first."""
    if body.election == "unclean":
        write.need(CHANGE_PROTECTION)
    asked = Asked(
        cluster=cluster,
        action=f"elect_leader_{body.election}",
        entity=Entity.PARTITION,
        entity_id=f"{topic}/{partition}",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=topic,
        partition=partition,
        brokers=elections.brokers_named(body),
        is_operation=True,
    )
    return await write.carry_out(
        asked,
        partial(elections.elect_leader, services, cluster, topic, partition, body=body, condition=condition),
    )


@router.post(
    "/clusters/{cluster}/partitions:elect-preferred",
    operation_id="electPreferredLeaders",
    summary="Give partitions their preferred leaders back",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        PreferredElectionPlan,
        "Dry run: who would lead, what would be refused",
        "cluster_not_found",
        "topic_not_found",
        description="Done, or failed: the operation says what was refused",
    ),
)
async def elect_preferred_leaders(
    *,
    body: RestorePreferredLeaders,
    services: Serving,
    write: Write,
    cluster: ClusterPath,
) -> Response:
    """Give each partition that another replica leads back to its first replica, if that one is in sync. Each
    is elected alone: a failure of one does not stop the others."""
    asked = Asked(
        cluster=cluster,
        action="elect_preferred_leaders",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        is_operation=True,
    )
    return await write.carry_out(
        asked, partial(elections.elect_preferred_leaders, services, cluster, body=body)
    )


@router.get(
    _PREFIX,
    operation_id="listPartitions",
    summary="List a topic's partitions",
    response_model=PartitionList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found", "topic_not_found")},
)
async def list_partitions(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    topic: TopicPath,
    state: Annotated[StateWord | None, Query(description="only partitions in this state")] = None,
    paging: Paged,
) -> Response:
    """List a topic's partitions with their leaders, replicas and ISRs. Answers 404 if no topic has this
    name."""
    view = services.engine.cluster(cluster)
    found = view.image.partitions_of(find_topic(view, cluster, topic).topic_id)
    chosen = [p for p in found if state is None or service.state_word(p) == state]
    page, token = paging.page_of(chosen, lambda p: (p.partition,), name="partitions", kinds=(int,))
    items = [service.show_partition(view, p) for p in page]
    return show(request, PartitionList(items=items, next_page_token=token), view=view)


@router.get(
    _PREFIX + "/{partition:int}",
    operation_id="getPartition",
    summary="Look at a partition",
    response_model=PartitionView,
    responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems(*_MISSING)},
)
async def get_partition(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath, partition: PartitionPath
) -> Response:
    """Show a partition: its leader, its replicas and which of them are in sync. Answers 404 if the topic has
    no such partition."""
    view = services.engine.cluster(cluster)
    state = service.find_partition(view, cluster, topic, partition)
    shown = service.show_partition(view, state)
    return show(request, shown, view=view, version=service.version_of(state))


@router.get(
    _PREFIX + "/{partition:int}/loss-preview",
    operation_id="previewLoss",
    summary="See what an unclean election would lose",
    response_model=LossPreviewView,
    responses={
        200: {"headers": ETAG_HEADERS},
        **problems(*_MISSING, "election_not_needed", "replica_quarantined", "not_the_active_controller"),
    },
)
async def preview_loss(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath, partition: PartitionPath
) -> Response:
    """Show, for a partition without a leader, how far each replica's log goes and what the others hold that
    it lacks. For a replica that is down, the last leader's last report is a lower bound."""
    view = services.engine.cluster(cluster)
    state = service.find_partition(view, cluster, topic, partition)
    shown = find_loss(view, state)
    return show(request, shown, version=service.version_of(state))
