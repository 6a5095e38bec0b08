"""Files that appear whole and durable or not at all, on file systems that drivers and executors share.

A file is written aside, synced, and linked to its name, which fails if the name is taken (POSIX; NFS too):
the first of several writers wins, and what has a name is never changed. Object stores have no such link.

Only `SharedDisk` touches the file system, one operation a method, so that tests can stop a process between
any two.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit


class SharedDisk:
    """Operations of the operating system. All raise OSError."""

    def write_new(self, path: Path, content: bytes) -> None:
        """Write a new file, durable except for its name."""
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def read(self, path: Path, bytes_max: int) -> bytes | None:
        """Return the first `bytes_max` bytes; None if there is no such file."""
        try:
            with path.open("rb") as file:
                return file.read(bytes_max)
        except FileNotFoundError:
            return None

    def sync(self, path: Path) -> None:
        """Make a file's content, or a directory's names, durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name. Raises FileExistsError if `target` is taken."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make one directory, unless it is there; its parent must be there."""
        path.mkdir(exist_ok=True)

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory; none if there is no directory."""
        try:
            return sorted(entry.name for entry in os.scandir(directory))
        except FileNotFoundError:
            return []

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory as far as possible: leftovers do no harm."""
        shutil.rmtree(directory, ignore_errors=True)


def make_directories(disk: SharedDisk, path: Path) -> None:
    """Make the directory and those above it, with durable names."""
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        disk.make_directory(each)
        with suppress(PermissionError):  # a parent that we may look into and not open: its owner's to sync
            disk.sync(each.parent)


def mounted_path(location: str) -> Path | None:
    """Return the path of a location on a mounted file system, `/a/b` or `file:///a/b`; None for any other
    URL."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path) if parts.scheme else location
    return Path(path) if path else None


def shared_path(location: str, error: Callable[[str], Exception], *, what: str) -> Path:
    """Return the path of a location. Raises `error` unless it is on a mounted file system."""
    path = mounted_path(location)
    if path is None:
        raise error(
            f"{what} {location!r} is not on a mounted file system, where files can be created atomically. "
            "Give a path that driver and executors share (NFS, CephFS, a mounted HDFS)"
        )
    return path


class StoredFiles:
    """Files that appear whole and durable or not at all, and are never changed. Trouble is raised as
    `error`."""

    def __init__(
        self, error: Callable[[str], Exception], *, bytes_max: int, disk: SharedDisk | None = None
    ) -> None:
        self._error = error
        self._bytes_max = bytes_max
        self.disk = disk or SharedDisk()

    def read(self, path: Path) -> bytes | None:
        """Return the file's content; None if there is no such file."""
        try:
            found = self.disk.read(path, self._bytes_max + 1)
        except OSError as error:
            raise self._error(f"{path} can't be read: {error}") from error
        if found is not None and len(found) > self._bytes_max:
            raise self._error(f"{path} is larger than {self._bytes_max} bytes: it is not one of our files")
        return found

    def put_if_absent(self, path: Path, content: bytes) -> bytes:
        """Write `content` to `path`, durably, if nothing is there; return what `path` then holds."""
        aside = path.parent / f".{path.name}.{uuid.uuid4().hex}"
        try:
            make_directories(self.disk, path.parent)
            try:
                self.disk.write_new(aside, content)
                with suppress(FileExistsError):
                    self.disk.link(aside, path)
                self.disk.sync(path.parent)
            finally:
                self.disk.unlink(aside)
        except OSError as error:
            raise self._error(f"{path} can't be written: {error}") from error
        found = self.read(path)
        if found is None:
            raise self._error(f"{path} was removed while it was written")
        return found

    def names(self, directory: Path) -> list[str]:
        try:
            return self.disk.names(directory)
        except OSError as error:
            raise self._error(f"{directory} can't be read: {error}") from error
