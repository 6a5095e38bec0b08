"""What a streaming query has to remember that Spark's checkpoint does not hold, in a directory of two files.

    <startState>/start.json    once: where the query begins. The first to write it decides
    <startState>/epochs.json   replaced as they change: leader epochs under which the logs were seen whole

Spark asks a Python source for its initial offset anew until the first micro-batch is written down, and by
then "latest" may mean something later. And offsets alone can't show that a log was cut below what was read
and has grown again; the leader epoch that the reader knew can (KIP-320), if it outlives the driver.

One query owns the directory, as it owns its checkpoint. Files appear whole or not at all.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from pipeline.client.values import TopicPartition
from pipeline.files import Disk, mounted_path, put_if_absent
from pipeline.source.errors import InvalidOption, StateError
from pipeline.source.offset_json import Offsets, offsets_from_json, offsets_to_json

START, EPOCHS = "start.json", "epochs.json"
BYTES_MAX = 64 * 1024 * 1024
VERSION = 1


def state_directory(location: str) -> Path:
    """The directory that the option `startState` names. Raises InvalidOption."""
    path = mounted_path(location)
    if path is None:
        raise InvalidOption(
            f"option 'startState': {location!r} is not on a mounted file system, and files must be created "
            "there atomically; give a path that every driver of the query sees"
        )
    return path


class StartState:
    """Every method may raise StateError."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk or Disk()

    def pinned(self) -> Offsets | None:
        """Where the query begins, if that was decided."""
        return self._read(START)

    def pin(self, offsets: Offsets) -> Offsets:
        """Decides it, unless somebody has: what holds from now on."""
        path = self._directory / START
        try:
            found = put_if_absent(self._disk, path, _encode(offsets), bytes_max=BYTES_MAX)
        except OSError as error:
            raise StateError(f"{path} can't be written: {error}") from error
        return _decode(found, path)

    def epochs(self) -> dict[TopicPartition, int]:
        """Leader epochs as they were remembered last."""
        return self._read(EPOCHS) or {}

    def remember(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Replaces what is remembered. Negative epochs say nothing and are left out."""
        path = self._directory / EPOCHS
        aside = self._directory / f".{EPOCHS}.{uuid.uuid4().hex}"
        known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._disk.write_new(aside, _encode(known))
            os.replace(aside, path)  # noqa: PTH105 - as the rest, by the operating system's name
            self._disk.sync(self._directory)
        except OSError as error:
            raise StateError(f"{path} can't be written: {error}") from error

    def _read(self, name: str) -> Offsets | None:
        path = self._directory / name
        try:
            found = self._disk.read(path, BYTES_MAX + 1)
        except OSError as error:
            raise StateError(f"{path} can't be read: {error}") from error
        return None if found is None else _decode(found, path)


def _encode(numbers: Mapping[TopicPartition, int]) -> bytes:
    told = {"version": VERSION, "partitions": offsets_to_json(numbers)}
    return json.dumps(told, separators=(",", ":")).encode()


def _decode(encoded: bytes, path: Path) -> Offsets:
    try:
        if len(encoded) > BYTES_MAX:
            raise ValueError(f"more than {BYTES_MAX} bytes")
        told = json.loads(encoded)
        if not isinstance(told, dict) or told.get("version") != VERSION:
            raise ValueError("no such file of this release")
        return offsets_from_json(told.get("partitions"))
    except (ValueError, RecursionError) as error:
        raise StateError(
            f"{path} is damaged, or not ours: {error}. Restore it; or remove it, and the query begins where "
            "its options say, without knowing what happened to the logs meanwhile"
        ) from error
