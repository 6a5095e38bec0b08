"""Static members: they leave for a while, return under another member id, and are not taken for another."""

from __future__ import annotations

import pytest

from coordinator.core.groups.consumer.state import AWAY
from coordinator.core.groups.options import GroupOptions
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import NOTHING, ConsumerDesk, some, topic
from tests.kit.coordinator.consumer_rules import check_consumers

T = topic("t", 4)


@pytest.fixture
def desk() -> ConsumerDesk:
    """s has 0 and 1, a has 2 and 3, both at epoch 3."""
    desk = ConsumerDesk(T)
    desk.join("s", instance_id="i")
    desk.join("a")
    desk.wait(1_000)
    desk.beat("s", 2, instance_id="i")
    desk.beat("s", 2, instance_id="i", owned=some(T, 0, 1))
    desk.beat("a", 2)
    return desk


def test_a_static_member_that_leaves_for_a_while_keeps_what_it_has(desk: ConsumerDesk) -> None:
    reply = desk.beat("s", AWAY, instance_id="i")
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, AWAY)
    assert desk.member("s").current.epoch == AWAY
    assert desk.group.epoch == 3
    assert desk.beat("a", 3).assigned is None
    assert desk.error("s", 3, instance_id="i") is ErrorCode.FENCED_MEMBER_EPOCH


def test_it_returns_under_another_member_id_without_a_new_target(desk: ConsumerDesk) -> None:
    desk.beat("s", AWAY, instance_id="i")
    reply = desk.join("s2", instance_id="i")
    assert (reply.member_epoch, reply.assigned) == (3, some(T, 0, 1))
    assert (desk.group.epoch, desk.group.target.epoch) == (3, 3)
    assert desk.error("s", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("s", 3, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.error("s", -1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


def test_with_another_subscription_its_return_assigns_anew(desk: ConsumerDesk) -> None:
    desk.beat("s", AWAY, instance_id="i")
    desk.wait(1_000)
    assert desk.join("s2", "u", instance_id="i").assigned == NOTHING
    assert desk.group.epoch == 4
    assert desk.member("a").target == {T.topic_id: tuple(range(T.partitions))}


def test_what_it_was_to_give_up_is_free_once_it_leaves_for_a_while(desk: ConsumerDesk) -> None:
    desk.join("b")
    desk.wait(1_000)
    desk.beat("s", 3, instance_id="i")
    assert desk.revoking("s") == some(T, 1)
    desk.beat("s", AWAY, instance_id="i")
    assert desk.group.owners[T.topic_id].keys() == {0, 2, 3}


def test_one_that_does_not_return_is_given_up_after_its_session(desk: ConsumerDesk) -> None:
    desk.beat("s", AWAY, instance_id="i")
    for _ in range(9):
        desk.wait(5_000)
        desk.beat("a", desk.member("a").current.epoch)
    assert set(desk.group.members) == {"a"}


def test_an_instance_that_is_in_use_is_not_taken(desk: ConsumerDesk) -> None:
    assert desk.join("other", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_whose_join_was_not_answered_is_not_refused_because_of_itself(
    desk: ConsumerDesk,
) -> None:
    """apache/kafka#23542."""
    assert desk.join("s", instance_id="i").assigned == some(T, 0, 1)


def test_an_instance_that_is_not_known_has_no_member(desk: ConsumerDesk) -> None:
    assert desk.error("a", 3, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("a", AWAY, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_returns_to_a_full_group(desk: ConsumerDesk) -> None:
    """KAFKA-20601."""
    desk.beat("s", AWAY, instance_id="i")
    desk.options = GroupOptions(consumer_size_max=2)
    desk.fail_over()
    assert desk.join("s2", instance_id="i").assigned == some(T, 0, 1)
    assert desk.join("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_one_whose_return_is_refused_for_lack_of_room_is_given_up_after_its_session(
    desk: ConsumerDesk,
) -> None:
    """What it subscribes now is more than a shard keeps: nothing is changed by that."""
    desk.options = GroupOptions(shard_bytes_max=20)
    desk.fail_over()
    desk.beat("s", AWAY, instance_id="i")
    assert desk.join("s2", "u" * 30, instance_id="i").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join_classic("", "u" * 30, instance_id="i").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(desk.group.members) == {"s", "a"}
    check_consumers(desk.machine.registry)
    desk.wait(45_000)
    assert not desk.group.members
