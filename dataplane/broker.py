"""One broker, put together: its parts, their connections, and how it starts and stops.

    open directory -> recover logs -> listen -> register -> follow the metadata stream -> serve SIGTERM:
    ask for leave -> leaderships move -> stop fetching -> refuse connections -> flush -> marker -> exit

Constructors store; `run` does. A broker can be killed at any point: what it has acknowledged as an
in-sync replica is in the page cache of this machine and of the others, and what it says at its next
registration about its last shutdown is what its own disk can prove.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import msgspec
import trio
from prometheus_client.metrics_core import Metric

from dataplane.core.broker import Broker
from dataplane.core.fetch_session import FetchSession, FollowedPartition
from dataplane.core.fetches import Fetch, FetchedAnswer
from dataplane.core.out_of_sync import RED_SECONDS_MAX, OutOfSync, own_ids
from dataplane.core.results import FetchResult
from dataplane.core.shutdown import SHUTDOWN, ShutdownStep
from dataplane.core.verifications import ReleasedBatches
from dataplane.handlers import appending
from dataplane.handlers import fetch as fetch_handler
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from dataplane.parts import Replicas, Upkeep
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.config import BrokerConfig
from dataplane.shell.coordinator_calls import CoordinatorCalls
from dataplane.shell.divergent_logs import DivergentLogs
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.lookups import Lookups
from dataplane.shell.metrics import BrokerCounters, collect_counters
from dataplane.shell.preflight import Preflight
from dataplane.shell.verification import CoordinatorQuestions
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.log_dir import DIVERGENT, LogDir
from dataplane.storage.tail_cache import BROKER_BYTES_MAX
from springtide.contract.lag_report import ReplicaProblem
from springtide.contract.session import BrokerStatus, RegisterResponse
from springtide.contract.updates import ApplyFailure, UpdateBatch
from springtide.native.record_walk import implementation_in_use
from springtide.node.cluster_view import ClusterView
from springtide.node.connection import Connection
from springtide.node.controller_client import Seen
from springtide.node.controller_session import ControllerSession
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.node import ServingNode
from springtide.node.quotas.metrics import collect_quotas
from springtide.node.settings import Bound, NodePorts, NodeSettings, bind
from springtide.node.status import gauge

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings(NodeSettings):
    """The settings of `dataplane serve`. worker_of: the broker's id, where this is one of several workers
    of it. tail_bytes_max: of the newest bytes of all logs, kept in memory."""

    broker_id: int
    config: BrokerConfig = field(default_factory=BrokerConfig)
    worker_of: int | None = None
    tail_bytes_max: int = BROKER_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports(NodePorts):
    """The world of a broker, which has a disk. compaction: see Compactor."""

    disk: Disk = field(default_factory=PosixDisk)
    compaction: CompactionProcess | None = None


class StorageBroker:
    """See the module. `log_dir` is open and locked, its logs are recovered, `problems` were found with them,
    `seen` is what the last process saw of the controller. The listeners are bound; `listen` makes them."""

    def __init__(
        self,
        settings: BrokerSettings,
        ports: Ports,
        log_dir: LogDir,
        problems: Sequence[ReplicaProblem],
        seen: Seen,
        *,
        bound: Bound,
    ) -> None:
        self.settings = settings
        self._ports = ports
        self.counters = BrokerCounters()
        core: Broker[HostedPartition] = Broker(settings.broker_id)
        node = self.node = ServingNode(
            settings,
            ports,
            bound,
            node_id=settings.broker_id,
            role="brokers",
            config=settings.config,
            counters=self.counters,
            view=ClusterView(unmade=core.creations.wanted),
            seen=seen,
            on_seen=self._on_seen,
        )
        self.view, self.lease, self.authentication = node.view, node.lease, node.authentication
        self.lease.on_controller_epoch(seen.controller_epoch)
        replicas = self.replicas = Replicas(
            node,
            settings.config,
            self.counters,
            core=core,
            disk=ports.disk,
            log_dir=log_dir,
            evaluate=self._evaluate,
            respond=self._respond,
            on_storage_error=self._on_storage_error,
        )
        self.directory, self.table, self.effects = replicas.directory, replicas.table, replicas.effects
        self.fetches, self.fetchers = replicas.fetches, replicas.fetchers
        self.upkeep = Upkeep(node, replicas, settings.config, ports.compaction)
        self._out_of_sync = OutOfSync(own_ids(settings.broker_id, settings.worker_of))
        self.effects.connect(fetching=self.fetchers, scrubbing=self.upkeep.scrubber)
        self._verification = self._make_verification()
        self.context = self._make_context(log_dir)
        self._preflight = self._make_preflight(log_dir)
        self.session = self._make_session(log_dir)
        node.complete(
            self.session,
            self.context,
            HANDLERS,
            on_turn_end=self.fetches.wake,
            on_connection_closed=self._on_connection_closed,
            collect=self._collect,
            is_ready=self.is_ready,
            in_sync=self._in_sync,
            notes=self.fetchers.not_understood.values,
        )
        self.server = node.server
        for log in log_dir.logs.values():
            self.table.add_found_log(log)
        for problem in problems:
            self.table.add_problem(problem)

    # How some of its parts are made

    def _make_context(self, log_dir: LogDir) -> BrokerContext:
        node, ports = self.node, self._ports
        return BrokerContext(
            **node.context_parts(),
            broker_id=node.node_id,
            config=self.settings.config,
            counters=self.counters,
            table=self.table,
            effects=self.effects,
            produces=self.replicas.produces,
            verification=self._verification,
            fetches=self.fetches,
            lookups=Lookups(threads=ports.threads, spawn=node.spawn),
            divergent_logs=DivergentLogs(
                disk=ports.disk,
                directory=f"{log_dir.path}/{DIVERGENT}",
                threads=ports.threads,
                spawn=node.spawn,
                on_opened=self.fetches.on_high_watermark_moved,
            ),
            coordinator_calls=CoordinatorCalls(
                net=node.net,
                clock=ports.clock,
                client_id=f"{OUR_PREFIX}broker-{node.node_id}",
                spawn=node.spawn,
            ),
            log_dir_failure=lambda: self.directory.failure,
            room=log_dir.health.room,
        )

    def _make_verification(self) -> CoordinatorQuestions:
        node = self.node
        return CoordinatorQuestions(
            view=self.view,
            net=node.net,
            clock=self._ports.clock,
            client_id=f"{OUR_PREFIX}broker-{node.node_id}",
            spawn=node.spawn,
            end_turn=node.end_turn,
            on_released=self._on_released,
            counters=self.counters,
        )

    def _make_preflight(self, log_dir: LogDir) -> Preflight:
        return Preflight(
            broker_id=self.node.node_id,
            broker_epoch=self.node.epoch,
            client=self.node.client,
            net=self.node.net,
            clock=self._ports.clock,
            disk=self._ports.disk,
            threads=self._ports.threads,
            path=log_dir.path,
        )

    def _make_session(self, log_dir: LogDir) -> ControllerSession:
        claim = log_dir.claim
        return ControllerSession(
            **self.node.session_parts(self.context),
            identity=msgspec.structs.replace(
                self.node.identity(),
                log_dir_ids=(claim.meta.dir_id,),
                last_shutdown=claim.last_shutdown,
                previous_broker_epoch=claim.previous_broker_epoch,
                unanswered_incarnation_ids=claim.previous_unanswered,
                worker_of=self.settings.worker_of,
            ),
            cluster_id=claim.meta.cluster_id or None,
            reports=self.replicas.reports,
            apply=self._apply,
            on_registered=self._on_registered,
            offline_log_dir_ids=self.directory.offline_ids,
            log_dir_failure=lambda: self.directory.failure or "",
            keeps_its_logs=lambda: not claim.is_disowned,
            on_went_back=self.directory.disown,
            disk_space=self.directory.space,
            listener=self._preflight,
        )

    # What parts ask of the whole

    def _on_seen(self, seen: Seen) -> None:
        self.directory.start_saving_seen(seen)

    def _on_storage_error(self, detail: str) -> None:
        self.upkeep.maintenance.on_storage_error(detail)

    async def _apply(self, batch: UpdateBatch) -> Sequence[ApplyFailure]:
        failures = await self.table.apply(batch)
        self._out_of_sync.apply(batch, now_ms=self.node.clock.mono_ms())
        if batch.full or batch.users:
            self.server.look_after_connections()  # those of former users end before this counts as applied
        return failures

    def is_ready(self) -> bool:
        return self.session.status is BrokerStatus.ACTIVE and self.directory.failure is None

    def _in_sync(self, red_seconds_max: int | None) -> tuple[bool, str]:
        now_ms = self.node.clock.mono_ms()
        return self._out_of_sync.verdict(
            now_ms=now_ms,
            is_current=self.lease.is_current(now_ms),
            red_ms_max=1000 * (RED_SECONDS_MAX if red_seconds_max is None else red_seconds_max),
        )

    def holds_lease(self) -> bool:
        return self.node.holds_lease()

    def _evaluate(
        self,
        session: FetchSession,
        followed: FollowedPartition,
        max_bytes: int,
        at_least_one: bool,
        now_ms: int,
    ) -> FetchResult:
        return fetch_handler.evaluate(
            self.context, session, followed, max_bytes=max_bytes, at_least_one=at_least_one, now_ms=now_ms
        )

    def _respond(self, fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]) -> None:
        fetch_handler.respond(self.context, fetch, session, answers)

    def _on_released(self, released: ReleasedBatches) -> None:
        appending.on_released(self.context, released)

    async def _on_registered(self, response: RegisterResponse) -> None:
        await self.directory.on_registered(cluster_id=response.cluster_id, broker_epoch=response.broker_epoch)
        self.directory.seals.chain_epoch = response.chain_epoch
        self.view.cluster_id = response.cluster_id

    def _on_connection_closed(self, connection: Connection) -> None:
        """A follower's session ends with its connection: it will open another, and until then its silence
        must not pass for following. A consumer may come back to its own."""
        session = connection.fetch_session
        if not isinstance(session, FetchSession):
            return
        if isinstance(session.parked, Fetch):
            self.fetches.drop(session.parked)
        if session.is_replica:
            self.fetches.sessions.close(session)

    # Life

    async def run(self, *, task_status: trio.TaskStatus[StorageBroker] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled or told to shut down. Raises RegistrationRefused, LogDirRefused, OSError."""
        try:
            await self.directory.on_registering(self.node.incarnation_id)
            async with trio.open_nursery() as nursery:
                await nursery.start(self.fetchers.run)
                self.node.start(nursery)
                nursery.start_soon(self.fetches.run_timers, self.node.end_turn)
                nursery.start_soon(self._verification.run)
                nursery.start_soon(self.upkeep.maintenance.run)
                nursery.start_soon(self.table.creator.run)
                nursery.start_soon(self.upkeep.scrubber.run)
                nursery.start_soon(self.upkeep.compactor.run)
                nursery.start_soon(self._preflight.run)
                task_status.started(self)
        finally:
            await self.node.close()

    async def shut_down(self) -> bool:
        """Controlled shutdown: give leaderships away, stop, flush, mark clean. False if no marker could be
        written. Cancel `run` afterwards. One that `run` has not brought up yet is brought up first. Raises
        LogError."""
        await self.node.has_begun.wait()
        is_clean = False
        for step in SHUTDOWN:
            match step:
                case ShutdownStep.LEAVE:
                    await self._leave()
                case ShutdownStep.STOP_FETCHING:
                    self.fetchers.stop()
                case ShutdownStep.REFUSE_CLIENTS:
                    self.server.stop_serving()
                case ShutdownStep.END_SESSION:
                    await self.session.stop()
                case ShutdownStep.STOP_WORK:
                    self.upkeep.maintenance.stop()
                    await self.table.creator.stop()
                    self.upkeep.scrubber.stop()
                    self.upkeep.compactor.stop()
                case ShutdownStep.CLOSE_LOGS:
                    is_clean = await self.directory.close_cleanly(self.effects.broker.close())
                case _:
                    assert_never(step)
        _log.log(logging.INFO if is_clean else logging.WARNING, "stopped is_clean=%s", is_clean)
        return is_clean

    async def _leave(self) -> None:
        deadline_ms = self.settings.config.number("controlled.shutdown.timeout.ms")
        self.session.begin_shutdown()
        if self.session.broker_epoch < 0:
            _log.info("shutting_down_unregistered")
            return
        _log.info("shutting_down leaderships=%d", self.replicas.leader_count())
        with self._ports.clock.timeout_ms(deadline_ms) as scope:
            await self.session.may_shut_down.wait()
        if scope.cancelled_caught:
            _log.warning(
                "leaving_without_leave waited_ms=%d leaderships=%d",
                deadline_ms,
                self.session.remaining_leaderships or self.replicas.leader_count(),
            )

    # Metrics

    def _collect(self) -> Iterator[Metric]:
        yield from collect_counters(self.counters, now_us=self._ports.clock.mono_us())
        yield from self.replicas.collect(parked=self._verification.parked, now_ms=self._ports.clock.mono_ms())
        yield gauge(
            "springtide_native_records",
            "1 if C walks produced records and reads usual requests, 0 if Python does, which takes longer",
            int(implementation_in_use() == "native"),
        )
        yield gauge(
            "springtide_leaders_not_understood",
            "Leaders of another release that can't be followed",
            len(self.fetchers.not_understood),
        )
        yield gauge("springtide_connections", "Connections open", self.server.connection_count)
        yield gauge("springtide_lease_held", "1 while the controller's lease holds", int(self.holds_lease()))
        yield from collect_quotas(self.node.quotas)
        yield from self.upkeep.scrubber.collect()
        yield from self.upkeep.compactor.collect()
        yield from self.directory.collect()


async def listen(
    settings: BrokerSettings, ports: Ports, log_dir: LogDir, problems: Sequence[ReplicaProblem], seen: Seen
) -> StorageBroker:
    """Bind the listeners and put the broker together. Raises OSError, TlsFilesInvalid."""
    return StorageBroker(settings, ports, log_dir, problems, seen, bound=await bind(settings, ports.net))
