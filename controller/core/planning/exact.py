"""Nothing better exists: the end of the search, for clusters where it can be afforded.

An assignment is a flow from partitions through racks and hosts to brokers, and what it costs is convex: pairs
on a host, then pairs in a rack, then the squares of the loads, then the bytes. Such a flow is the best if and
only if no cycle of moves makes it cheaper. Brokers are the nodes here, with one more that stands for the
loads; between two brokers lies the cheapest move of a replica from one to the other; and negative cycles are
carried out until there is none (Klein; Bellman and Ford find them).
"""

from __future__ import annotations

from typing import NamedTuple

from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.plan import MoveReason

LOADS = -1


class _Step(NamedTuple):
    """number: the partition that moves; -1: to or from the node of the loads."""

    cost: int
    source: int
    target: int
    number: int


class _Scale(NamedTuple):
    """Weights that put hosts before racks before loads before bytes, in one whole number."""

    host: int
    rack: int
    load: int


def improve(layout: Layout, freedom: Freedom, reason: MoveReason, effort: Effort) -> bool:
    """Carry out improvements until there is none left, or the effort is spent. Return whether nothing better
    exists: there is none left, none was set aside, and no disk is too full for any."""
    scale = _scale_of(layout)
    banned: set[tuple[int, int, int]] = set()
    while True:
        steps = _steps(layout, freedom, scale, banned, effort)
        if steps is None:
            return False
        cycle = _negative_cycle([LOADS, *freedom.brokers], steps)
        if cycle is None:
            return not banned and all(
                layout.fits(number, b)
                for b in freedom.brokers
                for number in layout.unlocked
                if number not in layout.held[b]
            )
        if _carry_out(layout, cycle, scale, reason):
            banned.clear()
        else:  # one partition twice, and the two get in each other's way
            banned.update((s.source, s.target, s.number) for s in cycle if s.number >= 0)


def _scale_of(layout: Layout) -> _Scale:
    load = 2 * sum(layout.size) * max((len(r) for r in layout.replicas), default=1) + 1
    rack = load * (4 * len(layout.load) * (max(layout.load, default=0) + len(layout.replicas)) + 1)
    return _Scale(rack * (4 * sum(len(r) for r in layout.replicas) ** 2 + 1), rack, load)


def _steps(
    layout: Layout, freedom: Freedom, scale: _Scale, banned: set[tuple[int, int, int]], effort: Effort
) -> list[_Step] | None:
    brokers = freedom.brokers
    cheapest: dict[tuple[int, int], _Step] = {}
    for number in layout.unlocked:
        replicas = layout.replicas[number]
        size = layout.size[number]
        original = layout.original[number]
        if not effort.spend(len(brokers) * len(replicas)):
            return None
        for source in replicas:
            if source not in freedom.donors and source in original:
                continue
            others = [b for b in replicas if b != source]
            on_host, in_rack = layout.crowding(others, source)
            base = -on_host * scale.host - in_rack * scale.rack - (source not in original) * size
            for target in brokers:
                if target in replicas or not freedom.may_receive(layout, number, target):
                    continue
                if not layout.fits(number, target) or layout.is_barred(others, target):
                    continue
                on_host, in_rack = layout.crowding(others, target)
                cost = base + on_host * scale.host + in_rack * scale.rack + (target not in original) * size
                known = cheapest.get((source, target))
                is_cheaper = known is None or cost < known.cost
                if is_cheaper and (source, target, number) not in banned:
                    cheapest[source, target] = _Step(cost, source, target, number)
    steps = list(cheapest.values())
    for broker in brokers:
        load = layout.load[broker]
        steps.append(_Step((2 * load + 1) * scale.load, broker, LOADS, -1))
        steps.append(_Step(-(2 * load - 1) * scale.load, LOADS, broker, -1))
    return steps


def _negative_cycle(nodes: list[int], steps: list[_Step]) -> list[_Step] | None:
    distance = dict.fromkeys(nodes, 0)
    reached_by: dict[int, _Step] = {}
    last = None
    for _ in nodes:
        last = None
        for step in steps:
            if step.source in distance and distance[step.source] + step.cost < distance[step.target]:
                distance[step.target] = distance[step.source] + step.cost
                reached_by[step.target] = step
                last = step.target
        if last is None:
            return None
    assert last is not None
    for _ in nodes:  # from anywhere behind a cycle into the cycle
        last = reached_by[last].source
    cycle = []
    at = last
    while True:
        cycle.append(reached_by[at])
        at = reached_by[at].source
        if at == last:
            return cycle[::-1]


def _carry_out(layout: Layout, cycle: list[_Step], scale: _Scale, reason: MoveReason) -> bool:
    """Carry out the cycle's moves; if together they are no improvement, take them back and return False."""
    moves = [step for step in cycle if step.number >= 0]
    numbers = sorted({step.number for step in moves})
    brokers = sorted({b for step in moves for b in (step.source, step.target)})
    before = _cost(layout, numbers, brokers, scale)
    done: list[_Step] = []
    for step in moves:
        replicas = layout.replicas[step.number]
        if step.target in replicas or step.source not in replicas:
            break
        if layout.is_barred((b for b in replicas if b != step.source), step.target):
            break
        layout.move(step.number, step.source, step.target, reason)
        done.append(step)
    if len(done) == len(moves) and _cost(layout, numbers, brokers, scale) < before:
        return True
    for step in reversed(done):
        layout.move(step.number, step.target, step.source, reason)
    return False


def _cost(layout: Layout, numbers: list[int], brokers: list[int], scale: _Scale) -> int:
    cost = sum(layout.load[b] ** 2 for b in brokers) * scale.load
    for number in numbers:
        on_host, in_rack = layout.pairs(layout.replicas[number])
        cost += on_host * scale.host + in_rack * scale.rack
        cost += layout.size[number] * sum(b not in layout.original[number] for b in layout.replicas[number])
    return cost
