"""Reads what a safety receipt is made of: the audited states of partitions over a time.

Partitions are read some hundreds at a time, each batch a short unit of work of its own: a receipt over a
hundred thousand takes seconds, and others read meanwhile. Rows are never changed, so batches fit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.change import Entity, partition_id
from controller.audit.placements import audited_since_ms, followed_by_a_gap
from controller.audit.removal import anchoring_row
from controller.audit.safety import AuditedState, History, MeasuredSafety, Meter
from controller.database.sql import Database
from controller.database.tables import audit, inert, plan_moves, plans
from springtide.contract.partition_state import NO_LEADER

#: Partitions per unit of work: well under SQLite's limit on bound parameters.
PARTITIONS_PER_READ: Final = 300


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """The newest row that a receipt rests on, by its place in the chain of hashes."""

    audit_id: int
    seq: int
    hash: str | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """anchor: None where there is no row. is_covered: the audit reaches back to the beginning of the time.
    removed_before_ms: rows of it were removed, up to then; None: none were."""

    measured: MeasuredSafety
    anchor: Anchor | None
    is_covered: bool
    removed_before_ms: int | None = None


async def read_receipt(
    store: Database,
    *,
    cluster: str,
    operation_id: str,
    named: Mapping[str, str],
    begin_ms: int,
    end_ms: int,
    is_over: bool,
) -> Receipt:
    """Return the receipt of all partitions that an operation changed or names, from begin_ms to end_ms.

    named: topics' names by partition id (`controller.audit.change.partition_id`). is_over: the time has
    ended, so that rows after it can tell of holes in it. Raise DatabaseUnavailable.
    """
    changed = await store.read(_changed_by, cluster=cluster, operation_id=operation_id)
    topics = {**named, **changed}
    meter = Meter(begin_ms=begin_ms, end_ms=end_ms)
    anchor: Anchor | None = None
    ordered = sorted(topics, key=lambda entity_id: (topics[entity_id], *_key_of(entity_id)))
    for start in range(0, len(ordered), PARTITIONS_PER_READ):
        batch = ordered[start : start + PARTITIONS_PER_READ]
        rows, torn = await store.read(
            _read_batch,
            cluster=cluster,
            entity_ids=batch,
            begin_ms=begin_ms,
            end_ms=end_ms,
            is_over=is_over,
        )
        for entity_id in batch:
            found = rows.get(entity_id, ())
            meter.add(_history(entity_id, topics[entity_id], found, is_torn=entity_id in torn))
            for row in found:
                if anchor is None or row.seq > anchor.seq:
                    anchor = Anchor(audit_id=row.id, seq=row.seq, hash=row.hash)
    # Last of all: what a removal has taken meanwhile was not read.
    since_ms, is_cut = await store.read(_reach, cluster=cluster)
    is_covered = since_ms is not None and since_ms <= begin_ms
    return Receipt(
        measured=meter.finish(),
        anchor=anchor,
        is_covered=is_covered,
        removed_before_ms=since_ms if is_cut and not is_covered else None,
    )


def _reach(connection: sa.Connection, *, cluster: str) -> tuple[int | None, bool]:
    """Return the time from which the history is whole, and whether rows were removed before it."""
    return audited_since_ms(connection, cluster), anchoring_row(connection, cluster) is not None


def begun_moves(connection: sa.Connection, operation_id: str) -> dict[str, str]:
    """Topics' names by the ids of the partitions whose moves an operation has begun, in any of its plans."""
    statement = (
        sa.select(plan_moves.c.topic_id, plan_moves.c.partition, plan_moves.c.topic)
        .join(plans, plans.c.id == plan_moves.c.plan_id)
        .where(plans.c.operation_id == inert(operation_id), plan_moves.c.begun_at_ms.is_not(None))
    )
    return {partition_id(row.topic_id, row.partition): row.topic for row in connection.execute(statement)}


def _changed_by(connection: sa.Connection, *, cluster: str, operation_id: str) -> dict[str, str]:
    """Topics' names by the ids of the partitions that the operation changed."""
    statement = (
        sa.select(audit.c.entity_id, sa.func.min(audit.c.topic).label("topic"))
        .where(
            audit.c.operation_id == inert(operation_id),
            audit.c.cluster == cluster,
            audit.c.kind == "change",
            audit.c.entity == Entity.PARTITION.value,
        )
        .group_by(audit.c.entity_id)
    )
    return {row.entity_id: row.topic for row in connection.execute(statement)}


def _read_batch(
    connection: sa.Connection,
    *,
    cluster: str,
    entity_ids: Sequence[str],
    begin_ms: int,
    end_ms: int,
    is_over: bool,
) -> tuple[dict[str, list[Any]], frozenset[str]]:
    """Rows by partition in the order of their versions, from the one that held at begin_ms; and partitions
    whose first row after end_ms says that rows before it are missing (for membership tests only)."""
    of_them = sa.and_(
        audit.c.cluster == cluster,
        audit.c.kind == "change",
        audit.c.entity == Entity.PARTITION.value,
        audit.c.entity_id.in_(entity_ids),
    )
    held = (
        sa.select(audit.c.entity_id, sa.func.max(audit.c.version).label("version"))
        # Strictly before: the operation's first change may be of its first millisecond.
        .where(of_them, audit.c.at_ms < begin_ms)
        .group_by(audit.c.entity_id)
        .subquery()
    )
    statement = (
        sa.select(
            audit.c.id,
            audit.c.seq,
            audit.c.hash,
            audit.c.entity_id,
            audit.c.at_ms,
            audit.c.cause,
            audit.c.gap_before,
            audit.c.after,
            (audit.c.version == held.c.version).label("held"),
        )
        .select_from(audit.outerjoin(held, audit.c.entity_id == held.c.entity_id))
        .where(
            of_them,
            audit.c.at_ms <= end_ms,
            sa.or_(held.c.version.is_(None), audit.c.version >= held.c.version),
        )
        .order_by(audit.c.entity_id, audit.c.version)
    )
    found = connection.execute(statement).all()
    torn = followed_by_a_gap(connection, cluster, entity_ids, at_ms=end_ms) if is_over else frozenset[str]()
    return {key: list(rows) for key, rows in groupby(found, key=lambda row: row.entity_id)}, torn


def _history(entity_id: str, topic: str, rows: Sequence[Any], *, is_torn: bool) -> History:
    topic_id, partition = _key_of(entity_id)
    # Of the row that held at the beginning, what came before it is not asked about.
    is_whole = not is_torn and not any(row.gap_before for row in rows if not row.held)
    seen = tuple(_seen(row) for row in rows)
    return History(topic=topic, topic_id=topic_id, partition=partition, seen=seen, is_whole=is_whole)


def _seen(row: Any) -> AuditedState:
    state = row.after
    if state is None:
        return AuditedState(at_ms=row.at_ms, audit_id=row.id, cause=row.cause, in_sync=None)
    return AuditedState(
        at_ms=row.at_ms,
        audit_id=row.id,
        cause=row.cause,
        in_sync=len(state["isr"]),
        min_insync_replicas=state["min_insync_replicas"],
        has_leader=state["leader"] != NO_LEADER,
    )


def _key_of(entity_id: str) -> tuple[str, int]:
    topic_id, _, number = entity_id.rpartition("/")
    return topic_id, int(number)
