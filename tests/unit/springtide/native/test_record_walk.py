"""The C that walks records and its reference in Python give the same answers, for any bytes."""

from __future__ import annotations

import ast
import base64
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide import native
from springtide.native.record_walk import (
    NATIVE_VARIABLE,
    BadNativeChoice,
    Implementation,
    choose_implementation,
    implementation_in_use,
    use,
)
from springtide.wire import record_walk, shortcuts
from springtide.wire.compression import Compression, CorruptCompressedData, DecompressedTooLarge, decompress
from springtide.wire.headers import decode_request_header
from springtide.wire.record_batch import HEADER_BYTES
from springtide.wire.record_walk import RecordWalk, walk_records_in_python
from springtide.wire.records import NewRecord, encode_batch
from springtide.wire.shortcuts import NO_SHORTCUTS, Shortcuts
from tests.kit.springtide.native_build import CHOSEN, built_with, needs_compiler, needs_native
from tests.kit.springtide.record_payloads import first_difference

ROOT = Path(__file__).parents[4]
CORPUS = ROOT / "tests/fuzz/corpus/batch.txt"
CASES = 5_000


def payload_of(records: list[NewRecord]) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


SMALL = payload_of(
    [NewRecord(b"k", b"v", 5, (("h", b"1"), ("i", None))), NewRecord(None, None, 7), NewRecord(b"", b"", 3)]
)


def assert_alike(payload: bytes, record_count: int, *, needs_keys: bool = False) -> RecordWalk:
    expected = walk_records_in_python(payload, record_count, needs_keys)
    assert CHOSEN.walk_records(payload, record_count, needs_keys) == expected
    return expected


@needs_native
def test_both_judge_what_nobody_should_send_alike() -> None:
    assert CHOSEN.name == "native", CHOSEN.why
    assert first_difference(CHOSEN.walk_records, walk_records_in_python, cases=CASES) is None


@needs_native
def test_both_judge_every_byte_in_every_place_and_every_cut_alike() -> None:
    assert assert_alike(SMALL, 3) == (0, -2, 2, 1)
    sound = 0
    for at, byte in product(range(len(SMALL)), range(256)):
        changed = SMALL[:at] + bytes([byte]) + SMALL[at + 1 :]
        sound += assert_alike(changed, 3).error == 0
        assert_alike(changed, 3, needs_keys=True)
    assert len(SMALL) < sound < len(SMALL) * 255
    for size, count in product(range(len(SMALL)), range(5)):
        assert_alike(SMALL[:size], count)
        assert_alike(SMALL[size:], count)


@needs_native
@given(st.binary(max_size=60), st.integers(-(2**65), 2**65) | st.integers(0, 4), st.booleans())
def test_both_judge_any_bytes_alike(payload: bytes, record_count: int, needs_keys: bool) -> None:
    assert_alike(payload, record_count, needs_keys=needs_keys)


@needs_native
def test_both_judge_what_the_fuzzer_found_alike() -> None:
    for line in CORPUS.read_text(encoding="ascii").splitlines():
        data = base64.b64decode(line)
        payloads = [data[3:], data[HEADER_BYTES + 1 :]]
        for compression in Compression:
            with suppress(CorruptCompressedData, DecompressedTooLarge):
                payloads.append(bytes(decompress(compression, data[3:], decompressed_bytes_max=65_536)))
        for payload in payloads:
            for count in (1, 3, int.from_bytes(data[1:3])):
                assert_alike(payload, count)


@needs_native
def test_a_payload_is_bytes_or_a_view_of_them_and_anything_else_an_error_of_ours() -> None:
    for payload in (SMALL, bytearray(SMALL), memoryview(b"-" + SMALL)[1:]):
        assert CHOSEN.walk_records(payload, 3, False) == (0, -2, 2, 1)
    kept = bytearray(SMALL)
    CHOSEN.walk_records(kept, 3, False)
    kept += b"-"  # a buffer that were still held could not grow
    with pytest.raises(BufferError):
        CHOSEN.walk_records(memoryview(SMALL)[::2], 3, False)
    for wrong in ((None, 3, False), (SMALL, "3", False), (SMALL, 3.0, False)):
        with pytest.raises(TypeError):
            CHOSEN.walk_records(*wrong)


PLANTED = {
    "a record may not fill what is left": ("length > batch->end", "length >= batch->end"),
    "a field may not fill what is left": ("length > span->end", "length >= span->end"),
    "a record ends a byte early": ("batch->next + length}", "batch->next + length - 1}"),
    "a field ends a byte early": ("span->next += length", "span->next += length - 1"),
    "a number's bytes in the other order": (
        "raw |= (uint64_t)(byte & 0x7F) << (7 * number)",
        "raw = raw << 7 | (byte & 0x7F)",
    ),
    "a number without its sign": ("(int64_t)(raw >> 1) ^ -(int64_t)(raw & 1)", "(int64_t)(raw >> 1)"),
    "a sign that is a bit, not zigzag": ("^ -(int64_t)(raw & 1)", "* (raw & 1 ? -1 : 1)"),
    "a varint in 32 bits": (
        "uint64_t raw = 0;\n    for (int number = 0; number < VARINT",
        "uint32_t raw = 0;\n    for (int number = 0; number < VARINT",
    ),
    "a length in 32 bits": ("length < length_min ||", "(int32_t)length < length_min ||"),
    "an offset delta in 32 bits": ("offset_delta != number", "(int32_t)offset_delta != number"),
    "a varlong beyond 64 bits": ("byte > 1)", "byte > 0x7F)"),
    "six bytes of a varint": ("VARINT_BYTES_MAX 5", "VARINT_BYTES_MAX 6"),
    "four bytes of a varint": ("VARINT_BYTES_MAX 5", "VARINT_BYTES_MAX 4"),
    "nine bytes of a varlong": ("VARLONG_BYTES_MAX 10", "VARLONG_BYTES_MAX 9"),
    "eleven bytes of a varlong": ("VARLONG_BYTES_MAX 10", "VARLONG_BYTES_MAX 11"),
    "offsets that are not looked at": ("offset_delta != number", "0"),
    "no key where one is needed": ("needs_keys ? 0 : NULL_LENGTH", "NULL_LENGTH"),
    "a length of -2": ("#define NULL_LENGTH (-1)", "#define NULL_LENGTH (-2)"),
    "a header without a key": ("!skip_sized(&record, 0)", "!skip_sized(&record, NULL_LENGTH)"),
    "fewer than no headers": ("header_count < 0", "0"),
    "bytes in a record after its fields": ("return record.next == record.end", "return 1"),
    "bytes in a batch after its records": ("return batch.next == batch.end", "return 1"),
    "a batch of no records": ("record_count < 1", "record_count < 0"),
    "the last of the largest timestamps": ("delta > walk->max_", "delta >= walk->max_"),
    "timestamps in 32 bits": ("(delta < walk->min_", "((int32_t)delta < walk->min_"),
    "numbers of a batch that is not sound": ("if (!is_sound) {", "if (0) {"),
}


@needs_compiler
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_found(name: str, tmp_path: Path) -> None:
    changed = built_with("_records", *PLANTED[name], tmp_path)
    assert first_difference(changed.walk_records, walk_records_in_python, cases=CASES) is not None


def test_python_walks_where_it_is_asked_for() -> None:
    chosen = choose_implementation({NATIVE_VARIABLE: "off"})
    assert chosen == ("python", walk_records_in_python, "SPRINGTIDE_NATIVE=off", NO_SHORTCUTS)


@pytest.mark.parametrize("missing", ["_records", "_requests"])
def test_python_walks_where_the_native_part_was_not_built(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(native, missing, raising=False)
    monkeypatch.setitem(sys.modules, f"springtide.native.{missing}", None)
    chosen = choose_implementation({NATIVE_VARIABLE: "auto"})
    assert (chosen.name, chosen.walk_records) == ("python", walk_records_in_python)
    assert chosen.shortcuts is NO_SHORTCUTS
    assert missing in chosen.why


def test_a_process_walks_records_with_what_it_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walk, "walk_records", walk_records_in_python)
    for name in Shortcuts._fields:
        monkeypatch.setattr(shortcuts, name, getattr(shortcuts, name))
    assert implementation_in_use() == "python"
    header = (0, 3, 1, "c", 11)
    native = Implementation(
        "native",
        lambda *_: (0, 1, 2, 3),
        "it was built",
        NO_SHORTCUTS._replace(request_header=lambda _: header),
    )
    use(native)
    assert implementation_in_use() == "native"
    assert decode_request_header(b"") == header
    assert record_walk.walk_records(b"", 1, False) == (0, 1, 2, 3)


def test_no_module_keeps_the_walk_from_before_the_choice() -> None:
    """`from ...record_walk import walk_records` would go on with the reference."""
    keepers = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("springtide", "dataplane", "coordinator", "controller", "bench")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("record_walk")
        if any(name.name == "walk_records" for name in node.names)
    }
    assert keepers == set()


def test_another_choice_is_refused() -> None:
    with pytest.raises(BadNativeChoice, match=r"SPRINGTIDE_NATIVE is 'auto' or 'off', not 'no'"):
        choose_implementation({NATIVE_VARIABLE: "no"})
