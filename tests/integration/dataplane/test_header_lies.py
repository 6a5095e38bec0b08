"""What a batch's header says of its records, and what its records say, to stock clients."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka
import pytest
import trio
from confluent_kafka import TopicPartition

from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import HEADER_BYTES, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from tests.kit.dataplane.clients_in_threads import TIMEOUT_S, read
from tests.kit.dataplane.cluster_in_process import cluster_in_process
from tests.kit.dataplane.raw import connected

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
OFTEN = {"log.retention.check.interval.ms": "100"}


def old_record(bootstrap: str, timestamp_ms: int) -> None:
    """librdkafka's header is right."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"old", partition=0, timestamp=timestamp_ms)
    assert producer.flush(TIMEOUT_S) == 0


def offset_at(bootstrap: str, timestamp_ms: int) -> int:
    """Look up where a group that is reset by date would begin."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        (found,) = consumer.offsets_for_times([TopicPartition("orders", 0, timestamp_ms)], timeout=TIMEOUT_S)
        return int(found.offset)
    finally:
        consumer.close()


def lying(claimed_ms: int, *times_ms: int) -> bytes:
    """As a client writes it that leaves the field, or fills it with anything."""
    batch = encode_batch([NewRecord(None, b"young", ms) for ms in times_ms])
    return seal_batch(decode_header(batch)._replace(max_timestamp=claimed_ms), batch[HEADER_BYTES:])


@pytest.mark.parametrize("claimed", ["-1", "0", "a day ago", "2^63-1"])
def test_i36_records_stay_for_their_own_time_whatever_their_header_says(tmp_path: Path, claimed: str) -> None:
    """RP#25200, RP#27529, IBM/sarama#3108: there the header was believed, and records went early."""
    now_ms = int(time.time() * 1000)
    claimed_ms = {"-1": -1, "0": 0, "a day ago": now_ms - DAY_MS, "2^63-1": 2**63 - 1}[claimed]

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, configs=OFTEN)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"retention.ms": str(HOUR_MS)})
            await cluster.wait_isr(topic_id, 1, 2)
            bootstrap = cluster.bootstrap()
            await trio.to_thread.run_sync(old_record, bootstrap, now_ms - 2 * DAY_MS)
            times = [now_ms + number for number in range(5)]
            async with connected(cluster.brokers[1].port) as raw:
                assert await raw.produce_batch("orders", lying(claimed_ms, *times)) == (ErrorCode.NONE, 1)
            hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
            assert hosted is not None
            await trio.sleep(1)  # ten rounds of retention
            gone = hosted.log.log_start_offset
            assert gone <= 1, "the old one may go if a round came before the others were written"
            assert await read(bootstrap, "orders", 6 - gone) == [*[b"old"][gone:], *[b"young"] * 5]
            for number, timestamp_ms in enumerate(times):
                found = await trio.to_thread.run_sync(offset_at, bootstrap, timestamp_ms)
                assert found == 1 + number
            assert await trio.to_thread.run_sync(offset_at, bootstrap, now_ms - HOUR_MS) == 1

    trio.run(run)
