"""The history: a row a change, a row a request, and what became of requests.

Revises: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_heads",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_audit_heads"),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("entity", sa.String(16), nullable=False),
        sa.Column("entity_id", sa.String(320), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.Column("operation_id", sa.String(64), nullable=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("topic", sa.String(255), nullable=True),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("brokers", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("controller_epoch", sa.BigInteger(), nullable=True),
        sa.Column("backfilled", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("gap_before", sa.Boolean(create_constraint=False), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sa.UniqueConstraint("cluster", "seq", name="uq_audit_cluster_seq"),
        sa.UniqueConstraint("cluster", "entity", "entity_id", "version", name="uq_audit_entity_version"),
        sa.CheckConstraint("kind in ('change', 'request')", name=op.f("ck_audit_kind")),
        sa.CheckConstraint("(kind = 'change') = (version is not null)", name=op.f("ck_audit_version")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_topic", "audit", ["cluster", "topic", "partition", "id"])
    op.create_index("ix_audit_actor", "audit", ["actor", "id"])
    op.create_index("ix_audit_cause", "audit", ["cause", "id"])
    op.create_index("ix_audit_at_ms", "audit", ["at_ms"])
    op.create_index("ix_audit_operation_id", "audit", ["operation_id"])
    op.create_index("ix_audit_request_id", "audit", ["request_id"])
    op.create_table(
        "audit_outcomes",
        sa.Column(
            "audit_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("code", sa.String(64), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name="pk_audit_outcomes"),
        sa.ForeignKeyConstraint(["audit_id"], ["audit.id"], name="fk_audit_outcomes_audit_id_audit"),
        sa.CheckConstraint(
            "outcome in ('succeeded', 'refused', 'unknown')", name=op.f("ck_audit_outcomes_outcome")
        ),
    )


def downgrade() -> None:
    op.drop_table("audit_outcomes")
    op.drop_table("audit")
    op.drop_table("audit_heads")
