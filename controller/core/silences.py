"""Silences: alarms of which webhooks are told nothing until a time, and why.

A silence names a code, a subject, or both; an alarm is silenced when all that the silence names is the
alarm's. It changes no state: the alarm is listed, and the cluster's health is what it was (Prometheus'
Alertmanager has the same rule).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

#: A silence ends by itself, at the latest after so long.
SILENCE_MS_MAX: Final = 30 * 24 * 3_600_000
#: Of one cluster, at a time.
SILENCES_MAX: Final = 200


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm's code, and what it is about. is_more: it stands for the further alarms of its code."""

    code: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    group_id: str | None = None
    is_more: bool = False
    #: Since 0.3; they are not said where there is none, or 0.2 would find stored alarms changed.
    transactional_id: str | msgspec.UnsetType = msgspec.UNSET
    producer_id: int | msgspec.UnsetType = msgspec.UNSET


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A stored silence. None: any. reason, actor: shown wherever the silenced alarm is."""

    id: str
    cluster: str
    code: str | None
    topic: str | None
    partition: int | None
    broker_id: int | None
    group_id: str | None
    transactional_id: str | None
    producer_id: int | None
    reason: str
    actor: str
    created_at_ms: int
    until_ms: int


def silence_of(silences: Iterable[Silence], subject: Subject, wall_ms: int) -> Silence | None:
    """Return the silence of an alarm that lasts longest; None if it has none. Of `is_more`, whose subjects
    differ, only a silence of the whole code counts."""
    found = [one for one in silences if wall_ms < one.until_ms and _matches(one, subject)]
    return max(found, key=lambda one: (one.until_ms, one.id), default=None)


def _matches(silence: Silence, subject: Subject) -> bool:
    names = ("code", "topic", "partition", "broker_id", "group_id", "transactional_id", "producer_id")
    return all(getattr(silence, name) in (None, getattr(subject, name)) for name in names)
