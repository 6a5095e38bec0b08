"""The way of an operation to its goals, plan by plan. What one plan could not do, because the cluster changed
meanwhile or a broker was down, a later plan does. Pure.

    ordered --made--> executed --goal reached--> next goal, or done
       ^                 |
       +--after a while--+--not reached

A plan that can do only a part is carried out for that part: one partition without a leader must not keep a
broker from being emptied of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from controller.core.image import ClusterImage
from controller.core.planning.goals import Drain, Goal, Replace
from controller.core.planning.plan import PlanOutcome
from controller.operations.execution import Window, advance_execution
from controller.operations.model import (
    Blocked,
    Campaign,
    MoveOptions,
    OperationState,
    StepState,
    Work,
    with_steps,
)
from controller.operations.outcome import Advance, PlanOrder, cancelled, fail, outside, succeed, wait
from controller.operations.reassignments import Progress

REPLAN_MS: Final = 5_000
REPLAN_MS_MAX: Final = 60_000


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one look at a campaign. unplannable: why no plan should be made yet."""

    state: OperationState
    image: ClusterImage
    window: Window | None
    progress: Progress
    operation_id: str
    now_ms: int
    unplannable: Blocked | None = None


def is_between_plans(work: Work) -> bool:
    """Return whether no plan is under way: before the first one, and after one that is not the last."""
    return work.execution is None or work.campaign.replan_at_ms is not None


def advance_campaign(
    work: Work, look: Look, goals: Sequence[Goal], options: MoveOptions, *, tries_max: int | None = None
) -> Advance:
    """Return the next step towards the goals; SUCCEEDED when every goal is reached. tries_max: plans made for
    one goal before it is given up; with None it never is, because it can only be waited for."""
    campaign = work.campaign
    if is_between_plans(work):
        return _between_plans(work, look, goals, options)
    assert look.window is not None
    step = _carry_on(work, look)
    if step.state not in (OperationState.SUCCEEDED, OperationState.FAILED):
        return step
    goal = goals[campaign.goal]
    execution = step.work.execution
    assert execution is not None
    is_whole = step.state is OperationState.SUCCEEDED and execution.outcome != PlanOutcome.INFEASIBLE
    reached = _is_reached(goal, look.image)
    if is_whole if reached is None else reached:
        campaign = _next_goal(campaign)
        if campaign.goal >= len(goals):
            return _done(step, campaign)
        return _another_plan(step, campaign, look.state, look.now_ms)
    tries = campaign.tries + 1
    if tries_max is not None and tries >= tries_max:
        if step.state is OperationState.FAILED:
            return step
        # What was executed is the part that could be; it is the rest that is given up.
        detail = "; ".join(found.detail for found in step.work.refused[:3]) or "the goal is not reached"
        failed = fail(step.work, "plan_infeasible", detail)
        return msgspec.structs.replace(failed, changed=step.changed)
    delay_ms = min(REPLAN_MS << min(campaign.tries, 10), REPLAN_MS_MAX)
    campaign = msgspec.structs.replace(campaign, tries=tries)
    return _another_plan(step, campaign, look.state, look.now_ms + delay_ms)


def _next_goal(campaign: Campaign) -> Campaign:
    return msgspec.structs.replace(campaign, goal=campaign.goal + 1, tries=0, replan_at_ms=None)


def _done(step: Advance, campaign: Campaign) -> Advance:
    work = msgspec.structs.replace(step.work, campaign=campaign)
    if step.state is OperationState.SUCCEEDED:
        return msgspec.structs.replace(step, work=work)
    # The plan failed, and the goal was reached in another way.
    failed = {found.name: StepState.SUCCEEDED for found in work.steps if found.state is StepState.FAILED}
    work = msgspec.structs.replace(_settled(with_steps(work, **failed)), error=None)
    return msgspec.structs.replace(succeed(work, _moved(work)), changed=step.changed)


def _carry_on(work: Work, look: Look) -> Advance:
    execution = work.execution
    assert execution is not None and look.window is not None
    # Of an infeasible plan the part that can be had.
    is_part = execution.outcome == PlanOutcome.INFEASIBLE and execution.moves_total > 0
    if is_part:
        ready = msgspec.structs.replace(execution, outcome=PlanOutcome.READY.value)
        work = msgspec.structs.replace(work, execution=ready)
    step = advance_execution(
        work,
        look.state,
        look.image,
        look.window,
        look.progress,
        operation_id=look.operation_id,
        now_ms=look.now_ms,
    )
    if is_part and step.work.execution is not None:
        kept = msgspec.structs.replace(step.work.execution, outcome=execution.outcome)
        step = msgspec.structs.replace(step, work=msgspec.structs.replace(step.work, execution=kept))
    return step


def _between_plans(work: Work, look: Look, goals: Sequence[Goal], options: MoveOptions) -> Advance:
    campaign = work.campaign
    if look.state is OperationState.CANCELLING:
        return cancelled(work, _moved(work))
    if look.state is OperationState.PAUSED:
        return Advance(state=look.state, work=work)
    while campaign.goal < len(goals) and _is_reached(goals[campaign.goal], look.image):
        campaign = _next_goal(campaign)
    if campaign.goal >= len(goals):
        done = msgspec.structs.replace(work, campaign=campaign)
        return succeed(
            _settled(done), "there was nothing to move" if work.execution is None else _moved(work)
        )
    if look.now_ms < (options.not_before_ms or 0):
        return Advance(state=OperationState.SCHEDULED, work=msgspec.structs.replace(work, blocked=()))
    if look.now_ms < (campaign.replan_at_ms or 0):
        return wait(work, OperationState.RUNNING, work.blocked)
    if look.unplannable is not None:
        return wait(with_steps(work, plan=StepState.RUNNING), OperationState.RUNNING, (look.unplannable,))
    # What an operator has changed meanwhile stands in the last execution, and holds on.
    pace = options if work.execution is None else work.execution
    closed = outside(pace.window, look.now_ms)
    if closed:
        return wait(work, OperationState.RUNNING, closed)
    order = PlanOrder(
        goal=goals[campaign.goal],
        throttle_bytes_per_s=pace.throttle_bytes_per_s,
        max_concurrent_moves=pace.max_concurrent_moves,
        window=pace.window,
        turn=campaign.plans,
    )
    campaign = msgspec.structs.replace(campaign, plans=campaign.plans + 1, replan_at_ms=None)
    if work.execution is not None:
        campaign = msgspec.structs.replace(
            campaign,
            moved=campaign.moved + work.execution.moved,
            bytes_moved=campaign.bytes_moved + work.execution.bytes_moved,
        )
    ordering = msgspec.structs.replace(
        with_steps(work, plan=StepState.RUNNING, move=StepState.PENDING, elect=StepState.PENDING),
        campaign=campaign,
        execution=None,
        refused=(),
        blocked=(),
    )
    return Advance(state=OperationState.RUNNING, work=ordering, order=order)


def _another_plan(step: Advance, campaign: Campaign, state: OperationState, at_ms: int) -> Advance:
    """The execution that has ended is stored as it ended, and stays until the next plan is there. state: that
    was looked at; a pause holds on."""
    work = msgspec.structs.replace(
        with_steps(step.work, plan=StepState.PENDING),
        campaign=msgspec.structs.replace(campaign, replan_at_ms=at_ms),
        error=None,
        summary=None,
    )
    blocked = [
        Blocked(
            code=found.code,
            topic=found.topic or None,
            partition=None if found.partition < 0 else found.partition,
            detail=f"{found.topic}-{found.partition}: {found.detail}" if found.topic else found.detail,
        )
        for found in work.refused
    ]
    after = OperationState.PAUSED if state is OperationState.PAUSED else OperationState.RUNNING
    waiting = wait(work, after, blocked)
    return msgspec.structs.replace(waiting, changed=step.changed)


def _is_reached(goal: Goal, image: ClusterImage) -> bool | None:
    """Return whether the cluster shows that the goal is reached; None if only the plan can tell."""
    match goal:
        case Drain():
            return not any(image.replicas_of.get(broker_id) for broker_id in goal.broker_ids)
        case Replace():
            return not image.replicas_of.get(goal.broker_id)
        case _:
            return None


def _settled(work: Work) -> Work:
    """Steps that were not needed, after all."""
    waiting = (StepState.PENDING, StepState.RUNNING)
    skipped = {step.name: StepState.SKIPPED for step in work.steps if step.state in waiting}
    return with_steps(work, **skipped)


def _moved(work: Work) -> str:
    execution = work.execution
    if execution is None:
        return "nothing had been moved"
    return f"{work.campaign.moved + execution.moved} partitions were moved"
