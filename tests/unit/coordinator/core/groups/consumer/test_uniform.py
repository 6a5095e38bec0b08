"""The assignor `uniform`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.consumer_group_records import Partitions
from coordinator.core.groups.consumer.assigning import KnownTopic, Subscriber
from coordinator.core.groups.consumer.uniform import uniform
from tests.kit.coordinator.consumer_desk import NOTHING, some, topic

T, U, V = topic("t", 5), topic("u", 3), topic("v", 4)


def member(name: str, *topics: KnownTopic, target: Partitions = NOTHING) -> Subscriber:
    return Subscriber(name, None, topics, target)


def test_partitions_are_shared_out_in_the_order_of_topics() -> None:
    assert uniform([member("b", T, U), member("a", T, U), member("c", T, U)]) == {
        "a": some(T, 0, 1) | some(U, 1),
        "b": some(T, 2, 3) | some(U, 2),
        "c": some(T, 4) | some(U, 0),
    }


def test_an_assignment_that_is_even_with_a_remainder_stays() -> None:
    """KAFKA-18688."""
    held = {"a": some(T, 0, 1), "b": some(T, 4), "c": some(T, 2, 3)}
    assert uniform([member(name, T, target=target) for name, target in held.items()]) == held


def test_a_member_more_takes_what_makes_it_even_and_no_more() -> None:
    before = uniform([member("a", T, U), member("b", T, U)])
    after = uniform([member(name, T, U, target=before.get(name, NOTHING)) for name in "abc"])
    assert sorted(map(len, after.values())) == [2, 3, 3]
    assert after["a"] <= before["a"]
    assert after["b"] <= before["b"]


def test_unequal_subscriptions_are_as_even_as_they_can_be() -> None:
    after = uniform([member("a", T), member("b", T, V), member("c", V, target=some(V, 0, 1, 2, 3))])
    assert sorted(map(len, after.values())) == [3, 3, 3]
    assert after["c"] < some(V, 0, 1, 2, 3)


def test_without_members_or_topics_nothing_is_assigned() -> None:
    assert uniform([]) == {}
    assert uniform([member("a"), member("b", T)]) == {"a": NOTHING, "b": frozenset(T.all())}


SUBSCRIPTIONS = st.lists(st.sampled_from([T, U, V]), unique=True).map(sorted).map(tuple)


@given(before=st.lists(SUBSCRIPTIONS, max_size=5), now=st.lists(SUBSCRIPTIONS, max_size=5))
def test_each_subscribed_partition_has_one_member_that_subscribes_it_and_no_move_would_even_out(
    before: list[tuple[KnownTopic, ...]], now: list[tuple[KnownTopic, ...]]
) -> None:
    held = uniform([member(str(n), *topics) for n, topics in enumerate(before)])
    members = [member(str(n), *topics, target=held.get(str(n), NOTHING)) for n, topics in enumerate(now)]
    after = uniform(members)
    given_out = [one for partitions in after.values() for one in partitions]
    assert sorted(given_out) == sorted({one for m in members for t in m.topics for one in t.all()})
    ids = {m.member_id: {t.topic_id for t in m.topics} for m in members}
    for owner, partitions in after.items():
        assert {one.topic_id for one in partitions} <= ids[owner]
        for one in partitions:
            least = min(len(after[name]) for name in after if one.topic_id in ids[name])
            assert len(partitions) - least <= 1
    assert uniform([m._replace(target=after[m.member_id]) for m in members]) == after
