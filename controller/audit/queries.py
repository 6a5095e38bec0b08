"""Reads the history, newest first, a page at a time.

A page ends with the id of its last row and the next one begins below it: rows that arrive meanwhile never
shift what a reader has not seen yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from controller.audit.change import Entity
from controller.database.tables import audit, audit_outcomes, inert
from springtide.contract.epochs import ControllerEpoch


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as stored, with its outcome when it is a request whose outcome is known."""

    id: int
    cluster: str
    seq: int
    kind: str
    entity: str
    entity_id: str
    version: int | None
    cause: str
    actor: str
    reason: str | None
    request_id: str | None
    operation_id: str | None
    at_ms: int
    recorded_at_ms: int
    topic: str | None
    partition: int | None
    brokers: tuple[int, ...]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    controller_epoch: ControllerEpoch | None
    backfilled: bool
    gap_before: bool
    chain_position: int | None
    previous_hash: str | None
    hash: str | None
    outcome: str | None
    outcome_code: str | None
    outcome_detail: str | None
    outcome_at_ms: int | None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every set field narrows the answer. since_ms is inclusive, until_ms exclusive; both are about when the
    change was made, not when it was written down. below_id: only rows with a smaller id (the next page)."""

    kind: str | None = None
    cluster: str | None = None
    entity: Entity | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    actor: str | None = None
    cause: str | None = None
    operation_id: str | None = None
    request_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    below_id: int | None = None


_OUTCOME = (
    audit_outcomes.c.outcome,
    audit_outcomes.c.code.label("outcome_code"),
    audit_outcomes.c.detail.label("outcome_detail"),
    audit_outcomes.c.at_ms.label("outcome_at_ms"),
)
#: Rows with their outcomes: what every reading begins with.
ROWS = sa.select(audit, *_OUTCOME).outerjoin(audit_outcomes, audit_outcomes.c.audit_id == audit.c.id)


#: Fields of a filter that are columns, too.
_EQUAL = (
    *("kind", "cluster", "entity", "topic", "partition", "actor", "cause"),
    *("operation_id", "request_id"),
)


def list_rows(connection: sa.Connection, wanted: AuditFilter, *, limit: int) -> list[AuditRow]:
    """Return up to `limit` rows, newest first."""
    # Made as inert as what is stored: text that PostgreSQL refuses matches no row, and is no failure.
    conditions: list[sa.ColumnElement[bool]] = [
        audit.c[name] == (inert(value) if isinstance(value, str) else value)
        for name in _EQUAL
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.broker is not None:
        conditions.append(audit.c.brokers.contains(f",{wanted.broker},", autoescape=True))
    if wanted.since_ms is not None:
        conditions.append(audit.c.at_ms >= wanted.since_ms)
    if wanted.until_ms is not None:
        conditions.append(audit.c.at_ms < wanted.until_ms)
    if wanted.below_id is not None:
        conditions.append(audit.c.id < wanted.below_id)
    statement = ROWS.where(*conditions).order_by(audit.c.id.desc()).limit(limit)
    return [row_of(found) for found in connection.execute(statement).mappings()]


def get_row(connection: sa.Connection, audit_id: int) -> AuditRow | None:
    found = connection.execute(ROWS.where(audit.c.id == audit_id)).mappings().one_or_none()
    return None if found is None else row_of(found)


def row_of(found: sa.RowMapping) -> AuditRow:
    """A row of `ROWS`."""
    fields = dict(found)
    fields["brokers"] = tuple(int(broker) for broker in fields["brokers"].split(",") if broker)
    return AuditRow(**fields)
