"""One broker, put together: its parts, their connections, and how it starts and stops.

    open directory -> recover logs -> listen -> register -> follow the metadata stream -> serve SIGTERM:
    ask for leave -> leaderships move -> stop fetching -> refuse connections -> flush -> marker -> exit

Constructors store; `run` does. A broker can be killed at any point: what it has acknowledged as an
in-sync replica is in the page cache of this machine and of the others, and what it says at its next
registration about its last shutdown is what its own disk can prove.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio
from prometheus_client.metrics_core import Metric

from dataplane.core.creations import PendingCreations
from dataplane.core.fetch_session import FetchSession, FetchSessions, FollowedPartition
from dataplane.core.leader import Leader
from dataplane.core.results import FetchResult, ReplicaOptions
from dataplane.handlers import fetch as fetch_handler
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from dataplane.shell.asides import Asides
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.compactor import Compactor
from dataplane.shell.config import BrokerConfig, TopicSettings
from dataplane.shell.coordinator_calls import CoordinatorCalls
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetches import Fetch, FetchedAnswer, Fetches
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.lookups import Lookups
from dataplane.shell.maintenance import Maintenance
from dataplane.shell.metrics import BrokerCounters, collect_counters
from dataplane.shell.partition_metrics import collect_partitions
from dataplane.shell.partition_reports import PartitionReports
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.preflight import Preflight
from dataplane.shell.produces import Produces
from dataplane.shell.replica_fetcher import ReplicaFetchers
from dataplane.shell.scrubber import Scrubber
from dataplane.shell.untold import Untold
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.log_dir import DIVERGENT, LogDir
from dataplane.storage.tail_cache import BROKER_BYTES_MAX
from springtide.contract.lag_report import ReplicaProblem
from springtide.contract.session import BrokerStatus, RegisterRequest, RegisterResponse
from springtide.contract.updates import ApplyFailure, UpdateBatch
from springtide.native.record_walk import implementation_in_use
from springtide.node.administration import Administration
from springtide.node.authentication import Authentication
from springtide.node.authorization import Authorizer
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.connection import Connection
from springtide.node.controller_client import ControllerClient, Seen
from springtide.node.controller_session import ControllerSession
from springtide.node.handlers.dispatch import make_dispatch
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.lease import Lease
from springtide.node.life import NodeLife
from springtide.node.listeners import BoundListeners
from springtide.node.net import Listener
from springtide.node.producer_ids import ProducerIds
from springtide.node.quotas.enforcement import ClientQuotas
from springtide.node.quotas.metrics import collect_quotas
from springtide.node.server import Server
from springtide.node.settings import NodePorts, NodeSettings, bind
from springtide.node.status import gauge

_log = logging.getLogger(__name__)

SESSION_ID_BITS = 31


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
    `seen` is what the last process saw of the controller. Both listeners are bound; `listen` makes them."""

    def __init__(
        self,
        settings: BrokerSettings,
        ports: Ports,
        log_dir: LogDir,
        problems: Sequence[ReplicaProblem],
        seen: Seen,
        *,
        listeners: BoundListeners,
        metrics_listener: Listener | None = None,
    ) -> None:
        self.settings = settings
        self._ports = ports
        self._incarnation_id = f"{ports.rng.getrandbits(128):032x}"
        #: The cluster's settings that were read last, and what they make of our own.
        self._cluster_configs: Mapping[str, str] = {}
        self._config_in_cluster = settings.config
        clock = self._clock = BrokerClock(ports.clock)
        config = settings.config
        self.counters = BrokerCounters()
        self.counters.started_us = ports.clock.mono_us()
        net = listeners.net_to_peers(ports.net)
        poller = net.poller()
        pending = PendingCreations()
        self.view = ClusterView(unmade=pending.wanted)
        self.lease = Lease()
        self._produces = Produces(self.counters)
        self.directory = DataDirectory(
            broker_id=settings.broker_id,
            disk=ports.disk,
            log_dir=log_dir,
            settings_for=self.topic_settings,
            clock=clock,
            threads=ports.threads,
            spawn=self.spawn,
            on_storage_error=self._on_storage_error,
        )
        self.fetches = Fetches(
            sessions=FetchSessions(
                _session_ids(ports.rng),
                sessions_max=config.number("max.incremental.fetch.session.cache.slots"),
            ),
            evaluate=self._evaluate,
            respond=self._respond,
            clock=clock,
            holds_lease=self.lease.is_held,
        )
        self._untold = Untold(settings.broker_id, self._wake_report)
        self.effects = EffectRunner(
            produces=self._produces,
            fetches=self.fetches,
            store=self.directory,
            untold=self._untold,
            clock=clock,
            end_turn=self.end_turn,
        )
        self.table = PartitionTable(
            broker_id=settings.broker_id,
            view=self.view,
            lease=self.lease,
            clock=clock,
            effects=self.effects,
            untold=self._untold,
            store=self.directory,
            options_for=self._replica_options,
            on_configs=self._configure,
            pending=pending,
            fetches=self.fetches,
            end_turn=self.end_turn,
        )
        self._reports = PartitionReports(
            table=self.table,
            effects=self.effects,
            untold=self._untold,
            view=self.view,
            store=self.directory,
            counters=self.counters,
            end_turn=self.end_turn,
        )
        self.fetchers = ReplicaFetchers(
            broker_id=settings.broker_id,
            broker_epoch=lambda: self.session.broker_epoch,
            effects=self.effects,
            view=self.view,
            net=net,
            poller=poller,
            clock=clock,
            rng=ports.rng,
            config=config,
            counters=self.counters,
        )
        self._maintenance = Maintenance(
            table=self.table,
            effects=self.effects,
            directory=self.directory,
            config=config,
            settings_for=self.topic_settings,
            clock=clock,
            threads=ports.threads,
            end_turn=self.end_turn,
        )
        self._scrubber = Scrubber(
            table=self.table,
            effects=self.effects,
            directory=self.directory,
            view=self.view,
            config=config,
            net=net,
            clock=clock,
            threads=ports.threads,
            broker_id=settings.broker_id,
            broker_epoch=lambda: self.session.broker_epoch,
            end_turn=self.end_turn,
        )
        self.compactor = Compactor(
            table=self.table,
            effects=self.effects,
            config=config,
            clock=clock,
            threads=ports.threads,
            process=ports.compaction,
            end_turn=self.end_turn,
            on_log_error=self._maintenance.on_log_error,
            on_suspect=self._scrubber.check_soon,
        )
        self._client = ControllerClient(
            urls=settings.controllers,
            cluster=settings.cluster,
            broker_id=settings.broker_id,
            clock=ports.clock,
            seen=seen,
            on_seen=self.directory.start_saving_seen,
            transport=ports.controller_transport,
            token=settings.controller_token,
            tls=settings.controller_tls,
        )
        self.quotas = ClientQuotas(
            self.view,
            window=config.quota_window,
            inter_broker=settings.listeners.inter_broker.name,
            has_others=len(settings.listeners.all) > 1,
            mono_ms=clock.mono_ms,
            mono_us=clock.mono_us,
        )
        self.context = BrokerContext(
            broker_id=settings.broker_id,
            config=config,
            counters=self.counters,
            view=self.view,
            table=self.table,
            effects=self.effects,
            produces=self._produces,
            fetches=self.fetches,
            producer_ids=ProducerIds(
                broker_id=settings.broker_id,
                broker_epoch=lambda: self.session.broker_epoch,
                ask=self._client.allocate_producer_ids,
                spawn=self.spawn,
                clock=clock,
                end_turn=self.end_turn,
            ),
            is_view_complete=self.is_view_complete,
            may_judge=lambda: self.is_view_complete() and self.holds_lease(),
            quotas=self.quotas,
            wall_ms=clock.wall_ms,
            mono_ms=clock.mono_ms,
            lookups=Lookups(threads=ports.threads, spawn=self.spawn, end_turn=self.end_turn),
            administration=Administration(
                broker_id=settings.broker_id,
                broker_epoch=lambda: self.session.broker_epoch,
                ask=self._client.administer,
                spawn=self.spawn,
                end_turn=self.end_turn,
            ),
            authorizer=Authorizer(
                self.view,
                inter_broker=listeners.settings.inter_broker.name,
                controllers=settings.controllers,
                counters=self.counters,
                mono_ms=clock.mono_ms,
            ),
            asides=Asides(
                disk=ports.disk,
                directory=f"{log_dir.path}/{DIVERGENT}",
                threads=ports.threads,
                spawn=self.spawn,
                on_opened=self.fetches.on_high_watermark_moved,
                end_turn=self.end_turn,
            ),
            coordinator_calls=CoordinatorCalls(
                net=net,
                clock=ports.clock,
                client_id=f"{OUR_PREFIX}broker-{settings.broker_id}",
                spawn=self.spawn,
                end_turn=self.end_turn,
            ),
            log_dir_failure=lambda: self.directory.failure,
        )
        self.authentication = Authentication(
            settings.listeners,
            view=self.view,
            is_view_complete=self.is_view_complete,
            clock=ports.clock,
            threads=ports.threads,
            rng=ports.rng,
            request_bytes_max=config.server_limits.request_bytes_max,
            spawn=self.spawn,
            end_turn=self.end_turn,
        )
        self.server = Server(
            listeners=listeners.by_name,
            poller=poller,
            dispatch=make_dispatch(HANDLERS, self.context, ports.clock),
            clock=ports.clock,
            threads=ports.threads,
            counters=self.counters,
            limits=config.server_limits,
            on_turn_end=self.fetches.wake,
            begin=self.authentication.begin,
            identify=self.authentication.identify,
            on_connection_closed=self._on_connection_closed,
            connection_delay_ms=self.quotas.connection_delay_ms,
        )
        self.lease.on_controller_epoch(seen.controller_epoch)
        self._preflight = Preflight(
            broker_id=settings.broker_id,
            broker_epoch=lambda: self.session.broker_epoch,
            client=self._client,
            net=net,
            clock=ports.clock,
            disk=ports.disk,
            threads=ports.threads,
            path=log_dir.path,
        )
        told_of = listeners.inter_broker
        self.session = ControllerSession(
            client=self._client,
            identity=RegisterRequest(
                broker_id=settings.broker_id,
                incarnation_id=self._incarnation_id,
                host=told_of.host,
                port=told_of.port,
                listeners=listeners.named,
                rack=settings.rack,
                log_dir_ids=(log_dir.claim.meta.dir_id,),
                last_shutdown=log_dir.claim.last_shutdown,
                previous_broker_epoch=log_dir.claim.previous_broker_epoch,
                unanswered_incarnation_ids=log_dir.claim.previous_unanswered,
                version=settings.version,
                worker_of=settings.worker_of,
            ),
            cluster_id=log_dir.claim.meta.cluster_id or None,
            lease=self.lease,
            clock=self._clock,
            rng=ports.rng,
            reports=self._reports,
            apply=self._apply,
            on_registered=self._on_registered,
            offline_log_dir_ids=self.directory.offline_ids,
            on_went_back=self.directory.disown,
            disk_space=self.directory.space,
            missing_topics=self.context.told_missing,
            certificate_ends_ms=listeners.certificate_ends_ms,
            listener=self._preflight,
        )
        self.life = NodeLife(
            settings,
            ports,
            node_id=settings.broker_id,
            listeners=listeners,
            authentication=self.authentication,
            server=self.server,
            client=self._client,
            session=self.session,
            metrics_listener=metrics_listener,
            collect=self._collect,
            is_ready=self.is_ready,
        )
        self.effects.connect(fetching=self.fetchers, scrubbing=self._scrubber)
        for log in log_dir.logs.values():
            self.table.add_found_log(log)
        for problem in problems:
            self.table.add_problem(problem)

    # What parts ask of the whole

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        self.life.spawn(work)

    def _on_storage_error(self, detail: str) -> None:
        self._maintenance.on_storage_error(detail)

    def end_turn(self) -> None:
        self.server.end_turn()

    async def _apply(self, batch: UpdateBatch) -> Sequence[ApplyFailure]:
        failures = await self.table.apply(batch)
        if batch.full or batch.users:
            self.server.look_after_connections()  # those of former users end before this counts as applied
        return failures

    def _wake_report(self) -> None:
        self.session.wake_report()

    def is_view_complete(self) -> bool:
        return self.session.has_full_state

    def is_ready(self) -> bool:
        return self.session.status is BrokerStatus.ACTIVE and self.directory.failure is None

    def holds_lease(self) -> bool:
        return self.lease.is_held(self._ports.clock.mono_ms())

    def topic_settings(self, topic_id: str) -> TopicSettings:
        """The broker's defaults, under the cluster's, under the topic's own."""
        topic = self.view.topic_by_id(topic_id)
        return self._in_cluster().topic_settings({} if topic is None else topic.configs)

    def _replica_options(self, topic_id: str) -> ReplicaOptions:
        return self._in_cluster().replica_options(self.topic_settings(topic_id))

    def _in_cluster(self) -> BrokerConfig:
        """Every partition asks for it, and it changes when the view gets other settings, as a new mapping."""
        configs = self.view.cluster_configs
        if configs is not self._cluster_configs:
            self._cluster_configs = configs
            self._config_in_cluster = self.settings.config.in_cluster(configs)
        return self._config_in_cluster

    def _configure(self, hosted: HostedPartition) -> None:
        settings = self.topic_settings(hosted.topic_id)
        hosted.log.options = settings.log
        hosted.segment_bytes = settings.log.segment_bytes
        hosted.is_compacted = settings.compaction is not None
        hosted.is_append_time = settings.is_append_time
        hosted.max_message_bytes = settings.max_message_bytes
        hosted.timestamp_before_ms_max = settings.timestamp_before_ms_max
        hosted.timestamp_after_ms_max = settings.timestamp_after_ms_max

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
            await self.directory.on_registering(self._incarnation_id)
            async with trio.open_nursery() as nursery:
                await nursery.start(self.fetchers.run)
                self.life.start(nursery)
                nursery.start_soon(self.fetches.run_timers, self.end_turn)
                nursery.start_soon(self._maintenance.run)
                nursery.start_soon(self.table.creator.run)
                nursery.start_soon(self._scrubber.run)
                nursery.start_soon(self.compactor.run)
                nursery.start_soon(self._preflight.run)
                task_status.started(self)
        finally:
            await self.life.close()

    async def shut_down(self) -> bool:
        """Controlled shutdown: give leaderships away, stop, flush, mark clean. False if no marker could be
        written. Cancel `run` afterwards. One that `run` has not brought up yet is brought up first. Raises
        LogError."""
        await self.life.has_begun.wait()
        deadline_ms = self.settings.config.number("controlled.shutdown.timeout.ms")
        self.session.begin_shutdown()
        if self.session.broker_epoch >= 0:
            _log.info("shutting_down leaderships=%d", self._leader_count())
            with self._ports.clock.timeout_ms(deadline_ms) as scope:
                await self.session.may_shut_down.wait()
            if scope.cancelled_caught:
                _log.warning(
                    "leaving_without_leave waited_ms=%d leaderships=%d",
                    deadline_ms,
                    self.session.remaining_leaderships or self._leader_count(),
                )
        else:
            _log.info("shutting_down_unregistered")
        self.fetchers.stop()
        self.server.stop_serving()
        await self.session.stop()
        self._maintenance.stop()
        await self.table.creator.stop()
        self._scrubber.stop()
        self.compactor.stop()
        high_watermarks = {hosted.key: hosted.replica.high_watermark for hosted in self.table}
        for hosted in self.table:
            hosted.is_forgotten = True
        is_clean = await self.directory.close_cleanly(high_watermarks)
        _log.log(logging.INFO if is_clean else logging.WARNING, "stopped is_clean=%s", is_clean)
        return is_clean

    def _leader_count(self) -> int:
        return sum(isinstance(hosted.replica.role, Leader) for hosted in self.table)

    # Metrics

    def _collect(self) -> Iterator[Metric]:
        yield from collect_counters(self.counters, now_us=self._ports.clock.mono_us())
        yield from collect_partitions(list(self.table))
        yield gauge(
            "springtide_learners_throttled",
            "Replicas being added that wait for their turn under a throttled rate",
            self.fetchers.turns.throttle.waiting,
        )
        yield gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait",
            self._produces.waiting + self.fetches.parked,
        )
        yield gauge(
            "springtide_native_records",
            "1 if C walks the records of produced batches, 0 if Python does, which takes longer",
            int(implementation_in_use() == "native"),
        )
        yield gauge("springtide_connections", "Connections open", self.server.connection_count)
        yield gauge("springtide_lease_held", "1 while the controller's lease holds", int(self.holds_lease()))
        yield from collect_quotas(self.quotas)
        yield from self._scrubber.collect()
        yield from self.compactor.collect()
        yield from self.directory.collect()


async def listen(
    settings: BrokerSettings, ports: Ports, log_dir: LogDir, problems: Sequence[ReplicaProblem], seen: Seen
) -> StorageBroker:
    """Bind the listeners and put the broker together. Raises OSError, TlsFilesInvalid."""
    listeners, metrics_listener = await bind(settings, ports.net)
    return StorageBroker(
        settings, ports, log_dir, problems, seen, listeners=listeners, metrics_listener=metrics_listener
    )


def _session_ids(rng: random.Random) -> Iterator[int]:
    """Hard to guess, positive, 31 bits."""
    while True:
        session_id = rng.getrandbits(SESSION_ID_BITS)
        if session_id:
            yield session_id
