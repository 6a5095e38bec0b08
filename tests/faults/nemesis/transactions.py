"""One application with transactions: it reads records, writes others, and commits its offsets with them.

Each transaction sends a few records to a few partitions; some read first, from where the last committed one
ended. Most are committed. Some are aborted. Some are given up as by a crash, and the application is started
again under the same transactional id; now and then the one that was given up lives on as a zombie and tries
to commit, which must be refused.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from confluent_kafka import Producer

from tests.checker.from_clients import RecordedConsumer, Recorder
from tests.checker.from_transactions import Over, RecordedTransactions
from tests.checker.history import Key, Outcome
from tests.faults.nemesis.java_producer import JavaProcess

TRANSACTION_TIMEOUT_MS = 10_000
SENDS_MAX = 4
READS_SHARE, ABORTS_SHARE, CRASHES_SHARE, ZOMBIES_SHARE = 0.3, 0.1, 0.03, 0.5
"""Of all transactions; zombies of the crashes."""
READ_SECONDS_MAX = 0.1
AGAIN_SECONDS = 0.5


class Stop(Protocol):
    is_set: bool


def run_transactions(
    recorder: Recorder, options: argparse.Namespace, keys: Sequence[Key], stop: Stop
) -> None:
    """At the given rate, until asked to stop; each life of the application is a process of the history. With
    kafka_home by Kafka's own client."""
    application = _Application(recorder, options, keys)
    at = time.monotonic()
    while not stop.is_set:
        at = max(at + 1 / options.rate, time.monotonic() - 1.0)
        time.sleep(max(0.0, at - time.monotonic()))
        try:
            application.step()
        except Over as over:
            application.complain(over)
            time.sleep(AGAIN_SECONDS)
    application.close()
    print(
        f"{options.name}: {dict(application.count)}; complaints: {dict(application.complaints)}", flush=True
    )


class _Application:
    def __init__(self, recorder: Recorder, options: argparse.Namespace, keys: Sequence[Key]) -> None:
        self.count: Counter[str] = Counter()
        self.complaints: Counter[str] = Counter()
        self._recorder = recorder
        self._options = options
        self._keys = list(keys)
        self._rng = random.Random(options.name)
        self._lives = 0
        self._producer: RecordedTransactions | None = None
        config = {"bootstrap.servers": options.bootstrap, "fetch.wait.max.ms": 100}
        self._consumer = RecordedConsumer(recorder, process=f"{options.name}-reads", config=config)
        self._consumer.assign(self._keys)
        self._committed: dict[Key, int | None] = dict.fromkeys(self._keys)
        self._java = options.kafka_home and JavaProcess(options.kafka_home)

    def step(self) -> None:
        """One transaction. Raises Over."""
        producer = self._producer or self._start()
        fate = self._rng.random()
        is_reading = self._rng.random() < READS_SHARE
        name = producer.begin()
        is_taken = not is_reading or self._read(producer, name)
        if is_taken:
            for _ in range(self._rng.randint(1, SENDS_MAX)):
                producer.send(self._rng.choice(self._keys), value_bytes=self._options.value_bytes)
        if is_taken and fate < CRASHES_SHARE:
            self._crash(producer)
            outcome = Outcome.FAIL
        elif not is_taken or fate < CRASHES_SHARE + ABORTS_SHARE:
            producer.abort()
            outcome = Outcome.FAIL
        else:
            outcome = producer.commit()
        self.count[str(outcome)] += 1
        if is_reading and outcome is Outcome.OK:
            self._committed.update(self._consumer.positions)
        elif is_reading:
            self._consumer.assign_at(self._committed)

    def _read(self, producer: RecordedTransactions, name: str) -> bool:
        """Read in the transaction; whether its offsets were taken."""
        records = self._consumer.consume(seconds=READ_SECONDS_MAX, transaction=name)
        for error in self._consumer.errors:
            self.complaints[error[:200]] += 1
        self._consumer.errors.clear()
        positions = self._consumer.positions
        group = self._consumer.group_id if self._java else self._consumer.group_metadata()
        return not records or producer.send_offsets(positions, group)

    def _start(self) -> RecordedTransactions:
        self._lives += 1
        config: dict[str, Any] = {
            "bootstrap.servers": self._options.bootstrap,
            "transactional.id": self._options.name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "linger.ms": 5,
        }
        producer = RecordedTransactions(
            self._recorder,
            process=f"{self._options.name}-life-{self._lives}",
            config=config,
            make=self._java.new_producer if self._java else Producer,
        )
        producer.open()
        self._producer = producer
        return producer

    def _crash(self, producer: RecordedTransactions) -> None:
        """The transaction stays open, and the next life takes over. Raises Over."""
        self._producer = None
        self.count["crashes"] += 1
        if self._rng.random() >= ZOMBIES_SHARE:
            producer.abandon()
            return
        try:
            self._start()
        except Over:
            producer.abandon()
            raise
        self.count["zombies"] += 1
        try:
            producer.commit(was_taken_over=True)
        except Over as refused:
            self.complaints[f"as a zombie: {refused}"[:200]] += 1

    def complain(self, over: Over) -> None:
        """The producer is over; the application starts again where it had committed."""
        self.complaints[str(over)[:200]] += 1
        self._producer = None
        self._consumer.assign_at(self._committed)

    def close(self) -> None:
        self._consumer.close()
        if self._java:
            self._java.close()
