"""The producer of the full stack: it ends, whatever its brokers went through."""

from __future__ import annotations

import trio

from tests.checker.history import Function, Outcome
from tests.fullstack.clock import VirtualClock, run_virtually
from tests.fullstack.cluster import Cluster
from tests.fullstack.guard import guarded
from tests.fullstack.options import Options
from tests.fullstack.producer import DELIVERY_MS, QUEUE_MAX, Producer
from tests.fullstack.world import World

OPTIONS = Options(controllers=1, partitions=1, producer_pause_ms=(20.0, 40.0))


def test_batches_that_outlived_their_time_unsent_are_sent_once_brokers_are_back() -> None:
    """They were never tried, so no sequence of theirs is in doubt, and nothing is given up for them."""

    async def story(cluster: Cluster) -> None:
        await cluster.form()
        await cluster.operator.create_topic(cluster.topic, partitions=1, replication_factor=3, configs={})
        producer = Producer(
            cluster.clients,
            name="producer",
            topic=cluster.topic,
            partition=0,
            pause_ms=OPTIONS.producer_pause_ms,
        )
        cluster.spawn(producer.run)
        await cluster.until(lambda: producer.acked > 0, ms=10_000, what="it writes")
        for broker in cluster.brokers.values():
            cluster.network.cut(cluster.clients.machine.name, broker.name)
        await trio.sleep(2 * DELIVERY_MS / 1000)
        acked = producer.acked
        cluster.network.mend_all()
        producer.stop()
        await cluster.until(lambda: producer.has_ended, ms=10_000, what="every send has ended")
        assert producer.acked > acked
        sends = [operation for operation in cluster.clients.operations if operation.f is Function.SEND]
        lost_sight_of = [send for send in sends if send.type is not Outcome.OK]
        assert 0 < len(lost_sight_of) < QUEUE_MAX, "only what was under way when the network was cut"

    async def main(clock: VirtualClock) -> None:
        await Cluster(World(1, clock), OPTIONS).run(story)

    with guarded(1):
        run_virtually(1, main)
