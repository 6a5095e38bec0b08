"""The log that a scrub reads next, and the bytes that may be written over a rotten range (5.7, scrubbing).

A pass reads one log from its start to its high watermark. One pass runs at a time. The log whose bytes were
read longest ago is next, but never before its interval is over. Times are wall clock, because they outlive
the process; a clock that leaps makes a pass come early or late, and has no other effect.

Mending is not fetching: bytes that a leader sent are written over a hole only if they are what was there, as
far as it can still be known: whole batches with good CRCs, in the epochs that this log's own history names,
which fill the hole to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from dataplane.core.fetch_session import FetchPosition
from dataplane.core.log_port import LogPort, RottenRange
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.wire.record_batch import CorruptBatch, crc_is_valid, iter_headers

NEVER_MS = -1
MEND_BYTES_MAX = 1024 * 1024


class ScrubProgress(msgspec.Struct):
    """The scrub's progress in one log. seen_ms: since when the log is known here. covered_ms: all that the
    log held at this time was read at or after it. started_ms: when the running pass began; NEVER_MS without
    one. base_offset: of the segment that the pass is in."""

    seen_ms: int
    covered_ms: int = NEVER_MS
    started_ms: int = NEVER_MS
    base_offset: int = 0

    @property
    def oldest_unread_ms(self) -> int:
        """Return a time; every byte of the log was read after it, or the log was unknown here before it."""
        return self.seen_ms if self.covered_ms == NEVER_MS else self.covered_ms


class ScrubOrder:
    """The order in which logs are scrubbed. `progress`: from earlier processes, by partition."""

    def __init__(self, *, interval_ms: int, progress: dict[PartitionKey, ScrubProgress]) -> None:
        self.progress = progress
        self._interval_ms = interval_ms

    def due(self, keys: Iterable[PartitionKey], wall_ms: int) -> list[PartitionKey]:
        """Return the logs to read now, in order: first a pass that an earlier process began, then what was
        read longest ago. Forgets logs that are gone."""
        progress = self.progress
        known = self.progress = {key: progress.get(key) or ScrubProgress(wall_ms) for key in keys}
        return sorted(
            (key for key, at in known.items() if at.started_ms != NEVER_MS or self._is_due(at, wall_ms)),
            key=lambda key: (known[key].started_ms == NEVER_MS, known[key].oldest_unread_ms, key),
        )

    def begin(self, key: PartitionKey, wall_ms: int) -> ScrubProgress:
        """Begin the log's pass, or continue it."""
        at = self.progress.setdefault(key, ScrubProgress(wall_ms))
        if at.started_ms == NEVER_MS:
            at.started_ms, at.base_offset = wall_ms, 0
        return at

    def on_pass_over(self, key: PartitionKey) -> None:
        at = self.progress.get(key)
        if at is not None:
            at.covered_ms, at.started_ms, at.base_offset = at.started_ms, NEVER_MS, 0

    def age_ms(self, wall_ms: int) -> int:
        """Return an upper bound of the age of the byte read longest ago; 0 without logs."""
        return max((wall_ms - at.oldest_unread_ms for at in self.progress.values()), default=0)

    def _is_due(self, at: ScrubProgress, wall_ms: int) -> bool:
        return at.covered_ms == NEVER_MS or not 0 <= wall_ms - at.covered_ms < self._interval_ms


def mend_position(log: LogPort, first_offset: int, leader_epoch: LeaderEpoch) -> FetchPosition:
    """Return the position from which a mending replica fetches, as an ordinary follower, while the leader
    does not know yet that the records of the first hole are committed. A fetch from there says only that the
    log is whole up to there, which is true. The leader's records there, in this leader epoch, would have been
    sent to the replica anyway."""
    return FetchPosition(
        first_offset,
        log.epochs.epoch_at(first_offset - 1),
        leader_epoch,
        log.log_start_offset,
        MEND_BYTES_MAX,
    )


def committed_position(log: LogPort, high_watermark: int, leader_epoch: LeaderEpoch) -> FetchPosition:
    """Return the position of a consumer that has read what is known here to be committed. A leader that lacks
    any of it answers such a fetch with an error, or that the two diverge."""
    return FetchPosition(
        high_watermark, log.epochs.epoch_at(high_watermark - 1), leader_epoch, -1, MEND_BYTES_MAX
    )


def good_ranges(
    rotten: Iterable[RottenRange], first_offset: int, next_offset: int
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets in [first_offset, next_offset) that are not rotten, in order."""
    for found in rotten:
        if found.next_offset <= first_offset:
            continue
        if found.first_offset >= next_offset:
            break
        if first_offset < found.first_offset:
            yield first_offset, found.first_offset
        first_offset = found.next_offset
    if first_offset < next_offset:
        yield first_offset, next_offset


class Unfit(Exception):
    """Bytes from the leader that are not those that were here."""


def fitting_bytes(
    records: memoryview,
    *,
    first_offset: int,
    next_offset: int,
    size_bytes: int,
    epoch_at: Callable[[int], int],
) -> tuple[int, int]:
    """Return how many of the first bytes of `records` fill the beginning of a hole, and the offset after
    them.

    first_offset, next_offset, size_bytes: of the hole. epoch_at: the log's own history. Raises Unfit.
    """
    end, expected = 0, first_offset
    try:
        for position, header in iter_headers(records):
            if header.base_offset >= next_offset or end == size_bytes:
                break
            if header.base_offset != expected or header.next_offset > next_offset:
                raise Unfit(f"a batch [{header.base_offset}, {header.next_offset}) where {expected} was due")
            epoch = epoch_at(header.base_offset)  # negative below the log's start
            if header.leader_epoch != epoch >= 0:
                raise Unfit(f"a batch of epoch {header.leader_epoch} at offset {header.base_offset}")
            if not crc_is_valid(records[position : position + header.size_bytes], header):
                raise Unfit(f"a batch with a wrong CRC at offset {header.base_offset}")
            end, expected = position + header.size_bytes, header.next_offset
    except CorruptBatch as corrupt:
        raise Unfit(f"no batches: {corrupt.reason}") from None
    if not end or end > size_bytes or (expected >= next_offset and end != size_bytes):
        raise Unfit(f"{end} bytes up to offset {expected} for {size_bytes} bytes up to {next_offset}")
    return end, expected
