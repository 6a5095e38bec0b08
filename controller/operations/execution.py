"""The execution of an operation's plan: which moves begin now, what became of those that have begun. Pure.

    planned --its turn--> starting --submitted--> moving --targets all in sync--> moved
                             |                      |--> rolled_back, replaced, topic_deleted
                             |--> drifted: the partition is not what the plan was made from
                             |--> refused: it can't be had (any more)
                             +--> not_begun: the operation was cancelled

Write-ahead: a move's state `starting` is stored before the move is submitted. A controller that finds a move
in this state sees in the partition's row whether it was submitted, and submits it if not; so a move is begun
at least once, and beginning it twice changes nothing. Only the moves that begin next and those on their way
are looked at: a plan may have a hundred thousand moves, and they are not in the operation's row.

A kind that carries out a plan has the steps `move` and `elect` and calls `advance_execution` until that says
`succeeded`; what comes after is its own. A paused operation begins no move, nor does any outside its window;
those on their way arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from controller.core.events import PartitionResult, ReassignmentTarget, RefusalCode
from controller.core.image import ClusterImage
from controller.core.planning.plan import Move, Plan, PlanOutcome
from controller.database.rows import MoveRow
from controller.operations.model import (
    Blocked,
    CancelMode,
    Execution,
    Fate,
    OperationState,
    PlanExecution,
    Refused,
    ReplicationFactorChange,
    StepState,
    Work,
    begun,
    with_steps,
)
from controller.operations.outcome import Advance, PlanOrder, cancelled, fail, outside, succeed, wait
from controller.operations.reassignments import Progress, blocked_view, fate_in
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.partition_state import PartitionKey

#: Moves submitted in one event.
STARTED_AT_ONCE: Final = 200
#: Moves whose turn has come and that can't begin yet; they don't count as concurrent.
WAITING_MAX: Final = 200
#: Partitions elected in one event.
ELECTED_AT_ONCE: Final = 200
#: What went wrong, of many, so that the operation's row stays small.
FAILURES_SHOWN: Final = 100

#: Refusals that end when the cluster changes; the move is tried again.
_WAITS: Final = frozenset({RefusalCode.INELIGIBLE_BROKER, RefusalCode.REASSIGNMENT_NOT_SAFE})
#: Refusals that the partition's row settles at the next look.
_SEEN_IN_THE_ROW: Final = frozenset({RefusalCode.PARTITION_CHANGED, RefusalCode.UNKNOWN_PARTITION})


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a plan that matters now. current: begun and not ended. upcoming: those from the cursor on,
    in order; may be empty when nothing is to begin. arrived: from `elected_to` on, of any fate, once all have
    ended.

    What this controller remembers besides, by position: confirmed: accepted by the cluster, so what the row
    shows came after. waits: what kept them from beginning. refused: for good.
    """

    plan_id: str
    current: tuple[MoveRow, ...] = ()
    upcoming: tuple[MoveRow, ...] = ()
    arrived: tuple[MoveRow, ...] = ()
    confirmed: frozenset[int] = frozenset()
    waits: Mapping[int, Blocked] = {}
    refused: Mapping[int, str] = {}


def begin_execution(
    plan_id: str, plan: Plan, order: PlanOrder | None = None, *, moves: int | None = None
) -> Execution:
    """Return the start of an execution. moves: how many from the plan's beginning, None for all. order: None
    takes the defaults."""
    chosen = plan.moves if moves is None else plan.moves[:moves]
    ordered = {} if order is None else msgspec.structs.asdict(order)
    ordered.pop("goal", None)
    return Execution(
        plan_id=plan_id,
        outcome=plan.outcome.value,
        moves_total=len(chosen),
        bytes_total=sum(move.bytes for move in chosen),
        **ordered,
    )


def begin_plan_execution(spec: PlanExecution | ReplicationFactorChange, execution: Execution) -> Work:
    return msgspec.structs.replace(begun(spec, "move", "elect"), execution=execution)


def rejections_of(plan: Plan) -> tuple[Refused, ...]:
    """Return what the plan can't do, for `Work.refused`."""
    return tuple(
        Refused(
            topic=found.topic or found.topic_id or "",
            partition=-1 if found.partition is None else found.partition,
            code=found.code.value,
            detail=found.detail,
        )
        for found in plan.rejections[:FAILURES_SHOWN]
    )


def advance_execution(
    work: Work,
    state: OperationState,
    image: ClusterImage,
    window: Window,
    progress: Progress,
    *,
    operation_id: str,
    now_ms: int,
) -> Advance:
    """One look. SUCCEEDED means that the plan is carried out: every partition has arrived or is deleted, and
    leaders are elected; a kind with more to do goes on from there. Never gives up on what only waits."""
    execution = work.execution
    assert execution is not None and window.plan_id == execution.plan_id
    if state is OperationState.AWAITING_APPROVAL:
        return Advance(state=state, work=work)
    if execution.outcome == PlanOutcome.INFEASIBLE:
        detail = "; ".join(found.detail for found in work.refused[:3]) or "the plan can't be had"
        return fail(work, "plan_infeasible", detail)
    if state is not OperationState.CANCELLING and now_ms < (execution.not_before_ms or 0):
        held = state if state is OperationState.PAUSED else OperationState.SCHEDULED
        return Advance(state=held, work=msgspec.structs.replace(work, blocked=()))
    if state is OperationState.SCHEDULED:
        state = OperationState.RUNNING
    current, changed = _settled(window, image, state, now_ms)
    work = _tallied(work, execution, changed)
    execution = work.execution
    assert execution is not None
    if state is OperationState.CANCELLING:
        throttle = _off_rate(image, execution, current, operation_id)
        return msgspec.structs.replace(_cancelling(work, state, image, current, changed), throttle=throttle)
    if not current and execution.cursor >= execution.moves_total:
        return _electing(work, state, image, window, changed)
    work = with_steps(work, move=StepState.RUNNING)
    if state is OperationState.PAUSED:
        return Advance(
            state=state,
            work=msgspec.structs.replace(work, blocked=()),
            changed=changed,
            throttle=_off_rate(image, execution, current, operation_id),
        )
    closed = outside(execution.window, now_ms)
    begun: tuple[MoveRow, ...] = ()
    if not closed:
        begun = _next(execution, window, current, len(_startable(image, window, current)[1]), now_ms)
    if begun:
        execution = msgspec.structs.replace(execution, cursor=begun[-1].position + 1)
        work = msgspec.structs.replace(work, execution=execution)
    current = [*current, *begun]
    start, waits = _startable(image, window, current)
    blocked = [*closed, *(_blocked_at(found, waits) for found in current if found.position in waits)]
    blocked += [
        blocked_view(seen)
        for found in current
        if found.fate == Fate.MOVING and (seen := progress.get(found.move.key)) and seen.blocked
    ]
    step = wait(work, OperationState.RUNNING, blocked)
    return msgspec.structs.replace(
        step,
        changed=(*changed, *begun),
        start=() if closed else start,
        throttle=_off_rate(image, execution, current, operation_id),
    )


def after_submission(
    window: Window, submitted: Sequence[ReassignmentTarget], results: Sequence[PartitionResult]
) -> Window:
    """Return the window after the cluster has answered `Advance.start`."""
    positions = {found.move.key: found.position for found in window.current}
    confirmed, waits, refused = set(window.confirmed), dict(window.waits), dict(window.refused)
    for result in results:
        key = (result.topic_id, result.partition)
        position = positions.get(key)
        if position is None:
            continue
        waits.pop(position, None)
        if result.refusal is None:
            confirmed.add(position)
        elif result.refusal.code in _WAITS:
            waits[position] = Blocked(code=result.refusal.code.value, detail=result.refusal.detail)
        elif result.refusal.code not in _SEEN_IN_THE_ROW:
            refused[position] = result.refusal.detail
    return msgspec.structs.replace(window, confirmed=frozenset(confirmed), waits=waits, refused=refused)


def after_storing(window: Window, changed: Iterable[MoveRow], cursor: int) -> Window:
    """The window with what has been stored: ended moves leave it, begun ones are in it."""
    rows = {found.position: found for found in window.current}
    for found in changed:
        if found.fate in (Fate.STARTING, Fate.MOVING):
            rows[found.position] = found
        else:
            rows.pop(found.position, None)
    return msgspec.structs.replace(
        window,
        current=tuple(rows[position] for position in sorted(rows)),
        upcoming=tuple(found for found in window.upcoming if found.position >= cursor),
        confirmed=frozenset(position for position in window.confirmed if position in rows),
        waits={position: why for position, why in window.waits.items() if position in rows},
        refused={position: why for position, why in window.refused.items() if position in rows},
    )


# --- what has become of those that have begun ---------------------------------------------------------------


def _settled(
    window: Window, image: ClusterImage, state: OperationState, now_ms: int
) -> tuple[list[MoveRow], tuple[MoveRow, ...]]:
    """Return the moves that are still under way, and the moves whose fate differs from what was stored."""
    current, changed = [], []
    for before in window.current:
        fate, detail = _fate(window, image, before)
        if fate is Fate.STARTING and state is OperationState.CANCELLING:
            fate = Fate.NOT_BEGUN
        is_current = fate in (Fate.STARTING, Fate.MOVING)
        found = before
        if fate != before.fate:
            ended = None if is_current else now_ms
            found = msgspec.structs.replace(before, fate=fate.value, detail=detail, ended_at_ms=ended)
            changed.append(found)
        if is_current:
            current.append(found)
    return current, tuple(changed)


def _fate(window: Window, image: ClusterImage, found: MoveRow) -> tuple[Fate, str | None]:
    move = found.move
    topic, state = image.topics.get(move.topic_id), image.partitions.get(move.key)
    if topic is None or topic.deleting or state is None:
        return Fate.TOPIC_DELETED, None
    if found.fate == Fate.MOVING or found.position in window.confirmed:
        fate = fate_in(image, move.key, original=move.replicas_before, replicas=move.replicas_after)
        return fate, f"it is on brokers {list(state.replicas)}" if fate is Fate.REPLACED else None
    if state.target_replicas == move.replicas_after:
        return (Fate.MOVING if state.is_reassigning else Fate.MOVED), None
    if state.is_reassigning and state.original_replicas == move.replicas_after:
        return Fate.MOVED, None
    if state.target_replicas == move.replicas_before:
        refusal = window.refused.get(found.position)
        return (Fate.STARTING, None) if refusal is None else (Fate.REFUSED, refusal)
    return Fate.DRIFTED, f"it is on brokers {list(state.target_replicas)}, not {list(move.replicas_before)}"


def _tallied(work: Work, execution: Execution, changed: Iterable[MoveRow]) -> Work:
    ended = dict(execution.ended)
    bytes_moved, bytes_dropped = execution.bytes_moved, execution.bytes_dropped
    refused = list(work.refused)
    for found in changed:
        if found.fate in (Fate.STARTING, Fate.MOVING):
            continue
        ended[found.fate] = ended.get(found.fate, 0) + 1
        if found.fate == Fate.MOVED:
            bytes_moved += found.move.bytes
            continue
        bytes_dropped += found.move.bytes
        if found.fate not in (Fate.TOPIC_DELETED, Fate.NOT_BEGUN) and len(refused) < FAILURES_SHOWN:
            refused.append(
                Refused(
                    topic=found.move.topic,
                    partition=found.move.partition,
                    code=found.fate,
                    detail=found.detail or found.fate.replace("_", " "),
                )
            )
    execution = msgspec.structs.replace(
        execution, ended=ended, bytes_moved=bytes_moved, bytes_dropped=bytes_dropped
    )
    return msgspec.structs.replace(work, execution=execution, refused=tuple(refused))


# --- what begins --------------------------------------------------------------------------------------------


def _next(
    execution: Execution, window: Window, current: Sequence[MoveRow], waiting: int, now_ms: int
) -> tuple[MoveRow, ...]:
    """Return the next moves. waiting: how many of the current ones can't begin yet."""
    room = min(
        execution.max_concurrent_moves - (len(current) - waiting),
        WAITING_MAX - waiting,
        STARTED_AT_ONCE,
    )
    end = execution.moves_total
    chosen = [found for found in window.upcoming if execution.cursor <= found.position < end]
    return tuple(
        msgspec.structs.replace(found, fate=Fate.STARTING.value, begun_at_ms=now_ms)
        for found in chosen[: max(0, room)]
    )


def _startable(
    image: ClusterImage, window: Window, current: Sequence[MoveRow]
) -> tuple[tuple[ReassignmentTarget, ...], dict[int, Blocked]]:
    """Return the moves to be submitted, and why the others wait."""
    start: list[ReassignmentTarget] = []
    waits: dict[int, Blocked] = {}
    for found in current:
        if found.fate != Fate.STARTING:
            continue
        move = found.move
        state = image.partitions.get(move.key)
        if state is None or _fate(window, image, found)[0] is not Fate.STARTING:
            continue  # deleted or changed before its turn came; the next look says so
        obstacle = _obstacle(image, move)
        if obstacle is not None:
            waits[found.position] = obstacle
            continue
        if found.position in window.waits:
            waits[found.position] = window.waits[found.position]
        if len(start) < STARTED_AT_ONCE:
            start.append(_target(move, move.replicas_after, state.partition_epoch))
    return tuple(start), waits


def _obstacle(image: ClusterImage, move: Move) -> Blocked | None:
    state = image.partitions[move.key]
    if state.is_reassigning:
        return Blocked(code="reassignment_running", detail="another reassignment of it is still on its way")
    for broker_id in move.adding:
        broker = image.brokers.get(broker_id)
        if broker is not None and broker.admitted and not broker.takes_replicas:
            how = broker.status.value if not broker.is_eligible else "cordoned"
            return Blocked(code="target_offline", broker_id=broker_id, detail=f"broker {broker_id} is {how}")
    return None


def _blocked_at(found: MoveRow, waits: Mapping[int, Blocked]) -> Blocked:
    why, move = waits[found.position], found.move
    return msgspec.structs.replace(
        why,
        topic=move.topic,
        partition=move.partition,
        detail=f"{move.topic}-{move.partition}: {why.detail}",
    )


def _off_rate(
    image: ClusterImage, execution: Execution, current: Sequence[MoveRow], operation_id: str
) -> tuple[ReassignmentTarget, ...]:
    """Return the moves on their way at another rate than the operation's, unless another request set that
    rate."""
    targets = []
    for found in current:
        state = image.partitions.get(found.move.key)
        if found.fate != Fate.MOVING or state is None or not state.is_reassigning:
            continue
        throttle = state.throttle
        if throttle is not None and throttle.operation != operation_id:
            continue
        if (None if throttle is None else throttle.rate) != execution.throttle_bytes_per_s:
            targets.append(_target(found.move, found.move.replicas_after, state.partition_epoch))
    return tuple(targets[:STARTED_AT_ONCE])


def _target(
    move: Move, replicas: tuple[int, ...] | None, partition_epoch: PartitionEpoch
) -> ReassignmentTarget:
    return ReassignmentTarget(
        topic_id=move.topic_id,
        partition=move.partition,
        replicas=replicas,
        partition_epoch=partition_epoch,
    )


# --- the end ------------------------------------------------------------------------------------------------


def _cancelling(
    work: Work,
    state: OperationState,
    image: ClusterImage,
    current: Sequence[MoveRow],
    changed: tuple[MoveRow, ...],
) -> Advance:
    execution = work.execution
    assert execution is not None
    if not current:
        left = execution.moves_total - execution.cursor
        ended = msgspec.structs.replace(
            execution, ended=execution.ended | {Fate.NOT_BEGUN: execution.ended.get(Fate.NOT_BEGUN, 0) + left}
        )
        work = msgspec.structs.replace(
            work, execution=msgspec.structs.replace(ended, cursor=execution.moves_total)
        )
        summary = f"{execution.moved} of {execution.moves_total} moves had been made"
        return msgspec.structs.replace(cancelled(work, summary), changed=changed)
    by = work.cancellation
    roll_back = tuple(
        _target(found.move, None, image.partitions[found.move.key].partition_epoch)
        for found in current
        if found.fate == Fate.MOVING and (by is None or by.mode is CancelMode.ROLLBACK)
    )
    return Advance(state=state, work=work, changed=changed, roll_back=roll_back[:STARTED_AT_ONCE])


def _electing(
    work: Work,
    state: OperationState,
    image: ClusterImage,
    window: Window,
    changed: tuple[MoveRow, ...],
) -> Advance:
    """Elect the preferred leaders of what has arrived; a leader that can't be elected now is left out."""
    execution = work.execution
    assert execution is not None
    work = with_steps(work, move=StepState.SUCCEEDED, elect=StepState.RUNNING)
    if state is OperationState.PAUSED:
        return Advance(state=state, work=msgspec.structs.replace(work, blocked=()), changed=changed)
    page = [found for found in window.arrived if found.position >= execution.elected_to]
    if execution.elected_to < execution.moves_total and not page:
        # The window did not reach here yet; with the next look it does.
        return msgspec.structs.replace(wait(work, OperationState.RUNNING, ()), changed=changed)
    if page:
        keys: tuple[PartitionKey, ...] = tuple(
            found.move.key
            for found in page
            if found.fate == Fate.MOVED and found.move.key in image.not_preferred
        )
        execution = msgspec.structs.replace(
            execution, elected_to=page[-1].position + 1, elected=execution.elected + len(keys)
        )
        work = msgspec.structs.replace(work, execution=execution)
        step = wait(work, OperationState.RUNNING, ())
        return msgspec.structs.replace(step, changed=changed, elect=keys)
    return msgspec.structs.replace(_ended(work, execution), changed=changed)


def _ended(work: Work, execution: Execution) -> Advance:
    gone = execution.ended.get(Fate.TOPIC_DELETED, 0)
    missed = execution.moves_total - execution.moved - gone
    if missed == 0:
        work = with_steps(work, elect=StepState.SUCCEEDED)
        return succeed(work, _summary(execution, gone))
    counted = ", ".join(
        f"{count} {fate.replace('_', ' ')}"
        for fate, count in sorted(execution.ended.items())
        if fate not in (Fate.MOVED, Fate.TOPIC_DELETED)
    )
    shown = "; ".join(f"{item.topic}-{item.partition}: {item.detail}" for item in work.refused[:3])
    return fail(work, "moves_incomplete", f"{missed} of {execution.moves_total} moves: {counted} ({shown})")


def _summary(execution: Execution, gone: int) -> str:
    if execution.moves_total == 0:
        return "there was nothing to move"
    deleted = f"; {gone} belonged to topics that were deleted" if gone else ""
    return f"{execution.moved} partitions are where they were to be{deleted}"
