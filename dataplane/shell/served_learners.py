"""The learners that fetch from this broker: who they are, and how fast they may be served.

Only replicas that are being added and that no leader waits for are bounded: a member of the maximal ISR,
even by a promise that the controller has not confirmed, holds up the high watermark and is served at once
(I2, the leader is never laxer). A learner for which nothing may be sent yet stays due in its session, so its
fetch waits as if there were no news and is looked at again when its time is up; partitions beside it in the
same fetch do not wait for it.
"""

from __future__ import annotations

from dataplane.core.leader import Leader
from dataplane.core.replica import Replica
from dataplane.core.throttle import TokenBucket
from springtide.contract.partition_state import PartitionKey

WINDOW_MS = 1_000
"""Longer than a follower's fetch waits (replica.fetch.wait.max.ms), or the rate would not be reached."""


class ServedLearners:
    """`bucket`: leader.replication.throttled.rate, None without one. `by_partition`: ids of learners of
    partitions that are led here; empty while nothing moves."""

    __slots__ = ("bucket", "by_partition")

    def __init__(self) -> None:
        self.bucket: TokenBucket | None = None
        self.by_partition: dict[PartitionKey, tuple[int, ...]] = {}

    def set_rate(self, rate: int | None, *, now_ms: int) -> None:
        if rate != (None if self.bucket is None else self.bucket.rate):
            self.bucket = None if rate is None else TokenBucket(rate, window_ms=WINDOW_MS, now_ms=now_ms)

    def note(self, key: PartitionKey, replica: Replica) -> None:
        """The replica's state may have changed."""
        state = replica.state
        if state is not None and state.adding_replicas and isinstance(replica.role, Leader):
            self.by_partition[key] = tuple(b for b in state.adding_replicas if b not in state.isr)
        elif self.by_partition:
            self.forget(key)

    def forget(self, key: PartitionKey) -> None:
        self.by_partition.pop(key, None)

    def limit(self, key: PartitionKey, replica: Replica, replica_id: int, now_ms: int) -> int | None:
        """Return the bytes that may be sent to this replica now: 0 if it has to wait, None if any number."""
        bucket = self.bucket
        if (
            bucket is None
            or replica_id not in self.by_partition.get(key, ())
            or replica_id in replica.maximal_isr
        ):
            return None
        level = bucket.level(now_ms)
        return level if level >= bucket.grant_min else 0

    def on_sent(self, size_bytes: int, *, now_ms: int) -> None:
        if self.bucket is not None:
            self.bucket.take(size_bytes, now_ms)
