"""Silences of one transaction's alarms.

Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

oldest_level = 1


def upgrade() -> None:
    op.add_column("silences", sa.Column("transactional_id", sa.Text(), nullable=True))
    op.add_column("silences", sa.Column("producer_id", sa.BigInteger(), nullable=True))
    compat = sa.table("schema_compat", sa.column("revision"), sa.column("oldest_level"))
    op.bulk_insert(compat, [{"revision": revision, "oldest_level": oldest_level}])


def downgrade() -> None:
    op.execute(sa.text("delete from schema_compat where revision = '0011'"))
    op.drop_column("silences", "producer_id")
    op.drop_column("silences", "transactional_id")
