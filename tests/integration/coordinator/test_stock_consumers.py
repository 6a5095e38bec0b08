"""Stock consumers in groups: subscribe, commit, come back, and lose their coordinator meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

import aiokafka
import trio
from confluent_kafka import Consumer, KafkaException

from springtide.node.sharding import GROUPS_TOPIC, shard_of
from tests.kit.dataplane.clients_in_threads import produce
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

GROUP, TOPIC = "billing", "orders"
VALUES = [b"value %d" % number for number in range(300)]
AT_ONCE = 10
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}

COMMIT_S_MAX = 30


def consume(bootstrap: str, count: int, committed: Callable[[int], None]) -> list[bytes]:
    """Return the values that a member of GROUP read. committed: told after each commit how many there are."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[bytes] = []
    try:
        consumer.subscribe([TOPIC])
        while len(values) < count:
            messages = consumer.consume(min(AT_ONCE, count - len(values)), timeout=0.5)
            values += [value for message in messages if (value := message.value()) is not None]
            if messages:
                commit(consumer)
                committed(len(values))
    finally:
        consumer.close()
    return values


def commit(consumer: Consumer) -> None:
    """Commit what was read, also where the coordinator dies meanwhile."""
    ends = monotonic() + COMMIT_S_MAX
    while True:
        try:
            consumer.commit(asynchronous=False)
            return
        except KafkaException:
            if monotonic() > ends:
                raise


def owner_of(cluster: ClusterInProcess, group: str) -> int:
    shards = dict(cluster.shard_owners())
    return shards[shard_of(group, len(shards))]


def test_each_record_is_read_once_over_restarts_of_consumers_and_the_death_of_their_coordinator(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            cluster.controller.create_topic(TOPIC, ((1, 2, 3),))
            await cluster.form_coordinators(1001, 1002, configs=NO_DELAY)
            await produce(cluster.bootstrap(), TOPIC, VALUES, acks="all")
            before = owner_of(cluster, GROUP)

            def kill_at_50(count: int) -> None:
                if count >= 50 and before in cluster.coordinators:
                    trio.from_thread.run(cluster.coordinators.pop(before).kill)

            async def read(count: int, committed: Callable[[int], None] = lambda _: None) -> list[bytes]:
                work = partial(consume, cluster.bootstrap(), count, committed)
                return await trio.to_thread.run_sync(work)

            first = await read(100)
            second = await read(150, kill_at_50)
            after = owner_of(cluster, GROUP)
            assert {before, after} == {1001, 1002}
            await cluster.start_coordinator(before)
            third = await read(50)
            assert [first, second, third] == [VALUES[:100], VALUES[100:250], VALUES[250:]]

    trio.run(run)


def test_a_groups_offsets_survive_the_compaction_of_their_log(tmp_path: Path) -> None:
    """KAFKA-19862: there offsets could not be loaded from a log that was compacted."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3, configs={"log.cleaner.backoff.ms": "100"})
            cluster.controller.create_topic(TOPIC, ((1, 2, 3),))
            await cluster.form_coordinators(1001, 1002, configs=NO_DELAY)
            await produce(cluster.bootstrap(), TOPIC, VALUES, acks="all")
            read = partial(consume, cluster.bootstrap(), committed=lambda _: None)
            assert await trio.to_thread.run_sync(lambda: read(count=150)) == VALUES[:150]

            image = cluster.controller.image
            key = (image.topic_ids[GROUPS_TOPIC], shard_of(GROUP, len(cluster.shard_owners())))
            found = [running.broker.table.get(*key) for running in cluster.brokers.values()]
            hosted = [one for one in found if one is not None]
            before = hosted[0].log.log_end_offset
            for one in hosted:
                one.log.roll(now_ms=0)  # as after segment.bytes
            await cluster.controller.wait_for(
                lambda: all(one.log.rounds.reaches >= before for one in hosted), "all replicas are compacted"
            )
            sizes = [sum(segment.size_bytes for segment in one.log.segments[:-1]) for one in hosted]
            assert len(hosted) == 3 and len(set(sizes)) == 1
            owner = owner_of(cluster, GROUP)
            await cluster.coordinators.pop(owner).kill()
            await cluster.controller.wait_for(lambda: owner_of(cluster, GROUP) != owner, "another serves it")
            await cluster.start_coordinator(owner)  # for the client, which gives up where it is refused
            assert await trio.to_thread.run_sync(lambda: read(count=150)) == VALUES[150:]

    trio.run(run)


def test_a_coordinator_that_is_stopped_gives_its_shards_away_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            await cluster.form_coordinators(1001, 1002)
            assert await cluster.coordinators.pop(1001).stop()
            assert {owner for _, owner in cluster.shard_owners()} == {1002}
            topic = cluster.coordinators[1002].process.view.topic_by_name(GROUPS_TOPIC)
            assert topic is not None
            assert cluster.coordinators[1002].process.shards.owned() == list(range(topic.partitions))

    trio.run(run)


def test_aiokafka_asks_again_where_it_asked_a_coordinator_that_does_not_serve_the_group(
    tmp_path: Path,
) -> None:
    """It reads the errors of partitions only, and took any other for "nothing committed"."""

    async def ask_each(bootstrap: str) -> list[int | None]:
        place = aiokafka.TopicPartition(TOPIC, 0)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([place])
            await consumer.commit({place: 7})
            found = []
            for coordinator_id in (1001, 1002):
                consumer._coordinator.coordinator_id = coordinator_id
                found.append(await asyncio.wait_for(consumer.committed(place), COMMIT_S_MAX))
            return found
        finally:
            await consumer.stop()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            cluster.controller.create_topic(TOPIC, ((1,),))
            await cluster.form_coordinators(1001, 1002)
            asked = partial(asyncio.run, ask_each(cluster.bootstrap()))
            assert await trio.to_thread.run_sync(asked) == [7, 7]

    trio.run(run)
