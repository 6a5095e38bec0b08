"""Which topics are being made because a client has used them: `auto.create.topics.enable`.

Applications ask again and again for a topic that is not there, from many connections. So each name is asked
of the controller once at a time, few names are at all, and one that was refused is left alone for a while.
"""

from __future__ import annotations

import logging
from typing import Final, TypeVar

from springtide.node.refusals import TOLD_EVERY_MS

BEGUN_MAX: Final = 32
"""Creations at a time: half of what a process asks of the controller for clients (Administration)."""
REFUSED_MAX: Final = 1_000
"""Refused names that are remembered; the one that was refused first is forgotten."""
LEFT_ALONE_MS: Final = 10_000
"""The time for which a refused name is not asked for again."""

Key = TypeVar("Key")

_log = logging.getLogger(__name__)


class FirstUses:
    """The names that this process has asked the controller to make. Times are monotonic."""

    __slots__ = ("_begun", "_refused", "_told")

    def __init__(self) -> None:
        self._begun: set[str] = set()
        #: By name: until when it is left alone.
        self._refused: dict[str, int] = {}
        #: By name and error: when it was last told.
        self._told: dict[tuple[str, str], int] = {}

    def begin(self, name: str, *, now_ms: int) -> bool:
        """Return whether the topic is to be made now; then `end` must follow."""
        if name in self._begun or len(self._begun) >= BEGUN_MAX or now_ms < self._refused.get(name, now_ms):
            return False
        self._begun.add(name)
        return True

    def is_making(self, name: str) -> bool:
        return name in self._begun

    def end(self, name: str) -> None:
        """Note that the topic is there."""
        self._begun.discard(name)
        self._refused.pop(name, None)

    def refuse(self, name: str, error: str, reason: str, *, client_id: str, now_ms: int) -> None:
        """Note, and tell once an hour, that the topic was not made."""
        self._begun.discard(name)
        self._refused.pop(name, None)
        _keep(self._refused, name, now_ms + LEFT_ALONE_MS)
        told_ms = self._told.get((name, error))
        if told_ms is None or now_ms - told_ms >= TOLD_EVERY_MS:
            self._told.pop((name, error), None)
            _keep(self._told, (name, error), now_ms)
            _log.warning(
                "first_use_refused topic=%s error=%s client_id=%s reason=%s", name, error, client_id, reason
            )


def _keep(table: dict[Key, int], key: Key, value: int) -> None:
    table[key] = value
    if len(table) > REFUSED_MAX:
        del table[next(iter(table))]
