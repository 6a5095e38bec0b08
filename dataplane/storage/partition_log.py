"""One replica's log on disk: segments, tail cache, leader epochs, producer states.

Appends and tail reads run in the broker's loop against the page cache and memory. `close_cleanly`,
`unlink_detached` and what makes the log durable (durability.py) may block long and are called from a thread
while the loop goes on. This module does not decide what may be truncated or deleted. It carries that out, in
an order that survives a crash between any two steps:

- truncation: recovery point lowered on disk first, newest segment dropped first, names fsynced, the cut
  fsynced before anything is written behind it;
- roll: snapshot and index of the closed segment reach the disk before the recovery point passes it;
- the recovery point never passes bytes that were not fsynced after their last change.

The first failed write or fsync ends the whole directory (health.py). Damaged bytes found by a reader raise
SuspectBytes, and a scrub checks them; damaged bytes that a cut or a copy needs end this log only
(CorruptLog).
"""

from __future__ import annotations

from collections.abc import Sequence

from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.compaction.newest import KEYS_MAX
from dataplane.core.compaction.rounds import Dirt
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.log_port import LogSlice, RottenBytes, RottenRange, TimestampHit
from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import AbortedEntry, marker_in
from dataplane.storage.compaction import CompactionPass, Rewriting
from dataplane.storage.dirt import measure_dirt
from dataplane.storage.disk import Buffer
from dataplane.storage.durability import Durability, RecoveryPoint
from dataplane.storage.epoch_file import EpochFile
from dataplane.storage.health import CorruptLog, LogHealth
from dataplane.storage.holes import Holes
from dataplane.storage.log_settings import LogSettings, PartitionId
from dataplane.storage.manifest import CompactionManifest
from dataplane.storage.reads import (
    find_max_timestamp,
    find_timestamp,
    last_batches,
    last_data_batches,
    read_segments,
)
from dataplane.storage.retention import SegmentView, segments_to_delete
from dataplane.storage.rewritten_files import rewrite_files
from dataplane.storage.round_file import RoundFile
from dataplane.storage.seal import LogSeal
from dataplane.storage.segment import Segment
from dataplane.storage.segment_list import SegmentList
from dataplane.storage.snapshots import ProducerSnapshots
from dataplane.storage.tail_cache import GATHER_BYTES_MAX, TailCache, is_kept
from dataplane.storage.timestamp_reading import TimestampReading
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import ATTRIBUTE_CONTROL, BatchHeader


class PartitionLog:
    """A LogPort on files. `recovery.open_partition_log` makes it."""

    def __init__(
        self,
        settings: LogSettings,
        directory: str,
        *,
        partition: PartitionId,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        rounds: KnownRounds,
        manifest: CompactionManifest | None = None,
    ) -> None:
        disk = settings.disk
        self.partition = partition
        self.directory = directory
        self.options = settings.options
        self.epochs = epochs
        self.producers = producers
        self.rounds = rounds
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._disk = disk
        self._health = LogHealth(disk, directory, settings.health)
        #: See LogPort. Of the directory: each append and each fetch asks it.
        self.room = settings.health.room
        self._segments = SegmentList(disk, directory, segments, snapshots, manifest)
        self._epoch_file = EpochFile(disk, self._health, epochs)
        self._round_file = RoundFile(disk, self._health, rounds)
        self.durability = Durability(
            disk,
            self._health,
            self._segments,
            self._epoch_file,
            RecoveryPoint(recovery_point, settings.on_lowered),
            round_file=self._round_file,
            now_ms=now_ms,
        )
        self.holes = Holes(disk, self._health, self._segments, epochs)
        self.seal = LogSeal(disk, self._health, self._segments, self.durability, epochs)
        self._tail = TailCache(settings.tail_budget, bytes_max=self.options.tail_bytes_max)
        self._on_cutting = settings.on_cutting
        self._last_append_ms = now_ms

    # ---- what it holds

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments, oldest first; the last is the active one."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def changes(self) -> int:
        """Return the number of cuts and deletions: see SegmentList."""
        return self._segments.changes

    def has_changed_since(self, changes: int) -> bool:
        """See SegmentList. Thread."""
        return self._segments.has_changed_since(changes)

    @property
    def compacted(self) -> CompactionManifest | None:
        """Return what the last pass of compaction left; None before the first."""
        return self._segments.manifest

    @property
    def recovery_point(self) -> int:
        return self.durability.recovery_point.offset

    @property
    def rotten(self) -> Sequence[RottenRange]:
        """See LogPort."""
        return self.holes.ranges

    def note_compacted(self, told: Compacted) -> None:
        """See LogPort."""
        self._health.check()
        self._round_file.note_told(
            told, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset
        )

    @property
    def vouched_end_offset(self) -> int:
        """See LogPort."""
        seal = self.seal
        return self.log_end_offset if seal.current is None else min(self.log_end_offset, seal.vouched_max)

    @property
    def must_vouch(self) -> bool:
        """See LogPort."""
        return self.seal.current is not None and self.seal.vouched_max < self.log_end_offset

    @property
    def seal_chain_epoch(self) -> BrokerEpoch:
        """See LogPort."""
        return self.seal.chain_epoch

    @property
    def end_of_batches(self) -> int:
        """Return the log end that the next opening will find if nothing is lost: a gap at the end has no
        bytes.
        """
        return self._segments.active.next_offset

    def size_below(self, offset: int) -> int:
        """See LogPort."""
        return self.size_bytes if offset >= self.log_end_offset else self._segments.size_below(offset)

    def is_in_memory(self, log_offset: int) -> bool:
        """Return whether `read` from this offset touches no file. If not, a shell may call it in a thread."""
        first = self._tail.first_offset
        return log_offset >= self.log_end_offset or (first is not None and log_offset >= first)

    # ---- LogPort: growing

    def append(
        self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int, are_read: bool = False
    ) -> None:
        """See LogPort. The log may keep `bytes` and read-only memoryviews in memory without copying: the
        caller must not change them afterwards. Writable buffers are copied.

        Raise ValueError, with nothing written, if the batches go back in offset or leader epoch, or the
        chunks' length differs from the headers'.
        """
        health, segments = self._health, self._segments
        if health.refusal is not None or health.directory.failure is not None:
            health.check()
        if not headers:
            return
        end_offset, size = self.log_end_offset, 0
        leader_epoch: int = self.epochs.latest
        for header in headers:
            if header.base_offset < end_offset or header.leader_epoch < leader_epoch:
                raise ValueError(
                    f"batch at {header.base_offset} of epoch {header.leader_epoch} goes back "
                    f"behind {end_offset} of epoch {leader_epoch}"
                )
            end_offset, leader_epoch = header.next_offset, header.leader_epoch
            size += header.size_bytes
        if len(chunks) > 1 and (size <= GATHER_BYTES_MAX or not all(map(is_kept, chunks))):
            chunks = (b"".join(chunks),)  # the one copy of these bytes, which the tail then keeps
        if sum(map(len, chunks)) != size:
            raise ValueError(f"headers tell of {size} bytes, chunks hold {sum(map(len, chunks))}")
        segment = segments.active
        if segment.size_bytes and self._must_roll(segment, headers[-1], size, now_ms):
            self.roll(now_ms=now_ms)
            segment = segments.active
        health.directory.has_changed = True
        try:
            segment.append(headers, chunks, now_ms=now_ms)
        except OSError as error:
            raise health.failed(error, "appending to") from error
        if not are_read:
            segment.is_unread = True
        self._tail.append(headers, chunks, size)
        segments.size_bytes += size
        self.room.on_appended(size)
        self._last_append_ms = now_ms
        if leader_epoch != self.epochs.latest:
            self._epoch_file.take_batches(headers, end_offset=self.log_end_offset)
        elif self._epoch_file.is_behind:
            self._epoch_file.write()
        self.log_end_offset = end_offset
        producers = self.producers
        for header in headers:
            if header.attributes & ATTRIBUTE_CONTROL:
                self._take_from_control(headers, chunks, now_ms=now_ms)
                break
            if header.producer_id >= 0:
                producers.update(header, now_ms=now_ms)

    def _take_from_control(
        self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int
    ) -> None:
        """Note rounds, markers and what producers wrote, from the first control batch on."""
        data = memoryview(b"".join(chunks))
        has_begun = has_rounds = False
        for header in headers:
            marker = None
            if header.is_control:
                has_begun = True
                self.rounds.on_appended(header, data)
                has_rounds = has_rounds or not header.has_producer_id
                marker = marker_in(header, data[: header.size_bytes])
            if has_begun:
                aborted = self.producers.update(header, now_ms=now_ms, marker=marker)
                if aborted is not None:
                    self._segments.take_aborted(aborted)
            data = data[header.size_bytes :]
        if has_rounds:
            self._round_file.write()

    def roll(self, *, now_ms: int) -> None:
        """Close the active segment, unless it is empty, and begin the next."""
        self._health.check()
        if self._segments.active.size_bytes:
            with self._health.guarded("rolling"):
                self._segments.roll(
                    self.producers, index_interval_bytes=self.options.index_interval_bytes, now_ms=now_ms
                )

    def _must_roll(self, segment: Segment, last: BatchHeader, size_bytes: int, now_ms: int) -> bool:
        options = self.options
        return (
            segment.size_bytes + size_bytes > options.segment_bytes
            or now_ms - segment.first_append_ms >= options.segment_ms
            or not segment.has_room_for(last, size_bytes, index_bytes_max=options.index_bytes_max)
        )

    def begin_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """See LogPort. `persist_epochs`, a flush or the first append writes the file."""
        self._health.check()
        self._epoch_file.begin(leader_epoch, start_offset=self.log_end_offset)

    def note_reconciled(self, leader_epoch: LeaderEpoch) -> None:
        """See LogPort. The note is written and made durable like a new epoch."""
        self._health.check()
        self._epoch_file.reconcile(leader_epoch)

    # ---- LogPort: reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        at_least_one: bool = True,
        from_disk: bool = False,
    ) -> LogSlice:
        """See LogPort. Read from memory if possible; else return a FileChunk of one segment. The bytes of a
        range are those of the file at the time of sending: a truncation below `next_offset` changes them.
        """
        assert self.log_start_offset <= offset <= self.log_end_offset, offset
        health = self._health
        if health.refusal is not None or health.directory.failure is not None:
            health.check()
        end_offset = min(end_offset, self.log_end_offset)
        if offset >= end_offset:
            return LogSlice((), 0, offset)
        if self.holes.ranges:
            end_offset = self.holes.good_until(offset, end_offset=end_offset)
        if not from_disk:
            held = self._tail.read(
                offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=at_least_one
            )
            if held is not None:
                return LogSlice(*held)
        with self.holes.reading(offset):
            return read_segments(
                self._segments.all,
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                at_least_one=at_least_one,
            )

    def aborted_in(self, first_offset: int, end_offset: int) -> Sequence[AbortedEntry]:
        """See LogPort."""
        segments = self._segments
        if not segments.has_aborted:
            return ()
        try:
            with self._health.guarded("reading"):
                return segments.aborted_in(first_offset, end_offset)
        except CorruptLog as error:
            raise self._health.condemn(error) from None

    def check_aborted(self) -> list[str]:
        """Build again what is torn of the segments' indexes of aborted transactions. Return their names."""
        if not self._segments.has_aborted:
            return []
        return [
            f"{segment.base_offset:020d}.txnindex"
            for segment in self.segments
            if self._segments.check_aborted(segment)
        ]

    def last_batches(self, end_offset: int, *, first_offset: int | None = None) -> list[BatchHeader] | None:
        """See LogPort. Reads a few kilobytes from the files, when a fetch session begins."""
        self._health.check()
        if self.rotten or (first_offset is not None and first_offset < self.log_start_offset):
            return None
        with self.holes.reading(self.log_start_offset):
            return last_batches(self._segments.all, end_offset, first_offset=first_offset)

    def last_data_batches(self, count: int) -> list[BatchHeader]:
        """See LogPort. Reads a few kilobytes from the files, when a shard's leader is first written to."""
        self._health.check()
        with self.holes.reading(self.log_start_offset):
            found = last_data_batches(self._segments.all, count)
        begin = found[0].base_offset if len(found) == count else self.log_start_offset
        for rotten in self.rotten:
            if rotten.next_offset > begin:
                raise RottenBytes(rotten.reason)
        return found

    def read_in_thread(self, offset: int, *, max_bytes: int, end_offset: int) -> LogSlice:
        """Read as `read` does, from files only, while the loop goes on with the log; raise LogChanged if it
        was cut.
        """
        self._health.check()
        with self.holes.reading(None):
            return read_segments(
                self._segments.all, offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=True
            )

    def find_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampHit | None:
        self._health.check()
        with self.holes.reading(self.log_start_offset):
            return find_timestamp(
                self._segments.all,
                timestamp_ms,
                log_start_offset=self.log_start_offset,
                end_offset=end_offset,
            )

    def find_max_timestamp(self, *, end_offset: int) -> TimestampHit | None:
        self._health.check()
        with self.holes.reading(self.log_start_offset):
            return find_max_timestamp(
                self._segments.all, log_start_offset=self.log_start_offset, end_offset=end_offset
            )

    def is_lookup_cold(self, timestamp_ms: int | None) -> bool:
        """Return whether `find_timestamp` (`find_max_timestamp` if None) may have to wait for a disk: a shell
        then calls it in a thread.
        """
        segments = self._segments
        if timestamp_ms is None:
            timestamp_ms = max(segment.max_timestamp_ms for segment in segments.all)
        for segment in segments.all:
            if segment.max_timestamp_ms >= timestamp_ms:
                return segment is not segments.active or not self.is_in_memory(
                    segment.base_offset + segment.index.for_timestamp(timestamp_ms).relative_offset
                )
        return False

    # ---- LogPort: shrinking

    def truncate_to(self, offset: int) -> None:
        """See LogPort. A cut inside a batch drops the whole batch, and the end is then the batch's start."""
        self._health.check()
        if offset < self.log_start_offset:
            self.restart_at(offset)
            return
        if offset < self.log_end_offset:
            try:
                with self._health.guarded("truncating"), self._segments.changing():
                    self._cut(offset)
            except CorruptLog as error:
                raise self._health.condemn(error) from None
            self.rounds.on_cut(self.log_end_offset)
            self._round_file.write()
        if self.log_end_offset == self.log_start_offset and self.size_bytes:
            self._drop_deleted_bytes()
        self._epoch_file.truncate_from_end(self.log_end_offset)

    def _cut(self, log_offset: int) -> None:
        segments = self._segments
        place = segments.place_to_cut(log_offset, log_start_offset=self.log_start_offset)
        self._on_cutting(self.partition, place.end_of_batches)
        segments.check_aborted(segments.all[place.kept - 1])
        lowest = segments.all[place.kept - 1].base_offset
        recovery_point = self.durability.recovery_point
        with recovery_point.cutting(lowest):
            if recovery_point.offset > place.end_offset:
                recovery_point.lower(lowest)
            segments.cut(place)
        self._tail.truncate_to(place.end_offset)
        self.log_end_offset = place.end_offset
        self.seal.on_log_cut(place.end_offset)
        self.holes.forget_gone(log_start_offset=self.log_start_offset)
        if self.producers.has_batch_at_or_beyond(place.end_offset):
            self.rebuild_producers()

    def _drop_deleted_bytes(self) -> None:
        """Drop all bytes: they lie below the log start. The leader's next batches need not continue them
        (after an unclean election its epoch may be older), so the next opening must not find them in front of
        those batches. The snapshot holds their producer states.
        """
        self.roll(now_ms=self._last_append_ms)
        self.durability.flush()
        detached = self.detach_old_segments()
        with self._health.guarded("truncating"):
            self._disk.fsync_dir(self.directory)
        self.unlink_detached(detached)

    def learn_producers(self, told: ProducerStates) -> None:
        """See LogPort. The snapshot is durable before the recovery point passes it."""
        self._health.check()
        self.producers.learn(told)
        with self._health.guarded("writing to"):
            self._segments.snapshots.write(self.producers, log_offset=self.log_end_offset)

    def rebuild_producers(self, *, is_recovery: bool = False) -> None:
        """Rebuild producer states from a snapshot and the batches after it."""
        self.producers.replace_with(
            self._segments.replay_producers(
                end_offset=self.log_end_offset, now_ms=self._last_append_ms, is_recovery=is_recovery
            )
        )

    def restart_at(self, offset: int) -> None:
        self._health.check()
        with self._health.guarded("restarting"), self._segments.changing():
            self._restart_at(offset)

    def _restart_at(self, offset: int) -> None:
        self.log_start_offset = offset
        lowest = min(offset, self.segments[0].base_offset)
        self._on_cutting(self.partition, offset)
        recovery_point = self.durability.recovery_point
        with recovery_point.cutting(lowest):
            # The log start is stored with it, before a segment is unlinked. With a start that is too high,
            # the next opening would drop what this log will hold; with a start below the recovery point, it
            # would miss the segments dropped here.
            recovery_point.lower(lowest)
            self._segments.restart(
                offset,
                index_interval_bytes=self.options.index_interval_bytes,
                now_ms=self._last_append_ms,
            )
        self._tail.clear()
        self.producers.clear(is_whole=offset == 0)
        self._epoch_file.clear()
        self._round_file.clear()
        self.log_end_offset = offset
        self.seal.on_log_cut(offset)
        self.holes.forget_gone(log_start_offset=offset)

    def condemn(self, detail: str) -> None:
        """See LogPort."""
        self._health.condemn(CorruptLog(detail))

    def advance_log_start(self, offset: int) -> None:
        """See LogPort. The caller keeps it at or below the high watermark (I26, start, high watermark and end
        in order)."""
        if offset > self.log_end_offset:
            raise ValueError(f"log start {offset} beyond the end {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epoch_file.truncate_from_start(offset)
            self.holes.forget_gone(log_start_offset=offset)

    # ---- retention

    def apply_retention(
        self,
        *,
        now_ms: int,
        expiry_ms: int | None,
        retention_ms: int,
        retention_bytes: int,
        high_watermark: int,
    ) -> list[str]:
        """Delete what the limits allow (retention.py) and what lies below the log start. The files are
        renamed at once; the caller gives their names to `unlink_detached`, in a thread. A new segment gets
        the time now_ms.
        """
        self._health.check()
        count = segments_to_delete(
            self._segment_views(),
            expiry_ms=expiry_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            high_watermark=high_watermark,
        )
        if count:
            if count == len(self.segments):
                self.roll(now_ms=now_ms)
            self.advance_log_start(min(self.segments[count].base_offset, high_watermark))
        return self.detach_old_segments()

    def due_to_be_read(
        self, *, expiry_ms: int | None, retention_ms: int, retention_bytes: int, high_watermark: int
    ) -> TimestampReading | None:
        """Return the reading of the first segment that would go by time, were its records read."""
        self._health.check()
        views = self._segment_views()
        goes, would_go = (
            segments_to_delete(
                each,
                expiry_ms=expiry_ms,
                retention_ms=retention_ms,
                retention_bytes=retention_bytes,
                high_watermark=high_watermark,
            )
            for each in (views, [view._replace(is_read=True) for view in views])
        )
        return TimestampReading(self._segments, self.segments[goes]) if goes < would_go else None

    def read_timestamps(self, reading: TimestampReading, *, bytes_max: int) -> bool:
        """Read on; return whether that was all. Thread. Raise LogChanged, LogError."""
        self._health.check()
        with self.holes.reading(None):
            return reading.read_on(bytes_max)

    def _segment_views(self) -> list[SegmentView]:
        return [
            SegmentView(
                each.base_offset, each.next_offset, each.size_bytes, each.latest_ms, not each.is_unread
            )
            for each in self.segments
        ]

    def detach_old_segments(self) -> list[str]:
        """Take the segments that lie wholly below the log start out of the log and rename their files."""
        changes = self._segments.changes
        with self._health.guarded("deleting from"):
            detached = self._segments.detach_below(self.log_start_offset)
        if self._segments.changes != changes:
            self.holes.forget_gone(log_start_offset=self.log_start_offset)
        return detached

    def unlink_detached(self, paths: Sequence[str]) -> None:
        """Close and unlink the files. Thread: unlinking a large file takes long."""
        with self._health.guarded("deleting from"):
            self._segments.close_detached()
            for path in paths:
                self._disk.unlink(path)

    # ---- compaction

    def measure_dirt(
        self, *, clean_to: int, high_watermark: int, young_ms: int | None, has_max_lag: bool
    ) -> Dirt:
        """See dirt.py. Thread. Raise LogChanged, LogError."""
        self._health.check()
        with self.holes.reading(self.log_start_offset):
            return measure_dirt(
                self._segments.all,
                clean_to=clean_to,
                high_watermark=high_watermark,
                young_ms=young_ms,
                has_max_lag=has_max_lag,
            )

    def roll_for_compaction(self, *, now_ms: int, max_lag_ms: int) -> None:
        """Close the active segment if a record in it may be older than the greatest lag, so that a round can
        reach it; not for the sake of the last round's own record."""
        active, last = self._segments.active, self.rounds.last_placed
        is_round_alone = last is not None and (active.base_offset, active.next_offset) == (
            last.offset,
            last.offset + 1,
        )
        if now_ms - active.first_append_ms > max_lag_ms and not is_round_alone:
            self.roll(now_ms=now_ms)

    def begin_compaction(
        self,
        placed: PlacedRound,
        *,
        now_ms: int,
        keys_max: int = KEYS_MAX,
        rewriting: Rewriting = rewrite_files,
    ) -> CompactionPass:
        """Begin a pass (compaction.py) that applies a round, whose record is committed. The caller ends one
        pass before it begins the next. rewriting: what writes the files.
        """
        self.finish_compaction()
        if self._segments.active.base_offset < placed.round_.end_offset:
            self.roll(now_ms=now_ms)
        self.rounds.on_begun(placed)
        return CompactionPass(
            self._disk,
            self._health,
            self._segments,
            placed,
            from_offset=self.rounds.reaches,
            aborted=self.aborted_in(self.segments[0].base_offset, self.log_end_offset),
            on_swapped=self._on_pass,
            durability=self.durability,
            epochs=self.epochs,
            holes=self.holes,
            options=self.options,
            rewriting=rewriting,
            keys_max=keys_max,
        )

    def _on_pass(self, placed: PlacedRound, reaches: int) -> None:
        """Memory forgets what is gone, so that all readers meet the same records."""
        self.rounds.on_pass(placed, reaches=reaches)
        first_offset = self._tail.first_offset
        if first_offset is not None and first_offset < reaches:
            self._tail.clear()

    def finish_compaction(self) -> None:
        """Let the segments of a committed pass take the place of those that it replaces, unless a change of
        the log has done it.
        """
        self._health.check()
        with self._health.guarded("compacting"):
            self._segments.swap()
        self.holes.forget_gone(log_start_offset=self.log_start_offset)

    # ---- stopping

    def write_for_close(self) -> None:
        """Write all that the next start needs to avoid a scan. A flush follows."""
        self._health.check()
        with self._health.guarded("closing"):
            self._segments.close(self.producers)

    def close_cleanly(self) -> None:
        """Make everything durable, then refuse all use."""
        self.write_for_close()
        self.durability.flush()
        self.abandon()

    def abandon(self) -> None:
        """Refuse all use from now on and write nothing more (deleted, quarantined, closed)."""
        with self._segments.commit_lock:
            self._health.close()
        self._tail.clear()
