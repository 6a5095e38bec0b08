"""Reports about topics that are made again, and about lookups, each through a stock client.

The name of a report (`FG#1426`) is explained in docs/reports.md.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from localcluster.cluster import LocalCluster

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SECONDS_MAX = 60.0
BEGAN_MS = 1_600_000_000_000
_FETCHES = re.compile(r'^kafka_network_requestmetrics_requests_total\{request="Fetch"\} (\S+)$', re.MULTILINE)


@contextmanager
def consumer(cluster: LocalCluster, group: str = "", **config: Any) -> Iterator[Consumer]:
    opened = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group or uuid.uuid4().hex,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    try:
        yield opened
    finally:
        opened.close()


def write(cluster: LocalCluster, topic: str, values: range, *, partition: int = 0, **config: Any) -> None:
    """Write them with acks=all, a millisecond apart from BEGAN_MS on, and see each acknowledged."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **config})
    for number in values:
        producer.produce(
            topic,
            value=b"%d" % number,
            partition=partition,
            timestamp=BEGAN_MS + number,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert refused == []


def read(opened: Consumer, count: int) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of the next `count` records, of fewer if no more come."""
    found: list[tuple[int, bytes | None]] = []
    until = time.monotonic() + SECONDS_MAX / 2
    while len(found) < count and time.monotonic() < until:
        message = opened.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.offset() or 0, message.value()))
    return found


@pytest.fixture
def admin(running_cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": running_cluster.bootstrap_servers}) as client:
        yield client


def make_again(admin: AdminClient, topic: str, *, partitions: int = 1) -> None:
    for future in admin.delete_topics([topic]).values():
        future.result(SECONDS_MAX)
    for future in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
        future.result(SECONDS_MAX)


def test_rp_26_2_5_producers_go_on_through_topics_that_are_made_again(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    """There brokers named the old topic's leader after a deletion and a creation, and a producer stopped."""
    topic = make_topic("again")
    for turn in range(5):
        write(running_cluster, topic, range(3 * turn, 3 * turn + 3))
        make_again(admin, topic)
    write(running_cluster, topic, range(7))
    with consumer(running_cluster) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, 7) == [(number, b"%d" % number) for number in range(7)]


def test_fg_1426_a_session_with_a_topic_that_was_made_again_does_not_spin(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    """There the session answered INCONSISTENT_TOPIC_ID as fast as it was asked, and the other topic stood."""

    def fetches() -> float:
        brokers = running_cluster.brokers.values()
        return sum(float(match[1]) for each in brokers for match in _FETCHES.finditer(each.metrics()))

    topic, other = make_topic("again"), make_topic("other")
    write(running_cluster, topic, range(5))
    write(running_cluster, other, range(5))
    with consumer(running_cluster) as opened:
        opened.assign([TopicPartition(topic, 0, 0), TopicPartition(other, 0, 0)])
        assert len(read(opened, 10)) == 10
        make_again(admin, topic)
        before, began = fetches(), time.monotonic()
        write(running_cluster, other, range(5, 10))
        assert len(read(opened, 5)) == 5, "the other topic flows"
        time.sleep(3)
        each_s = (fetches() - before) / (time.monotonic() - began)
    # Three brokers follow each other, twice a second each at rest; the consumer asks each twice a second.
    assert each_s < 100


def test_rp_18282_a_time_before_what_was_deleted_finds_what_is_left(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    """There the lookup gave an offset below the start of the log, and the consumer never got a record."""
    topic = make_topic("deleted")
    write(running_cluster, topic, range(1_000))
    for future in admin.delete_records([TopicPartition(topic, 0, 500)]).values():
        assert future.result(SECONDS_MAX).low_watermark == 500
    with consumer(running_cluster, **{"auto.offset.reset": "error"}) as opened:
        [found] = opened.offsets_for_times([TopicPartition(topic, 0, BEGAN_MS + 100)], timeout=SECONDS_MAX)
        assert found.offset == 500
        opened.assign([found])
        assert read(opened, 1) == [(500, b"500")]


def test_kafka_7556_the_first_offset_that_is_told_is_there(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic("first")
    write(running_cluster, topic, range(20))
    for future in admin.delete_records([TopicPartition(topic, 0, 7)]).values():
        future.result(SECONDS_MAX)
    with consumer(running_cluster) as opened:
        earliest, end = opened.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX)
        [by_time] = opened.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=SECONDS_MAX)
        opened.assign([TopicPartition(topic, 0, earliest)])
        assert (earliest, by_time.offset, end, read(opened, 1)) == (7, 7, 20, [(7, b"7")])


def test_ik_752_partitions_that_are_asked_for_again_are_all_there(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    """There a second CreatePartitions, after an answer that was lost, left rows out."""
    topic = make_topic("grown")
    first, again = (admin.create_partitions([NewPartitions(topic, 6)])[topic] for _ in range(2))
    answers = [future.exception(SECONDS_MAX) for future in (first, again)]
    assert None in answers, answers
    running_cluster.wait_until_in_sync(topic)
    for partition in range(6):
        write(running_cluster, topic, range(2), partition=partition)
    assert len(running_cluster.partitions(topic)) == 6
