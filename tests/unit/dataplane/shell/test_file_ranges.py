"""Answers that are ranges of files: read or sent part by part, and a socket that ends meanwhile."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from dataplane.storage.disk import PosixDisk, PosixFile
from springtide.node import connection as connection_module
from springtide.node import server as server_module
from springtide.node.net import EpollPoller, SocketChannel
from springtide.wire.framing import FileChunk
from tests.kit.memory.disk import MemoryDisk
from tests.kit.springtide.memory_net import Harness, MemoryChannel, frame

CONTENT = bytes(range(256)) * 10
T = TypeVar("T")


class NumberedFile:
    """A file with a descriptor, as far as a channel in memory cares."""

    def __init__(self, *, is_cached: bool = False) -> None:
        self._is_cached = is_cached

    def fileno(self) -> int:
        return 7

    def is_cached(self, length: int, position: int) -> bool:
        return self._is_cached

    def pread(self, length: int, position: int) -> bytes:
        raise AssertionError("it has a descriptor")


class CachedFile(PosixFile):
    """A file that stays in the page cache, on any file system."""

    __slots__ = ()

    def is_cached(self, length: int, position: int) -> bool:
        return True


class FileChannel(MemoryChannel):
    """It takes so much of files as `room_bytes` lets it."""

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        return self.send((CONTENT[position : position + length],))


class InPlace:
    """Threads that are none, and how often there was work for one."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        self.runs += 1
        await trio.lowlevel.checkpoint()
        return work()


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
        harness.server.threads = InPlace()
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
        for _ in range(3):
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
        harness.server.threads = InPlace()
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


def ask(harness: Harness, channel: MemoryChannel, *chunks: bytes | FileChunk) -> None:
    """A request that is answered with the chunks."""
    harness.server._admit(channel, "")
    channel.incoming += frame(b"a")
    harness.turn()
    harness.answers.pop(b"a").complete(chunks)
    harness.server.end_turn()


def test_a_cached_range_leaves_at_once_so_much_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SEND_FILE_BYTES_MAX", 1_000)
    harness, channel = Harness(), FileChannel()
    threads = harness.server.threads = InPlace()
    ask(harness, channel, b"head", FileChunk(NumberedFile(is_cached=True), 10, 2_300), b"tail")
    assert bytes(channel.outgoing) == b"head" + CONTENT[10:1_010]
    assert harness.poller.interest[channel] == (True, True)
    harness.turn()
    harness.turn()
    assert bytes(channel.outgoing) == b"head" + CONTENT[10:2_310] + b"tail"
    assert threads.runs == 0
    assert (channel.sends, channel.held_sends) == (5, 1)  # the head's; three of the file; the tail's
    assert harness.poller.interest[channel] == (True, False)


def test_the_readers_of_a_turn_share_what_it_sends_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of them with a megabyte each would else hold up small requests for a tenth of a second."""
    monkeypatch.setattr(server_module, "TURN_FILE_BYTES_MAX", 1_000)
    harness, channels = Harness(), [FileChannel(), FileChannel()]
    for number, channel in enumerate(channels):
        harness.server._admit(channel, "")
        channel.incoming += frame(b"%d" % number)
    harness.turn()
    for number in range(len(channels)):
        chunk = FileChunk(NumberedFile(is_cached=True), 0, 1_000)
        harness.answers.pop(b"%d" % number).complete([b"head", chunk, b"tail"])
    whole = b"head" + CONTENT[:1_000] + b"tail"
    harness.server.end_turn()
    assert [bytes(channel.outgoing) for channel in channels] == [whole, b"head"]
    harness.turn()
    assert [bytes(channel.outgoing) for channel in channels] == [whole, whole]


def test_a_range_that_is_not_cached_waits_for_room_without_a_thread() -> None:
    """A thread that found no room would else be followed by the next one at once, for as long as the peer
    reads nothing."""

    async def test(harness: Harness) -> None:
        threads = harness.server.threads = InPlace()
        channel = FileChannel()
        channel.room_bytes = 0
        ask(harness, channel, FileChunk(NumberedFile(), 0, 100))
        await trio.testing.wait_all_tasks_blocked()
        assert threads.runs == 1
        assert harness.poller.interest[channel] == (True, True)
        channel.room_bytes = 1_000
        harness.turn()
        await trio.testing.wait_all_tasks_blocked()
        assert threads.runs == 2
        assert bytes(channel.outgoing) == CONTENT[:100]
        assert harness.poller.interest[channel] == (True, False)

    on_a_server(test)


def test_a_cached_range_goes_over_a_real_socket_as_its_reader_takes_it(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "a.log").write_bytes(content)
    source = CachedFile(os.open(tmp_path / "a.log", os.O_RDONLY))

    async def test(harness: Harness) -> None:
        poller = harness.server.poller = EpollPoller()
        reader, ours = socket.socketpair()
        ours.setblocking(False)
        with reader:
            harness.server._admit(SocketChannel(ours, "peer"), "")
            reader.send(frame(b"a"))
            poller.dispatch()
            harness.answers.pop(b"a").complete([b"head", FileChunk(source, 7, 2_500_000), b"tail"])
            harness.server.end_turn()
            taken = b""
            while len(taken) < 2_500_008:
                taken += reader.recv(100_000)
                poller.dispatch()
            assert taken == b"head" + content[7:2_500_007] + b"tail"
            (connection,) = harness.server._connections
            assert connection._unsent_bytes == 0
            connection.close()
        poller.close()

    on_a_server(test)


def test_a_file_tells_whether_its_bytes_are_in_the_page_cache(tmp_path: Path) -> None:
    file = PosixDisk().open(str(tmp_path / "a.log"), create=True)
    file.pwrite(bytes(1_000_000), 0)
    file.fsync()
    if not file.is_cached(1, 0):
        pytest.skip("this file system can't tell")
    assert file.is_cached(1_000_000, 0)
    assert not file.is_cached(10, 1_000_000)
    for _ in range(100):  # a page that a processor has just put by is dropped some other time
        file.forget(1_000_000, 0)
        if not file.is_cached(1_000_000, 0):
            break
        time.sleep(0.01)
    assert not file.is_cached(1_000_000, 0)
    assert len(file.pread(1_000_000, 0)) == 1_000_000
    assert file.is_cached(1_000_000, 0)
