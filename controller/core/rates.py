"""What passes through leaders in a second, from what they report: of each partition over about an hour, which
plans go by, and of each topic and broker over about the last minute, which lists show.

Leaders count bytes from the beginning of their process (`PartitionLag`), so a lost report loses nothing. The
counters of two reports are compared only within one leader epoch; what passes between the last report of one
leader and the first of the next counts as nothing. What has no producers and consumers has no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Final, NamedTuple

from controller.core.planning.snapshot import Rates
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import PartitionKey

RATE_MEMORY_MS: Final = 3_600_000
"""After so long, bytes count for a third (1/e) of what they counted for."""
RATES_WATCHED_MS_MIN: Final = 300_000
"""Before that an average is one of a moment, and no plan is made from it."""
PRESENT_MEMORY_MS: Final = 30_000
"""The same of what lists show: a topic that has become busy shows 86 % of its rate after a minute."""
PRESENT_WATCHED_MS_MIN: Final = 10_000
"""The same: leaders report every half second what has changed."""


class _Row(NamedTuple):
    """Bytes that passed, older ones for less, as at `at_ms`."""

    at_ms: int
    bytes_in: float
    bytes_out: float

    def then(self, came: int, went: int, now_ms: int, memory_ms: int) -> _Row:
        left = exp((self.at_ms - now_ms) / memory_ms)
        return _Row(now_ms, self.bytes_in * left + came, self.bytes_out * left + went)

    def rates(self, now_ms: int, memory_ms: int, watched_ms: int) -> Rates:
        """Return the averages. watched_ms: since the first report."""
        seconds = memory_ms * (1 - exp(-watched_ms / memory_ms)) / 1_000
        share = exp((self.at_ms - now_ms) / memory_ms) / seconds
        return Rates(round(self.bytes_in * share), round(self.bytes_out * share))


def _passed(before: PartitionLag | None, lag: PartitionLag) -> tuple[int, int] | None:
    """Return what came and went between two reports; None if they can't be compared, or nothing did."""
    if before is None or before.leader_epoch != lag.leader_epoch:
        return None
    came, went = lag.bytes_in - before.bytes_in, lag.bytes_out - before.bytes_out
    return None if min(came, went, before.bytes_in) < 0 or not came + went else (came, went)


class RateBook:
    """The averages of one cluster since this controller is its active one. now_ms: of a monotonic clock."""

    __slots__ = ("_rows", "_since_ms")

    def __init__(self, rows: Mapping[PartitionKey, _Row] | None = None, since_ms: int | None = None) -> None:
        self._rows: dict[PartitionKey, _Row] = dict(rows or {})
        self._since_ms = since_ms

    def note(self, before: PartitionLag | None, lag: PartitionLag, now_ms: int) -> tuple[int, int]:
        """Count and return the bytes that came and went since `before`, the report on this partition before
        this one: none if the two can't be compared."""
        if self._since_ms is None:
            self._since_ms = now_ms
        passed = _passed(before, lag)
        if passed is not None:
            key = (lag.topic_id, lag.partition)
            row = self._rows.get(key, _Row(now_ms, 0.0, 0.0))
            self._rows[key] = row.then(*passed, now_ms, RATE_MEMORY_MS)
        return passed or (0, 0)

    def forget(self, key: PartitionKey) -> None:
        self._rows.pop(key, None)

    def copy(self) -> RateBook:
        """Return what another thread may read."""
        return RateBook(self._rows, self._since_ms)

    def rates(
        self, lags: Mapping[PartitionKey, PartitionLag], now_ms: int
    ) -> Mapping[PartitionKey, Rates] | None:
        """Return the averages; a partition without one is idle. Return None while they are not known: too
        little has been watched, or a leader of an older release does not count. lags: the latest reports."""
        watched_ms = 0 if self._since_ms is None else now_ms - self._since_ms
        if watched_ms < RATES_WATCHED_MS_MIN or any(lag.bytes_in < 0 for lag in lags.values()):
            return None
        return {key: row.rates(now_ms, RATE_MEMORY_MS, watched_ms) for key, row in self._rows.items()}


class PresentRates:
    """What topics and brokers take in from producers and give to consumers, without copies between brokers.
    now_ms: of a monotonic clock."""

    __slots__ = ("_brokers", "_since_ms", "_topics")

    def __init__(self) -> None:
        #: None: its leaders are of an older release, which does not count.
        self._topics: dict[str, _Row | None] = {}
        self._brokers: dict[int, _Row | None] = {}
        self._since_ms: int | None = None

    def note(self, before: PartitionLag | None, lag: PartitionLag, leader: int, now_ms: int) -> None:
        """Count what passed since `before`, the report on this partition before this one."""
        if self._since_ms is None:
            self._since_ms = now_ms
        if lag.bytes_in < 0:
            self._topics[lag.topic_id] = self._brokers[leader] = None
            return
        passed = _passed(before, lag)
        if passed is not None:
            none = _Row(now_ms, 0.0, 0.0)
            topic = self._topics.get(lag.topic_id) or none
            self._topics[lag.topic_id] = topic.then(*passed, now_ms, PRESENT_MEMORY_MS)
            broker = self._brokers.get(leader) or none
            self._brokers[leader] = broker.then(*passed, now_ms, PRESENT_MEMORY_MS)

    def of_topic(self, topic_id: str, now_ms: int) -> Rates | None:
        """Return the averages; None while they are not known."""
        return self._rates(self._topics.get(topic_id, _IDLE), now_ms)

    def of_broker(self, broker_id: int, now_ms: int) -> Rates | None:
        return self._rates(self._brokers.get(broker_id, _IDLE), now_ms)

    def _rates(self, row: _Row | None, now_ms: int) -> Rates | None:
        watched_ms = 0 if self._since_ms is None else now_ms - self._since_ms
        if row is None or watched_ms < PRESENT_WATCHED_MS_MIN:
            return None
        return row.rates(now_ms, PRESENT_MEMORY_MS, watched_ms)

    def forget_topic(self, topic_id: str) -> None:
        self._topics.pop(topic_id, None)

    def forget_broker(self, broker_id: int) -> None:
        self._brokers.pop(broker_id, None)


_IDLE: Final = _Row(0, 0.0, 0.0)
