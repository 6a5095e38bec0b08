"""The options of groups and committed offsets, and the bounds on what clients may keep in memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MINUTE_MS = 60_000
STRING_BYTES_MAX = 32_767
"""Records hold texts with an int16 length."""
NEW_MEMBER_TIMEOUT_MS = 5 * MINUTE_MS
"""How long a member that waits for its first generation may wait: it knows no member id yet, so it cannot
send heartbeats. Kafka's constant."""
PROTOCOLS_MAX = 1_000
"""Protocols of one member: those without a name and metadata count no bytes."""
AGAIN_MS_MIN = 1_000
"""The least pause between two looks for static members that are away: a client may name a rebalance timeout
of 0."""
EXPIRY_KEYS_PER_STEP = 5_000
EXPIRED_PER_STEP = 1_000
"""Offsets looked at, and tombstones written, by one step of the expiry: the loop must not wait for it."""


class MigrationPolicy(StrEnum):
    """Which way a group with members may go between the two protocols. With any but `disabled`, members of
    the classic protocol may join a group of the other one. A group without members always makes way."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Kafka's options under Kafka's names, and bounds that Kafka lacks.

    session_timeout_ms_min, _max: group.min.session.timeout.ms, group.max.session.timeout.ms.
    initial_delay_ms: group.initial.rebalance.delay.ms. size_max: group.max.size.
    consumer_session_bounds_ms, consumer_heartbeat_bounds_ms, assignment_interval_bounds_ms: of what groups
        may have of their own (group.consumer.min.session.timeout.ms and so on).
    metadata_max: offset.metadata.max.bytes (Kafka counts characters, so do we).
    consumer_session_ms, consumer_heartbeat_ms, consumer_size_max, assignors, assignment_interval_ms,
        migration_policy: those of group.consumer.: session.timeout.ms, heartbeat.interval.ms, max.size,
        assignors (the first is that of groups without a wish), assignment.interval.ms, migration.policy.
    at_once_partitions_max: partitions of a group whose target a step makes: some milliseconds of the loop.
        More of them, and groups whose members subscribe different topics, are for another process.
    retention_ms: offsets.retention.minutes. retention_check_ms: offsets.retention.check.interval.ms.
    members_max: members of all groups of a shard, those included that got a member id and have not joined
        with it. Each parks at most one JoinGroup and one SyncGroup.
    pending_max: members of one group that got a member id and have not joined with it.
    member_bytes_max: names and metadata of a member's protocols. shard_bytes_max: those of all members of a
        shard; also what a leader can be told of its group at most.
    transaction_bytes_max: what the end of one producer's transaction may write: below what a shard's batch
        takes, so that it is one. pending_bytes_max: the same, of all open transactions of a shard.
    producers_max: producers of which a shard keeps something. ended_retention_ms: for how long it keeps the
        end of a producer's last transaction: late deliveries come within minutes.
    """

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * MINUTE_MS
    initial_delay_ms: int = 3_000
    size_max: int = 2**31 - 1
    consumer_session_ms: int = 45_000
    consumer_session_bounds_ms: tuple[int, int] = (45_000, 60_000)
    consumer_heartbeat_ms: int = 5_000
    consumer_heartbeat_bounds_ms: tuple[int, int] = (5_000, 15_000)
    consumer_size_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    assignment_interval_ms: int = 1_000
    assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    at_once_partitions_max: int = 20_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    metadata_max: int = 4_096
    retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    retention_check_ms: int = 10 * MINUTE_MS
    members_max: int = 100_000
    pending_max: int = 10_000
    member_bytes_max: int = 256 * 1024
    shard_bytes_max: int = 64 * 1024 * 1024
    transaction_bytes_max: int = 800_000
    pending_bytes_max: int = 64 * 1024 * 1024
    producers_max: int = 200_000
    ended_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
