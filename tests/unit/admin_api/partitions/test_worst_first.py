"""Pages of a cluster's partitions, against sorting all of them."""

from __future__ import annotations

import random

import pytest

from admin_api.partitions.service import state_word
from admin_api.partitions.worst_first import SEVERITY, position_of, worst_first
from springtide.contract.partition_state import PartitionState
from tests.kit.controller.images import image_in_states


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rare", [False, True])
def test_pages_are_cuts_of_the_whole_order(seed: int, rare: bool) -> None:
    rng = random.Random(seed)
    weights = dict.fromkeys(SEVERITY, 1) | ({"online": 100} if rare else {})
    image = image_in_states(weights, rng)
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
    image = image_in_states({"online": 1}, random.Random(1))
    after = (SEVERITY["leaderless"], "b", 3)
    first = worst_first(image, word=None, after=after, count=1)
    assert first == worst_first(image, word="online", after=None, count=1)
    beyond = (SEVERITY["online"], "zz", 0)
    assert worst_first(image, word=None, after=beyond, count=5) == []
