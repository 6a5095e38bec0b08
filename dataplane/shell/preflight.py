"""The trials that a broker makes while brokers wait to be added, and reports to the controller.

The controller names listeners in its answers to heartbeats. Each is connected to and asked for ApiVersions:
an open port is not enough, a broker must answer, and speak a version of Fetch that replication uses. A broker
that waits itself also tries its disk. All this is repeated every few seconds until no broker waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from dataplane.storage.disk import Disk
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.preflight import (
    DiskFigures,
    PeerReach,
    PreflightReport,
    PreflightResponse,
    PreflightTarget,
    ReachFailure,
)
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.node.clock import Clock
from springtide.node.controller_client import ControllerUnavailable
from springtide.node.core.clock_comparison import ClockComparison
from springtide.node.net import Net
from springtide.node.peer_versions import NoCommonVersion, common_version
from springtide.node.threads import Threads
from springtide.wire.apis import REPLICA_FETCH_VERSIONS, ApiKey
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest

_log = logging.getLogger(__name__)

INTERVAL_MS: Final = 3_000
REACH_TIMEOUT_MS: Final = 2_000
REACHED_AT_ONCE_MAX: Final = 16
FLUSHES: Final = 8
FLUSHED_BYTES: Final = 4_096
DISK_FILE: Final = "preflight.tmp"


class ReportSink(Protocol):
    """The road to the controller."""

    async def preflight(self, report: PreflightReport) -> PreflightResponse:
        """Raises ControllerUnavailable."""
        ...


class Preflight:
    """`on_heartbeat` says what is to be tried; `run` tries it."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], BrokerEpoch],
        client: ReportSink,
        net: Net,
        clock: Clock,
        disk: Disk,
        threads: Threads,
        path: str,
    ) -> None:
        """path: the log directory."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._client = client
        self._net = net
        self._clock = clock
        self._disk = disk
        self._threads = threads
        self._path = path
        self._comparison = ClockComparison()
        self._targets: tuple[PreflightTarget, ...] | None = None
        self._is_waiting = False
        self._wake = trio.Event()

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        if response.wall_ms >= 0:
            self._comparison.on_reading(
                response.wall_ms, wall_ms=self._clock.wall_ms(), round_trip_ms=now_ms - sent_ms
            )
        self._is_waiting = response.status is BrokerStatus.WAITING
        if response.preflight != self._targets:
            self._targets = response.preflight
            self._wake.set()

    async def run(self) -> None:
        """Try the listeners that the controller names, and report, until cancelled."""
        while True:
            if self._targets is None:
                await self._wake.wait()
                self._wake = trio.Event()
                continue
            self._wake = trio.Event()
            await self._report(self._targets)
            with self._clock.timeout_ms(INTERVAL_MS):
                await self._wake.wait()

    async def _report(self, targets: Sequence[PreflightTarget]) -> None:
        broker_epoch = self._broker_epoch()
        disk = await self._try_disk()
        report = PreflightReport(
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            peers=await self._reach_all(targets),
            disk=disk,
            clock=self._comparison.figures,
        )
        try:
            await self._client.preflight(report)
        except ControllerUnavailable as error:
            _log.info("preflight_not_reported cause=%s", error)

    async def _try_disk(self) -> DiskFigures:
        """The disk of a broker that serves already has better things to do than flushing for us."""
        flushes = FLUSHES if self._is_waiting else 0
        return await self._threads.run(lambda: try_disk(self._disk, self._path, self._clock, flushes=flushes))

    async def _reach_all(self, targets: Sequence[PreflightTarget]) -> tuple[PeerReach, ...]:
        found: list[PeerReach | None] = [None] * len(targets)
        limiter = trio.CapacityLimiter(REACHED_AT_ONCE_MAX)

        async def reach_one(index: int) -> None:
            async with limiter:
                found[index] = await reach(self._net, self._clock, targets[index])

        async with trio.open_nursery() as nursery:
            for index in range(len(targets)):
                nursery.start_soon(reach_one, index)
        return tuple(each for each in found if each is not None)


def try_disk(disk: Disk, path: str, clock: Clock, *, flushes: int) -> DiskFigures:
    """Times a few small appends, each forced to disk. Blocks: call it in a thread."""
    name = f"{path}/{DISK_FILE}"
    times: list[int] = []
    try:
        if flushes:
            file = disk.open(name, create=True)
            try:
                for number in range(flushes):
                    started_us = clock.mono_us()
                    file.pwrite(bytes(FLUSHED_BYTES), number * FLUSHED_BYTES)
                    file.fsync()
                    times.append(clock.mono_us() - started_us)
            finally:
                file.close()
                disk.unlink(name)
        free_bytes = disk.free_bytes(path)
    except OSError as error:
        return DiskFigures(failure=str(error))
    if not times:
        return DiskFigures(free_bytes=free_bytes)
    return DiskFigures(
        free_bytes=free_bytes, flush_us=sorted(times)[len(times) // 2], flush_us_max=max(times)
    )


async def reach(net: Net, clock: Clock, target: PreflightTarget) -> PeerReach:
    """Ask the listener which versions it speaks."""
    failure: ReachFailure | None = ReachFailure.LISTENER_UNREACHABLE
    detail = f"no answer within {REACH_TIMEOUT_MS} ms"
    with clock.timeout_ms(REACH_TIMEOUT_MS):
        try:
            channel = await net.connect(target.host, target.port)
            try:
                await common_version(channel, "preflight", ApiKey.FETCH, REPLICA_FETCH_VERSIONS)
            finally:
                channel.close()
        except NoCommonVersion as error:
            failure, detail = ReachFailure.INCOMPATIBLE_VERSION, str(error)
        except OSError as error:
            detail = error.strerror or str(error) or type(error).__name__
        except (FrameError, MalformedRequest) as error:
            failure = ReachFailure.INCOMPATIBLE_VERSION
            detail = f"what listens there does not speak the Kafka protocol: {error}"
        else:
            failure, detail = None, ""
    return PeerReach(
        broker_id=target.broker_id, broker_epoch=target.broker_epoch, failure=failure, detail=detail[:200]
    )
