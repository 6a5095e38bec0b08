"""One log directory (one disk): whose it is, how its last user stopped, and the partitions it holds.

    meta.json                  cluster id, broker id, directory uuid, broker epoch, boot id
    clean-shutdown             the marker; absent while a process uses the directory
    .lock                      flock against a second process
    .mount-mark                in memory, not on disk, marked: see below
    *-checkpoint               high watermarks, recovery points, log starts
    <topic>-<partition>.<id>/  one log; topic cut to TOPIC_PREFIX_MAX characters, so that with the topic id
                               and a suffix it fits a file name of 255; partition.json holds the whole name
                               and decides. One that ends in `.deleted` only waits to be unlinked.
    divergent/  quarantine/    what a truncation dropped; replicas without a claim

The shutdown protocol, on which the controller's trust rests (KIP-966, I11):

- the marker is deleted, durably, as the *first* act after the lock (KAFKA-10471), before any log is read;
- it is written last, after every log, checkpoint and epoch is durable, with the broker epoch it stands for;
  never when loading did not finish (KAFKA-15375) or the directory failed;
- the boot id in meta.json is that of the last incarnation that *registered*. It changes only together with
  the broker epoch, after registration: a process that dies before telling the controller about a machine
  crash leaves the evidence in place, and the next one still reports it;
- the mount mark (disk.py) is set after that, last of all, and looked at before anything is written: where it
  stands, this mount has kept in memory all that was written since some incarnation registered on it. A volume
  that was detached and attached again, on this machine or another, comes without it. A process that dies
  before it was set costs its successor a seat, never a record. The file stays open, and is written to at
  each checkpoint: neither an inode in use nor one with a page in the cache is dropped for want of memory.

- a log that lacks what its stop should have left (recovery.py) refutes all of that: the stop was a machine
  crash, which is written down before that log is moved, and the others are opened once more as after one. So
  that nothing else looks like it, a stored high watermark never lies beyond its log's end: it is lowered
  before a cut and, after a machine crash, before the mount mark vouches for the logs again.

A replica's directory is deleted only on the caller's positive evidence (I22, deletion needs evidence):
renamed at once, unlinked in a thread. Everything doubtful is renamed into quarantine/, never removed, never
cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar

from controller.contract.holdings import SetAsideLog
from controller.contract.partition_state import PartitionState, TopicState
from controller.contract.session import UNANSWERED_INCARNATIONS_MAX, ShutdownKind
from dataplane.core.log_port import LogError
from dataplane.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    PartitionKey,
    read_checkpoint,
    write_checkpoint,
)
from dataplane.storage.disk import (
    DirectoryLocked,
    Disk,
    File,
    read_whole,
    rename_durably,
    replace_durably,
    stored_bytes,
    unlink_durably,
)
from dataplane.storage.durability import flush_together
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_dir_identity import (
    META_FILE,
    NO_BROKER_EPOCH,
    LogDirMeta,
    LogDirRefused,
    decode_json_object,
    decode_marker,
    decode_meta,
    encode_meta,
    shutdown_kind,
)
from dataplane.storage.log_settings import LogOptions, LogSettings, PartitionId
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.quarantine import (
    SetAsideNote,
    read_note,
    remove_note,
    replace_note,
    size_of,
    write_note,
)
from dataplane.storage.recovery import DamagedLog, OpenedLog, open_partition_log
from dataplane.storage.segment_list import DELETED_SUFFIX
from dataplane.storage.tail_cache import TailBudget

MARKER_FILE = "clean-shutdown"
LOCK_FILE = ".lock"
MOUNT_MARK_FILE = ".mount-mark"
PARTITION_FILE = "partition.json"
DIVERGENT = "divergent"
QUARANTINE = "quarantine"

TOPIC_PREFIX_MAX = 180
META_BYTES_MAX = 64 * 1024
SYNCED_TOGETHER_MIN = 8
"""Number of files from which on one sync of the file system replaces single fsyncs. A single fsync waits for
no other file of the file system.
"""
SAME_NAME_MAX = 10_000
"""Limit of deleted or quarantined directories of one partition, beyond which no further one is made."""

_T = TypeVar("_T")


def partition_directory(partition: PartitionId) -> str:
    """Return the directory's name, at most 180 + 1 + 10 + 1 + 22 characters. The topic comes first for people
    (and because a topic id may begin with "-"); topic id and partition make the name unique.
    """
    return f"{partition.topic[:TOPIC_PREFIX_MAX]}-{partition.partition}.{partition.topic_id}"


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
        self,
        disk: Disk,
        path: str,
        *,
        meta: LogDirMeta,
        last_shutdown: ShutdownKind,
        lock: File,
        mount_mark: File,
        boot_id: str,
        options: LogOptions,
        tail_budget: TailBudget,
    ) -> None:
        self.path = path
        self.meta = meta
        self.last_shutdown = last_shutdown
        self.previous_broker_epoch = meta.broker_epoch
        self.previous_unanswered = meta.unanswered
        self.health = DirectoryHealth(path)
        self.logs: dict[PartitionKey, PartitionLog] = {}
        self.set_aside: dict[str, SetAsideNote] = {}
        """The notes by directory name in quarantine/, from `finish_loading` on."""
        self.problems: list[str] = []
        """Checkpoint files that could not be read. Without them recovery is slower, not wrong."""
        self.is_refuted = False
        """True if a log has shown that the last stop was a machine crash: see `begin_anew`."""
        self.cuts = 0
        """Number of cuts. High watermarks that were read before the last cut are not stored."""
        self.is_mount_marked = False
        """True if this incarnation's successor can prove that only the process died."""
        self._disk = disk
        self._lock = lock
        self._mount_mark = mount_mark
        self._boot_id = boot_id
        self._options = options
        self._is_loaded = False
        self._is_registered = False
        self._checkpoint_lock = Lock()
        self._damaged: dict[PartitionKey, str] = {}  # their checkpoints are evidence until quarantined
        self._is_forgotten_stored = False  # a checkpoint file still speaks of a log that is gone
        self._syncs_all = mount_mark.can_sync_all()
        self._settings = LogSettings(
            disk,
            options,
            self.health,
            tail_budget,
            self._persist_lowered,
            self._lower_high_watermark,
            is_synced_later=self._syncs_all,
        )
        self._high_watermarks = self._read_checkpoint(HIGH_WATERMARKS)
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        self._log_starts = self._read_checkpoint(LOG_STARTS)

    # ---- identity

    def on_registering(self, incarnation_id: str) -> None:
        """Record, durably, that this incarnation is about to ask for an epoch. If it dies before it sees the
        answer, its successor can say so. Fsyncs: thread.
        """
        unanswered = (*self.meta.unanswered, incarnation_id)[-UNANSWERED_INCARNATIONS_MAX:]
        meta = replace(self.meta, unanswered=unanswered)
        self._guarded("writing meta.json", lambda: self._replace(META_FILE, encode_meta(meta)))
        self.meta = meta

    def on_registered(self, *, cluster_id: str, broker_epoch: int) -> None:
        """Record the new incarnation, durably, before it does anything; raise LogDirRefused if the directory
        belongs to another cluster. Fsyncs: thread.
        """
        if self.meta.cluster_id and self.meta.cluster_id != cluster_id:
            raise LogDirRefused(f"{self.path} belongs to cluster {self.meta.cluster_id}, not {cluster_id}")
        with self._checkpoint_lock:
            self._guarded("writing checkpoints", self._write_starts)
        meta = LogDirMeta(cluster_id, self.meta.broker_id, self.meta.dir_id, broker_epoch, self._boot_id)
        self._guarded("writing meta.json", lambda: self._replace(META_FILE, encode_meta(meta)))
        self.meta = meta
        self._is_registered = True
        self.is_mount_marked = self._guarded("setting the mount mark", self._mount_mark.set_mount_mark)

    def disown(self) -> None:
        """Ensure, durably, that no successor takes this incarnation's end for a process crash or a clean
        stop: the whole machine went back, memory and disk, so boot id and mount prove nothing. Fsyncs:
        thread.
        """
        meta = replace(self.meta, boot_id="", unanswered=())
        self._guarded("writing meta.json", lambda: self._replace(META_FILE, encode_meta(meta)))
        self.meta = meta
        self._is_loaded = False  # without it no clean stop is marked either

    # ---- loading

    def partition_names(self) -> list[str]:
        """Return the directories to load, after removing half-deleted ones. Thread."""
        names = []
        try:
            for name in self._disk.listdir(self.path):
                path = f"{self.path}/{name}"
                if name in (DIVERGENT, QUARANTINE) or not self._disk.is_dir(path):
                    continue
                if name.endswith(DELETED_SUFFIX):
                    self._remove_tree(path)
                else:
                    names.append(name)
        except OSError as error:
            raise self.health.fail(error, f"listing {self.path}") from error
        return names

    def load(self, name: str, *, now_ms: int) -> LoadedEntry:
        """Open one partition directory. Thread; several calls may run at once. A damaged directory stays
        where it is: the caller reports it, then calls `quarantine_directory`.
        """
        path = f"{self.path}/{name}"
        try:
            partition = self._identify(name)
            if isinstance(partition, StrayDirectory):
                if self._holds_data(path):
                    self._move(path, f"{self.path}/{QUARANTINE}/{name}")
                else:  # a crash in the middle of creation
                    self._remove_tree(path)
                return partition
        except OSError as error:
            raise self.health.fail(error, f"loading {path}") from error
        key = (partition.topic_id, partition.partition)
        entry = open_partition_log(
            self._settings,
            path,
            partition=partition,
            last_shutdown=self.last_shutdown,
            recovery_point=self._recovery_points.get(key, 0),
            high_watermark=self._high_watermarks.get(key, 0),
            log_start_offset=self._log_starts.get(key, 0),
            now_ms=now_ms,
        )
        if isinstance(entry, OpenedLog):
            self.logs[key] = entry.log
        else:
            self._damaged[key] = path
            if entry.refutes:
                self._refute()
        return entry

    def begin_anew(self) -> None:
        """Close the logs, so that the caller can load them as after a machine crash. Called after all were
        loaded, if `is_refuted`, with the damaged ones already in quarantine. Thread.
        """
        assert self.is_refuted and not self._damaged
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        self.last_shutdown = ShutdownKind.MACHINE_CRASH

    def finish_loading(self) -> None:
        """Make durable what was recovered; from now on a clean stop may be recorded. The caller has loaded
        every name, and no log is used before. Thread.
        """
        if self._syncs_all and self.last_shutdown is not ShutdownKind.CLEAN:
            flush_together([log.durability for log in self.logs.values()], self._sync_all)
        self._is_loaded = True
        known = self.logs.keys() | self._damaged.keys()
        for offsets in (self._high_watermarks, self._recovery_points, self._log_starts):
            for key in [key for key in offsets if key not in known]:
                self._forget(key)
        for key, log in self.logs.items():
            if self._high_watermarks.get(key, 0) > log.log_end_offset:
                self._high_watermarks[key] = log.log_end_offset
        self.checkpoint_recovery_points()
        self._guarded(f"listing {self.path}/{QUARANTINE}", self._find_set_aside)

    def stored_high_watermark(self, key: PartitionKey) -> int:
        """Return the high watermark of the last checkpoint, or 0; it never lies beyond the log's end."""
        log = self.logs.get(key)
        end_offset = 0 if log is None else log.log_end_offset
        return min(self._high_watermarks.get(key, 0), end_offset)

    # ---- partitions

    def create(self, partition: PartitionId, *, now_ms: int) -> PartitionLog:
        """Create an empty log, durably. Fsyncs: thread."""
        log = self.make(partition, now_ms=now_ms)
        self.sync_names()
        return log

    def sync_names(self) -> None:
        """Make the logs that were created until now durable. Fsyncs: thread."""
        if self._syncs_all:
            self._sync_all()
        else:
            self._guarded(f"naming logs in {self.path}", lambda: self._disk.fsync_dir(self.path))

    @property
    def syncs_all(self) -> bool:
        """Return whether making many logs durable costs no more than one."""
        return self._syncs_all

    def persist_epochs(self, logs: Sequence[PartitionLog]) -> None:
        """Write the leader-epoch files of these logs if they are behind, and make them durable. Fsyncs:
        thread.
        """
        is_together = self._syncs_all and len(logs) >= SYNCED_TOGETHER_MIN
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
        self.health.check()
        path = f"{self.path}/{partition_directory(partition)}"
        key = (partition.topic_id, partition.partition)
        assert key not in self.logs, "one log a partition"
        if self._is_forgotten_stored:
            # Checkpoints of an earlier log of this partition must not be taken for this one's.
            self.checkpoint_high_watermarks({})
            self.checkpoint_recovery_points()
            self._is_forgotten_stored = False
        aside = self.takeable(key) if self.set_aside else None
        if aside is not None:  # from now on the log set aside is the older one
            note = replace_note(self.set_aside[aside.directory], is_whole=False, why=f"{aside.why}; outdated")
            in_quarantine = f"{self.path}/{QUARANTINE}/{aside.directory}"
            self._guarded(f"noting {in_quarantine}", lambda: write_note(self._disk, in_quarantine, note))
            self.set_aside[aside.directory] = note
        try:
            assert not self._disk.exists(path), "a directory that was not loaded is not overwritten"
            self._disk.mkdir(path)
            self._write_new(f"{path}/{PARTITION_FILE}", _encode_partition(partition))
        except OSError as error:
            raise self.health.fail(error, f"creating {path}") from error
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
        self._forget(key)
        log.abandon()
        return self._guarded(
            f"deleting {log.directory}",
            lambda: self._move(log.directory, log.directory, suffix=DELETED_SUFFIX, is_durable=False),
        )

    def unlink_deleted(self, paths: Sequence[str]) -> None:
        """Unlink directories that `delete` renamed. Thread."""
        assert all(path.endswith(DELETED_SUFFIX) for path in paths), paths

        def unlink() -> None:
            self._disk.fsync_dir(self.path)
            for path in paths:
                self._remove_tree(path)

        self._guarded(f"deleting {len(paths)} logs", unlink)

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
        self._forget(key)
        is_whole = self._is_durable(log)
        log.abandon()
        described = SetAsideLog(
            directory="",
            topic_id=key[0],
            topic=log.partition.topic,
            partition=key[1],
            why=why,
            since_ms=now_ms,
            leader_epoch=max(log.epochs.latest, -1 if state is None else state.leader_epoch),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=high_watermark,
            is_whole=is_whole,
            state=state,
            topic_state=topic_state,
        )
        return self._set_aside(log.directory, SetAsideNote(log=described, recovery_point=log.recovery_point))

    def quarantine_directory(self, path: str, *, why: str = "", now_ms: int = -1) -> str:
        """Move a directory that could not be loaded (DamagedLog.directory) to quarantine; return its path.
        Thread.
        """
        (key,) = [key for key, damaged in self._damaged.items() if damaged == path]
        high_watermark = self._high_watermarks.get(key, -1)
        del self._damaged[key]
        self._forget(key)
        partition = self._guarded(f"quarantining {path}", lambda: self._identify(path.rpartition("/")[2]))
        assert isinstance(partition, PartitionId), "it was loaded"
        described = SetAsideLog(
            directory="",
            topic_id=key[0],
            topic=partition.topic,
            partition=key[1],
            why=why,
            since_ms=now_ms,
            high_watermark=high_watermark,
        )
        return self._set_aside(path, SetAsideNote(log=described))

    def takeable(self, key: PartitionKey) -> SetAsideLog | None:
        """Return the log of this partition that `take_up` would bring back."""
        found = (note.log for note in list(self.set_aside.values()) if note.log.is_whole)
        mine = (log for log in found if (log.topic_id, log.partition) == key)
        return max(mine, key=lambda log: (log.leader_epoch, log.log_end_offset), default=None)

    def take_up(self, key: PartitionKey, *, now_ms: int) -> PartitionLog | None:
        """Bring `takeable` back from quarantine and open it. If it is not what it was when it was set aside,
        move it back and return None. A crash in between leaves it in one of the two places, whole. Thread.
        """
        log = self.takeable(key)
        assert log is not None and key not in self.logs, "one log a partition"
        note = self.set_aside.pop(log.directory)
        partition = PartitionId(log.topic_id, log.topic, log.partition)
        path = f"{self.path}/{partition_directory(partition)}"

        def move() -> None:
            assert not self._disk.exists(path), "a directory that was not loaded is not overwritten"
            rename_durably(self._disk, f"{self.path}/{QUARANTINE}/{log.directory}", path)

        self._guarded(f"taking up {log.directory}", move)
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
        if isinstance(entry, DamagedLog) or entry.log.log_end_offset != log.log_end_offset:
            if isinstance(entry, OpenedLog):
                entry.log.abandon()
            why = f"not what it was when it was set aside ({log.why})"
            self._set_aside(path, replace_note(note, why=why, is_whole=False))
            return None
        self._guarded(f"taking up {path}", lambda: remove_note(self._disk, path))
        with self._checkpoint_lock:
            self._high_watermarks[key] = max(0, log.high_watermark)
        self.logs[key] = entry.log
        self._persist_lowered()
        return entry.log

    # ---- checkpoints

    def checkpoint_high_watermarks(
        self, high_watermarks: dict[PartitionKey, int], *, cuts: int | None = None
    ) -> bool:
        """Store all replicas' high watermarks, and the log starts with them. Return False, with nothing
        written, if a log was cut since they were read (when the count was `cuts`). Thread.
        """
        with self._checkpoint_lock:
            if cuts not in (None, self.cuts):
                return False
            self._high_watermarks = self._stored(self._high_watermarks) | {
                key: min(high_watermark, self.logs[key].end_of_batches)
                for key, high_watermark in high_watermarks.items()
                if key in self.logs
            }
            self._guarded("writing checkpoints", self._write_starts)
            return True

    def checkpoint_log_starts(self) -> None:
        """Store the log starts alone. Thread."""
        with self._checkpoint_lock:
            self._guarded("writing log starts", self._write_log_starts)

    def checkpoint_recovery_points(self) -> None:
        """Store the recovery points, after flushes. Thread."""
        with self._checkpoint_lock:
            recovery_points = {key: log.recovery_point for key, log in list(self.logs.items())}
            recovery_points = self._stored(self._recovery_points) | recovery_points
            self._guarded(
                "writing recovery points",
                lambda: write_checkpoint(self._disk, self.path, RECOVERY_POINTS, recovery_points),
            )

    def close_cleanly(self, high_watermarks: dict[PartitionKey, int]) -> bool:
        """Make every log durable, then the checkpoints, then write the marker, as the last act. Return False,
        without a marker, if loading never finished or a machine crash was never reported. Raises LogError if
        the disk fails. Thread.
        """
        logs = [self.logs[key] for key in sorted(self.logs)]
        if self._syncs_all:
            for log in logs:
                log.write_for_close()
            flush_together([log.durability for log in logs], self._sync_all)
            for log in logs:
                log.abandon()
        else:
            for log in logs:
                log.close_cleanly()
        self.checkpoint_high_watermarks(high_watermarks)
        self.checkpoint_recovery_points()
        self.health.check()
        may_mark = self._is_loaded and (self._is_registered or self.last_shutdown is ShutdownKind.CLEAN)
        if may_mark:
            marker = json.dumps({"broker_epoch": self.meta.broker_epoch}).encode()
            self._guarded("writing the clean-shutdown marker", lambda: self._replace(MARKER_FILE, marker))
        self._close()
        return may_mark

    def abandon(self) -> None:
        """Release the directory without any claim (after a failure, and in tests a crash)."""
        for log in self.logs.values():
            log.abandon()
        self._close()

    # ---- inside

    def _is_durable(self, log: PartitionLog) -> bool:
        """Return whether the whole log could be made durable and no part of it is known to be damaged."""
        try:
            return log.durability.flush() >= log.end_of_batches and not log.rotten
        except LogError:
            self.health.check()
            return False

    def _set_aside(self, path: str, note: SetAsideNote) -> str:
        """Move a directory into quarantine/ with a note of what is known of it. The note is written first, so
        that a crash leaves no log there whose note is of an earlier time.
        """
        name = path.rpartition("/")[2]

        def move() -> str:
            write_note(self._disk, path, note)
            return self._move(path, f"{self.path}/{QUARANTINE}/{name}")

        moved = self._guarded(f"quarantining {path}", move)
        self._guarded(f"listing {moved}", lambda: self._note_set_aside(moved.rpartition("/")[2], note))
        return moved

    def _find_set_aside(self) -> None:
        if not self._disk.exists(f"{self.path}/{QUARANTINE}"):
            return
        for name in self._disk.listdir(f"{self.path}/{QUARANTINE}"):
            path = f"{self.path}/{QUARANTINE}/{name}"
            note = read_note(self._disk, path) or self._undescribed(path)
            if note is not None:
                self._note_set_aside(name, note)

    def _note_set_aside(self, name: str, note: SetAsideNote) -> None:
        size_bytes = size_of(self._disk, f"{self.path}/{QUARANTINE}/{name}")
        self.set_aside[name] = replace_note(note, directory=name, size_bytes=size_bytes)

    def _undescribed(self, path: str) -> SetAsideNote | None:
        """Return a note for a log that an earlier release set aside, or None if it is no log."""
        encoded = read_whole(self._disk, f"{path}/{PARTITION_FILE}", bytes_max=META_BYTES_MAX)
        try:
            partition = _decode_partition(encoded or b"")
        except LogDirRefused:
            return None
        return SetAsideNote(log=SetAsideLog(directory="", why="not known", **partition._asdict()))

    def _close(self) -> None:
        self._mount_mark.close()
        self._lock.close()

    def _guarded(self, doing: str, action: Callable[[], _T]) -> _T:
        self.health.check()
        try:
            return action()
        except OSError as error:
            raise self.health.fail(error, doing) from error

    def _sync_all(self) -> None:
        """Make everything durable that this process has written to the file system. The handle was open all
        the time, so it reports each write that failed.
        """
        self._guarded(f"syncing {self.path}", self._mount_mark.sync_all)

    def _replace(self, name: str, data: bytes) -> None:
        replace_durably(self._disk, f"{self.path}/{name}", data)

    def _write_new(self, path: str, data: bytes) -> None:
        """Write a file durably, except for its name. The name becomes durable with its directory's first
        fsync, when the log is opened, or with everything else.
        """
        with closing(self._disk.open(path, create=True)) as file:
            file.pwrite(data, 0)
            if not self._syncs_all:
                file.fsync()

    def _read_checkpoint(self, name: str) -> dict[PartitionKey, int]:
        found = read_checkpoint(self._disk, self.path, name)
        if found.problem is not None:
            self.problems.append(found.problem)
        return found.offsets

    def _write_starts(self) -> None:
        write_checkpoint(self._disk, self.path, HIGH_WATERMARKS, self._high_watermarks)
        self._write_log_starts()
        self._mount_mark.pwrite(b"\n", 0)

    def _write_log_starts(self) -> None:
        log_starts = self._stored(self._log_starts) | {
            key: log.log_start_offset for key, log in list(self.logs.items())
        }
        write_checkpoint(self._disk, self.path, LOG_STARTS, log_starts)

    def _persist_lowered(self) -> None:
        """Store the lowered offsets. Called inline by a truncation below the recovery point or the log start,
        before it cuts. Rare: recovery points trail the tail by a segment unless flush.* is set.
        """
        self.checkpoint_recovery_points()
        with self._checkpoint_lock:
            self._guarded("writing checkpoints", self._write_starts)

    def _lower_high_watermark(self, partition: PartitionId, end_offset: int) -> None:
        """Lower the stored high watermark before a cut, else the next start would take the cut for a loss.
        Called inline. Below its high watermark a log is cut under an unclean mark only (I15, below one's own
        high watermark only under a mark).
        """
        key = (partition.topic_id, partition.partition)
        with self._checkpoint_lock:
            self.cuts += 1
            if self._high_watermarks.get(key, 0) > end_offset:
                self._high_watermarks[key] = end_offset
                self._guarded("writing checkpoints", self._write_starts)

    def _refute(self) -> None:
        """Withdraw, durably, the proof that only the process died. This comes before the log that refutes it
        is moved, or a second start would find nothing wrong.
        """
        self.is_refuted = True
        if self.meta.boot_id:
            meta = replace(self.meta, boot_id="")
            self._guarded("writing meta.json", lambda: self._replace(META_FILE, encode_meta(meta)))
            self.meta = meta

    def _stored(self, offsets: dict[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Return the stored offsets to keep although the caller names none: those of partitions that are
        damaged or not loaded (yet), and of logs that no state has claimed yet, whose high watermarks only
        this file keeps.
        """
        if not self._is_loaded:
            return offsets
        return {key: offsets[key] for key in list(offsets) if key in self.logs or key in self._damaged}

    def _forget(self, key: PartitionKey) -> None:
        for offsets in (self._high_watermarks, self._recovery_points, self._log_starts):
            offsets.pop(key, None)
        self._is_forgotten_stored = True

    def _identify(self, name: str) -> PartitionId | StrayDirectory:
        encoded = read_whole(self._disk, f"{self.path}/{name}/{PARTITION_FILE}", bytes_max=META_BYTES_MAX)
        if encoded is None:
            return StrayDirectory(name, f"no {PARTITION_FILE}")
        try:
            partition = _decode_partition(encoded)
        except LogDirRefused as error:
            return StrayDirectory(name, str(error))
        if partition_directory(partition) != name:
            return StrayDirectory(name, f"{PARTITION_FILE} names {partition}")
        return partition

    def _holds_data(self, path: str) -> bool:
        names = (name for name in self._disk.listdir(path) if name.endswith(".log"))
        return any(stored_bytes(self._disk, f"{path}/{name}") for name in names)

    def _move(self, path: str, target: str, *, suffix: str = "", is_durable: bool = True) -> str:
        """Rename a directory to `target` plus suffix, with a number before the suffix if that name exists."""
        self._disk.mkdir(target.rpartition("/")[0])
        for number in range(SAME_NAME_MAX):
            free = f"{target}.{number}{suffix}" if number else target + suffix
            if not self._disk.exists(free):
                if is_durable:
                    rename_durably(self._disk, path, free)
                else:
                    self._disk.rename(path, free)
                return free
        raise OSError(f"{SAME_NAME_MAX} directories are called {target}{suffix} already")

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
    """Lock a directory, learn how its last user stopped, and delete the marker; on a first start, give it its
    identity. `new_dir_id` is a fresh uuid, used only then; `boot_id` is the kernel's, "" if unknown. No log
    is read yet. Raises LogDirRefused; LogError if the disk fails. Fsyncs: thread, or before the loop runs.
    """
    try:
        if not disk.exists(path):
            disk.mkdir(path)
            disk.fsync_dir(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
        try:
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except DirectoryLocked:
            raise LogDirRefused(f"{path} is in use by another process") from None
        mount_mark = disk.open(f"{path}/{MOUNT_MARK_FILE}", create=True)
        meta, kind = _identify_directory(
            disk, path, broker_id=broker_id, boot_id=boot_id, has_mount_mark=mount_mark.has_mount_mark()
        )
        if meta is None:
            meta = LogDirMeta("", broker_id, new_dir_id, NO_BROKER_EPOCH, boot_id)
            replace_durably(disk, f"{path}/{META_FILE}", encode_meta(meta))
    except OSError as error:
        raise LogError(f"log directory {path} can't be opened: {error}") from error
    return LogDir(
        disk,
        path,
        meta=meta,
        last_shutdown=kind,
        lock=lock,
        mount_mark=mount_mark,
        boot_id=boot_id,
        options=options or LogOptions(),
        tail_budget=tail_budget or TailBudget(),
    )


def _identify_directory(
    disk: Disk, path: str, *, broker_id: int, boot_id: str, has_mount_mark: bool
) -> tuple[LogDirMeta | None, ShutdownKind]:
    marker = read_whole(disk, f"{path}/{MARKER_FILE}", bytes_max=META_BYTES_MAX)
    unlink_durably(disk, f"{path}/{MARKER_FILE}")
    encoded = read_whole(disk, f"{path}/{META_FILE}", bytes_max=META_BYTES_MAX)
    if encoded is None:
        if any(disk.is_dir(f"{path}/{name}") for name in disk.listdir(path) if name != "lost+found"):
            raise LogDirRefused(f"{path} holds directories but no {META_FILE}: whose data is this?")
        return None, ShutdownKind.FIRST_START
    meta = decode_meta(encoded)
    if meta.broker_id != broker_id:
        raise LogDirRefused(f"{path} belongs to broker {meta.broker_id}, not {broker_id}")
    return meta, shutdown_kind(
        meta, marker_broker_epoch=decode_marker(marker), boot_id=boot_id, has_mount_mark=has_mount_mark
    )


def _encode_partition(partition: PartitionId) -> bytes:
    return json.dumps(partition._asdict()).encode() + b"\n"


def _decode_partition(encoded: bytes) -> PartitionId:
    fields = decode_json_object(encoded)
    topic_id, topic, partition = (fields.get(name) for name in PartitionId._fields)
    if not (isinstance(topic_id, str) and isinstance(topic, str) and isinstance(partition, int)):
        raise LogDirRefused(f"{PARTITION_FILE} lacks a field")
    return PartitionId(topic_id, topic, partition)
