"""A controller of this release reads the SQL database of the last one, and at that level writes the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import sqlalchemy as sa

from controller.audit.verification import Verification, verify
from controller.core.planning.plan import content_hash
from controller.database.operation_rows import OperationFilter, insert_operation, list_operations
from controller.database.plan_rows import begin_plan, decode_plan, get_moves, get_plan, insert_moves
from controller.database.policy_rows import list_policies, put_policy
from controller.database.schema import upgrade
from controller.database.sql import Database, create_sql_engine
from controller.database.webhook_rows import list_silences, list_webhooks, put_webhook
from controller.operations.model import Work, encode_work
from controller.webhooks.core.target import Kept
from springtide.levels import NEWEST, Level
from tests.upgrade.golden.files import Golden, kept_levels

CLUSTER, ROWS = "prod", 1_000
REVISIONS = {Level(0): "0009", Level(1): "0011"}
"""The last step of the schema at each level."""
ADDED = {Level(1): {("silences", "transactional_id"), ("silences", "producer_id")}}
"""Columns that later releases have added, which those of the level do not mind: (table, column)."""
OF_THE_SCHEMA = {"alembic_version", "schema_compat"}


@pytest.fixture(params=kept_levels())
def written_at(request: pytest.FixtureRequest) -> Level:
    level: Level = request.param
    return level


@pytest.fixture
def path(written_at: Level, tmp_path: Path) -> Path:
    path = tmp_path / "audit.db"
    Golden(written_at).unpack_database(path)
    return path


@pytest.fixture(params=["the same level", "the newest"])
def level(request: pytest.FixtureRequest, written_at: Level) -> Level:
    """Return the level at which it is used now."""
    return NEWEST if request.param == "the newest" else written_at


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def columns(path: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return (table, column) -> type, whether it may be null, default, place in the key."""
    database = sqlite3.connect(path)
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        (name, column): tuple(about)
        for name in names
        for _, column, *about in database.execute(f"PRAGMA table_info({name})")
    }
    database.close()
    return found


def indexes(path: Path) -> set[tuple[str, str]]:
    database = sqlite3.connect(path)
    found = set(database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'").fetchall())
    database.close()
    return found


def contents(path: Path, of: Collection[tuple[str, str]]) -> dict[tuple[str, str], list[Any]]:
    """Return the values of these columns, in the order of the rows."""
    database = sqlite3.connect(path)
    found = {
        (table, column): [
            value for (value,) in database.execute(f"SELECT {column} FROM {table} ORDER BY rowid")
        ]
        for table, column in of
        if table not in OF_THE_SCHEMA
    }
    database.close()
    return found


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    found = database.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
    database.close()
    return found


def verified(path: Path) -> Verification:
    async def ask() -> Verification | None:
        database = Database.open(url_of(path))
        try:
            return await verify(database, CLUSTER, from_seq=None, to_seq=None)
        finally:
            database.close()

    found = anyio.run(ask)
    assert found is not None
    return found


def test_at_its_level_nothing_is_changed_but_for_columns_that_are_added(
    written_at: Level, path: Path
) -> None:
    before = columns(path)
    values = contents(path, before)
    assert upgrade(url_of(path), written_at) == REVISIONS[written_at]
    after = columns(path)
    assert after.keys() - before.keys() == ADDED.get(written_at, set())
    assert not any(after[one][1] for one in after.keys() - before.keys()), "one must be given a value"
    assert {one: after[one] for one in before} == before
    assert contents(path, before) == values


def test_a_database_made_at_its_level_has_the_same_tables(
    written_at: Level, path: Path, tmp_path: Path
) -> None:
    fresh = tmp_path / "fresh.db"
    upgrade(url_of(fresh), written_at)
    upgrade(url_of(path), written_at)
    assert columns(fresh) == columns(path)
    assert indexes(fresh) == indexes(path)


def test_the_history_fits_its_chain_of_hashes(path: Path, level: Level) -> None:
    upgrade(url_of(path), level)
    found = verified(path)
    assert found.mismatch is None
    assert found.rows > 300


def test_a_changed_history_does_not_fit(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE audit SET actor = 'mallory' WHERE seq = 100")
    database.commit()
    database.close()
    assert verified(path).mismatch is not None


def test_what_is_stored_is_read_and_stored_again_in_the_same_rows(
    path: Path, tmp_path: Path, level: Level
) -> None:
    upgrade(url_of(path), level)
    fresh = tmp_path / "fresh.db"
    upgrade(url_of(fresh), level)
    with _opened(path) as old, _opened(fresh, springtide_write=True) as new:
        operations = list_operations(old, OperationFilter(), limit=ROWS)
        for operation in operations:
            work = msgspec.convert(operation.body, Work)
            assert encode_work(work) == operation.body
            insert_operation(new, operation)
        for plan_id in old.scalars(sa.text("SELECT id FROM plans")).all():
            row = get_plan(old, CLUSTER, plan_id)
            assert row is not None
            moves = get_moves(old, plan_id)
            assert content_hash(decode_plan(row, moves)) == row.content_hash
            begin_plan(new, row)
            insert_moves(new, plan_id, moves)
        for policy in list_policies(old, CLUSTER):
            assert put_policy(new, policy, replaces=None)
        for webhook in list_webhooks(old, CLUSTER):
            kept = msgspec.convert(webhook.state, Kept)
            assert msgspec.json.decode(msgspec.json.encode(kept)) == webhook.state
            assert put_webhook(new, webhook, replaces=None)
        assert len(list_silences(old, CLUSTER, wall_ms=0)) == 1
    assert len(operations) > 2
    for table in ("operations", "plan_moves", "policies", "webhooks"):
        assert rows(fresh, table) == rows(path, table), table


@contextmanager
def _opened(path: Path, **options: bool) -> Iterator[sa.Connection]:
    engine = create_sql_engine(url_of(path))
    try:
        with engine.execution_options(**options).begin() as connection:
            yield connection
    finally:
        engine.dispose()
