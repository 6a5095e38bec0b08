"""SQL without threads, so that the order of things is the test's or the seed's alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.lowlevel
import sqlalchemy as sa

from controller.database import schema
from controller.database.tables import metadata

T = TypeVar("T")


async def run_in_place(work: Callable[[], T], *, exclusive: bool) -> T:
    await anyio.lowlevel.checkpoint()
    return work()


def make_tables(engine: sa.Engine) -> None:
    """What the migrations make, without them: they take longer than most tests."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        if schema.revision_of(connection) is None:  # a second controller finds them
            connection.execute(sa.text("create table alembic_version (version_num varchar(32) not null)"))
            connection.execute(sa.text("insert into alembic_version values (:head)"), {"head": schema.HEAD})
