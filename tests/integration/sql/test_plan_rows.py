"""Plans in SQL, on both databases: written in pages, claimed once, with what became of each move."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import sqlalchemy as sa

from controller.audit.receipts import begun_moves
from controller.core.planning.goals import Drain
from controller.core.planning.plan import (
    Level,
    Levels,
    Move,
    MoveReason,
    Plan,
    PlanOutcome,
    Totals,
    content_hash,
)
from controller.database import migrate, plan_rows
from controller.database.rows import MoveRow
from controller.database.sql import Database
from controller.database.tables import plan_moves, plans
from controller.operations.shell.plans import PlanOrigin, find_plan, store_plan
from springtide.contract.epochs import PartitionEpoch
from tests.kit.controller.sql import run_in_place

ORIGIN = PlanOrigin(plan_id="plan_1", actor="alice\N{SNOWMAN}", reason="a\x00b", request_id=None)


def plan_of(moves: int) -> Plan:
    made = tuple(
        Move(
            topic_id="Zk1lV0pCTEq4nY6mXw2v3A",
            topic="orders",
            partition=number,
            partition_epoch=None if number == 0 else PartitionEpoch(number),
            replicas_before=(1, 2, 3),
            replicas_after=(4, 2, 3),
            reasons=(MoveReason.DRAIN,),
            size_bytes=None if number % 2 else 2**40,
            bytes=2**40,
            gain=2**70,
        )
        for number in range(moves)
    )
    return Plan(
        goal=Drain(broker_ids=(1,)),
        outcome=PlanOutcome.READY,
        moves=made,
        rejections=(),
        totals=Totals(moves=moves, copies=moves, bytes=moves * 2**40),
        before=Levels(replicas=_level(), leaders=_level(), bytes=_level()),
        after=Levels(replicas=_level(), leaders=_level(), bytes=_level()),
        curve=(),
    )


def _level() -> Level:
    return Level(lowest=1, highest=2, total=3, brokers=2)


def _keep(store: Database, plan: Plan, origin: PlanOrigin = ORIGIN, *, now_ms: int = 1_000) -> Any:
    engine: Any = SimpleNamespace(clock=SimpleNamespace(expiry_ms=lambda: now_ms))
    return anyio.run(partial(store_plan, engine, store, "prod", plan, origin, now_ms=now_ms, expires_ms=100))


def _read(store: Database, work: Any) -> Any:
    return anyio.run(store.read, work)


def _write(store: Database, work: Any) -> Any:
    return anyio.run(store.write, work)


def test_a_plan_of_several_pages_comes_back_as_it_was(store: Database) -> None:
    plan = plan_of(plan_rows.MOVES_PER_WRITE + 7)
    stored = _keep(store, plan)
    assert stored.plan == plan
    assert stored.row.content_hash == content_hash(plan) == content_hash(stored.plan)
    assert (stored.row.actor, stored.row.reason) == ("alice\N{SNOWMAN}", "a\N{REPLACEMENT CHARACTER}b")
    # Once more, under the same name, it is the first that stays.
    assert _keep(store, plan_of(2)).plan == plan


def test_a_plan_whose_writer_died_is_not_there_and_is_replaced(store: Database) -> None:
    row = plan_rows.plan_row(
        plan_of(3),
        plan_id="plan_1",
        cluster="prod",
        actor="alice",
        reason=None,
        request_id=None,
        created_at_ms=1,
        expires_at_ms=2,
    )
    assert _write(store, partial(plan_rows.begin_plan, row=row))
    moves = [MoveRow(position=n, move=move) for n, move in enumerate(plan_of(3).moves)]
    _write(store, partial(plan_rows.insert_moves, plan_id="plan_1", moves=moves))
    assert anyio.run(find_plan, store, "prod", "plan_1") is None
    assert _read(store, partial(plan_rows.list_plans, cluster="prod", below=None, limit=9)) == []
    assert not _write(store, partial(plan_rows.claim_plan, plan_id="plan_1", operation_id="op_1"))
    assert _keep(store, plan_of(2)).plan == plan_of(2)


def test_one_operation_gets_a_plan_and_keeps_it(store: Database) -> None:
    _keep(store, plan_of(2))
    claim = partial(plan_rows.claim_plan, plan_id="plan_1")
    assert _write(store, partial(claim, operation_id="op_1"))
    assert _write(store, partial(claim, operation_id="op_1"))
    assert not _write(store, partial(claim, operation_id="op_2"))
    assert not _write(store, partial(plan_rows.delete_plan, plan_id="plan_1"))
    assert _write(store, partial(plan_rows.forget_expired, before_ms=10**12, limit=10)) == 0
    assert [row.id for row in _read(store, partial(plan_rows.plans_of, operation_id="op_1"))] == ["plan_1"]


def test_an_operations_plans_come_in_the_order_in_which_it_made_them(store: Database) -> None:
    """Also those of one millisecond, of which the tenth is not the second."""
    made = ["plan_1", *(f"plan_1_{turn}" for turn in range(1, 12))]
    for plan_id in reversed(made):
        _keep(store, plan_of(1), msgspec.structs.replace(ORIGIN, plan_id=plan_id))
        assert _write(store, partial(plan_rows.claim_plan, plan_id=plan_id, operation_id="op_1"))
    assert [row.id for row in _read(store, partial(plan_rows.plans_of, operation_id="op_1"))] == made
    assert _read(store, partial(plan_rows.plan_ids_of, operation_id="op_1")) == made


def test_a_receipt_names_what_any_of_the_plans_has_begun(store: Database) -> None:
    for place, plan_id in enumerate(("plan_1", "plan_1_1")):
        _keep(store, plan_of(3), msgspec.structs.replace(ORIGIN, plan_id=plan_id))
        assert _write(store, partial(plan_rows.claim_plan, plan_id=plan_id, operation_id="op_1"))
        moves = _read(store, partial(plan_rows.get_moves, plan_id=plan_id))
        begun = [msgspec.structs.replace(moves[place], fate="moved", begun_at_ms=7)]
        _write(store, partial(plan_rows.update_fates, plan_id=plan_id, moves=begun))
    named = _read(store, partial(begun_moves, operation_id="op_1"))
    assert named == {f"Zk1lV0pCTEq4nY6mXw2v3A/{number}": "orders" for number in (0, 1)}


def test_fates_are_kept_move_by_move(store: Database) -> None:
    _keep(store, plan_of(5))
    moves = _read(store, partial(plan_rows.get_moves, plan_id="plan_1", start=1, end=4))
    assert [found.position for found in moves] == [1, 2, 3]
    begun = [msgspec.structs.replace(found, fate="moving", begun_at_ms=7) for found in moves[:2]]
    ended = msgspec.structs.replace(moves[2], fate="refused", detail="no", begun_at_ms=7, ended_at_ms=9)
    _write(store, partial(plan_rows.update_fates, plan_id="plan_1", moves=[*begun, ended]))
    assert _read(store, partial(plan_rows.get_moves, plan_id="plan_1", fates=("moving",))) == begun
    assert _read(store, partial(plan_rows.get_moves, plan_id="plan_1", start=3, limit=1)) == [ended]
    # What became of a move is no part of what was planned.
    stored = anyio.run(find_plan, store, "prod", "plan_1")
    assert stored is not None
    assert content_hash(stored.plan) == stored.row.content_hash


def test_plans_that_nobody_carried_out_go_when_they_have_expired(store: Database) -> None:
    for number in range(3):
        origin = msgspec.structs.replace(ORIGIN, plan_id=f"plan_{number}")
        _keep(store, plan_of(1), origin, now_ms=1_000 * number)
    assert _write(store, partial(plan_rows.forget_expired, before_ms=1_101, limit=10)) == 2
    (left,) = _read(store, partial(plan_rows.list_plans, cluster="prod", below=None, limit=9))
    assert left.id == "plan_2"
    assert _write(store, partial(plan_rows.delete_plan, plan_id="plan_2"))
    for table in (plans, plan_moves):
        count = sa.select(sa.func.count()).select_from(table)
        assert _read(store, lambda connection, query=count: connection.execute(query).scalar_one()) == 0


def test_the_history_of_the_revision_before_stays_and_plans_find_room(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0004")
    engine = sa.create_engine(empty_url)
    operation = {
        "id": "op_1",
        "kind": "broker_demote",
        "cluster": "prod",
        "state": "running",
        "actor": "alice",
        "created_at_ms": 1,
        "deadline_at_ms": 2,
        "body": '{"spec": {"type": "broker_demote", "broker_id": 1}, "steps": []}',
        "revision": 0,
    }
    columns = ", ".join(operation)
    values = ", ".join(f":{name}" for name in operation)
    with engine.begin() as connection:
        connection.execute(sa.text(f"insert into operations ({columns}) values ({values})"), operation)
    engine.dispose()
    for _ in range(2):
        migrate.upgrade(empty_url)
        opened = Database.open(empty_url, run_sync=run_in_place)
        assert _keep(opened, plan_of(2)).plan == plan_of(2)
        assert _read(opened, _operations) == 1
        opened.close()
        migrate.downgrade(empty_url, "0004")


def _operations(connection: sa.Connection) -> int:
    return int(connection.execute(sa.text("select count(*) from operations")).scalar_one())
