"""Where a sink keeps what its attempts must agree on: a directory per micro-batch, files written once.

    <checkpointLocation>/springtide-sink/<batch id>/<topic>.opening.json
    <checkpointLocation>/springtide-sink/<batch id>/committed.json

A file appears whole and durable or not at all, and is never changed: it is written aside, synced, and linked
to its name, which fails if the name is taken (POSIX; NFS too). The checkpoint is on a file system that
drivers and executors share, as Spark wants it; object stores have no such link, and are refused rather than
half trusted.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline.sink.errors import SinkStateError
from pipeline.sink.opening import BYTES_MAX, TopicOpening, decode_opening, encode_opening

DIRECTORY = "springtide-sink"
COMMITTED = "committed.json"
BATCHES_RETAINED = 100
"""As Spark's spark.sql.streaming.minBatchesToRetain."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def state_directory(checkpoint_location: str) -> Path:
    """The sink's directory in a checkpoint. Raises SinkStateError for a place that is no mounted path."""
    parts = urlsplit(checkpoint_location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise SinkStateError(
            f"the checkpoint {checkpoint_location!r} is not on a mounted file system: exactly-once keeps "
            "small files beside it that must be created atomically. Use a mounted (shared) path, or "
            "delivery=at-least-once"
        )
    path = unquote(parts.path) if parts.scheme else checkpoint_location
    if not path:
        raise SinkStateError("the checkpoint location is empty")
    return Path(path) / DIRECTORY


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
    aside = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(aside, path)
        except FileExistsError:
            pass
        finally:
            aside.unlink(missing_ok=True)
        _sync_directory(path.parent)
        _sync_directory(path.parent.parent)
    except OSError as error:
        raise SinkStateError(f"{path} can't be written: {error}") from error
    found = _read(path)
    if found is None:
        raise SinkStateError(f"{path} was removed while it was written")
    return found


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SinkStateError(f"{path} can't be read: {error}") from error
    if len(content) > BYTES_MAX:
        raise SinkStateError(f"{path} is larger than {BYTES_MAX} bytes: nothing of ours")
    return content


def _sync_directory(path: Path) -> None:
    """A name is durable when its directory is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _short(content: bytes) -> str:
    return content[:200].decode(errors="replace")
