"""Changes of a partition's replicas: it grows first and shrinks last (docs/replication.md 4.2,
reassignment; 4.4, cancelling).

    stable --grown--> growing --the last target joins the ISR, in that very write--> stable, as asked
                      |     ^
                      |     +-- grown, with other targets: learners that are wanted no more go at once
                      +-- rolled back --> stable, as it was

While it grows, `replicas` holds the targets, in their order, then the replicas that will go. A learner counts
for nothing until its leader proposes it for the ISR (I10, only leaders expand the ISR). Three things hold for
every change here: no replica is dropped whose seat would leave the ISR below the minimum; the leader stands
in the ISR that remains; and the leader epoch rises whenever a replica is dropped. Otherwise a leader that is
told only of the outcome of "removed, and added again" would go on counting how far that replica had come
before it lost its log (S26, removed and added again).

The functions take and return values: the caller raises the partition epoch and writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from controller.core.configs import effective_min_insync_replicas
from controller.core.image import ClusterImage
from controller.core.shards import cluster_defaults
from springtide.contract.partition_state import NO_LEADER, MoveThrottle, PartitionState


class Obstacle(NamedTuple):
    """Why a change of replicas is not safe now."""

    detail: str
    hint: str


def grown(
    image: ClusterImage,
    state: PartitionState,
    target: tuple[int, ...],
    throttle: MoveThrottle | None = None,
) -> PartitionState | Obstacle | None:
    """Return the state on the way to `target` (distinct, at least one), as fast as `throttle` allows;
    complete at once if nothing is missing. None if the partition is there, or on that way at that rate,
    already."""
    original = state.original_replicas or state.replicas
    adding = tuple(b for b in target if b not in original)
    removing = tuple(b for b in original if b not in target)
    if target == (state.target_replicas if state.is_reassigning else state.replicas):
        if not state.is_reassigning or throttle == state.throttle:
            return None
        return msgspec.structs.replace(state, throttle=throttle)
    state = msgspec.structs.replace(state, throttle=throttle)
    is_reordering = not adding and not removing
    after = _reshaped(
        image,
        state,
        replicas=target + removing,
        adding=adding,
        removing=removing,
        original=() if is_reordering else original,
    )
    if isinstance(after, Obstacle):
        return after
    return completed(image, after) or after


def rolled_back(image: ClusterImage, state: PartitionState) -> PartitionState | Obstacle:
    """The assignment before the running reassignment, in its order. Refused while too few of its replicas
    are in sync: the learners would take with them what only they hold besides."""
    assert state.is_reassigning
    return _reshaped(image, state, replicas=state.original_replicas, adding=(), removing=(), original=())


def completed(image: ClusterImage, state: PartitionState) -> PartitionState | None:
    """The reassignment's end, if it has come: all targets in the ISR (KAFKA-15665), and a leader among them.
    The minimum is computed again when the replication factor changes."""
    target = state.target_replicas
    if not state.is_reassigning or state.leader == NO_LEADER or not set(target) <= set(state.isr):
        return None
    if len(target) != len(state.original_replicas):
        topic = image.topics[state.topic_id]
        minimum = effective_min_insync_replicas(
            topic.configs, cluster_defaults(image, topic.topic), replication_factor=len(target)
        )
        state = msgspec.structs.replace(state, min_insync_replicas=minimum)
    after = _reshaped(image, state, replicas=target, adding=(), removing=(), original=())
    return None if isinstance(after, Obstacle) else after


def first_leader(candidates: Iterable[int], eligible: Collection[int], demoted: Collection[int]) -> int:
    """The first that may be elected, a demoted one only if no other may; NO_LEADER: none may."""
    last_resort = NO_LEADER
    for candidate in candidates:
        if candidate in eligible:
            if candidate not in demoted:
                return candidate
            if last_resort == NO_LEADER:
                last_resort = candidate
    return last_resort


def next_epoch(before: PartitionState, after: PartitionState) -> PartitionState:
    """`after` as the successor of `before`: one step of each epoch, however many changes it holds."""
    return msgspec.structs.replace(
        after,
        partition_epoch=before.partition_epoch + 1,
        leader_epoch=before.leader_epoch + (after.leader_epoch > before.leader_epoch),
    )


def _reshaped(
    image: ClusterImage,
    state: PartitionState,
    *,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    original: tuple[int, ...],
) -> PartitionState | Obstacle:
    isr = tuple(b for b in replicas if b in state.isr)
    elr = tuple(b for b in replicas if b in state.elr)
    minimum = state.min_insync_replicas
    loses_seat = len(isr) + len(elr) < len(state.isr) + len(state.elr)
    if loses_seat and len(isr) < minimum:
        return Obstacle(
            f"of the replicas that would remain, {list(isr)} are in sync, and {minimum} must be",
            "wait until more of them are in sync",
        )
    leader = state.leader
    if leader != NO_LEADER and leader not in isr:
        leader = first_leader(isr, [b for b in isr if image.is_eligible(b)], image.demoted)
        if leader == NO_LEADER:
            return Obstacle(
                f"broker {state.leader} leads and would go, and none of {list(isr)} may lead now",
                "wait until one of them is back",
            )
    if len(isr) >= minimum:
        elr = ()
    is_dropping = not set(state.replicas) <= set(replicas)
    return msgspec.structs.replace(
        state,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
        original_replicas=original,
        throttle=state.throttle if original else None,
        new_replicas=tuple(b for b in replicas if b in state.new_replicas),
        leader=leader,
        leader_epoch=state.leader_epoch + is_dropping,
        isr=isr,
        elr=elr,
        last_known_elr=(
            () if len(isr) >= minimum else tuple(b for b in replicas if b in state.last_known_elr)
        ),
    )
