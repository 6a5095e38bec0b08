"""One member's way to its target: the table of KIP-848."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coordinator.core.consumer_group_records import CurrentAssignment
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.reconcile import Goal, reconcile
from coordinator.core.groups.consumer.state import MemberState
from coordinator.core.topic_partitions import PartitionsByTopic, StampedPartitions, stamp, without
from tests.kit.coordinator.consumer_desk import NOTHING, some, topic

T, U = topic("t", 4), topic("u", 4)
STABLE, UNREVOKED, UNRELEASED = MemberState
ONE_EACH = {**some(T, 0), **some(U, 1)}


def goal(
    target: PartitionsByTopic,
    epoch: int = 6,
    *,
    topics: Iterable[KnownTopic] = (T, U),
    has_changed: bool = False,
    free: PartitionsByTopic | None = None,
) -> Goal:
    """free: None: all that is asked for."""

    def free_of(asked: StampedPartitions) -> StampedPartitions:
        return asked if free is None else without(asked, without(asked, free))

    return Goal(
        epoch,
        target,
        lambda: frozenset(one.topic_id for one in topics),
        has_changed,
        free_of,
    )


def at(
    epoch: int, state: MemberState, assigned: PartitionsByTopic, revoking: PartitionsByTopic = NOTHING
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=stamp(assigned, 3),
        revoking=stamp(revoking, 3),
    )


def test_at_the_target_nothing_changes() -> None:
    now = at(6, STABLE, some(T, 0))
    assert reconcile(now, goal(some(T, 0, 1)), some(T, 0)) is now


def test_what_is_free_is_taken_at_the_targets_epoch_and_stamped_with_it() -> None:
    after = reconcile(at(5, STABLE, some(T, 0)), goal(some(T, 0, 1)), None)
    assert (after.epoch, after.previous_epoch, after.state) == (6, 5, STABLE)
    assert after.assigned == {T.topic_id: {0: 3, 1: 6}}


@pytest.mark.parametrize("owned", [None, some(T, 0, 1)])
def test_what_has_to_go_goes_first_at_the_old_epoch(owned: PartitionsByTopic | None) -> None:
    after = reconcile(at(5, STABLE, some(T, 0, 1)), goal(some(T, 0, 2)), owned)
    assert after == at(5, UNREVOKED, some(T, 0), some(T, 1))


@pytest.mark.parametrize("owned", [None, some(T, 1)])
def test_a_member_that_still_shows_what_it_was_to_give_up_stays(owned: PartitionsByTopic | None) -> None:
    now = at(5, UNREVOKED, some(T, 0), some(T, 1))
    assert reconcile(now, goal(some(T, 0, 2)), owned) is now


def test_a_member_that_has_given_up_goes_on_and_may_get_the_same_again() -> None:
    after = reconcile(at(5, UNREVOKED, some(T, 0), some(T, 1)), goal(some(T, 0, 1)), some(T, 0))
    assert (after.epoch, after.state, after.revoking) == (6, STABLE, {})
    assert after.assigned == {T.topic_id: {0: 3, 1: 6}}


def test_what_others_have_is_waited_for_with_each_heartbeat() -> None:
    waiting = goal(some(T, 0, 1), free=some(T, 0))
    after = reconcile(at(5, STABLE, NOTHING), waiting, NOTHING)
    assert (after.epoch, after.state, after.assigned) == (6, UNRELEASED, stamp(some(T, 0), 6))
    then = reconcile(after, goal(some(T, 0, 1)), None)
    assert (then.epoch, then.previous_epoch, then.state) == (6, 5, STABLE)
    assert then.assigned == stamp(some(T, 0, 1), 6)


@pytest.mark.parametrize(("owned", "state"), [(ONE_EACH, UNREVOKED), (some(T, 0), STABLE)])
def test_a_topic_that_is_not_subscribed_any_more_goes_before_a_target_says_so(
    owned: PartitionsByTopic, state: MemberState
) -> None:
    """KAFKA-19431."""
    only_t = goal(ONE_EACH, topics=[T], has_changed=True)
    after = reconcile(at(6, STABLE, ONE_EACH), only_t, owned)
    assert after == at(6, state, some(T, 0), some(U, 1) if state is UNREVOKED else NOTHING)


def test_a_target_of_a_topic_that_is_not_subscribed_is_not_taken() -> None:
    after = reconcile(at(5, STABLE, NOTHING), goal({**some(T, 0), **some(U, 0)}, topics=[T]), NOTHING)
    assert after.assigned == stamp(some(T, 0), 6)


def test_a_member_of_a_later_release_that_holds_nothing_goes_on() -> None:
    later = CurrentAssignment(epoch=5, previous_epoch=4, state=9)
    assert reconcile(later, goal(some(T, 0)), NOTHING).state == STABLE
