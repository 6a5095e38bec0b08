"""The wall clock, as records, plans and openings tell it."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000
