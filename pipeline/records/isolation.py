"""Which batches of a read_committed fetch belong to aborted transactions.

A Fetch answer lists, for the range it returns, the producer ids whose transactions were aborted and where
each began (KIP-98). Batches of such a producer are dropped from there on until its abort marker, a control
batch, has gone by: the rule of Kafka's consumer (CompletedFetch.nextFetchedRecord).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from springtide.wire.record_batch import CorruptBatch
from springtide.wire.records import iter_records

from .headers import BatchHeaders
from .varints import Bools

CONTROL_KEY_BYTES = 4
CONTROL_ABORT, CONTROL_COMMIT = 0, 1
CONTROL_BYTES_MAX = 64 * 1024
"""A marker is one record of a few bytes; a larger one is not a marker."""


def aborted_batches(view: memoryview, headers: BatchHeaders, aborted: Sequence[tuple[int, int]]) -> Bools:
    """Return whether each batch is part of an aborted transaction. `aborted` holds (producer id, first
    offset) in any order. Raise DamagedBatch for a control batch that can't be read."""
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    is_aborted = np.zeros(len(headers), np.bool_)
    open_producers: set[int] = set()
    last_offset, producer_id = headers.last_offset.tolist(), headers.producer_id.tolist()
    is_control, is_transactional = headers.is_control.tolist(), headers.is_transactional.tolist()
    for index in range(len(headers)):
        while waiting and waiting[-1][1] <= last_offset[index]:
            open_producers.add(waiting.pop()[0])
        if not is_transactional[index] or producer_id[index] not in open_producers:
            continue
        if not is_control[index]:
            is_aborted[index] = True
        elif control_type(view, headers, index) == CONTROL_ABORT:
            open_producers.discard(producer_id[index])
    return is_aborted


def control_type(view: memoryview, headers: BatchHeaders, index: int) -> int:
    """Return the type in the key of the control batch at `index`: version and type, 16 bits each. Raise
    DamagedBatch."""
    start, size = int(headers.position[index]), int(headers.size_bytes[index])
    try:
        record = next(
            iter_records(view[start : start + size], decompressed_bytes_max=CONTROL_BYTES_MAX), None
        )
    except CorruptBatch as error:
        raise headers.damaged(index, error.reason) from None
    if record is None or record.key is None or len(record.key) < CONTROL_KEY_BYTES:
        raise headers.damaged(index, "control batch without a marker")
    return int.from_bytes(record.key[2:4], signed=True)
