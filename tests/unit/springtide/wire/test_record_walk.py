from __future__ import annotations

import random

import pytest

from springtide.wire.record_batch import HEADER_BYTES
from springtide.wire.record_walk import UNSOUND, RecordWalk, walk_records, walk_records_in_python
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.springtide.poison import varint

NONE_OF_THEM = b"\x01\x01"  # no key, no value


def record(
    *, time: bytes = b"\0", offset: bytes = b"\0", fields: bytes = NONE_OF_THEM, headers: bytes = b"\0"
) -> bytes:
    body = b"\0" + time + offset + fields + headers
    return varint(len(body)) + body


SOUND = {
    "a null key and value": record(),
    "attributes of any value": varint(6) + b"\xff\0\0\1\1\0",
    "an empty key and value": record(fields=b"\0\0"),
    "varints longer than they have to be": varint(18)
    + b"\0"
    + b"\x80\x80\x00"
    + b"\x80\x80\x80\x00"
    + b"\x80\x80\x80\x80\x00"
    + b"\x81\x00"
    + b"\x80\x80\x00",
    "a header key that is not UTF-8": record(headers=varint(1) + varint(1) + b"\xff" + varint(-1)),
    "an empty header key": record(headers=varint(1) + varint(0) + varint(0)),
}

BAD = {
    "nothing": b"",
    "a record of no bytes": b"\0" + b"\0" * 6,
    "a negative record length": varint(-1) + b"\0" * 6,
    "a record length beyond the batch": varint(100) + b"\0\0\0\1\1\0",
    "a record length of six bytes": b"\x8c\x80\x80\x80\x80\x00" + b"\0\0\0\1\1\0",
    "a record that is longer than its fields": varint(7) + b"\0\0\0\1\1\0Z",
    "a record that is shorter than its fields": varint(5) + b"\0\0\0\1\1\0",
    "bytes after the last record": record() + b"Z",
    "a second record": record() + record(offset=varint(1)),
    "an offset delta of one": record(offset=varint(1)),
    "an offset delta below zero": record(offset=varint(-1)),
    "an offset delta of six bytes": record(offset=b"\x80\x80\x80\x80\x80\x00"),
    "an offset delta beyond 32 bits": record(offset=b"\x80\x80\x80\x80\x10"),
    "a key length beyond the batch": record(fields=varint(100) + b"abc\1"),
    "a key length below -1": record(fields=varint(-2) + b"\1"),
    "a value length beyond the batch": record(fields=b"\1" + varint(100) + b"abc"),
    "a value length of three bytes beyond it": record(fields=b"\1" + varint(100_000) + b"abc"),
    "a value length below -1": record(fields=b"\1" + varint(-2)),
    "a header count below zero": record(headers=varint(-1)),
    "a header count of 2^31-1": record(headers=varint(2**31 - 1)),
    "a header count above the headers": record(headers=varint(2) + varint(0) + varint(0) + b"\0"),
    "a header key of null": record(headers=varint(1) + varint(-1) + varint(1) + b"x"),
    "a header value beyond the record": record(headers=varint(1) + varint(0) + varint(9)),
    "a timestamp delta of eleven bytes": record(time=b"\x80" * 10 + b"\0"),
    "a timestamp delta beyond 64 bits": record(time=b"\x80" * 9 + b"\x02"),
    "a varint that the batch's end cuts off": varint(6) + b"\0\0\0\1\1\x80",
}


@pytest.mark.parametrize("payload", SOUND.values(), ids=SOUND)
def test_a_sound_record_is_walked(payload: bytes) -> None:
    assert walk_records_in_python(payload, 1, False) == (0, 0, 0, 0)


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_bad_record_is_refused(payload: bytes, kind: type[bytes | bytearray]) -> None:
    assert walk_records_in_python(kind(payload), 1, False) == UNSOUND


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_a_wrong_count_is_refused(count: int) -> None:
    assert walk_records_in_python(record(), count, False) == UNSOUND


@pytest.mark.parametrize("null", [varint(-1), b"\x81\x00"])
def test_a_null_key_is_refused_where_keys_are_needed(null: bytes) -> None:
    payload = record(fields=null + b"\1")
    assert walk_records_in_python(payload, 1, False) == (0, 0, 0, 0)
    assert walk_records_in_python(payload, 1, True) == UNSOUND
    assert walk_records_in_python(record(fields=b"\0\1"), 1, True) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([0, 5, 3], (0, 5, 1)),
        ([0, 7, 7], (0, 7, 1)),
        ([3, -2, -9], (-9, 3, 0)),
        ([-5, -4], (-5, -4, 1)),
        ([0, 2**63 - 1, -(2**63)], (-(2**63), 2**63 - 1, 1)),
    ],
)
def test_the_walk_says_what_the_records_say_of_time(deltas: list[int], expected: tuple[int, ...]) -> None:
    payload = b"".join(
        record(time=varint(delta), offset=varint(number)) for number, delta in enumerate(deltas)
    )
    assert walk_records_in_python(payload, len(deltas), False) == RecordWalk(0, *expected)


def test_whole_batches_of_any_layout_agree_with_what_was_written() -> None:
    pick = random.Random(34)
    for _ in range(200):
        records = [
            NewRecord(
                pick.choice([b"", b"k" * pick.randrange(100)]),
                pick.choice([None, b"", b"v" * pick.choice([5, 70, 9_000])]),
                pick.choice([0, 5, 300, 2**40]),
                (("h" * pick.randrange(3), pick.choice([None, b"x"])),) * pick.choice([0, 0, 2]),
            )
            for _ in range(pick.choice([1, 3, 70]))
        ]
        payload = memoryview(encode_batch(records))[HEADER_BYTES:]
        deltas = [each.timestamp - records[0].timestamp for each in records]
        most = max(deltas)
        assert walk_records(payload, len(records), True) == (0, min(deltas), most, deltas.index(most))
