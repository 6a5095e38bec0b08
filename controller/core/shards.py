"""Coordinator topics and their shards: which coordinator serves which, and under which writer it may write
(docs/replication.md, section 13).

A shard has an owner and, where there are two coordinators, a standby that follows its log. Owners of one
topic's shards are spread evenly, and moved only where that or an operator asks for it: first the coordinator
that is to have the shard becomes its standby, and once it is level it becomes the owner. Only a dead owner's
shards go at once, to their standbys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from controller.core.draft import Draft, actor_of
from controller.core.events import Refusal, RefusalCode
from controller.core.image import ClusterImage, check_member
from controller.core.records import Cause, MemberKind
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import (
    NO_COORDINATOR,
    NO_EPOCH,
    WRITER_IDS,
    PartitionKey,
    PartitionState,
    Shard,
    WriterId,
)
from springtide.contract.updates import NameWriterRequest, NameWriterResponse
from springtide.levels import TRANSACTIONS, allows

SHARDS: Final = 50
"""Partitions of a coordinator topic, for good: which shard a name belongs to depends on it. As Kafka's
offsets.topic.num.partitions."""
REPLICATION_FACTOR: Final = 3
"""As Kafka's offsets.topic.replication.factor."""
PINNED: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": "104857600",
    "unclean.leader.election.enable": "false",
}
"""The settings that a coordinator topic has for good. Its minimum in sync is a majority; the cluster's
default does not count."""
PINNED_NAMES: Final = frozenset({*PINNED, "min.insync.replicas"})
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SERVED: Final = {"__consumer_offsets": "client groups", TRANSACTIONS_TOPIC: "transactions"}
"""What coordinators serve from each coordinator topic."""
COORDINATOR_TOPICS: Final = frozenset(SERVED)
"""Their names are reserved at each level. That of transactions is created at a level that has them."""


def reserved(topic: str, what: str) -> Refusal | None:
    """Return the refusal of what is not done to coordinator topics; None for another topic."""
    if topic not in COORDINATOR_TOPICS:
        return None
    return Refusal(
        code=RefusalCode.RESERVED_TOPIC,
        field="topic",
        detail=f"{topic!r} holds the state of this cluster's coordinators: {what}",
        hint="it is created by itself when it is needed first",
    )


def cluster_defaults(image: ClusterImage, topic: str) -> dict[str, str]:
    """Return the cluster's defaults for the topic: a coordinator topic has none."""
    return {} if topic in COORDINATOR_TOPICS else image.configs


def unnamed_shard(topic: str) -> Shard | None:
    """Return the shard of a partition in its first state: no writer has been named yet."""
    return Shard(writer=WriterId(WRITER_IDS.start)) if topic in COORDINATOR_TOPICS else None


def wanted_factor(image: ClusterImage) -> int:
    """Return how many replicas a coordinator topic is created with: three, or as many as the cluster has
    members, dead or alive; so a cluster of three waits for them, and one of one does not."""
    members = {broker.owner_id for broker in image.brokers.values() if broker.admitted}
    return min(REPLICATION_FACTOR, len(members))


def _served_topics(image: ClusterImage) -> frozenset[str]:
    """Return the coordinator topics that there are at the cluster's level."""
    has_transactions = allows(image.level, TRANSACTIONS)
    return COORDINATOR_TOPICS if has_transactions else COORDINATOR_TOPICS - {TRANSACTIONS_TOPIC}


def missing_topics(image: ClusterImage, *, wants_transactions: bool) -> list[str]:
    """Return the coordinator topics that are needed, by a coordinator that could serve them, and may be
    created now. That of transactions is as soon as a client has one: most clusters never have any, and its
    partitions cost each broker and coordinator something all the time."""
    if not any(coordinator.is_active for coordinator in image.coordinators.values()):
        return []
    if not 0 < wanted_factor(image) <= image.placeable_owners():
        return []
    wanted = _served_topics(image) - (frozenset() if wants_transactions else {TRANSACTIONS_TOPIC})
    return sorted(wanted - image.topic_ids.keys() - image.held_names.keys())


def ordinary_topics(image: ClusterImage) -> list[str]:
    """Return the names of coordinator topics that ordinary topics have: they were made by a controller that
    did not reserve them, and have no shards."""
    found = {topic: image.topic_ids[topic] for topic in _served_topics(image) & image.topic_ids.keys()}
    return sorted(topic for topic, topic_id in found.items() if (topic_id, 0) not in image.shards)


# --- writers ------------------------------------------------------------------------------------------------


def name_writer(
    draft: Draft, request: NameWriterRequest, *, controller_epoch: ControllerEpoch
) -> NameWriterResponse:
    """Name a new writer for each request: of which copy the answer is believed is not known here."""
    image = draft.image
    state = image.partitions.get((request.topic_id, request.partition))
    error = check_member(image.coordinators.get(request.broker_id), request.broker_epoch)
    if error is not ControllerError.NONE:
        return NameWriterResponse(error=error, controller_epoch=controller_epoch)
    if state is None or state.shard is None or request.topic_id in image.deletions:
        error = ControllerError.UNKNOWN_TOPIC_OR_PARTITION
    elif state.shard.owner != request.broker_id:
        error = ControllerError.NOT_COORDINATOR
    else:
        writer = _next_writer(state)
        change = draft.change(Cause.WRITER_NAMED, actor=actor_of(request.broker_id, MemberKind.COORDINATOR))
        shard = msgspec.structs.replace(state.shard, writer=writer, opener_epoch=NO_EPOCH)
        draft.write_partition(_with_shard(state, shard), change)
        return NameWriterResponse(controller_epoch=controller_epoch, writer=writer)
    return NameWriterResponse(error=error, controller_epoch=controller_epoch)


def is_beyond(found: WriterId, state: PartitionState) -> bool:
    """Return whether a writer can't have been named yet: its number is a partition epoch that is to come."""
    return found.producer_id - WRITER_IDS.start > state.partition_epoch


def _next_writer(state: PartitionState) -> WriterId:
    """Return the writer of the partition epoch that the partition's next state has."""
    return WriterId(WRITER_IDS.start + state.partition_epoch + 1)


def _with_shard(state: PartitionState, shard: Shard) -> PartitionState:
    return msgspec.structs.replace(state, shard=shard, partition_epoch=state.partition_epoch + 1)


# --- owners and standbys ------------------------------------------------------------------------------------


def assign_shards(draft: Draft, is_level: Callable[[int, PartitionKey], bool]) -> list[PartitionKey]:
    """Give each shard the owner and the standby that it should have now, and a new owner its writer; return
    those of which one has changed. is_level: whether a standby has all of the shard's log that it could
    have."""
    image, moved = draft.image, []
    change = draft.change(Cause.SHARD_ASSIGNED)
    for key, (owner, standby) in _assignments(image, is_level).items():
        state = image.partitions[key]
        assert state.shard is not None
        shard = msgspec.structs.replace(state.shard, owner=owner, standby=standby)
        if owner not in (state.shard.owner, NO_COORDINATOR):
            opener_epoch = image.coordinators[owner].coordinator_epoch
            shard = msgspec.structs.replace(shard, writer=_next_writer(state), opener_epoch=opener_epoch)
        if shard != state.shard:
            draft.write_partition(_with_shard(state, shard), change)
            moved.append(key)
    return moved


def _assignments(
    image: ClusterImage, is_level: Callable[[int, PartitionKey], bool]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return (owner, standby) of every shard."""
    by_topic: dict[str, dict[PartitionKey, tuple[int, int]]] = {}
    for key in sorted(image.shards):
        shard = image.partitions[key].shard
        assert shard is not None
        by_topic.setdefault(key[0], {})[key] = (shard.owner, shard.standby)
    assigned: dict[PartitionKey, tuple[int, int]] = {}
    for shards in by_topic.values():
        assigned |= _assignments_of(shards, image, is_level)
    return assigned


def _assignments_of(
    shards: dict[PartitionKey, tuple[int, int]],
    image: ClusterImage,
    is_level: Callable[[int, PartitionKey], bool],
) -> dict[PartitionKey, tuple[int, int]]:
    """Return (owner, standby) of every shard of one topic."""
    active = [c for c in sorted(image.coordinators) if image.coordinators[c].is_active]
    followers = [c for c in active if not image.coordinators[c].draining]
    owners = [c for c in followers if not image.coordinators[c].demoted] or followers or active
    if not owners:
        return dict.fromkeys(shards, (NO_COORDINATOR, NO_COORDINATOR))
    _replace_dead_owners(shards, active=active, owners=owners)
    wanted = _wanted_owners(shards, owners=owners)
    for key, target in wanted.items():
        owner, standby = shards[key]
        if target != owner:
            is_due = target == standby and is_level(target, key)
            shards[key] = (target, owner) if is_due else (owner, target)
    _replace_missing_standbys(shards, followers=followers)
    if all(shards[key][0] == target for key, target in wanted.items()):
        _spread_standbys(shards, followers=followers)
    return shards


def _replace_missing_standbys(
    shards: dict[PartitionKey, tuple[int, int]], *, followers: Collection[int]
) -> None:
    followed = dict.fromkeys(followers, 0)
    for owner, standby in shards.values():
        if standby in followed and standby != owner:
            followed[standby] += 1
    for key, (owner, standby) in shards.items():
        if standby not in followed or standby == owner:
            successor = _least(followed, but=owner)
            shards[key] = (owner, successor)
            if successor != NO_COORDINATOR:
                followed[successor] += 1


def _spread_standbys(shards: dict[PartitionKey, tuple[int, int]], *, followers: Collection[int]) -> None:
    """Spread the standbys of each owner's shards so that its end leaves the others with even shares."""
    owned = Counter(owner for owner, _ in shards.values())
    for owner in sorted(owned):
        shares = {follower: owned[follower] for follower in followers if follower != owner}
        mine = [key for key in shards if shards[key][0] == owner and shards[key][1] in shares]
        for key in mine:
            shares[shards[key][1]] += 1
        for key in mine:
            standby, least = shards[key][1], _least(shares)
            if shares[standby] - shares[least] > 1:
                shards[key] = (owner, least)
                shares[standby] -= 1
                shares[least] += 1


def _replace_dead_owners(
    shards: dict[PartitionKey, tuple[int, int]], *, active: Collection[int], owners: Iterable[int]
) -> None:
    """Give the shards of dead owners to their standbys, even to those that own many already: a standby has
    replayed most of the log."""
    counts = dict.fromkeys(owners, 0)
    for owner, _ in shards.values():
        if owner in counts:
            counts[owner] += 1
    for key, (owner, standby) in shards.items():
        if owner not in active:
            successor = standby if standby in active else _least(counts)
            shards[key] = (successor, standby)
            if successor in counts:
                counts[successor] += 1


def _wanted_owners(
    shards: dict[PartitionKey, tuple[int, int]], *, owners: Iterable[int]
) -> dict[PartitionKey, int]:
    """Return the owner that each shard is to have in the end: the present one, or else the standby, as long
    as no two owners' shares differ by more than one. To even them, shards that leave their owners anyway are
    taken first."""
    counts = dict.fromkeys(owners, 0)
    wanted: dict[PartitionKey, int] = {}
    for key, (owner, standby) in shards.items():
        if owner in counts or standby in counts:
            wanted[key] = owner if owner in counts else standby
            counts[wanted[key]] += 1
    for key in shards:
        if key not in wanted:
            wanted[key] = _least(counts)
            counts[wanted[key]] += 1
    while True:
        most = max(counts, key=lambda owner: (counts[owner], -owner))
        least = _least(counts)
        if counts[most] - counts[least] <= 1:
            return wanted
        movable = [key for key in wanted if wanted[key] == most]
        leaving = [key for key in movable if shards[key][0] != most] or movable
        key = next((key for key in leaving if shards[key][1] == least), leaving[-1])
        wanted[key] = least
        counts[most] -= 1
        counts[least] += 1


def _least(counts: dict[int, int], *, but: int = NO_COORDINATOR) -> int:
    """Return who has least, the lowest id of several; NO_COORDINATOR if none is left."""
    return min((c for c in counts if c != but), key=lambda c: (counts[c], c), default=NO_COORDINATOR)
