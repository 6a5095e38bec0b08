"""Our records of transactions' offsets: what is written is read, and strange bytes are refused."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.group_records import (
    CommittedOffset,
    EndedKey,
    NewerGroupRecord,
    OffsetKey,
    PendingKey,
    UnreadableGroupRecord,
    decode_key,
)
from coordinator.core.pending_records import (
    EndedTransaction,
    PendingOffset,
    decode_ended,
    decode_pending,
    encode_ended,
    encode_ended_key,
    encode_pending,
    encode_pending_key,
)

PENDING = PendingOffset(7, 2, CommittedOffset(9, 4, "note", 1_700, None, UUID(int=5)))
ENDED = EndedTransaction(7, 3, 12, 1_700)
PENDING_KEY = PendingKey(1_000, OffsetKey("grüppe", "t", 3))


def test_pending_offsets_and_ends_are_read_as_they_were_written() -> None:
    assert decode_key(encode_pending_key(PENDING_KEY)) == PENDING_KEY
    assert decode_key(encode_ended_key(EndedKey(2**60))) == EndedKey(2**60)
    assert decode_pending(encode_pending(PENDING)) == PENDING
    assert decode_ended(encode_ended(ENDED)) == ENDED


def test_the_bytes_are_those_of_the_module() -> None:
    key = bytes.fromhex("7d01 00000000000003e8 0001 67 0001 74 00000003")
    assert encode_pending_key(PendingKey(1_000, OffsetKey("g", "t", 3))) == key
    assert encode_ended_key(EndedKey(1_000)) == bytes.fromhex("7d02 00000000000003e8")
    assert encode_pending(PENDING)[:12] == bytes.fromhex("0000 0007 0000000000000002")
    assert encode_ended(ENDED) == bytes.fromhex("0000 0007 00000003 000000000000000c 00000000000006a4")


@pytest.mark.parametrize("decode", [decode_pending, decode_ended])
def test_a_later_version_is_said_to_be_one(decode: object) -> None:
    with pytest.raises(NewerGroupRecord):
        decode(b"\x00\x01" + bytes(40))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("decode", "value"), [(decode_pending, encode_pending(PENDING)), (decode_ended, encode_ended(ENDED))]
)
def test_what_is_cut_off_or_too_long_is_refused(decode: object, value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(UnreadableGroupRecord):
            decode(value[:length])  # type: ignore[operator]
    with pytest.raises(UnreadableGroupRecord):
        decode(value + b"\x00")  # type: ignore[operator]


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(raw: bytes) -> None:
    for decode in (decode_pending, decode_ended, lambda raw: decode_key(b"\x7d\x01" + raw)):
        with suppress(UnreadableGroupRecord):
            decode(raw)
