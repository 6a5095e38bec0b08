"""Writes what a Rewrite leaves of a log's closed segments into new files beside them: values and files in,
values and files out, so that another process can do it (compaction_process.py).

Each batch that stays is checked as a scrub does it before it is written again: rot must not get a CRC of its
own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Round
from dataplane.core.leader_epochs import EpochStart, LeaderEpochs
from dataplane.core.transactions import AbortedEntry
from dataplane.storage.aborted_index import aborted_path, open_aborted_index
from dataplane.storage.disk import Buffer, Disk
from dataplane.storage.index import new_index, open_index
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.manifest import RewrittenSegment, cleaned_path
from dataplane.storage.segment import Segment, index_path, log_path
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, decode_header

WRITE_BUFFER_BYTES = 1024 * 1024
SLICE_BYTES = 4 * 1024 * 1024
"""Read in one slice, or one batch: some 30 milliseconds of work, after which a pass can be given up."""


class ClosedSegment(NamedTuple):
    base_offset: int
    next_offset: int
    size_bytes: int
    last_append_ms: int


class FilesToRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass reads, and how it writes. number: of the pass, in the names of its files. segments: in
    order; the batches in them are whole. from_offset, keys_max: see Rewrite. aborted: all of the log's
    entries."""

    directory: str
    number: int
    segments: tuple[ClosedSegment, ...]
    epochs: tuple[EpochStart, ...]
    round_: Round
    from_offset: int
    keys_max: int
    options: LogOptions
    aborted: tuple[AbortedEntry, ...] = ()


class WrittenSegment(NamedTuple):
    listed: RewrittenSegment
    max_timestamp_ms: int


class RewrittenFiles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a pass has written, durably. reaches: how far the round is applied."""

    reaches: int
    segments: tuple[WrittenSegment, ...] = ()


def rewrite_files(disk: Disk, files: FilesToRewrite) -> Generator[RewrittenFiles | None, None, None]:
    """Write the new files, a slice at a time: yield None after each, and in the end what was written. Raise
    OSError, CorruptLog."""
    rewriting = _Rewriting(disk, files)
    yield from rewriting.slices()
    yield rewriting.result


class _Rewriting:
    def __init__(self, disk: Disk, files: FilesToRewrite) -> None:
        self._disk = disk
        self._files = files
        self._epochs = LeaderEpochs(files.epochs)
        self._inputs = [self._opened(each) for each in files.segments]
        self._rewrite = Rewrite(
            files.round_, from_offset=files.from_offset, keys_max=files.keys_max, aborted=files.aborted
        )
        self._outputs: list[_Output] = []
        self._digests: dict[int, int] = {}

    @property
    def result(self) -> RewrittenFiles:
        written = (WrittenSegment(each.listed, each.segment.max_timestamp_ms) for each in self._outputs)
        return RewrittenFiles(reaches=self._rewrite.reaches, segments=tuple(written))

    def slices(self) -> Iterator[None]:
        size_bytes = 0
        for read_bytes in self._steps():
            size_bytes += read_bytes
            if size_bytes >= SLICE_BYTES:
                size_bytes = 0
                yield None

    def _steps(self) -> Iterator[int]:
        """Yield the bytes read for each batch."""
        for segment, position, header in self._walk():
            has_new_keys = header.base_offset >= self._files.from_offset
            view = segment.read_batch(position, header) if has_new_keys else memoryview(b"")
            self._rewrite.read(view, header)
            yield len(view) or HEADER_BYTES
        if not self._inputs:
            return
        output = self._next_output(self._inputs[0].base_offset)
        for segment, position, old_header in self._walk():
            left = self._rewrite.rewritten(old_header, partial(segment.read_batch, position, old_header))
            if left is None:
                yield HEADER_BYTES
                continue
            header = decode_header(left)
            if not output.has_room_for(header, self._files.options):
                self._close(output, header.base_offset)
                output = self._next_output(header.base_offset)
            output.add(left, header)
            yield old_header.size_bytes
        self._close(output, self._files.segments[-1].next_offset)
        self._disk.fsync_dir(self._files.directory)

    def _close(self, output: _Output, end_offset: int) -> None:
        """Of the aborted transactions that end in it, those stay of which a record may be left."""
        if self._files.aborted:
            base_offset, reaches = output.segment.base_offset, self._rewrite.reaches
            left = (
                each
                for each in self._files.aborted
                if max(base_offset, reaches) <= each.last_offset < end_offset
            )
            output.segment.aborted.replace(sorted(left, key=lambda each: each.last_offset))
            output.segment.aborted.write_even_empty()
        output.close(end_offset)

    def _walk(self) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Yield (segment, position, header) of each batch of the old segments. Offsets rise, and epochs are
        those of the log's history: the batch's CRC covers neither. Headers are those of the walk before,
        whose batches were checked: by one that rotted meanwhile newer records could be dropped."""
        for segment in self._inputs:
            next_offset, digest = segment.base_offset, 0
            for position, header in segment.walk():
                epoch = self._epochs.epoch_at(header.base_offset)  # negative below the log's start
                if header.base_offset < next_offset or header.leader_epoch != epoch >= 0:
                    raise segment.corrupt(position, "offset or leader epoch does not continue the log")
                yield segment, position, header
                next_offset, digest = header.next_offset, hash((digest, header))
            if self._digests.setdefault(segment.base_offset, digest) != digest:
                raise segment.corrupt(0, "headers are others than a moment ago")

    def _opened(self, closed: ClosedSegment) -> Segment:
        directory = self._files.directory
        return Segment(
            self._disk,
            directory,
            base_offset=closed.base_offset,
            file=self._disk.open(log_path(directory, closed.base_offset)),
            index=new_index(self._disk, index_path(directory, closed.base_offset)),
            index_interval_bytes=self._files.options.index_interval_bytes,
            now_ms=closed.last_append_ms,
            size_bytes=closed.size_bytes,
        )

    def _next_output(self, base_offset: int) -> _Output:
        directory, number = self._files.directory, self._files.number
        file = self._disk.open(cleaned_path(log_path(directory, base_offset), number), create=True)
        file.truncate(0)
        segment = Segment(
            self._disk,
            directory,
            base_offset=base_offset,
            file=file,
            index=new_index(self._disk, cleaned_path(index_path(directory, base_offset), number)),
            index_interval_bytes=self._files.options.index_interval_bytes,
            now_ms=self._inputs[-1].last_append_ms,
        )
        segment.aborted.move(cleaned_path(aborted_path(directory, base_offset), number))
        self._outputs.append(_Output(segment))
        return self._outputs[-1]


def open_written(disk: Disk, files: FilesToRewrite, written: WrittenSegment) -> Segment:
    """Open a new segment that has not taken its place yet. Raise OSError."""
    listed, directory = written.listed, files.directory
    index = cleaned_path(index_path(directory, listed.base_offset), files.number)
    segment = Segment(
        disk,
        directory,
        base_offset=listed.base_offset,
        file=disk.open(cleaned_path(log_path(directory, listed.base_offset), files.number)),
        index=open_index(disk, index) or new_index(disk, index),
        index_interval_bytes=files.options.index_interval_bytes,
        now_ms=files.segments[-1].last_append_ms,
        size_bytes=listed.size_bytes,
        max_timestamp_ms=written.max_timestamp_ms,
        crc=listed.crc,
    )
    segment.next_offset = listed.end_offset
    if files.aborted:
        path = cleaned_path(aborted_path(directory, listed.base_offset), files.number)
        segment.aborted = open_aborted_index(disk, path)
    return segment


class _Output:
    """A new segment, which is written through a buffer."""

    __slots__ = ("_buffered_bytes", "_chunks", "_headers", "crc", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._headers: list[BatchHeader] = []
        self._chunks: list[Buffer] = []
        self._buffered_bytes = 0
        self.crc = 0

    @property
    def listed(self) -> RewrittenSegment:
        """Return its entry in the manifest, once it is closed."""
        segment = self.segment
        return RewrittenSegment(segment.base_offset, segment.next_offset, segment.size_bytes, self.crc)

    def has_room_for(self, header: BatchHeader, options: LogOptions) -> bool:
        """Return whether a batch goes into this segment: by the limits of an append."""
        segment, size_bytes = self.segment, self._buffered_bytes + header.size_bytes
        is_first = segment.size_bytes + self._buffered_bytes == 0
        return (
            is_first or segment.size_bytes + size_bytes <= options.segment_bytes
        ) and segment.has_room_for(header, size_bytes, index_bytes_max=options.index_bytes_max)

    def add(self, batch: Buffer, header: BatchHeader) -> None:
        self._headers.append(header)
        self._chunks.append(batch)
        self._buffered_bytes += header.size_bytes
        if self._buffered_bytes >= WRITE_BUFFER_BYTES:
            self._write_out()

    def close(self, end_offset: int) -> None:
        """Make it durable; its name is not. It ends where the next segment begins."""
        self._write_out()
        self.segment.next_offset, self.segment.crc = end_offset, self.crc
        self.segment.close_index()
        self.segment.fsync()

    def _write_out(self) -> None:
        data = b"".join(self._chunks)
        if data:
            self.segment.append(self._headers, (data,), now_ms=self.segment.last_append_ms)
        self.crc = crc32c(data, self.crc)
        self._headers.clear()
        self._chunks.clear()
        self._buffered_bytes = 0
