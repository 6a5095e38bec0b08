"""Batches opened one after another in an arena, by every road that a codec has there."""

from __future__ import annotations

import random

import cramjam
import pytest
from lz4.frame import compress as frame_of

from pipeline.records.compress import Arena, compress
from springtide.wire.compression import (
    Compression,
    CorruptCompressedData,
    DecompressedTooLarge,
    decompress,
)

BYTES_MAX = 300_000
TEXT = b"".join(b"%d bottles of beer, " % number for number in range(12_000))
NOISE = random.Random(7).randbytes(150_000)
LENGTHS = (0, 1, 100, 65_535, 65_536, 65_537, 150_000)


def opened(data: bytes, *, bytes_max: int = BYTES_MAX) -> bytes:
    arena = Arena()
    arena.add(Compression.NONE, memoryview(b"before"), bytes_max=BYTES_MAX)
    try:
        size = arena.add(Compression.LZ4, memoryview(data), bytes_max=bytes_max)
    except (CorruptCompressedData, DecompressedTooLarge):
        assert bytes(arena.octets) == b"before"
        raise
    assert bytes(arena.octets[:6]) == b"before" and arena.used == 6 + size
    return bytes(arena.octets[6:])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("whole", [TEXT, NOISE], ids=["text", "noise"])
def test_an_lz4_frame_of_any_writer_is_opened(whole: bytes, length: int) -> None:
    plain = whole[:length]
    frames = [compress(Compression.LZ4, plain), compress(Compression.LZ4, plain, 9)]
    frames += [
        frame_of(
            plain, block_linked=linked, content_checksum=checked, block_checksum=checked, store_size=sized
        )
        for linked in (False, True)
        for checked in (False, True)
        for sized in (False, True)
    ]
    frames.append(bytes(cramjam.lz4.compress(plain)))
    assert [opened(frame) for frame in frames] == [plain] * len(frames)


@pytest.mark.parametrize("whole", [TEXT, NOISE], ids=["text", "noise"])
def test_an_lz4_frame_is_opened_up_to_the_most_bytes_and_not_beyond(whole: bytes) -> None:
    for length in LENGTHS[1:]:
        frame = compress(Compression.LZ4, whole[:length])
        assert opened(frame, bytes_max=length) == whole[:length]
        with pytest.raises(DecompressedTooLarge):
            opened(frame, bytes_max=length - 1)


def test_an_lz4_frame_of_many_short_blocks_is_opened() -> None:
    head, block, end = compress(Compression.LZ4, b"")[:7], b"\x01\x00\x00\x80x", bytes(4)
    assert opened(head + 100_000 * block + end) == 100_000 * b"x"


def test_a_broken_lz4_frame_gives_what_its_decoder_says() -> None:
    rng = random.Random(11)
    outcomes = set()
    for _ in range(2_000):
        plain = rng.choice((TEXT, NOISE))[: rng.choice((40, 400, 70_000))]
        frame = bytearray(compress(Compression.LZ4, plain))
        for _ in range(rng.randrange(1, 4)):
            place = rng.choice((rng.randrange(len(frame)), rng.randrange(min(16, len(frame)))))
            match rng.randrange(4):
                case 0:
                    frame[place] = rng.randrange(256)
                case 1:
                    frame[place] ^= 0x80
                case 2:
                    del frame[place + 1 :]
                case _:
                    frame += rng.randbytes(rng.randrange(1, 9))
        outcomes.add(outcome(bytes(frame), plain))
    assert outcomes == {"opened", "opened to other bytes", "corrupt", "too large"}


def outcome(frame: bytes, plain: bytes) -> str:
    """Both ways of opening must agree."""
    bytes_max = max(100, len(plain))
    try:
        expected = bytes(decompress(Compression.LZ4, frame, decompressed_bytes_max=bytes_max))
    except CorruptCompressedData:
        with pytest.raises(CorruptCompressedData):
            opened(frame, bytes_max=bytes_max)
        return "corrupt"
    except DecompressedTooLarge:
        with pytest.raises(DecompressedTooLarge):
            opened(frame, bytes_max=bytes_max)
        return "too large"
    assert opened(frame, bytes_max=bytes_max) == expected
    return "opened" if expected == plain else "opened to other bytes"
