"""One persisted change of one entity, as the driver hands it to the audit.

Pure values: the driver builds them after a write to ZooKeeper has succeeded, in the order of the writes,
and never waits for what becomes of them. A change is named by (cluster, entity, entity_id, version), so
telling it twice, by two controllers or after a restart, leaves one row (docs/replication.md 4.8, history;
S40, the controller dies before SQL).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from springtide.contract.epochs import ControllerEpoch


class Entity(StrEnum):
    CLUSTER = "cluster"
    BROKER = "broker"
    COORDINATOR = "coordinator"
    GROUP = "group"
    TRANSACTION = "transaction"
    TOPIC = "topic"
    PARTITION = "partition"
    ACLS = "acls"
    USER = "user"
    QUOTAS = "quotas"


#: What an entity looked like: the entity's persisted struct through `msgspec.to_builtins`.
Snapshot = Mapping[str, Any]


class AuditedChange(msgspec.Struct, frozen=True, kw_only=True):
    """`before` and `after` are whole snapshots; None before = created, None after = removed.

    entity_id: the cluster's name; the broker's or coordinator's id in decimal; the topic id;
        `partition_id(topic_id, number)`; of ACLs, a user and quotas the name of core/names.py.
    version: strictly increasing per entity and never reused: the partition epoch for partitions (dense, so
        that a hole shows); for the others any number that only grows. A removal counts as one more version.
    cause, actor, reason, request_id, at_ms: from the record's `Change`; at_ms is wall-clock UTC.
    operation_id: the operation that asked for it, if any.
    """

    cluster: str
    entity: Entity
    entity_id: str
    version: int
    cause: str
    actor: str
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None
    at_ms: int
    before: Snapshot | None
    after: Snapshot | None
    controller_epoch: ControllerEpoch


def partition_id(topic_id: str, partition: int) -> str:
    """Name a partition in the audit: topic ids never come back, so neither does this."""
    return f"{topic_id}/{partition}"


#: The fields of a partition's snapshot in which brokers have a role.
_ROLES = ("replicas", "adding_replicas", "removing_replicas", "isr", "elr", "last_known_elr")


def _roles(snapshot: Snapshot | None) -> dict[str, frozenset[int]]:
    if snapshot is None:
        return {}
    roles = {name: frozenset(snapshot.get(name) or ()) for name in _ROLES}
    leader = snapshot.get("leader", -1)
    roles["leader"] = frozenset((leader,)) if isinstance(leader, int) and leader >= 0 else frozenset()
    return roles


def brokers_touched(change: AuditedChange) -> tuple[int, ...]:
    """Ids, ascending, of the brokers whose role this change altered: what `?broker=3` looks for."""
    match change.entity:
        case Entity.BROKER:
            return (int(change.entity_id),)
        case Entity.PARTITION:
            before, after = _roles(change.before), _roles(change.after)
            names = sorted(before.keys() | after.keys())
            touched: set[int] = set()
            for name in names:
                touched |= before.get(name, frozenset()) ^ after.get(name, frozenset())
            return tuple(sorted(touched))
        case (
            Entity.CLUSTER
            | Entity.COORDINATOR
            | Entity.GROUP
            | Entity.TRANSACTION
            | Entity.TOPIC
            | Entity.ACLS
            | Entity.USER
            | Entity.QUOTAS
        ):
            return ()


def topic_of(change: AuditedChange) -> str | None:
    """The topic's name, for topics and partitions."""
    snapshot = change.after or change.before or {}
    name = snapshot.get("topic")
    return name if isinstance(name, str) else None


def partition_of(change: AuditedChange) -> int | None:
    """The partition's number, for partitions."""
    if change.entity is not Entity.PARTITION:
        return None
    return int(change.entity_id.rpartition("/")[2])
