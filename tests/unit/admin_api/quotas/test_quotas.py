"""Quotas over REST: set and unset for users, client ids and addresses, all of a request or none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PATH = "/clusters/prod/quotas"


def quotas(**fields: Any) -> dict[str, Any]:
    return {"quotas": {"producer_byte_rate": 1_000}} | fields


async def alter(rest: Rest, *entities: dict[str, Any], **query: str) -> Any:
    response = await rest.client.post(
        f"{PATH}:alter", json={"entities": list(entities), "reason": "tests"}, params=query
    )
    assert response.status_code == 200, response.text
    return [without_change(item) for item in response.json()["items"]]


def without_change(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "last_change"}


async def listed(rest: Rest, **query: Any) -> list[dict[str, Any]]:
    response = await rest.client.get(PATH, params=query)
    assert response.status_code == 200, response.text
    return [without_change(item) for item in response.json()["items"]]


def shown(**fields: Any) -> dict[str, Any]:
    return {"user": None, "client_id": None, "ip": None, "quotas": {"producer_byte_rate": 1_000.0}} | fields


async def test_quotas_are_set_changed_and_unset(zookeeper: MemoryZooKeeper) -> None:
    of_address = {"connection_creation_rate": 5}
    async with controller(zookeeper) as rest:
        await rest.form()
        wanted = (
            quotas(user="alice"),
            quotas(user="<default>", client_id="app"),
            {"ip": "::ffff:10.0.0.7", "quotas": of_address},
        )
        stored = [
            shown(user="alice"),
            shown(user="<default>", client_id="app"),
            shown(ip="10.0.0.7", quotas={"connection_creation_rate": 5.0}),
        ]
        assert await alter(rest, *wanted, dry_run="true") == stored
        assert await listed(rest) == []
        assert await alter(rest, *wanted) == stored
        assert sorted(await listed(rest), key=str) == sorted(stored, key=str)
        assert await listed(rest, user="<default>") == [stored[1]]
        changes = {"producer_byte_rate": None, "request_percentage": 12.5}
        assert await alter(rest, {"user": "alice", "quotas": changes}) == [
            shown(user="alice", quotas={"request_percentage": 12.5})
        ]
        nothing = {"ip": "10.0.0.7", "quotas": {"connection_creation_rate": None}}
        assert await alter(rest, nothing) == [shown(ip="10.0.0.7", quotas={})]
        assert await listed(rest, ip="10.0.0.7") == []
        rows = await rest.recorded(entity="quotas", kind="change")
        assert {row["reason"] for row in rows} == {"tests"}
        assert len(rows) == 5


@pytest.mark.parametrize(
    ("entities", "code", "where"),
    [
        ([quotas(user="alice"), quotas(user="a", ip="::1")], "invalid_quota", ["/entities/1"]),
        ([quotas(ip="store1")], "invalid_quota", ["/entities/0"]),
        ([{"user": "a", "quotas": {"bytes": 1}}], "invalid_quota", ["/entities/0"]),
        ([{"user": "a", "quotas": {"producer_byte_rate": 0}}], "invalid_quota", ["/entities/0"]),
        ([quotas(user="a"), quotas(user="a")], "named_twice", ["/entities/1"]),
        ([quotas()], "invalid_request", ["/entities/0"]),
        ([{"user": "a", "quotas": {}}], "invalid_request", ["/entities/0/quotas"]),
    ],
)
async def test_all_are_changed_or_none(
    zookeeper: MemoryZooKeeper, entities: list[dict[str, Any]], code: str, where: list[str]
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.post(f"{PATH}:alter", {"entities": entities})
        assert problem(refused) == (422, code)
        assert pointers(refused) == where
        assert await listed(rest) == []


async def test_operators_change_quotas_and_viewers_see_them(zookeeper: MemoryZooKeeper) -> None:
    body = {"entities": [quotas(user="alice")]}
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        assert problem(await ask(rest, "POST", f"{PATH}:alter", "viewer", json=body)) == (403, "forbidden")
        assert (await ask(rest, "POST", f"{PATH}:alter", "operator", json=body)).status_code == 200
        told = (await ask(rest, "GET", PATH, "viewer")).json()["items"]
        assert [item["user"] for item in told] == ["alice"]
