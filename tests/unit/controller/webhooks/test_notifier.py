"""The task over a real engine and SQL: what outlives a controller, and what goes on without SQL."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import msgspec
import pytest

from controller.database.sql import DatabaseUnavailable, create_sql_engine
from controller.database.webhook_rows import all_webhooks
from controller.webhooks.core.target import Kept
from controller.webhooks.notifier import SQL_RETRY_MS, kept_in
from tests.kit.admin_api.rest import Rest, controller, silence, speaking
from tests.kit.controller.receiver import MemoryReceiver
from tests.kit.controller.shell import Broker, until_active
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PAGER = "/clusters/prod/webhooks/pager"
SILENCES = "/clusters/prod/silences"
QUICK = {"url": "https://pager.example.com/", "wait_s": 0, "settle_s": 1}
BEGIN, END = ("begin", "broker_fenced"), ("end", "broker_fenced")


async def made(rest: Rest) -> None:
    assert (await rest.client.put(PAGER, json=QUICK)).status_code == 201


def moved_to(rest: Rest, brokers: list[Broker]) -> list[Broker]:
    """The brokers find the controller that took over."""
    for broker in brokers:
        broker.engine = rest.engine
    return brokers


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_takeover_repeats_no_begin_and_loses_no_end(
    zookeeper: MemoryZooKeeper, is_paused: bool
) -> None:
    """is_paused: the end comes while the first controller tells nothing any more."""
    sql_engine = create_sql_engine("sqlite://")
    receiver = MemoryReceiver()
    async with (
        anyio.create_task_group() as tasks,
        controller(zookeeper, name="c1", sql_engine=sql_engine) as first,
        controller(zookeeper, name="c2", sql_engine=sql_engine, is_active=False) as second,
    ):
        brokers = await first.form()
        for rest in (first, second):
            rest.app.state.notifier.post = receiver
            tasks.start_soon(rest.app.state.notifier.run)
        await made(first)
        quiet = {"code": "disk_fills", "minutes": 60, "reason": "r"}
        assert (await first.client.post(SILENCES, json=quiet)).status_code == 201
        await silence(first, brokers, 1, 2)
        assert receiver.told == [BEGIN]
        if is_paused:
            first.app.state.notifier.look = anyio.lowlevel.checkpoint
            await brokers[2].register()
            await brokers[2].heartbeat()
        first.engine.stand_down()
        await until_active([second.engine])
        moved_to(second, brokers)
        alive = brokers if is_paused else brokers[:2]
        async with speaking(second, alive):
            await second.clock.sleep_ms(60_000)
        assert receiver.told == ([BEGIN, END] if is_paused else [BEGIN])
        assert [one.code for one in second.app.state.notifier.silences_of("prod")] == ["disk_fills"]
        assert first.app.state.notifier.silences_of("prod") == () or is_paused
        if not is_paused:
            await brokers[2].register()
            async with speaking(second, brokers):
                await second.clock.sleep_ms(30_000)
            assert receiver.told == [BEGIN, END]
        tasks.cancel_scope.cancel()


async def test_a_controller_that_was_replaced_tells_nothing_more(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        await made(rest)
        tasks.start_soon(rest.app.state.notifier.run)
        await rest.clock.sleep_ms(2_000)
        (row,) = await rest.store.read(all_webhooks)
        assert row.state_revision == 1, "taken from whoever had it"
        # Another controller takes the row, and has sent the begin already.
        another = rest.app.state.notifier._webhooks[row.uid]
        another.state_revision = 0
        await silence(rest, brokers, 1, 2)
        assert receiver.told == [BEGIN], "read again, and told by what the row says"
        assert rest.app.state.notifier._webhooks[row.uid] is not another
        tasks.cancel_scope.cancel()


async def test_alarms_are_told_while_sql_takes_no_writes(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        await made(rest)
        tasks.start_soon(rest.app.state.notifier.run)
        await rest.clock.sleep_ms(2_000)
        rest.sql.down = True
        await silence(rest, brokers, 1, 2)
        assert receiver.told == [BEGIN]
        rest.sql.down = False
        await rest.clock.sleep_ms(SQL_RETRY_MS + 3_000)
        (row,) = await rest.store.read(all_webhooks)
        assert row.state["told"][0]["subject"]["broker_id"] == 3
        assert row.state["queue"] == []
        tasks.cancel_scope.cancel()


async def test_what_is_written_during_a_read_is_read_again(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await made(rest)
        notifier = rest.app.state.notifier
        read = notifier._read

        async def slow(epoch: int) -> object:
            found = await read(epoch)
            quiet = {"code": "disk_fills", "minutes": 60, "reason": "r"}
            assert (await rest.client.post(SILENCES, json=quiet)).status_code == 201
            return found

        notifier._read = slow
        await notifier.look()
        assert notifier.silences_of("prod") == ()
        notifier._read = read
        await notifier.look()
        assert len(notifier.silences_of("prod")) == 1


async def test_while_sql_hangs_it_is_asked_now_and_then_and_alarms_are_told(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        for number in range(8):
            await rest.client.put(f"{PAGER}{number}", json=QUICK)
        tasks.start_soon(rest.app.state.notifier.run)
        await rest.clock.sleep_ms(2_000)
        asked = 0

        async def hang(work: object, *args: object, **fields: object) -> object:
            nonlocal asked
            asked += 1
            await rest.clock.sleep_ms(5_000)
            raise DatabaseUnavailable("database is locked")

        rest.app.state.notifier._store.write = hang
        await silence(rest, brokers, 1, 2)
        async with speaking(rest, brokers[:2]):
            await rest.clock.sleep_ms(10_000)
        assert receiver.told == [BEGIN] * 8
        assert asked < 8
        tasks.cancel_scope.cancel()


async def test_what_another_release_has_stored_otherwise_is_forgotten(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await made(rest)
        (row,) = await rest.store.read(all_webhooks)
        assert kept_in(row) == Kept()
        assert kept_in(msgspec.structs.replace(row, state={"told": "x", "queue": 7})) == Kept()


async def test_a_deleted_webhook_is_told_nothing_and_a_disabled_one_later(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        await made(rest)
        gone = PAGER.replace("pager", "gone")
        assert (await rest.client.put(gone, json=QUICK)).status_code == 201
        tasks.start_soon(rest.app.state.notifier.run)
        await rest.client.delete(gone)
        await rest.client.put(PAGER, json=QUICK | {"enabled": False})
        await silence(rest, brokers, 1, 2)
        assert receiver.told == []
        await rest.client.put(PAGER, json=QUICK)
        await silence(rest, brokers, 1, 2)
        assert receiver.told == [BEGIN]
        tasks.cancel_scope.cancel()
