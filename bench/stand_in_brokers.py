"""Stand-ins for brokers, many in one process: what a broker says to the controller, and no log.

Each has a listener, registers, beats, polls the metadata stream, tells which logs it made, and reports the
lag of what it leads, at a broker's pace (springtide/node/controller_session.py). Of each partition it
remembers who leads, so that a million of them fit.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.lag_report import CreatedLogs, FollowerLag, LagReport, PartitionLag
from springtide.contract.preflight import ClockFigures, DiskFigures, PeerReach, PreflightReport
from springtide.contract.session import (
    DiskSpace,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import PollRequest
from springtide.levels import SUPPORTED

RACKS: Final = 3
HEARTBEAT_S: Final = 0.5
REPORT_S: Final = 0.5
REPORTED_MAX: Final = 2_000
RETRY_S: Final = 0.05
APPLIED_PER_TURN: Final = 2_000
POLL_WAIT_MS: Final = 10_000
_NOT_CONTROLLER: Final = b'{"error":"not_controller"'
#: The leader of a partition that a stand-in was not told of.
UNTOLD: Final = -2
_APPLYING: Final = asyncio.Lock()


class Told(msgspec.Struct, gc=False):
    """What a stand-in reads of a partition's state."""

    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    new_replicas: tuple[int, ...] = ()


class ToldBatch(msgspec.Struct):
    """What a stand-in reads of an UpdateBatch."""

    error: str = "none"
    controller_epoch: int = -1
    full: bool = False
    sequence: int = -1
    partitions: tuple[Told, ...] = ()


class _Wire:
    """One HTTP/1.1 connection that stays open. received, sent: bytes with headers."""

    def __init__(self) -> None:
        self._url = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.received = self.sent = 0

    async def ask(self, url: str, path: str, body: bytes) -> bytes:
        """Return the answer's body. Raise OSError or EOFError if the connection fails."""
        if url != self._url:
            self.close()
        if self._streams is None:
            place = urlsplit(url)
            self._streams = await asyncio.open_connection(place.hostname, place.port, limit=1 << 20)
            self._url = url
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.sent += len(request)
        writer.write(request)
        await writer.drain()
        headers = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in headers.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        answer = await reader.readexactly(length)
        self.received += len(headers) + length
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class StandIn:
    """One broker. told: partitions that it was told of. full_at: when it applied its latest FULL batch, and
    of which controller epoch. waits_for: partitions that the dead broker led and that it was told no other
    leader of."""

    def __init__(self, broker_id: int, cluster: str, urls: Sequence[str]) -> None:
        self.broker_id, self.host, self.port = broker_id, f"127.0.1.{broker_id}", 0
        self._urls, self._at = list(urls), 0
        self._path = f"/internal/clusters/{cluster}/brokers/{broker_id}"
        self._polls, self._asks = _Wire(), _Wire()
        self._epoch = -1
        self._position = (-1, -1)
        self._leaders: dict[str, array[int]] = {}
        self._unreported: deque[tuple[Told, int]] = deque()
        self._created: dict[str, list[int]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listener: asyncio.Server | None = None
        self._guests: list[asyncio.StreamWriter] = []
        self._dead = -1
        self.told = self.waits_for = 0
        self.full_at = 0.0
        self.full_epoch = -1
        self.full_bytes = 0

    @property
    def bytes_moved(self) -> int:
        return sum(wire.received + wire.sent for wire in (self._polls, self._asks))

    @property
    def is_idle(self) -> bool:
        return not self._unreported and not self._created

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._greet, self.host, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._tasks = [asyncio.create_task(self._live())]

    def die(self) -> None:
        """End as a killed process does: every connection breaks, and the port refuses."""
        for task in self._tasks:
            task.cancel()
        for wire in (self._polls, self._asks):
            wire.close()
        if self._listener is not None:
            self._listener.close()
        for guest in self._guests:
            guest.transport.abort()

    def watch(self, dead: int) -> None:
        """Begin to count the partitions that `dead` still leads, as far as this broker was told."""
        self._dead = dead
        self.waits_for = sum(leaders.count(dead) for leaders in self._leaders.values())

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._guests.append(writer)
        with contextlib.suppress(OSError):
            await reader.read()
        self._guests.remove(writer)
        writer.close()

    # -- asking --

    async def _ask(self, wire: _Wire, verb: str, request: msgspec.Struct) -> bytes:
        """Ask until a controller answers as the active one."""
        body = msgspec.json.encode(request)
        while True:
            url = self._urls[self._at]
            try:
                answer = await wire.ask(url, f"{self._path}:{verb}", body)
            except (OSError, EOFError):
                wire.close()
            else:
                if not answer.startswith(_NOT_CONTROLLER):
                    return answer
            self._at = (self._at + 1) % len(self._urls)
            await asyncio.sleep(RETRY_S)

    async def _live(self) -> None:
        request = RegisterRequest(
            broker_id=self.broker_id,
            incarnation_id=f"stand-in-{self.broker_id}",
            host=self.host,
            port=self.port,
            rack=f"rack-{self.broker_id % RACKS}",
            log_dir_ids=(f"directory-{self.broker_id}",),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=SUPPORTED,
        )
        answer = msgspec.json.decode(await self._ask(self._asks, "register", request), type=RegisterResponse)
        self._epoch = answer.broker_epoch
        assert self._epoch >= 0, answer
        async with asyncio.TaskGroup() as tasks:
            self._tasks += [
                tasks.create_task(task) for task in (self._beat(), self._follow(), self._report())
            ]

    async def _beat(self) -> None:
        wire = self._asks = _Wire()
        count = 0
        while True:
            request = HeartbeatRequest(
                broker_id=self.broker_id,
                broker_epoch=BrokerEpoch(self._epoch),
                incarnation_id=f"stand-in-{self.broker_id}",
                applied_controller_epoch=ControllerEpoch(self._position[0]),
                applied_sequence=self._position[1],
                count=count,
                answered=count - 1,
                disk=DiskSpace(free_bytes=1 << 40, total_bytes=1 << 41),
            )
            answer = msgspec.json.decode(await self._ask(wire, "heartbeat", request), type=HeartbeatResponse)
            count += 1
            if answer.preflight:
                await self._ask(wire, "preflight", self._findings(answer))
            await asyncio.sleep(HEARTBEAT_S)

    def _findings(self, answer: HeartbeatResponse) -> PreflightReport:
        return PreflightReport(
            broker_id=self.broker_id,
            broker_epoch=BrokerEpoch(self._epoch),
            peers=tuple(
                PeerReach(broker_id=target.broker_id, broker_epoch=target.broker_epoch)
                for target in answer.preflight or ()
            ),
            disk=DiskFigures(free_bytes=1 << 40, flush_us=1, flush_us_max=1),
            clock=ClockFigures(ahead_ms=0, error_ms=0),
        )

    # -- the metadata stream --

    async def _follow(self) -> None:
        while True:
            request = PollRequest(
                broker_id=self.broker_id,
                broker_epoch=BrokerEpoch(self._epoch),
                applied_controller_epoch=ControllerEpoch(self._position[0]),
                applied_sequence=self._position[1],
                wait_ms_max=POLL_WAIT_MS,
            )
            body = await self._ask(self._polls, "poll", request)
            async with _APPLYING:  # One at a time: decoded, a FULL state is larger than it was.
                batch = msgspec.json.decode(body, type=ToldBatch)
                await self.apply(batch)
            if batch.sequence < 0:
                await asyncio.sleep(RETRY_S)
                continue
            if batch.full:
                self.full_at, self.full_epoch, self.full_bytes = (
                    time.monotonic(),
                    batch.controller_epoch,
                    len(body),
                )
            del body
            self._position = (batch.controller_epoch, batch.sequence)

    async def apply(self, batch: ToldBatch) -> None:
        """Apply a batch; the others in this process send their heartbeats meanwhile."""
        if batch.full:
            self._leaders, self.told = {}, 0
            self._unreported.clear()
            self._created.clear()
        for done, state in enumerate(batch.partitions, start=1):
            self._apply_state(state)
            if done % APPLIED_PER_TURN == 0:
                await asyncio.sleep(0)
        if batch.full and self._dead >= 0:
            self.watch(self._dead)

    def _apply_state(self, state: Told) -> None:
        leaders = self._leaders.get(state.topic_id)
        if leaders is None:
            leaders = self._leaders[state.topic_id] = array("h")
        while len(leaders) <= state.partition:
            leaders.append(UNTOLD)
        before = leaders[state.partition]
        leaders[state.partition] = state.leader
        if before == UNTOLD:
            self.told += 1
        self.waits_for -= before == self._dead != state.leader
        if self.broker_id in state.new_replicas:
            self._created.setdefault(state.topic_id, []).append(state.partition)
        if state.leader == self.broker_id != before:
            self._unreported.append((state, state.leader_epoch))

    # -- reports --

    async def _report(self) -> None:
        wire = _Wire()
        while True:
            await asyncio.sleep(REPORT_S)
            lags = [
                self._lag(*self._unreported.popleft())
                for _ in range(min(REPORTED_MAX, len(self._unreported)))
            ]
            created: list[CreatedLogs] = []
            count = 0
            while self._created and count < REPORTED_MAX:
                topic_id, partitions = self._created.popitem()
                created.append(CreatedLogs(topic_id=topic_id, partitions=tuple(partitions)))
                count += len(partitions)
            if lags or created:
                report = LagReport(
                    broker_id=self.broker_id,
                    broker_epoch=BrokerEpoch(self._epoch),
                    lags=tuple(lags),
                    created=tuple(created),
                )
                await self._ask(wire, "report", report)

    def _lag(self, state: Told, leader_epoch: int) -> PartitionLag:
        return PartitionLag(
            topic_id=state.topic_id,
            partition=state.partition,
            leader_epoch=LeaderEpoch(leader_epoch),
            log_start_offset=0,
            log_end_offset=1_000,
            high_watermark=1_000,
            size_bytes=state.partition * 7_919 % 1_000_003 + 1,
            followers=tuple(
                FollowerLag(broker_id=broker, log_end_offset=1_000, lag_records=0, lag_ms=0)
                for broker in state.replicas
                if broker != self.broker_id
            ),
        )
