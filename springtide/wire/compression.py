"""The four codecs of a record batch, with every decompression bounded.

A kilobyte of zstd can claim ten gigabytes, so the claim allocates nothing: output goes into a buffer that
starts small and grows only while real output fills it, up to the caller's cap. A leader opens each batch so
before it appends the bytes as they came (produced_records.py); lookups by time and dump-log do, too.
(Besides the output, the zstd library may take a window of up to 128 MiB that a frame asks for.)

Dialects, because clients differ: snappy comes either as one raw block (librdkafka) or in snappy-java's
framing (Java, kafka-python, aiokafka), and gzip may hold several members.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

import cramjam

Buffer = bytes | bytearray | memoryview

DECOMPRESS_START_BYTES = 16 * 1024
"""First guess of the output size; doubled while the output overflows it and the cap allows."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # magic, version, compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_PIECE_BYTES = 16 * 1024
_CRAMJAM_OVERFLOW = "failed to write whole buffer"


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptCompressedData(Exception):
    """The compressed bytes are not a valid stream of the codec they claim."""


class DecompressedTooLarge(Exception):
    """The output would exceed the caller's cap, beyond which nothing was allocated."""


def compress(compression: Compression, data: Buffer) -> bytes:
    """Return `data` compressed as Kafka's Java client writes it (snappy in snappy-java's framing)."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(data) + compressor.flush()
        case Compression.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Compression.LZ4:
            # Java clients refuse blocks that lean on each other, which cramjam's one-shot function writes.
            frame = cramjam.lz4.Compressor(block_linked=False)
            frame.compress(bytes(data))
            return bytes(frame.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(compression: Compression, data: Buffer, *, decompressed_bytes_max: int) -> Buffer:
    """Return the whole output, at most `decompressed_bytes_max` bytes; with Compression.NONE, `data` itself.

    Raise DecompressedTooLarge or CorruptCompressedData.
    """
    match compression:
        case Compression.NONE:
            if len(data) > decompressed_bytes_max:
                raise DecompressedTooLarge
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, decompressed_bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), decompressed_bytes_max)
        case Compression.LZ4 | Compression.ZSTD:
            return _decompress_growing(compression, data, decompressed_bytes_max)


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    """Decompress all members of a stream. zlib copies what follows a member in the piece that it was given:
    pieces are small, so that many empty members cost no more than their bytes."""
    view = memoryview(data)
    if not view:
        raise CorruptCompressedData("gzip stream is empty")
    parts: list[bytes] = []
    position = produced = 0
    while position < len(view):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = view[position : position + _GZIP_PIECE_BYTES]
            if not piece:
                raise CorruptCompressedData("gzip stream ends early")
            try:
                # One byte more than allowed tells "exactly full" from "too large".
                part = member.decompress(piece, bytes_max - produced + 1)
            except zlib.error as error:
                raise CorruptCompressedData(str(error)) from error
            produced += len(part)
            if produced > bytes_max:
                raise DecompressedTooLarge
            parts.append(part)
            position += len(piece) - len(member.unused_data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_growing(compression: Compression, data: Buffer, bytes_max: int) -> memoryview:
    """Decompress LZ4 frames and zstd: cramjam writes into the given buffer and stops when it is full."""
    codec = cramjam.lz4 if compression is Compression.LZ4 else cramjam.zstd
    capacity = min(max(DECOMPRESS_START_BYTES, 4 * len(data)), bytes_max)
    while True:
        output = bytearray(capacity)
        try:
            size = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _CRAMJAM_OVERFLOW not in str(error):
                raise CorruptCompressedData(str(error)) from error
            if capacity >= bytes_max:
                raise DecompressedTooLarge from error
            capacity = min(capacity * 4, bytes_max)
        else:
            return memoryview(output)[:size]


def _decompress_snappy(data: memoryview, bytes_max: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, bytes_max)
    parts: list[bytes] = []
    produced = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if len(data) - position < 4:
            raise CorruptCompressedData("snappy frame ends inside a block length")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size <= 0 or size > len(data) - position:
            raise CorruptCompressedData("snappy block length exceeds the frame")
        part = _decompress_snappy_block(data[position : position + size], bytes_max - produced)
        produced += len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, bytes_max: int) -> bytes:
    try:
        # The block states its output size and the decoder refuses to exceed it; the format can't expand more
        # than 64:3, so a larger claim is a lie that we need not allocate for.
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > 22 * len(block):
            raise CorruptCompressedData("snappy block claims more than the format can hold")
        if claimed > bytes_max:
            raise DecompressedTooLarge
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptCompressedData(str(error)) from error


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)
