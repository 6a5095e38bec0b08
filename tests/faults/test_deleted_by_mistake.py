"""A topic is deleted by mistake; a broker is killed and comes back, another was away, the controller dies;
then it is restored: every acknowledged record is there, and the group that read it goes on where it was.
Deleted once more, it is gone from every disk when its time is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from localcluster.cluster import LocalCluster
from localcluster.load import read_everything

pytestmark = [pytest.mark.timeout(240)]

TOPIC, GROUP = "orders", "billing"
PARTITIONS, RECORDS, READ_BEFORE = 3, 1_000, 400
DELETED = "/clusters/prod/deleted-topics"
RETENTION = "deleted.topic.retention.ms"


@pytest.fixture
def forming() -> Iterator[LocalCluster]:
    """Three brokers, two controllers, a coordinator."""
    with LocalCluster(controllers=2, coordinators=1) as cluster:
        cluster.form()
        yield cluster


def test_a_topic_that_was_deleted_by_mistake_is_restored_and_its_group_goes_on(forming: LocalCluster) -> None:
    cluster = forming
    created = cluster.create_topic(
        TOPIC,
        partitions=PARTITIONS,
        configs={RETENTION: "3600000", "min.insync.replicas": "2", "flush.messages": "1000000"},
    )
    values = [b"order-%d" % number for number in range(RECORDS)]
    write(cluster, values)
    before = read_by_group(cluster, READ_BEFORE)
    assert len(before) == READ_BEFORE

    away, restarted = 1, 2
    cluster.stop_broker(away)
    cluster.wait_until("it is known to be away", lambda: away not in in_sync(cluster))
    assert cluster.rest.delete(f"/clusters/prod/topics/{TOPIC}").status_code == 202
    kept = cluster.wait_until("its leaders have stopped", lambda: kept_topic(cluster))
    assert (kept["name"], kept["topic_id"]) == (TOPIC, created["topic_id"])
    assert kept["size_bytes"] > 0
    assert cluster.rest.get(f"/clusters/prod/topics/{TOPIC}").status_code == 404
    cluster.kill_broker(restarted)
    cluster.start_broker(restarted)
    cluster.start_broker(away)
    cluster.kill_controller(cluster.active_controller())
    cluster.active_controller()

    answer = cluster.api.post(f"{DELETED}/{kept['topic_id']}:restore", {"reason": "deleted by mistake"})
    assert answer.json()["undecided"] == [] and answer.json()["topics"] == [TOPIC]
    cluster.wait_until_in_sync(TOPIC)
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        partitions=PARTITIONS,
        at_least=dict(Counter(number % PARTITIONS for number in range(RECORDS))),
    )
    assert sorted(record.value or b"" for record in read) == sorted(values)
    after = read_by_group(cluster, RECORDS - READ_BEFORE)
    assert sorted(before + after) == sorted(values), "the group read each record once"
    write(cluster, [b"after"] * 30)
    assert cluster.audit(cause="topic_restored")

    cluster.rest.put(f"/clusters/prod/topics/{TOPIC}/configs/{RETENTION}", json={"value": "5000"})
    cluster.wait_until("it is set", lambda: setting(cluster) == "5000")
    assert cluster.rest.delete(f"/clusters/prod/topics/{TOPIC}").status_code == 202
    assert directories(cluster), "its time is not over"
    cluster.wait_until("it is gone from every disk", lambda: not directories(cluster))
    cluster.wait_until("nothing is left of it", lambda: not cluster.api.get(DELETED)["items"])


def write(cluster: LocalCluster, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True}
    )
    for number, value in enumerate(values):
        producer.produce(
            TOPIC,
            value=value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: errors.append(error),
        )
    producer.flush(30.0)
    assert errors == [None] * len(values)


def read_by_group(cluster: LocalCluster, count: int) -> list[bytes]:
    """So many further records, whose offsets are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
    )
    consumer.subscribe([TOPIC])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(30.0)
            assert message is not None, f"{len(values)} of {count} records came"
            if message.error() is None:
                values.append(message.value() or b"")
                consumer.store_offsets(message)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def kept_topic(cluster: LocalCluster) -> Any:
    """The only deleted topic that is kept, once it can be restored."""
    found = [item for item in cluster.api.get(DELETED)["items"] if item["name_is_free"]]
    return found[0] if found else None


def in_sync(cluster: LocalCluster) -> set[int]:
    return {broker for view in cluster.partitions(TOPIC) for broker in view.isr}


def setting(cluster: LocalCluster) -> str:
    value: str = cluster.api.get(f"/clusters/prod/topics/{TOPIC}")["configs"][RETENTION]
    return value


def directories(cluster: LocalCluster) -> list[str]:
    return [
        path.name for broker in cluster.brokers.values() for path in broker.data_directory.glob(f"{TOPIC}-*")
    ]
