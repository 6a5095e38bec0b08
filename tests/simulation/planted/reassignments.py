"""Bugs of what operators do: replicas moved, settings changed."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.contract.partition_state import PartitionState
from controller.core import assignment, minimum
from controller.core.assignment import Obstacle
from controller.core.image import ClusterImage
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
