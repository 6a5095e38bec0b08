"""One stock client in a process of its own: produces, consumes, or does both in transactions until SIGTERM,
and writes its history.

    python -m tests.faults.nemesis.worker ROLE --bootstrap B --topic T --partitions N --name P --history FILE

Several processes, because an application's clients are: they share no connection, no metadata and no lock.
All of them, and whoever started them, read one CLOCK_MONOTONIC, so their histories are merged by time. An
operation is written when it completes; a worker that is ended by SIGTERM first waits for its answers.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tests.checker.from_clients import RecordedConsumer, RecordedProducer, Recorder
from tests.checker.history import Key, Operation, encode_operation
from tests.faults.nemesis.kafka_python import LINGER_MS, RecordedKafkaPythonProducer
from tests.faults.nemesis.transactions import run_transactions

TICK_SECONDS = 0.01
UNANSWERED_MAX = 10_000
"""Records in the client's hands; while nothing is acknowledged no more are added."""
FLUSH_SECONDS_MAX = 90.0
WATERMARKS_EVERY_SECONDS = 1.0
BUFFER_BYTES = 256 * 1024
BATCH_BYTES_MAX = 128 * 1024
"""Far below the brokers' segments. After a stall librdkafka would send a megabyte, be told that it is too
large (RECORD_LIST_TOO_LARGE), give those records up, change its producer epoch because of the gap, and send
again what it has no answer for."""
PRODUCER_IDS_LOGGED = {"log_level": 7, "debug": "eos"}
"""The client's log, on stderr, tells when and why it changes its producer id or epoch. What was not answered
by then it sends again as something new, and no broker can know that it is not."""

PRODUCER = "producer"
KAFKA_PYTHON = "kafka-python"
CONSUMER = "consumer"
TRANSACTIONS = "transactions"


class StreamRecorder(Recorder):
    """Writes each operation as it completes, and keeps none."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def add(self, operation: Operation) -> None:
        self._stream.write(encode_operation(operation))


class Stop:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, number: int, frame: object) -> None:
        self.is_set = True


class Pace:
    """Hands out a fixed number of turns a second; turns that were missed in an outage are not made up for."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._at = time.monotonic()

    def due(self) -> int:
        now = time.monotonic()
        turns = int((now - self._at) * self._per_second)
        if turns:
            self._at = max(self._at + turns / self._per_second, now - 1.0)
        return min(turns, int(self._per_second))


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    stop = Stop()
    keys = [(options.topic, partition) for partition in range(options.partitions)]
    with options.history.open("wb", buffering=0) as file, io.BufferedWriter(file, BUFFER_BYTES) as stream:
        recorder = StreamRecorder(stream)
        if options.role == CONSUMER:
            consume(recorder, options, keys, stop)
        elif options.role == TRANSACTIONS:
            run_transactions(recorder, options, keys, stop)
        else:
            produce(recorder, options, keys, stop)
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.nemesis.worker", description=__doc__)
    parser.add_argument("role", choices=[PRODUCER, KAFKA_PYTHON, CONSUMER, TRANSACTIONS])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--name", required=True, help="the process's name in the history")
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=100.0, help="records, or transactions, a second")
    parser.add_argument("--value-bytes", type=int, default=200)
    parser.add_argument("--kafka-home", type=Path, help="transactions by the Java client in DIR/libs")
    return parser


def produce(recorder: Recorder, options: argparse.Namespace, keys: Sequence[Key], stop: Stop) -> None:
    """Round-robin over the partitions at the given rate."""
    producer: RecordedProducer | RecordedKafkaPythonProducer
    if options.role == KAFKA_PYTHON:
        producer = RecordedKafkaPythonProducer(
            recorder, process=options.name, bootstrap_servers=options.bootstrap
        )
    else:
        config: dict[str, Any] = {
            "bootstrap.servers": options.bootstrap,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES_MAX,
            **PRODUCER_IDS_LOGGED,
        }
        producer = RecordedProducer(recorder, process=options.name, config=config)
    pace, turn = Pace(options.rate), 0
    while not stop.is_set:
        for _ in range(pace.due()):
            if len(producer.unanswered) >= UNANSWERED_MAX:
                break
            if producer.send(keys[turn % len(keys)], value_bytes=options.value_bytes) is None:
                break
            turn += 1
        producer.poll(TICK_SECONDS)
    unanswered = producer.close(flush_seconds=FLUSH_SECONDS_MAX)
    print(f"{options.name}: {turn} sent, {unanswered} never answered", flush=True)


def consume(recorder: Recorder, options: argparse.Namespace, keys: Sequence[Key], stop: Stop) -> None:
    """Reads everything as it comes, and asks for watermarks now and then."""
    consumer = RecordedConsumer(
        recorder,
        process=options.name,
        config={"bootstrap.servers": options.bootstrap, "fetch.wait.max.ms": 100},
    )
    consumer.assign(keys)
    records, turn, asked_at = 0, 0, time.monotonic()
    complaints: dict[str, int] = {}
    while not stop.is_set:
        records += consumer.consume()
        if time.monotonic() - asked_at >= WATERMARKS_EVERY_SECONDS:
            asked_at = time.monotonic()
            consumer.list_offsets(keys[turn % len(keys)])
            turn += 1
        for error in consumer.errors:
            complaints[error[:200]] = complaints.get(error[:200], 0) + 1
        consumer.errors.clear()
    consumer.close()
    print(f"{options.name}: {records} read; complaints: {complaints}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
