"""What each request needs, as a table; who may send it, by a role or by the cluster's ACLs."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute

from admin_api.http.gate import BROKERS_PREFIX, SAFE_METHODS, is_open
from admin_api.http.rights import GIVEN, NEEDS, READS_RECORDS, Area, Right, gives, roles_that_give
from admin_api.http.routes import StrictRoute
from admin_api.http.tokens import Role
from springtide.contract.security import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from springtide.security.acls.model import Operation
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

TOPICS = "/clusters/prod/topics"
QUOTAS = "/clusters/prod/quotas:alter"
PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


def test_roles_grow_and_brokers_have_no_right_over_rest() -> None:
    rights = [Right(area, operation) for area in Area for operation in Operation]
    given = [{right for right in rights if gives(role, right)} for role in PEOPLE]
    assert given[0] < given[1] < given[2]
    assert GIVEN[Role.BROKER] == {}


def test_each_right_that_a_request_needs_is_given_by_some_role_and_a_dry_run_needs_no_more() -> None:
    for area, operation in {*NEEDS.values()} - {NEEDS[READS_RECORDS]}:
        right = Right(area, operation)
        roles = roles_that_give(right)
        assert roles, right
        assert set(roles) <= set(roles_that_give(right.tried))


@pytest.mark.anyio
async def test_each_route_is_guarded_and_each_request_of_the_document_is_in_the_table(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        methods: dict[str, set[str]] = {}
        for route in rest.app.routes:
            assert isinstance(route, APIRoute)
            if route.path.startswith(BROKERS_PREFIX):
                continue
            assert isinstance(route, StrictRoute), route.path
            for method in route.methods or ():
                if not is_open({"method": method, "path": route.path}):
                    methods.setdefault(str(route.operation_id), set()).add(method)
        assert set(methods) == set(NEEDS)
        for operation_id, named in methods.items():
            is_read = NEEDS[operation_id][1] in READS or operation_id == READS_RECORDS
            assert is_read == (named <= SAFE_METHODS), operation_id


READS = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


ON = {AUTHORIZER: STANDARD_AUTHORIZER}


async def authorized(rest: Rest, *bindings: dict[str, Any], configs: dict[str, str] = ON) -> None:
    """Make the cluster, with an authorizer, settings and ACLs."""
    body = {"name": "prod", "configs": configs}
    assert (await ask(rest, "POST", "/clusters", "admin", json=body)).status_code == 201
    if bindings:
        added = await ask(rest, "POST", "/clusters/prod/acls", "admin", json={"bindings": list(bindings)})
        assert added.status_code == 200, added.text


def allow(resource_type: str, name: str, operation: str, **fields: Any) -> dict[str, Any]:
    given = {"resource_type": resource_type, "resource_name": name, "operation": operation}
    return {"principal": "User:the-viewer", **given, **fields}


async def create(rest: Rest, name: str, role: str = "viewer") -> tuple[int, str]:
    """Ask for a topic; without brokers, one that is let in is told that there are too few."""
    return problem(await ask(rest, "POST", TOPICS, role, json={"name": name, "replication_factor": 1}))


LET_IN = (422, "replication_factor_too_large")
REFUSED = (403, "forbidden")
ALTER = {"entities": [{"user": "x", "quotas": {"producer_byte_rate": 1.0}}]}


@pytest.mark.anyio
async def test_what_a_role_does_not_give_the_acls_of_the_cluster_may(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        own = allow("topic", "team-", "create", pattern_type="prefixed", host="10.0.0.7")
        await authorized(rest, own, allow("topic", "team-", "create", host="10.0.0.8"))
        assert await create(rest, "team-a") == LET_IN
        assert await create(rest, "other") == REFUSED
        assert problem(await ask(rest, "DELETE", f"{TOPICS}/team-a", "viewer")) == REFUSED
        await ask(
            rest, "POST", "/clusters/prod/acls", "admin", json={"bindings": [allow("topic", "*", "delete")]}
        )
        assert problem(await ask(rest, "DELETE", f"{TOPICS}/team-a", "viewer")) == (404, "topic_not_found")
        # The path names no cluster whose ACLs could count.
        elsewhere = await ask(rest, "POST", "/topics", "viewer", json={"name": "team-a"})
        assert problem(elsewhere) == REFUSED


@pytest.mark.anyio
async def test_a_standby_that_has_not_read_the_acls_yet_refuses_nobody_for_them(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as active:
        await authorized(active, allow("topic", "orders", "create"))
        async with controller(zookeeper, name="c2", tokens=TOKENS, is_active=False) as standby:
            assert await create(standby, "orders") == (503, "no_active_controller")
            await standby.clock.sleep_ms(5_000)
            assert await create(standby, "orders") == (307, "not_the_active_controller")


@pytest.mark.anyio
async def test_topics_are_created_by_the_right_to_create_them_in_the_cluster_too(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("cluster", "kafka-cluster", "create"))
        assert await create(rest, "orders") == LET_IN


@pytest.mark.anyio
async def test_a_change_of_settings_is_undone_by_whom_acls_let_set_the_value(
    zookeeper: MemoryZooKeeper,
) -> None:
    """Its path does not tell whose settings it is about: the route asks, as for the change itself."""
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("topic", "*", "alter_configs"))
        for name, value in (("num.partitions", "3"), ("cluster.protected", "false")):
            path = f"/clusters/prod/configs/{name}"
            await ask(rest, "PUT", path, "admin", json={"value": value})
        await rest.outbox.flush()
        listed = (await ask(rest, "GET", "/clusters/prod/config-changes", "viewer")).json()["items"]
        guard, plain = (f"/clusters/prod/config-changes/{item['id']}:undo" for item in listed)
        for path in (guard, plain):
            assert problem(await ask(rest, "POST", path, "viewer", json={})) == REFUSED
        more = {"bindings": [allow("cluster", "kafka-cluster", "alter_configs")]}
        await ask(rest, "POST", "/clusters/prod/acls", "admin", json=more)
        assert problem(await ask(rest, "POST", guard, "viewer", json={})) == REFUSED, "that takes an admin"
        assert (await ask(rest, "POST", plain, "viewer", json={})).status_code == 200


@pytest.mark.anyio
async def test_more_replicas_of_a_topic_take_the_right_to_move_replicas(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("topic", "orders", "alter"))
        path = f"{TOPICS}/orders"
        more = await ask(rest, "PATCH", path, "viewer", json={"partitions": 6})
        assert problem(more) == (404, "topic_not_found")
        assert problem(await ask(rest, "PATCH", path, "viewer", json={"replication_factor": 2})) == REFUSED


@pytest.mark.anyio
async def test_a_principal_that_may_alter_the_cluster_changes_acls_over_both_doors(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("cluster", "kafka-cluster", "alter"))
        assert (await ask(rest, "GET", "/clusters/prod/acls", "viewer")).status_code == 200
        body = {"bindings": [allow("cluster", "kafka-cluster", "alter_configs")]}
        assert (await ask(rest, "POST", "/clusters/prod/acls", "viewer", json=body)).status_code == 200
        assert (
            await ask(rest, "POST", "/clusters/prod/quotas:alter", "viewer", json=ALTER)
        ).status_code == 200
        protect = {"value": "true"}
        path = "/clusters/prod/configs/cluster.protected"
        assert problem(await ask(rest, "PUT", path, "viewer", json=protect)) == REFUSED
        assert problem(await ask(rest, "DELETE", "/clusters/prod/policies/x", "viewer")) == REFUSED


@pytest.mark.anyio
async def test_super_users_are_so_over_rest_but_for_what_may_lose_records(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, configs=ON | {SUPER_USERS: "User:the-viewer"})
        assert await create(rest, "orders") == LET_IN
        assert (
            await ask(rest, "POST", "/clusters/prod/quotas:alter", "viewer", json=ALTER)
        ).status_code == 200
        assert problem(await ask(rest, "DELETE", "/clusters/prod/policies/x", "viewer")) == REFUSED


@pytest.mark.anyio
async def test_neither_a_default_nor_acls_that_do_not_decide_open_anything(
    zookeeper: MemoryZooKeeper,
) -> None:
    everything = allow("topic", "*", "create")
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, everything, configs={})
        assert await create(rest, "orders") == REFUSED
    async with controller(MemoryZooKeeper(), tokens=TOKENS) as rest:
        await authorized(rest, configs=ON | {ALLOW_EVERYONE: "true"})
        assert await create(rest, "orders") == REFUSED


@pytest.mark.anyio
async def test_a_denial_is_for_clients_and_takes_nothing_from_a_role(zookeeper: MemoryZooKeeper) -> None:
    denial = allow("topic", "orders", "create", permission="deny", principal="User:*")
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("topic", "*", "create"), denial)
        assert await create(rest, "other") == LET_IN
        assert await create(rest, "orders") == REFUSED
        assert await create(rest, "orders", "operator") == LET_IN


@pytest.mark.anyio
async def test_the_token_of_a_broker_gets_nothing_from_acls(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, allow("topic", "*", "create", principal="User:the-broker"))
        assert await create(rest, "orders", "broker") == REFUSED


@pytest.mark.anyio
async def test_a_refusal_names_what_was_missing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await authorized(rest, configs={})
        refused = (await ask(rest, "POST", f"{TOPICS}", "viewer", json={"name": "orders"})).json()
        assert refused["detail"] == (
            "this needs create on topic '*', which the role viewer of the-viewer does not give; the role "
            "operator does"
        )
        path = f"{TOPICS}/orders/configs/retention.ms"
        refused = (await ask(rest, "DELETE", path, "viewer")).json()
        assert refused["facts"] == {
            "role": "viewer",
            "needed": "operator",
            "operation": "alter_configs",
            "resource_type": "topic",
            "resource_name": "orders",
        }
    async with controller(MemoryZooKeeper(), tokens=TOKENS) as rest:
        await authorized(rest)
        refused = (await ask(rest, "POST", TOPICS, "viewer", json={"name": "orders"})).json()
        assert refused["detail"] == (
            "this needs create on topic 'orders', which the role viewer of the-viewer does not give, and no "
            "ACL does; the role operator does"
        )
