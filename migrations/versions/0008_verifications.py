"""Verifications of replicas, and their findings.

Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "verifications",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("began_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("topics", sa.Integer(), nullable=False),
        sa.Column("partitions_total", sa.Integer(), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("compared_bytes", sa.BigInteger(), nullable=False),
        sa.Column("findings", sa.Integer(), nullable=False),
        sa.Column("findings_kept", sa.Integer(), nullable=False),
        sa.Column("partitions", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_verifications"),
    )
    op.create_index("ix_verifications_cluster", "verifications", ["cluster", "recorded_at_ms", "id"])
    op.create_table(
        "verification_findings",
        sa.Column("verification_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("broker_id", sa.Integer(), nullable=True),
        sa.Column("first_offset", sa.BigInteger(), nullable=False),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("verification_id", "position", name="pk_verification_findings"),
    )
    op.create_index("ix_verification_findings_topic", "verification_findings", ["topic", "partition"])


def downgrade() -> None:
    op.drop_index("ix_verification_findings_topic", "verification_findings")
    op.drop_table("verification_findings")
    op.drop_index("ix_verifications_cluster", "verifications")
    op.drop_table("verifications")
