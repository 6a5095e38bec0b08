"""Murmur2 over a column of keys at once, as Kafka's default partitioner takes it.

The algorithm is Austin Appleby's MurmurHash2 (32 bit) with the seed of Kafka's Utils.murmur2, so keys are
placed where other producers place them. All keys advance together, four bytes a step, in uint32 arithmetic
that wraps; keys drop out as they end, so the cost is that of the bytes plus a few array operations per word
of the longest key.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


def murmur2(keys: pa.Array) -> Hashes:
    """Return the hash of each key (Arrow type binary, no nulls), as unsigned 32-bit numbers."""
    if keys.null_count or keys.type != pa.binary():
        raise TypeError(f"binary keys without nulls are needed, not {keys.type}")
    count = len(keys)
    if count == 0:
        return np.empty(0, np.uint32)
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, offset=keys.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _SEED ^ lengths.astype(np.uint32)
    words = lengths // 4
    order = np.argsort(-words, kind="stable")
    hashes, starts, lengths, words = hashes[order], starts[order], lengths[order], words[order]
    longer = np.searchsorted(-words, -np.arange(1, int(words[0]) + 1), side="right")
    for step, active in enumerate(longer.tolist()):
        word = _word(data, starts[:active] + 4 * step)
        word *= _M
        word ^= word >> _R
        word *= _M
        hashes[:active] *= _M
        hashes[:active] ^= word
    _mix_tail(hashes, data, starts + 4 * words, lengths % 4)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    result = np.empty_like(hashes)
    result[order] = hashes
    return result


def positive(hashes: Hashes) -> npt.NDArray[np.int64]:
    """Clear the sign bit, as Kafka's Utils.toPositive does."""
    return cast("npt.NDArray[np.int64]", (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64))


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Hashes:
    """Return four bytes from each place, little-endian."""
    word = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _mix_tail(
    hashes: Hashes, data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], rest: npt.NDArray[np.int64]
) -> None:
    """Mix in the one to three bytes after the last whole word."""
    for byte in (2, 1, 0):
        has = np.flatnonzero(rest > byte)
        hashes[has] ^= data[at[has] + byte].astype(np.uint32) << np.uint32(8 * byte)
    has = np.flatnonzero(rest > 0)
    hashes[has] *= _M
