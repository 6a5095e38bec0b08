"""One replica of this broker with its log, its counters and what the topic's configuration says of it."""

from __future__ import annotations

from dataclasses import dataclass

from dataplane.core.hosted import Hosted
from dataplane.storage.partition_log import PartitionLog


@dataclass(slots=True, eq=False, kw_only=True)
class HostedPartition(Hosted):
    log: PartitionLog
    messages_in: int = 0
    #: Whether a checkpoint of this process holds a value other than 0: until then a checkpoint is due early.
    is_high_watermark_stored: bool = False
    #: From the topic's configuration; None if there is no bound.
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 2**30
    is_compacted: bool = False
    is_append_time: bool = False
    timestamp_before_ms_max: int | None = None
    timestamp_after_ms_max: int | None = None

    @property
    def is_shard(self) -> bool:
        """Whether coordinators write it. Its records are theirs, whom the leader knows by the batch's header:
        none needs a key, and their groups do not end with a wrong clock."""
        state = self.replica.state
        return self.is_compacted and state is not None and state.shard is not None

    @property
    def needs_keys(self) -> bool:
        return self.is_compacted and not self.is_shard

    def timestamp_ms_min(self, wall_ms: int) -> int | None:
        before = self.timestamp_before_ms_max
        return None if before is None or (self.is_compacted and self.is_shard) else wall_ms - before

    def timestamp_ms_max(self, wall_ms: int) -> int | None:
        after = self.timestamp_after_ms_max
        return None if after is None or (self.is_compacted and self.is_shard) else wall_ms + after
