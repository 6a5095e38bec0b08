"""The controller's HTTP server against clients that are slow, silent or endless, over real sockets."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import SocketStream

from admin_api.settings import ApiSettings
from tests.kit.controller.http_bytes import (
    HEAD_TIMEOUT_MS,
    SECONDS_MAX,
    connect,
    parse,
    read_to_end,
    serving,
)

pytestmark = pytest.mark.anyio

GET = b"GET /healthz HTTP/1.1\r\nHost: c1\r\n"
POST = b"POST /topics HTTP/1.1\r\nHost: c1\r\nContent-Type: application/json\r\n"


async def drip(stream: SocketStream, data: bytes) -> bytes:
    """Sends byte after byte, again and again, until the server has enough; returns what it answered."""
    answer = b""

    async def read() -> None:
        nonlocal answer
        answer = await read_to_end(stream)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        while True:
            for byte in data:
                try:
                    await stream.send(bytes([byte]))
                except anyio.BrokenResourceError:
                    await anyio.sleep_forever()  # `read` sees the end and cancels this
                await anyio.sleep(HEAD_TIMEOUT_MS / 1000 / 10)
    return answer


@pytest.mark.parametrize(
    "dripped", [b"X-Slow: and steady\r\n", b"a", b"\r\n"], ids=["fields", "name", "blank"]
)
async def test_a_head_that_never_ends_is_cut_off_however_steadily_it_comes(dripped: bytes) -> None:
    async with serving() as port, await connect(port) as stream:
        await stream.send(b"" if dripped == b"\r\n" else GET)
        assert parse(await drip(stream, dripped))[:2] == (408, "request_timeout")


async def test_the_same_holds_for_the_next_request_on_a_connection() -> None:
    async with serving() as port, await connect(port) as stream:
        await stream.send(GET + b"\r\n")
        first = await stream.receive()
        while not first.endswith(b'{"status":"ok"}'):
            first += await stream.receive()
        assert first.startswith(b"HTTP/1.1 200 OK")
        await stream.send(GET)
        assert parse(await read_to_end(stream))[:2] == (408, "request_timeout")


async def test_a_pipelined_head_is_timed_too() -> None:
    async with serving() as port, await connect(port) as stream:
        await stream.send(GET + b"\r\n" + GET)
        answers = await read_to_end(stream)
        first, _, rest = answers.partition(b'{"status":"ok"}')
        assert first.startswith(b"HTTP/1.1 200 OK")
        assert parse(rest)[:2] == (408, "request_timeout")


async def test_a_body_that_never_ends_is_cut_off() -> None:
    async with serving() as port, await connect(port) as stream:
        await stream.send(POST + b"Content-Length: 1000\r\n\r\n")
        assert parse(await drip(stream, b" "))[:2] == (408, "request_timeout")


async def test_a_silent_connection_is_idle_and_closed_as_one() -> None:
    async with serving(keep_alive_s="1") as port, await connect(port) as stream:
        assert await read_to_end(stream) == b""


async def test_a_head_is_taken_no_further_than_its_bound() -> None:
    async with serving(settings=ApiSettings()) as port, await connect(port) as stream:
        await stream.send(GET)
        sent = 0
        try:
            while sent < 50_000_000:
                await stream.send(b"X-Junk: " + b"a" * 10_000 + b"\r\n")
                sent += 10_010
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        assert sent < 20_000_000, "what the kernels' buffers hold and no more"


async def test_a_head_within_one_packet_that_is_too_large_says_so() -> None:
    async with serving() as port, await connect(port) as stream:
        fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1_000) for number in range(40))
        await stream.send(GET + b"Connection: close\r\n" + fields + b"\r\n")
        assert parse(await read_to_end(stream))[:2] == (431, "headers_too_large")


async def test_what_is_no_http_is_a_problem_document_too() -> None:
    async with serving() as port, await connect(port) as stream:
        await stream.send(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
        assert parse(await read_to_end(stream))[:2] == (400, "bad_request")


async def test_connections_beyond_the_bound_are_told_to_come_back() -> None:
    async with serving(connections_max="10") as port:
        streams = [await connect(port) for _ in range(10)]
        await streams[-1].send(GET + b"\r\n")
        status, code, fields = parse(await read_to_end(streams[-1]))
        assert (status, code, fields["retry-after"]) == (503, "overloaded", "1")
        for stream in streams:
            await stream.aclose()
        answer = b""
        with anyio.fail_after(SECONDS_MAX):
            while not answer.startswith(b"HTTP/1.1 200 OK"):
                async with await connect(port) as stream:
                    await stream.send(GET + b"Connection: close\r\n\r\n")
                    answer = await read_to_end(stream)
