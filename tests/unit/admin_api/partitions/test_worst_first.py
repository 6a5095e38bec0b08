"""Pages of a cluster's partitions, against sorting all of them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from admin_api.partitions.service import state_word
from admin_api.partitions.worst_first import SEVERITY, position_of, worst_first
from controller.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState, TopicState
from controller.core.image import ClusterImage
from controller.core.records import Cause, Change, PartitionRecord, TopicRecord

CHANGE = Change(cause=Cause.TOPIC_CREATED, at_ms=0)
STATES: dict[str, dict[str, Any]] = {
    "leaderless": {"leader": NO_LEADER, "isr": ()},
    "under_min_isr": {"isr": (1,)},
    "recovering": {"recovery": LeaderRecovery.RECOVERING},
    "under_replicated": {"isr": (1, 2)},
    "creating": {"new_replicas": (1, 2, 3)},
    "online": {},
}


def partition(topic: str, number: int, word: str) -> PartitionState:
    healthy = PartitionState(
        topic_id=f"id-of-{topic}",
        topic=topic,
        partition=number,
        replicas=(1, 2, 3),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        isr=(1, 2, 3),
        min_insync_replicas=2,
    )
    return msgspec.structs.replace(healthy, **STATES[word])


def image_of(weights: dict[str, int], rng: random.Random) -> ClusterImage:
    """Return topics of up to 40 partitions in these states; one is being deleted, one is not announced."""
    image = ClusterImage()
    for name in rng.sample(["a", "b", "ba", "c", "deleted", "e", "unannounced", "z"], 8):
        count = rng.randint(1, 40)
        for number, word in enumerate(rng.choices(list(weights), list(weights.values()), k=count)):
            image.replay(PartitionRecord(state=partition(name, number, word), change=CHANGE))
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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rare", [False, True])
def test_pages_are_cuts_of_the_whole_order(seed: int, rare: bool) -> None:
    rng = random.Random(seed)
    weights = dict.fromkeys(SEVERITY, 1) | ({"online": 100} if rare else {})
    image = image_of(weights, rng)
    shown = [s for s in image.partitions.values() if s.topic not in ("deleted", "unannounced")]
    for word in (None, *SEVERITY):
        expected = sorted((s for s in shown if word in (None, state_word(s))), key=position_of)
        found: list[PartitionState] = []
        while True:
            after = position_of(found[-1]) if found else None
            page = worst_first(image, word=word, after=after, count=7)
            found += page
            if len(page) < 7:
                break
        assert found == expected


def test_a_position_that_is_gone_is_passed() -> None:
    image = image_of({"online": 1}, random.Random(1))
    after = (SEVERITY["leaderless"], "b", 3)
    first = worst_first(image, word=None, after=after, count=1)
    assert first == worst_first(image, word="online", after=None, count=1)
    beyond = (SEVERITY["online"], "zz", 0)
    assert worst_first(image, word=None, after=beyond, count=5) == []
