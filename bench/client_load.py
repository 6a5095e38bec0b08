"""The load of a stock client: librdkafka through confluent-kafka. `python -m bench client_load`.

The client takes a large part of a small machine, and how large is in the figures: where it takes all of its
core, the row says more about the client than about the brokers. To take less, only every
`SAMPLE_EVERY`th record has a delivery callback, which is where latencies come from; that no other record was
lost is seen at the end, when the partitions must have grown by exactly what was produced.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from bench import protocol
from bench.asking import find_leaders, list_offset
from bench.case import ACKS_ALL, Kind
from bench.figures import Measurement
from bench.load_spec import LoadFailed, LoadSpec, serve_spec
from bench.processor_time import measure_between, take_reading
from bench.secured import client_context, client_settings

SAMPLE_EVERY = 16
BURST = 256
"""Records between two looks at the clock and at what was delivered."""
QUEUE_RECORDS_MAX = 100_000
"""librdkafka's default of queue.buffering.max.messages."""
QUEUE_RECORDS_WANTED = QUEUE_RECORDS_MAX // 4
"""Enough for full batches to three brokers. More would only measure how long records lie in the client."""
FLUSH_SECONDS_MAX = 30.0
CONSUME_RECORDS_MAX = 10_000
CONSUME_WAIT_SECONDS = 0.1
QUEUED_RECORDS_MIN = 1_000_000
FETCH_BACKOFF_MS = 5


def run(spec: LoadSpec) -> Measurement:
    return _produce(spec) if spec.case.kind is Kind.CLIENT_PRODUCE else _consume(spec)


class _Deliveries:
    """What delivery reports have said."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = error
            return
        latency = message.latency()
        assert latency is not None
        self.latencies_s.append(latency)


def _produce(spec: LoadSpec) -> Measurement:
    case, tls = spec.case, client_context(spec.ca_file, spec.cert_file)
    leaders = find_leaders(spec.bootstrap_servers, spec.topic, tls)
    ends_before = [list_offset(leader, spec.topic, protocol.LATEST, tls) for leader in leaders]
    deliveries = _Deliveries()
    producer = Producer(
        {
            **_reached(spec),
            "acks": "all" if case.acks == ACKS_ALL else case.acks,
            "linger.ms": case.linger_ms,
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            "error_cb": _ignore,
        }
    )
    topic, value = spec.topic, (b"0123456789abcdef" * (case.record_bytes // 16 + 1))[: case.record_bytes]
    partitions = len(leaders)
    produced = 0

    def produce_until(deadline: float) -> None:
        nonlocal produced
        produce, poll = producer.produce, producer.poll
        while time.perf_counter() < deadline:
            # One partition a burst, in turn: as evenly as any partitioner, at no cost.
            partition = produced // BURST % partitions
            produce(topic, value, partition=partition, on_delivery=deliveries)
            for index in range(1, BURST):
                if index % SAMPLE_EVERY:
                    produce(topic, value, partition=partition)
                else:
                    produce(topic, value, partition=partition, on_delivery=deliveries)
            produced += BURST
            poll(0)
            while len(producer) > QUEUE_RECORDS_WANTED:
                poll(0.001)
            if deliveries.failure is not None:
                raise LoadFailed(f"a record was not delivered: {deliveries.failure}")

    produce_until(time.perf_counter() + spec.warmup_s)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    deliveries.latencies_s.clear()
    delivered_before = produced - len(producer)
    produce_until(before.at + spec.duration_s)
    delivered = produced - len(producer) - delivered_before
    after = take_reading(time.perf_counter(), spec.broker_pids)
    measured = measure_between(
        before,
        after,
        broker_pids=spec.broker_pids,
        operations=delivered,
        records=delivered,
        moved_bytes=delivered * case.record_bytes,
        latencies_s=deliveries.latencies_s,
    )
    if left := producer.flush(FLUSH_SECONDS_MAX):
        raise LoadFailed(f"{left} records were not delivered within {FLUSH_SECONDS_MAX:g} s")
    grown = sum(
        list_offset(leader, spec.topic, protocol.LATEST, tls) - end
        for leader, end in zip(leaders, ends_before, strict=True)
    )
    if grown != produced:
        raise LoadFailed(f"{produced} records were delivered and the partitions grew by {grown}")
    return measured


def _consume(spec: LoadSpec) -> Measurement:
    case = spec.case
    consumer = Consumer(
        {
            **_reached(spec),
            "group.id": "bench-reads-by-assignment",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # By default it asks for no more for a second once it holds 100,000 records: the row would measure
            # that second.
            "queued.min.messages": QUEUED_RECORDS_MIN,
            "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
            "error_cb": _ignore,
        }
    )
    partitions = len(
        find_leaders(spec.bootstrap_servers, spec.topic, client_context(spec.ca_file, spec.cert_file))
    )
    beginning = [TopicPartition(spec.topic, number, OFFSET_BEGINNING) for number in range(partitions)]

    def consume_until(deadline: float) -> int:
        records = 0
        while time.perf_counter() < deadline:
            for message in consumer.consume(CONSUME_RECORDS_MAX, timeout=CONSUME_WAIT_SECONDS):
                error = message.error()
                if error is None:
                    records += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    partition = message.partition()
                    assert partition is not None
                    consumer.seek(beginning[partition])
                else:
                    raise LoadFailed(f"the consumer can't read {spec.topic}: {error}")
        return records

    try:
        consumer.assign(beginning)
        consume_until(time.perf_counter() + spec.warmup_s)
        before = take_reading(time.perf_counter(), spec.broker_pids)
        records = consume_until(before.at + spec.duration_s)
        after = take_reading(time.perf_counter(), spec.broker_pids)
        return measure_between(
            before,
            after,
            broker_pids=spec.broker_pids,
            operations=records,
            records=records,
            moved_bytes=records * case.record_bytes,
            latencies_s=[],
        )
    finally:
        consumer.close()


def _reached(spec: LoadSpec) -> dict[str, Any]:
    return {"bootstrap.servers": spec.bootstrap_servers, **client_settings(spec.ca_file, spec.cert_file)}


def _ignore(error: Any) -> None:
    """What the client recovers from by itself. What it does not recover from fails the run."""


def main(_: Sequence[str]) -> None:
    serve_spec(run, expected_failures=(LoadFailed, KafkaException, protocol.BadAnswer, OSError))
