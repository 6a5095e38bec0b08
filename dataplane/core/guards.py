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
FULL_LOOK_MS = 1_000


class Guard:
    """A question to the coordinator, of all batches of one producer epoch that wait for the answer. The shell
    hands it back with each of them once the coordinator has confirmed it."""

    __slots__ = ("asked_ms", "is_spent", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, asked_ms: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.asked_ms = asked_ms
        self.is_spent = False


class Guards:
    """The questions under way of one leadership, by producer id and epoch."""

    __slots__ = ("_by_producer", "_count", "_full_until_ms")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[int, Guard]] = {}
        self._count = 0
        self._full_until_ms = 0

    def __len__(self) -> int:
        return self._count

    def holds(self, guard: Guard, *, producer_id: int, producer_epoch: int) -> bool:
        """Return whether it is of this leadership and of this producer's epoch, and not spent."""
        return self._by_producer.get(producer_id, {}).get(producer_epoch) is guard

    def ask(self, producer_id: int, producer_epoch: int, *, now_ms: int) -> Guard | None:
        """Return the guard of the question under way, or of a new one; None: there are too many."""
        epochs = self._by_producer.get(producer_id, {})
        guard = epochs.get(producer_epoch)
        if guard is None:
            if self._count >= GUARDS_MAX and not self._has_made_room(now_ms):
                return None
            guard = Guard(producer_id, producer_epoch, now_ms)
            self._by_producer.setdefault(producer_id, {})[producer_epoch] = guard
            self._count += 1
        guard.asked_ms = now_ms
        return guard

    def spend(self, producer_id: int, producer_epoch: int) -> None:
        """A transaction of the producer has opened or ended in this epoch: what was asked of this epoch or an
        earlier one was asked before."""
        epochs = self._by_producer.get(producer_id, {})
        for epoch in [epoch for epoch in epochs if epoch <= producer_epoch]:
            epochs[epoch].is_spent = True
            self._drop(epochs[epoch])

    def _has_made_room(self, now_ms: int) -> bool:
        """Drop what is old; looked for once in FULL_LOOK_MS."""
        if now_ms < self._full_until_ms:
            return False
        self._full_until_ms = now_ms + FULL_LOOK_MS
        guards = [guard for epochs in self._by_producer.values() for guard in epochs.values()]
        for guard in guards:
            if now_ms - guard.asked_ms >= GUARD_KEPT_MS:
                self._drop(guard)
        return self._count < GUARDS_MAX

    def _drop(self, guard: Guard) -> None:
        epochs = self._by_producer[guard.producer_id]
        del epochs[guard.producer_epoch]
        self._count -= 1
        if not epochs:
            del self._by_producer[guard.producer_id]
