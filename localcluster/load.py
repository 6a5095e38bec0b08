"""A steady load from a stock Kafka client, and a fresh consumer that reads everything back.

The client is confluent-kafka (librdkafka) with acks=all and idempotence on and everything else as it comes:
the figures are those that a user of that client gets. Nothing of Springtide is in the path. Values are
unique, so that verdict.py can tell each record's fate.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from localcluster.verdict import (
    UNKNOWN_OFFSET,
    AcknowledgedWrite,
    ReadRecord,
    RecordPlace,
)

TICK_SECONDS = 0.005
FLUSH_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 60.0
CONSUME_RECORDS_MAX = 1000
CONSUME_WAIT_SECONDS = 0.2
VALUE_BYTES = 100


class LoadFailed(RuntimeError):
    """The client gave up for good; the message has its words."""


class ClientLoad:
    """Writes numbered values round-robin to every partition from a thread of its own, until it is stopped.

    Args:
        bootstrap_servers, topic, partitions: where to.
        records_per_second: over all partitions. While writes stall, records pile up in the client as they
            would in an application that does not wait, and go out when they can.
        client_config: laid over the client's defaults.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        records_per_second: int,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: list[AcknowledgedWrite] = []
        """Grows while the load runs; only ever appended to, so reading a prefix from another thread is
        safe."""
        self.failed: list[str] = []
        """Why the client gave up on a record, one entry a record: they are neither acknowledged nor surely
        absent."""
        self.client_errors: list[str] = []
        """The errors that the client reported while it kept trying; a few are part of every failover."""
        self._records_per_second = records_per_second
        self._run = uuid.uuid4().hex[:8]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="load")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,  # It would write to stderr what `client_errors` keeps.
                "error_cb": self._on_client_error,
                **(client_config or {}),
            }
        )
        self._crash: BaseException | None = None
        self.produced = 0

    def start(self) -> None:
        self._thread.start()

    def log_in(self, user: str, password: str) -> None:
        """Use this from the next connection on, as an application does whose password is changed."""
        self._producer.set_sasl_credentials(user, password)

    def stop(self) -> None:
        """Produce no more, and wait until every record has been acknowledged or given up on.

        Raises:
            LoadFailed: the client still had unanswered records after `FLUSH_SECONDS_MAX`, or its thread
            crashed.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._crash is not None:
            raise LoadFailed(f"the load stopped by itself: {self._crash}") from self._crash
        unanswered = self._producer.flush(FLUSH_SECONDS_MAX)
        self._producer.close()
        if unanswered:
            raise LoadFailed(
                f"{unanswered} records unanswered after {FLUSH_SECONDS_MAX:g} s: {self.client_errors[-3:]}"
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # Something failed already: that is the story, so do not wait for a cluster that may be gone.
            self._stopping.set()
            self._thread.join()
            self._producer.purge()
            self._producer.close()

    def _produce(self) -> None:
        try:
            started_at = time.monotonic()
            while not self._stopping.is_set():
                due = int((time.monotonic() - started_at) * self._records_per_second)
                while self.produced < due and not self._stopping.is_set():
                    self._send_next()
                self._producer.poll(TICK_SECONDS)
        except (KafkaException, BufferError, ValueError) as crash:
            self._crash = crash

    def _send_next(self) -> None:
        partition = self.produced % self.partitions
        number = f"{self._run}-{self.produced:010d}".encode("ascii")
        value = number.ljust(VALUE_BYTES, b".")
        try:
            self._producer.produce(
                self.topic, value=value, partition=partition, on_delivery=self._on_delivery
            )
        except BufferError:  # The client holds all it can: let it work, and try the same record again.
            self._producer.poll(TICK_SECONDS)
            return
        self.produced += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        if error is not None:
            self.failed.append(str(error))
            return
        value, partition, offset, latency = (
            message.value(),
            message.partition(),
            message.offset(),
            message.latency(),
        )
        assert value is not None
        assert partition is not None
        assert latency is not None
        self.acknowledged.append(
            AcknowledgedWrite(
                value=bytes(value),
                place=RecordPlace(partition, UNKNOWN_OFFSET if offset is None else offset),
                produced_at=now - latency,
                acknowledged_at=now,
            )
        )

    def _on_client_error(self, error: KafkaError) -> None:
        self.client_errors.append(str(error))


def read_everything(
    *,
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    at_least: Mapping[int, int] | None = None,
    client_config: Mapping[str, Any] | None = None,
    timeout_seconds: float = READ_SECONDS_MAX,
) -> list[ReadRecord]:
    """Read every partition from its beginning with a fresh consumer, by assignment, with CRC checks on.

    Ends when every partition's end has been reached. Right after a failover that end, the high watermark,
    may lag: `at_least` (partition to offset) says how far each must reach before its end counts. What is
    there at the deadline is returned as well; the caller's comparison shows what it lacks.
    """
    at_least = at_least or {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reads-by-assignment-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
            "error_cb": lambda error: None,  # Dead brokers are part of the test; a fatal error raises below.
            **(client_config or {}),
        }
    )
    records: list[ReadRecord] = []
    next_offsets = dict.fromkeys(range(partitions), 0)
    unfinished = set(range(partitions))
    deadline = time.monotonic() + timeout_seconds
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        while unfinished and time.monotonic() < deadline:
            for message in consumer.consume(CONSUME_RECORDS_MAX, timeout=CONSUME_WAIT_SECONDS):
                partition, error = message.partition(), message.error()
                assert partition is not None
                if error is None:
                    record = to_record(message)
                    next_offsets[partition] = record.place.offset + 1
                    records.append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if next_offsets[partition] >= at_least.get(partition, 0):
                        unfinished.discard(partition)
                elif error.fatal() or not error.retriable():
                    raise LoadFailed(f"the consumer cannot read {topic}: {error}")
    finally:
        consumer.close()
    return records


def to_record(message: Message) -> ReadRecord:
    value, partition, offset = message.value(), message.partition(), message.offset()
    assert value is not None
    assert partition is not None
    assert offset is not None
    return ReadRecord(bytes(value), RecordPlace(partition=partition, offset=offset))


def ends_of(acknowledged: list[AcknowledgedWrite]) -> dict[int, int]:
    """Return by partition the offset after the last acknowledged record, which a complete read must reach."""
    ends: dict[int, int] = {}
    for write in acknowledged:
        place = write.place
        ends[place.partition] = max(ends.get(place.partition, 0), place.offset + 1)
    return ends
