"""What a viewer sees of changes of ACLs and users: that they were, by whom and when."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.rest import TOKENS, ask, controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

BINDING = {
    "resource_type": "topic",
    "resource_name": "payments",
    "principal": "User:alice",
    "operation": "read",
}


@pytest.mark.parametrize(
    ("method", "path", "body", "entity", "named"),
    [
        ("POST", "acls", {"bindings": [BINDING]}, "acls", "payments"),
        ("PUT", "users/alice", {"password": "secret"}, "user", "alice"),
        ("DELETE", "users/alice", None, "user", "alice"),
    ],
)
async def test_what_was_changed_is_for_operators(
    zookeeper: MemoryZooKeeper, *, method: str, path: str, body: Any, entity: str, named: str
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        await ask(rest, method, f"/clusters/prod/{path}", "admin", json=body)
        await rest.outbox.flush()
        of_entity = {"params": {"entity": entity}}
        whole = (await ask(rest, "GET", "/audit", "operator", **of_entity)).json()["items"]
        told = (await ask(rest, "GET", "/audit", "viewer", **of_entity)).json()["items"]
        assert len(told) == len(whole) == (1 if method == "DELETE" else 2)
        assert any(named in str(row) for row in whole)
        assert named not in str(told)
        for row, hidden in zip(whole, told, strict=True):
            assert hidden["entity_id"] == "hidden"
            for name in ("id", "cause", "actor", "at", "hash"):
                assert hidden[name] == row[name]
            single = await ask(rest, "GET", f"/audit/{row['id']}", "viewer")
            assert single.json() == hidden


async def test_quotas_are_told_to_viewers(zookeeper: MemoryZooKeeper) -> None:
    quotas = {"entities": [{"user": "alice", "quotas": {"request_percentage": 1}}]}
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        assert (await ask(rest, "POST", "/clusters/prod/quotas:alter", "operator", json=quotas)).is_success
        await rest.outbox.flush()
        rows = (await ask(rest, "GET", "/audit", "viewer", params={"entity": "quotas"})).json()["items"]
        assert all("alice" in str(row) for row in rows)
