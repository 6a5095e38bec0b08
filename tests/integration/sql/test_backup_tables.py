"""A database to lines and back, from each product into each, with nothing lost that the chain vouches for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from controller.audit import history
from controller.audit.change import Entity
from controller.audit.history import Intent
from controller.audit.verification import verify
from controller.backup.archive import BackupInvalid
from controller.backup.tables import DatabaseNotThere, check_empty, read_tables, write_tables
from controller.database import schema
from controller.database.sql import Database
from controller.database.tables import idempotency_keys, silences
from springtide.levels import UNTOLD
from tests.kit.controller.sql import run_in_place

pytestmark = pytest.mark.anyio

#: A row has texts that are hard to keep, and numbers.
INTENT = Intent(
    cluster="prod",
    action="create_topic",
    entity=Entity.TOPIC,
    entity_id="orders",
    actor="alice\N{SNOWMAN}",
    reason="launch",
    request_id="r1",
    at_ms=10,
    body={"ratio": 0.1, "big": 2**80, "half": "\ud800", "nested": {"b": [None, True], "a": -0.0}},
    topic="orders",
)


@pytest.fixture(params=["sqlite newest", "postgres newest", "sqlite first"])
def place(request: pytest.FixtureRequest) -> str:
    """A later release's database is backed up by that one."""
    return str(request.param)


@pytest.fixture
def target_url(empty_url: str) -> str:
    """Another database than the one that is read."""
    return empty_url.replace(".db", "-restored.db") if empty_url.startswith("sqlite") else empty_url


def lines_of(url: str) -> tuple[str, list[Any], dict[str, int]]:
    """Return the revision, the rows as they are in a file, and how many there are."""
    lines: list[str] = []
    totals: list[int] = []
    _, revision, counts = read_tables(
        url, lambda name, row: lines.append(json.dumps([name, row])), totals.append
    )
    assert totals == [len(lines)] == [sum(counts.values())]
    return revision, [json.loads(line) for line in lines], counts


async def test_rows_come_back_as_they_were_and_the_history_goes_on(
    store: Database, database_url: str, target_url: str
) -> None:
    for _ in range(603):
        await store.write(history.append_intent, intent=INTENT, recorded_at_ms=1)
    key = {"scope": "s", "key": "k", "body_hash": "", "seed": "", "claimed_at_ms": 0, "expires_at_ms": 0}
    keyed = idempotency_keys.insert().values(**key, body=b"\x00\xff", headers={"a": "b"})
    await store.write(lambda connection: connection.execute(keyed))
    revision, lines, counts = lines_of(database_url)
    assert (counts["audit"], counts["idempotency_keys"]) == (603, 1)

    check_empty(target_url)
    written: list[int] = []
    write_tables(target_url, revision, iter(lines), written.append)
    assert sum(written) == len(lines)
    assert lines_of(target_url) == (revision, lines, counts)
    with pytest.raises(BackupInvalid, match="has tables already"):
        check_empty(target_url)
    restored = Database.open(target_url, run_sync=run_in_place)
    try:
        newest = await restored.write(history.append_intent, intent=INTENT, recorded_at_ms=1)
        assert newest == 604, "ids go on"
        found = await verify(restored, "prod")
        assert found is not None
        assert (found.mismatch, found.rows) == (None, 604)
    finally:
        restored.close()
    schema.upgrade(target_url)


async def test_a_restore_that_fails_leaves_nothing(
    store: Database, database_url: str, target_url: str
) -> None:
    await store.write(history.append_intent, intent=INTENT, recorded_at_ms=1)
    revision, lines, _ = lines_of(database_url)
    for wrong in (["audit", {"id": 1}], ["elsewhere", {}], "x", None):
        with pytest.raises(BackupInvalid, match="a line is no row"):
            write_tables(target_url, revision, iter([*lines, wrong]), lambda count: None)
        check_empty(target_url)


def test_a_database_that_lacks_a_later_column_is_backed_up_and_comes_back(
    target_url: str, tmp_path: Path
) -> None:
    older = f"sqlite:///{tmp_path / 'older.db'}"
    schema.upgrade(older, UNTOLD)
    silence = {"id": "s", "cluster": "prod", "reason": "", "actor": "a", "created_at_ms": 1, "until_ms": 2}
    with schema.locked(older) as connection:
        connection.execute(silences.insert().values(**silence))
    revision, lines, counts = lines_of(older)
    assert counts["silences"] == 1
    assert "transactional_id" not in dict(lines)["silences"]
    write_tables(target_url, revision, iter(lines), lambda count: None)
    assert lines_of(target_url) == (revision, lines, counts)
    schema.upgrade(target_url)


def test_what_is_no_database_of_ours_is_not_backed_up(target_url: str, tmp_path: Path) -> None:
    def read(url: str) -> None:
        read_tables(url, lambda name, row: None, lambda total: None)

    missing = tmp_path / "missing.db"
    with pytest.raises(DatabaseNotThere, match="there is no file"):
        read(f"sqlite:///{missing}")
    assert not missing.exists()
    if target_url.startswith("postgres"):
        with pytest.raises(DatabaseNotThere, match="has no tables"):
            read(target_url)
    schema.upgrade(target_url, UNTOLD)
    read(target_url)
    with schema.locked(target_url) as connection:
        connection.execute(sa.text("update alembic_version set version_num = '0099'"))
    with pytest.raises(BackupInvalid, match="of a later release"):
        read(target_url)
