"""Tells operators of topics that clients ask for and that are not there.

An application that waits for such a topic says so in its own log only, or nowhere. To look whether a topic is
there is no fault, so a name is told when it was asked for a few times in an hour: one line an hour, and to
the controller as long as it is asked for. Strangers choose the names, so there is a bound.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from springtide.contract.missing_topics import MISSING_TOLD_MAX, OTHERS, MissingTopic
from springtide.node.refusals import client_id_of

if TYPE_CHECKING:
    from springtide.node.connection import Connection

NAMES_MAX: Final = 100
TOLD_AT: Final = 3
HOUR_MS: Final = 3_600_000

_log = logging.getLogger(__name__)


class _Hour:
    """How often a name was asked for in the hour that began with an asking, and in the one before, which
    began at before_ms; when last, and by whom."""

    __slots__ = ("before", "before_ms", "client_id", "count", "last_ms", "since_ms", "software")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = self.before_ms = self.last_ms = since_ms
        self.count = self.before = 0
        self.client_id = self.software = ""

    @property
    def asked(self) -> int:
        return self.before + self.count


class MissingTopics:
    """The topics that the clients of one process have missed. Times are monotonic."""

    __slots__ = ("_hours",)

    def __init__(self) -> None:
        self._hours: dict[str, _Hour] = {}

    def note(self, name: str, connection: Connection, *, now_ms: int) -> None:
        """Count that the client asked for the topic, and tell it if it is time."""
        hour = self._hour(name, now_ms)
        if now_ms - hour.since_ms >= HOUR_MS:
            hour.before, hour.before_ms = hour.count, hour.since_ms
            hour.count, hour.since_ms = 0, now_ms
        hour.count += 1
        hour.last_ms = now_ms
        hour.client_id, hour.software = client_id_of(connection), connection.software
        if hour.count == TOLD_AT:
            _log.warning(
                "topic_missing topic=%s asked=%d hour_before=%d "
                "software=%s client_id=%s principal=%s peer=%s",
                name if name in self._hours else OTHERS,
                hour.count,
                hour.before,
                connection.software,
                client_id_of(connection),
                connection.principal,
                connection.peer,
            )

    def told(self, *, now_ms: int, wall_ms: int) -> tuple[MissingTopic, ...]:
        """Return what the controller is told: names that were asked for a few times, and in the last hour."""
        if not self._hours:
            return ()
        ahead_ms = wall_ms - now_ms
        young = [
            (name, hour)
            for name, hour in self._hours.items()
            if hour.asked >= TOLD_AT and now_ms - hour.last_ms < HOUR_MS
        ]
        young.sort(key=lambda each: -each[1].asked)
        return tuple(
            MissingTopic(
                topic=name,
                asked=hour.asked,
                since_ms=hour.before_ms + ahead_ms,
                last_ms=hour.last_ms + ahead_ms,
                client_id=hour.client_id,
                software=hour.software,
            )
            for name, hour in young[:MISSING_TOLD_MAX]
        )

    def _hour(self, name: str, now_ms: int) -> _Hour:
        if name not in self._hours and len(self._hours) >= NAMES_MAX:
            # OTHERS has its place even when all names are young.
            self._hours = {
                known: hour
                for known, hour in self._hours.items()
                if known == OTHERS or now_ms - hour.since_ms < HOUR_MS
            }
            if len(self._hours) >= NAMES_MAX:
                name = OTHERS
        return self._hours.setdefault(name, _Hour(now_ms))
