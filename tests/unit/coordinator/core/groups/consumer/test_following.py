"""Each rebalance of a `consumer` group says why it began, what it moved, and whom it waits for."""

from __future__ import annotations

import pytest

from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.requests import LEAVING
from coordinator.core.groups.consumer.state import AWAY
from coordinator.core.groups.consumer.targets import answer_to
from coordinator.core.groups.history import NOT_KNOWN, PARTITIONS_FOLLOWED_MAX
from coordinator.core.groups.options import GroupOptions
from springtide.contract.groups import AwaitedStep, MovedPartition, MovedPartitions
from tests.kit.coordinator.consumer_desk import NOTHING, ConsumerDesk, some, topic
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.machine_desk import WALL_MS

T = topic("t", 4)
HOST = "/10.0.0.1"


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(T)


def texts(desk: ConsumerDesk) -> list[str]:
    return [cause.text for cause in desk.rebalance.causes]


def two_members(desk: ConsumerDesk) -> None:
    """Let a and b have two partitions each, at epoch 3, a second after the beginning."""
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("a", 2)
    desk.wait(500)
    desk.beat("a", 2, owned=some(T, 0, 1))
    desk.wait(200)
    desk.beat("b", 2)


def test_the_first_member_gets_all_at_once(desk: ConsumerDesk) -> None:
    desk.join("a")
    told = desk.rebalance
    assert (told.reason, told.generation_id) == (f"member a joined from host {HOST}", 2)
    assert (told.began_ms, told.assigned_ms, told.ended_ms) == (WALL_MS, WALL_MS, WALL_MS)
    assert (told.to_move, told.moved, told.awaited_total) == (4, 4, 0)
    nobodys = tuple(MovedPartition("t", number, NOT_KNOWN) for number in range(4))
    assert told.moves == (MovedPartitions("", "a", 4, NOT_KNOWN, nobodys),)


def test_a_second_member_waits_for_the_first(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b")
    interval = "the next assignment, at most one in group.consumer.assignment.interval.ms"
    assert desk.rebalance.awaited == (AwaitedStep("", WALL_MS + 1, interval),)
    desk.wait(1_000)
    told = desk.rebalance
    assert (told.reason, told.to_move, told.moved) == (f"member b joined from host {HOST}", 2, 0)
    takes = f"to take its new assignment with its next heartbeat, from host {HOST}"
    assert told.awaited == (
        AwaitedStep("a", WALL_MS + 1_000, takes),
        AwaitedStep("b", WALL_MS + 1_000, takes),
    )
    desk.wait(300)
    desk.beat("b", 2)
    desk.beat("a", 2)
    gets = f"to get 2 partitions that others had, with its next heartbeat from host {HOST}"
    gives_up = f"to give up 2 partitions, from host {HOST}"
    assert desk.rebalance.awaited == (
        AwaitedStep("a", WALL_MS + 1_300, gives_up),
        AwaitedStep("b", WALL_MS + 1_000, gets),
    )


def test_partitions_are_without_an_owner_from_when_they_are_given_up(desk: ConsumerDesk) -> None:
    two_members(desk)
    told = desk.rebalance
    moved = (MovedPartition("t", 2, 200), MovedPartition("t", 3, 200))
    assert told.moves == (MovedPartitions("a", "b", 2, 200, moved),)
    assert (told.assigned_ms, told.ended_ms) == (WALL_MS + 1_000, WALL_MS + 1_700)


def test_a_member_that_was_silent_consumed_until_its_last_heartbeat(desk: ConsumerDesk) -> None:
    two_members(desk)
    desk.wait(10_000)
    desk.beat("a", 3)
    desk.wait(34_999)
    desk.beat("a", 3)
    desk.wait(1)
    assert texts(desk) == [
        f"member b sent no heartbeat for 45 s, its session; its last came from host {HOST}"
    ]
    desk.beat("a", 3)
    (moves,) = desk.rebalance.moves
    assert (moves.before, moves.after, moves.count, moves.unowned_ms_max) == ("b", "a", 2, 45_000)


def test_causes_until_the_next_target_are_those_of_one_rebalance(desk: ConsumerDesk) -> None:
    desk.know(T, topic("u", 1))
    desk.join("a")
    desk.join("b", instance_id="i")
    desk.beat("b", 2, instance_id="i", topics=("t", "u"))
    desk.beat("a", 2, pattern="x.*")
    assert texts(desk) == [
        f"member b (static i) joined from host {HOST}",
        "member b (static i) changed its subscription: it added u",
        "member a changed its subscription: with the pattern x.* now",
        "patterns of its members were resolved",
    ]
    kinds = ["joined", "subscription", "subscription", "topics"]
    assert [cause.kind for cause in desk.rebalance.causes] == kinds
    assert desk.rebalance.causes_total == 4
    assert desk.machine.registry.history.consumers_begun == 5


def test_a_pattern_that_matches_a_new_topic_names_it(desk: ConsumerDesk) -> None:
    desk.join("a", "t", pattern="u.*")
    desk.wait(10_000)
    desk.beat("a", 2)
    desk.know(T, topic("u1", 1))
    desk.wait(10_000)
    desk.beat("a", 3)
    desk.wait(1_000)
    assert texts(desk)[0] == "topics that its members' patterns match have changed: it added u1"


def test_what_comes_while_a_target_is_being_made_is_a_cause_of_the_next_rebalance() -> None:
    desk = ConsumerDesk(T, options=GroupOptions(at_once_partitions_max=0))
    desk.join("a")
    desk.is_thinking = True
    desk.join("b")
    desk.wait(1_000)
    assert desk.rebalance.awaited[0].what == "the assignment that is being made"
    desk.join("c")
    assert texts(desk) == [f"member b joined from host {HOST}"]
    desk.hear(desk.questions[0], answer_to(desk.questions[0]))
    _, second, third = desk.machine.registry.history.of(GROUP)
    assert [cause.member_id for cause in second.causes] == ["b"]
    assert (second.assigned_ms, second.is_superseded) == (WALL_MS + 1_000, True)
    assert [cause.member_id for cause in third.causes] == ["c"]


def test_a_target_that_was_lost_is_made_anew_with_all_causes() -> None:
    desk = ConsumerDesk(T, options=GroupOptions(at_once_partitions_max=0))
    desk.join("a")
    desk.is_thinking = True
    desk.join("b")
    desk.wait(1_000)
    desk.join("c")
    desk.hear(desk.questions[0], None)
    assert [cause.member_id for cause in desk.rebalance.causes] == ["b", "c"]
    assert desk.rebalance.assigned_ms == NOT_KNOWN


def test_members_that_leave_or_keep_partitions_are_named(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b", rebalance_timeout_ms=5_000)
    desk.wait(1_000)
    desk.beat("a", 2, rebalance_timeout_ms=5_000)
    desk.wait(5_000)
    assert texts(desk) == [
        f"member a from host {HOST} did not give up 2 partitions within its rebalance timeout of 5 s"
    ]
    desk.beat("b", LEAVING)
    assert texts(desk)[-1] == "member b left"
    assert desk.rebalance.awaited_total == 0


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ((topic("t", 6),), "topic t has 6 partitions instead of 4"),
        ((topic("t", 4, 1),), "topic t was deleted and created again, with 4 partitions"),
        ((), "topic t was deleted"),
        ((T, topic("u", 3)), "topic u exists now, with 3 partitions"),
    ],
)
def test_a_topic_that_changes_is_named(desk: ConsumerDesk, topics: tuple[KnownTopic, ...], text: str) -> None:
    desk.join("a", "t", "u")
    desk.know(*topics)
    desk.wait(1_000)
    desk.beat("a", 2)
    assert texts(desk) == [text]
    assert desk.rebalance.causes[0].member_id == ""


def test_another_assignor_is_named(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.wait(1_000)
    desk.beat("a", 2, assignor="range")
    assert texts(desk) == ["most members ask for the assignor range now, with member a"]
    assert desk.rebalance.assignor == "range"


def test_a_rebalance_that_another_overtakes_ends_with_its_beginning(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("c", 0, topics=("t",), owned=NOTHING, rebalance_timeout_ms=60_000)
    first, second, third = desk.machine.registry.history.of(GROUP)
    assert not first.is_superseded
    assert (second.is_superseded, second.ended_ms) == (True, third.began_ms)
    assert third.is_under_way


def test_a_static_member_that_comes_back_takes_over_without_a_rebalance(desk: ConsumerDesk) -> None:
    desk.join("a", instance_id="i")
    desk.beat("a", AWAY, instance_id="i")
    desk.wait(5_000)
    desk.join("a2", instance_id="i")
    assert texts(desk) == [f"member a (static i) joined from host {HOST}"]
    assert not desk.live.released
    desk.beat("a2", AWAY, instance_id="i")
    desk.join("a3", "u", instance_id="i")
    assert texts(desk) == ["member a3 (static i) came back with another subscription"]


def test_a_coordinator_that_takes_over_does_not_invent_a_cause(desk: ConsumerDesk) -> None:
    two_members(desk)
    desk.fail_over()
    told = desk.rebalance
    assert (told.reason, told.began_ms, told.ended_ms) == ("", NOT_KNOWN, WALL_MS + 1_000)
    assert texts(desk) == ["not known: the group's coordinator took it over after this rebalance began"]


def test_a_coordinator_that_takes_over_knows_who_is_awaited(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("a", 2)
    desk.fail_over()
    desk.wait(100)
    assert (desk.rebalance.reason, desk.rebalance.ended_ms) == ("", NOT_KNOWN)
    assert [one.member_id for one in desk.rebalance.awaited] == ["a", "b"]
    assert desk.rebalance.awaited[0].what == f"to give up 2 partitions, from host {HOST}"
    desk.beat("a", 2, owned=some(T, 0, 1))
    desk.beat("b", 2)
    assert (desk.rebalance.moved, desk.rebalance.ended_ms) == (2, WALL_MS + 1_100)


def test_a_change_that_was_refused_is_told_as_one(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.is_holding = True
    desk.start_join_consumers("b")
    desk.refuse()
    assert texts(desk) == [
        f"member b joined from host {HOST}",
        "a change of the group could not be stored, and was taken back",
    ]
    assert desk.rebalance.ended_ms != NOT_KNOWN
    assert desk.live.unsettled == {}


def test_a_group_that_is_deleted_is_forgotten(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.beat("a", LEAVING)
    desk.delete(GROUP)
    assert desk.machine.registry.history.of(GROUP) == ()


def test_of_a_huge_group_the_first_partitions_are_followed() -> None:
    desk = ConsumerDesk(topic("t", PARTITIONS_FOLLOWED_MAX + 50))
    desk.join("a")
    desk.beat("a", LEAVING)
    desk.join("b")
    assert desk.rebalance.moved == PARTITIONS_FOLLOWED_MAX + 50
    assert [(one.before, one.count) for one in desk.rebalance.moves] == [("a", 10_000), ("", 50)]
