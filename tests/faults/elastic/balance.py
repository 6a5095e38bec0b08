"""What lies where, how evenly, and how little could have been copied to make it so. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BAR = "█"
HALF_BAR = "▌"
BAR_COLUMNS = 30
MIB = 1024 * 1024

Assignment = Mapping[int, Sequence[int]]
"""Brokers of each partition, preferred leader first."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one broker carries."""

    replicas: int
    leaders: int
    bytes: int


def loads(
    assignment: Assignment, leaders: Mapping[int, int], sizes: Mapping[int, int], brokers: Sequence[int]
) -> dict[int, Load]:
    """By broker. leaders, sizes: by partition; a size is that of one replica."""
    return {
        broker: Load(
            replicas=sum(broker in replicas for replicas in assignment.values()),
            leaders=sum(leader == broker for leader in leaders.values()),
            bytes=sum(sizes[partition] for partition, replicas in assignment.items() if broker in replicas),
        )
        for broker in brokers
    }


def copies(before: Assignment, after: Assignment) -> list[tuple[int, int]]:
    """Partition and broker of each replica that came."""
    return [
        (partition, broker)
        for partition, replicas in sorted(after.items())
        for broker in replicas
        if broker not in before[partition]
    ]


def least_to_spread(before: Assignment, sizes: Mapping[int, int], brokers: Sequence[int]) -> int:
    """A bound in bytes below which no assignment comes whose brokers hold equally many replicas, within one.

    Each broker that holds more than its share gives replicas away, of which its smallest are cheapest. Who
    may keep one more than the others is chosen so that least is given. And each that holds less receives
    replicas of as many different partitions, none of which it has.
    """
    held = {
        broker: {partition for partition, replicas in before.items() if broker in replicas}
        for broker in brokers
    }
    share, spare = divmod(sum(map(len, held.values())), len(brokers))
    gives = [sorted(sizes[each] for each in mine) for mine in held.values() if len(mine) > share]
    # The dearest that a broker would have to give is what it saves by keeping one more.
    saved = sorted((mine[len(mine) - share - 1] for mine in gives), reverse=True)
    given = sum(sum(mine[: len(mine) - share]) for mine in gives) - sum(saved[:spare])
    received = sum(
        sum(sorted(sizes[each] for each in before if each not in mine)[: max(0, share - len(mine))])
        for mine in held.values()
    )
    return max(given, received)


def least_to_empty(before: Assignment, sizes: Mapping[int, int], leaving: Sequence[int]) -> int:
    """Bytes that leave these brokers whatever is done, when each partition keeps its number of replicas."""
    return sum(
        sizes[partition] for partition, replicas in before.items() for broker in replicas if broker in leaving
    )


def could_be_more_even(before: Assignment, after: Assignment, brokers: Sequence[int]) -> list[str]:
    """Replicas that came to one broker and would have left the counts nearer to each other on another."""
    counts = {broker: sum(broker in replicas for replicas in after.values()) for broker in brokers}
    return [
        f"partition {partition} came to broker {to} with {counts[to]}, not to {other} with {counts[other]}"
        for partition, to in copies(before, after)
        for other in brokers
        if other not in after[partition] and counts[other] + 1 < counts[to]
    ]


def draw(before: Mapping[int, Load], after: Mapping[int, Load]) -> list[str]:
    """A bar for the replicas of each broker, before and after; a broker that is not there has none."""
    highest = max(load.replicas for loaded in (before, after) for load in loaded.values())
    lines = []
    for title, loaded in (("before", before), ("after", after)):
        lines.append(f"{title:<12}{'replicas':<{BAR_COLUMNS + 6}}{'leaders':>8}{'MiB':>9}")
        for broker in sorted(set(before) | set(after)):
            load = loaded.get(broker)
            if load is None:
                lines.append(f"  broker {broker:<3}-")
                continue
            bar = _bar(load.replicas, highest)
            lines.append(
                f"  broker {broker:<3}{bar:<{BAR_COLUMNS + 1}}{load.replicas:>5}"
                f"{load.leaders:>8}{load.bytes / MIB:>9.1f}"
            )
    return lines


def _bar(value: int, highest: int) -> str:
    halves = round(2 * BAR_COLUMNS * value / highest) if highest else 0
    return BAR * (halves // 2) + HALF_BAR * (halves % 2)
