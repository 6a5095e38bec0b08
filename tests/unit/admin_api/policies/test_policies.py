"""Policies are written by admins, read by everybody, and stop the plans that break them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.database.policy_rows import POLICIES_MAX
from tests.kit.admin_api.plans import DRAIN, PLANS
from tests.kit.admin_api.reassignments import formed
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

POLICIES = "/clusters/prod/policies"
RF3 = f"{POLICIES}/prod_rf3"
SQL = "SELECT topic, partition FROM planned_replicas GROUP BY topic, partition HAVING count(*) < 3"
NOTHING_MOVES = "SELECT moves FROM plan WHERE moves > 0"


async def planned(rest: Rest) -> dict[str, Any]:
    response = await rest.post(PLANS, DRAIN)
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_policy_is_written_shown_replaced_and_deleted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        created = await rest.client.put(RF3, json={"sql": SQL, "description": "three", "reason": "r"})
        assert (created.status_code, created.headers["location"]) == (201, RF3)
        shown = await rest.client.get(RF3)
        assert shown.json() == created.json()
        assert shown.headers["etag"] == created.headers["etag"]
        assert (shown.json()["columns"], shown.json()["tables"]) == (
            ["topic", "partition"],
            ["planned_replicas"],
        )
        await rest.clock.sleep_ms(10)
        tag = {"If-Match": created.headers["etag"]}
        replaced = await rest.client.put(RF3, json={"sql": NOTHING_MOVES}, headers=tag)
        assert (replaced.status_code, replaced.json()["sql"]) == (200, NOTHING_MOVES)
        assert replaced.json()["created_at"] == created.json()["created_at"]
        assert problem(await rest.client.put(RF3, json={"sql": SQL}, headers=tag)) == (
            412,
            "precondition_failed",
        )
        listed = (await rest.client.get(POLICIES)).json()
        assert [policy["name"] for policy in listed["items"]] == ["prod_rf3"]
        assert problem(await rest.client.delete(RF3, headers=tag)) == (412, "precondition_failed")
        assert (await rest.client.delete(f"{RF3}?dry_run=true")).json()["sql"] == NOTHING_MOVES
        assert (await rest.client.delete(f"{RF3}?reason=over")).status_code == 204
        assert problem(await rest.client.get(RF3)) == (404, "policy_not_found")
        # Made again, it is not the one whose ETag somebody still has.
        again = await rest.client.put(RF3, json={"sql": NOTHING_MOVES})
        assert again.headers["etag"].partition(".")[0] != replaced.headers["etag"].partition(".")[0]
        rows = await rest.recorded(kind="request", cause="put_policy")
        assert [row["after"]["sql"] for row in rows] == [NOTHING_MOVES, SQL, NOTHING_MOVES, SQL]
        assert rows[1]["outcome"]["outcome"] == "refused"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DELETE FROM plan", "not_read_only"),
        ("ATTACH DATABASE '/tmp/x' AS x", "not_read_only"),
        ("SELECT * FROM sqlite_master", "not_read_only"),
        ("SELECT load_extension('x')", "not_read_only"),
        ("SELEC 1", "invalid_policy"),
        ("SELECT 1; DELETE FROM plan", "invalid_policy"),
    ],
)
async def test_sql_that_does_more_than_read_is_refused(
    zookeeper: MemoryZooKeeper, sql: str, code: str
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        refused = await rest.client.put(RF3, json={"sql": sql})
        assert problem(refused) == (422, code)
        assert pointers(refused) == ["/sql"]
        assert (await rest.client.get(POLICIES)).json()["items"] == []


async def test_a_dry_run_says_what_the_policy_says_now_and_stores_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        sql = "SELECT topic, broker_id FROM replicas WHERE broker_id = 2"
        tried = await rest.client.put(f"{RF3}?dry_run=true", json={"sql": sql})
        assert tried.status_code == 200, tried.text
        verdict = tried.json()["verdict"]
        assert (verdict["ok"], verdict["columns"], verdict["rows"], verdict["rows_total"]) == (
            False,
            ["topic", "broker_id"],
            [["orders", 2]],
            1,
        )
        assert (await rest.client.get(POLICIES)).json()["items"] == []


async def test_a_plan_that_breaks_a_policy_is_shown_and_not_carried_out(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await rest.client.put(RF3, json={"sql": SQL})
        await rest.client.put(f"{POLICIES}/frozen", json={"sql": NOTHING_MOVES})
        tried = (await rest.post(f"{PLANS}?dry_run=true", DRAIN)).json()
        plan = await planned(rest)
        for shown in (tried, plan, (await rest.client.get(f"{PLANS}/{plan['id']}")).json()):
            assert [(one["name"], one["ok"]) for one in shown["policies"]] == [
                ("frozen", False),
                ("prod_rf3", True),
            ]
        for query in ("?dry_run=true", ""):
            refused = await rest.post(f"{PLANS}/{plan['id']}:execute{query}", {})
            assert problem(refused) == (409, "policy_violated")
            assert refused.json()["detail"] == "policy frozen: moves 1"
        assert (await rest.client.delete(f"{POLICIES}/frozen")).status_code == 204
        assert (await rest.post(f"{PLANS}/{plan['id']}:execute", {})).status_code == 202


async def test_an_operation_that_plans_by_itself_is_stopped_by_a_policy(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await rest.client.put(f"{POLICIES}/frozen", json={"sql": NOTHING_MOVES})
        drain = await rest.post("/clusters/prod/brokers/1:drain", {})
        assert drain.status_code == 202, drain.text
        await rest.clock.sleep_ms(2_000)
        ended = (await rest.client.get(drain.headers["location"])).json()
        assert (ended["state"], ended["error"]["code"]) == ("failed", "policy_violated")
        partition = (await rest.client.get("/clusters/prod/topics/orders/partitions/0")).json()
        assert partition["replicas"] == [1, 2, 3]


async def test_there_is_a_bound_on_policies(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        for number in range(POLICIES_MAX):
            response = await rest.client.put(f"{POLICIES}/p{number}", json={"sql": SQL})
            assert response.status_code == 201
        refused = await rest.client.put(f"{POLICIES}/more", json={"sql": SQL})
        assert problem(refused) == (409, "too_many_policies")
        assert (await rest.client.put(f"{POLICIES}/p0", json={"sql": SQL})).status_code == 200


async def test_policies_are_written_by_admins_only(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await ask(rest, "POST", "/clusters", "operator", json={"name": "prod"})
        refused = await ask(rest, "PUT", RF3, "operator", json={"sql": SQL})
        assert problem(refused) == (403, "forbidden")
        assert (await ask(rest, "PUT", RF3, "admin", json={"sql": SQL})).status_code == 201
        assert problem(await ask(rest, "DELETE", RF3, "operator")) == (403, "forbidden")
        assert (await ask(rest, "GET", RF3, "viewer")).status_code == 200


async def test_without_sql_nothing_that_policies_guard_is_done(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await rest.client.put(RF3, json={"sql": SQL})
        rest.sql.down = True
        tried = await rest.post(f"{PLANS}?dry_run=true", DRAIN)
        assert problem(tried) == (503, "audit_unavailable")
