"""The server's turns over real sockets: it lingers for the next one, and other tasks still have theirs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from springtide.node.clock import MachineClock
from springtide.node.connection import Connection, PendingAnswer
from springtide.node.counters import NodeCounters
from springtide.node.net import EpollPoller, SocketChannel
from springtide.node.server import LINGER_MS, TASKS_WAIT_US_MAX, Server
from springtide.node.server_limits import ServerLimits
from springtide.node.threads import TrioThreads
from tests.kit.springtide.memory_net import frame

ROUNDS = 50


def echo(connection: Connection, request: memoryview, answer: PendingAnswer) -> None:
    answer.complete([frame(bytes(request))])


@contextmanager
def serving_one() -> Iterator[tuple[Server, socket.socket]]:
    """A server that echoes, and the peer of its only connection."""
    poller = CountingPoller()
    server = Server(
        listeners={},
        poller=poller,
        dispatch=echo,
        clock=MachineClock(),
        threads=TrioThreads(),
        counters=NodeCounters(),
        limits=ServerLimits(),
        on_turn_end=lambda: None,
    )
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(5)
    server._admit(SocketChannel(ours, "peer"), "")
    try:
        with theirs:
            yield server, theirs
    finally:
        server.stop_serving()
        poller.close()


class CountingPoller(EpollPoller):
    """It counts how often the server lingers."""

    def __init__(self) -> None:
        super().__init__()
        self.lingers = 0

    def linger(self, wait_ms: int) -> bool:
        self.lingers += 1
        return super().linger(wait_ms)


class Client:
    """It asks again as soon as it is answered, in a thread, until it is told to stop."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._is_stopped = threading.Event()
        self.answers = 0

    def run(self) -> None:
        asked = frame(b"x" * 100)
        while not self._is_stopped.is_set():
            self._socket.sendall(asked)
            assert self._socket.recv(1_000) == asked
            self.answers += 1

    def stop(self) -> None:
        self._is_stopped.set()


def test_what_comes_while_the_server_lingers_is_served_without_a_pass_over_the_tasks() -> None:
    async def run() -> None:
        with serving_one() as (server, theirs):
            theirs.sendall(frame(b"a"))
            assert server._linger()
            server.poller.dispatch()
            server.end_turn()
            assert theirs.recv(100) == frame(b"a")
            assert not server._linger()  # nothing comes

    trio.run(run)


def test_the_server_does_not_linger_while_a_task_can_run_or_soon_will() -> None:
    async def run() -> None:
        with serving_one() as (server, theirs):
            theirs.sendall(frame(b"a"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, LINGER_MS / 2_000)
                assert not server._linger()  # the task can begin
                await trio.testing.wait_all_tasks_blocked()
                assert not server._linger()  # its time will be up
                nursery.cancel_scope.cancel()
            assert server._linger()

    trio.run(run, clock=trio.testing.MockClock())


def test_the_server_does_not_linger_between_requests_that_come_with_pauses() -> None:
    async def run() -> None:
        with serving_one() as (server, theirs):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.drive)
                for _ in range(5):
                    await trio.sleep(LINGER_MS / 100)
                    theirs.sendall(frame(b"a"))
                    assert await trio.to_thread.run_sync(theirs.recv, 100) == frame(b"a")
                nursery.cancel_scope.cancel()
            assert isinstance(server.poller, CountingPoller)
            assert server.poller.lingers == 0

    trio.run(run)


def test_turns_count_what_connections_hold_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("springtide.node.server.LOOK_INTERVAL_MS", 0)

    async def run() -> None:
        with serving_one() as (server, theirs):
            server._limits.memory_bytes_max = 1
            assert not server.is_over_memory()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.drive)
                theirs.sendall(frame(b"a"))
                assert await trio.to_thread.run_sync(theirs.recv, 100) == frame(b"a")
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert server.is_over_memory()

    trio.run(run)


def test_threads_and_timers_have_their_turn_under_traffic_without_a_pause() -> None:
    async def run() -> None:
        with serving_one() as (server, theirs):
            client = Client(theirs)
            async with trio.open_nursery() as serving:
                serving.start_soon(server.drive)
                async with trio.open_nursery() as asking:
                    asking.start_soon(trio.to_thread.run_sync, client.run)
                    with trio.fail_after(ROUNDS * TASKS_WAIT_US_MAX / 1_000_000 * 50):
                        for _ in range(ROUNDS):
                            await trio.to_thread.run_sync(bool)
                            await trio.sleep(0.001)
                    client.stop()
                serving.cancel_scope.cancel()
            assert client.answers > ROUNDS

    trio.run(run)
