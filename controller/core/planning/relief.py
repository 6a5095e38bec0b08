"""A full disk relieved with few bytes copied: replicas leave one broker until its disk is used no more than
wanted, each to the broker whose disk is used least after it.

The largest replicas below what is still to go are taken one after the other. Before each, the smallest that
alone is enough could end it; of all these ends the one with the least bytes counts. What turns out not to be
needed stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from controller.core.planning.goals import Relieve
from controller.core.planning.layout import Layout
from controller.core.planning.plan import MoveReason, Rejection, RejectionCode


class _End(NamedTuple):
    """The end of the search after `taken` replicas: bytes that leave in all, and the last replica's way."""

    bytes: int
    taken: int
    number: int
    target: int


def relieve(layout: Layout, goal: Relieve) -> tuple[list[Rejection], list[Rejection]]:
    """Lay out what leaves. Return what is at fault, and why the disk is not relieved as far as wanted."""
    source = layout.index.get(goal.broker_id)
    if source is None:
        detail = f"broker {goal.broker_id} is not a member of this cluster"
        return [Rejection(code=RejectionCode.UNKNOWN_BROKER, detail=detail)], []
    disk = layout.disk[source]
    if disk is None:
        detail = f"broker {goal.broker_id} has not reported how full its disk is"
        return [Rejection(code=RejectionCode.NOT_MEASURED, detail=detail)], []
    _leave_others_below(layout, goal, source)
    excess = disk.used_bytes - disk.total_bytes * goal.used_percent // 100
    if excess <= 0:
        detail = (
            f"the disk of broker {goal.broker_id} is used to {_percent(disk.used_bytes, disk.total_bytes)}"
        )
        return [], [Rejection(code=RejectionCode.NO_CHANGE, detail=f"{detail} only")]
    ways = _take(layout, source, excess)
    gone = sum(layout.size[number] for number, _ in ways)
    for number, target in sorted(ways, key=lambda way: (layout.size[way[0]], way[0])):
        if gone - layout.size[number] >= excess:
            layout.move(number, target, source, MoveReason.RELIEF)
            gone -= layout.size[number]
    if gone >= excess:
        return [], []
    detail = (
        f"the disk of broker {goal.broker_id} is still used to "
        f"{_percent(disk.used_bytes - gone, disk.total_bytes)} then: nothing more on it can go to a disk "
        f"that is used to {goal.used_percent} % at most after it"
    )
    return [], [Rejection(code=RejectionCode.NO_ROOM, detail=detail)]


def _leave_others_below(layout: Layout, goal: Relieve, source: int) -> None:
    """No other disk is used to more than this one is to be."""
    for broker, disk in enumerate(layout.disk):
        room = layout.room[broker]
        if disk is not None and broker != source:
            below = disk.total_bytes * goal.used_percent // 100 - disk.used_bytes
            layout.room[broker] = below if room is None else min(room, below)


def _take(layout: Layout, source: int, excess: int) -> list[tuple[int, int]]:
    """Move replicas and return each with the broker it goes to: all that can go, if that is not enough."""
    left = sorted(
        (number for number in layout.held[source] if number not in layout.locked),
        key=lambda number: (layout.size[number], number),
    )
    ways: list[tuple[int, int]] = []
    gone = 0
    best: _End | None = None
    while True:
        enough = bisect_left(left, excess - gone, key=lambda number: layout.size[number])
        for number, target in _ways(layout, source, left[enough:]):
            end = _End(gone + layout.size[number], len(ways), number, target)
            best = end if best is None or end < best else best
            break
        way = next(_ways(layout, source, reversed(left[:enough])), None)
        if way is None:
            break
        number, target = way
        layout.move(number, source, target, MoveReason.RELIEF)
        ways.append(way)
        gone += layout.size[number]
        left.remove(number)
    if best is None:
        return ways
    for number, target in ways[best.taken :]:
        layout.move(number, target, source, MoveReason.RELIEF)
    layout.move(best.number, source, best.target, MoveReason.RELIEF)
    return [*ways[: best.taken], (best.number, best.target)]


def _ways(layout: Layout, source: int, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each replica that some broker may take, with the broker whose disk is used least after it; those
    that have not told come last."""

    def share_after(number: int, broker: int) -> tuple[bool, Fraction, int, int]:
        disk = layout.disk[broker]
        used = Fraction(0)
        if disk is not None:
            used = Fraction(disk.used_bytes + layout.coming[broker] + layout.size[number], disk.total_bytes)
        return disk is None, used, layout.stored[broker], broker

    for number in numbers:
        is_preferred = layout.replicas[number][0] == source
        takers = [
            broker
            for broker in layout.takers
            if layout.is_as_apart(number, source, broker)
            and layout.fits(number, broker)
            and (layout.leads[broker] or not is_preferred)
        ]
        if takers:
            yield number, min(takers, key=partial(share_after, number))


def _percent(part: int, whole: int) -> str:
    return f"{-(-100 * part // whole)} %"
