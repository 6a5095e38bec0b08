"""/clusters/{cluster}/topics/{topic}/configs"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from admin_api.answers import AGE_HEADERS, ETAG_HEADERS, show
from admin_api.clusters.routes import CONDITION_PROBLEMS, WRITE_PROBLEMS, ClusterPath
from admin_api.conditions import IfMatch
from admin_api.configs import service
from admin_api.configs.models import AlterConfigs, ConfigList, ConfigsAltered, ConfigView, SetConfig
from admin_api.names import Reason
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, page_of
from admin_api.problem import problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.topics.routes import TopicPath
from admin_api.topics.service import find_topic, version_of
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity

router = APIRouter(route_class=StrictRoute, tags=["Topics"])

_PREFIX = "/clusters/{cluster}/topics/{topic}/configs"
_MISSING = ("cluster_not_found", "topic_not_found")

ConfigPath = Annotated[
    str,
    Path(
        pattern=r"^[a-z0-9.]+$",
        min_length=1,
        max_length=249,
        description="the setting's name, as Kafka has it",
        examples=["min.insync.replicas"],
    ),
]

_CHANGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Done; of a dry run, as it would be",
        "headers": ETAG_HEADERS | REPLAYED_HEADERS,
    },
    **problems(*_MISSING, "unknown_config", "invalid_config", *CONDITION_PROBLEMS, *WRITE_PROBLEMS),
}


@router.get(
    _PREFIX,
    operation_id="listTopicConfigs",
    summary="List a topic's settings: what applies, and where it comes from",
    response_model=ConfigList,
    responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems(*_MISSING)},
)
async def list_configs(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    topic: TopicPath,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    view = services.engine.image(cluster)
    state = find_topic(view, cluster, topic)
    items, token = page_of(
        service.config_views(state, view.image.configs),
        lambda item: (item.name,),
        name="configs",
        kinds=(str,),
        limit=limit,
        token=page_token,
    )
    return show(
        request,
        ConfigList(items=items, next_page_token=token),
        view=view,
        version=version_of(view, state),
    )


@router.get(
    _PREFIX + "/{name}",
    operation_id="getTopicConfig",
    summary="Look at one of a topic's settings",
    response_model=ConfigView,
    responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems(*_MISSING, "config_not_found")},
)
async def get_config(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath, name: ConfigPath
) -> Response:
    view = services.engine.image(cluster)
    state = find_topic(view, cluster, topic)
    service.check_known(name)
    shown = service.config_view(name, state, view.image.configs)
    return show(request, shown, view=view, version=version_of(view, state))


@router.put(
    _PREFIX + "/{name}",
    operation_id="setTopicConfig",
    summary="Set one of a topic's settings",
    response_model=ConfigView,
    responses=_CHANGE,
)
async def set_config(
    *,
    body: SetConfig,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    name: ConfigPath,
) -> Response:
    """Brokers follow at once. Another minimum in sync is written into the state of each partition, so that
    leaders and controller never disagree about it."""
    services.engine.image(cluster)
    asked = _asked(cluster, topic, "set_config", {"name": name} | body.model_dump(mode="json"), body.reason)
    return await write.carry_out(
        asked,
        partial(
            service.set_config, services, cluster, topic, name=name, value=body.value, condition=condition
        ),
    )


@router.delete(
    _PREFIX + "/{name}",
    operation_id="unsetTopicConfig",
    summary="Let a default apply again",
    response_model=ConfigView,
    responses=_CHANGE,
)
async def unset_config(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    name: ConfigPath,
    reason: Annotated[Reason | None, Query(description="kept in the audit beside the change")] = None,
) -> Response:
    """The answer says what applies from now on. No error when it was not set."""
    services.engine.image(cluster)
    asked = _asked(cluster, topic, "unset_config", {"name": name}, reason)
    return await write.carry_out(
        asked,
        partial(service.set_config, services, cluster, topic, name=name, value=None, condition=condition),
    )


@router.post(
    _PREFIX + ":alter",
    operation_id="alterTopicConfigs",
    summary="Change several of a topic's settings at once",
    response_model=ConfigsAltered,
    responses=_CHANGE,
)
async def alter_configs(
    *,
    body: AlterConfigs,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
) -> Response:
    """All of them, or none. What is not named stays as it is."""
    services.engine.image(cluster)
    asked = _asked(cluster, topic, "alter_configs", body.model_dump(mode="json"), body.reason)
    return await write.carry_out(
        asked,
        partial(service.alter_configs, services, cluster, topic, configs=body.configs, condition=condition),
    )


def _asked(cluster: str, topic: str, action: str, body: dict[str, Any], reason: str | None) -> Asked:
    return Asked(
        cluster=cluster,
        action=action,
        entity=Entity.TOPIC,
        entity_id=topic,
        body=body,
        reason=reason,
        topic=topic,
    )
