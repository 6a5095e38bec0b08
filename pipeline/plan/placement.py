"""Brokers and partitions as the controller tells of them, and what may be done with them. Pure values.

Hosts are parts of racks, as in docs/planning.md: a host whose brokers name no rack is a rack of its own. How
close replicas stand is counted in pairs, on one host first, then in one rack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Crowding = tuple[int, int]
"""(pairs on one host, pairs in one rack)."""


class Broker(NamedTuple):
    """is_serving: its load counts, and may leave it. receives: may be given replicas that it does not have.
    leads: may be given leaderships. free_bytes: of its disk; None: not known."""

    broker_id: int
    host: str
    rack: str | None = None
    is_serving: bool = True
    receives: bool = True
    leads: bool = True
    free_bytes: int | None = None


class Partition(NamedTuple):
    """replicas: the preferred leader first. size_bytes: of one replica; None: no leader has reported it.
    locked: why it must stay as it is, or None."""

    topic: str
    topic_id: str
    partition: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    size_bytes: int | None = None
    locked: str | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Placement(NamedTuple):
    """brokers: by ascending id. partitions: by topic and number."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]


class Domains:
    """The host and the rack of each broker, and how close replicas stand."""

    def __init__(self, brokers: Iterable[Broker]) -> None:
        known = sorted(brokers)
        rack_of_host: dict[str, str] = {}
        for broker in known:
            if broker.rack is not None:
                rack_of_host.setdefault(broker.host, f"rack {broker.rack}")
        self.host: Mapping[int, str] = {broker.broker_id: broker.host for broker in known}
        self.rack: Mapping[int, str] = {
            broker.broker_id: rack_of_host.get(broker.host, f"host {broker.host}") for broker in known
        }

    def pairs(self, replicas: Sequence[int]) -> Crowding:
        """All pairs on one host, and in one rack. A broker that nobody knows stands alone."""
        on_host = in_rack = 0
        for at, one in enumerate(replicas):
            for other in replicas[:at]:
                on_host += one in self.host and self.host[one] == self.host.get(other)
                in_rack += one in self.rack and self.rack[one] == self.rack.get(other)
        return on_host, in_rack


class Move(NamedTuple):
    """One partition's new replicas, the preferred leader first. bytes: that the newcomers copy."""

    partition: Partition
    replicas: tuple[int, ...]
    bytes: int

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.partition.replicas)

    @property
    def changes_leader(self) -> bool:
        return self.replicas[0] != self.partition.replicas[0]


class Limits(NamedTuple):
    """bytes_max: copied by all moves together; None: any number. disk_reserve: the part of a broker's free
    bytes that moves must leave free. moves_max: partitions that may change."""

    bytes_max: int | None = None
    disk_reserve: float = 0.2
    moves_max: int = 10_000


def broken_rules(placement: Placement, moves: Sequence[Move], limits: Limits) -> list[str]:
    """What is wrong with these moves by the hard rules, one line each; empty: nothing.

    Written from the rules and not from the search, partition by partition: it is what the search is checked
    by, in tests and each time before something is proposed.
    """
    brokers = {broker.broker_id: broker for broker in placement.brokers}
    domains = Domains(placement.brokers)
    known = {(p.topic_id, p.partition): p for p in placement.partitions}
    coming = dict.fromkeys(brokers, 0)
    wrong = []
    seen = set()
    for move in moves:
        partition, after = move.partition, move.replicas
        key = (partition.topic_id, partition.partition)
        if known.get(key) != partition or key in seen:
            wrong.append(f"{partition.name}: named twice, or not as it is")
            continue
        seen.add(key)
        before = partition.replicas
        if partition.locked is not None:
            wrong.append(f"{partition.name}: {partition.locked}")
        if len(set(after)) != len(after) or len(after) != len(before):
            wrong.append(f"{partition.name}: {list(after)} in the place of {list(before)}")
        for broker_id in move.adding:
            if broker_id not in brokers or not brokers[broker_id].receives:
                wrong.append(f"{partition.name}: broker {broker_id} takes no replicas")
            else:
                coming[broker_id] += partition.size_bytes or 0
        if move.changes_leader:
            heir = after[0]
            if heir not in brokers or not brokers[heir].leads:
                wrong.append(f"{partition.name}: broker {heir} is to lead nothing")
            if heir in before and heir not in partition.isr:
                wrong.append(f"{partition.name}: broker {heir} is not in sync")
        if domains.pairs(after) > domains.pairs(before):
            wrong.append(f"{partition.name}: {list(after)} stand closer together than {list(before)}")
        if move.bytes != len(move.adding) * (partition.size_bytes or 0):
            wrong.append(f"{partition.name}: copies another number of bytes than {move.bytes}")
    for broker_id, added in coming.items():
        free = brokers[broker_id].free_bytes
        if added and free is not None and added > room_of(free, limits):
            wrong.append(f"broker {broker_id}: {added} bytes come, and {free} are free")
    total = sum(move.bytes for move in moves)
    if limits.bytes_max is not None and total > limits.bytes_max:
        wrong.append(f"{total} bytes are copied, and {limits.bytes_max} may be")
    if len(moves) > limits.moves_max:
        wrong.append(f"{len(moves)} partitions change, and {limits.moves_max} may")
    return wrong


def room_of(free_bytes: int, limits: Limits) -> int:
    """Bytes that moves may bring to a broker. What leaves it is not counted on: each move stands by itself,
    and old replicas go last."""
    return int(free_bytes * (1.0 - limits.disk_reserve))
