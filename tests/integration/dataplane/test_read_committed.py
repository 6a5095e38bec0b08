"""Readers of committed records, and the tools that look at what is open, at a real broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio

from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import TOPIC_ID_SINCE
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.fake_coordinator import fake_coordinator
from tests.kit.dataplane.one_broker import on_a_broker
from tests.kit.dataplane.raw import Raw, connected
from tests.kit.dataplane.transactional import Producer, latest_offset, read, write_marker

NONE = ErrorCode.NONE

Test = Callable[[Raw, ClusterInProcess], Awaitable[None]]


def with_coordinator(tmp_path: Path, test: Test) -> None:
    """Run `test` with a connection to broker 1, which leads "orders"-0 alone; all it asks is confirmed."""

    async def run(raw: Raw, cluster: ClusterInProcess) -> None:
        async with fake_coordinator(cluster.brokers[1].broker):
            await test(raw, cluster)

    on_a_broker(tmp_path, run)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_committed_reader_waits_for_the_end_and_is_told_what_was_aborted(
    tmp_path: Path, version: int
) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess) -> None:
        (topic_id,) = cluster.controller.image.topics
        topic = topic_id_bytes(topic_id) if version >= TOPIC_ID_SINCE else "orders"
        how: dict[str, Any] = {"version": version, "topic": topic}
        first, second = Producer(raw, "a", producer_id=1), Producer(raw, "b", producer_id=2)
        assert await first.produce(b"1") == (NONE, 0)
        assert await second.produce(b"2") == (NONE, 1)
        assert await raw.produce("orders", [b"plain"]) == (NONE, 2)

        answered = await read(raw, **how)
        assert answered[:4] == (NONE, 3, 0, [])
        assert answered.batches == []
        everything = await read(raw, is_committed=False, **how)
        assert everything.aborted == []
        assert everything.batches == [(1, [b"1"]), (2, [b"2"]), (-1, [b"plain"])]
        assert await latest_offset(raw, is_committed=True) == (NONE, 0)
        assert await latest_offset(raw, is_committed=False) == (NONE, 3)

        assert await second.end() is NONE  # aborted, behind an open one
        assert (await read(raw, **how)).last_stable_offset == 0
        assert await first.end(commits=True) is NONE
        answered = await read(raw, **how)
        assert answered[:4] == (NONE, 5, 5, [(2, 1)])
        assert answered.batches == [(1, [b"1"]), (2, [b"2"]), (-1, [b"plain"])]
        assert await latest_offset(raw, is_committed=True) == (NONE, 5)
        assert not (await read(raw, 4, **how)).aborted  # its marker, at 3, lies before

    with_coordinator(tmp_path, test)


def test_a_waiting_committed_reader_is_woken_by_the_end(tmp_path: Path) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess) -> None:
        producer = Producer(raw)
        assert await producer.produce(b"a") == (NONE, 0)
        async with connected(cluster.brokers[1].port) as reader, trio.open_nursery() as nursery:
            answers = []

            async def wait() -> None:
                answers.append(await read(reader, max_wait_ms=60_000))

            nursery.start_soon(wait)
            await trio.sleep(0.2)
            assert await producer.produce(b"b") == (NONE, 1)
            await trio.sleep(0.1)
            assert answers == []
            assert await producer.end(commits=True) is NONE
            with trio.fail_after(20):
                while not answers:  # noqa: ASYNC110 - a test's own polling
                    await trio.sleep(0.01)
        assert answers[0].batches == [(7, [b"a"]), (7, [b"b"])]

    with_coordinator(tmp_path, test)


def test_a_follower_serves_committed_readers_as_its_leader_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "2"})
            leader, follower = (cluster.brokers[number].broker for number in (1, 2))
            await cluster.controller.wait_for(
                lambda: all(one.table.get(topic_id, 0) is not None for one in (leader, follower)), "hosted"
            )
            async with (
                fake_coordinator(leader),
                connected(cluster.brokers[1].port) as raw,
                connected(cluster.brokers[2].port) as other,
            ):
                epoch = cluster.controller.state(topic_id).leader_epoch
                aborts, commits = Producer(raw, "a", producer_id=1), Producer(raw, "b", producer_id=2)
                assert await aborts.produce(b"1") == (NONE, 0)
                assert await commits.produce(b"2") == (NONE, 1)

                async def until(high_watermark: int) -> None:
                    hosted = follower.table.get(topic_id, 0)
                    assert hosted is not None
                    with trio.fail_after(30):
                        while hosted.replica.high_watermark < high_watermark:  # noqa: ASYNC110 - polling
                            await trio.sleep(0.01)

                await until(2)
                answered = await read(other, leader_epoch=epoch)
                assert (answered.error, answered.last_stable_offset, answered.batches) == (NONE, 0, [])
                assert await aborts.end() is NONE
                assert await commits.end(commits=True) is NONE
                await until(4)
                answered = await read(other, leader_epoch=epoch)
                assert answered[:4] == (NONE, 4, 4, [(1, 0)])
                assert answered.batches == [(1, [b"1"]), (2, [b"2"])]

    trio.run(run)


def test_what_is_open_survives_a_kill(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            broker = cluster.brokers[1].broker
            await cluster.controller.wait_for(lambda: broker.table.get(topic_id, 0) is not None, "hosted")
            async with fake_coordinator(broker), connected(cluster.brokers[1].port) as raw:
                aborts, opens = Producer(raw, "a", producer_id=1), Producer(raw, "b", producer_id=2)
                assert await aborts.produce(b"1") == (NONE, 0)
                assert await aborts.end() is NONE
                assert await opens.produce(b"2") == (NONE, 2)
            await cluster.brokers.pop(1).kill()
            await cluster.start(1)
            await cluster.wait_active(1)
            broker = cluster.brokers[1].broker
            await cluster.controller.wait_for(
                lambda: (
                    (hosted := broker.table.get(topic_id, 0)) is not None
                    and hosted.replica.high_watermark == 3
                ),
                "it has committed all that it had",
            )
            async with connected(cluster.brokers[1].port) as raw:
                answered = await read(raw)
                assert answered[:4] == (NONE, 3, 2, [(1, 0)])
                assert await write_marker(raw, producer_id=2, producer_epoch=0, commits=True) is NONE
                assert (await read(raw)).last_stable_offset == 4

    trio.run(run)


def test_tools_see_what_is_open_and_can_end_it(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess) -> None:
        producer = Producer(raw)
        assert await raw.produce("orders", [b"plain"]) == (NONE, 0)
        assert await producer.produce(b"a") == (NONE, 1)

        async def described() -> tuple[int, int, int]:
            fields: dict[str, object] = {"topics": [{"name": "orders", "partition_indexes": (0,)}]}
            answer = await raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, fields)
            (one,) = answer.topics[0].partitions[0].active_producers
            return one.producer_epoch, one.coordinator_epoch, one.current_txn_start_offset

        assert await described() == (0, -1, 1)
        assert await producer.end(coordinator_epoch=5) is NONE
        assert await described() == (0, 5, -1)

    with_coordinator(tmp_path, test)


def values_to_librdkafka(bootstrap: str, isolation: str) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = confluent_kafka.Consumer(settings | {"enable.partition.eof": True})
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "the end was not reached"
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            consumer.close()
            return values
        values.append(message.value() or b"")


def values_to_kafka_python(bootstrap: str, isolation: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    try:
        place = kafka.TopicPartition("orders", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        (end,) = consumer.end_offsets([place]).values()
        values: list[bytes] = []
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=1_000).values():
                values += [record.value for record in records]
        return values
    finally:
        consumer.close()


def values_to_aiokafka(bootstrap: str, isolation: str) -> list[bytes]:
    async def read_all() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition("orders", 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            (end,) = (await consumer.end_offsets([place])).values()
            values: list[bytes] = []
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(place, timeout_ms=1_000)).values():
                    values += [record.value for record in records]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(read_all())


READERS = [values_to_librdkafka, values_to_kafka_python, values_to_aiokafka]


@pytest.mark.parametrize("values_to", READERS, ids=lambda one: one.__name__)
def test_stock_clients_read_what_was_committed_of_interleaved_transactions(
    tmp_path: Path, values_to: Callable[[str, str], list[bytes]]
) -> None:
    """Transactions overlap in one partition, half of them are aborted, and a reader needs several fetches."""

    async def test(raw: Raw, cluster: ClusterInProcess) -> None:
        rng = random.Random(5)
        producers = [Producer(raw, f"t{number}", producer_id=number) for number in range(6)]
        open_: dict[Producer, list[bytes]] = {}
        everything: list[bytes] = []
        kept: set[bytes] = set()
        for number in range(120):
            producer = rng.choice(producers)
            if producer in open_ and rng.random() < 0.4:
                commits = rng.random() < 0.5
                assert await producer.end(commits=commits) is NONE
                ended = open_.pop(producer)
                kept.update(ended if commits else ())
                continue
            value = b"%d " % number * rng.randrange(1, 2_000)
            error, _ = await producer.produce(value)
            assert error is NONE
            open_.setdefault(producer, []).append(value)
            everything.append(value)
        for producer, values in open_.items():
            assert await producer.end(commits=True) is NONE
            kept.update(values)
        committed = [value for value in everything if value in kept]
        assert 20 < len(committed) < len(everything)
        bootstrap = cluster.bootstrap()
        assert await trio.to_thread.run_sync(values_to, bootstrap, "read_uncommitted") == everything
        assert await trio.to_thread.run_sync(values_to, bootstrap, "read_committed") == committed

    with_coordinator(tmp_path, test)


def test_markers_are_judged_as_kafka_judges_them(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess) -> None:
        unknown = await write_marker(raw, producer_id=9, producer_epoch=3, coordinator_epoch=5)
        assert unknown is NONE  # a late batch of an earlier epoch is fenced by it
        error, _ = await Producer(raw, producer_id=9, producer_epoch=2).produce(b"late")
        assert error is ErrorCode.INVALID_PRODUCER_EPOCH
        fenced = await write_marker(raw, producer_id=9, producer_epoch=3, coordinator_epoch=4)
        assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        lower = await write_marker(raw, producer_id=9, producer_epoch=2, coordinator_epoch=6)
        assert lower is ErrorCode.INVALID_PRODUCER_EPOCH
        for topic, partition in (("absent", 0), ("orders", 9)):
            nowhere = await write_marker(
                raw, producer_id=9, producer_epoch=3, topic=topic, partition=partition
            )
            assert nowhere is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await raw.ask(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": []})).markers == ()

    with_coordinator(tmp_path, test)


def test_a_resent_marker_of_version_2_is_answered_and_not_written_again(tmp_path: Path) -> None:
    """KAFKA-19999: a coordinator that took over sends its markers again."""

    async def test(raw: Raw, _cluster: ClusterInProcess) -> None:
        producer = Producer(raw, version=12)
        assert await producer.produce(b"a") == (NONE, 0)
        for _ in range(2):
            assert await producer.end(producer_epoch=1, version=2) is NONE
        assert await latest_offset(raw, is_committed=False) == (NONE, 2)

    with_coordinator(tmp_path, test)
