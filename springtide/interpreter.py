"""The interpreter's settings in a process whose one loop serves requests."""

from __future__ import annotations

import gc
import sys
from typing import Final

GC_ALLOCATIONS: Final = 20_000
GC_MIDDLE_EVERY: Final = 20
GC_FULL_EVERY: Final = 100
SWITCH_SECONDS: Final = 0.0005
"""The time for which a thread may keep the interpreter when the loop wants it. With Python's 5 ms, a produce
that passes three brokers under compaction waits several times so long, and an election of thousands of
leaders waits for the thread that writes its history at each of its steps."""


def spare_the_loop() -> None:
    """Exempt what was loaded until now from the garbage collector, and make full collections rare: each one
    stops the loop, and requests leave no cycles. Let no thread that computes keep the loop waiting."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, GC_MIDDLE_EVERY, GC_FULL_EVERY)
