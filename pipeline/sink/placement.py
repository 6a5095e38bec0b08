"""Which partition each row goes to, and the rows of each partition in their order.

A row goes to the partition in its column, else by its key's murmur2 (Kafka's default partitioner); rows
without either are dealt out in runs. This depends only on the rows, their places in the task, the task's
index and the partition counts, which the opening freezes: every attempt places a row where the first one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidRows
from pipeline.sink.murmur2 import murmur2, positive

RUN_ROWS = 1024
"""Rows without key or partition that go to one partition before the next one's turn (KIP-480 counts bytes and
time, which an attempt can't repeat)."""

TOPICS_MAX = 10_000
"""Topics that one task may write to."""

SMALL_MAX = 2**16


class RowPlacement:
    """The placement of one task attempt. `partition_count` returns a topic's frozen count, and may raise."""

    def __init__(self, *, topic: str | None, task_index: int, partition_count: Callable[[str], int]) -> None:
        self._topic = topic
        self._task_index = task_index
        self._partition_count = partition_count
        self._keyless: dict[str, int] = {}
        """Rows dealt out so far, by topic."""

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield the rows of each partition, in their order. Raises InvalidRows."""
        for topic, some in self._by_topic(rows):
            numbers = self._partitions(topic, some)
            first = int(numbers[0])
            if (numbers == first).all():
                yield TopicPartition(topic, first), some
                continue
            # NumPy sorts small numbers by their digits, which takes an eighth of the time.
            small = numbers.astype(np.uint16) if self._partition_count(topic) <= SMALL_MAX else numbers
            order = np.argsort(small, kind="stable")
            sorted_rows = some.take(pa.array(order))
            ends = np.flatnonzero(np.diff(numbers[order], append=-1)) + 1
            start = 0
            for end in ends.tolist():
                partition = int(numbers[order[start]])
                yield TopicPartition(topic, partition), sorted_rows.slice(start, end - start)
                start = end

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not rows.num_rows:
            return
        if self._topic is not None:
            yield self._topic, rows
            return
        topics = rows.column(rows.schema.get_field_index("topic"))
        if topics.null_count:
            raise InvalidRows(
                "null topic present in the data. Use the option 'topic' to set one topic for all"
            )
        encoded = topics.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) + len(self._keyless) > TOPICS_MAX:
            raise InvalidRows(f"a task writes to at most {TOPICS_MAX} topics")
        if len(names) == 1:
            yield str(names[0]), rows
            return
        for index, name in enumerate(names):
            yield str(name), rows.filter(pc.equal(encoded.indices, index))

    def _partitions(self, topic: str, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        count = self._partition_count(topic)
        numbers = np.full(rows.num_rows, -1, np.int64)
        given = _column(rows, "partition")
        if given is not None:
            numbers = pc.fill_null(given.cast(pa.int64()), -1).to_numpy(zero_copy_only=False).copy()
            is_given = pc.is_valid(given).to_numpy(zero_copy_only=False)
            wrong = is_given & ((numbers < 0) | (numbers >= count))
            if wrong.any():
                number = int(numbers[wrong.argmax()])
                raise InvalidRows(f"{topic} has partitions 0 to {count - 1}, and a row is for {number}")
        open_places = np.flatnonzero(numbers < 0)
        keys = _column(rows, "key")
        if keys is not None and len(open_places):
            some = keys.take(pa.array(open_places)).cast(pa.binary())
            is_keyed = pc.is_valid(some).to_numpy(zero_copy_only=False)
            numbers[open_places[is_keyed]] = positive(murmur2(some.drop_null())) % count
            open_places = open_places[~is_keyed]
        if len(open_places):
            dealt = self._keyless.get(topic, 0)
            places = dealt + np.arange(len(open_places))
            numbers[open_places] = (self._task_index + places // RUN_ROWS) % count
            self._keyless[topic] = dealt + len(open_places)
        return numbers


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)
