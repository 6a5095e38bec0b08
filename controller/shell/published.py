"""A cluster as readers see it: the image as far as it is persisted, and each entity's last change.

Brokers' polls, REST and the audit read this and nothing else. On the active controller it follows the writes;
on a standby it is a copy read from ZooKeeper, with its age.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from controller.audit.change import AuditedChange, Entity, partition_id
from controller.core.image import ClusterImage
from controller.core.names import name_of
from controller.core.records import (
    AclsRecord,
    Change,
    ClusterRecord,
    GroupRecord,
    LevelRecord,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    SecurityRecord,
    TopicRecord,
    UpgradeRecord,
    UserRecord,
)
from controller.shell.security_rows import pattern_row
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.security import AclsOfPattern, UserSecrets
from springtide.levels import Level


class Published:
    """One cluster's image with what the image itself does not keep.

    changes, versions: the last `Change` of each entity, and the number of the record that wrote it (a
        partition's version is its epoch instead). as_of_ms: monotonic time at which it was known to be
        current; None on the active controller, where it always is.
    """

    __slots__ = ("as_of_ms", "changes", "cluster", "image", "partition_changes", "secured", "versions")

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.image = ClusterImage()
        self.as_of_ms: int | None = None
        self.changes: dict[tuple[Entity, str], Change] = {}
        self.versions: dict[tuple[Entity, str], int] = {}
        self.partition_changes: dict[PartitionKey, Change] = {}
        #: ACLs, users and quotas by their names.
        self.secured: dict[tuple[Entity, str], msgspec.Struct] = {}

    def replay(self, record: Record, number: int) -> None:
        """Replay a record. `number`: the record's, over the cluster's life."""
        removed = tuple(self.image.keys_of(record.topic_id)) if isinstance(record, RemoveTopicRecord) else ()
        self.image.replay(record)
        match record:
            case PartitionRecord(state=state, change=change):
                self.partition_changes[(state.topic_id, state.partition)] = change
            case RemoveTopicRecord(topic_id=topic_id):
                self._forget((Entity.TOPIC, topic_id))
                for key in removed:
                    self.partition_changes.pop(key, None)
            case RemoveMemberRecord(kind=kind, member_id=member_id):
                self._forget((Entity(kind), str(member_id)))
            case MemberRecord(registration=member, change=change):
                self._remember((Entity(member.kind), str(member.member_id)), change, number)
            case TopicRecord(state=topic, change=change):
                self._remember((Entity.TOPIC, topic.topic_id), change, number)
            case ClusterRecord(change=change):
                self._remember((Entity.CLUSTER, self.cluster), change, number)
            case LevelRecord(change=change):
                # A new cluster has both rows by one change.
                if number > self.versions.get((Entity.CLUSTER, self.cluster), -1):
                    self._remember((Entity.CLUSTER, self.cluster), change, number)
            case UserRecord(is_of_unknown=True) | ProducerIdsRecord() | UpgradeRecord():
                pass  # A key that is made once, and blocks of numbers, have no history.
            case AclsRecord() | UserRecord() | QuotasRecord() | GroupRecord():
                self._replay_security(record, number)
            case _:
                assert_never(record)

    def _replay_security(self, record: SecurityRecord, number: int) -> None:
        entity, entity_id, value = _secured(record)
        if record.is_removal:
            self._forget((entity, entity_id))
            self.secured.pop((entity, entity_id), None)
        else:
            self._remember((entity, entity_id), record.change, number)
            self.secured[entity, entity_id] = value

    def _remember(self, key: tuple[Entity, str], change: Change, number: int) -> None:
        self.changes[key] = change
        self.versions[key] = number

    def _forget(self, key: tuple[Entity, str]) -> None:
        self.changes.pop(key, None)
        self.versions.pop(key, None)

    def version_of(self, entity: Entity, entity_id: str) -> int | None:
        """Return the number of the record that last changed the entity, for ETags; None if none is known."""
        return self.versions.get((entity, entity_id))


class PersistedChange(NamedTuple):
    """One record with what stood before it, kept as the structs they are: rendering them costs more than
    making them, and happens where no request waits for it."""

    record: Record
    number: int
    before: msgspec.Struct | None
    partitions_before: tuple[PartitionState, ...] = ()


def observe(published: Published, record: Record, number: int) -> PersistedChange | None:
    """Return `record` and what it is about to replace; None if it has no history. Call before replaying."""
    image = published.image
    match record:
        case PartitionRecord(state=state):
            return PersistedChange(record, number, image.partitions.get((state.topic_id, state.partition)))
        case TopicRecord(state=topic):
            return PersistedChange(record, number, image.topics.get(topic.topic_id))
        case RemoveTopicRecord(topic_id=topic_id):
            before = image.topics.get(topic_id)
            partitions = image.partitions_of(topic_id) if before is not None else ()
            return PersistedChange(record, number, before, partitions)
        case MemberRecord(registration=member):
            return PersistedChange(record, number, image.members_of(member.kind).get(member.member_id))
        case RemoveMemberRecord(kind=kind, member_id=member_id):
            return PersistedChange(record, number, image.members_of(kind).get(member_id))
        case ClusterRecord() | LevelRecord():
            previous = AuditedCluster.of(image) if image.cluster_id else None
            return PersistedChange(record, number, previous)
        case UserRecord(is_of_unknown=True) | ProducerIdsRecord() | UpgradeRecord():
            return None
        case AclsRecord() | UserRecord() | QuotasRecord() | GroupRecord():
            entity, entity_id, _ = _secured(record)
            return PersistedChange(record, number, published.secured.get((entity, entity_id)))
        case _:
            assert_never(record)


def _secured(record: SecurityRecord) -> tuple[Entity, str, msgspec.Struct]:
    match record:
        case AclsRecord(acls=acls):
            return Entity.ACLS, name_of(record), acls
        case UserRecord(secrets=secrets):
            return Entity.USER, name_of(record), secrets
        case QuotasRecord(quotas=quotas):
            return Entity.QUOTAS, name_of(record), quotas
        case GroupRecord(group=group):
            return Entity.GROUP, name_of(record), group


class AuditedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's own row and its level, as the audit shows them. level: UNSET at 0."""

    cluster_id: str
    configs: dict[str, str]
    level: Level | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, image: ClusterImage) -> AuditedCluster:
        return cls(
            cluster_id=image.cluster_id, configs=dict(image.configs), level=image.level or msgspec.UNSET
        )

    def after(self, record: ClusterRecord | LevelRecord) -> AuditedCluster:
        """Return the cluster as it is after the record."""
        if isinstance(record, LevelRecord):
            return msgspec.structs.replace(self, level=record.level or msgspec.UNSET)
        return msgspec.structs.replace(self, cluster_id=record.cluster_id, configs=dict(record.configs))


_NO_CLUSTER: Final = AuditedCluster(cluster_id="", configs={})


class AuditedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as the audit shows it: by which mechanisms it may log in, and their iterations. A salt or a key
    is never shown."""

    user: str
    mechanisms: dict[str, int]


def snapshot(value: msgspec.Struct) -> dict[str, Any]:
    """Return the value as people may see it."""
    match value:
        case AclsOfPattern():
            value = pattern_row(value)
        case UserSecrets(user=user, scram=scram):
            mechanisms = {secret.mechanism: secret.iterations for secret in scram}
            value = AuditedUser(user=user, mechanisms=mechanisms)
        case _:
            pass
    # By its fields: a PartitionState leaves out what stands in it by default, and people are to see it.
    fields = msgspec.structs.asdict(value).items()
    shown: dict[str, Any] = msgspec.to_builtins({k: v for k, v in fields if v is not msgspec.UNSET})
    return shown


def render(
    change: PersistedChange, *, cluster: str, controller_epoch: ControllerEpoch
) -> list[AuditedChange]:
    """The change as the audit wants it. A topic's removal is also the removal of each of its partitions."""
    record, number, before, partitions_before = change
    after: msgspec.Struct | None = None
    match record:
        case PartitionRecord(state=state):
            entity, after, number = Entity.PARTITION, state, state.partition_epoch
            entity_id = partition_id(state.topic_id, state.partition)
        case TopicRecord(state=topic):
            entity, entity_id, after = Entity.TOPIC, topic.topic_id, topic
        case RemoveTopicRecord(topic_id=topic_id):
            entity, entity_id = Entity.TOPIC, topic_id
        case MemberRecord(registration=member):
            entity, entity_id, after = Entity(member.kind), str(member.member_id), member
        case RemoveMemberRecord(kind=kind, member_id=member_id):
            entity, entity_id = Entity(kind), str(member_id)
        case ClusterRecord() | LevelRecord():
            known = before if isinstance(before, AuditedCluster) else _NO_CLUSTER
            entity, entity_id, after = Entity.CLUSTER, cluster, known.after(record)
        case AclsRecord() | UserRecord() | QuotasRecord() | GroupRecord():
            entity, entity_id, value = _secured(record)
            after = None if record.is_removal else value
            if before is None and isinstance(record, GroupRecord):  # it had none, which is no creation
                before = GroupConfigs(group_id=record.group.group_id)
        case ProducerIdsRecord() | UpgradeRecord():
            return []
        case _:
            assert_never(record)
    entities: list[tuple[Entity, str, int, msgspec.Struct | None, msgspec.Struct | None]] = [
        (entity, entity_id, number, before, after)
    ]
    entities += [
        (Entity.PARTITION, partition_id(p.topic_id, p.partition), p.partition_epoch + 1, p, None)
        for p in partitions_before
    ]
    return [
        _audited(
            cluster,
            entity,
            entity_id,
            version,
            before=before,
            after=after,
            change=record.change,
            controller_epoch=controller_epoch,
        )
        for entity, entity_id, version, before, after in entities
    ]


def truth(published: Published, *, controller_epoch: ControllerEpoch) -> Iterator[AuditedChange]:
    """Every entity as it stands now, with its own last change: what the audit compares itself with after a
    gap. Collected at once, rendered as it is read, in any thread: rendering takes ten times as long."""
    image = published.image
    cluster = published.cluster
    entities: list[tuple[Entity, str | PartitionKey, Change, int, msgspec.Struct]] = []
    for (entity, entity_id), change in published.changes.items():
        version = published.versions[(entity, entity_id)]
        after: msgspec.Struct
        match entity:
            case Entity.CLUSTER:
                after = AuditedCluster.of(image)
            case Entity.BROKER:
                after = image.brokers[int(entity_id)]
            case Entity.COORDINATOR:
                after = image.coordinators[int(entity_id)]
            case Entity.TOPIC:
                after = image.topics[entity_id]
            case Entity.ACLS | Entity.USER | Entity.QUOTAS | Entity.GROUP:
                after = published.secured[entity, entity_id]
            case Entity.PARTITION:
                raise AssertionError("partitions keep their changes apart")
            case Entity.TRANSACTION:
                raise AssertionError("transactions are coordinators'")
            case _:
                assert_never(entity)
        entities.append((entity, entity_id, change, version, after))
    for key, change in published.partition_changes.items():
        state = image.partitions[key]
        entities.append((Entity.PARTITION, key, change, state.partition_epoch, state))
    return (
        _audited(
            cluster,
            entity,
            name if isinstance(name, str) else partition_id(*name),
            version,
            before=None,
            after=after,
            change=change,
            controller_epoch=controller_epoch,
        )
        for entity, name, change, version, after in entities
    )


def _audited(
    cluster: str,
    entity: Entity,
    entity_id: str,
    version: int,
    *,
    before: msgspec.Struct | None,
    after: msgspec.Struct | None,
    change: Change,
    controller_epoch: ControllerEpoch,
) -> AuditedChange:
    return AuditedChange(
        cluster=cluster,
        entity=entity,
        entity_id=entity_id,
        version=version,
        cause=change.cause,
        actor=change.actor,
        reason=change.reason,
        request_id=change.request_id,
        operation_id=change.operation_id,
        at_ms=change.at_ms,
        before=None if before is None else snapshot(before),
        after=None if after is None else snapshot(after),
        controller_epoch=controller_epoch,
    )
