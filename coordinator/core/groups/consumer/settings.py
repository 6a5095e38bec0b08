"""Settings of one `consumer` group: its own, as the controller tells them, or else its coordinator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.core.groups.options import GroupOptions


class GroupSettings(NamedTuple):
    """Milliseconds: the session of members; the pause between heartbeats that they are told; the least time
    between two assignments."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int


def settings_of(options: GroupOptions, configs: Mapping[str, str]) -> GroupSettings:
    """Return what applies to a group. configs: its own settings, by Kafka's names, as the controller has
    checked them; within the coordinator's bounds, which may have moved since (KIP-1240)."""

    def own(name: str, default: int, bounds: tuple[int, int]) -> int:
        text = configs.get(name)
        return default if text is None else min(max(int(text), bounds[0]), bounds[1])

    return GroupSettings(
        own("consumer.session.timeout.ms", options.consumer_session_ms, options.consumer_session_bounds_ms),
        own(
            "consumer.heartbeat.interval.ms",
            options.consumer_heartbeat_ms,
            options.consumer_heartbeat_bounds_ms,
        ),
        own(
            "consumer.assignment.interval.ms",
            options.assignment_interval_ms,
            options.assignment_interval_bounds_ms,
        ),
    )
