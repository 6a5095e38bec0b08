"""One broker, a stock client, and what survives each way of stopping."""

from __future__ import annotations

from pathlib import Path

import trio

from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.clients_in_threads import produce, read
from tests.kit.dataplane.cluster_in_process import cluster_in_process

VALUES = [b"value %d" % number for number in range(1000)]


def test_a_stock_client_reads_back_what_it_produced(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            cluster.controller.create_topic("orders", ((1,),))
            bootstrap = cluster.bootstrap()
            assert await produce(bootstrap, "orders", VALUES, acks="all") == list(range(1000))
            assert await read(bootstrap, "orders", 1000) == VALUES

    trio.run(run)


def test_an_idempotent_producer_gets_its_id_from_the_controller(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            cluster.controller.create_topic("orders", ((1,),))
            bootstrap = cluster.bootstrap()
            offsets = await produce(
                bootstrap, "orders", VALUES, acks="all", **{"enable.idempotence": True, "linger.ms": 0}
            )
            assert offsets == list(range(1000))
            assert await read(bootstrap, "orders", 1000) == VALUES
            assert cluster.controller.image.next_producer_id > 0

    trio.run(run)


def test_a_broker_that_stops_cleanly_says_so_and_serves_its_records_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            first_epoch = cluster.brokers[1].broker.session.broker_epoch
            assert await cluster.brokers[1].stop()
            running = await cluster.start(1)
            assert running.log_dir.claim.last_shutdown is ShutdownKind.CLEAN
            assert running.log_dir.claim.previous_broker_epoch == first_epoch
            await cluster.wait_active(1)
            assert await read(cluster.bootstrap(), "orders", 1000) == VALUES
            assert cluster.controller.state(topic_id).isr == (1,)

    trio.run(run)


def test_a_killed_broker_recovers_all_that_the_kernel_had(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            cluster.controller.create_topic("orders", ((1,),))
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            await cluster.brokers[1].kill()
            running = await cluster.start(1)
            assert running.log_dir.claim.last_shutdown is ShutdownKind.PROCESS_CRASH
            await cluster.wait_active(1)
            assert await read(cluster.bootstrap(), "orders", 1000) == VALUES

    trio.run(run)


def test_a_broker_that_is_stopped_while_it_starts_stops_cleanly(tmp_path: Path) -> None:
    """SIGTERM does not wait until the broker has a session with a controller."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.start(1)
            await cluster.brokers[1].stop()
            broker, log_dir = await cluster.open(1)
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:

                    async def stop() -> None:
                        assert await broker.shut_down()
                        nursery.cancel_scope.cancel()

                    nursery.start_soon(stop)
                    nursery.start_soon(broker.run)
            log_dir.abandon()
            running = await cluster.start(1)
            assert running.log_dir.claim.last_shutdown is ShutdownKind.CLEAN

    trio.run(run)


def test_a_deleted_topic_is_gone_and_its_name_can_be_used_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            old_id = cluster.controller.create_topic("orders", ((1,),))
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            cluster.controller.delete_topic("orders")
            table = cluster.brokers[1].broker.table
            await cluster.controller.wait_for(lambda: table.get(old_id, 0) is None, "the replica goes")
            new_id = cluster.controller.create_topic("orders", ((1,),))
            assert await produce(cluster.bootstrap(), "orders", [b"new"], acks="all") == [0]
            assert await read(cluster.bootstrap(), "orders", 1) == [b"new"]
            hosted = table.get_by_name("orders", 0)
            assert hosted is not None
            assert hosted.topic_id == new_id
            await cluster.controller.wait_for(
                lambda: (
                    [entry.name for entry in cluster.data_dir(1).glob("orders*")] == [f"orders-0.{new_id}"]
                ),
                "the old log is gone",  # unlinked in a thread
            )

    trio.run(run)
