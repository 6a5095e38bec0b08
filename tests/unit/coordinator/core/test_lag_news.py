"""Each group's lag is told once after each look, as many in a heartbeat as fit, those that waited first."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lag_news import LagNews, lag_of
from coordinator.core.lags import Lag
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    LAG_BYTES_TOLD_MAX,
    TOPICS_PER_GROUP_TOLD_MAX,
    GroupLag,
    TopicLag,
)
from springtide.wire.questions import Place


def figures(group_id: str, *places: Place, members: int = 1) -> GroupFigures:
    return GroupFigures(group_id, members, dict.fromkeys(places, CommittedOffset(1, -1, "", 0)))


def test_a_groups_lag_is_summed_by_topic_and_over_all() -> None:
    group = figures("billing", ("orders", 0), ("orders", 1), ("returns", 0), members=2)
    lags = {("orders", 0): Lag(10, 2_500), ("orders", 1): Lag(5, 4_000), ("returns", 0): Lag(90, 100)}
    assert lag_of(group, lags, age_ms=7) == GroupLag(
        "billing", 2, 105, 4_000, 7, (TopicLag("returns", 90, 100), TopicLag("orders", 15, 4_000))
    )


@pytest.mark.parametrize("known", [{}, {("a", 0): Lag(3, 9)}, {("a", 1): Lag(3, 9)}])
def test_what_is_not_known_of_a_partition_is_not_known_of_the_sum(known: dict[Place, Lag]) -> None:
    told = lag_of(figures("g", ("a", 0), ("a", 1), ("b", 0)), known | {("b", 0): Lag(1, 2)}, age_ms=0)
    late = 9 if known else -1
    assert (told.records, told.topics) == (-1, (TopicLag("b", 1, 2), TopicLag("a", -1, late)))


def test_a_group_without_offsets_has_no_lag_that_is_known() -> None:
    assert lag_of(figures("new"), {}, age_ms=0) == GroupLag("new", 1, -1, -1, 0)


def test_of_many_topics_those_are_told_that_the_group_is_farthest_behind_in() -> None:
    places = [(f"t{number}", 0) for number in range(TOPICS_PER_GROUP_TOLD_MAX + 2)]
    told = lag_of(figures("g", *places), {place: Lag(n, n) for n, place in enumerate(places)}, age_ms=0)
    assert [one.topic for one in told.topics] == [topic for topic, _ in places[:1:-1]]
    assert told.records == sum(range(len(places))), "the sum is of all"


def test_each_group_is_told_once_a_look_with_the_age_of_the_look() -> None:
    news = LagNews()
    assert news.take(0) == ()
    news.see([figures("a"), figures("b" * (GROUP_ID_CHARS_MAX + 1))], {}, 1_000)
    assert [(told.group_id, told.age_ms) for told in news.take(1_500)] == [("a", 500)]
    assert news.take(2_000) == ()
    news.see([figures("a")], {}, 6_000)
    assert [told.group_id for told in news.take(6_000)] == ["a"]


def test_many_groups_have_turns_and_a_new_look_does_not_put_the_waiting_last() -> None:
    groups = [figures(f"group-{number:05}", ("orders", 0)) for number in range(4_000)]
    lags = {group.group_id: {("orders", 0): Lag(7, 7)} for group in groups}
    news, told = LagNews(), []
    for look in range(4):
        news.see(groups, lags, look * 5_000)
        first = news.take(look * 5_000)
        assert LAG_BYTES_TOLD_MAX * 0.95 < len(msgspec.json.encode(first)) <= LAG_BYTES_TOLD_MAX + 2
        told += [one.group_id for one in first]
    assert len(set(told)) == len(told), "none twice before each had its turn"
    news.see(groups[:1_000], lags, 20_000)
    while first := news.take(20_000):
        told += [one.group_id for one in first]
    assert set(told) >= {group.group_id for group in groups[:1_000]}


def test_one_that_is_larger_than_all_room_is_told_alone() -> None:
    topics = [("t" * 400 + str(number), 0) for number in range(TOPICS_PER_GROUP_TOLD_MAX)]
    news = LagNews()
    news.see([figures("\x00" * GROUP_ID_CHARS_MAX, *topics), figures("b")], {}, 0)
    assert [len(news.take(0)), len(news.take(0)), len(news.take(0))] == [1, 1, 0]
