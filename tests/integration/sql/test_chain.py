from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
import sqlalchemy as sa

from controller.audit import history, verification
from controller.audit.chain import hash_row
from controller.audit.change import AuditedChange, Entity, partition_id
from controller.audit.history import AuditedOutcome, Intent, RequestOutcome
from controller.audit.outbox import AuditOutbox
from controller.audit.verification import MismatchCode, Verification, verify
from controller.database.sql import Database, DatabaseRejected
from controller.database.tables import GENESIS, audit, audit_formats, audit_heads, audit_outcomes
from controller.shell.clock import SystemClock
from springtide.contract.epochs import ControllerEpoch

pytestmark = pytest.mark.anyio


def changed(epoch: int, *, cluster: str = "prod", topic_id: str = "t", **fields: Any) -> AuditedChange:
    def snapshot(version: int) -> dict[str, Any]:
        return {
            "topic": "orders",
            "replicas": (1, 2, 3),
            "partition_epoch": version,
            "note": "é\ud83d\x00 1.0",
        }

    values: dict[str, Any] = {
        "cluster": cluster,
        "entity": Entity.PARTITION,
        "entity_id": partition_id(topic_id, 0),
        "version": epoch,
        "cause": "isr_shrunk" if epoch else "topic_created",
        "actor": "broker:1",
        "reason": "fire\x00 in\ud800 the hall",
        "at_ms": 1_000 + epoch,
        "before": snapshot(epoch - 1) if epoch else None,
        "after": snapshot(epoch),
        "controller_epoch": 1,
    }
    return AuditedChange(**(values | fields))


INTENT = Intent(
    cluster="prod",
    action="create_topic",
    entity=Entity.TOPIC,
    entity_id="orders",
    actor="alice",
    reason="launch",
    request_id="r1",
    at_ms=10,
    body={"name": "orders", "ratio": 0.1, "big": 2**80, "nested": {"b": [None, True], "a": -0.0}},
    topic="orders",
)


async def append(store: Database, *changes: AuditedChange) -> None:
    await store.write(history.append_changes, changes=changes, recorded_at_ms=5)


async def ask(store: Database, *, answered: bool = True) -> int:
    """A request, and what became of it."""
    audit_id = await store.write(history.append_intent, intent=INTENT, recorded_at_ms=5)
    if answered:
        outcome = AuditedOutcome(audit_id=audit_id, outcome=RequestOutcome.REFUSED, detail="no\x00", at_ms=12)
        await store.write(history.append_outcome, outcome=outcome)
        again = msgspec.structs.replace(outcome, outcome=RequestOutcome.SUCCEEDED)
        await store.write(history.append_outcome, outcome=again)
    return audit_id


async def found(store: Database, cluster: str = "prod", **bounds: Any) -> Verification:
    verification = await verify(store, cluster, **bounds)
    assert verification is not None
    return verification


async def test_everything_that_appends_appends_to_one_chain(store: Database) -> None:
    await append(store, changed(0), changed(0, cluster="test"), changed(1))
    await ask(store)
    truth = [changed(4, before=None), changed(0, topic_id="u", before=None)]
    await store.write(history.backfill_rows, rows=truth, recorded_at_ms=6)
    gone = [("partition", "u/0")]
    await store.write(
        history.append_lost_removals, cluster="prod", keys=gone, at_ms=7, controller_epoch=ControllerEpoch(2)
    )
    whole = await found(store)
    assert (whole.mismatch, whole.rows, whole.outcomes) == (None, 6, 1)
    assert (whole.first_seq, whole.last_seq, whole.chain_position) == (1, 6, 7)
    assert (await found(store, "test")).rows == 1
    assert await verify(store, "dev") is None


async def test_an_outcome_needs_its_request(store: Database) -> None:
    outcome = AuditedOutcome(audit_id=10**9, outcome=RequestOutcome.SUCCEEDED, at_ms=1)
    with pytest.raises(DatabaseRejected):
        await store.write(history.append_outcome, outcome=outcome)


async def test_a_failed_transaction_takes_its_places_back(store: Database) -> None:
    await append(store, changed(0))

    def fail(connection: sa.Connection) -> None:
        history.append_changes(connection, [changed(1)], recorded_at_ms=1)
        raise DatabaseRejected("no")

    with pytest.raises(DatabaseRejected):
        await store.write(fail)
    await append(store, changed(2))
    whole = await found(store)
    assert (whole.mismatch, whole.chain_position, whole.last_seq) == (None, 2, 2)


@pytest.mark.parametrize("pages_of", [1, 2, 3, 500])
async def test_a_page_ends_nowhere_in_particular(
    store: Database, pages_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(store, changed(0), changed(1))
    for _ in range(3):
        await ask(store)
    monkeypatch.setattr(verification, "ENTRIES_PER_PAGE", pages_of)
    whole = await found(store)
    assert (whole.mismatch, whole.rows, whole.outcomes, whole.last_seq) == (None, 5, 3, 5)


async def test_a_part_is_verified_from_what_stands_before_it(store: Database) -> None:
    for _ in range(5):
        await ask(store)
    part = await found(store, from_seq=2, to_seq=4)
    assert (part.mismatch, part.first_seq, part.last_seq) == (None, 2, 4)
    assert (part.rows, part.outcomes) == (3, 2)
    beyond = await found(store, from_seq=99)
    assert (beyond.mismatch, beyond.rows, beyond.first_seq) == (None, 0, None)


async def test_a_long_walk_is_cut_and_goes_on_where_it_was_cut(store: Database) -> None:
    for _ in range(6):
        await ask(store)
    seen: list[tuple[int | None, int | None]] = []
    from_seq: int | None = None
    while True:
        part = await found(store, from_seq=from_seq, entries_max=4)
        assert part.mismatch is None
        seen.append((part.first_seq, part.last_seq))
        from_seq = part.next_from_seq
        if from_seq is None:
            break
    assert seen == [(1, 3), (3, 5), (5, 6)]
    assert part.hash == (await found(store)).hash


async def tamper(store: Database, statement: sa.Executable) -> None:
    await store.write(lambda connection: connection.execute(statement))


def of_seq(seq: int) -> sa.ColumnElement[bool]:
    return sa.and_(audit.c.cluster == "prod", audit.c.seq == seq)


def alter(**values: Any) -> Callable[[], sa.Executable]:
    return lambda: audit.update().where(of_seq(3)).values(**values)


TAMPERINGS: dict[str, tuple[Callable[[], sa.Executable], MismatchCode, int | None]] = {
    "an actor": (alter(actor="mallory"), MismatchCode.ALTERED, 3),
    "a snapshot": (alter(after={"replicas": [9]}), MismatchCode.ALTERED, 3),
    "nothing before": (alter(before=None), MismatchCode.ALTERED, 3),
    "a time": (alter(at_ms=1), MismatchCode.ALTERED, 3),
    "a flag": (alter(gap_before=True), MismatchCode.ALTERED, 3),
    "a hash": (alter(hash="f" * 64), MismatchCode.ALTERED, 3),
    "a link": (alter(previous_hash=GENESIS), MismatchCode.ALTERED, 3),
    "a row removed": (lambda: audit.delete().where(of_seq(3)), MismatchCode.MISSING, 4),
    "a row given away": (alter(cluster="test"), MismatchCode.MISSING, 4),
    "the newest row removed": (lambda: audit.delete().where(of_seq(5)), MismatchCode.WRONG_END, 4),
    "an outcome": (lambda: audit_outcomes.update().values(outcome="succeeded"), MismatchCode.ALTERED, 4),
    "an outcome removed": (audit_outcomes.delete, MismatchCode.MISSING, 5),
    "an outcome given away": (lambda: audit_outcomes.update().values(audit_id=1), MismatchCode.ALTERED, 1),
    "the head": (lambda: audit_heads.update().values(hash=GENESIS), MismatchCode.WRONG_END, 5),
}


@pytest.mark.parametrize("what", TAMPERINGS)
async def test_tampering_shows_at_the_first_entry_that_does_not_fit(store: Database, what: str) -> None:
    await append(store, changed(0), changed(1), changed(2))
    await ask(store)
    await append(store, changed(3))
    assert (await found(store)).mismatch is None
    statement, code, seq = TAMPERINGS[what]
    await tamper(store, statement())
    mismatch = (await found(store)).mismatch
    assert mismatch is not None
    assert (mismatch.code, mismatch.seq) == (code, seq)
    # What stands before it is still known to be whole.
    assert (await found(store, to_seq=1 if seq == 1 else 2)).mismatch is None


async def test_a_row_rehashed_after_it_was_altered_no_longer_precedes_the_next(store: Database) -> None:
    await append(store, changed(0), changed(1), changed(2))
    await append(store, changed(0, cluster="test", actor="mallory"))

    def rehash(connection: sa.Connection) -> None:
        statement = sa.select(audit).where(of_seq(2))
        row = dict(connection.execute(statement).mappings().one()) | {"actor": "mallory"}
        row["hash"] = hash_row(row, position=row["chain_position"], previous_hash=row["previous_hash"])
        connection.execute(audit.update().where(of_seq(2)).values(actor="mallory", hash=row["hash"]))

    await store.write(rehash)
    mismatch = (await found(store)).mismatch
    assert mismatch is not None
    assert (mismatch.code, mismatch.seq) == (MismatchCode.UNLINKED, 3)


async def test_a_row_that_took_another_rows_number_is_told(store: Database) -> None:
    """Chained anew from a forged row on, as only the head's writer can: the numbers still tell."""
    await append(store, changed(0), changed(1))

    def skip(connection: sa.Connection) -> None:
        connection.execute(audit_heads.update().values(last_seq=7))
        history.append_changes(connection, [changed(2)], recorded_at_ms=1)

    await store.write(skip)
    mismatch = (await found(store)).mismatch
    assert mismatch is not None
    assert (mismatch.code, mismatch.seq) == (MismatchCode.MISNUMBERED, 8)


async def test_rows_of_the_release_before_are_chained_by_the_next_append(store: Database) -> None:
    await append(store, changed(0))

    def write_as_before(connection: sa.Connection) -> None:
        """As release 0003 does: it knows no chain, and neither do its rows."""
        old = dict(connection.execute(sa.select(audit).where(of_seq(1))).mappings().one())
        for name in ("id", "chain_position", "previous_hash", "hash"):
            del old[name]
        for seq in (2, 3):
            row = old | {"seq": seq, "kind": "request", "version": None}
            connection.execute(audit.insert().values(row))
        audit_id = connection.execute(sa.select(audit.c.id).where(of_seq(2))).scalar_one()
        connection.execute(audit_outcomes.insert().values(audit_id=audit_id, outcome="unknown", at_ms=1))
        connection.execute(audit_heads.update().values(last_seq=3))

    await store.write(write_as_before)
    waiting = await found(store)
    assert (waiting.mismatch, waiting.rows, waiting.unchained) == (None, 1, 2)
    await append(store, changed(1))
    whole = await found(store)
    assert (whole.mismatch, whole.unchained) == (None, 0)
    assert (whole.rows, whole.outcomes, whole.last_seq) == (4, 1, 4)


async def test_two_controllers_at_once_write_one_chain(database_url: str) -> None:
    stores = [Database.open(database_url) for _ in range(2)]
    outboxes = [AuditOutbox(store, clock=SystemClock(), truth=lambda _cluster: ()) for store in stores]

    async def tell(store: Database, outbox: AuditOutbox) -> None:
        for start in range(0, 40, 7):
            outbox.record_changes([changed(epoch) for epoch in range(start, start + 7)])
            audit_id = await store.write(history.append_intent, intent=INTENT, recorded_at_ms=5)
            outbox.record_outcome(
                AuditedOutcome(audit_id=audit_id, outcome=RequestOutcome.SUCCEEDED, at_ms=1)
            )
            await outbox.flush()

    try:
        async with anyio.create_task_group() as tasks:
            for store, outbox in zip(stores, outboxes, strict=True):
                tasks.start_soon(tell, store, outbox)
        whole = await found(stores[0])
        assert (whole.mismatch, whole.rows, whole.outcomes) == (None, 42 + 12, 12)
    finally:
        for store in stores:
            store.close()


#: Only a chain that has no format number can stand in an older schema.
IN_NEWEST = pytest.mark.parametrize("place", ["sqlite newest", "postgres newest"], indirect=True)


def _set_format(connection: sa.Connection, *, cluster: str, from_position: int, format: int) -> None:
    row = {"cluster": cluster, "from_position": from_position, "format": format}
    connection.execute(audit_formats.insert().values(row))
    # What the later release hashes is not what this one does.
    changed_rows = audit.update().where(audit.c.cluster == cluster, audit.c.chain_position >= from_position)
    connection.execute(changed_rows.values(hash="f" * 64))


@IN_NEWEST
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


@IN_NEWEST
async def test_the_first_format_may_be_named(store: Database) -> None:
    await append(store, changed(0))
    row = {"cluster": "prod", "from_position": 1, "format": 1}
    await store.write(lambda connection: connection.execute(audit_formats.insert().values(row)))
    assert (await found(store)).mismatch is None


@IN_NEWEST
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
