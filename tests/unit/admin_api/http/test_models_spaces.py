"""A space at the end of a name is not seen, and makes another name: it is refused in words, or goes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.rest import controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

ACL = {"resource_type": "topic", "resource_name": "a", "principal": "User:a", "operation": "read"}
ENDS = "must not begin or end with a space"
COLON = "must not have a space beside the colon"
PROD = "/clusters/prod"


def acl(**fields: str) -> dict[str, Any]:
    return {"bindings": [ACL | fields]}


def quotas(value: float | None, **entity: str) -> dict[str, Any]:
    return {"entities": [{**entity, "quotas": {"producer_byte_rate": value}}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/clusters", {"name": "prod "}, "must be letters"),
        ("POST", f"{PROD}/topics", {"name": " orders"}, "must be letters"),
        ("POST", f"{PROD}/acls", acl(resource_name="a "), ENDS),
        ("POST", f"{PROD}/acls", acl(principal="User:a "), ENDS),
        ("POST", f"{PROD}/acls", acl(principal="User: a"), COLON),
        ("POST", f"{PROD}/acls", acl(host=" 10.0.0.7"), ENDS),
        ("POST", f"{PROD}/quotas:alter", quotas(1, user="a "), ENDS),
        ("POST", f"{PROD}/quotas:alter", quotas(1, client_id=" a"), ENDS),
        ("PATCH", f"{PROD}/brokers/1", {"rack": "r1 "}, ENDS),
        ("POST", f"{PROD}/brokers", {"broker_id": 9, "endpoint": "b9:9092", "rack": " r"}, ENDS),
        ("POST", f"{PROD}/brokers", {"broker_id": 9, "endpoint": "b9:9092 "}, "must be HOST:PORT"),
        ("PUT", f"{PROD}/users/%20alice", {"password": "secret"}, "begins or ends with a space"),
        ("POST", f"{PROD}/configs:alter", {"configs": {"log.retention.ms ": "1"}}, "unknown setting"),
    ],
)
async def test_a_space_around_a_name_is_refused_in_words(
    zookeeper: MemoryZooKeeper, method: str, path: str, body: dict[str, Any], said: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        answer = await rest.client.request(method, path, json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert said in answer.text


async def test_what_has_such_a_name_from_elsewhere_can_still_be_taken_away(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        removed = await rest.client.post(f"{PROD}/acls:delete", json={"principal": "User: a"})
        assert removed.status_code == 200, removed.text
        unset = await rest.client.post(f"{PROD}/quotas:alter", json=quotas(None, user="a "))
        assert unset.status_code == 200, unset.text
        assert problem(await rest.client.delete(f"{PROD}/users/%20alice")) == (404, "user_not_found")


async def test_spaces_around_free_text_go(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        body = {"labels": {"owner": " storage "}, "reason": "  moved  "}
        changed = await rest.client.patch(f"{PROD}/brokers/1", json=body)
        assert changed.json()["labels"] == {"owner": "storage"}
        (row, *_) = await rest.recorded(kind="request")
        assert row["reason"] == "moved"
