"""What a later release hashes in another form is not taken for altered."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from controller.audit.verification import MismatchCode
from controller.database.sql import Database
from controller.database.tables import audit, audit_formats
from tests.integration.sql.test_chain import append, changed, found

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite newest", "postgres newest"])
def place(request: pytest.FixtureRequest) -> str:
    """Only a chain that has no format number can stand in an older schema."""
    return str(request.param)


def _set_format(connection: sa.Connection, *, cluster: str, from_position: int, format: int) -> None:
    row = {"cluster": cluster, "from_position": from_position, "format": format}
    connection.execute(audit_formats.insert().values(row))
    # What the later release hashes is not what this one does.
    changed_rows = audit.update().where(audit.c.cluster == cluster, audit.c.chain_position >= from_position)
    connection.execute(changed_rows.values(hash="f" * 64))


async def test_entries_of_a_later_format_are_not_called_altered(store: Database) -> None:
    await append(store, changed(0), changed(1), changed(2), changed(0, cluster="test"))
    await store.write(_set_format, cluster="prod", from_position=3, format=2)
    whole = await found(store)
    assert whole.mismatch is not None
    assert (whole.mismatch.code, whole.mismatch.chain_position) == (MismatchCode.UNKNOWN_FORMAT, 3)
    assert "from entry 3 on the chain has format 2" in whole.mismatch.detail
    assert (whole.rows, whole.chain_position) == (2, 2)
    assert (await found(store, to_seq=2)).mismatch is None
    assert (await found(store, "test")).mismatch is None


async def test_the_first_format_may_be_named(store: Database) -> None:
    await append(store, changed(0))
    row = {"cluster": "prod", "from_position": 1, "format": 1}
    await store.write(lambda connection: connection.execute(audit_formats.insert().values(row)))
    assert (await found(store)).mismatch is None


async def test_what_was_altered_before_a_later_format_is_said(store: Database) -> None:
    await append(store, changed(0), changed(1))
    await store.write(_set_format, cluster="prod", from_position=2, format=2)
    await store.write(
        lambda connection: connection.execute(
            audit.update().where(audit.c.chain_position == 1).values(actor="x")
        )
    )
    whole = await found(store)
    assert whole.mismatch is not None
    assert (whole.mismatch.code, whole.mismatch.chain_position) == (MismatchCode.ALTERED, 1)
