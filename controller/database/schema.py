"""The schema this release needs, and `upgrade(database_url)`, which brings the database to it.

Controllers of two releases share one database while a cluster is upgraded, so a revision is applied only when
no cluster is at a level at which a release runs that does not know it, nor accepts it by what `schema_compat`
says (migrations/__init__.py has the rules for revisions). All of this release works with each revision that
may be in place at one of its levels.

Several controllers may start at once, so the whole of it runs in one transaction behind a lock; who comes
second finds nothing to do. The work itself is Alembic's (`controller.database.migrate`), which is imported
only when there is some: a controller that takes over finds the schema as it has to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable, create_sql_engine
from controller.database.tables import schema_compat
from springtide.levels import NEWEST, RELEASES, UNTOLD, Level

#: The revisions in their order, each with the lowest level that all clusters must have reached before it is
#: applied: the own level of the oldest release that works with it.
OLDEST_LEVELS: Final = {
    **dict.fromkeys(("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009"), UNTOLD),
    "0010": Level(1),
    "0011": Level(1),
}
_ORDER: Final = tuple(OLDEST_LEVELS)
#: The newest of `migrations/versions`.
HEAD: Final = _ORDER[-1]

#: A number that nothing else in the database uses: "springtide" on a telephone's keys.
_POSTGRES_LOCK: Final = 7777464843


class MigrationFailed(Exception):
    """The migrations and the database don't fit each other; the message says how."""


def revision_for(lowest_level: Level) -> str:
    """Return the newest revision that may be applied while the lowest of the clusters' levels is this one."""
    return max(revision for revision, oldest in OLDEST_LEVELS.items() if oldest <= lowest_level)


def upgrade(database_url: str, lowest_level: Level = NEWEST) -> str:
    """Bring the database as far as the lowest level of all clusters allows, blocking: create what is missing.
    Return the revision that it has then, maybe one of a later release. Raise MigrationFailed, and
    SQLAlchemy's errors when the database can't be asked."""
    with locked(database_url) as connection:
        revision = revision_of(connection)
        wanted = revision_for(lowest_level)
        if revision is not None and revision not in OLDEST_LEVELS:
            _check_later(connection, revision)
            return revision
        if revision is not None and revision >= wanted:
            return revision
        from controller.database import migrate  # noqa: PLC0415 - see above

        migrate.upgrade_within(connection, wanted)
        return wanted


def _check_later(connection: sa.Connection, revision: str) -> None:
    """Raise MigrationFailed unless the database says that a release of our level works with its revision."""
    us = f"this is release {RELEASES[NEWEST]} (level {NEWEST})"
    oldest = _oldest_level(connection, revision)
    if oldest is None:
        raise MigrationFailed(
            f"the database is at revision {revision!r}, which this release does not know, and does not say "
            f"which releases work with it; {us}: start the release that brought it there, or a later one"
        )
    if oldest > NEWEST:
        raise MigrationFailed(
            f"the database is at revision {revision!r}, which needs a release whose own level is {oldest} or "
            f"more; {us}: start a later one, docs/upgrades.md lists them"
        )


def _oldest_level(connection: sa.Connection, revision: str) -> int | None:
    if not sa.inspect(connection).has_table(schema_compat.name):
        return None
    found: int | None = connection.scalar(
        sa.select(schema_compat.c.oldest_level).where(schema_compat.c.revision == revision)
    )
    return found


async def why_not_ready(store: Database, level: Level) -> str | None:
    """Return what the database lacks for clusters to be raised to `level`, in words that go on from "the
    database"; None: nothing. What is applied only after that is not waited for."""
    try:
        return await store.read(_why_not_ready, level=level)
    except (DatabaseUnavailable, DatabaseRejected) as error:
        return f"can't be asked which revision it has: {error}"


def _why_not_ready(connection: sa.Connection, *, level: Level) -> str | None:
    revision = revision_of(connection)
    needed = revision_for(Level(level - 1))
    if revision is None:
        return f"has no tables yet, and revision {needed} is needed: start a controller"
    if revision not in OLDEST_LEVELS:
        try:
            _check_later(connection, revision)
        except MigrationFailed as error:
            return str(error).removeprefix("the database ")
    elif revision < needed:
        return f"is at revision {revision}, and {needed} is needed: restart a controller"
    return None


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
