"""What Spark's Python workers share: a process that runs one task after another."""

from __future__ import annotations

import gc
from functools import cache


@cache
def calm_the_collector() -> None:
    """Leave what is loaded until now out of garbage collection, once a process.

    PySpark's daemon collects after each task, which with PySpark, Arrow and this package loaded takes 25 ms
    of a core: most of what a small task costs.
    """
    gc.freeze()
