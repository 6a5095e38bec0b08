"""Brokers of one advertised name are on one host, unless they name several racks."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.hosts import hosts_of
from controller.core.planning.goals import SeparateReplicas
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import take_snapshot
from controller.core.topics import NO_FULL_DISKS, spread
from tests.kit.controller.core_cluster import Cluster

BEHIND_ONE_NAME = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def cluster_of(racks: dict[int, str | None], host: str | None = "gateway") -> Cluster:
    cluster = Cluster(brokers=tuple(racks))
    for broker_id, rack in racks.items():
        broker = cluster.image.brokers[broker_id]
        named = msgspec.structs.replace(broker, rack=rack, host=host or broker.host)
        cluster.image.brokers[broker_id] = named
    return cluster


@pytest.mark.parametrize(
    ("racks", "hosts"),
    [
        ({1: "a", 2: "b", 3: "a"}, {1: "gateway in a", 2: "gateway in b", 3: "gateway in a"}),
        ({1: "a", 2: "a"}, {1: "gateway", 2: "gateway"}),
        ({1: None, 2: None}, {1: "gateway", 2: "gateway"}),
        ({1: "a", 2: "b", 3: None}, {1: "gateway in a", 2: "gateway in b", 3: "gateway"}),
    ],
)
def test_a_name_in_several_racks_is_several_hosts(
    racks: dict[int, str | None], hosts: dict[int, str]
) -> None:
    assert hosts_of(cluster_of(racks).image.brokers.values()) == hosts


def test_new_topics_are_spread_over_racks_behind_one_name() -> None:
    placed = spread(cluster_of({**BEHIND_ONE_NAME}).image, 30, 3, NO_FULL_DISKS)
    assert all({BEHIND_ONE_NAME[b] for b in replicas} == {"a", "b", "c"} for replicas in placed)


def test_a_plan_separates_replicas_that_share_a_rack_behind_one_name() -> None:
    cluster = cluster_of({**BEHIND_ONE_NAME})
    cluster.create(*[(1, 2, 3)] * 6)
    plan = make_plan(take_snapshot(cluster.image, {}), SeparateReplicas())
    assert len(plan.moves) == 6
    for move in plan.moves:
        assert {BEHIND_ONE_NAME[b] for b in move.replicas_after} == {"a", "b", "c"}


def test_what_can_not_be_separated_is_said() -> None:
    cluster = cluster_of({1: "a", 2: "a", 3: "b"})
    cluster.create(*[(1, 2, 3)] * 4)
    plan = make_plan(take_snapshot(cluster.image, {}), SeparateReplicas())
    (said,) = plan.skipped
    assert (plan.outcome, said.code, said.partition) == ("no_improvement", "shares_host", 0)
    assert said.detail == (
        "replicas of it and of 3 more partitions share a host, and there are too few hosts to separate them"
    )


def test_what_shares_a_rack_alone_is_said_too() -> None:
    cluster = cluster_of({1: "a", 2: "a", 3: "b"}, host=None)
    cluster.create((1, 2, 3))
    (said,) = make_plan(take_snapshot(cluster.image, {}), SeparateReplicas()).skipped
    assert (said.code, said.detail) == (
        "shares_rack",
        "replicas of it share a rack, and there are too few racks to separate them",
    )


def test_nothing_is_said_where_all_are_apart() -> None:
    cluster = cluster_of({1: "a", 2: "b", 3: "c"})
    cluster.create((1, 2, 3))
    assert make_plan(take_snapshot(cluster.image, {}), SeparateReplicas()).skipped == ()
