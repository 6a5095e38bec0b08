"""The files on which a sink's attempts agree: a directory per micro-batch, each file written once.

    <checkpointLocation>/springtide-sink/<batch id>/<topic>.opening.json
    <checkpointLocation>/springtide-sink/<batch id>/<topic>#<topic id>.opening.json    of one made again since
    <checkpointLocation>/springtide-sink/<batch id>/committed.json

A file appears whole and durable or not at all, and is never changed (pipeline/files.py). The checkpoint is on
a file system that drivers and executors share, as Spark wants it; object stores can't create a file
atomically and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pipeline.errors import SinkStateError
from pipeline.files import StoredFiles, shared_path
from pipeline.sink.opening import BYTES_MAX, TopicOpening, decode_opening, encode_opening
from pipeline.stored import TOPIC_PATTERN

DIRECTORY = "springtide-sink"
COMMITTED = "committed.json"
BATCHES_RETAINED = 100
"""The default of Spark's spark.sql.streaming.minBatchesToRetain."""
_TOPIC = re.compile(TOPIC_PATTERN)


def state_directory(checkpoint_location: str) -> Path:
    """Return the sink's directory in a checkpoint. Raises SinkStateError for a place that is no mounted
    path."""
    return shared_path(checkpoint_location, SinkStateError, what="the checkpoint") / DIRECTORY


class SinkState:
    """The files under one directory. Every method may raise SinkStateError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = StoredFiles(SinkStateError, bytes_max=BYTES_MAX)

    def opening(
        self, batch_id: int, topic: str, propose: Callable[[], TopicOpening], *, topic_id: str = ""
    ) -> TopicOpening:
        """Return the opening of a topic in a micro-batch; `propose` is called if there is none yet.
        `topic_id`: of one that was made again after the first opening."""
        if not _TOPIC.match(topic):
            raise SinkStateError(f"{topic!r} is no topic name")
        name = f"{topic}#{topic_id}" if topic_id else topic
        path = self._directory / str(batch_id) / f"{name}.opening.json"
        found = self._files.read(path)
        if found is None:
            found = self._files.put_if_absent(path, encode_opening(propose()))
        return decode_opening(found, topic=topic, batch_id=batch_id)

    def record_commit(self, batch_id: int, summary: bytes) -> None:
        """Remember what a micro-batch stored. A second commit of it must say the same."""
        path = self._directory / str(batch_id) / COMMITTED
        found = self._files.put_if_absent(path, summary)
        if found != summary:
            raise SinkStateError(
                f"micro-batch {batch_id} was committed before with other records: {_short(found)} then, "
                f"{_short(summary)} now. Its rows are not the same in every run"
            )

    def commits(self) -> dict[int, bytes]:
        """Return the summaries of the committed micro-batches that are still kept."""
        found = {
            batch_id: self._files.read(self._directory / str(batch_id) / COMMITTED)
            for batch_id in self._batches()
        }
        return {batch_id: summary for batch_id, summary in found.items() if summary is not None}

    def forget_before(self, batch_id: int) -> None:
        """Remove the micro-batches that are older than the retained ones."""
        for old in self._batches():
            if old < batch_id - BATCHES_RETAINED:
                self._files.disk.remove_tree(self._directory / str(old))

    def _batches(self) -> list[int]:
        names = self._files.names(self._directory)
        return [int(name) for name in names if name.isascii() and name.isdigit()]


def _short(content: bytes) -> str:
    return content[:200].decode(errors="replace")
