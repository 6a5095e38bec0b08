"""Columns of varints against the plain writer, one value at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.records.rows import varint_column
from pipeline.records.varints import Payload, read_varints, read_varlongs, varint_sizes, zigzag
from springtide.wire.records import write_varint

int32s = st.integers(-(2**31), 2**31 - 1) | st.sampled_from(
    [sign * (2**bits + shift) for bits in (6, 13, 20, 27) for shift in (-1, 0, 1) for sign in (-1, 1)]
)
int64s = int32s | st.integers(-(2**63), 2**63 - 1)
EDGES = [0, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)]


def plain(values: list[int]) -> list[bytes]:
    written = []
    for value in values:
        out = bytearray()
        write_varint(out, value)
        written.append(bytes(out))
    return written


def positions(parts: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    sizes = np.array([len(part) for part in parts], np.int64)
    return np.cumsum(sizes) - sizes


@given(st.lists(int32s, max_size=40))
@example(EDGES)
@settings(deadline=None)
def test_varints_are_read_as_they_were_written(values: list[int]) -> None:
    parts = plain(values)
    at = positions(parts)
    got, after, bad = read_varints(Payload(b"".join(parts)), at)
    assert got.tolist() == values
    assert (after - at).tolist() == [len(part) for part in parts]
    assert bad is None


@given(st.lists(int64s, max_size=40))
@example([*EDGES, 2**55, -(2**55), 2**62, 2**63 - 1, -(2**63)])
@settings(deadline=None)
def test_varlongs_are_read_as_they_were_written(values: list[int]) -> None:
    parts = plain(values)
    at = positions(parts)
    got, after, bad = read_varlongs(Payload(b"".join(parts)), at)
    assert got.tolist() == values
    assert (after - at).tolist() == [len(part) for part in parts]
    assert bad is None


@given(st.lists(int64s, min_size=1, max_size=40))
@example([*EDGES, 2**63 - 1, -(2**63)])
@settings(deadline=None)
def test_columns_are_written_as_the_plain_writer_writes(values: list[int]) -> None:
    raw = zigzag(np.array(values, np.int64))
    parts = plain(values)
    assert varint_sizes(raw).tolist() == [len(part) for part in parts]
    assert varint_column(raw, None, raw).to_pylist() == [part + b"\0" + part for part in parts]


@given(st.binary(max_size=40), st.lists(st.integers(-5, 60), max_size=20))
@settings(deadline=None)
def test_any_bytes_at_any_position_are_a_value_or_bad(data: bytes, at: list[int]) -> None:
    payload = Payload(data or b"\0")
    for read, sizes_max, low, high in (
        (read_varints, 5, -(2**31), 2**31 - 1),
        (read_varlongs, 10, -(2**63), 2**63 - 1),
    ):
        values, after, bad = read(payload, np.array(at, np.int64))
        assert len(values) == len(after) == len(at)
        for row, position in enumerate(at):
            if bad is not None and bad[row]:
                continue
            assert low <= int(values[row]) <= high
            if position >= 0 and int(after[row]) <= len(data):
                assert 1 <= int(after[row]) - position <= sizes_max
                assert plain_value(data[position : int(after[row])]) == int(values[row])


def plain_value(data: bytes) -> int:
    raw = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data))
    return (raw >> 1) ^ -(raw & 1)


@pytest.mark.parametrize(
    "data", [b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 20]
)
def test_a_varint_beyond_int32_is_bad(data: bytes) -> None:
    _, _, bad = read_varints(Payload(data), np.zeros(3, np.int64))
    assert bad is not None
    assert bad.all()


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 8])
def test_a_varlong_beyond_int64_is_bad(data: bytes) -> None:
    _, after, bad = read_varlongs(Payload(data), np.zeros(2, np.int64))
    assert (bad is not None and bad.all()) or (after > len(data)).all()
