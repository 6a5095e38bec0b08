"""The folder of a backup: files of lines, each a JSON value, packed; and a manifest that is written last.

    manifest.json          what it is of, and of each file how many lines and bytes it has, and their SHA-256
    zookeeper.jsonl.gz     znodes beside the clusters': path below the root, ACL, data
    cluster-0.jsonl.gz     one cluster's znodes; the manifest says whose
    sql.jsonl.gz           rows: table, values by column

A folder without a manifest is no backup, so one that was interrupted is never taken for whole. It holds the
secrets of users and of webhooks: only its owner can read it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec

from springtide.levels import NEWEST, RELEASES, UNTOLD, Level

#: Of this layout. A later one is refused.
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
ZNODES: Final = "zookeeper.jsonl.gz"
ROWS: Final = "sql.jsonl.gz"
#: A plan's row is the longest that is known, with a megabyte or two.
LINE_BYTES_MAX: Final = 256 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


class BackupInvalid(Exception):
    """The folder is no backup that this release can use; the message says why."""


class FileSum(msgspec.Struct, frozen=True, kw_only=True):
    """bytes, sha256: of the file as it is stored, packed."""

    lines: int
    bytes: int
    sha256: str


class ClusterSum(msgspec.Struct, frozen=True, kw_only=True):
    """records: how many were ever persisted, as the head says; write_id: of its last write. Both are None of
    a cluster that has no head: it was being created. counts: znodes by the folder that they are in."""

    name: str
    file: str
    level: Level = UNTOLD
    records: int | None = None
    write_id: str | None = None
    znodes: int = 0
    counts: dict[str, int] = {}


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """acls: each that a znode has, as (permissions, scheme, id); znodes name them by number. level: the own
    level of the release that made it. revision: of the SQL schema. tables: rows by table."""

    format: int
    release: str
    level: Level
    made_at: str
    zookeeper_root: str
    controller_epoch: int
    clusters: tuple[ClusterSum, ...]
    acls: tuple[tuple[tuple[int, str, str], ...], ...]
    revision: str
    database: str
    tables: dict[str, int]
    files: dict[str, FileSum]


class LineWriter:
    """Writes one file of lines, durable when it is closed."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._counting = _Counting(self._file)
        self._packed = gzip.GzipFile("", "wb", 5, self._counting, mtime=0)
        self.lines = 0

    def write(self, value: Any) -> None:
        self._packed.write(json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")
        self.lines += 1

    @property
    def bytes(self) -> int:
        """Stored so far."""
        return self._counting.bytes

    def finish(self) -> FileSum:
        self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        return FileSum(lines=self.lines, bytes=self._counting.bytes, sha256=self._counting.digest.hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class _Counting:
    """What the packed bytes go through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def write_manifest(folder: Path, manifest: BackupManifest) -> None:
    descriptor = os.open(folder / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    for made in (folder, folder.parent):
        listed = os.open(made, os.O_RDONLY)
        os.fsync(listed)
        os.close(listed)


def read_manifest(folder: Path) -> BackupManifest:
    """Raise BackupInvalid."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            text = file.read(MANIFEST_BYTES_MAX)
    except FileNotFoundError:
        raise BackupInvalid(
            f"{folder} has no {MANIFEST}: it is no backup, or one that was not finished"
        ) from None
    except OSError as error:
        raise BackupInvalid(f"{folder / MANIFEST}: {error.strerror}") from error
    try:
        has_format = msgspec.json.decode(text, type=_Format).format
        if has_format > FORMAT:
            raise BackupInvalid(
                f"{folder} has format {has_format}, and this release ({RELEASES[NEWEST]}) reads formats up "
                f"to {FORMAT}: use the release that made it, or a later one"
            )
        manifest = msgspec.json.decode(text, type=BackupManifest)
    except ValueError as error:
        raise BackupInvalid(f"{folder / MANIFEST} can't be read: {error}") from error
    wanted = {ZNODES, ROWS, *(cluster.file for cluster in manifest.clusters)}
    if wanted != set(manifest.files) or any(Path(name).name != name for name in wanted):
        raise BackupInvalid(f"{folder / MANIFEST} does not name the files that it needs")
    return manifest


class _Format(msgspec.Struct):
    format: int


def check_file(folder: Path, name: str, wanted: FileSum) -> None:
    """Raise BackupInvalid unless the file is what the manifest says, byte for byte."""
    digest = hashlib.sha256()
    count = 0
    try:
        with (folder / name).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                count += len(chunk)
    except OSError as error:
        raise BackupInvalid(f"{folder / name}: {error.strerror}") from error
    if (count, digest.hexdigest()) != (wanted.bytes, wanted.sha256):
        raise BackupInvalid(
            f"{folder / name} is not what the manifest says: it has {count} bytes with SHA-256 "
            f"{digest.hexdigest()}, not {wanted.bytes} with {wanted.sha256}; the backup was damaged"
        )


def read_lines(folder: Path, name: str, wanted: FileSum) -> Iterator[Any]:
    """Yield the file's values. Raise BackupInvalid, also if they are more or fewer than `wanted` says."""
    lines = 0
    try:
        with gzip.open(folder / name, "rb") as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                if len(line) > LINE_BYTES_MAX:
                    raise BackupInvalid(f"{folder / name}: line {lines + 1} is too long")
                lines += 1
                yield json.loads(line)
    except (OSError, EOFError, ValueError) as error:
        raise BackupInvalid(f"{folder / name}, after line {lines}: {error}") from error
    if lines != wanted.lines:
        raise BackupInvalid(f"{folder / name} has {lines} lines, and the manifest says {wanted.lines}")
