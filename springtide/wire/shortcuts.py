"""Shorter ways through the requests that nearly all are, for a process that has them (`springtide/native`).

A shortcut takes bytes and returns the fields that the function which calls it would find, or None where that
function has to look itself: at a rare shape, and at all that is wrong. So an error is always the function's
own, and without shortcuts everything is done as it always was. They are called by these names, and here is
the one place where others are chosen.

What each may answer, and tests compare (tests/unit/springtide/wire/test_shortcuts.py):

- request_header(frame): RequestHeader's fields, of a Produce or Fetch in a version that is served, with a
  client id and no tags;
- produce_request(api_version, frame, position): ProduceRequest's fields, of one batch, without a
  transactional id and tags;
- plain_batch(batch, bytes_max, needs_keys, timestamp_ms_min, timestamp_ms_max): BatchHeader's fields, of a
  batch that a leader takes as it came if its CRC is right, which is not looked at: without any attribute, its
  records sound, their times within the bounds, and the latest of them as the header says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .compression import Buffer

HeaderFields = tuple[int, int, int, str, int]
ProduceFields = tuple[None, int, int, list[tuple[str | bytes, int, memoryview]]]
BatchFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class Shortcuts(NamedTuple):
    """One for each function. See the module."""

    request_header: Callable[[Buffer], HeaderFields | None]
    produce_request: Callable[[int, Buffer, int], ProduceFields | None]
    plain_batch: Callable[[memoryview, int, bool, int | None, int | None], BatchFields | None]


NO_SHORTCUTS = Shortcuts(lambda _: None, lambda *_: None, lambda *_: None)
request_header, produce_request, plain_batch = NO_SHORTCUTS
