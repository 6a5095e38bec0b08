"""Answers that are ranges of files: read or sent part by part, and a socket that ends meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from springtide.node import connection as connection_module
from springtide.wire.framing import FileChunk
from tests.kit.springtide.memory_net import Harness, MemoryChannel, frame
from tests.simulation.memory_disk import MemoryDisk

CONTENT = bytes(range(256)) * 10


class NumberedFile:
    """A file with a descriptor, as far as a channel in memory cares."""

    def fileno(self) -> int:
        return 7

    def pread(self, length: int, position: int) -> bytes:
        raise AssertionError("it has a descriptor")


class SlowChannel(MemoryChannel):
    """Its send_file waits in its thread until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_in_thread = threading.Event()
        self.may_go_on = threading.Event()
        self.closed = trio.Event()

    def close(self) -> None:
        super().close()
        self.closed.set()

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        assert file_descriptor == 7
        self.is_in_thread.set()
        assert self.may_go_on.wait(5)
        if self.is_closed:
            self.outgoing += b"into another connection's socket"
        return length


def on_a_server(test: Callable[[Harness], Awaitable[None]]) -> None:
    async def run() -> None:
        harness = Harness()
        async with trio.open_nursery() as nursery:
            harness.server._nursery = nursery
            await test(harness)

    trio.run(run)


def test_a_range_of_a_file_without_descriptor_is_read_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SEND_FILE_BYTES_MAX", 1_000)
    disk = MemoryDisk()
    disk.open("/a.log", create=True).pwrite(CONTENT, 0)

    async def test(harness: Harness) -> None:
        channel = harness.connect()
        channel.room_bytes = 700  # the kernel takes a part of the first part
        channel.incoming += frame(b"a")
        harness.turn()
        source = disk.open("/a.log")
        harness.answers.pop(b"a").complete([b"head", FileChunk(source, 10, 2_300), b"tail"])
        harness.server.end_turn()
        await trio.testing.wait_all_tasks_blocked()
        assert bytes(channel.outgoing) == b"head" + CONTENT[10:706]
        (connection,) = harness.server._connections
        assert connection.held_bytes >= 2_300 - 696 + 4
        channel.room_bytes = 10_000
        harness.turn()
        await trio.testing.wait_all_tasks_blocked()
        assert bytes(channel.outgoing) == b"head" + CONTENT[10:2_310] + b"tail"
        assert not connection.has_unsent
        assert connection._unsent_bytes == 0

    on_a_server(test)


def test_a_file_that_ends_before_its_range_ends_the_connection() -> None:
    disk = MemoryDisk()
    disk.open("/a.log", create=True).pwrite(b"short", 0)

    async def test(harness: Harness) -> None:
        channel = harness.connect()
        channel.incoming += frame(b"a")
        harness.turn()
        harness.answers.pop(b"a").complete([FileChunk(disk.open("/a.log"), 0, 100)])
        harness.server.end_turn()
        await trio.testing.wait_all_tasks_blocked()
        assert channel.is_closed

    on_a_server(test)


def test_a_socket_is_not_closed_while_a_thread_sends_into_it() -> None:
    """Its descriptor's number may belong to another client a moment later."""

    async def test(harness: Harness) -> None:
        channel = SlowChannel()
        harness.server._admit(channel, "")
        channel.incoming += frame(b"a")
        harness.turn()
        harness.answers.pop(b"a").complete([FileChunk(NumberedFile(), 0, 100)])
        harness.server.end_turn()
        assert await trio.to_thread.run_sync(channel.is_in_thread.wait, 5)
        (connection,) = harness.server._connections
        connection.close()
        assert harness.server.connection_count == 0
        assert not channel.is_closed
        channel.may_go_on.set()
        with trio.fail_after(5):
            await channel.closed.wait()
        assert channel.outgoing == b""

    on_a_server(test)
