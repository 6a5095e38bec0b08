"""The client while brokers die: nothing is lost, nothing comes twice, nothing out of order."""

from __future__ import annotations

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import LATEST, PartitionRange, TopicPartition
from springtide.wire.records import NewRecord, encode_batch

BATCHES = 120
RECORDS = 20
PRODUCER_ID = 2**62 + 5


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_leader_may_die_under_a_fetch_and_under_a_produce() -> None:
    with LocalCluster(brokers=3) as cluster:
        cluster.form()
        cluster.create_topic("t", partitions=1, replication_factor=3)
        where = TopicPartition("t", 0)
        config = ClientConfig(
            bootstrap=parse_bootstrap(cluster.bootstrap_servers), max_partition_fetch_bytes=128 * 1024
        )
        sent: list[bytes] = []

        def produce(client: Client, count: int) -> None:
            for _ in range(count):
                values = [b"%06d" % (len(sent) + n) + bytes(400) for n in range(RECORDS)]
                batch = encode_batch(
                    [NewRecord(None, value, 1) for value in values],
                    producer_id=PRODUCER_ID,
                    producer_epoch=0,
                    base_sequence=len(sent),
                )
                client.produce({where: batch})
                sent.extend(values)

        with Client(config) as client:
            produce(client, BATCHES)
            total = BATCHES * RECORDS
            with client.fetch([PartitionRange("t", 0, 0, total)]) as stream:
                first = next(stream)
                killed = cluster.leader("t", 0)
                cluster.kill_broker(killed)
                ranges = [(first.start_offset, first.next_offset)]
                ranges += [(one.start_offset, one.next_offset) for one in stream]
            assert len(ranges) > 3, "the kill came in the middle"
            assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
            assert ranges[-1][1] == total

            produce(client, 5)
            cluster.start_broker(killed)
            cluster.wait_until_in_sync("t")
            again = cluster.leader("t", 0)
            cluster.kill_broker(again)
            produce(client, 5)
            assert client.list_offsets({where: LATEST})[where].offset == len(sent)
