"""`make_plan`: a snapshot and a goal in, a plan out. The same snapshot and goal give the same plan, byte by
byte, wherever and whenever it is made.

    lay out -> what must go or come -> separate -> balance -> improve (small clusters) -> leaders -> assemble
                                       or, by weights: even out ---------------------------------^

Never does it give a replica to a broker that takes none, nor bring a partition's replicas closer together
than they are. No partition loses a replica before all that are to remain are in sync: moves grow first
(docs/replication.md 4.2, reassignment).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import msgspec

from controller.core.minimum import below_minimum
from controller.core.planning.assembly import assemble, counted, order_moves
from controller.core.planning.balance import balance, least_copied, movable, pools, quotas
from controller.core.planning.by_hand import assign, check_replace, rejected, rejected_as_locked, replace
from controller.core.planning.evacuation import evacuate, grow, separate, shrink
from controller.core.planning.evening import even_out
from controller.core.planning.exact import improve
from controller.core.planning.goals import (
    DISK_PERMILLE,
    Assign,
    ChangeReplicationFactor,
    Drain,
    EvenOut,
    Goal,
    PlacePartitions,
    Rebalance,
    RebalanceMode,
    Relieve,
    Replace,
    SeparateReplicas,
    Weight,
)
from controller.core.planning.layout import Effort, Freedom, Ideal, Layout
from controller.core.planning.leaders import balance_leaders, spread_succession
from controller.core.planning.new_partitions import place_partitions, unknown_topic
from controller.core.planning.plan import Move, MoveReason, Plan, Rejection, RejectionCode
from controller.core.planning.relief import relieve
from controller.core.planning.snapshot import PartitionSnapshot, Snapshot
from controller.core.planning.weighing import PartsOf, Weighing

#: Looks at a move, possible or not, about a microsecond each: for each part of a search.
SEARCH_LOOKS_MAX: Final = 1_000_000
#: The same, when weights are evened out.
EVEN_OUT_LOOKS_MAX: Final = 10_000_000
#: The same, when bytes are evened out after counts.
BYTES_LOOKS_MAX: Final = 2_000_000
#: The exact search looks at every move of every replica, again and again: not when there are more than these.
EXACT_MOVES_MAX: Final = 40_000


def make_plan(snapshot: Snapshot, goal: Goal) -> Plan:
    layout = lay_out(snapshot, goal)
    bytes_least: int | None = None
    weighing: Weighing | None = None
    parts_of: PartsOf = counted
    skipped: list[Rejection] = []
    match goal:
        case Rebalance():
            rejections, bytes_least, shortfalls = _rebalance(layout, goal)
            if shortfalls is not None:
                skipped = shortfalls
                parts_of = Weighing(layout, None).parts(
                    layout, (Weight.REPLICAS, Weight.LEADERS, Weight.DISK)
                )
        case EvenOut():
            weighing = Weighing(layout, snapshot.rates)
            rejections = _not_measured(weighing, goal)
            if not rejections:
                skipped = even_out(layout, weighing, goal, Effort(EVEN_OUT_LOOKS_MAX))
                spread_succession(layout)
                parts_of = weighing.parts(layout, goal.weights)
        case Relieve():
            rejections, skipped = relieve(layout, goal)
            layout.settle_order()
            spread_succession(layout)
            parts_of = Weighing(layout, None).parts(layout, (Weight.DISK,))
        case Drain():
            rejections = _drain(layout, goal)
        case Replace():
            refusal = check_replace(layout, goal)
            rejections = replace(layout, goal) if refusal is None else [refusal]
        case ChangeReplicationFactor():
            rejections = _change_factor(snapshot, layout, goal)
        case PlacePartitions():
            return place_partitions(snapshot, layout, goal)
        case SeparateReplicas():
            rejections = _separate(layout)
        case Assign():
            rejections = assign(snapshot, layout, goal)
        case _:
            assert_never(goal)
    moves = order_moves(layout, _moves(layout), parts_of)
    if not isinstance(goal, Rebalance | EvenOut | Relieve | SeparateReplicas):
        bytes_least = sum(move.bytes for move in moves)  # nothing else was moved than had to be
    plan = assemble(snapshot, layout, goal, moves, rejections, bytes_least=bytes_least, weighing=weighing)
    return msgspec.structs.replace(plan, skipped=(*skipped, *_skipped(layout, goal, plan)))


def lay_out(snapshot: Snapshot, goal: Goal) -> Layout:
    """The board for a goal: who is leaving, and who may hold replicas in the end."""
    layout = Layout(snapshot)
    leaving: tuple[int, ...] = ()
    if isinstance(goal, Drain):
        leaving = goal.broker_ids
    elif isinstance(goal, Replace):
        leaving = (goal.broker_id,)
    elif isinstance(goal, Rebalance):
        leaving = goal.drain_ids or ()
    for broker_id in leaving:
        if broker_id in layout.index:
            layout.leaving[layout.index[broker_id]] = True
            layout.gives[layout.index[broker_id]] = layout.receives[layout.index[broker_id]] = False
    return layout


def _even_out(layout: Layout, freedom: Freedom, reason: MoveReason, least: int | None = None) -> bool:
    """Even the brokers out. least: bytes that any plan copies at least; the search ends when a plan copies no
    more. Return whether it is proven that no plan to the same balance copies less."""
    balance(layout, freedom, reason, looks_max=SEARCH_LOOKS_MAX)
    if least is not None and _is_level(layout, freedom) and _copied(layout) == least:
        return True
    if sum(layout.load) * len(freedom.brokers) <= EXACT_MOVES_MAX:
        return improve(layout, freedom, reason, Effort(2 * SEARCH_LOOKS_MAX))
    return False


def _is_level(layout: Layout, freedom: Freedom) -> bool:
    loads = [layout.load[b] for b in freedom.brokers]
    return max(loads, default=0) - min(loads, default=0) <= 1


def _copied(layout: Layout) -> int:
    """Bytes that are copied as things stand."""
    return sum(
        layout.size[number] * sum(layout.is_newcomer(number, b) for b in layout.replicas[number])
        for number in layout.touched
    )


# --- goals --------------------------------------------------------------------------------------------------


def _rebalance(layout: Layout, goal: Rebalance) -> tuple[list[Rejection], int | None, list[Rejection] | None]:
    """Return what is at fault, the least bytes if they are known, and why bytes are not more even (None
    if they are even with the counts)."""
    unknown = _unknown_brokers(layout, goal.drain_ids or ())
    if unknown:
        return unknown, None, None
    givers = layout.givers
    freedom = Freedom(donors=givers, receivers=layout.takers)
    if goal.mode is RebalanceMode.NEW_ONLY:
        refusals = _check_receivers(layout, goal.new_broker_ids)
        if refusals:
            return refusals, None, None
        freedom = Freedom(givers, frozenset(layout.index[b] for b in goal.new_broker_ids))
    rejections = _locked_leavers(layout)
    least, loads = _least(layout, freedom)
    rejections += _no_receivers(layout, evacuate(layout, freedom.receivers, MoveReason.DRAIN))
    is_close = separate(layout, freedom.donors, freedom.receivers)
    is_near = _is_near([layout.load[b] for b in freedom.brokers], goal)
    is_least = not is_near and _even_out(layout, freedom, MoveReason.BALANCE, least)
    is_as_even = loads == sorted(layout.load[b] for b in freedom.brokers)
    copied = _copied(layout)
    if is_least:
        least = copied
    elif not is_as_even or is_close or rejections:
        least = None
    shortfalls = _weigh_bytes(layout, freedom, goal)
    if _copied(layout) != copied:
        least = None
    layout.settle_order()
    leads = Counter(replicas[0] for replicas in layout.replicas)
    if not _is_near([leads[b] for b in freedom.brokers], goal):
        balance_leaders(layout, freedom, layout.unlocked, Effort(SEARCH_LOOKS_MAX))
    spread_succession(layout)
    return rejections, least, shortfalls


def _is_near(counts: Sequence[int], goal: Rebalance) -> bool:
    """Return whether these differ from their mean by less than is to move anything."""
    whole, floor = sum(counts), goal.floor_permille or 0
    return floor > 0 and all(abs(count * len(counts) - whole) * 1_000 <= floor * whole for count in counts)


def _weigh_bytes(layout: Layout, freedom: Freedom, goal: Rebalance) -> list[Rejection] | None:
    """Even out bytes where counts are even, and leave these so. Return why they are not more even, or None if
    no broker has so much more than it should that a move is worth it."""
    stored = [layout.stored[broker] for broker, serves in enumerate(layout.serves) if serves]
    if goal.disk_permille is msgspec.UNSET or not stored:
        return None
    permille = max(goal.disk_permille, 1_000 + (goal.floor_permille or 0))
    most, whole, count = max(stored), sum(stored), len(stored)
    if most * count * 1_000 <= permille * whole or most * count <= whole + (goal.floor_bytes or 0) * count:
        return None
    even = EvenOut(weights=(Weight.DISK,), target_permille=permille, moves_max=len(layout.partitions))
    return even_out(layout, Weighing(layout, None), even, Effort(BYTES_LOOKS_MAX), freedom)


def _least(layout: Layout, freedom: Freedom) -> tuple[int | None, list[int]]:
    """Bytes that any plan copies that makes the loads as even as they can be, and those loads, ascending."""
    forced = [
        layout.size[number]
        for broker, is_leaving in enumerate(layout.leaving)
        if is_leaving
        for number in layout.held[broker]
        if number not in layout.locked
    ]
    groups = pools(layout, freedom)
    if len(groups) > 1 and forced:
        return None, []

    def weights_of(broker: int) -> Iterator[int]:
        return (layout.size[number] for number in movable(layout, freedom, broker))

    least = 0
    sizes = sorted(layout.size[number] for number in layout.unlocked)
    loads: list[int] = []
    for group in groups:
        counts = {b: layout.load[b] for b in group.brokers}
        wanted = quotas(counts, group, weights_of, poured=len(forced))
        least += max(wanted.bytes + sum(forced), least_copied(sizes, counts, wanted))
        loads += wanted.loads.values()
    return least, sorted(loads)


def _not_measured(weighing: Weighing, goal: EvenOut) -> list[Rejection]:
    return [
        Rejection(
            code=RejectionCode.NOT_MEASURED,
            detail=f"{weight.value} is not known yet: the active controller averages what leaders report "
            "over at least five minutes, and each leader must be of a release that reports it",
            weight=weight,
        )
        for weight in goal.weights
        if weight not in weighing.weights
    ]


def _drain(layout: Layout, goal: Drain) -> list[Rejection]:
    unknown = _unknown_brokers(layout, goal.broker_ids)
    if unknown:
        return unknown
    rejections = _locked_leavers(layout)
    takers = layout.takers
    rejections += _no_receivers(layout, evacuate(layout, takers, MoveReason.DRAIN))
    freedom = Freedom(donors=frozenset(), receivers=takers)
    _even_out(layout, freedom, MoveReason.DRAIN)
    _weigh_bytes(layout, freedom, Rebalance(disk_permille=DISK_PERMILLE))
    layout.settle_order()
    effort = Effort(SEARCH_LOOKS_MAX)
    balance_leaders(layout, freedom, list(layout.touched), effort)
    if _are_leaders_even(layout, takers):  # then they are to be so afterwards, too
        balance_leaders(layout, freedom, layout.unlocked, effort)
    spread_succession(layout)
    return rejections


def _are_leaders_even(layout: Layout, brokers: frozenset[int]) -> bool:
    """Return whether the numbers of leaders before the plan differ by one at most."""
    leads = [0] * len(layout.broker_ids)
    for replicas in layout.original:
        leads[replicas[0]] += 1
    counts = [leads[broker] for broker in brokers]
    return max(counts, default=0) - min(counts, default=0) <= 1


def _separate(layout: Layout) -> list[Rejection]:
    takers = layout.takers
    separate(layout, takers, takers)
    _even_out(layout, Freedom(donors=frozenset(), receivers=takers), MoveReason.SEPARATION)
    layout.settle_order()
    return []


def _change_factor(snapshot: Snapshot, layout: Layout, goal: ChangeReplicationFactor) -> list[Rejection]:
    topic = snapshot.topic(goal.topic_id)
    factor = goal.replication_factor
    if topic is None:
        return [unknown_topic(goal.topic_id)]
    if factor < 1:
        detail = f"the replication factor must be at least 1, not {factor}"
        return [Rejection(code=RejectionCode.INVALID_REPLICATION_FACTOR, detail=detail, topic=topic.topic)]
    held = (len(found.replicas) for found in layout.partitions if found.topic_id == goal.topic_id)
    too_few = below_minimum(max(held, default=0), factor, topic.own_minimum)
    if too_few is not None:
        return [
            Rejection(
                code=RejectionCode.INVALID_REPLICATION_FACTOR,
                detail=too_few,
                topic_id=topic.topic_id,
                topic=topic.topic,
            )
        ]
    rejections, growing, shrinking = [], [], []
    for number, partition in enumerate(layout.partitions):
        count = len(partition.replicas)
        if partition.topic_id != goal.topic_id or count == factor:
            continue
        if number in layout.locked:
            rejections.append(rejected_as_locked(layout, number))
        elif count < factor:
            growing.append(number)
        elif (in_sync := min(factor, len(partition.isr))) < (minimum := topic.minimum_of(factor)):
            detail = f"{in_sync} of those that would remain are in sync, and {minimum} must be"
            rejections.append(rejected(partition, RejectionCode.NOT_ENOUGH_IN_SYNC, detail))
        else:
            shrinking.append(number)
    takers = layout.takers
    shrink(layout, shrinking, factor)
    stuck = grow(layout, growing, factor, takers)
    rejections += _no_receivers(layout, stuck)
    _even_out(layout, Freedom(donors=frozenset(), receivers=takers), MoveReason.REPLICATION_FACTOR)
    layout.settle_order()
    return rejections


# --- what can't be had --------------------------------------------------------------------------------------


def _unknown_brokers(layout: Layout, broker_ids: Sequence[int]) -> list[Rejection]:
    return [
        Rejection(
            code=RejectionCode.UNKNOWN_BROKER, detail=f"broker {broker_id} is not a member of this cluster"
        )
        for broker_id in broker_ids
        if broker_id not in layout.index
    ]


def _check_receivers(layout: Layout, broker_ids: Sequence[int]) -> list[Rejection]:
    unknown = _unknown_brokers(layout, broker_ids)
    return unknown or [
        Rejection(
            code=RejectionCode.BROKER_TAKES_NO_REPLICAS, detail=f"broker {broker_id} takes no replicas now"
        )
        for broker_id in broker_ids
        if not layout.receives[layout.index[broker_id]]
    ]


def _locked_leavers(layout: Layout) -> list[Rejection]:
    return [
        rejected_as_locked(layout, number)
        for number in sorted(layout.locked)
        if any(layout.leaving[b] for b in layout.replicas[number])
    ]


def _skipped(layout: Layout, goal: Goal, plan: Plan) -> Iterator[Rejection]:
    """Yield what stays as it is although the goal is about it, and why."""
    if isinstance(goal, Assign):
        changed = {move.key for move in plan.moves} | {(r.topic_id, r.partition) for r in plan.rejections}
        wanted = {assignment.key for assignment in goal.assignments}
        for partition in layout.partitions:
            if partition.key in wanted and partition.key not in changed:
                yield rejected(partition, RejectionCode.NO_CHANGE, "it is on these brokers already")
    elif isinstance(goal, Rebalance | SeparateReplicas):
        if isinstance(goal, SeparateReplicas) and not plan.rejections:
            yield from _inseparable(layout)
        levels = plan.after
        is_even = (
            isinstance(goal, SeparateReplicas) or max(levels.replicas.spread, levels.leaders.spread) <= 1
        )
        if plan.rejections or (is_even and not levels.crowded):
            return
        if isinstance(goal, Rebalance) and goal.floor_permille:
            detail = (
                f"where no broker is farther from the mean than {goal.floor_permille / 10:g} %, nothing moves"
            )
            yield Rejection(code=RejectionCode.BELOW_FLOOR, detail=detail)
            return
        for number in sorted(layout.locked):
            yield rejected_as_locked(layout, number)
        if not layout.locked:
            is_known = any(layout.room[broker] is not None for broker in layout.takers)
            what = "disks, hosts and racks" if is_known else "hosts and racks"
            detail = f"the {what} of the brokers that may receive replicas allow nothing more even"
            yield Rejection(code=RejectionCode.NO_BETTER_PLACE, detail=detail)


def _inseparable(layout: Layout) -> Iterator[Rejection]:
    """Yield what shares a host or a rack as little as can be, and does: it is lost together all the same."""
    ideal = Ideal(layout, sorted(layout.givers) or range(len(layout.broker_ids)))
    close: dict[bool, list[PartitionSnapshot]] = {True: [], False: []}
    for partition, held in zip(layout.partitions, layout.replicas, strict=True):
        pairs = layout.pairs(held)
        if (0, 0) < pairs <= ideal.of(held):
            close[pairs[0] > 0].append(partition)
    for on_host, found in close.items():
        if found:
            what = "host" if on_host else "rack"
            more = "" if len(found) == 1 else f" and of {len(found) - 1} more partitions"
            yield rejected(
                found[0],
                RejectionCode.SHARES_HOST if on_host else RejectionCode.SHARES_RACK,
                f"replicas of it{more} share a {what}, and there are too few {what}s to separate them",
            )


def _no_receivers(layout: Layout, numbers: Sequence[int]) -> list[Rejection]:
    takers, rejections = layout.takers, []
    for number in sorted(numbers):
        code, detail = RejectionCode.NO_RECEIVER, "every broker that takes replicas holds one of it already"
        if not all(b in layout.replicas[number] or layout.fits(number, b) for b in takers):
            code = RejectionCode.NO_ROOM
            detail = "no other broker that takes replicas has room for it on its disk above the reserve"
        rejections.append(rejected(layout.partitions[number], code, detail))
    return rejections


def _moves(layout: Layout) -> list[Move]:
    ids = layout.broker_ids
    moves = []
    for number, why in sorted(layout.touched.items()):
        replicas, original = layout.replicas[number], layout.original[number]
        if tuple(replicas) == original:
            continue
        partition = layout.partitions[number]
        coming = len(set(replicas).difference(original))
        is_reordered = not coming and len(replicas) == len(original)
        is_by_hand = MoveReason.BY_HAND in why
        moves.append(
            Move(
                topic_id=partition.topic_id,
                topic=partition.topic,
                partition=partition.partition,
                partition_epoch=partition.partition_epoch,
                replicas_before=partition.replicas,
                replicas_after=tuple(ids[b] for b in replicas),
                reasons=(MoveReason.LEADER_BALANCE,) if is_reordered and not is_by_hand else tuple(why),
                size_bytes=partition.size_bytes,
                bytes=coming * layout.size[number],
            )
        )
    return moves
