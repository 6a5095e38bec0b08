"""What a broker finds out about others' listeners and its own disk, and when it tells."""

from __future__ import annotations

import errno
import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from dataplane.shell.preflight import DISK_FILE, FLUSHES, INTERVAL_MS, Preflight, reach, try_disk
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.preflight import PreflightReport, PreflightResponse, PreflightTarget, ReachFailure
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.node.clock import MachineClock
from springtide.node.controller_client import ControllerUnavailable
from springtide.node.net import Channel, Listener, Poller, SystemNet
from springtide.wire.apis import REPLICA_FETCH_VERSION
from tests.kit.clocks import VirtualClock
from tests.kit.dataplane.node import InlineThreads
from tests.kit.memory.disk import MemoryDisk

Serve = Callable[[trio.SocketStream], Awaitable[None]]


def answer_of(*ranges: tuple[int, int, int], correlation_id: int = 1) -> bytes:
    body = struct.pack(">ihi", correlation_id, 0, len(ranges)) + b"".join(
        struct.pack(">hhh", *each) for each in ranges
    )
    return struct.pack(">i", len(body)) + body


def target(port: int, host: str = "127.0.0.1") -> PreflightTarget:
    return PreflightTarget(broker_id=4, broker_epoch=BrokerEpoch(44), host=host, port=port)


async def try_listener(serve: Serve) -> tuple[ReachFailure | None, str]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        found = await reach(SystemNet(), MachineClock(), target(port))
        assert (found.broker_id, found.broker_epoch) == (4, 44)
        nursery.cancel_scope.cancel()
    return found.failure, found.detail


def replying(answer: bytes) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        size = struct.unpack(">i", await stream.receive_some(4))[0]
        received = b""
        while len(received) < size:
            received += await stream.receive_some(size - len(received))
        assert received[:4] == struct.pack(">hh", 18, 0)
        for position in range(0, len(answer), 7):  # in pieces, as networks deliver
            await stream.send_all(answer[position : position + 7])
        await stream.receive_some(1)

    return serve


@pytest.mark.parametrize(
    ("answer", "failure", "words"),
    [
        (answer_of((0, 0, 11), (1, 4, REPLICA_FETCH_VERSION)), None, ""),
        (answer_of((1, 4, REPLICA_FETCH_VERSION + 3)), None, ""),
        (answer_of((1, 4, REPLICA_FETCH_VERSION - 1)), None, ""),
        (answer_of((1, 4, 14)), ReachFailure.INCOMPATIBLE_VERSION, "it speaks Fetch 4..14, this one 15..17"),
        (answer_of((1, 18, 20)), ReachFailure.INCOMPATIBLE_VERSION, "speaks Fetch 18..20, this one 15..17"),
        (answer_of((0, 0, 11)), ReachFailure.INCOMPATIBLE_VERSION, "it speaks Fetch none"),
        (
            answer_of((1, 4, 17), correlation_id=9),
            ReachFailure.INCOMPATIBLE_VERSION,
            "does not speak the Kafka protocol",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ReachFailure.INCOMPATIBLE_VERSION, "does not speak the Kafka"),
        (answer_of((1, 4, 17))[:-3], ReachFailure.LISTENER_UNREACHABLE, ""),
    ],
)
def test_a_listener_must_answer_as_a_broker(answer: bytes, failure: ReachFailure | None, words: str) -> None:
    found = trio.run(try_listener, replying(answer) if words or failure is None else ending(answer))
    assert found[0] is failure
    assert words in found[1]


def ending(answer: bytes) -> Serve:
    """A process that dies while it answers."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        await stream.send_all(answer)
        await stream.aclose()

    return serve


def test_a_port_where_nobody_listens_refuses() -> None:
    async def main() -> None:
        listener = await SystemNet().listen("127.0.0.1", 0)  # bound, and not begun
        found = await reach(SystemNet(), MachineClock(), target(listener.address[1]))
        listener.close()
        assert found.failure is ReachFailure.LISTENER_UNREACHABLE
        assert found.detail

    trio.run(main)


class SilentNet:
    """Packets to anywhere are dropped."""

    async def listen(self, host: str, port: int) -> Listener:
        raise AssertionError

    def poller(self) -> Poller:
        raise AssertionError

    async def connect(self, host: str, port: int) -> Channel:
        await trio.sleep_forever()
        raise AssertionError


def test_silence_is_given_up_in_time() -> None:
    async def main() -> None:
        found = await reach(SilentNet(), VirtualClock(), target(9092))
        assert found.failure is ReachFailure.LISTENER_UNREACHABLE
        assert found.detail == "no answer within 2000 ms"
        assert trio.current_time() - started == pytest.approx(2.0)

    clock = trio.testing.MockClock(autojump_threshold=0)
    started = clock.current_time()
    trio.run(main, clock=clock)


def test_the_disk_is_timed_and_nothing_is_left_on_it() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    disk.fsync_dir("/")
    figures = try_disk(disk, "/data", MachineClock(), flushes=FLUSHES)
    assert figures.failure == ""
    assert 0 <= figures.flush_us <= figures.flush_us_max
    assert figures.free_bytes == 2**40
    assert disk.listdir("/data") == []
    untimed = try_disk(disk, "/data", MachineClock(), flushes=0)
    assert (untimed.flush_us, untimed.free_bytes) == (-1, 2**40)


def test_a_disk_that_fails_says_how() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    disk.fail_next("fsync", error=OSError(errno.EIO, "Input/output error"))
    figures = try_disk(disk, "/data", MachineClock(), flushes=FLUSHES)
    assert "Input/output error" in figures.failure
    assert DISK_FILE not in disk.listdir("/data")


class Told:
    """A controller that hears reports, unless it is away."""

    def __init__(self) -> None:
        self.reports: list[PreflightReport] = []
        self.at: list[float] = []
        self.is_away = False

    async def preflight(self, report: PreflightReport) -> PreflightResponse:
        self.reports.append(report)
        self.at.append(trio.current_time())
        if self.is_away:
            raise ControllerUnavailable("away")
        return PreflightResponse()


def beat(
    preflight: Preflight,
    targets: tuple[PreflightTarget, ...] | None,
    *,
    status: BrokerStatus = BrokerStatus.WAITING,
) -> None:
    now_ms = VirtualClock().mono_ms()
    response = HeartbeatResponse(status=status, preflight=targets, wall_ms=VirtualClock().wall_ms() + 70)
    preflight.on_heartbeat(response, sent_ms=now_ms - 10, now_ms=now_ms)


def test_it_reports_at_once_and_again_for_as_long_as_it_is_asked() -> None:
    async def main() -> None:
        told = Told()
        disk = MemoryDisk()
        disk.mkdir("/data")
        preflight = Preflight(
            broker_id=1,
            broker_epoch=lambda: BrokerEpoch(11),
            client=told,
            net=SilentNet(),
            clock=VirtualClock(),
            disk=disk,
            threads=InlineThreads(),
            path="/data",
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(preflight.run)
            beat(preflight, None)
            await trio.sleep(60)
            assert told.reports == []  # nobody asked

            beat(preflight, ())
            await trio.sleep(0.1)
            (first,) = told.reports
            assert (first.broker_id, first.broker_epoch, first.peers) == (1, 11, ())
            assert first.disk is not None and first.disk.flush_us >= 0
            assert first.clock is not None and first.clock.ahead_ms == 75

            told.is_away = True
            beat(preflight, (target(9092),))  # at once, although the last report is young
            await trio.sleep(2.5)
            assert [reach.failure for reach in told.reports[1].peers] == [ReachFailure.LISTENER_UNREACHABLE]
            beat(preflight, (target(9092),), status=BrokerStatus.ACTIVE)
            await trio.sleep(0.1)
            assert len(told.reports) == 2  # the same again is no news
            await trio.sleep(20)
            assert [round(b - a) for a, b in zip(told.at[1:], told.at[2:], strict=False)] == [
                round(INTERVAL_MS / 1000 + 2)
            ] * (len(told.at) - 2)
            assert len(told.reports) >= 5
            last = told.reports[-1].disk
            assert last is not None
            assert (last.flush_us, last.free_bytes) == (-1, 2**40)  # it serves: its disk is left alone

            beat(preflight, None, status=BrokerStatus.ACTIVE)
            await trio.sleep(10)
            count = len(told.reports)
            await trio.sleep(60)
            assert len(told.reports) == count
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
