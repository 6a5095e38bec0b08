from __future__ import annotations

import msgspec
import pytest
from fastapi.routing import APIRoute

from admin_api.http.gate import BROKERS_PREFIX, SAFE_METHODS
from admin_api.http.routes import StrictRoute
from admin_api.settings import ApiSettings
from springtide.contract.errors import ControllerError
from springtide.contract.session import RegisterResponse
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

READ_ONLY = ApiSettings(read_only=True)
TOPIC = {"name": "orders", "cluster": "prod", "partitions": 1, "replication_factor": 1}


def written_paths(rest: Rest) -> list[tuple[str, str]]:
    """Every (method, path) of an operator that could change something, of whatever routes there are."""
    values = {"cluster": "prod", "topic": "orders", "partition": "0", "partition:int": "0", "broker_id": "1"}
    found = []
    for route in rest.app.routes:
        if not isinstance(route, APIRoute) or route.path.startswith(BROKERS_PREFIX):
            continue
        path = route.path
        for name, value in values.items():
            path = path.replace("{" + name + "}", value)
        found += [(method, path) for method in (route.methods or set()) - SAFE_METHODS]
    return found


async def test_a_read_only_controller_refuses_every_write_and_serves_reads_and_brokers(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, name="c1") as writable:
        await writable.form()
        await writable.create_topic()
    async with controller(zookeeper, name="c2", settings=READ_ONLY) as rest:
        writes = written_paths(rest)
        assert len(writes) >= 6
        for method, path in [*writes, ("PUT", "/clusters/prod"), ("POST", "/nothing"), ("BREW", "/clusters")]:
            refused = await rest.client.request(method, path, json={})
            assert problem(refused) == (403, "read_only"), (method, path)
            assert refused.json()["hint"]
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 200
        assert (await rest.client.get("/readyz")).json()["read_only"] is True
        assert await rest.recorded(kind="request") == []
        answered = await rest.client.post(
            "/internal/clusters/prod/brokers/4:register",
            content=msgspec.json.encode(Broker(rest.engine, 4).request),
        )
        registered = msgspec.json.decode(answered.content, type=RegisterResponse)
        assert (registered.error, registered.broker_epoch > 0) == (ControllerError.NONE, True)


async def test_dry_runs_change_nothing_and_so_are_not_refused(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, name="c1") as writable:
        await writable.form()
    async with controller(zookeeper, name="c2", settings=READ_ONLY) as rest:
        planned = await rest.post("/clusters?dry_run=true", {"name": "test"})
        assert planned.status_code == 200
        for query in ("dry_run=false", "dry_run=True", "dry_run=1", "dry_run", "dry_run=", "x=dry_run=true"):
            assert problem(await rest.post(f"/topics?{query}", TOPIC)) == (403, "read_only"), query
        for query in ("dry_run=true&dry_run=false", "dry_run=true&dry%5Frun=false"):
            assert problem(await rest.post(f"/topics?{query}", TOPIC)) == (422, "invalid_request"), query
        assert (await rest.client.get("/clusters/prod/topics")).json()["items"] == []


async def test_every_route_of_operators_refuses_a_dry_run_that_it_does_not_know(
    zookeeper: MemoryZooKeeper,
) -> None:
    """What lets a dry run through a read-only gate."""
    async with controller(zookeeper) as rest:
        operators = [
            route
            for route in rest.app.routes
            if isinstance(route, APIRoute) and not route.path.startswith(BROKERS_PREFIX)
        ]
        assert len(operators) > 20
        for route in operators:
            assert isinstance(route, StrictRoute), route.path
