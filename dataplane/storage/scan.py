"""Reading a file of record batches that nothing vouches for: after a crash, of a copy, for a dump."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from dataplane.storage.disk import File
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, crc_is_valid, decode_header

SCAN_CHUNK_BYTES = 1024 * 1024


class ScanStop(Enum):
    """Why a scan ended where it did."""

    #: At the end of the file, after a whole batch.
    END = "end"
    #: The file ends inside a batch: what a process leaves that dies while it appends.
    TORN = "torn"
    #: Nothing but zeros follow: what a power cut leaves of an extended file.
    ZEROS = "zeros"
    #: Bytes that are no batch, or one with a wrong CRC or an offset or epoch that goes back.
    CORRUPT = "corrupt"


class SegmentScan:
    """Reads a segment's file from the start and believes nothing: lengths, magic, CRC, the order of offsets
    and of leader epochs. Iterate it for (position, header) of each good batch; then `stop` says why it
    ended and `position` where."""

    def __init__(self, file: File, *, next_offset: int, leader_epoch: int) -> None:
        self.file = file
        self.size_bytes = file.size_bytes()
        self.position = 0
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.stop = ScanStop.END

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        chunk, chunk_start = memoryview(b""), 0
        while self.position < self.size_bytes:
            rest = self.size_bytes - self.position
            if rest < HEADER_BYTES:
                self.stop = ScanStop.TORN
                return
            at = self.position - chunk_start
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_start, at = self._read(min(SCAN_CHUNK_BYTES, rest)), self.position, 0
            header = decode_header(chunk, at)
            size = header.size_bytes
            if not header.is_plausible:
                self.stop = ScanStop.ZEROS if self._is_zero_to_the_end() else ScanStop.CORRUPT
                return
            if size > rest:
                self.stop = ScanStop.TORN
                return
            if at + size > len(chunk):
                chunk, chunk_start, at = self._read(min(max(size, SCAN_CHUNK_BYTES), rest)), self.position, 0
            if (
                not crc_is_valid(chunk[at : at + size], header)
                or header.base_offset < self.next_offset
                or header.last_offset_delta < 0
                or header.leader_epoch < self.leader_epoch
            ):
                self.stop = ScanStop.CORRUPT
                return
            yield self.position, header
            self.next_offset = header.next_offset
            self.leader_epoch = header.leader_epoch
            self.position += size

    def _read(self, length: int) -> memoryview:
        return memoryview(self.file.pread(length, self.position))

    def _is_zero_to_the_end(self) -> bool:
        position = self.position
        while data := self.file.pread(SCAN_CHUNK_BYTES, position):
            if data.count(0) != len(data):
                return False
            position += len(data)
        return True
