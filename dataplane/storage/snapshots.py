"""The producer-state snapshots in a partition's directory, named by the log offset they stand for.

A snapshot holds the state after all batches below its offset. It is written at a roll and at a clean stop,
made durable before the recovery point passes it, deleted when a truncation goes below it. One that can't be
read is skipped for the next older; with none left, the log itself is replayed from its start.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from threading import Lock

from dataplane.core.producer_state import CorruptProducerSnapshot, ProducerStates, decode_producer_states
from dataplane.storage.disk import Disk, read_whole, replace, set_to_be_unlinked

SUFFIX = ".snapshot"
SNAPSHOT_BYTES_MAX = 64 * 1024 * 1024


class ProducerSnapshots:
    """The snapshots of one partition. `on_corrupt(reason)` hears of each that had to be skipped."""

    __slots__ = ("_directory", "_disk", "_on_corrupt", "_unsynced", "_unsynced_lock", "offsets")

    def __init__(
        self, disk: Disk, directory: str, offsets: list[int], on_corrupt: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._on_corrupt = on_corrupt
        self._unsynced: list[int] = []
        self._unsynced_lock = Lock()  # the loop adds, a flush in a thread takes
        self.offsets = sorted(offsets)

    def write(self, states: ProducerStates, *, log_offset: int) -> None:
        """Write to the page cache, under a temporary name until whole; `take_unsynced` says what to fsync."""
        replace(self._disk, self._path(log_offset), states.encode())
        if log_offset not in self.offsets:
            insort(self.offsets, log_offset)
        with self._unsynced_lock:
            self._unsynced.append(log_offset)

    def take_unsynced(self) -> list[str]:
        """Paths written since the last call; fsync them and the directory."""
        with self._unsynced_lock:
            unsynced, self._unsynced = self._unsynced, []
        return [self._path(log_offset) for log_offset in unsynced]

    def distrust(self) -> None:
        """Note an unclean stop: what is in the page cache may never have been fsynced."""
        self._unsynced = list(self.offsets)

    def load_newest(self, *, offset_max: int) -> tuple[ProducerStates, int] | None:
        """The newest readable state at or below an offset, and its offset. The unreadable are deleted."""
        for log_offset in reversed(self.offsets[: bisect_right(self.offsets, offset_max)]):
            try:
                encoded = read_whole(self._disk, self._path(log_offset), bytes_max=SNAPSHOT_BYTES_MAX)
                return decode_producer_states(encoded or b""), log_offset
            except CorruptProducerSnapshot as error:
                self._on_corrupt(f"{self._path(log_offset)}: {error}")
                self._delete(log_offset)
        return None

    def delete_beyond(self, log_offset: int) -> None:
        """A truncation's part."""
        for stale in self.offsets[bisect_right(self.offsets, log_offset) :]:
            self._delete(stale)

    def delete_before(self, log_offset: int) -> None:
        """A compaction's part: keep the newest at or before `log_offset`, which stands for what is gone."""
        for stale in self._before(log_offset):
            self._delete(stale)

    def detach_before(self, log_offset: int) -> list[str]:
        """Retention's part: the same, but rename the files, and return the new names, to be unlinked in a
        thread. An unlink waits for a flush that is writing the file's bytes.
        """
        detached = []
        for stale in self._before(log_offset):
            self._forget(stale)
            detached.append(set_to_be_unlinked(self._disk, self._path(stale)))
        return detached

    def _before(self, log_offset: int) -> list[int]:
        return self.offsets[: max(bisect_right(self.offsets, log_offset) - 1, 0)]

    def _delete(self, log_offset: int) -> None:
        self._forget(log_offset)
        self._disk.unlink(self._path(log_offset))

    def _forget(self, log_offset: int) -> None:
        self.offsets.remove(log_offset)
        with self._unsynced_lock:
            if log_offset in self._unsynced:
                self._unsynced.remove(log_offset)

    def _path(self, log_offset: int) -> str:
        return f"{self._directory}/{log_offset:020d}{SUFFIX}"
