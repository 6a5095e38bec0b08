"""A process that serves clients, put together: the parts that brokers and coordinators share, and its life.

    constructor: what handlers answer from; `complete`: the server and the session, which need the handlers
    start: serve metrics, register, serve Kafka's port once no other process holds its id
    close: free the ports and end the connections to the controller

A process that is closed is not started again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypedDict, TypeVar

import trio
from prometheus_client.metrics_core import Metric

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.session import ProcessLoad, RegisterRequest, ShutdownKind
from springtide.levels import SUPPORTED, Level
from springtide.node.administration import Administration
from springtide.node.authentication import Authentication
from springtide.node.authorization import Authorizer
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.config import NodeConfig
from springtide.node.connection import Connection
from springtide.node.controller_client import UNTOLD, ControllerClient, Role, Seen
from springtide.node.controller_session import ControllerSession
from springtide.node.counters import NodeCounters
from springtide.node.handlers.context import NodeContext
from springtide.node.handlers.dispatch import Handler, make_dispatch
from springtide.node.lease import Lease
from springtide.node.listeners import METRICS, BoundListeners
from springtide.node.producer_ids import ProducerIds
from springtide.node.quotas.enforcement import ClientQuotas
from springtide.node.server import Server
from springtide.node.settings import Bound, NodePorts, NodeSettings
from springtide.node.stall_watch import StallWatch
from springtide.node.status import InSync, MetricsCollector, StatusServer, gauge, has_nothing_to_follow
from springtide.node.tls_files import keep_fresh

_log = logging.getLogger(__name__)

C = TypeVar("C", bound=NodeContext)


class ContextParts(TypedDict):
    """The fields of a NodeContext that are made alike in each process."""

    view: ClusterView
    is_view_complete: Callable[[], bool]
    may_judge: Callable[[], bool]
    administration: Administration
    authorizer: Authorizer
    producer_ids: ProducerIds
    quotas: ClientQuotas
    wall_ms: Callable[[], int]
    mono_ms: Callable[[], int]
    level: Callable[[], Level]


class SessionParts(TypedDict):
    """The arguments of a ControllerSession that are made alike in each process."""

    client: ControllerClient
    lease: Lease
    clock: BrokerClock
    rng: random.Random
    missing_topics: Callable[[], tuple[MissingTopic, ...]]
    wants_transactions: Callable[[], bool]
    load: Callable[[], ProcessLoad]
    certificate_ends_ms: Callable[[], int]


class ServingNode:
    """See the module. node_id: the broker's or coordinator's id. role: what the process is. view: without a
    state of the cluster yet. seen, on_seen: see ControllerClient.

    has_begun: set once its tasks are started.
    """

    session: ControllerSession
    server: Server
    status: StatusServer | None = None

    def __init__(
        self,
        settings: NodeSettings,
        ports: NodePorts,
        bound: Bound,
        *,
        node_id: int,
        role: Role,
        config: NodeConfig,
        counters: NodeCounters,
        view: ClusterView,
        seen: Seen = UNTOLD,
        on_seen: Callable[[Seen], None] | None = None,
    ) -> None:
        self._settings = settings
        self._bound = bound
        self._config = config
        self._nursery: trio.Nursery | None = None
        self.ports = ports
        self.node_id = node_id
        self.incarnation_id = f"{ports.rng.getrandbits(128):032x}"
        self.has_begun = trio.Event()
        self.clock = BrokerClock(ports.clock)
        self.counters = counters
        counters.started_us = ports.clock.mono_us()
        self.view = view
        self.lease = Lease()
        self.listeners: BoundListeners = bound.listeners
        self.net = self.listeners.net_to_peers(ports.net)
        self.poller = self.net.poller()
        self.client = ControllerClient(
            urls=settings.controllers,
            cluster=settings.cluster,
            broker_id=node_id,
            clock=ports.clock,
            role=role,
            seen=seen,
            on_seen=on_seen,
            transport=ports.controller_transport,
            token=settings.controller_token,
            tls=settings.controller_tls,
        )
        self.quotas = ClientQuotas(
            view,
            window=config.quota_window,
            inter_broker=settings.listeners.inter_broker.name,
            has_others=len(settings.listeners.all) > 1,
            mono_ms=self.clock.mono_ms,
            mono_us=self.clock.mono_us,
        )
        self.authentication = Authentication(
            settings.listeners,
            view=view,
            is_view_complete=self.is_view_complete,
            clock=ports.clock,
            threads=ports.threads,
            rng=ports.rng,
            request_bytes_max=config.server_limits.request_bytes_max,
            spawn=self.spawn,
        )

    # What its parts are made of, and ask of the whole

    def context_parts(self) -> ContextParts:
        """Make the parts that handlers answer from."""
        return ContextParts(
            view=self.view,
            is_view_complete=self.is_view_complete,
            may_judge=lambda: self.is_view_complete() and self.holds_lease(),
            administration=Administration(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                ask=self.client.administer,
                spawn=self.spawn,
            ),
            authorizer=Authorizer(
                self.view,
                inter_broker=self.listeners.settings.inter_broker.name,
                controllers=self._settings.controllers,
                counters=self.counters,
                mono_ms=self.clock.mono_ms,
            ),
            producer_ids=ProducerIds(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                ask=self.client.allocate_producer_ids,
                spawn=self.spawn,
                clock=self.clock,
            ),
            quotas=self.quotas,
            wall_ms=self.clock.wall_ms,
            mono_ms=self.clock.mono_ms,
            level=lambda: self.level,
        )

    def session_parts(self, context: NodeContext) -> SessionParts:
        return SessionParts(
            client=self.client,
            lease=self.lease,
            clock=self.clock,
            rng=self.ports.rng,
            missing_topics=context.told_missing,
            wants_transactions=context.wants_transactions,
            load=self.load,
            certificate_ends_ms=self.listeners.certificate_ends_ms,
        )

    def load(self) -> ProcessLoad:
        return ProcessLoad(
            connections=self.server.connection_count, requests=sum(self.counters.requests.values())
        )

    def identity(self) -> RegisterRequest:
        """Return the registration of a process that stores nothing."""
        told_of = self.listeners.inter_broker
        return RegisterRequest(
            broker_id=self.node_id,
            incarnation_id=self.incarnation_id,
            host=told_of.host,
            port=told_of.port,
            listeners=self.listeners.named,
            rack=self._settings.rack,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            version=self._settings.version,
            levels=SUPPORTED,
        )

    def complete(
        self,
        session: ControllerSession,
        context: C,
        handlers: Mapping[int, Handler[C]],
        *,
        on_turn_end: Callable[[], None],
        on_connection_closed: Callable[[Connection], None] | None = None,
        collect: Callable[[], Iterable[Metric]],
        is_ready: Callable[[], bool],
        in_sync: InSync = has_nothing_to_follow,
        notes: Callable[[], Iterable[str]] = tuple,
        write_more: Callable[[], bytes] = bytes,
    ) -> None:
        """Make the server of these handlers, and the page of metrics if one is wanted. collect, is_ready,
        in_sync, notes, write_more: for that page."""
        clock, threads = self.ports.clock, self.ports.threads
        self.session = session
        self.server = Server(
            listeners=self.listeners.by_name,
            poller=self.poller,
            dispatch=make_dispatch(handlers, context, clock),
            clock=clock,
            threads=threads,
            counters=self.counters,
            limits=self._config.server_limits,
            on_turn_end=on_turn_end,
            begin=self.authentication.begin,
            identify=self.authentication.identify,
            on_connection_closed=on_connection_closed,
            connection_delay_ms=self.quotas.connection_delay_ms,
        )
        if self._bound.metrics is not None:
            self.status = StatusServer(
                listener=self._bound.metrics,
                collector=MetricsCollector(
                    [self._collect, collect, self.listeners.collect, self.authentication.collect]
                ),
                is_ready=is_ready,
                notes=lambda: (*self.client.not_understood.values(), *notes()),
                in_sync=in_sync,
                clock=clock,
                threads=threads,
                write_more=write_more,
            )

    def _collect(self) -> Iterable[Metric]:
        yield gauge(
            "springtide_requests_not_understood",
            "Kinds of requests that the controller, of another release, does not know",
            len(self.client.not_understood),
        )

    def epoch(self) -> BrokerEpoch:
        """Return the epoch of the last registration; -1 before the first."""
        return self.session.broker_epoch

    @property
    def level(self) -> Level:
        """Return the cluster's feature level, as it was told last: `levels.allows` is asked with it."""
        return self.session.level

    def is_view_complete(self) -> bool:
        return self.session.has_full_state

    def holds_lease(self) -> bool:
        return self.lease.is_held(self.ports.clock.mono_ms())

    def wake_report(self) -> None:
        self.session.wake_report()

    def end_turn(self) -> None:
        self.server.end_turn()

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task beside the others; it ends with the process. Its end is the end of a turn: the answers
        that it completed leave. Do nothing before `start` and after `close`."""

        async def turn() -> None:
            await work()
            self.end_turn()

        if self._nursery is not None:
            self._nursery.start_soon(turn)

    # Life

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that each process has. The session's raises RegistrationRefused or WentBack."""
        self._nursery = nursery
        clock, threads = self.ports.clock, self.ports.threads
        nursery.start_soon(self.server.drive)
        nursery.start_soon(StallWatch(clock, self.counters).run)
        nursery.start_soon(self._serve_when_alone)
        if self.status is not None:
            nursery.start_soon(self.status.serve)
            scheme = "http" if METRICS not in self.listeners.materials else "https"
            _log.info("metrics_served url=%s", f"{scheme}://" + "{}:{}/metrics".format(*self.status.address))
        nursery.start_soon(self.session.run)
        nursery.start_soon(keep_fresh, self.listeners.materials, clock, threads)
        for keys in self.authentication.issuers.values():
            nursery.start_soon(keys.run)
        self.has_begun.set()

    async def _serve_when_alone(self) -> None:
        await self.session.may_listen.wait()
        for one in self.listeners.settings.all:
            bound = self.listeners.by_name[one.name].address
            told = one.endpoint(bound)
            _log.info(
                "serving_kafka cluster=%s node_id=%d listener=%s protocol=%s address=%s advertised=%s",
                self._settings.cluster,
                self.node_id,
                one.name or "-",
                one.protocol,
                "{}:{}".format(*bound),
                f"{told.host}:{told.port}",
            )
        self.ports.service.ready()  # also while it waits for a controller or for its admission
        await self.server.serve()

    async def close(self) -> None:
        self._nursery = None
        self.listeners.close()
        self.poller.close()
        with trio.CancelScope(shield=True):
            await self.client.aclose()
