"""The minimum of a partition's in-sync set follows the configuration (docs/replication.md 2.6, the minimum;
S12, the minimum goes down and up).

It is part of the partition's versioned state, because leader and controller must never disagree about it: a
leader that is told of a new minimum is told in the same breath who is in sync and who is eligible under it.
Lowering it to what is in sync clears the ELR in the same record, before any leader can commit under the lower
one without those members. Raising it needs no confirmation: a member that enters the ELR from now on does so
in a state that has the new minimum and lacks it in the ISR, and a leader that has not applied that state yet
still waits for it.

Configuration is written first and partitions follow; a controller that takes over finishes that.

A topic's own minimum above its replication factor is refused where it is asked for. A default above it is
capped, because it was not set for this topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from controller.core.configs import effective_min_insync_replicas
from controller.core.draft import Draft
from controller.core.events import Refusal, RefusalCode
from controller.core.image import ClusterImage
from controller.core.records import Change
from controller.core.shards import cluster_defaults
from springtide.contract.partition_state import PartitionState, TopicState

MINIMUM = "min.insync.replicas"


def own_minimum(topic: TopicState) -> int:
    """Return the minimum that the topic itself sets; 0 if it sets none."""
    return int(topic.configs.get(MINIMUM, 0))


def below_minimum(before: int, after: int, minimum: int) -> str | None:
    """Return why a partition may not go from so many replicas to so many, or None if it may. minimum: the
    topic's own. A partition that has fewer than that already may keep as many as it has."""
    if after >= min(minimum, before):
        return None
    return f"{after} replicas are fewer than the topic's own {MINIMUM}, {minimum}"


def check_minimum(configs: Mapping[str, str | None], *, replication_factor: int) -> Refusal | None:
    """Refuse valid settings for a topic with a minimum that its partitions could never have in sync."""
    minimum = configs.get(MINIMUM)
    if minimum is None or int(minimum) <= replication_factor:
        return None
    return Refusal(
        code=RefusalCode.INVALID_CONFIG,
        field=f"configs.{MINIMUM}",
        limit=replication_factor,
        detail=f"{MINIMUM} must be at most the replication factor, {replication_factor}, not {minimum}",
        hint="lower it, or give the topic more replicas",
    )


def with_minimum(state: PartitionState, minimum: int) -> PartitionState:
    """Minimum, ISR and ELR change under one partition epoch (I12, the ELR changes only with the ISR)."""
    is_enough = len(state.isr) >= minimum
    return msgspec.structs.replace(
        state,
        min_insync_replicas=minimum,
        elr=() if is_enough else state.elr,
        last_known_elr=() if is_enough else state.last_known_elr,
        partition_epoch=state.partition_epoch + 1,
    )


def changed_minimums(image: ClusterImage, topics: Iterable[TopicState]) -> Iterator[PartitionState]:
    """The next state of each of the topics' partitions whose minimum is not the configured one. While a
    reassignment runs, the minimum is that of the replicas there were before."""
    for topic in topics:
        if topic.deleting:
            continue
        by_factor: dict[int, int] = {}
        for key in image.partition_keys(topic.topic_id):
            state = image.partitions[key]
            factor = state.replication_factor
            if factor not in by_factor:
                by_factor[factor] = effective_min_insync_replicas(
                    topic.configs, cluster_defaults(image, topic.topic), replication_factor=factor
                )
            if state.min_insync_replicas != by_factor[factor]:
                yield with_minimum(state, by_factor[factor])


def follow_minimum(draft: Draft, topics: Iterable[TopicState], change: Change) -> tuple[PartitionState, ...]:
    """Bring the partitions of these topics in line with the configuration. Return those that changed."""
    changed = tuple(changed_minimums(draft.image, topics))
    for state in changed:
        draft.write_partition(state, change)
    return changed
