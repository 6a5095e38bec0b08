"""One pass of compaction over an open log: what a Rewrite leaves of its closed segments, in new files.

    PartitionLog.begin_compaction   loop
    advance, until it is written    thread, a slice at a time, while the loop goes on with the log
    commit                          thread
    PartitionLog.finish_compaction  loop: the new segments take the place of the old ones
    release                         thread

All is flushed before anything is left out: a power cut must not take the newer record whose older one a pass
has dropped. The files are durable before the manifest that commits them (manifest.py), so the recovery point
stays. A log that is cut or deleted from meanwhile makes the pass give up; one that was committed takes its
place first.

Each batch is checked as a scrub does it before it is written again: rot must not get a CRC of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from crc32c import crc32c

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.newest import KEYS_MAX
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.log_port import LogChanged, LogError
from dataplane.storage.disk import Buffer, Disk
from dataplane.storage.durability import Durability
from dataplane.storage.health import LogHealth
from dataplane.storage.holes import Holes
from dataplane.storage.index import new_index
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.manifest import CompactionManifest, RewrittenSegment, cleaned_path, write_manifest
from dataplane.storage.segment import Segment, index_path, log_path
from dataplane.storage.segment_list import CommittedPass, SegmentList
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, decode_header

WRITE_BUFFER_BYTES = 1024 * 1024
SLICE_BYTES = 512 * 1024
"""Read in one slice, or one batch: some milliseconds of work, many times what it takes to hand a slice to a
thread. The loop does not wait for its end (`favour_the_loop`)."""


class PassPutOff(LogError):
    """The pass can't be carried out now: bytes of the log are rotten, or the disk is full. The log is as it
    was; another pass may be tried later."""


class CompactionPass:
    """One pass. `reaches`, once it is written: how far the round is applied."""

    def __init__(
        self,
        disk: Disk,
        health: LogHealth,
        segments: SegmentList,
        placed: PlacedRound,
        *,
        from_offset: int,
        on_swapped: Callable[[PlacedRound, int], None],
        durability: Durability,
        epochs: LeaderEpochs,
        holes: Holes,
        options: LogOptions,
        keys_max: int = KEYS_MAX,
    ) -> None:
        """Begin. Loop. The round's record is committed. The active segment begins at or above its end.

        from_offset: passes have rewritten what lies below it. on_swapped: called in the loop once the new
        segments are the log, with what this pass has applied, and up to where.
        """
        round_ = placed.round_
        assert round_.end_offset <= segments.active.base_offset
        last = segments.manifest
        self._disk = disk
        self._health = health
        self._segments = segments
        self._durability = durability
        self._epochs = epochs
        self._holes = holes
        self._options = options
        self._placed = placed
        self._on_swapped = on_swapped
        self._changes = segments.changes
        self._number = 1 if last is None else last.number + 1
        self._inputs = [each for each in segments.all[:-1] if each.base_offset < round_.end_offset]
        self._end_offset = self._inputs[-1].next_offset if self._inputs else 0
        self._floor = 0 if last is None else last.tombstone_floor
        self._from_offset = from_offset
        earlier = () if last is None else last.segments
        self._still_listed = tuple(each for each in earlier if each.base_offset >= self._end_offset)
        self._rewrite = Rewrite(round_, from_offset=from_offset, keys_max=keys_max)
        self._outputs: list[_Output] = []
        self._slices = self._write_slices()

    @property
    def reaches(self) -> int:
        return self._rewrite.reaches

    @property
    def bytes_before(self) -> int:
        """Return the size of the segments that are read."""
        return sum(segment.size_bytes for segment in self._inputs)

    @property
    def bytes_after(self) -> int:
        """Return the size of those that were written."""
        return sum(output.segment.size_bytes for output in self._outputs)

    def write(self) -> None:
        """Write the new segments at one go: see `advance`."""
        while not self.advance():
            pass

    def advance(self) -> bool:
        """Write the next slice of the new segments; return whether all are written, durably. Thread. Raise
        LogChanged if the log was cut or deleted from; PassPutOff, SuspectBytes, LogError. The pass is over
        then."""
        try:
            with self._holes.reading(self._inputs[0].base_offset if self._inputs else 0), _room_expected():
                return next(self._slices, True)
        except LogError:
            self._discard()
            raise

    def commit(self) -> None:
        """Commit what was written. Thread. Raise as `write` does; the pass is over then."""
        segments = self._segments
        manifest = CompactionManifest(
            number=self._number,
            applied_at=self._placed.offset,
            round_=self._placed.round_,
            reaches=self._rewrite.reaches,
            tombstone_floor=max(self._floor, self._placed.round_.tombstone_floor),
            segments=(*(output.listed for output in self._outputs), *self._still_listed),
        )
        with segments.commit_lock:
            try:
                self._go_on()
                self._check_holes()
            except LogError:
                self._discard()
                raise
            with self._health.guarded("committing a compaction of"):
                write_manifest(self._disk, self._health.path, manifest)
            rewritten = tuple(output.segment for output in self._outputs)
            on_swapped = partial(self._on_swapped, self._placed, self._rewrite.reaches)
            segments.on_committed(manifest, CommittedPass(rewritten, on_swapped))

    def release(self) -> None:
        """Let go of the replaced files, which frees their space. Thread."""
        self._inputs.clear()

    # ---- inside

    def _write_slices(self) -> Iterator[bool]:
        """Yield False after each slice."""
        self._go_on()
        self._check_holes()
        self._durability.flush()
        yield False
        size_bytes = 0
        for segment, position, header in self._walk():
            has_new_keys = header.base_offset >= self._from_offset
            view = segment.read_batch(position, header) if has_new_keys else memoryview(b"")
            self._rewrite.read(view, header)
            size_bytes += len(view) or HEADER_BYTES
            if size_bytes >= SLICE_BYTES:
                size_bytes = 0
                yield False
        for written_bytes in self._write_rewritten():
            size_bytes += written_bytes
            if size_bytes >= SLICE_BYTES:
                size_bytes = 0
                yield False

    def _go_on(self) -> None:
        self._health.check()
        if self._segments.has_changed_since(self._changes):
            raise LogChanged(f"{self._health.path} was changed under a compaction")

    def _check_holes(self) -> None:
        for segment in self._inputs:
            if segment.holes:
                raise PassPutOff(f"not compacted until it is mended: {segment.holes[0].reason}")

    def _walk(self) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Yield (segment, position, header) of each batch of the old segments. Offsets rise, and epochs are
        those of the log's history: the batch's CRC covers neither."""
        for segment in self._inputs:
            next_offset = segment.base_offset
            for position, header in segment.walk():
                self._go_on()
                epoch = self._epochs.epoch_at(header.base_offset)  # negative below the log's start
                if header.base_offset < next_offset or header.leader_epoch != epoch >= 0:
                    raise segment.corrupt(position, "offset or leader epoch does not continue the log")
                yield segment, position, header
                next_offset = header.next_offset

    def _write_rewritten(self) -> Iterator[int]:
        """Write what is left of each batch, and yield how many bytes it had."""
        if not self._inputs:
            return
        output = self._next_output(self._inputs[0].base_offset)
        for segment, position, old_header in self._walk():
            left = self._rewrite.rewritten(segment.read_batch(position, old_header), old_header)
            yield old_header.size_bytes
            if left is None:
                continue
            header = decode_header(left)
            if not output.has_room_for(header, self._options):
                output.close(header.base_offset)
                output = self._next_output(header.base_offset)
            output.add(left, header)
        output.close(self._end_offset)
        self._disk.fsync_dir(self._health.path)

    def _next_output(self, base_offset: int) -> _Output:
        directory = self._health.path
        file = self._disk.open(cleaned_path(log_path(directory, base_offset), self._number), create=True)
        file.truncate(0)
        index = new_index(self._disk, cleaned_path(index_path(directory, base_offset), self._number))
        segment = Segment(
            self._disk,
            directory,
            base_offset=base_offset,
            file=file,
            index=index,
            index_interval_bytes=self._options.index_interval_bytes,
            now_ms=self._inputs[-1].last_append_ms,
        )
        self._outputs.append(_Output(segment))
        return self._outputs[-1]

    def _discard(self) -> None:
        """Remove what was written, unless the log is closed: its directory may be another log's by now."""
        if self._health.refusal is not None or self._health.directory.failure is not None:
            return
        with self._health.guarded("giving up a compaction of"):
            for output in self._outputs:
                base_offset = output.segment.base_offset
                for path in (
                    log_path(self._health.path, base_offset),
                    index_path(self._health.path, base_offset),
                ):
                    cleaned = cleaned_path(path, self._number)
                    if self._disk.exists(cleaned):
                        self._disk.unlink(cleaned)
        self._outputs.clear()


class _Output:
    """A new segment, which is written through a buffer."""

    __slots__ = ("_buffered_bytes", "_chunks", "_headers", "crc", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._headers: list[BatchHeader] = []
        self._chunks: list[Buffer] = []
        self._buffered_bytes = 0
        self.crc = 0

    @property
    def listed(self) -> RewrittenSegment:
        """Return its entry in the manifest, once it is closed."""
        segment = self.segment
        return RewrittenSegment(segment.base_offset, segment.next_offset, segment.size_bytes, self.crc)

    def has_room_for(self, header: BatchHeader, options: LogOptions) -> bool:
        """Return whether a batch goes into this segment: by the limits of an append."""
        segment, size_bytes = self.segment, self._buffered_bytes + header.size_bytes
        is_first = segment.size_bytes + self._buffered_bytes == 0
        return (
            is_first or segment.size_bytes + size_bytes <= options.segment_bytes
        ) and segment.has_room_for(header, size_bytes, index_bytes_max=options.index_bytes_max)

    def add(self, batch: Buffer, header: BatchHeader) -> None:
        self._headers.append(header)
        self._chunks.append(batch)
        self._buffered_bytes += header.size_bytes
        if self._buffered_bytes >= WRITE_BUFFER_BYTES:
            self._write_out()

    def close(self, end_offset: int) -> None:
        """Make it durable; its name is not. It ends where the next segment begins."""
        self._write_out()
        self.segment.next_offset, self.segment.crc = end_offset, self.crc
        self.segment.close_index()
        self.segment.fsync()

    def _write_out(self) -> None:
        data = b"".join(self._chunks)
        if data:
            self.segment.append(self._headers, (data,), now_ms=self.segment.last_append_ms)
        self.crc = crc32c(data, self.crc)
        self._headers.clear()
        self._chunks.clear()
        self._buffered_bytes = 0


@contextmanager
def _room_expected() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PassPutOff(f"no room to compact: {error}") from error
        raise
