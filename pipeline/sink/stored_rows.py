"""The records that a task's earlier attempts stored in a partition, and the rows that are left out for them.

Rows with the same bytes are interchangeable, so copies are counted: as many of a row are left out as the log
has, in any order of rows, and the others are missing. A stored record without a row shows that the rows have
changed.

A record takes 16 bytes of hash and a count; at most about 40 bytes while a scan is summed up.
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
"""Records that an attempt reads back from all partitions: at most about 0.7 GB."""

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
    """Times that each digest is still to be met. All digests have one length, so NULs at the end count."""

    __slots__ = ("_left", "_values", "remaining")

    def __init__(self, digests: Iterable[Digests] = ()) -> None:
        every = np.concatenate([np.empty(0, _DIGEST), *digests])
        self._values, self._left = np.unique(every, return_counts=True)
        self.remaining = len(every)

    def take(self, digests: Digests) -> Bools:
        """Return which of these are met, each as often as it is left, and count them down."""
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
    """The stored rows of one partition. stamped: records with the broker's timestamps (LogAppendTime), which
    are not compared."""

    __slots__ = ("_exact", "_stamped", "_timestamp_ms")

    def __init__(self, exact: Iterable[Digests], stamped: Iterable[Digests], *, timestamp_ms: int) -> None:
        self._exact = Counts(exact)
        self._stamped = Counts(stamped)
        self._timestamp_ms = timestamp_ms

    @property
    def remaining(self) -> int:
        """Records that have not met their row yet."""
        return self._exact.remaining + self._stamped.remaining

    def take(self, rows: pa.RecordBatch) -> Bools:
        """Return which rows are stored; each record meets one row. Raises BadRow, BadColumn."""
        if not self.remaining:
            return np.zeros(rows.num_rows, np.bool_)
        records = record_rows(rows, timestamp_ms=self._timestamp_ms, first_row=0)
        taken = self._exact.take(digests(records, with_timestamps=True))
        if self._stamped.remaining:
            left = np.flatnonzero(~taken)
            taken[left] = self._stamped.take(digests(records, with_timestamps=False)[left])
        return taken


class ReadBack:
    """Sums up decoded records of a partition. Raises TooManyStored."""

    COLUMNS = ("key", "value", "timestamp", "timestampType", "headers")

    def __init__(self, *, records_max: int = STORED_MAX) -> None:
        self._exact: list[Digests] = []
        self._stamped: list[Digests] = []
        self._room = records_max

    def add(self, records: pa.RecordBatch) -> None:
        """Add rows of COLUMNS."""
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
        """Return the rows; timestamp_ms: the timestamp of rows without one."""
        return StoredRows(self._exact, self._stamped, timestamp_ms=timestamp_ms)


def digests(rows: RecordRows, *, with_timestamps: bool) -> Digests:
    """Return HASH_BYTES of each row."""
    hashed = hashes(contents(rows, with_timestamps=with_timestamps))
    return np.frombuffer(hashed.buffers()[2], _DIGEST, len(rows.size_max))
