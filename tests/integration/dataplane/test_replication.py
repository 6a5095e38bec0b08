"""Three brokers: replication, failover, rejoining, and a controller that goes away."""

from __future__ import annotations

import shutil
from pathlib import Path

import trio

from springtide.contract.partition_state import NO_LEADER
from tests.kit.dataplane.clients_in_threads import produce, read
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

VALUES = [b"value %d" % number for number in range(1000)]
MORE = [b"more %d" % number for number in range(1000)]
MIN_2 = {"min.insync.replicas": "2"}


def log_end_offsets(cluster: ClusterInProcess, topic_id: str) -> dict[int, int]:
    found = {}
    for broker_id, running in cluster.brokers.items():
        hosted = running.broker.table.get(topic_id, 0)
        if hosted is not None:
            found[broker_id] = hosted.log.log_end_offset
    return found


def high_watermarks(cluster: ClusterInProcess, topic_id: str) -> set[int]:
    hosted = [running.broker.table.get(topic_id, 0) for running in cluster.brokers.values()]
    return {-1 if one is None else one.replica.high_watermark for one in hosted}


def test_every_follower_holds_what_was_acknowledged_by_all(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            assert await produce(cluster.bootstrap(), "orders", VALUES, acks="all") == list(range(1000))
            assert log_end_offsets(cluster, topic_id) == {1: 1000, 2: 1000, 3: 1000}
            await cluster.controller.wait_for(
                lambda: high_watermarks(cluster, topic_id) == {1000}, "followers learn the high watermark"
            )
            assert await read(cluster.bootstrap(), "orders", 1000) == VALUES

    trio.run(run)


def test_when_the_leader_is_killed_another_serves_all_and_the_dead_one_rejoins(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            await cluster.brokers.pop(1).kill()
            await cluster.controller.wait_for(
                lambda: cluster.controller.state(topic_id).leader not in (1, NO_LEADER), "a new leader"
            )
            offsets = await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            assert offsets == list(range(1000, 2000))
            await cluster.start(1)
            await cluster.wait_isr(topic_id, 1, 2, 3)
            assert log_end_offsets(cluster, topic_id) == {1: 2000, 2: 2000, 3: 2000}
            assert await read(cluster.bootstrap(), "orders", 2000) == VALUES + MORE

    trio.run(run)


def test_a_controlled_shutdown_moves_the_leadership_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            stopping = cluster.brokers.pop(1)
            assert await stopping.stop()
            assert cluster.controller.state(topic_id).leader in (2, 3)
            await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            assert await read(cluster.bootstrap(), "orders", 2000) == VALUES + MORE

    trio.run(run)


def test_a_controller_outage_does_not_stop_replication(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            cluster.controller.is_down = True
            lease = cluster.brokers[1].broker.lease
            await cluster.controller.wait_for(
                lambda: not cluster.brokers[1].broker.holds_lease(), "the lease ends"
            )
            assert lease.lease_ms > 0
            await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            assert log_end_offsets(cluster, topic_id) == {1: 2000, 2: 2000, 3: 2000}
            cluster.controller.is_down = False
            await cluster.controller.wait_for(cluster.brokers[1].broker.holds_lease, "it is back")

    trio.run(run)


def test_a_wiped_follower_is_excluded_fetches_everything_and_rejoins(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            await cluster.brokers.pop(3).kill()
            shutil.rmtree(cluster.data_dir(3))
            await cluster.wait_isr(topic_id, 1, 2)
            await cluster.start(3)
            await cluster.wait_isr(topic_id, 1, 2, 3)
            assert log_end_offsets(cluster, topic_id)[3] == 1000

    trio.run(run)


def test_brokers_obey_the_clusters_settings_at_once_and_a_topics_own_before_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, configs={"log.retention.bytes": "9"})
            orders = cluster.controller.create_topic("orders", ((1,),))
            clicks = cluster.controller.create_topic("clicks", ((1,),), {"retention.ms": "4000"})
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            await produce(cluster.bootstrap(), "clicks", VALUES, acks="all")
            cluster.controller.configure({"log.retention.ms": "5000"})
            broker = cluster.brokers[1].broker
            with trio.fail_after(60):
                while broker.replicas.configs.topic_settings(orders).retention_ms != 5000:  # noqa: ASYNC110 - it has no event
                    await trio.sleep(0.01)
            assert broker.replicas.configs.topic_settings(clicks).retention_ms == 4000
            assert broker.replicas.configs.topic_settings(clicks).retention_bytes == 9

    trio.run(run)


def test_a_lag_allowed_for_the_cluster_holds_for_every_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            cluster.controller.configure({"replica.lag.time.max.ms": "500"})
            cluster.brokers[3].broker.fetchers.stop()
            await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            await cluster.wait_isr(topic_id, 1, 2)

    trio.run(run)


def test_a_follower_that_lags_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3, configs={"replica.lag.time.max.ms": "500"})
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), MIN_2)
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            cluster.brokers[3].broker.fetchers.stop()
            await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            await cluster.wait_isr(topic_id, 1, 2)
            await cluster.brokers.pop(3).kill()
            await cluster.start(3)
            await cluster.wait_isr(topic_id, 1, 2, 3)
            assert log_end_offsets(cluster, topic_id)[3] == 2000

    trio.run(run)
