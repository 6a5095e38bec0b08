"""What tests of public reports do with librdkafka: write numbers, see each acknowledged, and read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from localcluster.cluster import LocalCluster

SECONDS_MAX: Final = 60.0
BEGAN_MS: Final = 1_600_000_000_000


@contextmanager
def consumer(cluster: LocalCluster, group: str = "", **config: Any) -> Iterator[Consumer]:
    opened = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group or uuid.uuid4().hex,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    try:
        yield opened
    finally:
        opened.close()


def write(
    cluster: LocalCluster,
    topic: str,
    values: Iterable[int],
    *,
    partition: int = 0,
    keys: int | None = None,
    **config: Any,
) -> None:
    """Write them with acks=all, a millisecond apart from BEGAN_MS on, and see each acknowledged. keys: so
    many in turn."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **config})
    for number in values:
        producer.produce(
            topic,
            value=b"%d" % number,
            key=None if keys is None else b"%d" % (number % keys),
            partition=partition,
            timestamp=BEGAN_MS + number,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert refused == []


def read(opened: Consumer, count: int) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of the next `count` records, of fewer if no more come."""
    found: list[tuple[int, bytes | None]] = []
    until = time.monotonic() + SECONDS_MAX / 2
    while len(found) < count and time.monotonic() < until:
        message = opened.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.offset() or 0, message.value()))
    return found


def numbered(values: Iterable[int], *, first_offset: int = 0) -> list[tuple[int, bytes]]:
    """Return what `read` returns of values that were written one after the other."""
    return [(first_offset + place, b"%d" % number) for place, number in enumerate(values)]


def make_again(admin: AdminClient, topic: str, *, partitions: int = 1) -> None:
    for future in admin.delete_topics([topic]).values():
        future.result(SECONDS_MAX)
    for future in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
        future.result(SECONDS_MAX)
