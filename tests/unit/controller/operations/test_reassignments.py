"""What became of a move is read from the partition's row, whoever changed it and however late one looks."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.core.events import PartitionResult, ReassignmentTarget, Refusal, RefusalCode
from controller.core.image import ClusterImage
from controller.core.reassignment_progress import BlockedReason, ReassignmentProgress, TargetProgress
from controller.core.records import Cause, Change, PartitionRecord, TopicRecord
from controller.operations.advance import advance
from controller.operations.model import (
    Blocked,
    Fate,
    OperationState,
    Reassignment,
    ReassignmentMove,
    StepState,
    Work,
    encode_work,
)
from controller.operations.reassignments import begin_reassignment, fate_of, not_rolled_back
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
CHANGE = Change(cause=Cause.REASSIGNMENT_STARTED, at_ms=0)
MOVES = tuple(
    ReassignmentMove(topic="orders", topic_id=TOPIC_ID, partition=n, original=(1, 2, 3), replicas=(4, 2, 3))
    for n in (0, 1)
)
BEGUN = begin_reassignment(Reassignment(moves=MOVES))

Row = dict[str, Any]
MOVING: Row = {"replicas": (4, 2, 3, 1), "original_replicas": (1, 2, 3), "removing_replicas": (1,)}
MOVED: Row = {"replicas": (4, 2, 3)}
ROLLED_BACK: Row = {"replicas": (1, 2, 3)}
ELSEWHERE: Row = {"replicas": (5, 2, 3, 1), "original_replicas": (1, 2, 3), "removing_replicas": (1,)}
MOVED_AND_ON: Row = {"replicas": (5, 2, 3, 4), "original_replicas": (4, 2, 3), "removing_replicas": (4,)}
MOVED_ELSEWHERE: Row = {"replicas": (5, 2, 3)}


def image(*rows: Row, deleting: bool = False) -> ClusterImage:
    made = ClusterImage()
    for number, row in enumerate(rows):
        state = PartitionState(
            topic_id=TOPIC_ID,
            topic="orders",
            partition=number,
            leader=2,
            leader_epoch=LeaderEpoch(3),
            partition_epoch=PartitionEpoch(7),
            isr=(2, 3),
            min_insync_replicas=2,
            **row,
        )
        made.replay(PartitionRecord(state=state, change=CHANGE))
    topic = TopicState(
        topic_id=TOPIC_ID, topic="orders", partitions=len(rows), replication_factor=3, deleting=deleting
    )
    made.replay(TopicRecord(state=topic, change=CHANGE))
    return made


def look(
    work: Work,
    *rows: Row,
    state: OperationState = OperationState.RUNNING,
    progress: ReassignmentProgress | None = None,
) -> tuple[OperationState, Work, tuple[ReassignmentTarget, ...]]:
    known = {} if progress is None else {(progress.topic_id, progress.partition): progress}
    step = advance(work, state, image(*rows), now_ms=10**15, deadline_at_ms=0, progress=known)
    return step.state, step.work, step.roll_back


@pytest.mark.parametrize(
    ("row", "fate"),
    [
        (MOVING, Fate.MOVING),
        (MOVED, Fate.MOVED),
        (ROLLED_BACK, Fate.ROLLED_BACK),
        (ELSEWHERE, Fate.REPLACED),
        (MOVED_AND_ON, Fate.MOVED),
        (MOVED_ELSEWHERE, Fate.REPLACED),
    ],
)
def test_the_row_tells_what_became_of_a_move(row: Row, fate: Fate) -> None:
    assert fate_of(image(row), MOVES[0]) is fate


def test_a_topic_that_is_gone_takes_its_moves_with_it() -> None:
    assert fate_of(image(MOVING, deleting=True), MOVES[0]) is Fate.TOPIC_DELETED
    assert fate_of(ClusterImage(), MOVES[0]) is Fate.TOPIC_DELETED


def test_a_move_to_where_it_was_has_been_made() -> None:
    same = msgspec.structs.replace(MOVES[0], replicas=(1, 2, 3))
    assert fate_of(image(ROLLED_BACK), same) is Fate.MOVED


def test_it_lasts_until_the_last_move_and_no_deadline_ends_it() -> None:
    state, work, _ = look(BEGUN, MOVED, MOVING)
    assert (state, work.fates) == (OperationState.RUNNING, (Fate.MOVED, Fate.MOVING))
    state, work, _ = look(work, MOVED, MOVED)
    assert (state, work.summary) == (OperationState.SUCCEEDED, "2 partitions are where they were to be")
    assert {step.state for step in work.steps} == {StepState.SUCCEEDED}


def test_what_happens_to_a_partition_after_its_move_is_no_part_of_it() -> None:
    _, work, _ = look(BEGUN, MOVED, MOVING)
    state, work, _ = look(work, MOVED_ELSEWHERE, MOVED)
    assert (state, work.fates) == (OperationState.SUCCEEDED, (Fate.MOVED, Fate.MOVED))


def test_some_that_were_taken_back_end_it_as_cancelled_and_are_named() -> None:
    state, work, _ = look(BEGUN, ROLLED_BACK, MOVED)
    assert (state, work.summary, work.error) == (OperationState.CANCELLED, "orders-0 rolled back", None)
    assert work.steps[-1].state is StepState.CANCELLED
    state, work, _ = look(BEGUN, ROLLED_BACK, ELSEWHERE)
    assert work.summary == "orders-0 rolled back; orders-1 replaced"


def test_a_cancellation_rolls_back_what_still_moves_in_the_state_that_was_looked_at() -> None:
    state, work, roll_back = look(BEGUN, MOVED, MOVING, state=OperationState.CANCELLING)
    assert (state, work.fates) == (OperationState.CANCELLING, (Fate.MOVED, Fate.MOVING))
    assert roll_back == (
        ReassignmentTarget(topic_id=TOPIC_ID, partition=1, replicas=None, partition_epoch=PartitionEpoch(7)),
    )
    state, work, roll_back = look(work, MOVED, ROLLED_BACK, state=OperationState.CANCELLING)
    assert (state, roll_back) == (OperationState.CANCELLED, ())
    state, _, roll_back = look(BEGUN, MOVED, MOVED, state=OperationState.CANCELLING)
    assert (state, roll_back) == (OperationState.SUCCEEDED, ()), "it was there before it could be cancelled"
    _, _, roll_back = look(BEGUN, MOVED, ELSEWHERE, state=OperationState.CANCELLING)
    assert roll_back == (), "somebody else's move is none of it"


def test_only_a_refusal_that_stands_is_waited_for() -> None:
    def refused(partition: int, code: RefusalCode) -> PartitionResult:
        refusal = Refusal(code=code, detail="why")
        return PartitionResult(topic_id=TOPIC_ID, partition=partition, refusal=refusal)

    work = not_rolled_back(
        BEGUN,
        [refused(0, RefusalCode.PARTITION_CHANGED), refused(1, RefusalCode.REASSIGNMENT_NOT_SAFE)],
    )
    assert work.blocked == (Blocked(code="reassignment_not_safe", topic="orders", partition=1, detail="why"),)
    assert not_rolled_back(work, []).blocked == ()


def test_what_is_stored_of_a_stalled_move_does_not_change_with_the_time() -> None:
    def stalled(seconds: int) -> ReassignmentProgress:
        target = TargetProgress(broker_id=4, is_learner=True, in_sync=False)
        return ReassignmentProgress(
            topic_id=TOPIC_ID,
            topic="orders",
            partition=0,
            partition_epoch=PartitionEpoch(7),
            original_replicas=(1, 2, 3),
            target_replicas=(4, 2, 3),
            targets=(target,),
            blocked=BlockedReason.NO_PROGRESS,
            detail=f"broker 4 has not advanced for {seconds} s",
        )

    _, first, _ = look(BEGUN, MOVING, MOVING, progress=stalled(60))
    _, later, _ = look(first, MOVING, MOVING, progress=stalled(61))
    assert [item.code for item in first.blocked] == ["no_progress"]
    assert encode_work(first) == encode_work(later)
    _, again, _ = look(later, MOVING, MOVING)
    assert again.blocked == ()


def test_what_is_stored_compares_equal_when_it_is_read_again() -> None:
    encoded = encode_work(BEGUN)
    assert json.loads(json.dumps(encoded)) == encoded
