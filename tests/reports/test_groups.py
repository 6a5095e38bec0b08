"""Reports about consumer groups, each through a stock client. See docs/reports.md."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import kafka.errors
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from localcluster.cluster import LocalCluster
from tests.kit.librdkafka import SECONDS_MAX, consumer, make_again, numbered, read, write

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

GROUPS = 50
TOOL_SECONDS = 3.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers and two coordinators, of which tests kill one at a time and start it again."""
    with LocalCluster(coordinators=2) as started:
        started.form()
        yield started


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
        yield client


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, partitions=1, replication_factor=3)
    return name


@contextmanager
def member(cluster: LocalCluster, group: str, topic: str) -> Iterator[Consumer]:
    with consumer(cluster, group) as opened:
        opened.subscribe([topic])
        yield opened


@contextmanager
def without(cluster: LocalCluster, coordinator_id: int) -> Iterator[None]:
    """Kill a coordinator; start it again at the end."""
    cluster.kill_coordinator(coordinator_id)
    try:
        yield
    finally:
        cluster.start_coordinator(coordinator_id)
        cluster.wait_until(
            "it has its shards again",
            lambda: cluster.api.get(f"/clusters/{cluster.name}/coordinators/{coordinator_id}")["shards"] > 0,
        )


SOON = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


def commit(admin: AdminClient, group: str, topic: str, offset: int) -> None:
    """Set the offset of a group that need not exist; librdkafka does not ask again while its shard opens or
    moves, or while the coordinator has not heard of a new topic."""
    until = time.monotonic() + SECONDS_MAX
    while True:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
        (future,) = admin.alter_consumer_group_offsets([wanted]).values()
        (done,) = future.result(SECONDS_MAX).topic_partitions
        if done.error is None:
            return
        assert done.error.code() in SOON and time.monotonic() < until
        time.sleep(0.1)


def groups_told(cluster: LocalCluster) -> list[str]:
    """Return what a tool of librdkafka is told that has just been started. One that has heard of a dead
    coordinator waits for it."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as tool:
        told = tool.list_consumer_groups(request_timeout=TOOL_SECONDS).result(SECONDS_MAX)
        return [each.group_id for each in told.valid]


def groups_told_to(python: KafkaAdminClient) -> list[str]:
    try:
        return [each["group_id"] for each in python.list_groups()]
    except kafka.errors.KafkaError:  # a shard is being opened
        return []


def test_fg_1426_a_group_starts_anew_in_a_topic_that_was_made_again(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """There the new topic inherited the old one's offsets, and its first records were never read."""
    group = uuid.uuid4().hex
    write(cluster, topic, range(100))
    with member(cluster, group, topic) as opened:
        assert read(opened, 100) == numbered(range(100))
        opened.commit(asynchronous=False)
    make_again(admin, topic)
    write(cluster, topic, range(500, 700))
    with member(cluster, group, topic) as opened:
        assert opened.committed([TopicPartition(topic, 0)], SECONDS_MAX)[0].offset < 0
        assert read(opened, 200) == numbered(range(500, 700))


def test_fg_1426_a_member_that_stays_reads_a_topic_that_was_made_again(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """There a member went on at the old offset, and committed it for the new topic."""
    group = uuid.uuid4().hex
    write(cluster, topic, range(1_000))
    with member(cluster, group, topic) as opened:
        assert len(read(opened, 1_000)) == 1_000
        opened.commit(asynchronous=False)
        make_again(admin, topic)
        write(cluster, topic, range(100))
        assert read(opened, 100) == numbered(range(100))
        # Without offsets librdkafka commits nothing before it is past what it committed in the old topic.
        opened.commit(offsets=[TopicPartition(topic, 0, 100)], asynchronous=False)
    with member(cluster, group, topic) as opened:
        assert [found.offset for found in opened.committed([TopicPartition(topic, 0)], SECONDS_MAX)] == [100]


def test_lr_5417_groups_are_listed_once_and_keep_their_offsets_while_coordinators_die(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """There, and in FG 1.21.1, a list had groups twice while they moved to another coordinator. RP#1182: one
    that was still reading told that nothing was committed. RP#4900: a deleted group was back."""
    groups = {f"{topic}-{number}" for number in range(GROUPS)}
    for number, group in enumerate(sorted(groups)):
        commit(admin, group, topic, number)
    deleted = f"{topic}-deleted"
    commit(admin, deleted, topic, 1)
    for future in admin.delete_consumer_groups([deleted]).values():
        future.result(SECONDS_MAX)
    watched = sorted(groups)[7]
    python = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        with consumer(cluster, watched) as opened:
            for coordinator_id in cluster.coordinators:
                with without(cluster, coordinator_id):
                    until = time.monotonic() + SECONDS_MAX
                    while True:
                        told = groups_told(cluster)
                        told_to_python = groups_told_to(python)
                        for names in (told, told_to_python):
                            twice = [name for name, count in Counter(names).items() if count > 1]
                            assert (twice, deleted in names) == ([], False)
                        try:
                            [found] = opened.committed([TopicPartition(topic, 0)], 5.0)
                        except KafkaException:
                            continue
                        assert (found.error, found.offset) == (None, 7)
                        if groups <= set(told) and groups <= set(told_to_python):
                            break
                        assert time.monotonic() < until, groups - set(told)
    finally:
        python.close()


def test_lr_5511_a_member_goes_on_when_its_drained_coordinator_is_gone(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """There librdkafka hung: it went on asking for a coordinator that had been drained and taken away."""
    group = uuid.uuid4().hex
    write(cluster, topic, range(10))
    with member(cluster, group, topic) as opened:
        assert read(opened, 10) == numbered(range(10))
        owner = cluster.api.get(f"/clusters/{cluster.name}/groups/{group}")["coordinator_id"]
        path = f"/clusters/{cluster.name}/coordinators/{owner}"
        cluster.rest.patch(path, json={"draining": True}).raise_for_status()
        cluster.wait_until("it is drained", lambda: cluster.api.get(path)["drained"])
        cluster.kill_coordinator(owner)
        try:
            write(cluster, topic, range(10, 20))
            assert read(opened, 10) == numbered(range(10, 20), first_offset=10)
            opened.commit(asynchronous=False)
            [found] = opened.committed([TopicPartition(topic, 0)], SECONDS_MAX)
            assert (found.error, found.offset) == (None, 20)
        finally:
            cluster.rest.patch(path, json={"draining": False}).raise_for_status()
            cluster.start_coordinator(owner)


def test_kafka_19154_offsets_of_a_deleted_topic_are_answered_at_once(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """There the client asked again and again. What is told is explained in docs/reports.md."""
    group = uuid.uuid4().hex
    commit(admin, group, topic, 7)
    for future in admin.delete_topics([topic]).values():
        future.result(SECONDS_MAX)
    with consumer(cluster, group) as opened:
        began = time.monotonic()
        [found] = opened.committed([TopicPartition(topic, 0)], SECONDS_MAX)
        assert (found.error, found.offset) == (None, 7)
        assert time.monotonic() - began < TOOL_SECONDS
