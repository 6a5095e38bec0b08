"""Reports about elections, restarts and outages, each through a stock client. See docs/reports.md."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator

import kafka
import pytest
from confluent_kafka import Producer, TopicPartition

from localcluster.cluster import LocalCluster
from tests.kit.librdkafka import SECONDS_MAX, consumer, numbered, read, write

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

AWAY_SECONDS = 10.0
LED_AGAIN_SECONDS_MAX = 60.0
_UNCLEAN = re.compile(r"^kafka_controller_controllerstats_uncleanleaderelections_total (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers that tests stop and start again; they compact often."""
    with LocalCluster(broker_config={"log.cleaner.backoff.ms": "100"}) as started:
        started.form()
        yield started


def made(cluster: LocalCluster, *, partitions: int = 1, **configs: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    cluster.create_topic(name, partitions=partitions, replication_factor=3, configs=settings)
    return name


def wait_until_out(cluster: LocalCluster, topic: str, broker_id: int) -> None:
    cluster.wait_until("it is out of the ISR", lambda: broker_id not in cluster.partition(topic, 0).isr)


def test_tn_2026_06_13_the_first_record_after_a_gap_has_its_own_offset(cluster: LocalCluster) -> None:
    """TN 2026-06-13: there it took the offset that was asked for, where compaction had left none. KAFKA-7556:
    the first offset of a compacted log is not that of its first record, which the lookup by time tells."""
    topic = made(cluster, cleanup_policy="compact", segment_bytes="4096", min_cleanable_dirty_ratio="0.01")
    write(cluster, topic, range(1_000), keys=10, **{"batch.num.messages": 10})
    python = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    where = kafka.TopicPartition(topic, 0)
    python.assign([where])
    with consumer(cluster) as opened:

        def first_from(offset: int) -> int:
            opened.assign([TopicPartition(topic, 0, offset)])
            [(first, value)] = read(opened, 1)
            assert value == b"%d" % first
            return first

        cluster.wait_until("there is a gap at the beginning", lambda: first_from(0) > 100)
        for asked in (0, 1, 77):
            python.seek(where, asked)
            record = next(python)
            assert record.value == b"%d" % record.offset
            assert record.offset > 100
            assert first_from(asked) >= record.offset, "nothing that was left is left out"
        assert python.beginning_offsets([where]) == {where: 0}
        by_time = python.offsets_for_times({where: 0})[where].offset
        assert 100 < by_time <= first_from(0), "by time it is that of a record that there is"
    python.close()


def test_kafka_python_3107_a_consumer_reads_on_through_elections_and_leaders_come_back(
    cluster: LocalCluster,
) -> None:
    """There kafka-python sent the epoch of the last record as the leader's, was fenced, and stood. IK#643:
    after a restart of one broker after the other, leaders stayed where they had fled to."""
    topic = made(cluster, partitions=3)
    preferred = [each.replicas[0] for each in cluster.partitions(topic)]
    assert sorted(preferred) == sorted(cluster.brokers)
    python = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    python.assign([kafka.TopicPartition(topic, 0)])
    seen: list[tuple[int, bytes]] = []

    def read_up_to(count: int) -> None:
        until = time.monotonic() + SECONDS_MAX
        while len(seen) < count and time.monotonic() < until:
            for records in python.poll(200).values():
                seen.extend((record.offset, record.value) for record in records)

    epoch = cluster.partition(topic, 0).leader_epoch
    for turn, broker_id in enumerate(cluster.brokers):
        cluster.stop_broker(broker_id)
        write(cluster, topic, range(10 * turn, 10 * turn + 10), **{"enable.idempotence": True})
        read_up_to(10 * turn + 10)
        cluster.start_broker(broker_id)
        cluster.wait_until_in_sync(topic)
    assert seen == numbered(range(30))
    assert cluster.partition(topic, 0).leader_epoch >= epoch + 2
    cluster.wait_until(
        "the preferred replicas lead",
        lambda: [each.leader for each in cluster.partitions(topic)] == preferred,
        timeout_seconds=LED_AGAIN_SECONDS_MAX,
    )
    write(cluster, topic, range(30, 40))
    read_up_to(40)
    python.close()
    assert seen == numbered(range(40))


def test_lr_5088_a_client_comes_back_when_all_brokers_were_away(cluster: LocalCluster) -> None:
    """There librdkafka bootstrapped for ever. KAFKA-19212, KAFKA-18940: elections from the ELR counted as
    unclean."""
    topic = made(cluster, min_insync_replicas="2")
    write(cluster, topic, range(20))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    refused: list[object] = []

    def send(number: int) -> None:
        producer.produce(
            topic,
            b"%d" % number,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )

    send(20)
    assert producer.flush(SECONDS_MAX) == 0
    with consumer(cluster, **{"isolation.level": "read_committed"}) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, 21) == numbered(range(21))
        first, second, third = cluster.partition(topic, 0).isr
        for broker_id in (first, second):
            cluster.kill_broker(broker_id)
            wait_until_out(cluster, topic, broker_id)
        cluster.kill_broker(third)
        cluster.wait_until("nobody leads", lambda: cluster.partition(topic, 0).leader is None)
        send(21)
        time.sleep(AWAY_SECONDS)
        # The second one left when one was in sync still: it is in the ELR, and holds all that is committed.
        cluster.start_broker(second)
        cluster.wait_until("it leads", lambda: cluster.leader(topic, 0) == second)
        for broker_id in (first, third):
            cluster.start_broker(broker_id)
        assert producer.flush(SECONDS_MAX) == 0
        assert refused == []
        assert read(opened, 1) == [(21, b"21")]
    cluster.wait_until_in_sync(topic)
    (unclean,) = _UNCLEAN.findall(cluster.rest.get("/metrics").text)
    assert float(unclean) == 0


def test_rp_30124_an_idle_log_is_read_whole_after_a_restart(cluster: LocalCluster) -> None:
    """There the last stable offset was not valid before the first new record: read_committed read nothing."""
    topic = made(cluster)
    write(cluster, topic, range(20))
    for broker_id in cluster.brokers:
        cluster.kill_broker(broker_id)
    for broker_id in cluster.brokers:
        cluster.start_broker(broker_id)
    cluster.wait_until_in_sync(topic)
    with consumer(cluster, **{"isolation.level": "read_committed"}) as opened:
        opened.assign([TopicPartition(topic, 0, 0)])
        assert read(opened, 20) == numbered(range(20))
    python = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=int(SECONDS_MAX * 1_000),
    )
    where = kafka.TopicPartition(topic, 0)
    python.assign([where])
    found = [(record.offset, record.value) for _, record in zip(range(20), python, strict=False)]
    assert found == numbered(range(20))
    assert python.end_offsets([where]) == {where: 20}
    python.close()
