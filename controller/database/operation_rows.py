"""Stores operations: what was asked of the cluster as work, and how far it is.

The shape of an operation belongs to whoever runs it; here it is a body with a few columns to look it up by.
`revision` is a compare-and-set token, so that a controller that has just lost its role can't overwrite what
its successor wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from controller.database.rows import OperationRow
from controller.database.tables import inert, operations

FINISHED_STATES = ("succeeded", "failed", "cancelled")


class OperationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every set field narrows the answer. below: (created_at_ms, id) of the
    last row seen: only what comes after it, that is, what is older (the next page)."""

    cluster: str | None = None
    state: str | None = None
    kind: str | None = None
    actor: str | None = None
    since_ms: int | None = None
    below: tuple[int, str] | None = None


def insert_operation(connection: sa.Connection, row: OperationRow) -> None:
    """Does nothing when the id is there already: a repeated attempt of the same request."""
    if get_operation(connection, row.id) is None:
        connection.execute(operations.insert().values(**_values(row)))


def update_operation(connection: sa.Connection, row: OperationRow) -> bool:
    """Stores `row` over its previous revision; False: somebody else has moved it on, read it again."""
    statement = (
        operations.update()
        .where(operations.c.id == row.id, operations.c.revision == row.revision - 1)
        .values(**_values(row))
    )
    return connection.execute(statement).rowcount == 1


def get_operation(connection: sa.Connection, operation_id: str) -> OperationRow | None:
    found = (
        connection.execute(sa.select(operations).where(operations.c.id == inert(operation_id)))
        .mappings()
        .one_or_none()
    )
    return None if found is None else OperationRow(**found)


def list_operations(connection: sa.Connection, wanted: OperationFilter, *, limit: int) -> list[OperationRow]:
    """Newest first."""
    equal: tuple[tuple[sa.Column[Any], Any], ...] = (
        (operations.c.cluster, wanted.cluster),
        (operations.c.state, wanted.state),
        (operations.c.kind, wanted.kind),
        (operations.c.actor, wanted.actor),
    )
    conditions: list[sa.ColumnElement[bool]] = [
        column == inert(value) for column, value in equal if value is not None
    ]
    if wanted.since_ms is not None:
        conditions.append(operations.c.created_at_ms >= wanted.since_ms)
    position = sa.tuple_(operations.c.created_at_ms, operations.c.id)
    if wanted.below is not None:
        conditions.append(position < (wanted.below[0], inert(wanted.below[1])))
    statement = (
        sa.select(operations)
        .where(*conditions)
        .order_by(operations.c.created_at_ms.desc(), operations.c.id.desc())
        .limit(limit)
    )
    return [OperationRow(**found) for found in connection.execute(statement).mappings()]


def unfinished_operations(connection: sa.Connection) -> Sequence[OperationRow]:
    """Everything that still has to be run, oldest first."""
    statement = (
        sa.select(operations)
        .where(operations.c.state.not_in(FINISHED_STATES))
        .order_by(operations.c.created_at_ms, operations.c.id)
    )
    return [OperationRow(**found) for found in connection.execute(statement).mappings()]


def _values(row: OperationRow) -> dict[str, Any]:
    values = msgspec.structs.asdict(row)
    values["actor"] = inert(row.actor)
    values["reason"] = inert(row.reason)
    values["body"] = dict(row.body)
    return values
