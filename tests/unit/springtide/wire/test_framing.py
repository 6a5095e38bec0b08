"""FrameReader against streams cut anywhere, hostile sizes, and frames that live on."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.wire.framing import (
    BUFFER_BYTES_MAX,
    FIRST_BUFFER_BYTES,
    FileChunk,
    FrameError,
    FrameReader,
    encode_request_frame,
    encode_response_frame,
)
from tests.kit.springtide.unread_file import UnreadFile

KIB = 1024
MIB = 1024 * KIB


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(reader: FrameReader, data: bytes, cuts: list[int] | None = None) -> list[memoryview]:
    """Everything `data` completes, read in pieces of the given sizes (then of whatever fits)."""
    frames = []
    rest = memoryview(data)
    sizes = iter(cuts or [])
    while rest:
        room = reader.writable()
        size = min(len(room), len(rest), next(sizes, len(rest)))
        room[:size] = rest[:size]
        reader.received(size)
        rest = rest[size:]
        while (frame := reader.next_frame()) is not None:
            frames.append(frame)
    return frames


@given(
    st.lists(st.one_of(st.integers(1, 300), st.integers(1, 40 * KIB)), max_size=12),
    st.lists(st.integers(1, 5000), max_size=60),
    st.booleans(),
)
def test_frames_come_out_whole_and_unchanged_wherever_the_stream_is_cut(
    sizes: list[int], cuts: list[int], is_lone: bool
) -> None:
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    # Compared only after everything was read: a buffer that is written again would show.
    reader = FrameReader(is_lone=is_lone)
    assert [bytes(frame) for frame in feed(reader, framed(*bodies), cuts)] == bodies


def test_a_large_answer_has_a_buffer_of_its_own_into_which_little_is_moved() -> None:
    reader = FrameReader(is_lone=True)
    feed(reader, framed(b"a" * (300 * KIB)))  # it learns that answers are large
    for size in (300 * KIB, 500 * KIB, 700 * KIB, 1_100 * KIB, 400 * KIB):
        feed(reader, framed(b"nothing new"))  # between two large ones
        rooms = []
        rest = memoryview(framed(b"b" * size))
        while (frame := reader.next_frame()) is None:
            room = reader.writable()
            count = min(len(room), len(rest), 100 * KIB)
            room[:count] = rest[:count]
            reader.received(count)
            rest = rest[count:]
            rooms.append(count)
        assert isinstance(frame.obj, bytearray) and len(frame.obj) == 4 + size
        assert rooms[0] <= FIRST_BUFFER_BYTES, "only that is moved"


def test_the_last_bytes_of_a_frame_come_into_the_buffer_that_has_room_for_them() -> None:
    reader = FrameReader(is_lone=True)
    feed(reader, framed(b"a" * (40 * KIB)))
    feed(reader, framed(b"b" * (50 * KIB))[:-10])
    assert len(reader.writable()) == 10
    (frame,) = feed(reader, b"b" * 10)
    assert bytes(frame) == b"b" * (50 * KIB)


def test_a_frame_arrives_byte_by_byte() -> None:
    reader = FrameReader()
    assert feed(reader, framed(b"abc")[:6], [1] * 6) == []
    assert reader.buffered_bytes == 6
    assert [bytes(frame) for frame in feed(reader, b"c")] == [b"abc"]
    assert reader.buffered_bytes == 0


def test_large_frames_arrive_whole_and_later_ones_without_growing() -> None:
    bodies = [bytes([n]) * (3 * MIB) for n in range(3)]
    assert [bytes(frame) for frame in feed(FrameReader(), framed(*bodies))] == bodies


def test_a_frame_cannot_be_written_through() -> None:
    frames = feed(FrameReader(), framed(b"abc", b"d" * 10_000, b"e"))
    assert [frame.readonly for frame in frames] == [True, True, True]


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 1001),
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS ClientHello
    ],
)
def test_an_impossible_size_is_refused_at_once_and_for_good(head: bytes) -> None:
    reader = FrameReader(frame_bytes_max=1000)
    assert [bytes(frame) for frame in feed(reader, framed(b"a" * 1000))] == [b"a" * 1000]
    with pytest.raises(FrameError):
        feed(reader, head)
    with pytest.raises(FrameError):
        reader.next_frame()


def test_a_size_is_refused_before_its_body_arrives_and_not_before_its_fourth_byte() -> None:
    reader = FrameReader()
    assert feed(reader, b"\x7f\xff\xff") == []
    with pytest.raises(FrameError):
        feed(reader, b"\xff")


def test_memory_grows_with_what_was_sent_and_not_with_what_was_claimed() -> None:
    claim = struct.pack(">i", 100 * MIB)
    tracemalloc.start()
    try:
        readers = [FrameReader() for _ in range(20)]
        for reader in readers:
            feed(reader, claim + b"x" * 100)
            reader.writable()
        assert tracemalloc.get_traced_memory()[0] < 20 * 2 * FIRST_BUFFER_BYTES
        feed(readers[0], b"x" * MIB)
        readers[0].writable()
        assert readers[0].buffer_bytes <= 4 * MIB + BUFFER_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_trickle_within_a_huge_claim_moves_the_bytes_it_has_only_as_it_grows() -> None:
    reader = FrameReader()
    feed(reader, struct.pack(">i", 50 * MIB))
    sizes = set()
    for _ in range(3000):
        feed(reader, b"x" * 100, [100])
        sizes.add(reader.buffer_bytes)
    assert len(sizes) <= 6


def test_an_idle_connection_holds_little() -> None:
    assert FrameReader().buffer_bytes == FIRST_BUFFER_BYTES


def test_a_busy_connection_of_small_frames_gets_larger_buffers() -> None:
    reader = FrameReader()
    feed(reader, framed(*[b"x" * 100] * 5000))
    assert reader.buffer_bytes == BUFFER_BYTES_MAX


def test_a_response_frame_counts_its_chunks_and_copies_none_but_the_first_small_one() -> None:
    records = memoryview(b"r" * 1000)
    cold = FileChunk(source=UnreadFile(), position=10, length=500)
    head, *rest = encode_response_frame(7, [b"abc", records, cold, b"z"], has_flexible_header=False)
    assert head == struct.pack(">ii", 4 + 3 + 1000 + 500 + 1, 7) + b"abc"
    assert rest[0] is records
    assert rest[1:] == [cold, b"z"]


def test_a_flexible_response_header_has_an_empty_tag_section() -> None:
    assert encode_response_frame(-1, [b"abc"], has_flexible_header=True) == [
        struct.pack(">iib", 8, -1, 0) + b"abc"
    ]
    assert encode_response_frame(5, [], has_flexible_header=True) == [struct.pack(">iib", 5, 5, 0)]


def test_a_request_frame_is_its_size_and_its_parts() -> None:
    assert encode_request_frame(b"head", b"body") == framed(b"headbody")
