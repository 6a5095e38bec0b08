"""A process's claim to a log directory: its lock, whose it is, how its last user stopped.

The shutdown protocol, on which the controller's trust rests (KIP-966; I11, unproven logs lose their seats
first):

- the marker is deleted, durably, as the *first* act after the lock (KAFKA-10471), before any log is read, and
  before anything else is changed;
- it is written last, after every log, checkpoint and epoch is durable, with the broker epoch it stands for
  and the title of the recovery points, which an older copy of the directory does not have; never when loading
  did not finish (KAFKA-15375) or the directory failed;
- the boot id in meta.json is that of the last incarnation that *registered*. It changes only together with
  the broker epoch, after registration: a process that dies before telling the controller about a machine
  crash leaves the evidence in place, and the next one still reports it;
- the mount mark (disk.py) is set after that, last of all, and looked at before anything is written: where it
  stands, this mount has kept in memory all that was written since some incarnation registered on it. A volume
  that was detached and attached again, on this machine or another, comes without it. A process that dies
  before it was set costs its successor a seat, never a record. The file stays open, and is written to at
  each checkpoint: neither an inode in use nor one with a page in the cache is dropped for want of memory;
- the fresh mark (fresh_mark.py) is made anew then, too, and after each write from then on: it shows that no
  older copy was put over the files, which keeps boot id and mount mark.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from dataplane.core.log_port import LogError
from dataplane.core.workers import folder_number
from dataplane.storage.checked_json import CorruptJson, decode_checked
from dataplane.storage.checkpoints import RECOVERY_POINTS, read_title
from dataplane.storage.disk import (
    DirectoryLocked,
    Disk,
    File,
    mkdir_durably,
    read_whole,
    replace_durably,
    unlink_durably,
)
from dataplane.storage.fresh_mark import FreshMark, is_mark_fresh
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_dir_identity import (
    META_FILE,
    CleanMarker,
    LogDirMeta,
    LogDirRefused,
    decode_marker,
    decode_meta,
    encode_marker,
    encode_meta,
    shutdown_kind,
)
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch
from springtide.contract.session import UNANSWERED_INCARNATIONS_MAX, ShutdownKind

MARKER_FILE = "clean-shutdown"
LOCK_FILE = ".lock"
MOUNT_MARK_FILE = ".mount-mark"
META_BYTES_MAX = 64 * 1024


class DirectoryClaim:
    """`claim_directory` makes it. Methods fsync and are for threads; they raise LogError."""

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
        is_copy_suspected: bool,
    ) -> None:
        self._disk = disk
        self._lock = lock
        self._boot_id = boot_id
        self._is_registered = False
        self.is_disowned = False
        self.path = path
        self.health = DirectoryHealth(path)
        self.meta = meta
        self.last_shutdown = last_shutdown
        self.previous_broker_epoch = meta.broker_epoch
        self.previous_unanswered = meta.unanswered
        self.mount_mark = mount_mark
        self.is_copy_suspected = is_copy_suspected
        """True if all is as the last user left it but the files, which were written over since."""
        self._fresh_mark = FreshMark(disk, path, self.health)
        self.is_mount_marked = False
        """True if this incarnation's successor can prove that only the process died."""
        self.is_refuted = False
        """True if a log has shown that the last stop was a machine crash."""

    def on_registering(self, incarnation_id: str) -> None:
        """Record, durably, that this incarnation is about to ask for an epoch. If it dies before it sees the
        answer, its successor can say so.
        """
        unanswered = (*self.meta.unanswered, incarnation_id)[-UNANSWERED_INCARNATIONS_MAX:]
        self._write_meta(replace(self.meta, unanswered=unanswered))

    def check_cluster(self, cluster_id: str) -> None:
        """Raise LogDirRefused if the directory belongs to another cluster."""
        if self.meta.cluster_id and self.meta.cluster_id != cluster_id:
            raise LogDirRefused(f"{self.path} belongs to cluster {self.meta.cluster_id}, not {cluster_id}")

    def on_registered(self, *, cluster_id: str, broker_epoch: BrokerEpoch) -> None:
        """Record the new incarnation, durably, before it does anything."""
        self._write_meta(
            LogDirMeta(cluster_id, self.meta.broker_id, self.meta.dir_id, broker_epoch, self._boot_id)
        )
        self._is_registered = True
        with self.health.guarded("setting the mount mark"):
            self.is_mount_marked = self.mount_mark.set_mount_mark()
        self.renew_fresh_mark()

    def renew_fresh_mark(self) -> None:
        """Make the fresh mark anew, if there is something that it can prove."""
        if self.is_mount_marked:
            self.is_mount_marked = self._fresh_mark.renew()

    def disown(self) -> None:
        """Ensure, durably, that no successor takes this incarnation's end for a process crash or a clean
        stop: the whole machine went back, memory and disk, so boot id and mount prove nothing.
        """
        self._write_meta(replace(self.meta, boot_id="", unanswered=()))
        self.is_disowned = True

    def refute(self) -> None:
        """Withdraw, durably, the proof that only the process died. This comes before the log that refutes it
        is moved, or a second start would find nothing wrong.
        """
        self.is_refuted = True
        if self.meta.boot_id:
            self._write_meta(replace(self.meta, boot_id=""))

    def mark_clean(self) -> bool:
        """Write the marker, as the last act. Return False, without a marker, if a machine crash was never
        reported or the directory was disowned.
        """
        is_reported = self._is_registered or self.last_shutdown is ShutdownKind.CLEAN
        if self.is_disowned or not is_reported:
            return False
        self.renew_fresh_mark()
        with self.health.guarded("writing the clean-shutdown marker"):
            marker = CleanMarker(self.meta.broker_epoch, read_title(self._disk, self.path, RECOVERY_POINTS))
            replace_durably(self._disk, f"{self.path}/{MARKER_FILE}", encode_marker(marker))
        return True

    def release(self) -> None:
        self._fresh_mark.release()
        self.mount_mark.close()
        self._lock.close()

    def _write_meta(self, meta: LogDirMeta) -> None:
        with self.health.guarded("writing meta.json"):
            replace_durably(self._disk, f"{self.path}/{META_FILE}", encode_meta(meta))
        self.meta = meta


def claim_directory(
    disk: Disk, path: str, *, broker_id: int, new_dir_id: str, boot_id: str
) -> DirectoryClaim:
    """Lock a directory, learn how its last user stopped, and delete the marker; on a first start, give it its
    identity. `new_dir_id` is a fresh uuid, used only then; `boot_id` is the kernel's, "" if unknown. Raise
    LogDirRefused; LogError if the disk fails. Fsyncs: thread, or before the loop runs.
    """
    try:
        mkdir_durably(disk, path)
        try:
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except DirectoryLocked:
            raise LogDirRefused(f"{path} is in use by another process") from None
        mount_mark = disk.open(f"{path}/{MOUNT_MARK_FILE}", create=True)
        meta, kind, is_copy_suspected = _identify_directory(
            disk, path, broker_id=broker_id, boot_id=boot_id, has_mount_mark=mount_mark.has_mount_mark()
        )
        if meta is None:
            meta = LogDirMeta("", broker_id, new_dir_id, NO_BROKER_EPOCH, boot_id)
            replace_durably(disk, f"{path}/{META_FILE}", encode_meta(meta))
    except OSError as error:
        raise LogError(f"log directory {path} can't be opened: {error}") from error
    return DirectoryClaim(
        disk,
        path,
        meta=meta,
        last_shutdown=kind,
        lock=lock,
        mount_mark=mount_mark,
        boot_id=boot_id,
        is_copy_suspected=is_copy_suspected,
    )


def _identify_directory(
    disk: Disk, path: str, *, broker_id: int, boot_id: str, has_mount_mark: bool
) -> tuple[LogDirMeta | None, ShutdownKind, bool]:
    """Return whose the directory is, how its last user stopped, and whether an older copy seems to lie over
    it."""
    # A directory of a later release is left as it is, with its marker: what tells its release is read first.
    marker = decode_marker(read_whole(disk, f"{path}/{MARKER_FILE}", bytes_max=META_BYTES_MAX))
    encoded = read_whole(disk, f"{path}/{META_FILE}", bytes_max=META_BYTES_MAX)
    recovery_points = read_title(disk, path, RECOVERY_POINTS)
    _check_release(encoded)
    unlink_durably(disk, f"{path}/{MARKER_FILE}")
    if encoded is None:
        if any(disk.is_dir(f"{path}/{name}") for name in disk.listdir(path) if not is_anothers(name)):
            raise LogDirRefused(f"{path} holds directories but no {META_FILE}: whose data is this?")
        return None, ShutdownKind.FIRST_START, False
    meta = decode_meta(encoded)
    if meta.broker_id != broker_id:
        raise LogDirRefused(f"{path} belongs to broker {meta.broker_id}, not {broker_id}")
    kind = shutdown_kind(
        meta,
        marker=marker,
        recovery_points=recovery_points,
        boot_id=boot_id,
        has_mount_mark=has_mount_mark,
        is_mark_fresh=is_mark_fresh(disk, path),
    )
    is_marked = marker is not None and marker.broker_epoch == meta.broker_epoch
    is_same = is_marked or (has_mount_mark and bool(boot_id) and boot_id == meta.boot_id)
    return meta, kind, is_same and kind is ShutdownKind.MACHINE_CRASH


def _check_release(meta: bytes | None) -> None:
    """Raise NewerFormat."""
    with suppress(CorruptJson):
        decode_checked(meta or b"", META_FILE)


def is_anothers(name: str) -> bool:
    """Return whether a directory of this name is none of the claimed one's: it is the file system's, or the
    folder of another worker, which may have been quicker at a first start."""
    return name == "lost+found" or folder_number(name) is not None
