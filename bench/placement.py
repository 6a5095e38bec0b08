"""Placement and plans beside the naive round robin: `python -m bench.placement`.

Naive is what one writes first: brokers in a row, partition i of each topic on broker i and the ones after it,
modulo their number, and the same again over the new row when brokers come or go. Twelve brokers, two on each
host, six hosts in three racks; twenty topics of 25 partitions with three replicas; sizes from 1 to 1,000
units. Nothing is measured here: the figures are the same on every machine.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from controller.core.placement import PlacementBroker, place_from_emptiest
from controller.core.planning.goals import Drain, Goal, Rebalance
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import BrokerSnapshot, PartitionSnapshot, Snapshot

BROKERS: Final = 12
TOPICS: Final = 20
PARTITIONS: Final = 25
REPLICATION_FACTOR: Final = 3
#: Added together, on a host of their own in the first rack.
ADDED: Final = (12, 13)
DRAINED: Final = 3

Assignment = list[tuple[int, ...]]


class Figures(NamedTuple):
    """replicas, leaders: how many more the fullest broker has than the emptiest. on_one_host, in_one_rack:
    partitions with two replicas there, although there is room elsewhere. heir: of the leaders of a broker
    that dies, how many one survivor gets at worst, and how many there are. added, drained: bytes that are
    copied when two brokers join, and when one leaves, in per cent of all."""

    replicas: int
    leaders: int
    on_one_host: int
    in_one_rack: int
    heir: tuple[int, int]
    added: float
    drained: float


def broker(broker_id: int) -> BrokerSnapshot:
    host = broker_id // 2
    return BrokerSnapshot(broker_id=broker_id, host=f"host{host}", rack=f"rack{host % 3}")


def size_of(number: int) -> int:
    return number * 7_919 % 1_000 + 1


def naive(brokers: Sequence[BrokerSnapshot]) -> Assignment:
    ids = [one.broker_id for one in brokers]
    one_topic = [
        tuple(ids[(number + j) % len(ids)] for j in range(REPLICATION_FACTOR)) for number in range(PARTITIONS)
    ]
    return one_topic * TOPICS


def placed(brokers: Sequence[BrokerSnapshot]) -> Assignment:
    """Topic after topic, as the controller creates them."""
    members = [PlacementBroker(one.broker_id, one.host, one.rack) for one in brokers]
    assignment: Assignment = []
    for _ in range(TOPICS):
        held = Counter(b for replicas in assignment for b in replicas)
        preferred = Counter(replicas[0] for replicas in assignment)
        assignment += place_from_emptiest(
            members,
            preferred=[preferred[one.broker_id] for one in members],
            held=[held[one.broker_id] for one in members],
            partitions=PARTITIONS,
            replication_factor=REPLICATION_FACTOR,
        )
    return assignment


def snapshot(brokers: Sequence[BrokerSnapshot], assignment: Assignment) -> Snapshot:
    return Snapshot(
        brokers=tuple(brokers),
        topics=(),
        partitions=tuple(
            PartitionSnapshot(
                topic_id=f"topic-{number // PARTITIONS:02d}",
                topic=f"topic-{number // PARTITIONS:02d}",
                partition=number % PARTITIONS,
                partition_epoch=0,
                replicas=replicas,
                leader=replicas[0],
                isr=replicas,
                min_insync_replicas=2,
                size_bytes=size_of(number),
            )
            for number, replicas in enumerate(assignment)
        ),
    )


def copied(before: Assignment, after: Assignment) -> int:
    return sum(
        size_of(number) * len(set(now).difference(was))
        for number, (was, now) in enumerate(zip(before, after, strict=True))
    )


def figures(brokers: Sequence[BrokerSnapshot], assignment: Assignment, added: int, drained: int) -> Figures:
    """added, drained: bytes copied then."""
    by_id = {one.broker_id: one for one in brokers}
    held = Counter(b for replicas in assignment for b in replicas)
    leads = Counter(replicas[0] for replicas in assignment)
    heirs = Counter(replicas[:2] for replicas in assignment)
    (dead, _), worst = max(heirs.items(), key=lambda item: item[1])
    total = sum(size_of(number) * len(replicas) for number, replicas in enumerate(assignment))
    return Figures(
        replicas=max(held[b] for b in by_id) - min(held[b] for b in by_id),
        leaders=max(leads[b] for b in by_id) - min(leads[b] for b in by_id),
        on_one_host=sum(len({by_id[b].host for b in r}) < len(r) for r in assignment),
        in_one_rack=sum(len({by_id[b].rack for b in r}) < len(r) for r in assignment),
        heir=(worst, leads[dead]),
        added=100 * added / total,
        drained=100 * drained / total,
    )


def compare() -> dict[str, Figures]:
    """The naive round robin, and the controller."""
    brokers = [broker(b) for b in range(BROKERS)]
    more = [*brokers, *(broker(b) for b in ADDED)]
    fewer = [one for one in brokers if one.broker_id != DRAINED]
    simple, ours = naive(brokers), placed(brokers)

    def planned(members: Sequence[BrokerSnapshot], goal: Goal) -> int:
        return make_plan(snapshot(members, ours), goal).totals.bytes

    return {
        "naive": figures(
            brokers, simple, added=copied(simple, naive(more)), drained=copied(simple, naive(fewer))
        ),
        "springtide": figures(
            brokers, ours, planned(more, Rebalance()), planned(brokers, Drain(broker_ids=(DRAINED,)))
        ),
    }


def table(compared: dict[str, Figures]) -> list[str]:
    rows = {
        "replicas, fullest minus emptiest broker": [str(f.replicas) for f in compared.values()],
        "leaders, fullest minus emptiest broker": [str(f.leaders) for f in compared.values()],
        "partitions with two replicas on one host": [str(f.on_one_host) for f in compared.values()],
        "partitions with two replicas in one rack": [str(f.in_one_rack) for f in compared.values()],
        "leaders of a dead broker that one survivor gets": [
            f"{f.heir[0]} of {f.heir[1]}" for f in compared.values()
        ],
        "bytes copied when two brokers join": [f"{f.added:.1f} %" for f in compared.values()],
        "bytes copied when one broker is drained": [f"{f.drained:.1f} %" for f in compared.values()],
    }
    lines = [f"| {'':<47} | " + " | ".join(f"{name:>10}" for name in compared) + " |"]
    lines.append(f"|{'-' * 49}|" + "|".join("-" * 11 + ":" for _ in compared) + "|")
    return lines + [
        f"| {name:<47} | " + " | ".join(f"{cell:>10}" for cell in cells) + " |"
        for name, cells in rows.items()
    ]


def main() -> None:
    sys.stdout.write("\n".join(table(compare())) + "\n")


if __name__ == "__main__":
    main()
