"""`python -m tests.faults.exactly_once [--size ci|full]`: applications with transactions in a storm.

Billers, members of one group, read orders and write a bill for each, in transactions that commit the
group's offsets. Tellers move money, within their branch and to another, and readers of committed records add
it up all the time. They, coordinators, brokers and controllers are killed and stand still, two at a time.
Afterwards no transaction may be open, each order has exactly one bill, and no reader ever saw money missing
(judge.py).
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from localcluster.cluster import LocalCluster
from tests.checker.from_transactions import open_partitions
from tests.checker.history import Key
from tests.faults.exactly_once.application import (
    BANK,
    BILLER,
    BILLS,
    COMMON_BRANCH,
    GROUP,
    ORDERS,
    PARTITIONS,
    TELLER,
)
from tests.faults.exactly_once.judge import Book, judge_bills
from tests.faults.exactly_once.lives import Application
from tests.faults.exactly_once.reader import BankReader, enter, high_watermarks, read_all
from tests.faults.family import Trial, run_family
from tests.faults.groups.asked import committed_offsets, coordinator_of
from tests.faults.groups.storm import Storm
from tests.faults.groups.writer import Writer

SEED = 1
WARM_UP_SECONDS = 5.0
BILLED_SECONDS_MAX = 120.0
NO_TRANSACTION_OPEN_SECONDS_MAX = 60.0
"""An application that was killed leaves one, which ends by its timeout of ten seconds."""
TOPICS = {ORDERS: PARTITIONS, BILLS: PARTITIONS, BANK: COMMON_BRANCH + 1}


@dataclass(frozen=True, slots=True)
class Size:
    billers: int
    tellers: int
    readers: int
    storm_seconds: float
    orders_per_second: float


SIZES = {"ci": Size(3, 2, 2, 40.0, 100.0), "full": Size(4, 4, 3, 720.0, 200.0)}


def story(trial: Trial, size: Size) -> None:
    with LocalCluster(
        trial.directory, brokers=3, controllers=2, coordinators=3, on_progress=trial.tell
    ) as cluster:
        cluster.form()
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions=partitions, replication_factor=3)
        tellers = [_application(TELLER, number, cluster, trial) for number in range(size.tellers)]
        billers = [_application(BILLER, number, cluster, trial) for number in range(size.billers)]
        applications = [*billers, *tellers]
        writer = Writer(cluster.bootstrap_servers, ORDERS, PARTITIONS, rate=size.orders_per_second)
        readers = [BankReader(number, cluster.bootstrap_servers) for number in range(size.readers)]
        try:
            writer.start()
            for application in applications:
                application.start()
            time.sleep(WARM_UP_SECONDS)
            storm = Storm(cluster, applications, trial.tell, random.Random(SEED))
            storm.run(size.storm_seconds)
            trial.faults.update(storm.faults)
            trial.must("every order that was sent was answered", writer.stop() == 0)
            ends = high_watermarks(cluster.bootstrap_servers, ORDERS, PARTITIONS)
            _wait_until_billed(cluster, applications, ends)
            stuck = [application.name for application in applications if not application.stop()]
            trial.must(f"every application ended when it was asked to (not {stuck})", not stuck)
            _wait_until_settled(cluster, trial)
            _judge_bills(cluster, trial)
            _judge_bank(cluster, trial, tellers, readers)
        finally:
            writer.stop()
            for application in applications:
                application.kill()
            for reader in readers:
                reader.stop()


def _application(role: str, number: int, cluster: LocalCluster, trial: Trial) -> Application:
    return Application(role, number, directory=trial.directory, bootstrap=cluster.bootstrap_servers)


def _wait_until_billed(
    cluster: LocalCluster, applications: Sequence[Application], ends: dict[int, int]
) -> None:
    """Wait until the group has committed the end of each partition."""
    (port, *_) = (broker.port for broker in cluster.brokers.values())

    def is_done() -> bool:
        for application in applications:
            application.start_again()
        coordinator = coordinator_of(GROUP, port)
        if coordinator is None:
            return False
        committed = committed_offsets(GROUP, ORDERS, cluster.coordinators[coordinator].port)
        return all(committed.get(partition, -1) >= end for partition, end in ends.items())

    cluster.wait_until("the group has billed all", is_done, timeout_seconds=BILLED_SECONDS_MAX)


def _wait_until_settled(cluster: LocalCluster, trial: Trial) -> None:
    keys: list[Key] = [(topic, number) for topic in (BILLS, BANK) for number in range(TOPICS[topic])]
    since = time.monotonic()
    stuck = open_partitions(cluster.bootstrap_servers, keys)
    while stuck and time.monotonic() - since < NO_TRANSACTION_OPEN_SECONDS_MAX:
        time.sleep(0.5)
        stuck = open_partitions(cluster.bootstrap_servers, keys)
    trial.figures["no transaction open after the end, s"] = round(time.monotonic() - since, 1)
    trial.must(f"no transaction stays open ({', '.join(stuck) or 'none'})", not stuck)


def _judge_bills(cluster: LocalCluster, trial: Trial) -> None:
    read = {
        topic: read_all(
            cluster.bootstrap_servers, topic, high_watermarks(cluster.bootstrap_servers, topic, PARTITIONS)
        )
        for topic in (ORDERS, BILLS)
    }
    orders = [(partition, offset) for partition, offset, _ in read[ORDERS]]
    billed = [(value or b"").decode("ascii").split("/") for _, _, value in read[BILLS]]
    found = judge_bills(orders, [(int(partition), int(offset)) for partition, offset in billed])
    trial.figures["orders"] = len(orders)
    trial.figures["bills"] = len(billed)
    trial.lost += len(found.missing)
    trial.inconsistent += len(found.doubled) + len(found.unfounded)
    for what, places in found._asdict().items():
        trial.must(f"no bill is {what} ({len(places)} are: {places[:5]})", not places)


def _judge_bank(
    cluster: LocalCluster, trial: Trial, tellers: Sequence[Application], readers: Sequence[BankReader]
) -> None:
    for reader in readers:
        reader.stop()
    books = [reader.book for reader in readers]
    at_last = Book("the last reader")
    ends = high_watermarks(cluster.bootstrap_servers, BANK, TOPICS[BANK])
    for each in read_all(cluster.bootstrap_servers, BANK, ends):
        enter(at_last, each)
    for branch in range(COMMON_BRANCH):
        at_last.reached_end(branch, ends[branch])
    answered = [name for teller in tellers for name in teller.answered()]
    at_last.close(answered)
    trial.figures["transfers committed"] = len(at_last.transfers)
    trial.figures["ends of branches that readers reached"] = sum(book.ends for book in books)
    failures = [failure for book in (*books, at_last) for failure in book.failures]
    trial.inconsistent += len(failures)
    trial.failures += failures
    trial.must("readers reached ends", all(book.ends for book in books))
    trial.must("there were bills and transfers", bool(answered and trial.figures["bills"]))


if __name__ == "__main__":
    sys.exit(run_family("exactly_once", story, SIZES))
