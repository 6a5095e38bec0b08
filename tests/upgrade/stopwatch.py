"""Stock clients at their defaults, each in a thread, that note when each record was answered or read."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import KafkaError as ConfluentError

VALUE_BYTES = 100
POLL_SECONDS = 0.01
END_SECONDS_MAX = 60.0


class Stopwatch(ABC):
    """A client in a thread of its own. times: seconds of the monotonic clock, by partition, when a record was
    acknowledged or read. errors: what the client raised or reported to the application. answered: when each
    value of a producer was acknowledged. read_again: records that a consumer was given before."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        self.name = name
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.times: Mapping[int, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.answered: dict[bytes, float] = {}
        self.read_again = 0
        self._next: dict[int, int] = {}
        self.ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the client, once its records have been answered."""
        self.ends.set()
        self._thread.join(END_SECONDS_MAX)

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:  # whatever ends a client is what is looked for
            self.errors.append(f"{type(error).__name__}: {error}")

    @abstractmethod
    def work(self) -> None:
        """Produce or consume until `ends` is set."""

    def note_answer(self, partition: int, value: bytes) -> None:
        self.answered[value] = time.monotonic()
        self.times[partition].append(self.answered[value])

    def note_read(self, partition: int, offset: int) -> None:
        self.times[partition].append(time.monotonic())
        self.read_again += offset < self._next.get(partition, 0)
        self._next[partition] = max(offset + 1, self._next.get(partition, 0))

    def longest_stall_ms(self, since: float, until: float) -> int:
        """Return the longest time within these moments in which some partition was silent."""
        longest = 0.0
        for number in range(self.partitions):
            inside = [at for at in list(self.times[number]) if since < at < until]
            longest = max(longest, *(after - before for before, after in pairwise([since, *inside, until])))
        return round(longest * 1000)


class ConfluentProducer(Stopwatch):
    """acks=all is librdkafka's default. rate: records a second, over all partitions."""

    rate = 200.0
    is_idempotent = False

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": self.is_idempotent,
                "log_level": 0,
            }
        )
        began, sent = time.monotonic(), 0
        while not self.ends.is_set():
            while sent < (time.monotonic() - began) * self.rate:
                value = f"{self.name}-{sent}".ljust(VALUE_BYTES, ".")
                partition = sent % self.partitions
                producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)
                sent += 1
            producer.poll(POLL_SECONDS)
        if producer.flush(END_SECONDS_MAX):
            self.errors.append("records were never answered")
        producer.close()

    def _on_delivery(self, error: ConfluentError | None, message: Message) -> None:
        if error is None:
            self.note_answer(message.partition() or 0, bytes(message.value() or b""))
        else:
            self.errors.append(str(error))


class IdempotentProducer(ConfluentProducer):
    """The same with `enable.idempotence`, which Kafka's own producer has by default since 3.0."""

    is_idempotent = True


class ConfluentConsumer(Stopwatch):
    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        while not self.ends.is_set():
            for message in consumer.consume(100, timeout=POLL_SECONDS):
                error = message.error()
                if error is None:
                    self.note_read(message.partition() or 0, message.offset() or 0)
                else:
                    self.errors.append(error.str())
        consumer.close()


class AiokafkaProducer(Stopwatch):
    """rate: as ConfluentProducer's."""

    rate = 200.0

    def work(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        began, sent = time.monotonic(), 0
        answers: set[asyncio.Task[None]] = set()
        while not self.ends.is_set():
            while sent < (time.monotonic() - began) * self.rate:
                value = f"{self.name}-{sent}".ljust(VALUE_BYTES, ".").encode()
                task = asyncio.create_task(self._send(producer, value, sent % self.partitions))
                answers.add(task)
                task.add_done_callback(answers.discard)
                sent += 1
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.gather(*answers)
        await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, value: bytes, partition: int) -> None:
        try:
            await producer.send_and_wait(self.topic, value, partition=partition)
        except KafkaError as error:
            self.errors.append(f"{type(error).__name__}: {error}")
        else:
            self.note_answer(partition, value)


class AiokafkaConsumer(Stopwatch):
    def work(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic, bootstrap_servers=self.bootstrap, group_id=self.name, auto_offset_reset="earliest"
        )
        await consumer.start()
        while not self.ends.is_set():
            found = await consumer.getmany(timeout_ms=round(POLL_SECONDS * 1000))
            for place, records in found.items():
                for record in records:
                    self.note_read(place.partition, record.offset)
        await consumer.stop()
