"""What tests do with a cluster's image: replay records, and answer a poll in one call."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec

from controller.core.image import ClusterImage
from controller.core.records import Cause, Change, PartitionRecord, Record, TopicRecord
from controller.core.stream import DELTA_PARTITIONS_MAX, build_range, check_poll, plan_update
from springtide.contract.epochs import ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState, TopicState
from springtide.contract.updates import PollRequest, UpdateBatch

CHANGE = Change(cause=Cause.TOPIC_CREATED, at_ms=0)
IN_STATE: dict[str, dict[str, Any]] = {
    "leaderless": {"leader": NO_LEADER, "isr": ()},
    "under_min_isr": {"isr": (1,)},
    "recovering": {"recovery": LeaderRecovery.RECOVERING},
    "under_replicated": {"isr": (1, 2)},
    "creating": {"new_replicas": (1, 2, 3)},
    "online": {},
}


def replay_all(image: ClusterImage, records: Iterable[Record]) -> None:
    for record in records:
        image.replay(record)


def build_update(
    image: ClusterImage,
    request: PollRequest,
    *,
    controller_epoch: int,
    partitions_max: int = DELTA_PARTITIONS_MAX,
    lineage: str = "",
) -> UpdateBatch | None:
    """Return the whole answer to a poll; None if nothing is new, so the poll waits."""
    error = check_poll(image, request)
    if error is not ControllerError.NONE:
        return UpdateBatch(error=error, controller_epoch=ControllerEpoch(controller_epoch))
    update = plan_update(
        image, request, controller_epoch=ControllerEpoch(controller_epoch), partitions_max=partitions_max
    )
    if update is None:
        return None
    return build_range(
        image,
        update,
        controller_epoch=ControllerEpoch(controller_epoch),
        broker_epoch=request.broker_epoch,
        lineage=lineage,
    )


def _partition(topic: str, number: int, word: str) -> PartitionState:
    healthy = PartitionState(
        topic_id=f"id-of-{topic}",
        topic=topic,
        partition=number,
        replicas=(1, 2, 3),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(1, 2, 3),
        min_insync_replicas=2,
    )
    return msgspec.structs.replace(healthy, **IN_STATE[word])


def image_in_states(weights: dict[str, int], rng: random.Random) -> ClusterImage:
    """Return topics of up to 40 partitions in these states; one is being deleted, one is not announced."""
    image = ClusterImage()
    for name in rng.sample(["a", "b", "ba", "c", "deleted", "e", "unannounced", "z"], 8):
        count = rng.randint(1, 40)
        for number, word in enumerate(rng.choices(list(weights), list(weights.values()), k=count)):
            image.replay(PartitionRecord(state=_partition(name, number, word), change=CHANGE))
        for deleting in (False, True) if name == "deleted" else (False,):
            state = TopicState(
                topic_id=f"id-of-{name}",
                topic=name,
                partitions=count,
                replication_factor=3,
                deleting=deleting,
            )
            if name != "unannounced":
                image.replay(TopicRecord(state=state, change=CHANGE))
    return image
