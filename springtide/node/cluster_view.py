"""This process's view of the whole cluster: live brokers and coordinators, topics, who leads each partition,
and what clients may do.

It is fed by the metadata stream only and read by Metadata answers, fetchers and checks of topic names. It
decides nothing: a partition that a broker holds is decided by its replica, whose state may be newer by a
moment. Entries are keyed by topic id; a name points at its current id, because names come back and ids do not
(I21, topic ids everywhere). A state with a lower partition epoch than the known one changes nothing (I6, only
a higher partition epoch replaces a state).

Clients are told two things differently from the stream, because of what stock clients do when a leader dies.
A follower sees its leader's connection break before the controller's update arrives. A client that is given
that leader once more would not ask again for a second, so for a moment the partition has no known leader. And
a fenced broker or coordinator stays listed for a while, because librdkafka gives up a new leader when the
old one vanishes from the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.security import (
    UNKNOWN_USERS,
    EntityQuotas,
    QuotaEntity,
    UserSecrets,
    is_authorizer_on,
    is_everyone_allowed,
    super_users,
)
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.sharding import GROUPS_TOPIC
from springtide.security.acls.model import AclBinding, AclFilter
from springtide.security.acls.table import Acls

SUSPICION_MS_MAX = 1_500
"""The time for which a lost connection counts against a leader. By then the controller has fenced it, or only
this broker can't reach it."""
LISTED_AFTER_FENCING_MS = 10_000

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class ClusterView:
    __slots__ = (
        "_fenced_at_ms",
        "_lost_at_ms",
        "_partitions",
        "_topic_ids",
        "acls",
        "brokers",
        "cluster_configs",
        "cluster_id",
        "coordinators",
        "group_configs",
        "is_authorizer_on",
        "quotas",
        "topics",
        "unknown_users",
        "unmade",
        "users",
    )

    def __init__(self, *, unmade: Collection[PartitionKey] = ()) -> None:
        self.cluster_id: str | None = None
        self.cluster_configs: dict[str, str] = {}
        self.brokers: dict[int, BrokerEndpoint] = {}
        #: Ids of coordinators are no brokers'.
        self.coordinators: dict[int, BrokerEndpoint] = {}
        #: The secrets of those who may log in, by name: another dict whenever they change.
        self.users: dict[str, UserSecrets] = {}
        #: The key of unknown users' salts; None until the cluster has one.
        self.unknown_users: UserSecrets | None = None
        self.topics: dict[str, TopicState] = {}
        #: Its version grows with each change of the bindings, of the super users, and of the default.
        self.acls = Acls(version=0)
        #: Whether the ACLs decide. They are kept in either case.
        self.is_authorizer_on = False
        #: Another mapping after each change.
        self.quotas: dict[QuotaEntity, EntityQuotas] = {}
        #: Of groups that have settings of their own, by id: another mapping after each change.
        self.group_configs: dict[str, GroupConfigs] = {}
        self._topic_ids: dict[str, str] = {}
        self._partitions: dict[str, dict[int, PartitionState]] = {}
        self._lost_at_ms: dict[int, int] = {}
        self._fenced_at_ms: dict[int, int] = {}
        #: Partitions of which this broker has yet to make its replica.
        self.unmade = unmade

    def apply(self, batch: UpdateBatch, *, now_ms: int) -> None:
        """Apply a batch of updates; a FULL one replaces everything."""
        nodes = (self.brokers, self.coordinators)
        were_active = [node.broker_id for known in nodes for node in known.values() if node.active]
        if batch.full:
            self.brokers.clear()  # in place: replicas hold on to this very table
            self.coordinators.clear()
            self.topics = {}
            self._topic_ids = {}
            self._partitions = {}
        if isinstance(batch.cluster_configs, dict):
            self._configure(dict(batch.cluster_configs))
        elif batch.full:
            self._configure({})
        if batch.full:
            self._replace_acls(batch)
        elif batch.acls:
            self._change_acls(batch)
        if batch.full or batch.users:
            users = {} if batch.full else dict(self.users)
            self.unknown_users = None if batch.full else self.unknown_users
            for secrets in batch.users:
                if secrets.user == UNKNOWN_USERS:
                    self.unknown_users = secrets
                    continue
                _keep(users, secrets.user, secrets, is_empty=not secrets.scram)
            self.users = users
        if batch.full or batch.quotas:
            quotas = {} if batch.full else dict(self.quotas)
            for of_entity in batch.quotas:
                _keep(quotas, of_entity.entity, of_entity, is_empty=not of_entity.quotas)
            self.quotas = quotas
        if batch.full or batch.group_configs:
            groups = {} if batch.full else dict(self.group_configs)
            for group in batch.group_configs or ():
                _keep(groups, group.group_id, group, is_empty=not group.configs)
            self.group_configs = groups
        _update(self.brokers, batch.brokers, batch.removed_brokers)
        _update(self.coordinators, batch.coordinators, batch.removed_coordinators)
        for node_id in were_active:
            if not any(node_id in known and known[node_id].active for known in nodes):
                self._fenced_at_ms[node_id] = now_ms
        for topic in batch.topics:
            self.topics[topic.topic_id] = topic
            self._topic_ids[topic.topic] = topic.topic_id
        for topic_id in (*batch.deleted_topics, *(batch.kept_topics or ())):
            self._forget_topic(topic_id)
        for state in batch.partitions:
            of_topic = self._partitions.setdefault(state.topic_id, {})
            known_state = of_topic.get(state.partition)
            if known_state is None or state.partition_epoch > known_state.partition_epoch:
                of_topic[state.partition] = state

    def _configure(self, configs: dict[str, str]) -> None:
        self.cluster_configs = configs
        self.is_authorizer_on = is_authorizer_on(configs)
        settings = super_users(configs), is_everyone_allowed(configs)
        if settings != (self.acls.super_users, self.acls.allow_everyone_if_no_acl_found):
            self.acls = self.acls.changed(
                version=self.acls.version + 1,
                super_users=settings[0],
                allow_everyone_if_no_acl_found=settings[1],
            )

    def _replace_acls(self, batch: UpdateBatch) -> None:
        """Take the bindings of a FULL batch. A new controller tells what the one before told: then the table
        stays, which takes half a second to build for 100,000 bindings."""
        bindings = sorted(binding for of_pattern in batch.acls for binding in of_pattern.bindings)
        if tuple(bindings) != self.acls.bindings:
            self.acls = Acls(
                bindings,
                version=self.acls.version + 1,
                super_users=self.acls.super_users,
                allow_everyone_if_no_acl_found=self.acls.allow_everyone_if_no_acl_found,
            )

    def _change_acls(self, batch: UpdateBatch) -> None:
        added, removed = list[AclBinding](), list[AclBinding]()
        for of_pattern in batch.acls:
            resource_type, name, pattern_type = of_pattern.key
            pattern = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=pattern_type)
            before, after = set(self.acls.select(pattern)), set(of_pattern.bindings)
            added += after - before
            removed += before - after
        if added or removed:
            self.acls = self.acls.changed(version=self.acls.version + 1, added=added, removed=removed)

    def topic_by_name(self, name: str) -> TopicState | None:
        topic_id = self._topic_ids.get(name)
        return None if topic_id is None else self.topics.get(topic_id)

    def topic_by_id(self, topic_id: str) -> TopicState | None:
        return self.topics.get(topic_id)

    def live_topics(self) -> list[TopicState]:
        """Return the topics that clients may use, ordered by name."""
        return [
            self.topics[self._topic_ids[name]]
            for name in sorted(self._topic_ids)
            if not self.topics[self._topic_ids[name]].deleting
        ]

    def partitions_of(self, topic_id: str) -> Mapping[int, PartitionState]:
        return self._partitions.get(topic_id, {})

    def state(self, topic_id: str, partition: int) -> PartitionState | None:
        return self._partitions.get(topic_id, {}).get(partition)

    def active_brokers(self) -> list[BrokerEndpoint]:
        return [
            self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.brokers[broker_id].active
        ]

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def brokers_for_clients(self, now_ms: int) -> list[BrokerEndpoint]:
        """Return the active brokers, and those that were active until a moment ago."""
        return self._listed(self.brokers, now_ms)

    def coordinators_for_clients(self, now_ms: int) -> list[BrokerEndpoint]:
        """Return the coordinators as `brokers_for_clients` returns brokers."""
        return self._listed(self.coordinators, now_ms)

    def _listed(self, nodes: Mapping[int, BrokerEndpoint], now_ms: int) -> list[BrokerEndpoint]:
        return [
            node
            for node_id, node in sorted(nodes.items())
            if node.active
            or now_ms - self._fenced_at_ms.get(node_id, -LISTED_AFTER_FENCING_MS) < LISTED_AFTER_FENCING_MS
        ]

    def has_groups(self) -> bool:
        """Return whether a coordinator has been admitted, now or ever: then the topic of groups is there."""
        return bool(self.coordinators) or self.topic_by_name(GROUPS_TOPIC) is not None

    def shard_owner(self, topic: str, shard: int) -> BrokerEndpoint | None:
        """Return the live coordinator that the controller gave this partition of a coordinator topic to."""
        topic_id = self._topic_ids.get(topic)
        state = None if topic_id is None else self.state(topic_id, shard)
        if state is None or state.shard is None:
            return None
        owner = self.coordinators.get(state.shard.owner)
        return owner if owner is not None and owner.active else None

    def may_be_named_leader(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the broker is active and our connection to it has not just broken."""
        lost_at_ms = self._lost_at_ms.get(broker_id)
        return self.is_active(broker_id) and (lost_at_ms is None or now_ms - lost_at_ms >= SUSPICION_MS_MAX)

    def on_leader_lost(self, broker_id: int, now_ms: int) -> None:
        """Note that our connection to it broke or was refused. The first time counts, until it is reached."""
        self._lost_at_ms.setdefault(broker_id, now_ms)

    def on_leader_reached(self, broker_id: int) -> None:
        self._lost_at_ms.pop(broker_id, None)

    def controller_for_clients(self) -> int:
        """Return the broker to which clients send admin requests: the lowest active one, so that all brokers
        name the same. The real controller is not a broker."""
        active = self.active_brokers()
        return active[0].broker_id if active else -1

    def _forget_topic(self, topic_id: str) -> None:
        topic = self.topics.pop(topic_id, None)
        self._partitions.pop(topic_id, None)
        if topic is not None and self._topic_ids.get(topic.topic) == topic_id:
            del self._topic_ids[topic.topic]


def _keep(table: dict[_Key, _Value], key: _Key, value: _Value, *, is_empty: bool) -> None:
    """Keep the value under its key; an empty one is gone."""
    if is_empty:
        table.pop(key, None)
    else:
        table[key] = value


def _update(known: dict[int, BrokerEndpoint], told: Iterable[BrokerEndpoint], removed: Iterable[int]) -> None:
    for node in told:
        before = known.get(node.broker_id)
        if before is None or node.broker_epoch >= before.broker_epoch:
            known[node.broker_id] = node
    for node_id in removed:
        known.pop(node_id, None)
