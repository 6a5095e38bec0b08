"""Each SQL test runs on SQLite and on a PostgreSQL server of its own, started here from Debian's binaries."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from controller.audit import migrate

_numbers = itertools.count()


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts)
    return found[-1].parent if found else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that lives as long as the session; skips where PostgreSQL is not installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/postgres")
    # PostgreSQL refuses to run as root.
    user: str | None = None
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("running as root, and there is no user 'postgres' to run the server as")
    folder = Path(tempfile.mkdtemp(prefix="springtide-postgres-"))
    if user is not None:
        shutil.chown(folder, user)
    port = _free_port()
    try:
        subprocess.run(
            [
                binaries / "initdb",
                "-D",
                folder / "data",
                "-U",
                "springtide",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            ],
            check=True,
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        settings = [f"-c{name}" for name in (f"port={port}", "listen_addresses=127.0.0.1", "fsync=off")]
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [
                    binaries / "postgres",
                    "-D",
                    folder / "data",
                    f"-cunix_socket_directories={folder}",
                    *settings,
                ],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            ready = [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
            for _ in range(100):
                if subprocess.run(ready, stdout=subprocess.DEVNULL, check=False).returncode == 0:
                    break
                assert server.poll() is None, (folder / "server.log").read_text()
                # Real processes need real time; pg_isready answers at once while nothing listens yet.
                subprocess.run(["sleep", "0.1"], check=True)
            else:
                pytest.fail((folder / "server.log").read_text())
            yield f"postgresql+psycopg://springtide@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(timeout=20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
