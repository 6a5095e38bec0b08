"""What a task reads, from scripted brokers that hold real record batches. No Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from pipeline.client.config import ClientConfig
from pipeline.client.values import PartitionRange
from pipeline.errors import DataLossError
from pipeline.records.decode import PLAIN_COLUMNS, record_schema
from pipeline.records.headers import HEADER_SCHEMA
from pipeline.source.options import Isolation, SourceView, TaskReading
from pipeline.source.reading import DamagedRecords, joined, read_ranges
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.brokers import Says, ScriptedBroker, metadata_of

BATCH_RECORDS = 10


class Log:
    """Partitions of topic t on one broker, in batches of ten records, from offset `begins` on."""

    def __init__(self, broker: ScriptedBroker, partitions: int) -> None:
        self.broker = broker
        self.begins = 0
        self.batches: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(partitions)}
        self.aborted: list[dict[str, int]] = []
        broker.handlers[ApiKey.METADATA] = lambda _: metadata_of(
            {1: broker}, {("t", number): 1 for number in self.batches}
        )
        broker.handlers[ApiKey.LIST_OFFSETS] = self._list_offsets
        broker.handlers[ApiKey.FETCH] = self._fetch

    def write(self, partition: int, batches: int, **kind: Any) -> None:
        for _ in range(batches):
            first = self.end(partition)
            records = [
                NewRecord(b"k", b"%d:%d" % (partition, first + n), 1_700_000_000_000 + first + n)
                for n in range(BATCH_RECORDS)
            ]
            self.batches[partition].append((first, encode_batch(records, base_offset=first, **kind)))

    def end(self, partition: int) -> int:
        return len(self.batches[partition]) * BATCH_RECORDS

    def _list_offsets(self, message: Any) -> Says:
        (topic,) = message.topics
        rows = [
            {
                "partition_index": one.partition_index,
                "offset": self.begins if one.timestamp == -2 else self.end(one.partition_index),
            }
            for one in topic.partitions
        ]
        return {"topics": [{"name": "t", "partitions": rows}]}

    def _fetch(self, message: Any) -> Says:
        (topic,) = message.topics
        rows = []
        for one in topic.partitions:
            held = [data for first, data in self.batches[one.partition] if first + 10 > one.fetch_offset]
            is_there = self.begins <= one.fetch_offset <= self.end(one.partition)
            rows.append(
                {
                    "partition_index": one.partition,
                    "error_code": ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE,
                    "preferred_read_replica": -1,
                    "high_watermark": self.end(one.partition),
                    "aborted_transactions": self.aborted or None,
                    "records": b"".join(held[:3]) if is_there else None,
                }
            )
        return {"responses": [{"topic": "t", "partitions": rows}]}

    def reading(self, **fields: Any) -> TaskReading:
        values: dict[str, Any] = {
            "client": ClientConfig(bootstrap=(self.broker.address,), fetch_max_wait_ms=10),
            "view": SourceView.RECORDS,
            "columns": PLAIN_COLUMNS,
            **fields,
        }
        return TaskReading(**values)


@pytest.fixture
def log() -> Iterator[Log]:
    with ExitStack() as stack:
        yield Log(stack.enter_context(ScriptedBroker({})), 3)


def values(batches: Iterator[pa.RecordBatch]) -> dict[int, list[str]]:
    got: dict[int, list[str]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            got.setdefault(row["partition"], []).append(row["value"].decode())
    return got


def test_the_next_task_of_a_process_knows_who_leads_until_it_is_told_otherwise(log: Log) -> None:
    log.write(0, 1)
    one = [PartitionRange("t", 0, 0, 10)]
    for _ in range(3):
        assert len(values(read_ranges(log.reading(), one))[0]) == 10
    assert log.broker.times_asked(ApiKey.METADATA) == 1
    assert len(values(read_ranges(log.reading(replica_id=1), one))[0]) == 10
    assert log.broker.times_asked(ApiKey.METADATA) == 2, "who is in sync is asked each time"
    with ScriptedBroker({}) as next_leader:
        moved = Log(next_leader, 3)
        moved.batches = log.batches
        log.broker.handlers[ApiKey.METADATA] = lambda _: metadata_of(
            {1: log.broker, 2: next_leader}, {("t", number): 2 for number in log.batches}
        )
        refused = {"partition_index": 0, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
        log.broker.handlers[ApiKey.FETCH] = lambda _: {"responses": [{"topic": "t", "partitions": [refused]}]}
        assert len(values(read_ranges(log.reading(), one))[0]) == 10
        assert next_leader.times_asked(ApiKey.FETCH) == 1


def test_a_task_that_failed_leaves_nothing_for_the_next_to_believe(log: Log) -> None:
    log.write(0, 1)
    for _ in range(2):
        with pytest.raises(DataLossError):
            list(read_ranges(log.reading(), [PartitionRange("t", 0, 40, 50)]))
    asked = log.broker.times_asked(ApiKey.METADATA)
    list(read_ranges(log.reading(), [PartitionRange("t", 0, 0, 10)]))
    assert log.broker.times_asked(ApiKey.METADATA) == asked + 1


def test_exactly_the_ranges_are_read_in_order(log: Log) -> None:
    for partition, codec in enumerate((Compression.NONE, Compression.LZ4, Compression.ZSTD)):
        log.write(partition, 20, compression=codec)
    ranges = [PartitionRange("t", 0, 5, 93), PartitionRange("t", 1, 0, 1), PartitionRange("t", 2, 199, 200)]
    reading = pickle.loads(pickle.dumps(log.reading()))
    batches = list(read_ranges(reading, ranges))
    assert all(batch.schema.equals(record_schema()) for batch in batches)
    assert values(iter(batches)) == {
        one.partition: [f"{one.partition}:{n}" for n in range(one.start_offset, one.end_offset)]
        for one in ranges
    }


def test_only_the_columns_asked_for_are_there(log: Log) -> None:
    log.write(0, 1)
    (batch,) = read_ranges(log.reading(columns=("offset", "headers")), [PartitionRange("t", 0, 0, 10)])
    assert batch.schema.equals(record_schema(("offset", "headers")))
    assert batch["offset"].to_pylist() == list(range(10))


def test_small_record_batches_are_joined(log: Log) -> None:
    log.write(0, 20)
    log.write(1, 20)
    ranges = [PartitionRange("t", 0, 0, 200), PartitionRange("t", 1, 0, 200)]
    (batch,) = read_ranges(log.reading(), ranges)
    assert batch.num_rows == 400


def test_joining_keeps_rows_and_their_order() -> None:
    rows = [pa.RecordBatch.from_pydict({"n": list(range(n, n + 10))}) for n in range(0, 100, 10)]
    grouped = list(joined(iter(rows), bytes_min=200))
    assert [n for batch in grouped for n in batch["n"].to_pylist()] == list(range(100))
    assert [batch.num_rows for batch in grouped] == [30, 30, 30, 10]
    assert list(joined(iter(rows[:2]), bytes_min=80)) == rows[:2]
    assert list(joined(iter([]))) == []


def test_what_is_gone_is_a_loss_that_says_how_to_go_on(log: Log) -> None:
    log.write(0, 5)
    log.begins = 20
    ranges = [PartitionRange("t", 0, 5, 40)]
    with pytest.raises(DataLossError, match=r"t-0: offset 5 is out of range.*failOnDataLoss"):
        list(read_ranges(log.reading(), ranges))
    got = values(read_ranges(log.reading(fail_on_data_loss=False), ranges))
    assert got == {0: [f"0:{n}" for n in range(20, 40)]}


def test_damage_is_told_with_its_place(log: Log) -> None:
    log.write(0, 4)
    first, data = log.batches[0][2]
    log.batches[0][2] = (first, data[:-1] + bytes([data[-1] ^ 1]))
    read = read_ranges(log.reading(), [PartitionRange("t", 0, 0, 40)])
    with pytest.raises(DamagedRecords, match=r"t-0, fetched from offset 0: .*base offset 20"):
        list(read)


def test_transactions_that_were_aborted_are_left_out_where_that_was_asked(log: Log) -> None:
    log.write(0, 1, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.write(0, 1, producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.aborted = [{"producer_id": 7, "first_offset": 0}]
    ranges = [PartitionRange("t", 0, 0, 20)]
    committed = log.reading(isolation=Isolation.READ_COMMITTED)
    assert values(read_ranges(committed, ranges)) == {0: [f"0:{n}" for n in range(10, 20)]}
    fetches = [message for api, message in log.broker.asked if api is ApiKey.FETCH]
    assert {one.isolation_level for one in fetches} == {1}
    assert len(values(read_ranges(log.reading(), ranges))[0]) == 20


def test_each_batch_is_in_one_tasks_rows_however_ranges_are_cut(log: Log) -> None:
    log.write(0, 10)
    reading = log.reading(view=SourceView.BATCHES, columns=tuple(HEADER_SCHEMA.names))
    for cuts in ([0, 100], [0, 33, 35, 60, 61, 100]):
        found: list[int] = []
        for first, last in pairwise(cuts):
            for batch in read_ranges(reading, [PartitionRange("t", 0, first, last)]):
                assert batch.schema.equals(HEADER_SCHEMA)
                found += batch["base_offset"].to_pylist()
        assert found == list(range(0, 100, 10))
    raw = log.reading(view=SourceView.BATCHES, columns=("base_offset", "raw"))
    (batch,) = read_ranges(raw, [PartitionRange("t", 0, 90, 100)])
    assert batch.to_pylist() == [{"base_offset": 90, "raw": log.batches[0][9][1]}]
