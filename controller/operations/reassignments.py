"""The progress of a reassignment's operation: the fate of each of its moves, read from the partitions' rows,
which any request may have changed under any controller. Pure.

    moving --targets all in sync--> moved
       |---- cancelled: the original replicas again ----> rolled_back
       |---- another target ----> replaced
       +---- topic deleted ----> topic_deleted

A final fate is kept: what happens to the partition later is no part of this operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from controller.core.events import PartitionResult, ReassignmentTarget, RefusalCode
from controller.core.image import ClusterImage
from controller.core.reassignment_progress import BlockedReason, ReassignmentProgress
from controller.operations.model import (
    BLOCKED_SHOWN,
    Blocked,
    Fate,
    OperationState,
    Reassignment,
    ReassignmentCancel,
    ReassignmentMove,
    StepState,
    Work,
    begun,
)
from controller.operations.outcome import Advance, cancelled, fail, succeed, wait
from springtide.contract.partition_state import PartitionKey

Progress = Mapping[PartitionKey, ReassignmentProgress]

#: Refusals of a roll back that the next look at the rows settles.
_SETTLED_BY_THE_ROWS: Final = frozenset(
    {
        RefusalCode.PARTITION_CHANGED,
        RefusalCode.NO_REASSIGNMENT_IN_PROGRESS,
        RefusalCode.UNKNOWN_PARTITION,
    }
)


def begin_reassignment(spec: Reassignment) -> Work:
    work = begun(spec, assign=StepState.SUCCEEDED, move=StepState.RUNNING)
    return msgspec.structs.replace(work, fates=(Fate.MOVING,) * len(spec.moves))


def finished_cancel(spec: ReassignmentCancel) -> Work:
    replicas = ", ".join(map(str, spec.replicas))
    summary = f"{spec.topic}-{spec.partition} is on brokers {replicas} again"
    return msgspec.structs.replace(begun(spec, roll_back=StepState.SUCCEEDED), summary=summary)


def fate_of(image: ClusterImage, move: ReassignmentMove) -> Fate:
    """Return the fate of the move. It is right even if the controller has not looked for a while: the start
    of a later reassignment shows where this one ended."""
    return fate_in(image, move.key, original=move.original, replicas=move.replicas)


def fate_in(
    image: ClusterImage, key: PartitionKey, *, original: tuple[int, ...], replicas: tuple[int, ...]
) -> Fate:
    """Return how a move ended. original: the replicas at its beginning; replicas: those that it was to end
    with."""
    topic = image.topics.get(key[0])
    state = image.partitions.get(key)
    if topic is None or topic.deleting or state is None:
        return Fate.TOPIC_DELETED
    if state.is_reassigning:
        if state.target_replicas == replicas:
            return Fate.MOVING
        return Fate.MOVED if state.original_replicas == replicas else Fate.REPLACED
    if state.replicas == replicas:
        return Fate.MOVED
    return Fate.ROLLED_BACK if state.replicas == original else Fate.REPLACED


def advance_reassignment(
    work: Work, spec: Reassignment, state: OperationState, image: ClusterImage, progress: Progress
) -> Advance:
    """Advance the reassignment, without a deadline. A move that waits for a broker goes on when that broker
    is back, or is cancelled."""
    fates = tuple(
        fate_of(image, move) if fate is Fate.MOVING else fate
        for move, fate in zip(spec.moves, work.fates, strict=True)
    )
    work = msgspec.structs.replace(work, fates=fates)
    moving = [move for move, fate in zip(spec.moves, fates, strict=True) if fate is Fate.MOVING]
    if not moving:
        return _ended(work, spec, fates)
    if state is OperationState.CANCELLING:
        targets = tuple(
            ReassignmentTarget(
                topic_id=move.topic_id,
                partition=move.partition,
                replicas=None,
                partition_epoch=image.partitions[move.key].partition_epoch,
            )
            for move in moving
        )
        return Advance(state=state, work=work, roll_back=targets)
    blocked = [blocked_view(found) for move in moving if (found := progress.get(move.key)) and found.blocked]
    return wait(work, OperationState.RUNNING, blocked)


def not_rolled_back(work: Work, results: Sequence[PartitionResult]) -> Work:
    """Return the work with the reason why its cancellation can't be carried out now; it is tried again."""
    topics = {move.key: move.topic for move in work.spec.moves} if isinstance(work.spec, Reassignment) else {}
    blocked = tuple(
        Blocked(
            code=result.refusal.code.value,
            topic=topics.get((result.topic_id, result.partition)),
            partition=result.partition,
            detail=result.refusal.detail,
        )
        for result in results
        if result.refusal is not None and result.refusal.code not in _SETTLED_BY_THE_ROWS
    )
    return msgspec.structs.replace(work, blocked=blocked[:BLOCKED_SHOWN])


def blocked_view(found: ReassignmentProgress) -> Blocked:
    assert found.blocked is not None
    detail = found.detail
    if found.blocked is BlockedReason.NO_PROGRESS:
        # Without its seconds: what is stored must not change with the time alone.
        missing = [target.broker_id for target in found.targets if not target.in_sync]
        detail = f"brokers {missing} lack records and have not advanced for a while"
    if found.blocked is BlockedReason.THROTTLED_BELOW_PRODUCE_RATE:
        detail = "a learner falls behind what is produced: raise its rate"
    return Blocked(
        code=found.blocked.value,
        topic=found.topic,
        partition=found.partition,
        detail=f"{found.topic}-{found.partition}: {detail}",
    )


def _ended(work: Work, spec: Reassignment, fates: Sequence[Fate]) -> Advance:
    others = [
        f"{move.topic}-{move.partition} {fate.value.replace('_', ' ')}"
        for move, fate in zip(spec.moves, fates, strict=True)
        if fate is not Fate.MOVED
    ]
    if not others:
        return succeed(work, _moved(spec))
    shown = "; ".join(others[:5]) + (f"; and {len(others) - 5} more" if len(others) > 5 else "")
    if Fate.TOPIC_DELETED in fates:
        return fail(work, "topic_deleted", shown)
    return cancelled(work, shown)


def _moved(spec: Reassignment) -> str:
    if len(spec.moves) == 1:
        (move,) = spec.moves
        return f"{move.topic}-{move.partition} is on brokers {', '.join(map(str, move.replicas))}"
    return f"{len(spec.moves)} partitions are where they were to be"
