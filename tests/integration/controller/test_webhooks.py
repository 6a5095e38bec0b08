"""Webhooks from controllers as processes to a receiver that hangs, fails, redirects and goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from localcluster.ports import LOOPBACK, PortReservation
from localcluster.processes import SupervisedProcess
from localcluster.zookeeper import ZooKeeper
from tests.kit.controller.controller_process import START_SECONDS_MAX, ControllerProcess, broker_process
from tests.kit.controller.receiver import is_signed

#: For whatever is waited for: seconds on a quiet machine.
SECONDS_MAX = 120.0
PAGER = "/clusters/prod/webhooks/pager"
TOKEN = "a-token-in-the-path"


class Receiver:
    """An HTTP server. behaviour: how it answers from now on. asked: each request; taken: those that it
    answered with 2xx."""

    def __init__(self) -> None:
        self.behaviour = "take"
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.taken: list[dict[str, Any]] = []
        self.released = Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.on_post(self)

            def do_GET(self) -> None:
                receiver.asked.append(("GET", self.path, dict(self.headers.items()), b""))
                self.send_error(404)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def on_post(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(("POST", request.path, headers, body))
        match self.behaviour:
            case "hang":
                self.released.wait(SECONDS_MAX)
                return
            case "fail":
                request.send_error(500)
            case "redirect":
                request.send_response(307)
                request.send_header("Location", f"{self.url}/elsewhere")
                request.end_headers()
            case "gone":
                request.send_error(410)
            case _:
                self.taken.append(json.loads(body))
                request.send_response(200)
                request.end_headers()
                request.wfile.write(b"x" * 1_000_000)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def until(what: str, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


@pytest.fixture
def pair(zookeeper: ZooKeeper, root: str, tmp_path: Path) -> Iterator[list[ControllerProcess]]:
    """Two controllers; the first is active, and has a cluster."""
    with PortReservation() as ports, ExitStack() as stack:
        made = [
            ControllerProcess(f"controller-{number}", ports.reserve_free(), zookeeper, root, tmp_path)
            for number in (1, 2)
        ]
        for controller in made:
            stack.callback(controller.http.close)
            stack.callback(controller.process.kill)
        made[0].start()
        made[0].until_active(START_SECONDS_MAX)
        made[1].start()
        until("a cluster", lambda: made[0].create_cluster("prod") in (201, 409))
        yield made


def put(controller: ControllerProcess, receiver: Receiver, **fields: Any) -> dict[str, Any]:
    body = {"url": f"{receiver.url}/{TOKEN}", "wait_s": 0, "settle_s": 1, "reason": "nights"} | fields
    answer = controller.http.put(PAGER, json=body)
    assert answer.status_code in (200, 201), answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def shown(controller: ControllerProcess) -> dict[str, Any]:
    found: dict[str, Any] = controller.http.get(PAGER).json()
    return found


def events(receiver: Receiver) -> list[tuple[str, str, int]]:
    return [(one["event"], one["alarm"]["code"], one["alarm"]["broker_id"]) for one in receiver.taken]


def test_a_begin_and_its_end_are_told_once_by_two_controllers(
    pair: list[ControllerProcess], receiver: Receiver, tmp_path: Path
) -> None:
    first, second = pair
    urls = f"{first.url},{second.url}"
    with PortReservation() as ports, ExitStack() as stack:
        brokers: list[tuple[SupervisedProcess, str]] = []
        for number in (1, 2):
            port = ports.reserve_free()
            process = broker_process(number, port, first, tmp_path, "--controllers", urls)
            process.start()
            stack.callback(process.kill)
            brokers.append((process, f"{LOOPBACK}:{port}"))
        admitted = [{"broker_id": n, "endpoint": endpoint} for n, (_, endpoint) in enumerate(brokers, 1)]
        answer = first.http.post("/clusters/prod/brokers", json={"brokers": admitted, "reason": "test"})
        assert answer.status_code == 202, answer.text
        until("brokers", lambda: first.http.get("/clusters/prod").json()["brokers"]["active"] == 2)
        secret = put(first, receiver)["secret"]
        receiver.behaviour = "fail"
        brokers[1][0].kill()
        until("attempts that fail", lambda: len(receiver.asked) >= 3)
        assert shown(first)["state"] == "failing"
        assert shown(first)["last_error"] == "the receiver answered 500"
        assert len({headers["webhook-id"] for _, _, headers, _ in receiver.asked}) == 1
        receiver.behaviour = "take"
        until("the begin", lambda: events(receiver))
        assert events(receiver) == [("begin", "broker_fenced", 2)]
        second.until_watching(first)
        first.process.kill()
        second.until_active(SECONDS_MAX)
        brokers[1][0].start()
        until("the end", lambda: len(events(receiver)) > 1)
        time.sleep(3)
        assert events(receiver) == [("begin", "broker_fenced", 2), ("end", "broker_fenced", 2)]
        assert shown(second)["delivered"] == 2
        receiver.behaviour = "gone"
        brokers[1][0].kill()
        until("410 switches it off", lambda: shown(second)["state"] == "off")
        asked = len(receiver.asked)
        receiver.behaviour = "take"
        time.sleep(3)
        assert len(receiver.asked) == asked
        put(second, receiver)
        until("it is told anew", lambda: len(events(receiver)) > 2)
        assert events(receiver)[2:] == [("begin", "broker_fenced", 2)]
    for _, path, headers, body in receiver.asked:
        assert path == f"/{TOKEN}"
        assert is_signed(headers, body, secret)
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 1_000
        assert headers["webhook-id"] == json.loads(body)["id"]
    audit = second.http.get("/audit?limit=1000").text
    assert "put_webhook" in audit
    answers = second.http.get("/clusters/prod/webhooks").text + second.http.get("/metrics").text
    for text in (audit, answers, first.log(), second.log()):
        assert [one for one in (TOKEN, secret, secret[6:]) if one in text] == []


def test_a_receiver_that_hangs_fails_redirects_and_goes(
    pair: list[ControllerProcess], receiver: Receiver
) -> None:
    """Each message is a sample, or about an alarm of the cluster's own: a broker that is down."""
    first, _ = pair
    put(first, receiver)
    tried = partial(first.http.post, f"{PAGER}:test", json={})
    assert tried().json() == {"delivered": True, "status": 200, "detail": None}
    receiver.behaviour = "redirect"
    assert tried().json()["status"] == 307
    receiver.behaviour = "hang"
    assert tried().json() == {"delivered": False, "status": None, "detail": "no answer within 15 s"}
    receiver.behaviour = "fail"
    first.http.put("/clusters/prod/webhooks/dead", json={"url": "http://127.0.0.1:1/"})
    assert first.http.post("/clusters/prod/webhooks/dead:test", json={}).json()["detail"] == (
        "it can't be reached (ConnectError)"
    )
    assert {path for _, path, _, _ in receiver.asked} == {f"/{TOKEN}"}, "no redirect was followed"
    assert {method for method, _, _, _ in receiver.asked} == {"POST"}
    assert "Traceback" not in first.log()
