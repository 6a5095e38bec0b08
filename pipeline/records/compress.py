"""The four codecs, into and out of batches.

Decompression is bounded: output goes into a buffer that grows only while real output fills it, up to the
caller's cap, so a kilobyte that claims ten gigabytes takes only its real size. Batches that are opened
together are joined in one buffer.

Compression follows what every consumer reads. LZ4 frames have independent blocks, because Kafka's Java
clients refuse linked ones (and the frame functions of the binding in use write linked ones); snappy is in
snappy-java's framing.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import numpy as np

from springtide.wire.compression import (
    Buffer,
    Compression,
    CorruptCompressedData,
    DecompressedTooLarge,
    decompress,
)
from springtide.wire.compression import compress as compress_plainly

from .varints import Octets

ZSTD_LEVEL = 3
GZIP_LEVEL = -1
"""Kafka's defaults (compression.zstd.level, compression.gzip.level)."""
LEVELS = {
    Compression.GZIP: range(-1, 10),
    Compression.LZ4: range(1, 13),
    Compression.ZSTD: range(1, 23),
}
"""The levels that may be asked for. LZ4 without a level is its fast mode, with one its high compression."""

_LZ4_FRAME = bytes.fromhex("04224d18604082")
"""Magic, then: version 1 with independent blocks and no checksums, blocks of up to 64 KiB, the descriptor's
checksum. The very bytes Kafka's Java client writes."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_IS_PLAIN = 0x80000000
_LZ4_END = bytes(4)
_LITTLE_UINT32 = struct.Struct("<I")

_CRAMJAM_OVERFLOW = "failed to write whole buffer"
_ARENA_BYTES_MIN = 64 * 1024


def check_level(compression: Compression, level: int | None) -> None:
    """Raise ValueError unless `compression` has this level; None is every codec's own default."""
    if level is None:
        return
    levels = LEVELS.get(compression)
    if levels is None:
        raise ValueError(f"{compression.name.lower()} has no compression levels")
    if level not in levels:
        raise ValueError(f"{compression.name.lower()} has levels {levels[0]} to {levels[-1]}, not {level}")


def compress(compression: Compression, payload: Buffer, level: int | None = None) -> bytes:
    """Return the records field of a batch in `compression`. The same input gives the same bytes."""
    check_level(compression, level)
    match compression:
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(payload, level=ZSTD_LEVEL if level is None else level))
        case Compression.GZIP:
            compressor = zlib.compressobj(GZIP_LEVEL if level is None else level, wbits=31)
            return compressor.compress(payload) + compressor.flush()
        case Compression.LZ4:
            return _compress_lz4(memoryview(payload), level)
        case Compression.NONE | Compression.SNAPPY:
            return compress_plainly(compression, payload)


class Arena:
    """One growing buffer in which the opened batches of a fetch stand one after another."""

    __slots__ = ("_octets", "used")

    def __init__(self, bytes_expected: int = 0) -> None:
        self._octets: Octets = np.empty(max(bytes_expected, _ARENA_BYTES_MIN), np.uint8)
        self.used = 0

    @property
    def octets(self) -> Octets:
        """Return the bytes added. Valid until the next call that changes the arena."""
        return self._octets[: self.used]

    def add(self, compression: Compression, data: memoryview, *, bytes_max: int) -> int:
        """Open `data` behind the bytes that are there; return the size of the output, at most `bytes_max`.

        Raise CorruptCompressedData or DecompressedTooLarge; the arena is then unchanged.
        """
        match compression:
            case Compression.LZ4:
                size = self._add_lz4_blocks(data, bytes_max)
                if size < 0:
                    size = self._add_growing(compression, data, bytes_max)
            case Compression.ZSTD:
                size = self._add_growing(compression, data, bytes_max)
            case _:  # they give bytes of their own: plain, gzip's members, snappy's blocks
                opened = decompress(compression, data, decompressed_bytes_max=bytes_max)
                size = len(opened)
                self._reserve(size)
                self._octets[self.used : self.used + size] = np.frombuffer(opened, np.uint8)
        self.used += size
        return size

    def _add_lz4_blocks(self, data: memoryview, bytes_max: int) -> int:
        """Open a frame as most producers write it, block by block: a frame's decoder takes as long to be made
        as a block of a small batch to be opened. Return -1 for other frames, and for what is wrong in one:
        the frame's decoder has the last word."""
        blocks = _lz4_blocks(data, count_max=bytes_max // _LZ4_BLOCK_BYTES + 1)
        if blocks is None:
            return -1
        start = self.used
        try:
            for block, is_plain in blocks:
                self._reserve(_LZ4_BLOCK_BYTES)
                room = self._octets.data[self.used : min(self.used + _LZ4_BLOCK_BYTES, start + bytes_max)]
                if len(room) < (len(block) if is_plain else 1):
                    return -1
                if is_plain:
                    room[: len(block)] = block
                    self.used += len(block)
                else:
                    self.used += cramjam.lz4.decompress_block_into(block, room)
            return self.used - start
        except cramjam.DecompressionError:
            return -1
        finally:
            self.used = start

    def _add_growing(self, compression: Compression, data: memoryview, bytes_max: int) -> int:
        codec = cramjam.lz4 if compression is Compression.LZ4 else cramjam.zstd
        room = min(4 * len(data), bytes_max)
        while True:
            self._reserve(room)
            # All the room there is, unless that is more than allowed.
            output = self._octets.data[self.used : self.used + bytes_max]
            try:
                return int(codec.decompress_into(data, output))
            except cramjam.DecompressionError as error:
                if _CRAMJAM_OVERFLOW not in str(error):
                    raise CorruptCompressedData(str(error)) from error
                if len(output) >= bytes_max:
                    raise DecompressedTooLarge from error
                room = min(max(2 * len(output), _ARENA_BYTES_MIN), bytes_max)

    def _reserve(self, size: int) -> None:
        if self.used + size > len(self._octets):
            grown = np.empty(max(self.used + size, 2 * len(self._octets)), np.uint8)
            grown[: self.used] = self._octets[: self.used]
            self._octets = grown


def _lz4_blocks(frame: memoryview, *, count_max: int) -> list[tuple[memoryview, bool]] | None:
    """Return (block, whether it is plain) of a frame that begins as `_compress_lz4` has it, ends with its
    bytes, and has at most so many blocks; None for any other. A hostile frame has a block in each five bytes.
    """
    if frame[: len(_LZ4_FRAME)] != _LZ4_FRAME:
        return None
    blocks: list[tuple[memoryview, bool]] = []
    position, last = len(_LZ4_FRAME), len(frame) - _LITTLE_UINT32.size
    while position <= last:
        (word,) = _LITTLE_UINT32.unpack_from(frame, position)
        position += _LITTLE_UINT32.size
        if not word:
            return blocks if position == len(frame) else None
        size = word & ~_LZ4_IS_PLAIN
        if not 0 < size <= len(frame) - position or len(blocks) == count_max:
            return None
        blocks.append((frame[position : position + size], word >= _LZ4_IS_PLAIN))
        position += size
    return None


def _compress_lz4(payload: memoryview, level: int | None) -> bytes:
    parts: list[Buffer] = [_LZ4_FRAME]
    for start in range(0, len(payload), _LZ4_BLOCK_BYTES):
        plain = payload[start : start + _LZ4_BLOCK_BYTES]
        if level is None:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(plain):
            parts += (_LITTLE_UINT32.pack(len(block)), block)
        else:
            parts += (_LITTLE_UINT32.pack(len(plain) | _LZ4_IS_PLAIN), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)
