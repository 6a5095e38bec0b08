"""Clients above their quotas, through sockets: they wait, others do not, and members of the cluster are never
counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from controller.core.events import AlterQuotas
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import DEFAULT_ENTITY, QuotaEntity
from springtide.node.core.quota_limits import Key, QuotaName
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.clients_in_threads import produce, read
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, connected

SHORT_WINDOW = {"quota.window.num": "2"}
RATE = 10_000
EACH_CLIENT_ID = QuotaEntity(client_id=DEFAULT_ENTITY)
#: A member of the cluster that was counted would wait for hours.
NEARLY_NOTHING = {"producer_byte_rate": 1.0, "consumer_byte_rate": 1.0, "request_percentage": 0.0001}
AS_MUCH_AS_IT_WANTS = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e9}
CLOCKS_DIFFER_S = 0.01


async def alter(cluster: ClusterInProcess, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
    """Set quotas at the controller, and wait until all nodes know them."""
    changes = tuple(QuotasToAlter(entity=entity, quotas={**values}) for entity, values in quotas.items())
    cluster.controller.submit(AlterQuotas(wall_ms=0, actor="test", changes=changes))
    nodes: list[Any] = [one.broker for one in cluster.brokers.values()]
    nodes += [one.process for one in cluster.coordinators.values()]
    await cluster.controller.wait_for(
        lambda: all(node.view.quotas == cluster.controller.image.quotas for node in nodes), "quotas are known"
    )
    assert cluster.controller.image.quotas.keys() == quotas.keys()


async def form(cluster: ClusterInProcess, *broker_ids: int, configs: dict[str, str] | None = None) -> None:
    """Start brokers with a topic `orders` on all of them, and a record in it."""
    await cluster.form(*broker_ids, configs=configs)
    topic_id = cluster.controller.create_topic("orders", (broker_ids,))
    await cluster.wait_isr(topic_id, *broker_ids)
    assert await produce(cluster.bootstrap(), "orders", [b"first"], acks="all") == [0]


async def ask_produce(raw: Raw, values: Sequence[bytes]) -> tuple[int, int]:
    """Return the offset, and the wait that the answer tells."""
    records = encode_batch([NewRecord(None, value, 1_700_000_000_000) for value in values])
    fields: dict[str, object] = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}],
    }
    answer = await raw.ask(ApiKey.PRODUCE, 9, fields)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE
    return partition.base_offset, answer.throttle_time_ms


async def ask_fetch(raw: Raw, fetch_offset: int) -> Any:
    """Return the answer to a fetch that begins a session."""
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": fetch_offset,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1 << 20,
    }
    fields: dict[str, object] = {
        "replica_id": -1,
        "session_epoch": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic": "orders", "partitions": [partition]}],
    }
    return await raw.ask(ApiKey.FETCH, 12, fields)


def counted(node: Any, name: QuotaName) -> set[Key]:
    return {key for key, _ in node.node.quotas.usage[name].newest(100)}


def test_a_producer_above_its_rate_waits_while_its_records_are_committed_and_others_go_on(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await form(cluster, 1, 2)
            slow_quotas = {**AS_MUCH_AS_IT_WANTS, "producer_byte_rate": RATE}
            await alter(
                cluster,
                {
                    EACH_CLIENT_ID: NEARLY_NOTHING,
                    QuotaEntity(client_id="slow"): slow_quotas,
                    QuotaEntity(client_id="fast"): AS_MUCH_AS_IT_WANTS,
                },
            )
            values = [bytes(16)] * 500  # about 11,000 bytes: the window has 100,000 to 110,000
            port = cluster.brokers[1].port
            async with connected(port, "slow") as slow, connected(port, "fast") as fast:
                offset, wait_ms, requests, sent = 0, 0, 0, 0.0
                while not wait_ms:
                    sent = trio.current_time()
                    offset, wait_ms = await ask_produce(slow, values)
                    assert offset == 1 + 500 * requests
                    requests += 1
                assert requests >= 100_000 // 12_000
                assert await ask_produce(fast, values) == (offset + 500, 0)
                assert (await ask_produce(slow, [b"last"]))[0] == offset + 1_000
                assert trio.current_time() - sent > wait_ms / 1_000 - CLOCKS_DIFFER_S
            broker = cluster.brokers[1].broker
            assert counted(broker, QuotaName.PRODUCER_BYTE_RATE) == {(None, "slow"), (None, "fast")}
            assert counted(broker, QuotaName.CONSUMER_BYTE_RATE) == set()
            assert counted(broker, QuotaName.REQUEST_PERCENTAGE) == {(None, "slow"), (None, "fast")}

    trio.run(run)


def test_a_stock_producer_is_told_to_wait_and_delivers_all_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await form(cluster, 1, configs=SHORT_WINDOW)
            await alter(cluster, {QuotaEntity(client_id="slow"): {"producer_byte_rate": 100_000.0}})
            told: list[float] = []
            values = [b"%04d" % number + bytes(1_000) for number in range(400)]
            started = trio.current_time()
            offsets = await produce(
                cluster.bootstrap(),
                "orders",
                values,
                acks="all",
                throttle_cb=lambda event: told.append(event.throttle_time),
                **{"client.id": "slow", "batch.num.messages": 10, "enable.idempotence": True},
            )
            # Four seconds at its quota, of which the window gives it up to two.
            assert trio.current_time() - started > 1.5
            assert offsets == list(range(1, 401))
            assert max(told) > 0
            assert (await read(cluster.bootstrap(), "orders", 401))[1:] == values

    trio.run(run)


def test_a_consumer_above_its_rate_is_answered_empty_until_it_has_waited(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await form(cluster, 1, configs=SHORT_WINDOW)
            await alter(cluster, {QuotaEntity(client_id="slow"): {"consumer_byte_rate": RATE}})
            port = cluster.brokers[1].port
            async with (
                connected(port, "slow") as first,
                connected(port, "slow") as second,
                connected(port, "free") as free,
            ):
                await ask_produce(free, [bytes(4 * RATE)])
                sent = trio.current_time()
                ahead = await ask_fetch(first, 1)
                assert len(ahead.responses[0].partitions[0].records) > 4 * RATE
                assert 2_000 < ahead.throttle_time_ms <= 4_000
                empty = await ask_fetch(second, 1)
                assert (empty.responses, empty.session_id) == ((), 0)
                assert empty.throttle_time_ms > 0
                other = await ask_fetch(free, 1)
                assert other.responses[0].partitions[0].records
                assert other.throttle_time_ms == 0
                again = await ask_fetch(second, 1)
                assert trio.current_time() - sent > ahead.throttle_time_ms / 1_000 - CLOCKS_DIFFER_S
                assert again.responses[0].partitions[0].records
                assert again.session_id > 0
                assert len(cluster.brokers[1].broker.fetches.sessions) == 3  # none of the empty answer

    trio.run(run)


def test_the_time_of_requests_counts_on_coordinators_but_not_that_of_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await form(cluster, 1)
            await cluster.form_coordinators(41)
            await alter(cluster, {EACH_CLIENT_ID: NEARLY_NOTHING})
            fields: dict[str, object] = {
                "group_id": "readers",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
            }
            async with connected(cluster.coordinators[41].port, "app") as raw:
                while True:
                    answer = await raw.ask(ApiKey.OFFSET_COMMIT, 8, fields)
                    error = answer.topics[0].partitions[0].error_code
                    assert 0 < answer.throttle_time_ms <= 1_000
                    if error == ErrorCode.NONE:
                        break
                    assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            coordinator = cluster.coordinators[41].process
            assert counted(coordinator, QuotaName.REQUEST_PERCENTAGE) == {(None, "app")}
            broker = cluster.brokers[1].broker
            for name in (QuotaName.PRODUCER_BYTE_RATE, QuotaName.REQUEST_PERCENTAGE):
                assert counted(broker, name) == set()

    trio.run(run)


def test_a_connection_above_the_rate_of_its_address_is_closed_without_an_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await form(cluster, 1, configs=SHORT_WINDOW)
            port = cluster.brokers[1].port
            counters = cluster.brokers[1].broker.counters
            async with connected(port) as open_before:
                await open_before.ask(ApiKey.API_VERSIONS, 0, {})
                await alter(cluster, {QuotaEntity(ip="127.0.0.1"): {"connection_creation_rate": 1}})
                with pytest.raises((EOFError, trio.BrokenResourceError)):
                    for _ in range(100):
                        async with connected(port) as raw:
                            await raw.ask(ApiKey.API_VERSIONS, 0, {})
                assert counters.connections_throttled == 1
                await open_before.ask(ApiKey.API_VERSIONS, 0, {})

    trio.run(run)
