"""Coordinators under the controller's own core: what random strikes come to seldom or never."""

from __future__ import annotations

from springtide.contract.partition_state import NO_COORDINATOR, Shard
from tests.simulation.cluster import Cluster
from tests.simulation.coordinator_node import CoordinatorNode
from tests.simulation.kinds_controllers import recover_when_told
from tests.simulation.options import ClusterOptions
from tests.simulation.shards import Shards


def begun() -> tuple[Cluster, Shards]:
    cluster = Cluster(1, ClusterOptions(coordinators=2, partitions=1))
    cluster.start()
    shards = cluster.shards
    assert shards is not None
    assert cluster.run_until(20_000, lambda: cluster.acked > 0)
    wait_for_order(cluster, shards, 5_000)
    return cluster, shards


def wait_for_order(cluster: Cluster, shards: Shards, ms_max: int) -> None:
    shards.stop_clients()
    assert cluster.run_until(cluster.events.now_ms + ms_max, lambda: shards.missing() is None), (
        shards.missing()
    )
    shards.start_again()


def shard_of(shards: Shards) -> Shard:
    assert shards.shard is not None
    return shards.shard


def node_of(shards: Shards, coordinator_id: int) -> CoordinatorNode:
    return next(node for node in shards.nodes if node.coordinator_id == coordinator_id)


def test_a_writer_in_the_log_tells_the_controller_that_metadata_went_back() -> None:
    """Nobody else can: brokers are cut off from it, and new coordinators remember nothing."""
    cluster, shards = begun()
    (controller,) = cluster.controllers
    copy = cluster.zookeeper.copy()
    for _ in range(3):
        owner = node_of(shards, shard_of(shards).owner)
        owner.crash()
        owner.start()
        wait_for_order(cluster, shards, 10_000)
    answered = shards.answered
    for broker in cluster.brokers.values():
        cluster.network.cut(broker.name, controller.name)
    for node in shards.nodes:
        node.crash()
    cluster.zookeeper.put_back(copy)
    elections = controller.elections
    assert cluster.run_until(cluster.events.now_ms + 2_000, lambda: controller.elections > elections)
    for node in shards.nodes:
        node.start()

    def has_halted() -> bool:
        return controller.machine is not None and controller.machine.went_back is not None

    assert cluster.run_until(cluster.events.now_ms + 5_000, has_halted)
    assert controller.machine is not None and controller.machine.went_back is not None
    assert "found writer" in controller.machine.went_back
    assert cluster.marks.counts["shard.tells.that.metadata.went.back"] == 1
    assert not shards.serving
    for broker in cluster.brokers.values():
        cluster.network.mend(broker.name, controller.name)
    recover_when_told(cluster)
    wait_for_order(cluster, shards, 40_000)
    assert shards.answered > answered
    shards.check_end()


def test_a_drained_coordinator_serves_on_until_its_standby_is_level() -> None:
    cluster, shards = begun()
    owner, standby = shard_of(shards).owner, shard_of(shards).standby
    heir = node_of(shards, standby)
    heir.crash()
    heir.start()
    for broker in cluster.brokers.values():
        cluster.network.cut(heir.name, broker.name)
    shards.wanted[owner] = (True, False)
    answered = shards.answered
    cluster.run_until(cluster.events.now_ms + 10_000)
    assert (shard_of(shards).owner, shard_of(shards).standby) == (owner, standby)
    assert [node.coordinator_id for node in shards.serving] == [owner]
    assert shards.answered > answered
    for broker in cluster.brokers.values():
        cluster.network.mend(heir.name, broker.name)
    assert cluster.run_until(cluster.events.now_ms + 5_000, lambda: shard_of(shards).owner == standby)
    assert cluster.run_until(cluster.events.now_ms + 5_000, lambda: shards.serving == [heir])
    assert shard_of(shards).standby == NO_COORDINATOR
    drained = node_of(shards, owner)
    assert cluster.run_until(cluster.events.now_ms + 5_000, lambda: drained.runtime is None)
    del shards.wanted[owner]
    wait_for_order(cluster, shards, 5_000)
