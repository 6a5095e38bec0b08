"""What each goal plans, what it refuses and why, and what holds for every plan."""

from __future__ import annotations

import unittest.mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from controller.core.events import (
    AddPartitions,
    AlterReassignments,
    ClusterConfigured,
    ConfigureCluster,
    PartitionsAdded,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.core.placement import PlacementBroker, place_replicas
from controller.core.planning import planner
from controller.core.planning.goals import (
    Assign,
    ChangeReplicationFactor,
    Drain,
    Goal,
    PlacePartitions,
    Rebalance,
    RebalanceMode,
    Replace,
    SeparateReplicas,
    WantedAssignment,
)
from controller.core.planning.plan import (
    GainPoint,
    MoveReason,
    Plan,
    PlanOutcome,
    RejectionCode,
    canonical_json,
    content_hash,
)
from controller.core.planning.planner import EXACT_MOVES_MAX, make_plan
from controller.core.planning.replanning import drifted, moves_within
from controller.core.planning.snapshot import Snapshot, take_snapshot
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import PartitionLag
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.planning_board import (
    alone,
    broker,
    carry_out,
    check_moves,
    clusters,
    cut,
    leads,
    loads,
    partition,
    snapshot,
    spread,
    with_states,
)


def targets(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {move.partition: move.replicas_after for move in plan.moves}


def codes(plan: Plan) -> dict[int | None, RejectionCode]:
    return {rejection.partition: rejection.code for rejection in plan.rejections}


def placed(brokers: int, partitions: int, *, factor: int = 3, size: int = 100) -> Snapshot:
    """A cluster as the controller places it."""
    members = [PlacementBroker(b, f"host{b}") for b in range(brokers)]
    assignments = place_replicas(members, partitions=partitions, replication_factor=factor)
    return alone(brokers, *assignments, sizes=[size + number for number in range(partitions)])


def with_brokers(cluster: Snapshot, *broker_ids: int) -> Snapshot:
    return msgspec.structs.replace(cluster, brokers=cluster.brokers + tuple(broker(b) for b in broker_ids))


# --- rebalance ----------------------------------------------------------------------------------------------


def test_a_new_broker_gets_the_smallest_replicas_and_its_part_of_the_leaders() -> None:
    cluster = with_brokers(placed(4, 40), 4)
    plan = make_plan(cluster, Rebalance())
    after = carry_out(cluster, plan.moves)
    assert plan.outcome is PlanOutcome.READY
    assert loads(after) == dict.fromkeys(range(5), 24)
    assert leads(after) == dict.fromkeys(range(5), 8)
    assert plan.totals.copies == 24
    assert plan.totals.bytes == plan.totals.bytes_least
    assert (plan.before.replicas.spread, plan.after.replicas.spread) == (30, 0)
    assert plan.before.replicas.skew == pytest.approx(30 / 24)


def test_only_new_brokers_receive_and_old_ones_do_not_trade_among_themselves() -> None:
    cluster = with_brokers(alone(3, *[(0, 1)] * 6, (2, 0)), 3)
    plan = make_plan(cluster, Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(3,)))
    assert {b for move in plan.moves for b in move.adding} == {3}
    assert loads(carry_out(cluster, plan.moves)) == {0: 4, 1: 5, 2: 1, 3: 4}
    full = make_plan(cluster, Rebalance())
    assert sorted(loads(carry_out(cluster, full.moves)).values()) == [3, 3, 4, 4]


def test_what_is_even_is_left_alone() -> None:
    plan = make_plan(placed(5, 60), Rebalance())
    assert (plan.outcome, plan.moves, plan.curve) == (PlanOutcome.NO_IMPROVEMENT, (), ())
    assert plan.worst_slack is None
    assert plan.totals.bytes_least == 0


def test_a_replica_that_only_a_chain_over_a_third_broker_frees_still_moves() -> None:
    """Broker 0 holds what broker 2 has already; broker 1 has something that broker 2 lacks."""
    cluster = alone(3, (0, 2), (0, 2), (0, 1), (0, 1), (1,))
    plan = make_plan(cluster, Rebalance())
    check_moves(cluster, plan.moves)
    assert sorted(loads(carry_out(cluster, plan.moves)).values()) == [3, 3, 3]


def test_a_cluster_too_large_to_solve_exactly_stays_near_the_bound_that_the_counts_set() -> None:
    cluster = placed(40, 1_200)
    assert EXACT_MOVES_MAX < 1_200 * 3 * 40
    for joining, above in (((40,), 1.1), (range(40, 44), 1.0)):
        larger = with_brokers(cluster, *joining)
        plan = make_plan(larger, Rebalance())
        check_moves(larger, plan.moves)
        assert plan.totals.bytes_least is not None
        assert plan.totals.bytes_least <= plan.totals.bytes <= above * plan.totals.bytes_least
        assert max(plan.after.replicas.spread, plan.after.leaders.spread) <= 1
        assert not make_plan(carry_out(larger, plan.moves), Rebalance()).moves


def test_racks_that_are_not_equal_are_balanced_each_for_itself() -> None:
    """A third of all replicas in each of three racks of 20, 12 and 8 brokers: nothing can leave its rack."""
    brokers = [broker(b, rack="a" if b < 20 else "b" if b < 32 else "c") for b in range(40)]
    partitions = [partition(n, n % 19, 20 + n % 7, 32 + n % 3, size=n + 1) for n in range(960)]
    cluster = snapshot(brokers, partitions)
    plan = make_plan(cluster, Rebalance())
    check_moves(cluster, plan.moves)
    after = loads(carry_out(cluster, plan.moves))
    assert [after[b] for b in (0, 19, 20, 31, 32, 39)] == [48, 48, 80, 80, 120, 120]
    assert {after[b] for b in range(40)} == {48, 80, 120}
    assert plan.totals.bytes == plan.totals.bytes_least


def test_brokers_that_are_draining_are_emptied_by_a_rebalance_too() -> None:
    cluster = snapshot(
        [broker(0), broker(1), broker(2), broker(3, receives=False, leaving=True), broker(4, receives=False)],
        [partition(n, 3, 4) for n in range(3)],
    )
    plan = make_plan(cluster, Rebalance())
    assert sorted(move.adding for move in plan.moves) == [(0,), (1,), (2,)]
    assert {move.removing for move in plan.moves} == {(3,)}
    assert loads(carry_out(cluster, plan.moves))[4] == 3, "cordoned: it keeps what it has and gets nothing"


@settings(max_examples=60, deadline=None)
@given(clusters(brokers_max=9, partitions_max=40, has_domains=False, factor=3))
def test_brokers_on_hosts_of_their_own_end_within_one_in_replicas_and_leaders(cluster: Snapshot) -> None:
    plan = make_plan(cluster, Rebalance())
    check_moves(cluster, plan.moves)
    after = carry_out(cluster, plan.moves)
    assert spread(loads(after)) <= 1
    assert spread(leads(after)) <= 1
    assert plan.after.replicas.spread == spread(loads(after))
    assert plan.after.leaders.spread == spread(leads(after))
    assert plan.totals.bytes_least is not None
    assert plan.totals.bytes >= plan.totals.bytes_least
    again = make_plan(after, Rebalance())
    assert (again.outcome, again.moves) == (PlanOutcome.NO_IMPROVEMENT, ())


@settings(max_examples=80, deadline=None)
@given(clusters(brokers_max=8, partitions_max=30, has_domains=False))
def test_what_large_clusters_get_is_as_even_as_the_exact_search_makes_it(cluster: Snapshot) -> None:
    exact = make_plan(cluster, Rebalance())
    with unittest.mock.patch.object(planner, "EXACT_MOVES_MAX", 0):
        quick = make_plan(cluster, Rebalance())
    check_moves(cluster, quick.moves)
    assert quick.after.replicas.spread == exact.after.replicas.spread
    assert quick.totals.bytes >= exact.totals.bytes


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_beginning_of_a_plan_is_a_plan(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=8, partitions_max=20)), data.draw)
    ids = [b.broker_id for b in cluster.brokers]
    goals: list[Goal] = [Rebalance(), SeparateReplicas(), Drain(broker_ids=(ids[-1],))]
    goal = data.draw(st.sampled_from(goals))
    plan = make_plan(cluster, goal)
    count = data.draw(st.integers(0, len(plan.moves)))
    part = cut(cluster, plan, count)
    assert part.moves == plan.moves[:count]
    if isinstance(goal, Drain):
        gone = goal.broker_ids
        states = tuple(
            msgspec.structs.replace(b, leaving=b.leaving or b.broker_id in gone) for b in cluster.brokers
        )
        cluster = msgspec.structs.replace(cluster, brokers=states)
    check_moves(cluster, part.moves)
    assert sum(move.bytes for move in part.moves) == part.totals.bytes <= plan.totals.bytes


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 9), st.integers(20, 60), st.data())
def test_after_the_loss_of_any_broker_its_leaders_are_spread_over_the_others(
    count: int, partitions: int, data: st.DataObject
) -> None:
    """Each partition that the plan moved falls to a follower that succeeds its leader no more often than the
    partition's other followers do, give or take one."""
    cluster = with_brokers(placed(count, partitions), count)
    goals: list[Goal] = [Rebalance(), Drain(broker_ids=(0,))]
    plan = make_plan(cluster, data.draw(st.sampled_from(goals)))
    after = carry_out(cluster, plan.moves)
    seconds: dict[tuple[int, ...], int] = {}
    for p in after.partitions:
        seconds[p.replicas[:2]] = seconds.get(p.replicas[:2], 0) + 1
    for move in plan.moves:
        leader, second, *others = move.replicas_after
        assert all(seconds[leader, second] <= seconds.get((leader, other), 0) + 1 for other in others)


# --- the order of the moves ---------------------------------------------------------------------------------


def test_moves_that_remove_most_imbalance_per_byte_come_first_and_the_curve_says_what_a_cut_brings() -> None:
    cluster = alone(2, (0,), (0,), (0,), (0,), (0,), (0,), sizes=[600, 500, 400, 1, 2, 300])
    plan = make_plan(cluster, Rebalance())
    assert [move.bytes for move in plan.moves] == [1, 2, 300]
    assert [move.gain for move in plan.moves] == [20, 12, 4], "replicas and leaders: 18 + 18 in all"
    assert plan.curve[0] == GainPoint(percent=10, moves=1, bytes=1)
    assert plan.curve[7] == GainPoint(percent=80, moves=2, bytes=3)
    assert plan.curve[-1] == GainPoint(percent=100, moves=3, bytes=303)
    assert [moves_within(plan, limit) for limit in (0, 1, 302, 303)] == [0, 1, 2, 3]
    part = cut(cluster, plan, 2)
    assert (part.totals.moves, part.totals.bytes) == (2, 3)
    assert (part.after.replicas.highest, part.after.replicas.lowest) == (4, 2)
    assert content_hash(part) != content_hash(plan)


def test_sizes_that_nobody_reported_are_estimated_and_counted() -> None:
    cluster = snapshot([broker(0), broker(1)], [partition(0, 0, size=30), partition(1, 0, size=None)])
    (move,) = make_plan(cluster, Drain(broker_ids=(0,))).moves[:1]
    assert move.bytes == 30
    plan = make_plan(cluster, Drain(broker_ids=(0,)))
    assert {m.partition: m.size_bytes for m in plan.moves} == {0: 30, 1: None}
    assert (plan.totals.bytes, plan.totals.unknown_sizes) == (60, 1)


# --- the plan as a value ------------------------------------------------------------------------------------


def test_a_plan_is_the_same_bytes_whenever_it_is_made_and_its_hash_is_of_all_of_it() -> None:
    cluster = with_brokers(placed(4, 12), 4)
    plan = make_plan(cluster, Rebalance())
    again = make_plan(msgspec.json.decode(msgspec.json.encode(cluster), type=Snapshot), Rebalance())
    assert canonical_json(plan) == canonical_json(again)
    assert msgspec.json.decode(canonical_json(plan), type=Plan) == plan
    assert b" " not in canonical_json(plan)
    assert len(content_hash(plan)) == 64
    other = msgspec.structs.replace(plan, goal=Rebalance(mode=RebalanceMode.NEW_ONLY))
    assert content_hash(other) != content_hash(plan) == content_hash(again)


def test_the_hash_of_a_plan_stays_what_it_was_when_plans_were_first_stored() -> None:
    cluster = alone(2, (0,), (0,))
    roomy = tuple(msgspec.structs.replace(b, room_bytes=1_000) for b in cluster.brokers)
    plan = make_plan(msgspec.structs.replace(cluster, brokers=roomy), Rebalance())
    assert canonical_json(plan).startswith(b'{"after":{"bytes":{"brokers":2,"highest":100,')
    assert content_hash(plan) == "572801bc9d9d69ac20d0d598cf0cae0e9a053c8e3099ba9d4a67673d83540c3a"


def test_a_plan_is_pinned_to_the_epochs_it_saw() -> None:
    plan = make_plan(alone(2, (0,), (0,)), Rebalance())
    assert [move.partition_epoch for move in plan.moves] == [7]


def test_the_worst_slack_is_that_of_the_partition_closest_to_its_minimum() -> None:
    short = msgspec.structs.replace(partition(1, 0, 1, 2), isr=(0,))
    cluster = snapshot([broker(b) for b in range(4)], [partition(0, 0, 1, 2), short])
    plan = make_plan(cluster, Drain(broker_ids=(2,)))
    assert plan.worst_slack is not None
    assert (plan.worst_slack.partition, plan.worst_slack.slack) == (1, -1)


# --- drain, replace -----------------------------------------------------------------------------------------


def test_several_brokers_are_drained_at_once_and_nothing_else_is_copied() -> None:
    cluster = placed(6, 60)
    plan = make_plan(cluster, Drain(broker_ids=(1, 4)))
    after = loads(carry_out(cluster, plan.moves))
    assert (after[1], after[4]) == (0, 0)
    assert spread({b: after[b] for b in (0, 2, 3, 5)}) <= 1
    assert plan.totals.copies == 60
    assert all(set(move.removing) <= {1, 4} for move in plan.moves)
    followed = leads(carry_out(cluster, plan.moves))
    assert spread({b: followed[b] for b in (0, 2, 3, 5)}) <= 1


def test_a_drain_names_each_partition_that_cannot_leave_and_why() -> None:
    moving = msgspec.structs.replace(partition(1, 0), is_reassigning=True)
    leaderless = msgspec.structs.replace(partition(2, 0), leader=-1)
    recovering = msgspec.structs.replace(partition(3, 0), is_recovering=True)
    cluster = snapshot(
        [broker(0), broker(1)], [partition(0, 0, 1), moving, leaderless, recovering, partition(4, 0)]
    )
    plan = make_plan(cluster, Drain(broker_ids=(0,)))
    assert plan.outcome is PlanOutcome.INFEASIBLE
    assert codes(plan) == {
        0: RejectionCode.NO_RECEIVER,
        1: RejectionCode.REASSIGNMENT_RUNNING,
        2: RejectionCode.LEADERLESS,
        3: RejectionCode.LEADER_RECOVERING,
    }
    assert targets(plan) == {4: (1,)}
    assert codes(make_plan(cluster, Drain(broker_ids=(9,)))) == {None: RejectionCode.UNKNOWN_BROKER}


def test_a_replacement_takes_every_place_as_it_is() -> None:
    cluster = with_brokers(placed(4, 12), 9)
    plan = make_plan(cluster, Replace(broker_id=2, replacement=9))
    before = {p.partition: p.replicas for p in cluster.partitions}
    assert targets(plan) == {
        number: tuple(9 if b == 2 else b for b in replicas)
        for number, replicas in before.items()
        if 2 in replicas
    }
    assert {move.reasons for move in plan.moves} == {(MoveReason.REPLACE,)}
    assert plan.totals.bytes == plan.totals.bytes_least


def test_a_replacement_that_would_bring_replicas_together_is_refused_partition_by_partition() -> None:
    brokers = [broker(0, "a", "r0"), broker(1, "b", "r1"), broker(2, "b", "r1"), broker(3, "c", "r0")]
    cluster = snapshot(brokers, [partition(0, 0, 1), partition(1, 0, 2), partition(2, 0)])
    plan = make_plan(cluster, Replace(broker_id=0, replacement=2))
    assert codes(plan) == {0: RejectionCode.SHARES_HOST, 1: RejectionCode.ALREADY_HOLDS_REPLICA}
    assert targets(plan) == {2: (2,)}
    rack = make_plan(cluster, Replace(broker_id=1, replacement=3))
    assert codes(rack) == {0: RejectionCode.SHARES_RACK}
    assert codes(make_plan(cluster, Replace(broker_id=0, replacement=0))) == {
        None: RejectionCode.BROKER_TAKES_NO_REPLICAS
    }
    assert codes(make_plan(cluster, Replace(broker_id=0, replacement=7))) == {
        None: RejectionCode.UNKNOWN_BROKER
    }


# --- replication factor, new partitions, racks --------------------------------------------------------------


def test_more_replicas_come_at_the_end_and_leave_loads_even() -> None:
    cluster = placed(5, 10, factor=2)
    plan = make_plan(cluster, ChangeReplicationFactor(topic_id="t", replication_factor=3))
    assert all(move.replicas_after[:2] == move.replicas_before for move in plan.moves)
    assert spread(loads(carry_out(cluster, plan.moves))) <= 1
    assert plan.totals.copies == 10
    stuck = make_plan(cluster, ChangeReplicationFactor(topic_id="t", replication_factor=6))
    assert stuck.outcome is PlanOutcome.INFEASIBLE
    assert set(codes(stuck).values()) == {RejectionCode.NO_RECEIVER}
    assert not stuck.moves


def test_fewer_replicas_spare_those_in_sync_and_the_leader() -> None:
    behind = msgspec.structs.replace(partition(0, 0, 1, 2), isr=(1, 2), leader=1)
    cluster = snapshot([broker(b) for b in range(3)], [behind, partition(1, 0, 1, 2)])
    plan = make_plan(cluster, ChangeReplicationFactor(topic_id="t", replication_factor=2))
    assert targets(plan)[0] == (1, 2)
    assert targets(plan)[1][0] == 0
    assert plan.totals.bytes == 0
    lonely = msgspec.structs.replace(partition(0, 0, 1, 2), isr=(0,))
    cluster = snapshot([broker(b) for b in range(3)], [lonely])
    refused = make_plan(cluster, ChangeReplicationFactor(topic_id="t", replication_factor=2))
    assert codes(refused) == {0: RejectionCode.NOT_ENOUGH_IN_SYNC}
    assert not refused.moves


def test_no_topic_shrinks_below_the_minimum_that_it_sets() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), (2, 3, 1), configs={"min.insync.replicas": "3"})
    topic = topic_id()
    seen = take_snapshot(cluster.image, {})
    shrunk = make_plan(seen, ChangeReplicationFactor(topic_id=topic, replication_factor=2))
    assert (shrunk.outcome, codes(shrunk)) == (
        PlanOutcome.INFEASIBLE,
        {None: RejectionCode.INVALID_REPLICATION_FACTOR},
    )
    wanted = WantedAssignment(topic_id=topic, partition=1, replicas=(2, 3))
    by_hand = make_plan(seen, Assign(assignments=(wanted,)))
    assert codes(by_hand) == {1: RejectionCode.INVALID_REPLICATION_FACTOR}
    grown = make_plan(seen, ChangeReplicationFactor(topic_id=topic, replication_factor=3))
    assert set(codes(grown).values()) <= {RejectionCode.NO_CHANGE}


def test_a_topic_with_a_default_minimum_shrinks_below_it() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3))
    configs: dict[str, str | None] = {"min.insync.replicas": "3"}
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs=configs), ClusterConfigured)
    seen = take_snapshot(cluster.image, {})
    plan = make_plan(seen, ChangeReplicationFactor(topic_id=topic_id(), replication_factor=2))
    assert plan.outcome is PlanOutcome.READY


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        (
            ChangeReplicationFactor(topic_id="t", replication_factor=0),
            RejectionCode.INVALID_REPLICATION_FACTOR,
        ),
        (ChangeReplicationFactor(topic_id="u", replication_factor=2), RejectionCode.UNKNOWN_TOPIC),
        (PlacePartitions(topic_id="u", partitions=9), RejectionCode.UNKNOWN_TOPIC),
        (PlacePartitions(topic_id="t", partitions=1), RejectionCode.INVALID_PARTITIONS),
        (Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(9,)), RejectionCode.UNKNOWN_BROKER),
        (Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=(2,)), RejectionCode.BROKER_TAKES_NO_REPLICAS),
        (Replace(broker_id=0, replacement=2), RejectionCode.BROKER_TAKES_NO_REPLICAS),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_as_a_whole(goal: Goal, code: RejectionCode) -> None:
    cluster = snapshot([broker(0), broker(1), broker(2, receives=False)], [partition(0, 0, 1)])
    plan = make_plan(cluster, goal)
    assert (plan.outcome, plan.moves) == (PlanOutcome.INFEASIBLE, ())
    assert codes(plan) == {None: code}


def test_new_partitions_go_where_the_controller_places_them_when_it_is_asked_to() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), (1, 3, 4))
    topic = next(iter(cluster.image.topics))
    plan = make_plan(take_snapshot(cluster.image, {}), PlacePartitions(topic_id=topic, partitions=7))
    assert [move.partition_epoch for move in plan.moves] == [None] * 5
    cluster.ask(AddPartitions(wall_ms=0, actor="ann", topic_id=topic, partitions=7), PartitionsAdded)
    created = {p.partition: p.replicas for p in cluster.image.partitions_of(topic)[2:]}
    assert targets(plan) == created
    assert plan.after.leaders.total == 7
    assert drifted(plan, cluster.image) == tuple((topic, number) for number in sorted(created))
    cluster.delete()
    assert len(drifted(plan, cluster.image)) == 5
    few = snapshot([broker(0), broker(1, receives=False)], [partition(0, 0, 1)])
    refused = make_plan(few, PlacePartitions(topic_id="t", partitions=2))
    assert codes(refused) == {None: RejectionCode.NO_RECEIVER}


def test_a_plan_says_why_it_does_not_get_further() -> None:
    brokers = [broker(0, rack="a"), broker(1, rack="b"), broker(2, rack="b")]
    forced = make_plan(snapshot(brokers, [partition(n, 0, 1 + n % 2) for n in range(6)]), Rebalance())
    assert forced.outcome is PlanOutcome.READY, "leaders can be balanced"
    assert not any(move.bytes for move in forced.moves)
    assert [skipped.code for skipped in forced.skipped] == [RejectionCode.NO_BETTER_PLACE]
    moving = [msgspec.structs.replace(partition(n, 0), is_reassigning=True) for n in range(3)]
    held_up = make_plan(snapshot([broker(0), broker(1)], moving), Rebalance())
    assert held_up.outcome is PlanOutcome.NO_IMPROVEMENT
    assert {s.partition: s.code for s in held_up.skipped} == dict.fromkeys(
        range(3), RejectionCode.REASSIGNMENT_RUNNING
    )
    assert make_plan(placed(4, 4), Rebalance()).skipped == ()


def test_replicas_in_one_rack_are_parted_and_nothing_else_moves() -> None:
    brokers = [broker(b, rack=f"r{b % 3}") for b in range(6)]
    cluster = snapshot(brokers, [partition(0, 0, 3, 1), partition(1, 0, 1, 2), partition(2, 0, 1, 2)])
    plan = make_plan(cluster, SeparateReplicas())
    assert [move.partition for move in plan.moves] == [0]
    assert {b % 3 for b in plan.moves[0].replicas_after} == {0, 1, 2}
    assert (plan.before.crowded, plan.after.crowded) == (1, 0)
    assert plan.moves[0].reasons == (MoveReason.SEPARATION,)


# --- by hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((), RejectionCode.INVALID_ASSIGNMENT),
        ((0, 0), RejectionCode.INVALID_ASSIGNMENT),
        ((0, 9), RejectionCode.UNKNOWN_BROKER),
        ((0, 4), RejectionCode.BROKER_TAKES_NO_REPLICAS),
        ((0, 3), RejectionCode.SHARES_HOST),
        ((0, 5), RejectionCode.SHARES_RACK),
    ],
)
def test_an_assignment_by_hand_is_refused_for_what_is_wrong_with_it(
    replicas: tuple[int, ...], code: RejectionCode
) -> None:
    brokers = [
        broker(0, "a", "r0"),
        broker(1, "b", "r1"),
        broker(2, "c", "r2"),
        broker(3, "a", "r0"),
        broker(4, "d", "r3", receives=False),
        broker(5, "e", "r0"),
    ]
    cluster = snapshot(brokers, [partition(0, 0, 1)])
    wanted = WantedAssignment(topic_id="t", partition=0, replicas=replicas)
    plan = make_plan(cluster, Assign(assignments=(wanted,)))
    assert codes(plan) == {0: code}
    assert not plan.moves


def test_assignments_by_hand_are_checked_one_by_one_and_the_good_ones_priced() -> None:
    behind = msgspec.structs.replace(partition(3, 0, 1, 2), isr=(0,))
    moving = msgspec.structs.replace(partition(4, 0, 1, 2), is_reassigning=True)
    partitions = [partition(0, 0, 1, 2), partition(1, 0, 1, 2), partition(2, 0, 1, 2), behind, moving]
    cluster = snapshot([broker(b) for b in range(4)], partitions)

    def want(number: int, *replicas: int) -> WantedAssignment:
        return WantedAssignment(topic_id="t", partition=number, replicas=replicas)

    goal = Assign(
        assignments=(
            want(0, 3, 1, 2),
            want(1, 0, 1, 2),
            want(2, 2, 1, 0),
            want(2, 0, 1, 3),
            want(3, 1, 2),
            want(4, 0, 1, 3),
            want(8, 0),
        )
    )
    plan = make_plan(cluster, goal)
    assert targets(plan) == {0: (3, 1, 2), 2: (2, 1, 0)}
    assert [r.code for r in plan.rejections] == [
        RejectionCode.INVALID_ASSIGNMENT,
        RejectionCode.NOT_ENOUGH_IN_SYNC,
        RejectionCode.REASSIGNMENT_RUNNING,
        RejectionCode.UNKNOWN_PARTITION,
    ]
    assert {move.reasons for move in plan.moves} == {(MoveReason.BY_HAND,)}
    assert (plan.totals.bytes, plan.totals.copies) == (100, 1)
    assert [(skipped.partition, skipped.code) for skipped in plan.skipped] == [(1, RejectionCode.NO_CHANGE)]


# --- from the image, and back -------------------------------------------------------------------------------


def test_the_controller_takes_the_moves_of_a_plan_as_they_are() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3))
    topic = next(iter(cluster.image.topics))
    lag = PartitionLag(
        topic_id=topic,
        partition=0,
        leader_epoch=LeaderEpoch(0),
        log_start_offset=0,
        log_end_offset=9,
        high_watermark=9,
        size_bytes=500,
    )
    before = take_snapshot(cluster.image, {(topic, 0): lag})
    assert [p.size_bytes for p in before.partitions] == [500, None, None, None]
    plan = make_plan(before, Rebalance())
    assert plan.after.replicas.spread == 0
    assert drifted(plan, cluster.image) == ()
    wanted = tuple(
        ReassignmentTarget(
            topic_id=move.topic_id,
            partition=move.partition,
            replicas=move.replicas_after,
            partition_epoch=move.partition_epoch,
        )
        for move in plan.moves
    )
    asked = AlterReassignments(wall_ms=0, actor="ann", targets=wanted)
    results = cluster.ask(asked, ReassignmentsAltered).results
    assert [result.refusal for result in results] == [None] * len(plan.moves)
    assert drifted(plan, cluster.image) == tuple(move.key for move in plan.moves)
    running = take_snapshot(cluster.image, {})
    assert make_plan(running, Rebalance()).outcome is PlanOutcome.NO_IMPROVEMENT, "it counts where they lead"
