"""The audit's database, backed up and restored with its own tool (docs/backup.md)."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Protocol


class Database(Protocol):
    name: str

    def back_up(self, folder: Path) -> None:
        """While controllers write to it."""

    def restore(self, folder: Path) -> None:
        """While no controller runs."""


class Sqlite:
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self._path = path

    def back_up(self, folder: Path) -> None:
        with (
            closing(sqlite3.connect(self._path)) as source,
            closing(sqlite3.connect(folder / "audit.db")) as copy,
        ):
            source.backup(copy)

    def restore(self, folder: Path) -> None:
        for suffix in ("-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(folder / "audit.db", self._path)


class Postgres:
    name = "PostgreSQL"

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql+psycopg", "postgresql")

    def back_up(self, folder: Path) -> None:
        subprocess.run(
            ["pg_dump", "--format=custom", f"--file={folder / 'audit.dump'}", self._url], check=True
        )

    def restore(self, folder: Path) -> None:
        dump = folder / "audit.dump"
        subprocess.run(
            ["pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={self._url}", dump],
            check=True,
        )
