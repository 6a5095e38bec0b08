"""Puts a request to the application as a server would, without one."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import requests

BASE_URL = "http://c1:8080"
CLIENT = ("10.0.0.7", 50_000)
#: Virtual time. Longer than the longest poll and the longest timeout.
ANSWER_SECONDS_MAX = 120.0
#: How long we listen to a stream of events before we hang up.
STREAM_SECONDS = 1.0
_DROPPED = ("X-Schemathesis-TestCaseId", "User-Agent", "Accept-Encoding", "Connection")


@dataclass(slots=True)
class Reply:
    """status 0: there was none in time."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    is_stream: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


def prepared(case: Any, base_url: str = BASE_URL) -> requests.PreparedRequest:
    """As it goes over the wire. Raises requests.RequestException and UnicodeError for what can't."""
    parts = case.as_transport_kwargs(base_url=base_url)
    request = requests.Request(
        method=parts["method"],
        url=parts["url"],
        headers=dict(parts["headers"]),
        params=parts.get("params"),
        data=parts.get("data"),
        json=parts.get("json"),
        files=parts.get("files"),
        cookies=parts.get("cookies"),
    ).prepare()
    for name in _DROPPED:
        request.headers.pop(name, None)
    return request


def body_of(request: requests.PreparedRequest) -> bytes:
    body = request.body
    if body is None:
        return b""
    assert isinstance(body, str | bytes)
    return body.encode() if isinstance(body, str) else body


async def ask(app: Any, request: requests.PreparedRequest) -> Reply:
    """Raises what the application raises."""
    assert request.url is not None
    target = urlsplit(request.url)
    body = body_of(request)
    headers = [(_bytes(name).lower(), _bytes(value)) for name, value in request.headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(target.path),
        "raw_path": target.path.encode("ascii"),
        "query_string": target.query.encode("ascii"),
        "root_path": "",
        "headers": [(b"host", target.netloc.encode("ascii")), *headers],
        "client": CLIENT,
        "server": ("c1", 8080),
    }
    reply = Reply()
    hung_up = anyio.Event()
    is_read = False

    async def receive() -> MutableMapping[str, Any]:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}
        await hung_up.wait()
        return {"type": "http.disconnect"}

    async def hang_up_later() -> None:
        await anyio.sleep(STREAM_SECONDS)
        hung_up.set()

    with anyio.move_on_after(ANSWER_SECONDS_MAX) as timeout:
        async with anyio.create_task_group() as tasks:

            async def send(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    reply.status = message["status"]
                    reply.headers = [
                        (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                        for name, value in message.get("headers", ())
                    ]
                    if (reply.header("content-type") or "").startswith("text/event-stream"):
                        reply.is_stream = True
                        tasks.start_soon(hang_up_later)
                elif message["type"] == "http.response.body":
                    reply.body += message.get("body", b"")

            await app(scope, receive, send)
            tasks.cancel_scope.cancel()
    if timeout.cancelled_caught:
        return Reply()
    return reply


def _bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else bytes(text)
