"""The pace of a whole operation: how fast it copied lately, and when it will be done. Pure.

The runner takes a sample at each look while the operation runs. Estimates of single copies (core/copying.py)
tell little of an operation with hundreds of short ones: most have not begun, and many end before they have
one.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from controller.core.copying import eta_ms
from controller.database.rows import MoveRow
from controller.operations.model import Execution, Fate, Reassignment, Work
from controller.operations.reassignments import Progress

#: The least time between two samples that are kept; a throttled learner waits up to this long for its turn.
SAMPLE_MS: Final = 5_000
#: A minute.
SAMPLES_MAX: Final = 13
#: No pace is told from less time than this.
WATCHED_MS_MIN: Final = 3_000
INTERVALS_MIN: Final = 3


class Sample(NamedTuple):
    """copied_bytes: only the difference of two samples counts. left_bytes: still to be copied."""

    at_ms: int
    copied_bytes: int
    left_bytes: int


class OperationPace(msgspec.Struct, frozen=True, kw_only=True):
    """rate: bytes per second copied over the watched time. eta_ms_p50: at the speed with which what is left
    shrank meanwhile; eta_ms_p90: at the speed that nine of ten intervals reached. None: not known, or never
    at that speed."""

    rate: int | None = None
    eta_ms_p50: int | None = None
    eta_ms_p90: int | None = None


def sampled(work: Work, current: Collection[MoveRow], progress: Progress, *, now_ms: int) -> Sample | None:
    """Return the sample of now; None if what is left is not known. current: the moves of the work's plan that
    have begun and not ended. now_ms: of one clock for all samples."""
    if work.execution is not None:
        return _of_plan(work.execution, current, progress, now_ms)
    if not isinstance(work.spec, Reassignment):
        return None
    left = 0
    for move, fate in zip(work.spec.moves, work.fates, strict=True):
        found = progress.get(move.key)
        if fate is Fate.MOVING and found is not None:
            if found.remaining_bytes is None:
                return None
            left += found.remaining_bytes
    return Sample(now_ms, -left, left)


def with_sample(samples: tuple[Sample, ...], sample: Sample) -> tuple[Sample, ...]:
    """Return the samples with the newest one last. It replaces the last one while that is young."""
    if len(samples) > 1 and samples[-1].at_ms - samples[-2].at_ms < SAMPLE_MS:
        samples = samples[:-1]
    return (*samples, sample)[-SAMPLES_MAX:]


def pace_of(samples: tuple[Sample, ...]) -> OperationPace:
    watched_ms = samples[-1].at_ms - samples[0].at_ms if samples else 0
    if watched_ms < WATCHED_MS_MIN:
        return OperationPace()
    first, last = samples[0], samples[-1]
    speed = (first.left_bytes - last.left_bytes) * 1_000 // watched_ms
    speeds = sorted(
        (before.left_bytes - after.left_bytes) * 1_000 // (after.at_ms - before.at_ms)
        for before, after in itertools.pairwise(samples)
        if after.at_ms - before.at_ms >= SAMPLE_MS
    )
    slow = min(speed, speeds[len(speeds) // 10]) if len(speeds) >= INTERVALS_MIN else None
    return OperationPace(
        rate=max(0, last.copied_bytes - first.copied_bytes) * 1_000 // watched_ms,
        eta_ms_p50=eta_ms(last.left_bytes, speed),
        eta_ms_p90=None if slow is None else eta_ms(last.left_bytes, slow),
    )


def _of_plan(
    execution: Execution, current: Collection[MoveRow], progress: Progress, now_ms: int
) -> Sample | None:
    """Count moves that have not begun as planned, and those on their way as their leaders report them."""
    if execution.bytes_total == 0 and execution.moves_total > sum(execution.ended.values()):
        return None  # planned before leaders told how large their logs are
    copied = execution.bytes_moved
    left = execution.bytes_total - execution.bytes_moved - execution.bytes_dropped
    for row in current:
        found = progress.get(row.move.key) if row.fate == Fate.MOVING else None
        if found is not None and found.remaining_bytes is not None:
            left += found.remaining_bytes - row.move.bytes
            copied += found.copied_bytes or 0
    return Sample(now_ms, copied, max(0, left))
