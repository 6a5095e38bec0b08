"""A consumer group of stock clients, each in a thread: it reads what the load writes, and commits it.

The client is confluent-kafka with everything as it comes, but that it commits after each read. What members
saw and when they had committed it is kept, for verdict.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from localcluster.load import CONSUME_RECORDS_MAX, LoadFailed, ends_of, to_record
from localcluster.verdict import AcknowledgedWrite, ReadRecord, RecordPlace

POLL_SECONDS = 0.05
ANSWER_SECONDS_MAX = 30.0


class ReadingGroup:
    """Reads a topic with some members of one group, until it is stopped."""

    def __init__(self, *, bootstrap_servers: str, topic: str, group: str, members: int) -> None:
        self.group = group
        self.records: list[ReadRecord] = []
        """In the order in which members got them. Only ever appended to, as is `commits`."""
        self.commits: list[AcknowledgedWrite] = []
        """A commit is a write, too: of a partition's offset, to the group's log."""
        self.refusals: list[str] = []
        """Why commits failed: a few do in every failover, and the next commit covers what they left out."""
        self._bootstrap_servers, self._topic = bootstrap_servers, topic
        self._stopping = threading.Event()
        self._crash: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._read, name=f"{group}-{number}") for number in range(members)
        ]

    def has_read(self, ends: Mapping[int, int]) -> bool:
        """Return whether it has committed at least these offsets, by partition."""
        committed = ends_of(list(self.commits))
        return all(committed.get(partition, 0) > end for partition, end in ends.items())

    def coordinator(self) -> int:
        """Return the id of the coordinator that the group's members talk to now, as clients find it."""
        with AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0}) as client:
            asked = client.describe_consumer_groups([self.group], request_timeout=ANSWER_SECONDS_MAX)
            coordinator = asked[self.group].result(ANSWER_SECONDS_MAX).coordinator
        return int(coordinator.id)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if kind is None and self._crash is not None:
            raise LoadFailed(f"a member of {self.group} stopped by itself: {self._crash}") from self._crash

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 0,
                "error_cb": lambda error: None,  # Dead processes are part of the demo.
            }
        )
        try:
            consumer.subscribe([self._topic])
            while not self._stopping.is_set():
                self._take(consumer)
        except KafkaException as crash:
            self._crash = crash
        finally:
            consumer.close()

    def _take(self, consumer: Consumer) -> None:
        messages = [m for m in consumer.consume(CONSUME_RECORDS_MAX, timeout=POLL_SECONDS) if not m.error()]
        read = [to_record(message) for message in messages]
        if not read:
            return
        self.records += read
        asked_at = time.monotonic()
        try:
            committed = consumer.commit(asynchronous=False)
        except KafkaException as refused:
            self.refusals.append(str(refused))
            return
        self.commits += [
            _commit(offset, asked_at=asked_at) for offset in committed or () if offset.offset >= 0
        ]


def _commit(offset: TopicPartition, *, asked_at: float) -> AcknowledgedWrite:
    return AcknowledgedWrite(
        value=b"",
        place=RecordPlace(partition=offset.partition, offset=offset.offset),
        produced_at=asked_at,
        acknowledged_at=time.monotonic(),
    )
