"""Idle logs with a seat are sealed; the first record afterwards is committed once the seal is gone."""

from __future__ import annotations

import pytest
import trio

from dataplane.core.results import LeaderAnswer
from dataplane.storage.seal import LogSeal
from springtide.contract.partition_state import PartitionState
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.node import Node, batch_of, state
from tests.kit.dataplane.replica import as_follower
from tests.kit.memory.disk import MemoryDisk


async def node_with(applied: PartitionState, **configs: str) -> Node:
    node = Node(MemoryDisk(), configs=configs)
    node.directory.seals.chain_epoch = 5
    await node.apply(applied, full=True)
    return node


async def seal(node: Node) -> None:
    for _ in range(2):
        await node.maintenance.seal_idle()


ALONE = state(replicas=(1,), isr=(1,), new_replicas=(1,))


def test_a_log_is_sealed_when_nothing_was_written_since_the_last_round() -> None:
    async def test() -> None:
        node = await node_with(ALONE)
        node.produce()
        await node.maintenance.seal_idle()
        assert node.log().seal.current is None
        node.produce()
        await node.maintenance.seal_idle()
        assert node.log().seal.current is None
        await node.maintenance.seal_idle()
        assert node.log().seal_chain_epoch == 5

    trio.run(test)


def test_before_its_registration_a_broker_seals_nothing() -> None:
    async def test() -> None:
        node = await node_with(ALONE)
        node.directory.seals.chain_epoch = -1
        await seal(node)
        assert node.log().seal.current is None

    trio.run(test)


def test_a_replica_without_a_seat_is_not_sealed() -> None:
    async def test() -> None:
        node = await node_with(state(replicas=(2, 1), isr=(2,), leader=2))
        await seal(node)
        assert node.log().seal.current is None

    trio.run(test)


def test_a_leader_commits_the_first_record_after_a_seal_when_the_seal_is_durably_gone() -> None:
    async def test() -> None:
        node = await node_with(ALONE)
        node.produce()
        await seal(node)
        assert node.hosted().replica.high_watermark == 1
        node.produce()
        assert node.hosted().replica.high_watermark == 1
        await node.work()
        assert (node.hosted().replica.high_watermark, node.log().seal_chain_epoch) == (2, -1)

    trio.run(test)


def test_with_flush_messages_1_the_seal_stays_and_records_count_when_they_are_durable() -> None:
    async def test() -> None:
        node = await node_with(ALONE, **{"log.flush.interval.messages": "1"})
        await node.maintenance.seal_idle()
        node.produce(3)
        assert node.hosted().replica.high_watermark == 0
        await node.work()
        assert (node.hosted().replica.high_watermark, node.log().seal_chain_epoch) == (3, 5)

    trio.run(test)


def test_a_follower_asks_for_more_only_when_it_may_vouch_for_what_it_has() -> None:
    async def test() -> None:
        node = await node_with(state(replicas=(2, 1), isr=(2, 1), new_replicas=(1, 2), leader=2))
        await seal(node)
        replica = node.hosted().replica
        position = replica.next_fetch()
        assert position is not None
        effects = as_follower(replica).on_fetched(
            LeaderAnswer(
                records=batch_of(base_offset=0, leader_epoch=1), high_watermark=0, log_start_offset=0
            ),
            asked=position,
            now_ms=0,
            wall_ms=0,
        )
        node.effects.run(node.hosted(), effects)
        assert replica.next_fetch() is None
        await node.work()
        position = replica.next_fetch()
        assert position is not None
        assert position.fetch_offset == 1

    trio.run(test)


def test_a_record_that_comes_while_the_seal_is_stored_waits_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = await node_with(ALONE)
        hosted = node.hosted()
        log = hosted.log
        store = log.seal.store
        appended = batch_of(base_offset=0, leader_epoch=1)

        def store_while_it_is_written_to(_seal: LogSeal) -> None:
            log.append([decode_header(appended)], [appended], now_ms=0)
            node.directory.start_vouching(hosted, lambda: None)
            store()

        monkeypatch.setattr(LogSeal, "store", store_while_it_is_written_to)
        await seal(node)
        await node.work()
        assert (log.vouched_end_offset, log.seal_chain_epoch) == (1, -1)

    trio.run(test)
