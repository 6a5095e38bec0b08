"""Rebalances of stock clients beside Apache Kafka: `python -m bench rebalances [--kafka-home DIR] [--quick]`.

Twenty members of librdkafka in one group, at the defaults of clients and servers, once with each protocol.
One more comes, and goes again, several times. Each time it is measured until every partition has an owner
and every member that is there owns some, and for how long a partition had no owner.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.command import Narrator, add_kafka_home, add_output, add_quick
from bench.kafka import Kafka
from bench.load_spec import LoadFailed
from bench.machine import keep, machine_facts
from bench.report import side_by_side
from bench.sides import KEEP_ALL, Side, Springtide

TOPIC = "orders"
PROTOCOLS: Final = ("classic", "consumer")
SETTLED_SECONDS_MAX = 120.0
POLL_SECONDS = 0.05
PAUSE_SECONDS = (1.0, 6.0)


@dataclass(frozen=True, slots=True)
class Size:
    members: int
    partitions: int
    rounds: int


SIZES = {False: Size(20, 100, 5), True: Size(3, 6, 1)}
UNITS: Final = {
    f"{protocol}_{what}_{name}": f"{protocol}, one {event}: {meaning}, s"
    for protocol in PROTOCOLS
    for what, event in (("came", "more comes"), ("left", "leaves"))
    for name, meaning in (
        ("s", "all is owned after"),
        ("gap_s", "no owner for, median"),
        ("gap_max_s", "at most"),
    )
}


@dataclass(slots=True)
class Times:
    """Seconds of one event, round by round; gaps: of all partitions."""

    took: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    @contextmanager
    def of(self, ownership: Ownership) -> Iterator[None]:
        """Measure what is done in here, after a pause: members' heartbeats stand anywhere then."""
        time.sleep(random.uniform(*PAUSE_SECONDS))
        ownership.begin()
        began = time.monotonic()
        yield
        self.took.append(time.monotonic() - began)
        self.gaps += ownership.gaps


@dataclass(slots=True)
class Ownership:
    """Who owns which partition, as its client says. gaps: how long those had no owner that have changed it
    since the last `begin`."""

    partitions: int
    owners: dict[int, int] = field(default_factory=dict)
    given_up_s: dict[int, float] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, member: int, partitions: Sequence[TopicPartition]) -> None:
        with self.changed:
            now = time.monotonic()
            for one in partitions:
                self.owners[one.partition] = member
                if one.partition in self.given_up_s:
                    self.gaps.append(now - self.given_up_s.pop(one.partition))
            self.changed.notify_all()

    def give_up(self, member: int, partitions: Sequence[TopicPartition]) -> None:
        with self.changed:
            for one in partitions:
                if self.owners.get(one.partition) == member:
                    del self.owners[one.partition]
                    self.given_up_s[one.partition] = time.monotonic()

    def wait_until_settled(self, members: set[int]) -> None:
        """Wait until all is owned, by each of the members. Raise LoadFailed."""

        def is_settled() -> bool:
            return len(self.owners) == self.partitions and set(self.owners.values()) == members

        with self.changed:
            if not self.changed.wait_for(is_settled, SETTLED_SECONDS_MAX):
                raise LoadFailed(f"after {SETTLED_SECONDS_MAX:g} s not every member owned partitions")

    def begin(self) -> None:
        with self.changed:
            self.gaps.clear()


@contextmanager
def member(number: int, side: Side, protocol: str, ownership: Ownership) -> Iterator[None]:
    """Let a member poll until the end; it leaves then."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.bootstrap_servers,
            "group.id": f"rebalanced-{protocol}",
            "group.protocol": protocol,
            "log_level": 0,
        }
    )
    is_over = threading.Event()

    def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
        ownership.take(number, partitions)

    def given_up(_: Consumer, partitions: list[TopicPartition]) -> None:
        ownership.give_up(number, partitions)

    def poll() -> None:
        consumer.subscribe([TOPIC], on_assign=taken, on_revoke=given_up, on_lost=given_up)
        while not is_over.is_set():
            consumer.poll(POLL_SECONDS)
        consumer.close()

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        is_over.set()
        polling.join()


def measure(side: Side, size: Size, protocol: str, tell: Narrator) -> dict[str, float]:
    """Return the figures of a protocol on a side. Raise LoadFailed."""
    ownership, members = Ownership(size.partitions), set(range(size.members))
    came, left = Times(), Times()
    with ExitStack() as staying:
        for number in members:
            staying.enter_context(member(number, side, protocol, ownership))
        ownership.wait_until_settled(members)
        for turn in range(size.rounds):
            tell(f"{side.name}, {protocol}: round {turn + 1} of {size.rounds}")
            with ExitStack() as coming, came.of(ownership):
                coming.enter_context(member(size.members, side, protocol, ownership))
                ownership.wait_until_settled({*members, size.members})
                staying_on = coming.pop_all()
            with left.of(ownership):
                staying_on.close()
                ownership.wait_until_settled(members)
    return {
        f"{protocol}_{what}_{name}": round(value, 3)
        for what, times in (("came", came), ("left", left))
        for name, value in (
            ("s", median(times.took)),
            ("gap_s", median(times.gaps)),
            ("gap_max_s", max(times.gaps)),
        )
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser, "few members: only to see that it runs")
    add_kafka_home(parser)
    add_output(parser, "rebalances-bench")


def run(options: argparse.Namespace) -> int:
    tell = Narrator()
    size = SIZES[options.quick]
    found: dict[str, dict[str, float]] = {}
    sides: list[Side] = [Springtide(tell, coordinators=3)]
    if options.kafka_home is not None:
        sides.append(Kafka(options.kafka_home, tell))
    for side in sides:
        with side:
            side.create_topic(TOPIC, partitions=size.partitions, retention_bytes=KEEP_ALL)
            found[side.name] = {}
            for protocol in PROTOCOLS:
                found[side.name] |= measure(side, size, protocol, tell)
    print(side_by_side(found, UNITS))
    keep(options.output, {"machine": machine_facts(), "quick": options.quick, **found})
    return 0
