"""Records that a stock client deleted, when every broker dies right after the answer."""

from __future__ import annotations

from pathlib import Path

import trio
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kit.dataplane.clients_in_threads import TIMEOUT_S, produce, read
from tests.kit.dataplane.cluster_in_process import cluster_in_process

VALUES = [b"value %d" % number for number in range(1_000)]
KEPT_FROM = 400
RARE_CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": "3600000"}
"""After the first ones nothing but a deletion stores a log start."""


def delete(bootstrap: str, before_offset: int) -> int:
    """Return the low watermark."""
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        (pending,) = admin.delete_records([TopicPartition("orders", 0, before_offset)]).values()
        return int(pending.result(TIMEOUT_S).low_watermark)


def test_i37_what_was_deleted_is_deleted_still_when_every_broker_was_killed(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3, configs=RARE_CHECKPOINTS)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),))
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            await cluster.wait_isr(topic_id, 1, 2, 3)
            hosted = [running.broker.table.get(topic_id, 0) for running in cluster.brokers.values()]
            await cluster.controller.wait_for(
                lambda: all(one is not None and one.is_high_watermark_stored for one in hosted),
                "the last checkpoint for an hour",
            )
            bootstrap = cluster.bootstrap()
            assert await trio.to_thread.run_sync(delete, bootstrap, KEPT_FROM) == KEPT_FROM
            for broker_id in (1, 2, 3):
                await cluster.brokers.pop(broker_id).kill()
            for broker_id in (3, 2, 1):
                await cluster.start(broker_id)
            await cluster.wait_isr(topic_id, 1, 2, 3)
            assert await read(cluster.bootstrap(), "orders", len(VALUES) - KEPT_FROM) == VALUES[KEPT_FROM:]

    trio.run(run)
