"""The weights of each partition on its brokers: one replica, half a gigabyte, so many bytes a second.

Every weight lies either on all replicas' brokers or on the preferred leader's, and adds up over partitions.
Whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from controller.core.planning.goals import Weight
from controller.core.planning.layout import Layout
from controller.core.planning.plan import Load
from controller.core.planning.snapshot import Rates
from springtide.contract.partition_state import PartitionKey

RATES: Final = frozenset((Weight.BYTES_IN, Weight.LEADER_BYTES_IN, Weight.BYTES_OUT))
#: Means over brokers, in bytes or bytes a second, below which evening out is not worth a copy.
NEGLIGIBLE: Final[Mapping[Weight, int]] = dict.fromkeys(RATES, 1024) | {Weight.DISK: 1024**2}
_IDLE: Final = Rates()

_MEAN: Final = 100_000

Vector = tuple[int, ...]
#: What one replica of a partition counts, and what its leader counts besides.
PartsOf = Callable[[PartitionKey], tuple[Vector, Vector]]


class Weighing:
    """weights: those that are known. replica: what each partition weighs on the broker of any replica, by
    weight. leader: what it weighs on the preferred leader's besides."""

    __slots__ = ("_found", "leader", "replica", "weights")

    def __init__(self, layout: Layout, rates: Mapping[PartitionKey, Rates] | None) -> None:
        """rates: None if they are not known; then weights that are rates aren't either."""
        self.weights = tuple(weight for weight in Weight if rates is not None or weight not in RATES)
        measured = [(rates or {}).get(partition.key, _IDLE) for partition in layout.partitions]
        bytes_in = [found.bytes_in for found in measured]
        bytes_out = [
            found.bytes_out + found.bytes_in * (len(replicas) - 1)
            for found, replicas in zip(measured, layout.original, strict=True)
        ]
        none = [0] * len(measured)
        one = [1] * len(measured)
        columns = {
            Weight.REPLICAS: (one, none),
            Weight.LEADERS: (none, one),
            Weight.DISK: (layout.size, none),
            Weight.BYTES_IN: (bytes_in, none),
            Weight.LEADER_BYTES_IN: (none, bytes_in),
            Weight.BYTES_OUT: (none, bytes_out),
        }
        self.replica: list[Vector] = list(zip(*(columns[w][0] for w in self.weights), strict=True))
        self.leader: list[Vector] = list(zip(*(columns[w][1] for w in self.weights), strict=True))
        self._found = [[0] * len(self.weights) for _ in layout.broker_ids]
        for number, replicas in enumerate(layout.original):
            self._put(self._found, number, replicas, 1)

    def loads(self, layout: Layout, changed: Iterable[int] = ()) -> list[list[int]]:
        """Return each broker's load by weight: as found, with the `changed` partitions as they are now."""
        loads = [list(load) for load in self._found]
        for number in changed:
            self._put(loads, number, layout.original[number], -1)
            self._put(loads, number, layout.replicas[number], 1)
        return loads

    def _put(self, loads: list[list[int]], number: int, replicas: Sequence[int], sign: int) -> None:
        vector = self.replica[number]
        for broker in replicas:
            load = loads[broker]
            for at, value in enumerate(vector):
                load[at] += sign * value
        load = loads[replicas[0]]
        for at, value in enumerate(self.leader[number]):
            load[at] += sign * value

    def levels(self, layout: Layout, changed: Iterable[int] = ()) -> tuple[Load, ...]:
        """Return the distribution of each weight over the brokers that serve."""
        loads = self.loads(layout, changed)
        serving = [broker for broker, serves in enumerate(layout.serves) if serves]
        found = []
        for at, weight in enumerate(self.weights):
            highest = max(serving, key=lambda broker: (loads[broker][at], -broker), default=None)
            found.append(
                Load(
                    weight=weight,
                    total=sum(loads[broker][at] for broker in serving),
                    highest=0 if highest is None else loads[highest][at],
                    brokers=len(serving),
                    broker_id=None if highest is None else layout.broker_ids[highest],
                )
            )
        return tuple(found)

    def parts(self, layout: Layout, weights: Iterable[Weight]) -> PartsOf:
        """Return what order_moves counts: these weights, in hundred-thousandths of a broker's mean."""
        wanted = frozenset(weights)
        scales = [
            (_MEAN * load.brokers if load.weight in wanted else 0, max(load.total, 1))
            for load in self.levels(layout)
        ]
        numbers = {layout.partitions[number].key: number for number in layout.touched}

        def scaled(vector: Vector) -> Vector:
            return tuple(value * of // whole for value, (of, whole) in zip(vector, scales, strict=True))

        def parts_of(key: PartitionKey) -> tuple[Vector, Vector]:
            number = numbers[key]
            return scaled(self.replica[number]), scaled(self.leader[number])

        return parts_of
