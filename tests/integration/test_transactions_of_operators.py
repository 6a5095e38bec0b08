"""Transactions that an operator ends, on brokers and coordinators: one that its producer left open, and one
that no coordinator has."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from confluent_kafka import KafkaException, Producer

from controller.core import transaction_watch
from controller.core.effects import AlarmCode
from controller.shell.client_transactions import TransactionAbsent
from controller.shell.clock import SystemClock
from controller.shell.kafka_transactions import KafkaTransactions
from controller.shell.published import Published
from coordinator.core.transactions.machine import TransactionMachine
from dataplane.core import reports
from tests.kit.dataplane.cluster_in_process import ClusterInProcess
from tests.kit.dataplane.transacting import (
    ID,
    TIMEOUT_S,
    TOPIC,
    a_cluster,
    a_producer,
    committed,
    in_thread,
    owner_of,
    run,
    send,
    until_committed,
)

PLACE = (TOPIC, 0)


def asking(cluster: ClusterInProcess) -> KafkaTransactions:
    """What a controller asks the cluster with."""
    published = Published("test")
    published.image = cluster.controller.image
    return KafkaTransactions(lambda _: published, SystemClock())


async def opened(cluster: ClusterInProcess) -> Producer:
    """Leave a transaction open, with a record behind it that readers wait for."""
    producer = await in_thread(a_producer, cluster.bootstrap())
    producer.begin_transaction()
    await in_thread(send, producer, b"open")
    plain = Producer({"bootstrap.servers": cluster.bootstrap()})
    await in_thread(send, plain, b"behind it")
    assert await committed(cluster) == []
    return producer


def test_one_that_is_open_is_found_and_aborted(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            producer = await opened(cluster)
            transactions = asking(cluster)
            (listed,), errors = await transactions.listed("test")
            seen = await transactions.described("test", ID)
            assert errors == [] and (listed.transactional_id, listed.state) == (ID, "ongoing")
            assert listed.partitions == seen.partitions == (PLACE,)
            assert seen.coordinator_id == owner_of(cluster)
            assert (seen.client_id, seen.client_host) == ("rdkafka", "127.0.0.1")
            lag = cluster.controller.machine.lags[cluster.controller.image.topic_ids[TOPIC], 0]
            assert lag.transactions is not None and lag.transactions.last_stable_offset == 0
            assert lag.transactions.oldest[0].producer_id == seen.producer_id
            await transactions.fence("test", seen)
            await until_committed(cluster, [b"behind it"])
            assert (await transactions.described("test", ID)).state in ("prepare_abort", "complete_abort")
            with pytest.raises(KafkaException):
                await in_thread(producer.commit_transaction, TIMEOUT_S)
            with pytest.raises(TransactionAbsent):
                await transactions.described("test", "another")

    run(story)


def test_one_that_no_coordinator_has_is_named_and_ended_by_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_watch, "SUSPECT_AFTER_MS", 1_000)
    monkeypatch.setattr(transaction_watch, "ASK_AGAIN_MS", 1_000)
    monkeypatch.setattr(reports, "OPEN_TOLD_AGAIN_MS", 500)

    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            await opened(cluster)
            machine = cluster.controller.machine
            transactions = asking(cluster)
            await trio.sleep(4)
            assert machine.hanging_transactions() == [], "its coordinator has it"
            process = cluster.coordinators[owner_of(cluster)].process
            for shard in process.transactions.served().values():
                assert isinstance(shard, TransactionMachine)
                shard.registry.store.transactions.set(ID, None, 1_000_000)
                shard.registry.store.commit(1_000_001)
            with trio.fail_after(60):
                while not machine.hanging_transactions():  # noqa: ASYNC110 - leaders report, nothing tells it
                    await trio.sleep(0.1)
            alarms = [alarm for alarm in machine.alarms() if alarm.key.code is AlarmCode.TRANSACTION_HANGS]
            assert len(alarms) == 1 and f"{TOPIC}-0 from offset 0" in alarms[0].detail
            (seen,) = await transactions.open_producers("test", PLACE)
            assert seen.producer_id == alarms[0].key.producer_id
            assert await transactions.listed("test", producer_ids=(seen.producer_id,)) == ([], [])
            await transactions.write_abort("test", PLACE, seen)
            await until_committed(cluster, [b"behind it"])
            with trio.fail_after(10):
                while machine.hanging_transactions():  # noqa: ASYNC110
                    await trio.sleep(0.1)
            assert AlarmCode.TRANSACTION_HANGS not in {alarm.key.code for alarm in machine.alarms()}

    run(story)
