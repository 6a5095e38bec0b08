"""The client against brokers that are processes: what it sends is understood, what they say comes back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import BrokerError, OffsetsGone, RetriesExhausted
from pipeline.client.values import (
    EARLIEST,
    LATEST,
    FoundOffset,
    PartitionRange,
    TopicPartition,
    Unsettled,
)
from pipeline.records.decode import decode_records
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch

PRODUCER_ID = 2**62 + 77


def batch_of(values: Sequence[bytes], *, first_sequence: int = -1, epoch: int = 3) -> bytes:
    records = [NewRecord(b"k", value, 1_700_000_000_000 + n) for n, value in enumerate(values)]
    if first_sequence < 0:
        return encode_batch(records)
    return encode_batch(records, producer_id=PRODUCER_ID, producer_epoch=epoch, base_sequence=first_sequence)


def values_of(client: Client, ranges: Sequence[PartitionRange]) -> dict[int, list[bytes]]:
    got: dict[int, list[bytes]] = {}
    bounds = {one.where: one for one in ranges}
    with client.fetch(ranges) as stream:
        for fetched in stream:
            for rows in decode_records(
                fetched.records,
                topic=fetched.where.topic,
                partition=fetched.where.partition,
                columns=("value",),
                first_offset=fetched.start_offset,
                end_offset=bounds[fetched.where].end_offset,
            ):
                got.setdefault(fetched.where.partition, []).extend(rows["value"].to_pylist())
    return got


def test_what_was_produced_is_found_and_fetched(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic("client", partitions=4)
    partitions = [TopicPartition(topic, number) for number in range(4)]
    for round_number in range(3):
        results = client.produce(
            {
                where: batch_of([b"%d-%d-%d" % (where.partition, round_number, n) for n in range(100)])
                for where in partitions
            }
        )
        assert {result.base_offset for result in results.values()} == {round_number * 100}
    assert client.list_offsets(dict.fromkeys(partitions, LATEST))[partitions[3]].offset == 300
    assert client.list_offsets({partitions[0]: EARLIEST})[partitions[0]].offset == 0
    found = client.list_offsets({partitions[0]: 1_700_000_000_050})[partitions[0]]
    assert found == FoundOffset(50, 1_700_000_000_050, found.leader_epoch)
    assert client.list_offsets({partitions[0]: 1_800_000_000_000})[partitions[0]].offset == -1

    got = values_of(client, [PartitionRange(topic, number, 50, 250) for number in range(4)])
    assert {number: len(values) for number, values in got.items()} == dict.fromkeys(range(4), 200)
    assert got[2][0] == b"2-0-50"
    assert got[2][-1] == b"2-2-49"

    ends = client.epoch_ends({partitions[0]: found.leader_epoch})
    assert ends[partitions[0]] == (found.leader_epoch, 300)
    known = client.metadata([topic]).topics[topic]
    assert sorted(known.partitions) == [0, 1, 2, 3]
    assert uuid.UUID(known.topic_id).int != 0
    assert sorted(known.partitions[0].replicas) == [1, 2, 3]


def test_a_producer_that_names_itself_is_described(client: Client, make_topic: Callable[..., str]) -> None:
    where = TopicPartition(make_topic("described"), 0)
    assert client.describe_producers([where]) == {where: ()}
    client.produce({where: batch_of([b"a", b"b", b"c"], first_sequence=0)})
    again = client.produce({where: batch_of([b"a", b"b", b"c"], first_sequence=0)})
    assert again[where].error is ErrorCode.NONE
    (state,) = client.describe_producers([where])[where]
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (PRODUCER_ID, 3, 2)
    assert client.list_offsets({where: LATEST})[where].offset == 3
    gap = client.produce_once({where: batch_of([b"x"], first_sequence=9)})[where]
    assert not isinstance(gap, Unsettled)
    assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        client.produce({where: batch_of([b"x"], first_sequence=0, epoch=2)})


def test_followers_give_the_same_records(
    client: Client, make_topic: Callable[..., str], running_cluster: LocalCluster
) -> None:
    topic = make_topic("followed")
    where = TopicPartition(topic, 0)
    client.produce({where: batch_of([b"%d" % n for n in range(500)])})
    leader = running_cluster.leader(topic, 0)
    for replica_id in (1, 2, 3):
        with client.fetch([PartitionRange(topic, 0, 0, 500)], replica_id=replica_id) as stream:
            parts = [(one.start_offset, one.next_offset) for one in stream]
        starts, ends = [first for first, _ in parts], [last for _, last in parts]
        assert starts == [0, *ends[:-1]], f"replica {replica_id}, leader {leader}"
        assert ends[-1] == 500


def test_what_is_not_there_is_told(client: Client, make_topic: Callable[..., str]) -> None:
    where = TopicPartition(make_topic("short"), 0)
    client.produce({where: batch_of([b"a"])})
    with pytest.raises(OffsetsGone, match="offset 5 is out of range, the log holds 0 to 0"):
        list(client.fetch([PartitionRange(*where, 5, 9)]))
    missing = TopicPartition("never-made", 0)
    impatient = Client(ClientConfig(bootstrap=client.config.bootstrap, unknown_topic_budget_ms=300))
    with pytest.raises((RetriesExhausted, BrokerError), match="never-made"):
        impatient.list_offsets({missing: LATEST})


def test_many_small_partitions_share_requests(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic("many", partitions=60)
    client.produce({TopicPartition(topic, number): batch_of([b"%d" % number]) for number in range(60)})
    got = values_of(client, [PartitionRange(topic, number, 0, 1) for number in range(60)])
    assert got == {number: [b"%d" % number] for number in range(60)}
