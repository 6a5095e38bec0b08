"""Logs that are still to be made, and new logs that the controller has not been told of."""

from __future__ import annotations

import pytest

from dataplane.core.creations import PendingCreations, UntoldCreations, has_seat, may_create
from springtide.contract.lag_report import CreatedLogs
from tests.kit.dataplane.replica import TOPIC_ID, partition_state

KEYS = [(TOPIC_ID, partition) for partition in range(3)]


def wanted(*partitions: int) -> PendingCreations:
    pending = PendingCreations()
    for partition in partitions:
        pending.want(partition_state(partition=partition))
    return pending


def test_the_log_begins_under_the_latest_state_that_asked_for_it() -> None:
    pending = wanted()
    for epoch in (1, 3, 2):
        pending.want(partition_state(partition_epoch=epoch))
    assert pending.begin(count_max=9) == [partition_state(partition_epoch=3)]


def test_only_a_log_that_is_being_made_must_be_gone_before_its_end_is_settled() -> None:
    pending = wanted(0, 1, 2)
    assert pending.must_settle is False
    assert [state.partition for state in pending.begin(count_max=2)] == [0, 1]
    pending.give_up(KEYS[2])
    pending.give_up(("other", 0))
    assert pending.must_settle is False
    pending.give_up(KEYS[0])
    assert pending.must_settle is True
    assert pending.end(KEYS[0]) is None
    assert pending.must_settle is True, "until the whole slice is over"
    assert pending.end(KEYS[1]) == partition_state(partition=1)
    assert pending.must_settle is False
    assert pending.begin(count_max=9) == []


def test_a_log_that_was_given_up_twice_is_given_up_once() -> None:
    pending = wanted(0)
    pending.begin(count_max=1)
    pending.end(KEYS[0])
    pending.give_up(KEYS[0])
    assert pending.must_settle is False


# What the controller is told.

NEW = {"new_replicas": (1, 2)}


def applied(untold: UntoldCreations, *partitions: int, **state: object) -> list[bool]:
    return [untold.on_applied(partition_state(partition=n, **{**NEW, **state})) for n in partitions]


def test_a_new_log_is_told_once_and_to_each_controller() -> None:
    untold = UntoldCreations(1)
    assert applied(untold, 0, 1) == [True, True]
    (first,) = untold.next(count_max=1)
    assert first == CreatedLogs(topic_id=TOPIC_ID, partitions=(0,))
    assert untold.on_told([first]) is True
    assert untold.on_told(untold.next(count_max=9)) is False
    assert applied(untold, 0, 1) == [False, False]
    assert untold.next(count_max=9) == ()
    untold.on_full_state()
    assert applied(untold, 0) == [True]
    assert untold.next(count_max=9) == (first,)


def test_a_log_that_is_new_no_more_is_not_told_and_is_told_again_if_it_is_made_again() -> None:
    untold = UntoldCreations(1)
    for new_replicas, is_told in (((1,), True), ((), False), ((1,), True)):
        assert applied(untold, 0, new_replicas=new_replicas) == [is_told]
        assert len(untold.next(count_max=9)) == is_told
        untold.on_told(untold.next(count_max=9))


def test_a_log_of_another_broker_or_one_that_nobody_waits_for_is_not_told() -> None:
    untold = UntoldCreations(3)
    assert applied(untold, 0) == [False]
    assert untold.on_told([CreatedLogs(topic_id=TOPIC_ID, partitions=(0,))]) is False


@pytest.mark.parametrize(
    ("broker_id", "has", "may"), [(1, True, True), (2, True, False), (3, True, False), (4, False, True)]
)
def test_who_holds_what_is_committed_gets_no_empty_log(broker_id: int, has: bool, may: bool) -> None:
    """A leader, a member, one that may be elected; the first is new."""
    state = partition_state(leader=3, isr=(1,), elr=(2,), new_replicas=(1,), replicas=(1, 2, 3, 4))
    assert has_seat(state, broker_id) is has
    assert may_create(state, broker_id) is may
    assert may_create(state, broker_id, is_known_lost=True) is not has
