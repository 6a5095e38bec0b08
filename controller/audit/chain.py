"""The hash chain over a cluster's history: each entry carries its predecessor's hash and its own.

    hash = SHA-256(previous_hash, newline, canonical content)

An entry is a row of `audit` or of `audit_outcomes`; both stand in one chain, numbered without holes by
`chain_position`, so that altering, inserting, removing or reordering any of them shows at the first entry
that no longer fits. The content is everything an entry says, in a form that every database gives back as it
was written. Ids are left out, for the database gives them out as it writes: an outcome names its request by
`seq`. No secret is involved: an intruder who rewrites the whole chain can make it fit again, but not make it
end in a hash that was noted elsewhere.

That form is format 1, and frozen: rows hashed under it exist. Another form is another format, and the table
`audit_formats` says from which place on a chain has it; a chain never goes back to an earlier one.

An append locks the cluster's head first and keeps it until the transaction ends, so numbers and hashes are
given in commit order by one writer at a time, on any controller, for any kind of entry: changes as they
happen, back-filled ones, requests, outcomes. A transaction that fails takes its numbers back with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from controller.database.tables import audit, audit_formats, audit_heads, audit_outcomes

#: What this release writes and checks.
CHAIN_FORMAT: Final = 1
#: Rows chained per statement while catching up.
ROWS_PER_PAGE = 500

_ROW_FIELDS: Final = (
    "cluster",
    "seq",
    "kind",
    "entity",
    "entity_id",
    "version",
    "cause",
    "actor",
    "reason",
    "request_id",
    "operation_id",
    "at_ms",
    "recorded_at_ms",
    "topic",
    "partition",
    "brokers",
    "before",
    "after",
    "controller_epoch",
    "backfilled",
    "gap_before",
)
_OUTCOME_FIELDS: Final = ("outcome", "code", "detail", "at_ms")


def hash_row(row: Mapping[str, Any], *, position: int, previous_hash: str) -> str:
    """The hash, 64 hexadecimal digits, of a row of `audit`. row: its columns by name; others are ignored."""
    content = {name: row[name] for name in _ROW_FIELDS}
    return _hash({"table": "audit", "chain_position": position, **content}, previous_hash)


def hash_outcome(
    outcome: Mapping[str, Any], *, cluster: str, request_seq: int, position: int, previous_hash: str
) -> str:
    """The hash of a row of `audit_outcomes`. request_seq: `seq` of the request that it belongs to."""
    content = {name: outcome[name] for name in _OUTCOME_FIELDS}
    place = {"cluster": cluster, "request_seq": request_seq, "chain_position": position}
    return _hash({"table": "audit_outcomes", **place, **content}, previous_hash)


def _hash(content: Mapping[str, Any], previous_hash: str) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{previous_hash}\n{canonical}".encode("ascii")).hexdigest()


class LaterFormat(msgspec.Struct, frozen=True):
    """The first entries of a chain that have a format which this release does not know."""

    from_position: int
    format: int


def later_format(connection: sa.Connection, cluster: str) -> LaterFormat | None:
    if not sa.inspect(connection).has_table(audit_formats.name):  # before revision 0010
        return None
    statement = (
        sa.select(audit_formats.c.from_position, audit_formats.c.format)
        .where(audit_formats.c.cluster == cluster, audit_formats.c.format > CHAIN_FORMAT)
        .order_by(audit_formats.c.from_position)
        .limit(1)
    )
    found = connection.execute(statement).one_or_none()
    return None if found is None else LaterFormat(found.from_position, found.format)


class Head:
    """A cluster's last entry, as this transaction moves it on. `store` writes it back."""

    __slots__ = ("chain_position", "cluster", "hash", "last_seq")

    def __init__(self, cluster: str, *, last_seq: int, chain_position: int, hash: str) -> None:
        self.cluster = cluster
        self.last_seq = last_seq
        self.chain_position = chain_position
        self.hash = hash

    def seal_row(self, row: dict[str, Any]) -> None:
        """Number a new row of `audit` and chain it."""
        self.last_seq += 1
        row["seq"] = self.last_seq
        self.chain_row(row)

    def chain_row(self, row: dict[str, Any]) -> None:
        """Chain a row that has its number already."""
        self._chain(row, hash_row(row, position=self.chain_position + 1, previous_hash=self.hash))

    def seal_outcome(self, outcome: dict[str, Any], *, request_seq: int) -> None:
        outcome["cluster"] = self.cluster
        self._chain(
            outcome,
            hash_outcome(
                outcome,
                cluster=self.cluster,
                request_seq=request_seq,
                position=self.chain_position + 1,
                previous_hash=self.hash,
            ),
        )

    def store(self, connection: sa.Connection) -> None:
        connection.execute(
            audit_heads.update()
            .where(audit_heads.c.cluster == self.cluster)
            .values(last_seq=self.last_seq, chain_position=self.chain_position, hash=self.hash)
        )

    def _chain(self, entry: dict[str, Any], entry_hash: str) -> None:
        self.chain_position += 1
        entry["chain_position"] = self.chain_position
        entry["previous_hash"] = self.hash
        entry["hash"] = self.hash = entry_hash


def lock_head(connection: sa.Connection, cluster: str) -> Head:
    """Take the cluster's head for this transaction.

    Entries without a place in the chain get theirs now: a controller of the release before, running beside
    this one during an upgrade, numbers its rows and does not chain them.
    """
    insert = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
    connection.execute(insert(audit_heads).values(cluster=cluster, last_seq=0).on_conflict_do_nothing())
    # SQLite ignores FOR UPDATE: its whole transaction holds the write lock already.
    statement = sa.select(audit_heads).where(audit_heads.c.cluster == cluster).with_for_update()
    found = connection.execute(statement).mappings().one()
    head = Head(
        cluster,
        last_seq=found["last_seq"],
        chain_position=found["chain_position"],
        hash=found["hash"],
    )
    if _chain_rows(connection, head) + _chain_outcomes(connection, head):
        head.store(connection)
    return head


def _chain_rows(connection: sa.Connection, head: Head) -> int:
    unchained = (
        sa.select(audit)
        .where(audit.c.cluster == head.cluster, audit.c.chain_position.is_(None))
        .order_by(audit.c.seq)
        .limit(ROWS_PER_PAGE)
    )
    chained = 0
    while rows := [dict(found) for found in connection.execute(unchained).mappings()]:
        for row in rows:
            head.chain_row(row)
        _place(connection, audit, audit.c.id, rows, "id")
        chained += len(rows)
    return chained


def _chain_outcomes(connection: sa.Connection, head: Head) -> int:
    unchained = (
        sa.select(audit_outcomes, audit.c.seq)
        .join(audit, audit.c.id == audit_outcomes.c.audit_id)
        .where(audit_outcomes.c.chain_position.is_(None), audit.c.cluster == head.cluster)
        .order_by(audit_outcomes.c.audit_id)
        .limit(ROWS_PER_PAGE)
    )
    chained = 0
    while rows := [dict(found) for found in connection.execute(unchained).mappings()]:
        for row in rows:
            head.seal_outcome(row, request_seq=row["seq"])
        _place(connection, audit_outcomes, audit_outcomes.c.audit_id, rows, "audit_id")
        connection.execute(
            audit_outcomes.update()
            .where(audit_outcomes.c.audit_id.in_([row["audit_id"] for row in rows]))
            .values(cluster=head.cluster)
        )
        chained += len(rows)
    return chained


def _place(
    connection: sa.Connection, table: sa.Table, key: sa.Column[Any], rows: list[dict[str, Any]], name: str
) -> None:
    """Write the places of rows that are stored already."""
    statement = (
        table.update()
        .where(key == sa.bindparam("of_key"))
        .values(
            chain_position=sa.bindparam("to_position"),
            previous_hash=sa.bindparam("to_previous"),
            hash=sa.bindparam("to_hash"),
        )
    )
    connection.execute(
        statement,
        [
            {
                "of_key": row[name],
                "to_position": row["chain_position"],
                "to_previous": row["previous_hash"],
                "to_hash": row["hash"],
            }
            for row in rows
        ],
    )
