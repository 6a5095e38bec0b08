"""What makes a run fail, one rule each, and what is written down of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.checker.history import Item, Operation
from tests.faults.jepsen2013.divergent_copies import Copy
from tests.faults.jepsen2013.report import (
    Result,
    failures,
)
from tests.faults.jepsen2013.tally import Write
from tests.kit.jepsen import EVERYBODY_SEES, course, result, send, value_of

SENDS = [
    send(0, 0, at=1, until=1.1, offset=0),
    send(1, 1, at=1, until=1.1, offset=0),
    send(2, 2, at=1, until=1.1, offset=0),
    send(5, 0, at=16, until=18, error="NOT_ENOUGH_REPLICAS"),
]
KEPT: dict[int, list[Item]] = {p: [(0, value_of(p, p))] for p in range(3)}

ALONE = [*SENDS[:3], send(5, 0, at=16, until=16.1, offset=1), send(6, 1, at=17, until=17.1, offset=1)]
LOST = [Write(5, 0, 1, value_of(5, 0)), Write(6, 1, 1, value_of(6, 1))]
COPIES = {
    write: (Copy(1, write.partition, 2, f"/data/divergent/{write.partition}.batches", ()),) for write in LOST
}


def ours(sends: list[Operation] = SENDS, *, total: int = 4, **changes: Any) -> Result:
    return replace(result(sends, KEPT, total=total), **changes)


def control() -> Result:
    return result(ALONE, KEPT, total=5, is_control=True, found=COPIES)


def test_two_good_runs_have_no_failures() -> None:
    assert failures(ours()) == []
    assert failures(control()) == []


def test_our_losses_fail_and_are_named() -> None:
    told = failures(result(ALONE, KEPT, total=5))
    assert "lost: 5 at offset 1 of partition 0" in told
    assert "acknowledged alone by the isolated leader: 6 at offset 1 of partition 1" in told
    assert any("lost-acked" in line for line in told)


def test_a_control_that_loses_nothing_proves_nothing() -> None:
    told = failures(result(SENDS, KEPT, total=4, is_control=True))
    assert told == ["control: nothing was lost: the schedule proves nothing"]


def test_a_loss_without_a_copy_is_silent_and_fails_the_control() -> None:
    missing = replace(control(), found={LOST[0]: COPIES[LOST[0]], LOST[1]: ()})
    (told,) = failures(missing)
    assert told == "control: lost silently, no replica has a copy: 6 at offset 1 of partition 1"


def test_a_schedule_in_which_nobody_met_the_isolated_leader_proves_nothing() -> None:
    assert failures(ours(SENDS[:3], total=3)) == [
        "no write met the isolated leader: the schedule proves nothing"
    ]


def test_writes_that_waited_for_the_next_leader_have_met_the_isolated_one() -> None:
    waited = send(5, 0, at=16, until=28, offset=1)
    kept = {**KEPT, 0: [*KEPT[0], (1, value_of(5, 0))]}
    assert failures(result([*SENDS[:3], waited], kept, total=4)) == []


def test_an_isr_that_did_not_shrink_before_the_second_cut_is_not_the_schedule() -> None:
    told = failures(ours(course=replace(course(), seen=EVERYBODY_SEES)))
    assert any("never shrank" in line for line in told)


def test_healthy_partitions_have_to_go_on() -> None:
    stuck = [*SENDS, *(send(7 + 5 * n, 2, at=12, until=30) for n in range(3))]
    assert failures(ours(stuck, total=7)) == [
        "25.0 % of the writes to healthy partitions succeeded; 95 % is the least"
    ]


def test_partitions_that_take_no_writes_after_the_healing_fail() -> None:
    never = result(SENDS, KEPT, total=4, is_writable=False)
    assert failures(never) == ["all partitions took writes again never; 15 s are allowed"]
    late = ours()
    late = replace(late, tally=replace(late.tally, writable_seconds={0: 1.0, 1: 15.2}))
    assert failures(late) == ["all partitions took writes again after 15.2 s; 15 s are allowed"]


def test_a_drain_that_did_not_end_fails() -> None:
    (told,) = failures(ours(unread=frozenset({3, 1})))
    assert told == "the drain did not reach the end of partitions [1, 3]"
