"""One door to SQL: short transactions, run in worker threads, whose failures have two names.

A unit of work is a plain function of a `Connection`; it commits whole or not at all. Threads end here:
`run_sync` decides where the function runs (a simulation passes one that calls it in place). This module
never retries: whether to refuse (an operator's write) or to wait (the outbox) is the caller's to know.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

T = TypeVar("T")

#: One writer at a time in this process: SQLite has one writer anyway, and the audit's order needs one.
WRITERS_MAX = 1
READERS_MAX = 4
SQLITE_BUSY_MS = 5_000
#: Where SQLite itself does not wait: for as long in all.
SQLITE_PAUSE_S = 0.01
SQLITE_ATTEMPTS_MAX = 500
POSTGRES_CONNECT_TIMEOUT_S = 3
POSTGRES_STATEMENT_TIMEOUT_MS = 5_000
POOL_TIMEOUT_S = 5

_IS_WRITE = "springtide_write"


class DatabaseUnavailable(Exception):
    """SQL can't be reached, is read-only, full, locked for too long, or not migrated."""


class DatabaseRejected(Exception):
    """SQL is there and refuses this very row: trying it again would not help."""


class RunSync(Protocol):
    """Where blocking work runs. `exclusive` asks that no other exclusive work runs meanwhile."""

    def __call__(self, work: Callable[[], T], *, exclusive: bool) -> Awaitable[T]: ...


class WorkerThreads:
    """Runs work in anyio's worker threads, at most one writer and a few readers at once."""

    def __init__(self) -> None:
        self._writers = anyio.CapacityLimiter(WRITERS_MAX)
        self._readers = anyio.CapacityLimiter(READERS_MAX)

    async def __call__(self, work: Callable[[], T], *, exclusive: bool) -> T:
        limiter = self._writers if exclusive else self._readers
        return await anyio.to_thread.run_sync(work, limiter=limiter)


async def run_in_place(work: Callable[[], T], *, exclusive: bool) -> T:
    """For simulations: no thread, so the order of things is the seed's alone."""
    await anyio.lowlevel.checkpoint()
    return work()


def _on_sqlite_connect(dbapi_connection: Any, _entry: ConnectionPoolEntry) -> None:
    # Autocommit mode: SQLAlchemy's "begin" event below opens every transaction itself, so that DDL is
    # transactional and a writer takes its lock before it reads.
    dbapi_connection.isolation_level = None
    cursor = dbapi_connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={SQLITE_BUSY_MS}")
    _use_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous=FULL")  # an audit row that a power cut takes back is no audit row
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    """busy_timeout does not hold for this: of several that change a new file's journal mode at once, SQLite
    refuses all but one without waiting, because each has what another waits for."""
    for attempt in range(SQLITE_ATTEMPTS_MAX):
        if attempt:
            time.sleep(SQLITE_PAUSE_S)
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == SQLITE_ATTEMPTS_MAX - 1:
                raise
        else:
            return


def _on_sqlite_begin(connection: sa.Connection) -> None:
    is_write = connection.get_execution_options().get(_IS_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")


def create_sql_engine(database_url: str) -> sa.Engine:
    """An engine for `sqlite:///file`, `sqlite://` (memory, for tests) or `postgresql+psycopg://...`."""
    url = sa.make_url(database_url)
    if url.get_backend_name() == "sqlite":
        arguments: dict[str, Any] = {"connect_args": {"check_same_thread": False}}
        if url.database in (None, "", ":memory:"):
            arguments["poolclass"] = StaticPool
        else:
            arguments["pool_timeout"] = POOL_TIMEOUT_S
        engine = sa.create_engine(url, **arguments)
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
        return engine
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "postgresql":
        raise ValueError(f"the audit knows sqlite and postgresql, not {url.get_backend_name()!r}")
    return sa.create_engine(
        url,
        pool_pre_ping=True,
        pool_timeout=POOL_TIMEOUT_S,
        connect_args={
            "connect_timeout": POSTGRES_CONNECT_TIMEOUT_S,
            "options": f"-c statement_timeout={POSTGRES_STATEMENT_TIMEOUT_MS} -c timezone=UTC",
        },
    )


#: Failures of the world around SQL, as against a statement that SQL understood and refused.
_UNAVAILABLE = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError, sa.exc.ProgrammingError)


class Database:
    """Runs units of work against one database."""

    def __init__(self, engine: sa.Engine, run_sync: RunSync) -> None:
        self._reader = engine
        self._writer = engine.execution_options(**{_IS_WRITE: True})
        self._run_sync = run_sync

    @classmethod
    def open(cls, database_url: str, *, run_sync: RunSync | None = None) -> Database:
        """Connects lazily: a database that is down now is a refusal later, not a failure to start."""
        return cls(create_sql_engine(database_url), run_sync or WorkerThreads())

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in one transaction. Raises DatabaseUnavailable (nothing is known to have been written;
        a lost answer to COMMIT counts) or DatabaseRejected (nothing was written)."""
        return await self._run_sync(partial(_transact, self._writer, work), exclusive=True)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """As `write`, for work that only reads."""
        return await self._run_sync(partial(_transact, self._reader, work), exclusive=False)

    async def compute(self, work: Callable[[], T]) -> T:
        """Runs long work that needs no SQL where blocking work runs, beside the readers."""
        return await self._run_sync(work, exclusive=False)

    async def check(self) -> None:
        """Raises DatabaseUnavailable unless SQL answers and the tables are there."""
        await self.read(_probe)

    def close(self) -> None:
        self._reader.dispose()


def _transact(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    try:
        with engine.begin() as connection:
            return work(connection)
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable(_first_line(error)) from error
    except sa.exc.SQLAlchemyError as error:
        raise DatabaseRejected(_first_line(error)) from error


def _probe(connection: sa.Connection) -> None:
    connection.execute(sa.text("select count(*) from audit_heads where cluster = ''"))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
