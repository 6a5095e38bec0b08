"""The metadata stream: which batch answers a broker's poll.

A broker asks with the position it has applied. It gets a delta when this image still remembers everything
after that position and the position was reached by the present incarnation under this controller; otherwise
the FULL state. Deltas merge several changes of one partition into its latest state, which is safe (I3, only
this epoch's evidence counts; I14, truncate before fetching), and are bounded, the rest following under the
next poll. A FULL batch is one batch, because absence from it means "not yours any more" (I22, deletion needs
evidence). Batches of one range differ between brokers in nothing but `broker_epoch`, so that the shell can
encode one and serve many.

Users' secrets are for admitted members only: a process that has merely registered may be a stranger's. Once
it is admitted it gets a FULL batch, because it lacks the users that there were before.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from controller.core.image import ClusterImage, check_member
from controller.core.records import BrokerRegistration, Member, MemberKind
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.security import (
    UNKNOWN_USERS,
    AclsOfPattern,
    EntityQuotas,
    QuotaEntity,
    UserSecrets,
)
from springtide.contract.session import BrokerStatus
from springtide.contract.updates import BrokerEndpoint, PollRequest, UpdateBatch
from springtide.security.acls.model import PatternType, ResourceType

#: Entries of a delta; the rest follows with the next poll.
DELTA_PARTITIONS_MAX = 1_000


class UpdateRange(NamedTuple):
    """The part of the stream that answers a poll: FULL state at `to_sequence`, or what changed in
    (from_sequence, to_sequence]. Equal ranges have equal content for every broker: a key for a cache.
    has_secrets: whether users are in it, which are for admitted members."""

    full: bool
    from_sequence: int
    to_sequence: int
    has_secrets: bool = False


def check_poll(image: ClusterImage, request: PollRequest) -> ControllerError:
    return check_member(image.member(request.broker_id), request.broker_epoch)


def plan_update(
    image: ClusterImage,
    request: PollRequest,
    *,
    controller_epoch: ControllerEpoch,
    partitions_max: int = DELTA_PARTITIONS_MAX,
) -> UpdateRange | None:
    """Return the range that answers `request`; None if nothing is new, so the request waits."""
    applied = request.applied_sequence
    member = image.member(request.broker_id)
    has_secrets = member is not None and member.admitted
    if (
        request.applied_controller_epoch != controller_epoch
        # Before this incarnation registered: the position is not its own, so it never had a FULL batch.
        or applied < image.registered_sequences.get(request.broker_id, 0)
        # Before it was admitted: it has not been told the users there were.
        or (
            (image.users or image.unknown_users)
            and applied < image.admitted_sequences.get(request.broker_id, 0)
        )
        or applied < image.change_log_start
        or applied > image.sequence
    ):
        return UpdateRange(True, -1, image.sequence, has_secrets)
    if applied == image.sequence:
        return None
    changes = image.changes_since(applied)
    assert changes is not None
    size = 0
    seen: set[object] = set()
    to_sequence = applied
    for kind, key in changes:
        # A topic's row brings all its partitions along, so one delta may exceed the bound by one topic.
        if size >= partitions_max:
            break
        if kind == "topic":
            assert isinstance(key, str)
            topic = image.topics.get(key)
            size += 0 if topic is None or topic.deleting else topic.partitions
        elif kind in ("partition", "acls", "user", "quotas", "group") and key not in seen:
            seen.add(key)
            size += 1
        to_sequence += 1
    return UpdateRange(False, applied, to_sequence, has_secrets)


def build_range(
    image: ClusterImage,
    update: UpdateRange,
    *,
    controller_epoch: ControllerEpoch,
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH,
    lineage: str = "",
) -> UpdateBatch:
    """The content of a range. The states are those of `image`, which may be newer than `to_sequence`: a
    later delta then repeats them, and an equal partition epoch is ignored (I6, partition epochs order
    everything)."""
    if update.full:
        return UpdateBatch(
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            full=True,
            sequence=update.to_sequence,
            brokers=tuple(endpoint(b) for _, b in sorted(image.brokers.items()) if b.admitted),
            coordinators=tuple(endpoint(c) for _, c in sorted(image.coordinators.items()) if c.admitted),
            topics=tuple(t for t in image.topics.values() if not t.deleting),
            deleted_topics=tuple(topic_id for topic_id in image.deletions if topic_id not in image.kept),
            kept_topics=tuple(image.kept) or msgspec.UNSET,
            partitions=tuple(
                state for state in image.partitions.values() if is_announced(image, state.topic_id)
            ),
            cluster_configs=image.configs,
            acls=tuple(image.acls.values()),
            users=_all_users(image) if update.has_secrets else (),
            quotas=tuple(image.quotas.values()),
            group_configs=tuple(image.group_configs.values()) or msgspec.UNSET,
            lineage=lineage,
            records=image.records_before + update.to_sequence,
            level=image.level,
        )
    changes = image.changes_since(update.from_sequence)
    assert changes is not None
    members: dict[MemberKind, dict[int, BrokerEndpoint]] = {kind: {} for kind in MemberKind}
    removed: dict[MemberKind, dict[int, None]] = {kind: {} for kind in MemberKind}
    topics: dict[str, TopicState] = {}
    deleted: dict[str, None] = {}
    kept: dict[str, None] = {}
    partitions: dict[PartitionKey, PartitionState] = {}
    configs: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    acls: dict[object, AclsOfPattern] = {}
    users: dict[str, UserSecrets] = {}
    quotas: dict[QuotaEntity, EntityQuotas] = {}
    groups: dict[str, GroupConfigs] = {}
    for kind, key in changes[: update.to_sequence - update.from_sequence]:
        match kind, key:
            case "partition", (str(topic_id), int(number)):
                state = image.partitions.get((topic_id, number))
                # A topic announced later than this range brings its partitions along then.
                if (
                    state is not None
                    and is_announced(image, topic_id)
                    and image.announced_at[topic_id] <= update.to_sequence
                ):
                    partitions[(topic_id, number)] = state
            case "topic", str(topic_id):
                topic = image.topics.get(topic_id)
                if topic_id in image.kept:
                    kept[topic_id] = None
                elif topic is None or topic.deleting:
                    deleted[topic_id] = None
                else:
                    topics[topic_id] = topic
                    for state in image.partitions_of(topic_id):
                        partitions[(topic_id, state.partition)] = state
            case MemberKind(), int(member_id):
                member = image.members_of(kind).get(member_id)
                if member is None:
                    removed[kind][member_id] = None
                elif member.admitted:
                    members[kind][member_id] = endpoint(member)
            case "cluster", _:
                configs = image.configs
            case "acls", (ResourceType() as resource_type, str(name), PatternType() as pattern_type):
                acls[key] = image.acls.get((resource_type, name, pattern_type)) or AclsOfPattern(
                    resource_type=resource_type, resource_name=name, pattern_type=pattern_type
                )
            case "user", str(user) if update.has_secrets:
                of_unknown = image.unknown_users if user == UNKNOWN_USERS else None
                users[user] = of_unknown or image.users.get(user) or UserSecrets(user=user)
            case "quotas", QuotaEntity() as entity:
                quotas[entity] = image.quotas.get(entity) or EntityQuotas(entity=entity)
            case "group", str(group_id):
                groups[group_id] = image.group_configs.get(group_id) or GroupConfigs(group_id=group_id)
            case _:
                pass
    return UpdateBatch(
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        sequence=update.to_sequence,
        brokers=tuple(members[MemberKind.BROKER].values()),
        removed_brokers=tuple(removed[MemberKind.BROKER]),
        coordinators=tuple(members[MemberKind.COORDINATOR].values()),
        removed_coordinators=tuple(removed[MemberKind.COORDINATOR]),
        topics=tuple(topics.values()),
        deleted_topics=tuple(deleted),
        kept_topics=tuple(kept) or msgspec.UNSET,
        partitions=tuple(partitions.values()),
        cluster_configs=configs,
        acls=tuple(acls.values()),
        users=tuple(users.values()),
        quotas=tuple(quotas.values()),
        group_configs=tuple(groups.values()) or msgspec.UNSET,
        lineage=lineage,
        records=image.records_before + update.to_sequence,
        level=image.level,
    )


def _all_users(image: ClusterImage) -> tuple[UserSecrets, ...]:
    of_unknown = () if image.unknown_users is None else (image.unknown_users,)
    return (*of_unknown, *image.users.values())


def is_announced(image: ClusterImage, topic_id: str) -> bool:
    """Return whether brokers are told of the topic's partitions: its topic row has arrived and is not being
    deleted."""
    topic = image.topics.get(topic_id)
    return topic is not None and not topic.deleting


def endpoint(member: Member) -> BrokerEndpoint:
    broker = member if isinstance(member, BrokerRegistration) else None
    return BrokerEndpoint(
        broker_id=member.member_id,
        broker_epoch=member.epoch,
        host=member.host,
        port=member.port,
        listeners=member.listeners,
        rack=member.rack,
        active=member.status in (BrokerStatus.ACTIVE, BrokerStatus.SHUTTING_DOWN),
        may_join=broker is not None and broker.is_eligible,
        configs={} if broker is None else broker.configs,
    )
