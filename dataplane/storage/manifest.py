"""The manifest of a compacted log: which of its segments a pass of compaction rewrote.

    compacted                       the manifest
    <base>.log.<number>.cleaned     a rewritten segment that has not taken its place yet, and its .index

A pass writes its files beside the old segments and makes them durable. The rename of its manifest commits
it: from then on the rewritten segments are the log, and take the place of the old ones (`take_places`), at
the next start if not before. A rewritten segment ends where the next one begins, although its last batches
may be gone: what it lacks stands in no file, so its end stands here. A listed segment never grows: before it
is cut it leaves the list.

Files that are missing at the front of the list were deleted by retention; any other that is missing, or has
another size, is damage. A log that is restarted says so first (`is_restarting`): what is left of it goes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

import msgspec

from dataplane.core.compaction.rounds import Round
from dataplane.core.titles import CorruptTitle, with_title, without_title
from dataplane.storage.aborted_index import aborted_path
from dataplane.storage.disk import Disk, read_whole, replace_durably, unlink_durably
from dataplane.storage.health import CorruptLog
from dataplane.storage.segment import index_path, log_path, unlink_segment

MANIFEST_FILE: Final = "compacted"
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
CLEANED_SUFFIX: Final = ".cleaned"


class RewrittenSegment(NamedTuple):
    """One file of a pass. crc: CRC32C of all its bytes."""

    base_offset: int
    end_offset: int
    size_bytes: int
    crc: int


class CompactionManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass.

    number: of the pass, in the names of its files. applied_at: the offset of the round's record, which may be
    gone from the log some day. reaches: how far the round was applied; below its end, another pass goes on
    from there. tombstone_floor: the highest of all rounds so far. segments: in order, from the log's first
    on.
    """

    number: int
    applied_at: int
    round_: Round
    reaches: int
    tombstone_floor: int
    segments: tuple[RewrittenSegment, ...]
    is_restarting: bool = False

    @property
    def end_offset(self) -> int:
        """Return where the last rewritten segment ends; 0 without one."""
        return self.segments[-1].end_offset if self.segments else 0


def cleaned_path(path: str, number: int) -> str:
    """Return where a pass writes the file that is to be `path`."""
    return f"{path}.{number}{CLEANED_SUFFIX}"


def write_manifest(disk: Disk, directory: str, manifest: CompactionManifest) -> None:
    """Write it durably. Raise OSError."""
    body = msgspec.json.encode(manifest)
    replace_durably(disk, f"{directory}/{MANIFEST_FILE}", with_title(MANIFEST_FILE, body))


def read_manifest(disk: Disk, directory: str) -> CompactionManifest | None:
    """Return a log's manifest, None without one. Raise CorruptLog if it can't be read: it was durable before
    it had its name, so its bytes rotted. Raise OSError, NewerFormat."""
    path = f"{directory}/{MANIFEST_FILE}"
    encoded = read_whole(disk, path, bytes_max=MANIFEST_BYTES_MAX)
    if encoded is None:
        return None
    try:
        return msgspec.json.decode(without_title(MANIFEST_FILE, encoded), type=CompactionManifest)
    except (CorruptTitle, msgspec.DecodeError) as error:
        raise CorruptLog(f"{path}: {error}") from error


def remove_manifest(disk: Disk, directory: str) -> None:
    """Remove it durably. Raise OSError."""
    unlink_durably(disk, f"{directory}/{MANIFEST_FILE}")


def finish_pass(disk: Disk, directory: str) -> CompactionManifest | None:
    """Finish, at a start, what the last process began: the swap of a committed pass, or a restart of the log.
    Return the log's manifest, None without one. Raise OSError, CorruptLog."""
    manifest = read_manifest(disk, directory)
    if manifest is None:
        return None
    if not manifest.is_restarting:
        take_places(disk, directory, manifest)
        return manifest
    for name in disk.listdir(directory):
        if name.endswith((".log", ".index", ".txnindex", ".aborted", ".snapshot")):
            disk.unlink(f"{directory}/{name}")
    disk.fsync_dir(directory)
    remove_manifest(disk, directory)
    return None


def take_places(disk: Disk, directory: str, manifest: CompactionManifest) -> None:
    """Rename the rewritten segments over those that they replace, and unlink the others that lie within them.
    What is done already stays so. Raise OSError."""
    listed = manifest.segments
    for each in listed:
        for path in (
            log_path(directory, each.base_offset),
            index_path(directory, each.base_offset),
            aborted_path(directory, each.base_offset),
        ):
            cleaned = cleaned_path(path, manifest.number)
            if disk.exists(cleaned):
                disk.rename(cleaned, path)
    for name in disk.listdir(directory):
        stem, _, suffix = name.partition(".")
        if suffix == "log" and stem.isdecimal():
            base_offset = int(stem)
            at = bisect_right(listed, base_offset, key=lambda each: each.base_offset) - 1
            if at >= 0 and listed[at].base_offset < base_offset < listed[at].end_offset:
                unlink_segment(disk, directory, base_offset)
