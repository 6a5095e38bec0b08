"""What a leader has asked the transaction coordinator to confirm (KIP-890).

The first transactional batch of a producer in a partition opens a transaction there, so it is written only
after the coordinator has said that this partition is in the producer's ongoing transaction. A guard stands
for one such question. It is spent when the transaction opens, and when a marker is written meanwhile: a batch
that came before the end of its transaction must not open the next one.

One leader's memory of its own leadership. A guard that this leader does not know proves nothing, and its
batch is verified again.
"""

from __future__ import annotations

GUARDS_MAX = 10_000
"""Questions under way in one partition; a batch that would need one more is refused for now."""
GUARD_KEPT_MS = 60_000
"""A question that is older was given up by its shell, and makes room."""


class Guard:
    """A question to the coordinator, of all batches of one producer epoch that wait for the answer. The shell
    hands it back with each of them once the coordinator has confirmed it."""

    __slots__ = ("asked_ms", "is_spent", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, asked_ms: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.asked_ms = asked_ms
        self.is_spent = False
