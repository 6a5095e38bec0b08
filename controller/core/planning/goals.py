"""The goals that an operator may set for a plan. Names and fields are stable: plans are stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from springtide.contract.partition_state import PartitionKey


class RebalanceMode(StrEnum):
    #: Every broker that takes replicas gives and receives.
    FULL = "full"
    #: Only the brokers named receive: the first thing after adding some.
    NEW_ONLY = "new_only"


class Rebalance(msgspec.Struct, frozen=True, kw_only=True, tag="rebalance"):
    """Replicas within one of each other on all brokers that take them, then leaders. Replicas that stand too
    close are separated first, and brokers that are draining are emptied.

    new_broker_ids: with NEW_ONLY, who receives. disk_permille: most bytes of a broker, in thousandths of the
    mean, as far as counts allow; unset, as in plans that were stored before it was there: bytes do not count.
    drain_ids: brokers that are emptied by the same plan. floor_permille: nothing moves only to be more even
    while no broker is farther from the mean than this part of it. floor_bytes: the same, above that of bytes.
    """

    mode: RebalanceMode = RebalanceMode.FULL
    new_broker_ids: tuple[int, ...] = ()
    disk_permille: int | msgspec.UnsetType = msgspec.UNSET
    drain_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    floor_permille: int | msgspec.UnsetType = msgspec.UNSET
    floor_bytes: int | msgspec.UnsetType = msgspec.UNSET


#: What rebalances aim at unless the operator says otherwise.
DISK_PERMILLE: Final = 1_100


class Drain(msgspec.Struct, frozen=True, kw_only=True, tag="drain"):
    """Empty these brokers. Only what they hold is copied. Leaders that were balanced stay so."""

    broker_ids: tuple[int, ...]


class Replace(msgspec.Struct, frozen=True, kw_only=True, tag="replace"):
    """`replacement` takes every place of `broker_id`, in the same order of preference."""

    broker_id: int
    replacement: int


class ChangeReplicationFactor(msgspec.Struct, frozen=True, kw_only=True, tag="change_replication_factor"):
    topic_id: str
    replication_factor: int


class PlacePartitions(msgspec.Struct, frozen=True, kw_only=True, tag="place_partitions"):
    """Place the new partitions of a topic. partitions: how many it shall have in all."""

    topic_id: str
    partitions: int


class Weight(StrEnum):
    """A weight to even out over brokers. REPLICAS, DISK and BYTES_IN lie on every replica's broker, the
    others on the preferred leader's. BYTES_IN and BYTES_OUT are measured, in bytes a second."""

    REPLICAS = "replicas"
    LEADERS = "leaders"
    DISK = "disk"
    BYTES_IN = "bytes_in"
    LEADER_BYTES_IN = "leader_bytes_in"
    #: To followers and consumers.
    BYTES_OUT = "bytes_out"


class EvenOut(msgspec.Struct, frozen=True, kw_only=True, tag="even_out"):
    """No broker carries more than the target of any of these weights, with few bytes copied.

    target_permille: the highest load of a broker, in thousandths of the mean. bytes_max: copied by all moves
    together; None: any number. moves_max: partitions that may change.
    """

    weights: tuple[Weight, ...]
    target_permille: int = 1_100
    bytes_max: int | None = None
    moves_max: int = 10_000


class Relieve(msgspec.Struct, frozen=True, kw_only=True, tag="relieve"):
    """Use the disk of one broker to `used_percent` at most, with few bytes copied; no other disk to more."""

    broker_id: int
    used_percent: int


class SeparateReplicas(msgspec.Struct, frozen=True, kw_only=True, tag="separate_replicas"):
    """Replicas that share a host, or a rack, although they need not, are moved apart. Nothing else moves."""


class WantedAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """replicas: preferred leader first."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.partition)


class Assign(msgspec.Struct, frozen=True, kw_only=True, tag="assign"):
    """Replicas as an operator wrote them down; checked, ordered and priced."""

    assignments: tuple[WantedAssignment, ...]


Goal = (
    Rebalance
    | EvenOut
    | Relieve
    | Drain
    | Replace
    | ChangeReplicationFactor
    | PlacePartitions
    | SeparateReplicas
    | Assign
)
