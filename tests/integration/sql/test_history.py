from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
import sqlalchemy as sa

from controller.audit import history, queries
from controller.audit.change import AuditedChange, Entity, partition_id
from controller.audit.history import AuditedOutcome, Intent, RequestOutcome
from controller.audit.outbox import AuditOutbox
from controller.audit.queries import AuditFilter
from controller.database import idempotency, operation_rows
from controller.database.idempotency import Claimed, InProgress, OtherBody, Replay
from controller.database.operation_rows import OperationFilter
from controller.database.rows import OperationRow
from controller.database.sql import Database
from controller.shell.clock import SystemClock
from springtide.contract.epochs import ControllerEpoch

ORDERS = "orders0000000000000000"


@pytest.fixture
def connection(database_url: str) -> Iterator[sa.Connection]:
    store = Database.open(database_url)
    with store._writer.begin() as connection:
        yield connection
    store.close()


def partition(epoch: int, *, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "replicas": [1, 2, 3],
        "isr": list(isr),
        "leader": leader,
        "partition_epoch": epoch,
    }


def changed(
    epoch: int, before: dict[str, Any] | None, after: dict[str, Any] | None, **fields: Any
) -> AuditedChange:
    values: dict[str, Any] = {
        "cluster": "prod",
        "entity": Entity.PARTITION,
        "entity_id": partition_id(ORDERS, 0),
        "version": epoch,
        "cause": "isr_shrunk" if epoch else "topic_created",
        "actor": "broker:1",
        "at_ms": 1_000 + epoch,
        "before": before,
        "after": after,
        "controller_epoch": 1,
    }
    return AuditedChange(**(values | fields))


FIRST = changed(0, None, partition(0), cause="topic_created", actor="alice")
SHRUNK = changed(1, partition(0), partition(1, isr=(1, 2)))
FAILED_OVER = changed(2, partition(1, isr=(1, 2)), partition(2, isr=(2,), leader=2), cause="broker_died")


def rows(connection: sa.Connection, **wanted: Any) -> list[queries.AuditRow]:
    return queries.list_rows(connection, AuditFilter(**wanted), limit=100)


def test_a_change_comes_back_as_it_was_told(connection: sa.Connection) -> None:
    assert history.append_changes(connection, [FIRST, SHRUNK], recorded_at_ms=5_000) == 2
    newest, oldest = rows(connection)
    assert (newest.version, oldest.version) == (1, 0)
    assert newest.id > oldest.id
    assert msgspec.structs.asdict(newest) == {
        "id": newest.id,
        "cluster": "prod",
        "seq": 2,
        "kind": "change",
        "entity": "partition",
        "entity_id": f"{ORDERS}/0",
        "version": 1,
        "cause": "isr_shrunk",
        "actor": "broker:1",
        "reason": None,
        "request_id": None,
        "operation_id": None,
        "at_ms": 1_001,
        "recorded_at_ms": 5_000,
        "topic": "orders",
        "partition": 0,
        "brokers": (3,),
        "before": partition(0),
        "after": partition(1, isr=(1, 2)),
        "controller_epoch": 1,
        "backfilled": False,
        "gap_before": False,
        "chain_position": 2,
        "previous_hash": oldest.hash,
        "hash": newest.hash,
        "outcome": None,
        "outcome_code": None,
        "outcome_detail": None,
        "outcome_at_ms": None,
    }


def test_a_change_told_twice_leaves_one_row(connection: sa.Connection) -> None:
    assert history.append_changes(connection, [FIRST, SHRUNK, SHRUNK], recorded_at_ms=1) == 2
    assert history.append_changes(connection, [SHRUNK, FAILED_OVER, FIRST], recorded_at_ms=2) == 1
    assert [(row.seq, row.version) for row in rows(connection)] == [(3, 2), (2, 1), (1, 0)]


def test_a_jump_of_the_partition_epoch_is_marked_as_a_gap(connection: sa.Connection) -> None:
    history.append_changes(connection, [FIRST, FAILED_OVER], recorded_at_ms=1)
    assert [(row.version, row.gap_before) for row in rows(connection)] == [(2, True), (0, False)]


def test_seqs_are_dense_within_each_cluster(connection: sa.Connection) -> None:
    other = [msgspec.structs.replace(change, cluster="test") for change in (FIRST, SHRUNK)]
    history.append_changes(connection, [FIRST, other[0], SHRUNK, other[1]], recorded_at_ms=1)
    assert [row.seq for row in rows(connection, cluster="prod")] == [2, 1]
    assert [row.seq for row in rows(connection, cluster="test")] == [2, 1]


@pytest.mark.parametrize(
    ("wanted", "versions"),
    [
        ({"topic": "orders", "partition": 0}, [2, 1, 0]),
        ({"topic": "orders", "partition": 1}, []),
        ({"cause": "broker_died"}, [2]),
        ({"actor": "alice"}, [0]),
        ({"broker": 3}, [1, 0]),
        ({"broker": 1}, [2, 0]),
        ({"since_ms": 1_001}, [2, 1]),
        ({"until_ms": 1_001}, [0]),
        ({"since_ms": 1_001, "until_ms": 1_002}, [1]),
        ({"entity": Entity.BROKER}, []),
        ({"actor": "' or 1=1 --"}, []),
        ({"actor": "alice\x00"}, []),
        ({"operation_id": "\ud800"}, []),
    ],
)
def test_every_filter_narrows_the_answer(
    connection: sa.Connection, wanted: dict[str, Any], versions: list[int]
) -> None:
    history.append_changes(connection, [FIRST, SHRUNK, FAILED_OVER], recorded_at_ms=1)
    assert [row.version for row in rows(connection, **wanted)] == versions


def test_pages_go_down_by_id_and_do_not_shift_when_rows_arrive(connection: sa.Connection) -> None:
    history.append_changes(connection, [FIRST, SHRUNK], recorded_at_ms=1)
    (first,) = queries.list_rows(connection, AuditFilter(), limit=1)
    history.append_changes(connection, [FAILED_OVER], recorded_at_ms=2)
    assert [row.version for row in rows(connection, below_id=first.id)] == [0]
    assert queries.get_row(connection, first.id) == first
    assert queries.get_row(connection, 10**12) is None


def test_text_that_databases_refuse_is_stored_inert(connection: sa.Connection) -> None:
    hostile = msgspec.structs.replace(
        FIRST, reason="a\x00b\ud800'; drop table audit; --\r\n", actor="x" * 300
    )
    history.append_changes(connection, [hostile], recorded_at_ms=1)
    (row,) = rows(connection)
    assert row.reason == "a\ufffdb?'; drop table audit; --\r\n"
    assert row.actor == "x" * 255


INTENT = Intent(
    cluster="prod",
    action="create_topic",
    entity=Entity.TOPIC,
    entity_id="orders",
    actor="alice",
    reason="launch",
    request_id="r1",
    at_ms=10,
    body={"name": "orders"},
    topic="orders",
)


def test_a_request_is_listed_with_its_outcome_and_without_one_until_it_is_known(
    connection: sa.Connection,
) -> None:
    audit_id = history.append_intent(connection, INTENT, recorded_at_ms=11)
    assert [(row.id, row.kind, row.cause, row.outcome) for row in rows(connection)] == [
        (audit_id, "request", "create_topic", None)
    ]
    outcome = AuditedOutcome(
        audit_id=audit_id, outcome=RequestOutcome.REFUSED, code="topic_already_exists", at_ms=12
    )
    history.append_outcome(connection, outcome)
    history.append_outcome(connection, msgspec.structs.replace(outcome, outcome=RequestOutcome.SUCCEEDED))
    (row,) = rows(connection, kind="request")
    assert (row.outcome, row.outcome_code, row.after) == (
        "refused",
        "topic_already_exists",
        {"name": "orders"},
    )


def truth(change: AuditedChange) -> AuditedChange:
    return msgspec.structs.replace(change, before=None)


def test_a_back_fill_adds_what_is_missing_with_before_from_the_history(connection: sa.Connection) -> None:
    history.append_changes(connection, [FIRST], recorded_at_ms=1)
    assert history.backfill_rows(connection, [truth(FAILED_OVER)], recorded_at_ms=9) == 1
    assert history.backfill_rows(connection, [truth(FAILED_OVER)], recorded_at_ms=9) == 0
    newest = rows(connection)[0]
    assert (newest.version, newest.before, newest.after) == (2, FIRST.after, FAILED_OVER.after)
    assert (newest.cause, newest.backfilled, newest.gap_before) == ("broker_died", True, True)


def test_a_back_fill_of_the_very_next_version_has_no_gap(connection: sa.Connection) -> None:
    history.append_changes(connection, [FIRST], recorded_at_ms=1)
    history.backfill_rows(connection, [truth(SHRUNK)], recorded_at_ms=9)
    assert [(row.version, row.backfilled, row.gap_before) for row in rows(connection)] == [
        (1, True, False),
        (0, False, False),
    ]


def test_what_vanished_unseen_is_ended_once(connection: sa.Connection) -> None:
    history.append_changes(connection, [FIRST], recorded_at_ms=1)
    gone = history.entities_not_in(connection, "prod", [])
    assert gone == [("partition", f"{ORDERS}/0")]
    for expected in (1, 0):
        added = history.append_lost_removals(
            connection, "prod", gone, at_ms=50, controller_epoch=ControllerEpoch(7)
        )
        assert added == expected
    newest = rows(connection)[0]
    assert (newest.cause, newest.version, newest.before, newest.after) == (
        "removal_not_recorded",
        1,
        FIRST.after,
        None,
    )
    assert history.entities_not_in(connection, "prod", []) == []


def test_an_idempotency_key_has_one_holder_then_one_answer(connection: sa.Connection) -> None:
    claim = partial(idempotency.claim, connection, scope="alice POST /topics", key="k")
    assert claim(body_hash="h", fresh_seed="s1", now_ms=0, expiry_ms=0) == Claimed("s1")
    assert claim(body_hash="h", fresh_seed="s2", now_ms=10, expiry_ms=10) == InProgress(
        idempotency.CLAIM_MS - 10
    )
    assert claim(body_hash="other", fresh_seed="s2", now_ms=10, expiry_ms=10) == OtherBody()
    # The holder died: whoever takes over creates what the first would have created.
    assert claim(
        body_hash="h", fresh_seed="s3", now_ms=idempotency.CLAIM_MS, expiry_ms=idempotency.CLAIM_MS
    ) == Claimed("s1")
    idempotency.keep_answer(
        connection, scope="alice POST /topics", key="k", status=201, headers={"location": "/x"}, body=b"{}"
    )
    idempotency.release(connection, scope="alice POST /topics", key="k")
    assert claim(body_hash="h", fresh_seed="s4", now_ms=10**6, expiry_ms=10**6) == Replay(
        201, {"location": "/x"}, b"{}"
    )
    assert claim(body_hash="h", fresh_seed="s5", now_ms=idempotency.KEEP_MS, expiry_ms=None) == Replay(
        201, {"location": "/x"}, b"{}"
    )
    assert claim(body_hash="h", fresh_seed="s5", now_ms=0, expiry_ms=idempotency.KEEP_MS) == Claimed("s5")


def test_a_released_claim_is_free_at_once_with_the_same_seed(connection: sa.Connection) -> None:
    claim = partial(idempotency.claim, connection, scope="s", key="k", body_hash="h")
    assert claim(fresh_seed="s1", now_ms=10**9, expiry_ms=10**9) == Claimed("s1")
    idempotency.release(connection, scope="s", key="k")
    assert claim(fresh_seed="s2", now_ms=10**9 + 1, expiry_ms=10**9 + 1) == Claimed("s1")


def test_an_operation_is_moved_on_by_one_controller_only(connection: sa.Connection) -> None:
    first = OperationRow(
        id="op_1",
        kind="broker_add",
        cluster="prod",
        state="preflight",
        actor="alice",
        reason=None,
        request_id=None,
        created_at_ms=1,
        deadline_at_ms=100,
        body={"steps": []},
    )
    operation_rows.insert_operation(connection, first)
    operation_rows.insert_operation(connection, first)
    moved = msgspec.structs.replace(first, state="running", revision=1)
    assert operation_rows.update_operation(connection, moved)
    assert not operation_rows.update_operation(connection, msgspec.structs.replace(moved, state="failed"))
    counted = msgspec.structs.replace(moved, body={"steps": [], "tally": 1})
    assert operation_rows.update_progress(connection, counted)
    assert operation_rows.get_operation(connection, "op_1") == counted
    assert not operation_rows.update_progress(connection, first), "it has been moved on"
    assert operation_rows.update_progress(connection, moved)
    assert operation_rows.get_operation(connection, "op_1") == moved
    assert list(operation_rows.unfinished_operations(connection)) == [moved]
    done = msgspec.structs.replace(moved, state="succeeded", finished_at_ms=5, revision=2)
    assert operation_rows.update_operation(connection, done)
    assert list(operation_rows.unfinished_operations(connection)) == []
    assert operation_rows.list_operations(connection, OperationFilter(state="succeeded"), limit=5) == [done]
    assert operation_rows.list_operations(connection, OperationFilter(since_ms=2), limit=5) == []
    for hostile in ("\x00", "\ud800"):  # PostgreSQL refuses both
        assert operation_rows.get_operation(connection, hostile) is None
        for wanted in (OperationFilter(actor=hostile), OperationFilter(below=(0, hostile))):
            assert operation_rows.list_operations(connection, wanted, limit=5) == []


def test_operations_made_in_the_same_millisecond_are_paged_without_loss(connection: sa.Connection) -> None:
    for number in range(5):
        operation_rows.insert_operation(
            connection,
            OperationRow(
                id=f"op_{number}",
                kind="broker_add",
                cluster="prod",
                state="preflight",
                actor="alice",
                reason=None,
                request_id=None,
                created_at_ms=number // 3,
                deadline_at_ms=100,
                body={},
            ),
        )
    seen: list[str] = []
    below: tuple[int, str] | None = None
    while page := operation_rows.list_operations(connection, OperationFilter(below=below), limit=2):
        seen += [row.id for row in page]
        below = (page[-1].created_at_ms, page[-1].id)
    assert seen == ["op_4", "op_3", "op_2", "op_1", "op_0"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_two_controllers_telling_the_same_changes_leave_each_once_in_order(
    database_url: str, anyio_backend: str
) -> None:
    stores = [Database.open(database_url) for _ in range(2)]
    outboxes = [AuditOutbox(store, clock=SystemClock(), truth=lambda _cluster: ()) for store in stores]
    history_of_one = [FIRST, *(changed(n, partition(n - 1), partition(n)) for n in range(1, 60))]

    async def tell(outbox: AuditOutbox) -> None:
        for start in range(0, len(history_of_one), 7):
            outbox.record_changes(history_of_one[start : start + 7])
            await outbox.flush()

    async with anyio.create_task_group() as tasks:
        for outbox in outboxes:
            tasks.start_soon(tell, outbox)
    found = await stores[0].read(queries.list_rows, wanted=AuditFilter(), limit=100)
    assert [row.version for row in found] == list(range(59, -1, -1))
    assert [row.seq for row in found] == list(range(60, 0, -1))
    assert all(not row.gap_before for row in found)
    for store in stores:
        store.close()
