"""A simulated disk as a process of the other release finds it: small files as bytes, by the codecs of who
wrote and who reads them; logs field by field, for in tier A they are no files."""

from __future__ import annotations

import logging
from typing import Any

from tests.simulation.releases.crossing import received
from tests.simulation.releases.translation import Release, release_of, translated


class _OneFile:
    """A disk that has one file, under every name."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, path: str) -> _OneFile:
        del path
        return self

    def size_bytes(self) -> int:
        return len(self._data)

    def pread(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]

    def close(self) -> None:
        """It is still there."""


def found(disk: Any, release: Release) -> Any:
    """Return the disk for a process of that release. Raise Unreadable for a note that it can't read."""
    other = translated(disk, release, objects=True)
    for name in ("logs", "quarantined"):  # a copy that was put back has some of either
        setattr(other, name, translated(getattr(other, name), release, objects=True))
    other.notes = {key: received(note, release) for key, note in disk.notes.items()}
    if release_of(type(disk.seen)) is not release:
        other.seen = _read_seen(_seen_file(disk.seen), release)
    return other


def _seen_file(seen: Any) -> bytes:
    """Return the file of what a broker was told, without its title, as its release writes it."""
    writer = release_of(type(seen))
    assert writer is not None
    directory = writer.module("dataplane.shell.data_directory")
    if hasattr(directory, "encode_seen"):
        data: bytes = directory.encode_seen(seen)
        return data
    return f"{seen.controller_epoch} {seen.records} {seen.lineage}".encode()  # 0.1 does it where it writes


def _read_seen(data: bytes, release: Release) -> Any:
    directory = release.module("dataplane.shell.data_directory")
    logger = logging.getLogger(directory.__name__)
    if not logger.handlers:  # 0.1 says each time that it forgets what is above its level
        logger.addHandler(logging.NullHandler())
    return directory.read_seen(_OneFile(data), "")
