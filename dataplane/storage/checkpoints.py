"""The checkpoint files of a log directory: one offset per partition, rewritten as a whole.

High watermarks, recovery points and log start offsets are each such a file. All three are lower bounds that
may be old: a replica that reads an old high watermark waits a little longer, one that reads an old recovery
point scans a little more. So a missing or broken file is no error, only slower; but a *torn* one must never
be believed: so it has a CRC and is replaced by rename.

A recovery point must be lowered on disk before a truncated log takes new bytes: LogDir does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.core.titles import CorruptTitle, with_title, without_title
from dataplane.storage.disk import Disk, read_whole, replace_durably

HIGH_WATERMARKS = "high-watermark-checkpoint"
RECOVERY_POINTS = "recovery-point-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"

CHECKPOINT_BYTES_MAX = 256 * 1024 * 1024

PartitionKey = tuple[str, int]
"""(topic id, partition): topic names come back, ids never do (I21, topic ids decide)."""


@dataclass(frozen=True, slots=True)
class ReadCheckpoint:
    """`problem` says why `offsets` is empty although a file is there."""

    offsets: dict[PartitionKey, int]
    problem: str | None = None


def encode_checkpoint(name: str, offsets: Mapping[PartitionKey, int]) -> bytes:
    """A title with the CRC32C of the rest, then "topic-id partition offset" lines, sorted."""
    body = "".join(
        f"{topic_id} {partition} {log_offset}\n"
        for (topic_id, partition), log_offset in sorted(offsets.items())
    ).encode()
    return with_title(name, body)


def decode_checkpoint(name: str, encoded: bytes) -> dict[PartitionKey, int]:
    """Raises CorruptTitle, NewerFormat."""
    offsets = {}
    try:
        for line in without_title(name, encoded).decode("ascii").splitlines():
            topic_id, partition, log_offset = line.split()
            offsets[topic_id, int(partition)] = int(log_offset)
    except ValueError as error:
        raise CorruptTitle(f"{name}: {error}") from error
    return offsets


def write_checkpoint(disk: Disk, directory: str, name: str, offsets: Mapping[PartitionKey, int]) -> None:
    """Durable when it returns. Raises OSError."""
    replace_durably(disk, f"{directory}/{name}", encode_checkpoint(name, offsets))


def read_title(disk: Disk, directory: str, name: str) -> str:
    """Return the title of a checkpoint, which no other content has; "" if there is none that can be read.
    Raise OSError, NewerFormat."""
    encoded = read_whole(disk, f"{directory}/{name}", bytes_max=CHECKPOINT_BYTES_MAX)
    try:
        without_title(name, encoded or b"")
    except CorruptTitle:
        return ""
    return (encoded or b"").partition(b"\n")[0].decode("ascii")


def read_checkpoint(disk: Disk, directory: str, name: str) -> ReadCheckpoint:
    """Raises OSError only if the disk fails; a broken file is empty, with the reason. Raises NewerFormat."""
    encoded = read_whole(disk, f"{directory}/{name}", bytes_max=CHECKPOINT_BYTES_MAX)
    if encoded is None:
        return ReadCheckpoint({})
    try:
        return ReadCheckpoint(decode_checkpoint(name, encoded))
    except CorruptTitle as error:
        return ReadCheckpoint({}, str(error))
