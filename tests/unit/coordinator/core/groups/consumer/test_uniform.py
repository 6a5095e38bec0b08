"""The assignor `uniform`."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.groups.consumer.assigning import Subscriber
from coordinator.core.groups.consumer.uniform import uniform

STARTS = [0, 5, 8, 12]
T, U, V = range(3)
OF_TOPIC = [range(start, end) for start, end in pairwise(STARTS)]


def member(name: str, *topics: int, held: list[int] | None = None) -> Subscriber:
    return Subscriber(name, None, topics, held or [])


def assigned(members: list[Subscriber], starts: list[int] = STARTS) -> dict[str, list[int]]:
    return {one.member_id: own for one, own in zip(members, uniform(starts, members), strict=True)}


def test_partitions_are_shared_out_in_the_order_of_topics() -> None:
    assert assigned([member("b", T, U), member("a", T, U), member("c", T, U)], [0, 5, 8]) == {
        "a": [0, 1, 6],
        "b": [2, 3, 7],
        "c": [4, 5],
    }


def test_an_assignment_that_is_even_with_a_remainder_stays() -> None:
    """KAFKA-18688."""
    held = {"a": [0, 1], "b": [4], "c": [2, 3]}
    assert assigned([member(name, T, held=own) for name, own in held.items()], [0, 5]) == held


def test_a_member_more_takes_what_makes_it_even_and_no_more() -> None:
    before = assigned([member("a", T, U), member("b", T, U)], [0, 5, 8])
    after = assigned([member(name, T, U, held=before.get(name)) for name in "abc"], [0, 5, 8])
    assert sorted(map(len, after.values())) == [2, 3, 3]
    assert {*after["a"]} <= {*before["a"]}
    assert {*after["b"]} <= {*before["b"]}


def test_what_two_members_had_one_of_them_keeps() -> None:
    """Clients of the classic protocol shared out what a group had before."""
    after = assigned([member("a", T, held=[0, 1, 2]), member("b", T, held=[1, 2, 3])], [0, 5])
    assert after == {"a": [0, 1, 2], "b": [3, 4]}


def test_unequal_subscriptions_are_as_even_as_they_can_be() -> None:
    after = assigned([member("a", T), member("b", T, V), member("c", V, held=[8, 9, 10, 11])])
    assert sorted(map(len, after.values())) == [3, 3, 3]
    assert {*after["c"]} < {8, 9, 10, 11}


def test_without_members_or_topics_nothing_is_assigned() -> None:
    assert assigned([], [0]) == {}
    assert assigned([member("a"), member("b", T)], [0, 5]) == {"a": [], "b": [0, 1, 2, 3, 4]}


SUBSCRIPTIONS = st.lists(st.sampled_from([T, U, V]), unique=True).map(sorted).map(tuple)


@given(before=st.lists(SUBSCRIPTIONS, max_size=5), now=st.lists(SUBSCRIPTIONS, max_size=5))
def test_each_subscribed_partition_has_one_member_that_subscribes_it_and_no_move_would_even_out(
    before: list[tuple[int, ...]], now: list[tuple[int, ...]]
) -> None:
    held = assigned_to(before, {})
    after = assigned_to(now, held)
    given_out = [one for partitions in after.values() for one in partitions]
    assert sorted(given_out) == sorted({one for topics in now for t in topics for one in OF_TOPIC[t]})
    topics_of = {str(n): topics for n, topics in enumerate(now)}
    for owner, partitions in after.items():
        for one in partitions:
            (topic,) = (t for t in (T, U, V) if one in OF_TOPIC[t])
            assert topic in topics_of[owner]
            least = min(len(after[name]) for name in after if topic in topics_of[name])
            assert len(partitions) - least <= 1
    assert assigned_to(now, after) == after


def assigned_to(subscriptions: list[tuple[int, ...]], held: dict[str, list[int]]) -> dict[str, list[int]]:
    """Share out what is subscribed, with the numbers of all topics. Members are named by their order."""
    every = sorted({topic for topics in subscriptions for topic in topics})
    starts = [*accumulate((len(OF_TOPIC[topic]) for topic in every), initial=0)]
    spelled = [one for topic in every for one in OF_TOPIC[topic]]
    members = [
        member(
            str(n),
            *(every.index(topic) for topic in topics),
            held=[spelled.index(one) for one in held.get(str(n), ()) if one in spelled],
        )
        for n, topics in enumerate(subscriptions)
    ]
    return {name: [spelled[one] for one in own] for name, own in assigned(members, starts).items()}
