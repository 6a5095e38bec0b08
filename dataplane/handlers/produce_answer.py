"""The usual Produce answer in one pack: one partition, no error.

Nearly every answer of a busy broker is this one, and the general encoder spends more on it than the append
costs. A template per (version, topic) holds all that does not change; what changes is one struct. Tests hold
it against wire.produce for every version.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from springtide.wire.apis import ApiKey, response_header_version
from springtide.wire.produce import (
    LOG_APPEND_TIME_SINCE,
    LOG_START_OFFSET_SINCE,
    ProduceOutcome,
    encode_produce_response,
)

TEMPLATES_MAX = 4096
_MARK = 0x5A5B5C5D
_MARK_LONG = 0x5A5B5C5D5E5F6061


class _Template(NamedTuple):
    """size, correlation id, head; then the outcome; then tail."""

    layout: struct.Struct
    size: int
    head: bytes
    tail: bytes


@lru_cache(maxsize=TEMPLATES_MAX)
def _template(api_version: int, topic: str) -> _Template:
    """Cut out of an answer of the general encoder, around the numbers that change."""
    body = encode_produce_response(
        api_version, [ProduceOutcome(topic, _MARK, 0, _MARK_LONG, _MARK_LONG, _MARK_LONG)]
    )
    longs = 1 + (api_version >= LOG_APPEND_TIME_SINCE) + (api_version >= LOG_START_OFFSET_SINCE)
    numbers = struct.pack(f">ih{longs}q", _MARK, 0, *[_MARK_LONG] * longs)
    head, found, tail = body.rpartition(numbers)
    assert found, "the encoder writes an outcome's numbers side by side"
    if response_header_version(ApiKey.PRODUCE, api_version):
        head = b"\x00" + head
    layout = struct.Struct(f">ii{len(head)}sih{longs}q{len(tail)}s")
    return _Template(layout, layout.size - 4, head, tail)


def encode_success(
    api_version: int,
    *,
    correlation_id: int,
    topic: str,
    partition: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """A whole response frame. For versions that are served (3 and later)."""
    layout, size, head, tail = _template(api_version, topic)
    if api_version >= LOG_START_OFFSET_SINCE:
        return layout.pack(
            size, correlation_id, head, partition, 0, base_offset, log_append_time_ms, log_start_offset, tail
        )
    return layout.pack(size, correlation_id, head, partition, 0, base_offset, log_append_time_ms, tail)
