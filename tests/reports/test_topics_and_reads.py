"""Reports about topics that are made again, and about lookups, each through a stock client.

The name of a report (`FG#1426`) is explained in docs/reports.md.
"""

from __future__ import annotations

import asyncio
import re
import select
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from localcluster.cluster import LocalCluster
from springtide.wire.apis import ApiKey
from tests.kit.librdkafka import BEGAN_MS, SECONDS_MAX, consumer, make_again, numbered, read, write
from tests.kit.metadata_desks import desks_of, send, told_of

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TURNS = 20
YEAR_MS = 31_536_000_000
_FETCHES = re.compile(r'^kafka_network_requestmetrics_requests_total\{request="Fetch"\} (\S+)$', re.MULTILINE)


@pytest.fixture
def admin(running_cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": running_cluster.bootstrap_servers}) as client:
        yield client


def test_rp_26_2_5_a_producer_goes_on_through_topics_that_are_made_again(
    running_cluster: LocalCluster, make_topic: Callable[..., str]
) -> None:
    """RP 26.2.5: there brokers named the old topic's leader after a deletion and a creation, and a producer
    stopped."""
    topic, bootstrap = make_topic("again"), running_cluster.bootstrap_servers
    body = {"cluster": running_cluster.name, "name": topic, "partitions": 1, "replication_factor": 3}
    path = f"/clusters/{running_cluster.name}/topics/{topic}"
    refused: list[KafkaError | None] = []
    told: list[set[tuple[uuid.UUID, int, int]]] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    with desks_of(bootstrap) as desks:
        for turn in range(TURNS):
            running_cluster.rest.delete(path).raise_for_status()
            made = running_cluster.rest.post("/topics", json=body | {"wait_ms": 30_000})
            assert made.status_code == 201
            found = [told_of(desk, topic) for desk in desks]
            told.append({(one.topic_id, one.error_code, one.partitions[0].leader_id) for one in found})
            for number in range(3 * turn, 3 * turn + 3):
                producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: refused.append(error))
            assert producer.flush(SECONDS_MAX) == 0
    assert [len(each) for each in told] == [1] * TURNS, "each broker tells the same"
    assert len({topic_id for each in told for topic_id, *_ in each}) == TURNS, "of the new topic"
    assert refused == [None] * (3 * TURNS)
    with consumer(running_cluster) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, 3) == numbered(range(3 * TURNS - 3, 3 * TURNS))


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
    """There, as in RP#18566, the lookup gave an offset below the start of the log: no record ever came."""
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


@pytest.mark.parametrize("is_done", [False, True])
def test_ik_752_partitions_that_are_asked_for_again_are_all_there(
    running_cluster: LocalCluster, admin: AdminClient, make_topic: Callable[..., str], *, is_done: bool
) -> None:
    """There a second CreatePartitions, after an answer that was lost, left rows out. is_done: the first one
    is, before the client asks again."""
    topic = make_topic("grown")
    wanted = {"name": topic, "count": 6, "assignments": None}
    fields = {"topics": (wanted,), "timeout_ms": 30_000, "validate_only": False}
    with desks_of(running_cluster.bootstrap_servers) as desks:
        send(desks[0], ApiKey.CREATE_PARTITIONS, 3, fields)
        again = None if is_done else admin.create_partitions([NewPartitions(topic, 6)])[topic]
        assert select.select([desks[0]], [], [], SECONDS_MAX)[0], "it is answered, to nobody"
        again = again or admin.create_partitions([NewPartitions(topic, 6)])[topic]
        error = again.exception(SECONDS_MAX)
    refusal = None if error is None else error.args[0].name()
    assert refusal in ({"INVALID_PARTITIONS"} if is_done else {"INVALID_PARTITIONS", None})
    running_cluster.wait_until_in_sync(topic)
    for partition in range(6):
        write(running_cluster, topic, range(2), partition=partition)
    assert len(running_cluster.partitions(topic)) == 6


@pytest.mark.parametrize("told_in", ["microseconds", "a year ahead", "the last there is"])
def test_kafka_6482_a_record_of_the_future_does_not_end_retention(
    running_cluster: LocalCluster, make_topic: Callable[..., str], told_in: str
) -> None:
    """There, as in RP#9820 and KAFKA-20609, a record dated in microseconds, or a year ahead, kept its segment
    and all behind it for as long. Here no client gets one in unless the topic allows it; each says why."""
    now_ms = int(time.time() * 1e3)
    timestamp_ms = {"microseconds": now_ms * 1_000, "a year ahead": now_ms + YEAR_MS}.get(told_in, 2**63 - 1)
    topic = make_topic("early")
    bootstrap = running_cluster.bootstrap_servers
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", timestamp=timestamp_ms, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert [error and error.name() for error in errors] == ["INVALID_TIMESTAMP"]
    python = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    with pytest.raises(kafka.errors.InvalidTimestampError):
        python.send(topic, b"x", timestamp_ms=timestamp_ms).get(SECONDS_MAX)
    python.close()

    async def with_aiokafka() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as opened:
            await opened.send_and_wait(topic, b"x", timestamp_ms=timestamp_ms)

    with pytest.raises(aiokafka.errors.InvalidTimestampError):
        asyncio.run(with_aiokafka())
    write(running_cluster, topic, range(1))
    with consumer(running_cluster) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, 1) == numbered(range(1))


def wait_until_at(cluster: LocalCluster, topic: str, replicas: list[int]) -> None:
    def is_so() -> bool:
        found = cluster.partition(topic, 0)
        return (
            list(found.replicas) == replicas and set(found.isr) == set(replicas) and found.leader in replicas
        )

    cluster.wait_until(f"brokers {replicas} hold it, and one leads", is_so)


def test_automq_437_moves_under_an_idempotent_producer_repeat_nothing(
    running_cluster: LocalCluster, make_topic: Callable[..., str]
) -> None:
    """There a partition that was reassigned five times held records of an idempotent producer twice."""
    topic = make_topic("moved")
    has_moved = threading.Event()
    producer = Producer({"bootstrap.servers": running_cluster.bootstrap_servers, "enable.idempotence": True})
    refused: list[object] = []
    written = 0

    def go_on_writing() -> None:
        nonlocal written
        while not has_moved.is_set():
            producer.produce(
                topic,
                b"%d" % written,
                on_delivery=lambda error, _: refused.append(error) if error is not None else None,
            )
            written += 1
            producer.poll(0.002)

    thread = threading.Thread(target=go_on_writing)
    thread.start()
    try:
        for replicas in ([1], [2], [3, 1], [2, 3], [1, 2, 3]):
            running_cluster.api.put(
                f"/clusters/{running_cluster.name}/topics/{topic}/partitions/0/assignment",
                {"replicas": replicas},
            )
            wait_until_at(running_cluster, topic, replicas)
    finally:
        has_moved.set()
        thread.join()
    assert producer.flush(SECONDS_MAX) == 0
    assert refused == []
    assert written > 100, "it wrote while replicas moved"
    with consumer(running_cluster) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, written) == numbered(range(written))
        assert opened.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX) == (0, written)
