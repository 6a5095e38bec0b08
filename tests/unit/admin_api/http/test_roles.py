from __future__ import annotations

import msgspec
import pytest
from fastapi.routing import APIRoute

from admin_api.http.gate import BROKERS_PREFIX, SAFE_METHODS
from admin_api.http.tokens import load_tokens
from admin_api.settings import ApiSettings
from springtide.contract.errors import ControllerError
from springtide.contract.session import RegisterResponse
from tests.kit.admin_api.rest import SECRETS, TOKENS, ask, bearer, controller, pointers, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

REGISTER = f"{BROKERS_PREFIX}clusters/prod/brokers/1:register"
CLUSTER = {"name": "prod"}
OPEN = (
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/docs/swagger-ui.css",
    "/problems",
    "/problems/forbidden",
)
PREFIXES = ("/docs/", "/problems/", "/console/")


async def test_without_a_token_only_probes_and_explanations_are_served(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        asked = 0
        for route in rest.app.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods or ():
                if route.path in ("/", *OPEN) or route.path.startswith(PREFIXES):
                    continue
                response = await rest.client.request(method, route.path)
                assert problem(response) == (401, "unauthenticated"), (method, route.path)
                assert response.headers["www-authenticate"] == 'Bearer realm="springtide"'
                asked += 1
        assert asked > 20
        for path in OPEN:
            assert (await rest.client.get(path)).status_code == 200, path
            assert problem(await rest.client.post(path))[0] == 401, path
        assert problem(await rest.client.get("/nothing"))[0] == 401, "what exists is nobody's to find out"
        for path in ("/docs/../clusters", "/docs/%2e%2e/clusters", "/problems/../metrics"):
            assert problem(await rest.client.get(path))[0] in (401, 404), path


async def test_what_is_no_valid_token_is_refused(zookeeper: MemoryZooKeeper) -> None:
    secret = SECRETS["admin"]
    async with controller(zookeeper, tokens=TOKENS) as rest:
        for value in (
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {secret}0",
            f"Bearer {secret[:-1]}",
            f"Bearer {secret} {secret}",
            f"Basic {secret}",
            secret,
            f"Bearer {'a' * 5_000}",
        ):
            refused = await rest.client.get("/clusters", headers={"Authorization": value})
            assert problem(refused) == (401, "unauthenticated"), value
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
            assert secret not in refused.text
        twice = [("Authorization", f"Bearer {secret}")] * 2
        assert problem(await rest.client.get("/clusters", headers=twice))[0] == 401
        for scheme in ("Bearer", "bearer", "BEARER"):
            headers = {"Authorization": f"{scheme} {secret}"}
            assert (await rest.client.get("/clusters", headers=headers)).status_code == 200


async def test_each_role_does_what_it_is_for_and_no_more(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        assert problem(await ask(rest, "POST", "/clusters", "viewer", json=CLUSTER)) == (403, "forbidden")
        tried = await ask(rest, "POST", "/clusters?dry_run=true", "viewer", json=CLUSTER)
        assert tried.status_code == 200
        created = await ask(rest, "POST", "/clusters", "operator", json=CLUSTER)
        assert created.status_code == 201
        for role in ("viewer", "operator", "admin"):
            assert (await ask(rest, "GET", "/clusters/prod", role)).status_code == 200
            assert (await ask(rest, "GET", "/metrics", role)).status_code == 200
            refused = await ask(rest, "POST", REGISTER, role, content=b"{}")
            assert problem(refused) == (403, "forbidden")
            assert refused.json()["facts"] == {"role": role, "needed": "broker"}
            assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        for method, path in (("GET", "/clusters"), ("POST", "/clusters?dry_run=true"), ("GET", "/metrics")):
            assert problem(await ask(rest, method, path, "broker", json=CLUSTER)) == (403, "forbidden")
        request = msgspec.json.encode(Broker(rest.engine, 1).request)
        answered = await ask(rest, "POST", REGISTER, "broker", content=request)
        registered = msgspec.json.decode(answered.content, type=RegisterResponse)
        assert registered.error is ControllerError.NONE


async def test_a_viewer_is_refused_every_write_that_there_is(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        writes = [
            # An address that this route answers: "1" is a name and a number.
            (method, route.path_format.format_map(dict.fromkeys(route.param_convertors, "1")))
            for route in rest.app.routes
            if isinstance(route, APIRoute)
            for method in (route.methods or set()) - SAFE_METHODS
        ]
        assert len(writes) >= 10
        for method, path in writes:
            assert problem(await ask(rest, method, path, "viewer", json={})) == (403, "forbidden"), path


async def test_what_may_lose_records_takes_an_admin(zookeeper: MemoryZooKeeper) -> None:
    path = "/clusters/prod/topics/orders/partitions/0:elect-leader"
    body = {"election": "unclean", "broker_id": 1, "partition_epoch": 99, "reason": "lost"}
    topic = {"name": "orders", "partitions": 1, "replication_factor": 3}
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        assert (await ask(rest, "POST", "/topics", "operator", json=topic)).status_code == 201
        refused = await ask(rest, "POST", path, "operator", json=body)
        assert problem(refused) == (403, "forbidden")
        assert refused.json()["facts"]["needed"] == "admin"
        assert problem(await ask(rest, "POST", path, "admin", json=body)) == (409, "partition_changed")
        tried = await ask(rest, "POST", f"{path}?dry_run=true", "viewer", json=body)
        assert problem(tried) == (409, "partition_changed"), "looking at what would be lost is for everybody"
        preferred = await ask(rest, "POST", path, "operator", json={"election": "preferred"})
        assert problem(preferred) == (409, "election_not_needed")


async def test_a_token_with_ids_speaks_for_these_brokers_and_coordinators_only(
    zookeeper: MemoryZooKeeper,
) -> None:
    bound = f"store1 broker:1,1001 {SECRETS['broker']};an-admin admin {SECRETS['admin']}"
    async with controller(zookeeper, tokens=load_tokens(file=None, environment=bound)) as rest:
        assert (await ask(rest, "POST", "/clusters", "admin", json=CLUSTER)).status_code == 201
        for number in (1, 2):
            request = msgspec.json.encode(Broker(rest.engine, number).request)
            path = f"{BROKERS_PREFIX}clusters/prod/brokers/{number}:register"
            answered = await ask(rest, "POST", path, "broker", content=request)
            if number == 1:
                assert answered.status_code == 200
            else:
                assert problem(answered) == (403, "forbidden")
                assert answered.json()["detail"] == "the token of store1 is for 1, 1001 only"
        nodes = f"{BROKERS_PREFIX}clusters/prod"
        # The id of the path is that of the body: 409, not another broker's registration.
        other = msgspec.json.encode(Broker(rest.engine, 2).request)
        assert (
            await ask(rest, "POST", f"{nodes}/brokers/1:register", "broker", content=other)
        ).status_code == 409
        others = ("brokers/2:poll", "brokers/1000002:poll", "coordinators/1002:poll")
        for path in (*others, "brokers/+1:poll", "brokers/1/2:poll", "x"):
            refused = await ask(rest, "POST", f"{nodes}/{path}", "broker", content=b"{}")
            assert problem(refused) == (403, "forbidden"), path
        for path in ("coordinators/1001:poll", "brokers/1000001:poll"):  # one of its own, and its worker 1
            unreadable = await ask(rest, "POST", f"{nodes}/{path}", "broker", content=b"{}")
            assert unreadable.status_code == 400


async def test_the_audit_names_who_holds_the_token(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        rest.client.headers.update(bearer("operator"))
        created = await rest.post("/clusters", CLUSTER)
        assert created.json()["last_change"]["actor"] == "the-operator"
        assert {row["actor"] for row in await rest.recorded(cluster="prod")} == {"the-operator"}
        pretended = await rest.post("/clusters", {"name": "test"}, X_Actor="alice")
        assert (problem(pretended), pointers(pretended)) == ((422, "invalid_request"), ["X-Actor"])
        assert (await rest.post("/clusters", {"name": "test"}, X_Actor="the-operator")).status_code == 201


async def test_a_read_only_controller_is_so_for_every_role(zookeeper: MemoryZooKeeper) -> None:
    settings = ApiSettings(read_only=True)
    async with controller(zookeeper, tokens=TOKENS, settings=settings) as rest:
        assert problem(await ask(rest, "POST", "/clusters", "admin", json=CLUSTER)) == (403, "read_only")
        assert problem(await ask(rest, "POST", "/clusters", "viewer", json=CLUSTER)) == (403, "forbidden")
        assert problem(await rest.client.post("/clusters", json=CLUSTER)) == (401, "unauthenticated")


async def test_the_document_says_where_a_token_is_taken(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        document = rest.app.openapi()
        (name,) = document["components"]["securitySchemes"]
        assert document["components"]["securitySchemes"][name]["scheme"] == "bearer"
        assert document["security"] == [{name: []}, {}]
        for path, operations in document["paths"].items():
            for operation in operations.values():
                is_free = path in OPEN or path.startswith("/problems")
                assert (operation.get("security") == []) == is_free, path
                assert ("401" in operation["responses"]) == (not is_free), path
                assert ("403" in operation["responses"]) == (not is_free), path


async def test_without_tokens_everybody_may_do_everything(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        assert (await rest.post("/clusters", CLUSTER)).status_code == 201
        assert (await rest.post("/clusters", {"name": "b"}, Authorization="Bearer x")).status_code == 201


async def test_a_page_of_another_site_changes_nothing_without_a_token(zookeeper: MemoryZooKeeper) -> None:
    """A browser sends along the user's certificate, and whatever loopback asks for."""
    async with controller(zookeeper) as rest:
        own = str(rest.client.base_url).rstrip("/")
        for origin in ("http://evil.example", f"{own}0", f"{own}.evil.example", "null", ""):
            refused = await rest.client.post("/clusters", json=CLUSTER, headers={"Origin": origin})
            assert problem(refused) == (403, "other_origin"), origin
            assert (await rest.client.get("/clusters", headers={"Origin": origin})).json()["items"] == []
        made = await rest.client.post("/clusters", json=CLUSTER, headers={"Origin": own.upper()})
        assert made.status_code == 201
    async with controller(zookeeper, name="c2", tokens=TOKENS) as rest:
        headers = {"Origin": "https://portal.example"}
        allowed = await ask(
            rest, "POST", "/clusters?dry_run=true", "admin", json={"name": "b"}, headers=headers
        )
        assert allowed.status_code == 200
