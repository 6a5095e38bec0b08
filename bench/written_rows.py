"""Topics written into ZooKeeper as a controller writes them, while no controller runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from kazoo.client import KazooClient

from controller.core.records import Cause, Change, PartitionRecord, TopicRecord
from controller.shell.rows import (
    PARTITIONS_PER_CHUNK,
    HeadRow,
    chunk_path,
    chunks_of,
    encode_chunk,
    encode_row,
    head_path,
    topic_path,
)
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState

ROOT: Final = "/springtide"
WRITE_BYTES: Final = 500_000
WRITE_ZNODES: Final = 1_000
REPLICATION_FACTOR: Final = 3
_CHANGE: Final = Change(cause=Cause.TOPIC_CREATED, at_ms=1_700_000_000_000, actor="bench")


def write_rows(hosts: str, cluster: str, *, brokers: Sequence[int], topics: int, partitions: int) -> None:
    """Write `topics` topics of so many `partitions`, healthy, as if it was long ago; the head counts their
    records."""
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        path = ROOT + head_path(cluster)
        head = msgspec.json.decode(client.get(path)[0], type=HeadRow)
        records = head.records
        multi, size, count = client.transaction(), 0, 0
        for znode, data, new_records in znodes(cluster, brokers, topics, partitions, records):
            multi.create(ROOT + znode, data)
            size, count, records = size + len(data), count + 1, records + new_records
            if size > WRITE_BYTES or count > WRITE_ZNODES:
                _commit(multi)
                multi, size, count = client.transaction(), 0, 0
        multi.set_data(path, msgspec.json.encode(msgspec.structs.replace(head, records=records)))
        _commit(multi)
    finally:
        client.stop()
        client.close()


def _commit(multi: object) -> None:
    failed = [answer for answer in multi.commit() if isinstance(answer, Exception)]  # type: ignore[attr-defined]
    assert not failed, failed


def znodes(
    cluster: str, brokers: Sequence[int], topics: int, partitions: int, records: int
) -> Iterator[tuple[str, bytes, int]]:
    """Yield a topic's znode, then its chunks: path, data, and how many records they stand for."""
    for number in range(topics):
        topic_id, topic = f"{number:022d}", f"topic-{number:06d}"
        records += partitions + 1
        state = TopicState(
            topic_id=topic_id, topic=topic, partitions=partitions, replication_factor=REPLICATION_FACTOR
        )
        row = encode_row(TopicRecord(state=state, change=_CHANGE), records)
        yield topic_path(cluster, topic_id), row, 1
        for chunk in chunks_of(partitions):
            first = chunk * PARTITIONS_PER_CHUNK
            rows = [
                PartitionRecord(
                    state=healthy(topic_id, topic, at, _replicas(brokers, number + at)), change=_CHANGE
                )
                for at in range(first, min(first + PARTITIONS_PER_CHUNK, partitions))
            ]
            yield chunk_path(cluster, topic_id, chunk), encode_chunk(topic, topic_id, rows), len(rows)


def _replicas(brokers: Sequence[int], turn: int) -> tuple[int, ...]:
    return tuple(brokers[(turn + place) % len(brokers)] for place in range(REPLICATION_FACTOR))


def healthy(topic_id: str, topic: str, partition: int, replicas: tuple[int, ...]) -> PartitionState:
    """The state of a partition that its first replica leads, with all of them in sync."""
    return PartitionState(
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        replicas=replicas,
        leader=replicas[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=replicas,
        min_insync_replicas=REPLICATION_FACTOR // 2 + 1,
    )
