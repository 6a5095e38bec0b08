"""Patterns: what they stand for, and who may learn it. KAFKA-: its issues."""

from __future__ import annotations

import time

import pytest

from coordinator.core.consumer_group_records import ResolvedPattern
from coordinator.core.groups.consumer.groups import Who
from coordinator.core.groups.consumer.patterns import (
    PATTERN_CHARS_MAX,
    PAUSE_MS,
    REFRESH_MS,
    Pattern,
    PatternQuestion,
    fault_of,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import NOTHING, ConsumerDesk, topic
from tests.kit.coordinator.machine_desk import WALL_MS

T, U, X = topic("t", 2), topic("u", 1), topic("x", 1)
ALL = "t|u|v"


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(T, U, X)


def join(desk: ConsumerDesk, member_id: str, pattern: str = ALL, **said: object) -> ErrorCode:
    return desk.join(member_id, **{"topics": (), "pattern": pattern, "principal": member_id, **said}).error


def names(desk: ConsumerDesk, member_id: str) -> set[str]:
    """Return the topics of a member's target."""
    return {one.name for one in desk.topics.values() if one.topic_id in desk.member(member_id).target}


def alive(desk: ConsumerDesk, seconds: int, principal: str = "") -> None:
    for _ in range(seconds):
        desk.wait(1_000)
        for member_id, member in sorted(desk.group.members.items()):
            said = {"owned": desk.assigned_to(member_id), "principal": principal or member_id}
            desk.beat(member_id, member.current.epoch, **said)


def questions(desk: ConsumerDesk) -> list[PatternQuestion]:
    return [one for one in desk.questions if isinstance(one, PatternQuestion)]


def test_a_pattern_stands_for_the_topics_whose_whole_names_it_matches(desk: ConsumerDesk) -> None:
    desk.know(T, U, topic("tt", 1))
    assert join(desk, "a") is ErrorCode.NONE
    alive(desk, 1)
    assert desk.group.patterns == {ALL: ResolvedPattern(("t", "u"), 2, WALL_MS)}
    assert names(desk, "a") == {"t", "u"}


def test_names_and_a_pattern_add_up(desk: ConsumerDesk) -> None:
    assert join(desk, "a", "u", topics=("x",)) is ErrorCode.NONE
    alive(desk, 1)
    assert names(desk, "a") == {"u", "x"}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing ): ("),
        ("a(?=b)", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("x" * (PATTERN_CHARS_MAX + 1), f"it has {PATTERN_CHARS_MAX + 1} characters; {PATTERN_CHARS_MAX}"),
        (r"((\pL{9}){9}){9}" * 50, "pattern too large"),
    ],
)
def test_a_pattern_that_can_not_be_used_is_refused_in_the_engines_words(
    desk: ConsumerDesk, pattern: str, words: str
) -> None:
    reply = desk.join("a", topics=(), pattern=pattern)
    assert reply.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert words in reply.message
    assert desk.records == []


def test_no_pattern_takes_long() -> None:
    """`re` would take for ever."""
    began = time.process_time()
    assert not Pattern(r"(a+)+(b|a?)+c").matches("a" * 249)
    assert time.process_time() - began < 1
    assert fault_of(r"(a+)+(b|a?)+c") == ""


def test_a_pattern_shows_what_all_of_its_subscribers_may_describe(desk: ConsumerDesk) -> None:
    """KAFKA-19147."""
    desk.denied = {("b", "u")}
    join(desk, "a")
    alive(desk, 1)
    assert names(desk, "a") == {"t", "u"}
    join(desk, "b")
    alive(desk, 2)
    assert names(desk, "b") == set(), "it waits until its rights have counted"
    assert names(desk, "a") == {"t", "u"}
    alive(desk, PAUSE_MS // 1_000)
    assert desk.group.patterns[ALL].topics == ("t",)
    assert names(desk, "a") == names(desk, "b") == {"t"}


def test_a_member_of_the_same_rights_need_not_wait(desk: ConsumerDesk) -> None:
    join(desk, "a")
    join(desk, "b", principal="a")
    alive(desk, 2, "a")
    assert names(desk, "a") | names(desk, "b") == {"t", "u"}
    assert names(desk, "b")


def test_the_answer_counts_only_if_each_subscriber_was_asked_for(desk: ConsumerDesk) -> None:
    desk.is_thinking = True
    join(desk, "a")
    (question,) = questions(desk)
    assert question.asked == {ALL: {Who("a", "10.0.0.1")}}
    join(desk, "b")
    desk.hear(question, {ALL: ("t", "u")})
    assert desk.group.patterns == {}
    alive(desk, PAUSE_MS // 1_000)
    assert questions(desk)[-1].asked == {ALL: {Who("a", "10.0.0.1"), Who("b", "10.0.0.1")}}


def test_the_answer_for_a_pattern_that_was_given_up_is_not_written(desk: ConsumerDesk) -> None:
    desk.is_thinking = True
    join(desk, "a")
    (question,) = questions(desk)
    desk.beat("a", 2, topics=("x",), pattern="")
    desk.hear(question, {ALL: ("t", "u")})
    assert desk.group.patterns == {}


def test_a_pattern_goes_with_its_last_subscriber(desk: ConsumerDesk) -> None:
    join(desk, "a")
    join(desk, "b", principal="a")
    alive(desk, 2, "a")
    desk.beat("a", -1)
    assert desk.group.patterns.keys() == {ALL}
    desk.beat("b", -1)
    assert desk.group.patterns == {}


def test_a_member_that_gives_its_pattern_up_is_assigned_anew(desk: ConsumerDesk) -> None:
    """KAFKA-19899."""
    join(desk, "a")
    alive(desk, 1)
    epoch = desk.group.epoch
    desk.beat("a", desk.member("a").current.epoch, pattern="", topics=())
    assert desk.group.epoch == epoch + 1
    assert desk.member("a").about.pattern is None
    alive(desk, 1)
    assert names(desk, "a") == set()


def test_topics_that_are_created_are_seen_within_the_pause_and_others_later(desk: ConsumerDesk) -> None:
    join(desk, "a")
    alive(desk, 1)
    desk.know(T, U, X, topic("v", 1))
    alive(desk, PAUSE_MS // 1_000 + 1)
    assert names(desk, "a") == {"t", "u", "v"}
    desk.know(T, X, topic("v", 1))
    alive(desk, 1)
    assert names(desk, "a") == {"t", "v"}
    assert desk.group.patterns[ALL].topics == ("t", "u", "v"), "what is deleted is no topic anyway"
    desk.is_thinking = True
    alive(desk, 60)
    assert questions(desk) == []


def test_rights_are_asked_for_again_from_time_to_time(desk: ConsumerDesk) -> None:
    join(desk, "a")
    alive(desk, 1)
    desk.denied = {("a", "t")}
    alive(desk, REFRESH_MS // 1_000)
    assert names(desk, "a") == {"u"}


def test_a_new_coordinator_asks_once_it_has_heard_of_all_subscribers(desk: ConsumerDesk) -> None:
    join(desk, "a")
    join(desk, "b", principal="a")
    alive(desk, 2, "a")
    desk.fail_over()
    desk.is_thinking = True
    desk.beat("a", desk.member("a").current.epoch, principal="a")
    assert questions(desk) == []
    desk.beat("b", desk.member("b").current.epoch, principal="a")
    assert len(questions(desk)) == 1
    assert names(desk, "a") | names(desk, "b") == {"t", "u"}


def test_a_member_that_had_to_wait_is_assigned_by_the_next_coordinator(desk: ConsumerDesk) -> None:
    """Which members wait is in memory alone."""
    join(desk, "a")
    alive(desk, 1)
    join(desk, "b")
    alive(desk, 2)
    assert names(desk, "b") == set()
    desk.fail_over()
    alive(desk, 3)
    assert names(desk, "b") != set()
    epoch = desk.group.epoch
    desk.fail_over()
    alive(desk, 3)
    assert desk.group.epoch == epoch, "all have their part"


def test_a_lost_question_is_put_again_after_the_pause(desk: ConsumerDesk) -> None:
    desk.is_thinking = True
    assert desk.join("a", topics=(), pattern=ALL).assigned == NOTHING
    (question,) = questions(desk)
    desk.questions.clear()
    desk.hear(question, None)
    desk.is_thinking = False
    alive(desk, PAUSE_MS // 1_000 + 1)
    assert names(desk, "a") == {"t", "u"}
