from __future__ import annotations

import threading

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from controller.audit import migrate
from controller.audit.store import create_sql_engine
from controller.audit.tables import metadata


def _tables(url: str) -> set[str]:
    engine = create_sql_engine(url)
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_there_is_one_head_and_every_file_name_says_what_it_does() -> None:
    scripts = migrate.script_directory()
    assert len(scripts.get_heads()) == 1
    for script in scripts.walk_revisions():
        name = script.path.rpartition("/")[2]
        assert name.startswith(f"{script.revision}_")
        assert len(name) > len(f"{script.revision}_.py") + 5


def test_an_empty_database_is_brought_to_the_head_and_a_second_time_left_alone(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    assert migrate.current_revision(empty_url) == migrate.script_directory().get_current_head()
    migrate.upgrade(empty_url)
    assert _tables(empty_url) == set(metadata.tables) | {"alembic_version"}


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


def test_each_step_can_be_taken_back_and_again(database_url: str) -> None:
    steps = [script.revision for script in migrate.script_directory().walk_revisions()]
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
            migrate.upgrade(empty_url)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert migrate.current_revision(empty_url) == migrate.script_directory().get_current_head()
