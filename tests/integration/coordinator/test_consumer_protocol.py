"""Stock members of a group of the `consumer` protocol (KIP-848): one is killed, then their coordinator is.
More clients, and static members, are in tests/interop (rows consumer-share, -resume and -static)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio
from confluent_kafka import Producer

from springtide.node.sharding import shard_of
from tests.kit.dataplane.cluster_in_process import cluster_in_process

GROUP, TOPIC, PARTITIONS = "billing", "orders", 4
EACH = 50
TIMEOUT_S = 60
CONFIGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}
MEMBER = """
import sys
from confluent_kafka import Consumer, KafkaException

settings = {
    "bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer",
    "auto.offset.reset": "earliest", "enable.auto.commit": False,
}
consumer = Consumer(settings)

def tell(word, *what):
    print(word, *what, flush=True)

consumer.subscribe(
    [sys.argv[3]],
    on_assign=lambda _, given: [tell("has", one.partition) for one in given],
    on_revoke=lambda _, gone: [tell("lost", one.partition) for one in gone],
)
while True:
    for message in consumer.consume(10, timeout=0.2):
        assert message.error() is None, message.error()
        while True:
            try:
                consumer.commit(message, asynchronous=False)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
        tell("read", message.value().decode())
"""
"""Commits each record before it tells of it, so that what it told of is not another member's to read."""


class Member:
    """A member in a process of its own. partitions: that it has. values: that it has read and committed."""

    def __init__(self, bootstrap: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, bootstrap, GROUP, TOPIC], stdout=subprocess.PIPE, text=True
        )
        self.partitions: set[int] = set()
        self.values: list[str] = []

    def listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                word, _, rest = line.strip().partition(" ")
                match word:
                    case "has":
                        self.partitions.add(int(rest))
                    case "lost":
                        self.partitions.discard(int(rest))
                    case "read":
                        self.values.append(rest)


@contextmanager
def member(nursery: trio.Nursery, bootstrap: str) -> Iterator[Member]:
    found = Member(bootstrap)
    nursery.start_soon(partial(trio.to_thread.run_sync, found.listen))
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()


def write(bootstrap: str, part: str) -> list[str]:
    """Write EACH records to each partition; return their values."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    values = [f"{part} {number}" for number in range(EACH * PARTITIONS)]
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def test_members_take_over_from_one_that_is_killed_and_read_each_record_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster, trio.open_nursery() as nursery:
            await cluster.form(1, 2)
            cluster.controller.create_topic(TOPIC, ((1, 2), (2, 1)) * (PARTITIONS // 2))
            await cluster.form_coordinators(1001, 1002, configs=CONFIGS)
            bootstrap, wait_for = cluster.bootstrap(), cluster.controller.wait_for

            async def wrote(part: str) -> list[str]:
                return await trio.to_thread.run_sync(write, bootstrap, part)

            with member(nursery, bootstrap) as one, member(nursery, bootstrap) as other:
                await wait_for(
                    lambda: len(one.partitions) == len(other.partitions) == PARTITIONS // 2,
                    "each has half",
                )
                assert not one.partitions & other.partitions
                values = await wrote("together")
                await wait_for(lambda: len(one.values + other.values) == len(values), "all is read")

                other.process.kill()
                values += await wrote("killed")
                await wait_for(lambda: len(one.partitions) == PARTITIONS, "one has all")

                shards = dict(cluster.shard_owners())
                await cluster.coordinators.pop(shards[shard_of(GROUP, len(shards))]).kill()
                values += await wrote("failed over")
                await wait_for(lambda: len(one.values + other.values) >= len(values), "all is read again")
                assert sorted(one.values + other.values) == sorted(values)
                assert len(one.partitions) == PARTITIONS, "the other coordinator knows what it has"

    trio.run(run)
