"""Small JSON files that must not be believed when a bit of them has flipped.

An id, an offset or an epoch that rotted into another valid one is worse than an unreadable one: a broker
that remembers too high an epoch makes the controller stop, because the metadata seems to have gone back. So
each object carries the CRC32C of its other fields. A file of an older release has none, and is believed.

`version` is the version of an object's form, 1 where there is none, and `release` may name who wrote a later
one (core/titles.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from crc32c import crc32c

from dataplane.core.titles import NewerFormat

CRC_FIELD: Final = "crc32c"
VERSION: Final = 1


class CorruptJson(Exception):
    """The bytes are no JSON object, or not the one that was written."""


def encode_checked(fields: Mapping[str, Any]) -> bytes:
    """Return the object with its CRC32C, a field a line, for people to read."""
    return json.dumps({**fields, CRC_FIELD: _checksum(fields)}, indent=2).encode() + b"\n"


def decode_checked(encoded: bytes, name: str = "a file") -> dict[str, Any]:
    """Return the fields without the CRC. name: of the file, for NewerFormat. Raise CorruptJson,
    NewerFormat."""
    try:
        fields = json.loads(encoded)
    except ValueError as error:
        raise CorruptJson(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CorruptJson("no JSON object")
    written = fields.pop(CRC_FIELD, None)
    if written is not None and written != _checksum(fields):
        raise CorruptJson("its CRC does not match")
    version = fields.get("version", VERSION)
    if version != VERSION:
        if isinstance(version, int) and version < VERSION:
            raise CorruptJson(f"no version {version} was ever written")
        raise NewerFormat(name, version, known=VERSION, release=str(fields.get("release", ""))[:40])
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    return f"{crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"
