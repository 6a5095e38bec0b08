"""Hostile clients over real sockets: smuggled requests, broken chunks, a thousand silent connections, and
what the OpenAPI document allows and does not, answered by the server that production runs."""

from __future__ import annotations

import time

import anyio
import anyio.to_thread
import pytest
import requests
from anyio.abc import SocketStream

from admin_api.settings import ApiSettings
from tests.hostile.asking import Reply, prepared
from tests.hostile.drawing import Drawer, is_positive
from tests.hostile.judging import Findings, judge
from tests.kit.controller.http_bytes import connect, parse, read_to_end, serving

pytestmark = pytest.mark.anyio

HOST = b"Host: c1\r\n"
JSON = b"Content-Type: application/json\r\n"
POST = b"POST /topics HTTP/1.1\r\n" + HOST + JSON
HIDDEN = b"DELETE /clusters/prod HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
IDLE = 1_000


async def answered(data: bytes) -> bytes:
    """All that the server sends before it closes."""
    settings = ApiSettings(head_timeout_ms=1_000, body_timeout_ms=1_000)
    async with serving(settings=settings) as port, await connect(port) as stream:
        await stream.send(data)
        return await read_to_end(stream)


SMUGGLED = {
    "two framings": POST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
    "framings the other way round": POST + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + HIDDEN,
    "a list of lengths": POST + b"Content-Length: 0, 44\r\n\r\n" + HIDDEN,
    "a negative length": POST + b"Content-Length: -1\r\n\r\n" + HIDDEN,
    "a length with a sign": POST + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "a length beyond 64 bit": POST + b"Content-Length: 99999999999999999999999\r\n\r\n" + HIDDEN,
    "an unknown coding last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "no hexadecimal chunk size": POST + CHUNKED + b"\r\nzz\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk longer than it says": POST + CHUNKED + b"\r\n1\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size beyond 64 bit": POST + CHUNKED + b"\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a space before the colon": b"GET /healthz HTTP/1.1\r\nHost : c1\r\n\r\n" + HIDDEN,
    "a name with a line end": b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A\rB: c\r\n\r\n" + HIDDEN,
    "a zero byte": b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A: a\x00b\r\n\r\n" + HIDDEN,
    "the preface of another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


async def test_whoever_leaves_in_the_middle_of_a_body_is_no_failure_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(settings=ApiSettings()) as port:
        async with await connect(port) as stream:
            await stream.send(POST + b"Content-Length: 100\r\n\r\n{")
        counted = ""
        for _ in range(400):
            counted = counted or await _counted(port)
            await anyio.sleep(0 if counted else 0.05)
        assert 'status="400"' in counted
    assert "request_failed" not in caplog.text


async def _counted(port: int) -> str:
    """The line of /metrics about topics that were to be created; empty when there is none."""
    async with await connect(port) as stream:
        await stream.send(b"GET /metrics HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        text = (await read_to_end(stream)).decode()
    name = 'springtide_http_requests_total{method="POST",route="/topics"'
    return next((line for line in text.splitlines() if line.startswith(name)), "")


@pytest.mark.parametrize("data", SMUGGLED.values(), ids=SMUGGLED.keys())
async def test_what_two_servers_could_read_differently_is_refused_and_nothing_behind_it_is_read(
    data: bytes,
) -> None:
    answer = await answered(data)
    status, code, fields = parse(answer)
    assert (status, code, fields["connection"]) == (400, "bad_request", "close")
    assert answer.count(b"HTTP/1.1 ") == 1, "the hidden request was answered, too"


async def test_whoever_expects_to_be_asked_for_the_body_is_asked() -> None:
    async with serving(settings=ApiSettings()) as port, await connect(port) as stream:
        await stream.send(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        with anyio.fail_after(20):
            first = await stream.receive()
        assert first.startswith(b"HTTP/1.1 100")
        await stream.send(b"{}")
        assert b" 422 " in first + await read_to_end(stream)


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    paths = (b"/healthz", b"/nothing", b"/problems/forbidden", b"/healthz")
    data = b"".join(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n" for path in paths)
    last = b"GET /nothing HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    answer = await answered(data + last)
    statuses = [part.split()[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"200", b"404"]


async def test_a_thousand_silent_connections_keep_nobody_waiting_and_are_closed() -> None:
    async with serving(settings=ApiSettings(), connections_max="2000", keep_alive_s="5") as port:
        silent: list[SocketStream] = [await connect(port) for _ in range(IDLE)]
        started = time.monotonic()
        async with await connect(port) as stream:
            await stream.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            assert (await read_to_end(stream)).startswith(b"HTTP/1.1 200 OK")
        assert time.monotonic() - started < 5
        for stream in silent:
            assert await read_to_end(stream) == b""
            await stream.aclose()


@pytest.fixture(scope="module")
def drawer() -> Drawer:
    return Drawer()


def _sent(session: requests.Session, request: requests.PreparedRequest) -> Reply:
    """On a machine so loaded that the controller has to resign, its next term's answer."""
    for _ in range(30):
        answer = session.send(request, timeout=60, allow_redirects=False)
        if answer.status_code != 503 or "retry-after" not in answer.headers:
            break
        time.sleep(1)
    headers = [(name.lower(), value) for name, value in answer.headers.items()]
    return Reply(answer.status_code, headers, answer.content)


@pytest.mark.timeout(300)  # real time, on machines that have other things to do
async def test_over_a_real_socket_the_document_tells_the_truth_as_well(drawer: Drawer) -> None:
    """Some of what tests.hostile asks without one: a server lies between the application and these cases. To
    draw an operation's cases takes longer than to ask them, so that a few operations are asked more."""
    cases = [
        case
        for label in [label for label in drawer.labels if not label.endswith((":poll", "/events"))][::15]
        for case in (*drawer.coverage(label)[::3], *drawer.fuzz(label, 9, 5))
    ]
    findings = Findings()
    asked = {True: 0, False: 0}
    async with serving(settings=ApiSettings()) as port:
        with requests.Session() as session:
            for case in cases:
                try:
                    request = prepared(case, f"http://127.0.0.1:{port}")
                except (requests.RequestException, UnicodeError, ValueError):
                    continue
                judge(case, request, await anyio.to_thread.run_sync(_sent, session, request), findings)
                asked[is_positive(case)] += 1
    assert [
        f"{finding.label}: {finding.title}\n{finding.example}" for finding in findings.found.values()
    ] == []
    assert min(asked.values()) > 100
