"""What a log directory's checkpoints say of its logs, and when they are written (checkpoints.py)."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from dataplane.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    PartitionKey,
    read_checkpoint,
    write_checkpoint,
)
from dataplane.storage.disk import Disk, File
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_log import PartitionLog


class StoredOffsets:
    """The high watermarks, recovery points and log starts of `logs`, which is the directory's own mapping.

    The mount mark is written to at each checkpoint, so that its inode stays in use (directory_claim.py).
    """

    def __init__(
        self,
        disk: Disk,
        health: DirectoryHealth,
        logs: Mapping[PartitionKey, PartitionLog],
        mount_mark: File,
    ) -> None:
        self._disk = disk
        self._health = health
        self._logs = logs
        self._mount_mark = mount_mark
        self._lock = Lock()
        self._is_loaded = False
        self.problems: list[str] = []
        """Checkpoint files that could not be read. Without them recovery is slower, not wrong."""
        self.damaged: dict[PartitionKey, str] = {}
        """Directories of damaged logs: their checkpoints are evidence until they are quarantined."""
        self.cuts = 0
        """Number of cuts. High watermarks that were read before the last cut are not stored."""
        self._is_forgotten_stored = False  # a checkpoint file still speaks of a log that is gone
        self._written: dict[str, dict[PartitionKey, int]] = {}
        self._high_watermarks = self._read(HIGH_WATERMARKS)
        self._recovery_points = self._read(RECOVERY_POINTS)
        self._log_starts = self._read(LOG_STARTS)

    def high_watermark(self, key: PartitionKey, default: int = 0) -> int:
        """Return the high watermark of the last checkpoint."""
        return self._high_watermarks.get(key, default)

    def recovery_point(self, key: PartitionKey) -> int:
        return self._recovery_points.get(key, 0)

    def log_start(self, key: PartitionKey) -> int:
        return self._log_starts.get(key, 0)

    def finish_loading(self) -> None:
        """Forget what is said of logs that are not here. Thread."""
        self._is_loaded = True
        known = self._logs.keys() | self.damaged.keys()
        for offsets in (self._high_watermarks, self._recovery_points, self._log_starts):
            for key in [key for key in offsets if key not in known]:
                self.forget(key)
        for key, log in self._logs.items():
            if self._high_watermarks.get(key, 0) > log.log_end_offset:
                self._high_watermarks[key] = log.log_end_offset
        self.checkpoint_recovery_points()

    def checkpoint_high_watermarks(
        self, high_watermarks: dict[PartitionKey, int], *, cuts: int | None = None
    ) -> bool:
        """Store all replicas' high watermarks, and the log starts with them. Return False, with nothing
        written, if a log was cut since they were read (when the count was `cuts`). Thread.
        """
        with self._lock:
            if cuts not in (None, self.cuts):
                return False
            self._high_watermarks = self._stored(self._high_watermarks) | {
                key: min(high_watermark, self._logs[key].end_of_batches)
                for key, high_watermark in high_watermarks.items()
                if key in self._logs
            }
            self._write_starts()
            return True

    def checkpoint_log_starts(self) -> None:
        """Store the log starts alone. Thread."""
        with self._lock, self._health.guarded("writing log starts"):
            self._write_log_starts()

    def checkpoint_recovery_points(self) -> None:
        """Store the recovery points, after flushes. At rest, too: it shows whether the disk still works.
        Thread."""
        with self._lock, self._health.guarded("writing recovery points"):
            recovery_points = {key: log.recovery_point for key, log in list(self._logs.items())}
            recovery_points = self._stored(self._recovery_points) | recovery_points
            write_checkpoint(self._disk, self._health.path, RECOVERY_POINTS, recovery_points)

    def write_starts(self) -> None:
        """Store high watermarks and log starts as they are known. Thread."""
        with self._lock:
            self._write_starts()

    def persist_lowered(self) -> None:
        """Store the lowered offsets. Called inline by a truncation below the recovery point or the log start,
        before it cuts. Rare: recovery points trail the tail by a segment unless flush.* is set.
        """
        self.checkpoint_recovery_points()
        self.write_starts()

    def lower_high_watermark(self, partition: PartitionId, end_offset: int) -> None:
        """Lower the stored high watermark before a cut, else the next start would take the cut for a loss.
        Called inline. Below its high watermark a log is cut under an unclean mark only (I15, below one's own
        high watermark only under a mark).
        """
        key = (partition.topic_id, partition.partition)
        with self._lock:
            self.cuts += 1
            if self._high_watermarks.get(key, 0) > end_offset:
                self._high_watermarks[key] = end_offset
                self._write_starts()

    def bring_back(self, key: PartitionKey, *, high_watermark: int) -> None:
        """Store, durably, what is known of a log that was taken up."""
        with self._lock:
            self._high_watermarks[key] = high_watermark
        self.persist_lowered()

    def keep(self, key: PartitionKey, *, high_watermark: int) -> None:
        """Note what the next checkpoint is to say of a log that has no replica any more."""
        with self._lock:
            self._high_watermarks[key] = min(high_watermark, self._logs[key].end_of_batches)

    def forget(self, key: PartitionKey) -> None:
        """Forget a log that is gone. The files still speak of it: see `settle_forgotten`."""
        for offsets in (self._high_watermarks, self._recovery_points, self._log_starts):
            offsets.pop(key, None)
        self._is_forgotten_stored = True

    def settle_forgotten(self) -> None:
        """Ensure that no file speaks of a log that is gone: a new log of its partition must not be taken for
        it. Thread.
        """
        if self._is_forgotten_stored:
            self.checkpoint_high_watermarks({})
            self.checkpoint_recovery_points()
            self._is_forgotten_stored = False

    def _read(self, name: str) -> dict[PartitionKey, int]:
        found = read_checkpoint(self._disk, self._health.path, name)
        if found.problem is not None:
            self.problems.append(found.problem)
        return found.offsets

    def _write_starts(self) -> None:
        with self._health.guarded("writing checkpoints"):
            self._write_if_changed(HIGH_WATERMARKS, self._high_watermarks)
            self._write_log_starts()
            self._mount_mark.pwrite(b"\n", 0)

    def _write_log_starts(self) -> None:
        log_starts = self._stored(self._log_starts) | {
            key: log.log_start_offset for key, log in list(self._logs.items())
        }
        self._write_if_changed(LOG_STARTS, log_starts)

    def _write_if_changed(self, name: str, offsets: dict[PartitionKey, int]) -> None:
        """Write a checkpoint, unless its file says the same: nothing is flushed while nothing changes."""
        if self._written.get(name) != offsets:
            write_checkpoint(self._disk, self._health.path, name, offsets)
            self._written[name] = dict(offsets)

    def _stored(self, offsets: dict[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Return the stored offsets to keep although the caller names none: those of partitions that are
        damaged or not loaded (yet), and of logs that no state has claimed yet, whose high watermarks only
        this file keeps.
        """
        if not self._is_loaded:
            return offsets
        return {key: offsets[key] for key in list(offsets) if key in self._logs or key in self.damaged}
