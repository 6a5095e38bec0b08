"""A task's producer id and epoch: derived from the micro-batch, never allocated.

Kafka's idempotence (KIP-98) numbers and fences the writes of one *process*. Here another process that runs
the same task of the same micro-batch again must have the same identity: so the producer id is a hash, and the
producer epoch is the number of the micro-batch. By the brokers' own rules a newer micro-batch fences older
ones and begins at sequence 0.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

EPOCHS = 1 << 15
"""A producer epoch is a non-negative int16. Every EPOCHS micro-batches the producer id changes instead."""

DERIVED = 1 << 62
"""Set in every derived id. Brokers hand out small numbers (KIP-730), so the two never meet."""

SINK_ID_BYTES_MAX = 1_000


class ProducerIdentity(NamedTuple):
    """The producer of every batch that a task writes."""

    producer_id: int
    producer_epoch: int


def derive_identity(sink_id: str, *, batch_id: int, task_index: int) -> ProducerIdentity:
    """Return the identity of task `task_index` in micro-batch `batch_id` of the sink `sink_id`.

    62 bits of SHA-256 over all three: two of a million tasks share an id with a probability of 1e-7. Raises
    ValueError for a sink id that is empty or too long, or for negative numbers.
    """
    name = sink_id.encode()
    if not 0 < len(name) <= SINK_ID_BYTES_MAX:
        raise ValueError(f"a sink id has 1 to {SINK_ID_BYTES_MAX} bytes, not {len(name)}")
    if batch_id < 0 or task_index < 0:
        raise ValueError(f"batch {batch_id}, task {task_index}: neither is negative")
    era, producer_epoch = divmod(batch_id, EPOCHS)
    digest = hashlib.sha256(b"springtide-sink\0%d\0%d\0%s" % (era, task_index, name)).digest()
    return ProducerIdentity(int.from_bytes(digest[:8], "big") & (DERIVED - 1) | DERIVED, producer_epoch)
