"""One replica's log on disk: segments, tail cache, leader epochs, producer states.

Appends and tail reads run in the broker's loop against the page cache and memory; `flush`, `persist_epochs`,
`close_cleanly` and `unlink_detached` may block long and are called from a thread while the loop goes on. This
module does not decide what may be truncated or deleted. It carries that out, in an order that survives a
crash between any two steps:

- truncation: recovery point lowered on disk first, newest segment dropped first, names fsynced, the cut
  fsynced before anything is written behind it;
- roll: snapshot and index of the closed segment reach the disk before the recovery point passes it;
- the recovery point never passes bytes that were not fsynced *after* their last change (KAFKA-10101): a cut
  that happens while a flush runs holds it back.

The first failed write or fsync ends the whole directory (health.py). Damaged bytes found by a reader raise
SuspectBytes, and a scrub checks them; damaged bytes that a cut or a copy needs end this log only
(CorruptLog). A segment is named by the offset where the previous one ends, so a gap in offsets lies inside a
segment and never between two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from dataplane.core.leader_epochs import CHECKPOINT_BYTES_MAX, LeaderEpochs
from dataplane.core.log_port import (
    LogChanged,
    LogError,
    LogSlice,
    RottenBytes,
    RottenRange,
    SuspectBytes,
    TimestampHit,
)
from dataplane.core.producer_state import EXPIRATION_MS, PRODUCERS_MAX, ProducerStates
from dataplane.storage.disk import Buffer, Disk, read_whole, replace, replace_durably
from dataplane.storage.health import ClosedLog, CorruptLog, DirectoryHealth
from dataplane.storage.reads import (
    find_max_timestamp,
    find_timestamp,
    last_batches,
    last_data_batches,
    read_segments,
    segment_index,
)
from dataplane.storage.retention import SegmentView, segments_to_delete
from dataplane.storage.rot import (
    CheckedSlice,
    ScrubPlace,
    check_slice,
    read_at_rest,
    read_rotten,
    write_rotten,
)
from dataplane.storage.seal import Seal, remove_seal, write_seal
from dataplane.storage.segment import TO_THE_END, Hole, Segment, create_segment, index_path, log_path
from dataplane.storage.snapshots import ProducerSnapshots
from dataplane.storage.tail_cache import GATHER_BYTES_MAX, TailCache
from springtide.wire.record_batch import BatchHeader

EPOCHS_FILE = "leader-epochs"
DAMAGED_FILE = "damaged"
"""File that records, across restarts, that bytes of this log were found damaged, and which."""
DELETED_SUFFIX = ".deleted"


class PartitionId(NamedTuple):
    """The partition that a log belongs to. The topic's name is for people; the id decides (I21, topic ids
    decide)."""

    topic_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LogOptions:
    """A topic's storage settings, under Kafka's names. If `flush_*` is None, the operating system decides."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    index_interval_bytes: int = 4096
    index_bytes_max: int = 16 * 1024 * 1024
    flush_messages: int | None = None
    flush_ms: int | None = None
    tail_bytes_max: int = 8 * 1024 * 1024
    producer_expiration_ms: int = EXPIRATION_MS
    producers_max: int = PRODUCERS_MAX


class PartitionLog:
    """A LogPort on files. `recovery.open_partition_log` makes it."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        partition: PartitionId,
        options: LogOptions,
        health: DirectoryHealth,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshots: ProducerSnapshots,
        tail: TailCache,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        on_lowered: Callable[[], None],
        on_cutting: Callable[[PartitionId, int], None],
        now_ms: int,
    ) -> None:
        assert segments, "a log has at least its active segment"
        self.partition = partition
        self.directory = directory
        self.options = options
        self.recovery_point = recovery_point
        self._disk = disk
        self._health = health
        self._segments = segments
        self.epochs = epochs
        self.producers = producers
        self._snapshots = snapshots
        self._tail = tail
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        self._on_lowered = on_lowered
        self._on_cutting = on_cutting
        self._last_append_ms = now_ms
        self._last_flush_ms = now_ms
        self._refusal: LogError | None = None
        self._flush_lock = Lock()  # one flush at a time
        self._state_lock = Lock()  # state that flush shares with the loop; never held over I/O
        self._unflushed: list[Segment] = []  # closed, not yet fsynced
        self._is_directory_unsynced = True
        self._epochs_lock = Lock()  # the history may be written in a thread while the loop adds to it
        self._is_epochs_file_behind = False
        self._is_epochs_file_unsynced = False
        self._lowest_cut: int | None = None  # since the running flush began
        self._cut_under_way: int | None = None
        self.changes = 0
        """Number of cuts and deletions, each counted before it begins. A reader in a thread compares it."""
        self._seal: Seal | None = None
        self._is_seal_durable = False
        self._changes_at_seal = 0
        self._vouched_max = 0  # while there is a seal
        self.rotten: Sequence[RottenRange] = ()

    # ---- what it holds

    @property
    def vouched_end_offset(self) -> int:
        """See LogPort."""
        return self.log_end_offset if self._seal is None else min(self.log_end_offset, self._vouched_max)

    @property
    def must_vouch(self) -> bool:
        """See LogPort."""
        return self._seal is not None and self._vouched_max < self.log_end_offset

    @property
    def seal_chain_epoch(self) -> int:
        """See LogPort."""
        return self._seal.chain_epoch if self._seal is not None and self._is_seal_durable else -1

    @property
    def is_sealed(self) -> bool:
        return self._seal is not None

    def size_below(self, offset: int) -> int:
        """See LogPort."""
        if offset >= self.log_end_offset:
            return self.size_bytes
        size = 0
        for segment in self._segments:
            if segment.next_offset > offset:
                inside = max(0, offset - segment.base_offset)
                return size + segment.size_bytes * inside // (segment.next_offset - segment.base_offset)
            size += segment.size_bytes
        return size

    @property
    def segments(self) -> list[SegmentView]:
        """Return the segments, oldest first; the last is the active one."""
        return [
            SegmentView(
                segment.base_offset,
                segment.next_offset,
                segment.size_bytes,
                segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.last_append_ms,
            )
            for segment in self._segments
        ]

    def is_in_memory(self, log_offset: int) -> bool:
        """Return whether `read` from this offset touches no file. If not, a shell may call it in a thread."""
        first = self._tail.first_offset
        return log_offset >= self.log_end_offset or (first is not None and log_offset >= first)

    # ---- LogPort

    def append(self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int) -> None:
        """See LogPort. The log may keep `bytes` and read-only memoryviews in memory without copying: the
        caller must not change them afterwards. Writable buffers are copied.

        Raise ValueError, with nothing written, if the batches go back in offset or leader epoch, or the
        chunks' length differs from the headers'.
        """
        if self._refusal is not None or self._health.failure is not None:
            self._check_usable()
        if not headers:
            return
        end_offset, leader_epoch, size = self.log_end_offset, self.epochs.latest, 0
        for header in headers:
            if header.base_offset < end_offset or header.leader_epoch < leader_epoch:
                raise ValueError(
                    f"batch at {header.base_offset} of epoch {header.leader_epoch} goes back "
                    f"behind {end_offset} of epoch {leader_epoch}"
                )
            end_offset, leader_epoch = header.next_offset, header.leader_epoch
            size += header.size_bytes
        if size <= GATHER_BYTES_MAX and len(chunks) > 1:
            chunks = (b"".join(chunks),)
        if sum(map(len, chunks)) != size:
            raise ValueError(f"headers tell of {size} bytes, chunks hold {sum(map(len, chunks))}")
        segment = self._segments[-1]
        if segment.size_bytes and self._must_roll(segment, headers[-1], size, now_ms):
            self.roll(now_ms=now_ms)
            segment = self._segments[-1]
        try:
            segment.append(headers, chunks, now_ms=now_ms)
        except OSError as error:
            raise self._health.fail(error, f"appending to {self.directory}") from error
        self._tail.append(headers, chunks, size)
        self.size_bytes += size
        self._last_append_ms = now_ms
        if leader_epoch != self.epochs.latest:
            with self._epochs_lock:
                for header in headers:
                    self.epochs.assign(header.leader_epoch, start_offset=header.base_offset)
            self._write_epochs()
        elif self._is_epochs_file_behind:
            self._write_epochs()
        producers = self.producers
        for header in headers:
            if header.producer_id >= 0:
                producers.update(header, now_ms=now_ms)
        self.log_end_offset = end_offset

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
        if self._refusal is not None or self._health.failure is not None:
            self._check_usable()
        end_offset = min(end_offset, self.log_end_offset)
        if offset >= end_offset:
            return LogSlice((), 0, offset)
        if self.rotten:
            end_offset = min(end_offset, self._good_until(offset))
        if not from_disk:
            held = self._tail.read(
                offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=at_least_one
            )
            if held is not None:
                return LogSlice(*held)
        with self._reading(offset):
            return read_segments(
                self._segments,
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                at_least_one=at_least_one,
            )

    def last_batches(self, end_offset: int, *, first_offset: int | None = None) -> list[BatchHeader] | None:
        """See LogPort. Reads a few kilobytes from the files, when a fetch session begins."""
        self._check_usable()
        if self.rotten or (first_offset is not None and first_offset < self.log_start_offset):
            return None
        with self._reading(self.log_start_offset):
            return last_batches(self._segments, end_offset, first_offset=first_offset)

    def last_data_batches(self, count: int) -> list[BatchHeader]:
        """See LogPort. Reads a few kilobytes from the files, when a shard's leader is first written to."""
        self._check_usable()
        with self._reading(self.log_start_offset):
            found = last_data_batches(self._segments, count)
        begin = found[0].base_offset if len(found) == count else self.log_start_offset
        for rotten in self.rotten:
            if rotten.next_offset > begin:
                raise RottenBytes(rotten.reason)
        return found

    def read_in_thread(self, offset: int, *, max_bytes: int, end_offset: int) -> LogSlice:
        """Read as `read` does, from files only, while the loop goes on with the log; raise LogChanged if it
        was cut.
        """
        self._check_usable()
        with self._reading(None):
            return read_segments(
                list(self._segments), offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=True
            )

    def find_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampHit | None:
        self._check_usable()
        with self._reading(self.log_start_offset):
            return find_timestamp(
                list(self._segments),
                timestamp_ms,
                log_start_offset=self.log_start_offset,
                end_offset=end_offset,
            )

    def find_max_timestamp(self, *, end_offset: int) -> TimestampHit | None:
        self._check_usable()
        with self._reading(self.log_start_offset):
            return find_max_timestamp(
                list(self._segments), log_start_offset=self.log_start_offset, end_offset=end_offset
            )

    def is_lookup_cold(self, timestamp_ms: int | None) -> bool:
        """Return whether `find_timestamp` (`find_max_timestamp` if None) may have to wait for a disk: a shell
        then calls it in a thread.
        """
        active = self._segments[-1]
        if timestamp_ms is None:
            timestamp_ms = max(segment.max_timestamp_ms for segment in self._segments)
        for segment in self._segments:
            if segment.max_timestamp_ms >= timestamp_ms:
                return segment is not active or not self.is_in_memory(
                    segment.base_offset + segment.index.for_timestamp(timestamp_ms).relative_offset
                )
        return False

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """See LogPort. `persist_epochs`, a flush or the first append writes the file: a broker that takes
        thousands of leaderships over leads all of them before it writes any.
        """
        self._check_usable()
        with self._epochs_lock:
            if self.epochs.assign(leader_epoch, start_offset=self.log_end_offset):
                self._is_epochs_file_behind = True

    def note_reconciled(self, leader_epoch: int) -> None:
        """See LogPort. The note is written and made durable like a new epoch."""
        self._check_usable()
        with self._epochs_lock:
            is_news = self.epochs.reconcile(leader_epoch)
        if is_news:
            self._write_epochs()

    def truncate_to(self, offset: int) -> None:
        """See LogPort. A cut inside a batch drops the whole batch, and the end is then the batch's start."""
        self._check_usable()
        if offset < self.log_start_offset:
            self.restart_at(offset)
            return
        if offset < self.log_end_offset:
            try:
                self._cut(offset)
            except OSError as error:
                raise self._health.fail(error, f"truncating {self.directory}") from error
            except CorruptLog as error:
                raise self._damaged(error) from None
        if self.log_end_offset == self.log_start_offset and self.size_bytes:
            self._drop_deleted_bytes()
        with self._epochs_lock:
            is_shorter = self.epochs.truncate_from_end(min(offset, self.log_end_offset))
        if is_shorter:
            self._write_epochs()

    def restart_at(self, offset: int) -> None:
        self._check_usable()
        self.changes += 1
        self.log_start_offset = offset
        lowest = min(offset, self._segments[0].base_offset)
        self._on_cutting(self.partition, offset)
        try:
            with self._cutting(lowest):
                active = self._replaced_by_one(offset, recovery_point_max=lowest)
                with self._state_lock:
                    self._segments = [active]
                    self._unflushed = []
        except OSError as error:
            raise self._health.fail(error, f"restarting {self.directory}") from error
        self._tail.clear()
        self.producers.clear()
        with self._epochs_lock:
            self.epochs.clear()
        self._write_epochs()
        self.size_bytes = 0
        self.log_end_offset = offset
        self._forget_rotten()

    def advance_log_start(self, offset: int) -> None:
        """See LogPort. The caller keeps it at or below the high watermark (I26, start, high watermark and end
        in order)."""
        if offset > self.log_end_offset:
            raise ValueError(f"log start {offset} beyond the end {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            with self._epochs_lock:
                self.epochs.truncate_from_start(offset)

    @property
    def end_of_batches(self) -> int:
        """Return the log end that the next opening will find if nothing is lost: a gap at the end has no
        bytes.
        """
        return self._segments[-1].next_offset

    # ---- rolling, retention

    def roll(self, *, now_ms: int) -> None:
        """Close the active segment, unless it is empty, and begin the next."""
        self._check_usable()
        closed = self._segments[-1]
        if not closed.size_bytes:
            return
        try:
            closed.close_index()
            self._snapshots.write(self.producers, log_offset=closed.next_offset)
            active = create_segment(
                self._disk,
                self.directory,
                base_offset=closed.next_offset,
                index_interval_bytes=self.options.index_interval_bytes,
                now_ms=now_ms,
            )
        except OSError as error:
            raise self._health.fail(error, f"rolling {self.directory}") from error
        with self._state_lock:
            self._segments.append(active)
            self._unflushed.append(closed)
            self._is_directory_unsynced = True

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
        self._check_usable()
        count = segments_to_delete(
            self.segments,
            expiry_ms=expiry_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            high_watermark=high_watermark,
        )
        if count:
            if count == len(self._segments):
                self.roll(now_ms=now_ms)
            self.advance_log_start(min(self._segments[count].base_offset, high_watermark))
        return self.detach_old_segments()

    def detach_old_segments(self) -> list[str]:
        """Take the segments that lie wholly below the log start out of the log and rename their files."""
        count = 0
        while (
            count + 1 < len(self._segments) and self._segments[count + 1].base_offset <= self.log_start_offset
        ):
            count += 1
        detached: list[str] = []
        self.changes += bool(count)
        try:
            for segment in self._segments[:count]:
                for path in (
                    log_path(self.directory, segment.base_offset),
                    index_path(self.directory, segment.base_offset),
                ):
                    if self._disk.exists(path):
                        self._disk.rename(path, path + DELETED_SUFFIX)
                        detached.append(path + DELETED_SUFFIX)
            if count:
                self._snapshots.delete_before(self._segments[count].base_offset)
        except OSError as error:
            raise self._health.fail(error, f"deleting from {self.directory}") from error
        with self._state_lock:
            gone = self._segments[:count]
            self._segments = self._segments[count:]
            self._unflushed = [segment for segment in self._unflushed if segment not in gone]
        self.size_bytes -= sum(segment.size_bytes for segment in gone)
        self._forget_rotten()
        return detached

    def unlink_detached(self, paths: Sequence[str]) -> None:
        """Unlink the files. Thread: unlinking a large file takes long."""
        try:
            for path in paths:
                self._disk.unlink(path)
        except OSError as error:
            raise self._failed(error, "deleting from") from error

    # ---- rot (5.7, scrubbing)

    @property
    def holes(self) -> list[Hole]:
        return [hole for segment in self._segments for hole in segment.holes]

    def load_rotten(self) -> None:
        """Load the damage that earlier processes found. Thread, at start."""
        try:
            found = read_rotten(self._disk, self.directory)
            for segment in self._segments:
                segment.holes = tuple(hole for hole in found if hole.base_offset == segment.base_offset)
            self._settle_rotten(found)
        except OSError as error:
            raise self._health.fail(error, f"reading {self.directory}") from error

    def place_near(self, offset: int) -> ScrubPlace:
        """Return a batch boundary at or before an offset, from which a scrub can read."""
        segment = self._segments[segment_index(self._segments, offset)]
        entry = segment.index.for_offset(offset - segment.base_offset)
        if not segment.agrees_with(entry):
            return ScrubPlace(segment.base_offset, 0, segment.base_offset)
        return ScrubPlace(segment.base_offset, entry.position, segment.base_offset + entry.relative_offset)

    def check_at_rest(self, place: ScrubPlace, *, end_offset: int, bytes_max: int) -> CheckedSlice:
        """Check stored bytes: see rot.check_slice. Thread. Raises LogChanged, LogError."""
        self._check_usable()
        changes = self.changes
        try:
            checked = check_slice(
                self._disk,
                list(self._segments),
                place,
                end_offset=end_offset,
                bytes_max=bytes_max,
                epoch_at=self.epochs.epoch_at,
            )
        except OSError as error:
            if self.changes != changes:
                raise LogChanged(f"{self.directory} was changed under a scrub") from error
            raise self._failed(error, "scrubbing") from error
        if self.changes != changes:
            raise LogChanged(f"{self.directory} was changed under a scrub")
        return checked

    def note_rotten(self, hole: Hole) -> None:
        """Remember a hole, durably. Loop: this is rare, and a cut must not come between. Raises LogError."""
        self._check_usable()
        segment = self._segments[segment_index(self._segments, hole.base_offset)]
        if segment.base_offset != hole.base_offset or any(h.position == hole.position for h in segment.holes):
            return
        if hole.end_position == TO_THE_END:
            hole = hole._replace(end_position=segment.size_bytes, next_offset=segment.next_offset)
        segment.holes = tuple(sorted((*segment.holes, hole)))
        self._rewrite_rotten()

    def mend(self, hole: Hole, batches: Buffer) -> None:
        """Write good batches over the beginning of a hole, fsync them, and read them back from the disk. The
        hole stays until `close_hole`. Thread. Raises LogChanged, LogError.
        """
        self._check_usable()
        changes = self.changes
        segment = next((s for s in self._segments if s.base_offset == hole.base_offset), None)
        if segment is None or hole not in segment.holes or len(batches) > hole.end_position - hole.position:
            raise LogChanged(f"{hole.reason}: nothing to mend any more")
        try:
            segment.file.pwrite(batches, hole.position)
            segment.file.fsync()
            written = read_at_rest(segment.file, len(batches), hole.position)
        except OSError as error:
            raise self._failed(error, "mending") from error
        if self.changes != changes:
            raise LogChanged(f"{self.directory} was changed while it was mended")
        if written != batches:
            raise self._health.fail(OSError(f"{hole.reason}: it rots again at once"), "mending")

    def close_hole(self, hole: Hole, *, size_bytes: int, next_offset: int) -> None:
        """Record that the first `size_bytes` of a hole are whole again. Loop. Raises LogError."""
        self._check_usable()
        for segment in self._segments:
            if hole in segment.holes:
                rest = hole._replace(position=hole.position + size_bytes, first_offset=next_offset)
                is_closed = rest.position >= rest.end_position
                others = (other for other in segment.holes if other != hole)
                segment.holes = tuple(sorted((*others, *(() if is_closed else (rest,)))))
        self._rewrite_rotten()

    def _good_until(self, offset: int) -> int:
        """Return the offset where a read from `offset` must end; raise RottenBytes if it lies in a damaged
        range.
        """
        for found in self.rotten:
            if found.first_offset <= offset < found.next_offset:
                raise RottenBytes(found.reason)
            if offset < found.first_offset:
                return found.first_offset
        return self.log_end_offset

    def _forget_rotten(self) -> None:
        """Forget the holes that a cut or a deletion removed."""
        if self.rotten:
            self._rewrite_rotten()

    def _rewrite_rotten(self) -> None:
        try:
            self._settle_rotten(None)
        except OSError as error:
            raise self._health.fail(error, f"marking {self.directory} as rotten") from error

    def _settle_rotten(self, stored: Sequence[Hole] | None) -> None:
        """Forget holes in what was cut or deleted; store the others, unless they are stored already."""
        for segment in self._segments:
            segment.holes = tuple(
                hole
                for hole in segment.holes
                if hole.end_position <= segment.size_bytes and hole.next_offset > self.log_start_offset
            )
        holes = self.holes
        if stored is None or holes != list(stored):
            write_rotten(self._disk, self.directory, holes)
        self.rotten = tuple(hole.range for hole in holes)

    # ---- durability

    def is_flush_due(self, now_ms: int) -> bool:
        """Return whether flush.messages, flush.ms or a waiting closed segment makes a flush due."""
        if self._unflushed:
            return True
        options = self.options
        if options.flush_messages is None and options.flush_ms is None:
            return False
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed > 0 and (
            (options.flush_messages is not None and unflushed >= options.flush_messages)
            or (options.flush_ms is not None and now_ms - self._last_flush_ms >= options.flush_ms)
        )

    def flush(self, *, include_active: bool = True, now_ms: int | None = None) -> int:
        """fsync what was written until now, raise the recovery point and return it. Thread: the loop may go
        on appending, rolling, truncating and deleting. Without `include_active`, flush only what rolls left
        behind. The recovery point is durable when the directory writes its checkpoint.
        """
        with self._flush_lock:
            self._check_usable()
            flush = self._begin_flush(include_active=include_active)
            try:
                for segment in flush.closed:
                    _fsync_unless_gone(segment.fsync)
                if include_active:
                    flush.active.file.fsync()
                for path in flush.snapshots:
                    _fsync_unless_gone(lambda path=path: self._fsync_path(path))  # type: ignore[misc]
                are_epochs_renamed = self._fsync_epochs()
                if flush.is_directory_unsynced or flush.closed or flush.snapshots or are_epochs_renamed:
                    self._disk.fsync_dir(self.directory)
            except OSError as error:
                raise self._failed(error, "flushing") from error
            return self._end_flush(flush, now_ms=now_ms)

    def _begin_flush(self, *, include_active: bool) -> _Flush:
        with self._state_lock:
            active = self._segments[-1]
            flush = _Flush(
                active=active,
                closed=tuple(self._unflushed),
                snapshots=tuple(self._snapshots.take_unsynced()),
                end_offset=active.next_offset if include_active else active.base_offset,
                is_directory_unsynced=self._is_directory_unsynced,
            )
            self._is_directory_unsynced = False
            self._lowest_cut = self._cut_under_way
        return flush

    def _end_flush(self, flush: _Flush, *, now_ms: int | None) -> int:
        with self._state_lock:
            self._unflushed = [segment for segment in self._unflushed if segment not in flush.closed]
            end_offset = flush.end_offset
            if self._lowest_cut is not None:
                end_offset = min(end_offset, self._lowest_cut)
            self.recovery_point = max(self.recovery_point, end_offset)
            if now_ms is not None:
                self._last_flush_ms = now_ms
            return self.recovery_point

    # ---- its seal (seal.py). The caller runs only one of these methods at a time.

    def adopt_seal(self, seal: Seal) -> None:
        """Adopt the stored seal: the log was opened and holds what the seal promises."""
        self._seal, self._is_seal_durable, self._vouched_max = seal, True, seal.end_offset

    def begin_seal(self, chain_epoch: int) -> None:
        """Vouch for nothing more from now on. Loop; `store_seal` in a thread follows."""
        self._seal = Seal(
            chain_epoch=chain_epoch, leader_epoch=self.epochs.latest, end_offset=self.log_end_offset
        )
        self._is_seal_durable, self._vouched_max = False, self.log_end_offset
        self._changes_at_seal = self.changes

    def store_seal(self) -> None:
        """Flush, then store the seal that was begun. A log that was cut meanwhile is unsealed: it may have
        grown again to the seal's end, with other records. Thread.
        """
        seal = self._seal
        assert seal is not None
        recovery_point = self.flush()
        if self.changes != self._changes_at_seal:
            self._seal = None
        elif recovery_point >= seal.end_offset:
            try:
                write_seal(self._disk, self.directory, seal)
            except OSError as error:
                raise self._failed(error, "sealing") from error
            self._is_seal_durable = True

    def remove_seal(self) -> None:
        """Remove the seal durably. Thread; `open_seal` on the loop follows."""
        self._check_usable()
        try:
            remove_seal(self._disk, self.directory)
        except OSError as error:
            raise self._failed(error, "unsealing") from error

    def open_seal(self) -> None:
        """Allow vouching for everything written: the stored seal is gone."""
        self._seal, self._is_seal_durable = None, False

    def vouch_for_flushed(self) -> None:
        """Allow vouching for what is fsynced, although the seal stays."""
        self._vouched_max = max(self._vouched_max, self.recovery_point)

    def persist_epochs(self) -> None:
        """Write the leader-epoch file if it is behind, and make it durable. Thread."""
        self._check_usable()
        try:
            if self._fsync_epochs():
                self._disk.fsync_dir(self.directory)
        except OSError as error:
            raise self._failed(error, "persisting epochs of") from error

    def on_syncing_epochs(self) -> None:
        """Write the leader-epoch file if it is behind: the caller is about to make it durable, with those of
        other logs. Thread.
        """
        if self._is_epochs_file_behind:
            self._write_epochs()
        self._is_epochs_file_unsynced = False  # a write from now on needs another fsync

    def settle_after_recovery(self) -> None:
        """Write what a scan found good, so that the next scan can begin later. A flush follows."""
        path = f"{self.directory}/{EPOCHS_FILE}"
        encoded = self.epochs.encode()
        try:
            if read_whole(self._disk, path, bytes_max=CHECKPOINT_BYTES_MAX) == encoded:
                self._is_epochs_file_unsynced = True  # the last process may not have synced it
            else:
                # After a power cut the disk must hold the old epochs or these: an epoch without batches has
                # no other evidence.
                replace_durably(self._disk, path, encoded)
            self._write_snapshot()
        except OSError as error:
            raise self._health.fail(error, f"recovering {self.directory}") from error
        with self._state_lock:
            self._unflushed = list(self._segments[:-1])

    def write_for_close(self) -> None:
        """Write all that the next start needs to avoid a scan. A flush follows."""
        self._check_usable()
        active = self._segments[-1]
        try:
            active.close_index()
            self._write_snapshot()
            with self._state_lock:
                self._unflushed.append(active)
        except OSError as error:
            raise self._health.fail(error, f"closing {self.directory}") from error

    def _write_snapshot(self) -> None:
        """Write a producer snapshot, unless the log has no record and no producer."""
        if self.producers or self.size_bytes or self._snapshots.offsets:
            self._snapshots.write(self.producers, log_offset=self._segments[-1].next_offset)

    def close_cleanly(self) -> None:
        """Make everything durable, then refuse all use."""
        self.write_for_close()
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Refuse all use from now on and write nothing more (deleted, quarantined, closed)."""
        self._refusal = ClosedLog(f"{self.directory} is closed")
        self._tail.clear()

    # ---- inside

    def _check_usable(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        self._health.check()

    def condemn(self, detail: str) -> None:
        """See LogPort."""
        self._damaged(CorruptLog(detail))

    def _damaged(self, error: CorruptLog) -> CorruptLog:
        """Mark this log as damaged, also on disk: the next process need not read these bytes."""
        self._refusal = error
        try:
            replace_durably(self._disk, f"{self.directory}/{DAMAGED_FILE}", str(error).encode())
        except FileNotFoundError:
            pass  # deleted or set aside meanwhile
        except OSError as failure:
            self._health.fail(failure, f"marking {self.directory} as damaged")
        return error

    @contextmanager
    def _reading(self, first_offset: int | None) -> Iterator[None]:
        """Translate errors of a read in a thread. The loop may have cut or deleted files under the reader, so
        an error counts as a failure only if the log did not change. If first_offset is given, a scrub looks
        for the damaged bytes from there; if None, they end the log.
        """
        changes = self.changes
        try:
            yield
        except (OSError, CorruptLog, struct.error) as error:
            if self.changes != changes:
                raise LogChanged(f"{self.directory} was changed under a reader") from error
            if isinstance(error, OSError):
                raise self._failed(error, "reading") from error
            assert isinstance(error, CorruptLog), error
            if first_offset is not None:
                raise self._suspect(error, first_offset) from None
            if self.rotten:
                raise RottenBytes(str(error)) from None
            raise self._damaged(error) from None

    def _suspect(self, error: CorruptLog, first_offset: int) -> SuspectBytes:
        found = next((s for s in list(self._segments) if s.base_offset == error.base_offset), None)
        if found is None:
            return SuspectBytes(str(error), first_offset=first_offset, bad_offset=first_offset)
        try:
            bad_offset = found.offset_at(error.position)
        except (OSError, struct.error):
            bad_offset = found.base_offset
        first_offset = max(first_offset, found.base_offset)
        return SuspectBytes(str(error), first_offset=first_offset, bad_offset=max(first_offset, bad_offset))

    def _failed(self, error: OSError, doing: str) -> LogError:
        """Return the LogError for a disk error in a thread. A log that was closed meanwhile has had its
        directory renamed, so its missing files are no failure.
        """
        if isinstance(error, FileNotFoundError) and self._refusal is not None:
            return self._refusal
        return self._health.fail(error, f"{doing} {self.directory}")

    def _must_roll(self, segment: Segment, last: BatchHeader, size_bytes: int, now_ms: int) -> bool:
        options = self.options
        return (
            segment.size_bytes + size_bytes > options.segment_bytes
            or now_ms - segment.first_append_ms >= options.segment_ms
            or not segment.has_room_for(last, size_bytes, index_bytes_max=options.index_bytes_max)
        )

    def _cut(self, log_offset: int) -> None:
        self.changes += 1
        keep = segment_index(self._segments, log_offset)
        segment = self._segments[keep]
        found = segment.find(log_offset)
        position = segment.size_bytes if found is None else found[0]
        end_offset = log_offset if found is None else min(log_offset, found[1].base_offset)
        for hole in segment.holes:  # `find` skips holes
            if hole.first_offset == log_offset:
                position = hole.position
            elif hole.first_offset < log_offset < hole.next_offset:
                raise segment.corrupt(hole.position, "rotten, and to be cut within")
        end_offset = max(end_offset, self.log_start_offset)  # the log start may lie inside the dropped batch
        self._on_cutting(self.partition, _end_of_batches(segment, end_offset))
        with self._cutting(segment.base_offset):
            self._lower_recovery_point(segment.base_offset, if_above=end_offset)
            self._drop_segments_after(keep, end_offset)
            segment.truncate(position)
            # Before new bytes are written in place of the cut ones: a power cut that brought some of the old
            # bytes back among the new would leave a log that no leader ever had.
            segment.file.fsync()
        self.size_bytes = sum(other.size_bytes for other in self._segments)
        self._tail.truncate_to(end_offset)
        self.log_end_offset = end_offset
        self._forget_rotten()
        if self.producers.has_batch_at_or_beyond(end_offset):
            self.rebuild_producers()

    def _drop_deleted_bytes(self) -> None:
        """Drop all bytes: they lie below the log start. The leader's next batches need not continue them
        (after an unclean election its epoch may be older), so the next opening must not find them in front of
        those batches. The snapshot holds their producer states.
        """
        self.roll(now_ms=self._last_append_ms)
        self.flush()
        detached = self.detach_old_segments()
        try:
            self._disk.fsync_dir(self.directory)
        except OSError as error:
            raise self._health.fail(error, f"truncating {self.directory}") from error
        self.unlink_detached(detached)

    def _drop_segments_after(self, keep: int, end_offset: int) -> None:
        dropped = self._segments[keep + 1 :]
        with self._state_lock:
            self._segments = self._segments[: keep + 1]
            self._unflushed = [other for other in self._unflushed if other not in dropped]
        for other in reversed(dropped):
            self._unlink_segment(other)
        self._snapshots.delete_beyond(end_offset)
        if dropped:
            self._disk.fsync_dir(self.directory)
            self._segments[-1].reopen_for_append()

    def _replaced_by_one(self, log_offset: int, *, recovery_point_max: int) -> Segment:
        """Replace all segments by an empty one at `log_offset`, durably, and return it."""
        with self._state_lock:
            self.recovery_point = min(self.recovery_point, recovery_point_max)
        # Store this before a segment is unlinked. With a start that is too high, the next opening would drop
        # what this log will hold; with a start below the recovery point, it would miss the segments dropped
        # here.
        self._on_lowered()
        for segment in reversed(self._segments):
            self._unlink_segment(segment)
        self._snapshots.delete_beyond(-1)
        self._disk.fsync_dir(self.directory)
        active = create_segment(
            self._disk,
            self.directory,
            base_offset=log_offset,
            index_interval_bytes=self.options.index_interval_bytes,
            now_ms=self._last_append_ms,
        )
        self._disk.fsync_dir(self.directory)
        return active

    def rebuild_producers(self, *, is_recovery: bool = False) -> None:
        """Rebuild producer states from the newest snapshot at or below the end, and the log after it (I23 (no
        gap, no repeat), S22). A recovery also writes the missing snapshots between segments: retention may
        delete the segments that they stand for.
        """
        snapshot = self._snapshots.load_newest(offset_max=self.log_end_offset)
        states, log_offset = (ProducerStates(), -1) if snapshot is None else snapshot
        for segment in self._segments:
            if is_recovery and segment.base_offset > log_offset and segment is not self._segments[0]:
                self._snapshots.write(states, log_offset=segment.base_offset)
            if segment.next_offset > log_offset:
                if segment.holes:
                    raise segment.corrupt(segment.holes[0].position, "known to be rotten, and needed")
                for _, header in segment.walk():
                    if header.base_offset >= log_offset:
                        states.update(header, now_ms=self._last_append_ms)
        self.producers.replace_with(states)

    @contextmanager
    def _cutting(self, log_offset: int) -> Iterator[None]:
        """Mark a cut as under way, from before the recovery point is lowered until all is cut. This holds
        back a concurrent flush, also one that begins and ends meanwhile: what it syncs from this offset on is
        cut.
        """
        with self._state_lock:
            self._cut_under_way = log_offset
            if self._lowest_cut is None or log_offset < self._lowest_cut:
                self._lowest_cut = log_offset
        try:
            yield
        finally:
            with self._state_lock:
                self._cut_under_way = None

    def _lower_recovery_point(self, log_offset: int, *, if_above: int) -> None:
        """Lower the recovery point on disk before anything is cut; a later torn tail would else pass for
        flushed data.
        """
        with self._state_lock:
            if self.recovery_point <= if_above:
                return
            self.recovery_point = log_offset
        self._on_lowered()

    def _unlink_segment(self, segment: Segment) -> None:
        self._disk.unlink(log_path(self.directory, segment.base_offset))
        path = index_path(self.directory, segment.base_offset)
        if self._disk.exists(path):
            self._disk.unlink(path)

    def _write_epochs(self) -> None:
        try:
            with self._epochs_lock:
                replace(self._disk, f"{self.directory}/{EPOCHS_FILE}", self.epochs.encode())
                self._is_epochs_file_behind, self._is_epochs_file_unsynced = False, True
        except OSError as error:
            raise self._failed(error, "writing epochs of") from error

    def _fsync_epochs(self) -> bool:
        if self._is_epochs_file_behind:
            self._write_epochs()
        if not self._is_epochs_file_unsynced:
            return False
        self._is_epochs_file_unsynced = False  # a write from now on needs another fsync
        self._fsync_path(f"{self.directory}/{EPOCHS_FILE}")
        return True

    def _fsync_path(self, path: str) -> None:
        with closing(self._disk.open(path)) as file:
            file.fsync()


class _Flush(NamedTuple):
    """The part of a log that one flush makes durable: everything below `end_offset`."""

    active: Segment
    closed: tuple[Segment, ...]
    snapshots: tuple[str, ...]
    end_offset: int
    is_directory_unsynced: bool


def flush_together(logs: Sequence[PartitionLog], sync_all: Callable[[], None]) -> None:
    """Flush many logs at the price of one: `sync_all` makes everything durable that they have written.
    Thread.
    """
    flushes: list[tuple[PartitionLog, _Flush]] = []
    with ExitStack() as locks:
        for log in logs:
            locks.enter_context(log._flush_lock)
            flushes.append((log, log._begin_flush(include_active=True)))
            log.on_syncing_epochs()
        sync_all()
        for log, flush in flushes:
            log._end_flush(flush, now_ms=None)


def _fsync_unless_gone(fsync: Callable[[], None]) -> None:
    """fsync a file unless it is gone: truncation or retention may unlink it during a flush."""
    try:
        fsync()
    except FileNotFoundError:
        return


def _end_of_batches(segment: Segment, log_offset: int) -> int:
    """Return the offset where the last batch below `log_offset` ends."""
    found = segment.find(log_offset - 1)
    if found is not None and found[1].base_offset < log_offset:
        return log_offset
    ends = (header.next_offset for _, header in segment.walk() if header.next_offset <= log_offset)
    return max(ends, default=segment.base_offset)
