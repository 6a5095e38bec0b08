"""The rule for retrying and giving up. Pure: times are milliseconds of a clock that never goes back."""

from __future__ import annotations

from dataclasses import dataclass

LONG_MS = 500
"""A wait that has lasted so long is told. With the pauses' doubling that is within a second."""
_DOUBLINGS_MAX = 30


@dataclass(slots=True)
class Patience:
    """One operation that is retried until it makes progress. The budget counts from the first
    failure after progress.

    The pause doubles from try to try up to a bound (KIP-580, without its jitter: few clients share a fate
    here, and tests step this with values).
    """

    budget_ms: int
    backoff_ms: int
    backoff_max_ms: int
    failing_since_ms: int | None = None
    failures: int = 0
    reason: str = ""
    is_told: bool = False

    def on_progress(self) -> None:
        self.is_told = False
        self.failing_since_ms = None
        self.failures = 0
        self.reason = ""

    def on_failure(self, reason: str, *, now_ms: int) -> int:
        """Return how long to pause (ms) before the next try."""
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        self.reason = reason
        self.failures += 1
        doublings = min(self.failures - 1, _DOUBLINGS_MAX)
        return int(min(self.backoff_ms << doublings, self.backoff_max_ms))

    def has_become_long(self, now_ms: int) -> bool:
        """Return, once, whether the failures have lasted for LONG_MS: then the client tells its reason."""
        is_long = self.failing_since_ms is not None and now_ms - self.failing_since_ms >= LONG_MS
        is_news, self.is_told = is_long and not self.is_told, self.is_told or is_long
        return is_news

    def is_spent(self, now_ms: int, *, budget_ms: int | None = None) -> bool:
        """Return whether the failures have lasted as long as the budget allows. `budget_ms` can only lower
        it."""
        if self.failing_since_ms is None:
            return False
        budget = self.budget_ms if budget_ms is None else min(budget_ms, self.budget_ms)
        return now_ms - self.failing_since_ms >= budget
