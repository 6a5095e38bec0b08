"""Replicas that must go, or must come: each to the least loaded broker that keeps it as far as can be from
the partition's others. One at a time; balance.py evens out what that leaves uneven."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.planning.layout import Ideal, Layout
from controller.core.planning.plan import MoveReason
from controller.core.planning.receivers import Receivers


def evacuate(layout: Layout, receivers: frozenset[int], reason: MoveReason) -> list[int]:
    """Empty the brokers that are leaving, the largest replicas first so that bytes come out even too. Returns
    the partitions that can't leave them all; those stay as they are."""
    stuck: dict[int, None] = {}
    queue = Receivers(layout, sorted(receivers))
    leaving = [
        (-layout.size[number], number, broker)
        for broker, is_leaving in enumerate(layout.leaving)
        if is_leaving
        for number in layout.held[broker]
        if number not in layout.locked
    ]
    for _, number, broker in sorted(leaving):
        if number in stuck:
            continue
        target = queue.choose(number, [b for b in layout.replicas[number] if b != broker])
        if target is not None:
            layout.move(number, broker, target, reason)
            continue
        stuck[number] = None
        pairs = list(zip(layout.replicas[number], layout.original[number], strict=True))
        for now, before in pairs:
            if now != before:
                layout.move(number, now, before, reason)
    return list(stuck)


def grow(layout: Layout, numbers: Iterable[int], factor: int, receivers: frozenset[int]) -> list[int]:
    """More replicas for these partitions. Return those that can't have so many; they get none."""
    stuck = []
    queue = Receivers(layout, sorted(receivers))
    for number in sorted(numbers, key=lambda number: (-layout.size[number], number)):
        replicas = layout.replicas[number]
        while len(replicas) < factor:
            target = queue.choose(number, replicas)
            if target is None:
                stuck.append(number)
                for broker in replicas[len(layout.original[number]) :]:
                    layout.remove(number, broker, MoveReason.REPLICATION_FACTOR)
                break
            layout.add(number, target, MoveReason.REPLICATION_FACTOR)
    return stuck


def shrink(layout: Layout, numbers: Iterable[int], factor: int) -> None:
    """Fewer replicas: those out of sync go first, then those closest to others, then from the most loaded
    broker. The preferred leader stays, and the leader, unless they are out of sync or one has to go."""
    for number in numbers:
        partition = layout.partitions[number]
        isr = {layout.index[b] for b in partition.isr if b in layout.index}
        leader = layout.index.get(partition.leader, -1)
        replicas = layout.replicas[number]
        while len(replicas) > factor:
            victim = max(
                replicas,
                key=lambda b: (
                    b not in isr,
                    b != leader,
                    b != replicas[0],
                    layout.leaving[b],
                    layout.crowding(replicas, b),
                    layout.load[b],
                    layout.stored[b],
                    b,
                ),
            )
            layout.remove(number, victim, MoveReason.REPLICATION_FACTOR)


def separate(layout: Layout, donors: frozenset[int], receivers: frozenset[int]) -> bool:
    """Move replicas apart that stand closer than they need to. One replica at a time reaches the best there
    is: hosts lie within racks. Return whether there were any."""
    ideal = Ideal(layout, donors | receivers)
    queue = Receivers(layout, sorted(receivers))
    is_close = False
    for number in layout.unlocked:
        replicas = layout.replicas[number]
        if (pairs := layout.pairs(replicas)) == (0, 0):
            continue
        least = ideal.of(replicas)
        is_close = is_close or pairs > least
        while pairs > least:
            step = _separating_step(layout, number, donors, queue)
            if step is None:
                break
            layout.move(number, *step, MoveReason.SEPARATION)
            pairs = layout.pairs(replicas)
    return is_close


def _separating_step(
    layout: Layout, number: int, donors: frozenset[int], queue: Receivers
) -> tuple[int, int] | None:
    """Move the replica that stands closest to the others, of equals the one on the most loaded broker."""
    replicas = layout.replicas[number]
    close = [
        (crowding, layout.load[source], source)
        for source in replicas
        if (source in donors or layout.is_newcomer(number, source))
        and (crowding := layout.crowding(replicas, source)) != (0, 0)
    ]
    for crowding, _, source in sorted(close, reverse=True):
        others = [b for b in replicas if b != source]
        target = queue.choose(number, others, besides=source)
        if target is not None and layout.crowding(others, target) < crowding:
            return source, target
    return None
