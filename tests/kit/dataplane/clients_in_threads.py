"""Stock clients, in threads: nothing of Springtide's is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka
import trio

TIMEOUT_S = 60
SMALL_BATCHES = {"batch.num.messages": 10, "enable.idempotence": True}
"""Many batches, and in order though the first of them come before the leader has its log."""


def produce_blocking(bootstrap: str, topic: str, values: list[bytes], **configs: Any) -> list[int]:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": TIMEOUT_S * 1000, **configs}
    )
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return offsets


def read_blocking(bootstrap: str, topic: str, count: int, **configs: Any) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **configs}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(values)} of {count} read"
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def read_group_blocking(settings: Mapping[str, Any], topic: str, count: int) -> list[bytes]:
    """Return so many values, read as the group `billing`, whose offsets are committed then."""
    consumer = confluent_kafka.Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), timeout=TIMEOUT_S)
            assert messages, f"{len(values)} of {count} came"
            values += [value for message in messages if (value := message.value()) is not None]
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


async def produce(bootstrap: str, topic: str, values: list[bytes], **configs: Any) -> list[int]:
    """Offsets, in order; raises on the first failure."""
    return await trio.to_thread.run_sync(lambda: produce_blocking(bootstrap, topic, values, **configs))


async def read(bootstrap: str, topic: str, count: int, **configs: Any) -> list[bytes]:
    """The first `count` values of partition 0."""
    return await trio.to_thread.run_sync(lambda: read_blocking(bootstrap, topic, count, **configs))
