"""The assignor `range`."""

from __future__ import annotations

from coordinator.core.groups.consumer.assigning import Subscriber
from coordinator.core.groups.consumer.ranges import share_ranges
from tests.kit.coordinator.consumer_desk import NOTHING, some, topic

T, U = topic("t", 5), topic("u", 5)


def test_each_member_gets_a_run_of_each_topic_the_same_of_topics_alike() -> None:
    members = [Subscriber(name, None, (T, U), NOTHING) for name in ("b", "a")]
    assert share_ranges(members) == {
        "a": some(T, 0, 1, 2) | some(U, 0, 1, 2),
        "b": some(T, 3, 4) | some(U, 3, 4),
    }


def test_static_members_come_first_by_their_instances() -> None:
    members = [
        Subscriber("a", None, (T,), NOTHING),
        Subscriber("y", "1", (T,), NOTHING),
        Subscriber("b", "2", (T, U), NOTHING),
    ]
    assert share_ranges(members) == {
        "y": some(T, 0, 1),
        "b": some(T, 2, 3) | frozenset(U.all()),
        "a": some(T, 4),
    }


def test_what_a_member_had_does_not_count() -> None:
    members = [Subscriber(name, None, (T,), some(T, 4)) for name in "ab"]
    assert share_ranges(members)["a"] == some(T, 0, 1, 2)
