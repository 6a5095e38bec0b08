"""A coordinator's configuration: Kafka's options of groups and committed offsets."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.groups.options import MINUTE_MS, GroupOptions
from springtide.node.config import NODE_HINTS, NODE_KEYS, ConfigKey, NodeConfig, between, positive

_MS_MAX = 2**31 - 1
_FIXED = "a coordinator topic's settings are pinned, so that no group's state is lost by one"

COORDINATOR_KEYS: dict[str, ConfigKey] = {
    **NODE_KEYS,
    "group.min.session.timeout.ms": ConfigKey(
        "6000", between(1, _MS_MAX), "shortest session timeout that a member may ask for"
    ),
    "group.max.session.timeout.ms": ConfigKey(
        "1800000", between(1, _MS_MAX), "longest session timeout that a member may ask for"
    ),
    "group.initial.rebalance.delay.ms": ConfigKey(
        "3000", between(0, _MS_MAX), "how long the first rebalance of an empty group waits for more members"
    ),
    "group.max.size": ConfigKey(str(_MS_MAX), between(1, _MS_MAX), "members of a group"),
    "offset.metadata.max.bytes": ConfigKey(
        "4096", between(0, 32_767), "characters of the metadata that is committed with an offset"
    ),
    "offsets.retention.minutes": ConfigKey(
        "10080", between(1, _MS_MAX), "how long offsets of an empty group are kept"
    ),
    "offsets.retention.check.interval.ms": ConfigKey(
        "600000", positive, "how often expired offsets are looked for"
    ),
}

COORDINATOR_HINTS = {
    **NODE_HINTS,
    "broker.id": "use --coordinator-id",
    "node.id": "use --coordinator-id",
    "offsets.topic.num.partitions": _FIXED,
    "offsets.topic.replication.factor": _FIXED,
    "offsets.topic.segment.bytes": _FIXED,
}


@dataclass(frozen=True, slots=True)
class CoordinatorConfig(NodeConfig):
    KEYS = COORDINATOR_KEYS
    HINTS = COORDINATOR_HINTS
    PROGRAM = "coordinator"

    @property
    def group_options(self) -> GroupOptions:
        return GroupOptions(
            session_timeout_ms_min=self.number("group.min.session.timeout.ms"),
            session_timeout_ms_max=self.number("group.max.session.timeout.ms"),
            initial_delay_ms=self.number("group.initial.rebalance.delay.ms"),
            size_max=self.number("group.max.size"),
            metadata_max=self.number("offset.metadata.max.bytes"),
            retention_ms=self.number("offsets.retention.minutes") * MINUTE_MS,
            retention_check_ms=self.number("offsets.retention.check.interval.ms"),
        )
