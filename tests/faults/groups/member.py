"""One member of a group, a process of its own around a stock client; it keeps a diary.

    python -m tests.faults.groups.member librdkafka --bootstrap … --topic t --group g --diary FILE

It reads, notes what it was given, commits what it noted every 100 records or tenth of a second, and ends on
SIGTERM with a last commit. What it reads it notes before it commits: at least once.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.checker.group_diary import Diary

LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA = "librdkafka", "kafka-python", "aiokafka"
CLASSIC, CONSUMER = "classic", "consumer"
SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
COMMIT_RECORDS = 100
COMMIT_SECONDS = 0.1
"""How exactly a pause of the group's commits can be seen."""
POLL_SECONDS = 0.2
HOLD_SECONDS = 0.05
ANSWER_SECONDS_MAX = 5.0
EXIT_GAVE_UP = 3
OFFSET_FETCH_FAILED = "Failed to fetch committed offset"


class ClientGaveUp(Exception):
    """The client can't go on, by a fault of its own: its process ends as if it had been killed."""


class Notes:
    """What the member was given and has not committed."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self._next: dict[int, int] = {}
        self._records = 0
        self._since = time.monotonic()

    def read(self, partition: int, offsets: Iterable[int]) -> None:
        """Note records of one poll in the diary, each run without a gap in one line."""
        first = last = -1
        for offset in offsets:
            self._records += 1
            if offset != last + 1 or first < 0:
                if first >= 0:
                    self.diary.read(partition, first, last)
                first = offset
            last = offset
        if first >= 0:
            self.diary.read(partition, first, last)
            self._next[partition] = last + 1

    def is_due(self) -> bool:
        since = time.monotonic() - self._since
        return bool(self._next) and (self._records >= COMMIT_RECORDS or since >= COMMIT_SECONDS)

    def take(self) -> dict[int, int]:
        """Return what is to be committed, and forget it."""
        taken, self._next = self._next, {}
        self._records, self._since = 0, time.monotonic()
        return taken

    def revoked(self, partitions: Iterable[int]) -> None:
        """Note that the partitions were taken away, and forget what was to be committed of them."""
        taken = sorted(partitions)
        self.diary.revoked(taken)
        for partition in taken:
            self._next.pop(partition, None)

    @contextmanager
    def committing(self, errors: type[Exception]) -> Iterator[dict[int, int]]:
        """Give the offsets to commit in the block, and note in the diary how that ended."""
        offsets = self.take()
        asked_ns = time.monotonic_ns()
        try:
            yield offsets
        except errors as error:
            self.diary.refused(f"{type(error).__name__}: {error}"[:200])
        else:
            self.diary.committed(asked_ns, offsets)


def python_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that kafka-python and aiokafka call alike."""
    return {
        "group_id": options.group,
        "client_id": options.name,
        "group_instance_id": options.instance,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": 5_000,
    }


def run_librdkafka(options: argparse.Namespace, notes: Notes, ends: threading.Event) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "client.id": options.name,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 5_000,
        "group.protocol": options.protocol,
    }
    if options.protocol == CLASSIC:
        config |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        }
    if options.instance:
        config["group.instance.id"] = options.instance
    consumer = Consumer(config)

    def on_assign(_: Any, partitions: list[TopicPartition]) -> None:
        notes.diary.assigned([each.partition for each in partitions])
        asked_ns = time.monotonic_ns()
        try:
            found = consumer.committed(partitions, timeout=ANSWER_SECONDS_MAX)
        except KafkaException as error:  # the client asks by itself where to begin
            notes.diary.refused(f"committed(): {error}"[:200])
        else:
            notes.diary.began(asked_ns, {each.partition: max(each.offset, -1) for each in found})

    def on_revoke(_: Any, partitions: list[TopicPartition]) -> None:
        while options.hold and options.hold.exists():
            time.sleep(HOLD_SECONDS)
        notes.revoked(each.partition for each in partitions)

    consumer.subscribe([options.topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)

    def send(offsets: dict[int, int]) -> None:
        wanted = [TopicPartition(options.topic, partition, offset) for partition, offset in offsets.items()]
        for each in consumer.commit(offsets=wanted, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    while not ends.is_set():
        by_partition: dict[int, list[int]] = {}
        for message in consumer.consume(COMMIT_RECORDS, timeout=POLL_SECONDS):
            error = message.error()
            is_fatal = error is not None and error.code() == KafkaError._FATAL
            if error is not None and (is_fatal or OFFSET_FETCH_FAILED in error.str()):
                # A static member that another one fenced, or whose place is still held; or it never asks
                # again, and begins none of these partitions (confluentinc/librdkafka#5586).
                raise ClientGaveUp(f"consume(): {error.str()}")
            if error is None:
                by_partition.setdefault(message.partition() or 0, []).append(message.offset() or 0)
        for partition, offsets in by_partition.items():
            notes.read(partition, offsets)
        if notes.is_due():
            with notes.committing(KafkaException) as due:
                send(due)
    notes.diary.left()
    consumer.close()


def run_kafka_python(options: argparse.Namespace, notes: Notes, ends: threading.Event) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError, UnknownBrokerIdError
    from kafka.structs import OffsetAndMetadata

    class Range(RangePartitionAssignor):  # type: ignore[misc]
        @classmethod
        def assign(cls, cluster: Any, members: Iterable[Any]) -> Any:
            # As the leader, version 3.0.12 gives nothing to those that are listed before a static one.
            return super().assign(cluster, sorted(members, key=lambda one: one.group_instance_id is None))

    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap.split(","),
        partition_assignment_strategy=[Range],
        **python_settings(options),
    )

    unasked: list[int] = []  # Inside of its callbacks this client can ask nothing.

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            unasked[:] = sorted(each.partition for each in assigned)
            notes.diary.assigned(unasked)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            notes.revoked(each.partition for each in revoked)

    consumer.subscribe([options.topic], listener=Listener())

    def send(offsets: dict[int, int]) -> None:
        consumer.commit(
            {
                TopicPartition(options.topic, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            },
            timeout_ms=ANSWER_SECONDS_MAX * 1_000,
        )

    def ask(partition: int) -> None:
        asked_ns = time.monotonic_ns()
        place = TopicPartition(options.topic, partition)
        try:
            found = consumer.committed(place, timeout_ms=ANSWER_SECONDS_MAX * 1_000)
        except KafkaError as error:
            notes.diary.refused(f"committed(): {error}"[:200])
        else:
            notes.diary.began(asked_ns, {partition: -1 if found is None else found})

    while not ends.is_set():
        try:
            polled = consumer.poll(POLL_SECONDS * 1_000)
        except UnknownBrokerIdError as error:
            # It asks a broker that has just left its own metadata, and drops what it was about to return.
            raise ClientGaveUp(f"poll(): {error}") from error
        while unasked:
            ask(unasked.pop())
        for place, records in polled.items():
            notes.read(place.partition, [record.offset for record in records])
        if notes.is_due():
            with notes.committing(KafkaError) as due:
                send(due)
    notes.diary.left()
    consumer.close(timeout_ms=ANSWER_SECONDS_MAX * 1_000)


def run_aiokafka(options: argparse.Namespace, notes: Notes, ends: threading.Event) -> None:
    asyncio.run(_run_aiokafka(options, notes, ends))


async def _run_aiokafka(options: argparse.Namespace, notes: Notes, ends: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        partition_assignment_strategy=[RangePartitionAssignor],
        **python_settings(options),
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            partitions = sorted(each.partition for each in assigned)
            notes.diary.assigned(partitions)
            for partition in partitions:
                asked_ns = time.monotonic_ns()
                found = await consumer.committed(TopicPartition(options.topic, partition))
                notes.diary.began(asked_ns, {partition: -1 if found is None else found})

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            notes.revoked(each.partition for each in revoked)

    consumer.subscribe([options.topic], listener=Listener())
    try:
        await consumer.start()
    except KafkaError as error:
        # A static member's id is stored with its first generation. A coordinator that takes over before that
        # fences it, as Kafka's do, and this client ends on any error that it has no name for.
        if options.instance is None:
            raise
        raise ClientGaveUp(f"start(): {error}") from error
    while not ends.is_set():
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
        for place, records in found.items():
            notes.read(place.partition, [record.offset for record in records])
        if notes.is_due():
            with notes.committing(KafkaError) as due:
                await consumer.commit({TopicPartition(options.topic, p): o for p, o in due.items()})
    notes.diary.left()
    await consumer.stop()


RUNS = {LIBRDKAFKA: run_librdkafka, KAFKA_PYTHON: run_kafka_python, AIOKAFKA: run_aiokafka}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=sorted(RUNS))
    for name in ("bootstrap", "topic", "group", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--instance", help="group.instance.id of a static member")
    parser.add_argument("--protocol", choices=(CLASSIC, CONSUMER), default=CLASSIC, help="of librdkafka")
    parser.add_argument("--hold", type=Path, help="librdkafka gives no partition up while this file exists")
    parser.add_argument("--diary", type=Path, required=True)
    options = parser.parse_args()
    ends = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.set())
    try:
        RUNS[options.client](options, Notes(Diary(options.diary)), ends)
    except ClientGaveUp as reason:
        print(f"gave up: {reason}", file=sys.stderr)
        return EXIT_GAVE_UP
    return 0


if __name__ == "__main__":
    sys.exit(main())
