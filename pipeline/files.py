"""Files that appear whole and durable or not at all, on file systems that drivers and executors share.

A file is written aside, synced, and linked to its name, which fails if the name is taken (POSIX; NFS too):
the first of several writers wins, and what has a name is never changed. Object stores have no such link.

`Disk` is all that touches the file system, one operation a method, so that tests can stop a process's hand
between any two of them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Disk:
    """The operating system's operations. All raise OSError."""

    def write_new(self, path: Path, content: bytes) -> None:
        """A new file, durable but for its name."""
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def read(self, path: Path, bytes_max: int) -> bytes | None:
        """The first `bytes_max` bytes; None if there is no such file."""
        try:
            with path.open("rb") as file:
                return file.read(bytes_max)
        except FileNotFoundError:
            return None

    def sync(self, path: Path) -> None:
        """Makes a file's content, or a directory's names, durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """A second name for a file. FileExistsError if `target` is taken."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """One directory; its parent must be there. It may be there already."""
        path.mkdir(exist_ok=True)

    def names(self, directory: Path) -> list[str]:
        """What is in a directory; nothing if there is none."""
        try:
            return sorted(entry.name for entry in os.scandir(directory))
        except FileNotFoundError:
            return []

    def remove_tree(self, directory: Path) -> None:
        """As much of it as can be removed: leftovers do no harm."""
        shutil.rmtree(directory, ignore_errors=True)


def put_if_absent(disk: Disk, path: Path, content: bytes, *, bytes_max: int) -> bytes:
    """What is at `path` in the end: `content`, durably, or up to `bytes_max` bytes of what was there before.

    Raises OSError.
    """
    make_directories(disk, path.parent)
    aside = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    try:
        disk.write_new(aside, content)
        adopt(disk, aside, path)
    finally:
        disk.unlink(aside)
    found = disk.read(path, bytes_max)
    if found is None:
        raise FileNotFoundError(f"{path} was removed while it was written")
    return found


def adopt(disk: Disk, finished: Path, path: Path) -> bool:
    """Gives a synced file its name, durably. False: the name was taken, by a file that is durable now."""
    try:
        disk.link(finished, path)
        is_ours = True
    except FileExistsError:
        is_ours = False
    disk.sync(path.parent)
    return is_ours


def make_directories(disk: Disk, path: Path) -> None:
    """The directory and those above it, their names durable."""
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        disk.make_directory(each)
        with suppress(PermissionError):  # a parent that we may look into and not open: its owner's to sync
            disk.sync(each.parent)


def mounted_path(location: str) -> Path | None:
    """The path of a location on a mounted file system, `/a/b` or `file:///a/b`; None for any other URL."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path) if parts.scheme else location
    return Path(path) if path else None
