"""Whether a plan still fits the cluster, and how much of it a budget allows."""

from __future__ import annotations

from controller.contract.partition_state import PartitionKey
from controller.core.image import ClusterImage
from controller.core.planning.plan import Plan


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
    """How many moves from the beginning copy no more than this together."""
    copied = 0
    for count, move in enumerate(plan.moves):
        copied += move.bytes
        if copied > bytes_max:
            return count
    return len(plan.moves)
