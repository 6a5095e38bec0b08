"""The board that moves are searched on: who holds what, as arrays, changed replica by replica. Pure; numpy.

Brokers and partitions are numbered from 0 here. Brokers that partitions name and nobody knows stand at the
end: they serve nothing, receive nothing, and share no host or rack with anybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.plan.load import Floats, LoadModel
from pipeline.plan.placement import Domains, Limits, Move, room_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NOBODY = -1
_HOST_PAIR = 1 << 20
"""A pair on one host weighs more than any number of pairs in one rack."""


class Board:
    """replicas: broker by partition and place, shape (partitions, largest factor), padded with NOBODY.
    loads: shape (brokers, resources). coming: bytes that moves bring to each broker; copied: to all."""

    def __init__(self, model: LoadModel, limits: Limits) -> None:
        placement = model.placement
        self.model = model
        self.limits = limits
        ids = [broker.broker_id for broker in placement.brokers]
        strangers = sorted({b for p in placement.partitions for b in p.replicas}.difference(ids))
        self.broker_ids = [*ids, *strangers]
        index = {broker_id: at for at, broker_id in enumerate(self.broker_ids)}
        self.host, self.rack = _domain_codes(Domains(placement.brokers), self.broker_ids)

        def flags(values: Sequence[bool]) -> Bools:
            return np.array([*values, *(False for _ in strangers)], dtype=np.bool_)

        self.serves = flags([broker.is_serving for broker in placement.brokers])
        self.receives = flags([b.receives and b.is_serving for b in placement.brokers])
        self.leads = flags([b.leads and b.is_serving for b in placement.brokers])
        unbounded = np.iinfo(np.int64).max
        self.room: Ints = np.array(
            [
                *(
                    unbounded if b.free_bytes is None else room_of(b.free_bytes, limits)
                    for b in placement.brokers
                ),
                *(0 for _ in strangers),
            ],
            dtype=np.int64,
        )
        partitions = placement.partitions
        width = max((len(p.replicas) for p in partitions), default=1)
        self.replicas: Ints = np.full((len(partitions), width), NOBODY, dtype=np.int64)
        for number, partition in enumerate(partitions):
            self.replicas[number, : len(partition.replicas)] = [index[b] for b in partition.replicas]
        self.original = self.replicas.copy()
        self.size: Ints = np.array([p.size_bytes or 0 for p in partitions], dtype=np.int64)
        #: Also what is not wholly in sync: its repair comes first, and any replica of the rest may lead.
        self.unlocked: Bools = np.array(
            [p.locked is None and set(p.replicas) <= set(p.isr) for p in partitions], dtype=np.bool_
        )
        self.loads: Floats = np.zeros((len(self.broker_ids), model.follower.shape[1]))
        self.loads[: len(ids)] = model.loads([p.replicas for p in partitions])
        self.coming: Ints = np.zeros(len(self.broker_ids), dtype=np.int64)
        self.copied = 0
        self.changed: set[int] = set()

    # --- looking ----------------------------------------------------------------------------------------

    def held_by(self, broker: int) -> tuple[Ints, Ints]:
        """Partitions that may change and that the broker holds, and the place it has in each."""
        numbers, places = np.nonzero(self.replicas == broker)
        may = self.unlocked[numbers]
        if len(self.changed) >= self.limits.moves_max:
            may &= np.isin(numbers, np.fromiter(self.changed, dtype=np.int64))
        return numbers[may], places[may]

    def vectors(self, numbers: Ints, places: Ints) -> Floats:
        """What these replicas load their brokers with, shape (replicas, resources)."""
        leading = np.where((places == 0)[:, None], self.model.leading[numbers], 0.0)
        vectors: Floats = self.model.follower[numbers] + leading
        return vectors

    def is_new(self, numbers: Ints, brokers: Ints) -> Bools:
        """Whether each broker had no replica of each partition at first; shapes are broadcast."""
        had = self.original[numbers]
        new: Bools = (had[:, None, :] != brokers[:, :, None]).all(axis=2)
        return new

    def added_bytes(self, numbers: Ints, source: int, targets: Ints) -> Ints:
        """Bytes more that are copied when replicas go from `source` to each target, shape (replicas,
        targets). Moving a newcomer on costs nothing more, taking one home saves its copy."""
        to = np.broadcast_to(targets, (len(numbers), len(targets)))
        back = self.is_new(numbers, np.full((len(numbers), 1), source, dtype=np.int64))
        added: Ints = self.size[numbers][:, None] * (
            self.is_new(numbers, to).astype(np.int64) - back.astype(np.int64)
        )
        return added

    def may_move(self, numbers: Ints, places: Ints, source: int, targets: Ints) -> Bools:
        """By the hard rules, for each replica and target; the budget of bytes is another question."""
        held = self.replicas[numbers]
        allowed: Bools = np.broadcast_to(self.receives[targets], (len(numbers), len(targets))).copy()
        allowed &= (held[:, None, :] != targets[None, :, None]).all(axis=2)
        allowed &= self.leads[targets][None, :] | (places != 0)[:, None]
        others = held.copy()
        others[np.arange(len(numbers)), places] = NOBODY
        here = self._crowding(others, np.array([source], dtype=np.int64))
        allowed &= self._crowding(others, targets) <= here
        to = np.broadcast_to(targets, (len(numbers), len(targets)))
        arriving = np.where(self.is_new(numbers, to), self.size[numbers][:, None], 0)
        allowed &= (arriving == 0) | (arriving <= (self.room - self.coming)[targets][None, :])
        return allowed

    def _crowding(self, others: Ints, targets: Ints) -> Ints:
        """Pairs that a replica on each target makes with the others, hosts weighing more."""
        is_there = (others != NOBODY)[:, None, :]
        same_rack = (self.rack[others][:, None, :] == self.rack[targets][None, :, None]) & is_there
        same_host = (self.host[others][:, None, :] == self.host[targets][None, :, None]) & is_there
        pairs: Ints = same_rack.sum(axis=2) + _HOST_PAIR * same_host.sum(axis=2)
        return pairs

    # --- changing ---------------------------------------------------------------------------------------

    def move(self, number: int, place: int, target: int) -> None:
        """The replica at this place to another broker."""
        source = int(self.replicas[number, place])
        had = self.original[number]
        size = int(self.size[number])
        vector = self.model.follower[number] + (self.model.leading[number] if place == 0 else 0.0)
        self.loads[source] -= vector
        self.loads[target] += vector
        if target not in had:
            self.coming[target] += size
            self.copied += size
        if source not in had:
            self.coming[source] -= size
            self.copied -= size
        self.replicas[number, place] = target
        self._note(number)

    def lead(self, number: int, place: int) -> None:
        """The replica at this place becomes the preferred leader, and the leader takes its place."""
        leader, heir = int(self.replicas[number, 0]), int(self.replicas[number, place])
        self.loads[leader] -= self.model.leading[number]
        self.loads[heir] += self.model.leading[number]
        self.replicas[number, 0], self.replicas[number, place] = heir, leader
        self._note(number)

    def take_back(self, number: int) -> None:
        """The partition as it was at first."""
        now, had = self.replicas[number].tolist(), self.original[number].tolist()
        follower, leading = self.model.follower[number], self.model.leading[number]
        size = int(self.size[number])
        for broker in now:
            if broker != NOBODY:
                self.loads[broker] -= follower
                if broker not in had:
                    self.coming[broker] -= size
                    self.copied -= size
        for broker in had:
            if broker != NOBODY:
                self.loads[broker] += follower
        self.loads[now[0]] -= leading
        self.loads[had[0]] += leading
        self.replicas[number] = self.original[number]
        self._note(number)

    def _note(self, number: int) -> None:
        if (self.replicas[number] == self.original[number]).all():
            self.changed.discard(number)
        else:
            self.changed.add(number)

    def moves(self) -> tuple[Move, ...]:
        """What has been changed, by topic and number."""
        found = []
        for number in sorted(self.changed):
            partition = self.model.placement.partitions[number]
            after = tuple(self.broker_ids[b] for b in self.replicas[number].tolist() if b != NOBODY)
            added = len(set(after).difference(partition.replicas))
            found.append(Move(partition, after, bytes=added * int(self.size[number])))
        return tuple(found)


def _domain_codes(domains: Domains, broker_ids: Sequence[int]) -> tuple[Ints, Ints]:
    """Hosts and racks as numbers; one more entry at the end, for NOBODY."""
    codes = []
    for names in (domains.host, domains.rack):
        numbers: dict[str, int] = {}
        found = [
            numbers.setdefault(names.get(broker_id, f"broker {broker_id}"), len(numbers))
            for broker_id in broker_ids
        ]
        codes.append(np.array([*found, NOBODY], dtype=np.int64))
    return codes[0], codes[1]
