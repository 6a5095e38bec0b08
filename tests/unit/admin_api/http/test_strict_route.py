from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Query, Response
from fastapi.routing import APIRoute

from admin_api.http.problems import FieldProblem
from admin_api.http.routes import StrictRoute, TextRoute
from admin_api.settings import ApiSettings


def _app(router: APIRouter) -> FastAPI:
    app = FastAPI(openapi_url=None)
    app.state.settings = ApiSettings()
    app.router.routes.extend(router.routes)
    return app


@pytest.mark.anyio
async def test_a_route_is_worked_out_when_it_is_first_asked_and_then_is_like_any_other() -> None:
    async def count(response: Response, first: Annotated[int, Query(ge=1)] = 1) -> int:
        """Counts."""
        return first

    lazy, eager = APIRouter(route_class=TextRoute), APIRouter()
    for router in (lazy, eager):
        router.add_api_route("/count/{of:word}", count, methods=["GET"], operation_id="count", tags=["T"])
    route, other = lazy.routes[0], eager.routes[0]
    assert isinstance(route, TextRoute)
    assert isinstance(other, APIRoute)
    assert "dependant" not in vars(route)
    assert (route.path, route.methods, route.name) == (other.path, other.methods, other.name)
    transport = httpx.ASGITransport(_app(lazy))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post("/count/x")).status_code == 405
        assert "dependant" not in vars(route)
        for _ in range(2):
            assert (await client.get("/count/x", params={"first": 7})).text == "7"
    assert "dependant" in vars(route)
    assert vars(route).keys() - {"_pending"} == vars(other).keys()
    for name in ("operation_id", "tags", "description", "status_code", "unique_id", "include_in_schema"):
        assert getattr(route, name) == getattr(other, name), name


def test_asking_about_a_route_works_it_out_and_what_no_route_has_it_does_not_have() -> None:
    async def ask() -> None: ...

    router = APIRouter(route_class=StrictRoute, tags=["T"])
    router.add_api_route("/ask", ask, include_in_schema=False)
    route = router.routes[0]
    assert not hasattr(route, "colour")
    assert isinstance(route, StrictRoute)
    assert route.tags == ["T"]
    assert not hasattr(route, "colour")


def test_a_route_that_can_not_be_worked_out_says_so_each_time() -> None:
    async def wrong() -> None: ...

    router = APIRouter(route_class=StrictRoute)
    router.add_api_route("/wrong", wrong, responses={204: {"model": FieldProblem}})
    for _ in range(2):
        with pytest.raises(AssertionError, match="must not have a response body"):
            _ = router.routes[0].dependant  # type: ignore[attr-defined]


def test_a_controller_starts_without_working_out_its_routes() -> None:
    script = (
        "import controller.__main__, sys; from admin_api.topics.routes import router; "
        "assert not any('dependant' in vars(route) for route in router.routes); "
        "assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
