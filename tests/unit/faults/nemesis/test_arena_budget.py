"""What the nemesis may strike: never so much that a loss would be its own doing."""

from __future__ import annotations

import random
from typing import cast

import pytest

from localcluster.rest import RestPartition
from tests.checker.from_clients import Recorder
from tests.faults.hosts.cluster import HostCluster
from tests.faults.nemesis.arena import Arena, Ongoing

HOSTS = [f"broker-{number}" for number in range(1, 6)]


class StagedArena(Arena):
    """An arena without a cluster: five brokers, and partitions as the test says."""

    staged: list[RestPartition] | None = None

    @property
    def brokers(self) -> list[str]:
        return HOSTS

    def is_back(self, host: str) -> bool:
        return True

    def views(self) -> list[RestPartition] | None:
        return self.staged


def arena(*views: RestPartition, seed: int = 1) -> StagedArena:
    staged = StagedArena(cast("HostCluster", None), "ledger", random.Random(seed), Recorder())
    staged.staged = list(views)
    return staged


def view(
    partition: int, leader: int | None, replicas: tuple[int, ...], isr: tuple[int, ...]
) -> RestPartition:
    return RestPartition(partition, leader, 1, replicas, isr, (), {})


def fault(*victims: str, is_lossy: bool = False) -> Ongoing:
    return Ongoing("test", victims, "test", lambda: None, is_lossy)


def test_two_brokers_a_controller_and_a_zookeeper_server_are_harmed_at_most() -> None:
    struck = arena()
    struck.add(fault("broker-1"))
    assert struck.may_harm("broker-2")
    assert not struck.may_harm("broker-1")
    assert not struck.may_harm("broker-2", "broker-3")
    struck.add(fault("controller-1"))
    assert not struck.may_harm("controller-2")
    assert struck.may_harm("zookeeper-1")
    assert not struck.may_harm("zookeeper-1", "zookeeper-2")


def test_the_leader_of_most_is_picked_while_it_may_be_harmed() -> None:
    struck = arena(view(0, 2, (1, 2, 3), (1, 2)), view(1, 2, (1, 2, 3), (2, 3)), view(2, 1, (1, 2, 3), (1,)))
    assert struck.pick_leader() == "broker-2"
    struck.add(fault("broker-2"))
    assert struck.pick_leader() is None


@pytest.mark.parametrize("seed", range(20))
def test_the_only_in_sync_member_of_a_partition_never_loses_its_log(seed: int) -> None:
    struck = arena(view(0, 1, (1, 2, 3), (1,)), view(1, 4, (3, 4, 5), (4, 5)), seed=seed)
    assert struck.pick_lossy() != "broker-1"


def test_a_lossy_fault_waits_for_the_victim_of_the_last_to_be_whole() -> None:
    whole, behind = view(0, 2, (1, 2, 3), (1, 2, 3)), view(0, 2, (1, 2, 3), (2, 3))
    struck = arena(whole)
    first = fault("broker-1", is_lossy=True)
    struck.add(first)
    assert struck.pick_lossy() is None
    struck.remove(first)
    struck.staged = [behind]
    assert struck.pick_lossy() is None
    struck.staged = [whole]
    assert struck.pick_lossy() in HOSTS
    struck.staged = [behind]
    assert struck.pick_lossy() in HOSTS  # Once whole, it is as good as any.


def test_without_a_view_no_log_is_touched() -> None:
    struck = arena()
    struck.staged = None
    assert struck.pick_lossy() is None
