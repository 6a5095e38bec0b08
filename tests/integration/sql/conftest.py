"""Each SQL test runs on SQLite and on a PostgreSQL server of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from controller.database import migrate
from controller.database.sql import Database
from tests.kit.controller.sql import run_in_place
from tests.kit.postgres import running_postgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that lives as long as the session."""
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/springtide.db"
    server = sa.make_url(request.getfixturevalue("postgres_url"))
    name = f"test_{next(_numbers)}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f'create database "{name}"'))
    engine.dispose()
    return server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def database_url(empty_url: str) -> str:
    """A database at the newest revision."""
    migrate.upgrade(empty_url)
    return empty_url


@pytest.fixture
def store(database_url: str) -> Iterator[Database]:
    opened = Database.open(database_url, run_sync=run_in_place)
    yield opened
    opened.close()


@pytest.fixture
def anyio_backend() -> str:
    return "trio"
