"""The controller's tunables for one cluster, with the arithmetic they must satisfy."""

from __future__ import annotations

import msgspec

from controller.core.shards import SHARDS


class PreflightLimits(msgspec.Struct, frozen=True, kw_only=True):
    """clock_skew_ms_max: timestamps of records and retention by time rest on brokers' wall clocks, nothing
        else does; hosts under NTP differ by tens of milliseconds.
    free_bytes_min: what a log directory must have left.
    flush_ms_max: a disk that takes longer for a small append, in the median of several, is not healthy.
    report_age_ms_max: what was found longer ago than this is not known any more.
    """

    clock_skew_ms_max: int = 5_000
    free_bytes_min: int = 1 << 30
    flush_ms_max: int = 250
    report_age_ms_max: int = 15_000


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Times are milliseconds of a monotonic clock.

    lease_ms < grace_ms: a broker goes quiet before it is fenced by silence; the difference covers clock drift
        and the checking interval (PacificA section 4.2, docs/replication.md 2.9, leases). Durability rests on
        neither.
    probe_after_ms: lateness of a heartbeat that makes the listener worth a probe (two intervals).
    probe_interval_ms: the least time between two probes of one broker.
    preferred_leader_delay_ms: how long a preferred replica must have been in sync before it leads again.
    preferred_leader_moves_max: leaderships moved back per round, a round each `preferred_leader_interval_ms`.
    preferred_leader_lag_records_max: reported lag above which it is not moved.
    new_replica_confirm_ms: how long to collect confirmations of new replicas, so that one record serves all.
    vacated_per_step_max: seats that a fenced broker loses in one step, besides what it leads.
    shutdown_wait_ms_max: how long a controlled shutdown may wait for others to take over.
    stopped_alarm_ms: how long a broker that was stopped in order may stay away without an alarm.
    reassignment_stall_ms: a reassignment is shown as blocked when a target has not advanced for so long.
    throttle_behind_ms: a throttled learner must have fallen behind for so long before that is called blocked.
    producer_id_block_size: ids handed to a broker at a time (6.8, blocks of ids).
    shards: partitions of a coordinator topic (13.3, the topic). Only simulations have fewer than SHARDS.
    preflight: what a broker must show before it is admitted.
    """

    heartbeat_interval_ms: int = 500
    lease_ms: int = 5_000
    grace_ms: int = 6_000
    probe_after_ms: int = 1_000
    probe_interval_ms: int = 250
    registration_retry_ms: int = 250
    auto_leader_rebalance: bool = True
    preferred_leader_delay_ms: int = 5_000
    preferred_leader_interval_ms: int = 1_000
    preferred_leader_moves_max: int = 50
    preferred_leader_lag_records_max: int = 1_000
    new_replica_confirm_ms: int = 1_000
    vacated_per_step_max: int = 1_000
    shutdown_wait_ms_max: int = 10_000
    stopped_alarm_ms: int = 300_000
    reassignment_stall_ms: int = 60_000
    throttle_behind_ms: int = 30_000
    producer_id_block_size: int = 1_000
    shards: int = SHARDS
    partitions_per_topic_max: int = 10_000
    replication_factor_max: int = 100
    partitions_per_cluster_max: int = 1_000_000
    topics_max: int = 100_000
    brokers_max: int = 1_000
    alarms_max: int = 100_000
    preflight: PreflightLimits = PreflightLimits()

    def __post_init__(self) -> None:
        if not 0 < self.lease_ms < self.grace_ms:
            raise ValueError("grace_ms must exceed lease_ms, or brokers are fenced before they fall silent")
        if self.lease_ms < 3 * self.heartbeat_interval_ms:
            raise ValueError("lease_ms must span at least three heartbeat intervals")
