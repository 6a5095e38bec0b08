"""Which rows stay below an anchor: the newest of each entity that existed at it, and how they are found.

Conditions, and pages by place in the chain: each unit of work looks at a bounded part of it.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from controller.audit.removal import KeptDigest
from controller.database.sql import Database
from controller.database.tables import audit

#: Entries per unit of work: well under a second, so that others write in between.
ENTRIES_PER_PAGE: Final = 2_000

_other = audit.alias("other")


def _of_same_entity() -> sa.ColumnElement[bool]:
    return sa.and_(
        _other.c.cluster == audit.c.cluster,
        _other.c.entity == audit.c.entity,
        _other.c.entity_id == audit.c.entity_id,
    )


def is_superseded(until: int) -> sa.ColumnElement[bool]:
    """A newer row of the entity lies below the anchor, too."""
    newer = sa.select(_other.c.id).where(
        _of_same_entity(), _other.c.version > audit.c.version, _other.c.chain_position <= until
    )
    return newer.correlate(audit).exists()


def is_end(until: int, head_position: int) -> sa.ColumnElement[bool]:
    """Return whether the row says that the entity is gone, and no older row, written late, would say
    otherwise without it."""
    late = sa.select(_other.c.id).where(
        _of_same_entity(),
        _other.c.version < audit.c.version,
        _other.c.chain_position > until,
        _other.c.chain_position <= head_position,
    )
    return sa.and_(audit.c.after.is_(None), ~late.correlate(audit).exists())


async def digest_kept(store: Database, cluster: str, *, until: int, head_position: int) -> KeptDigest:
    """Over the rows that stay below an anchor at `until`. Raise DatabaseUnavailable."""
    kept = KeptDigest()
    position = 0
    while position < until:
        end = await store.read(page_end, table=audit, cluster=cluster, after=position, until=until)
        for chain_position, row_hash in await store.read(
            _read_kept,
            cluster=cluster,
            after=position,
            end=end,
            until=until,
            head_position=head_position,
        ):
            kept.add(chain_position, row_hash)
        position = end
    return kept


def placed(table: sa.Table, cluster: str, after: int, until: int) -> tuple[sa.ColumnElement[bool], ...]:
    """The cluster's entries behind `after`, up to `until`."""
    return (table.c.cluster == cluster, table.c.chain_position > after, table.c.chain_position <= until)


def page_end(connection: sa.Connection, *, table: sa.Table, cluster: str, after: int, until: int) -> int:
    """The place of the last of the next ENTRIES_PER_PAGE entries that are there; until: there are fewer."""
    statement = (
        sa.select(table.c.chain_position)
        .where(*placed(table, cluster, after, until))
        .order_by(table.c.chain_position)
        .offset(ENTRIES_PER_PAGE - 1)
        .limit(1)
    )
    found: int | None = connection.execute(statement).scalar_one_or_none()
    return until if found is None else found


def _read_kept(
    connection: sa.Connection, *, cluster: str, after: int, end: int, until: int, head_position: int
) -> list[tuple[int, str]]:
    statement = (
        sa.select(audit.c.chain_position, audit.c.hash)
        .where(
            *placed(audit, cluster, after, end),
            audit.c.kind == "change",
            ~is_superseded(until),
            ~is_end(until, head_position),
        )
        .order_by(audit.c.chain_position)
    )
    return [(row.chain_position, row.hash) for row in connection.execute(statement)]
