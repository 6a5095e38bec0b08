"""One pass of compaction over an open log: what a Rewrite leaves of its closed segments, in new files.

    PartitionLog.begin_compaction   loop
    advance, until it is written    thread, a slice at a time, while the loop goes on with the log
    commit                          thread
    PartitionLog.finish_compaction  loop: the new segments take the place of the old ones
    release                         thread

All is flushed before anything is left out: a power cut must not take the newer record whose older one a pass
has dropped. The files (rewritten_files.py) are durable before the manifest that commits them (manifest.py),
so the recovery point stays. A log that is cut or deleted from meanwhile makes the pass give up; one that was
committed takes its place first.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.log_port import LogChanged, LogError
from dataplane.core.transactions import AbortedEntry
from dataplane.storage.disk import Disk
from dataplane.storage.durability import Durability
from dataplane.storage.health import LogHealth
from dataplane.storage.holes import Holes
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.manifest import CompactionManifest, cleaned_path, write_manifest
from dataplane.storage.rewritten_files import (
    ClosedSegment,
    FilesToRewrite,
    RewrittenFiles,
    open_written,
)
from dataplane.storage.segment_list import CommittedPass, SegmentList

Rewriting = Callable[[Disk, FilesToRewrite], Generator[RewrittenFiles | None, None, None]]
"""`rewrite_files`, here or elsewhere."""


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
        aborted: Sequence[AbortedEntry],
        on_swapped: Callable[[PlacedRound, int], None],
        durability: Durability,
        epochs: LeaderEpochs,
        holes: Holes,
        options: LogOptions,
        rewriting: Rewriting,
        keys_max: int,
    ) -> None:
        """Begin. Loop. The round's record is committed. The active segment begins at or above its end.

        from_offset: passes have rewritten what lies below it. aborted: all of the log's entries. on_swapped:
        called in the loop once the new segments are the log, with what this pass has applied, and up to
        where.
        """
        round_ = placed.round_
        assert round_.end_offset <= segments.active.base_offset
        last = segments.manifest
        self._disk = disk
        self._health = health
        self._segments = segments
        self._durability = durability
        self._holes = holes
        self._rewriting = rewriting
        self._placed = placed
        self._on_swapped = on_swapped
        self._changes = segments.changes
        self._inputs = [each for each in segments.all[:-1] if each.base_offset < round_.end_offset]
        self._files = FilesToRewrite(
            directory=health.path,
            number=1 if last is None else last.number + 1,
            segments=tuple(
                ClosedSegment(each.base_offset, each.next_offset, each.size_bytes, each.last_append_ms)
                for each in self._inputs
            ),
            epochs=epochs.entries,
            round_=round_,
            from_offset=from_offset,
            aborted=tuple(aborted),
            keys_max=keys_max,
            options=options,
        )
        end_offset = self._inputs[-1].next_offset if self._inputs else 0
        self._floor = 0 if last is None else last.tombstone_floor
        earlier = () if last is None else last.segments
        self._still_listed = tuple(each for each in earlier if each.base_offset >= end_offset)
        self._slices: Generator[RewrittenFiles | None, None, None] | None = None
        self._written: RewrittenFiles | None = None

    @property
    def reaches(self) -> int:
        return self._done.reaches

    @property
    def bytes_before(self) -> int:
        """Return the size of the segments that are read."""
        return sum(segment.size_bytes for segment in self._inputs)

    @property
    def bytes_after(self) -> int:
        """Return the size of those that were written."""
        return sum(written.listed.size_bytes for written in self._done.segments)

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
                self._go_on()
                if not self._health.directory.room.admits(0, is_internal=True):
                    raise PassPutOff(f"no room to compact: {self._health.directory.room}")
                if self._slices is None:
                    self._check_holes()
                    self._durability.flush()
                    self._slices = self._rewriting(self._disk, self._files)
                else:
                    self._written = next(self._slices)
        except LogError:
            self._discard()
            raise
        return self._written is not None

    def commit(self) -> None:
        """Commit what was written. Thread. Raise as `write` does; the pass is over then."""
        segments, done = self._segments, self._done
        manifest = CompactionManifest(
            number=self._files.number,
            applied_at=self._placed.offset,
            round_=self._placed.round_,
            reaches=done.reaches,
            tombstone_floor=max(self._floor, self._placed.round_.tombstone_floor),
            segments=(*(written.listed for written in done.segments), *self._still_listed),
        )
        with segments.commit_lock:
            try:
                self._go_on()
                self._check_holes()
            except LogError:
                self._discard()
                raise
            with self._health.guarded("committing a compaction of"):
                rewritten = tuple(open_written(self._disk, self._files, each) for each in done.segments)
                write_manifest(self._disk, self._health.path, manifest)
            on_swapped = partial(self._on_swapped, self._placed, done.reaches)
            segments.on_committed(manifest, CommittedPass(rewritten, on_swapped))

    def release(self) -> None:
        """Let go of the replaced files, which frees their space. Thread."""
        self._inputs.clear()

    # ---- inside

    @property
    def _done(self) -> RewrittenFiles:
        assert self._written is not None, "all is written first"
        return self._written

    def _go_on(self) -> None:
        self._health.check()
        if self._segments.has_changed_since(self._changes):
            raise LogChanged(f"{self._health.path} was changed under a compaction")

    def _check_holes(self) -> None:
        for segment in self._inputs:
            if segment.holes:
                raise PassPutOff(f"not compacted until it is mended: {segment.holes[0].reason}")

    def _discard(self) -> None:
        """Remove what was written, unless the log is closed: its directory may be another log's by now."""
        if self._slices is not None:
            self._slices.close()
        if self._health.refusal is not None or self._health.directory.failure is not None:
            return
        suffix = cleaned_path("", self._files.number)
        with self._health.guarded("giving up a compaction of"):
            for name in self._disk.listdir(self._health.path):
                if name.endswith(suffix):
                    self._disk.unlink(f"{self._health.path}/{name}")


@contextmanager
def _room_expected() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PassPutOff(f"no room to compact: {error}") from error
        raise
