"""The replay of a shard's log: its records, applied to a machine by a coordinator that loads it or a standby
that follows.

Only committed batches are read, so a machine that follows never has to take anything back. An unclean
election may cut even those; then the replay is thrown away with its machine (shard.py).
"""

from __future__ import annotations

from controller.contract.partition_state import WriterId
from coordinator.core.machine import Machine, ShardRecord
from coordinator.core.opening import OPENING_KEY
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import iter_records

NO_WRITER = WriterId(-1, -1)


class ShardReplay:
    """position: the next offset to read. writer: the highest whose batches were seen. opening: the last
    opening record that was seen."""

    __slots__ = ("_floor_known", "machine", "opening", "position", "writer")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.position = 0
        self.writer = NO_WRITER
        self.opening: ShardRecord | None = None
        self._floor_known = 0

    def has_missed_deletions(self, tombstone_floor: int) -> bool:
        """Take in what is gone from the log, before what was read with it; return whether a tombstone may be
        gone that this replay had to see, because it has read a record that it deletes: it has to begin anew,
        as a follower has to (4.10, compaction)."""
        if tombstone_floor <= self.position:
            self._floor_known = self.position
        elif not self.position:
            self._floor_known = tombstone_floor
        return self._floor_known < tombstone_floor

    def read(self, batches: bytes) -> None:
        """Apply whole batches. Raise CorruptBatch before the first record of one that is not sound."""
        view = memoryview(batches)
        for place, header in iter_headers(view):
            if header.next_offset <= self.position:
                continue
            if not header.is_control:  # a control batch is the leader's own
                records = list(iter_records(view[place : place + header.size_bytes]))
                self.writer = max(self.writer, WriterId(header.producer_id, header.producer_epoch))
                for record in records:
                    if record.offset < self.position or record.key is None:
                        continue
                    found = ShardRecord(record.key, record.value)
                    if record.key == OPENING_KEY:
                        self.opening = found
                    else:
                        self.machine.apply(found, record.offset)
            self.position = header.next_offset
        self.machine.committed(self.position)
