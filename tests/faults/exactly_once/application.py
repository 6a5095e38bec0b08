"""One application, a process of its own around a stock client (librdkafka), until SIGTERM.

    python -m tests.faults.exactly_once.application biller --bootstrap … --name N --report FILE
    python -m tests.faults.exactly_once.application teller --bootstrap … --name N --branch 0 --report FILE

A biller is one member of a group: it reads orders, writes a bill for each, and commits the group's offsets in
the same transaction. A teller moves money within its branch and to the common one. What goes wrong for good
with a producer ends its life; the application makes another with the same transactional id. In `--report`
stands a line for each transfer whose commit was answered.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.checker.from_clients import Recorder
from tests.checker.from_transactions import Over, RecordedTransactions
from tests.checker.history import Key, Operation, Outcome
from tests.faults.exactly_once.judge import Leg

ORDERS, BILLS, BANK = "orders", "bills", "bank"
GROUP = "billers"
PARTITIONS = 4
BRANCHES_MAX = 7
COMMON_BRANCH = BRANCHES_MAX
SESSION_MS = 6_000
TRANSACTION_TIMEOUT_MS = 10_000
ORDERS_MAX = 50
POLL_SECONDS = 0.2
ANSWER_SECONDS_MAX = 10.0
AGAIN_SECONDS = 0.3
TRANSFERS_MAX = 3
ABROAD_SHARE, DOOMED_SHARE = 0.3, 0.15
TELLER_PAUSE_SECONDS = 0.02

BILLER, TELLER = "biller", "teller"


class Unrecorded(Recorder):
    """Keeps nothing: what is judged is read back."""

    def add(self, operation: Operation) -> None:
        pass


def open_producer(options: argparse.Namespace) -> RecordedTransactions:
    """Raises Over."""
    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "transactional.id": options.name,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "linger.ms": 5,
    }
    producer = RecordedTransactions(Unrecorded(), process=options.name, config=config)
    producer.open()
    return producer


# --- a biller -----------------------------------------------------------------------------------------------


def run_biller(options: argparse.Namespace, ends: threading.Event, count: Counter[str]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": GROUP,
            "client.id": options.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([ORDERS])
    producer: RecordedTransactions | None = None
    while not ends.is_set():
        try:
            producer = producer or open_producer(options)
            outcome = bill(consumer, producer)
        except Over as over:
            print(f"{options.name}: {over}", file=sys.stderr, flush=True)
            count["lives"] += 1
            producer, outcome = None, Outcome.INFO
            ends.wait(AGAIN_SECONDS)
        if outcome is not None:
            count[str(outcome)] += 1
        if outcome in (Outcome.FAIL, Outcome.INFO):
            go_back(consumer, ends)
    consumer.close()


def bill(consumer: Consumer, producer: RecordedTransactions) -> Outcome | None:
    """Bill the next orders in a transaction; return what came of it, or None where there are none."""
    positions: dict[Key, int] = {}
    bills: list[tuple[int, str]] = []
    # Not within the transaction: a member whose partitions go has none open.
    messages = consumer.consume(ORDERS_MAX, timeout=POLL_SECONDS)
    owned = {place.partition for place in consumer.assignment()}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        if message.error() is None and partition in owned and offset is not None:
            positions[ORDERS, partition] = offset + 1
            bills.append((partition, f"{partition}/{offset}"))
    if not bills:
        return None
    producer.begin()
    for partition, text in bills:
        producer.put((BILLS, partition), text, text.encode())
    if producer.send_offsets(positions, consumer.consumer_group_metadata()):
        return producer.commit()
    producer.abort()
    return Outcome.FAIL


def go_back(consumer: Consumer, ends: threading.Event) -> None:
    """Read again from what the group has committed."""
    while not ends.is_set():
        try:
            owned = consumer.assignment()
            for place in consumer.committed(owned, timeout=ANSWER_SECONDS_MAX) if owned else ():
                if place.error is not None:
                    raise KafkaException(place.error)
                consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        except KafkaException as error:
            print(f"go back: {error}", file=sys.stderr, flush=True)
            consumer.poll(0)  # Rebalances go on.
            ends.wait(AGAIN_SECONDS)
        else:
            return


# --- a teller -----------------------------------------------------------------------------------------------


def run_teller(options: argparse.Namespace, ends: threading.Event, count: Counter[str]) -> None:
    rng = random.Random()
    producer: RecordedTransactions | None = None
    number, life = 0, time.time_ns()
    with options.report.open("a", encoding="ascii") as report:
        while not ends.wait(TELLER_PAUSE_SECONDS):
            try:
                producer = producer or open_producer(options)
                names = [
                    f"{options.name}-{life}-{number + each}" for each in range(rng.randint(1, TRANSFERS_MAX))
                ]
                number += len(names)
                outcome = transfer(producer, names, branch=options.branch, rng=rng)
            except Over as over:
                print(f"{options.name}: {over}", file=sys.stderr, flush=True)
                count["lives"] += 1
                producer, outcome = None, Outcome.INFO
                ends.wait(AGAIN_SECONDS)
            count[str(outcome)] += 1
            if outcome is Outcome.OK:
                report.writelines(f"{name}\n" for name in names)
                report.flush()


def transfer(producer: RecordedTransactions, names: list[str], *, branch: int, rng: random.Random) -> Outcome:
    """Make these transfers in one transaction; return what came of it. Raises Over."""
    producer.begin()
    is_doomed = rng.random() < DOOMED_SHARE
    for name in names:
        is_abroad = rng.random() < ABROAD_SHARE
        amount = rng.randint(1, 1000)
        for sign, partition in ((-1, branch), (1, COMMON_BRANCH if is_abroad else branch)):
            leg = Leg(name, sign * amount, is_doomed, is_abroad)
            producer.put((BANK, partition), f"{name}/{sign}", msgspec.json.encode(leg))
    if not is_doomed:
        return producer.commit()
    producer.abort()
    return Outcome.FAIL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=(BILLER, TELLER))
    for name in ("bootstrap", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--branch", type=int, default=0)
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    ends = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.set())
    count: Counter[str] = Counter()
    (run_biller if options.role == BILLER else run_teller)(options, ends, count)
    print(f"{options.name}: {dict(count)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
