"""Copies of what a truncation is about to drop: the raw batches and a description, both durable before the
cut.

An unclean election, or a truncation below the follower's own high watermark, drops records that a
producer may have been told are safe. Nothing is lost silently: they go to `divergent/`, where an operator
finds them and the salvage job can merge them back. If they can't be written (disk full), the answer is a
value and the truncation must be held.

`list_copies` and `find_copy` find them again, and divergent_log.py reads them for a client. A copy counts
once its description stands: batches without one are the start of a copy whose truncation never happened.
Nothing here deletes one: only an operator does.

A *divergent copy* is of the end of one log, which goes on without it. A log that is *set aside* is another
thing: it has gone as a whole to `quarantine/` (quarantine.py).
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass

from dataplane.core.log_port import LogChanged, LogError
from dataplane.core.scrubbing import good_ranges
from dataplane.storage.disk import Disk, File, replace_durably
from dataplane.storage.health import CorruptLog, DirectoryHealth
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.framing import FileChunk

COPY_BYTES_MAX = 1024 * 1024
DESCRIPTION_BYTES_MAX = 64 * 1024
SAME_RANGE_MAX = 1000
"""Files for one range of one partition; more means that something loops."""
TOPIC_PREFIX_MAX = 120
_NAME = re.compile(r"([a-zA-Z0-9._-]{1,120})-\d{1,10}\.([a-zA-Z0-9_-]{22})\.\d{20}-\d{20}\.\d{1,3}\Z")


@dataclass(frozen=True, slots=True)
class DivergentRange:
    """The JSON beside the batches. Offsets: [first_offset, next_offset) is what the cut drops; the file
    begins with the whole batch that holds first_offset."""

    topic_id: str
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    high_watermark: int
    leader_epoch: LeaderEpoch
    last_epoch: int
    written_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class DivergentCopy:
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FoundCopy:
    """A copy that stands whole: `path` is that of its batches. `name` is a legal topic's, too, but no topic
    is likely to have it: <topic>-<partition>.<topic id>.<first offset>-<next offset>.<number>, the topic cut
    to TOPIC_PREFIX_MAX characters."""

    path: str
    size_bytes: int
    range: DivergentRange

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".batches")


@dataclass(frozen=True, slots=True)
class NotWritten:
    """Hold the truncation and alarm."""

    reason: str


def copy_divergent(
    disk: Disk,
    directory: str,
    log: PartitionLog,
    *,
    first_offset: int,
    high_watermark: int,
    leader_epoch: LeaderEpoch,
    reason: str,
    now_ms: int,
    health: DirectoryHealth,
) -> DivergentCopy | NotWritten:
    """Copy [first_offset, log end) of `log` to files in `directory` (the log dir's divergent/) and fsync
    them and their names. In a thread. Records that are known to be rotten are left out, and the description
    says so. `leader_epoch` is that of the leader whose log disagrees. Raises LogChanged, and leaves no copy,
    if the log is cut meanwhile: its leader has changed, and with it what is to be copied. Raises RottenBytes
    where more is rotten than a scrub has found yet, and LogError if the disk fails in another way than by
    being full."""
    rotten = len(log.rotten)
    dropped = DivergentRange(
        *log.partition,
        first_offset=first_offset,
        next_offset=log.log_end_offset,
        high_watermark=high_watermark,
        leader_epoch=leader_epoch,
        last_epoch=log.epochs.latest,
        written_ms=now_ms,
        reason=f"{reason}; {rotten} rotten ranges are left out" if rotten else reason,
    )
    stem = (
        f"{directory}/{dropped.topic[:TOPIC_PREFIX_MAX]}-{dropped.partition}.{dropped.topic_id}"
        f".{first_offset:020d}-{dropped.next_offset:020d}"
    )
    try:
        disk.mkdir(directory)
        path = _free_path(disk, stem)
        if path is None:
            return NotWritten(f"{SAME_RANGE_MAX} copies of this range exist already")
        return _write(disk, directory, path, log, dropped)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return NotWritten(f"writing aside failed: {error}")
        raise health.fail(error, f"writing aside to {directory}") from error


def _free_path(disk: Disk, stem: str) -> str | None:
    for number in range(SAME_RANGE_MAX):
        path = f"{stem}.{number}"
        if not disk.exists(f"{path}.batches") and not disk.exists(f"{path}.json"):
            return path
    return None


def _write(
    disk: Disk, directory: str, path: str, log: PartitionLog, dropped: DivergentRange
) -> DivergentCopy:
    batches, description = f"{path}.batches", f"{path}.json"
    changes = log.changes
    try:
        with closing(disk.open(batches, create=True)) as file:
            size = 0
            for first_offset, next_offset in good_ranges(
                log.rotten, dropped.first_offset, dropped.next_offset
            ):
                size = _copy(log, file, size, first_offset, next_offset)
            file.fsync()
        _check_unchanged(log, changes)
        disk.fsync_dir(directory)
        # The description last, and at once: where it stands, the batches are whole.
        replace_durably(
            disk, description, json.dumps(asdict(dropped) | {"size_bytes": size}, indent=2).encode() + b"\n"
        )
        disk.fsync_dir(directory.rpartition("/")[0])
    except (OSError, LogError):
        # Half a copy would pass for a whole one, and one at each try would fill a full disk.
        for left in (description, f"{description}.tmp", batches):
            if disk.exists(left):
                disk.unlink(left)
        _check_unchanged(log, changes)  # bytes that the loop has cut are no failure of the disk
        raise
    return DivergentCopy(batches, size)


def _check_unchanged(log: PartitionLog, changes: int) -> None:
    if log.has_changed_since(changes):
        raise LogChanged(f"{log.directory} was cut while it was copied")


def _copy(log: PartitionLog, target: File, written: int, log_offset: int, end_offset: int) -> int:
    """Copy the batches in [log_offset, end_offset) behind what is `written`; return the new size."""
    while log_offset < end_offset:
        piece = log.read_in_thread(log_offset, max_bytes=COPY_BYTES_MAX, end_offset=end_offset)
        if not piece.size_bytes:
            break  # a gap up to the end
        for part in piece.parts:
            assert isinstance(part, FileChunk), "a thread reads from files only"
            written += _copy_range(part, target, written)
        log_offset = piece.next_offset
    return written


def _copy_range(part: FileChunk, target: File, position: int) -> int:
    source: File = part.source  # type: ignore[assignment]
    done = 0
    while done < part.length:
        data = source.pread(min(COPY_BYTES_MAX, part.length - done), part.position + done)
        if not data:
            raise OSError(errno.EIO, "a segment is shorter than what was written to it")
        target.pwrite(data, position + done)
        done += len(data)
    return done


def is_copy_name(name: str) -> bool:
    """Return whether a copy may have this name. Such a name holds no way out of the directory."""
    return _NAME.match(name) is not None


def topic_of_copy(name: str) -> tuple[str, str] | None:
    """Return the topic's name, cut to TOPIC_PREFIX_MAX characters, and its id; None for another name."""
    match = _NAME.match(name)
    return None if match is None else (match[1], match[2])


def list_copies(
    disk: Disk, directory: str, *, on_corrupt: Callable[[CorruptLog], None] | None = None
) -> list[FoundCopy]:
    """Every copy in a log dir's divergent/, by name; none where nothing was ever cut. Of a description that
    is none tells `on_corrupt`, or else raises CorruptLog."""
    if not disk.is_dir(directory):
        return []
    found = []
    for name in disk.listdir(directory):
        if name.endswith(".json"):
            try:
                found.append(_read_description(disk, f"{directory}/{name}"))
            except CorruptLog as corrupt:
                if on_corrupt is None:
                    raise
                on_corrupt(corrupt)
    return found


def find_copy(disk: Disk, directory: str, name: str) -> FoundCopy:
    """The copy of that name. Raises FileNotFoundError, or CorruptLog."""
    assert is_copy_name(name), name
    return _read_description(disk, f"{directory}/{name}.json")


def _read_description(disk: Disk, path: str) -> FoundCopy:
    with closing(disk.open(path)) as file:
        size = file.size_bytes()
        if size > DESCRIPTION_BYTES_MAX:
            raise CorruptLog(f"{path} does not describe a copy: it has {size} bytes")
        raw = file.pread(size, 0)
    try:
        described = json.loads(raw)
        size_bytes = int(described.pop("size_bytes"))
        return FoundCopy(f"{path.removesuffix('.json')}.batches", size_bytes, DivergentRange(**described))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptLog(f"{path} does not describe a copy: {error}") from error
