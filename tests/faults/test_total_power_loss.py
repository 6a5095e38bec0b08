"""All brokers lose power in one moment: what can be proved whole leads again, the rest waits and says so.

A machine that dies is played by killing all processes and taking away the mount mark, by which a broker would
prove that its page cache lived: from then on each can vouch only for what it made durable.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from dataplane.storage.directory_claim import MOUNT_MARK_FILE
from dataplane.storage.seal import SEAL_FILE
from localcluster.cluster import LocalCluster
from localcluster.load import read_everything

pytestmark = [pytest.mark.timeout(300)]

IDLE, DURABLE, BUSY = "idle", "durable", "busy"


def test_idle_and_synchronous_partitions_lead_again_and_a_busy_one_waits_for_an_operator(
    cluster: LocalCluster,
) -> None:
    for topic in (IDLE, DURABLE, BUSY):
        configs = {"flush.messages": "1"} if topic == DURABLE else {}
        cluster.create_topic(topic, replication_factor=3, configs=configs)
    written = [b"before the power failed-%d" % number for number in range(20)]
    write(cluster, IDLE, written)
    cluster.wait_until("idle logs are sealed", lambda: are_sealed(cluster, IDLE))
    cluster.wait_until("synchronous logs are sealed", lambda: are_sealed(cluster, DURABLE))
    write(cluster, DURABLE, written)
    write(cluster, BUSY, written)
    assert not are_sealed(cluster, BUSY)

    for broker_id, broker in cluster.brokers.items():
        cluster.kill_broker(broker_id)
        (Path(broker.data_directory) / MOUNT_MARK_FILE).unlink()
    for broker_id in list(cluster.brokers):
        cluster.start_broker(broker_id)

    for topic in (IDLE, DURABLE):
        cluster.wait_until_in_sync(topic)
        read = read_everything(
            bootstrap_servers=cluster.bootstrap_servers, topic=topic, partitions=1, at_least={0: len(written)}
        )
        assert [record.value for record in read] == written
    cluster.wait_until("the audit has both", lambda: len(cluster.audit(cause="sealed_leader_elected")) == 2)
    view = cluster.partition(BUSY, 0)
    assert view.leader is None, f"broker {view.leader} leads without proof of its log"
    assert cluster.rest.get("/clusters/prod/alarms").json()["items"]


def are_sealed(cluster: LocalCluster, topic: str) -> bool:
    return all(
        list(Path(broker.data_directory).glob(f"{topic}-0.*/{SEAL_FILE}"))
        for broker in cluster.brokers.values()
    )


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20.0)
    assert errors == [None] * len(values)
