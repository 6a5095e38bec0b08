"""Which releases work with a revision, and which format the entries of a chain have.

Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

oldest_level = 1


def upgrade() -> None:
    compat = op.create_table(
        "schema_compat",
        sa.Column("revision", sa.String(32), nullable=False),
        sa.Column("oldest_level", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_compat"),
    )
    op.bulk_insert(compat, [{"revision": revision, "oldest_level": oldest_level}])
    op.create_table(
        "audit_formats",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("from_position", sa.BigInteger(), nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "from_position", name="pk_audit_formats"),
    )


def downgrade() -> None:
    op.drop_table("audit_formats")
    op.drop_table("schema_compat")
