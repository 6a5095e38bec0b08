"""The state that a streaming query keeps beside Spark's checkpoint, in a directory of two files.

    <startState>/start.json    once: where the query begins, in which topics. The first to write it decides
    <startState>/epochs.json   replaced as they change: leader epochs under which the logs were seen whole

Spark asks a Python source for its initial offset again until the first micro-batch is written down, when
"latest" may be later. And offsets alone don't show that a log was cut below what was read and has grown
again; the leader epoch that the reader knew does (KIP-320), if it outlives the driver.

One query owns the directory, as it owns its checkpoint. Files appear whole or not at all.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidOption, StateError
from pipeline.files import SharedDisk, StoredFiles, shared_path
from pipeline.source.offset_json import (
    Offsets,
    TopicIds,
    offsets_from_json,
    offsets_to_json,
    topic_ids_from_json,
)

START, EPOCHS = "start.json", "epochs.json"
BYTES_MAX = 64 * 1024 * 1024
VERSION = 1


def state_directory(location: str) -> Path:
    """Return the directory that the option `startState` names. Raises InvalidOption."""
    return shared_path(location, InvalidOption, what="option 'startState':")


class Pinned(NamedTuple):
    """Where a query begins, and the ids of the topics in which it does, where they were known."""

    offsets: Offsets
    topic_ids: TopicIds


class StartState:
    """Every method may raise StateError."""

    def __init__(self, directory: Path, disk: SharedDisk | None = None) -> None:
        self._directory = directory
        self._files = StoredFiles(StateError, bytes_max=BYTES_MAX, disk=disk)

    def pinned(self) -> Pinned | None:
        """Return where the query begins, if that was decided."""
        return self._read(START)

    def pin(self, offsets: Offsets, topic_ids: Mapping[str, str]) -> Pinned:
        """Return where the query begins from now on: at `offsets`, unless another driver was first."""
        path = self._directory / START
        return _decode(self._files.put_if_absent(path, _encode(offsets, topic_ids)), path)

    def epochs(self) -> dict[TopicPartition, int]:
        """Return the leader epochs that were remembered last."""
        found = self._read(EPOCHS)
        return {} if found is None else found.offsets

    def remember(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Replace what is remembered, without unknown (negative) epochs."""
        path = self._directory / EPOCHS
        aside = self._directory / f".{EPOCHS}.{uuid.uuid4().hex}"
        known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._files.disk.write_new(aside, _encode(known, {}))
            os.replace(aside, path)  # noqa: PTH105 - as the rest, by the operating system's name
            self._files.disk.sync(self._directory)
        except OSError as error:
            raise StateError(f"{path} can't be written: {error}") from error

    def _read(self, name: str) -> Pinned | None:
        path = self._directory / name
        found = self._files.read(path)
        return None if found is None else _decode(found, path)


def _encode(numbers: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> bytes:
    told = {"version": VERSION, "partitions": offsets_to_json(numbers, topic_ids)}
    return json.dumps(told, separators=(",", ":")).encode()


def _decode(encoded: bytes, path: Path) -> Pinned:
    try:
        told = json.loads(encoded)
        if not isinstance(told, dict) or told.get("version") != VERSION:
            raise ValueError("no such file of this release")
        numbers = told.get("partitions")
        return Pinned(offsets_from_json(numbers), topic_ids_from_json(numbers))
    except (ValueError, RecursionError) as error:
        raise StateError(
            f"{path} is damaged, or not ours: {error}. Restore it; or remove it, and the query begins where "
            "its options say, without knowing what happened to the logs meanwhile"
        ) from error
