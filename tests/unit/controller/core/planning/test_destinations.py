"""Destinations: replicas come only to the brokers that the operator lets them come to."""

from __future__ import annotations

from collections.abc import Collection

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from controller.core.planning.goals import (
    Assign,
    Drain,
    EvenOut,
    Goal,
    Rebalance,
    Relieve,
    SeparateReplicas,
    WantedAssignment,
    Weight,
)
from controller.core.planning.plan import PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.replanning import replanned
from controller.core.planning.snapshot import DiskUse, Snapshot
from tests.kit.controller.planning_board import alone, carry_out, check_moves, clusters, loads, with_states


def only_to(cluster: Snapshot, destinations: Collection[int]) -> Snapshot:
    return msgspec.structs.replace(cluster, destinations=tuple(sorted(destinations)))


GOALS: tuple[Goal, ...] = (
    Rebalance(disk_permille=1_100),
    Drain(broker_ids=(0,)),
    SeparateReplicas(),
    EvenOut(weights=(Weight.REPLICAS, Weight.DISK)),
)


@given(st.data())
def test_nothing_comes_to_a_broker_that_was_not_chosen(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=6, partitions_max=12)), data.draw)
    ids = [broker.broker_id for broker in cluster.brokers]
    chosen = data.draw(st.sets(st.sampled_from(ids)))
    plan = make_plan(only_to(cluster, chosen), data.draw(st.sampled_from(GOALS)))
    if not isinstance(plan.goal, Drain):
        check_moves(cluster, plan.moves)
    assert {b for move in plan.moves for b in move.adding} <= chosen
    assert plan.destinations == tuple(sorted(chosen))


def test_those_that_were_not_chosen_give_and_keep_the_rest() -> None:
    before = alone(4, *[(0,)] * 6, *[(1,)] * 4)
    plan = make_plan(only_to(before, [2]), Rebalance())
    assert loads(carry_out(before, plan.moves)) == {0: 3, 1: 4, 2: 3, 3: 0}
    assert make_plan(alone(2, (0,)), Rebalance()).destinations is msgspec.UNSET


def test_a_wish_for_another_broker_is_refused() -> None:
    cluster = only_to(alone(3, (0,)), [2])
    wanted = WantedAssignment(topic_id="t", partition=0, replicas=(1,))
    plan = make_plan(cluster, Assign(assignments=(wanted,)))
    assert [r.code for r in plan.rejections] == [RejectionCode.BROKER_TAKES_NO_REPLICAS]


def test_new_moves_for_what_has_drifted_go_to_the_chosen_too() -> None:
    before = alone(4, (0,), (0,), sizes=[100, 100])
    plan = make_plan(only_to(before, [3]), Drain(broker_ids=(0,)))
    again = replanned(before, plan, {("t", 0)})
    assert (again.outcome, again.destinations) == (PlanOutcome.READY, (3,))
    assert {move.replicas_after for move in again.moves} == {(3,)}


def test_new_moves_count_on_what_the_others_bring_and_take() -> None:
    """Of 200 to be relieved, 100 are on moves that stay: one more is enough, though two have drifted."""
    before = alone(2, *[(0,)] * 4)
    full = msgspec.structs.replace(before.brokers[0], disk=DiskUse(900, 1_000), room_bytes=50)
    free = msgspec.structs.replace(before.brokers[1], disk=DiskUse(100, 1_000), room_bytes=250)
    before = msgspec.structs.replace(before, brokers=(full, free))
    plan = make_plan(before, Relieve(broker_id=0, used_percent=70))
    assert len(plan.moves) == 2
    again = replanned(before, plan, {plan.moves[0].key})
    assert len(again.moves) == 2
