from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi.routing import APIRoute

from admin_api.http.catalogue import CATALOGUE
from admin_api.settings import ApiSettings
from springtide.log_lines import TextFormatter
from tests.kit.admin_api.rest import controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


class Endless(httpx.AsyncByteStream):
    """A body that goes on for as long as somebody reads it."""

    def __init__(self) -> None:
        self.sent = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.sent += 100
        return b" " * 100


JSON = {"Content-Type": "application/json"}
NEW = b'{"name": "orders"}'


NO_JSON = [
    b"",
    b"  \n",
    b"{",
    b'{"name": "orders",}',
    b'{"name": "orders"} {}',
    b'{"name": NaN}',
    b'{"name": Infinity}',
    b'{"name": -Infinity}',
    b'{"name": "a", "name": "b"}',
    b'{"configs": {"a": "1", "a": "2"}}',
    b'{"name": "\xff\xfe"}',
    b"\xef\xbb\xbf{}",
    b'{"name": "\\ud800"}',
    b"[" * 10_000 + b"]" * 10_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b"'orders'",
]


async def test_a_body_that_is_no_json_is_unreadable(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for body in NO_JSON:
            response = await rest.client.post("/topics", content=body, headers=JSON)
            assert problem(response) == (400, "unreadable_body"), body[:40]


async def test_a_body_needs_a_media_type_that_is_json(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for value in (
            None,
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin-1",
        ):
            headers = {} if value is None else {"Content-Type": value}
            refused = await rest.client.post("/topics", content=NEW, headers=headers)
            assert problem(refused) == (415, "unsupported_media_type")
            assert "application/json" in refused.headers["accept"]
        for value in ("application/json; charset=UTF-8", "application/vnd.springtide.v1+json"):
            accepted = await rest.client.post("/topics", content=NEW, headers={"Content-Type": value})
            assert problem(accepted) == (422, "cluster_required")


async def test_an_answer_is_json_or_not_acceptable(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for accept in ("text/html", "application/xml, text/*", "application/json;q=0", "*/*;q=0"):
            refused = await rest.client.get("/clusters", headers={"Accept": accept})
            assert problem(refused) == (406, "not_acceptable")
        for accept in ("*/*", "application/*;q=0.1", "text/html, application/json;q=0.5", ""):
            answered = await rest.client.get("/clusters", headers={"Accept": accept})
            assert (answered.status_code, answered.headers["content-type"]) == (200, "application/json")
        versioned = "application/vnd.springtide.v1+json"
        answered = await rest.client.get("/clusters", headers={"Accept": versioned})
        assert (answered.status_code, answered.headers["content-type"]) == (200, versioned)


async def test_a_body_is_read_no_further_than_its_bound(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(body_bytes_max=1_000)) as rest:
        declared = await rest.client.post("/topics", content=b"{" + b" " * 2_000, headers=JSON)
        assert problem(declared) == (413, "body_too_large")
        assert declared.headers["connection"] == "close"
        body = Endless()
        streamed = await rest.client.send(
            httpx.Request("POST", "http://c1/topics", stream=body, headers=JSON)
        )
        assert problem(streamed) == (413, "body_too_large")
        assert body.sent <= 1_200


async def test_long_targets_and_heavy_headers_are_refused(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        assert problem(await rest.client.get("/clusters/" + "a" * 17_000)) == (414, "target_too_long")
        assert problem(await rest.client.get("/clusters?limit=" + "1" * 17_000)) == (414, "target_too_long")
        heavy = await rest.client.get("/clusters", headers={"X-Junk": "a" * 40_000})
        assert problem(heavy) == (431, "headers_too_large")
        many = await rest.client.get("/clusters", headers={f"X-{n}": "a" for n in range(200)})
        assert problem(many) == (431, "headers_too_large")


async def test_the_longest_reason_fits_a_query_in_any_script(zookeeper: MemoryZooKeeper) -> None:
    """Found by schemathesis: the target's bound was 8 KiB, and such a reason takes 12."""
    async with controller(zookeeper) as rest:
        await rest.form()
        name = "a" * 249
        await rest.create_topic(name)
        reason = "\U0001f600" * 1_000
        deleted = await rest.client.delete(f"/clusters/prod/topics/{name}", params={"reason": reason})
        assert (deleted.status_code, deleted.json()["reason"]) == (202, reason)


NOWHERE = [
    "/nothing",
    "/clusters/",
    "/clusters//brokers",
    "/clusters/prod/brokers/1/",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/clusters/%2e%2e%2ftopics",
    "/docs/..%2f..%2fapp.py",
    "/docs/swagger-ui.css/x",
    "/clusters/prod/brokers/one",
    "/clusters/prod/brokers/-1",
    "/clusters/prod/brokers/99999999999999999999999999",
    "/clusters/prod%00/brokers",
    "/clusters/pr%0d%0aod",
    "/audit/0x10",
    "/audit/99999999999999999999999999",
    "/problems/NOTHING",
    "/clusters/prod/topics/a%2fb",
]


async def test_an_address_of_nothing_is_not_found(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(1)
        for path in NOWHERE:
            response = await rest.client.get(path)
            assert problem(response)[0] == 404, path
        for path in ("/clusters/prod/brokers/-1:demote", "/operations/op_1:cancel:cancel", "/operations/a:b"):
            response = await rest.post(path, {})
            assert problem(response)[0] == 404, path


async def test_a_wrong_method_is_told_all_the_right_ones(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for method, path, allowed in (
            ("PATCH", "/clusters", "GET, POST"),
            ("GET", "/topics", "POST"),
            ("POST", "/clusters/prod/topics/orders", "DELETE, GET, PATCH"),
            ("GET", "/clusters/prod/topics/orders/partitions/0:elect-leader", "POST"),
            ("GET", "/clusters/prod/brokers/1:demote?dry_run=true", "POST"),
            ("DELETE", "/operations/op_1:cancel", "POST"),
            ("GET", "/clusters/prod/plans/plan_1:execute", "POST"),
            ("BREW", "/healthz", "GET"),
        ):
            response = await rest.client.request(method, path)
            assert problem(response) == (405, "method_not_allowed"), path
            assert response.headers["allow"] == allowed


MEANINGLESS = [
    ("limit=0", "limit"),
    ("limit=1001", "limit"),
    ("limit=-1", "limit"),
    ("limit=x", "limit"),
    ("limit=99999999999999999999999999", "limit"),
    ("limit=1&limit=2", "limit"),
    ("page=2", "page"),
    ("page_token=!", "page_token"),
    ("page_token=AAAA", "page_token"),
    ("page_token=WzFd", "page_token"),
    ("page_token=W1tdXQ", "page_token"),
    ("page_token=", "page_token"),
]


async def test_parameters_that_mean_nothing_are_refused_by_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for query, where in MEANINGLESS:
            response = await rest.client.get(f"/clusters?{query}")
            assert problem(response) == (422, "invalid_request"), query
            assert pointers(response) == [where]


BAD_FILTERS = [
    "since=yesterday",
    "since=1700000000",
    "since=2026-11-21T09:30:00",
    "until=2026-13-01T00:00:00Z",
    "kind=change%27%20or%201=1",
    "cause=%27;drop%20table%20audit",
    "partition=-1",
    "broker=1e3",
    "entity=everything",
    "topic=..",
    "page_token=WyJhIl0",
    "page_token=W3RydWVd",
    "page_token=Wy0xXQ",
    "page_token=WzFlOTk5XQ",
]


async def test_audit_filters_are_checked(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for query in BAD_FILTERS:
            assert problem(await rest.client.get(f"/audit?{query}")) == (422, "invalid_request"), query


async def test_a_request_id_is_echoed_or_made_up(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        given = await rest.client.get("/clusters", headers={"X-Request-Id": "my-id:1/2"})
        assert given.headers["x-request-id"] == "my-id:1/2"
        for hostile in ("a b", "x" * 200, "a\tb", "<script>"):
            made_up = await rest.client.get("/nothing", headers={"X-Request-Id": hostile})
            assert re.fullmatch(r"[\w-]{22}", made_up.headers["x-request-id"])
            assert made_up.json()["request_id"] == made_up.headers["x-request-id"]


async def test_a_claimed_name_is_recorded_as_a_claim(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        created = await rest.post("/clusters", {"name": "prod"}, X_Actor="alice")
        assert created.json()["last_change"]["actor"] == "unverified:alice@10.0.0.7"
        refused = await rest.post("/clusters", {"name": "test"}, X_Actor="alice\x01\x02")
        assert problem(refused) == (422, "invalid_request")
        assert pointers(refused) == ["x-actor"]


async def test_no_endpoint_runs_in_a_thread(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        checked = [route for route in rest.app.routes if isinstance(route, APIRoute)]
        assert len(checked) > 25
        for route in checked:
            pending = [route.dependant]
            while pending:
                dependant = pending.pop()
                assert inspect.iscoroutinefunction(dependant.call), (route.path, dependant.call)
                pending += dependant.dependencies


async def test_an_error_of_ours_is_a_problem_without_details(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setFormatter(TextFormatter())
    async with controller(zookeeper) as rest:
        rest.app.state.services = None
        response = await rest.client.get("/clusters")
        assert problem(response) == (500, "internal_error")
        assert "NoneType" not in response.text
        assert response.json()["request_id"] in caplog.text


async def test_hostile_text_is_stored_and_shown_as_it_came(zookeeper: MemoryZooKeeper) -> None:
    hostile = "'; drop table audit; --\r\n<script>alert(1)</script>\u202e"
    async with controller(zookeeper) as rest:
        created = await rest.post("/clusters", {"name": "prod", "reason": hostile})
        assert created.json()["last_change"]["reason"] == hostile
        rows = await rest.recorded()
        assert {row["reason"] for row in rows} == {hostile}


async def test_every_problem_code_is_explained_where_its_type_points(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        kinds = (await rest.client.get("/problems")).json()["items"]
        assert len(kinds) > 30
        missing = await rest.client.get("/clusters/none")
        explained = (await rest.client.get(missing.json()["type"])).json()
        assert explained in kinds
        assert explained["title"] == missing.json()["title"]
        assert problem(await rest.client.get("/problems/nothing_like_it")) == (404, "problem_not_found")


def test_every_problem_says_what_to_do() -> None:
    for code, kind in CATALOGUE.items():
        assert 10 < len(kind.hint) < 120, code
        assert kind.hint != kind.title


async def test_metrics_count_requests_by_route_and_not_by_path(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        for name in ("a", "b", "c"):
            await rest.client.get(f"/clusters/{name}")
        await rest.client.request("BREW", "/x")
        text = (await rest.client.get("/metrics")).text
        line = 'springtide_http_requests_total{method="GET",route="/clusters/{cluster}",status="404"} 3.0'
        assert line in text
        assert 'method="other",route="unmatched",status="404"' in text
        assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in text
        assert "springtide_audit_outbox_depth" in text
        assert "/clusters/a" not in text


def test_problem_documents_are_plain_json() -> None:
    from admin_api.http.problems import FieldProblem, ProblemError, problem_response

    error = ProblemError("invalid_request", "x", errors=(FieldProblem(pointer="/a", message="b"),))
    body = json.loads(bytes(problem_response(error, path="/topics", request_id=None).body))
    assert body["errors"] == [{"pointer": "/a", "message": "b"}]


@pytest.mark.parametrize("path", ["/livez", "/clusters", "/openapi.json", "/nothing"])
async def test_head_is_get_without_the_body(zookeeper: MemoryZooKeeper, path: str) -> None:
    """FastAPI has no routes for it (FastAPI#1773), and a probe then calls a service down that is well."""
    async with controller(zookeeper) as rest:
        head, get = await rest.client.head(path), await rest.client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers["content-length"] == str(len(get.content))
