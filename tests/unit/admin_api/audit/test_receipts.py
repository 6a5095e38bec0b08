"""A receipt says from the audit how near an operation came to refusing acks=all, and what it can't prove."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.audit.history import append_changes
from controller.database.tables import audit
from tests.kit.admin_api.reassignments import formed, put, report, settled
from tests.kit.admin_api.rest import Rest, controller, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def receipt(rest: Rest, operation: str) -> dict[str, Any]:
    """operation: its path."""
    await rest.outbox.flush()
    response = await rest.client.get(f"{operation}/receipt")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_quiet_move_kept_its_minimum_and_the_chain_vouches_for_it(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await rest.outbox.flush()
        running = await receipt(rest, path)
        assert (running["verdict"], running["final"]) == ("kept", False)
        await report(rest, brokers, 1, 2, 3, 4)
        ended = await settled(rest, path)
        found = await receipt(rest, path)
        assert (found["verdict"], found["final"], found["partitions"]) == ("kept", True, 1)
        assert (found["since"], found["until"]) == (ended["started_at"], ended["finished_at"])
        # Three in sync and a minimum of two, all the time.
        assert (found["worst"]["slack"], found["worst"]["partitions"]) == (1, 1)
        assert found["worst"]["minute"] == found["since"][:17] + "00.000Z"
        assert (found["below_min"]["partitions"], found["leaderless"]["partitions"]) == (0, 0)
        evidence = found["evidence"]
        assert (evidence["covered"], evidence["pending"], evidence["holes"]) == (True, False, [])
        assert evidence["states"] >= 3
        row = (await rest.client.get(f"/audit/{evidence['audit_id']}")).json()
        assert (row["seq"], row["hash"]) == (evidence["seq"], evidence["hash"])
        assert row["after"]["replicas"] == [4, 2, 3]


async def test_replicas_lost_while_it_ran_are_in_the_receipt_with_their_minute(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await silence(rest, brokers, 1, 4)
        found = await receipt(rest, path)
        assert (found["verdict"], found["final"]) == ("broken", False)
        assert found["worst"]["slack"] == -1
        (worst,) = found["worst"]["first"]
        assert (worst["topic"], worst["partition"]) == ("orders", 0)
        assert (worst["in_sync"], worst["min_insync_replicas"]) == (1, 2)
        row = (await rest.client.get(worst["audit"])).json()
        assert (len(row["after"]["isr"]), row["cause"]) == (1, worst["cause"])
        assert (found["below_min"]["partitions"], found["began_below_min"]) == (1, 0)
        assert found["below_min"]["ms_max"] > 0
        assert found["worst"]["minute"] <= worst["since"] < found["until"]


async def test_what_was_below_before_is_told_apart_from_what_fell(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await silence(rest, brokers, 1, 4)
        path = (await put(rest, 4, 1, 2)).headers["location"]
        found = await receipt(rest, path)
        assert (found["verdict"], found["below_min"]["partitions"], found["began_below_min"]) == (
            "broken",
            1,
            1,
        )


async def test_rows_that_wait_to_be_written_keep_a_receipt_from_vouching(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        assert rest.outbox.depth > 0
        found = (await rest.client.get(f"{path}/receipt")).json()
        assert (found["verdict"], found["evidence"]["pending"]) == ("not_proven", True)


async def test_a_hole_in_the_history_keeps_a_receipt_from_vouching(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await settled(rest, path)
        assert (await receipt(rest, path))["verdict"] == "kept"
        statement = audit.update().where(audit.c.cause == "reassignment_started").values(gap_before=True)
        await rest.store.write(lambda connection: connection.execute(statement))
        found = await receipt(rest, path)
        assert found["verdict"] == "not_proven"
        assert found["evidence"]["holes"] == [{"topic": "orders", "partition": 0}]


async def test_a_hole_that_only_the_next_row_tells_of_is_one(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await settled(rest, path)
        await rest.clock.sleep_ms(5_000)
        (latest, *_) = await rest.recorded(entity="partition")
        truth = [change for change in rest.engine.truth("prod") if change.entity_id == latest["entity_id"]]
        later = [
            msgspec.structs.replace(
                truth[0],
                version=truth[0].version + 2,
                before=truth[0].after,
                at_ms=rest.clock.now_wall_ms(),
            )
        ]
        await rest.store.write(lambda c: append_changes(c, later, recorded_at_ms=rest.clock.now_wall_ms()))
        assert (await receipt(rest, path))["evidence"]["holes_total"] == 1


async def test_what_was_before_the_audit_is_not_vouched_for(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.clock.sleep_ms(500)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await settled(rest, path)
        await rest.outbox.flush()
        statement = audit.update().values(at_ms=audit.c.at_ms + 60_000)
        await rest.store.write(lambda connection: connection.execute(statement))
        found = await receipt(rest, path)
        assert (found["verdict"], found["evidence"]["covered"]) == ("not_proven", False)


async def test_an_operation_about_no_partition_has_nothing_to_vouch_for(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        accepted = await rest.post("/clusters/prod/brokers", {"broker_id": 9, "endpoint": "store9:9092"})
        found = await receipt(rest, accepted.headers["location"])
        assert (found["verdict"], found["worst"], found["partitions"]) == ("nothing_moved", None, 0)
        assert problem(await rest.client.get("/operations/op_none/receipt")) == (404, "operation_not_found")


async def test_a_standby_gives_the_receipt_and_says_what_it_cannot_know(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        path = (await put(rest, 4, 2, 3)).headers["location"]
        await report(rest, brokers, 1, 2, 3, 4)
        await settled(rest, path)
        await rest.outbox.flush()
        rest.engine.stand_down()
        await rest.clock.sleep_ms(10)
        assert rest.engine.role == "standby"
        found = (await rest.client.get(f"{path}/receipt")).json()
        assert (found["evidence"]["pending"], found["final"], found["verdict"]) == (None, False, "not_proven")
        assert found["worst"]["slack"] == 1
