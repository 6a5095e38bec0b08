"""The decision of a look at an operation: its next state, what is stored, what is to be submitted. Pure.

Also the ways to end or to wait that every kind shares.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.events import ReassignmentTarget
from controller.core.planning.goals import Goal
from controller.database.rows import MoveRow
from controller.operations.hours import DailyWindow
from controller.operations.model import (
    BLOCKED_SHOWN,
    Blocked,
    MoveOptions,
    OperationError,
    OperationState,
    StepState,
    Work,
    with_steps,
)
from springtide.contract.partition_state import PartitionKey


class PlanOrder(MoveOptions, frozen=True, kw_only=True):
    """A plan that an operation wants for itself, and how it is to be carried out. turn: 0 for an operation's
    first plan, one more for each next one."""

    goal: Goal
    turn: int = 0


class DrainMark(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that get no new replicas from now on and are to be emptied, or no longer."""

    broker_ids: tuple[int, ...]
    draining: bool


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """admit: brokers to be admitted now, all in one event; its refusal fails the operation.

    roll_back: reassignments to be cancelled now, each in the state that was looked at; the operation waits
        for what is refused.
    mark: brokers to be marked now, all in one event; its refusal fails the operation.
    order: a plan to be made now and to be carried out from then on (`work.execution`).
    changed: moves of the execution whose fate is another one now, stored with the operation itself.
    start: moves to be submitted once that is stored, each in the state that was looked at.
    throttle: moves on their way whose rate is not the operation's.
    elect: partitions that are to be led by their preferred leader, before the operation is stored.
    """

    state: OperationState
    work: Work
    admit: tuple[int, ...] = ()
    roll_back: tuple[ReassignmentTarget, ...] = ()
    mark: DrainMark | None = None
    order: PlanOrder | None = None
    changed: tuple[MoveRow, ...] = ()
    start: tuple[ReassignmentTarget, ...] = ()
    throttle: tuple[ReassignmentTarget, ...] = ()
    elect: tuple[PartitionKey, ...] = ()


def fail(work: Work, code: str, detail: str) -> Advance:
    """End the operation; the step that was running is the one that failed."""
    error = OperationError(code=code, detail=detail)
    failed = msgspec.structs.replace(_ended(work, StepState.FAILED), error=error)
    return Advance(state=OperationState.FAILED, work=failed)


def cancelled(work: Work, summary: str) -> Advance:
    """End the operation because its work was taken back, by its own cancellation or in another way."""
    done = msgspec.structs.replace(_ended(work, StepState.CANCELLED), summary=summary)
    return Advance(state=OperationState.CANCELLED, work=done)


def succeed(work: Work, summary: str) -> Advance:
    done = msgspec.structs.replace(_ended(work, StepState.SUCCEEDED), summary=summary)
    return Advance(state=OperationState.SUCCEEDED, work=done)


def _ended(work: Work, state: StepState) -> Work:
    states = {step.name: state for step in work.steps if step.state is StepState.RUNNING}
    return msgspec.structs.replace(with_steps(work, **states), blocked=())


def outside(window: DailyWindow | None, now_ms: int) -> tuple[Blocked, ...]:
    """Return why nothing begins now: it is not the time of day for it."""
    if window is None or window.is_open(now_ms):
        return ()
    return (Blocked(code="outside_window", detail=f"moves begin {window}; those on their way arrive"),)


def wait(work: Work, state: OperationState, blocked: Sequence[Blocked], *, late: bool = False) -> Advance:
    """Return that the operation waits; late: past its deadline, so that it fails and names what it waited
    for."""
    if late:
        return fail(work, "deadline_exceeded", "; ".join(item.detail for item in blocked))
    return Advance(state=state, work=msgspec.structs.replace(work, blocked=tuple(blocked[:BLOCKED_SHOWN])))
