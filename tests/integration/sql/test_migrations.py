from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import migrations
from controller.audit import history
from controller.audit.change import Entity
from controller.audit.history import Intent
from controller.audit.verification import verify
from controller.database import migrate, schema
from controller.database.sql import Database, create_sql_engine
from controller.database.tables import metadata, schema_compat
from springtide.levels import NEWEST, RELEASES, UNTOLD, Level
from tests.kit.controller.sql import run_in_place

SCRIPTS = ScriptDirectory(next(iter(migrations.__path__)))


@pytest.fixture(params=["sqlite newest", "postgres newest"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _tables(url: str) -> set[str]:
    engine = create_sql_engine(url)
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_there_is_one_head_and_every_file_name_says_what_it_does() -> None:
    assert SCRIPTS.get_heads() == [schema.HEAD]
    for script in SCRIPTS.walk_revisions():
        name = script.path.rpartition("/")[2]
        assert name.startswith(f"{script.revision}_")
        assert len(name) > len(f"{script.revision}_.py") + 5


def test_an_empty_database_is_brought_to_the_head_and_a_second_time_left_alone(empty_url: str) -> None:
    schema.upgrade(empty_url)
    assert migrate.current_revision(empty_url) == SCRIPTS.get_current_head()
    schema.upgrade(empty_url)
    migrate.upgrade(empty_url)
    assert _tables(empty_url) == set(metadata.tables) | {"alembic_version"}


def test_an_up_to_date_database_needs_no_alembic(empty_url: str) -> None:
    schema.upgrade(empty_url)
    script = (
        "import sys; sys.modules['alembic'] = None; from controller.database import schema; "
        "schema.upgrade(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", script, empty_url], check=True)


def _set_later(url: str, revision: str, oldest_level: int | None) -> None:
    """Make it the database of a later release. oldest_level: what it says of its revision, if anything."""
    with schema.locked(url) as connection:
        connection.execute(sa.text(f"update alembic_version set version_num = '{revision}'"))
        if oldest_level is not None:
            row = {"revision": revision, "oldest_level": oldest_level}
            connection.execute(schema_compat.insert().values(row))


def test_a_later_revision_that_says_nothing_of_releases_is_refused(empty_url: str) -> None:
    schema.upgrade(empty_url)
    _set_later(empty_url, "9999", None)
    us = rf"this is release {RELEASES[NEWEST]} \(level {NEWEST}\)"
    with pytest.raises(schema.MigrationFailed, match=f"'9999'.*{us}"):
        schema.upgrade(empty_url)


def test_a_later_revision_that_our_level_is_enough_for_is_accepted_and_left_alone(empty_url: str) -> None:
    schema.upgrade(empty_url)
    _set_later(empty_url, "0012", NEWEST)
    assert schema.upgrade(empty_url) == "0012"
    assert schema.upgrade(empty_url, UNTOLD) == "0012"
    assert migrate.current_revision(empty_url) == "0012"


def test_a_later_revision_that_needs_a_later_release_is_refused_by_name(empty_url: str) -> None:
    schema.upgrade(empty_url)
    _set_later(empty_url, "0013", NEWEST + 1)
    with pytest.raises(
        schema.MigrationFailed, match=f"needs a release whose own level is {NEWEST + 1} or more"
    ):
        schema.upgrade(empty_url)


def test_a_revision_of_no_release_from_before_there_were_levels_is_refused(empty_url: str) -> None:
    schema.upgrade(empty_url, UNTOLD)
    with schema.locked(empty_url) as connection:
        connection.execute(sa.text("update alembic_version set version_num = 'abcd'"))
    with pytest.raises(schema.MigrationFailed, match="'abcd'"):
        schema.upgrade(empty_url)


def test_the_database_goes_as_far_as_the_lowest_level_allows_and_never_back(empty_url: str) -> None:
    assert schema.upgrade(empty_url, UNTOLD) == "0009"
    assert migrate.current_revision(empty_url) == "0009"
    assert schema.upgrade(empty_url, UNTOLD) == "0009"
    assert schema.upgrade(empty_url, NEWEST) == schema.HEAD
    assert schema.upgrade(empty_url, UNTOLD) == schema.HEAD
    assert migrate.current_revision(empty_url) == schema.HEAD


def test_each_revision_since_levels_says_which_releases_work_with_it(database_url: str) -> None:
    with schema.locked(database_url) as connection:
        said = {row.revision: row.oldest_level for row in connection.execute(sa.select(schema_compat))}
    assert said == {name: level for name, level in schema.OLDEST_LEVELS.items() if name > "0009"}


def test_what_a_level_needs_of_the_database_is_said_in_words(empty_url: str) -> None:
    store = Database.open(empty_url, run_sync=run_in_place)

    def asked(level: int = 1) -> str | None:
        return anyio.run(schema.why_not_ready, store, Level(level))

    try:
        assert "has no tables yet" in str(asked())
        migrate.upgrade(empty_url, "0008")
        assert "is at revision 0008, and 0009 is needed" in str(asked())
        schema.upgrade(empty_url, UNTOLD)
        assert asked() is None
        assert "at revision 0009, and 0011 is needed" in str(asked(2))
        schema.upgrade(empty_url)
        assert asked(2) is None
        _set_later(empty_url, "0013", NEWEST + 1)
        assert "needs a release" in str(asked())
    finally:
        store.close()
    broken = Database.open("sqlite:////nowhere/at/all.db", run_sync=run_in_place)
    assert "can't be asked" in str(anyio.run(schema.why_not_ready, broken, NEWEST))


def test_what_the_migrations_build_is_what_the_tables_say(database_url: str) -> None:
    engine = create_sql_engine(database_url)
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
    finally:
        engine.dispose()


def test_every_constraint_has_the_name_that_the_tables_give_it(database_url: str) -> None:
    engine = create_sql_engine(database_url)
    try:
        inspector = sa.inspect(engine)
        for table in metadata.tables.values():
            unique = {str(found["name"]) for found in inspector.get_unique_constraints(table.name)}
            checks = {str(found["name"]) for found in inspector.get_check_constraints(table.name)}
            if not (engine.dialect.name == "sqlite" and table.dialect_options["sqlite"]["autoincrement"]):
                # SQLite's AUTOINCREMENT is only legal on the column itself, where no name can stand.
                assert inspector.get_pk_constraint(table.name)["name"] == f"pk_{table.name}"
            assert unique == {str(c.name) for c in table.constraints if isinstance(c, sa.UniqueConstraint)}
            assert checks == {str(c.name) for c in table.constraints if isinstance(c, sa.CheckConstraint)}
    finally:
        engine.dispose()


def _write_as_revision_0003(connection: sa.Connection) -> None:
    """Two clusters whose rows take turns, three requests in the first, two of them with outcomes."""
    tables = sa.MetaData()
    tables.reflect(connection, only=["audit", "audit_heads", "audit_outcomes"])
    rows, outcomes, heads = (tables.tables[name] for name in ("audit", "audit_outcomes", "audit_heads"))
    seqs = {"prod": 0, "test": 0}
    for number in range(1_203):
        cluster = "test" if number % 4 == 3 else "prod"
        seqs[cluster] += 1
        is_request = number in (8, 9, 10)
        row = {
            "cluster": cluster,
            "seq": seqs[cluster],
            "kind": "request" if is_request else "change",
            "entity": "partition",
            "entity_id": f"t/{number}",
            "version": None if is_request else 0,
            "cause": "topic_created",
            "actor": "alice\N{SNOWMAN}",
            "reason": None if number % 2 else "launch",
            "at_ms": 1_000 + number,
            "recorded_at_ms": 2_000 + number,
            "topic": "orders",
            "partition": number,
            "brokers": ",1,2,",
            "before": None,
            "after": {"replicas": [1, 2], "topic": "\N{SNOWMAN}", "ratio": 0.1},
            "controller_epoch": 1,
            "backfilled": number % 3 == 0,
            "gap_before": False,
        }
        key = connection.execute(rows.insert().values(row)).inserted_primary_key
        assert key is not None
        audit_id = key[0]
        if number in (8, 10):
            outcome = {"audit_id": audit_id, "outcome": "refused", "code": "no", "detail": None, "at_ms": 1}
            connection.execute(outcomes.insert().values(outcome))
    connection.execute(heads.insert(), [{"cluster": c, "last_seq": seq} for c, seq in seqs.items()])


def test_the_history_of_the_revision_before_is_chained_as_it_stands(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0003")
    engine = create_sql_engine(empty_url)
    with engine.execution_options(springtide_write=True).begin() as connection:
        _write_as_revision_0003(connection)
    engine.dispose()
    migrate.upgrade(empty_url)
    store = Database.open(empty_url, run_sync=run_in_place)

    async def check(cluster: str) -> tuple[object, ...]:
        found = await verify(store, cluster)
        assert found is not None
        return (found.mismatch, found.rows, found.outcomes, found.chain_position, found.unchained)

    try:
        assert anyio.run(check, "prod") == (None, 903, 2, 905, 0)
        assert anyio.run(check, "test") == (None, 300, 0, 300, 0)
        intent = Intent(
            cluster="prod",
            action="create_topic",
            entity=Entity.TOPIC,
            entity_id="orders",
            actor="alice",
            reason=None,
            request_id=None,
            at_ms=1,
            body={},
        )
        anyio.run(store.write, partial(history.append_intent, intent=intent, recorded_at_ms=1))
        assert anyio.run(check, "prod") == (None, 904, 2, 906, 0)
        # Taken back and made again, it has lost nothing and chains what came meanwhile, too.
        migrate.downgrade(empty_url, "0003")
        migrate.upgrade(empty_url)
        assert anyio.run(check, "prod") == (None, 904, 2, 906, 0)
    finally:
        store.close()


def test_each_step_can_be_taken_back_and_again(database_url: str) -> None:
    steps = [script.revision for script in SCRIPTS.walk_revisions()]
    for revision in [*steps[1:], "base"]:
        migrate.downgrade(database_url, revision)
    assert _tables(database_url) == {"alembic_version"}
    for revision in reversed(steps):
        migrate.upgrade(database_url, revision)
    assert migrate.current_revision(database_url) == steps[0]


def test_controllers_that_start_together_do_not_trip_over_each_other(empty_url: str) -> None:
    failures: list[BaseException] = []

    def start() -> None:
        try:
            schema.upgrade(empty_url)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert migrate.current_revision(empty_url) == SCRIPTS.get_current_head()


def test_whoever_opens_a_new_sqlite_file_at_once_waits_for_the_others(tmp_path: Path) -> None:
    """Changing its journal mode is refused at once to all but one, whatever the busy timeout."""
    together = threading.Barrier(8)
    failures: list[BaseException] = []

    def open_one(number: int) -> None:
        engine = create_sql_engine(f"sqlite:///{tmp_path / f'{number}.db'}")
        together.wait()
        try:
            with engine.connect() as connection:
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        except BaseException as error:
            failures.append(error)
        finally:
            engine.dispose()

    for number in range(100):
        threads = [threading.Thread(target=open_one, args=(number,)) for _ in range(together.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
