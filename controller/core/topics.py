"""The life of a topic: created whole. Its end is told in deletions.py.

A new partition's ISR is its *live* replicas only (KAFKA-13083): an ISR with a dead member could commit
nothing and would elect nothing. A deleted topic leaves play with one record: its partitions leave every
index, so that no election or ISR change can touch them, and brokers are told its id to delete until each of
them has applied that. The name is free when its leaders have stopped (4.6, deletion).
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.assignment import first_leader
from controller.core.authorizer import check_switched_on
from controller.core.configs import (
    changed_configs,
    check_lags,
    check_level,
    checked_configs,
    effective_min_insync_replicas,
)
from controller.core.draft import Draft
from controller.core.events import (
    ClusterConfigured,
    ConfigureCluster,
    CreateTopic,
    OperatorEvent,
    Refusal,
    RefusalCode,
    TopicCreated,
)
from controller.core.full_disks import FullDisks
from controller.core.hosts import hosts_of
from controller.core.image import ClusterImage
from controller.core.minimum import check_minimum, follow_minimum
from controller.core.options import ControllerOptions
from controller.core.placement import PlacementBroker, place_from_emptiest
from controller.core.records import (
    ACTOR_CONTROLLER,
    BrokerRegistration,
    Cause,
    Change,
    ClusterRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from controller.core.settings_table import CLUSTER_SETTINGS
from controller.core.shards import PINNED, cluster_defaults, reserved, unnamed_shard, wanted_factor
from controller.core.workers import crowding_fault
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.session import BrokerStatus

TOPIC_NAME_LENGTH_MAX = 249
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
TOPIC_ID_LENGTH = 22

SHORT_NAMED_MAX = 8
"""Brokers that a refusal names."""
NO_FULL_DISKS = FullDisks(set(), set())


def operator_change(event: OperatorEvent, cause: Cause) -> Change:
    return Change(
        cause=cause,
        at_ms=event.wall_ms,
        actor=event.actor,
        reason=event.reason,
        request_id=event.request_id,
        operation_id=event.operation_id,
    )


def configure_cluster(draft: Draft, event: ConfigureCluster) -> ClusterConfigured | Refusal:
    """New defaults, for every topic that does not set its own. `min.insync.replicas` is part of each
    partition's versioned state, so those that follow it change too (2.6, the minimum)."""
    image = draft.image
    configs = changed_configs(image.configs, event.configs, CLUSTER_SETTINGS)
    if isinstance(configs, Refusal):
        return configs
    refusal = check_level(image.level, event.configs) or check_switched_on(image, configs)
    if refusal is not None:
        return refusal
    if configs != image.configs and not event.dry_run:
        change = operator_change(event, Cause.CLUSTER_CONFIGURED)
        draft.write(
            ClusterRecord(
                cluster_id=image.cluster_id,
                configs=configs,
                last_broker_epoch=image.last_broker_epoch,
                change=change,
            )
        )
        follow_minimum(draft, image.topics.values(), change)
    return ClusterConfigured(configs=configs, dry_run=event.dry_run)


def create_topic(draft: Draft, event: CreateTopic, options: ControllerOptions) -> TopicCreated | Refusal:
    return reserved(event.topic, "the controller creates it") or _create(
        draft, event, options, draft.full_disks
    )


def create_coordinator_topic(draft: Draft, topic: str, topic_id: str, options: ControllerOptions) -> None:
    event = CreateTopic(
        wall_ms=draft.wall_ms,
        actor=ACTOR_CONTROLLER,
        topic_id=topic_id,
        topic=topic,
        partitions=options.shards,
        replication_factor=wanted_factor(draft.image),
        configs=PINNED,
    )
    created = _create(draft, event, options, NO_FULL_DISKS)  # groups can't wait for room
    if isinstance(created, Refusal):
        draft.note("coordinator_topic_not_created", created.detail, topic=topic)


def _create(
    draft: Draft, event: CreateTopic, options: ControllerOptions, disks: FullDisks
) -> TopicCreated | Refusal:
    image = draft.image
    refusal = check_topic_name(image, event.topic) or _check_topic_id(image, event.topic_id)
    if refusal is not None:
        return refusal
    configs = checked_configs(event.configs)
    if isinstance(configs, Refusal):
        return configs
    if event.assignments is None:
        plan = _placed(image, event, options, disks)
    else:
        plan = _given_assignment(image, event, options)
    if isinstance(plan, Refusal):
        return plan
    replication_factor = len(plan[0])
    refusal = (
        check_level(image.level, configs)
        or check_minimum(configs, replication_factor=replication_factor)
        or check_lags(configs, cluster_defaults(image, event.topic))
    )
    if refusal is not None:
        return refusal
    topic = TopicState(
        topic_id=event.topic_id,
        topic=event.topic,
        partitions=len(plan),
        replication_factor=replication_factor,
        configs=configs,
    )
    states = new_partitions(image, topic, plan, first=0)
    if isinstance(states, Refusal):
        return states
    if not event.dry_run:
        change = operator_change(event, Cause.TOPIC_CREATED)
        for state in states:
            draft.write(PartitionRecord(state=state, change=change))
        draft.write(TopicRecord(state=topic, change=change))
    return TopicCreated(state=topic, partitions=tuple(states), dry_run=event.dry_run)


def new_partitions(
    image: ClusterImage, topic: TopicState, plan: tuple[tuple[int, ...], ...], *, first: int
) -> list[PartitionState] | Refusal:
    """The states of new partitions with these replicas, numbered from `first` on."""
    states: list[PartitionState] = []
    for number, replicas in enumerate(plan, first):
        live = tuple(b for b in replicas if image.is_eligible(b))
        if not live:
            return Refusal(
                code=RefusalCode.NO_LIVE_REPLICA,
                field=f"assignments.{number - first}",
                detail=f"partition {number} would have no live replica among {list(replicas)}",
            )
        minimum = effective_min_insync_replicas(
            topic.configs, cluster_defaults(image, topic.topic), replication_factor=len(replicas)
        )
        states.append(
            PartitionState(
                topic_id=topic.topic_id,
                topic=topic.topic,
                partition=number,
                replicas=replicas,
                new_replicas=replicas,
                leader=first_leader(live, live, image.demoted),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                isr=live,
                min_insync_replicas=minimum,
                shard=unnamed_shard(topic.topic),
            )
        )
    return states


def check_topic_name(image: ClusterImage, name: str) -> Refusal | None:
    """Kafka's rules (Topic.validate), including the collision of '.' and '_' in metric names."""
    problem = None
    if not name:
        problem = "is empty"
    elif name in (".", ".."):
        problem = "may not be '.' or '..'"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"is longer than {TOPIC_NAME_LENGTH_MAX} characters"
    elif not _NAME_CHARACTERS.issuperset(name):
        problem = "may hold only ASCII letters, digits, '.', '_' and '-'"
    if problem is not None:
        return Refusal(
            code=RefusalCode.INVALID_TOPIC_NAME,
            field="topic",
            detail=f"topic name {name[:64]!r} {problem}",
            limit=TOPIC_NAME_LENGTH_MAX,
        )
    if name in image.topic_ids:
        return Refusal(
            code=RefusalCode.TOPIC_ALREADY_EXISTS, field="topic", detail=f"topic {name!r} already exists"
        )
    if name in image.held_names:
        return is_held(image, name)
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        for other in image.topic_ids:
            if len(other) == len(name) and other.replace(".", "_") == folded:
                return Refusal(
                    code=RefusalCode.TOPIC_NAME_COLLISION,
                    field="topic",
                    detail=f"topic {name!r} differs from {other!r} only by '.' and '_'",
                )
    return None


def is_held(image: ClusterImage, name: str) -> Refusal:
    """Refuse a name that a topic holds whose leaders have not all stopped yet (4.6, deletion)."""
    deletion = image.deletions[image.held_names[name]]
    down = [b for b in deletion.brokers if b in image.brokers and image.brokers[b].fenced]
    hint = "create it when the deletion has been answered, or try again in a few seconds"
    if down:
        hint += f"; if it stays so, start or remove the brokers of it that are down: {down}"
    return Refusal(
        code=RefusalCode.TOPIC_ALREADY_EXISTS,
        field="topic",
        detail=f"topic {name!r} is being deleted, and not all of its leaders are known to have stopped",
        hint=hint,
    )


def is_id(text: str) -> bool:
    return len(text) == TOPIC_ID_LENGTH and _ID_CHARACTERS.issuperset(text)


def _check_topic_id(image: ClusterImage, topic_id: str) -> Refusal | None:
    if is_id(topic_id) and topic_id not in image.topics:
        return None
    return Refusal(
        code=RefusalCode.INVALID_TOPIC_ID,
        field="topic_id",
        detail="a topic id is 22 characters of URL-safe base64 and is never used twice",
    )


def _check_size(image: ClusterImage, partitions: int, options: ControllerOptions) -> Refusal | None:
    room = min(options.partitions_per_topic_max, options.partitions_per_cluster_max - len(image.partitions))
    if len(image.topics) >= options.topics_max:
        return Refusal(
            code=RefusalCode.INVALID_PARTITIONS,
            field="topic",
            limit=options.topics_max,
            detail=f"the cluster holds {options.topics_max} topics already",
            hint=_kept_hint(image),
        )
    if partitions > room:
        return Refusal(
            code=RefusalCode.INVALID_PARTITIONS,
            field="partitions",
            limit=max(room, 0),
            detail=f"{partitions} partitions are too many: at most {max(room, 0)} can be added",
            hint=_kept_hint(image),
            facts={"cluster_partitions": len(image.partitions)},
        )
    return None


def _kept_hint(image: ClusterImage) -> str | None:
    """Return what can be given up, because deleted topics that are kept count, too."""
    count = len(image.kept)
    return (
        f"{count} of its topics are deleted and kept: `springtide topics purge` ends that" if count else None
    )


def _default(image: ClusterImage, name: str) -> int:
    value = image.configs.get(name, CLUSTER_SETTINGS[name].default)
    assert value is not None
    return int(value)


def _placed(
    image: ClusterImage, event: CreateTopic, options: ControllerOptions, disks: FullDisks
) -> tuple[tuple[int, ...], ...] | Refusal:
    partitions = event.partitions
    if partitions is None or partitions == -1:
        partitions = _default(image, "num.partitions")
    factor = event.replication_factor
    if factor is None or factor == -1:
        factor = _default(image, "default.replication.factor")
    if partitions < 1:
        return Refusal(
            code=RefusalCode.INVALID_PARTITIONS,
            field="partitions",
            limit=1,
            detail=f"a topic needs at least 1 partition, not {partitions}",
        )
    if factor < 1:
        return Refusal(
            code=RefusalCode.INVALID_REPLICATION_FACTOR,
            field="replication_factor",
            limit=1,
            detail=f"the replication factor must be at least 1, not {factor}",
        )
    if factor > options.replication_factor_max:
        return _factor_beyond_bound(factor, options)
    return (
        check_spread(image, factor, disks)
        or _check_size(image, partitions, options)
        or spread(image, partitions, factor, disks)
    )


def check_spread(image: ClusterImage, factor: int, disks: FullDisks) -> Refusal | None:
    """Refuse if there are not enough brokers for so many replicas."""
    brokers = image.placeable_brokers()
    count = len({broker.owner_id for broker in disks.takers(brokers, factor)})
    if factor <= count:
        return None
    detail = (
        f"replication factor {factor} needs as many brokers that may be given replicas; there are {count}"
    )
    hint = "start and admit more brokers, or end a cordon, or lower the replication factor"
    short = [broker.name for broker in brokers if broker.broker_id in disks.short]
    if short:
        detail += f" with room on their disks; below their reserve: {', '.join(short[:SHORT_NAMED_MAX])}"
        detail += f" and {len(short) - SHORT_NAMED_MAX} others" if len(short) > SHORT_NAMED_MAX else ""
        hint = "make room on these disks (the alarms disk_below_reserve say how), or add brokers"
    return Refusal(
        code=RefusalCode.REPLICATION_FACTOR_TOO_LARGE,
        field="replication_factor",
        limit=count,
        detail=detail,
        hint=hint,
        facts=broker_facts(image),
    )


def spread(
    image: ClusterImage, partitions: int, factor: int, disks: FullDisks
) -> tuple[tuple[int, ...], ...]:
    """Return replicas for new partitions, from the least loaded broker on. There are enough brokers."""
    eligible, hosts = disks.takers(image.placeable_brokers(), factor), hosts_of(image.brokers.values())
    return place_from_emptiest(
        [PlacementBroker(b.broker_id, hosts[b.broker_id], b.rack, b.owner_id) for b in eligible],
        preferred=[image.preferred_counts.get(b.broker_id, 0) for b in eligible],
        held=[len(image.replicas_of.get(b.broker_id, {})) for b in eligible],
        partitions=partitions,
        replication_factor=factor,
    )


def _factor_beyond_bound(factor: int, options: ControllerOptions) -> Refusal:
    """A partition's row names each replica several times, and a chunk of rows must fit in a znode."""
    return Refusal(
        code=RefusalCode.INVALID_REPLICATION_FACTOR,
        field="replication_factor",
        limit=options.replication_factor_max,
        detail=f"the replication factor must be at most {options.replication_factor_max}, not {factor}",
    )


def broker_facts(image: ClusterImage) -> dict[str, int]:
    """Return how many brokers are in which state; one whose workers differ counts in each of theirs."""
    brokers = image.brokers.values()

    def count(found: Iterable[BrokerRegistration]) -> int:
        return len({broker.owner_id for broker in found})

    return {
        "eligible_brokers": count(b for b in brokers if b.takes_replicas),
        "cordoned_brokers": count(b for b in brokers if b.is_eligible and not b.takes_replicas),
        "fenced_brokers": count(b for b in brokers if b.admitted and b.fenced),
        "shutting_down_brokers": count(b for b in brokers if b.status is BrokerStatus.SHUTTING_DOWN),
        "waiting_brokers": count(b for b in brokers if not b.admitted),
    }


def _given_assignment(
    image: ClusterImage, event: CreateTopic, options: ControllerOptions
) -> tuple[tuple[int, ...], ...] | Refusal:
    assignments = event.assignments
    assert assignments is not None

    def refuse(detail: str, field: str = "assignments") -> Refusal:
        return Refusal(code=RefusalCode.INVALID_REPLICA_ASSIGNMENT, field=field, detail=detail)

    if not assignments or not assignments[0]:
        return refuse("an assignment names at least one partition and one replica each")
    if event.partitions not in (None, -1, len(assignments)):
        return refuse(f"{event.partitions} partitions asked, {len(assignments)} assigned", "partitions")
    refusal = _check_size(image, len(assignments), options)
    if refusal is not None:
        return refusal
    factor = len(assignments[0])
    if factor > options.replication_factor_max:
        return _factor_beyond_bound(factor, options)
    if event.replication_factor not in (None, -1, factor):
        return refuse(f"the assignment has {factor} replicas a partition", "replication_factor")
    return check_assignments(image, assignments, factor=factor, first=0) or assignments


def check_assignments(
    image: ClusterImage, assignments: tuple[tuple[int, ...], ...], *, factor: int, first: int
) -> Refusal | None:
    """Check the replicas given for new partitions, numbered from `first` on: so many each, distinct, of
    members that may be given replicas, if not now then later."""
    for index, replicas in enumerate(assignments):
        number, field = first + index, f"assignments.{index}"
        if len(replicas) != factor or len(set(replicas)) != factor:
            return Refusal(
                code=RefusalCode.INVALID_REPLICA_ASSIGNMENT,
                field=field,
                detail=(
                    f"partition {number} has {len(replicas)} replicas, partition 0 has {factor}"
                    if len(replicas) != factor
                    else f"partition {number} names a broker twice"
                ),
            )
        for broker_id in replicas:
            broker = image.brokers.get(broker_id)
            if broker is None or not broker.admitted:
                return Refusal(
                    code=RefusalCode.UNKNOWN_BROKER,
                    field=field,
                    detail=f"partition {number}: "
                    + image.what_is(broker_id, "is not a member of this cluster"),
                )
            if broker.cordoned or broker.draining:
                return Refusal(
                    code=RefusalCode.INELIGIBLE_BROKER,
                    field=field,
                    detail=f"partition {number}: broker {broker_id} is cordoned",
                )
        crowded = crowding_fault(image, replicas)
        if crowded is not None:
            return Refusal(
                code=RefusalCode.INVALID_REPLICA_ASSIGNMENT,
                field=field,
                detail=f"partition {number}: {crowded}",
            )
    return None


def find_topic(image: ClusterImage, topic: str | None, topic_id: str | None) -> TopicState | Refusal:
    """A living topic by name, id, or both if they agree."""
    state = image.topics.get(topic_id) if topic_id is not None else image.topic_named(topic or "")
    if state is None or state.deleting or (topic is not None and state.topic != topic):
        wanted = (topic or topic_id or "")[:64]
        return Refusal(code=RefusalCode.UNKNOWN_TOPIC, field="topic", detail=f"there is no topic {wanted!r}")
    return state


def find_partition(image: ClusterImage, topic_id: str, partition: int) -> PartitionState | Refusal:
    """A partition of a living topic."""
    topic = image.topics.get(topic_id)
    state = image.partitions.get((topic_id, partition))
    if topic is None or topic.deleting or state is None:
        return Refusal(
            code=RefusalCode.UNKNOWN_PARTITION,
            field="partition",
            detail=f"there is no partition {partition} of {topic_id[:22]!r}",
        )
    return state


def check_epoch(state: PartitionState, expected: int | None) -> Refusal | None:
    """Refuse if the partition has changed since the operator looked."""
    if expected in (None, state.partition_epoch):
        return None
    return Refusal(
        code=RefusalCode.PARTITION_CHANGED,
        field="partition_epoch",
        detail=f"the partition is at epoch {state.partition_epoch}, not {expected}",
        hint="look at the partition again",
        facts={"partition_epoch": state.partition_epoch},
    )


def remove_orphans(draft: Draft) -> None:
    """Remove partitions whose topic row was never written: their creation was never acknowledged (4.7,
    creation)."""
    image = draft.image
    orphans: dict[str, str] = {}
    for (topic_id, _), state in image.partitions.items():
        if topic_id not in image.topics:
            orphans[topic_id] = state.topic
    change = draft.change(Cause.TAKEOVER_REPAIR)
    for topic_id, topic in orphans.items():
        draft.write(RemoveTopicRecord(topic_id=topic_id, topic=topic, change=change))
