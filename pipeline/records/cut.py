"""The cutting of one partition's stream of rows into batches: a pure function of the rows.

The cut depends only on the rows and the two limits: not on how the rows were chunked on their way, on time,
or on how well a codec does. It has no memory: where a batch ends depends only on the rows since the end of
the batch before it. So every attempt of a task cuts the same rows the same way, and one that
resumes behind a stored batch keeps cutting as the first attempt did; each batch it sends is one that was
sent before, or none of whose records was. Sequences of idempotent producers (KIP-98) need just that: a
broker answers a batch that it has, and refuses one that overlaps.

A record counts with the most bytes it can take, as Kafka's producer estimates them
(DefaultRecord.recordSizeUpperBound), because what it takes exactly depends on its place in the batch.
"""

from __future__ import annotations

import numpy as np

from .varints import Int64s

RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5
"""The greatest size of length, attributes, timestamp delta and offset delta together."""


def cuts(
    sizes: Int64s, *, bytes_max: int, records_max: int, bytes_open: int = 0, records_open: int = 0
) -> list[int]:
    """Return the rows before which a full batch ends, ascending: each where the next row would not fit.

    `sizes` holds the most bytes that each row can take. A row that exceeds `bytes_max` is alone in its batch.
    The rows behind the last cut are not a full batch yet. bytes_open, records_open: of the batch that these
    rows continue with, whose end may be before all of them.
    """
    ends = np.cumsum(sizes)
    found: list[int] = []
    first, before = -records_open, -bytes_open
    while True:
        fits = int(np.searchsorted(ends, before + bytes_max, side="right"))
        last = max(first + 1, min(fits, first + records_max))
        if last >= len(sizes):
            return found
        found.append(last)
        first, before = last, int(ends[last - 1]) if last else 0
