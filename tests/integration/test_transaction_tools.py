"""What operators' tools see of transactions, and how they end one that no coordinator has (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.admin._transactions import AbortTransactionSpec
from kafka.structs import TopicPartition as Place

from dataplane.broker import StorageBroker
from dataplane.core.results import TxnContext
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.node import Waiter
from tests.kit.dataplane.transactional import TOPIC, batch_of

T = TypeVar("T")

IDS = [f"t{number}" for number in range(6)]
GHOST = 4_242
ANSWER_S = 60.0

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def with_cluster(root: Path, story: Callable[[ClusterInProcess, str], Any]) -> None:
    """Run `story` with one broker, two coordinators and two partitions of TOPIC."""

    async def run() -> None:
        async with cluster_in_process(root) as cluster:
            await cluster.form(1)
            await cluster.form_coordinators(1001, 1002)
            topic_id = cluster.controller.create_topic(TOPIC, ((1,), (1,)))
            with trio.fail_after(2 * ANSWER_S):
                await story(cluster, topic_id)

    trio.run(run)


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    return await trio.to_thread.run_sync(partial(work, *args))


def open_transaction(bootstrap: str, transactional_id: str) -> Producer:
    """Return a producer with one record in partition 0 of a transaction that it has not ended."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(ANSWER_S)
    producer.begin_transaction()
    producer.produce(TOPIC, transactional_id.encode(), partition=0)
    assert producer.flush(ANSWER_S) == 0
    return producer


def with_admin(bootstrap: str, ask: Callable[[KafkaAdminClient], T]) -> T:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return ask(admin)
    finally:
        admin.close()


def listed(bootstrap: str, **filters: Any) -> list[tuple[str, str]]:
    """Return (id, state) of all, as one who asks each broker puts them together."""
    by_broker = with_admin(bootstrap, lambda admin: admin.list_transactions(**filters))
    return sorted((one.transactional_id, one.state.value) for told in by_broker.values() for one in told)


def committed(bootstrap: str) -> list[bytes]:
    """Return what a reader of committed records finds in partition 0 up to its end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    try:
        until = monotonic() + ANSWER_S
        while monotonic() < until:
            message = consumer.poll(1)
            if message is not None and message.error() is not None:
                return values
            if message is not None:
                values.append(message.value() or b"")
        raise AssertionError("the end was not reached")
    finally:
        consumer.close()


def test_a_tool_finds_each_transaction_once_and_what_it_has_open(tmp_path: Path) -> None:
    async def story(cluster: ClusterInProcess, _topic_id: str) -> None:
        bootstrap = cluster.bootstrap()
        producers = [await in_thread(open_transaction, bootstrap, one) for one in IDS]
        await in_thread(producers[0].commit_transaction, ANSWER_S)
        rows = await in_thread(listed, bootstrap)
        assert [one for one, _ in rows] == IDS
        assert {state for _, state in rows[1:]} == {"Ongoing"}
        assert rows[0][1] in {"PrepareCommit", "CompleteCommit"}
        ongoing = await in_thread(partial(listed, bootstrap, state_filters=["Ongoing"]))
        assert [one for one, _ in ongoing] == IDS[1:]

        described = await in_thread(with_admin, bootstrap, lambda admin: admin.describe_transactions(IDS))
        assert {one.coordinator_id for one in described.values()} == {1001, 1002}
        assert described["t1"].topic_partitions == {Place(TOPIC, 0)}
        partitions = [Place(TOPIC, number) for number in range(2)]
        states = await in_thread(with_admin, bootstrap, lambda admin: admin.describe_producers(partitions))
        open_at = {
            one.producer_id: one.current_transaction_start_offset
            for one in states[partitions[0]].active_producers
        }
        assert open_at == {
            one.producer_id: -1 if transactional_id == "t0" else number
            for number, (transactional_id, one) in enumerate(sorted(described.items()))
        }
        assert states[partitions[1]].active_producers == []
        for producer in producers[1:]:
            await in_thread(producer.abort_transaction, ANSWER_S)
        assert await in_thread(committed, bootstrap) == [b"t0"]

    with_cluster(tmp_path, story)


def hang(broker: StorageBroker, topic_id: str) -> None:
    """Open a transaction in partition 0 that no coordinator has, as a fault of coordinators would."""
    hosted = broker.table.get(topic_id, 0)
    assert hosted is not None
    data = batch_of([b"ghost"], producer_id=GHOST, producer_epoch=3, base_sequence=0)
    guard = None
    for _ in range(2):
        result, effects = hosted.replica.role.append(
            decode_header(data),
            memoryview(data),
            acks=1,
            waiter=Waiter(),
            expires_ms=2**60,
            now_ms=broker.context.mono_ms(),
            wall_ms=broker.context.wall_ms(),
            txn=TxnContext("ghost", False, guard),
        )
        guard = result.must_verify
        broker.effects.run_alone(hosted, effects)
    assert result.error is ErrorCode.NONE and guard is None


def test_a_transaction_that_hangs_is_seen_and_ended_by_a_tool(tmp_path: Path) -> None:
    async def story(cluster: ClusterInProcess, topic_id: str) -> None:
        bootstrap, broker = cluster.bootstrap(), cluster.brokers[1].broker
        await cluster.controller.wait_for(lambda: broker.table.get(topic_id, 0) is not None, "hosted")
        hang(broker, topic_id)
        producer = await in_thread(open_transaction, bootstrap, "t0")
        await in_thread(producer.commit_transaction, ANSWER_S)
        assert await in_thread(committed, bootstrap) == [], "readers wait for what hangs"
        place = Place(TOPIC, 0)
        states = await in_thread(with_admin, bootstrap, lambda admin: admin.describe_producers([place]))
        (ghost,) = [one for one in states[place].active_producers if one.producer_id == GHOST]
        assert (ghost.producer_epoch, ghost.current_transaction_start_offset) == (3, 0)

        spec = AbortTransactionSpec(place, GHOST, ghost.producer_epoch, max(ghost.coordinator_epoch, 0))
        await in_thread(with_admin, bootstrap, lambda admin: admin.abort_transaction(spec))
        assert await in_thread(committed, bootstrap) == [b"t0"]

    with_cluster(tmp_path, story)
