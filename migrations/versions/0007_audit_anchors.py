"""Anchors: where each cluster's chain of hashes begins once retention has removed rows.

Taken back, a history of which rows were removed no longer verifies: nothing says any more where it begins.

Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_anchors",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("audit_id", sa.BigInteger(), nullable=False),
        sa.Column("is_swept", sa.Boolean(create_constraint=False), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_audit_anchors"),
    )


def downgrade() -> None:
    op.drop_table("audit_anchors")
