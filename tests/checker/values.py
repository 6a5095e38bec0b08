"""Values that show when they are mixed up: each is unique, and carries its partition and a checksum.

A value read back in another partition names the one it was sent to; one that lost a bit fails its CRC; one
that was never sent is still seen to be whole, so invention and damage are told apart. Values may be padded to
a size, as real records are; a history keeps the text without its padding.

    run/process/number@topic/partition+bytes#crc        and then '.' up to so many bytes
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from .history import Key

PADDING = b"."
VALUE_BYTES_MAX = 1024 * 1024
DAMAGED_CHARACTERS_MAX = 256
"""A damaged value is kept for people to look at; the rest of it is told by its length."""

_TEXT = re.compile(
    r"(?P<body>[^\s@#]+/\d+@(?P<topic>[^\s@#/]+)/(?P<partition>\d+)\+(?P<bytes>\d+))#[0-9a-f]{8}"
)


@dataclass(frozen=True, slots=True)
class ValueText:
    """What a whole value says about itself. value_bytes: its length as a record, padding included."""

    key: Key
    value_bytes: int


def make_value(*, run: str, process: str, number: int, key: Key, value_bytes: int = 0) -> str:
    """The text of a value. `run`, `process` and `number` together must be unique; `value_bytes` is the least
    length it will have as a record."""
    assert 0 <= value_bytes <= VALUE_BYTES_MAX
    body = f"{run}/{process}/{number}@{key[0]}/{key[1]}+{value_bytes}"
    text = f"{body}#{zlib.crc32(body.encode()):08x}"
    assert _TEXT.fullmatch(text), f"{text!r}: run, process and topic may hold no space, @ or #"
    return text


def parse_value(text: str) -> ValueText | None:
    """What the value says; None when it is no value of ours or no longer whole."""
    matched = _TEXT.fullmatch(text)
    if matched is None or f"{zlib.crc32(matched['body'].encode()):08x}" != text[-8:]:
        return None
    return ValueText((matched["topic"], int(matched["partition"])), int(matched["bytes"]))


def encode_value(text: str) -> bytes:
    """The bytes of the record: the text, padded to the length that it names."""
    value = parse_value(text)
    assert value is not None, f"{text!r} was not made by make_value"
    return text.encode().ljust(value.value_bytes, PADDING)


def decode_value(record: bytes) -> str:
    """The text of a record that was read, whole or not: never the text of a sent value unless every byte of
    it is as it was sent."""
    text = record.rstrip(PADDING).decode("latin-1")
    if (value := parse_value(text)) is not None and len(record) == max(len(text), value.value_bytes):
        return text
    shown = record[:DAMAGED_CHARACTERS_MAX].decode("latin-1")
    return f"damaged {len(record)} bytes, crc {zlib.crc32(record):08x}: {shown}"
