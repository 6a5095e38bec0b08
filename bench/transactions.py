"""Transactions beside Apache Kafka: `python -m bench transactions [--kafka-home DIR] [--quick]`.

Three brokers on each side, and on ours three coordinators beside them, whose processor time counts as the
brokers' do. Stock producers (librdkafka) commit transactions of 1, 10 and 1,000 records of 200 bytes to 1, 10
and 100 partitions, one after the other: first one alone, for how long a commit takes, then eight. Beside the
first a reader of committed records and one of all records measure how long after it was produced each record
reached them: what committed records wait for is the rest of their transaction.
"""

from __future__ import annotations

import argparse
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from bench.command import Narrator, add_kafka_home, add_output, add_quick
from bench.figures import latency_percentiles_ms
from bench.kafka import Kafka
from bench.machine import keep, machine_facts
from bench.processor_time import cpu_seconds
from bench.report import side_by_side
from bench.sides import KEEP_ALL, Side, Springtide

VALUE_BYTES: Final = 200
STAMP_BYTES: Final = 8
WARM_UP_SECONDS: Final = 1.0
ANSWER_SECONDS_MAX: Final = 60.0
CONSUME_MAX, CONSUME_SECONDS = 1000, 0.05
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a transaction."""

    records: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.records} rec., {self.partitions} part."


@dataclass(frozen=True, slots=True)
class Size:
    shapes: tuple[Shape, ...]
    seconds: float
    together: int
    """Producers of the second measurement."""


SIZES: Final = {
    False: Size(
        (Shape(1, 1), Shape(10, 1), Shape(10, 10), Shape(1000, 1), Shape(1000, 10), Shape(1000, 100)),
        seconds=8.0,
        together=8,
    ),
    True: Size((Shape(1, 1), Shape(10, 10)), seconds=2.0, together=2),
}


def units(size: Size) -> dict[str, str]:
    """What is measured of each shape, with its words."""
    told = {
        "commit_p50_ms": "a transaction takes, p50 ms",
        "commit_p99_ms": "… p99 ms",
        f"{COMMITTED}_p50_ms": "a record reaches read_committed, p50 ms",
        f"{UNCOMMITTED}_p50_ms": "… read_uncommitted, p50 ms",
        "per_second": f"transactions a second, {size.together} producers",
        "cpu_us": "… processor time of one, µs",
    }
    return {f"{shape} {name}": f"{shape}: {text}" for shape in size.shapes for name, text in told.items()}


def is_rate(name: str) -> bool:
    return name.endswith("per_second")


def measure(side: Side, size: Size, tell: Narrator) -> dict[str, float | None]:
    """Run the load against a side; return its figures. Raises KafkaException."""
    figures: dict[str, float | None] = {}
    for shape in size.shapes:
        topic = f"transactions-{shape.records}-{shape.partitions}"
        side.create_topic(topic, partitions=shape.partitions, retention_bytes=KEEP_ALL)
        with _readers(side, topic, shape) as latencies:
            took = _commit_for(_open(side), topic, shape, size.seconds)
        measured = {"commit": took, **latencies}
        for name, seconds in measured.items():
            p50, p99 = latency_percentiles_ms(seconds)
            figures[f"{shape} {name}_p50_ms"] = p50
            figures[f"{shape} {name}_p99_ms"] = p99
        per_second, cpu_us = _together(side, topic, shape, size)
        figures[f"{shape} per_second"] = per_second
        figures[f"{shape} cpu_us"] = cpu_us
        tell(f"{shape}: {per_second:.0f} transactions a second")
        side.delete_topic(topic)
    return figures


def _open(side: Side) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": side.bootstrap_servers,
            "transactional.id": f"bench-{uuid.uuid4().hex[:8]}",
            "log_level": 0,
        }
    )
    producer.init_transactions(ANSWER_SECONDS_MAX)
    return producer


def _commit_for(producer: Producer, topic: str, shape: Shape, seconds: float) -> list[float]:
    """Commit one transaction after the other; return how long each took, in seconds, after the warm-up."""
    began = time.monotonic()
    took: list[float] = []
    for number in count():
        at = time.monotonic()
        if at - began >= WARM_UP_SECONDS + seconds:
            break
        producer.begin_transaction()
        for record in range(shape.records):
            stamp = time.monotonic_ns().to_bytes(STAMP_BYTES)
            partition = (number * shape.records + record) % shape.partitions
            producer.produce(topic, stamp.ljust(VALUE_BYTES, b"."), partition=partition)
        producer.commit_transaction(ANSWER_SECONDS_MAX)
        if at - began >= WARM_UP_SECONDS:
            took.append(time.monotonic() - at)
    return took


def _together(side: Side, topic: str, shape: Shape, size: Size) -> tuple[float, float]:
    """Return how many transactions several producers commit in a second, and the servers' processor time of
    one, in microseconds."""
    producers = [_open(side) for _ in range(size.together)]
    counts: list[int] = []

    def load(producer: Producer) -> None:
        counts.append(len(_commit_for(producer, topic, shape, size.seconds)))

    threads = [threading.Thread(target=load, args=(producer,)) for producer in producers]
    for thread in threads:
        thread.start()
    time.sleep(WARM_UP_SECONDS)
    cpu_s = cpu_seconds(side.broker_pids)
    time.sleep(size.seconds)
    cpu_s = cpu_seconds(side.broker_pids) - cpu_s
    for thread in threads:
        thread.join()
    return sum(counts) / size.seconds, cpu_s / max(1, sum(counts)) * 1e6


@contextmanager
def _readers(side: Side, topic: str, shape: Shape) -> Iterator[dict[str, list[float]]]:
    """Two readers at the end of the topic, until the block ends; gives how long after each record was
    produced it reached them, in seconds, by isolation level."""
    ends = threading.Event()
    latencies: dict[str, list[float]] = {COMMITTED: [], UNCOMMITTED: []}
    ready = [threading.Event() for _ in latencies]

    def read(isolation: str, is_ready: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": side.bootstrap_servers,
                "group.id": f"bench-{uuid.uuid4().hex[:8]}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(shape.partitions)])
        consumer.consume(CONSUME_MAX, timeout=WARM_UP_SECONDS)
        is_ready.set()
        while not ends.is_set():
            messages = consumer.consume(CONSUME_MAX, timeout=CONSUME_SECONDS)
            now_ns = time.monotonic_ns()
            for message in messages:
                value = message.value()
                if message.error() is None and value is not None:
                    latencies[isolation].append((now_ns - int.from_bytes(value[:STAMP_BYTES])) / 1e9)
        consumer.close()

    threads = [threading.Thread(target=read, args=each) for each in zip(latencies, ready, strict=True)]
    for thread in threads:
        thread.start()
    for event in ready:
        event.wait()
    try:
        yield latencies
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser)
    add_kafka_home(parser)
    add_output(parser, "transactions-bench")


def run(options: argparse.Namespace) -> int:
    tell = Narrator()
    size = SIZES[options.quick]
    found: dict[str, dict[str, float | None]] = {}
    sides: list[Side] = [Springtide(tell, coordinators=3)]
    if options.kafka_home is not None:
        sides.append(Kafka(options.kafka_home, tell))
    for side in sides:
        with side:
            found[side.name] = measure(side, size, tell)
    told = units(size)
    print(side_by_side(found, told, more_is_better=frozenset(filter(is_rate, told))))
    keep(options.output, {"machine": machine_facts(), "quick": options.quick, **found})
    return 0
