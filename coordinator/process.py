"""One coordinator, put together: its parts, their connections, and how it starts and stops.

    listen -> register -> follow the metadata stream -> open the shards that it is given -> serve
    SIGTERM: ask for leave -> its shards go to others -> refuse connections -> exit

Constructors store; `run` does. A coordinator can be killed at any point: the coordinators that are given its
shards replay their logs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio
from prometheus_client.metrics_core import Metric

from coordinator.config import CoordinatorConfig
from coordinator.core.group_news import NewsOfGroups
from coordinator.core.groups.machine import GroupMachine
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.table import HANDLERS
from coordinator.shell.group_watch import GroupWatch, write_groups
from coordinator.shell.log_ends import PartitionEnds
from coordinator.shell.shards import Shards
from springtide.contract.partition_state import WriterId
from springtide.contract.session import BrokerStatus, RegisterRequest, RegisterResponse, ShutdownKind
from springtide.contract.updates import ApplyFailure, NameWriterRequest, NameWriterResponse, UpdateBatch
from springtide.node.administration import Administration
from springtide.node.authentication import Authentication
from springtide.node.authorization import Authorizer
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.controller_client import ControllerClient
from springtide.node.controller_session import ControllerSession
from springtide.node.counters import NodeCounters, collect_node_counters
from springtide.node.handlers.dispatch import make_dispatch
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings(NodeSettings):
    """The settings of `coordinator serve`."""

    coordinator_id: int
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)


class CoordinatorProcess:
    """See the module. Both listeners are bound; `listen` makes them."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        ports: NodePorts,
        *,
        listeners: BoundListeners,
        metrics_listener: Listener | None = None,
    ) -> None:
        self.settings = settings
        self._ports = ports
        self._has_no_shard = trio.Event()
        clock = BrokerClock(ports.clock)
        self.counters = NodeCounters()
        self.counters.started_us = ports.clock.mono_us()
        self.view = ClusterView()
        lease = Lease()
        net = listeners.net_to_peers(ports.net)
        self._client = ControllerClient(
            urls=settings.controllers,
            cluster=settings.cluster,
            broker_id=settings.coordinator_id,
            clock=ports.clock,
            role="coordinators",
            transport=ports.controller_transport,
            token=settings.controller_token,
            tls=settings.controller_tls,
        )
        self.shards = Shards(
            coordinator_id=settings.coordinator_id,
            coordinator_epoch=lambda: self.session.broker_epoch,
            view=self.view,
            net=net,
            clock=clock,
            rng=ports.rng,
            new_machine=partial(GroupMachine, settings.config.group_options),
            name_writer=self._name_writer,
            is_current=lease.is_current,
            spawn=self.spawn,
            end_turn=self.end_turn,
        )
        self.groups = GroupWatch(
            self._group_machines,
            PartitionEnds(
                view=self.view,
                net=net,
                clock=clock,
                client_id=f"coordinator-{settings.coordinator_id}",
            ),
            clock,
        )
        self.news = NewsOfGroups(self._group_machines, lambda: self.groups.troubles)
        self.quotas = ClientQuotas(
            self.view,
            window=settings.config.quota_window,
            inter_broker=settings.listeners.inter_broker.name,
            has_others=len(settings.listeners.all) > 1,
            mono_ms=clock.mono_ms,
            mono_us=clock.mono_us,
        )
        context = CoordinatorContext(
            view=self.view,
            is_view_complete=lambda: self.session.has_full_state,
            may_judge=lambda: self.session.has_full_state and lease.is_held(clock.mono_ms()),
            administration=Administration(
                broker_id=settings.coordinator_id,
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
            producer_ids=ProducerIds(
                broker_id=settings.coordinator_id,
                broker_epoch=lambda: self.session.broker_epoch,
                ask=self._client.allocate_producer_ids,
                spawn=self.spawn,
                clock=clock,
                end_turn=self.end_turn,
            ),
            counters=self.counters,
            quotas=self.quotas,
            wall_ms=clock.wall_ms,
            mono_ms=clock.mono_ms,
            shards=self.shards,
            new_member_suffix=lambda: str(uuid.UUID(int=ports.rng.getrandbits(128), version=4)),
        )
        self.authentication = Authentication(
            settings.listeners,
            view=self.view,
            is_view_complete=lambda: self.session.has_full_state,
            clock=ports.clock,
            threads=ports.threads,
            rng=ports.rng,
            request_bytes_max=settings.config.server_limits.request_bytes_max,
            spawn=self.spawn,
            end_turn=self.end_turn,
        )
        self.server = Server(
            listeners=listeners.by_name,
            poller=net.poller(),
            dispatch=make_dispatch(HANDLERS, context, ports.clock),
            clock=ports.clock,
            threads=ports.threads,
            counters=self.counters,
            limits=settings.config.server_limits,
            on_turn_end=self.shards.end_turn,
            begin=self.authentication.begin,
            identify=self.authentication.identify,
            connection_delay_ms=self.quotas.connection_delay_ms,
        )
        told_of = listeners.inter_broker
        self.session = ControllerSession(
            client=self._client,
            identity=RegisterRequest(
                broker_id=settings.coordinator_id,
                incarnation_id=f"{ports.rng.getrandbits(128):032x}",
                host=told_of.host,
                port=told_of.port,
                listeners=listeners.named,
                rack=settings.rack,
                log_dir_ids=(),
                last_shutdown=ShutdownKind.FIRST_START,
                version=settings.version,
            ),
            cluster_id=None,
            lease=lease,
            clock=clock,
            rng=ports.rng,
            apply=self._apply,
            on_registered=self._on_registered,
            level=self.shards.level,
            groups=self.news.take,
            missing_topics=context.told_missing,
            certificate_ends_ms=listeners.certificate_ends_ms,
            listener=self.news,
        )
        self.life = NodeLife(
            settings,
            ports,
            node_id=settings.coordinator_id,
            listeners=listeners,
            authentication=self.authentication,
            server=self.server,
            client=self._client,
            session=self.session,
            metrics_listener=metrics_listener,
            collect=self._collect,
            is_ready=lambda: self.session.status is BrokerStatus.ACTIVE,
            write_more=lambda: write_groups(self.groups.seen),
        )

    # What parts ask of the whole

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        self.life.spawn(work)

    def end_turn(self) -> None:
        self.server.end_turn()

    def _group_machines(self) -> list[GroupMachine]:
        return [machine for machine in self.shards.served() if isinstance(machine, GroupMachine)]

    async def _name_writer(self, topic_id: str, partition: int, found: WriterId | None) -> NameWriterResponse:
        return await self._client.name_writer(
            NameWriterRequest(
                broker_id=self.settings.coordinator_id,
                broker_epoch=self.session.broker_epoch,
                topic_id=topic_id,
                partition=partition,
                found=found,
            )
        )

    async def _on_registered(self, response: RegisterResponse) -> None:
        self.view.cluster_id = response.cluster_id

    async def _apply(self, batch: UpdateBatch) -> Sequence[ApplyFailure]:
        self.view.apply(batch, now_ms=self._ports.clock.mono_ms())
        if batch.full or batch.users:
            self.server.look_after_connections()  # those of former users end before this counts as applied
        self.shards.on_view_changed()
        if self.session.wants_shutdown and not self.shards.owned():
            self._has_no_shard.set()
        return ()

    # Life

    async def run(
        self, *, task_status: trio.TaskStatus[CoordinatorProcess] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled or told to shut down. Raise RegistrationRefused, WentBack."""
        try:
            async with trio.open_nursery() as nursery:
                self.life.start(nursery)
                nursery.start_soon(self.groups.run)
                task_status.started(self)
        finally:
            await self.life.close()

    async def shut_down(self) -> bool:
        """Give the shards away and stop. Cancel `run` afterwards. Return False if they were not given away in
        time."""
        await self.life.has_begun.wait()
        deadline_ms = self.settings.config.number("controlled.shutdown.timeout.ms")
        self.session.begin_shutdown()
        is_in_time = True
        if self.session.broker_epoch >= 0:
            _log.info("shutting_down shards=%d", len(self.shards.owned()))
            with self._ports.clock.timeout_ms(deadline_ms) as scope:
                await self.session.may_shut_down.wait()
                if self.shards.owned():
                    await self._has_no_shard.wait()
            is_in_time = not scope.cancelled_caught
            if not is_in_time:
                _log.warning(
                    "leaving_without_leave waited_ms=%d shards=%d", deadline_ms, len(self.shards.owned())
                )
        self.shards.stop()
        self.server.stop_serving()
        _log.info("stopped")
        return is_in_time

    # Metrics

    def _collect(self) -> Iterator[Metric]:
        yield from collect_node_counters(self.counters, now_us=self._ports.clock.mono_us())
        yield gauge("springtide_connections", "Connections open", self.server.connection_count)
        yield from collect_quotas(self.quotas)
        yield from self.shards.collect()


async def listen(settings: CoordinatorSettings, ports: NodePorts) -> CoordinatorProcess:
    """Bind the listeners and put the coordinator together. Raise OSError, TlsFilesInvalid."""
    listeners, metrics_listener = await bind(settings, ports.net)
    return CoordinatorProcess(settings, ports, listeners=listeners, metrics_listener=metrics_listener)
