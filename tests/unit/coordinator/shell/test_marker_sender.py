"""Markers are sent until each partition has its own."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.requests import MarkersReply, MarkersWritten
from coordinator.shell.marker_sender import ABSENT_MS_MAX, MarkerSender
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import (
    WRITER_IDS,
    PartitionState,
    Shard,
    TopicState,
    WriterId,
)
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersWritableTxnMarkerPartitionResult,
    WriteTxnMarkersWritableTxnMarkerResult,
    WriteTxnMarkersWritableTxnMarkerTopicResult,
)
from tests.kit.clocks import VirtualClock

pytestmark = pytest.mark.anyio

EPOCH = 7
ORDERS, BILLS = "o" * 21 + "A", "b" * 21 + "A"


class Host:
    """A shard of transactions that is served. told: what its machine was told. answer: what that answers."""

    def __init__(self) -> None:
        machine = TransactionMachine(TransactionOptions())
        self.markers = machine.markers
        self.runtime = SimpleNamespace(
            machine=machine, writer=SimpleNamespace(writer=WriterId(WRITER_IDS.start + EPOCH))
        )
        self.is_serving = True
        self.told: list[MarkersWritten] = []
        self.answer: object = MarkersReply(0)

    def submit(self, make: Callable[[int], MarkersWritten], answered: Callable[[object], None]) -> None:
        self.told.append(make(1))
        answered(self.answer)

    @property
    def written(self) -> list[TransactionPartition]:
        return [place for one in self.told for place in one.partitions]


class World:
    """Brokers 1 and 2, coordinator 1001, and what is asked of them. errors: by partition; NONE: written.
    silent: processes that answer nothing."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.view = ClusterView()
        self.asked: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self.silent: set[int] = set()
        self.is_current = True
        self.host = Host()
        nodes = [
            BrokerEndpoint(broker_id=number, broker_epoch=BrokerEpoch(1), host="h", port=number)
            for number in (1, 2, 1001)
        ]
        self.apply(brokers=tuple(nodes[:2]), coordinators=tuple(nodes[2:]))
        self.has(ORDERS, "orders", leaders=(1, 2))
        self.sender = MarkerSender(
            view=self.view,
            links=cast(Any, SimpleNamespace(ask=self._ask)),
            clock=VirtualClock(),
            rng=random.Random(1),
            spawn=cast(Any, nursery.start_soon),
            is_current=lambda now_ms: self.is_current,
        )

    def apply(self, **fields: Any) -> None:
        self.view.apply(UpdateBatch(**fields), now_ms=0)

    def has(
        self, topic_id: str, name: str, *, leaders: tuple[int, ...], epoch: int = 1, owner: int = -1
    ) -> None:
        states = tuple(
            PartitionState(
                topic_id=topic_id,
                topic=name,
                partition=number,
                replicas=(1, 2),
                leader=leader,
                leader_epoch=LeaderEpoch(epoch),
                partition_epoch=PartitionEpoch(epoch),
                isr=(1, 2),
                min_insync_replicas=1,
                shard=Shard(owner=owner, writer=WriterId(WRITER_IDS.start)) if owner >= 0 else None,
            )
            for number, leader in enumerate(leaders)
        )
        topic = TopicState(topic_id=topic_id, topic=name, partitions=len(leaders), replication_factor=2)
        self.apply(topics=(topic,), partitions=states)

    def order(self, *places: tuple[str, int], producer_id: int = 5, is_commit: bool = True) -> None:
        self.host.markers.add(
            MarkerOrder(
                transactional_id=f"id of {producer_id}",
                producer_id=producer_id,
                producer_epoch=3,
                is_commit=is_commit,
                version=2,
                partitions=tuple(TransactionPartition(*place) for place in places),
            )
        )
        self.sender.take(cast(Any, self.host))

    async def _ask(
        self, peer: BrokerEndpoint, message: WriteTxnMarkersRequest, answer_type: type, **_: Any
    ) -> WriteTxnMarkersResponse | None:
        self.asked.append((peer.broker_id, message))
        await trio.sleep(0.001)
        if peer.broker_id in self.silent:
            return None
        return WriteTxnMarkersResponse(
            markers=tuple(
                WriteTxnMarkersWritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WriteTxnMarkersWritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WriteTxnMarkersWritableTxnMarkerPartitionResult(
                                    partition_index=number,
                                    error_code=self.errors.get((topic.name, number), ErrorCode.NONE),
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in message.markers
            )
        )

    def metric(self, name: str) -> float:
        samples = {sample.name: sample.value for one in self.sender.collect() for sample in one.samples}
        return samples[name]


async def in_world(story: Callable[[World], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        await story(World(nursery))
        nursery.cancel_scope.cancel()


async def test_each_leader_gets_its_markers_together() -> None:
    async def story(world: World) -> None:
        world.order(("orders", 0), ("orders", 1))
        world.order(("orders", 0), producer_id=6, is_commit=False)
        await trio.sleep(1)
        assert sorted(peer for peer, _ in world.asked) == [1, 2]
        first, second = dict(world.asked)[1].markers
        assert (first.producer_id, first.producer_epoch, first.transaction_result) == (5, 3, True)
        assert (first.coordinator_epoch, first.transaction_version) == (EPOCH, 2)
        assert (second.producer_id, second.transaction_result) == (6, False)
        assert sorted(world.host.written) == [("orders", 0), ("orders", 0), ("orders", 1)]
        assert world.metric("springtide_transaction_markers_due") == 0

    await in_world(story)


async def test_each_request_has_a_higher_number_and_names_the_leaderships_that_it_asks() -> None:
    async def story(world: World) -> None:
        world.has(ORDERS, "orders", leaders=(1, 1), epoch=6)
        world.silent = {1}
        world.order(("orders", 0), ("orders", 1))
        await trio.sleep(1)
        world.has(ORDERS, "orders", leaders=(1, 1), epoch=7)
        world.sender.on_view_changed()
        await trio.sleep(0.01)
        attempts = [request.markers[0].attempt for _, request in world.asked]
        assert attempts == sorted(set(attempts)) and len(attempts) > 1
        epochs = [request.markers[0].topics[0].leader_epochs for _, request in world.asked]
        assert (epochs[0], epochs[-1]) == ((6, 6), (7, 7))

    await in_world(story)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_marker_that_is_refused_is_sent_again_ever_more_seldom(error: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.errors["orders", 0] = error
        world.order(("orders", 0), ("orders", 1))
        await trio.sleep(60)
        assert world.host.written == [("orders", 1)]
        assert 30 < len(world.asked) < 90
        assert world.metric("springtide_transaction_markers_due") == 1
        del world.errors["orders", 0]
        await trio.sleep(3)
        assert world.host.written == [("orders", 1), ("orders", 0)]

    await in_world(story)


async def test_a_partition_that_knows_a_later_epoch_needs_no_marker() -> None:
    async def story(world: World) -> None:
        world.errors["orders", 0] = ErrorCode.INVALID_PRODUCER_EPOCH
        world.order(("orders", 0))
        await trio.sleep(1)
        assert world.host.written == [("orders", 0)]

    await in_world(story)


async def test_a_new_leader_gets_the_marker_at_once() -> None:
    async def story(world: World) -> None:
        world.silent = {1}
        world.order(("orders", 0))
        await trio.sleep(60)
        world.has(ORDERS, "orders", leaders=(2, 2), epoch=2)
        world.sender.on_view_changed()
        await trio.sleep(0.01)
        assert world.host.written == [("orders", 0)]

    await in_world(story)


async def test_without_a_leader_a_marker_waits_for_one() -> None:
    async def story(world: World) -> None:
        world.has(ORDERS, "orders", leaders=(-1, 2), epoch=2)
        world.order(("orders", 0))
        await trio.sleep(60)
        assert world.asked == []
        prefix = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
        assert world.metric(f"{prefix}_unknowndestinationqueuesize") == 1
        world.has(ORDERS, "orders", leaders=(1, 2), epoch=3)
        world.sender.on_view_changed()
        await trio.sleep(0.01)
        assert world.host.written == [("orders", 0)]

    await in_world(story)


async def test_the_offsets_of_a_group_are_ended_by_the_coordinator_of_their_shard() -> None:
    async def story(world: World) -> None:
        world.has(BILLS, GROUPS_TOPIC, leaders=(2,), owner=1001)
        world.order((GROUPS_TOPIC, 0))
        await trio.sleep(1)
        assert [peer for peer, _ in world.asked] == [1001]
        assert world.host.written == [(GROUPS_TOPIC, 0)]

    await in_world(story)


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_deleted_topic_needs_no_marker_nor_does_one_of_its_name(comes_back: bool) -> None:
    async def story(world: World) -> None:
        world.silent = {1, 2}
        world.order(("orders", 0))
        await trio.sleep(1)
        world.apply(deleted_topics=(ORDERS,))
        if comes_back:
            world.has(BILLS, "orders", leaders=(1,))
        world.sender.on_view_changed()
        assert world.host.written == [("orders", 0)]
        assert world.metric("springtide_transaction_markers_passed_over_total") == 1

    await in_world(story)


async def test_a_topic_that_was_never_known_is_waited_for() -> None:
    async def story(world: World) -> None:
        world.is_current = False
        world.order(("bills", 0))
        await trio.sleep(2 * ABSENT_MS_MAX / 1_000)
        assert world.host.told == []
        world.has(BILLS, "bills", leaders=(1,))
        world.sender.on_view_changed()
        await trio.sleep(0.01)
        assert (len(world.asked), world.host.written) == (1, [("bills", 0)])
        world.order(("odd", 0), producer_id=9)
        world.is_current = True
        await trio.sleep(ABSENT_MS_MAX / 1_000 - 3)
        assert len(world.host.told) == 1
        await trio.sleep(6)
        assert (len(world.asked), world.host.written[1:]) == (1, [("odd", 0)])

    await in_world(story)


async def test_markers_of_a_shard_that_closed_are_forgotten() -> None:
    async def story(world: World) -> None:
        world.silent = {1}
        world.order(("orders", 0))
        await trio.sleep(1)
        world.host.is_serving = False
        world.silent = set()
        await trio.sleep(60)
        assert world.host.told == []
        assert world.metric("springtide_transaction_markers_due") == 0

    await in_world(story)


async def test_the_machine_is_told_until_it_has_taken_it_in() -> None:
    async def story(world: World) -> None:
        world.host.answer = ErrorCode.NOT_ENOUGH_REPLICAS
        world.order(("orders", 0))
        await trio.sleep(10)
        assert len(world.asked) == 1
        told = len(world.host.told)
        assert told > 5
        world.host.answer = MarkersReply(0)
        await trio.sleep(10)
        assert len(world.host.told) == told + 1

    await in_world(story)
