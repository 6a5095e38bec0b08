"""The progress that is told of an operation never goes back, whatever leaders report."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from controller.core.planning.plan import Move
from controller.core.reassignment_progress import ReassignmentProgress, TargetProgress
from controller.database.rows import MoveRow
from controller.operations.model import (
    BrokerDrain,
    Campaign,
    Execution,
    Fate,
    MoveTally,
    Reassignment,
    ReassignmentMove,
    Work,
    begun,
)
from controller.operations.tally import counted, with_tally
from springtide.contract.epochs import PartitionEpoch

GIB = 2**30
FIRST = Campaign()


def on_its_way(partition: int, size: int, left: int | None) -> ReassignmentProgress:
    copied = None if left is None else size - left
    target = TargetProgress(
        broker_id=3, is_learner=True, in_sync=False, copied_bytes=copied, remaining_bytes=left
    )
    return ReassignmentProgress(
        topic_id="t",
        topic="orders",
        partition=partition,
        partition_epoch=PartitionEpoch(1),
        original_replicas=(1, 2),
        target_replicas=(3, 2),
        targets=(target,),
        size_bytes=None if left is None else size,
    )


def reassignment(moves: int) -> Work:
    made = tuple(
        ReassignmentMove(topic="orders", topic_id="t", partition=n, original=(1, 2), replicas=(3, 2))
        for n in range(moves)
    )
    return msgspec.structs.replace(begun(Reassignment(moves=made)), fates=(Fate.MOVING,) * moves)


def fated(work: Work, *fates: Fate) -> Work:
    return msgspec.structs.replace(work, fates=fates)


def reassigned(work: Work, *found: ReassignmentProgress) -> Work:
    return with_tally(work, (), {("t", one.partition): one for one in found})


def row(partition: int, size: int) -> MoveRow:
    move = Move(
        topic_id="t",
        topic="orders",
        partition=partition,
        partition_epoch=PartitionEpoch(1),
        replicas_before=(1, 2),
        replicas_after=(3, 2),
        reasons=(),
        size_bytes=size,
        bytes=size,
    )
    return MoveRow(position=partition, move=move, fate=Fate.MOVING.value)


def drain(campaign: Campaign = FIRST, **fields: int) -> Work:
    execution = Execution(
        plan_id="p",
        outcome="ready",
        moves_total=fields["moves"],
        bytes_total=fields["size"],
        ended={Fate.MOVED: fields.get("moved", 0)},
        bytes_moved=fields.get("bytes_moved", 0),
    )
    work = begun(BrokerDrain(broker_id=1), "move")
    return msgspec.structs.replace(work, execution=execution, campaign=campaign)


def test_a_reassignments_total_does_not_fall_as_its_moves_end() -> None:
    work = reassigned(reassignment(2), on_its_way(0, 100, 40), on_its_way(1, 1_000, 900))
    assert work.tally == MoveTally(moves_total=2, moves_done=0, bytes_total=1_100, bytes_done=160)
    work = reassigned(fated(work, Fate.MOVED, Fate.MOVING), on_its_way(1, 1_000, 800))
    assert work.tally == MoveTally(moves_total=2, moves_done=1, bytes_total=1_100, bytes_done=300)
    work = reassigned(fated(work, Fate.MOVED, Fate.MOVED))
    assert work.tally == MoveTally(moves_total=2, moves_done=2, bytes_total=1_100, bytes_done=1_100)


def test_bytes_are_not_told_before_each_move_has_told_its_size_and_then_for_ever() -> None:
    work = reassigned(reassignment(2), on_its_way(0, 100, 40), on_its_way(1, 1_000, None))
    assert work.tally == MoveTally(moves_total=2, moves_done=0, bytes_total=None, bytes_done=60)
    work = reassigned(work, on_its_way(0, 100, None), on_its_way(1, 1_000, 1_000))
    assert work.tally == MoveTally(moves_total=2, moves_done=0, bytes_total=1_100, bytes_done=60)
    assert reassigned(work).tally == work.tally, "another leader has not reported yet"


def test_a_log_that_grows_makes_no_move_larger_than_it_was() -> None:
    work = reassigned(reassignment(1), on_its_way(0, 100, 50))
    work = reassigned(work, on_its_way(0, 400, 300))
    assert work.tally == MoveTally(moves_total=1, moves_done=0, bytes_total=100, bytes_done=50)
    work = reassigned(work, on_its_way(0, 400, 100))
    assert work.tally == MoveTally(moves_total=1, moves_done=0, bytes_total=100, bytes_done=75)


def test_a_plans_move_counts_the_same_before_and_after_its_end() -> None:
    """Its log had grown; as it ended, its bytes were those of the plan again."""
    live = {("t", 0): on_its_way(0, 300, 0)}
    work = with_tally(drain(moves=2, size=1_000), [row(0, 200)], live)
    assert work.tally == MoveTally(moves_total=2, moves_done=0, bytes_total=1_000, bytes_done=200)
    ended = msgspec.structs.replace(drain(moves=2, size=1_000, moved=1, bytes_moved=200), tally=work.tally)
    assert with_tally(ended, (), {}).tally == MoveTally(
        moves_total=2, moves_done=1, bytes_total=1_000, bytes_done=200
    )


def test_another_plan_adds_to_what_the_earlier_ones_have_done() -> None:
    first = with_tally(drain(moves=10, size=1_000, moved=6, bytes_moved=600), (), {})
    ordering = msgspec.structs.replace(first, execution=None, campaign=Campaign(moved=6, bytes_moved=600))
    assert with_tally(ordering, (), {}).tally == first.tally
    second = drain(Campaign(moved=6, bytes_moved=600), moves=5, size=700, moved=1, bytes_moved=100)
    assert with_tally(msgspec.structs.replace(second, tally=first.tally), (), {}).tally == MoveTally(
        moves_total=11, moves_done=7, bytes_total=1_300, bytes_done=700
    )


def test_bytes_alone_are_stored_in_thousandths() -> None:
    work = reassigned(reassignment(1), on_its_way(0, GIB, GIB))
    assert reassigned(work, on_its_way(0, GIB, GIB - 1_000_000)) == work
    assert reassigned(work, on_its_way(0, GIB, GIB - 2_000_000)).tally == MoveTally(
        moves_total=1, moves_done=0, bytes_total=GIB, bytes_done=2_000_000
    )


def test_what_moves_nothing_has_no_progress_of_moves() -> None:
    assert counted(begun(BrokerDrain(broker_id=1), "mark")) is None
    assert with_tally(begun(BrokerDrain(broker_id=1), "mark"), (), {}).tally is None


@pytest.mark.parametrize("seed", range(20))
def test_no_report_lets_the_progress_go_back(seed: int) -> None:
    """Leaders report more, less and nothing; moves end in any way."""
    random = Random(seed)
    work = reassignment(6)
    shares = []
    for _ in range(60):
        live = [
            on_its_way(n, size, random.choice([None, random.randrange(size)]))
            for n in range(6)
            if random.random() < 0.7
            for size in [random.randrange(1, 1_000)]
        ]
        before, work = work, reassigned(work, *live)
        fates = [
            random.choice([Fate.MOVED, Fate.ROLLED_BACK, Fate.TOPIC_DELETED])
            if fate is Fate.MOVING and random.random() < 0.05
            else fate
            for fate in work.fates
        ]
        work = fated(work, *fates)
        assert work.tally is not None
        if before.tally is not None:
            old, new = before.tally, work.tally
            assert new.moves_done >= old.moves_done
            assert new.bytes_done >= old.bytes_done
            assert (new.bytes_total or 0) >= (old.bytes_total or 0)
        if work.tally.bytes_total is not None:
            assert work.tally.bytes_done <= work.tally.bytes_total
            shares.append(work.tally.bytes_done / work.tally.bytes_total)
    assert shares, "no total was ever known"
    assert shares == sorted(shares), "nor does the bar"
