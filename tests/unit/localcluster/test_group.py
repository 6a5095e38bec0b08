"""The demo's consumer group, on the cluster that librdkafka has within for such tests."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from localcluster.group import ReadingGroup
from localcluster.verdict import RecordPlace

SECONDS_MAX = 60


def test_a_group_commits_what_it_has_read() -> None:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=SECONDS_MAX).brokers.values()
    for number, value in enumerate((b"a", b"b", b"c")):
        producer.produce("orders", value, partition=number % 2)
    assert producer.flush(SECONDS_MAX) == 0
    bootstrap = f"{broker.host}:{broker.port}"
    group = ReadingGroup(bootstrap_servers=bootstrap, topic="orders", group="shop", members=1)
    deadline = time.monotonic() + SECONDS_MAX
    with group:
        while not group.has_read({0: 2, 1: 1}):
            assert time.monotonic() < deadline, group.refusals
            time.sleep(0.02)
    assert {record.value for record in group.records} == {b"a", b"b", b"c"}, "each at least once"
    assert {RecordPlace(0, 2), RecordPlace(1, 1)} <= {commit.place for commit in group.commits}
    assert all(commit.produced_at <= commit.acknowledged_at for commit in group.commits)
    assert not group.has_read({0: 2, 1: 2})
    other = Consumer({"bootstrap.servers": bootstrap, "group.id": "shop", "log_level": 0})
    told = other.committed([TopicPartition("orders", number) for number in (0, 1)], timeout=SECONDS_MAX)
    other.close()
    assert [offset.offset for offset in told] == [2, 1]
