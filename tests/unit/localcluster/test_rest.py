"""The REST client against real HTTP servers that behave like controllers: dead, standby, busy, refusing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from localcluster.rest import ControllerApi, RestFailed, open_rest_client


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    idempotency_key: str | None
    body: str
    authorization: str | None = None


@contextmanager
def controller(answer: Callable[[Asked], Answer]) -> Iterator[tuple[str, list[Asked]]]:
    """Serves `answer` on a free port; yields its URL and what it was asked so far."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            request = Asked(
                method=self.command,
                path=self.path,
                idempotency_key=self.headers.get("Idempotency-Key"),
                body=self.rfile.read(length).decode(),
                authorization=self.headers.get("Authorization"),
            )
            asked.append(request)
            given = answer(request)
            body = json.dumps(given.body).encode()
            self.send_response(given.status)
            for name, value in {**given.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def api(*urls: str) -> Iterator[ControllerApi]:
    with open_rest_client(urls) as client:
        yield ControllerApi(client)


def test_the_token_goes_to_the_controller_that_another_names() -> None:
    with controller(lambda asked: Answer(200, {"name": "prod"})) as (active, asked_active):
        there = {"Location": f"{active}/clusters/prod"}
        with (
            controller(lambda asked: Answer(307, headers=there)) as (standby, asked_standby),
            open_rest_client([standby], token="secret") as client,
        ):
            assert ControllerApi(client).get("/clusters/prod") == {"name": "prod"}
    for asked in (asked_standby, asked_active):
        assert [request.authorization for request in asked] == ["Bearer secret"]


def test_a_write_follows_the_standbys_redirect_with_its_body() -> None:
    with controller(lambda asked: Answer(201, {"name": "prod"})) as (active, asked_active):
        redirect = Answer(307, headers={"Location": f"{active}/clusters"})
        with controller(lambda asked: redirect) as (standby, asked_standby), api(standby, active) as rest:
            assert rest.create_cluster("prod") == {"name": "prod"}
    assert [json.loads(asked.body) for asked in asked_active] == [{"name": "prod"}]
    assert asked_standby[0].idempotency_key == asked_active[0].idempotency_key is not None


def test_a_busy_controller_is_asked_again_under_the_same_key() -> None:
    answers = iter([Answer(503), Answer(503), Answer(201, {"name": "prod"})])
    with controller(lambda asked: next(answers)) as (url, asked), api(url) as rest:
        assert rest.create_cluster("prod") == {"name": "prod"}
    assert len({request.idempotency_key for request in asked}) == 1
    assert len(asked) == 3


def test_a_refusal_is_raised_at_once_with_its_explanation() -> None:
    problem: dict[str, object] = {"title": "Cluster exists", "detail": "there is a cluster 'prod' already"}
    with (
        controller(lambda asked: Answer(409, problem)) as (url, asked),
        api(url) as rest,
        pytest.raises(RestFailed, match="409 there is a cluster 'prod' already") as refused,
    ):
        rest.create_cluster("prod")
    assert refused.value.status == 409
    assert len(asked) == 1


def test_a_failed_operation_is_an_error_that_shows_it() -> None:
    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return Answer(202, {}, {"Location": "/operations/op_1"})
        return Answer(200, {"state": "failed", "blocked": [{"code": "broker_unreachable"}]})

    with (
        controller(answer) as (url, _),
        api(url) as rest,
        pytest.raises(RestFailed, match=r"ended as failed.*broker_unreachable"),
    ):
        rest.add_brokers("prod", {1: "127.0.0.1:9092"})
