"""Changes of settings, as the history has them: which values a change set, and which change was the last.

A change of a topic's, a broker's, a cluster's or a group's settings is one row, whose `before` and `after`
have all of the settings that are set; a group without any has no `after`. Rows that created the entity, or
were filled in after an outage, have no `before`, and are none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.change import Entity
from controller.audit.queries import ROWS, AuditRow, row_of
from controller.database.tables import audit, inert

#: The causes of rows that change settings, by whose these are.
CAUSES: Final[Mapping[Entity, str]] = {
    Entity.TOPIC: "topic_configured",
    Entity.BROKER: "broker_configured",
    Entity.CLUSTER: "cluster_configured",
    Entity.GROUP: "group_configured",
}
#: How many later changes of an entity are looked through for the one that set a value.
LATER_ROWS_MAX: Final = 1_000


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """before, after: None: it was not set, and what applied was a default."""

    name: str
    before: str | None
    after: str | None


class SettingChangeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every set field narrows the answer. group: its name (core/names.py). below_id: only rows with a smaller
    id (the next page)."""

    cluster: str
    entity: Entity | None = None
    topic: str | None = None
    broker: int | None = None
    group: str | None = None
    below_id: int | None = None


def setting_changes(row: AuditRow) -> tuple[SettingChange, ...]:
    """Return the settings that the row changed, by name; none of a row that is no change of settings."""
    if row.kind != "change" or row.before is None or row.cause not in CAUSES.values():
        return ()
    before, after = _configs(row.before), _configs(row.after)
    return tuple(
        SettingChange(name=name, before=before.get(name), after=after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _configs(snapshot: Mapping[str, Any] | None) -> Mapping[str, str]:
    found: Mapping[str, str] = (snapshot or {}).get("configs") or {}
    return found


def list_setting_changes(
    connection: sa.Connection, wanted: SettingChangeFilter, *, limit: int
) -> list[AuditRow]:
    """Return up to `limit` rows that changed settings, newest first."""
    entities = list(CAUSES) if wanted.entity is None else [wanted.entity]
    conditions: list[sa.ColumnElement[bool]] = [
        audit.c.kind == "change",
        audit.c.cluster == inert(wanted.cluster),
        audit.c.entity.in_([entity.value for entity in entities]),
        audit.c.cause.in_([CAUSES[entity] for entity in entities if entity in CAUSES]),
        audit.c.before.is_not(None),
    ]
    if wanted.topic is not None:
        conditions.append(audit.c.topic == inert(wanted.topic))
    if wanted.broker is not None:
        conditions += [audit.c.entity == Entity.BROKER.value, audit.c.entity_id == str(wanted.broker)]
    if wanted.group is not None:
        conditions += [audit.c.entity == Entity.GROUP.value, audit.c.entity_id == wanted.group]
    if wanted.below_id is not None:
        conditions.append(audit.c.id < wanted.below_id)
    statement = ROWS.where(*conditions).order_by(audit.c.id.desc()).limit(limit)
    return [row_of(found) for found in connection.execute(statement).mappings()]


def last_set(connection: sa.Connection, row: AuditRow, names: Collection[str]) -> dict[str, AuditRow]:
    """Return, by name, the newest change of each setting since the row, of the same entity. Settings that
    the history does not tell of are left out."""
    later = (
        ROWS.where(
            audit.c.cluster == row.cluster,
            audit.c.entity == row.entity,
            audit.c.entity_id == row.entity_id,
            audit.c.cause == row.cause,
            audit.c.id > row.id,
        )
        .order_by(audit.c.id.desc())
        .limit(LATER_ROWS_MAX)
    )
    found: dict[str, AuditRow] = {}
    for other in map(row_of, connection.execute(later).mappings()):
        for change in setting_changes(other):
            if change.name in names:
                found.setdefault(change.name, other)
    return found
