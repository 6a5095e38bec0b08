"""Targets: when they are made, and how large ones come to their members."""

from __future__ import annotations

import pytest

from coordinator.core.consumer_group_records import TargetEpoch
from coordinator.core.groups.consumer import placing
from coordinator.core.groups.consumer.groups import NextTarget
from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.consumer.targets import LOST_AGAIN_MS, answer_to
from coordinator.core.groups.figures import figures_of
from coordinator.core.groups.options import GroupOptions
from tests.kit.coordinator.consumer_desk import NOTHING, ConsumerDesk, every, topic
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.machine_desk import WALL_MS

T, U = topic("t", 4), topic("u", 2)


@pytest.fixture
def desk() -> ConsumerDesk:
    """Return a desk whose groups are too large for a step."""
    desk = ConsumerDesk(T, U, options=GroupOptions(at_once_partitions_max=3))
    desk.is_thinking = True
    return desk


def count(desk: ConsumerDesk, member_id: str) -> int:
    return sum(map(len, desk.member(member_id).target.values()))


def test_a_large_target_is_made_beside_the_loop(desk: ConsumerDesk) -> None:
    assert desk.join("a").assigned == NOTHING
    assert desk.described().state == ConsumerGroupState.ASSIGNING
    (question,) = desk.questions
    assert (question.epoch, question.assignor, question.starts) == (2, "uniform", [0, 4])
    desk.hear(question, answer_to(question))
    assert desk.member("a").target == {T.topic_id: (0, 1, 2, 3)}
    assert desk.group.target == TargetEpoch(2, WALL_MS)
    assert desk.beat("a", 1).assigned == every(T)


def test_a_small_target_is_made_at_once(desk: ConsumerDesk) -> None:
    assert desk.join("a", "u").assigned == every(U)
    assert desk.questions == []


def test_different_subscriptions_are_for_another_process_unless_in_ranges(desk: ConsumerDesk) -> None:
    desk.know(topic("t", 1), topic("u", 1))
    desk.join("a", "t", assignor="range")
    desk.wait(1_000)
    desk.join("b", "u", assignor="range")
    assert desk.questions == []
    desk.wait(1_000)
    desk.beat("a", 2, assignor="uniform")
    desk.beat("b", 3, assignor="uniform")
    desk.wait(1_000)
    assert [question.assignor for question in desk.questions] == ["uniform"]


def test_what_changes_meanwhile_is_for_the_next_target(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b")
    (question,) = desk.questions
    desk.hear(question, answer_to(question))
    assert (desk.group.epoch, desk.group.target.epoch) == (3, 2)
    assert (count(desk, "a"), count(desk, "b")) == (4, 0)
    desk.wait(1_000)
    desk.hear(desk.questions[1], answer_to(desk.questions[1]))
    assert desk.group.target.epoch == 3
    assert (count(desk, "a"), count(desk, "b")) == (2, 2)


def test_members_that_are_gone_get_nothing(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b")
    desk.beat("a", -1)
    desk.hear(desk.questions[0], answer_to(desk.questions[0]))
    assert desk.group.members.keys() == {"b"}
    assert (desk.group.epoch, desk.group.target.epoch) == (4, 2)


def test_the_process_that_has_a_members_instance_now_gets_its_part(desk: ConsumerDesk) -> None:
    desk.join("a", instance_id="i")
    desk.beat("a", -2, instance_id="i")
    desk.join("a2", instance_id="i")
    desk.hear(desk.questions[0], answer_to(desk.questions[0]))
    assert desk.member("a2").target == {T.topic_id: (0, 1, 2, 3)}


def test_an_answer_counts_once_and_only_if_it_is_waited_for(desk: ConsumerDesk) -> None:
    desk.join("a")
    question = desk.questions.pop()
    desk.beat("a", -1)
    desk.hear(question, answer_to(question))
    assert (desk.group.epoch, desk.group.target.epoch) == (3, 3)
    desk.join("a")
    late, now = question, desk.questions.pop()
    desk.hear(late, answer_to(late))
    assert desk.group.target.epoch == 3
    desk.hear(now, answer_to(now))
    desk.hear(now, answer_to(now))
    assert desk.group.target.epoch == 4


def test_a_refused_join_takes_its_question_back(desk: ConsumerDesk) -> None:
    desk.is_holding = True
    desk.start_join_consumers("a")
    question = desk.questions.pop()
    desk.refuse()
    desk.hear(question, answer_to(question))
    assert desk.machine.registry.consumers.store.latest(GROUP) is None


def test_a_lost_question_is_put_again_once_and_then_from_time_to_time(desk: ConsumerDesk) -> None:
    desk.join("a")
    for again in (True, False):
        desk.hear(desk.questions.pop(), None)
        assert bool(desk.questions) is again
        (figures,) = figures_of(desk.machine.registry, desk.now_ms, desk.wall_ms)
        assert figures.lacks_target is not again
    desk.wait(LOST_AGAIN_MS // 2)
    desk.beat("a", 1)
    desk.wait(LOST_AGAIN_MS // 2 - 1)
    assert desk.questions == []
    desk.wait(1)
    desk.hear(desk.questions[0], answer_to(desk.questions[0]))
    assert desk.group.target.epoch == desk.group.epoch == 2


def test_a_large_target_is_written_in_parts_and_counts_with_the_last(
    desk: ConsumerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "STEP_WEIGHT_MAX", 1)
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.hear(desk.questions[0], answer_to(desk.questions[0]))
    desk.wait(1_000)
    question = desk.questions[1]
    assert [one.member_id for one in question.members] == ["a", "b"]
    desk.hear(question, answer_to(question))
    assert (count(desk, "a"), count(desk, "b"), desk.group.target.epoch) == (2, 0, 2)
    assert desk.timers[NextTarget(GROUP)] == desk.now_ms
    desk.beat("b", 2)
    desk.wait(0)
    assert (count(desk, "a"), count(desk, "b"), desk.group.target.epoch) == (2, 2, 3)
    assert (desk.rebalance.to_move, desk.rebalance.moved) == (2, 0)
