"""Topic ids in their two forms: 16 bytes on the wire, 22 characters of URL-safe base64 everywhere else."""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from uuid import UUID

from springtide.wire.fetch_request import TOPIC_ID_BYTES

CACHED_MAX = 65_536


@lru_cache(maxsize=CACHED_MAX)
def topic_id_text(raw: bytes) -> str:
    """Return Kafka's textual form of the 16 bytes."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


@lru_cache(maxsize=CACHED_MAX)
def topic_id_bytes(text: str) -> bytes:
    """Return the 16 bytes; raise ValueError if the text is not a topic id."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no topic id") from error
    if len(raw) != TOPIC_ID_BYTES:
        raise ValueError(f"{text!r} is no topic id")
    return raw


def topic_id_uuid(text: str) -> UUID:
    return UUID(bytes=topic_id_bytes(text))
