"""An estimate of how long moves will take, from how long earlier ones took. Pure.

    seconds = overhead x turns + bytes of the broker that receives most / speed

Turns: partitions that follow one another, since only so many move at once; each costs a look of the
controller, a fetcher's start and a join to the ISR, also if it is small. A throttle bounds the speed.
Overhead and speed are fitted to past operations by the median of relative errors, so one operation that was
paused overnight has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from statistics import median
from typing import NamedTuple

from pipeline.plan.documents import MoveItem, PlannedMoveItem

_STEPS = 40
_ARRIVED = "moved"


class MoveWork(NamedTuple):
    """moves: partitions. concurrent: how many move at once. busiest_bytes: copied by the broker that copies
    most. throttle: bytes a second of each broker; None: no throttle."""

    moves: int
    concurrent: int
    busiest_bytes: int
    throttle: int | None = None

    @property
    def turns(self) -> int:
        return ceil(self.moves / max(self.concurrent, 1))


class Past(NamedTuple):
    """An operation that has ended, and how long it took from its first move's begin to its last one's end."""

    work: MoveWork
    seconds: float


class Speed(NamedTuple):
    """overhead_s: of a turn. seconds_per_byte: without a throttle. ratios: actual over predicted seconds of
    each past operation, ascending."""

    overhead_s: float
    seconds_per_byte: float
    ratios: tuple[float, ...]

    def predict(self, work: MoveWork) -> float:
        per_byte = self.seconds_per_byte
        if work.throttle is not None:
            per_byte = max(per_byte, 1.0 / max(work.throttle, 1))
        return self.overhead_s * work.turns + per_byte * work.busiest_bytes


class Eta(NamedTuple):
    """An estimate in seconds. operations: how many it is fitted to."""

    p50_s: float
    p90_s: float
    operations: int

    def rounded(self) -> Eta:
        return Eta(round(self.p50_s, 1), round(self.p90_s, 1), self.operations)


def past_of(moves: Iterable[MoveItem], throttle: int | None) -> Past | None:
    """Return the operation; None if nothing arrived, or its times are not known."""
    spans: list[tuple[float, float]] = []
    received: dict[int, int] = {}
    for move in moves:
        if move.fate != _ARRIVED or move.begun_at is None or move.ended_at is None:
            continue
        spans.append((move.begun_at.timestamp(), move.ended_at.timestamp()))
        _add(received, move.replicas_before, move.replicas_after, move.bytes or 0)
    if not spans:
        return None
    seconds = max(end for _, end in spans) - min(begin for begin, _ in spans)
    if seconds <= 0:
        return None
    work = MoveWork(len(spans), _most_at_once(spans), max(received.values(), default=0), throttle)
    return Past(work, seconds)


def work_of(moves: Sequence[PlannedMoveItem], *, concurrent: int, throttle: int | None) -> MoveWork:
    received: dict[int, int] = {}
    for move in moves:
        _add(received, move.replicas_before, move.replicas_after, move.bytes)
    return MoveWork(len(moves), concurrent, max(received.values(), default=0), throttle)


def _add(received: dict[int, int], before: Sequence[int], after: Sequence[int], copied: int) -> None:
    adding = [broker for broker in after if broker not in before]
    for broker in adding:
        received[broker] = received.get(broker, 0) + copied // len(adding)


def _most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    running = most = 0
    for _, step in edges:  # of an end and a beginning at one moment, the end comes first
        running += step
        most = max(most, running)
    return max(most, 1)


def calibrate(past: Sequence[Past]) -> Speed | None:
    """Fit the speed; None without past operations."""
    if not past:
        return None
    overhead_max = min(one.seconds / one.work.turns for one in past)
    best: tuple[float, Speed] | None = None
    for step in range(_STEPS + 1):
        overhead_s = overhead_max * step / _STEPS
        speed = Speed(overhead_s, _seconds_per_byte(past, overhead_s), ())
        ratios = [one.seconds / max(speed.predict(one.work), 1e-6) for one in past]
        error = median(abs(ratio - 1.0) for ratio in ratios)
        if best is None or error < best[0] - 1e-9:  # of equals the one with the least overhead
            best = error, speed._replace(ratios=tuple(sorted(ratios)))
    assert best is not None, "there is at least one step"
    return best[1]


def _seconds_per_byte(past: Sequence[Past], overhead_s: float) -> float:
    """Return the median of operations without a throttle, else of all."""
    with_bytes = [one for one in past if one.work.busiest_bytes > 0]
    free = [one for one in with_bytes if one.work.throttle is None] or with_bytes
    found = [max(one.seconds - overhead_s * one.work.turns, 0.0) / one.work.busiest_bytes for one in free]
    return median(found) if found else 0.0


def estimate(speed: Speed, work: MoveWork) -> Eta:
    """Return the median, and what nine of ten stay within, by the ratios of past operations."""
    predicted = speed.predict(work)
    last = len(speed.ratios) - 1
    p90 = speed.ratios[min(last, ceil(0.9 * len(speed.ratios)) - 1)]
    return Eta(
        p50_s=predicted * median(speed.ratios),
        p90_s=predicted * max(p90, median(speed.ratios)),
        operations=len(speed.ratios),
    )
