"""Rebalances that empty brokers while they fill others, and those that leave small differences alone."""

from __future__ import annotations

import heapq
from itertools import pairwise
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from controller.core.planning import assembly
from controller.core.planning.goals import DISK_PERMILLE, Drain, Rebalance, RebalanceMode
from controller.core.planning.plan import PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from tests.kit.controller.planning_board import (
    alone,
    carry_out,
    check_moves,
    clusters,
    leads,
    loads,
    spread,
    with_states,
)

MB = 1024**2


def test_a_new_broker_gets_its_share_of_very_many_partitions() -> None:
    """Few receivers make donors wait for each other; the search for who gives what must not end half-way."""
    before = alone(7, *[tuple((n + turn) % 6 for turn in range(3)) for n in range(12_000)])
    plan = make_plan(before, Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(6,)))
    assert spread(loads(carry_out(before, plan.moves))) <= 1
    assert plan.totals.bytes == plan.totals.bytes_least


def test_the_order_of_very_many_moves_is_found_with_few_looks_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each move that is taken makes all others of its brokers a little less urgent."""
    looks = 0

    def replace(heap: list[tuple[int, int, int]], item: tuple[int, int, int]) -> object:
        nonlocal looks
        looks += 1
        return heapq.heapreplace(heap, item)

    sizes = [number * 7_919 % 1_000_003 + 1 for number in range(6_000)]
    before = alone(7, *[tuple((n + turn) % 6 for turn in range(3)) for n in range(6_000)], sizes=sizes)
    monkeypatch.setattr(assembly, "heapq", SimpleNamespace(**vars(heapq) | {"heapreplace": replace}))
    plan = make_plan(before, Rebalance())
    assert len(plan.moves) > 2_000 and looks < 8 * len(plan.moves)
    worth = [move.gain / (move.bytes + 1) for move in plan.moves]
    assert all(later < earlier * 1.1 for earlier, later in pairwise(worth))


# --- some come, some go -------------------------------------------------------------------------------------


def test_brokers_that_come_take_what_those_that_go_have_in_one_movement() -> None:
    before = alone(6, *[(n % 4, (n + 1) % 4) for n in range(24)])
    goal = Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(4, 5), drain_ids=(0, 1))
    plan = make_plan(before, goal)
    assert loads(carry_out(before, plan.moves)) == {0: 0, 1: 0, 2: 12, 3: 12, 4: 12, 5: 12}
    assert {b for move in plan.moves for b in move.adding} == {4, 5}
    first = make_plan(before, Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(4, 5)))
    second = make_plan(carry_out(before, first.moves), Drain(broker_ids=(0, 1)))
    assert plan.totals.bytes == 2_400 < first.totals.bytes + second.totals.bytes


@given(st.data())
def test_one_movement_empties_as_a_drain_does_and_evens_out_as_a_rebalance_does(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=6, partitions_max=12)), data.draw)
    ids = [broker.broker_id for broker in cluster.brokers]
    gone = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=2))
    plan = make_plan(cluster, Rebalance(drain_ids=tuple(sorted(gone))))
    assert not gone.intersection(b for move in plan.moves for b in move.adding)
    after = carry_out(cluster, plan.moves)
    if plan.outcome is not PlanOutcome.INFEASIBLE:
        locked = [p for p in cluster.partitions if p.is_reassigning or p.leader == -1]
        assert locked or not any(gone.intersection(p.replicas) for p in after.partitions)
    assert not make_plan(after, Rebalance(drain_ids=tuple(sorted(gone)))).moves


def test_a_broker_that_can_not_go_or_come_is_named() -> None:
    cluster = alone(2, (0, 1))
    plan = make_plan(cluster, Rebalance(drain_ids=(9,)))
    assert [r.code for r in plan.rejections] == [RejectionCode.UNKNOWN_BROKER]
    stuck = make_plan(cluster, Rebalance(drain_ids=(0,)))
    assert [(r.partition, r.code) for r in stuck.rejections] == [(0, RejectionCode.NO_RECEIVER)]
    both = make_plan(cluster, Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(1,), drain_ids=(1,)))
    assert [r.code for r in both.rejections] == [RejectionCode.BROKER_TAKES_NO_REPLICAS]


# --- a floor ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("percent", "moves"), [(0, 2), (19, 2), (20, 0), (100, 0)])
def test_nothing_moves_while_no_broker_is_farther_from_the_mean_than_the_floor(
    percent: int, moves: int
) -> None:
    """Twelve replicas and eight: a fifth more, and a fifth less, than ten."""
    cluster = alone(2, *[(0,)] * 12, *[(1,)] * 8)
    plan = make_plan(cluster, Rebalance(floor_permille=10 * percent))
    assert len(plan.moves) == moves
    if not moves:
        assert [(r.code, r.detail) for r in plan.skipped] == [
            (
                RejectionCode.BELOW_FLOOR,
                f"where no broker is farther from the mean than {percent} %, nothing moves",
            )
        ]


def test_leaders_have_the_same_floor_as_replicas() -> None:
    cluster = alone(2, *[(0, 1)] * 6, *[(1, 0)] * 4)
    assert make_plan(cluster, Rebalance(floor_permille=200)).outcome is PlanOutcome.NO_IMPROVEMENT
    plan = make_plan(cluster, Rebalance(floor_permille=190))
    assert spread(leads(carry_out(cluster, plan.moves))) == 0


def test_bytes_have_a_floor_of_their_own() -> None:
    cluster = alone(2, (0,), (0,), (1,), (1,), sizes=[300 * MB, 200 * MB, 100 * MB, 100 * MB])
    for moves, goal in (
        (True, Rebalance(disk_permille=DISK_PERMILLE)),
        (True, Rebalance(disk_permille=DISK_PERMILLE, floor_bytes=149 * MB)),
        (False, Rebalance(disk_permille=DISK_PERMILLE, floor_bytes=150 * MB)),
        (False, Rebalance(disk_permille=DISK_PERMILLE, floor_permille=450)),
    ):
        assert bool(make_plan(cluster, goal).moves) is moves


@given(st.data())
def test_what_has_to_go_goes_whatever_the_floor(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=6, partitions_max=12)), data.draw)
    plan = make_plan(cluster, Rebalance(floor_permille=1_000_000))
    check_moves(cluster, plan.moves)
    leaving = {b.broker_id for b in cluster.brokers if b.leaving}
    forced = make_plan(cluster, Rebalance())
    assert bool(leaving.intersection(b for m in plan.moves for b in m.removing)) == bool(
        leaving.intersection(b for m in forced.moves for b in m.removing)
    )
