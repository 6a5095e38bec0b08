"""A map with two views: *latest*, with every record applied, and *committed*, with those that are committed.

Decisions read the latest view, answers the committed one: a client must not see an offset that an election
may still take back. The map holds the latest values, and beside them, for each change above the committed
offset, the value that it replaced. The oldest of these is the committed value; the newest is what `undo` puts
back.

Equal changes give equal maps, however often some were undone and made again, but not in an equal order: a
machine must not decide by the order of iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TwoViews(Generic[K, V]):
    """A map from K to V. None is no value: it stands for an absent key."""

    __slots__ = ("_changes", "_committed_offset", "_latest", "_replaced")

    def __init__(self) -> None:
        self._latest: dict[K, V] = {}
        self._changes: deque[tuple[int, K]] = deque()  # offsets ascend
        self._replaced: dict[K, deque[V | None]] = {}  # for each change of the key, the value before it
        self._committed_offset = 0

    def __len__(self) -> int:
        """Return how many keys have a latest value."""
        return len(self._latest)

    def set(self, key: K, value: V | None, offset: int) -> None:
        """Set the latest value of `key` by the record at `offset`; None removes the key. Offsets never
        descend, but one record may change several keys, or a key twice."""
        assert offset >= (self._changes[-1][0] if self._changes else self._committed_offset)
        self._changes.append((offset, key))
        self._replaced.setdefault(key, deque()).append(self._latest.get(key))
        self._put(key, value)

    def latest(self, key: K) -> V | None:
        """Return the value of `key` with every record applied."""
        return self._latest.get(key)

    def committed(self, key: K) -> V | None:
        """Return the value of `key` with the committed records applied."""
        replaced = self._replaced.get(key)
        return self._latest.get(key) if replaced is None else replaced[0]

    def is_settled(self, key: K) -> bool:
        """Return whether no record of `key` may still be refused, so that both views are the same."""
        return key not in self._replaced

    @property
    def is_level(self) -> bool:
        """Return whether both views are the same."""
        return not self._changes

    @property
    def latest_count(self) -> int:
        """Return how many keys the latest view has."""
        return len(self._latest)

    def latest_items(self) -> Iterator[tuple[K, V]]:
        """Yield the latest view."""
        yield from self._latest.items()

    def committed_items(self) -> Iterator[tuple[K, V]]:
        """Yield the committed view."""
        for key, value in self._latest.items():
            if key not in self._replaced:
                yield key, value
        for key, replaced in self._replaced.items():
            if replaced[0] is not None:
                yield key, replaced[0]

    def commit(self, offset: int) -> None:
        """Take the changes below `offset` into the committed view."""
        changes = self._changes
        while changes and changes[0][0] < offset:
            _, key = changes.popleft()
            replaced = self._replaced[key]
            replaced.popleft()
            if not replaced:
                del self._replaced[key]
        self._committed_offset = max(self._committed_offset, offset)

    def undo(self, offset: int) -> None:
        """Take the changes from `offset` on back. None of them may be committed."""
        assert offset >= self._committed_offset
        changes = self._changes
        while changes and changes[-1][0] >= offset:
            _, key = changes.pop()
            replaced = self._replaced[key]
            self._put(key, replaced.pop())
            if not replaced:
                del self._replaced[key]

    def _put(self, key: K, value: V | None) -> None:
        if value is None:
            self._latest.pop(key, None)
        else:
            self._latest[key] = value
