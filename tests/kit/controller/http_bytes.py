"""The controller's application on a real socket, and connections that send it bytes."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketStream

from admin_api.__main__ import _Server, _uvicorn_config
from admin_api.http.tokens import Tokens
from admin_api.settings import ApiSettings
from controller.config import load_config
from springtide.service_manager import ServiceManager
from tests.kit.admin_api.rest import controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

HEAD_TIMEOUT_MS = 300
SETTINGS = ApiSettings(head_timeout_ms=HEAD_TIMEOUT_MS, body_timeout_ms=400)
#: A loaded machine included; a connection that is not cut off would last for ever.
SECONDS_MAX = 20


@asynccontextmanager
async def serving(
    *, settings: ApiSettings = SETTINGS, tokens: Tokens | None = None, **flags: str
) -> AsyncIterator[int]:
    """The application on a real socket of this machine; yields its port."""
    config = load_config(flags, {})
    async with (
        controller(MemoryZooKeeper(), settings=settings, tokens=tokens) as rest,
        anyio.create_task_group() as tasks,
    ):
        listener = socket.create_server(("127.0.0.1", 0))
        server = _Server(_uvicorn_config(rest.app, config, settings), ServiceManager())
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        port: int = listener.getsockname()[1]
        yield port
        server.stop()


async def connect(port: int) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", port)


async def read_to_end(stream: SocketStream) -> bytes:
    """Return what the server sends until it closes; fail if it does not close."""
    received = b""
    with anyio.fail_after(SECONDS_MAX):
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def parse(answer: bytes) -> tuple[int, str, dict[str, str]]:
    """Status, problem code and header fields of a refusal, after checking that it is a whole one."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    problem = json.loads(body)
    assert fields["content-type"] == "application/problem+json"
    assert int(fields["content-length"]) == len(body)
    assert fields["connection"] == "close"
    assert problem["request_id"].lower() == fields["x-request-id"]
    assert problem["status"] == int(status_line.split()[1])
    return problem["status"], problem["code"], fields
