"""Where a job's tasks run: in this process if they read little, else on Spark. Needs no Spark.

Tasks and results are the same on both. A Spark session takes ten seconds to start, in which one process reads
hundreds of megabytes, so a small job is done before Spark would be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeVar

from pipeline.errors import JobError

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Is told how many of how many tasks are done."""
BYTES_HERE_MAX: Final = 64 * 1024 * 1024
TASKS_HERE_MAX: Final = 64


class JobEngine(Enum):
    """AUTO: this process if the tasks read little and the command line names no Spark."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def is_small(size: int | None, tasks: int) -> bool:
    """Return whether this process should run so many tasks that read `size` bytes; None: unknown."""
    return tasks <= TASKS_HERE_MAX and size is not None and size <= BYTES_HERE_MAX


def run_here(run: Callable[[T], R], tasks: Sequence[T], *, progress: Progress) -> list[R]:
    """Return what `run` returned for each task, one after another. Raises what it raises."""
    results: list[R] = []
    progress(0, len(tasks))
    for task in tasks:
        try:
            results.append(run(task))
        except OSError as error:
            raise JobError(f"a task failed: {error}") from error
        progress(len(results), len(tasks))
    return results
