"""The pace of a whole operation: how fast it copied lately, and when it will be done. Pure.

The runner takes a sample at each look while the operation runs. Estimates of single copies (core/copying.py)
tell little of an operation with hundreds of short ones: most have not begun, and many end before they have
one.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.database.rows import MoveRow
from controller.operations.model import Execution, Fate, Reassignment, Work
from controller.operations.reassignments import Progress
from springtide.contract.partition_state import PartitionKey

#: The least time between two samples that are kept; a throttled learner waits up to this long for its turn.
SAMPLE_MS: Final = 5_000
#: A minute.
SAMPLES_MAX: Final = 13
#: No pace is told from less time than this.
WATCHED_MS_MIN: Final = 3_000
INTERVALS_MIN: Final = 3


MOVE_MS_GUESSED: Final = 200
BYTE_MS_GUESSED: Final = 1 / (80 << 10)
"""What a move costs besides its bytes, and what a byte costs, until they were seen: each guess weighs as much
as one interval."""


SURPRISE: Final = 10
"""Neither costs less than a guess by more than this factor: few intervals may say that one costs nothing."""


class Sample(NamedTuple):
    """copied_bytes: only the difference of two samples counts. left_bytes, left_moves: still to be copied,
    and to be ended. rate_max: bytes per second that the throttles of the receivers allow together; None: one
    that receives is not throttled, or none receives."""

    at_ms: int
    copied_bytes: int
    left_bytes: int
    left_moves: int = 0
    rate_max: int | None = None


class Cost(NamedTuple):
    """Milliseconds of the whole operation for each move, and for each byte."""

    move_ms: float
    byte_ms: float

    def of(self, moves: float, size_bytes: float) -> float:
        return self.move_ms * moves + self.byte_ms * size_bytes


class OperationPace(msgspec.Struct, frozen=True, kw_only=True):
    """rate: bytes per second copied over the watched time. eta_ms_p50: at the pace of the watched time, by
    what moves and what bytes cost; eta_ms_p90: at the pace that nine of ten intervals reached. None: not
    known, or never at that pace."""

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
    left = moves = 0
    for move, fate in zip(work.spec.moves, work.fates, strict=True):
        found = progress.get(move.key)
        if fate is Fate.MOVING and found is not None:
            if found.remaining_bytes is None:
                return None
            left += found.remaining_bytes
            moves += 1
    keys = [move.key for move in work.spec.moves]
    return Sample(now_ms, -left, left, moves, _rate_max(keys, progress))


def watched(work: Work, progress: Progress) -> tuple[str, int | None]:
    """Return the plan and the rate, in bytes per second, of which samples tell: those of another plan, or of
    before the throttle was changed, tell nothing of what is to come."""
    if work.execution is not None:
        return work.execution.plan_id, work.execution.throttle_bytes_per_s
    moves = work.spec.moves if isinstance(work.spec, Reassignment) else ()
    found = (progress[move.key] for move in moves if move.key in progress)
    rates = [target.throttled_rate for one in found for target in one.targets]
    return "", min((rate for rate in rates if rate is not None), default=None)


def with_sample(samples: tuple[Sample, ...], sample: Sample) -> tuple[Sample, ...]:
    """Return the samples with the newest one last. It replaces the last one while that is young."""
    if len(samples) > 1 and samples[-1].at_ms - samples[-2].at_ms < SAMPLE_MS:
        samples = samples[:-1]
    return (*samples, sample)[-SAMPLES_MAX:]


def pace_of(samples: tuple[Sample, ...]) -> OperationPace:
    """Return the pace of an operation. Three hundred empty partitions before ten large ones say nothing of
    bytes, and the ten nothing of moves: so the time left is by both, each at what it was seen to cost."""
    watched_ms = samples[-1].at_ms - samples[0].at_ms if samples else 0
    if watched_ms < WATCHED_MS_MIN:
        return OperationPace()
    first, last = samples[0], samples[-1]
    intervals = list(itertools.pairwise(samples))
    cost = _cost(intervals, last.rate_max)
    done = [cost.of(a.left_moves - b.left_moves, a.left_bytes - b.left_bytes) for a, b in intervals]
    left = cost.of(last.left_moves, last.left_bytes)
    paces = sorted(
        part / (b.at_ms - a.at_ms)
        for part, (a, b) in zip(done, intervals, strict=True)
        if b.at_ms - a.at_ms >= SAMPLE_MS
    )
    pace = sum(done) / watched_ms
    slow = min(pace, paces[len(paces) // 10]) if len(paces) >= INTERVALS_MIN else None
    return OperationPace(
        rate=max(0, last.copied_bytes - first.copied_bytes) * 1_000 // watched_ms,
        eta_ms_p50=_time_ms(left, pace),
        eta_ms_p90=None if slow is None else _time_ms(left, slow),
    )


def _cost(intervals: Sequence[tuple[Sample, Sample]], rate_max: int | None) -> Cost:
    """Return what a move and a byte cost, by least squares over the intervals and the guesses. A byte costs
    no less than the throttles make it cost: a guess without them would be so far off that some intervals say
    little against it."""
    byte_ms_least = 1_000 / rate_max if rate_max else 0.0
    byte_ms_guessed = max(BYTE_MS_GUESSED, byte_ms_least)
    rows = [(SAMPLE_MS / MOVE_MS_GUESSED, 0.0, SAMPLE_MS), (0.0, SAMPLE_MS / byte_ms_guessed, SAMPLE_MS)]
    rows += [
        (max(0, a.left_moves - b.left_moves), max(0, a.left_bytes - b.left_bytes), b.at_ms - a.at_ms)
        for a, b in intervals
    ]
    mm, xx, mx, mt, xt = (
        sum(m * m for m, _, _ in rows),
        sum(x * x for _, x, _ in rows),
        sum(m * x for m, x, _ in rows),
        sum(m * t for m, _, t in rows),
        sum(x * t for _, x, t in rows),
    )
    spread = mm * xx - mx * mx
    byte_ms = max((xt * mm - mt * mx) / spread, BYTE_MS_GUESSED / SURPRISE, byte_ms_least)
    move_ms = max((mt - mx * byte_ms) / mm, MOVE_MS_GUESSED / SURPRISE)
    return Cost(move_ms, byte_ms)


def _time_ms(left: float, pace: float) -> int | None:
    """Return how long what is left takes, both as costs; None: it never ends at that pace."""
    if left <= 0:
        return 0
    return round(left / pace) if pace > 0 else None


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
    return Sample(
        now_ms,
        copied,
        max(0, left),
        execution.moves_total - sum(execution.ended.values()),
        _rate_max([row.move.key for row in current], progress),
    )


def _rate_max(keys: Iterable[PartitionKey], progress: Progress) -> int | None:
    """Return what the brokers that receive may copy in a second, all together; a broker's rate is shared by
    the moves to it."""
    rates: dict[int, int | None] = {}
    for key in keys:
        for target in progress[key].targets if key in progress else ():
            if target.is_learner and not target.in_sync:
                rates[target.broker_id] = target.throttled_rate
    known = [rate for rate in rates.values() if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None
