"""Goals that need several plans: what is waited for, what is tried again, and when it is given up."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.image import ClusterImage
from controller.core.planning.goals import Drain, Goal, Rebalance
from controller.core.planning.plan import PlanOutcome
from controller.operations.campaign import REPLAN_MS, REPLAN_MS_MAX, Look, advance_campaign
from controller.operations.execution import Window
from controller.operations.hours import DailyWindow
from controller.operations.model import (
    Blocked,
    BrokerDrain,
    Campaign,
    Execution,
    MoveOptions,
    OperationState,
    OperationStep,
    Refused,
    StepState,
    Work,
)
from controller.operations.outcome import Advance

REBALANCE: tuple[Goal, ...] = (Rebalance(), Rebalance())
OPTIONS = MoveOptions(throttle_bytes_per_s=7, max_concurrent_moves=3, not_before_ms=1_000)
FRESH = Work(
    spec=BrokerDrain(broker_id=1), steps=tuple(OperationStep(name=name) for name in ("plan", "move", "elect"))
)


def look(
    work: Work,
    *,
    now_ms: int = 5_000,
    state: OperationState = OperationState.RUNNING,
    goals: Sequence[Goal] = REBALANCE,
    tries_max: int | None = None,
    unplannable: Blocked | None = None,
    options: MoveOptions = OPTIONS,
) -> Advance:
    window = None if work.execution is None else Window(plan_id=work.execution.plan_id)
    seen = Look(
        state=state,
        image=ClusterImage(),
        window=window,
        progress={},
        operation_id="op_1",
        now_ms=now_ms,
        unplannable=unplannable,
    )
    return advance_campaign(work, seen, goals, options, tries_max=tries_max)


def executing(work: Work, outcome: PlanOutcome, *refused: Refused) -> Work:
    """As the runner stores it when the plan is made: without moves, so that it is over with the next look."""
    made = Execution(plan_id=f"plan_{work.campaign.plans}", outcome=outcome.value, moves_total=0)
    return msgspec.structs.replace(work, execution=made, refused=refused)


LEADERLESS = Refused(topic="orders", partition=3, code="leaderless", detail="nobody to copy from")


def test_it_plans_within_its_window_only() -> None:
    window = DailyWindow(start_minute=1, end_minute=2)
    night = msgspec.structs.replace(OPTIONS, window=window)
    early = look(FRESH, now_ms=59_999, options=night)
    assert (early.state, early.order) == (OperationState.RUNNING, None)
    assert [(found.code, found.detail) for found in early.work.blocked] == [
        ("outside_window", "moves begin between 00:01 and 00:02 UTC; those on their way arrive")
    ]
    begun = look(early.work, now_ms=60_000, options=night)
    assert begun.order is not None
    assert (begun.order.window, begun.work.blocked) == (window, ())
    lifted = msgspec.structs.replace(
        executing(begun.work, PlanOutcome.READY), campaign=Campaign(plans=1, replan_at_ms=1)
    )
    assert look(lifted, now_ms=180_000, options=night).order is not None, "the execution says: at any time"


def test_it_plans_when_it_may_and_with_what_was_asked() -> None:
    early = look(FRESH, now_ms=999)
    assert (early.state, early.order) == (OperationState.SCHEDULED, None)
    begun = look(FRESH, now_ms=1_000)
    assert begun.state is OperationState.RUNNING
    assert begun.order is not None
    order = begun.order
    assert (order.goal, order.throttle_bytes_per_s, order.max_concurrent_moves, order.turn) == (
        REBALANCE[0],
        7,
        3,
        0,
    )
    assert begun.work.steps[0].state is StepState.RUNNING


def test_it_waits_while_no_plan_should_be_made_and_that_counts_as_none() -> None:
    obstacle = Blocked(code="sizes_unknown", topic="orders", partition=0, detail="not told yet")
    early = look(FRESH, now_ms=999, unplannable=obstacle)
    assert (early.state, early.work.blocked) == (OperationState.SCHEDULED, ())
    waiting = look(FRESH, unplannable=obstacle)
    assert (waiting.state, waiting.order, waiting.work.blocked) == (OperationState.RUNNING, None, (obstacle,))
    assert waiting.work.campaign == FRESH.campaign
    assert look(waiting.work, unplannable=obstacle).work == waiting.work, "nothing new to be stored"
    cancelled = look(waiting.work, state=OperationState.CANCELLING, unplannable=obstacle)
    assert (cancelled.state, cancelled.work.blocked) == (OperationState.CANCELLED, ())
    begun = look(waiting.work)
    assert begun.order is not None
    assert (begun.order.turn, begun.work.blocked) == (0, ())
    # What is under way goes on.
    made = executing(begun.work, PlanOutcome.READY)
    assert look(made, unplannable=obstacle).work.campaign.goal == 1
    between = look(executing(begun.work, PlanOutcome.INFEASIBLE, LEADERLESS)).work
    again = look(between, now_ms=5_000 + REPLAN_MS, unplannable=obstacle)
    assert (again.order, again.work.blocked, again.work.campaign) == (None, (obstacle,), between.campaign)


def test_one_goal_after_the_other_each_with_a_plan_of_its_own() -> None:
    work = executing(look(FRESH).work, PlanOutcome.READY)
    first = look(work)
    assert (first.state, first.work.campaign.goal) == (OperationState.RUNNING, 1)
    second = look(first.work)
    assert second.order is not None
    assert (second.order.turn, second.work.execution) == (1, None)
    done = look(executing(second.work, PlanOutcome.NO_IMPROVEMENT))
    assert (done.state, done.work.summary) == (OperationState.SUCCEEDED, "there was nothing to move")


def test_what_cant_be_had_now_is_planned_again_with_growing_pauses() -> None:
    work, now_ms, pauses = FRESH, 5_000, []
    for turn in range(8):
        ordering = look(work, now_ms=now_ms)
        assert ordering.order is not None and ordering.order.turn == turn
        failed = look(executing(ordering.work, PlanOutcome.INFEASIBLE, LEADERLESS), now_ms=now_ms)
        assert (failed.state, failed.work.error) == (OperationState.RUNNING, None)
        (blocked,) = failed.work.blocked
        assert (blocked.code, blocked.topic, blocked.partition) == ("leaderless", "orders", 3)
        at_ms = failed.work.campaign.replan_at_ms
        assert at_ms is not None
        pauses.append(at_ms - now_ms)
        waiting = look(failed.work, now_ms=at_ms - 1)
        assert (waiting.order, waiting.work.blocked) == (None, failed.work.blocked)
        work, now_ms = waiting.work, at_ms
    assert pauses == [min(REPLAN_MS * 2**turn, REPLAN_MS_MAX) for turn in range(8)]


def test_a_goal_is_given_up_after_so_many_plans() -> None:
    work = FRESH
    for plans in range(1, 10):
        ordering = look(work, now_ms=plans * REPLAN_MS_MAX)
        assert ordering.order is not None
        infeasible = executing(ordering.work, PlanOutcome.INFEASIBLE, LEADERLESS)
        step = look(infeasible, now_ms=plans * REPLAN_MS_MAX, tries_max=3)
        if step.state is not OperationState.RUNNING:
            break
        work = step.work
    assert (step.state, plans) == (OperationState.FAILED, 3)
    assert step.work.error is not None
    assert (step.work.error.code, step.work.error.detail) == ("plan_infeasible", "nobody to copy from")


def test_between_plans_it_can_be_cancelled_and_paused() -> None:
    infeasible = executing(look(FRESH).work, PlanOutcome.INFEASIBLE, LEADERLESS)
    between = look(infeasible).work
    assert look(between, state=OperationState.CANCELLING).state is OperationState.CANCELLED
    paused = look(between, state=OperationState.PAUSED, now_ms=10**9)
    assert (paused.state, paused.order) == (OperationState.PAUSED, None)
    assert look(FRESH, state=OperationState.CANCELLING).state is OperationState.CANCELLED


def test_a_drain_is_done_when_the_broker_holds_nothing_whatever_a_plan_said() -> None:
    goals = (Drain(broker_ids=(1,)),)
    idle = look(FRESH, goals=goals)  # the image is empty
    assert (idle.state, idle.order) == (OperationState.SUCCEEDED, None)
    assert {step.state for step in idle.work.steps} == {StepState.SKIPPED}
    ordered = msgspec.structs.replace(FRESH, campaign=Campaign(plans=1))
    late = look(executing(ordered, PlanOutcome.INFEASIBLE, LEADERLESS), goals=goals)
    assert (late.state, late.work.error) == (OperationState.SUCCEEDED, None)
    assert StepState.FAILED not in {step.state for step in late.work.steps}


def test_how_fast_it_may_go_on_holds_for_its_later_plans() -> None:
    ordering = look(FRESH)
    work = executing(ordering.work, PlanOutcome.READY)
    assert work.execution is not None
    slowed = msgspec.structs.replace(work.execution, throttle_bytes_per_s=None, max_concurrent_moves=1)
    between = look(msgspec.structs.replace(work, execution=slowed)).work
    order = look(between).order
    assert order is not None and order.turn == 1
    assert (order.throttle_bytes_per_s, order.max_concurrent_moves) == (None, 1)


def test_a_pause_outlives_a_plan_that_cant_be_had() -> None:
    infeasible = executing(look(FRESH).work, PlanOutcome.INFEASIBLE, LEADERLESS)
    step = look(infeasible, state=OperationState.PAUSED)
    assert (step.state, step.order) == (OperationState.PAUSED, None)
    assert step.work.campaign.replan_at_ms is not None
    later = look(step.work, state=step.state, now_ms=10**9)
    assert (later.state, later.order) == (OperationState.PAUSED, None)
    assert look(step.work, now_ms=10**9).order is not None
