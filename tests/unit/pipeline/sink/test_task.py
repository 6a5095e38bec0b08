"""A task's attempt from rows to stored records, over a cluster in memory."""

from __future__ import annotations

import random
import traceback
from collections import Counter

import pyarrow as pa
import pytest

from pipeline.client.values import ProduceResult, TopicPartition, Unsettled
from pipeline.errors import DeliveryFailed, InvalidRows
from pipeline.records.decode import decode_records
from pipeline.records.encode import BatchOptions
from pipeline.sink import resuming
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.identity import derive_identity
from pipeline.sink.murmur2 import murmur2, positive
from pipeline.sink.opening import TopicOpening, fingerprint_of
from pipeline.sink.placement import RowPlacement
from pipeline.sink.plain_task import PlainTaskWriter
from pipeline.sink.steps import Delivered
from pipeline.sink.task import TaskSettings, TaskWriter
from springtide.wire.compression import Compression
from tests.kit.pipeline.memory_cluster import MemoryClient, MemoryCluster

TOPIC = "orders"
DAY_MS = 24 * 60 * 60 * 1000
BATCHES = BatchOptions(compression=Compression.LZ4, batch_bytes_max=1024)


def rows_of(first: int, count: int, *, partitions: int = 2) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        {
            "key": pa.array([f"key {n}".encode() for n in numbers]),
            "value": pa.array([f"value {n}" * 5 for n in numbers]),
            "partition": pa.array([n % partitions for n in numbers], pa.int32()),
        }
    )


ROWS = [rows_of(0, 100), rows_of(100, 30), rows_of(130, 70)]


def opening_of(cluster: MemoryCluster) -> TopicOpening:
    partitions = list(cluster.partitions.values())
    return TopicOpening(
        TOPIC,
        3,
        cluster.now_ms,
        tuple(partition.high_watermark for partition in partitions),
        tuple(partition.leader_epoch for partition in partitions),
        fingerprint_of({}),
    )


def attempt(
    cluster: MemoryCluster, opening: TopicOpening, *, batch_id: int = 3, client: MemoryClient | None = None
) -> TaskWriter:
    settings = TaskSettings(
        identity=derive_identity("sink", batch_id=batch_id, task_index=1),
        task_index=1,
        topic=TOPIC,
        batches=BATCHES,
        delivery=DeliveryOptions(),
        now_ms=lambda: cluster.now_ms,
    )
    return TaskWriter(client or MemoryClient(cluster), settings, lambda topic: opening)  # type: ignore[arg-type]


def write(writer: TaskWriter, rows: list[pa.RecordBatch]) -> dict[TopicPartition, Delivered]:
    for each in rows:
        writer.add(each)
    return dict(writer.finish())


def values(cluster: MemoryCluster) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for where, data in cluster.stored().items():
        decoded = decode_records(data, topic=TOPIC, partition=where.partition)
        found[where.partition] = [
            value.decode() for batch in decoded for value in batch.column("value").to_pylist()
        ]
    return found


def expected(count: int = 200) -> dict[int, list[str]]:
    return {p: [f"value {n}" * 5 for n in range(count) if n % 2 == p] for p in (0, 1)}


def test_rows_are_stored_once_in_order_and_the_report_counts_them() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    report = write(attempt(cluster, opening_of(cluster)), ROWS)
    assert values(cluster) == expected()
    assert {where.partition: each.records for where, each in report.items()} == {0: 100, 1: 100}
    assert len(cluster.sent) > 3  # more than one batch a partition, both partitions in one request
    assert all(len(request) == 2 for request in cluster.sent)
    assert cluster.scans == 0


def test_batches_are_sent_and_answered_while_rows_are_taken_in() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    writer = attempt(cluster, opening_of(cluster))
    stored = []
    for each in ROWS:
        writer.add(each)
        stored.append(sum(map(len, values(cluster).values())))
    assert 0 < stored[0] < stored[1] < stored[2] < 200
    assert {len(request) for request in cluster.sent} == {2}
    writer.finish()
    assert values(cluster) == expected()


def test_a_pause_of_one_partition_holds_up_no_rows_and_ends_in_its_time() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    writer = attempt(cluster, opening_of(cluster))
    cluster.lose_answers = 1
    writer.add(ROWS[0])
    writer.add(ROWS[1])
    assert len(cluster.sent) == 1
    assert cluster.pauses == 0
    cluster.now_ms += 100
    writer.add(rows_of(130, 70))
    assert len(cluster.sent) == 2
    assert cluster.pauses == 0
    writer.finish()
    assert values(cluster) == expected()


def test_a_micro_batch_whose_opening_is_gone_is_refused_soon_with_the_way_out() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    write(attempt(cluster, opening_of(cluster)), ROWS)
    began_ms, sent = cluster.now_ms, len(cluster.sent)
    with pytest.raises(DeliveryFailed, match="has written before, and its checkpoint does not") as raised:
        write(attempt(cluster, opening_of(cluster)), ROWS)
    assert cluster.now_ms - began_ms < 1_000
    assert len(cluster.sent) == sent
    told = "".join(traceback.format_exception(raised.value))
    assert "give the sink a new name (option 'sinkId')" in told, "Spark shows a traceback and no more"


@pytest.mark.parametrize("is_wide", [True, False])
def test_another_attempt_of_the_same_rows_adds_nothing_however_they_are_chunked(is_wide: bool) -> None:
    cluster = MemoryCluster.of(TOPIC, 2, is_wide=is_wide)
    opening = opening_of(cluster)
    write(attempt(cluster, opening), ROWS)
    sent = len(cluster.sent)
    write(attempt(cluster, opening), [rows_of(0, 200)])
    assert values(cluster) == expected()
    assert len(cluster.sent) == sent


def test_an_attempt_goes_on_where_the_one_before_died() -> None:
    cluster = MemoryCluster.of(TOPIC, 2, is_wide=False)
    opening = opening_of(cluster)
    dying = attempt(cluster, opening)
    dying.add(ROWS[0])
    for _ in range(3):
        dying._run_round()
    stored = sum(len(each) for each in values(cluster).values())
    assert 0 < stored < 100
    write(attempt(cluster, opening), ROWS)
    assert values(cluster) == expected()


@pytest.mark.parametrize("lost", ["lose_requests", "lose_answers"])
def test_lost_requests_and_answers_change_nothing(lost: str) -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    setattr(cluster, lost, 3)
    write(attempt(cluster, opening_of(cluster)), ROWS)
    assert values(cluster) == expected()
    assert cluster.pauses >= 3


def test_when_the_brokers_have_forgotten_the_producer_the_log_is_read() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    write(attempt(cluster, opening), [ROWS[0], rows_of(100, 0)])
    half = {p: len(each) for p, each in values(cluster).items()}
    cluster.now_ms += 2 * DAY_MS
    write(attempt(cluster, opening), [rows_of(0, 100)])
    assert {p: len(each) for p, each in values(cluster).items()} == half
    assert cluster.scans == 2


def test_a_leader_that_moved_meanwhile_is_asked_again_and_what_is_known_of_its_log_is_not_read() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    client = MemoryClient(cluster)
    writer = attempt(cluster, opening, client=client)
    writer.add(ROWS[0])
    for _ in range(3):
        writer._run_round()
    for partition in cluster.partitions.values():
        partition.elect(1)
    client.refresh([TOPIC])
    sent = len(cluster.sent)
    writer._run_round()
    assert len(cluster.sent) == sent  # nothing follows a new leader unasked
    for each in ROWS[1:]:
        writer.add(each)
    report = writer.finish()
    assert values(cluster) == expected()
    assert {each.leader_epoch for each in report.values()} == {1}
    assert cluster.scans == 0


def test_a_later_micro_batch_fences_an_attempt_of_an_earlier_one() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    write(attempt(cluster, opening_of(cluster), batch_id=4), ROWS)
    with pytest.raises(DeliveryFailed, match="later micro-batch"):
        write(attempt(cluster, opening_of(cluster), batch_id=3), ROWS)
    assert values(cluster) == expected()


def test_rows_that_are_fewer_than_the_first_attempts_are_refused() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    write(attempt(cluster, opening), ROWS)
    with pytest.raises(DeliveryFailed, match=r"25 of them\. A task's rows may come in another order"):
        write(attempt(cluster, opening), [rows_of(0, 150)])


def test_rows_that_are_others_are_refused_before_any_is_written() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    dying = attempt(cluster, opening)
    dying.add(ROWS[0])
    dying._run_round()
    stored = values(cluster)
    assert stored
    with pytest.raises(DeliveryFailed, match="not among this attempt's rows"):
        write(attempt(cluster, opening), [rows_of(1_000, 200)])
    assert values(cluster) == stored


# Rows that come in another order, as after any shuffle.


def shuffled(rows: pa.RecordBatch, seed: int) -> list[pa.RecordBatch]:
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return [rows.take(pa.array(order[first : first + 64])) for first in range(0, len(order), 64)]


def headed(count: int) -> pa.RecordBatch:
    """With headers, nulls, timestamps and rows that are the same."""
    numbers = range(count)
    return pa.record_batch(
        {
            "key": pa.array([None if n % 3 == 0 else f"key {n % 7}".encode() for n in numbers], pa.binary()),
            "value": pa.array([None if n % 11 == 0 else f"value {n // 4}" * 5 for n in numbers]),
            "partition": pa.array([None if n % 2 else n % 4 for n in numbers], pa.int32()),
            "timestamp": pa.array(
                [None if n % 5 == 0 else 1_700_000_000_000_000 + n // 3 * 1_000 for n in numbers],
                pa.timestamp("us", tz="UTC"),
            ),
            "headers": pa.array(
                [None if n % 4 else [{"key": "h", "value": str(n % 3).encode()}] for n in numbers],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def records(cluster: MemoryCluster) -> Counter[str]:
    """All that is stored, wherever it is."""
    found: Counter[str] = Counter()
    for where, data in cluster.stored().items():
        for batch in decode_records(
            data,
            topic=TOPIC,
            partition=where.partition,
            columns=["key", "value", "timestamp", "headers"],
        ):
            found.update(str(row) for row in batch.to_pylist())
    return found


@pytest.mark.parametrize("is_wide", [True, False])
def test_an_attempt_in_another_order_adds_what_is_missing_wherever_the_one_before_died(is_wide: bool) -> None:
    """At each point: nothing stored, after each round, and all stored. Rows without key or partition are
    dealt out otherwise, and are found where they are."""
    rows = headed(400)
    whole = MemoryCluster.of(TOPIC, 4, is_wide=is_wide)
    opening = opening_of(whole)
    write(attempt(whole, opening), [rows])
    wanted = records(whole)
    assert max(wanted.values()) > 1
    rounds = len(whole.sent) + 3
    resumed = 0
    for died_after in range(rounds):
        cluster = MemoryCluster.of(TOPIC, 4, is_wide=is_wide)
        dying = attempt(cluster, opening)
        dying._held_bytes_max = 10**9
        dying.add(rows)
        for _ in range(died_after):
            if dying._wanted:
                dying._run_round()
        stored = records(cluster).total()
        resumed += 0 < stored < rows.num_rows
        report = write(attempt(cluster, opening), shuffled(rows, died_after))
        assert records(cluster) == wanted, died_after
        assert sum(each.records for each in report.values()) == rows.num_rows
    assert resumed > 5


def test_where_brokers_stamp_records_timestamps_are_not_compared() -> None:
    cluster = MemoryCluster.of(TOPIC, 4, stamps=True)
    opening = opening_of(cluster)
    dying = attempt(cluster, opening)
    dying.add(headed(300))
    for _ in range(4):
        dying._run_round()
    assert 0 < records(cluster).total() < 300
    write(attempt(cluster, opening), shuffled(headed(300), 1))
    assert records(cluster).total() == 300


def test_of_two_attempts_at_a_time_in_other_orders_one_ends_and_nothing_is_lost() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    one, other = attempt(cluster, opening), attempt(cluster, opening)
    others = shuffled(rows_of(0, 200), 1)
    other.add(others[0].slice(0, 4))
    one.add(rows_of(0, 200))
    assert cluster.sent
    with pytest.raises(DeliveryFailed, match="at the same time"):
        write(other, [others[0].slice(4), *others[1:]])
    one.finish()
    assert {p: sorted(each) for p, each in values(cluster).items()} == {
        p: sorted(each) for p, each in expected().items()
    }


def test_more_stored_records_than_can_be_compared_end_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    opening = opening_of(cluster)
    write(attempt(cluster, opening), ROWS)
    monkeypatch.setattr(resuming, "STORED_MAX", 150)
    with pytest.raises(DeliveryFailed, match="smaller tasks"):
        write(attempt(cluster, opening), ROWS)
    assert values(cluster) == expected()


def test_at_least_once_writes_everything_in_order_and_again_when_repeated() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    for repetition in (1, 2):
        placement = RowPlacement(topic=TOPIC, task_index=0, partition_count=lambda topic: 2)
        writer = PlainTaskWriter(
            MemoryClient(cluster),  # type: ignore[arg-type]
            placement=placement,
            batches=BATCHES,
            now_ms=lambda: 5,
        )
        for each in ROWS:
            writer.add(each)
        assert writer.finish() == {TopicPartition(TOPIC, 0): 100, TopicPartition(TOPIC, 1): 100}
        assert values(cluster) == {p: each * repetition for p, each in expected().items()}


def test_at_least_once_sends_again_what_was_not_answered_before_what_follows() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    cluster.lose_requests, cluster.lose_answers = 1, 1
    placement = RowPlacement(topic=TOPIC, task_index=0, partition_count=lambda topic: 2)
    writer = PlainTaskWriter(MemoryClient(cluster), placement=placement, batches=BATCHES, now_ms=lambda: 5)  # type: ignore[arg-type]
    for each in ROWS:
        writer.add(each)
        assert cluster.sent
    writer.finish()
    for partition, each in values(cluster).items():
        assert list(dict.fromkeys(each)) == expected()[partition]
        assert len(each) > 100  # the batch whose answer was lost is there twice


class LaterClient(MemoryClient):
    """Its answers come when `has_come` says so."""

    has_come = False

    def take(self, *, wait_ms: int) -> dict[TopicPartition, ProduceResult | Unsettled]:
        return super().take(wait_ms=wait_ms) if self.has_come else {}


def test_at_least_once_sends_the_next_batches_in_the_round_that_takes_in_answers() -> None:
    cluster = MemoryCluster.of(TOPIC, 2)
    client = LaterClient(cluster)
    placement = RowPlacement(topic=TOPIC, task_index=0, partition_count=lambda topic: 2)
    writer = PlainTaskWriter(client, placement=placement, batches=BATCHES, now_ms=lambda: 5)  # type: ignore[arg-type]
    writer.add(rows_of(0, 200))
    under_way = len(cluster.sent)
    client.has_come = True
    writer.add(rows_of(200, 1))
    assert len(cluster.sent) == 2 * under_way > 0


# Placement.


@pytest.mark.parametrize("numbers", [(3, 0, 3, 0), (2**16 + 4, 4, 2**16 + 4, 4)])
def test_each_partition_gets_its_rows_at_once_and_in_order(numbers: tuple[int, ...]) -> None:
    placement = RowPlacement(topic=TOPIC, task_index=0, partition_count=lambda topic: max(numbers) + 1)
    rows = pa.record_batch(
        {"value": pa.array(["a", "b", "c", "d"]), "partition": pa.array(numbers, pa.int32())}
    )
    split = [(where.partition, some["value"].to_pylist()) for where, some in placement.split(rows)]
    assert split == [(numbers[1], ["b", "d"]), (numbers[0], ["a", "c"])]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_own_test(key: bytes, hashed: int) -> None:
    assert murmur2(pa.array([key])).tolist() == [hashed & 0xFFFFFFFF]


def test_murmur2_of_many_keys_is_that_of_another_client() -> None:
    other = pytest.importorskip("kafka.partitioner.default")
    keys = [bytes((i * 7 + j * 31) % 256 for j in range(i % 41)) for i in range(500)]
    hashed = murmur2(pa.array([b"before", *keys], pa.binary()).slice(1))
    assert hashed.tolist() == [other.murmur2(key) & 0xFFFFFFFF for key in keys]
    assert positive(hashed).tolist() == [other.murmur2(key) & 0x7FFFFFFF for key in keys]
    assert murmur2(pa.array([], pa.binary())).tolist() == []


def placement(*, topic: str | None = TOPIC, count: int = 3, task_index: int = 0) -> RowPlacement:
    return RowPlacement(topic=topic, task_index=task_index, partition_count=lambda name: count)


def test_a_partition_column_wins_then_the_key_then_turns() -> None:
    rows = pa.record_batch(
        {
            "key": pa.array([b"21", b"21", None, None], pa.binary()),
            "value": pa.array([b"a", b"b", b"c", b"d"]),
            "partition": pa.array([2, None, 1, None], pa.int32()),
        }
    )
    keyed = (-973932308 & 0x7FFFFFFF) % 3
    found = {where.partition: some.column("value").to_pylist() for where, some in placement().split(rows)}
    wanted: dict[int, list[bytes]] = {}
    for partition, value in ((2, b"a"), (keyed, b"b"), (1, b"c"), (0, b"d")):
        wanted.setdefault(partition, []).append(value)
    assert found == wanted


def test_rows_without_a_key_take_turns_wherever_chunks_end() -> None:
    def counts(*sizes: int) -> dict[int, int]:
        one, found = placement(task_index=2), dict.fromkeys(range(3), 0)
        for size in sizes:
            for where, some in one.split(pa.record_batch({"value": pa.array([b"v"] * size)})):
                found[where.partition] += some.num_rows
        return found

    assert counts(2500) == {0: 1024, 1: 452, 2: 1024} == counts(1000, 1, 1499)


def test_rows_find_their_topics() -> None:
    rows = pa.record_batch({"topic": ["a", "b", "a"], "value": [b"1", b"2", b"3"]})
    found = [(w.topic, some.column("value").to_pylist()) for w, some in placement(topic=None).split(rows)]
    assert found == [("a", [b"1", b"3"]), ("b", [b"2"])]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    rows = pa.record_batch({"value": [b"1"], "partition": pa.array([partition], pa.int32())})
    with pytest.raises(InvalidRows, match="partitions 0 to 2"):
        list(placement().split(rows))


def test_a_null_topic_is_refused() -> None:
    rows = pa.record_batch({"topic": ["a", None], "value": [b"1", b"2"]})
    with pytest.raises(InvalidRows, match="null topic"):
        list(placement(topic=None).split(rows))
