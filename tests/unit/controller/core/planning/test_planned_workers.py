"""Plans for brokers with several workers: no partition ever has two replicas on workers of one broker."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from controller.core.planning.goals import (
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
    WantedAssignment,
    Weight,
)
from controller.core.planning.plan import Plan, PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import DiskUse, Snapshot
from springtide.contract.session import WORKER_ID_STEP, worker_id
from tests.kit.controller.planning_board import carry_out, loads, partition, snapshot, spread, workers


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Brokers with some workers each, in any state, and partitions anywhere on them, one a broker."""
    counts = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    racks = draw(st.integers(0, 2))
    members = [
        msgspec.structs.replace(worker, **draw(st.sampled_from([{}, {}, {}, {"receives": False}])))
        for owner, count in enumerate(counts)
        for worker in workers(owner, count, f"rack{owner % racks}" if racks else None)
    ]
    members = [msgspec.structs.replace(b, disk=DiskUse(draw(st.integers(0, 900)), 1_000)) for b in members]
    partitions = []
    for number in range(draw(st.integers(1, 12))):
        owners = draw(st.permutations(range(len(counts))))[: draw(st.integers(1, 3))]
        replicas = [worker_id(owner, draw(st.integers(0, counts[owner] - 1))) for owner in owners]
        partitions.append(partition(number, *replicas, size=draw(st.sampled_from([1, 5, 20, 300]))))
    return snapshot(members, partitions)


def goals(cluster: Snapshot) -> st.SearchStrategy[Goal]:
    ids = [broker.broker_id for broker in cluster.brokers]
    one, some = st.sampled_from(ids), st.lists(st.sampled_from(ids), min_size=1, max_size=4, unique=True)
    wanted = st.builds(
        WantedAssignment,
        topic_id=st.just("t"),
        partition=st.integers(0, len(cluster.partitions) - 1),
        replicas=some.map(tuple),
    )
    return st.one_of(
        st.builds(Rebalance, disk_permille=st.sampled_from([msgspec.UNSET, 1_100])),
        st.builds(Rebalance, mode=st.just(RebalanceMode.NEW_ONLY), new_broker_ids=some.map(tuple)),
        st.builds(Drain, broker_ids=some.map(tuple)),
        st.builds(Replace, broker_id=one, replacement=one),
        st.builds(ChangeReplicationFactor, topic_id=st.just("t"), replication_factor=st.integers(1, 4)),
        st.builds(PlacePartitions, topic_id=st.just("t"), partitions=st.integers(1, 30)),
        st.just(EvenOut(weights=(Weight.REPLICAS, Weight.DISK))),
        st.builds(Relieve, broker_id=one, used_percent=st.integers(1, 90)),
        st.just(SeparateReplicas()),
        st.builds(Assign, assignments=st.lists(wanted, max_size=4).map(tuple)),
    )


def owners(replicas: tuple[int, ...]) -> list[int]:
    """Return the brokers whose workers these are, as their ids say."""
    return [member_id % WORKER_ID_STEP for member_id in replicas]


@given(st.data())
def test_no_plan_puts_two_replicas_on_workers_of_one_broker(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    goal = data.draw(goals(cluster))
    for move in make_plan(cluster, goal).moves:
        assert len(set(owners(move.replicas_after))) == len(move.replicas_after)


@given(st.data(), st.integers(1, 4), st.integers(2, 4))
def test_a_rebalance_spreads_replicas_and_leaders_over_the_workers(
    data: st.DataObject, each: int, count: int
) -> None:
    factor = data.draw(st.integers(1, count))
    members = [worker for owner in range(count) for worker in workers(owner, each)]
    partitions = [
        partition(number, *(worker_id(owner, 0) for owner in range(factor))) for number in range(12)
    ]
    cluster = snapshot(members, partitions)
    plan = make_plan(cluster, Rebalance())
    after = carry_out(cluster, plan.moves)
    assert spread(loads(after)) <= 1
    for moved in after.partitions:
        assert len(set(owners(moved.replicas))) == factor


def made_by_hand(*replicas: int) -> Plan:
    """Return the plan that moves a partition on 1000000, 1 and 2 to these, of brokers with two workers."""
    members = [worker for owner in range(4) for worker in workers(owner, 2)]
    cluster = snapshot(members, [partition(0, 1_000_000, 1, 2)])
    wanted = WantedAssignment(topic_id="t", partition=0, replicas=replicas)
    return make_plan(cluster, Assign(assignments=(wanted,)))


@pytest.mark.parametrize("replicas", [(1_000_000, 0, 1), (0, 1, 1_000_001), (3, 1, 2, 1_000_003)])
def test_two_workers_of_a_broker_are_not_assigned_a_partition_by_hand(replicas: tuple[int, ...]) -> None:
    plan = made_by_hand(*replicas)
    (rejection,) = plan.rejections
    assert (rejection.code, plan.moves) == (RejectionCode.SHARES_HOST, ())
    assert "one host would hold two replicas of the partition" in rejection.detail


def test_a_partition_moves_from_a_worker_to_another_of_the_same_broker() -> None:
    plan = made_by_hand(0, 1, 2)
    assert (plan.outcome, [move.replicas_after for move in plan.moves]) == (PlanOutcome.READY, [(0, 1, 2)])


def test_a_worker_is_not_replaced_by_one_whose_broker_holds_the_partition() -> None:
    members = [worker for owner in range(3) for worker in workers(owner, 2)]
    cluster = snapshot(members, [partition(0, 0, 1)])
    plan = make_plan(cluster, Replace(broker_id=0, replacement=1_000_001))
    assert [rejection.code for rejection in plan.rejections] == [RejectionCode.SHARES_HOST]


def test_more_replicas_than_brokers_are_refused_however_many_workers_these_have() -> None:
    members = [worker for owner in range(2) for worker in workers(owner, 4)]
    cluster = snapshot(members, [partition(0, 0, 1)])
    grown = make_plan(cluster, ChangeReplicationFactor(topic_id="t", replication_factor=3))
    assert [rejection.code for rejection in grown.rejections] == [RejectionCode.NO_RECEIVER]
    drained = make_plan(cluster, Drain(broker_ids=tuple(worker_id(1, number) for number in range(4))))
    assert [rejection.code for rejection in drained.rejections] == [RejectionCode.NO_RECEIVER]


def test_ten_brokers_with_thirty_two_workers_each_are_planned_and_come_out_even() -> None:
    """320 loops, 6,400 partitions, three replicas each: two of the brokers have just been added. The searches
    are bounded by looks and not by time, so that this ends on any machine."""
    members = [worker for owner in range(10) for worker in workers(owner, 32)]
    partitions = [
        partition(
            number, *(worker_id((number + j) % 8, number // 8 % 32) for j in range(3)), size=1_000 + number
        )
        for number in range(6_400)
    ]
    cluster = snapshot(members, partitions)
    added = tuple(worker_id(owner, number) for owner in (8, 9) for number in range(32))
    for goal in (Rebalance(), Rebalance(mode=RebalanceMode.NEW_ONLY, new_broker_ids=added)):
        plan = make_plan(cluster, goal)
        after = carry_out(cluster, plan.moves)
        assert spread(loads(after)) <= 1
        assert all(len(set(owners(moved.replicas))) == 3 for moved in after.partitions)
        hosts = Counter(owner for moved in after.partitions for owner in owners(moved.replicas))
        assert max(hosts.values()) == min(hosts.values()) == 1_920
    leaving = tuple(worker_id(7, number) for number in range(32))
    plan = make_plan(cluster, Drain(broker_ids=leaving))
    after = carry_out(cluster, plan.moves)
    assert not plan.rejections
    assert all(load == 0 for member_id, load in loads(after).items() if member_id in leaving)
    assert all(len(set(owners(moved.replicas))) == 3 for moved in after.partitions)
