from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import anyio
import msgspec
import pytest
import sqlalchemy as sa

from controller.audit import history
from controller.audit.change import AuditedChange, Entity
from controller.audit.outbox import BATCH_MAX, AuditOutbox
from controller.audit.queries import AuditFilter, AuditRow, list_rows
from controller.database.sql import Database, DatabaseUnavailable, create_sql_engine
from controller.database.tables import metadata
from springtide.contract.epochs import ControllerEpoch
from tests.kit.clocks import EagerClock
from tests.kit.controller.sql import run_in_place

T = TypeVar("T")


class UnreliableSql:
    """Where SQL work runs: in place, unless the database is `down`."""

    def __init__(self) -> None:
        self.down = False

    async def __call__(self, work: Callable[[], T], *, exclusive: bool) -> T:
        if self.down:
            raise DatabaseUnavailable("down")
        return await run_in_place(work, exclusive=exclusive)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = create_sql_engine("sqlite://")
    metadata.create_all(engine)
    yield engine
    engine.dispose()


def broker(version: int, *, first: bool = False) -> AuditedChange:
    return AuditedChange(
        cluster="prod",
        entity=Entity.BROKER,
        entity_id="1",
        version=version,
        cause="broker_registered" if first else "broker_fenced",
        actor="controller",
        at_ms=version,
        before=None if first else {"version": version - 1},
        after={"version": version},
        controller_epoch=ControllerEpoch(3),
    )


async def stored(store: Database) -> list[AuditRow]:
    return await store.read(list_rows, wanted=AuditFilter(), limit=1_000)


def no_truth(_cluster: str) -> Sequence[AuditedChange]:
    return ()


@pytest.mark.anyio
async def test_changes_and_outcomes_reach_sql_in_the_order_told(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    outbox = AuditOutbox(store, clock=EagerClock(), truth=no_truth)
    outbox.record_changes([broker(1, first=True), broker(2)])
    outbox.record_changes([broker(3)])
    assert outbox.depth == 3
    await outbox.flush()
    assert outbox.depth == 0
    assert [row.version for row in await stored(store)] == [3, 2, 1]


@pytest.mark.anyio
async def test_while_sql_is_down_nothing_is_lost_and_retries_slow_down(engine: sa.Engine) -> None:
    sql = UnreliableSql()
    sql.down = True
    store = Database(engine, sql)

    async def comes_back_after_seven_tries() -> None:
        await anyio.lowlevel.checkpoint()
        sql.down = len(clock.slept_ms) < 7

    clock = EagerClock(comes_back_after_seven_tries)
    outbox = AuditOutbox(store, clock=clock, truth=no_truth)
    outbox.record_changes([broker(1, first=True)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run)
        outbox.record_changes([broker(2)])
        while outbox.depth:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert clock.slept_ms == [100, 200, 400, 800, 1_600, 3_200, 5_000]
    assert [row.version for row in await stored(store)] == [2, 1]


@pytest.mark.anyio
async def test_what_a_full_queue_could_not_hold_is_back_filled_and_marked(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    present = broker(9)
    outbox = AuditOutbox(
        store,
        clock=EagerClock(),
        truth=lambda _cluster: [msgspec.structs.replace(present, before=None)],
        changes_max=2,
    )
    outbox.record_changes([broker(1, first=True), *(broker(version) for version in range(2, 10))])
    assert (outbox.depth, outbox.dropped, outbox.behind) == (2, 7, ("prod",))
    await outbox.flush()
    newest, *older = await stored(store)
    assert [row.version for row in older] == [2, 1]
    assert (newest.version, newest.before, newest.backfilled, newest.gap_before) == (
        9,
        {"version": 2},
        True,
        True,
    )
    assert outbox.behind == ()
    outbox.record_changes([broker(10)])
    await outbox.flush()
    assert [row.version for row in await stored(store)] == [10, 9, 2, 1]


@pytest.mark.anyio
async def test_a_back_fill_at_activation_is_idempotent_and_ends_what_is_gone(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    entities: list[AuditedChange] = [msgspec.structs.replace(broker(4), before=None)]
    outbox = AuditOutbox(store, clock=EagerClock(), truth=lambda _cluster: list(entities))
    for _ in range(2):
        outbox.backfill("prod")
        await outbox.flush()
    assert [(row.version, row.cause) for row in await stored(store)] == [(4, "broker_fenced")]
    other = msgspec.structs.replace(broker(1, first=True), entity_id="2")
    entities[:] = [other]
    outbox.backfill("prod")
    await outbox.flush()
    assert [(row.version, row.cause) for row in await stored(store)] == [
        (5, history.REMOVAL_NOT_RECORDED),
        (1, "broker_registered"),
        (4, "broker_fenced"),
    ]


@pytest.mark.anyio
async def test_what_comes_to_be_during_a_long_back_fill_is_kept_and_does_not_wait_for_its_end(
    engine: sa.Engine,
) -> None:
    store = Database(engine, run_in_place)
    clock = EagerClock()

    def truth(_cluster: str) -> Iterator[AuditedChange]:
        for number in range(2 * BATCH_MAX):
            if number == BATCH_MAX - 1:
                outbox.record_changes([msgspec.structs.replace(broker(1, first=True), entity_id="9999")])
            yield msgspec.structs.replace(broker(4), before=None, entity_id=str(number))

    outbox = AuditOutbox(store, clock=clock, truth=truth)
    outbox.backfill("prod")
    await outbox.flush()
    everything = await store.read(list_rows, wanted=AuditFilter(), limit=3 * BATCH_MAX)
    rows = [row for row in everything if row.cause != "broker_fenced"]
    assert [(row.entity_id, row.cause) for row in rows] == [("9999", "broker_registered")]
    assert rows[0].id == BATCH_MAX + 1


@pytest.mark.anyio
async def test_a_controller_that_lost_its_role_does_not_declare_everything_gone(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    outbox = AuditOutbox(store, clock=EagerClock(), truth=no_truth)
    outbox.record_changes([broker(1, first=True)])
    outbox.backfill("prod")
    await outbox.flush()
    assert [row.version for row in await stored(store)] == [1]
    assert outbox.behind == ()


@pytest.mark.anyio
async def test_while_an_activations_back_fill_waits_for_sql_every_change_is_kept(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    truth = [msgspec.structs.replace(broker(3), before=None)]
    outbox = AuditOutbox(store, clock=EagerClock(), truth=lambda _cluster: truth)
    outbox.backfill("prod")
    outbox.record_changes([broker(1, first=True), broker(2), broker(3)])
    await outbox.flush()
    rows = await stored(store)
    assert [(row.version, row.backfilled) for row in rows] == [(3, False), (2, False), (1, False)]


@pytest.mark.anyio
async def test_a_back_fill_interrupted_by_an_outage_is_asked_for_again(engine: sa.Engine) -> None:
    sql = UnreliableSql()
    store = Database(engine, sql)
    outbox = AuditOutbox(
        store, clock=EagerClock(), truth=lambda _c: [msgspec.structs.replace(broker(4), before=None)]
    )
    sql.down = True
    outbox.backfill("prod")
    with pytest.raises(DatabaseUnavailable):
        await outbox.flush()
    assert outbox.behind == ("prod",)
    sql.down = False
    await outbox.flush()
    assert [row.version for row in await stored(store)] == [4]


@pytest.mark.anyio
async def test_a_row_that_sql_refuses_does_not_hold_up_the_others(engine: sa.Engine) -> None:
    store = Database(engine, run_in_place)
    outbox = AuditOutbox(store, clock=EagerClock(), truth=no_truth)
    poison = msgspec.structs.replace(broker(2), at_ms=None)  # breaks NOT NULL
    outbox.record_changes([broker(1, first=True), poison, broker(3)])
    await outbox.flush()
    assert [row.version for row in await stored(store)] == [3, 1]
    assert outbox.rejected == 1


@pytest.mark.anyio
async def test_an_outage_is_one_line_in_the_log_however_often_it_is_tried(
    engine: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    sql = UnreliableSql()
    clock = EagerClock()
    outbox = AuditOutbox(Database(engine, sql), clock=clock, truth=no_truth)
    sql.down = True
    outbox.record_changes([broker(1, first=True)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run)
        while clock.now_mono_ms() < 60_000:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [record.getMessage() for record in caplog.records] == [
        "database_refuses_writes cause=down",
        "audit_waits_for_database rows=1 cause=down",
    ]
