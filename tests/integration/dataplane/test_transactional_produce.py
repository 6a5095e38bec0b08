"""Batches of transactions at a real broker, with a coordinator on a socket that says what a test wants."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from controller.core.events import ElectPreferred
from dataplane.handlers.produce import TRANSACTIONAL_ID_CHARS_MAX
from dataplane.shell.verification import REQUESTS_MAX
from springtide.levels import TRANSACTIONS, Level
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import ATTRIBUTE_TRANSACTIONAL, decode_header
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.fake_coordinator import FakeCoordinator, fake_coordinator, tell_of_coordinator
from tests.kit.dataplane.one_broker import on_a_broker
from tests.kit.dataplane.raw import Raw, connected
from tests.kit.dataplane.transactional import (
    ADDED_BY_CLIENT,
    ADDED_BY_LEADER,
    Producer,
    batch_of,
    latest_offset,
    read,
    write_marker,
)

NONE = ErrorCode.NONE
SEND_AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS
KNOWS_ABORTABLE = 11

Test = Callable[[Raw, ClusterInProcess, FakeCoordinator], Awaitable[None]]


def with_coordinator(tmp_path: Path, test: Test) -> None:
    """Run `test` with a connection to broker 1, which leads "orders"-0 alone, and the coordinator of all."""

    async def run(raw: Raw, cluster: ClusterInProcess) -> None:
        async with fake_coordinator(cluster.brokers[1].broker) as coordinator:
            await test(raw, cluster, coordinator)

    on_a_broker(tmp_path, run)


@pytest.mark.parametrize(("version", "verifies"), [(ADDED_BY_CLIENT, True), (ADDED_BY_LEADER, False)])
def test_the_first_batch_of_a_transaction_is_confirmed_by_its_coordinator(
    tmp_path: Path, version: int, verifies: bool
) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        producer = Producer(raw, version=version)
        assert await producer.produce(b"a", b"b") == (NONE, 0)
        assert coordinator.of("t") == [(7, 0, verifies)]
        assert [(one.name, one.partitions) for one in coordinator.asked[0].topics] == [("orders", (0,))]
        assert await producer.produce(b"c") == (NONE, 2)
        assert len(coordinator.asked) == 1
        epoch = int(version == ADDED_BY_LEADER)
        assert await producer.end(producer_epoch=epoch, commits=True, version=2 if epoch else 1) is NONE
        producer.producer_epoch, producer.sequence = epoch, 0 if epoch else producer.sequence
        assert await producer.produce(b"d") == (NONE, 4)
        assert coordinator.of("t") == [(7, 0, verifies), (7, epoch, verifies)]

    with_coordinator(tmp_path, test)


@pytest.mark.parametrize(
    ("version", "said", "told"),
    [
        (ADDED_BY_CLIENT, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (KNOWS_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE),
        (ADDED_BY_LEADER, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ADDED_BY_LEADER, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_a_coordinator_refuses_is_not_written(
    tmp_path: Path, version: int, said: ErrorCode, told: ErrorCode
) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.errors["t"] = said
        assert await Producer(raw, version=version).produce(b"a") == (told, -1)
        assert await latest_offset(raw, is_committed=False) == (NONE, 0)

    with_coordinator(tmp_path, test)


def test_an_error_that_passes_is_not_told(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator.errors["t"] = [busy, ErrorCode.NOT_COORDINATOR, busy, NONE]
        assert await Producer(raw, version=ADDED_BY_LEADER).produce(b"a") == (NONE, 0)
        assert len(coordinator.asked) == 4

    with_coordinator(tmp_path, test)


def test_without_a_coordinator_producers_are_told_to_send_again(tmp_path: Path) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        producer = Producer(raw)
        coordinator.is_broken = True
        assert await producer.produce(b"a") == (SEND_AGAIN, -1)
        tell_of_coordinator(cluster.brokers[1].broker, 0)
        producer.sequence = 0
        assert await producer.produce(b"a") == (SEND_AGAIN, -1)
        coordinator.is_broken = False
        tell_of_coordinator(cluster.brokers[1].broker, coordinator.port)
        producer.sequence = 0
        assert await producer.produce(b"a") == (NONE, 0)

    with_coordinator(tmp_path, test)


def test_a_coordinator_that_refuses_this_broker_is_not_the_producers_trouble(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await Producer(raw).produce(b"a") == (ErrorCode.INVALID_TXN_STATE, -1)

    with_coordinator(tmp_path, test)


def test_a_silent_coordinator_costs_no_more_than_the_requests_timeout(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        before = time.monotonic()
        assert await Producer(raw).produce(b"a", timeout_ms=400) == (SEND_AGAIN, -1)
        assert 0.3 < time.monotonic() - before < 4
        coordinator.gate.set()  # what it says now is too late
        await trio.sleep(0.1)
        assert await latest_offset(raw, is_committed=False) == (NONE, 0)

    with_coordinator(tmp_path, test)


def test_batches_behind_a_parked_one_keep_their_order_and_ask_nothing(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        producer = Producer(raw)
        for number in range(3):
            await producer.send(producer.batch(b"%d" % number), correlation_id=number)
        await raw.begin(ApiKey.API_VERSIONS, 0, {}, correlation_id=3)
        await coordinator.until_asked(1)
        assert await raw.is_silent()
        coordinator.gate.set()
        answers = [await producer.answer(correlation_id=number) for number in range(3)]
        assert answers == [[(NONE, 0)], [(NONE, 1)], [(NONE, 2)]]
        assert (await raw.answer(ApiKey.API_VERSIONS, 0, correlation_id=3)).error_code == NONE
        assert len(coordinator.asked) == 1

    with_coordinator(tmp_path, test)


def test_batches_behind_a_refused_one_are_refused(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        coordinator.errors["t"] = ErrorCode.INVALID_TXN_STATE
        producer = Producer(raw)
        for number in range(2):
            await producer.send(producer.batch(b"%d" % number), correlation_id=number)
        await coordinator.until_asked(1)
        coordinator.gate.set()
        for number in range(2):
            assert await producer.answer(correlation_id=number) == [(ErrorCode.INVALID_TXN_STATE, -1)]
        assert await latest_offset(raw, is_committed=False) == (NONE, 0)

    with_coordinator(tmp_path, test)


def test_partitions_of_one_request_are_parked_one_by_one_and_asked_about_together(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,), (1,), (1,)))
            broker = cluster.brokers[1].broker
            await cluster.controller.wait_for(
                lambda: all(broker.table.get(topic_id, number) is not None for number in range(3)), "hosted"
            )
            async with (
                fake_coordinator(broker) as coordinator,
                connected(cluster.brokers[1].port) as raw,
            ):
                producer = Producer(raw)
                assert await producer.produce(b"a") == (NONE, 0)
                first = batch_of([b"c"], producer_id=7, producer_epoch=0, base_sequence=0)
                batches = [producer.batch(b"b"), first, first]
                await producer.send(*batches, b"junk", partitions=(0, 1, 2, 3))
                unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
                assert await producer.answer() == [(NONE, 1), (NONE, 0), (NONE, 0), unknown]
                assert [one.topics[0].partitions for one in coordinator.asked] == [(0,), (1, 2)]
                assert coordinator.requests == 2

    trio.run(run)


def test_a_batch_that_comes_after_its_transactions_end_is_refused(tmp_path: Path) -> None:
    """Version 1, whose epoch goes on: only the coordinator can tell (KIP-890)."""

    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        producer = Producer(raw)
        assert await producer.produce(b"a") == (NONE, 0)
        assert await producer.end() is NONE
        coordinator.errors["t"] = ErrorCode.INVALID_TXN_STATE
        assert await producer.produce(b"late") == (ErrorCode.INVALID_TXN_STATE, -1)
        assert (await read(raw)).last_stable_offset == 2

    with_coordinator(tmp_path, test)


@pytest.mark.parametrize("version", [ADDED_BY_CLIENT, ADDED_BY_LEADER])
def test_a_parked_batch_whose_transaction_ends_meanwhile_opens_no_other(tmp_path: Path, version: int) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        producer = Producer(raw, version=version)
        await producer.send(producer.batch(b"late"))
        await coordinator.until_asked(1)
        epoch = int(version == ADDED_BY_LEADER)
        async with connected(cluster.brokers[1].port) as other:
            ended = await write_marker(other, producer_id=7, producer_epoch=epoch, version=1 + epoch)
            assert ended is NONE
        coordinator.gate.set()
        coordinator.errors["t"] = [NONE, ErrorCode.PRODUCER_FENCED]
        ((error, _),) = await producer.answer()
        assert error in {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH}
        answered = await read(raw)
        assert (answered.high_watermark, answered.last_stable_offset, answered.batches) == (1, 1, [])

    with_coordinator(tmp_path, test)


def test_a_client_that_leaves_while_its_batch_is_parked_writes_nothing(tmp_path: Path) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        async with connected(cluster.brokers[1].port) as other:
            producer = Producer(other)
            await producer.send(producer.batch(b"a"))
            await coordinator.until_asked(1)
        async with connected(cluster.brokers[1].port) as again:
            producer = Producer(again)
            await producer.send(producer.batch(b"a"))
            coordinator.gate.set()
            assert await producer.answer() == [(NONE, 0)]
        assert await latest_offset(raw, is_committed=False) == (NONE, 1)

    with_coordinator(tmp_path, test)


def test_a_leadership_that_ends_while_a_batch_is_parked_writes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2)
            controller = cluster.controller
            topic_id = controller.create_topic("orders", ((1, 2),))
            await cluster.wait_isr(topic_id, 1, 2)
            await cluster.brokers.pop(1).kill()
            await controller.wait_for(lambda: controller.state(topic_id).leader == 2, "the other leads")
            await cluster.start(1)
            await cluster.wait_isr(topic_id, 1, 2)
            broker = cluster.brokers[2].broker
            async with fake_coordinator(broker) as coordinator, connected(cluster.brokers[2].port) as raw:
                coordinator.gate = trio.Event()
                producer = Producer(raw)
                await producer.send(producer.batch(b"a"))
                await coordinator.until_asked(1)
                controller.submit(ElectPreferred(wall_ms=0, actor="test", topic_id=topic_id, partition=0))
                hosted = broker.table.get(topic_id, 0)
                assert hosted is not None
                await controller.wait_for(lambda: hosted.replica.leading is None, "it leads no more")
                coordinator.gate.set()
                assert await producer.answer() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
            async with connected(cluster.brokers[1].port) as raw:
                assert await latest_offset(raw, is_committed=False) == (NONE, 0)

    trio.run(run)


def test_what_is_parked_while_questions_are_under_way_goes_into_one_request(tmp_path: Path) -> None:
    async def test(raw: Raw, cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        coordinator.gate = trio.Event()
        producers = [Producer(raw, f"t{number}", producer_id=number) for number in range(20)]
        for number, producer in enumerate(producers):
            await producer.send(producer.batch(b"a"), correlation_id=number)
        verification = cluster.brokers[1].broker.context.verification
        await cluster.controller.wait_for(lambda: verification.parked == 20, "all are parked")
        coordinator.gate.set()
        answers = [await producer.answer(correlation_id=number) for number, producer in enumerate(producers)]
        assert sorted(answers) == [[(NONE, offset)] for offset in range(20)]
        assert len(coordinator.asked) == 20
        assert coordinator.requests <= REQUESTS_MAX + 1

    with_coordinator(tmp_path, test)


def test_what_is_no_part_of_a_transaction_is_refused_with_kafkas_codes(tmp_path: Path) -> None:
    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        for acks in (0, 1):
            if acks:  # with acks=0 the connection is closed instead
                error, _ = await Producer(raw).produce(b"a", acks=acks)
                assert error is ErrorCode.INVALID_REQUIRED_ACKS
        error, _ = await Producer(raw, None).produce(b"a")
        assert error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        error, _ = await Producer(raw, "x" * (TRANSACTIONAL_ID_CHARS_MAX + 1)).produce(b"a")
        assert error is ErrorCode.INVALID_REQUEST
        nameless = Producer(raw, producer_id=-1, producer_epoch=-1)
        nameless.sequence = -1
        error, _ = await nameless.produce(b"a")
        assert error is ErrorCode.INVALID_TXN_STATE
        assert coordinator.asked == []
        producer = Producer(raw)
        assert await producer.produce(b"a") == (NONE, 0)
        await producer.send(producer.batch(b"plain", is_transactional=False))
        assert await producer.answer() == [(ErrorCode.INVALID_TXN_STATE, -1)]
        assert await latest_offset(raw, is_committed=False) == (NONE, 1)

    with_coordinator(tmp_path, test)


def test_a_batch_outside_of_transactions_may_come_under_a_transactional_id(tmp_path: Path) -> None:
    """As at Kafka's brokers: the batch's own header says whether it is in a transaction."""

    async def test(raw: Raw, _cluster: ClusterInProcess, coordinator: FakeCoordinator) -> None:
        producer = Producer(raw)
        await producer.send(producer.batch(b"plain", is_transactional=False))
        assert await producer.answer() == [(NONE, 0)]
        assert coordinator.asked == []

    with_coordinator(tmp_path, test)


def test_below_the_level_that_has_transactions_nothing_of_them_is_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path, level=Level(TRANSACTIONS.since - 1)) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            broker = cluster.brokers[1].broker
            await cluster.controller.wait_for(lambda: broker.table.get(topic_id, 0) is not None, "hosted")
            async with connected(cluster.brokers[1].port) as raw:
                for transactional_id in ("t", None):
                    refused = await Producer(raw, transactional_id).produce(b"a")
                    assert refused == (ErrorCode.INVALID_TXN_STATE, -1)
                marked = await write_marker(raw, producer_id=7, producer_epoch=0)
                assert marked is ErrorCode.UNSUPPORTED_VERSION
                assert await latest_offset(raw, is_committed=False) == (NONE, 0)

    trio.run(run)


def test_a_transactional_flag_within_a_batch_is_what_counts() -> None:
    """The tests above stand on it."""
    plain, flagged = (batch_of([b"a"], is_transactional=one) for one in (False, True))
    assert not decode_header(plain).attributes & ATTRIBUTE_TRANSACTIONAL
    assert decode_header(flagged).attributes & ATTRIBUTE_TRANSACTIONAL
