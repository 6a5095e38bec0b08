"""`Database.check` finds out whether SQL takes writes, in threads as in a controller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
import sqlalchemy as sa

from controller.database import migrate
from controller.database.sql import CHECK_S_MAX, Database, DatabaseUnavailable, WorkerThreads, cause_of
from controller.database.tables import audit_heads, idempotency_keys

pytestmark = pytest.mark.anyio

T = TypeVar("T")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def opened(database_url: str) -> Iterator[Database]:
    store = Database.open(database_url)
    yield store
    store.close()


@contextmanager
def locked(database_url: str) -> Iterator[None]:
    """Another connection writes and does not end."""
    engine = sa.create_engine(database_url)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.connection.dbapi_connection.isolation_level = None  # type: ignore[union-attr]
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
        else:
            connection.exec_driver_sql("LOCK TABLE idempotency_keys")
        yield
        connection.rollback()
    engine.dispose()


def count_keys(connection: sa.Connection) -> int | None:
    return connection.scalar(sa.select(sa.func.count()).select_from(idempotency_keys))


def forget_heads(connection: sa.Connection) -> None:
    connection.execute(audit_heads.delete())


async def refusal(store: Database) -> str:
    with pytest.raises(DatabaseUnavailable) as refused:
        await store.check()
    return str(refused.value)


async def test_a_write_is_tried_and_leaves_nothing(database_url: str) -> None:
    with opened(database_url) as store:
        await store.check()
        assert await store.read(count_keys) == 0


async def test_tables_count_as_soon_as_they_are_there(empty_url: str) -> None:
    with opened(empty_url) as store:
        assert "audit_heads" in await refusal(store)
        migrate.upgrade(empty_url)
        await store.check()


async def test_a_lock_is_named_in_time(database_url: str) -> None:
    with opened(database_url) as store, locked(database_url):
        with anyio.fail_after(CHECK_S_MAX + 1):
            assert await refusal(store) in {
                "database is locked",
                "canceling statement due to statement timeout",
            }
            assert await refusal(store) == await refusal(store), "without another try"


async def test_a_database_that_only_reads_is_unavailable_for_each_write(database_url: str) -> None:
    """PostgreSQL's driver calls it an internal error. It is not the row's fault: the outbox must keep it."""
    url = sa.make_url(database_url)
    if url.get_backend_name() == "sqlite":
        url = url.set(database=f"file:{url.database}", query={"mode": "ro", "uri": "true"})
    else:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(
                f'alter database "{url.database}" set default_transaction_read_only = on'
            )
        engine.dispose()
    with opened(url.render_as_string(hide_password=False)) as store:
        assert await store.read(count_keys) == 0
        assert await refusal(store) in {
            "attempt to write a readonly database",
            "cannot execute INSERT in a read-only transaction",
        }
        with pytest.raises(DatabaseUnavailable, match=r"read-?only"):
            await store.write(forget_heads)


async def test_a_damaged_file_is_not_the_rows_fault(tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    file.write_bytes(b"not a database" * 1_000)
    with opened(f"sqlite:///{file}") as store:
        assert await refusal(store) == "file is not a database"
        with pytest.raises(DatabaseUnavailable, match="file is not a database"):
            await store.write(forget_heads)


async def test_silence_ends_the_wait(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """As when a disk or a host stands still: the thread can't be stopped, and is not waited for."""
    goes_on, ended = threading.Event(), threading.Event()
    threads = WorkerThreads()

    async def run_slowly(work: Callable[[], T], *, exclusive: bool) -> T:
        def slow() -> T:
            goes_on.wait()
            try:
                return work()
            finally:
                ended.set()

        return await threads(slow, exclusive=exclusive)

    store = Database.open(database_url, run_sync=run_slowly)
    try:
        with anyio.fail_after(CHECK_S_MAX + 1):
            assert await refusal(store) == f"no answer within {CHECK_S_MAX} s"
        assert f"no answer within {CHECK_S_MAX} s" in caplog.text
    finally:
        goes_on.set()
        assert ended.wait(10)
        store.close()


@pytest.mark.parametrize(
    ("url", "said", "told"),
    [
        ("postgresql://u:hidden@db/x", "password hidden of u\nDETAIL: more", "password *** of u"),
        ("postgresql://u@db/x?password=hidden", "password hidden of u", "password *** of u"),
        (
            "postgresql://u:p@hidden@db/x",
            "failed to resolve host 'hidden@db'",
            "failed to resolve host '***@db'",
        ),
    ],
)
def test_a_cause_is_one_line_without_the_password(url: str, said: str, told: str) -> None:
    error = sa.exc.OperationalError("BEGIN", None, Exception(said))
    assert cause_of(error, sa.make_url(url)) == told


async def test_a_database_that_gets_no_memory_is_not_there(database_url: str) -> None:
    """What SQLite may have is bounded for a process, so that its policies are (controller/policies)."""

    def starve(_connection: sa.Connection) -> None:
        raise MemoryError

    with opened(database_url) as store:
        for run in (store.read, store.write):
            with pytest.raises(DatabaseUnavailable, match="MemoryError"):
                await run(starve)
        assert await store.write(count_keys) == 0
        await store.check()
