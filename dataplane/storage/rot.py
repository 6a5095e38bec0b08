"""Bytes that rot at rest: reading a log's files again for what they hold by now, and remembering what is bad.

A scrub reads below the high watermark only, where every byte is committed and another replica has it. It
reads from the disk: pages that the kernel remembers are dropped first (a page that is not written back yet
stays, and is read again with the next pass), and dropped again afterwards, so that a pass over cold data
pushes nothing hot out of memory. Each batch is checked as recovery does it: header, CRC, offsets that
continue.

A *hole* is a run of whole batches that can't be believed, from the end of a good batch to the next one: the
header's own length says where that is, if a good batch begins there; else the index. Holes are remembered in
a file beside the log until they are mended or deleted, so that a restart makes no rotten replica whole (5.7,
scrubbing). Index files are not scrubbed: an entry that does not agree with the log is rebuilt when it is
used.

The bytes of a rewritten segment (manifest.py) must also have the CRC that they were written with: beside a
gap a batch's offset may be another and fit still. Then which batch it is can't be told, and the log counts as
damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from dataplane.storage.disk import Buffer, Disk, File, read_whole, replace_durably, unlink_durably
from dataplane.storage.health import CorruptLog
from dataplane.storage.segment import TO_THE_END, Hole, Segment, log_path
from springtide.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    crc_is_valid,
    decode_header,
)

ROTTEN_FILE = "rotten"
ROTTEN_FILE_BYTES_MAX = 1024 * 1024
CHECKSUM = "CRC32C of the entries before"
READ_AGAIN_BYTES = 1024 * 1024
BATCHES_MAX = 64
"""Checked in one slice. Small batches take the interpreter from the loop: some 5 us each."""

EpochAt = Callable[[int], int]


class ScrubPlace(NamedTuple):
    """The place of a scrub's pass in a log: a batch boundary, and the offset that comes next. crc: of a
    rewritten segment's bytes up to there; None if not all were read. unchecked: bytes from there on that the
    slice before has read, a batch header at least, or none."""

    base_offset: int
    position: int
    next_offset: int
    crc: int | None = None
    unchecked: Buffer = b""


@dataclass(frozen=True, slots=True)
class CheckedSlice:
    """The result of one slice. place: where to go on; None when the pass is over. size_bytes: read."""

    place: ScrubPlace | None
    size_bytes: int
    hole: Hole | None = None


def check_slice(
    disk: Disk,
    segments: Sequence[Segment],
    place: ScrubPlace,
    *,
    end_offset: int,
    bytes_max: int,
    epoch_at: EpochAt,
) -> CheckedSlice:
    """Check up to BATCHES_MAX batches from a place on, at least one, none at or beyond `end_offset`, and read
    about `bytes_max` bytes for it and for the next slices. For a thread. A place in a segment that is gone
    goes on with the next one. Raises OSError, CorruptLog."""
    segment = next((s for s in segments if s.base_offset >= place.base_offset), None)
    if segment is None or segment.base_offset >= end_offset:
        return CheckedSlice(None, 0)
    if segment.base_offset != place.base_offset or place.position > segment.size_bytes:
        place = ScrubPlace(segment.base_offset, 0, segment.base_offset)
    known = next((hole for hole in segment.holes if hole.position == place.position), None)
    if known is not None:
        return CheckedSlice(ScrubPlace(segment.base_offset, known.end_position, known.next_offset), 0)
    if place.position >= segment.size_bytes:
        if place.crc not in (None, segment.crc) and _crc_at_rest(disk, segment) != segment.crc:
            raise segment.corrupt(0, "these are not the bytes that a compaction wrote")
        following = segments[-1].base_offset > segment.base_offset
        return CheckedSlice(
            ScrubPlace(segment.base_offset + 1, 0, segment.next_offset) if following else None, 0
        )
    with closing(disk.open(log_path(segment.directory, segment.base_offset))) as file:
        reading = _Reading(file, segment, segment.size_bytes, epoch_at)
        return _check(reading, place, end_offset=end_offset, bytes_max=max(bytes_max, HEADER_BYTES))


class _Reading(NamedTuple):
    """A segment under a scrub. size_bytes: as of its beginning; what is appended since is for the next pass.
    epoch_at: by the log's own history; negative where it does not say."""

    file: File
    segment: Segment
    size_bytes: int
    epoch_at: EpochAt

    def fits(self, header: BatchHeader, position: int, next_offset: int) -> bool:
        """Return whether this can be the header of the batch that begins there. A CRC covers neither the
        epoch, which is that of the log's history, nor the base offset: it continues, or leaves a gap (a
        compaction's) and goes behind neither the next batch nor the segment's end."""
        epoch = self.epoch_at(header.base_offset)
        return (
            header.is_plausible
            and header.last_offset_delta >= 0
            and header.base_offset >= next_offset
            and (epoch < 0 or header.leader_epoch == epoch)
            and position + header.size_bytes <= self.size_bytes
            and header.next_offset <= self.segment.next_offset
            and (header.base_offset == next_offset or self._is_followed(header, position))
        )

    def _is_followed(self, header: BatchHeader, position: int) -> bool:
        raw = self.file.pread(HEADER_BYTES, position + header.size_bytes)
        if len(raw) < HEADER_BYTES or position + header.size_bytes >= self.size_bytes:
            return True
        following = decode_header(raw)
        return not following.is_plausible or following.base_offset >= header.next_offset


def _check(reading: _Reading, place: ScrubPlace, *, end_offset: int, bytes_max: int) -> CheckedSlice:
    file, segment, size_bytes = reading.file, reading.segment, reading.size_bytes
    base_offset, start = segment.base_offset, place.position
    data = memoryview(place.unchecked or read_at_rest(file, min(bytes_max, size_bytes - start), start))
    position, next_offset, count = start, place.next_offset, 0
    crc = None if segment.crc is None else place.crc if start else 0
    while position < size_bytes:
        if next_offset >= end_offset:
            return CheckedSlice(None, position - start)
        batch = data[position - start :]
        if len(batch) < HEADER_BYTES and start < position:
            break
        if count == BATCHES_MAX:
            return CheckedSlice(ScrubPlace(base_offset, position, next_offset, crc, batch), position - start)
        header = decode_header(batch) if len(batch) >= HEADER_BYTES else None
        if header is not None and reading.fits(header, position, next_offset):
            if header.size_bytes > len(batch) and start < position:
                break
            if header.size_bytes > len(batch):
                batch = memoryview(read_at_rest(file, header.size_bytes, position))
            if len(batch) >= header.size_bytes and crc_is_valid(batch, header):
                if header.next_offset > end_offset:
                    return CheckedSlice(None, position - start)
                if crc is not None:
                    crc = crc32c(batch[: header.size_bytes], crc)
                position += header.size_bytes
                next_offset = header.next_offset
                count += 1
                continue
        hole = _hole(reading, position, next_offset)
        if hole.end_position == TO_THE_END:
            return CheckedSlice(ScrubPlace(base_offset + 1, 0, end_offset), size_bytes - start, hole)
        return CheckedSlice(
            ScrubPlace(base_offset, hole.end_position, hole.next_offset), hole.end_position - start, hole
        )
    return CheckedSlice(ScrubPlace(base_offset, position, next_offset, crc), position - start)


def read_at_rest(file: File, length: int, position: int) -> bytes:
    """Return what the disk holds, not what the kernel remembers of it."""
    file.forget(length, position)
    data = file.pread(length, position)
    file.forget(length, position)
    return data


def _crc_at_rest(disk: Disk, segment: Segment) -> int:
    crc = 0
    with closing(disk.open(log_path(segment.directory, segment.base_offset))) as file:
        for position in range(0, segment.size_bytes, READ_AGAIN_BYTES):
            length = min(READ_AGAIN_BYTES, segment.size_bytes - position)
            crc = crc32c(read_at_rest(file, length, position), crc)
    return crc


def _hole(reading: _Reading, position: int, next_offset: int) -> Hole:
    """Return the hole from a bad batch to the next good one, which is looked for where the bad one's header
    says that it ends, then at index entries."""
    file, segment = reading.file, reading.segment
    end_position = end_offset = TO_THE_END
    reason = "no record batch that continues the log"
    candidates = segment.index.positions_after(position)
    raw = file.pread(HEADER_BYTES, position)
    if len(raw) == HEADER_BYTES and reading.fits(header := decode_header(raw), position, next_offset):
        reason = "CRC does not match"
        candidates.insert(0, position + header.size_bytes)
    for candidate in candidates:
        good = _good_batch_at(reading, candidate, next_offset)
        if good is not None:
            end_position, end_offset = candidate, good.base_offset
            break
    reason = f"{log_path(segment.directory, segment.base_offset)} at {position}: {reason}"
    return Hole(segment.base_offset, position, end_position, next_offset, end_offset, reason)


def _good_batch_at(reading: _Reading, position: int, offset_min: int) -> BatchHeader | None:
    raw = reading.file.pread(HEADER_BYTES, position)
    if len(raw) < HEADER_BYTES:
        return None
    header = decode_header(raw)
    offset = header.base_offset
    if not offset_min < offset < reading.segment.next_offset or not reading.fits(header, position, offset):
        return None
    batch = memoryview(reading.file.pread(header.size_bytes, position))
    return header if len(batch) == header.size_bytes and crc_is_valid(batch, header) else None


def write_rotten(disk: Disk, directory: str, holes: Sequence[Hole]) -> None:
    """Durable when it returns; without holes the file goes. Raises OSError."""
    path = f"{directory}/{ROTTEN_FILE}"
    if holes:
        replace_durably(disk, path, msgspec.json.encode((*holes, _checksum(holes))))
    else:
        unlink_durably(disk, path)


def read_rotten(disk: Disk, directory: str) -> tuple[Hole, ...]:
    """Return the holes that earlier processes found. A list without a checksum, of an older release, is
    believed. Raises OSError; CorruptLog if these are not the bytes that were written."""
    encoded = read_whole(disk, f"{directory}/{ROTTEN_FILE}", bytes_max=ROTTEN_FILE_BYTES_MAX)
    if encoded is None:
        return ()
    try:
        found = msgspec.json.decode(encoded, type=tuple[Hole, ...])
    except ValueError as error:
        raise CorruptLog(f"{directory}/{ROTTEN_FILE}: {error}") from error
    if all(each.base_offset >= 0 and each.reason != CHECKSUM for each in found):
        return found
    if found[-1] != _checksum(found[:-1]):
        raise CorruptLog(f"{directory}/{ROTTEN_FILE}: CRC does not match")
    return found[:-1]


def _checksum(holes: Sequence[Hole]) -> Hole:
    """Return the list's last entry, which holds the CRC32C of the others in place of a position. An older
    release passes it over: no segment begins at -1."""
    return Hole(-1, crc32c(msgspec.json.encode(holes)), 0, 0, 0, CHECKSUM)
