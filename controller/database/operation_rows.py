"""Stores operations: what was asked of the cluster as work, and how far it is.

The shape of an operation belongs to its kind; here it is a body with a few columns to look it up by.
`revision` is a compare-and-set token, so that a controller that has just lost its role can't overwrite what
its successor wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from controller.database.rows import OperationRow
from controller.database.tables import all_rows, inert, newest_first, one_row, operations, values_of

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
    """Store the row unless its id is there already, from an earlier attempt of the same request."""
    if get_operation(connection, row.id) is None:
        connection.execute(operations.insert().values(**_values(row)))


def update_operation(connection: sa.Connection, row: OperationRow) -> bool:
    """Store `row` over its previous revision; return False if it has another one now: read it again."""
    statement = (
        operations.update()
        .where(operations.c.id == row.id, operations.c.revision == row.revision - 1)
        .values(**_values(row))
    )
    return connection.execute(statement).rowcount == 1


def update_progress(connection: sa.Connection, row: OperationRow) -> bool:
    """Store the body of `row`, in which only the progress differs, under its revision; return False if it has
    another one: read it again."""
    statement = (
        operations.update()
        .where(operations.c.id == row.id, operations.c.revision == row.revision)
        .values(body=row.body)
    )
    return connection.execute(statement).rowcount == 1


def get_operation(connection: sa.Connection, operation_id: str) -> OperationRow | None:
    statement = sa.select(operations).where(operations.c.id == inert(operation_id))
    return one_row(connection, statement, OperationRow)


def list_operations(connection: sa.Connection, wanted: OperationFilter, *, limit: int) -> list[OperationRow]:
    """Newest first."""
    conditions: list[sa.ColumnElement[bool]] = [
        operations.c[name] == inert(value)
        for name in ("cluster", "state", "kind", "actor")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.since_ms is not None:
        conditions.append(operations.c.created_at_ms >= wanted.since_ms)
    statement = newest_first(
        sa.select(operations).where(*conditions),
        operations.c.created_at_ms,
        operations.c.id,
        below=wanted.below,
    )
    return all_rows(connection, statement.limit(limit), OperationRow)


def unfinished_operations(connection: sa.Connection) -> Sequence[OperationRow]:
    """Everything that still has to be run, oldest first."""
    statement = (
        sa.select(operations)
        .where(operations.c.state.not_in(FINISHED_STATES))
        .order_by(operations.c.created_at_ms, operations.c.id)
    )
    return all_rows(connection, statement, OperationRow)


def _values(row: OperationRow) -> dict[str, Any]:
    return values_of(row, "actor", "reason") | {"body": dict(row.body)}
