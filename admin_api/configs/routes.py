"""…/configs of topics, brokers, clusters and groups: the same routes under each path.

Annotations are not postponed here: postponed ones could not name the address that a route is made for.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from admin_api.configs import service
from admin_api.configs.models import AlterConfigs, ConfigList, ConfigsAltered, ConfigView, SetConfig
from admin_api.configs.service import Address, holder_of
from admin_api.groups.service import GroupPath
from admin_api.http.answers import AGE_HEADERS, ETAG_HEADERS, REPLAYED_HEADERS, done, show
from admin_api.http.conditions import IfMatch
from admin_api.http.models import BrokerPath, ClusterPath, ReasonQuery, TopicPath
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.rights import CHANGE_PROTECTION
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import ADMIN_SETTINGS, Write, Writing
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute)

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


async def topic_address(cluster: ClusterPath, topic: TopicPath) -> Address:
    return Address(cluster=cluster, entity=Entity.TOPIC, topic=topic)


async def broker_address(cluster: ClusterPath, broker_id: BrokerPath) -> Address:
    return Address(cluster=cluster, entity=Entity.BROKER, broker_id=broker_id)


async def group_address(cluster: ClusterPath, group_id: GroupPath) -> Address:
    return Address(cluster=cluster, entity=Entity.GROUP, group_id=group_id)


async def cluster_address(cluster: ClusterPath) -> Address:
    return Address(cluster=cluster, entity=Entity.CLUSTER)


def _check_protection(write: Writing, address: Address, names: Iterable[str]) -> None:
    """Raise forbidden if a setting that guards a cluster is changed without the right."""
    if address.entity is Entity.CLUSTER and not ADMIN_SETTINGS.isdisjoint(names):
        write.need(CHANGE_PROTECTION)


def _add_routes(
    prefix: str,
    address_of: Callable[..., Awaitable[Address]],
    *,
    noun: str,
    tag: str,
    missing: tuple[str, ...],
    what_follows: str,
    has_each: bool = True,
) -> None:
    """Add the routes of one kind of holder. noun: in operation ids, "Topic". what_follows: the effects of a
    change, for its description. has_each: each setting has an address, too."""
    Whose = Annotated[Address, Depends(address_of)]
    a_noun = f"a {noun.lower()}'s"
    changed = done(
        "Done; of a dry run, as it would be",
        *missing,
        "unknown_config",
        "invalid_config",
        "broker_without_tls",
        "reserved_topic",
        *CONDITION_PROBLEMS,
        headers=ETAG_HEADERS | REPLAYED_HEADERS,
    )

    @router.get(
        prefix,
        operation_id=f"list{noun}Configs",
        tags=[tag],
        summary=f"List {a_noun} settings: what applies, and where it comes from",
        description=f"List {a_noun} settings, each with the value that applies and the place that sets it.",
        response_model=ConfigList,
        responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems(*missing)},
    )
    async def list_configs(
        *,
        request: Request,
        services: Serving,
        address: Whose,
        paging: Paged,
    ) -> Response:
        holder = holder_of(services.engine, address)
        items, token = paging.page_of(
            service.config_views(holder, address.entity),
            lambda item: (item.name,),
            name="configs",
            kinds=(str,),
        )
        body = ConfigList(items=items, next_page_token=token)
        return show(request, body, view=services.engine.cluster(address.cluster), version=holder.version)

    @router.post(
        prefix + ":alter",
        operation_id=f"alter{noun}Configs",
        tags=[tag],
        summary=f"Change several of {a_noun} settings at once",
        description=f"Change all of the settings that are named, or none. {what_follows}",
        response_model=ConfigsAltered,
        responses=changed,
    )
    async def alter_configs(
        *,
        body: AlterConfigs,
        services: Serving,
        write: Write,
        condition: IfMatch,
        address: Whose,
    ) -> Response:
        _check_protection(write, address, body.configs)
        asked = service.asked_of(address, "alter_configs", body.model_dump(mode="json"), body.reason)
        return await write.carry_out(
            asked,
            partial(service.alter_configs, services, address, configs=body.configs, condition=condition),
        )

    if has_each:
        _add_routes_of_each(
            prefix,
            address_of,
            noun=noun,
            tag=tag,
            missing=missing,
            changed=changed,
            what_follows=what_follows,
        )


def _add_routes_of_each(
    prefix: str,
    address_of: Callable[..., Awaitable[Address]],
    *,
    noun: str,
    tag: str,
    missing: tuple[str, ...],
    changed: dict[int | str, dict[str, Any]],
    what_follows: str,
) -> None:
    """Add the routes of single settings; see `_add_routes`."""
    Whose = Annotated[Address, Depends(address_of)]
    a_noun = f"a {noun.lower()}'s"

    @router.get(
        prefix + "/{name}",
        operation_id=f"get{noun}Config",
        tags=[tag],
        summary=f"Look at one of {a_noun} settings",
        description=f"Show one of {a_noun} settings. Answers 404 if no setting has this name.",
        response_model=ConfigView,
        responses={200: {"headers": AGE_HEADERS | ETAG_HEADERS}, **problems(*missing, "config_not_found")},
    )
    async def get_config(request: Request, services: Serving, address: Whose, name: ConfigPath) -> Response:
        holder = holder_of(services.engine, address)
        service.check_known(name, holder, address)
        shown = service.config_view(name, holder, address.entity, holder.own)
        return show(request, shown, view=services.engine.cluster(address.cluster), version=holder.version)

    @router.put(
        prefix + "/{name}",
        operation_id=f"set{noun}Config",
        tags=[tag],
        summary=f"Set one of {a_noun} settings",
        description=what_follows,
        response_model=ConfigView,
        responses=changed,
    )
    async def set_config(
        *,
        body: SetConfig,
        services: Serving,
        write: Write,
        condition: IfMatch,
        address: Whose,
        name: ConfigPath,
    ) -> Response:
        _check_protection(write, address, [name])
        asked = service.asked_of(
            address, "set_config", {"name": name} | body.model_dump(mode="json"), body.reason
        )
        return await write.carry_out(
            asked,
            partial(service.set_config, services, address, name=name, value=body.value, condition=condition),
        )

    @router.delete(
        prefix + "/{name}",
        operation_id=f"unset{noun}Config",
        tags=[tag],
        summary=f"Let a default apply again for one of {a_noun} settings",
        description="The answer says what applies from now on. No error when it was not set.",
        response_model=ConfigView,
        responses=changed,
    )
    async def unset_config(
        *,
        services: Serving,
        write: Write,
        condition: IfMatch,
        address: Whose,
        name: ConfigPath,
        reason: ReasonQuery = None,
    ) -> Response:
        _check_protection(write, address, [name])
        asked = service.asked_of(address, "unset_config", {"name": name}, reason)
        return await write.carry_out(
            asked,
            partial(service.set_config, services, address, name=name, value=None, condition=condition),
        )


_add_routes(
    "/clusters/{cluster}/topics/{topic}/configs",
    topic_address,
    noun="Topic",
    tag="Topics",
    missing=("cluster_not_found", "topic_not_found"),
    what_follows=(
        "Brokers follow at once, and another minimum in sync is written into the state of each partition, "
        "so that leaders and controller never disagree about it."
    ),
)
_add_routes(
    "/clusters/{cluster}/brokers/{broker_id:int}/configs",
    broker_address,
    noun="Broker",
    tag="Brokers",
    missing=("cluster_not_found", "broker_not_found"),
    what_follows=(
        "Throttles, in bytes per second, bound only replicas that are being added, and may stay set without "
        "harm to the others."
    ),
)
_add_routes(
    "/clusters/{cluster}/configs",
    cluster_address,
    noun="Cluster",
    tag="Clusters",
    missing=("cluster_not_found",),
    what_follows=(
        "They are defaults of topics and brokers, also of those that exist, and what the cluster as a whole "
        "does."
    ),
)
_add_routes(
    "/clusters/{cluster}/group-configs/{group_id:whole}",
    group_address,
    noun="Group",
    tag="Groups",
    missing=("cluster_not_found",),
    what_follows=(
        "They are of groups of the `consumer` protocol, and the group need not exist: its coordinator "
        "follows at once, within its own bounds."
    ),
    has_each=False,
)
