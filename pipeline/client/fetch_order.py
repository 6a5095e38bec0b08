"""In which order fetched records are handed out: as they come, or range after range. Pure.

A task that runs again must give its rows in the same order, although brokers answer in a different order each
time. So records of a later range are held until its turn. Beyond a bound of held bytes, only the current
range may be asked for (`only`). The order therefore costs no more memory than that bound and the answers
already under way, one a broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pipeline.client.values import FetchedRecords, TopicPartition

HELD_BYTES_MAX = 64 * 1024 * 1024


class AsTheyCome:
    """No order but that of each range."""

    def __init__(self) -> None:
        self._ready: deque[FetchedRecords] = deque()

    @property
    def only(self) -> TopicPartition | None:
        return None

    def put(self, fetched: Iterable[FetchedRecords]) -> None:
        self._ready.extend(fetched)

    def take(self, is_finished: Callable[[TopicPartition], bool]) -> FetchedRecords | None:
        return self._ready.popleft() if self._ready else None


class OneAfterAnother:
    """The ranges of `line`, each whole before the next."""

    def __init__(self, line: Iterable[TopicPartition], *, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._line = deque(line)
        self._held: dict[TopicPartition, deque[FetchedRecords]] = {}
        self._held_bytes = 0
        self._held_bytes_max = held_bytes_max

    @property
    def only(self) -> TopicPartition | None:
        """Return the only partition that may be asked for now; None if all may."""
        return self._line[0] if self._line and self._held_bytes >= self._held_bytes_max else None

    def put(self, fetched: Iterable[FetchedRecords]) -> None:
        for one in fetched:
            self._held.setdefault(one.where, deque()).append(one)
            self._held_bytes += len(one.records)

    def take(self, is_finished: Callable[[TopicPartition], bool]) -> FetchedRecords | None:
        """Return the next records in order, if they have come. `is_finished`: the partition has no more
        records to come."""
        while self._line:
            held = self._held.get(self._line[0])
            if held:
                taken = held.popleft()
                self._held_bytes -= len(taken.records)
                return taken
            if not is_finished(self._line[0]):
                return None
            self._held.pop(self._line.popleft(), None)
        return None
