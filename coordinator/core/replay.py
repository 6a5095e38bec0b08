"""The replay of a shard's log: its records, applied to a machine by a coordinator that loads it or a standby
that follows.

Only committed batches are read, so a machine that follows never has to take anything back. An unclean
election may cut even those; then the replay is thrown away with its machine (shard.py).

To take a record in costs a fifth of applying it, and of a key's records only the newest counts, as after a
compaction. So a replay that has far to go takes in the newest record of each key, and applies those in the
order of the log: a log in which the same keys come again and again is replayed several times as fast.
"""

from __future__ import annotations

from itertools import islice

from coordinator.core.machine import Machine, ShardRecord
from coordinator.core.opening import OPENING_KEY
from springtide.contract.partition_state import WriterId
from springtide.wire.record_batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers
from springtide.wire.record_spans import offset_of, read_payload, read_spans, value_of

NO_WRITER = WriterId(-1, -1)
APPLIED_MAX = 4_000
"""Records that are applied at once, which takes a loop about 40 ms."""
WAITING_MAX = 50_000
"""Records that wait to be applied: about 10 MB, and as many keys can come again before they are."""


class ShardReplay:
    """position: the next offset to read. writer: the highest whose batches were seen. opening: the last
    opening record that was seen."""

    __slots__ = ("_floor_known", "_waiting", "machine", "opening", "position", "writer")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.position = 0
        self.writer = NO_WRITER
        self.opening: ShardRecord | None = None
        self._floor_known = 0
        #: The newest record of each key that is taken in and not applied, with its offset, by rising offset.
        self._waiting: dict[bytes, tuple[int, bytes | None]] = {}

    @property
    def is_applied(self) -> bool:
        """Return whether the machine's state is that of the log up to the position."""
        return not self._waiting

    def lag(self, high_watermark: int) -> int:
        """Return how many offsets below it are still to be read, and records to be applied."""
        return max(0, high_watermark - self.position) + len(self._waiting)

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
        """Take in whole batches, and apply what is too much to wait. Raise CorruptBatch before the first
        record of one that is not sound."""
        view = memoryview(batches)
        for place, header in iter_headers(view):
            if header.next_offset <= self.position:
                continue
            if not header.is_control:  # a control batch is the leader's own
                self._take_in(view[place : place + header.size_bytes], header)
                self.writer = max(self.writer, WriterId(header.producer_id, header.producer_epoch))
            self.position = header.next_offset
        if len(self._waiting) > WAITING_MAX:
            self.apply(len(self._waiting) - WAITING_MAX)

    def apply(self, count_max: int | None = APPLIED_MAX) -> None:
        """Apply the oldest of the records that wait, None: all of them."""
        waiting, machine = self._waiting, self.machine
        applied = list(islice(waiting.items(), count_max))
        for key, (offset, value) in applied:
            machine.apply(ShardRecord(key, value), offset)
            del waiting[key]
        if not waiting:
            machine.committed(self.position)
        elif applied:
            machine.committed(applied[-1][1][0] + 1)

    def _take_in(self, batch: memoryview, header: BatchHeader) -> None:
        if not crc_is_valid(batch, header):
            raise CorruptBatch("CRC does not match")
        payload = read_payload(batch, header)
        spans = read_spans(payload, header)
        records = [
            (key, offset_of(place), value_of(payload, place))
            for key, place in zip(spans.keys, spans.places, strict=True)
            if key is not None
        ]
        waiting = self._waiting
        for key, offset, value in records:
            if offset < self.position:
                continue
            if key == OPENING_KEY:
                self.opening = ShardRecord(key, value)
            else:
                waiting.pop(key, None)
                waiting[key] = (offset, value)
