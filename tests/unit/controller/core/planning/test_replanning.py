"""A plan some of whose partitions have changed: those get new moves, all others keep theirs."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings

from controller.core.planning.goals import (
    Assign,
    ChangeReplicationFactor,
    Drain,
    Goal,
    Rebalance,
    WantedAssignment,
)
from controller.core.planning.plan import Plan, PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.replanning import replanned, without
from controller.core.planning.snapshot import PartitionSnapshot, Snapshot
from tests.kit.controller.planning_board import alone, carry_out, check_moves, clusters


def _changed(data: st.DataObject, before: PartitionSnapshot) -> PartitionSnapshot | None:
    """None: it is gone."""
    what = data.draw(st.sampled_from(("epoch", "order", "gone")))
    if what == "gone":
        return None
    replicas = before.replicas
    if what == "order":
        replicas = tuple(data.draw(st.permutations(replicas)))
    return msgspec.structs.replace(
        before, replicas=replicas, leader=replicas[0], partition_epoch=before.partition_epoch + 1
    )


def _drift(data: st.DataObject, before: Snapshot, plan: Plan) -> tuple[Snapshot, set[tuple[str, int]]]:
    keys = data.draw(st.sets(st.sampled_from([move.key for move in plan.moves]), min_size=1))
    partitions = [
        _changed(data, partition) if partition.key in keys else partition for partition in before.partitions
    ]
    left = tuple(partition for partition in partitions if partition is not None)
    return msgspec.structs.replace(before, partitions=left), keys


@settings(max_examples=60, deadline=None)
@given(clusters(brokers_max=7, partitions_max=20), st.data())
def test_the_others_keep_their_moves_and_the_goal_is_reached(cluster: Snapshot, data: st.DataObject) -> None:
    broker_id = data.draw(st.sampled_from([b.broker_id for b in cluster.brokers]))
    goals: list[Goal] = [Drain(broker_ids=(broker_id,)), Rebalance()]
    goal = data.draw(st.sampled_from(goals))
    plan = make_plan(cluster, goal)
    if not plan.moves:
        return
    now, keys = _drift(data, cluster, plan)
    again = replanned(now, plan, keys)
    leaving = goal.broker_ids if isinstance(goal, Drain) else ()
    states = (msgspec.structs.replace(b, leaving=b.broker_id in leaving) for b in now.brokers)
    check_moves(msgspec.structs.replace(now, brokers=tuple(states)), again.moves)
    kept = [move for move in plan.moves if move.key not in keys]
    assert list(again.moves[: len(kept)]) == kept
    assert {move.key for move in again.moves} - {move.key for move in kept} <= (
        keys if isinstance(goal, Rebalance) else {p.key for p in now.partitions}
    )
    assert not any(found.code is RejectionCode.REASSIGNMENT_RUNNING for found in again.rejections)
    if isinstance(goal, Drain) and again.outcome is not PlanOutcome.INFEASIBLE:
        after = carry_out(now, again.moves)
        assert not any(broker_id in partition.replicas for partition in after.partitions)
    left_out = without(now, plan, keys)
    assert list(left_out.moves) == kept


def test_what_came_to_a_broker_since_leaves_with_the_rest() -> None:
    before = alone(4, (0, 1), (0, 2))
    plan = make_plan(before, Drain(broker_ids=(0,)))
    first, second = before.partitions
    moved_on = msgspec.structs.replace(second, replicas=(1, 2), leader=1, isr=(1, 2), partition_epoch=8)
    came = msgspec.structs.replace(first, partition=2, replicas=(0, 3), isr=(0, 3))
    now = msgspec.structs.replace(before, partitions=(first, moved_on, came))
    again = replanned(now, plan, {second.key})
    assert {move.key for move in again.moves} == {first.key, came.key}
    assert again.outcome is PlanOutcome.READY


def test_what_really_moves_now_is_named_and_what_we_hold_still_is_not() -> None:
    before = alone(4, (0, 1), (0, 2), (0, 3))
    plan = make_plan(before, Drain(broker_ids=(0,)))
    first, second, third = before.partitions
    moving = msgspec.structs.replace(second, is_reassigning=True, partition_epoch=8)
    now = msgspec.structs.replace(before, partitions=(first, moving, third))
    again = replanned(now, plan, {second.key})
    (rejection,) = again.rejections
    assert (rejection.code, rejection.partition) == (RejectionCode.REASSIGNMENT_RUNNING, 1)


def test_wishes_by_hand_are_asked_again_for_what_has_changed() -> None:
    before = alone(4, (0, 1), (1, 2))
    wanted = tuple(WantedAssignment(topic_id="t", partition=n, replicas=(3, 2)) for n in range(2))
    plan = make_plan(before, Assign(assignments=wanted))
    first, second = before.partitions
    now = msgspec.structs.replace(
        before, partitions=(first, msgspec.structs.replace(second, partition_epoch=8))
    )
    again = replanned(now, plan, {second.key})
    assert [(move.partition, move.partition_epoch, move.replicas_after) for move in again.moves] == [
        (first.partition, 7, (3, 2)),
        (second.partition, 8, (3, 2)),
    ]
    assert again.goal == plan.goal
    # It stands there by now: there is nothing left to do about it.
    there = msgspec.structs.replace(second, replicas=(3, 2), leader=3, isr=(3, 2), partition_epoch=9)
    now = msgspec.structs.replace(before, partitions=(first, there))
    assert [move.partition for move in replanned(now, plan, {second.key}).moves] == [0]


def test_a_replication_factor_reaches_partitions_that_were_added_since() -> None:
    before = alone(4, (0, 1), (1, 2))
    plan = make_plan(before, ChangeReplicationFactor(topic_id="t", replication_factor=3))
    added = msgspec.structs.replace(before.partitions[0], partition=2)
    changed = msgspec.structs.replace(before.partitions[1], partition_epoch=9)
    now = msgspec.structs.replace(before, partitions=(before.partitions[0], changed, added))
    again = replanned(now, plan, {changed.key})
    assert sorted(move.partition for move in again.moves) == [0, 1, 2]
    assert all(len(move.replicas_after) == 3 for move in again.moves)
