"""Checks and changes of a plan after it was made: does it still fit the cluster, how much of it does a budget
allow, and, if partitions have changed, the plan without their moves or with new ones. The other moves stay as
they were, pinned to the same epochs. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from controller.core.image import ClusterImage
from controller.core.planning.assembly import assemble
from controller.core.planning.goals import Assign, EvenOut, Rebalance, WantedAssignment
from controller.core.planning.plan import Move, Plan, Rejection, RejectionCode
from controller.core.planning.planner import lay_out, make_plan
from controller.core.planning.snapshot import BrokerSnapshot, PartitionSnapshot, Snapshot
from springtide.contract.partition_state import PartitionKey


def drifted(plan: Plan, image: ClusterImage) -> tuple[PartitionKey, ...]:
    """Partitions that are not as they were when the plan was made, in the plan's order: changed, gone, or
    there although the plan was to place them. Any change counts, an ISR that shrank too: the plan's slack was
    counted from it."""
    found = []
    for move in plan.moves:
        state = image.partitions.get(move.key)
        topic = image.topics.get(move.topic_id)
        epoch = None if state is None else state.partition_epoch
        if topic is None or topic.deleting or epoch != move.partition_epoch:
            found.append(move.key)
    return tuple(found)


def moves_within(plan: Plan, bytes_max: int) -> int:
    """Return how many of the plan's first moves together copy no more than `bytes_max`."""
    copied = 0
    for count, move in enumerate(plan.moves):
        copied += move.bytes
        if copied > bytes_max:
            return count
    return len(plan.moves)


def without(snapshot: Snapshot, plan: Plan, keys: Collection[PartitionKey]) -> Plan:
    """The plan's other moves alone. snapshot: of now."""
    kept = [move for move in plan.moves if move.key not in keys]
    return _assembled(snapshot, plan, kept, plan.rejections)


def replanned(snapshot: Snapshot, plan: Plan, keys: Collection[PartitionKey]) -> Plan:
    """Return the plan with new moves for these partitions, made as if the others had arrived already. A
    rebalance touches nothing else; other goals also reach partitions that the plan did not know of. A
    partition that was moved by measured weights keeps its destination if that is still possible, because the
    measurement is not kept."""
    kept = [move for move in plan.moves if move.key not in keys]
    snapshot = _with_arrived(_towards(snapshot, plan), kept)
    arrived = {move.key: move.replicas_after for move in kept}
    moved = {move.key for move in plan.moves}
    is_narrow = isinstance(plan.goal, Rebalance)

    def seen(partition: PartitionSnapshot) -> PartitionSnapshot:
        if partition.key in arrived:
            return msgspec.structs.replace(partition, replicas=arrived[partition.key], is_reassigning=True)
        if is_narrow and partition.key not in keys:
            return msgspec.structs.replace(partition, is_reassigning=True)
        return partition

    goal = plan.goal
    if isinstance(goal, Assign):
        goal = Assign(assignments=tuple(w for w in goal.assignments if w.key not in arrived))
    elif isinstance(goal, EvenOut):
        goal = Assign(
            assignments=tuple(
                WantedAssignment(topic_id=m.topic_id, partition=m.partition, replicas=m.replicas_after)
                for m in plan.moves
                if m.key in keys
            )
        )
    fresh = make_plan(
        msgspec.structs.replace(snapshot, partitions=tuple(seen(p) for p in snapshot.partitions)), goal
    )
    held = {p.key for p in snapshot.partitions if not p.is_reassigning}
    rejections = [
        found
        for found in fresh.rejections
        # Those are held still by us, not by a reassignment.
        if not (
            found.code is RejectionCode.REASSIGNMENT_RUNNING and (found.topic_id, found.partition) in held
        )
    ]
    assert moved >= arrived.keys()
    return _assembled(snapshot, plan, [*kept, *fresh.moves], rejections)


def _towards(snapshot: Snapshot, plan: Plan) -> Snapshot:
    if plan.destinations is msgspec.UNSET:
        return snapshot
    return msgspec.structs.replace(snapshot, destinations=plan.destinations)


def _with_arrived(snapshot: Snapshot, moves: Sequence[Move]) -> Snapshot:
    """Return the snapshot with disks as they are when these moves, of which none has begun, have ended."""
    coming: Counter[int] = Counter()
    going: Counter[int] = Counter()
    for move in moves:
        size = move.bytes // max(len(move.adding), 1)
        coming.update(dict.fromkeys(move.adding, size))
        going.update(dict.fromkeys(move.removing, size))

    def seen(broker: BrokerSnapshot) -> BrokerSnapshot:
        disk, b = broker.disk, broker.broker_id
        return msgspec.structs.replace(
            broker,
            room_bytes=None if broker.room_bytes is None else broker.room_bytes - coming[b],
            disk=None if disk is None else disk._replace(used_bytes=disk.used_bytes + coming[b] - going[b]),
        )

    return msgspec.structs.replace(snapshot, brokers=tuple(seen(broker) for broker in snapshot.brokers))


def _assembled(
    snapshot: Snapshot, plan: Plan, moves: Sequence[Move], rejections: Sequence[Rejection]
) -> Plan:
    snapshot = _towards(snapshot, plan)
    layout = lay_out(snapshot, plan.goal)
    there = {partition.key for partition in snapshot.partitions}
    kept = [move for move in moves if move.key in there]
    return assemble(snapshot, layout, plan.goal, kept, rejections)
