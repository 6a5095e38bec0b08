"""The golden files of a level, as they were kept: packed, since most of them say the same again and again."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import sqlite3
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from springtide.levels import SUPPORTED, Level

FOLDER = Path(__file__).parent


def kept_levels() -> list[Level]:
    """Return the levels that this release can run at and of which there are golden files, lowest first."""
    kept = sorted(Level(int(path.name)) for path in FOLDER.iterdir() if path.name.isdecimal())
    return [level for level in kept if SUPPORTED.has(level)]


class Exchange(NamedTuple):
    """A request of a broker or a coordinator to a controller, and the answer. path: with the verb behind the
    last colon, such as `register`."""

    path: str
    request: str
    status: int
    answer: str

    @property
    def verb(self) -> str:
        return self.path.rpartition(":")[2]


class Golden:
    """The files of a level. What is packed is unpacked where the test wants it."""

    def __init__(self, level: int, folder: Path = FOLDER) -> None:
        self.level = Level(level)
        self.folder = folder / str(level)

    def znodes(self) -> dict[str, bytes]:
        """Return what each znode holds, by its path below the root that controllers are given."""
        text = (self.folder / "znodes.json").read_text(encoding="utf-8")
        return {path: data.encode() for path, data in json.loads(text).items()}

    def keep_znodes(self, znodes: dict[str, bytes]) -> None:
        texts = {path: data.decode() for path, data in znodes.items()}
        (self.folder / "znodes.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")

    def exchanges(self) -> list[Exchange]:
        lines = lzma.decompress((self.folder / "exchanges.jsonl.xz").read_bytes()).splitlines()
        return [Exchange(*json.loads(line)) for line in lines]

    def keep_exchanges(self, exchanges: Sequence[Exchange]) -> None:
        lines = "".join(f"{json.dumps(each)}\n" for each in exchanges)
        (self.folder / "exchanges.jsonl.xz").write_bytes(lzma.compress(lines.encode()))

    def unpack_database(self, to: Path) -> None:
        """Make the SQLite database, as it was, at a path where there is none."""
        script = lzma.decompress((self.folder / "database.sql.xz").read_bytes()).decode()
        database = sqlite3.connect(to)
        database.executescript(script)
        database.close()

    def keep_database(self, source: Path) -> None:
        database = sqlite3.connect(source)
        script = "\n".join(database.iterdump()) + "\n"
        database.close()
        (self.folder / "database.sql.xz").write_bytes(lzma.compress(script.encode()))

    def unpack_log_directory(self, to: Path) -> Path:
        """Unpack the log directory of a stopped broker into a folder; return where it is."""
        return self._unpack("log_directory", to)

    def unpack_table(self, to: Path) -> Path:
        """Unpack the table that topics were landed in; return where it is."""
        return self._unpack("table", to)

    def keep_folder(self, name: str, source: Path) -> None:
        """Pack a folder, `log_directory` or `table`, in one order of its files."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted(path for path in source.rglob("*") if path.name != ".lock"):
                archive.add(path, f"{name}/{path.relative_to(source)}", recursive=False)
        (self.folder / f"{name}.tar.xz").write_bytes(lzma.compress(packed.getvalue()))

    def _unpack(self, name: str, to: Path) -> Path:
        with tarfile.open(self.folder / f"{name}.tar.xz") as archive:
            archive.extractall(to, filter="data")
        return to / name

    def remove(self) -> None:
        shutil.rmtree(self.folder)
