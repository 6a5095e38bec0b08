"""Types of what jobs store as JSON on paths that other programs write to: bounds are checked as msgspec
decodes. Pure."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TOPIC_PATTERN = r"^(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z"
"""Names that brokers allow for topics: none of them leaves its folder."""

Int32 = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Epoch = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)]
TopicName = Annotated[str, msgspec.Meta(pattern=TOPIC_PATTERN)]


class _Header(msgspec.Struct):
    version: int


def check_version(encoded: bytes, known: int) -> None:
    """Raise ValueError unless the document is of this version."""
    version = msgspec.json.decode(encoded, type=_Header).version
    if version != known:
        raise ValueError(f"version {version}, this release knows {known}")


def encode_fields(document: Any, **first: object) -> bytes:
    """Return compact JSON of the fields, after those of `first`; equal documents have equal bytes."""
    fields = msgspec.to_builtins(document, order="deterministic")
    return json.dumps({**first, **fields}, separators=(",", ":")).encode()
