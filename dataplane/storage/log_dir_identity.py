"""The owner of a log directory, and the way its last user stopped: values, their encoding, and the verdict.

meta.json says which cluster, broker and registered incarnation a directory belongs to; the clean-shutdown
marker names the broker epoch it vouches for. What follows for trust is decided here, from both and the
kernel's boot id and mount mark; when the files are written and deleted is log_dir's protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.contract.session import ShutdownKind
from dataplane.storage.checked_json import CorruptJson, decode_checked, encode_checked

META_FILE = "meta.json"
NO_BROKER_EPOCH = -1


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
    broker_epoch: int
    boot_id: str
    unanswered: tuple[str, ...] = ()


def encode_meta(meta: LogDirMeta) -> bytes:
    fields = {"version": 1} | {name: getattr(meta, name) for name in LogDirMeta.__slots__}
    return encode_checked(fields)


def decode_meta(encoded: bytes) -> LogDirMeta:
    """Raises LogDirRefused."""
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
    meta: LogDirMeta | None, *, marker_broker_epoch: int | None, boot_id: str, has_mount_mark: bool
) -> ShutdownKind:
    """Return how the previous user of a directory stopped. Pass None for an unreadable marker, too.

    That only the process died takes two proofs that what it wrote is still there: the kernel is the same
    (`boot_id`), and so is the mount (`has_mount_mark`). A volume can be detached while its machine runs."""
    if meta is None:
        return ShutdownKind.FIRST_START
    if marker_broker_epoch is not None and marker_broker_epoch == meta.broker_epoch:
        return ShutdownKind.CLEAN
    if meta.broker_epoch == NO_BROKER_EPOCH:  # never registered: never held a replica
        return ShutdownKind.FIRST_START
    is_same_kernel = bool(boot_id) and boot_id == meta.boot_id
    return ShutdownKind.PROCESS_CRASH if is_same_kernel and has_mount_mark else ShutdownKind.MACHINE_CRASH


def decode_marker(marker: bytes | None) -> int | None:
    """The broker epoch that a clean-shutdown marker stands for; None if there is none that can be read."""
    if marker is None:
        return None
    try:
        broker_epoch = decode_checked(marker).get("broker_epoch")
    except CorruptJson:
        return None
    return broker_epoch if isinstance(broker_epoch, int) else None


def _decode_object(name: str, encoded: bytes) -> dict[str, Any]:
    """Raises LogDirRefused."""
    try:
        return decode_checked(encoded)
    except CorruptJson as error:
        raise LogDirRefused(
            f"{name}: {error}; nobody can say whose logs these are: give the broker an empty directory"
        ) from None
