"""Transactions beside Apache Kafka: `python -m bench transactions [--kafka-home DIR] [--quick] [--gate]`.

Three brokers on each side, and on ours three coordinators beside them, whose processor time counts as the
brokers' do. Stock producers (librdkafka) commit transactions of 1, 10 and 1,000 records of 200 bytes, each
to the next of 1, 10 and 100 partitions, one transaction after the other: first one alone, for how long a
commit takes, then eight. Beside the first a reader of committed records and one of all records measure how
long after it was produced each record reached them: what committed records wait for is the rest of their
transaction.

Both sides run at once, are warmed up, and take turns, round by round; a figure is the median of its rounds.
"""

from __future__ import annotations

import argparse
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, product, starmap
from statistics import median
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from bench.command import Narrator, add_kafka_home, add_output, add_quick
from bench.figures import latency_percentiles_ms
from bench.goals import AHEAD
from bench.kafka import Kafka
from bench.machine import keep, machine_facts
from bench.processor_time import cpu_seconds
from bench.report import side_by_side, times
from bench.run import JIT_WARMUP_RUNS_MAX, JIT_WARMUP_S, is_steady
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
    """rounds, and the seconds of each measurement in one. together: producers of the second measurement."""

    shapes: tuple[Shape, ...]
    rounds: int
    seconds: float
    together: int


WARM_UP_SHAPE: Final = Shape(10, 10)
SIZES: Final = {
    False: Size(
        tuple(starmap(Shape, product((1, 10, 1000), (1, 10, 100)))), rounds=3, seconds=4.0, together=8
    ),
    True: Size((Shape(1, 1), WARM_UP_SHAPE), rounds=1, seconds=2.0, together=2),
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


def measure(sides: Sequence[Side], size: Size, tell: Narrator) -> dict[str, dict[str, float | None]]:
    """Return the figures of each side, by its name. Raises KafkaException."""
    found: dict[str, dict[str, float | None]] = {side.name: {} for side in sides}
    for shape in size.shapes:
        topic = f"transactions-{shape.records}-{shape.partitions}"
        rounds: dict[str, list[dict[str, float | None]]] = {side.name: [] for side in sides}
        for side in sides:
            side.create_topic(topic, partitions=shape.partitions, retention_bytes=KEEP_ALL)
        for number, side in product(range(size.rounds), sides):
            figures = _measure(side, topic, shape, size)
            rounds[side.name].append(figures)
            tell(f"{shape}: round {number + 1} {side.name}: {figures['per_second']:.0f} a second")
        for side in sides:
            side.delete_topic(topic)
            for name in rounds[side.name][0]:
                values = [value for one in rounds[side.name] if (value := one[name]) is not None]
                found[side.name][f"{shape} {name}"] = median(values) if values else None
    return found


def _measure(side: Side, topic: str, shape: Shape, size: Size) -> dict[str, float | None]:
    with _readers(side, topic, shape) as latencies:
        took = _commit_for(_open(side), topic, shape, size.seconds)
    figures: dict[str, float | None] = {}
    for name, seconds in {"commit": took, **latencies}.items():
        figures[f"{name}_p50_ms"], figures[f"{name}_p99_ms"] = latency_percentiles_ms(seconds)
    figures["per_second"], figures["cpu_us"] = _together(side, topic, shape, size.together, size.seconds)
    return figures


def warm_up(side: Side, producers: int, tell: Narrator) -> None:
    """Commit until it does not get faster any more."""
    side.create_topic("warm-up", partitions=WARM_UP_SHAPE.partitions, retention_bytes=KEEP_ALL)
    rates: list[float] = []
    while len(rates) < JIT_WARMUP_RUNS_MAX and not is_steady(rates):
        rates.append(_together(side, "warm-up", WARM_UP_SHAPE, producers, JIT_WARMUP_S)[0])
        tell(f"warming up {side.name}: {rates[-1]:.0f} transactions a second")
    side.delete_topic("warm-up")


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


def _together(side: Side, topic: str, shape: Shape, together: int, seconds: float) -> tuple[float, float]:
    """Return how many transactions several producers commit in a second, and the servers' processor time of
    one, in microseconds."""
    producers = [_open(side) for _ in range(together)]
    counts: list[int] = []

    def load(producer: Producer) -> None:
        counts.append(len(_commit_for(producer, topic, shape, seconds)))

    threads = [threading.Thread(target=load, args=(producer,)) for producer in producers]
    for thread in threads:
        thread.start()
    time.sleep(WARM_UP_SECONDS)
    cpu_s = cpu_seconds(side.broker_pids)
    time.sleep(seconds)
    cpu_s = cpu_seconds(side.broker_pids) - cpu_s
    for thread in threads:
        thread.join()
    return sum(counts) / seconds, cpu_s / max(1, sum(counts)) * 1e6


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
    parser.add_argument(
        "--gate", action="store_true", help="with --kafka-home: exit with 1 if a figure is worse than Kafka's"
    )
    add_output(parser, "transactions-bench")


def run(options: argparse.Namespace) -> int:
    tell = Narrator()
    size = SIZES[options.quick]
    with ExitStack() as running:
        sides: list[Side] = [running.enter_context(Springtide(tell, coordinators=3))]
        if options.kafka_home is not None:
            sides.append(running.enter_context(Kafka(options.kafka_home, tell)))
        if not options.quick:
            for side in sides:
                warm_up(side, size.together, tell)
        found = measure(sides, size, tell)
    told = units(size)
    rates = frozenset(filter(is_rate, told))
    print(side_by_side(found, told, more_is_better=rates))
    behind = [text for field, text in told.items() if (times(found, field, rates) or AHEAD) < AHEAD]
    if len(sides) > 1:
        print("\n".join(["Below its goal:", *behind] if behind else ["All goals are met."]))
    keep(options.output, {"machine": machine_facts(), "quick": options.quick, **found})
    return int(options.gate and bool(behind))
