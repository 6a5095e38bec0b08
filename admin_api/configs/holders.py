"""The holders of settings (topic, broker, cluster): which settings each has, which are set, and the
defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admin_api.brokers import service as brokers
from admin_api.clusters import service as clusters
from admin_api.topics import service as topics
from controller.audit.change import Entity
from controller.contract.partition_state import TopicState
from controller.core.configs import (
    BROKER_SETTINGS,
    CLUSTER_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    effective_min_insync_replicas,
)
from controller.core.records import BrokerRegistration
from controller.shell.engine_port import EnginePort
from controller.shell.published import Published

MINIMUM = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The holder that a path names. entity: TOPIC with its name, BROKER with its id, or CLUSTER."""

    cluster: str
    entity: Entity
    topic: str | None = None
    broker_id: int | None = None

    @property
    def entity_id(self) -> str:
        """Return the holder's id as the audit writes it."""
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


def holder_of(engine: EnginePort, address: Address) -> Holder:
    """Return the holder from the published view. Raises topic_not_found, broker_not_found, UnknownCluster."""
    view = engine.image(address.cluster)
    match address.entity:
        case Entity.TOPIC:
            assert address.topic is not None
            return _of_topic(engine, view, topics.find_topic(view, address.cluster, address.topic))
        case Entity.BROKER:
            assert address.broker_id is not None
            return _of_broker(engine, view, brokers.find_broker(view, address.cluster, address.broker_id))
        case _:
            return _of_cluster(engine, view)


def _of_topic(engine: EnginePort, view: Published, topic: TopicState) -> Holder:
    majority = effective_min_insync_replicas({}, {}, replication_factor=topic.replication_factor)
    return Holder(
        settings=TOPIC_SETTINGS,
        own=topic.configs,
        version=topics.version_of(view, topic),
        is_settled=not _is_active(engine) or engine.decided(view.cluster).topics.get(topic.topic_id) == topic,
        inherited=view.image.configs,
        computed={MINIMUM: str(majority)},
        topic_id=topic.topic_id,
    )


def _of_broker(engine: EnginePort, view: Published, broker: BrokerRegistration) -> Holder:
    return Holder(
        settings=BROKER_SETTINGS,
        own=broker.configs,
        version=brokers.version_of(view, broker.broker_id),
        is_settled=not _is_active(engine)
        or engine.decided(view.cluster).brokers.get(broker.broker_id) == broker,
        inherited=view.image.configs,
    )


def _of_cluster(engine: EnginePort, view: Published) -> Holder:
    return Holder(
        settings=CLUSTER_SETTINGS,
        own=view.image.configs,
        version=clusters.version_of(view.cluster, view),
        is_settled=not _is_active(engine) or engine.decided(view.cluster).configs == view.image.configs,
    )


def _is_active(engine: EnginePort) -> bool:
    return engine.role == "active"
