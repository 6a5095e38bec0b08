"""A topic that prefers availability to its records: min.insync.replicas=1 and
unclean.leader.election.enable=true, the settings under which the isolated leader of 2013 lost records.

The loss must happen, or the runs without these settings prove nothing; and it must be seen: in the audit, in
the metric that Kafka's dashboards watch, and as a file beside the old leader's log that holds what was cut.
"""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from dataplane.storage.disk import PosixDisk
from dataplane.storage.divergent import list_copies
from dataplane.storage.log_dir import DIVERGENT
from localcluster.cluster import LocalCluster
from localcluster.load import read_everything
from tests.faults.jepsen2013.schedule import UNSAFE_CONFIGS
from tests.kit.dataplane.divergent_copies import read_copy

pytestmark = [pytest.mark.timeout(300)]

TOPIC = "clicks"


def test_an_isolated_leader_that_acknowledged_alone_loses_its_records_visibly(cluster: LocalCluster) -> None:
    cluster.create_topic(TOPIC, replication_factor=3, configs=dict(UNSAFE_CONFIGS))
    isolated = cluster.leader(TOPIC, 0)
    others = [broker_id for broker_id in cluster.brokers if broker_id != isolated]
    with ExitStack() as mending:
        # Paused, not killed: a process that wakes up believes that no time has passed.
        for broker_id in others:
            cluster.brokers[broker_id].process.pause()
            mending.callback(cluster.brokers[broker_id].process.resume)
        cluster.wait_until("the leader is alone", lambda: set(cluster.partition(TOPIC, 0).isr) == {isolated})
        lost = [b"acknowledged by one-%d" % number for number in range(10)]
        write(cluster, isolated, lost)
        cluster.brokers[isolated].process.pause()
        mending.callback(cluster.brokers[isolated].process.resume)
        cluster.wait_until("it is replaced", lambda: cluster.partition(TOPIC, 0).leader is None)
        for broker_id in others:
            cluster.brokers[broker_id].process.resume()
        elected = cluster.wait_until("another leads", lambda: cluster.partition(TOPIC, 0).leader)
        assert elected in others
        kept = [b"acknowledged by the next-%d" % number for number in range(3)]
        write(cluster, elected, kept)
    cluster.wait_until_in_sync(TOPIC)

    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers, topic=TOPIC, partitions=1, at_least={0: len(kept)}
    )
    assert [record.value for record in read] == kept
    count = unclean_elections(cluster)
    changes = cluster.wait_until(
        "the audit has it", lambda: cluster.audit(cause="unclean_leader_elected") or None
    )
    assert count == 1, cluster.audit(topic=TOPIC)
    (change,) = changes
    assert change["reason"] == "unclean.leader.election.enable is true"
    disk = PosixDisk()
    (aside,) = list_copies(disk, f"{cluster.brokers[isolated].data_directory}/{DIVERGENT}")
    assert (aside.range.first_offset, aside.range.next_offset) == (0, len(lost))
    assert aside.range.high_watermark == len(lost), "they were committed, and that is what it says"
    assert [record.value for record in read_copy(disk, aside)] == lost


def write(cluster: LocalCluster, leader: int, values: list[bytes]) -> None:
    """Writes to the partition's leader; each value is acknowledged with acks=all."""
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.brokers[leader].endpoint, "acks": "all", "log_level": 0}
    )
    for value in values:
        producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20.0)
    assert errors == [None] * len(values)


def unclean_elections(cluster: LocalCluster) -> int:
    name = "kafka_controller_controllerstats_uncleanleaderelections"
    text = cluster.rest.get("/metrics").text
    values = re.findall(rf"^{name}(?:_total)?(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    assert values, f"/metrics has no {name}"
    return round(sum(map(float, values)))
