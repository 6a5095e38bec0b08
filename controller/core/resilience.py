"""The effect of losing brokers on partitions: a pure question about an image, by the rules of election.

A lost broker stops at once and without a word, as in a power cut: its seats and leaderships go as when it is
fenced, and a broker that is fenced already has nothing left to lose. The outcome for each partition is found
by the same functions that decide it when it happens (election.py), so the two can't differ.

`lose` tells of one loss in full. `losses_by_group` compares all of one kind, and looks closely only at those
partitions that a single loss can hurt: a cluster's summary must not hold up its heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from controller.core.configs import is_unclean_election_allowed
from controller.core.election import eligible_ids, live_brokers, settle, unclean_candidate
from controller.core.image import ClusterImage
from controller.core.isr import with_unclean_leader
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionKey, PartitionState

Group = TypeVar("Group", bound=Hashable)


class Condition(IntEnum):
    """The worst that can be said of a partition; the higher, the worse."""

    ONLINE = 0
    #: Fewer replicas in sync than it is meant to have.
    UNDER_REPLICATED = 1
    #: Refuses acks=all.
    UNDER_MIN_ISR = 2
    #: Its leader was chosen uncleanly: acknowledged records may be lost.
    RECOVERING = 3
    #: No replica may lead: it can be neither written nor read.
    LEADERLESS = 4


class PartitionLoss(NamedTuple):
    """A partition that the loss makes worse. after: its state then, epochs as they would be."""

    before: Condition
    condition: Condition
    stops_acks_all: bool
    after: PartitionState


class Tally(NamedTuple):
    """Partitions that a loss makes worse, by what it makes of them; compared from the left, the worst first.

    stops_acks_all: those that take acks=all now and then would not, in any condition.
    """

    leaderless: int = 0
    recovering: int = 0
    stops_acks_all: int = 0
    under_min_isr: int = 0
    under_replicated: int = 0


class WorstLoss(NamedTuple):
    """name: what is lost, as the caller grouped it."""

    name: str
    tally: Tally


def condition_of(state: PartitionState) -> Condition:
    if state.leader == NO_LEADER:
        return Condition.LEADERLESS
    if state.recovery is LeaderRecovery.RECOVERING:
        return Condition.RECOVERING
    return _condition_with(state, len(state.isr))


def takes_acks_all(state: PartitionState) -> bool:
    return state.leader != NO_LEADER and len(state.isr) >= state.min_insync_replicas


def lose(image: ClusterImage, brokers: Collection[int]) -> list[PartitionLoss]:
    """Return every partition that is worse off when `brokers` are lost together: the worst first, then by
    topic and number. Brokers that are absent or fenced change nothing."""
    lost = frozenset(brokers)
    live, eligible = live_brokers(image) - lost, eligible_ids(image) - lost
    touched: dict[PartitionKey, None] = {}
    for broker_id in sorted(lost):
        touched |= image.seats_of.get(broker_id, {})
    found = []
    for key in touched:
        if key[0] in image.topics:
            loss = _lose_one(image, image.partitions[key], live=live, eligible=eligible)
            if loss is not None:
                found.append(loss)
    found.sort(key=lambda loss: (-loss.condition, loss.after.topic, loss.after.partition))
    return found


def tally(losses: Collection[PartitionLoss]) -> Tally:
    counts = [0] * len(Condition)
    for loss in losses:
        counts[loss.condition] += 1
    return Tally(
        leaderless=counts[Condition.LEADERLESS],
        recovering=counts[Condition.RECOVERING],
        stops_acks_all=sum(loss.stops_acks_all for loss in losses),
        under_min_isr=counts[Condition.UNDER_MIN_ISR],
        under_replicated=counts[Condition.UNDER_REPLICATED],
    )


def losses_by_group(image: ClusterImage, group_of: Mapping[int, Group]) -> dict[Group, Tally]:
    """Return the effect of losing each group of brokers: a broker, a host, a rack.

    group_of: the group of each broker that belongs to one; others are never lost. Groups whose loss makes
    nothing worse have an empty tally."""
    live, eligible = live_brokers(image), eligible_ids(image)
    members: dict[Group, list[int]] = {}
    for broker_id in sorted(group_of):
        members.setdefault(group_of[broker_id], []).append(broker_id)
    survivors = {group: (live.difference(lost), eligible.difference(lost)) for group, lost in members.items()}
    counts = {group: [0] * len(Condition) for group in members}
    stops = dict.fromkeys(members, 0)
    # Nearly every partition is whole and can spare one replica: these are counted by their in-sync sets.
    spared: dict[tuple[int, ...], int] = {}
    for state in _vulnerable(image, group_of, eligible, spared):
        groups = [group_of[b] for b in (*state.isr, *state.elr) if b in group_of]
        is_plain = _is_plain(state, eligible)
        before = condition_of(state)
        for group in dict.fromkeys(groups):
            if is_plain and (left := len(state.isr) - groups.count(group)) > 0:
                # Who remains may lead: the rest is counting.
                condition = _condition_with(state, left)
                counts[group][condition] += condition > before
                stops[group] += condition is Condition.UNDER_MIN_ISR and takes_acks_all(state)
                continue
            left_live, left_eligible = survivors[group]
            loss = _lose_one(image, state, live=left_live, eligible=left_eligible)
            if loss is not None:
                counts[group][loss.condition] += 1
                stops[group] += loss.stops_acks_all
    for isr, partitions in spared.items():
        for group in (group_of[b] for b in isr if b in group_of):
            counts[group][Condition.UNDER_REPLICATED] += partitions
    return {
        group: Tally(
            leaderless=of_group[Condition.LEADERLESS],
            recovering=of_group[Condition.RECOVERING],
            stops_acks_all=stops[group],
            under_min_isr=of_group[Condition.UNDER_MIN_ISR],
            under_replicated=of_group[Condition.UNDER_REPLICATED],
        )
        for group, of_group in counts.items()
    }


def worst_loss(image: ClusterImage, group_of: Mapping[int, str]) -> WorstLoss | None:
    """Return the group whose loss does most harm, the first by name among equals, or None if there is no
    group."""
    if not group_of:
        return None
    losses = losses_by_group(image, group_of)
    most = max(losses.values())
    return WorstLoss(min(group for group, its_tally in losses.items() if its_tally == most), most)


def _vulnerable(
    image: ClusterImage,
    group_of: Mapping[int, Group],
    eligible: frozenset[int],
    spared: dict[tuple[int, ...], int],
) -> Iterator[PartitionState]:
    """Yield the partitions to which the loss of some group may do more, or less, than turn them from whole to
    one replica short with a minimum to spare; count the others in `spared`, by their in-sync sets. One cheap
    look at each of these: this decides the cost."""
    is_alone = len(set(group_of.values())) == len(group_of)
    living = image.topics.keys() - image.deletions.keys()
    # A replica that is in sync and may not lead (it is shutting down) is not enough to remain.
    doubtful = image.brokers.keys() - eligible
    for key, state in image.partitions.items():
        if key[0] not in living:
            continue
        isr = state.isr
        in_sync = len(isr)
        if (
            in_sync == len(state.replicas) > state.min_insync_replicas
            and state.leader != NO_LEADER
            and state.recovery is LeaderRecovery.RECOVERED
            and not state.original_replicas
            and (not doubtful or doubtful.isdisjoint(isr))
            and (is_alone or len({group_of.get(b) for b in isr}) == in_sync)
        ):
            spared[isr] = spared.get(isr, 0) + 1
        else:
            yield state


def _is_plain(state: PartitionState, eligible: frozenset[int]) -> bool:
    """Return whether the partition is led and proven, no replica waits to return, and all in sync may
    lead."""
    return (
        state.leader != NO_LEADER
        and not state.elr
        and state.recovery is LeaderRecovery.RECOVERED
        and eligible.issuperset(state.isr)
    )


def _condition_with(state: PartitionState, in_sync: int) -> Condition:
    """Return the condition of a led partition with so many replicas in sync."""
    if in_sync < state.min_insync_replicas:
        return Condition.UNDER_MIN_ISR
    return Condition.UNDER_REPLICATED if in_sync < state.replication_factor else Condition.ONLINE


def _lose_one(
    image: ClusterImage, state: PartitionState, *, live: frozenset[int], eligible: frozenset[int]
) -> PartitionLoss | None:
    """Return what becomes of a partition when only `live` are left; None if it is no worse than now."""
    after = settle(state, live=live, eligible=eligible, demoted=image.demoted)
    if after is None:
        return None
    if after.leader == NO_LEADER:
        topic = image.topics[state.topic_id]
        if is_unclean_election_allowed(topic.configs, image.configs):
            candidate = unclean_candidate(after, eligible)
            if candidate is not None:
                after = with_unclean_leader(after, candidate)
    before, condition = condition_of(state), condition_of(after)
    stops_acks_all = takes_acks_all(state) and not takes_acks_all(after)
    if condition <= before and not stops_acks_all:
        return None
    return PartitionLoss(before, condition, stops_acks_all, after)
