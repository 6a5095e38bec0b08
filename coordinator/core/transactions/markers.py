"""The markers that are due: which partitions must still be told how a transaction ended.

An end is decided once its Prepare record is committed; from then on markers are due until each partition has
one or is gone. The book is memory: the opening of a shard fills it again from the Prepare records, so a
marker may be written twice, and partitions take that.

The shell takes new orders after each step, sends them (WriteTxnMarkers, with the coordinator epoch of the
writer that serves the shard), tries again for ever, and steps with MarkersWritten. It forgets all orders of a
shard that closes.
"""

from __future__ import annotations

from msgspec import Struct

from coordinator.core.transaction_records import TransactionPartition


class MarkerOrder(Struct, frozen=True, kw_only=True):
    """producer_id, producer_epoch: the marker's. version: `transaction.version`, of WriteTxnMarkers 2."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    version: int
    partitions: tuple[TransactionPartition, ...]


class MarkerBook:
    """left: by transactional id, the producer id and epoch of an end and the partitions without a marker."""

    __slots__ = ("_new", "left")

    def __init__(self) -> None:
        self.left: dict[str, tuple[int, int, set[TransactionPartition]]] = {}
        self._new: list[MarkerOrder] = []

    @property
    def has_new(self) -> bool:
        return bool(self._new)

    def take_new(self) -> list[MarkerOrder]:
        """Return the orders that came since the last call."""
        new, self._new = self._new, []
        return new

    def add(self, order: MarkerOrder) -> None:
        """Take an order; the transactional id has none."""
        assert order.transactional_id not in self.left
        end = (order.producer_id, order.producer_epoch, set(order.partitions))
        self.left[order.transactional_id] = end
        self._new.append(order)

    def strike(
        self, transactional_id: str, end: tuple[int, int], partitions: tuple[TransactionPartition, ...]
    ) -> int:
        """Strike partitions off; return how many are left of this end (producer id and epoch), -1 if it is
        not in the book."""
        found = self.left.get(transactional_id)
        if found is None or found[:2] != end:
            return -1
        found[2].difference_update(partitions)
        return len(found[2])

    def remove(self, transactional_id: str) -> None:
        self.left.pop(transactional_id, None)
