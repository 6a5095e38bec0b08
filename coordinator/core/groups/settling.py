"""For how long a group has not settled: for people, who are alarmed by it."""

from __future__ import annotations

CALM_MS = 60_000
"""A group that is stable for so long has settled."""


class Settling:
    """Of one group, in monotonic milliseconds. restless_ms: when the first rebalance began since the group
    was last stable for CALM_MS on end; None: it is calm, or empty. calm_ms: since when it is stable; None: a
    rebalance is under way."""

    __slots__ = ("calm_ms", "restless_ms")

    def __init__(self) -> None:
        self.restless_ms: int | None = None
        self.calm_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """Note that a rebalance begins, or has one more cause."""
        if self.unsettled_ms(now_ms) is None:
            self.restless_ms = now_ms
        self.calm_ms = None

    def end(self, now_ms: int, *, is_empty: bool) -> None:
        """Note that each member has its assignment, or that there is no member."""
        if self.calm_ms is None:
            self.calm_ms = now_ms
        if is_empty:
            self.restless_ms = None

    def unsettled_ms(self, now_ms: int) -> int | None:
        """Return for how long the group has not been stable for CALM_MS on end; None if it has."""
        is_calm = self.calm_ms is not None and now_ms - self.calm_ms >= CALM_MS
        return None if self.restless_ms is None or is_calm else now_ms - self.restless_ms
