"""A protected cluster: nobody changes it without a reason and the ETag of what they looked at, and only an
admin lifts that."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from admin_api.http.gate import BROKERS_PREFIX, SAFE_METHODS
from springtide.contract.security import STANDARD_AUTHORIZER
from tests.kit.admin_api.document import parameters_of
from tests.kit.admin_api.plans import SETTING, protect
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = "/clusters/prod/topics/orders"
RETENTION = f"{TOPIC}/configs/retention.ms"


async def protected(rest: Rest) -> None:
    await rest.form()
    await rest.create_topic()
    assert (await protect(rest)).status_code == 200
    assert (await rest.client.get("/clusters/prod")).json()["protected"] is True


async def test_a_change_needs_a_reason_and_the_tag_of_what_it_changes(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await protected(rest)
        tag = (await rest.client.get(RETENTION)).headers["etag"]
        refused = await rest.client.put(RETENTION, json={"value": "1000"}, headers={"If-Match": tag})
        assert problem(refused) == (422, "reason_required")
        assert pointers(refused) == ["/reason"]
        body = {"value": "1000", "reason": "disks are full"}
        assert problem(await rest.client.put(RETENTION, json=body)) == (428, "precondition_required")
        assert (await rest.client.get(RETENTION)).json()["source"] == "default"
        done = await rest.client.put(RETENTION, json=body, headers={"If-Match": tag})
        assert (done.status_code, done.json()["value"]) == (200, "1000")
        stale = await rest.client.put(RETENTION, json=body, headers={"If-Match": tag})
        assert problem(stale) == (412, "precondition_failed")


async def test_a_deletion_says_why_in_its_query(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await protected(rest)
        tag = {"If-Match": (await rest.client.get(TOPIC)).headers["etag"]}
        for query in ("", "?reason=", "?reason=%20"):
            refused = await rest.client.delete(f"{TOPIC}{query}", headers=tag)
            assert problem(refused) == (422, "reason_required")
            assert pointers(refused) == ["reason"]
        assert (await rest.client.delete(f"{TOPIC}?reason=unused", headers=tag)).status_code == 202


async def test_what_creates_needs_a_reason_only(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await protected(rest)
        body = {"name": "bills", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        assert problem(await rest.post("/topics", body)) == (422, "reason_required")
        assert (await rest.post("/topics", body | {"reason": "accounting"})).status_code == 201


async def test_a_dry_run_needs_neither(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await protected(rest)
        tried = await rest.client.put(f"{RETENTION}?dry_run=true", json={"value": "1000"})
        assert tried.status_code == 200
        assert (await rest.client.delete(f"{TOPIC}?dry_run=true")).status_code == 200


async def test_an_operation_is_stopped_without_its_tag_but_not_without_a_word(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(4)
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
        assignment = f"{TOPIC}/partitions/0/assignment"
        moving = (await rest.client.put(assignment, json={"replicas": [4, 2, 3]})).headers["location"]
        assert (await protect(rest)).status_code == 200
        assert problem(await rest.post(f"{moving}:cancel", {})) == (422, "reason_required")
        assert (await rest.post(f"{moving}:cancel", {"reason": "clients time out"})).status_code == 202


async def test_the_key_of_a_refused_request_is_free_for_the_one_that_brings_what_was_missing(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await protected(rest)
        body = {"name": "bills", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        assert problem(await rest.post("/topics", body, Idempotency_Key="k")) == (422, "reason_required")
        done = await rest.post("/topics", body | {"reason": "accounting"}, Idempotency_Key="k")
        assert done.status_code == 201


async def test_only_an_admin_protects_a_cluster_or_lifts_that(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        created = await ask(rest, "POST", "/clusters", "operator", json={"name": "prod"})
        tag = {"If-Match": created.headers["etag"]}
        body = {"value": "true", "reason": "it earns money"}
        alter = {"configs": {"cluster.protected": "false", "num.partitions": "3"}, "reason": "r"}
        for role in ("operator", "admin"):
            expected = 200 if role == "admin" else 403
            assert (await ask(rest, "PUT", SETTING, role, json=body, headers=tag)).status_code == expected
        cluster = await ask(rest, "GET", "/clusters/prod", "viewer")
        assert cluster.json()["protected"] is True
        tag = {"If-Match": cluster.headers["etag"]}
        lifts: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("DELETE", f"{SETTING}?reason=r", {}),
            ("PUT", SETTING, {"json": {"value": "false", "reason": "r"}}),
            ("POST", "/clusters/prod/configs:alter", {"json": alter}),
        )
        for method, path, options in lifts:
            refused = await ask(rest, method, path, "operator", headers=tag, **options)
            assert problem(refused) == (403, "forbidden")
        others = {"configs": {"num.partitions": "3"}, "reason": "r"}
        done = await ask(rest, "POST", "/clusters/prod/configs:alter", "operator", headers=tag, json=others)
        assert done.status_code == 200
        tag = {"If-Match": done.headers["etag"]}
        assert (await ask(rest, "DELETE", f"{SETTING}?reason=r", "admin", headers=tag)).status_code == 200
        assert (await ask(rest, "GET", "/clusters/prod", "viewer")).json()["protected"] is False


@pytest.mark.parametrize(
    ("name", "value"),
    [("authorizer.class.name", ""), ("super.users", "User:ann"), ("allow.everyone.if.no.acl.found", "true")],
)
async def test_only_an_admin_says_what_clients_may_do(
    name: str, value: str, zookeeper: MemoryZooKeeper
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await ask(rest, "POST", "/clusters", "operator", json={"name": "prod"})
        path = f"/clusters/prod/configs/{name}"
        other = {"name": "test", "configs": {name: value}}
        for role, is_allowed in (("operator", False), ("admin", True)):
            changed = await ask(rest, "PUT", path, role, json={"value": value})
            created = await ask(rest, "POST", "/clusters", role, json=other)
            expected = (200, 201) if is_allowed else (403, 403)
            assert (changed.status_code, created.status_code) == expected


async def test_the_authorizer_is_refused_with_the_broker_that_has_no_tls(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        body = {"value": STANDARD_AUTHORIZER}
        refused = await rest.client.put("/clusters/prod/configs/authorizer.class.name", json=body)
        assert problem(refused) == (409, "broker_without_tls")


async def test_every_write_of_a_cluster_has_room_for_a_reason(zookeeper: MemoryZooKeeper) -> None:
    """Or a protected cluster could not be changed that way at all."""
    async with controller(zookeeper) as rest:
        document = rest.app.openapi()
        looked_at = 0
        for route in rest.app.routes:
            if not isinstance(route, APIRoute) or route.path.startswith(BROKERS_PREFIX):
                continue
            for method in sorted((route.methods or set()) - SAFE_METHODS):
                path = re.sub(r":[a-z_]+}", "}", route.path)
                operation = document["paths"][path][method.lower()]
                if method == "DELETE":
                    named = {parameter["name"] for parameter in parameters_of(document, operation)}
                    assert "reason" in named, path
                else:
                    schema = operation["requestBody"]["content"]["application/json"]["schema"]
                    for one in schema.get("anyOf", schema.get("oneOf", [schema])):
                        name = one.get("$ref", "").rpartition("/")[2]
                        model = document["components"]["schemas"].get(name, one)
                        assert "reason" in model["properties"], path
                looked_at += 1
        assert looked_at > 20
