"""A chain of hashes over each cluster's history; what is there already is chained in the order it stands in.

The columns stay nullable: a controller of the release before may still append rows without them, which the
next append of this release chains. The form that is hashed is written out here, as it was at this revision.

Revises: 0003
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_GENESIS = "0" * 64
_ROWS_PER_PAGE = 500
_UNCHAINED = sa.text("chain_position is null")
_ROW_FIELDS = (
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
_OUTCOME_FIELDS = ("outcome", "code", "detail", "at_ms")

_JSON_FIELDS = ("before", "after")
_BOOLEAN_FIELDS = ("backfilled", "gap_before")


def _column(name: str) -> sa.ColumnClause[Any]:
    if name in _JSON_FIELDS:
        return sa.column(name, sa.JSON(none_as_null=True))
    return sa.column(name, sa.Boolean()) if name in _BOOLEAN_FIELDS else sa.column(name)


_CHAIN = ("chain_position", "previous_hash", "hash")
_heads = sa.table(
    "audit_heads",
    sa.column("cluster"),
    sa.column("last_seq"),
    sa.column("chain_position"),
    sa.column("hash"),
)
_rows = sa.table("audit", sa.column("id"), *(_column(name) for name in (*_ROW_FIELDS, *_CHAIN)))
_outcomes = sa.table(
    "audit_outcomes",
    sa.column("audit_id"),
    sa.column("cluster"),
    *(_column(name) for name in (*_OUTCOME_FIELDS, *_CHAIN)),
)


def upgrade() -> None:
    op.add_column(
        "audit_heads", sa.Column("chain_position", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("audit_heads", sa.Column("hash", sa.String(64), nullable=False, server_default=_GENESIS))
    op.add_column("audit_outcomes", sa.Column("cluster", sa.String(255), nullable=True))
    for table in ("audit", "audit_outcomes"):
        op.add_column(table, sa.Column("chain_position", sa.BigInteger(), nullable=True))
        op.add_column(table, sa.Column("previous_hash", sa.String(64), nullable=True))
        op.add_column(table, sa.Column("hash", sa.String(64), nullable=True))
    connection = op.get_bind()
    for cluster in connection.execute(sa.select(_heads.c.cluster).order_by(_heads.c.cluster)).scalars().all():
        _chain_cluster(connection, cluster)
    for table, column in (("audit", "seq"), ("audit_outcomes", None)):
        op.create_index(f"ix_{table}_chain", table, ["cluster", "chain_position"], unique=True)
        op.create_index(
            f"ix_{table}_unchained",
            table,
            ["audit_id"] if column is None else ["cluster", column],
            sqlite_where=_UNCHAINED,
            postgresql_where=_UNCHAINED,
        )


def downgrade() -> None:
    for table in ("audit_outcomes", "audit"):
        op.drop_index(f"ix_{table}_unchained", table)
        op.drop_index(f"ix_{table}_chain", table)
        for column in ("hash", "previous_hash", "chain_position"):
            op.drop_column(table, column)
    op.drop_column("audit_outcomes", "cluster")
    op.drop_column("audit_heads", "hash")
    op.drop_column("audit_heads", "chain_position")


def _chain_cluster(connection: sa.Connection, cluster: str) -> None:
    # Every append waits here until all of it is committed.
    connection.execute(sa.select(_heads.c.last_seq).where(_heads.c.cluster == cluster).with_for_update())
    position, previous = 0, _GENESIS
    for row in _rows_of(connection, cluster):
        position += 1
        content = {name: row[name] for name in _ROW_FIELDS}
        digest = _hash({"table": "audit", "chain_position": position, **content}, previous)
        connection.execute(
            _rows.update()
            .where(_rows.c.id == row["id"])
            .values(chain_position=position, previous_hash=previous, hash=digest)
        )
        previous = digest
    for row in _outcomes_of(connection, cluster):
        position += 1
        content = {name: row[name] for name in _OUTCOME_FIELDS}
        place = {"cluster": cluster, "request_seq": row["seq"], "chain_position": position}
        digest = _hash({"table": "audit_outcomes", **place, **content}, previous)
        connection.execute(
            _outcomes.update()
            .where(_outcomes.c.audit_id == row["audit_id"])
            .values(cluster=cluster, chain_position=position, previous_hash=previous, hash=digest)
        )
        previous = digest
    connection.execute(
        _heads.update().where(_heads.c.cluster == cluster).values(chain_position=position, hash=previous)
    )


def _rows_of(connection: sa.Connection, cluster: str) -> Iterator[sa.RowMapping]:
    columns = [column for column in _rows.c if column.name not in _CHAIN]
    seq = 0
    while True:
        page = (
            connection.execute(
                sa.select(*columns)
                .where(_rows.c.cluster == cluster, _rows.c.seq > seq)
                .order_by(_rows.c.seq)
                .limit(_ROWS_PER_PAGE)
            )
            .mappings()
            .all()
        )
        if not page:
            return
        yield from page
        seq = page[-1]["seq"]


def _outcomes_of(connection: sa.Connection, cluster: str) -> Iterator[sa.RowMapping]:
    audit_id = -1
    while True:
        page = (
            connection.execute(
                sa.select(_outcomes.c.audit_id, *(_outcomes.c[name] for name in _OUTCOME_FIELDS), _rows.c.seq)
                .join(_rows, _rows.c.id == _outcomes.c.audit_id)
                .where(_rows.c.cluster == cluster, _outcomes.c.audit_id > audit_id)
                .order_by(_outcomes.c.audit_id)
                .limit(_ROWS_PER_PAGE)
            )
            .mappings()
            .all()
        )
        if not page:
            return
        yield from page
        audit_id = page[-1]["audit_id"]


def _hash(content: Mapping[str, Any], previous_hash: str) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{previous_hash}\n{canonical}".encode("ascii")).hexdigest()
