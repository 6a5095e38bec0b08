"""The leader-epoch history of a log, and the file that keeps it.

The loop changes the history; a flush in a thread may write the file meanwhile. The file is written before
the first batch of an epoch is flushed, not when the epoch begins: a broker that takes thousands of
leaderships over leads all of them before it writes any.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from dataplane.core.leader_epochs import CHECKPOINT_BYTES_MAX, LeaderEpochs
from dataplane.storage.disk import Disk, fsync_file, read_whole, replace, replace_durably
from dataplane.storage.health import LogHealth
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.record_batch import BatchHeader

EPOCHS_FILE = "leader-epochs"


class EpochFile:
    """`is_behind`: the history has changed since the file was written."""

    __slots__ = ("_disk", "_health", "_is_unsynced", "_lock", "_path", "epochs", "is_behind")

    def __init__(self, disk: Disk, health: LogHealth, epochs: LeaderEpochs) -> None:
        self._disk = disk
        self._health = health
        self._path = f"{health.path}/{EPOCHS_FILE}"
        self._lock = Lock()
        self._is_unsynced = False
        self.epochs = epochs
        self.is_behind = False

    def begin(self, leader_epoch: LeaderEpoch, *, start_offset: int) -> None:
        """Record that an epoch begins. The file is behind until `write`."""
        with self._lock:
            if self.epochs.assign(leader_epoch, start_offset=start_offset):
                self.is_behind = True

    def take_batches(self, headers: Iterable[BatchHeader], *, end_offset: int) -> None:
        """Record and write the epochs of batches appended at `end_offset`. Each begins where the one before
        ended, also where its first batches are gone from the compacted log that they are copied from: else a
        log that differs there would be taken for a prefix of this one."""
        with self._lock:
            for header in headers:
                self.epochs.assign(header.leader_epoch, start_offset=end_offset)
                end_offset = header.next_offset
        self.write()

    def reconcile(self, leader_epoch: LeaderEpoch) -> None:
        """See LogPort.note_reconciled."""
        with self._lock:
            is_news = self.epochs.reconcile(leader_epoch)
        if is_news:
            self.write()

    def truncate_from_end(self, end_offset: int) -> None:
        with self._lock:
            is_shorter = self.epochs.truncate_from_end(end_offset)
        if is_shorter:
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before `start_offset`. The file is not written: old entries in it do no harm."""
        with self._lock:
            self.epochs.truncate_from_start(start_offset)

    def clear(self) -> None:
        with self._lock:
            self.epochs.clear()
        self.write()

    def write(self) -> None:
        """Write the file, to the page cache. Raise LogError."""
        with self._health.guarded("writing epochs of"), self._lock:
            replace(self._disk, self._path, self.epochs.encode())
            self.is_behind, self._is_unsynced = False, True

    def on_syncing(self) -> None:
        """Write the file if it is behind: the caller is about to make it durable, with those of other logs.
        Thread.
        """
        if self.is_behind:
            self.write()
        self._is_unsynced = False  # a write from now on needs another fsync

    def fsync(self) -> bool:
        """Write the file if it is behind, and fsync it. Return whether the directory must be fsynced, too.
        Thread. Raise OSError, LogError.
        """
        if self.is_behind:
            self.write()
        if not self._is_unsynced:
            return False
        self._is_unsynced = False  # a write from now on needs another fsync
        fsync_file(self._disk, self._path)
        return True

    def settle(self) -> None:
        """Ensure, after a recovery, that the file will hold this history. Raise OSError."""
        encoded = self.epochs.encode()
        if read_whole(self._disk, self._path, bytes_max=CHECKPOINT_BYTES_MAX) == encoded:
            self._is_unsynced = True  # the last process may not have synced it
        else:
            # After a power cut the disk must hold the old epochs or these: an epoch without batches has no
            # other evidence.
            replace_durably(self._disk, self._path, encoded)
