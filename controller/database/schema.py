"""The schema this release needs, and `upgrade(database_url)`, which brings the database to it.

Several controllers may start at once, so the whole of it runs in one transaction behind a lock; who comes
second finds nothing to do. The work itself is Alembic's (`controller.database.migrate`), which is imported
only when there is some: a controller that takes over finds the schema as it has to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from controller.database.sql import create_sql_engine

#: The newest of `migrations/versions`.
HEAD: Final = "0009"

#: A number that nothing else in the database uses: "springtide" on a telephone's keys.
_POSTGRES_LOCK: Final = 7777464843


class MigrationFailed(Exception):
    """The migrations and the database don't fit each other; the message says how."""


def upgrade(database_url: str) -> None:
    """Bring the database up to date, blocking: create what is missing. Raise MigrationFailed, and
    SQLAlchemy's errors when the database can't be asked."""
    with locked(database_url) as connection:
        if revision_of(connection) != HEAD:
            from controller.database import migrate  # noqa: PLC0415 - see above

            migrate.upgrade_within(connection, HEAD)


@contextmanager
def locked(database_url: str) -> Iterator[sa.Connection]:
    """Open a transaction in which no other process migrates."""
    engine = create_sql_engine(database_url)
    try:
        with engine.execution_options(springtide_write=True).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRES_LOCK)))
                connection.execute(sa.text("set local statement_timeout = 0"))
            yield connection
    finally:
        engine.dispose()


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision that Alembic noted; None if it never saw this database or took it back to none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(sa.text("select version_num from alembic_version"))
    return revision
