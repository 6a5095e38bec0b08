"""Settings of topics, brokers and clusters: which each has, which are set, the defaults, and changes. A
request changes all settings that it names, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin_api.brokers import service as brokers
from admin_api.clusters import service as clusters
from admin_api.configs.models import ConfigsAltered, ConfigView
from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.problems import ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Asked, Attempt, submit
from admin_api.topics import service as topics
from controller.face.cluster import BrokerRegistration, Engine, Entity, KnownCluster, group_name
from controller.face.commands import (
    BrokersConfigured,
    ClusterConfigured,
    ConfigureBrokers,
    ConfigureCluster,
    ConfigureGroup,
    ConfigureTopic,
    GroupConfigured,
    TopicConfigured,
)
from controller.face.settings import (
    BROKER_SETTINGS,
    CLUSTER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    effective_min_insync_replicas,
    honoured_names,
    in_words,
)
from springtide.contract.partition_state import TopicState

MINIMUM = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The holder that a path names. entity: TOPIC with its name, BROKER or GROUP with its id, or CLUSTER."""

    cluster: str
    entity: Entity
    topic: str | None = None
    broker_id: int | None = None
    group_id: str | None = None

    @property
    def entity_id(self) -> str:
        """Return the holder's id as the audit writes it."""
        if self.group_id is not None:
            return group_name(self.group_id)
        return self.topic or (self.cluster if self.broker_id is None else str(self.broker_id))

    @property
    def what(self) -> str:
        name = self.entity_id if self.entity is Entity.BROKER else repr(self.entity_id)
        return f"{self.entity.value} {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One holder of settings.

    settings: all that exist for this kind of holder. own: set for it, under its names.
    inherited: the cluster's defaults, under the cluster's names; empty for the cluster itself.
    computed: defaults that follow from something else. topic_id: of a topic.
    version, is_settled: of its row, and whether no change of the row is pending.
    """

    settings: Mapping[str, Setting]
    own: Mapping[str, str]
    version: str
    is_settled: bool
    inherited: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    topic_id: str | None = None

    def cluster_name(self, name: str) -> str | None:
        """Return the name under which the cluster has a default for the setting."""
        if self.settings is CLUSTER_SETTINGS:
            return None
        return name if self.settings is BROKER_SETTINGS else self.settings[name].cluster_name


def holder_of(engine: Engine, address: Address) -> Holder:
    """Return the holder from the published view. Raises topic_not_found, broker_not_found, UnknownCluster."""
    view = engine.cluster(address.cluster)
    match address.entity:
        case Entity.TOPIC:
            assert address.topic is not None
            return of_topic(engine, view, topics.find_topic(view, address.cluster, address.topic))
        case Entity.BROKER:
            assert address.broker_id is not None
            return _of_broker(engine, view, brokers.find_broker(view, address.cluster, address.broker_id))
        case Entity.GROUP:
            return _of_group(engine, view, address)
        case _:
            return _of_cluster(engine, view)


def of_topic(engine: Engine, view: KnownCluster, topic: TopicState) -> Holder:
    majority = effective_min_insync_replicas({}, {}, replication_factor=topic.replication_factor)
    return Holder(
        settings=TOPIC_SETTINGS,
        own=topic.configs,
        version=topics.version_of(view, topic),
        is_settled=not _is_active(engine) or view.decided.topics.get(topic.topic_id) == topic,
        inherited=view.image.configs,
        computed={MINIMUM: str(majority)},
        topic_id=topic.topic_id,
    )


def _of_broker(engine: Engine, view: KnownCluster, broker: BrokerRegistration) -> Holder:
    return Holder(
        settings=BROKER_SETTINGS,
        own=broker.configs,
        version=brokers.version_of(view, broker.broker_id),
        is_settled=not _is_active(engine) or view.decided.brokers.get(broker.broker_id) == broker,
        inherited=view.image.configs,
    )


def _of_group(engine: Engine, view: KnownCluster, address: Address) -> Holder:
    """Return the holder of a group's settings. They need no group: they apply once there is one."""
    assert address.group_id is not None
    known = view.image.group_configs.get(address.group_id)
    version = view.version_of(Entity.GROUP, address.entity_id)
    return Holder(
        settings=GROUP_SETTINGS,
        own={} if known is None else known.configs,
        version="0" if version is None else str(version),
        is_settled=not _is_active(engine) or view.decided.group_configs.get(address.group_id) == known,
    )


def _of_cluster(engine: Engine, view: KnownCluster) -> Holder:
    return Holder(
        settings=CLUSTER_SETTINGS,
        own=view.image.configs,
        version=clusters.version_of(view.cluster, view),
        is_settled=not _is_active(engine) or view.decided.configs == view.image.configs,
    )


def _is_active(engine: Engine) -> bool:
    return engine.role == "active"


def config_view(name: str, holder: Holder, entity: Entity, own: Mapping[str, str]) -> ConfigView:
    """Return the view of a known setting. own: the values set for the holder, or those that a dry run would
    set."""
    setting = holder.settings[name]
    cluster_name = holder.cluster_name(name)
    default = setting.default if setting.default is not None else holder.computed.get(name)
    value, source = default, "default"
    if cluster_name is not None and cluster_name in holder.inherited:
        value, source = holder.inherited[cluster_name], "cluster"
    if name in own:
        value, source = own[name], entity.value
    return ConfigView(
        name=name,
        value=value,
        in_words=in_words(int(value)) if name.endswith(".ms") and value is not None else None,
        source=source,
        default=default,
        cluster_config=cluster_name,
        is_read_only=setting.is_read_only,
        note=setting.note,
    )


def config_views(holder: Holder, entity: Entity) -> list[ConfigView]:
    """Return the views, by name, of the settings that change something, and of those that are set."""
    return [
        view
        for view in accepted_views(holder, entity)
        if holder.settings[view.name].is_honoured or view.source != "default"
    ]


def accepted_views(holder: Holder, entity: Entity) -> list[ConfigView]:
    """Return the views of all settings, by name, without those that can't be set."""
    return [
        config_view(name, holder, entity, holder.own)
        for name, setting in sorted(holder.settings.items())
        if not setting.is_refused
    ]


def check_known(name: str, holder: Holder, address: Address) -> None:
    if name not in holder.settings or holder.settings[name].is_refused:
        raise ProblemError(
            "config_not_found",
            f"{address.entity.value}s have no setting {name[:100]!r}",
            hint=f"known: {', '.join(honoured_names(holder.settings))}",
        )


def asked_of(address: Address, action: str, body: dict[str, Any], reason: str | None = None) -> Asked:
    return Asked(
        cluster=address.cluster,
        action=action,
        entity=address.entity,
        entity_id=address.entity_id,
        body=body,
        reason=reason,
        topic=address.topic,
        brokers=() if address.broker_id is None else (address.broker_id,),
    )


async def set_config(
    services: Services,
    address: Address,
    attempt: Attempt,
    *,
    name: str,
    value: str | None,
    condition: Precondition,
) -> Answer:
    """Set one setting and answer 200 with its new state. value: None unsets it."""
    holder = holder_of(services.engine, address)
    # An error in a value points to the body's only field, an error in the name to the path.
    pointer = "/value" if name in holder.settings else None
    own = await _configure(
        services, address, holder, attempt, configs={name: value}, condition=condition, pointer=pointer
    )
    shown = config_view(name, holder, address.entity, own)
    return Answer.of(200, shown, version=_version(services, address, attempt))


async def alter_configs(
    services: Services,
    address: Address,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Precondition,
) -> Answer:
    """Change the named settings and answer 200 with their new state."""
    holder = holder_of(services.engine, address)
    own = await _configure(services, address, holder, attempt, configs=configs, condition=condition)
    items = [config_view(name, holder, address.entity, own) for name in sorted(configs)]
    return Answer.of(200, ConfigsAltered(items=items), version=_version(services, address, attempt))


def _version(services: Services, address: Address, attempt: Attempt) -> str | None:
    return None if attempt.dry_run else holder_of(services.engine, address).version


async def _configure(
    services: Services,
    address: Address,
    holder: Holder,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Precondition,
    pointer: str | None = None,
) -> Mapping[str, str]:
    """Change the settings and return what is set for the holder afterwards. pointer: the place in the body
    that a refusal points to."""
    condition.check(holder.version if holder.is_settled else None, what=address.what)
    engine, cluster, named = services.engine, address.cluster, dict(configs)
    if holder.topic_id is not None:
        of_topic = ConfigureTopic(**attempt.event, topic_id=holder.topic_id, configs=named)
        return (await submit(engine, cluster, of_topic, TopicConfigured, pointer=pointer)).state.configs
    if address.broker_id is not None:
        of_broker = ConfigureBrokers(**attempt.event, broker_ids=(address.broker_id,), configs=named)
        broker = (await submit(engine, cluster, of_broker, BrokersConfigured, pointer=pointer)).brokers[0]
        return broker.configs
    if address.group_id is not None:
        of_group = ConfigureGroup(**attempt.event, group_id=address.group_id, configs=named)
        return (await submit(engine, cluster, of_group, GroupConfigured, pointer=pointer)).configs
    of_cluster = ConfigureCluster(**attempt.event, configs=named)
    return (await submit(engine, cluster, of_cluster, ClusterConfigured, pointer=pointer)).configs
