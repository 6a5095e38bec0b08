"""A coordinator's configuration: Kafka's options of groups, committed offsets and transactions."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.groups.options import MINUTE_MS, GroupOptions, MigrationPolicy
from coordinator.core.transactions.options import TransactionOptions
from springtide.node.config import NODE_HINTS, NODE_KEYS, ConfigKey, NodeConfig, between, one_of, positive

_MS_MAX = 2**31 - 1
_FIXED = (
    "a coordinator topic's settings are pinned, so that no state of a group or transaction is lost by one"
)

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
    "group.consumer.session.timeout.ms": ConfigKey(
        "45000", between(1, _MS_MAX), "how long a member of a consumer group may be silent"
    ),
    "group.consumer.heartbeat.interval.ms": ConfigKey(
        "5000", between(1, _MS_MAX), "how often members of consumer groups send heartbeats"
    ),
    "group.consumer.max.size": ConfigKey(str(_MS_MAX), between(1, _MS_MAX), "members of a consumer group"),
    "group.consumer.assignment.interval.ms": ConfigKey(
        "1000", between(0, _MS_MAX), "least time between two assignments of a consumer group"
    ),
    "group.consumer.migration.policy": ConfigKey(
        "bidirectional",
        lambda text: one_of(*MigrationPolicy)(text.lower()),
        f"which way groups with members go between the two protocols: {', '.join(MigrationPolicy)}",
    ),
    "offset.metadata.max.bytes": ConfigKey(
        "4096", between(0, 32_767), "characters of the metadata that is committed with an offset"
    ),
    "offsets.retention.minutes": ConfigKey(
        "10080", between(1, _MS_MAX), "how long offsets of an empty group are kept"
    ),
    "offsets.retention.check.interval.ms": ConfigKey(
        "600000", positive, "how often expired offsets are looked for"
    ),
    "transaction.max.timeout.ms": ConfigKey(
        "900000", between(1, _MS_MAX), "longest transaction timeout that a producer may ask for"
    ),
    "transactional.id.expiration.ms": ConfigKey(
        "604800000", between(1, _MS_MAX), "how long a transactional id is kept without a transaction"
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ConfigKey(
        "10000", between(1, _MS_MAX), "how often transactions that are open for too long are aborted"
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": ConfigKey(
        "3600000", between(1, _MS_MAX), "how often expired transactional ids are looked for"
    ),
}

_BOUNDS = "the bounds of what groups may have of their own are Kafka's defaults"

COORDINATOR_HINTS = {
    **NODE_HINTS,
    "broker.id": "use --coordinator-id",
    "node.id": "use --coordinator-id",
    "group.consumer.assignors": "they are uniform and range; most members of a group decide",
    "group.consumer.min.session.timeout.ms": _BOUNDS,
    "group.consumer.max.session.timeout.ms": _BOUNDS,
    "group.consumer.min.heartbeat.interval.ms": _BOUNDS,
    "group.consumer.max.heartbeat.interval.ms": _BOUNDS,
    "group.consumer.min.assignment.interval.ms": _BOUNDS,
    "group.consumer.max.assignment.interval.ms": _BOUNDS,
    "group.consumer.regex.refresh.interval.ms": "patterns are resolved anew with each new topic",
    "offsets.topic.num.partitions": _FIXED,
    "offsets.topic.replication.factor": _FIXED,
    "offsets.topic.segment.bytes": _FIXED,
    "transaction.state.log.num.partitions": _FIXED,
    "transaction.state.log.replication.factor": _FIXED,
    "transaction.state.log.min.isr": _FIXED,
    "transaction.state.log.segment.bytes": _FIXED,
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
            consumer_session_ms=self.number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_ms=self.number("group.consumer.heartbeat.interval.ms"),
            consumer_size_max=self.number("group.consumer.max.size"),
            assignment_interval_ms=self.number("group.consumer.assignment.interval.ms"),
            migration_policy=MigrationPolicy(self.text("group.consumer.migration.policy").lower()),
            metadata_max=self.number("offset.metadata.max.bytes"),
            retention_ms=self.number("offsets.retention.minutes") * MINUTE_MS,
            retention_check_ms=self.number("offsets.retention.check.interval.ms"),
        )

    @property
    def transaction_options(self) -> TransactionOptions:
        return TransactionOptions(
            timeout_ms_max=self.number("transaction.max.timeout.ms"),
            timeout_check_ms=self.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_ms=self.number("transactional.id.expiration.ms"),
            expiration_check_ms=self.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        )
