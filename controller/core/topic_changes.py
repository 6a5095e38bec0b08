"""Topics that change: more partitions, other settings.

New partitions are written before the topic's row, which announces them (4.7, creation). A controller that
finds some beyond what the row says announces those that are there: each is whole, brokers may have heard of
it already, and the request was not answered.
"""

from __future__ import annotations

import msgspec

from controller.core.configs import changed_configs, check_lags, check_level
from controller.core.draft import Draft
from controller.core.events import (
    AddPartitions,
    ConfigureTopic,
    PartitionsAdded,
    Refusal,
    RefusalCode,
    TopicConfigured,
)
from controller.core.full_disks import FullDisks
from controller.core.image import ClusterImage
from controller.core.minimum import changed_minimums, check_minimum, follow_minimum
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord, TopicRecord
from controller.core.settings_table import TOPIC_SETTINGS
from controller.core.shards import PINNED_NAMES, cluster_defaults, reserved
from controller.core.topics import (
    check_assignments,
    check_spread,
    find_topic,
    new_partitions,
    operator_change,
    spread,
)
from springtide.contract.partition_state import TopicState


def add_partitions(
    draft: Draft, event: AddPartitions, options: ControllerOptions
) -> PartitionsAdded | Refusal:
    image = draft.image
    topic = find_topic(image, event.topic, event.topic_id)
    if isinstance(topic, Refusal):
        return topic
    plan = (
        reserved(topic.topic, "the number of its partitions is fixed")
        or _check_count(image, topic, event.partitions, options)
        or _plan(image, topic, event, draft.full_disks)
    )
    if isinstance(plan, Refusal):
        return plan
    states = new_partitions(image, topic, plan, first=topic.partitions)
    if isinstance(states, Refusal):
        return states
    after = msgspec.structs.replace(topic, partitions=event.partitions)
    if not event.dry_run:
        change = operator_change(event, Cause.PARTITIONS_ADDED)
        for state in states:
            draft.write(PartitionRecord(state=state, change=change))
        draft.write(TopicRecord(state=after, change=change))
    return PartitionsAdded(state=after, partitions=tuple(states), dry_run=event.dry_run)


def _check_count(
    image: ClusterImage, topic: TopicState, partitions: int, options: ControllerOptions
) -> Refusal | None:
    """A topic never has fewer partitions than before: their records would be gone."""
    limit = min(
        options.partitions_per_topic_max,
        options.partitions_per_cluster_max - len(image.partitions) + topic.partitions,
    )
    if topic.partitions < partitions <= limit:
        return None
    few = f"topic {topic.topic!r} has {topic.partitions} partitions; it can only get more"
    many = f"{partitions} partitions are too many: topic {topic.topic!r} may have at most {limit}"
    is_few = partitions <= topic.partitions
    return Refusal(
        code=RefusalCode.INVALID_PARTITIONS,
        field="partitions",
        limit=topic.partitions + 1 if is_few else limit,
        detail=few if is_few else many,
    )


def _plan(
    image: ClusterImage, topic: TopicState, event: AddPartitions, disks: FullDisks
) -> tuple[tuple[int, ...], ...] | Refusal:
    count, factor = event.partitions - topic.partitions, topic.replication_factor
    assignments = event.assignments
    if assignments is None:
        return check_spread(image, factor, disks) or spread(image, count, factor, disks)
    if len(assignments) != count:
        return Refusal(
            code=RefusalCode.INVALID_REPLICA_ASSIGNMENT,
            field="assignments",
            limit=count,
            detail=f"{count} partitions are to be added, {len(assignments)} are assigned",
        )
    return check_assignments(image, assignments, factor=factor, first=topic.partitions) or assignments


def announce_added(draft: Draft) -> None:
    """Announce partitions that a predecessor wrote but did not announce. Their numbers have no gap, because
    they are written in order."""
    image = draft.image
    counts: dict[str, int] = {}
    for topic_id, number in image.partitions:
        topic = image.topics.get(topic_id)
        if topic is not None and not topic.deleting and number >= topic.partitions:
            counts[topic_id] = max(counts.get(topic_id, 0), number + 1)
    change = draft.change(Cause.TAKEOVER_REPAIR)
    for topic_id, count in counts.items():
        after = msgspec.structs.replace(image.topics[topic_id], partitions=count)
        draft.write(TopicRecord(state=after, change=change))


def configure_topic(draft: Draft, event: ConfigureTopic) -> TopicConfigured | Refusal:
    """The topic's row first: it says what is wanted, and its partitions follow (minimum.py)."""
    image = draft.image
    topic = find_topic(image, event.topic, event.topic_id)
    if isinstance(topic, Refusal):
        return topic
    pinned = PINNED_NAMES.intersection(event.configs)
    configs = (pinned and reserved(topic.topic, f"{min(pinned)} is fixed")) or changed_configs(
        topic.configs, event.configs, TOPIC_SETTINGS
    )
    if isinstance(configs, Refusal):
        return configs
    # The fewest replicas that a partition has, or is being given.
    factors = (len(state.target_replicas) for state in image.partitions_of(topic.topic_id))
    refusal = (
        check_level(image.level, event.configs)
        or check_minimum(event.configs, replication_factor=min(factors, default=topic.replication_factor))
        or check_lags(configs, cluster_defaults(image, topic.topic))
    )
    if refusal is not None:
        return refusal
    after = msgspec.structs.replace(topic, configs=configs)
    if event.dry_run:
        return TopicConfigured(state=after, partitions=tuple(changed_minimums(image, [after])), dry_run=True)
    change = operator_change(event, Cause.TOPIC_CONFIGURED)
    if after != topic:
        draft.write(TopicRecord(state=after, change=change))
    return TopicConfigured(state=after, partitions=follow_minimum(draft, [after], change))
