"""What each partition loads its brokers with, and how evenly that lies. Pure; numpy.

Four loads, all additive over replicas (the model of Cruise Control without its guess at processor time):

    disk            bytes of the log           on every replica
    bytes_in        bytes produced a second    on every replica: followers fetch what the leader gets
    leader_bytes_in bytes produced a second    on the leader: it checks, assigns and waits for the others
    bytes_out       bytes sent a second        on the leader: to its followers and to consumers

The leader is the preferred one: placement decides about that, elections come and go. How far a broker is
from even is its load over the mean of all brokers that serve, 1.0 being even.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.plan.placement import Move, Partition, Placement

RESOURCES = ("disk", "bytes_in", "leader_bytes_in", "bytes_out")
DISK, BYTES_IN, LEADER_BYTES_IN, BYTES_OUT = range(len(RESOURCES))
#: Means over brokers, in bytes or bytes a second, below which evening out is not worth a copy.
NEGLIGIBLE: Mapping[str, float] = {
    "disk": 1024.0**2,
    "bytes_in": 1024.0,
    "leader_bytes_in": 1024.0,
    "bytes_out": 1024.0,
}

Floats = npt.NDArray[np.float64]


class Rates(NamedTuple):
    """Of one partition, in bytes a second. bytes_out: to consumers, without followers."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0


class Level(NamedTuple):
    """How one load lies on the brokers that serve. ratio: highest over mean; 0.0: there is no load."""

    resource: str
    mean: float
    highest: float
    broker_id: int
    """That has the highest."""

    @property
    def ratio(self) -> float:
        return self.highest / self.mean if self.mean > 0 else 0.0


class LoadModel:
    """The loads of a placement's partitions, in its order.

    follower: what any replica loads its broker with, shape (partitions, resources). leading: what being
    the leader adds, same shape.
    """

    def __init__(self, placement: Placement, rates: Mapping[tuple[str, int], Rates]) -> None:
        """rates: by topic id and number; a partition without is taken for idle."""
        count = len(placement.partitions)
        self.placement = placement
        self.follower: Floats = np.zeros((count, len(RESOURCES)))
        self.leading: Floats = np.zeros((count, len(RESOURCES)))
        self.without_history = 0
        for number, partition in enumerate(placement.partitions):
            found = rates.get((partition.topic_id, partition.partition))
            if found is None:
                self.without_history += 1
                found = Rates()
            self.follower[number, DISK] = partition.size_bytes or 0
            self.follower[number, BYTES_IN] = found.bytes_in
            self.leading[number, LEADER_BYTES_IN] = found.bytes_in
            replication = found.bytes_in * (len(partition.replicas) - 1)
            self.leading[number, BYTES_OUT] = found.bytes_out + replication

    def loads(self, replicas: Sequence[Sequence[int]]) -> Floats:
        """Of every broker of the placement, shape (brokers, resources), were these the replicas."""
        index = {broker.broker_id: at for at, broker in enumerate(self.placement.brokers)}
        loads: Floats = np.zeros((len(index), len(RESOURCES)))
        for number, held in enumerate(replicas):
            for place, broker_id in enumerate(held):
                if broker_id in index:
                    loads[index[broker_id]] += self.follower[number]
                    if place == 0:
                        loads[index[broker_id]] += self.leading[number]
        return loads

    def levels(self, moves: Sequence[Move] = ()) -> tuple[Level, ...]:
        """How each load lies with these moves made, one for each resource."""
        after = {(m.partition.topic_id, m.partition.partition): m.replicas for m in moves}
        loads = self.loads(
            [after.get((p.topic_id, p.partition), p.replicas) for p in self.placement.partitions]
        )
        serving = [at for at, broker in enumerate(self.placement.brokers) if broker.is_serving]
        found = []
        for at, resource in enumerate(RESOURCES):
            if not serving:
                found.append(Level(resource, 0.0, 0.0, -1))
                continue
            highest = max(serving, key=lambda broker: float(loads[broker, at]))
            found.append(
                Level(
                    resource,
                    mean=float(loads[serving, at].mean()),
                    highest=float(loads[highest, at]),
                    broker_id=self.placement.brokers[highest].broker_id,
                )
            )
        return tuple(found)

    def heaviest(self, resource: int) -> tuple[float, Partition | None]:
        """The largest load that one replica is, which no placement can divide."""
        if not self.placement.partitions:
            return 0.0, None
        each = self.follower[:, resource] + self.leading[:, resource]
        number = int(each.argmax())
        return float(each[number]), self.placement.partitions[number]
