"""A PostgreSQL server of a test's own, started from Debian's binaries; it leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcluster.ports import PortReservation

USER = "springtide"
READY_TRIES_MAX = 600


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts)
    return found[-1].parent if found else None


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of its database `postgres`, whose user may do everything and needs no password; skips the test
    where PostgreSQL is not installed."""
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
    ports = PortReservation()
    port = ports.reserve_free()
    data = folder / "data"
    try:
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        settings = [f"-c{name}" for name in (f"port={port}", "listen_addresses=127.0.0.1", "fsync=off")]
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [binaries / "postgres", "-D", data, f"-cunix_socket_directories={folder}", *settings],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            ready = [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
            for _ in range(READY_TRIES_MAX):
                if subprocess.run(ready, stdout=subprocess.DEVNULL, check=False).returncode == 0:
                    break
                assert server.poll() is None, (folder / "server.log").read_text()
                # Real processes need real time; pg_isready answers at once while nothing listens yet.
                subprocess.run(["sleep", "0.1"], check=True)
            else:
                pytest.fail((folder / "server.log").read_text())
            yield f"postgresql+psycopg://{USER}@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(timeout=20)
    finally:
        ports.close()
        shutil.rmtree(folder, ignore_errors=True)
