"""Assignments that an operator wrote down, and one broker in the place of another: nothing to choose, all to
check. Each partition is accepted or rejected alone."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.minimum import below_minimum
from controller.core.planning.goals import Assign, Replace, WantedAssignment
from controller.core.planning.layout import Crowding, Layout
from controller.core.planning.plan import MoveReason, Rejection, RejectionCode
from controller.core.planning.snapshot import PartitionSnapshot, Snapshot, TopicSnapshot
from controller.core.workers import APART
from springtide.contract.partition_state import PartitionKey


def rejected(partition: PartitionSnapshot, code: RejectionCode, detail: str) -> Rejection:
    return Rejection(
        code=code,
        detail=detail,
        topic_id=partition.topic_id,
        topic=partition.topic,
        partition=partition.partition,
    )


LOCKS = {
    RejectionCode.REASSIGNMENT_RUNNING: "it is being reassigned already",
    RejectionCode.LEADERLESS: "it has no leader to copy from",
    RejectionCode.LEADER_RECOVERING: "its leader was chosen uncleanly and has not confirmed its log",
}


def rejected_as_locked(layout: Layout, number: int) -> Rejection:
    code = layout.locked[number]
    return rejected(layout.partitions[number], code, LOCKS[code])


# --- assignments given --------------------------------------------------------------------------------------


def assign(snapshot: Snapshot, layout: Layout, goal: Assign) -> list[Rejection]:
    """Lay out what is wanted; returns what is wrong with the rest."""
    numbers = {partition.key: number for number, partition in enumerate(layout.partitions)}
    topics = {topic.topic_id: topic for topic in snapshot.topics}
    seen: set[PartitionKey] = set()
    rejections = []
    for wanted in goal.assignments:
        number = numbers.get(wanted.key)
        if number is None:
            found: Rejection | None = Rejection(
                code=RejectionCode.UNKNOWN_PARTITION,
                detail=f"there is no partition {wanted.partition} of {wanted.topic_id[:22]!r}",
                topic_id=wanted.topic_id,
                partition=wanted.partition,
            )
        elif wanted.key in seen:
            found = rejected(
                layout.partitions[number], RejectionCode.INVALID_ASSIGNMENT, "the partition is named twice"
            )
        else:
            found = _check(layout, topics[wanted.topic_id], number, wanted)
        seen.add(wanted.key)
        if found is not None:
            rejections.append(found)
        elif number is not None:
            layout.lay(number, [layout.index[b] for b in wanted.replicas], MoveReason.BY_HAND)
    return rejections


def _check(layout: Layout, topic: TopicSnapshot, number: int, wanted: WantedAssignment) -> Rejection | None:
    partition = layout.partitions[number]
    replicas = wanted.replicas

    def reject(code: RejectionCode, detail: str) -> Rejection:
        return rejected(partition, code, detail)

    if not replicas:
        return reject(RejectionCode.INVALID_ASSIGNMENT, "a partition has at least one replica")
    if len(set(replicas)) != len(replicas):
        return reject(RejectionCode.INVALID_ASSIGNMENT, f"{list(replicas)} names a broker twice")
    if replicas == partition.replicas:
        return None
    too_few = below_minimum(len(partition.replicas), len(replicas), topic.own_minimum)
    if too_few is not None:
        return reject(RejectionCode.INVALID_REPLICATION_FACTOR, too_few)
    for broker_id in replicas:
        if broker_id not in layout.index:
            return reject(RejectionCode.UNKNOWN_BROKER, f"broker {broker_id} is not a member of this cluster")
        if broker_id not in partition.replicas and not layout.receives[layout.index[broker_id]]:
            return reject(RejectionCode.BROKER_TAKES_NO_REPLICAS, f"broker {broker_id} takes no replicas now")
    if number in layout.locked:
        return rejected_as_locked(layout, number)
    places = [layout.index[b] for b in replicas]
    barred = next((at for at, b in enumerate(places) if layout.is_barred(places[:at], b)), None)
    if barred is not None:
        return _barred(layout, places[barred], partition)
    full = [b for b in replicas if b not in partition.replicas and not layout.fits(number, layout.index[b])]
    if full:
        return reject(RejectionCode.NO_ROOM, _no_room(full[0]))
    in_sync = sum(b in partition.isr for b in replicas)
    is_complete_at_once = set(replicas) <= set(partition.replicas)
    if is_complete_at_once and in_sync < (minimum := topic.minimum_of(len(replicas))):
        return reject(
            RejectionCode.NOT_ENOUGH_IN_SYNC,
            f"{in_sync} of {list(replicas)} are in sync, and {minimum} must be",
        )
    return _check_separation(layout, number, places, reject_as=partition)


def _barred(layout: Layout, broker: int, partition: PartitionSnapshot) -> Rejection:
    detail = f"{layout.broker_ids[broker]} and another replica's are workers of broker {layout.owner[broker]}"
    return rejected(partition, RejectionCode.SHARES_HOST, f"{detail}: {APART}")


def _no_room(broker_id: int) -> str:
    return f"the disk of broker {broker_id} has no room for it above the reserve"


def _check_separation(
    layout: Layout, number: int, replicas: list[int], *, reject_as: PartitionSnapshot
) -> Rejection | None:
    """Reject replicas that stand closer together than they must, unless they stand no closer than before."""
    now = layout.pairs(replicas)
    if now == (0, 0):
        return None
    if len(replicas) == len(layout.original[number]) and now <= layout.pairs(layout.original[number]):
        return None
    allowed = [b for b, receives in enumerate(layout.receives) if receives]
    ideal = layout.ideal_pairs(len(replicas), {*allowed, *layout.original[number]})
    if now <= ideal:
        return None
    return _too_close(layout, replicas, now, ideal, reject_as)


def _too_close(
    layout: Layout, replicas: Sequence[int], now: Crowding, ideal: Crowding, partition: PartitionSnapshot
) -> Rejection:
    is_host = now[0] > ideal[0]
    names = [layout.broker_ids[b] for b in replicas]
    code = RejectionCode.SHARES_HOST if is_host else RejectionCode.SHARES_RACK
    what = "a host" if is_host else "a rack"
    return rejected(partition, code, f"of {names} more share {what} than have to")


# --- one for one --------------------------------------------------------------------------------------------


def check_replace(layout: Layout, goal: Replace) -> Rejection | None:
    for broker_id in (goal.broker_id, goal.replacement):
        if broker_id not in layout.index:
            return Rejection(
                code=RejectionCode.UNKNOWN_BROKER,
                detail=f"broker {broker_id} is not a member of this cluster",
            )
    if goal.broker_id == goal.replacement or not layout.receives[layout.index[goal.replacement]]:
        return Rejection(
            code=RejectionCode.BROKER_TAKES_NO_REPLICAS,
            detail=f"broker {goal.replacement} can't take the replicas of broker {goal.broker_id}",
        )
    return None


def replace(layout: Layout, goal: Replace) -> list[Rejection]:
    """Each place of one broker to the other; returns the partitions for which that can't be."""
    source, target = layout.index[goal.broker_id], layout.index[goal.replacement]
    rejections = []
    for number in sorted(layout.held[source]):
        partition = layout.partitions[number]
        if number in layout.locked:
            rejections.append(rejected_as_locked(layout, number))
        elif target in layout.replicas[number]:
            detail = f"broker {goal.replacement} holds a replica of it already"
            rejections.append(rejected(partition, RejectionCode.ALREADY_HOLDS_REPLICA, detail))
        elif layout.is_barred(others := [b for b in layout.replicas[number] if b != source], target):
            rejections.append(_barred(layout, target, partition))
        elif not layout.is_as_apart(number, source, target):
            there, here = layout.crowding(others, target), layout.crowding(others, source)
            rejections.append(_too_close(layout, [target, *others], there, here, partition))
        elif not layout.fits(number, target):
            rejections.append(rejected(partition, RejectionCode.NO_ROOM, _no_room(goal.replacement)))
        else:
            layout.move(number, source, target, MoveReason.REPLACE)
    return rejections
