"""What partitions take in and give out in a second: averages over about an hour, from what leaders report.

Leaders count bytes from the beginning of their process (`PartitionLag`), so a lost report loses nothing. The
counters of two reports are compared only within one leader epoch; what passes between the last report of one
leader and the first of the next counts as nothing. Partitions without producers and consumers have no row.
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


class _Row(NamedTuple):
    """Bytes that passed, older ones for less, as at `at_ms`."""

    at_ms: int
    bytes_in: float
    bytes_out: float


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
        if before is None or before.leader_epoch != lag.leader_epoch:
            return 0, 0
        came, went = lag.bytes_in - before.bytes_in, lag.bytes_out - before.bytes_out
        if min(came, went, before.bytes_in) < 0 or not came + went:
            return 0, 0
        key = (lag.topic_id, lag.partition)
        row = self._rows.get(key, _Row(now_ms, 0.0, 0.0))
        left = exp((row.at_ms - now_ms) / RATE_MEMORY_MS)
        self._rows[key] = _Row(now_ms, row.bytes_in * left + came, row.bytes_out * left + went)
        return came, went

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
        seconds = RATE_MEMORY_MS * (1 - exp(-watched_ms / RATE_MEMORY_MS)) / 1_000
        found = {}
        for key, row in self._rows.items():
            share = exp((row.at_ms - now_ms) / RATE_MEMORY_MS) / seconds
            found[key] = Rates(round(row.bytes_in * share), round(row.bytes_out * share))
        return found
