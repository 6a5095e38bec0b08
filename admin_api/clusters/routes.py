"""/clusters"""

from __future__ import annotations

from collections import Counter
from functools import partial

from fastapi import APIRouter, Request, Response

from admin_api.clusters import service, upgrade
from admin_api.clusters.models import (
    AlarmList,
    BroughtBackTopics,
    ClusterList,
    ClusterOverview,
    MetadataRecovery,
    NewCluster,
    RecoveredMetadata,
    SetAsideLogList,
    TopicsToBringBack,
)
from admin_api.clusters.upgrade import FinalizedUpgrade, UpgradeStatus, UpgradeToFinalize
from admin_api.http.answers import AGE_HEADERS, ETAG_HEADERS, REPLAYED_HEADERS, done, show
from admin_api.http.models import ClusterPath
from admin_api.http.paging import Paged
from admin_api.http.problems import WRITE_PROBLEMS, problems
from admin_api.http.rights import CHANGE_PROTECTION
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from controller.face.cluster import Entity, alarm_order
from controller.face.settings import AUTHORIZATION_SETTINGS

router = APIRouter(route_class=StrictRoute)


@router.post(
    "/clusters",
    operation_id="createCluster",
    tags=["Clusters"],
    summary="Create a cluster",
    status_code=201,
    response_model=ClusterOverview,
    responses={
        201: {"description": "Created", "headers": ETAG_HEADERS | REPLAYED_HEADERS},
        200: {"model": ClusterOverview, "description": "Dry run: what would be created"},
        **problems("cluster_already_exists", *WRITE_PROBLEMS),
    },
)
async def create_cluster(body: NewCluster, services: Serving, write: Write) -> Response:
    """Create an empty cluster. Brokers register by themselves once they are started with its name, and hold
    nothing until they are added."""
    asked = Asked(
        cluster=body.name,
        is_new_cluster=True,
        action="create_cluster",
        entity=Entity.CLUSTER,
        entity_id=body.name,
        body=body.model_dump(mode="json"),
        reason=body.reason,
    )
    if AUTHORIZATION_SETTINGS.keys() & body.configs.keys():
        write.need(CHANGE_PROTECTION)
    return await write.carry_out(asked, partial(service.create_cluster, services, body))


@router.get(
    "/clusters",
    operation_id="listClusters",
    tags=["Clusters"],
    summary="List clusters",
    response_model=ClusterList,
    responses={
        200: {"headers": AGE_HEADERS},
        **problems("not_the_active_controller", "no_active_controller"),
    },
)
async def list_clusters(request: Request, services: Serving, paging: Paged) -> Response:
    """List the clusters, in the order of their names."""
    engine = services.engine
    names, token = paging.page_of(engine.clusters(), lambda n: (n,), name="clusters", kinds=(str,))
    views = [(name, engine.cluster(name)) for name in names]
    items = [service.cluster_view(engine, name, view) for name, view in views]
    oldest = min((view for _, view in views), key=lambda view: view.as_of_ms or 0, default=None)
    return show(request, ClusterList(items=items, next_page_token=token), view=oldest)


@router.get(
    "/clusters/{cluster:word}",
    operation_id="getCluster",
    tags=["Clusters"],
    summary="Look at a cluster",
    response_model=ClusterOverview,
    responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems("cluster_not_found")},
)
async def get_cluster(request: Request, services: Serving, cluster: ClusterPath) -> Response:
    """Show a cluster with its counts. Answers 404 if no cluster has this name."""
    view = services.engine.cluster(cluster)
    version = service.version_of(cluster, view)
    look = await service.look_at(services, cluster, view)
    shown = service.cluster_view(services.engine, cluster, view, look=look)
    return show(request, shown, view=view, version=version)


@router.post(
    "/clusters/{cluster:word}:recover-metadata",
    operation_id="recoverMetadata",
    tags=["Clusters"],
    summary="Recover a cluster whose ZooKeeper went back",
    response_model=RecoveredMetadata,
    responses=done(
        "Rebuilt; of a dry run, what would be",
        "cluster_not_found",
        "recovery_not_needed",
        "recovery_incomplete",
    ),
)
async def recover_metadata(
    body: MetadataRecovery, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Rebuild brokers, topics and partitions from what every broker reports that it holds, with every epoch
    above all reported ones; name the brokers that will never come back in `gone_brokers`. Requires the role
    admin."""
    asked = Asked(
        cluster=cluster,
        action="recover_metadata",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        brokers=tuple(body.gone_brokers),
    )
    return await write.carry_out(asked, partial(service.recover_metadata, services.engine, cluster, body))


@router.get(
    "/clusters/{cluster}/upgrade",
    operation_id="getUpgrade",
    tags=["Clusters"],
    summary="Look at the cluster's feature level, and what stands in the way of the next",
    response_model=UpgradeStatus,
    responses=problems("cluster_not_found"),
)
async def get_upgrade(request: Request, services: Serving, cluster: ClusterPath) -> Response:
    """Show the level by which the cluster writes, each process with the levels that it can run at, and what
    keeps the level from being raised. Answered by the active controller only."""
    shown = await upgrade.status_of(services, cluster)
    return show(request, shown, view=services.engine.cluster(cluster))


@router.post(
    "/clusters/{cluster:word}:finalize-upgrade",
    operation_id="finalizeUpgrade",
    tags=["Clusters"],
    summary="Finalize an upgrade: there is no way back",
    response_model=FinalizedUpgrade,
    responses=done("Finalized; of a dry run, what would be", "cluster_not_found", "upgrade_blocked"),
)
async def finalize_upgrade(
    body: UpgradeToFinalize, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Raise the cluster's feature level by one, for good: what is new in the release is written from then on,
    and no process of the release before can take part; nothing changes if the level is the highest. Answers
    409, naming each process that stands in the way, and requires the role admin."""
    asked = Asked(
        cluster=cluster,
        action="finalize_upgrade",
        body=body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(upgrade.finalize, services, cluster))


@router.get(
    "/clusters/{cluster}/set-aside-logs",
    operation_id="listSetAsideLogs",
    tags=["Clusters"],
    summary="List the logs that brokers have set aside",
    response_model=SetAsideLogList,
    responses=problems("cluster_not_found"),
)
async def list_set_aside_logs(
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
) -> Response:
    """List the logs in quarantine on brokers' disks, by broker and directory: logs that the metadata did not
    mention, and damaged ones. Answered by the active controller only."""
    view = services.engine.cluster(cluster)
    items, token = paging.page_of(
        service.set_aside_views(services.engine, cluster),
        lambda log: (log.broker_id, log.directory),
        name="set_aside_logs",
        kinds=(int, str),
    )
    return show(request, SetAsideLogList(items=items, next_page_token=token), view=view)


@router.post(
    "/clusters/{cluster:word}:bring-back-topics",
    operation_id="bringBackTopics",
    tags=["Clusters"],
    summary="Recreate topics from the logs that brokers have set aside",
    response_model=BroughtBackTopics,
    responses=done(
        "Brought back; of a dry run, what would be",
        "cluster_not_found",
        "topic_not_found",
        "topic_already_exists",
        "topic_name_collision",
        "recovery_incomplete",
    ),
)
async def bring_back_topics(
    body: TopicsToBringBack, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Bring topics back from logs that brokers have set aside, each with its old id, its settings as far as a
    broker knows them, and replicas where its logs are; topics that exist are not changed. Requires the role
    admin."""
    asked = Asked(
        cluster=cluster,
        action="bring_back_topics",
        body=body.model_dump(mode="json"),
        reason=body.reason,
        brokers=tuple(body.gone_brokers),
    )
    return await write.carry_out(asked, partial(service.bring_back, services.engine, cluster, body))


@router.get(
    "/clusters/{cluster}/alarms",
    operation_id="listAlarms",
    tags=["Clusters"],
    summary="List what is wrong, most severe first",
    response_model=AlarmList,
    responses=problems("cluster_not_found"),
)
async def list_alarms(
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
) -> Response:
    """List the cluster's alarms. Answered by the active controller only: a standby sees the metadata, not the
    brokers."""
    view = services.engine.cluster(cluster)
    alarms = view.alarms()
    page, token = paging.page_of(alarms, alarm_order, name="alarms", kinds=(int, str, int, int))
    silences, wall_ms = services.notifier.silences_of(cluster), services.clock.now_wall_ms()
    items = [service.alarm_view(view.image, alarm, silences, wall_ms=wall_ms) for alarm in page]
    counts = Counter(alarm.key.code.value for alarm in alarms)
    return show(request, AlarmList(items=items, next_page_token=token, counts=counts), view=view)
