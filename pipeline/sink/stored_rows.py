"""What earlier attempts of a task stored in a partition, and which rows of this attempt therefore are there.

Rows with the same bytes are interchangeable, so it is enough to count: of each row as many copies are left
out as the log has. Whatever order the rows come in, what is left is what is missing. Records that no row
accounts for show that the rows are others than they were.

Kept of a record: 16 bytes of hash and a count; at most about 40 bytes for each of STORED_MAX records while a
scan is summed up.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.records.contents import HASH_BYTES, contents, hashes
from pipeline.records.rows import RecordRows, record_rows
from pipeline.records.varints import Bools

STORED_MAX = 1 << 24
"""Records that an attempt reads back, of all its partitions: about 0.7 GB at worst."""

Digests = npt.NDArray[np.bytes_]
_DIGEST = np.dtype(f"S{HASH_BYTES}")
_IS_STAMPED = 1


class TooManyStored(Exception):
    """Earlier attempts stored more than STORED_MAX records."""

    def __init__(self) -> None:
        super().__init__(
            f"earlier attempts of this task stored more than {STORED_MAX} records, more than an attempt can "
            "compare. Use smaller tasks (repartition), or delivery=at-least-once"
        )


class Counts:
    """How often each digest is still to be met. Equal digests are equal, NULs at the end included: all have
    one length."""

    __slots__ = ("_left", "_values", "remaining")

    def __init__(self, digests: Iterable[Digests] = ()) -> None:
        every = np.concatenate([np.empty(0, _DIGEST), *digests])
        self._values, self._left = np.unique(every, return_counts=True)
        self.remaining = len(every)

    def take(self, digests: Digests) -> Bools:
        """Which of these are met, each once for each time that it is left; those are left no more."""
        taken: Bools = np.zeros(len(digests), np.bool_)
        if not self.remaining:
            return taken
        at = np.minimum(np.searchsorted(self._values, digests), len(self._values) - 1)
        known = np.flatnonzero(self._values[at] == digests)
        order = known[np.argsort(at[known], kind="stable")]
        places = at[order]
        is_first = np.diff(places, prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        copies = np.arange(len(places)) - starts[np.cumsum(is_first) - 1]
        met = copies < self._left[places]
        np.subtract.at(self._left, places[met], 1)
        taken[order[met]] = True
        self.remaining -= int(met.sum())
        return taken


class StoredRows:
    """Of one partition. stamped: of records whose timestamps the broker gave (LogAppendTime), which tell
    nothing and are left out."""

    __slots__ = ("_exact", "_stamped", "_timestamp_ms")

    def __init__(self, exact: Iterable[Digests], stamped: Iterable[Digests], *, timestamp_ms: int) -> None:
        self._exact = Counts(exact)
        self._stamped = Counts(stamped)
        self._timestamp_ms = timestamp_ms

    @property
    def remaining(self) -> int:
        """Records that no row has accounted for yet."""
        return self._exact.remaining + self._stamped.remaining

    def take(self, rows: pa.RecordBatch) -> Bools:
        """Which rows are stored; each record accounts for one row. Raises BadRow, BadColumn."""
        if not self.remaining:
            return np.zeros(rows.num_rows, np.bool_)
        records = record_rows(rows, timestamp_ms=self._timestamp_ms, first_row=0)
        taken = self._exact.take(digests(records, with_timestamps=True))
        if self._stamped.remaining:
            left = np.flatnonzero(~taken)
            taken[left] = self._stamped.take(digests(records, with_timestamps=False)[left])
        return taken


class ReadBack:
    """Takes in decoded records of a partition, and sums them up. Raises TooManyStored."""

    COLUMNS = ("key", "value", "timestamp", "timestampType", "headers")

    def __init__(self, *, records_max: int = STORED_MAX) -> None:
        self._exact: list[Digests] = []
        self._stamped: list[Digests] = []
        self._room = records_max

    def add(self, records: pa.RecordBatch) -> None:
        """Rows of COLUMNS."""
        self._room -= records.num_rows
        if self._room < 0:
            raise TooManyStored
        is_stamped = records["timestampType"].to_numpy(zero_copy_only=False) == _IS_STAMPED
        for found, which in ((self._exact, ~is_stamped), (self._stamped, is_stamped)):
            some = records.filter(pa.array(which))
            if some.num_rows:
                rows = record_rows(some, timestamp_ms=0, first_row=0)
                found.append(digests(rows, with_timestamps=found is self._exact))

    def stored(self, *, timestamp_ms: int) -> StoredRows:
        """timestamp_ms: what stands for a timestamp that a row has not."""
        return StoredRows(self._exact, self._stamped, timestamp_ms=timestamp_ms)


def digests(rows: RecordRows, *, with_timestamps: bool) -> Digests:
    """HASH_BYTES of each row."""
    hashed = hashes(contents(rows, with_timestamps=with_timestamps))
    return np.frombuffer(hashed.buffers()[2], _DIGEST, len(rows.size_max))
