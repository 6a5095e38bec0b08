"""Readers of what was committed: of the bank as it grows, and of everything once it is over."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.faults.exactly_once.application import BANK, COMMON_BRANCH
from tests.faults.exactly_once.judge import Book, Leg

CONSUME_MAX = 500
CONSUME_SECONDS = 0.1
READ_SECONDS_MAX = 120.0

Read = tuple[int, int, bytes | None]
"""Partition, offset and value; None where the reader was told that nothing committed follows."""


def open_reader(bootstrap_servers: str, topic: str, partitions: int) -> Consumer:
    """Return a consumer that reads each partition of the topic from its beginning, and tells ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"by-assignment-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    return consumer


def read_some(consumer: Consumer) -> Iterator[Read]:
    for message in consumer.consume(CONSUME_MAX, timeout=CONSUME_SECONDS):
        error, partition, offset = message.error(), message.partition(), message.offset()
        if partition is None or offset is None:
            continue
        if error is None:
            yield partition, offset, bytes(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            yield partition, offset, None


def read_all(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> list[Read]:
    """Read until each partition's end is reached, which is not before these offsets. No transaction may be
    open. Raises TimeoutError."""
    consumer = open_reader(bootstrap_servers, topic, len(ends))
    unfinished, read = set(ends), []
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {sorted(unfinished)} of {topic} were not read to their ends")
            for each in read_some(consumer):
                partition, offset, value = each
                if value is not None:
                    read.append(each)
                elif offset >= ends[partition]:
                    unfinished.discard(partition)
    finally:
        consumer.close()
    return read


class BankReader:
    """A thread that reads the bank while it is written."""

    def __init__(self, number: int, bootstrap_servers: str) -> None:
        self.book = Book(f"reader {number}")
        self._bootstrap_servers = bootstrap_servers
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{number}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = open_reader(self._bootstrap_servers, BANK, COMMON_BRANCH + 1)
        while not self._ends.is_set():
            for each in read_some(consumer):
                enter(self.book, each)
        consumer.close()


def enter(book: Book, read: Read) -> None:
    partition, offset, value = read
    if value is not None:
        book.read(partition, offset, msgspec.json.decode(value, type=Leg))
    elif partition != COMMON_BRANCH:
        book.reached_end(partition, offset)


def high_watermarks(bootstrap_servers: str, topic: str, partitions: int) -> dict[int, int]:
    """Return where each partition ends now, for any reader."""
    consumer: Any = open_reader(bootstrap_servers, topic, partitions)
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30.0, cached=False)[
                1
            ]
            for number in range(partitions)
        }
    finally:
        consumer.close()
