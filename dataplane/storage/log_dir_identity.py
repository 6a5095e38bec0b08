"""The owner of a log directory, and the way its last user stopped: values, their encoding, and the verdict.

meta.json says which cluster, broker and registered incarnation a directory belongs to; the clean-shutdown
marker names the broker epoch and the recovery points it vouches for. What follows for trust is decided here,
from both and the kernel's boot id, the mount mark and the fresh mark; when the files are written and deleted
is log_dir's protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dataplane.storage.checked_json import VERSION, CorruptJson, decode_checked, encode_checked
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch
from springtide.contract.session import ShutdownKind

META_FILE = "meta.json"


class LogDirRefused(Exception):
    """The directory can't be used as it is, and an operator has to look: another broker's, another cluster's,
    locked, without identity, or unreadable."""


@dataclass(frozen=True, slots=True)
class LogDirMeta:
    """meta.json. `cluster_id` is empty and `broker_epoch` -1 until the first registration.

    unanswered: incarnations that asked to register since that epoch without seeing an answer, oldest first.
    """

    cluster_id: str
    broker_id: int
    dir_id: str
    broker_epoch: BrokerEpoch
    boot_id: str
    unanswered: tuple[str, ...] = ()


def encode_meta(meta: LogDirMeta) -> bytes:
    fields = {"version": VERSION} | {name: getattr(meta, name) for name in LogDirMeta.__slots__}
    return encode_checked(fields)


def decode_meta(encoded: bytes) -> LogDirMeta:
    """Raises LogDirRefused, NewerFormat."""
    fields = _decode_object(META_FILE, encoded)
    try:
        fields["unanswered"] = tuple(fields.get("unanswered", ()))
        meta = LogDirMeta(**{name: fields[name] for name in LogDirMeta.__slots__})
    except TypeError as error:
        raise LogDirRefused(f"{META_FILE}: {error}") from None
    except KeyError as error:
        raise LogDirRefused(f"{META_FILE} lacks {error}") from None
    if not (
        isinstance(meta.broker_id, int)
        and isinstance(meta.broker_epoch, int)
        and all(
            isinstance(text, str) for text in (meta.cluster_id, meta.dir_id, meta.boot_id, *meta.unanswered)
        )
    ):
        raise LogDirRefused(f"{META_FILE} has fields of a wrong type")
    return meta


def shutdown_kind(
    meta: LogDirMeta | None,
    *,
    marker: CleanMarker | None,
    recovery_points: str,
    boot_id: str,
    has_mount_mark: bool,
    is_mark_fresh: bool,
) -> ShutdownKind:
    """Return how the previous user of a directory stopped. recovery_points: the title of the checkpoint that
    is there.

    That only the process died takes three proofs that what it wrote is still there: the kernel is the same
    (`boot_id`), and so is the mount (`has_mount_mark`); and no older copy was put over it (`is_mark_fresh`).
    A volume can be detached while its machine runs."""
    if meta is None:
        return ShutdownKind.FIRST_START
    if marker is not None and marker.broker_epoch == meta.broker_epoch and marker.suits(recovery_points):
        return ShutdownKind.CLEAN
    if meta.broker_epoch == NO_BROKER_EPOCH:  # never registered: never held a replica
        return ShutdownKind.FIRST_START
    is_same_kernel = bool(boot_id) and boot_id == meta.boot_id
    is_proved = is_same_kernel and has_mount_mark and is_mark_fresh
    return ShutdownKind.PROCESS_CRASH if is_proved else ShutdownKind.MACHINE_CRASH


@dataclass(frozen=True, slots=True)
class CleanMarker:
    """clean-shutdown: the broker epoch that it stands for, and the title of the recovery points that were
    written before it, up to the end of each log. Markers of older releases have none."""

    broker_epoch: BrokerEpoch
    recovery_points: str = ""

    def suits(self, recovery_points: str) -> bool:
        """Return False if the checkpoint that is there (its title, "" if it can't be read) is another one: an
        older copy was put over the directory, and this marker was not in it."""
        return recovery_points == self.recovery_points or not (recovery_points and self.recovery_points)


def encode_marker(marker: CleanMarker) -> bytes:
    return encode_checked({name: getattr(marker, name) for name in CleanMarker.__slots__})


def decode_marker(encoded: bytes | None) -> CleanMarker | None:
    """Return None if there is no marker that can be read. Raise NewerFormat."""
    if encoded is None:
        return None
    try:
        fields = decode_checked(encoded, "the clean-shutdown marker")
    except CorruptJson:
        return None
    broker_epoch, recovery_points = fields.get("broker_epoch"), fields.get("recovery_points", "")
    if not (isinstance(broker_epoch, int) and isinstance(recovery_points, str)):
        return None
    return CleanMarker(BrokerEpoch(broker_epoch), recovery_points)


def _decode_object(name: str, encoded: bytes) -> dict[str, Any]:
    """Raises LogDirRefused, NewerFormat."""
    try:
        return decode_checked(encoded, name)
    except CorruptJson as error:
        raise LogDirRefused(
            f"{name}: {error}; whose logs these are is not known: give the broker an empty directory"
        ) from None
