"""Where a sink keeps what its attempts must agree on: a directory per micro-batch, files written once.

    <checkpointLocation>/springtide-sink/<batch id>/<topic>.opening.json
    <checkpointLocation>/springtide-sink/<batch id>/committed.json

A file appears whole and durable or not at all, and is never changed (pipeline/files.py). The checkpoint is
on a file system that drivers and executors share, as Spark wants it; object stores can't create a file
atomically, and are refused rather than half trusted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from pipeline import files
from pipeline.files import Disk, mounted_path
from pipeline.sink.errors import SinkStateError
from pipeline.sink.opening import BYTES_MAX, TopicOpening, decode_opening, encode_opening

DIRECTORY = "springtide-sink"
COMMITTED = "committed.json"
BATCHES_RETAINED = 100
"""As Spark's spark.sql.streaming.minBatchesToRetain."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def state_directory(checkpoint_location: str) -> Path:
    """The sink's directory in a checkpoint. Raises SinkStateError for a place that is no mounted path."""
    path = mounted_path(checkpoint_location)
    if path is None:
        raise SinkStateError(
            f"the checkpoint {checkpoint_location!r} is not on a mounted file system: exactly-once keeps "
            "small files beside it that must be created atomically. Use a mounted (shared) path, or "
            "delivery=at-least-once"
        )
    return path / DIRECTORY


class SinkState:
    """The files under one directory. Every method may raise SinkStateError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def opening(self, batch_id: int, topic: str, propose: Callable[[], TopicOpening]) -> TopicOpening:
        """The opening of a topic in a micro-batch; `propose` is asked only if there is none yet."""
        if not _TOPIC.match(topic):
            raise SinkStateError(f"{topic!r} is no topic name")
        path = self._directory / str(batch_id) / f"{topic}.opening.json"
        found = _read(path)
        if found is None:
            found = put_if_absent(path, encode_opening(propose()))
        return decode_opening(found, topic=topic, batch_id=batch_id)

    def record_commit(self, batch_id: int, summary: bytes) -> None:
        """Remember what a micro-batch stored. A second commit of it must say the same."""
        path = self._directory / str(batch_id) / COMMITTED
        found = put_if_absent(path, summary)
        if found != summary:
            raise SinkStateError(
                f"micro-batch {batch_id} was committed before with other records: {_short(found)} then, "
                f"{_short(summary)} now. Its rows are not the same in every run"
            )

    def commits(self) -> dict[int, bytes]:
        """The summaries of the committed micro-batches that are still kept."""
        try:
            names = [entry.name for entry in os.scandir(self._directory)]
        except FileNotFoundError:
            return {}
        found = {
            int(name): _read(self._directory / name / COMMITTED)
            for name in names
            if name.isascii() and name.isdigit()
        }
        return {batch_id: summary for batch_id, summary in found.items() if summary is not None}

    def forget_before(self, batch_id: int) -> int:
        """Remove the micro-batches that are older than the retained ones; returns how many."""
        removed = 0
        try:
            names = [entry.name for entry in os.scandir(self._directory)]
        except FileNotFoundError:
            return 0
        for name in names:
            if name.isascii() and name.isdigit() and int(name) < batch_id - BATCHES_RETAINED:
                shutil.rmtree(self._directory / name, ignore_errors=True)
                removed += 1
        return removed


def put_if_absent(path: Path, content: bytes) -> bytes:
    """What is at `path` in the end: `content`, durably, or what was there before. Raises SinkStateError."""
    try:
        return _bounded(path, files.put_if_absent(Disk(), path, content, bytes_max=BYTES_MAX + 1))
    except OSError as error:
        raise SinkStateError(f"{path} can't be written: {error}") from error


def _read(path: Path) -> bytes | None:
    try:
        content = Disk().read(path, BYTES_MAX + 1)
    except OSError as error:
        raise SinkStateError(f"{path} can't be read: {error}") from error
    return None if content is None else _bounded(path, content)


def _bounded(path: Path, content: bytes) -> bytes:
    if len(content) > BYTES_MAX:
        raise SinkStateError(f"{path} is larger than {BYTES_MAX} bytes: nothing of ours")
    return content


def _short(content: bytes) -> str:
    return content[:200].decode(errors="replace")
