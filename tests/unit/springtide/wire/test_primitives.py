"""What a Reader refuses, and at what point."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type
from springtide.wire.primitives import (
    MALFORMED_CAUSES,
    TAGGED_FIELDS_MAX,
    MalformedRequest,
    Reader,
    uvarint_bytes,
)

ASKED = request_type(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    encoded = uvarint_bytes(value)
    reader = Reader(b"x" + encoded + b"y", 1)
    assert reader.uvarint() == value
    assert reader.position == 1 + len(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x80\x80\x80\x80\x80\x01",  # six bytes
        b"\xff\xff\xff\xff\x1f",  # 33 bits
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    ],
)
def test_a_varint_of_more_than_five_bytes_or_32_bits_is_malformed(encoded: bytes) -> None:
    with pytest.raises(MalformedRequest, match="32 bits"):
        Reader(encoded).uvarint()


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_varint_without_an_end_is_one_of_the_causes_of_malformed(encoded: bytes) -> None:
    with pytest.raises(MALFORMED_CAUSES):
        Reader(encoded).uvarint()


@pytest.mark.parametrize("is_flexible", [True, False])
def test_a_count_is_refused_before_anything_is_made_for_it(is_flexible: bool) -> None:
    def counted(count: int) -> bytes:
        return uvarint_bytes(count + 1) if is_flexible else struct.pack(">i", count)

    fits = Reader(counted(25) + bytes(100))
    assert fits.array_count(is_flexible=is_flexible, element_bytes_min=4) == 25
    with pytest.raises(MalformedRequest, match="exceeds the 100 bytes left"):
        Reader(counted(26) + bytes(100)).array_count(is_flexible=is_flexible, element_bytes_min=4)


def test_the_arrays_of_one_message_share_one_budget() -> None:
    topics = [{"topic": "t", "partitions": [{}] * 4}] * 2
    body = encode(build(ASKED, {"topics": topics}))
    assert encode(decode(ASKED, body, elements_max=10)) == body
    with pytest.raises(MalformedRequest, match="budget"):
        decode(ASKED, body, elements_max=9)


def test_arrays_inside_tags_share_the_budget_too() -> None:
    reader = Reader(b"\x01\x00\x03" + uvarint_bytes(3) + b"\0\0", elements_max=2)
    counts: list[int] = []

    def on_tag(_tag: int, content: Reader) -> bool:
        counts.append(content.array_count(is_flexible=True, element_bytes_min=1))
        return False

    reader.tagged_fields(on_tag)
    assert (counts, reader.elements_left) == ([2], 0)


def test_a_count_of_tags_is_refused_before_they_are_read() -> None:
    with pytest.raises(MalformedRequest, match="tagged fields exceed"):
        Reader(b"\x03\x00\x00\x01\x00\x02").tagged_fields(lambda _tag, _content: False)


def test_more_tagged_fields_than_kafka_takes_are_refused_and_no_memory_is_taken_for_them() -> None:
    def section(count: int) -> Reader:
        return Reader(uvarint_bytes(count) + b"".join(uvarint_bytes(tag) + b"\0" for tag in range(count)))

    allowed, refused = section(TAGGED_FIELDS_MAX), section(TAGGED_FIELDS_MAX + 1)
    tracemalloc.start()
    try:
        allowed.skip_tagged_fields()
        with pytest.raises(MalformedRequest, match="10001 tagged fields"):
            refused.skip_tagged_fields()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert allowed.remaining == 0
    assert peak_bytes < 64 << 10


def test_a_message_knows_the_least_its_elements_take() -> None:
    # An id, a name, a tag section: 18 bytes; five of them can't be in 89.
    with pytest.raises(MalformedRequest, match="exceeds the 89 bytes left"):
        decode(request_type(ApiKey.METADATA, 12), b"\x06" + bytes(89))
