"""ACLs over REST: added, listed page by page, removed, explained; who may, and what the audit has of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PATH = "/clusters/prod/acls"


def body(name: str = "payments", **fields: Any) -> dict[str, Any]:
    given = {
        "resource_type": "topic",
        "resource_name": name,
        "principal": "User:alice",
        "operation": "read",
    }
    return given | fields


def shown(name: str = "payments", **fields: Any) -> dict[str, Any]:
    return {"pattern_type": "literal", "host": "*", "permission": "allow"} | body(name, **fields)


async def add(rest: Rest, *bindings: dict[str, Any]) -> Any:
    response = await rest.post(PATH, {"bindings": list(bindings), "reason": "tests"})
    assert response.status_code == 200, response.text
    return response.json()["items"]


async def listed(rest: Rest, **query: Any) -> list[dict[str, Any]]:
    response = await rest.client.get(PATH, params=query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def test_acls_are_added_once_and_shown_as_they_are_stored(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        denial = {"pattern_type": "prefixed", "permission": "deny", "host": "::ffff:10.0.0.7"}
        items = await add(rest, body(), body("pay", **denial), body())
        stored = shown("pay", **denial | {"host": "10.0.0.7"})
        assert items == [
            shown() | {"is_new": True},
            stored | {"is_new": True},
            shown() | {"is_new": False},
        ]
        assert await listed(rest) == [stored, shown()]
        assert (await add(rest, body()))[0]["is_new"] is False
        rows = await rest.recorded(entity="acls", kind="change")
        assert [(row["cause"], row["reason"], row["before"]) for row in rows] == [
            ("acls_altered", "tests", None)
        ] * 2


async def test_all_are_added_or_none(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        wrong = [body(host="store1"), body(), body(operation="cluster_action"), body(principal="alice")]
        refused = await rest.post(PATH, {"bindings": wrong})
        assert problem(refused) == (422, "invalid_acl")
        assert pointers(refused) == ["/bindings/0", "/bindings/2", "/bindings/3"]
        assert await listed(rest) == []
        (row,) = await rest.recorded(cause="add_acls")
        assert row["outcome"]["outcome"] == "refused"


async def test_a_dry_run_changes_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        tried = await rest.post(f"{PATH}?dry_run=true", {"bindings": [body()]})
        assert tried.json()["items"] == [shown() | {"is_new": True}]
        assert await listed(rest) == []
        await add(rest, body())
        gone = await rest.post(f"{PATH}:delete?dry_run=true", {"principal": "User:alice"})
        assert gone.json()["items"] == [shown()]
        assert await listed(rest) == [shown()]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"resource_type": "group"}, ["app"]),
        ({"resource_name": "payments"}, ["payments"]),
        ({"resource_name": "payments", "pattern_type": "match"}, ["*", "pay", "payments"]),
        ({"resource_name": "pay", "pattern_type": "literal"}, []),
        ({"principal": "User:bob", "operation": "write"}, ["pay"]),
        ({"permission": "deny"}, ["*"]),
        ({"host": "::ffff:10.0.0.7"}, ["*"]),
    ],
)
async def test_acls_are_found_by_what_they_have(
    zookeeper: MemoryZooKeeper, query: dict[str, str], names: list[str]
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await add(
            rest,
            body(),
            body("pay", pattern_type="prefixed", principal="User:bob", operation="write"),
            body("*", permission="deny", host="10.0.0.7"),
            body("app", resource_type="group"),
        )
        assert [item["resource_name"] for item in await listed(rest, **query)] == names


async def test_pages_hide_and_repeat_nothing(zookeeper: MemoryZooKeeper) -> None:
    long = "\N{GRINNING FACE}" * 60
    names = [long + "a", long + "b", *(f"t{number}" for number in range(5))]
    async with controller(zookeeper) as rest:
        await rest.form()
        await add(rest, *(body(name, host=host) for name in names for host in ("*", "::1", "::2")))
        whole = await listed(rest)
        assert len(whole) == 21
        pages: list[dict[str, Any]] = []
        token = None
        while True:
            query = {"limit": 2} | ({} if token is None else {"page_token": token})
            answer = (await rest.client.get(PATH, params=query)).json()
            pages += answer["items"]
            token = answer["next_page_token"]
            if token is None:
                break
        assert pages == whole


async def test_what_a_filter_matches_is_removed_and_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await add(rest, body(), body(operation="write"), body("orders", principal="User:bob"))
        gone = await rest.post(f"{PATH}:delete", {"principal": "User:alice", "reason": "left"})
        assert gone.json() == {"items": [shown(), shown(operation="write")]}
        assert [item["principal"] for item in await listed(rest)] == ["User:bob"]
        (row,) = await rest.recorded(cause="remove_acls")
        assert (row["reason"], row["outcome"]["outcome"]) == ("left", "succeeded")
        (change,) = [
            row for row in await rest.recorded(entity="acls", kind="change") if row["reason"] == "left"
        ]
        assert change["after"] is None
        for everything in ({}, {"pattern_type": "match"}):
            assert problem(await rest.post(f"{PATH}:delete", everything)) == (422, "invalid_request")
        odd = await rest.post(f"{PATH}:delete", {"host": "store1"})
        assert (problem(odd), pointers(odd)) == ((422, "invalid_acl"), ["/host"])


async def test_why_a_client_may_not_is_a_question(zookeeper: MemoryZooKeeper) -> None:
    query = body() | {"host": "10.0.0.7"}
    async with controller(zookeeper) as rest:
        await rest.form()
        await add(rest, body("pay", pattern_type="prefixed", permission="deny", principal="User:*"))
        told = (await rest.client.get(f"{PATH}:explain", params=query)).json()
        assert (told["allowed"], told["authorizer"], told["allowed_by_acls"]) == (True, False, False)
        assert told["words"].startswith("User:alice from 10.0.0.7 may not read topic 'payments': ")
        assert [item["resource_name"] for item in told["remove"]] == ["pay"]
        assert told["add"] == shown(host="10.0.0.7")
        for wrong in ({"operation": "cluster_action"}, {"host": "store1"}, {"principal": "alice"}):
            refused = await rest.client.get(f"{PATH}:explain", params=query | wrong)
            assert problem(refused) == (422, "invalid_acl")


async def test_viewers_see_no_acls_and_only_admins_change_them(zookeeper: MemoryZooKeeper) -> None:
    explain = {"method": "GET", "path": f"{PATH}:explain", "params": body()}
    reads: list[dict[str, Any]] = [{"method": "GET", "path": PATH}, explain]
    writes: list[dict[str, Any]] = [
        {"method": "POST", "path": PATH, "json": {"bindings": [body()]}},
        {"method": "POST", "path": f"{PATH}:delete", "json": {"operation": "read"}},
    ]
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        for asked in [*reads, *({**one, "params": {"dry_run": "true"}} for one in writes)]:
            assert problem(await ask(rest, role="viewer", **asked)) == (403, "forbidden")
            assert (await ask(rest, role="operator", **asked)).status_code == 200
        for asked in writes:
            refused = await ask(rest, role="operator", **asked)
            assert refused.json()["facts"]["needed"] == "admin"
            assert (await ask(rest, role="admin", **asked)).status_code == 200
