"""Each SQL test runs on SQLite and on a PostgreSQL server of its own."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from controller.database import migrate
from controller.database.sql import Database
from tests.kit.controller.sql import run_in_place
from tests.kit.postgres import running_postgres

_numbers = itertools.count()
SQLITE_FILE = "springtide.db"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that lives as long as the session."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def newest_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file at the newest revision, to be copied: to migrate takes longer than most tests."""
    folder: Path = tmp_path_factory.mktemp("newest")
    migrate.upgrade(f"sqlite:///{folder / SQLITE_FILE}")
    return folder


@pytest.fixture(scope="session")
def newest_postgres(postgres_url: str) -> str:
    """The name of a database at the newest revision, which is the template of others."""
    migrate.upgrade(_created(postgres_url, name="newest"))
    return "newest"


@pytest.fixture(params=["sqlite", "postgres"])
def product(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, product: str, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if product == "sqlite":
        return f"sqlite:///{tmp_path / SQLITE_FILE}"
    return _created(request.getfixturevalue("postgres_url"), name=f"test_{next(_numbers)}")


@pytest.fixture
def database_url(request: pytest.FixtureRequest, product: str, tmp_path: Path) -> str:
    """A database at the newest revision."""
    if product == "sqlite":
        shutil.copytree(request.getfixturevalue("newest_sqlite"), tmp_path, dirs_exist_ok=True)
        return f"sqlite:///{tmp_path / SQLITE_FILE}"
    template: str = request.getfixturevalue("newest_postgres")
    server: str = request.getfixturevalue("postgres_url")
    return _created(server, name=f"test_{next(_numbers)}", template=template)


def _created(server_url: str, *, name: str, template: str = "template1") -> str:
    """Create a database on this server; return its URL."""
    server = sa.make_url(server_url)
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f'create database "{name}" template "{template}"'))
    engine.dispose()
    return server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def store(database_url: str) -> Iterator[Database]:
    opened = Database.open(database_url, run_sync=run_in_place)
    yield opened
    opened.close()


@pytest.fixture
def anyio_backend() -> str:
    return "trio"
