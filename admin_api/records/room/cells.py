"""A key, a value or a header of a record as people read it, marked with what it is. Pure.

Bytes are hostile: nothing is shown as text that is not, and what is cut says so. JSON is checked but never
built: a wide document costs a walk over its bytes, and a deep one is text.
"""

from __future__ import annotations

import codecs
import re
from enum import StrEnum
from typing import Final

import msgspec

from admin_api.records.room.questions import RecordFormat

#: Characters that would move a terminal's cursor, or turn the direction of text around.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_JSON_BEGINS: Final = (b"{", b"[")
_JSON_SPACE: Final = b" \t\r\n"


class CellEncoding(StrEnum):
    """What `data` of a cell is. text_replaced: text, with a replacement character for each byte that is not
    UTF-8."""

    JSON = "json"
    TEXT = "text"
    TEXT_REPLACED = "text_replaced"
    HEX = "hex"


class Cell(msgspec.Struct, frozen=True):
    """data: of its first bytes, if `truncated`. size_bytes: of all of it."""

    encoding: CellEncoding
    data: str
    size_bytes: int
    truncated: bool


def cell_of(data: bytes | None, wanted: RecordFormat, *, bytes_max: int) -> Cell | None:
    """Return the bytes as they are wanted, or, where they are not that, as they can be shown honestly; None
    for null."""
    if data is None:
        return None
    shown = data[:bytes_max]
    is_cut = len(shown) < len(data)

    def cell(encoding: CellEncoding, text: str) -> Cell:
        return Cell(encoding, text, len(data), is_cut)

    if wanted is not RecordFormat.HEX:
        text = _text(shown, is_cut=is_cut)
        if wanted is RecordFormat.TEXT:
            if text is not None:
                return cell(CellEncoding.TEXT, text)
            return cell(CellEncoding.TEXT_REPLACED, shown.decode("utf-8", "replace"))
        if text is not None:
            if not is_cut and _is_json(data, of_any_kind=wanted is RecordFormat.JSON):
                return cell(CellEncoding.JSON, text)
            if _CONTROL.search(text) is None:
                return cell(CellEncoding.TEXT, text)
    return cell(CellEncoding.HEX, shown.hex())


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return the text; of one that was cut, without the part of a character at its end."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None


def _is_json(data: bytes, *, of_any_kind: bool) -> bool:
    if not of_any_kind and not data.lstrip(_JSON_SPACE).startswith(_JSON_BEGINS):
        return False  # `12` and `null` are text unless JSON is asked for
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
