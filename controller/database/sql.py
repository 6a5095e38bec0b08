"""One door to SQL: short transactions, run in worker threads, whose failures have two names.

A unit of work is a plain function of a `Connection`; it commits whole or not at all. Threads end here:
`run_sync` decides where the function runs (a simulation passes one that calls it in place). This module
never retries: whether to refuse (an operator's write) or to wait (the outbox) is the caller's to know.

It knows whether SQL takes writes, from those that are made and, for `check`, from one of its own. Each change
of that is one line in the log, with the cause.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from controller.database.tables import audit_heads, idempotency_keys

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

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
#: How old the last write may be that `check` goes by.
CHECK_EVERY_S = 5
#: How long its own write waits for a lock or a statement, and how long all of it may take. A health check
#: (docker-compose.yml) waits for two seconds.
CHECK_SQL_MS = 1_000
CHECK_S_MAX = 1.5
#: More pages of SQLite's than a request needs: a database that is too full for one is too full for `check`.
CHECK_BYTES = 65_536

_IS_WRITE = "springtide_write"
_BUSY_MS = "springtide_busy_ms"


class DatabaseUnavailable(Exception):
    """SQL can't be reached, is read-only, full, locked for too long, or not migrated. The message is the
    cause, in the database's words and without the password."""


class DatabaseRejected(Exception):
    """SQL is there and refuses this very row: trying it again would not help."""


class RunSync(Protocol):
    """A runner of blocking work. `exclusive` asks that no other exclusive work runs meanwhile."""

    def __call__(self, work: Callable[[], T], *, exclusive: bool) -> Awaitable[T]: ...


class WorkerThreads:
    """Runs work in anyio's worker threads, at most one writer and a few readers at once. A reader is not
    waited for by a cancelled task; a writer is."""

    def __init__(self) -> None:
        self._writers = anyio.CapacityLimiter(WRITERS_MAX)
        self._readers = anyio.CapacityLimiter(READERS_MAX)

    async def __call__(self, work: Callable[[], T], *, exclusive: bool) -> T:
        limiter = self._writers if exclusive else self._readers
        return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=not exclusive)


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
    options = connection.get_execution_options()
    connection.exec_driver_sql(f"PRAGMA busy_timeout={options.get(_BUSY_MS, SQLITE_BUSY_MS)}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_IS_WRITE, False) else "BEGIN")


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


#: What SQL says about the row that it was given.
_REJECTED = (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.NotSupportedError)
#: Failures of the world around SQL: the rest of what a database says, and silence.
#: MemoryError: what SQLite may have is bounded for the whole process (controller/policies/sandbox.py).
_UNAVAILABLE = (sa.exc.DatabaseError, sa.exc.InterfaceError, sa.exc.TimeoutError, MemoryError)


class Database:
    """Runs units of work against one database."""

    def __init__(self, engine: sa.Engine, run_sync: RunSync) -> None:
        self._reader = engine
        self._writer = engine.execution_options(**{_IS_WRITE: True})
        self._checker = self._writer.execution_options(**{_BUSY_MS: CHECK_SQL_MS})
        self._run_sync = run_sync
        self._checking = anyio.Lock()
        #: When the last write ended, by the event loop's clock, and why it failed.
        self._written_s: float | None = None
        self._cause: str | None = None

    @classmethod
    def open(cls, database_url: str, *, run_sync: RunSync | None = None) -> Database:
        """Connect lazily: a database that is down now is a refusal later, not a failure to start."""
        return cls(create_sql_engine(database_url), run_sync or WorkerThreads())

    async def write(
        self, work: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `work` in one transaction. Raise DatabaseUnavailable (nothing is known to have been written; a
        lost answer to COMMIT counts) or DatabaseRejected (nothing was written)."""
        return await self._write(
            self._writer, lambda connection: work(connection, *args, **kwargs), exclusive=True
        )

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run work that only reads, as `write` does."""
        return await self._run_sync(
            lambda: _transact(self._reader, lambda connection: work(connection, *args, **kwargs)),
            exclusive=False,
        )

    async def compute(self, work: Callable[[], T]) -> T:
        """Run long work that needs no SQL where blocking work runs, beside the readers."""
        return await self._run_sync(work, exclusive=False)

    async def check(self) -> None:
        """Raise DatabaseUnavailable unless SQL takes writes. That is known from the last write; if it is too
        long ago, one is made that leaves nothing."""
        with anyio.move_on_after(CHECK_S_MAX) as patience:
            async with self._checking:
                if self._written_s is None:
                    # Tables that are still being made are looked for each time: they are there at once.
                    await self.read(_look)
                if self._written_s is None or anyio.current_time() - self._written_s >= CHECK_EVERY_S:
                    await self._write(self._checker, _write_and_forget, exclusive=False)
        if patience.cancelled_caught:
            self._note(f"no answer within {CHECK_S_MAX} s")
        if self._cause is not None:
            raise DatabaseUnavailable(self._cause)

    def close(self) -> None:
        self._reader.dispose()

    async def _write(self, engine: sa.Engine, work: Callable[[sa.Connection], T], *, exclusive: bool) -> T:
        try:
            written = await self._run_sync(partial(_transact, engine, work), exclusive=exclusive)
        except DatabaseUnavailable as error:
            self._note(str(error))
            raise
        self._note(None)
        return written

    def _note(self, cause: str | None) -> None:
        """Remember how a write ended; log it if that is new. cause: of its failure, or None if it
        succeeded."""
        self._written_s = anyio.current_time()
        if cause == self._cause:
            return
        self._cause = cause
        if cause is None:
            _log.info("database_takes_writes_again")
        else:
            _log.error("database_refuses_writes cause=%s", cause)


def _transact(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    try:
        with engine.begin() as connection:
            return work(connection)
    except _REJECTED as error:
        raise DatabaseRejected(cause_of(error, engine.url)) from error
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable(cause_of(error, engine.url)) from error
    except sa.exc.SQLAlchemyError as error:
        raise DatabaseRejected(cause_of(error, engine.url)) from error


def _look(connection: sa.Connection) -> None:
    connection.execute(sa.select(audit_heads).limit(1))


def _write_and_forget(connection: sa.Connection) -> None:
    """Ask for room, then write a row and remove it. That is committed: only then does SQLite write to the
    disk."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"set local statement_timeout = {CHECK_SQL_MS}"))
    _look(connection)
    this = {"scope": "readiness", "key": ""}  # a request's scope has an actor, a method and a path
    row = idempotency_keys.insert().values(**this, body_hash="", seed="", claimed_at_ms=0, expires_at_ms=0)
    connection.exec_driver_sql("savepoint room")  # by hand: of a full SQLite's refusal no savepoint is left
    connection.execute(row.values(body=bytes(CHECK_BYTES)))
    connection.exec_driver_sql("rollback to savepoint room")
    connection.execute(row)
    connection.execute(idempotency_keys.delete().filter_by(**this))


def cause_of(error: Exception, url: sa.URL) -> str:
    """Return the first line of what the database said, without the password. In a URL whose password holds an
    unescaped @, the end of the password is taken for the beginning of the host."""
    said = str(getattr(error, "orig", None) or error).strip()
    cause = said.splitlines()[0] if said else type(error).__name__
    for secret in (url.password, url.query.get("password"), (url.host or "").rpartition("@")[0]):
        if secret:
            cause = cause.replace(str(secret), "***")
    return cause
