"""Plans against brute force: on small clusters every assignment is tried, and none is better."""

from __future__ import annotations

import itertools
from collections import Counter

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from controller.core.planning.exact import improve
from controller.core.planning.goals import Drain, Rebalance, RebalanceMode
from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.plan import MoveReason, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.selection import select
from controller.core.planning.snapshot import BrokerSnapshot, Snapshot
from tests.kit.controller.planning_board import (
    alone,
    broker,
    carry_out,
    check_moves,
    clusters,
    cost,
    cost_after,
    least_cost,
    partition,
    snapshot,
    with_states,
)


def is_solvable(cluster: Snapshot) -> bool:
    """Whether somebody can take what leaves: otherwise there is nothing to compare."""
    takers = [b.broker_id for b in cluster.brokers if b.receives and not b.leaving]
    leaving = {b.broker_id for b in cluster.brokers if b.leaving}
    return all(
        len([b for b in takers if b not in p.replicas]) >= len(leaving.intersection(p.replicas))
        for p in cluster.partitions
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_rebalance_is_as_far_apart_as_even_and_as_cheap_as_can_be(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=4, partitions_max=4)), data.draw)
    plan = make_plan(cluster, Rebalance())
    check_moves(cluster, plan.moves)
    if is_solvable(cluster):
        assert cost_after(cluster, plan) == least_cost(cluster)
        assert not make_plan(carry_out(cluster, plan.moves), Rebalance()).moves


def laid(layout: Layout) -> list[frozenset[int]]:
    """Who holds each partition now: brokers are numbered as they are called here."""
    return [frozenset(replicas) for replicas in layout.replicas]


@settings(max_examples=100, deadline=None)
@given(clusters(brokers_max=5, partitions_max=4), st.data())
def test_improvements_alone_lead_from_anywhere_to_the_best_there_is(
    cluster: Snapshot, data: st.DataObject
) -> None:
    """Without the quick searches before it, which leave it little to do; some of the replicas have been put
    elsewhere by the plan before."""
    states = st.sampled_from([{}, {}, {}, {"receives": False}])
    brokers = tuple(msgspec.structs.replace(b, **data.draw(states)) for b in cluster.brokers)
    conditions = st.sampled_from([{}, {}, {}, {"is_reassigning": True}])
    parts = tuple(msgspec.structs.replace(p, **data.draw(conditions)) for p in cluster.partitions)
    cluster = msgspec.structs.replace(cluster, brokers=brokers, partitions=parts)
    layout = Layout(cluster)
    new = frozenset(data.draw(st.sets(st.sampled_from(range(len(brokers))), min_size=1)))
    receivers = layout.takers & new or layout.takers
    for number in layout.unlocked:
        moves = [(b, t) for b in layout.replicas[number] if b in layout.givers for t in receivers]
        moves = [(b, t) for b, t in moves if t not in layout.replicas[number]]
        for source, target in data.draw(st.sampled_from([[], *([move] for move in moves)])):
            layout.move(number, source, target, MoveReason.DRAIN)
    assert improve(layout, Freedom(layout.givers, receivers), MoveReason.BALANCE, Effort(1_000_000))
    assert cost(cluster, laid(layout)) == least_cost(cluster, new=receivers)


def on(*places: tuple[str, str]) -> list[BrokerSnapshot]:
    return [broker(b, host, rack) for b, (host, rack) in enumerate(places)]


APART = on(("a", "r"), ("b", "r"), ("c", "s"), ("d", "s"))
FIVE = on(*((host, "r") for host in "abcda"))


@pytest.mark.parametrize(
    ("brokers", "parts", "is_proven", "is_best"),
    [
        (APART, [(0, 1)], True, True),  # racks
        (APART, [(0, 1), (0, 2), (1, 2)], True, True),
        (on(("a", "r"), ("a", "r"), ("b", "r"), ("c", "r")), [(0, 1), (2, 3)], True, True),  # hosts
        (on(("a", "r"), ("a", "r"), ("b", "s"), ("c", "r")), [(0, 1, 2)], True, True),
        # Moves of one partition that get in each other's way are set aside, until others are carried out.
        (on(*[("a", "r"), ("b", "s")] * 2), [(0, 2, 3), (3, 2, 1), (2, 3, 0), (2, 0)], True, True),
        (FIVE, [(4, 3, 2), (0, 4), (3, 2, 1), (1, 0, 3)], False, False),
    ],
)
def test_improvements_separate_and_tell_whether_nothing_better_exists(
    brokers: list[BrokerSnapshot], parts: list[tuple[int, ...]], *, is_proven: bool, is_best: bool
) -> None:
    sizes = [1, 2, 9, 2] if len(brokers) == 4 else [9, 2, 1, 1]
    cluster = snapshot(brokers, [partition(n, *p, size=sizes[n]) for n, p in enumerate(parts)])
    layout = Layout(cluster)
    free = Freedom(layout.givers, layout.takers)
    assert improve(layout, free, MoveReason.BALANCE, Effort(10_000)) is is_proven
    assert (cost(cluster, laid(layout)) == least_cost(cluster)) is is_best


def test_improvements_may_have_no_room_or_no_time_and_then_better_ones_may_exist() -> None:
    uneven = snapshot([broker(b) for b in range(2)], [partition(n, 0) for n in range(4)])
    free = Freedom(frozenset({0, 1}), frozenset({0, 1}))
    for looks, room, is_best, loads in (
        (7, None, False, [4, 0]),
        (23, None, False, [2, 2]),
        (24, None, True, [2, 2]),
        (100, 0, False, [4, 0]),
        (100, 100, False, [3, 1]),
        (100, 199, False, [3, 1]),
        (100, 400, True, [2, 2]),
    ):
        full = msgspec.structs.replace(uneven.brokers[1], room_bytes=room)
        layout = Layout(msgspec.structs.replace(uneven, brokers=(uneven.brokers[0], full)))
        assert improve(layout, free, MoveReason.BALANCE, Effort(looks)) is is_best
        assert layout.load == loads


def test_improvements_move_on_what_was_placed_where_nobody_gives() -> None:
    layout = Layout(alone(3, (0,), (0,), (1,)))
    for number in (0, 1):
        layout.move(number, 0, 1, MoveReason.DRAIN)
    assert improve(layout, Freedom(frozenset(), frozenset({1, 2})), MoveReason.DRAIN, Effort(100))
    assert (layout.load, layout.replicas[2]) == ([0, 2, 1], [1])


def test_a_replica_on_a_cordoned_broker_does_not_keep_the_others_on_one_host() -> None:
    """The brokers that take replicas are on two hosts: three replicas on them alone would have to share one.
    This partition has its third elsewhere."""
    brokers = [broker(0, "a"), broker(1, "b"), broker(2, "c", receives=False), broker(3, "a")]
    cluster = snapshot(brokers, [partition(0, 0, 2, 3)])
    plan = make_plan(cluster, Rebalance())
    assert [(move.removing, move.adding) for move in plan.moves] in ([((3,), (1,))], [((0,), (1,))])
    assert (plan.before.crowded, plan.after.crowded) == (1, 0)
    assert cost_after(cluster, plan) == least_cost(cluster)


@settings(max_examples=150, deadline=None)
@given(clusters(brokers_max=5, partitions_max=4), st.data())
def test_new_brokers_are_filled_with_the_least_bytes(cluster: Snapshot, data: st.DataObject) -> None:
    new = data.draw(st.sets(st.sampled_from([b.broker_id for b in cluster.brokers]), min_size=1))
    goal = Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=tuple(sorted(new)))
    plan = make_plan(cluster, goal)
    check_moves(cluster, plan.moves)
    assert {b for move in plan.moves for b in move.adding} <= new
    assert cost_after(cluster, plan) == least_cost(cluster, new=frozenset(new))
    assert not make_plan(carry_out(cluster, plan.moves), goal).moves


@settings(max_examples=150, deadline=None)
@given(clusters(brokers_max=5, partitions_max=5), st.data())
def test_a_drain_moves_what_must_go_to_where_it_is_best(cluster: Snapshot, data: st.DataObject) -> None:
    ids = [b.broker_id for b in cluster.brokers]
    gone = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=len(ids) - 1))
    plan = make_plan(cluster, Drain(broker_ids=tuple(sorted(gone))))
    emptied = msgspec.structs.replace(
        cluster,
        brokers=tuple(msgspec.structs.replace(b, leaving=b.broker_id in gone) for b in cluster.brokers),
    )
    check_moves(emptied, plan.moves)
    if is_solvable(emptied):
        assert cost_after(emptied, plan) == least_cost(emptied, is_drain=True)
        assert not plan.rejections
        assert plan.totals.bytes == plan.totals.bytes_least
        after = carry_out(cluster, plan.moves)
        assert not any(gone.intersection(p.replicas) for p in after.partitions)
        assert not make_plan(after, Drain(broker_ids=tuple(sorted(gone)))).moves
    else:
        assert {r.code for r in plan.rejections} == {RejectionCode.NO_RECEIVER}


@settings(max_examples=60, deadline=None)
@given(clusters(brokers_max=4, partitions_max=4, has_domains=False), st.data())
def test_what_donors_give_to_two_receivers_is_the_lightest_they_can(
    cluster: Snapshot, data: st.DataObject
) -> None:
    layout = Layout(cluster)
    offers = {donor: list(layout.held[donor]) for donor in range(len(layout.load))}
    owed = {donor: data.draw(st.integers(0, len(numbers))) for donor, numbers in offers.items()}
    chosen = select(layout, offers, owed, 2, Effort(10_000))
    given = Counter(number for number, _ in chosen)
    assert len(set(chosen)) == len(chosen)
    assert max(given.values(), default=0) <= 2
    assert all(number in offers[donor] for number, donor in chosen)
    assert all(sum(donor == b for _, b in chosen) <= count for donor, count in owed.items())
    best = (0, 0)
    together = [
        [pair for count in range(3) for pair in itertools.combinations(replicas, count)]
        for replicas in layout.replicas
    ]
    for matched in itertools.product(*together):
        givers = Counter(donor for pair in matched for donor in pair)
        if all(givers[donor] <= count for donor, count in owed.items()):
            sizes = [len(pair) * layout.size[number] for number, pair in enumerate(matched)]
            best = max(best, (givers.total(), -sum(sizes)))
    assert (len(chosen), -sum(layout.size[number] for number, _ in chosen)) == best


@settings(max_examples=150, deadline=None)
@given(clusters(brokers_max=4, partitions_max=5, has_domains=False), st.data())
def test_what_donors_give_together_is_the_lightest_they_can(cluster: Snapshot, data: st.DataObject) -> None:
    """One receiver: each partition gives once at most."""
    layout = Layout(cluster)
    offers = {donor: list(layout.held[donor]) for donor in range(len(layout.load))}
    owed = {donor: data.draw(st.integers(0, len(numbers))) for donor, numbers in offers.items()}
    chosen = select(layout, offers, owed, 1, Effort(10_000))
    assert len({number for number, _ in chosen}) == len(chosen)
    assert all(number in offers[donor] for number, donor in chosen)
    assert all(sum(donor == b for _, b in chosen) <= count for donor, count in owed.items())
    best = (0, 0)  # most replicas, then fewest bytes
    for matched in itertools.product(*([None, *replicas] for replicas in layout.replicas)):
        if all(matched.count(donor) <= count for donor, count in owed.items()):
            given = [layout.size[number] for number, donor in enumerate(matched) if donor is not None]
            best = max(best, (len(given), -sum(given)))
    assert (len(chosen), -sum(layout.size[number] for number, _ in chosen)) == best
