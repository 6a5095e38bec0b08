"""Each SQL test runs on SQLite and on a PostgreSQL server of its own, and on SQLite with each other schema
that may be there: the one that other clusters hold back, and one that a later release has expanded.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa

from controller.database import migrate, schema
from controller.database.sql import Database
from controller.database.tables import metadata, schema_compat
from springtide.levels import NEWEST, SUPPORTED
from tests.kit.controller.sql import run_in_place
from tests.kit.postgres import running_postgres

_numbers = itertools.count()
SQLITE_FILE = "springtide.db"
LATER_REVISION = "0099"

Template = Callable[[str, str], str]


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that lives as long as the session."""
    with running_postgres() as url:
        yield url


def _migrated(url: str, schema_of: str) -> None:
    if schema_of == "first":
        schema.upgrade(url, SUPPORTED.lowest)
        return
    migrate.upgrade(url)
    if schema_of == "later":
        with schema.locked(url) as connection:
            _expand(connection)


def _expand(connection: sa.Connection) -> None:
    """What a later release may add while controllers of this one go on."""
    for table in metadata.tables:
        connection.execute(sa.text(f"alter table {table} add column later_thing text"))
        connection.execute(sa.text(f"create index ix_{table}_later on {table} (later_thing)"))
    connection.execute(sa.text("create table later_table (id text primary key)"))
    connection.execute(sa.text(f"update alembic_version set version_num = '{LATER_REVISION}'"))
    row = {"revision": LATER_REVISION, "oldest_level": NEWEST}
    connection.execute(schema_compat.insert().values(row))


@pytest.fixture(scope="session")
def templates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Migrated databases to be copied, each made when it is first asked for: to migrate takes longer than
    most tests. Returns a folder with SQLite's file, or the name of a database in PostgreSQL."""

    @cache
    def made(product: str, schema_of: str) -> str:
        if product == "sqlite":
            folder = tmp_path_factory.mktemp(schema_of)
            _migrated(f"sqlite:///{folder / SQLITE_FILE}", schema_of)
            return str(folder)
        server: str = request.getfixturevalue("postgres_url")
        _migrated(_created(server, name=schema_of), schema_of)
        return schema_of

    return made


@pytest.fixture(params=["sqlite", "postgres"])
def product(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, product: str, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if product == "sqlite":
        return f"sqlite:///{tmp_path / SQLITE_FILE}"
    return _created(request.getfixturevalue("postgres_url"), name=f"test_{next(_numbers)}")


@pytest.fixture(params=["sqlite newest", "postgres newest", "sqlite first", "sqlite later"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, place: str, templates: Template, tmp_path: Path) -> str:
    """A database with all tables."""
    product, schema_of = place.split()
    if product == "sqlite":
        shutil.copytree(templates(product, schema_of), tmp_path, dirs_exist_ok=True)
        return f"sqlite:///{tmp_path / SQLITE_FILE}"
    server: str = request.getfixturevalue("postgres_url")
    return _created(server, name=f"test_{next(_numbers)}", template=templates(product, schema_of))


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
