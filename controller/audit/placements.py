"""The place of every replica at a moment: each partition's newest row that is not younger than the moment.

Rows are whole snapshots, so nothing is replayed, and a page costs what a page holds. A moment is compared
with when a change was made, on the clock of the controller that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from controller.audit.change import Entity
from controller.audit.removal import RemovalUnreadable, find_removal
from controller.database.tables import audit, inert

#: Keys per statement: well under SQLite's limit on bound parameters.
_KEYS_PER_QUERY = 300


class Position(msgspec.Struct, frozen=True):
    """The place where a page ends. Topics that had one name, one after the other, differ in the id."""

    topic: str
    partition: int
    entity_id: str


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as row `audit_id` shows it.

    snapshot: the partition's state. changed_at_ms: when it became so.
    is_certain: False when rows between this one and the partition's next are missing, so that it may have
        changed again before the moment asked for.
    """

    topic: str
    topic_id: str
    partition: int
    audit_id: int
    changed_at_ms: int
    snapshot: dict[str, Any]
    is_certain: bool


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """next: where the next page begins; None after the last page."""

    items: tuple[Placement, ...]
    next: Position | None


def audited_since_ms(connection: sa.Connection, cluster: str) -> int | None:
    """Return the time from which the cluster's history is whole: that of the newest removal's anchor, or else
    of its first row; where that was back-filled from ZooKeeper, the time at which it was written, because
    earlier changes were never seen. None if there is no row, or if the record of what was removed can't be
    read."""
    try:
        recorded = find_removal(connection, cluster)
    except RemovalUnreadable:
        return None
    if recorded is not None:
        return recorded.removal.whole_since_ms
    statement = (
        sa.select(audit.c.at_ms, audit.c.recorded_at_ms, audit.c.backfilled)
        .where(audit.c.cluster == cluster)
        .order_by(audit.c.seq)
        .limit(1)
    )
    first = connection.execute(statement).one_or_none()
    if first is None:
        return None
    return int(first.recorded_at_ms if first.backfilled else first.at_ms)


def placements_at(
    connection: sa.Connection,
    *,
    cluster: str,
    at_ms: int,
    topic: str | None = None,
    after: Position | None = None,
    limit: int,
) -> Page:
    """Partitions of the topics that existed at `at_ms` and were not being deleted, by topic and number.

    Pages are cut by what was ever there, so one may hold fewer than `limit` and still have a next."""
    found: list[Placement] = []
    while True:
        newest = _newest(connection, cluster, at_ms=at_ms, topic=topic, after=after, limit=limit)
        found += _alive(connection, cluster, newest, at_ms=at_ms)
        if len(newest) < limit:
            return Page(items=tuple(found), next=None)
        after = Position(newest[-1].topic, newest[-1].partition, newest[-1].entity_id)
        if found:
            return Page(items=tuple(found), next=after)


def _newest(
    connection: sa.Connection,
    cluster: str,
    *,
    at_ms: int,
    topic: str | None,
    after: Position | None,
    limit: int,
) -> Sequence[Any]:
    """Topic, number, entity id and version of each partition's newest row at `at_ms`, removals included."""
    place = (audit.c.topic, audit.c.partition, audit.c.entity_id)
    statement = (
        sa.select(*place, sa.func.max(audit.c.version).label("version"))
        .where(
            audit.c.cluster == cluster,
            audit.c.kind == "change",
            audit.c.entity == Entity.PARTITION.value,
            audit.c.at_ms <= at_ms,
        )
        .group_by(*place)
        .order_by(*place)
        .limit(limit)
    )
    if topic is not None:
        statement = statement.where(audit.c.topic == topic)
    if after is not None:
        statement = statement.where(
            sa.tuple_(*place) > sa.tuple_(inert(after.topic), after.partition, inert(after.entity_id))
        )
    return connection.execute(statement).all()


def _alive(connection: sa.Connection, cluster: str, newest: Sequence[Any], *, at_ms: int) -> list[Placement]:
    topic_ids = sorted({_topic_id(row.entity_id) for row in newest})
    living = _living_topics(connection, cluster, topic_ids, at_ms=at_ms)
    wanted = [(row.entity_id, int(row.version)) for row in newest if _topic_id(row.entity_id) in living]
    doubtful = followed_by_a_gap(connection, cluster, [entity_id for entity_id, _ in wanted], at_ms=at_ms)
    rows: dict[str, Any] = {}
    for start in range(0, len(wanted), _KEYS_PER_QUERY):
        statement = sa.select(audit.c.id, audit.c.at_ms, audit.c.entity_id, audit.c.after).where(
            audit.c.cluster == cluster,
            audit.c.entity == Entity.PARTITION.value,
            sa.tuple_(audit.c.entity_id, audit.c.version).in_(wanted[start : start + _KEYS_PER_QUERY]),
        )
        rows |= {row.entity_id: row for row in connection.execute(statement)}
    alive = []
    for place in newest:
        row = rows.get(place.entity_id)
        if row is None or row.after is None:
            continue
        alive.append(
            Placement(
                topic=place.topic,
                topic_id=_topic_id(place.entity_id),
                partition=place.partition,
                audit_id=row.id,
                changed_at_ms=row.at_ms,
                snapshot=row.after,
                is_certain=place.entity_id not in doubtful,
            )
        )
    return alive


def _topic_id(entity_id: str) -> str:
    return entity_id.rpartition("/")[0]


def _living_topics(
    connection: sa.Connection, cluster: str, topic_ids: Sequence[str], *, at_ms: int
) -> frozenset[str]:
    """Return the ids of those announced by `at_ms` and not being deleted. For membership tests only."""
    newest, is_wanted = sa.func.max(audit.c.version), audit.c.at_ms <= at_ms
    rows = _rows_at(connection, cluster, Entity.TOPIC, topic_ids, version=newest, is_wanted=is_wanted)
    return frozenset(row.entity_id for row in rows if row.after and not row.after.get("deleting", False))


def followed_by_a_gap(
    connection: sa.Connection, cluster: str, entity_ids: Sequence[str], *, at_ms: int
) -> frozenset[str]:
    """Return the partitions whose first row after `at_ms` says that rows before it are missing. For
    membership tests only."""
    following, is_wanted = sa.func.min(audit.c.version), audit.c.at_ms > at_ms
    rows = _rows_at(connection, cluster, Entity.PARTITION, entity_ids, version=following, is_wanted=is_wanted)
    return frozenset(row.entity_id for row in rows if row.gap_before)


def _rows_at(
    connection: sa.Connection,
    cluster: str,
    entity: Entity,
    entity_ids: Sequence[str],
    *,
    version: sa.ColumnElement[int],
    is_wanted: sa.ColumnElement[bool],
) -> Iterator[Any]:
    """Yield one row for each of these entities: `version` chooses it among its rows that are wanted."""
    of_entity = audit.c.cluster == cluster, audit.c.entity == entity.value
    for start in range(0, len(entity_ids), _KEYS_PER_QUERY):
        chosen = (
            sa.select(audit.c.entity_id, version.label("version"))
            .where(
                *of_entity,
                audit.c.kind == "change",
                audit.c.entity_id.in_(entity_ids[start : start + _KEYS_PER_QUERY]),
                is_wanted,
            )
            .group_by(audit.c.entity_id)
            .subquery()
        )
        is_chosen = sa.and_(audit.c.entity_id == chosen.c.entity_id, audit.c.version == chosen.c.version)
        statement = sa.select(audit.c.entity_id, audit.c.after, audit.c.gap_before)
        yield from connection.execute(statement.join(chosen, is_chosen).where(*of_entity))
