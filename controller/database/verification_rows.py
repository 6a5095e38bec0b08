"""Stores what verifications of replicas have found: a row for each, and one for each finding.

They come from `pipeline verify`; nothing here is ever read to decide about data. The newest of each cluster
are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.database.tables import (
    all_rows,
    inert,
    newest_first,
    one_row,
    values_of,
    verification_findings,
    verifications,
)

#: Of one cluster: two a day for half a year.
VERIFICATIONS_MAX: Final = 400
#: Older ones that go when one comes: more than one, so that a lowered bound is reached some day.
_REMOVED_AT_ONCE: Final = 10


class VerificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. findings: all that it had, of which `findings_kept` are stored. partitions: where each was
    verified from and to, of those that were told one by one."""

    id: str
    cluster: str
    actor: str
    reason: str | None
    request_id: str | None
    recorded_at_ms: int
    began_at_ms: int
    ended_at_ms: int
    topics: int
    partitions_total: int
    batches: int
    records: int
    bytes: int
    compared_bytes: int
    findings: int
    findings_kept: int
    partitions: list[dict[str, Any]]


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """broker_id: None: all replicas have it alike. last_offset is inclusive."""

    position: int
    kind: str
    topic: str
    partition: int
    broker_id: int | None
    first_offset: int
    last_offset: int
    batches: int
    detail: str


def insert_verification(
    connection: sa.Connection, row: VerificationRow, findings: Sequence[FindingRow]
) -> VerificationRow:
    """Store it, and let the oldest go. An earlier attempt's row of this id stays, and is returned."""
    there = get_verification(connection, row.cluster, row.id)
    if there is not None:
        return there
    connection.execute(verifications.insert().values(**values_of(row, "actor", "reason")))
    if findings:
        connection.execute(
            verification_findings.insert(),
            [values_of(found, "detail") | {"verification_id": row.id} for found in findings],
        )
    _forget_oldest(connection, row.cluster)
    return row


def get_verification(connection: sa.Connection, cluster: str, verification_id: str) -> VerificationRow | None:
    statement = sa.select(verifications).where(
        verifications.c.cluster == inert(cluster), verifications.c.id == inert(verification_id)
    )
    return one_row(connection, statement, VerificationRow)


def list_verifications(
    connection: sa.Connection, cluster: str, *, below: tuple[int, str] | None, limit: int
) -> list[VerificationRow]:
    """Newest first, without their partitions. below: (recorded_at_ms, id) of the last one seen."""
    columns = [column for column in verifications.c if column.name != "partitions"]
    statement = newest_first(
        sa.select(*columns).where(verifications.c.cluster == inert(cluster)),
        verifications.c.recorded_at_ms,
        verifications.c.id,
        below=below,
    ).limit(limit)
    return [VerificationRow(**found, partitions=[]) for found in connection.execute(statement).mappings()]


def list_findings(
    connection: sa.Connection, verification_id: str, *, after: int, limit: int
) -> list[FindingRow]:
    """Return findings in the order in which they were reported. after: position of the last one seen, -1 for
    none."""
    columns = [column for column in verification_findings.c if column.name != "verification_id"]
    statement = (
        sa.select(*columns)
        .where(
            verification_findings.c.verification_id == inert(verification_id),
            verification_findings.c.position > after,
        )
        .order_by(verification_findings.c.position)
        .limit(limit)
    )
    return all_rows(connection, statement, FindingRow)


def _forget_oldest(connection: sa.Connection, cluster: str) -> None:
    statement = newest_first(
        sa.select(verifications.c.id).where(verifications.c.cluster == inert(cluster)),
        verifications.c.recorded_at_ms,
        verifications.c.id,
        below=None,
    )
    statement = statement.offset(VERIFICATIONS_MAX).limit(_REMOVED_AT_ONCE)
    old = list(connection.execute(statement).scalars())
    if old:
        connection.execute(
            verification_findings.delete().where(verification_findings.c.verification_id.in_(old))
        )
        connection.execute(verifications.delete().where(verifications.c.id.in_(old)))
