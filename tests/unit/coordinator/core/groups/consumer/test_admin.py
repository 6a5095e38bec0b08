"""What operators are told of `consumer` groups."""

from __future__ import annotations

import pytest

from coordinator.core.groups.consumer.requests import DescribedConsumerGroup
from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.requests import ListedGroup
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import ConsumerDesk, every, topic
from tests.kit.coordinator.group_desk import GROUP

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
    assert (member.epoch, member.assigned, member.target) == (2, every(T), every(T))


def test_describe_groups_knows_no_group_of_this_protocol(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert (desk.describe().error, desk.describe().state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_members_are_counted(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert figures_of(desk.machine.registry, 0, 0) == [
        GroupFigures(GROUP, 1, {}, unsettled_ms=0, state=ConsumerGroupState.STABLE)
    ]
