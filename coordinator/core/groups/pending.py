"""The offsets of open transactions, and which transactions have ended: each latest and committed.

An offset is pending until its transaction ends. It counts for nobody; but who asks for stable offsets alone
(KIP-447) must not go on from the one that it is about to replace.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.group_records import OffsetKey, PendingKey
from coordinator.core.pending_records import EndedTransaction, PendingOffset
from coordinator.core.views import TwoViews

_RECORDS_BYTES = 160
_TOMBSTONE_BYTES = 64
"""The least that a pending offset takes in the batch that ends it, and another one's tombstone does."""


class PendingOffsets:
    """of: by producer and partition. ended: by producer. size_bytes: of all in the latest view, as `bytes_of`
    counts it."""

    __slots__ = ("_of_producer", "_places", "ended", "of", "size_bytes")

    def __init__(self) -> None:
        self.of: TwoViews[PendingKey, PendingOffset] = TwoViews()
        self.ended: TwoViews[int, EndedTransaction] = TwoViews()
        self.size_bytes = 0
        #: Who has pending offsets where; supersets, from which `_keep` takes what is gone. Kafka looked
        #: through all open transactions for each partition that it was asked about (KAFKA-19160).
        self._of_producer: dict[int, dict[PendingKey, None]] = {}
        self._places: dict[str, dict[OffsetKey, dict[int, None]]] = {}

    def apply(self, key: PendingKey, value: PendingOffset | None, offset: int) -> None:
        """Apply a record to the latest view."""
        self.size_bytes += bytes_of(key, value) - bytes_of(key, self.of.latest(key))
        self.of.set(key, value, offset)
        self._of_producer.setdefault(key.producer_id, {})[key] = None
        self._places.setdefault(key.place.group_id, {}).setdefault(key.place, {})[key.producer_id] = None

    def commit(self, offset: int) -> None:
        self.of.commit(offset)
        self.ended.commit(offset)

    def undo(self, offset: int) -> None:
        self.of.undo(offset)
        self.ended.undo(offset)
        self.size_bytes = sum(bytes_of(key, value) for key, value in self.of.latest_items())

    def of_producer(self, producer_id: int) -> list[tuple[PendingKey, PendingOffset]]:
        """Return the producer's pending offsets with every record applied, by partition."""
        return list(self._latest(self._keep(sorted(self._of_producer.get(producer_id, ())))))

    def at(self, place: OffsetKey) -> list[tuple[PendingKey, PendingOffset]]:
        """Return what is pending of a partition with every record applied, by producer."""
        return list(self._latest(self._keep(self._keys_at(place))))

    def in_either_view(self, place: OffsetKey) -> Iterator[PendingOffset]:
        """Yield what is pending of a partition, or was until a record that may still be refused."""
        for key in self._keep(self._keys_at(place)):
            for value in (self.of.latest(key), self.of.committed(key)):
                if value is not None:
                    yield value

    def places(self, group_id: str) -> list[OffsetKey]:
        """Return the partitions of a group of which something is pending in either view, in order."""
        return [place for place in sorted(self._places.get(group_id, ())) if self._keep(self._keys_at(place))]

    def group_ids(self) -> Iterator[str]:
        """Yield the groups with something pending in either view, and perhaps others."""
        yield from self._places

    @property
    def producers_max(self) -> int:
        """Return how many producers something may be kept of: those with offsets and an end count twice."""
        return len(self._of_producer) + self.ended.latest_count

    def producers(self) -> set[int]:
        """Return the producers of which something is kept, in either view."""
        ended = self.ended
        return {*self._of_producer, *dict(ended.latest_items()), *dict(ended.committed_items())}

    def _keys_at(self, place: OffsetKey) -> list[PendingKey]:
        producers = self._places.get(place.group_id, {}).get(place, ())
        return [PendingKey(producer_id, place) for producer_id in sorted(producers)]

    def _latest(self, keys: list[PendingKey]) -> Iterator[tuple[PendingKey, PendingOffset]]:
        for key in keys:
            value = self.of.latest(key)
            if value is not None:
                yield key, value

    def _keep(self, keys: list[PendingKey]) -> list[PendingKey]:
        """Return the keys that something is, or may again be, pending of; forget the others. A key that
        neither view has may come back where a record of it is under way: with that, or when the next one,
        which takes it away, is refused."""
        kept = []
        for key in keys:
            if self.of.latest(key) is not None or not self.of.is_settled(key):
                kept.append(key)
            else:
                self._forget(key)
        return kept

    def _forget(self, key: PendingKey) -> None:
        producer_id, place = key
        of_producer, of_group = self._of_producer[producer_id], self._places[place.group_id]
        del of_producer[key]
        del of_group[place][producer_id]
        if not of_producer:
            del self._of_producer[producer_id]
        if not of_group[place]:
            del of_group[place]
        if not of_group:
            del self._places[place.group_id]


def bytes_of(key: PendingKey, value: PendingOffset | None, others: int = 0) -> int:
    """Return what ending a pending offset takes in the log: its own records, and the tombstones of `others`
    that it replaces. Nothing for None."""
    if value is None:
        return 0
    names = len(key.place.group_id.encode()) + len(key.place.topic.encode())
    own = _RECORDS_BYTES + 2 * names + len(value.offset.metadata.encode())
    return own + others * (_TOMBSTONE_BYTES + names)
