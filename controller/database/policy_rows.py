"""Stores policies: an operator's guardrails over plans, as SQL under a name.

What a policy was before is in the audit: the request that replaced it says so.
"""

from __future__ import annotations

from typing import Final

import msgspec
import sqlalchemy as sa

from controller.database.tables import all_rows, inert, one_row, policies, values_of

#: Of one cluster: each plan is judged by all of them.
POLICIES_MAX: Final = 50


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """revision: never given twice under one name, also when the policy is deleted and made again."""

    cluster: str
    name: str
    sql: str
    description: str | None
    actor: str
    reason: str | None
    created_at_ms: int
    updated_at_ms: int
    revision: int


def list_policies(connection: sa.Connection, cluster: str) -> list[PolicyRow]:
    """Return the cluster's policies, ordered by name; there are at most POLICIES_MAX."""
    statement = sa.select(policies).where(policies.c.cluster == inert(cluster)).order_by(policies.c.name)
    return all_rows(connection, statement, PolicyRow)


def get_policy(connection: sa.Connection, cluster: str, name: str) -> PolicyRow | None:
    statement = sa.select(policies).where(policies.c.cluster == inert(cluster), policies.c.name == name)
    return one_row(connection, statement, PolicyRow)


def put_policy(connection: sa.Connection, row: PolicyRow, *, replaces: PolicyRow | None) -> bool:
    """Write the policy. replaces: the row as it was read, None if there was none. Return False if it is
    another one now (read it again), or if there would be too many."""
    values = values_of(row, "sql", "description", "actor", "reason")
    if replaces is not None:
        statement = policies.update().where(*_same(replaces)).values(**values)
        return connection.execute(statement).rowcount == 1
    there = list_policies(connection, row.cluster)
    if len(there) >= POLICIES_MAX or any(found.name == row.name for found in there):
        return False
    connection.execute(policies.insert().values(**values))
    return True


def delete_policy(connection: sa.Connection, row: PolicyRow) -> bool:
    """Delete the policy. Return False if it is another one now: read it again."""
    return connection.execute(policies.delete().where(*_same(row))).rowcount == 1


def _same(row: PolicyRow) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        policies.c.cluster == row.cluster,
        policies.c.name == row.name,
        policies.c.revision == row.revision,
    )
