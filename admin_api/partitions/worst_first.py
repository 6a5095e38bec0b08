"""A cluster's partitions, the worst state first, then by topic and number, from any position on.

A page costs what it shows: the image keeps the partitions of each state but the best, and of those in a state
that is common the topics are walked in order, from the position on, until the page is full.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from admin_api.partitions.service import state_word
from controller.face.cluster import ClusterImage
from springtide.contract.partition_state import PartitionKey, PartitionState

#: Severity, topic, number.
Position = tuple[int, str, int]
#: Worst first.
SEVERITY: Final = {
    word: rank
    for rank, word in enumerate(
        ("leaderless", "under_min_isr", "recovering", "under_replicated", "creating", "online")
    )
}
#: Where more than one in so many partitions may be in a state, they are met soon enough by walking.
_RARE: Final = 20


def position_of(state: PartitionState) -> Position:
    return SEVERITY[state_word(state)], state.topic, state.partition


def worst_first(
    image: ClusterImage, *, word: str | None, after: Position | None, count: int
) -> list[PartitionState]:
    """Return the first `count` partitions after this position, or from the beginning. word: of their state;
    None: of any."""
    found: list[PartitionState] = []
    for wanted, rank in SEVERITY.items():
        if (word is None or word == wanted) and (after is None or rank >= after[0]):
            last = after[1:] if after is not None and after[0] == rank else ("", -1)
            found += _in_state(image, wanted, last, count - len(found))
            if len(found) == count:
                break
    return found


def _in_state(image: ClusterImage, word: str, last: tuple[str, int], count: int) -> list[PartitionState]:
    """Return the first `count` partitions in this state after `last`, a topic and a number."""
    keys = _candidates(image, word)
    if keys is not None and len(keys) * _RARE < len(image.partitions):
        states = (image.partitions[key] for key in keys if key[0] in image.topics)
        placed = (
            (state.topic, state.partition, state)
            for state in states
            if (state.topic, state.partition) > last and state_word(state) == word
        )
        return [state for _, _, state in heapq.nsmallest(count, placed, key=lambda one: one[:2])]
    return list(islice((state for state in _walk(image, last) if state_word(state) == word), count))


def _candidates(image: ClusterImage, word: str) -> Collection[PartitionKey] | None:
    """Return the partitions that may be in this state, none that is being deleted; None: any may."""
    match word:
        case "leaderless":
            return image.leaderless
        case "under_min_isr":
            return image.below_min
        case "recovering":
            return image.recovering
        case "under_replicated":
            return image.under_replicated
        case "creating":
            return image.unconfirmed_new
        case _:
            return None


def _walk(image: ClusterImage, last: tuple[str, int]) -> Iterator[PartitionState]:
    """Yield the partitions after `last`, by topic and number."""
    topic, number = last
    names = [name for name in image.topic_ids if name >= topic]
    heapq.heapify(names)  # Most of them are never asked for.
    while names:
        name = heapq.heappop(names)
        topic_id = image.topic_ids[name]
        first = number + 1 if name == topic else 0
        for partition in range(first, image.topics[topic_id].partitions):
            state = image.partitions.get((topic_id, partition))
            if state is not None:
                yield state
