"""Bugs of what operators do: replicas moved, settings changed."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.core import assignment, isr, minimum, reassignment
from controller.core.assignment import Obstacle
from controller.core.image import ClusterImage
from springtide.contract.partition_state import PartitionState
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I1", seen="a replica that was removed and added again keeps its position (S26)", scenario="S26"
)
def dropped_replica_leaves_the_leader_epoch() -> Patches:
    original = assignment._reshaped

    def reshaped(image: ClusterImage, state: PartitionState, **shape: Any) -> PartitionState | Obstacle:
        after = original(image, state, **shape)
        if isinstance(after, Obstacle) or after.leader != state.leader:
            return after
        return msgspec.structs.replace(after, leader_epoch=state.leader_epoch)

    return [(assignment, "_reshaped", reshaped)]


@plant(
    breaks="I2", seen="KIP-966 without the minimum in the state: it falls, and the ELR stays", scenario="S12"
)
def lower_minimum_keeps_the_elr() -> Patches:
    original = minimum.with_minimum

    def with_minimum(state: PartitionState, wanted: int) -> PartitionState:
        return msgspec.structs.replace(original(state, wanted), elr=state.elr)

    return [(minimum, "with_minimum", with_minimum)]


@plant(
    breaks="4.4",
    seen="KIP-455: a cancellation while the original replicas are down loses what the new ones have (S25)",
    scenario="S25",
)
def cancelled_at_any_time() -> Patches:
    original = assignment.rolled_back

    def rolled_back(image: ClusterImage, state: PartitionState) -> PartitionState | Obstacle:
        after = original(image, msgspec.structs.replace(state, min_insync_replicas=0))
        if isinstance(after, Obstacle):
            return after
        return msgspec.structs.replace(after, min_insync_replicas=state.min_insync_replicas)

    return [(reassignment, "rolled_back", rolled_back)]


@plant(
    breaks="4.2",
    seen="KAFKA-15665: a move ends before all of its targets are in sync",
    scenario="S25",
)
def ends_with_the_minimum_in_sync() -> Patches:
    original = assignment.completed

    def completed(image: ClusterImage, state: PartitionState) -> PartitionState | None:
        there = [b for b in state.target_replicas if b in state.isr]
        if not state.is_reassigning or len(there) < state.min_insync_replicas:
            return original(image, state)
        after = original(image, msgspec.structs.replace(state, isr=state.replicas))
        if after is None:
            return None
        return msgspec.structs.replace(after, isr=tuple(b for b in after.replicas if b in state.isr))

    return [(owner, "completed", completed) for owner in (assignment, isr, reassignment)]


@plant(breaks="4.2", seen="KIP-73: throttles stay until somebody takes them away", scenario="S25")
def rate_outlives_its_move() -> Patches:
    original = assignment._reshaped

    def reshaped(image: ClusterImage, state: PartitionState, **shape: Any) -> PartitionState | Obstacle:
        after = original(image, state, **shape)
        if isinstance(after, Obstacle):
            return after
        return msgspec.structs.replace(after, throttle=state.throttle)

    return [(assignment, "_reshaped", reshaped)]
