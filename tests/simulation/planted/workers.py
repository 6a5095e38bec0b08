"""Bugs of brokers with several workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from controller.core import placement, reassignment, topics
from controller.core.image import ClusterImage
from controller.core.placement import Assignment, PlacementBroker
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I38",
    seen="placement forgets that workers share a host: one power supply, two replicas",
    family="workers",
)
def placement_forgets_the_host() -> Patches:
    original = placement.place_from_emptiest

    def place(brokers: Sequence[PlacementBroker], **counts: Any) -> Assignment:
        return original([broker._replace(owner_id=None) for broker in brokers], **counts)

    return [(topics, "place_from_emptiest", place)]


@plant(breaks="I38", seen="a move by hand puts two replicas on workers of one broker", family="workers")
def move_by_hand_forgets_the_host() -> Patches:
    def crowding_fault(image: ClusterImage, replicas: Iterable[int]) -> str | None:
        return None

    return [(owner, "crowding_fault", crowding_fault) for owner in (reassignment, topics)]
