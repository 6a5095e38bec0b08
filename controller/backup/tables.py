"""The SQL database, to lines and back: rows as JSON, the same for SQLite and PostgreSQL.

All of it is read in one transaction that sees one moment, so the audit's chain of hashes is whole in it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from controller.backup.archive import BackupInvalid
from controller.database import schema
from controller.database.sql import create_sql_engine
from controller.database.tables import metadata, schema_compat

ROWS_AT_ONCE: Final = 500

#: The migrations write it.
_MADE_BY_MIGRATIONS: Final = {schema_compat.name}


class DatabaseNotThere(Exception):
    """There is no database to back up; the message says what to look at."""


def read_tables(
    database_url: str, take: Callable[[str, dict[str, Any]], None], begin: Callable[[int], None]
) -> tuple[str, str, dict[str, int]]:
    """Give every row to `take`, by the table's name. begin: told how many there will be. Return the product,
    the schema's revision, and how many rows each table has. Raise DatabaseNotThere, BackupInvalid and
    SQLAlchemy's errors."""
    url = sa.make_url(database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise DatabaseNotThere(
            f"there is no file {url.database}: name the controllers' own database with --database-url or "
            "SPRINGTIDE_DATABASE_URL"
        )
    engine = create_sql_engine(database_url)
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("set transaction isolation level repeatable read read only"))
                connection.execute(sa.text("set local statement_timeout = 0"))
            revision = schema.revision_of(connection)
            if revision is None:
                raise DatabaseNotThere("the database has no tables: no controller has used it yet")
            if revision not in schema.OLDEST_LEVELS:
                raise BackupInvalid(
                    f"the database is at revision {revision!r} of a later release: back it up with that one"
                )
            asked = sa.inspect(connection)
            there = set(asked.get_table_names())
            wanted = [table for table in metadata.sorted_tables if table.name in there]
            counts = {
                table.name: int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)
                for table in wanted
                if table.name not in _MADE_BY_MIGRATIONS
            }
            begin(sum(counts.values()))
            for table in wanted:
                if table.name in counts:
                    columns = {column["name"] for column in asked.get_columns(table.name)}
                    for row in _rows(connection, table, columns):
                        take(table.name, row)
            return connection.dialect.name, revision, counts
    finally:
        engine.dispose()


def _rows(connection: sa.Connection, table: sa.Table, columns: Set[str]) -> Iterator[dict[str, Any]]:
    """columns: those that the table has at the revision that the database is at."""
    packed = [name for name in _binary(table) if name in columns]
    chosen = [column for column in table.c if column.name in columns]
    statement = sa.select(*chosen).order_by(*table.primary_key.columns)
    streamed = connection.execution_options(stream_results=True, yield_per=ROWS_AT_ONCE).execute(statement)
    for found in streamed.mappings():
        row = dict(found)
        for name in packed:
            if row[name] is not None:
                row[name] = base64.b64encode(row[name]).decode()
        yield row


def _binary(table: sa.Table) -> list[str]:
    return [column.name for column in table.c if isinstance(column.type, sa.LargeBinary)]


def check_empty(database_url: str) -> None:
    """Raise BackupInvalid if the database has a table already."""
    url = sa.make_url(database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return
    engine = create_sql_engine(database_url)
    try:
        found = sorted({*metadata.tables, "alembic_version"} & set(sa.inspect(engine).get_table_names()))
    finally:
        engine.dispose()
    if found:
        raise BackupInvalid(
            f"the database has tables already ({', '.join(found[:3])}, ...): restore into a new and empty one"
        )


def write_tables(
    database_url: str, revision: str, lines: Iterator[Any], written: Callable[[int], None]
) -> None:
    """Make the tables and their rows, all of it or nothing. lines: what `read_tables` gave, as [table, row].
    Raise BackupInvalid, MigrationFailed and SQLAlchemy's errors."""
    from controller.database import migrate  # noqa: PLC0415 - Alembic, which `verify` needs not

    with schema.locked(database_url) as connection:
        migrate.upgrade_within(connection, revision)
        waiting: list[dict[str, Any]] = []
        of = ""
        for line in lines:
            name, row = row_of(line)
            if name != of or len(waiting) >= ROWS_AT_ONCE:
                _insert(connection, of, waiting)
                written(len(waiting))
                of, waiting = name, []
            waiting.append(row)
        _insert(connection, of, waiting)
        written(len(waiting))
        if connection.dialect.name == "postgresql":
            _count_on(connection)


def row_of(line: Any) -> tuple[str, dict[str, Any]]:
    """Raise BackupInvalid unless it is a row of a table that is known, with its columns. One that may be null
    may be missing: a later revision has added it."""
    try:
        name, row = line
        table = metadata.tables[name]
        needed = {column.name for column in table.c if not column.nullable}
        if not needed <= set(row) <= set(table.c.keys()):
            raise ValueError(f"table {name} has other columns than the row: {sorted(row)}")
        unpacked = {
            column: base64.b64decode(row[column], validate=True)
            for column in _binary(table)
            if row.get(column) is not None
        }
    except (TypeError, ValueError, KeyError) as error:
        raise BackupInvalid(f"a line is no row: {error}") from error
    return name, {**row, **unpacked}


def _insert(connection: sa.Connection, name: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(metadata.tables[name].insert(), rows)


def _count_on(connection: sa.Connection) -> None:
    """Have the ids that the database gives begin above those of the rows. SQLite does so by itself."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None or table.name in _MADE_BY_MIGRATIONS:
            continue
        if not sa.inspect(connection).has_table(table.name):
            continue
        place = connection.scalar(sa.select(sa.func.pg_get_serial_sequence(table.name, column.name)))
        if place is not None:
            newest = connection.scalar(sa.select(sa.func.max(column)))
            if newest is not None:
                connection.execute(sa.select(sa.func.setval(place, newest)))
