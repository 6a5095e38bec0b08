"""Where a stock consumer may start, and what a stock producer may ask for, beyond the everyday case."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from localcluster.cluster import LocalCluster

pytestmark = [pytest.mark.timeout(300)]

TIMESTAMP_MS = 1_600_000_000_000
WAIT_SECONDS_MAX = 60.0


@pytest.fixture
def consumer(running_cluster: LocalCluster) -> Iterator[Consumer]:
    opened = Consumer(
        {
            "bootstrap.servers": running_cluster.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    yield opened
    opened.close()


def write(cluster: LocalCluster, topic: str, count: int, **config: object) -> list[KafkaError]:
    """Writes `count` records a second apart to partition 0; returns the errors of those that failed."""
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **config})
    for number in range(count):
        producer.produce(
            topic,
            value=b"%d" % number,
            partition=0,
            timestamp=TIMESTAMP_MS + number * 1000,
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
        producer.flush(WAIT_SECONDS_MAX)  # A batch a record, so that an index has something to find.
    return errors


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_records(
    running_cluster: LocalCluster, make_topic: Callable[..., str], consumer: Consumer, acks: str
) -> None:
    topic = make_topic(f"acks-{acks}")

    def has(count: int) -> bool:
        # librdkafka remembers, for minutes if need be, that a topic which it asked for too soon is not there.
        consumer.list_topics(topic, timeout=WAIT_SECONDS_MAX)
        try:
            ends = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_SECONDS_MAX)
        except KafkaException:  # nobody leads it yet
            return False
        return ends == (0, count)

    # Who asks for no answer is not told that the leader was not there yet.
    running_cluster.wait_until("the partition is led", lambda: has(0))
    assert write(running_cluster, topic, 20, acks=acks) == []
    running_cluster.wait_until("the high watermark has passed every record", lambda: has(20))
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [message.value() for message in consumer.consume(20, timeout=WAIT_SECONDS_MAX)]
    assert values == [b"%d" % number for number in range(20)]


def test_reading_starts_in_the_middle(
    running_cluster: LocalCluster, make_topic: Callable[..., str], consumer: Consumer
) -> None:
    topic = make_topic("middle")
    write(running_cluster, topic, 10)
    consumer.assign([TopicPartition(topic, 0, 7)])
    assert [message.value() for message in consumer.consume(3, timeout=WAIT_SECONDS_MAX)] == [
        b"7",
        b"8",
        b"9",
    ]


def test_reading_from_the_end_gets_only_what_comes_after(
    running_cluster: LocalCluster, make_topic: Callable[..., str], consumer: Consumer
) -> None:
    topic = make_topic("end")
    write(running_cluster, topic, 5)
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    assert consumer.poll(1.0) is None
    # On a busy machine the consumer may ask for the end only after some of these are written.
    for _ in range(20):
        write(running_cluster, topic, 1)
        message = consumer.poll(WAIT_SECONDS_MAX / 20)
        if message is not None:
            break
    assert message is not None
    assert message.error() is None
    assert (message.offset() or 0) >= 5


def test_an_offset_past_the_end_is_out_of_range(
    running_cluster: LocalCluster, make_topic: Callable[..., str], consumer: Consumer
) -> None:
    topic = make_topic("range")
    write(running_cluster, topic, 1)
    consumer.assign([TopicPartition(topic, 0, 100)])
    message = consumer.poll(WAIT_SECONDS_MAX)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


@pytest.mark.parametrize(
    ("asked_ms", "found"),
    [
        (TIMESTAMP_MS, 0),
        (TIMESTAMP_MS + 6_500, 7),
        (TIMESTAMP_MS + 9_000, 9),
        (TIMESTAMP_MS + 9_001, OFFSET_END),
    ],
)
def test_a_timestamp_finds_the_first_record_at_or_after_it(
    running_cluster: LocalCluster,
    make_topic: Callable[..., str],
    consumer: Consumer,
    asked_ms: int,
    found: int,
) -> None:
    topic = make_topic("time")
    write(running_cluster, topic, 10)
    [answer] = consumer.offsets_for_times([TopicPartition(topic, 0, asked_ms)], timeout=WAIT_SECONDS_MAX)
    assert (answer.error, answer.offset) == (None, found)


def test_a_topic_that_does_not_exist_is_reported_as_such(running_cluster: LocalCluster) -> None:
    [error] = write(running_cluster, f"absent-{uuid.uuid4().hex[:8]}", 1, **{"message.timeout.ms": 5000})
    assert error.code() in (
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._MSG_TIMED_OUT,
    )


def test_a_record_beyond_max_message_bytes_is_refused_and_smaller_ones_go_on(
    running_cluster: LocalCluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic("large", max_message_bytes="100000")
    outcomes: list[int | None] = []
    producer = Producer({"bootstrap.servers": running_cluster.bootstrap_servers})
    for size in (10, 200_000, 10):
        producer.produce(
            topic,
            value=b"x" * size,
            partition=0,
            on_delivery=lambda error, _: outcomes.append(None if error is None else error.code()),
        )
        producer.flush(WAIT_SECONDS_MAX)
    assert outcomes == [None, KafkaError.MSG_SIZE_TOO_LARGE, None]
