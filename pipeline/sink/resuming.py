"""Rows of an attempt that continues where others stopped: what is missing, and what waits until that is sure.

A row is left out if the log has its record (stored_rows.py). The others wait until every stored record has
met its row, or until the bound of held bytes: then they are written, and an attempt whose rows have changed
fails at its end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.client.values import TopicPartition
from pipeline.errors import DeliveryFailed
from pipeline.records.varints import Bools
from pipeline.sink.delivery import plan_changed
from pipeline.sink.stored_rows import STORED_MAX, ReadBack, StoredRows


class Resuming:
    """All partitions of one attempt."""

    __slots__ = ("_held", "_held_bytes", "_held_bytes_max", "_room", "_stored")

    def __init__(self, *, held_bytes_max: int) -> None:
        self._held_bytes_max = held_bytes_max
        self._held_bytes = 0
        self._held: list[tuple[TopicPartition, pa.RecordBatch]] = []
        self._stored: dict[TopicPartition, StoredRows] = {}
        self._room = STORED_MAX

    def read_back(self) -> ReadBack:
        """Return what the first scan of a partition fills."""
        return ReadBack(records_max=self._room)

    def begin(self, where: TopicPartition, stored: StoredRows) -> None:
        if stored.remaining:
            self._room -= stored.remaining
            self._stored[where] = stored

    def missing(
        self, where: TopicPartition, rows: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield what is to be written now, of these rows and of those that waited, in their order."""
        if not self._remaining():
            yield where, rows
            return
        left = rows.filter(pa.array(~self._met(where, rows)))
        if left.num_rows:
            self._held.append((where, left))
            self._held_bytes += left.nbytes
        if not self._remaining() or self._held_bytes > self._held_bytes_max:
            yield from self.held()

    def held(self) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """Take the rows that wait."""
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def check(self) -> None:
        """Raise DeliveryFailed, at the end of the rows, for stored records without a row."""
        for where, stored in self._stored.items():
            if stored.remaining:
                failed = plan_changed(f"{stored.remaining} of them")
                raise DeliveryFailed(f"{where}: {failed}")

    def _remaining(self) -> int:
        return sum(stored.remaining for stored in self._stored.values())

    def _met(self, where: TopicPartition, rows: pa.RecordBatch) -> Bools:
        met: Bools = np.zeros(rows.num_rows, np.bool_)
        if where in self._stored:
            met = self._stored[where].take(rows)
        is_dealt = _is_null(rows, "key") & _is_null(rows, "partition")
        for there, stored in self._stored.items():
            places = np.flatnonzero(is_dealt & ~met)
            if there.topic == where.topic and there != where and len(places) and stored.remaining:
                met[places] = stored.take(rows.take(pa.array(places)))
        return met


def _is_null(rows: pa.RecordBatch, name: str) -> Bools:
    place = rows.schema.get_field_index(name)
    if place < 0:
        return np.ones(rows.num_rows, np.bool_)
    nulls: Bools = pc.is_null(rows.column(place)).to_numpy(zero_copy_only=False)
    return nulls
