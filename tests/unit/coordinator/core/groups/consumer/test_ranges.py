"""The assignor `range`."""

from __future__ import annotations

from coordinator.core.groups.consumer.assigning import Subscriber
from coordinator.core.groups.consumer.ranges import share_ranges

STARTS = [0, 5, 10]
T, U = range(2)


def test_each_member_gets_a_run_of_each_topic_the_same_of_topics_alike() -> None:
    members = [Subscriber(name, None, (T, U), []) for name in ("b", "a")]
    assert share_ranges(STARTS, members) == [[3, 4, 8, 9], [0, 1, 2, 5, 6, 7]]


def test_static_members_come_first_by_their_instances() -> None:
    members = [
        Subscriber("a", None, (T,), []),
        Subscriber("y", "1", (T,), []),
        Subscriber("b", "2", (T, U), []),
    ]
    assert share_ranges(STARTS, members) == [[4], [0, 1], [2, 3, 5, 6, 7, 8, 9]]


def test_what_a_member_had_does_not_count() -> None:
    members = [Subscriber(name, None, (T,), [4]) for name in "ab"]
    assert share_ranges([0, 5], members) == [[0, 1, 2], [3, 4]]
