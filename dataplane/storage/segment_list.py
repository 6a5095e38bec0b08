"""The segments of one log, oldest first, and the producer snapshots between them: files named by offset.

`all` is replaced and never changed, so that a reader in a thread goes on with the segments that it took while
the loop rolls, cuts and deletes; `changes` tells it that what it took is gone. What a flush still has to make
durable is kept under the same lock as the list: a flush that sees a new active segment also sees the closed
one before it.

A segment is named by the offset where the previous one ends, so a gap in offsets lies inside a segment and
never between two. Where a rewritten segment ends, the manifest says (manifest.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import msgspec

from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import AbortedEntry, marker_in
from dataplane.storage.aborted_index import TornAbortedIndex, aborted_path
from dataplane.storage.disk import Disk, fsync_file, set_to_be_unlinked
from dataplane.storage.index import new_index
from dataplane.storage.manifest import CompactionManifest, remove_manifest, take_places, write_manifest
from dataplane.storage.reads import segment_index
from dataplane.storage.segment import Segment, create_segment, index_path, segment_paths, unlink_segment
from dataplane.storage.snapshots import ProducerSnapshots


class Unflushed(NamedTuple):
    """The files that one flush makes durable: everything below `end_offset`."""

    active: Segment | None
    closed: tuple[Segment, ...]
    snapshots: tuple[str, ...]
    end_offset: int
    is_directory_unsynced: bool


@dataclass(frozen=True, slots=True)
class CommittedPass:
    """The committed result of a pass of compaction. on_swapped: called in the loop once it is the log."""

    rewritten: tuple[Segment, ...]
    on_swapped: Callable[[], None]


class CutPlace(NamedTuple):
    """The place of a cut: `kept` segments stay, the last of them up to `position`. The log then ends at
    `end_offset`, its last batch at `end_of_batches`."""

    kept: int
    position: int
    end_offset: int
    end_of_batches: int


class SegmentList:
    """Methods raise OSError if the disk fails. They are the loop's, but for those that say "thread"."""

    __slots__ = (
        "_committed",
        "_detached",
        "_directory",
        "_disk",
        "_is_directory_unsynced",
        "_lock",
        "_under_way",
        "_unflushed",
        "active",
        "all",
        "changes",
        "commit_lock",
        "has_aborted",
        "manifest",
        "size_bytes",
        "snapshots",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Sequence[Segment],
        snapshots: ProducerSnapshots,
        manifest: CompactionManifest | None = None,
    ) -> None:
        assert segments, "a log has at least its active segment"
        self._disk = disk
        self._directory = directory
        self.all = tuple(segments)
        self.active = segments[-1]
        self.snapshots = snapshots
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        self.changes = 0
        """Number of cuts, deletions and swaps; each counts when it begins and when it has ended. A reader in
        a thread takes it first, and asks `has_changed_since` in the end."""
        self._under_way = 0
        self.manifest = manifest
        self.has_aborted = any(not segment.aborted.is_empty for segment in segments)
        """Whether there may be an aborted transaction."""
        self.commit_lock = Lock()
        """Held while a pass of compaction is committed in a thread, and while the loop begins a change."""
        self._committed: CommittedPass | None = None  # not yet in the place of the old segments
        self._lock = Lock()  # never held over I/O
        self._unflushed: list[Segment] = []  # closed, not yet fsynced
        self._is_directory_unsynced = True
        self._detached: list[Segment] = []  # out of the log, their files not yet closed

    def at(self, log_offset: int) -> Segment:
        """Return the segment that holds an offset: the last that begins at or before it."""
        return self.all[segment_index(self.all, log_offset)]

    def find(self, base_offset: int) -> Segment | None:
        """Return the segment of that name."""
        return next((segment for segment in self.all if segment.base_offset == base_offset), None)

    def size_below(self, offset: int) -> int:
        """See LogPort."""
        size = 0
        for segment in self.all:
            if segment.next_offset > offset:
                inside = max(0, offset - segment.base_offset)
                return size + segment.size_bytes * inside // (segment.next_offset - segment.base_offset)
            size += segment.size_bytes
        return size

    # ---- growing

    def roll(self, producers: ProducerStates, *, index_interval_bytes: int, now_ms: int) -> None:
        """Close the active segment, which is not empty, and begin the next where it ends."""
        closed = self.active
        closed.close_indexes()
        self.snapshots.write(producers, log_offset=closed.next_offset)
        active = self._create(closed.next_offset, index_interval_bytes, now_ms)
        with self._lock:
            self._replace((*self.all, active))
            self._unflushed.append(closed)
            self._is_directory_unsynced = True

    def write_snapshot(self, producers: ProducerStates) -> None:
        """Write a producer snapshot of the log's end, unless the log has no record and no producer."""
        if producers or self.size_bytes or self.snapshots.offsets:
            self.snapshots.write(producers, log_offset=self.active.next_offset)

    def close(self, producers: ProducerStates) -> None:
        """Write all that the next start needs to avoid a scan. A flush follows."""
        self.active.close_indexes()
        self.write_snapshot(producers)
        with self._lock:
            self._unflushed.append(self.active)

    # ---- shrinking

    def place_to_cut(self, log_offset: int, *, log_start_offset: int) -> CutPlace:
        """Return where a cut to an offset falls: the whole batch that holds it goes, also if the log starts
        inside. Raise CorruptLog if a hole holds it.
        """
        index = segment_index(self.all, log_offset)
        segment = self.all[index]
        found = segment.find(log_offset)
        position = segment.size_bytes if found is None else found[0]
        end_offset = log_offset if found is None else min(log_offset, found[1].base_offset)
        for hole in segment.holes:  # `find` skips holes
            if hole.first_offset == log_offset:
                position = hole.position
            elif hole.first_offset < log_offset < hole.next_offset:
                raise segment.corrupt(hole.position, "rotten, and to be cut within")
        end_offset = max(end_offset, log_start_offset)
        return CutPlace(index + 1, position, end_offset, _end_of_batches(segment, end_offset))

    def has_changed_since(self, changes: int) -> bool:
        """Return whether segments or their files may be others than when `changes` was read: a change has
        begun since, or had not ended then. Thread."""
        return self._under_way > 0 or self.changes != changes

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Cut or delete within: a pass that is committed takes its place first, one that goes on gives up."""
        with self.commit_lock:
            self._swap()
            self._begin_change()
        try:
            yield
        finally:
            self._end_change()

    def _begin_change(self) -> None:
        self._under_way += 1
        self.changes += 1

    def _end_change(self) -> None:
        self.changes += 1  # first: a reader that came within must not take the end for its beginning
        self._under_way -= 1

    def cut(self, place: CutPlace) -> None:
        """Drop what lies behind a place, the newest segment first and durably before anything is written
        there.
        """
        self._forget_listed_from(self.all[place.kept - 1].base_offset)
        dropped = self.all[place.kept :]
        with self._lock:
            self._replace(self.all[: place.kept])
            self._unflushed = [segment for segment in self._unflushed if segment not in dropped]
        self._unlink(dropped)
        self.snapshots.delete_beyond(place.end_offset)
        active = self.active
        if dropped:
            self._disk.fsync_dir(self._directory)
            active.reopen_for_append()
        active.truncate(place.position)
        # Before new bytes are written in place of the cut ones: a power cut that brought some of the old
        # bytes back among the new would leave a log that no leader ever had.
        active.file.fsync()
        self.size_bytes = sum(segment.size_bytes for segment in self.all)

    def restart(self, base_offset: int, *, index_interval_bytes: int, now_ms: int) -> None:
        """Replace all segments by an empty one, durably."""
        if self.manifest is not None:
            restarting = msgspec.structs.replace(self.manifest, is_restarting=True)
            write_manifest(self._disk, self._directory, restarting)
        self._unlink(self.all)
        self.snapshots.delete_beyond(-1)
        self._disk.fsync_dir(self._directory)
        if self.manifest is not None:
            remove_manifest(self._disk, self._directory)
            self.manifest = None
        active = self._create(base_offset, index_interval_bytes, now_ms)
        self._disk.fsync_dir(self._directory)
        with self._lock:
            self._replace((active,))
            self._unflushed = []
        self.size_bytes = 0

    def detach_below(self, log_start_offset: int) -> list[str]:
        """Take the segments that lie wholly below the log start out of the log and rename their files. Return
        the new names, to be unlinked in a thread after `close_detached`.
        """
        if not self._count_below(log_start_offset):
            return []
        with self.changing():
            return self._detach_below(log_start_offset)

    def _detach_below(self, log_start_offset: int) -> list[str]:
        count = self._count_below(log_start_offset)
        gone, kept = self.all[:count], self.all[count:]
        detached: list[str] = []
        for segment in gone:
            for path in segment_paths(self._directory, segment.base_offset):
                if self._disk.exists(path):
                    detached.append(set_to_be_unlinked(self._disk, path))
        detached += self.snapshots.detach_before(kept[0].base_offset)
        with self._lock:
            self._replace(kept)
            self._unflushed = [segment for segment in self._unflushed if segment not in gone]
        self.size_bytes -= sum(segment.size_bytes for segment in gone)
        self._detached += gone
        return detached

    def close_detached(self) -> None:
        """Let go of detached segments. Thread: closing a file, too, waits for a flush that is writing its
        bytes, and here is mostly the last who holds it."""
        self._detached.clear()

    # ---- compaction

    def on_committed(self, manifest: CompactionManifest, committed: CommittedPass) -> None:
        """Note that a pass is committed. Its segments wait for `swap`. Thread, which holds `commit_lock`."""
        self.manifest, self._committed = manifest, committed

    def swap(self) -> None:
        """Put what a pass has committed in the place of the segments that it replaces, unless it is there."""
        with self.commit_lock:
            self._swap()

    def _swap(self) -> None:
        committed, self._committed = self._committed, None
        if committed is None:
            return
        if committed.rewritten:
            self._begin_change()
            try:
                self._put_in_place(committed.rewritten)
            finally:
                self._end_change()
        committed.on_swapped()

    def _put_in_place(self, rewritten: tuple[Segment, ...]) -> None:
        assert self.manifest is not None
        end_offset = rewritten[-1].next_offset
        kept = tuple(segment for segment in self.all if segment.base_offset >= end_offset)
        replaced = self.all[: len(self.all) - len(kept)]
        for segment in replaced:
            # A reader in a thread goes on with the old file, whose index is about to be another's.
            segment.index = new_index(self._disk, index_path(self._directory, segment.base_offset))
        take_places(self._disk, self._directory, self.manifest)
        for segment in rewritten:
            segment.index.move(index_path(self._directory, segment.base_offset))
            segment.aborted.move(aborted_path(self._directory, segment.base_offset))
        with self._lock:
            self._replace((*rewritten, *kept))
            self._unflushed = [segment for segment in self._unflushed if segment not in replaced]
        self.size_bytes = sum(segment.size_bytes for segment in self.all)
        self.snapshots.delete_before(end_offset)

    def _forget_listed_from(self, base_offset: int) -> None:
        """Take the segments from one on out of the manifest, durably: they are to be cut, and to grow."""
        manifest = self.manifest
        if manifest is not None and manifest.segments and manifest.segments[-1].base_offset >= base_offset:
            kept = tuple(each for each in manifest.segments if each.base_offset < base_offset)
            self.manifest = msgspec.structs.replace(manifest, segments=kept)
            write_manifest(self._disk, self._directory, self.manifest)

    # ---- producer states

    def replay_producers(self, *, end_offset: int, now_ms: int, is_recovery: bool) -> ProducerStates:
        """Return the producer states from the newest snapshot at or below the end, and the batches after it
        (I23, no gap, no repeat; S22, appended, cut and retried). A recovery also writes the missing snapshots
        between segments: retention may delete the segments that they stand for. Raise CorruptLog where a hole
        is needed.
        """
        states, log_offset = self._states_at(end_offset)
        for segment in self.all:
            if is_recovery and segment.base_offset > log_offset and segment is not self.all[0]:
                self.snapshots.write(states, log_offset=segment.base_offset)
            found = _replay(segment, states, from_offset=log_offset, now_ms=now_ms)
            if is_recovery and segment.base_offset >= log_offset and segment.aborted.is_in_memory:
                segment.aborted.replace(found)
                self.has_aborted = self.has_aborted or bool(found)
        return states

    def _states_at(self, log_offset: int) -> tuple[ProducerStates, int]:
        """Return the newest states at or below an offset that a snapshot has, and its offset; -1 for none."""
        snapshot = self.snapshots.load_newest(offset_max=log_offset)
        if snapshot is not None:
            return snapshot
        states = ProducerStates()
        states.is_whole = self.all[0].base_offset == 0
        return states, -1

    # ---- aborted transactions

    def take_aborted(self, entry: AbortedEntry) -> None:
        """A marker in the active segment aborts a transaction."""
        self.active.aborted.append(entry)
        self.has_aborted = True

    def aborted_in(self, first_offset: int, end_offset: int) -> list[AbortedEntry]:
        """See LogPort. Raise CorruptLog where a hole is needed."""
        found: list[AbortedEntry] = []
        for segment in self.all[segment_index(self.all, first_offset) :]:
            if segment.aborted.is_empty:
                continue
            self.check_aborted(segment)
            for entry in segment.aborted.entries_from(first_offset):
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return sorted(found, key=lambda each: each.first_offset)
        return sorted(found, key=lambda each: each.first_offset)

    def check_aborted(self, segment: Segment) -> bool:
        """Build a segment's index of aborted transactions again if its file is torn; return whether it was.
        Raise CorruptLog where a hole is needed."""
        try:
            segment.aborted.entries()
            return False
        except TornAbortedIndex:
            states, log_offset = self._states_at(segment.base_offset)
        for each in self.all[: self.all.index(segment) + 1]:
            found = _replay(each, states, from_offset=log_offset, now_ms=0)
        segment.aborted.replace(found)
        if segment is not self.active:
            segment.aborted.write()
        return True

    # ---- making durable

    @property
    def has_unflushed(self) -> bool:
        """Return whether closed segments wait for a flush."""
        return bool(self._unflushed)

    def distrust(self) -> None:
        """Note, after a recovery, that no closed segment is known to be durable."""
        with self._lock:
            self._unflushed = list(self.all[:-1])

    def take_unflushed(self, *, include_active: bool) -> Unflushed:
        """Return what a flush has to make durable now. Thread."""
        with self._lock:
            active = self.active
            unflushed = Unflushed(
                active=active if include_active else None,
                closed=tuple(self._unflushed),
                snapshots=tuple(self.snapshots.take_unsynced()),
                end_offset=active.next_offset if include_active else active.base_offset,
                is_directory_unsynced=self._is_directory_unsynced,
            )
            self._is_directory_unsynced = False
        return unflushed

    def fsync(self, unflushed: Unflushed) -> bool:
        """Fsync these files. Return whether the directory must be fsynced, too. Thread."""
        for segment in unflushed.closed:
            _fsync_unless_gone(segment.fsync)
        if unflushed.active is not None:
            unflushed.active.file.fsync()
        for path in unflushed.snapshots:
            _fsync_unless_gone(lambda path=path: fsync_file(self._disk, path))  # type: ignore[misc]
        return bool(unflushed.is_directory_unsynced or unflushed.closed or unflushed.snapshots)

    def on_flushed(self, unflushed: Unflushed) -> None:
        """Note that these files are durable. Thread."""
        with self._lock:
            self._unflushed = [segment for segment in self._unflushed if segment not in unflushed.closed]

    # ---- inside

    def _count_below(self, log_start_offset: int) -> int:
        """Return how many of the oldest segments lie wholly below the log start; never the active one."""
        return sum(following.base_offset <= log_start_offset for following in self.all[1:])

    def _replace(self, segments: tuple[Segment, ...]) -> None:
        self.all, self.active = segments, segments[-1]

    def _create(self, base_offset: int, index_interval_bytes: int, now_ms: int) -> Segment:
        return create_segment(
            self._disk,
            self._directory,
            base_offset=base_offset,
            index_interval_bytes=index_interval_bytes,
            now_ms=now_ms,
        )

    def _unlink(self, segments: Sequence[Segment]) -> None:
        for segment in reversed(segments):
            unlink_segment(self._disk, self._directory, segment.base_offset)


def _replay(segment: Segment, states: ProducerStates, *, from_offset: int, now_ms: int) -> list[AbortedEntry]:
    """Let the states take in a segment's batches from an offset on. Return what markers there abort. Raise
    CorruptLog where a hole is needed."""
    found: list[AbortedEntry] = []
    if segment.next_offset <= from_offset:
        return found
    if segment.holes:
        raise segment.corrupt(segment.holes[0].position, "known to be rotten, and needed")
    for position, header in segment.walk():
        if header.base_offset < from_offset:
            continue
        marker = None
        if header.is_control and header.producer_id >= 0:
            marker = marker_in(header, segment.read_batch(position, header))
        aborted = states.update(header, now_ms=now_ms, marker=marker)
        if aborted is not None:
            found.append(aborted)
    return found


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
