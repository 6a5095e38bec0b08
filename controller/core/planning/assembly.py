"""From chosen assignments to a plan: what pays most comes first, and everything is added up.

The imbalance is counted against where the whole plan ends: the squares of how far each broker's replicas
and leaders, or the weights that the goal names, are from that, and a constant for each pair that stands
closer than it has to. It is nothing at the end; what a move removes per byte decides its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.core.planning.goals import Goal
from controller.core.planning.layout import Ideal, Layout
from controller.core.planning.plan import (
    GainPoint,
    Level,
    Levels,
    Load,
    Move,
    Plan,
    PlanOutcome,
    Rejection,
    Slack,
    Totals,
)
from controller.core.planning.snapshot import Snapshot
from controller.core.planning.weighing import PartsOf, Vector, Weighing
from springtide.contract.partition_state import PartitionKey

#: Imbalance of a pair that shares a rack, and of one that shares a host, on top of it.
RACK_PAIR: Final = 16
HOST_PAIR: Final = 48
#: A move is taken at its turn unless it has lost more than this part of what it was worth when it was last
#: counted: each taken makes all others of its brokers worth a little less, and to count to the last bit was
#: to count hundreds of them again for each.
STALE_PART: Final = 16
_PRECISION: Final = 1 << 40


class _Shift(NamedTuple):
    """The change that a move makes. taken: amounts that it takes from brokers, by place in a list of all
    loads (negative: it brings them). parting: what moving its replicas apart is worth, at least 0, because
    brokers that leave may force replicas closer together."""

    taken: list[tuple[int, int]]
    parting: int


def counted(key: PartitionKey) -> tuple[Vector, Vector]:
    """A replica counts as a replica, the preferred leader as a leader."""
    return (1, 0), (0, 1)


def order_moves(layout: Layout, moves: Sequence[Move], parts_of: PartsOf = counted) -> tuple[Move, ...]:
    """Most imbalance removed per byte first, as far as STALE_PART allows; ties by topic and partition."""
    shifts = list(_shifts(layout, moves, parts_of))
    off: dict[int, int] = {}  # how far each load is from where it ends
    for shift in shifts:
        for at, amount in shift.taken:
            off[at] = off.get(at, 0) + amount

    def gain_of(shift: _Shift) -> int:
        gain = shift.parting
        for at, amount in shift.taken:
            gain += amount * (2 * off[at] - amount)
        return gain

    def rank(at: int) -> int:
        gain = gain_of(shifts[at])
        return -gain * _PRECISION // (moves[at].bytes + 1) if gain > 0 else -gain

    order = sorted(range(len(moves)), key=lambda at: (moves[at].topic, moves[at].partition))
    heap = [(rank(at), place, at) for place, at in enumerate(order)]
    heapq.heapify(heap)
    ordered: list[Move] = []
    while heap:
        stored, place, at = heap[0]
        now = rank(at)
        if now > stored + abs(stored) // STALE_PART:
            heapq.heapreplace(heap, (now, place, at))
            continue
        heapq.heappop(heap)
        shift = shifts[at]
        ordered.append(msgspec.structs.replace(moves[at], gain=gain_of(shift)))
        for place, amount in shift.taken:
            off[place] -= amount
    return tuple(ordered)


def _shifts(layout: Layout, moves: Sequence[Move], parts_of: PartsOf) -> Iterator[_Shift]:
    for move in moves:
        before = [layout.index[b] for b in move.replicas_before]
        after = [layout.index[b] for b in move.replicas_after]
        replica, leader = parts_of(move.key)
        changes = [(b, replica, 1) for b in before if b not in after]
        changes += [(b, replica, -1) for b in after if b not in before]
        if before[:1] != after[:1]:
            changes += [(b, leader, 1) for b in before[:1]]
            changes.append((after[0], leader, -1))
        taken = [
            (broker * len(vector) + at, sign * amount)
            for broker, vector, sign in changes
            for at, amount in enumerate(vector)
            if amount
        ]
        was, now = layout.pairs(before), layout.pairs(after)
        yield _Shift(taken, max(HOST_PAIR * (was[0] - now[0]) + RACK_PAIR * (was[1] - now[1]), 0))


def assemble(
    snapshot: Snapshot,
    layout: Layout,
    goal: Goal,
    moves: Sequence[Move],
    rejections: Sequence[Rejection],
    *,
    bytes_least: int | None = None,
    weighing: Weighing | None = None,
) -> Plan:
    """Make the plan of the moves, in their order. layout: the brokers that may hold replicas under this goal.
    weighing: of `even_out`."""
    if rejections:
        outcome = PlanOutcome.INFEASIBLE
    else:
        outcome = PlanOutcome.READY if moves else PlanOutcome.NO_IMPROVEMENT
    return Plan(
        goal=goal,
        outcome=outcome,
        moves=tuple(moves),
        rejections=tuple(rejections),
        totals=Totals(
            moves=len(moves),
            copies=sum(len(move.adding) for move in moves),
            bytes=sum(move.bytes for move in moves),
            bytes_least=bytes_least,
            unknown_sizes=sum(move.size_bytes is None and move.bytes > 0 for move in moves),
        ),
        before=levels(layout, (), weighing.levels(layout) if weighing else None),
        after=levels(layout, moves, weighing.levels(layout, layout.touched) if weighing else None),
        curve=gain_curve(moves),
        worst_slack=worst_slack(snapshot, moves),
        unknown_room=_unknown_room(layout, moves) or msgspec.UNSET,
        destinations=msgspec.UNSET if snapshot.destinations is None else snapshot.destinations,
    )


def _unknown_room(layout: Layout, moves: Sequence[Move]) -> tuple[int, ...]:
    receiving = {b for move in moves if move.bytes for b in move.adding}
    return tuple(b for b in sorted(receiving) if layout.room[layout.index[b]] is None)


def gain_curve(moves: Sequence[Move]) -> tuple[GainPoint, ...]:
    """Return the points at which each tenth of the gain is reached for the first time."""
    whole = sum(move.gain for move in moves)
    points: list[GainPoint] = []
    gained = copied = 0
    for count, move in enumerate(moves, 1):
        gained += move.gain
        copied += move.bytes
        while whole > 0 and len(points) < 10 and gained * 10 >= whole * (len(points) + 1):
            points.append(GainPoint(percent=10 * (len(points) + 1), moves=count, bytes=copied))
    return tuple(points)


def levels(layout: Layout, moves: Sequence[Move], loads: tuple[Load, ...] | None = None) -> Levels:
    """Return the levels as found, with these moves made, over brokers that take replicas (if none, all)."""
    after = {
        (p.topic_id, p.partition): original
        for p, original in zip(layout.partitions, layout.original, strict=True)
    }
    sizes = {(p.topic_id, p.partition): size for p, size in zip(layout.partitions, layout.size, strict=True)}
    for move in moves:
        after[move.key] = tuple(layout.index[b] for b in move.replicas_after)
    replicas = [0] * len(layout.broker_ids)
    leaders = [0] * len(layout.broker_ids)
    stored = [0] * len(layout.broker_ids)
    allowed = sorted(layout.givers) or list(range(len(replicas)))
    crowded = 0
    ideal = Ideal(layout, allowed)
    for key, held in after.items():
        size = sizes.get(key, 0)
        for broker in held:
            replicas[broker] += 1
            stored[broker] += size
        leaders[held[0]] += 1
        if (pairs := layout.pairs(held)) != (0, 0):
            crowded += pairs > ideal.of(held)
    return Levels(
        replicas=_level(replicas, allowed),
        leaders=_level(leaders, allowed),
        bytes=_level(stored, allowed),
        crowded=crowded,
        loads=msgspec.UNSET if loads is None else loads,
    )


def _level(values: Sequence[int], allowed: Sequence[int]) -> Level:
    counted = [values[b] for b in allowed]
    if not counted:
        return Level()
    return Level(lowest=min(counted), highest=max(counted), total=sum(counted), brokers=len(counted))


def worst_slack(snapshot: Snapshot, moves: Sequence[Move]) -> Slack | None:
    """Return the least slack while the plan is carried out. While a partition grows, its in-sync replicas
    stay in sync; when it is done, all that remain are in sync. A replica that is removed earlier was never in
    sync."""
    by_key = {p.key: p for p in snapshot.partitions}
    minimums = {topic.topic_id: topic.minimum_of for topic in snapshot.topics}
    worst: tuple[int, str, int] | None = None
    found = None
    for move in moves:
        partition = by_key.get(move.key)
        if partition is None:
            continue
        factor, minimum = len(move.replicas_after), partition.min_insync_replicas
        if factor != len(move.replicas_before) and move.topic_id in minimums:
            minimum = minimums[move.topic_id](factor)
        slack = min(len(partition.isr) - partition.min_insync_replicas, factor - minimum)
        if worst is None or (slack, move.topic, move.partition) < worst:
            worst = (slack, move.topic, move.partition)
            found = move
    if worst is None or found is None:
        return None
    return Slack(slack=worst[0], topic_id=found.topic_id, topic=found.topic, partition=found.partition)
