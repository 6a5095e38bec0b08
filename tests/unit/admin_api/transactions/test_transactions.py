"""Transactions over REST: listed, shown, aborted, and ended where they hang, with the audit's word of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from controller.shell.client_transactions import OpenProducer
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.admin_api.transactions import hang, report_open
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TRANSACTIONS = "/clusters/prod/transactions"
PAY = f"{TRANSACTIONS}/pay-1"
ABORT = f"{PAY}:abort"
END = "/clusters/prod/topics/orders/partitions/0:end-transaction"
ORDERS = ("orders", 0)


async def begin(rest: Rest) -> None:
    await rest.form()
    await rest.create_topic(partitions=1)


async def test_a_transaction_is_shown_with_those_who_wait_for_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        now_ms = rest.clock.now_wall_ms()
        client = {"client_id": "payments-app", "client_host": "10.0.0.7"}
        rest.transactions.add("pay-1", ORDERS, ("orders", 9), started_ms=now_ms - 65_000, **client)
        before = (await rest.client.get(PAY)).json()
        assert before["waiting_records"] is None, "no leader has reported"
        await report_open(rest, (4_000, 10), (7, 40))
        shown = (await rest.client.get(PAY)).json()
        partitions = shown.pop("partitions")
        assert {name: shown[name] for name in shown if name != "started_at"} == {
            "transactional_id": "pay-1",
            "producer_id": 4_000,
            "producer_epoch": 3,
            **client,
            "state": "ongoing",
            "age_ms": 65_000,
            "timeout_ms": 60_000,
            "lingers": False,
            "partitions_total": 2,
            "waiting_records": None,
            "coordinator_id": 1001,
            "coordinator_endpoint": "desk1:9092",
        }
        unknown = {"readers_wait_at": None, "waiting_records": None, "freed_records": None}
        assert partitions == [
            {
                "topic": "orders",
                "partition": 0,
                "readers_wait_at": 10,
                "waiting_records": 90,
                "freed_records": 30,
            },
            {"topic": "orders", "partition": 9, **unknown},
        ]
        await report_open(rest, (7, 5), (4_000, 10))
        (first, _) = (await rest.client.get(PAY)).json()["partitions"]
        assert (first["readers_wait_at"], first["waiting_records"]) == (None, 0), "another one holds them"
        missing = await rest.client.get(f"{TRANSACTIONS}/none")
        assert problem(missing) == (404, "transaction_not_found")
        rest.transactions.down = True
        assert problem(await rest.client.get(PAY)) == (503, "coordinator_unavailable")


async def test_lists_are_narrowed_and_ordered(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        now_ms = rest.clock.now_wall_ms()
        rest.transactions.add("pay-1", ORDERS, started_ms=now_ms - 5_000)
        rest.transactions.add("pay-2", started_ms=now_ms - 500_000, state="prepare_abort")
        rest.transactions.add("ship-1", started_ms=None, state="complete_commit")
        rest.transactions.add("ship-2", started_ms=now_ms - 60_000)
        rest.transactions.unanswered = ["desk2:9092: it closed the connection"]
        await report_open(rest, (4_000, 10))

        async def found(**query: Any) -> list[str]:
            response = await rest.client.get(TRANSACTIONS, params=query)
            assert response.status_code == 200, response.text
            assert response.json()["unanswered"] == rest.transactions.unanswered
            assert response.json()["hanging"] == []
            return [one["transactional_id"] for one in response.json()["items"]]

        assert await found() == ["pay-1", "pay-2", "ship-1", "ship-2"]
        assert await found(state=["ongoing", "prepare_abort"], prefix="pay") == ["pay-1", "pay-2"]
        assert await found(is_live="false") == ["ship-1"]
        assert await found(lingers="true") == ["pay-2"]
        assert await found(age_ms_min=60_000) == ["pay-2", "ship-2"]
        assert await found(search="HIP") == ["ship-1", "ship-2"]
        assert await found(producer_id=4_002) == ["ship-1"]
        assert await found(sort="-age") == ["pay-2", "ship-2", "pay-1", "ship-1"]
        assert await found(sort="-waiting_records") == ["pay-1", "ship-2", "ship-1", "pay-2"]
        assert await found(sort="state") == ["pay-1", "ship-2", "pay-2", "ship-1"]
        refused = await rest.client.get(TRANSACTIONS, params={"state": "Ongoing"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["state"])
        seen: list[str] = []
        token = None
        while token is not None or not seen:
            query = f"?limit=3&sort=-age{f'&page_token={token}' if token else ''}"
            page = (await rest.client.get(f"{TRANSACTIONS}{query}")).json()
            seen += [one["transactional_id"] for one in page["items"]]
            token = page["next_page_token"]
        assert seen == ["pay-2", "ship-2", "pay-1", "ship-1"]


@pytest.mark.parametrize("transactional_id", ["a/b", "a b", "ä中🚀", "x:abort", "100%", "q?#&=", "x" * 700])
async def test_an_id_may_have_any_characters(zookeeper: MemoryZooKeeper, transactional_id: str) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.transactions.add(transactional_id)
        path = f"{TRANSACTIONS}/{quote(transactional_id, safe='')}"
        assert (await rest.client.get(path)).json()["transactional_id"] == transactional_id
        assert (await rest.post(f"{path}:abort", {})).status_code == 200
        assert rest.transactions.fenced == [transactional_id]
        (row,) = await rest.recorded(entity="transaction")
        assert (row["cause"], row["outcome"]["outcome"]) == ("abort_transaction", "succeeded")


async def test_an_abort_fences_the_producer_that_was_seen_and_says_what_it_frees(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        rest.transactions.add("pay-1", ORDERS)
        await report_open(rest, (4_000, 10))
        tried = await rest.post(f"{ABORT}?dry_run=true", {})
        wait = {
            "topic": "orders",
            "partition": 0,
            "readers_wait_at": 10,
            "waiting_records": 90,
            "freed_records": 90,
        }
        expected = {
            "transactional_id": "pay-1",
            "producer_id": 4_000,
            "producer_epoch": 3,
            "state": "ongoing",
            "changed": False,
            "freed_records": 90,
            "partitions": [wait],
        }
        assert (tried.status_code, tried.json()) == (200, expected)
        assert rest.transactions.fenced == []
        assert await rest.recorded(entity="transaction") == [], "a dry run is not in the audit"
        rest.transactions.fences_late = 2
        done = await rest.post(ABORT, {"reason": "the job is gone"})
        assert (done.status_code, done.json()) == (
            200,
            expected | {"state": "prepare_abort", "changed": True},
        )
        (row,) = await rest.recorded(entity="transaction")
        assert (row["cause"], row["reason"], row["entity_id"]) == (
            "abort_transaction",
            "the job is gone",
            "pay-1",
        )
        assert row["outcome"]["detail"] == "producer 4000, epoch 3, in orders-0"


@pytest.mark.parametrize("state", ["prepare_commit", "prepare_abort", "complete_commit", "empty", "dead"])
async def test_what_is_not_open_is_not_aborted(zookeeper: MemoryZooKeeper, state: str) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.transactions.add("pay-1", ORDERS, state=state)
        for query in ("", "?dry_run=true"):
            refused = await rest.post(f"{ABORT}{query}", {})
            assert problem(refused) == (409, "transaction_not_open")
            assert refused.json()["facts"] == {"state": state}
        assert rest.transactions.fenced == []


async def test_an_abort_that_comes_too_late_says_so(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        seen = rest.transactions.add("pay-1", ORDERS)
        rest.transactions.fences_late = 1_000
        assert problem(await rest.post(ABORT, {})) == (503, "coordinator_unavailable")
        fence = rest.transactions.fence

        async def late(cluster: str, _: Any) -> None:
            rest.transactions.add("pay-1", ORDERS, producer_epoch=4)  # its producer has begun another one
            await fence(cluster, seen)

        rest.transactions.fence = late  # type: ignore[method-assign, assignment]
        assert problem(await rest.post(ABORT, {})) == (409, "transaction_not_open")
        assert rest.transactions.fenced == []


async def test_a_transaction_that_hangs_is_an_alarm_and_is_ended_by_the_leader(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        refused = await rest.post(END, {"producer_id": 4_000})
        assert problem(refused) == (409, "transaction_not_hanging")
        await hang(rest, Coordinator(rest, 1001))
        (alarm,) = [
            one
            for one in (await rest.client.get("/clusters/prod/alarms")).json()["items"]
            if one["code"] == "transaction_hangs"
        ]
        assert (alarm["producer_id"], alarm["transactional_id"]) == (4_000, None)
        (hanging,) = (await rest.client.get(TRANSACTIONS)).json()["hanging"]
        assert (hanging["topic"], hanging["partition"], hanging["first_offset"]) == ("orders", 0, 10)
        assert (hanging["waiting_records"], hanging["producer_epoch"]) == (90, 3)
        opened = OpenProducer(
            producer_id=4_000, producer_epoch=3, coordinator_epoch=2, first_offset=10, last_timestamp_ms=None
        )
        rest.transactions.opened[ORDERS] = [opened]
        tried = await rest.post(f"{END}?dry_run=true", {"producer_id": 4_000})
        expected = {**hanging, "changed": False, "fences": None}
        assert (tried.status_code, tried.json()) == (200, expected)
        rest.transactions.unanswered = ["desk2:9092: it closed the connection"]
        assert problem(await rest.post(END, {"producer_id": 4_000})) == (503, "coordinator_unavailable")
        rest.transactions.unanswered = []
        assert rest.transactions.aborted == []
        done = await rest.post(END, {"producer_id": 4_000, "reason": "found by the alarm"})
        assert (done.status_code, done.json()) == (200, {**expected, "changed": True})
        assert rest.transactions.aborted == [(ORDERS, opened)]
        row = next(one for one in await rest.recorded() if one["cause"] == "end_transaction")
        assert (row["entity"], row["reason"]) == ("topic", "found by the alarm")
        await report_open(rest)
        assert (await rest.client.get(TRANSACTIONS)).json()["hanging"] == []


async def test_a_producer_that_still_has_the_epoch_is_fenced_first(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        await hang(rest, Coordinator(rest, 1001))
        opened = OpenProducer(
            producer_id=4_000, producer_epoch=3, coordinator_epoch=-1, first_offset=10, last_timestamp_ms=None
        )
        rest.transactions.opened[ORDERS] = [opened]
        rest.transactions.add("pay-1", ("orders", 5), producer_id=4_000)
        tried = (await rest.post(f"{END}?dry_run=true", {"producer_id": 4_000})).json()
        assert (tried["fences"], rest.transactions.fenced) == ("pay-1", [])
        done = await rest.post(END, {"producer_id": 4_000})
        assert (done.json()["fences"], rest.transactions.fenced) == ("pay-1", ["pay-1"])
        assert rest.transactions.aborted == [(ORDERS, opened)]


async def test_one_that_a_coordinator_has_after_all_is_not_ended_in_a_partition(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await begin(rest)
        await hang(rest, Coordinator(rest, 1001))
        gone = await rest.post(END, {"producer_id": 4_000})
        assert problem(gone) == (409, "transaction_not_hanging"), "its leader holds it open no more"
        rest.transactions.opened[ORDERS] = [
            OpenProducer(
                producer_id=4_000,
                producer_epoch=3,
                coordinator_epoch=-1,
                first_offset=10,
                last_timestamp_ms=None,
            )
        ]
        rest.transactions.add("pay-1", ORDERS, producer_id=4_000)
        assert problem(await rest.post(END, {"producer_id": 4_000})) == (409, "transaction_not_hanging")
        assert rest.transactions.aborted == [] == rest.transactions.fenced


async def test_roles_see_abort_and_end(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        topic = {"name": "orders", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        assert (await ask(rest, "POST", "/topics", "operator", json=topic)).status_code == 201
        rest.transactions.add("pay-1", ORDERS)
        body = {"producer_id": 4_000}

        async def tried(method: str, path: str, role: str, **options: Any) -> int:
            return (await ask(rest, method, path, role, **options)).status_code

        for role, sees, tries, aborts, ends in (
            ("viewer", 200, 200, 403, 403),
            ("broker", 403, 403, 403, 403),
            ("operator", 200, 200, 200, 409),
        ):
            assert await tried("GET", TRANSACTIONS, role) == await tried("GET", PAY, role) == sees
            assert await tried("POST", f"{ABORT}?dry_run=true", role, json={}) == tries
            assert await tried("POST", ABORT, role, json={}) == aborts
            assert await tried("POST", END, role, json=body) == ends
