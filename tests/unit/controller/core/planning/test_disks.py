"""Free space of disks: where plans know it, no move goes past it; where they don't, they say so."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from controller.core.events import (
    AlterReassignments,
    ClusterConfigured,
    ConfigureCluster,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.core.planning.goals import (
    Assign,
    ChangeReplicationFactor,
    Drain,
    Goal,
    PlacePartitions,
    Rebalance,
    Replace,
    SeparateReplicas,
    WantedAssignment,
)
from controller.core.planning.plan import Plan, PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import Snapshot, take_snapshot
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import FollowerLag, PartitionLag
from springtide.contract.session import DiskSpace
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.planning_board import alone, check_moves, clusters, with_states

GB = 1024**3
#: Of the default reserve, a twentieth of the disk, 15 GB are left.
ROOM_15 = DiskSpace(free_bytes=20 * GB, total_bytes=100 * GB)


def with_room(cluster: Snapshot, **rooms: int | None) -> Snapshot:
    """rooms: by broker, as in `b3=100`."""
    return msgspec.structs.replace(
        cluster,
        brokers=tuple(
            msgspec.structs.replace(b, room_bytes=rooms.get(f"b{b.broker_id}")) for b in cluster.brokers
        ),
    )


def brought(plan: Plan) -> Counter[int]:
    coming: Counter[int] = Counter()
    for move in plan.moves:
        coming.update(dict.fromkeys(move.adding, move.bytes // max(len(move.adding), 1)))
    return coming


GOALS: tuple[Goal, ...] = (
    Rebalance(),
    Drain(broker_ids=(0,)),
    Replace(broker_id=0, replacement=1),
    ChangeReplicationFactor(topic_id="t", replication_factor=3),
    SeparateReplicas(),
    Assign(
        assignments=tuple(
            WantedAssignment(topic_id="t", partition=number, replicas=(1, 0)) for number in range(9)
        )
    ),
)


@given(st.data())
def test_no_plan_brings_more_to_a_disk_than_it_has_room_for(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=6, partitions_max=12)), data.draw)
    rooms = {b.broker_id: data.draw(st.sampled_from([None, -1, 0, 20, 310, 900])) for b in cluster.brokers}
    full = with_room(cluster, **{f"b{b}": room for b, room in rooms.items()})
    plan = make_plan(full, data.draw(st.sampled_from(GOALS)))
    if not isinstance(plan.goal, Drain):
        check_moves(full, plan.moves)
    coming = brought(plan)
    for broker_id, added in coming.items():
        room = rooms[broker_id]
        assert room is None or added <= room
    known = () if plan.unknown_room is msgspec.UNSET else plan.unknown_room
    assert set(known) == {b for b in coming if rooms[b] is None}


def test_a_full_disk_gets_nothing_and_others_get_it_instead() -> None:
    even = alone(3, *[(0,)] * 6)
    plan = make_plan(with_room(even, b1=150), Rebalance())
    assert brought(plan) == {1: 100, 2: 200}
    assert plan.unknown_room == (2,)
    detail = "the disks, hosts and racks of the brokers that may receive replicas allow nothing more even"
    assert [r.detail for r in plan.skipped] == [detail]


def test_what_can_go_nowhere_for_want_of_room_says_so() -> None:
    cluster = with_room(alone(3, (0, 1), (1, 2)), b2=99, b0=99)
    drain = make_plan(cluster, Drain(broker_ids=(0,)))
    assert [(r.partition, r.code) for r in drain.rejections] == [(0, RejectionCode.NO_ROOM)]
    assert not make_plan(with_room(cluster, b2=100), Drain(broker_ids=(0,))).rejections
    wanted = Assign(assignments=(WantedAssignment(topic_id="t", partition=0, replicas=(2, 1)),))
    for goal in (wanted, Replace(broker_id=0, replacement=2)):
        plan = make_plan(cluster, goal)
        assert plan.outcome is PlanOutcome.INFEASIBLE
        assert [(r.code, r.detail) for r in plan.rejections] == [
            (RejectionCode.NO_ROOM, "the disk of broker 2 has no room for it above the reserve")
        ]


def test_the_least_bytes_are_not_claimed_where_a_full_disk_stands_in_the_way() -> None:
    sizes = [100, 100, 300, 300]
    free = alone(2, *[(0,)] * 4, sizes=sizes)
    assert make_plan(free, Rebalance()).totals.bytes_least == 200
    assert make_plan(with_room(free, b1=150), Rebalance()).totals.bytes_least is None


def told(*, size: int, remaining: int) -> PartitionLag:
    return PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=LeaderEpoch(0),
        log_start_offset=0,
        log_end_offset=9,
        high_watermark=9,
        size_bytes=size,
        followers=(
            FollowerLag(broker_id=4, log_end_offset=1, lag_records=8, lag_ms=9, remaining_bytes=remaining),
        ),
    )


@pytest.mark.parametrize(
    ("percent", "remaining", "room"),
    [(None, 2 * GB, 13 * GB), (None, -1, 12 * GB), ("0", 0, 20 * GB), ("20", 0, 0), ("30", 0, -10 * GB)],
)
def test_room_is_what_is_free_above_the_reserve_and_not_yet_spoken_for(
    percent: str | None, remaining: int, room: int
) -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    configs = {"disk.reserve.percent": percent}
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs=configs), ClusterConfigured)
    target = ReassignmentTarget(topic_id=topic_id(), partition=0, replicas=(4, 2, 3))
    cluster.ask(AlterReassignments(wall_ms=0, actor="ann", targets=(target,)), ReassignmentsAltered)
    lag = told(size=3 * GB, remaining=remaining)
    seen = take_snapshot(cluster.image, {(lag.topic_id, 0): lag}, {4: ROOM_15, 1: ROOM_15})
    rooms = {b.broker_id: b.room_bytes for b in seen.brokers}
    assert (rooms[4], rooms[2]) == (room, None)


@pytest.mark.parametrize(
    ("reserve", "is_short", "room"),
    [(4 * GB, False, 15 * GB), (8 * GB, False, 12 * GB), (25 * GB, True, -5 * GB)],
)
def test_the_brokers_own_reserve_counts_where_it_is_more(reserve: int, is_short: bool, room: int) -> None:
    disk = DiskSpace(free_bytes=20 * GB, total_bytes=100 * GB, reserve_bytes=reserve, is_short=is_short)
    seen = take_snapshot(Cluster().image, {}, {1: disk})
    assert [(b.room_bytes, b.is_short) for b in seen.brokers if b.broker_id == 1] == [(room, is_short)]


def test_a_broker_that_takes_no_records_has_no_room_until_it_takes_them_again() -> None:
    disk = DiskSpace(free_bytes=20 * GB, total_bytes=100 * GB, reserve_bytes=18 * GB, is_short=True)
    (room,) = [
        b.room_bytes for b in take_snapshot(Cluster().image, {}, {1: disk}).brokers if b.broker_id == 1
    ]
    assert room == -1
    empty = alone(3, (0, 1), (1, 2), sizes=(0, 0))
    drain = make_plan(with_room(empty, b2=-1), Drain(broker_ids=(0,)))
    assert [(r.partition, r.code) for r in drain.rejections] == [(0, RejectionCode.NO_ROOM)]


def test_new_partitions_are_planned_for_disks_with_room() -> None:
    cluster = with_room(alone(3, (0, 1)), b2=-1)
    goal = PlacePartitions(topic_id="t", partitions=5)
    placed = {b for move in make_plan(cluster, goal).moves for b in move.replicas_after}
    assert placed == {0, 1}
    wide = with_room(alone(3, (0, 1, 2)), b2=-1)
    placed = {b for move in make_plan(wide, goal).moves for b in move.replicas_after}
    assert placed == {0, 1, 2}, "there are too few others"
    brokers = tuple(msgspec.structs.replace(b, is_short=b.broker_id == 2) for b in wide.brokers)
    refused = make_plan(msgspec.structs.replace(wide, brokers=brokers), goal)
    assert [(r.code, r.detail) for r in refused.rejections] == [
        (
            RejectionCode.NO_RECEIVER,
            "3 replicas need as many brokers that take some; there are 2 whose disks are above their reserve",
        )
    ]


def test_new_partitions_may_fill_a_disk_and_begin_with_those_that_lead_least() -> None:
    """A broker whose room is just used up counts as one with room."""
    goal = PlacePartitions(topic_id="t", partitions=4)
    plan = make_plan(with_room(alone(3, (0,)), b0=-1, b1=0, b2=-1), goal)
    assert [(move.replicas_after, move.size_bytes, move.bytes) for move in plan.moves] == [((1,), 0, 0)] * 3
    assert plan.totals.bytes_least == 0
    for leaders, first in (((0, 2), 1), ((1, 2), 0), ((0, 1), 2)):
        before = alone(3, *[tuple(sorted(range(3), key=leader.__ne__)) for leader in leaders])
        assert make_plan(before, goal).moves[0].replicas_after[0] == first
