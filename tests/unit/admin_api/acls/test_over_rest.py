"""Why a principal may, or may not, send a request over REST: its role, its ACLs, and which would give it."""

from __future__ import annotations

from typing import Any

import pytest

from admin_api.http.tokens import Tokens
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

EXPLAIN = "/clusters/prod/acls:explain"
CREATE = "POST /clusters/prod/topics"
BINDING = {
    "resource_type": "topic",
    "resource_name": "orders",
    "principal": "User:the-viewer",
    "operation": "create",
}
ADD = {"pattern_type": "literal", "host": "*", "permission": "allow", **BINDING}


async def cluster(rest: Rest, *bindings: dict[str, Any], on: bool = True) -> None:
    body = {"name": "prod", "configs": {AUTHORIZER: STANDARD_AUTHORIZER} if on else {}}
    assert (await ask(rest, "POST", "/clusters", "admin", json=body)).status_code == 201
    if bindings:
        added = {"bindings": list(bindings)}
        assert (await ask(rest, "POST", "/clusters/prod/acls", "admin", json=added)).status_code == 200


async def told(rest: Rest, request: str, principal: str = "User:the-viewer", **query: str) -> dict[str, Any]:
    asked = {"principal": principal, "request": request, **query}
    answer = await ask(rest, "GET", EXPLAIN, "operator", params=asked)
    assert answer.status_code == 200, answer.text
    explained: dict[str, Any] = answer.json()
    return explained


async def test_a_request_is_explained_by_the_right_that_it_needs(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await cluster(rest)
        explained = await told(rest, CREATE, resource_name="orders")
        assert explained["words"] == (
            "User:the-viewer may not POST /clusters/prod/topics, which needs create on topic 'orders': its "
            "role viewer does not give it, the role operator does; its ACLs do not give it"
        )
        assert (explained["allowed"], explained["remove"], explained["add"]) == (False, [], ADD)
        assert explained["rest"] == {
            "request": CREATE,
            "needs": {"operation": "create", "resource_type": "topic", "resource_name": "orders"},
            "allowed": False,
            "role": "viewer",
            "roles": ["operator", "admin"],
            "given_by_role": False,
            "given_by_acls": False,
            "words": explained["words"],
        }
        by_role = await told(rest, CREATE, "User:the-operator", resource_name="orders")
        assert (by_role["allowed"], by_role["rest"]["given_by_role"], by_role["add"]) == (True, True, None)
        assert "its role operator gives it" in by_role["words"]


async def test_what_is_explained_is_what_is_done(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await cluster(rest, BINDING)
        explained = await told(rest, CREATE, resource_name="orders")
        assert (explained["allowed"], explained["rest"]["given_by_acls"]) == (True, True)
        assert explained["words"].endswith("; its ACLs give it")
        answer = await ask(rest, "POST", "/clusters/prod/topics", "viewer", json={"name": "orders"})
        assert answer.status_code != 403
        assert (await told(rest, CREATE, resource_name="other"))["allowed"] is False


@pytest.mark.parametrize(
    ("request_text", "needs", "words"),
    [
        ("GET /clusters/prod/users/a/b", ("describe", "access"), "its role viewer does not give it"),
        ("delete /clusters/prod/policies/x", ("alter", "protection"), "no ACL can give it"),
        ("POST /operations/op_1:cancel", ("alter", "cluster"), "its path names no cluster"),
        (
            "POST /clusters/prod/acls?dry_run=true",
            ("describe", "access"),
            "ACLs do not count, since the cluster",
        ),
        ("POST /clusters/prod/groups/a%2Fb:reset-offsets", ("read", "group"), "needs read on group 'a/b'"),
    ],
)
async def test_each_request_of_the_interface_can_be_asked_about(
    zookeeper: MemoryZooKeeper, request_text: str, needs: tuple[str, str], words: str
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await cluster(rest, on=False)
        explained = await told(rest, request_text)
        found = explained["rest"]["needs"]
        assert (found["operation"], found["resource_type"]) == needs
        assert words in explained["words"]
        if needs[1] == "protection":
            assert (explained["add"], explained["rest"]["roles"]) == (None, ["admin"])


async def test_what_a_client_may_over_kafka_is_told_beside_what_it_may_over_rest(
    zookeeper: MemoryZooKeeper,
) -> None:
    asked = {**BINDING, "principal": "User:the-operator"}
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await cluster(rest)
        explained = (await ask(rest, "GET", EXPLAIN, "operator", params=asked)).json()
        assert (explained["allowed"], explained["reason"], explained["rest"]["allowed"]) == (
            False,
            "no_binding",
            True,
        )
        read = (await ask(rest, "GET", EXPLAIN, "operator", params={**asked, "operation": "read"})).json()
        assert (read["rest"]["roles"], read["rest"]["allowed"]) == ([], False)
        elsewhere = {**asked, "resource_type": "transactional_id", "operation": "write"}
        assert (await ask(rest, "GET", EXPLAIN, "operator", params=elsewhere)).json()["rest"] is None


@pytest.mark.parametrize("tokens", [TOKENS, None])
async def test_a_principal_without_a_token_has_no_role_unless_none_is_needed(
    zookeeper: MemoryZooKeeper, tokens: Tokens | None
) -> None:
    async with controller(zookeeper, tokens=tokens) as rest:
        await cluster(rest)
        explained = await told(rest, CREATE, "User:stranger")
        assert (explained["rest"]["role"], explained["allowed"]) == (None, tokens is None)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"request": "GET /nothing"}, ["request"]),
        ({"request": "GET /clusters/test/topics"}, ["request"]),
        ({"request": "POST /internal/clusters/prod/brokers/1:register"}, ["request"]),
        ({"request": "x"}, ["request"]),
        ({"request": CREATE, "operation": "read", "resource_type": "topic"}, ["operation", "resource_type"]),
        ({"operation": "read"}, ["resource_type", "resource_name"]),
    ],
)
async def test_a_question_that_is_none_is_refused(
    zookeeper: MemoryZooKeeper, query: dict[str, str], names: list[str]
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await cluster(rest, on=False)
        asked = {"principal": "User:a", **query}
        refused = await ask(rest, "GET", EXPLAIN, "operator", params=asked)
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), names)
        long = {"principal": "User:a", "request": f"GET /clusters/prod/topics/{'x' * 1_500}"}
        assert problem(await ask(rest, "GET", EXPLAIN, "operator", params=long)) == (422, "invalid_acl")
