"""While SQL is away operators wait and partitions don't; afterwards nothing is missing from the audit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from controller.database import sql
from controller.database.sql import create_sql_engine
from controller.database.tables import idempotency_keys
from tests.hostile.aftermath import differences, everything
from tests.kit.admin_api.rest import Rest, controller, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

ORDERS = "/clusters/prod/topics/orders"
WRITES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/clusters", {"name": "other"}),
    ("POST", "/topics", {"name": "events", "cluster": "prod", "partitions": 1, "replication_factor": 1}),
    ("PATCH", ORDERS, {"partitions": 9}),
    ("DELETE", ORDERS, None),
    ("PUT", f"{ORDERS}/configs/retention.ms", {"value": "5"}),
    ("PUT", f"{ORDERS}/partitions/0/assignment", {"replicas": [2, 3]}),
    ("POST", f"{ORDERS}/partitions/0:elect-leader", {"election": "preferred"}),
    ("POST", "/clusters/prod/brokers", {"broker_id": 9, "endpoint": "store9:9092"}),
    ("PATCH", "/clusters/prod/brokers/2", {"cordoned": True}),
    ("POST", "/clusters/prod/brokers/2:demote", {}),
)


async def leaders(rest: Rest) -> list[int | None]:
    items = (await rest.client.get(f"{ORDERS}/partitions")).json()["items"]
    return [item["leader"] for item in items]


async def test_operators_are_refused_partitions_fail_over_and_no_row_is_missing_afterwards(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, run_outbox=True) as rest:
        brokers = await rest.form()
        await rest.create_topic("orders", partitions=3, replication_factor=3)
        assert len(set(await leaders(rest))) == 3
        written = len(await everything(rest, "/audit"))
        rest.sql.down = True
        before = len(zookeeper.history)
        for method, path, body in WRITES:
            answer = await rest.client.request(method, path, json=body)
            assert problem(answer) == (503, "audit_unavailable"), path
            assert answer.headers["retry-after"] == "1"
        assert len(zookeeper.history) == before, "a change that can't be written down is not made"
        await silence(rest, brokers, 2, 3)
        led_by = await leaders(rest)
        assert set(led_by) == {2, 3}
        assert len(zookeeper.history) > before

        rest.sql.down = False
        with_rows = 0
        for _ in range(20):
            await rest.clock.sleep_ms(1_000)
            with_rows = len(await everything(rest, "/audit"))
            if rest.outbox.depth == 0 and not rest.outbox.behind:
                break
        assert with_rows > written
        assert await differences(rest, zookeeper) == []
        rows = await everything(rest, "/audit?kind=request")
        assert [row["cause"] for row in rows] == ["create_topic"], (
            "what was refused unread is not told as tried"
        )
        verified = (await rest.client.get("/audit/verification", params={"cluster": "prod"})).json()
        assert verified["ok"] is True
        for method, path, body in (WRITES[0], WRITES[4]):
            assert (await rest.client.request(method, path, json=body)).status_code < 300


async def test_the_operations_log_has_the_beginning_and_the_end_of_an_outage(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        begun = await rest.post("/clusters/prod/brokers", {"broker_id": 9, "endpoint": "store9:9092"})
        assert begun.status_code == 202
        caplog.set_level("INFO")
        rest.sql.down = True
        await rest.clock.sleep_ms(700_000)  # past the operation's deadline, which is to be stored
        rest.sql.down = False
        await rest.clock.sleep_ms(1_000)
        said = [record.getMessage() for record in caplog.records]
        assert [line for line in said if line.startswith("operation")] == [
            "operations_wait cause=down",
            "operation_finished cluster=prod kind=broker_add state=failed",
            "operations_go_on",
        ]


async def test_what_the_audit_does_not_know_shows_as_a_difference(zookeeper: MemoryZooKeeper) -> None:
    """The comparison has teeth: while rows wait for SQL, it says so."""
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic("orders", partitions=3, replication_factor=3)
        await rest.outbox.flush()
        assert await differences(rest, zookeeper) == []
        await silence(rest, brokers, 2, 3)
        found = await differences(rest, zookeeper)
        assert found
        assert all(line.startswith("audit says") for line in found), found


LOCKED = "database is locked"
FULL = "database or disk is full"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def engine(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[sa.Engine]:
    """SQLite in a file; writers wait for another connection's lock for a hundredth of their time."""
    caplog.set_level("INFO", "controller.database.sql")
    monkeypatch.setattr(sql, "SQLITE_BUSY_MS", 50)
    monkeypatch.setattr(sql, "CHECK_SQL_MS", 10)
    engine = create_sql_engine(f"sqlite:///{file}")
    yield engine
    engine.dispose()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for name, _, text in caplog.record_tuples if name == "controller.database.sql"]


async def cause_in_readiness(rest: Rest) -> str | None:
    """Ask some seconds later; the problem tells it in words and as a fact."""
    await rest.clock.sleep_ms(6_000)
    answer = await rest.client.get("/readyz")
    if answer.status_code == 200:
        assert (answer.json()["ready"], answer.json()["sql"]) == (True, "ok")
        return None if answer.json()["sql_cause"] is None else "a cause without trouble"
    assert problem(answer) == (503, "not_ready")
    facts = answer.json()["facts"]
    assert facts["sql"] == "unavailable"
    assert answer.json()["detail"] == f"ZooKeeper is ok, SQL is unavailable: {facts['sql_cause']}"
    return str(facts["sql_cause"])


async def cause_in_refusals(rest: Rest) -> str:
    """Try a few writes; all refusals name the same cause."""
    refused = [await rest.post("/clusters", {"name": "prod"}) for _ in range(3)]
    assert {problem(answer) for answer in refused} == {(503, "audit_unavailable")}
    (detail,) = {answer.json()["detail"] for answer in refused}
    return str(detail).removeprefix("the audit database is unavailable: ")


async def test_readiness_finds_out_by_itself_that_sqlite_is_locked(
    zookeeper: MemoryZooKeeper, engine: sa.Engine, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(zookeeper, sql_engine=engine) as rest:
        assert await cause_in_readiness(rest) is None
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            assert await cause_in_readiness(rest) == LOCKED
            assert await cause_in_refusals(rest) == LOCKED
            assert await cause_in_readiness(rest) == LOCKED
            assert lines(caplog) == [f"database_refuses_writes cause={LOCKED}"]
        assert await cause_in_readiness(rest) is None
        assert (await rest.post("/clusters", {"name": "prod"})).status_code == 201
        assert lines(caplog)[1:] == ["database_takes_writes_again"]


async def test_a_full_sqlite_is_named_by_the_refused_write_the_log_and_readiness(
    zookeeper: MemoryZooKeeper, engine: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(zookeeper, sql_engine=engine) as rest:
        with engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        for number in range(100):
            if (await rest.post("/clusters", {"name": f"prod{number}"})).status_code != 201:
                break
        assert await cause_in_refusals(rest) == FULL
        for _ in range(3):
            assert await cause_in_readiness(rest) == FULL
        assert lines(caplog) == [f"database_refuses_writes cause={FULL}"]
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        assert await cause_in_readiness(rest) is None
        assert (await rest.post("/clusters", {"name": "prod"})).status_code == 201
        assert lines(caplog)[1:] == ["database_takes_writes_again"]


async def test_readiness_writes_at_most_every_few_seconds_and_leaves_nothing(
    zookeeper: MemoryZooKeeper, engine: sa.Engine
) -> None:
    began: list[str] = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def watch(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        began.extend([statement] if statement == "BEGIN IMMEDIATE" else [])

    async with controller(zookeeper, sql_engine=engine) as rest:
        assert await cause_in_readiness(rest) is None
        began.clear()
        for _ in range(12):
            await rest.clock.sleep_ms(1_000)
            assert (await rest.client.get("/readyz")).is_success
        assert len(began) == 2
        await rest.clock.sleep_ms(4_000)
        assert (await rest.post("/clusters", {"name": "prod"})).status_code == 201
        began.clear()
        await rest.clock.sleep_ms(4_000)
        assert (await rest.client.get("/readyz")).is_success
        assert began == [], "a write of a moment ago is as good"
        with engine.connect() as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(idempotency_keys)) == 0
