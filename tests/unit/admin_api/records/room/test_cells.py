"""Bytes of clients, as a look shows them: marked with what they are, and cut where they are long."""

from __future__ import annotations

import pytest

from admin_api.records.room.cells import Cell, CellEncoding, cell_of
from admin_api.records.room.questions import RecordFormat

AUTO, TEXT, JSON, HEX = RecordFormat.AUTO, RecordFormat.TEXT, RecordFormat.JSON, RecordFormat.HEX


def shown(data: bytes, wanted: RecordFormat = AUTO, *, bytes_max: int = 1_000) -> tuple[str, str]:
    cell = cell_of(data, wanted, bytes_max=bytes_max)
    assert cell is not None
    assert cell.size_bytes == len(data)
    assert cell.truncated == (len(data) > bytes_max)
    return cell.encoding, cell.data


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"", "text", ""),
        (b'{"id": 1, "id": 12345678901234567890}', "json", '{"id": 1, "id": 12345678901234567890}'),
        (b" [1,\n2] ", "json", " [1,\n2] "),
        (b"12", "text", "12"),
        (b"null", "text", "null"),
        (b'{"id": 1', "text", '{"id": 1'),
        (b'{"a": NaN}', "text", '{"a": NaN}'),
        ("grüße\tan\nalle".encode(), "text", "grüße\tan\nalle"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"\x1b[2J", "hex", "1b5b324a"),
        ("a\u202eb".encode(), "hex", "61e280ae62"),
        ("a\x85b".encode(), "hex", "61c28562"),
        (b"[" * 100_000 + b"]" * 100_000, "text", "[" * 1_000),
    ],
)
def test_auto_shows_what_it_is(data: bytes, encoding: str, text: str) -> None:
    assert shown(data) == (encoding, text)


def test_a_deep_document_is_text_and_costs_no_stack() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000  # how deep an interpreter follows differs from one to the next
    assert shown(deep, bytes_max=len(deep)) == ("text", deep.decode())
    assert shown(deep, JSON, bytes_max=len(deep)) == ("text", deep.decode())


def test_what_is_asked_for_and_is_not_there_is_marked() -> None:
    assert shown(b"12", JSON) == ("json", "12")
    assert shown(b"twelve", JSON) == ("text", "twelve")
    assert shown(b"\x00", JSON) == ("hex", "00")
    assert shown(b"a\x00b", TEXT) == ("text", "a\x00b")
    assert shown(b"a\xffb", TEXT) == ("text_replaced", "a\ufffdb")
    assert shown(b"{}", HEX) == ("hex", "7b7d")


def test_a_cut_falls_between_characters_and_a_part_of_a_document_is_no_json() -> None:
    assert shown("ab€".encode(), bytes_max=4) == ("text", "ab")
    assert shown(b'{"a": "' + b"x" * 50 + b'"}', bytes_max=10) == ("text", '{"a": "xxx')
    assert shown(b"\xff" * 9, bytes_max=2) == ("hex", "ffff")


def test_null_is_none() -> None:
    assert cell_of(None, AUTO, bytes_max=1) is None
    assert cell_of(b"a", AUTO, bytes_max=1) == Cell(CellEncoding.TEXT, "a", 1, truncated=False)
