"""The removals of old rows from a cluster's history, and the place where its chain of hashes begins since.

Entries go only from the beginning of the chain: all up to a position, the anchor, from which on a walk
verifies as it did from the first entry. What stays below the anchor is the state at it: the newest row of
each entity that existed. So the audit can still show the cluster as it was at any time since, the next change
of an entity still follows a row that is known, and a back-fill finds nothing missing.

The newest removal stands in `audit` as a request of the controller's, whose `after` is a `Removal`. Being in
the chain it vouches for the anchor, and for the rows below it by a digest.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.database.tables import audit, audit_anchors, inert

#: Cause of a removal's row.
REMOVE_ROWS: Final = "remove_audit_rows"


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """last_seq: of the rows up to the anchor. chain_position, hash: of the anchor, the last entry that went.
    whole_since_ms: from then on the history is whole; no row up to the anchor is of that time or later.
    removed_rows, removed_outcomes: by this removal; with _total: since the history began.
    kept_rows, kept_hash: rows that stay below the anchor, and the `KeptDigest` over them.
    head_position: where the chain ended when it was decided which.
    """

    retention_days: int
    last_seq: int
    chain_position: int
    hash: str
    whole_since_ms: int
    removed_rows: int
    removed_outcomes: int
    removed_rows_total: int
    removed_outcomes_total: int
    kept_rows: int
    kept_hash: str
    head_position: int


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A removal as its row tells it. row: its columns by name. is_swept: all that it says is gone is gone."""

    removal: Removal
    audit_id: int
    actor: str
    at_ms: int
    row: dict[str, Any]
    is_swept: bool


class RemovalUnreadable(Exception):
    """The row that ought to tell of the newest removal is gone, or tells something else. audit_id: its id."""

    def __init__(self, audit_id: int) -> None:
        super().__init__(f"row {audit_id} tells of no removal")
        self.audit_id = audit_id


class KeptDigest:
    """SHA-256 over the rows below an anchor, in the chain's order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.rows = 0

    def add(self, chain_position: int, row_hash: str) -> None:
        self.rows += 1
        self._digest.update(f"{chain_position} {row_hash}\n".encode("ascii", "replace"))

    def finish(self) -> str:
        return self._digest.hexdigest()


def anchoring_row(connection: sa.Connection, cluster: str) -> int | None:
    """Return the id of the row that records the newest removal, or None if nothing was removed."""
    statement = sa.select(audit_anchors.c.audit_id).where(audit_anchors.c.cluster == inert(cluster))
    found: int | None = connection.execute(statement).scalar_one_or_none()
    return found


def find_removal(connection: sa.Connection, cluster: str) -> Recorded | None:
    """Return the newest removal; None if the history is complete. Raise RemovalUnreadable."""
    statement = (
        sa.select(audit, audit_anchors.c.audit_id, audit_anchors.c.is_swept)
        .select_from(
            audit_anchors.outerjoin(
                audit,
                sa.and_(audit.c.id == audit_anchors.c.audit_id, audit.c.cluster == audit_anchors.c.cluster),
            )
        )
        .where(audit_anchors.c.cluster == inert(cluster))
    )
    found = connection.execute(statement).mappings().one_or_none()
    if found is None:
        return None
    if (found["kind"], found["cause"]) != ("request", REMOVE_ROWS):
        raise RemovalUnreadable(found["audit_id"])
    try:
        removal = msgspec.convert(found["after"], Removal)
    except msgspec.ValidationError as error:
        raise RemovalUnreadable(found["audit_id"]) from error
    return Recorded(
        removal=removal,
        audit_id=found["audit_id"],
        actor=found["actor"],
        at_ms=found["at_ms"],
        row=dict(found),
        is_swept=found["is_swept"],
    )
