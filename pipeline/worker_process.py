"""What Spark's Python workers share: a process that runs one task after another."""

from __future__ import annotations

import gc
from functools import cache


@cache
def calm_the_collector() -> None:
    """Leave what is loaded until now out of garbage collection, once a process.

    PySpark's daemons collect after each task, and after each query that they plan or commit, which with
    PySpark, Arrow and this package loaded takes 20 to 35 ms of a core: most of what a small task costs.
    """
    gc.freeze()
