"""The shortcuts in C answer as the reference does, or leave the answer to it, for any bytes."""

from __future__ import annotations

import base64
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.wire.headers import encode_request_header
from springtide.wire.produce import encode_produce_request
from springtide.wire.produced_records import plain_batch_header
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from springtide.wire.shortcuts import Shortcuts
from tests.kit.springtide.native_build import CHOSEN, built_with, needs_compiler, needs_native
from tests.kit.springtide.usual_requests import BASE_MS, REFERENCE, first_difference

CORPUS = Path(__file__).parents[3] / "fuzz/corpus"
CASES = 5_000
BATCH = encode_batch([NewRecord(b"k", b"v", BASE_MS, (("h", b"1"),)), NewRecord(None, b"", BASE_MS + 3)])


def assert_alike(name: str, *arguments: object) -> bool:
    """Compare, and return whether the shortcut has an answer."""
    expected = getattr(REFERENCE, name)(*arguments)
    assert getattr(CHOSEN.shortcuts, name)(*arguments) == expected
    return expected is not None


@needs_native
@pytest.mark.parametrize("name", Shortcuts._fields)
def test_both_judge_what_nobody_should_send_alike(name: str) -> None:
    assert CHOSEN.name == "native", CHOSEN.why
    assert first_difference(name, getattr(CHOSEN.shortcuts, name), cases=CASES) is None


@needs_native
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_both_judge_every_byte_in_every_place_and_every_cut_of_a_produce_alike(version: int) -> None:
    topic = b"0123456789abcdef" if version == 13 else "t"
    head = encode_request_header(api_key=0, api_version=version, correlation_id=7, client_id="c")
    body = encode_produce_request(version, [((topic, 1), b"records")], acks=1, timeout_ms=9)
    frame, at = head + b"".join(body), len(head)
    assert assert_alike("request_header", frame)
    assert assert_alike("produce_request", version, frame, at)
    for place, byte in product(range(len(frame)), range(256)):
        changed = frame[:place] + bytes([byte]) + frame[place + 1 :]
        assert_alike("request_header", changed)
        assert_alike("produce_request", version, changed, at)
    for size in range(len(frame)):
        assert_alike("request_header", frame[:size])
        assert_alike("produce_request", version, frame[:size], min(at, size))


@needs_native
def test_both_judge_every_byte_in_every_place_and_every_cut_of_a_batch_alike() -> None:
    plain = 0
    for place, byte in product(range(len(BATCH)), range(256)):
        changed = BATCH[:place] + bytes([byte]) + BATCH[place + 1 :]
        plain += assert_alike("plain_batch", changed, 2**20, False, None, None)
    assert plain > len(BATCH) * 20
    for size in range(len(BATCH)):
        assert not assert_alike("plain_batch", BATCH[:size], 2**20, False, None, None)


@needs_native
@given(st.binary(max_size=90), st.integers(-1, 14), st.integers(0, 100))
def test_both_judge_any_bytes_alike(data: bytes, version: int, position: int) -> None:
    assert_alike("request_header", data)
    assert_alike("produce_request", version, data, position)
    assert_alike("plain_batch", data, 2**20, False, None, None)


@needs_native
def test_both_judge_what_the_fuzzers_found_alike() -> None:
    for name in ("request", "batch"):
        for line in (CORPUS / f"{name}.txt").read_text(encoding="ascii").splitlines():
            data = base64.b64decode(line)
            for frame in (data, data[1:], data[2:]):
                assert_alike("request_header", frame)
                assert_alike("plain_batch", frame, 2**20, False, None, None)
                for version, position in product((3, 7, 9, 12, 13), (0, 10, 12)):
                    assert_alike("produce_request", version, frame, position)


@needs_native
def test_what_is_read_are_buffers_and_anything_else_an_error_of_ours() -> None:
    header, produce, _ = CHOSEN.shortcuts
    kept = bytearray(encode_request_header(api_key=0, api_version=7, correlation_id=1, client_id="c"))
    assert header(kept) == header(memoryview(b"-" + kept)[1:]) == (0, 7, 1, "c", len(kept))
    kept += b"-"  # a buffer that were still held could not grow
    frame = b"".join(encode_produce_request(7, [(("t", 0), b"r")], acks=1, timeout_ms=1))
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        found = produce(7, buffer, 0)
        assert found is not None
        records = found[3][0][2]
        assert records.obj is memoryview(buffer).obj
    assert produce(7, frame, -1) is None
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("request_header", (None,)),
        ("request_header", ("text",)),
        ("produce_request", (7, None, 0)),
        ("produce_request", ("7", frame, 0)),
        ("produce_request", (7, frame, 0.0)),
        ("produce_request", (7, frame)),
        ("plain_batch", (None, 1, False, None, None)),
        ("plain_batch", (BATCH, "1", False, None, None)),
        ("plain_batch", (BATCH, 1, False)),
    ]
    for name, arguments in wrong:
        with pytest.raises(TypeError):
            getattr(CHOSEN.shortcuts, name)(*arguments)


@needs_native
def test_a_plain_batch_is_one_whose_crc_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("springtide.wire.shortcuts.plain_batch", CHOSEN.shortcuts.plain_batch)
    for changed, expected in ((BATCH, decode_header(BATCH)), (BATCH[:17] + b"\0" + BATCH[18:], None)):
        header = plain_batch_header(
            memoryview(changed),
            max_message_bytes=2**20,
            needs_keys=False,
            timestamp_ms_min=None,
            timestamp_ms_max=None,
        )
        assert header == expected


REQUESTS = {
    "a version above what is served": ("PRODUCE_MAX 13", "PRODUCE_MAX 14"),
    "a version below it": ("PRODUCE_MIN 3", "PRODUCE_MIN 2"),
    "a Fetch above it": ("FETCH_MAX 18", "FETCH_MAX 19"),
    "tags one version too late": ("PRODUCE_FLEXIBLE 9", "PRODUCE_FLEXIBLE 10"),
    "a Fetch's tags one version too late": ("FETCH_FLEXIBLE 12", "FETCH_FLEXIBLE 13"),
    "an id of a topic too early": ("PRODUCE_BY_ID 13", "PRODUCE_BY_ID 12"),
    "a client id that leaves the frame": ("client_id_bytes > left(&span)", "0"),
    "a client id that may not fill the frame": ("client_id_bytes > left", "client_id_bytes >= left"),
    "tags that are not looked at": ("*span.next++ != 0", "*span.next++ == 0xFF"),
    "a number of 16 bits in the other order": ("at[0] << 8 | at[1]);", "at[1] << 8 | at[0]);"),
    "a number of 32 bits in the other order": (
        "at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]",
        "at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0]",
    ),
    "a number without its sign": ("return (int16_t)((uint16_t)", "return (int16_t)0x7FFF & ((uint16_t)"),
    "a position off by one": ("position = span.next -", "position = 1 + span.next -"),
    "a transaction's id": ("transactional_id_bytes != -1", "0"),
    "two topics": ("topics != 1", "topics < 1"),
    "two partitions": ("partitions == 1 &&", "partitions >= 1 &&"),
    "records that end early": ("&& produce->records_bytes == left(span);", ";"),
    "two topics, compact": ("topics != ONE", "topics < ONE"),
    "two partitions, compact": ("partitions != ONE", "partitions < ONE"),
    "a long name": ("name_bytes >= SHORT_MAX", "name_bytes > SHORT_MAX"),
    "a length of three bytes": ("LENGTH_BYTES_MAX 4", "LENGTH_BYTES_MAX 2"),
    "a length of bytes of eight bits": ("(7 * number)", "(8 * number)"),
    "null for nothing": ("|| length == 0", ""),
    "tags of the topic": ("tags[1] == 0", "1"),
    "tags of the request": ("tags[2] == 0", "1"),
}
BATCHES = {
    "a base offset": ("int64_at(at) != 0", "0"),
    "a length off by one": ("LENGTH_FIELD_END != size", "LENGTH_FIELD_END > size"),
    "a length of eight bits": ("(int64_t)int32_at(at + 8) + L", "(uint8_t)int32_at(at + 8) + L"),
    "another format": ("at[16] != MAGIC", "at[16] > MAGIC"),
    "attributes": ("int16_at(at + 21) != 0", "int16_at(at + 21) & 0x2F"),
    "a count that the offsets deny": ("(int64_t)int32_at(at + 23) + 1 != record_count", "0"),
    "a producer's id below zero": ("(producer_id < 0 ||", "(0 ||"),
    "a producer's epoch below zero": ("int16_at(at + 51) < 0", "0"),
    "a sequence below zero": ("int32_at(at + 53) < 0", "0"),
    "half a producer's id": ("producer_id = int64_at(at + 43)", "producer_id = int32_at(at + 47)"),
    "a time that overflows": (
        "!__builtin_add_overflow(base_timestamp, walk.max_timestamp_delta, &most)",
        "(most = (int64_t)((uint64_t)base_timestamp + (uint64_t)walk.max_timestamp_delta), 1)",
    ),
    "times before the bound": ("least >= timestamp_min", "least >= timestamp_min - 1"),
    "times at the bound": ("most <= timestamp_max", "most < timestamp_max"),
    "batches without times, before the bound": ("least == NO_TIMESTAMP && most == NO_TIMESTAMP", "0"),
    "a latest time that the records deny": ("NO_TIMESTAMP) == int64_at", "NO_TIMESTAMP) <= int64_at"),
    "a bound on bytes": ("batch.len <= bytes_max", "batch.len < bytes_max"),
    "a bound beyond 64 bits": ("!is_beyond &&", ""),
    "numbers in the other order": (
        "(uint32_t)int32_at(at) << 32 | (uint32_t)int32_at(at + 4)",
        "(uint32_t)int32_at(at + 4) << 32 | (uint32_t)int32_at(at)",
    ),
    "a CRC with a sign": ('"(LiiiIiiLLLiii)"', '"(LiiiiiiLLLiii)"'),
}


@needs_compiler
@pytest.mark.parametrize("planted", REQUESTS)
def test_a_difference_planted_in_requests_is_found(planted: str, tmp_path: Path) -> None:
    changed = built_with("_requests", *REQUESTS[planted], tmp_path)
    names = ("request_header", "produce_request")
    assert any(first_difference(name, getattr(changed, name), cases=CASES) is not None for name in names)


@needs_compiler
@pytest.mark.parametrize("planted", BATCHES)
def test_a_difference_planted_in_batches_is_found(planted: str, tmp_path: Path) -> None:
    changed = built_with("_records", *BATCHES[planted], tmp_path)
    assert first_difference("plain_batch", changed.plain_batch, cases=CASES) is not None
