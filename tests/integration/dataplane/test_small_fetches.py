"""Stock consumers whose limit is below one batch read everything, beside empty partitions (KIP-74)."""

from __future__ import annotations

import time
from pathlib import Path

import kafka
import trio

from tests.kit.dataplane.clients_in_threads import produce, read
from tests.kit.dataplane.cluster_in_process import cluster_in_process

RECORDS = 60
PARTITIONS = 60
READ_SECONDS_MAX = 60


def read_with_kafka_python(bootstrap: str, max_bytes: int) -> list[bytes]:
    """Return what a consumer of all partitions reads; partition 0, which alone holds records, comes last."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_bytes=max_bytes)
    partitions = [kafka.TopicPartition("orders", one) for one in reversed(range(PARTITIONS))]
    values: list[bytes] = []
    give_up = time.monotonic() + READ_SECONDS_MAX
    try:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while len(values) < RECORDS and time.monotonic() < give_up:
            for records in consumer.poll(timeout_ms=500).values():
                values += [record.value for record in records]
    finally:
        consumer.close()
    return values


def test_stock_clients_with_small_limits_read_everything(tmp_path: Path) -> None:
    values = [f"{index}".encode() for index in range(RECORDS)]

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            cluster.controller.create_topic("orders", ((1,),) * PARTITIONS)
            bootstrap = cluster.bootstrap()
            await produce(bootstrap, "orders", values, **{"batch.num.messages": 4})
            small = {"fetch.max.bytes": 1_000, "fetch.message.max.bytes": 1, "message.max.bytes": 1_000}
            assert await read(bootstrap, "orders", RECORDS, **small) == values
            for max_bytes in (1, 1_024):
                found = await trio.to_thread.run_sync(read_with_kafka_python, bootstrap, max_bytes)
                assert found == values, max_bytes

    trio.run(run)
