"""Rebalances weigh bytes after counts: counts stay as even, and no broker stores far more than the mean."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from controller.core.planning.goals import DISK_PERMILLE, Drain, Rebalance, RebalanceMode
from controller.core.planning.plan import MoveReason, Plan, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import Snapshot
from tests.kit.controller.planning_board import (
    alone,
    broker,
    carry_out,
    check_moves,
    clusters,
    cost_after,
    partition,
    snapshot,
    with_states,
)

MB = 1024**2


def in_mib(cluster: Snapshot) -> Snapshot:
    """Sizes large enough to be worth a copy."""
    return msgspec.structs.replace(
        cluster,
        partitions=tuple(
            msgspec.structs.replace(p, size_bytes=(p.size_bytes or 1) * MB) for p in cluster.partitions
        ),
    )


def weighed(goal: Rebalance) -> Rebalance:
    return msgspec.structs.replace(goal, disk_permille=DISK_PERMILLE)


def stored_on(cluster: Snapshot, broker_ids: list[int]) -> list[int]:
    return [sum(p.size_bytes or 0 for p in cluster.partitions if b in p.replicas) for b in broker_ids]


def highest_over_mean(plan: Plan) -> float:
    level = plan.after.bytes
    return level.highest * level.brokers / level.total


@given(st.data())
def test_bytes_come_out_no_less_even_and_everything_else_as_without_them(data: st.DataObject) -> None:
    cluster = in_mib(with_states(data.draw(clusters(brokers_max=6, partitions_max=15)), data.draw))
    goal = Rebalance()
    if data.draw(st.booleans()):
        new = data.draw(st.sets(st.sampled_from([b.broker_id for b in cluster.brokers]), min_size=1))
        goal = Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=tuple(sorted(new)))
    counted, plan = make_plan(cluster, goal), make_plan(cluster, weighed(goal))
    check_moves(cluster, plan.moves)
    if goal.new_broker_ids:
        assert {b for move in plan.moves for b in move.adding} <= set(goal.new_broker_ids)
    assert cost_after(cluster, plan)[:3] <= cost_after(cluster, counted)[:3]
    staying = [b.broker_id for b in cluster.brokers if not b.leaving]
    stored = stored_on(carry_out(cluster, plan.moves), staying)
    most = max(stored_on(carry_out(cluster, counted.moves), staying), default=0)
    assert max(stored, default=0) <= max(most, 1.1 * sum(stored) / max(len(stored), 1))
    if not plan.skipped:
        assert not make_plan(carry_out(cluster, plan.moves), weighed(goal)).moves


@pytest.mark.parametrize("seed", range(5))
def test_of_many_partitions_of_very_different_sizes_no_broker_stores_far_more_than_the_mean(
    seed: int,
) -> None:
    drawn = random.Random(seed)
    sizes = [int(10 * MB * drawn.paretovariate(1.5)) for _ in range(300)]
    members = [broker(b, None, f"rack{b % 4}") for b in range(8)]
    cluster = snapshot(
        members, [partition(n, *drawn.sample(range(6), 3), size=size) for n, size in enumerate(sizes)]
    )
    for goal in (Rebalance(), Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(6, 7))):
        counted, plan = make_plan(cluster, goal), make_plan(cluster, weighed(goal))
        check_moves(cluster, plan.moves)
        assert plan.after.replicas == counted.after.replicas
        most = 1.1 if goal.mode is RebalanceMode.FULL else 1.2  # old brokers can't trade with each other
        assert highest_over_mean(plan) <= most < highest_over_mean(counted)
        assert plan.totals.bytes_least is None
        assert sum(move.gain for move in plan.moves[: len(plan.moves) // 2]) > 0


def test_a_drain_gives_each_of_the_others_its_share_of_the_bytes_at_no_cost() -> None:
    sizes = [100 * MB, 90 * MB, 80 * MB, 10 * MB, 10 * MB, 10 * MB]
    cluster = alone(3, *[(0,)] * 6, (1,), (2,), sizes=[*sizes, 200 * MB, 60 * MB])
    plan = make_plan(cluster, Drain(broker_ids=(0,)))
    assert plan.totals.bytes == plan.totals.bytes_least == sum(sizes)
    assert plan.after.replicas.spread == 0
    assert plan.after.bytes.highest <= 1.1 * plan.after.bytes.total / 2
    assert {move.reasons for move in plan.moves} == {(MoveReason.DRAIN,)}


def test_what_can_not_be_evened_out_is_said() -> None:
    cluster = alone(2, (0,), (0,), sizes=[900 * MB, 10 * MB])
    plan = make_plan(cluster, weighed(Rebalance()))
    assert [(r.code, r.weight) for r in plan.skipped] == [(RejectionCode.TOO_HEAVY, "disk")]
    assert plan.skipped[0].detail.startswith("disk: t-0 alone is 1.98 times a broker's mean")


def test_small_change_moves_nothing() -> None:
    """Less than a megabyte on each broker in the mean is not worth a copy."""
    cluster = alone(2, (0,), (1,), (0,), (1,), sizes=[400_000, 1, 400_000, 1])
    assert not make_plan(cluster, weighed(Rebalance())).moves
