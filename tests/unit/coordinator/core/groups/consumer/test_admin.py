"""What operators are told of `consumer` groups, and why one was assigned anew."""

from __future__ import annotations

import pytest

from coordinator.core.groups.consumer.causes import Cause, CauseKind, Move
from coordinator.core.groups.consumer.requests import DescribedConsumerGroup
from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.requests import ListedGroup
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import ConsumerDesk, some, topic
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.machine_desk import WALL_MS

T = topic("t", 2)


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(T)


def test_a_groups_state_follows_its_members(desk: ConsumerDesk) -> None:
    def state() -> str:
        (listed,) = desk.listed().groups
        assert listed == ListedGroup(GROUP, "consumer", desk.described().state, "consumer")
        return listed.state

    desk.join("a")
    assert state() == "Stable"
    desk.join("b")
    assert state() == "Assigning"
    desk.wait(1_000)
    assert state() == "Reconciling"
    desk.beat("a", -1)
    desk.beat("b", -1)
    assert state() == "Empty"


def test_a_group_is_described_as_it_is_committed(desk: ConsumerDesk) -> None:
    assert desk.described() == DescribedConsumerGroup(ErrorCode.GROUP_ID_NOT_FOUND, GROUP, "Dead")
    desk.join("a")
    desk.is_holding = True
    desk.start_beat("a", -1)
    told = desk.described()
    assert (told.state, told.epoch, told.target_epoch, told.assignor) == ("Stable", 2, 2, "uniform")
    (member,) = told.members
    assert (member.epoch, member.assigned, member.target) == (2, frozenset(T.all()), frozenset(T.all()))


def test_describe_groups_knows_no_group_of_this_protocol(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert (desk.describe().error, desk.describe().state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_members_are_counted(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert figures_of(desk.machine.registry, 0, 0) == [GroupFigures(GROUP, 1, {})]


def test_a_new_target_says_who_caused_it_and_what_it_moves(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.join("b", instance_id="i")
    desk.beat("b", 2, instance_id="i", topics=("t", "u"))
    desk.wait(1_000)
    first, second = desk.live.assigned
    (partition,) = some(T, 1)
    assert first.causes == (Cause(2, CauseKind.JOINED, WALL_MS, "a"),)
    assert second.causes == (
        Cause(3, CauseKind.JOINED, WALL_MS, "b", "i"),
        Cause(4, CauseKind.SUBSCRIPTION, WALL_MS, "b", "i"),
    )
    assert (second.epoch, second.moves, second.moved) == (4, (Move(partition, "a", "b"),), 1)


@pytest.mark.parametrize("kind", [CauseKind.LEFT, CauseKind.SILENT, CauseKind.TOPICS])
def test_each_cause_is_told_apart(desk: ConsumerDesk, kind: CauseKind) -> None:
    desk.join("a")
    if kind is CauseKind.LEFT:
        desk.beat("a", -1)
    elif kind is CauseKind.SILENT:
        desk.wait(45_000)
    else:
        desk.know(topic("t", 3))
        desk.wait(1_000)
        desk.beat("a", 2)
    (cause,) = desk.live.assigned[-1].causes
    assert (cause.kind, cause.member_id) == (kind, "" if kind is CauseKind.TOPICS else "a")


def test_a_cause_that_was_refused_is_forgotten(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.is_holding = True
    desk.start_join_consumers("b")
    desk.refuse()
    assert desk.live.causes == []
    assert desk.group.members.keys() == {"a"}
