"""The progress of an operation in numbers that never go back. Pure.

A finished move counts with the bytes that it was to copy, however large its log is by now; one on its way
with the part of them that its learners have. The totals are those of the beginning, and grow when another
plan of the operation adds moves. What leaders report can fall: a leader changes, a move is rolled back, a
controller takes over and has heard nothing yet. So what was told once is stored, and the greater one counts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from controller.core.reassignment_progress import ReassignmentProgress
from controller.database.rows import MoveRow
from controller.operations.model import UNKNOWN_SIZE, Execution, Fate, MoveTally, Reassignment, Work
from controller.operations.reassignments import Progress

STEPS: Final = 1_000
"""Bytes alone are stored in steps of this fraction of the total, so that a long operation isn't written at
each look."""


def with_tally(work: Work, current: Collection[MoveRow], progress: Progress) -> Work:
    """Return the work with the tally of this look; the same work if that adds little to what is stored.
    current: the moves of the work's plan that have begun and not ended."""
    sizes = _sizes(work, progress)
    work = msgspec.structs.replace(work, sizes=sizes)
    before, seen = work.tally, counted(work, current, progress)
    if before is None or seen is None:
        return msgspec.structs.replace(work, tally=before or seen)
    tally = MoveTally(
        moves_total=max(before.moves_total, seen.moves_total),
        moves_done=max(before.moves_done, seen.moves_done),
        bytes_total=_greater(before.bytes_total, seen.bytes_total),
        bytes_done=max(before.bytes_done, seen.bytes_done),
    )
    step = max(1, (tally.bytes_total or 0) // STEPS)
    is_little = msgspec.structs.replace(tally, bytes_done=before.bytes_done) == before
    if is_little and tally.bytes_done - before.bytes_done < step:
        return work
    return msgspec.structs.replace(work, tally=tally)


def counted(
    work: Work, current: Collection[MoveRow] = (), progress: Progress | None = None
) -> MoveTally | None:
    """Return what this look alone tells; None of work that moves nothing, or has no plan yet."""
    progress = progress or {}
    if isinstance(work.spec, Reassignment):
        return _of_reassignment(work, work.spec, progress)
    campaign, execution = work.campaign, work.execution
    if execution is None:
        if campaign.moved == 0:
            return None
        execution = Execution(plan_id="", outcome="", moves_total=0)
    copied = sum(
        _part(row.move.bytes, progress.get(row.move.key)) for row in current if row.fate == Fate.MOVING
    )
    return MoveTally(
        moves_total=campaign.moved + execution.moves_total,
        moves_done=campaign.moved + execution.moved,
        bytes_total=campaign.bytes_moved + execution.bytes_total,
        bytes_done=campaign.bytes_moved + min(execution.bytes_total, execution.bytes_moved + copied),
    )


def _of_reassignment(work: Work, spec: Reassignment, progress: Progress) -> MoveTally:
    sizes = work.sizes or (UNKNOWN_SIZE,) * len(spec.moves)
    done = 0
    for move, fate, size in zip(spec.moves, work.fates, sizes, strict=True):
        if fate is Fate.MOVED:
            done += max(0, size)
        elif fate is Fate.MOVING and size > 0:
            done += _part(size, progress.get(move.key))
    is_known = all(
        size != UNKNOWN_SIZE for fate, size in zip(work.fates, sizes, strict=True) if fate is Fate.MOVING
    )
    known = sum(size for size in sizes if size != UNKNOWN_SIZE)
    return MoveTally(
        moves_total=len(work.fates),
        moves_done=work.fates.count(Fate.MOVED),
        bytes_total=known if is_known and known > 0 else None,
        bytes_done=done,
    )


def _sizes(work: Work, progress: Progress) -> tuple[int, ...]:
    """Return the bytes that each move of a reassignment is to copy, as its leader told them first."""
    if not isinstance(work.spec, Reassignment):
        return work.sizes
    before = work.sizes or (UNKNOWN_SIZE,) * len(work.spec.moves)
    return tuple(
        _whole(progress.get(move.key)) if size == UNKNOWN_SIZE and fate is Fate.MOVING else size
        for move, fate, size in zip(work.spec.moves, work.fates, before, strict=True)
    )


def _whole(found: ReassignmentProgress | None) -> int:
    if found is None or found.copied_bytes is None or found.remaining_bytes is None:
        return UNKNOWN_SIZE
    return found.copied_bytes + found.remaining_bytes


def _part(size: int, found: ReassignmentProgress | None) -> int:
    """Return how much of a move's bytes is copied, by the share that its leader reports."""
    whole = _whole(found)
    if found is None or whole <= 0:
        return 0
    return size * (found.copied_bytes or 0) // whole


def _greater(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
