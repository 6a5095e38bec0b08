"""Plans and their moves, and what became of each move.

Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("goal", sa.String(64), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("moves", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("complete", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("policies", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("approval", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("operation_id", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )
    op.create_index("ix_plans_cluster", "plans", ["cluster", "created_at_ms", "id"])
    op.create_index("ix_plans_expires_at_ms", "plans", ["expires_at_ms"])
    op.create_table(
        "plan_moves",
        sa.Column("plan_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.String(64), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("partition_epoch", sa.BigInteger(), nullable=True),
        sa.Column("replicas_before", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("replicas_after", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("reasons", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("gain", sa.String(64), nullable=False),
        sa.Column("fate", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("begun_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("plan_id", "position", name="pk_plan_moves"),
    )
    op.create_index("ix_plan_moves_fate", "plan_moves", ["plan_id", "fate", "position"])


def downgrade() -> None:
    op.drop_index("ix_plan_moves_fate", "plan_moves")
    op.drop_table("plan_moves")
    op.drop_index("ix_plans_expires_at_ms", "plans")
    op.drop_index("ix_plans_cluster", "plans")
    op.drop_table("plans")
