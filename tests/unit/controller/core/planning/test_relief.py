"""One full disk relieved: far enough, with few bytes copied, and no other disk filled instead."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from controller.core.planning.goals import Relieve
from controller.core.planning.plan import MoveReason, Plan, PlanOutcome, RejectionCode
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import DiskUse, Snapshot
from tests.kit.controller.planning_board import alone, carry_out, check_moves, clusters, with_states


def with_disks(cluster: Snapshot, *used: int | None, total: int = 1_000) -> Snapshot:
    """used: of each broker's disk, of which a twentieth is kept free; None: it has not told."""
    return msgspec.structs.replace(
        cluster,
        brokers=tuple(
            msgspec.structs.replace(
                broker,
                disk=None if of is None else DiskUse(of, total),
                room_bytes=None if of is None else total - of - total // 20,
            )
            for broker, of in zip(cluster.brokers, used, strict=True)
        ),
    )


def relieved(cluster: Snapshot, percent: int) -> Plan:
    return make_plan(cluster, Relieve(broker_id=0, used_percent=percent))


def gone(plan: Plan) -> list[int]:
    return [move.size_bytes or 0 for move in plan.moves]


def full(sizes: Sequence[int], *others: int | None) -> Snapshot:
    """Broker 0 holds all, on a disk of 1,000 of which it uses 900."""
    return with_disks(alone(1 + len(others), *[(0,)] * len(sizes), sizes=sizes), 900, *others)


def test_the_least_that_is_enough_leaves_and_goes_where_most_is_free() -> None:
    plan = relieved(full([500, 210, 150, 60, 30], 500, 300, None), 70)
    assert [(m.partition, m.replicas_after) for m in plan.moves] == [(1, (2,))]
    assert plan.moves[0].reasons == (MoveReason.RELIEF,)
    assert (plan.outcome, plan.skipped, plan.totals.bytes_least) == (PlanOutcome.READY, (), None)
    assert sorted(gone(relieved(full([500, 220, 150, 60, 30], 0, 0), 70))) == [60, 150]
    assert gone(relieved(full([500, 90, 10], 0, 0), 70)) == [500]


def test_no_other_disk_gets_fuller_than_this_one_is_to_be() -> None:
    """Of 200 that have to go, the other may take 150."""
    plan = relieved(full([100] * 8, 550), 70)
    assert gone(plan) == [100]
    assert [(r.code, r.detail) for r in plan.skipped] == [
        (
            RejectionCode.NO_ROOM,
            "the disk of broker 0 is still used to 80 % then: nothing more on it can go to a disk that is "
            "used to 70 % at most after it",
        )
    ]
    assert make_plan(full([100] * 8, 690), Relieve(broker_id=0, used_percent=70)).outcome is (
        PlanOutcome.NO_IMPROVEMENT
    )


def test_what_is_not_known_or_not_needed_is_said() -> None:
    cluster = full([100] * 8, 0)
    plan = relieved(cluster, 95)
    assert [(r.code, r.detail) for r in plan.skipped] == [
        (RejectionCode.NO_CHANGE, "the disk of broker 0 is used to 90 % only")
    ]
    for goal, code in (
        (Relieve(broker_id=9, used_percent=50), RejectionCode.UNKNOWN_BROKER),
        (Relieve(broker_id=1, used_percent=50), RejectionCode.NOT_MEASURED),
    ):
        refused = make_plan(with_disks(cluster, 900, None), goal)
        assert (refused.outcome, [r.code for r in refused.rejections]) == (PlanOutcome.INFEASIBLE, [code])


@given(st.data())
def test_a_plan_is_enough_or_all_that_can_be_and_not_more(data: st.DataObject) -> None:
    cluster = with_states(data.draw(clusters(brokers_max=5, partitions_max=12)), data.draw)
    cluster = with_disks(cluster, *(data.draw(st.integers(400, 1_000)) for _ in cluster.brokers))
    percent = data.draw(st.integers(30, 99))
    plan = relieved(cluster, percent)
    check_moves(cluster, plan.moves)
    disks = {b.broker_id: b.disk for b in cluster.brokers}
    start = disks[0]
    assert start is not None
    excess = start.used_bytes - 10 * percent
    assert all(move.removing == (0,) for move in plan.moves)
    if not plan.skipped:
        assert sum(gone(plan)) >= excess
        assert all(sum(gone(plan)) - size < excess for size in gone(plan)), "each is needed"
    for broker_id, disk in disks.items():
        coming = sum(m.size_bytes or 0 for m in plan.moves if broker_id in m.adding)
        assert disk is not None
        assert not coming or disk.used_bytes + coming <= min(10 * percent, 950)
    after = carry_out(cluster, plan.moves)
    assert len(after.partitions) == len(cluster.partitions)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=10), st.integers(1, 600))
def test_the_bytes_are_near_the_least_that_any_choice_has(sizes: list[int], excess: int) -> None:
    cluster = with_disks(alone(2, *[(0,)] * len(sizes), sizes=sizes), 900_000, 0, total=1_000_000)
    cluster = msgspec.structs.replace(
        cluster,
        brokers=(
            msgspec.structs.replace(cluster.brokers[0], disk=DiskUse(700_000 + excess, 1_000_000)),
            cluster.brokers[1],
        ),
    )
    enough = [
        sum(some)
        for count in range(len(sizes) + 1)
        for some in itertools.combinations(sizes, count)
        if sum(some) >= excess
    ]
    copied = sum(gone(relieved(cluster, 70)))
    if enough:
        assert min(enough) <= copied <= 1.5 * min(enough)
    else:
        assert copied == sum(sizes)
