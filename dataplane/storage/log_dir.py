"""One log directory (one disk): the partitions it holds, and what is done to all of them.

    meta.json                  cluster id, broker id, directory uuid, broker epoch, boot id
    clean-shutdown             the marker; absent while a process uses the directory
    .lock                      flock against a second process
    .mount-mark                in memory, not on disk, marked
    fresh-mark                 empty, made anew after each write
    *-checkpoint               high watermarks, recovery points, log starts (stored_offsets.py)
    <topic>-<partition>.<id>/  one log; topic cut to TOPIC_PREFIX_MAX characters, so that with the topic id
                               and a suffix it fits a file name of 255; partition.json holds the whole name
                               and decides. One that ends in `.deleted` only waits to be unlinked.
    divergent/  quarantine/    what a truncation dropped; replicas without a claim (quarantine.py)
    worker-<k>/                another worker's, with all of the above (worker_folders.py)

Whose the directory is and how its last user stopped: directory_claim.py. A log that lacks what its stop
should have left (recovery.py) refutes that: the stop was a machine crash, which is written down before that
log is moved, and the others are opened once more as after one. So that nothing else looks like it, a stored
high watermark never lies beyond its log's end: it is lowered before a cut and, after a machine crash, before
the mount mark vouches for the logs again.

A replica's directory is deleted only on the caller's positive evidence (I22, deletion needs evidence):
renamed at once, unlinked in a thread. Everything doubtful is renamed into quarantine/, never removed, never
cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from dataplane.core.log_port import LogError
from dataplane.core.titles import NewerFormat
from dataplane.storage.checkpoints import PartitionKey
from dataplane.storage.directory_claim import DirectoryClaim, claim_directory, is_anothers
from dataplane.storage.disk import DELETED_SUFFIX, Disk, stored_bytes
from dataplane.storage.durability import flush_together
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.log_settings import LogOptions, LogSettings, PartitionId
from dataplane.storage.partition_file import (
    PARTITION_FILE,
    encode_partition,
    partition_directory,
    read_partition,
)
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.quarantine import Quarantine, SetAsideNote, free_name, remove_note, replace_note
from dataplane.storage.recovery import DamagedLog, OpenedLog, open_partition_log
from dataplane.storage.stored_offsets import StoredOffsets
from dataplane.storage.tail_cache import TailBudget
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.session import ShutdownKind

DIVERGENT = "divergent"
QUARANTINE = "quarantine"
SYNCED_TOGETHER_MIN = 8
"""Number of files from which on one sync of the file system replaces single fsyncs. A single fsync waits for
no other file of the file system.
"""


@dataclass(frozen=True, slots=True)
class StrayDirectory:
    """A directory that is no partition: its partition.json is missing, broken, or names another one. It was
    moved to quarantine/ (or removed, if it held no data).
    """

    name: str
    reason: str


LoadedEntry = OpenedLog | DamagedLog | StrayDirectory


class LogDir:
    """A locked, identified directory. `open_log_dir` makes it; `load` opens a log.

    Each docstring says whether the method is called in a thread or on the loop.
    """

    def __init__(
        self, disk: Disk, claim: DirectoryClaim, *, options: LogOptions, tail_budget: TailBudget
    ) -> None:
        self.path = claim.path
        self.claim = claim
        self.health = claim.health
        self.logs: dict[PartitionKey, PartitionLog] = {}
        self.offsets = StoredOffsets(disk, self.health, self.logs, claim.mount_mark)
        self.quarantined = Quarantine(disk, f"{self.path}/{QUARANTINE}", self.health)
        self.syncs_all = claim.mount_mark.can_sync_all()
        """True if making many logs durable costs no more than one."""
        self._disk = disk
        self._is_loaded = False
        self._settings = LogSettings(
            disk,
            options,
            self.health,
            tail_budget,
            self.offsets.persist_lowered,
            self.offsets.lower_high_watermark,
            is_synced_later=self.syncs_all,
        )

    def on_registered(self, *, cluster_id: str, broker_epoch: BrokerEpoch) -> None:
        """Record the new incarnation, durably, before it does anything; raise LogDirRefused if the directory
        belongs to another cluster. Fsyncs: thread.
        """
        self.claim.check_cluster(cluster_id)
        self.offsets.write_starts()
        self.claim.on_registered(cluster_id=cluster_id, broker_epoch=broker_epoch)

    @property
    def must_renew_fresh_mark(self) -> bool:
        """Return whether something was written since the fresh mark was made. Loop."""
        return self.health.has_changed and self.claim.is_mount_marked

    def renew_fresh_mark(self) -> None:
        """Make the fresh mark anew (fresh_mark.py). Loop."""
        self.claim.renew_fresh_mark()

    # ---- loading

    def partition_names(self) -> list[str]:
        """Return the directories to load, after removing half-deleted ones. Thread."""
        names = []
        with self.health.guarded(f"listing {self.path}"):
            for name in self._disk.listdir(self.path):
                path = f"{self.path}/{name}"
                if name in (DIVERGENT, QUARANTINE) or is_anothers(name) or not self._disk.is_dir(path):
                    continue
                if name.endswith(DELETED_SUFFIX):
                    self._remove_tree(path)
                else:
                    names.append(name)
        return names

    def load(self, name: str, *, now_ms: int) -> LoadedEntry:
        """Open one partition directory. Thread; several calls may run at once. A damaged directory stays
        where it is: the caller reports it, then calls `quarantine_directory`.
        """
        path = f"{self.path}/{name}"
        with self.health.guarded(f"loading {path}"):
            try:
                partition = read_partition(self._disk, path)
                if partition_directory(partition) != name:
                    raise LogDirRefused(f"{PARTITION_FILE} names {partition}")
            except LogDirRefused as error:
                if self._holds_data(path):
                    self.quarantined.move_in(path)
                else:  # a crash in the middle of creation
                    self._remove_tree(path)
                return StrayDirectory(name, str(error))
        key = (partition.topic_id, partition.partition)
        entry = open_partition_log(
            self._settings,
            path,
            partition=partition,
            last_shutdown=self.claim.last_shutdown,
            recovery_point=self.offsets.recovery_point(key),
            high_watermark=self.offsets.high_watermark(key),
            log_start_offset=self.offsets.log_start(key),
            now_ms=now_ms,
        )
        if isinstance(entry, OpenedLog):
            self.logs[key] = entry.log
        else:
            self.offsets.damaged[key] = path
            if entry.refutes:
                self.claim.refute()
        return entry

    def begin_anew(self) -> None:
        """Close the logs, so that the caller can load them as after a machine crash. Called after all were
        loaded, if the claim `is_refuted`, with the damaged ones already in quarantine. Thread.
        """
        assert self.claim.is_refuted and not self.offsets.damaged
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        self.claim.last_shutdown = ShutdownKind.MACHINE_CRASH

    def finish_loading(self) -> None:
        """Make durable what was recovered; from now on a clean stop may be recorded. The caller has loaded
        every name, and no log is used before. Thread.
        """
        if self.syncs_all and self.claim.last_shutdown is not ShutdownKind.CLEAN:
            flush_together([log.durability for log in self.logs.values()], self._sync_all)
        self._is_loaded = True
        self.offsets.finish_loading()
        self.quarantined.find()

    def stored_high_watermark(self, key: PartitionKey) -> int:
        """Return the high watermark of the last checkpoint, or 0; it never lies beyond the log's end."""
        log = self.logs.get(key)
        end_offset = 0 if log is None else log.log_end_offset
        return min(self.offsets.high_watermark(key), end_offset)

    # ---- partitions

    def create(self, partition: PartitionId, *, now_ms: int) -> PartitionLog:
        """Create an empty log, durably. Fsyncs: thread."""
        log = self.make(partition, now_ms=now_ms)
        self.sync_names()
        return log

    def sync_names(self) -> None:
        """Make the logs that were created until now durable. Fsyncs: thread."""
        if self.syncs_all:
            self._sync_all()
        else:
            with self.health.guarded(f"naming logs in {self.path}"):
                self._disk.fsync_dir(self.path)

    def persist_epochs(self, logs: Sequence[PartitionLog]) -> None:
        """Write the leader-epoch files of these logs if they are behind, and make them durable. Fsyncs:
        thread.
        """
        is_together = self.syncs_all and len(logs) >= SYNCED_TOGETHER_MIN
        for log in logs:
            try:
                if is_together:
                    log.durability.on_syncing_epochs()
                else:
                    log.durability.persist_epochs()
            except LogError:  # deleted, set aside or damaged meanwhile: nothing to persist
                self.health.check()
        if is_together:
            self._sync_all()

    def make(self, partition: PartitionId, *, now_ms: int) -> PartitionLog:
        """Create an empty log that is durable after the next `sync_names`, which many logs may share. The
        caller must not rely on it before. A crash leaves no partition, or an empty one. Fsyncs: thread;
        several calls may run at once.
        """
        path = f"{self.path}/{partition_directory(partition)}"
        key = (partition.topic_id, partition.partition)
        self.health.check()  # a log whose names a failing disk did not sync is still in the table
        assert key not in self.logs, "one log a partition"
        self.offsets.settle_forgotten()
        aside = self.quarantined.takeable(key) if self.quarantined.notes else None
        if aside is not None:
            self.quarantined.outdate(aside)
        with self.health.guarded(f"creating {path}"):
            assert not self._disk.exists(path), "a directory that was not loaded is not overwritten"
            self._disk.mkdir(path)
            self._write_new(f"{path}/{PARTITION_FILE}", encode_partition(partition))
        entry = open_partition_log(
            self._settings,
            path,
            partition=partition,
            last_shutdown=ShutdownKind.FIRST_START,
            recovery_point=0,
            high_watermark=0,
            log_start_offset=0,
            now_ms=now_ms,
        )
        assert isinstance(entry, OpenedLog), entry
        self.logs[key] = entry.log
        return entry.log

    def delete(self, key: PartitionKey) -> str:
        """Rename the log's directory at once; the caller gives returned paths to `unlink_deleted`. The caller
        has positive evidence (I22, deletion needs positive evidence). Loop.
        """
        log = self.logs.pop(key)
        self.offsets.forget(key)
        log.abandon()
        with self.health.guarded(f"deleting {log.directory}"):
            doomed = free_name(self._disk, log.directory, suffix=DELETED_SUFFIX)
            self._disk.rename(log.directory, doomed)
        return doomed

    def unlink_deleted(self, paths: Sequence[str]) -> None:
        """Unlink directories that `delete` renamed. Thread."""
        assert all(path.endswith(DELETED_SUFFIX) for path in paths), paths
        with self.health.guarded(f"deleting {len(paths)} logs"):
            self._disk.fsync_dir(self.path)
            for path in paths:
                self._remove_tree(path)

    def quarantine(
        self,
        key: PartitionKey,
        *,
        why: str = "",
        now_ms: int = -1,
        high_watermark: int = -1,
        state: PartitionState | None = None,
        topic_state: TopicState | None = None,
    ) -> str:
        """Move a loaded replica to quarantine without losing a byte and return its new path. The note there
        holds what is known: state, topic_state, high_watermark. Thread.
        """
        log = self.logs.pop(key)
        self.offsets.forget(key)
        is_whole = self._is_durable(log)
        log.abandon()
        described = SetAsideLog(
            directory="",
            topic_id=key[0],
            topic=log.partition.topic,
            partition=key[1],
            why=why,
            since_ms=now_ms,
            leader_epoch=LeaderEpoch(max(log.epochs.latest, -1 if state is None else state.leader_epoch)),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=high_watermark,
            is_whole=is_whole,
            state=state,
            topic_state=topic_state,
        )
        return self.quarantined.put(
            log.directory, SetAsideNote(log=described, recovery_point=log.recovery_point)
        )

    def quarantine_directory(self, path: str, *, why: str = "", now_ms: int = -1) -> str:
        """Move a directory that could not be loaded (DamagedLog.directory) to quarantine; return its path.
        Thread.
        """
        (key,) = [key for key, damaged in self.offsets.damaged.items() if damaged == path]
        high_watermark = self.offsets.high_watermark(key, -1)
        del self.offsets.damaged[key]
        self.offsets.forget(key)
        with self.health.guarded(f"quarantining {path}"):
            partition = read_partition(self._disk, path)
        described = SetAsideLog(
            directory="",
            topic_id=key[0],
            topic=partition.topic,
            partition=key[1],
            why=why,
            since_ms=now_ms,
            high_watermark=high_watermark,
        )
        return self.quarantined.put(path, SetAsideNote(log=described))

    def take_up(self, key: PartitionKey, *, now_ms: int) -> PartitionLog | None:
        """Bring the takeable log back from quarantine and open it. If it is not what it was when it was set
        aside, move it back and return None. A crash in between leaves it in one of the two places, whole.
        Thread.
        """
        log = self.quarantined.takeable(key)
        assert log is not None and key not in self.logs, "one log a partition"
        partition = PartitionId(log.topic_id, log.topic, log.partition)
        path = f"{self.path}/{partition_directory(partition)}"
        note = self.quarantined.take_out(log, path)
        entry: OpenedLog | DamagedLog | None = None
        with suppress(NewerFormat):
            entry = open_partition_log(
                self._settings,
                path,
                partition=partition,
                last_shutdown=ShutdownKind.PROCESS_CRASH,
                recovery_point=note.recovery_point,
                high_watermark=max(0, log.high_watermark),
                log_start_offset=log.log_start_offset,
                now_ms=now_ms,
            )
        if not isinstance(entry, OpenedLog) or entry.log.log_end_offset != log.log_end_offset:
            if isinstance(entry, OpenedLog):
                entry.log.abandon()
            why = f"not what it was when it was set aside ({log.why})"
            self.quarantined.put(path, replace_note(note, why=why, is_whole=False))
            return None
        with self.health.guarded(f"taking up {path}"):
            remove_note(self._disk, path)
        self.logs[key] = entry.log
        self.offsets.bring_back(key, high_watermark=max(0, log.high_watermark))
        return entry.log

    # ---- stopping

    def close_cleanly(self, high_watermarks: dict[PartitionKey, int]) -> bool:
        """Make every log durable, then the checkpoints, then write the marker, as the last act. Return False,
        without a marker, if loading never finished or a machine crash was never reported. Raises LogError if
        the disk fails. Thread.
        """
        logs = [self.logs[key] for key in sorted(self.logs)]
        if self.syncs_all:
            for log in logs:
                log.write_for_close()
            flush_together([log.durability for log in logs], self._sync_all)
            for log in logs:
                log.abandon()
        else:
            for log in logs:
                log.close_cleanly()
        self.offsets.checkpoint_high_watermarks(high_watermarks)
        self.offsets.checkpoint_recovery_points()
        is_clean = self._is_loaded and self.claim.mark_clean()
        self.claim.release()
        return is_clean

    def abandon(self) -> None:
        """Release the directory without any claim (after a failure, and in tests a crash)."""
        for log in self.logs.values():
            log.abandon()
        self.claim.release()

    # ---- inside

    def _is_durable(self, log: PartitionLog) -> bool:
        """Return whether the whole log could be made durable and no part of it is known to be damaged."""
        try:
            return log.durability.flush() >= log.end_of_batches and not log.rotten
        except LogError:  # if the disk has failed, the move fails, too
            return False

    def _sync_all(self) -> None:
        """Make everything durable that this process has written to the file system. The handle was open all
        the time, so it reports each write that failed.
        """
        with self.health.guarded(f"syncing {self.path}"):
            self.claim.mount_mark.sync_all()

    def _write_new(self, path: str, data: bytes) -> None:
        """Write a file durably, except for its name. The name becomes durable with its directory's first
        fsync, when the log is opened, or with everything else.
        """
        with closing(self._disk.open(path, create=True)) as file:
            file.pwrite(data, 0)
            if not self.syncs_all:
                file.fsync()

    def _holds_data(self, path: str) -> bool:
        names = (name for name in self._disk.listdir(path) if name.endswith(".log"))
        return any(stored_bytes(self._disk, f"{path}/{name}") for name in names)

    def _remove_tree(self, path: str) -> None:
        for name in self._disk.listdir(path):
            inner = f"{path}/{name}"
            if self._disk.is_dir(inner):
                self._remove_tree(inner)
            else:
                self._disk.unlink(inner)
        self._disk.rmdir(path)


def open_log_dir(
    disk: Disk,
    path: str,
    *,
    broker_id: int,
    new_dir_id: str,
    boot_id: str,
    options: LogOptions | None = None,
    tail_budget: TailBudget | None = None,
) -> LogDir:
    """Claim a directory: see `claim_directory`. No log is read yet."""
    claim = claim_directory(disk, path, broker_id=broker_id, new_dir_id=new_dir_id, boot_id=boot_id)
    return LogDir(disk, claim, options=options or LogOptions(), tail_budget=tail_budget or TailBudget())
