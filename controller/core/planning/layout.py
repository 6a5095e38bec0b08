"""The board that a plan is worked out on: who holds what, changed replica by replica; what a goal lets be
moved on it, and how long may be searched.

Brokers and partitions are numbered from 0 here, brokers by ascending id. It also knows how close replicas
stand, counted in pairs: first pairs on one host, then pairs in one rack. Hosts are parts of racks; a host
whose brokers name no rack is a rack of its own, as in placement.py. What operators call a broker may have
several workers, each of them a broker here: they are of one host, and no two of them hold one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controller.core.planning.plan import MoveReason, RejectionCode
from controller.core.planning.snapshot import BrokerSnapshot, PartitionSnapshot, Snapshot
from springtide.contract.partition_state import NO_LEADER

Crowding = tuple[int, int]


class Layout:
    """replicas: brokers of each partition, changed by the methods below only. original: as found.
    size: of one replica in bytes, estimated where it was not reported. held: what each broker holds, as an
    ordered set. locked: partitions that can't be touched, and why. serves: brokers whose load counts.
    gives: those that are part of a balance. receives: those of them that replicas may come to.
    leads, room, disk: as in BrokerSnapshot. owner: the id of the broker whose worker each is.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        brokers = _with_unregistered(snapshot)
        self.broker_ids = [broker.broker_id for broker in brokers]
        self.index = {broker_id: at for at, broker_id in enumerate(self.broker_ids)}
        self.gives = [broker.receives and not broker.leaving for broker in brokers]
        self.receives = [
            gives and (snapshot.destinations is None or broker.broker_id in snapshot.destinations)
            for broker, gives in zip(brokers, self.gives, strict=True)
        ]
        self.leaving = [broker.leaving for broker in brokers]
        self.serves = [broker.serves and not broker.leaving for broker in brokers]
        self.leads = [broker.serves and broker.leads and not broker.leaving for broker in brokers]
        self.room = [broker.room_bytes for broker in brokers]
        self.disk = [broker.disk for broker in brokers]
        #: Bytes that the plan brings to each broker, without what it takes away.
        self.coming = [0] * len(brokers)
        self.owner = [broker.owner_id for broker in brokers]
        self._has_workers = len(set(self.owner)) < len(self.owner)
        self.host, self.rack = _domains(brokers)
        self.partitions = snapshot.partitions
        self.original = [tuple(self.index[b] for b in p.replicas) for p in snapshot.partitions]
        self.replicas = [list(replicas) for replicas in self.original]
        self.size = estimate_sizes(snapshot.partitions)
        self.locked = {
            number: code for number, p in enumerate(snapshot.partitions) if (code := lock_of(p)) is not None
        }
        self.unlocked = [number for number in range(len(self.partitions)) if number not in self.locked]
        self.held: list[dict[int, None]] = [{} for _ in brokers]
        #: Replicas, and bytes, on each broker.
        self.load = [0] * len(brokers)
        self.stored = [0] * len(brokers)
        for number, replicas in enumerate(self.replicas):
            for broker in replicas:
                self._hold(number, broker)
        #: Why each changed partition was changed, in the order of the reasons.
        self.touched: dict[int, dict[MoveReason, None]] = {}

    # --- changing it ------------------------------------------------------------------------------------

    def move(self, number: int, source: int, target: int, reason: MoveReason) -> None:
        replicas = self.replicas[number]
        assert target not in replicas
        replicas[replicas.index(source)] = target
        self._take(number, source)
        self._put(number, target)
        self.touched.setdefault(number, {})[reason] = None

    def add(self, number: int, target: int, reason: MoveReason) -> None:
        assert target not in self.replicas[number]
        self.replicas[number].append(target)
        self._put(number, target)
        self.touched.setdefault(number, {})[reason] = None

    def remove(self, number: int, source: int, reason: MoveReason) -> None:
        self.replicas[number].remove(source)
        self._take(number, source)
        self.touched.setdefault(number, {})[reason] = None

    def lead(self, number: int, target: int, reason: MoveReason) -> None:
        """Let the replica on `target` and the preferred leader change places."""
        replicas = self.replicas[number]
        at = replicas.index(target)
        replicas[0], replicas[at] = target, replicas[0]
        self.touched.setdefault(number, {})[reason] = None

    def lay(self, number: int, wanted: Sequence[int], reason: MoveReason) -> None:
        """Give the partition exactly these replicas, in this order."""
        replicas = self.replicas[number]
        for broker in wanted:
            if broker not in replicas:
                self._put(number, broker)
        for broker in replicas:
            if broker not in wanted:
                self._take(number, broker)
        replicas[:] = wanted
        self.touched.setdefault(number, {})[reason] = None

    def settle_order(self) -> None:
        """Put the replicas in order: those that stay keep their position, each new one takes that of one that
        leaves."""
        for number in self.touched:
            now, before = self.replicas[number], self.original[number]
            kept = set(now).intersection(before)
            coming = sorted(set(now).difference(before), reverse=True)
            order = [b if b in kept else coming.pop() for b in before if b in kept or coming]
            self.replicas[number] = order + coming[::-1]

    def _hold(self, number: int, broker: int) -> None:
        self.held[broker][number] = None
        self.load[broker] += 1
        self.stored[broker] += self.size[number]

    def _put(self, number: int, broker: int) -> None:
        self._hold(number, broker)
        self.coming[broker] += 0 if broker in self.original[number] else self.size[number]

    def _take(self, number: int, broker: int) -> None:
        self.coming[broker] -= 0 if broker in self.original[number] else self.size[number]
        del self.held[broker][number]
        self.load[broker] -= 1
        self.stored[broker] -= self.size[number]

    # --- asking -----------------------------------------------------------------------------------------

    @property
    def givers(self) -> frozenset[int]:
        """The brokers that are part of a balance."""
        return frozenset(broker for broker, gives in enumerate(self.gives) if gives)

    @property
    def takers(self) -> frozenset[int]:
        """The brokers that may be given replicas."""
        return frozenset(broker for broker, receives in enumerate(self.receives) if receives)

    def is_newcomer(self, number: int, broker: int) -> bool:
        """Return whether the plan has put the replica on this broker: moving it on costs nothing more."""
        return broker not in self.original[number]

    def weight(self, number: int, broker: int) -> int:
        """Bytes that moving this replica adds to the plan, wherever it goes that it was not before."""
        return self.size[number] if broker in self.original[number] else 0

    def fits(self, number: int, broker: int) -> bool:
        """Return whether the broker's disk has room for a replica, without counting on what leaves it. What
        it held before the plan it may have back."""
        room = self.room[broker]
        if room is None or self.coming[broker] + self.size[number] <= room:
            return True
        return broker in self.original[number]

    def crowding(self, replicas: Iterable[int], broker: int) -> Crowding:
        """Pairs that a replica on `broker` makes with the others."""
        host, rack = self.host[broker], self.rack[broker]
        on_host = in_rack = 0
        for other in replicas:
            if other != broker and self.rack[other] == rack:
                in_rack += 1
                on_host += self.host[other] == host
        return on_host, in_rack

    def is_barred(self, replicas: Iterable[int], broker: int) -> bool:
        """Return whether the broker may not join these: one of them is it, or a worker of the same broker."""
        owner = self.owner[broker]
        return any(self.owner[other] == owner for other in replicas)

    def is_as_apart(self, number: int, source: int, target: int) -> bool:
        """Return whether `target` may hold the replica of `source` without standing closer to the others."""
        replicas = self.replicas[number]
        if target in replicas:
            return False
        if self._has_workers and self.is_barred((b for b in replicas if b != source), target):
            return False
        rack = self.rack
        if rack[source] == rack[target] and self.host[source] == self.host[target]:
            return True
        others = [b for b in replicas if b != source]
        there = rack[target]
        for other in others:
            if rack[other] == there:
                return self.crowding(others, target) <= self.crowding(others, source)
        return True

    def has_room(self, number: int, source: int, target: int) -> bool:
        """Return whether the rack of `target` has room for the replica of `source`; the host may not."""
        others = [b for b in self.replicas[number] if b != source]
        on_host, in_rack = self.crowding(others, source)
        return on_host > 0 or sum(self.rack[b] == self.rack[target] for b in others) <= in_rack

    def pairs(self, replicas: Sequence[int]) -> Crowding:
        """All pairs on one host, and in one rack, among `replicas`."""
        racks = {self.rack[b] for b in replicas}
        if len(racks) == len(replicas):
            return 0, 0
        found = [self.crowding(replicas[:at], replicas[at]) for at in range(1, len(replicas))]
        return sum(pair[0] for pair in found), sum(pair[1] for pair in found)

    def ideal_pairs(self, count: int, allowed: Iterable[int], staying: Sequence[int] = ()) -> Crowding:
        """The fewest that so many replicas can make: those that are `staying`, and the others on `allowed`
        brokers. Choosing one by one is enough: hosts lie within racks."""
        chosen = list(staying)
        left = [b for b in sorted(allowed) if not self.is_barred(chosen, b)]
        while len(chosen) < count and left:
            best = min(left, key=lambda b: (self.crowding(chosen, b), b))
            chosen.append(best)
            left = [b for b in left if self.owner[b] != self.owner[best]]
        return self.pairs(chosen)


class Ideal:
    """The fewest pairs on a host and in a rack that replicas must form. Those on `allowed` brokers may move
    among these, those on leaving brokers go there too, and others (on a cordoned broker, say) stay in place.
    Remembered, because most partitions are alike."""

    __slots__ = ("_allowed", "_known", "_layout")

    def __init__(self, layout: Layout, allowed: Iterable[int]) -> None:
        self._layout = layout
        self._allowed = frozenset(allowed)
        self._known: dict[tuple[int, tuple[int, ...]], Crowding] = {}

    def of(self, replicas: Sequence[int]) -> Crowding:
        staying = tuple(sorted(b for b in replicas if b not in self._allowed and not self._layout.leaving[b]))
        key = (len(replicas), staying)
        if key not in self._known:
            self._known[key] = self._layout.ideal_pairs(len(replicas), self._allowed, staying)
        return self._known[key]


class Freedom(NamedTuple):
    """donors: may give up replicas that they had. receivers: may be given some. What the plan itself has
    placed may always move on, and a donor may have back what it had."""

    donors: frozenset[int]
    receivers: frozenset[int]

    @property
    def brokers(self) -> list[int]:
        return sorted(self.donors | self.receivers)

    def may_leave(self, layout: Layout, number: int, broker: int) -> bool:
        if number in layout.locked:
            return False
        return broker in self.donors or layout.is_newcomer(number, broker)

    def may_receive(self, layout: Layout, number: int, broker: int) -> bool:
        return broker in self.receivers or (broker in self.donors and broker in layout.original[number])


class Effort:
    """A bound on a search, counted in looks and not in seconds, so that a plan is the same everywhere."""

    __slots__ = ("left",)

    def __init__(self, looks_max: int) -> None:
        self.left = looks_max

    def spend(self, looks: int) -> bool:
        """Take from the budget; return False if nothing is left."""
        self.left -= looks
        return self.left >= 0


def lock_of(partition: PartitionSnapshot) -> RejectionCode | None:
    """Return why a partition can't be moved now."""
    if partition.is_reassigning:
        return RejectionCode.REASSIGNMENT_RUNNING
    if partition.leader == NO_LEADER:
        return RejectionCode.LEADERLESS
    return RejectionCode.LEADER_RECOVERING if partition.is_recovering else None


def estimate_sizes(partitions: Sequence[PartitionSnapshot]) -> list[int]:
    """Bytes of one replica. Unreported: the mean of what is reported, or 1, so that the number of copies is
    what counts. An empty log counts as one byte: it costs a move all the same."""
    known = [p.size_bytes for p in partitions if p.size_bytes is not None]
    mean = max(sum(known) // len(known), 1) if known else 1
    return [mean if p.size_bytes is None else max(p.size_bytes, 1) for p in partitions]


def _with_unregistered(snapshot: Snapshot) -> list[BrokerSnapshot]:
    """Replicas may name brokers that are forgotten, or not admitted."""
    brokers = {broker.broker_id: broker for broker in snapshot.brokers}
    for partition in snapshot.partitions:
        for broker_id in partition.replicas:
            if broker_id not in brokers:
                brokers[broker_id] = BrokerSnapshot(
                    broker_id=broker_id, host=f"unregistered broker {broker_id}", receives=False, serves=False
                )
    return [brokers[broker_id] for broker_id in sorted(brokers)]


def _domains(brokers: Sequence[BrokerSnapshot]) -> tuple[list[int], list[int]]:
    """The host and the rack of each, as numbers. Workers of one broker are on the host that the first names,
    and a host belongs to the rack that its first broker names."""
    host_of_owner: dict[int, str] = {}
    names = [host_of_owner.setdefault(broker.owner_id, broker.host) for broker in brokers]
    rack_of_host: dict[str, str] = {}
    for name, broker in zip(names, brokers, strict=True):
        if broker.rack is not None:
            rack_of_host.setdefault(name, f"rack:{broker.rack}")
    hosts: dict[str, int] = {}
    racks: dict[str, int] = {}
    host = [hosts.setdefault(name, len(hosts)) for name in names]
    rack = [racks.setdefault(rack_of_host.get(name, f"host:{name}"), len(racks)) for name in names]
    return host, rack
