"""The last in-sync replica comes back with an empty disk: it must not lead, and people must be told why
nobody does."""

from __future__ import annotations

import re
import time

import pytest
from confluent_kafka import Producer

from localcluster.cluster import LocalCluster

pytestmark = [pytest.mark.timeout(300)]

TOPIC = "orders"
WATCH_SECONDS = 5.0


def isr_of(cluster: LocalCluster) -> set[int]:
    return set(cluster.partition(TOPIC, 0).isr)


def test_a_last_isr_member_on_an_empty_disk_does_not_lead_and_rest_says_why(cluster: LocalCluster) -> None:
    cluster.create_topic(TOPIC, replication_factor=3, configs={"min.insync.replicas": "1"})
    last = cluster.leader(TOPIC, 0)
    others = [broker_id for broker_id in cluster.brokers if broker_id != last]
    for broker_id in others:
        cluster.kill_broker(broker_id)
    cluster.wait_until("the leader is alone in the ISR", lambda: isr_of(cluster) == {last})
    write_one(cluster, b"only the last one has this")

    cluster.kill_broker(last)
    cluster.wipe_broker_disk(last)
    cluster.start_broker(last)
    for broker_id in others:
        cluster.start_broker(broker_id)
    # It listens before it registers: until then its last life goes on for the controller, and leads.
    cluster.wait_until("its seat is taken away", lambda: last not in isr_of(cluster))

    blocked_at = time.monotonic()
    cluster.wait_until(
        "five seconds have shown who leads",
        lambda: watch_that_nobody_leads(cluster) and time.monotonic() - blocked_at > WATCH_SECONDS,
    )
    view = cluster.partition(TOPIC, 0)
    assert last not in view.isr
    assert re.search(r"disk|log dir|unclean|no .*replica", str(view.document), re.IGNORECASE), view.document
    assert offline_partitions(cluster) == 1


def watch_that_nobody_leads(cluster: LocalCluster) -> bool:
    view = cluster.partition(TOPIC, 0)
    assert view.leader is None, f"broker {view.leader} leads, but what was acknowledged is gone"
    return True


def write_one(cluster: LocalCluster, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20.0)
    assert errors == [None]


def offline_partitions(cluster: LocalCluster) -> int:
    """The alarm: the gauge that every Kafka dashboard watches."""
    name = "kafka_controller_kafkacontroller_offlinepartitionscount"
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", cluster.rest.get("/metrics").text, re.MULTILINE)
    assert values, f"/metrics has no {name}"
    return round(sum(map(float, values)))
