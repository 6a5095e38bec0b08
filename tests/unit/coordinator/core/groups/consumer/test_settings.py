"""A group's own settings apply to it at once, and within its coordinator's bounds (KIP-1240)."""

from __future__ import annotations

from coordinator.core.groups.consumer.settings import GroupSettings, settings_of
from coordinator.core.groups.options import GroupOptions
from tests.kit.coordinator.consumer_desk import ConsumerDesk, topic
from tests.kit.coordinator.group_desk import GROUP

T = topic("t", 4)
OWN = {
    "consumer.session.timeout.ms": "60000",
    "consumer.heartbeat.interval.ms": "6000",
    "consumer.assignment.interval.ms": "5000",
}


def test_what_a_group_has_not_is_its_coordinators() -> None:
    options = GroupOptions(consumer_session_ms=10_000)
    assert settings_of(options, {}) == GroupSettings(10_000, 5_000, 1_000)
    assert settings_of(options, OWN) == GroupSettings(60_000, 6_000, 5_000)


def test_bounds_that_moved_clamp_what_was_set_before() -> None:
    options = GroupOptions(
        consumer_session_bounds_ms=(45_000, 50_000),
        consumer_heartbeat_bounds_ms=(7_000, 15_000),
        assignment_interval_bounds_ms=(0, 2_000),
    )
    assert settings_of(options, OWN) == GroupSettings(50_000, 7_000, 2_000)


def test_a_groups_settings_apply_to_its_members_from_their_next_heartbeat() -> None:
    desk = ConsumerDesk(T)
    assert desk.join("a").heartbeat_interval_ms == 5_000
    desk.group_configs = {GROUP: OWN, "other": {}}
    desk.know(T)
    assert desk.beat("a", 2).heartbeat_interval_ms == 6_000
    desk.wait(59_999)
    assert "a" in desk.group.members
    desk.wait(1)
    assert "a" not in desk.group.members
    assert desk.rebalance.reason.startswith("member a sent no heartbeat for 60 s")


def test_a_groups_interval_parts_its_assignments() -> None:
    desk = ConsumerDesk(T)
    desk.group_configs = {GROUP: OWN}
    desk.know(T)
    desk.join("a")
    desk.join("b")
    desk.wait(4_999)
    assert desk.group.is_due
    desk.wait(1)
    assert not desk.group.is_due
