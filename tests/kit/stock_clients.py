"""Four stock Kafka clients behind one small interface: write these records, read that partition.

Each client runs as its users run it (acks=all, idempotence on), on its own codec: librdkafka twice
(confluent-kafka and, as another version of it, kcat), kafka-python and aiokafka. Reading is by assignment:
no group, no committed offsets.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.structs import TopicPartition as AioTopicPartition

READ_SECONDS_MAX = 60.0
WRITE_SECONDS_MAX = 60.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as applications see it. `timestamp_ms`: None for the client's clock."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a client read it."""

    offset: int
    record: Record


class Client(Protocol):
    """A stock client."""

    name: str
    sets_timestamps: bool
    """Whether its producer can be told a record's timestamp."""

    def can_write(self, record: Record) -> bool:
        """Return whether the producer's own checks let the record through."""

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str
    ) -> list[int] | None:
        """Writes to partition 0; the acknowledged offsets in order, or None when the client does not tell
        them."""

    def read(self, bootstrap: str, topic: str, *, count: int) -> list[Stored]:
        """Reads `count` records of partition 0 from its beginning."""


class ConfluentKafka:
    name = "confluent-kafka"
    sets_timestamps = True

    def can_write(self, record: Record) -> bool:
        return True

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str
    ) -> list[int] | None:
        offsets: list[int] = []
        failures: list[str] = []

        def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is not None:
                failures.append(str(error))
                return
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": compression,
            }
        )
        for record in records:
            producer.produce(
                topic,
                partition=0,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=on_delivery,
            )
        assert producer.flush(WRITE_SECONDS_MAX) == 0
        assert failures == []
        return offsets

    def read(self, bootstrap: str, topic: str, *, count: int) -> list[Stored]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        stored: list[Stored] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
            while len(stored) < count and time.monotonic() < deadline:
                for message in consumer.consume(count, timeout=0.2):
                    assert message.error() is None, message.error()
                    offset = message.offset()
                    assert offset is not None
                    kind, timestamp_ms = message.timestamp()
                    assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
                    headers = self._headers(message)
                    stored.append(
                        Stored(offset, Record(message.key(), message.value(), headers, timestamp_ms))
                    )
        finally:
            consumer.close()
        return stored

    @staticmethod
    def _headers(message: confluent_kafka.Message) -> Headers:
        given = message.headers() or []
        assert isinstance(given, list)
        return tuple((name, value) for name, value in given if not isinstance(value, str))


class KafkaPython:
    name = "kafka-python"
    sets_timestamps = True

    def can_write(self, record: Record) -> bool:
        has_null_header = any(value is None for _, value in record.headers)
        return not has_null_header and (record.key is not None or record.value is not None)

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str
    ) -> list[int] | None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            compression_type=None if compression == "none" else compression,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    partition=0,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [future.get(timeout=WRITE_SECONDS_MAX).offset for future in futures]
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, *, count: int) -> list[Stored]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), group_id=None, enable_auto_commit=False, check_crcs=True
        )
        partition = kafka.TopicPartition(topic, 0)
        stored: list[Stored] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        try:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            while len(stored) < count and time.monotonic() < deadline:
                for message in consumer.poll(timeout_ms=200).get(partition, []):
                    headers = tuple((name, value) for name, value in message.headers)
                    stored.append(
                        Stored(message.offset, Record(message.key, message.value, headers, message.timestamp))
                    )
        finally:
            consumer.close()
        return stored


class AioKafka:
    name = "aiokafka"
    sets_timestamps = True

    def can_write(self, record: Record) -> bool:
        return record.key is not None or record.value is not None

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str
    ) -> list[int] | None:
        return asyncio.run(self._produce(bootstrap, topic, records, compression))

    async def _produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], compression: str
    ) -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=True,
            compression_type=None if compression == "none" else compression,
            linger_ms=20,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    partition=0,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                return [(await future).offset for future in futures]
        finally:
            await producer.stop()

    def read(self, bootstrap: str, topic: str, *, count: int) -> list[Stored]:
        return asyncio.run(self._read(bootstrap, topic, count))

    async def _read(self, bootstrap: str, topic: str, count: int) -> list[Stored]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, check_crcs=True
        )
        partition = AioTopicPartition(topic, 0)
        stored: list[Stored] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(stored) < count and time.monotonic() < deadline:
                for message in (await consumer.getmany(timeout_ms=200)).get(partition, []):
                    headers = tuple((name, value) for name, value in message.headers)
                    stored.append(
                        Stored(message.offset, Record(message.key, message.value, headers, message.timestamp))
                    )
        finally:
            await consumer.stop()
        return stored


class Kcat:
    """kcat's command line writes one key, value and set of headers for all records of a run of it, or a
    line a record; it cannot set timestamps, and writes NULL where the line is empty (-Z)."""

    name = "kcat"
    sets_timestamps = False

    def can_write(self, record: Record) -> bool:
        return True

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str
    ) -> list[int] | None:
        headers = records[0].headers
        assert all(record.headers == headers for record in records), "kcat sends the same headers with all"
        lines = b"".join(
            (record.key or b"") + b"\x1f" + (record.value or b"") + b"\x1e" for record in records
        )
        flags = [
            *("-X", "acks=all", "-X", "enable.idempotence=true", "-z", compression, "-Z"),
            *("-D", "\x1e", "-K", "\x1f", "-p", "0"),
        ]
        for name, value in headers:
            flags += ["-H", f"{name}={(value or b'').decode()}"]
        self._run(["-P", "-b", bootstrap, "-t", topic, *flags], given=lines)
        return None

    def read(self, bootstrap: str, topic: str, *, count: int) -> list[Stored]:
        # Lengths first, so that any byte may occur in a key or a value; -1 is a null.
        layout = "%o %T %K %S\n%k%s\n%h\n"
        printed = self._run(
            [
                *("-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count)),
                *("-q", "-f", layout, "-X", "check.crcs=true"),
            ]
        )
        stored: list[Stored] = []
        position = 0
        while position < len(printed):
            line_end = printed.index(b"\n", position)
            offset, timestamp_ms, key_bytes, value_bytes = map(int, printed[position:line_end].split())
            key_at = line_end + 1
            value_at = key_at + max(key_bytes, 0)
            value_end = value_at + max(value_bytes, 0)
            headers_end = printed.index(b"\n", value_end + 1)
            record = Record(
                key=None if key_bytes < 0 else printed[key_at:value_at],
                value=None if value_bytes < 0 else printed[value_at:value_end],
                headers=self._parse_headers(printed[value_end + 1 : headers_end]),
                timestamp_ms=timestamp_ms,
            )
            stored.append(Stored(offset, record))
            position = headers_end + 1
        return stored

    @staticmethod
    def _parse_headers(printed: bytes) -> Headers:
        pairs = [pair.partition(b"=") for pair in printed.split(b",")] if printed else []
        return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)

    @staticmethod
    def _run(arguments: list[str], *, given: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", *arguments], input=given, capture_output=True, timeout=READ_SECONDS_MAX, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


CLIENTS: tuple[Client, ...] = (ConfluentKafka(), KafkaPython(), AioKafka(), Kcat())
