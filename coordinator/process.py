"""One coordinator, put together: its parts, their connections, and how it starts and stops.

    listen -> register -> follow the metadata stream -> open the shards that it is given -> serve
    SIGTERM: ask for leave -> its shards go to others -> refuse connections -> exit

Constructors store; `run` does. A coordinator can be killed at any point: the coordinators that are given its
shards replay their logs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio
from prometheus_client.metrics_core import Metric

from coordinator.config import CoordinatorConfig
from coordinator.core.group_news import NewsOfGroups
from coordinator.core.groups.consumer.assigning import TargetQuestion
from coordinator.core.groups.consumer.patterns import PatternQuestion
from coordinator.core.groups.consumer.requests import TopicsKnown
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.machine import Machine
from coordinator.core.transaction_news import NewsOfTransactions
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.table import HANDLERS
from coordinator.shell.group_watch import GroupWatch, write_groups
from coordinator.shell.known_topics import KnownTopics
from coordinator.shell.log_ends import PartitionEnds
from coordinator.shell.marker_sender import MarkerSender
from coordinator.shell.pattern_answers import answer_patterns
from coordinator.shell.peer_link import TransactionLink
from coordinator.shell.shard_host import Answerer, ShardHost, give_no_answer
from coordinator.shell.shard_metrics import collect_groups, collect_shards
from coordinator.shell.shards import Shards
from coordinator.shell.target_process import TargetProcess
from springtide.contract.partition_state import WriterId
from springtide.contract.session import BrokerStatus, HeartbeatResponse, LevelShards, RegisterResponse
from springtide.contract.updates import ApplyFailure, NameWriterRequest, NameWriterResponse, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.controller_session import ControllerSession
from springtide.node.counters import NodeCounters, collect_node_counters
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.node import ServingNode
from springtide.node.peer_links import PeerLinks
from springtide.node.quotas.metrics import collect_quotas
from springtide.node.settings import Bound, NodePorts, NodeSettings, bind
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from springtide.node.status import gauge

_log = logging.getLogger(__name__)

PEER_ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""An answer about the partitions of one request, which bound it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings(NodeSettings):
    """The settings of `coordinator serve`."""

    coordinator_id: int
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)


class CoordinatorProcess:
    """See the module. The listeners are bound; `listen` makes them."""

    def __init__(self, settings: CoordinatorSettings, ports: NodePorts, *, bound: Bound) -> None:
        self.settings = settings
        self._has_no_shard = trio.Event()
        self.counters = NodeCounters()
        self.view = ClusterView()
        node = self.node = ServingNode(
            settings,
            ports,
            bound,
            node_id=settings.coordinator_id,
            role="coordinators",
            config=settings.config,
            counters=self.counters,
            view=self.view,
        )
        self.authentication = node.authentication
        self.targets = TargetProcess(ports.threads, node.clock)
        self.shards = self._shards_of(
            GROUPS_TOPIC, partial(GroupMachine, settings.config.group_options), answer=self._answer
        )
        self.links = PeerLinks(
            net=node.net,
            clock=node.clock,
            client_id=f"{OUR_PREFIX}coordinator-{node.node_id}",
            answer_bytes_max=PEER_ANSWER_BYTES_MAX,
        )
        self.markers = MarkerSender(
            view=self.view,
            links=self.links,
            clock=node.clock,
            rng=ports.rng,
            spawn=node.spawn,
            is_current=node.lease.is_current,
        )
        self.transactions = self._shards_of(
            TRANSACTIONS_TOPIC,
            partial(TransactionMachine, settings.config.transaction_options),
            on_stepped=self.markers.take,
        )
        self._topics = (self.shards, self.transactions)
        self._known_topics = KnownTopics()
        ends = PartitionEnds(
            view=self.view, net=node.net, clock=node.clock, client_id=f"coordinator-{node.node_id}"
        )
        self.groups = GroupWatch(self._group_machines, ends, node.clock)
        self.news_of_transactions = NewsOfTransactions(self._transaction_machines)
        self.news = NewsOfGroups(self._group_machines, lambda: self.groups.troubles, self.groups.take_lags)
        context = CoordinatorContext(
            **node.context_parts(),
            counters=self.counters,
            shards=self.shards,
            group_options=settings.config.group_options,
            transactions=self.transactions,
            transaction_link=TransactionLink(view=self.view, links=self.links, spawn=node.spawn),
            new_member_suffix=lambda: str(uuid.UUID(int=ports.rng.getrandbits(128), version=4)),
        )
        self.session = ControllerSession(
            **node.session_parts(context),
            identity=node.identity(),
            cluster_id=None,
            apply=self._apply,
            on_registered=self._on_registered,
            level=self._level,
            groups=self.news.take,
            transactions=lambda: self.news_of_transactions.take(node.clock.mono_ms(), node.clock.wall_ms()),
            listener=self,
        )
        node.complete(
            self.session,
            context,
            HANDLERS,
            on_turn_end=self._send_written,
            collect=self._collect,
            is_ready=lambda: self.session.status is BrokerStatus.ACTIVE,
            notes=lambda: (note for shards in self._topics for note in shards.notes()),
            write_more=lambda: write_groups(self.groups.seen),
        )
        self.server = node.server

    def _shards_of(
        self,
        topic: str,
        new_machine: Callable[[], Machine],
        on_stepped: Callable[[ShardHost], None] | None = None,
        answer: Answerer = give_no_answer,
    ) -> Shards:
        node = self.node
        return Shards(
            topic=topic,
            coordinator_id=node.node_id,
            coordinator_epoch=node.epoch,
            view=self.view,
            net=node.net,
            clock=node.clock,
            rng=node.ports.rng,
            new_machine=new_machine,
            name_writer=self._name_writer,
            is_current=node.lease.is_current,
            spawn=node.spawn,
            end_turn=node.end_turn,
            on_stepped=on_stepped,
            answer=answer,
        )

    # What parts ask of the whole

    def _level(self) -> tuple[LevelShards, ...]:
        return tuple(level for shards in self._topics for level in shards.level())

    def _owned(self) -> int:
        """Return how many shards this process owns."""
        return sum(len(shards.owned()) for shards in self._topics)

    async def _answer(self, question: object) -> object:
        if isinstance(question, PatternQuestion):
            return await answer_patterns(self.view, question)
        assert isinstance(question, TargetQuestion)
        return await self.targets.answer(question)

    def _send_written(self) -> None:
        for shards in self._topics:
            shards.send_written()

    def _group_machines(self) -> list[GroupMachine]:
        return [machine for machine in self.shards.served().values() if isinstance(machine, GroupMachine)]

    def _transaction_machines(self) -> dict[int, TransactionMachine]:
        return {
            shard: machine
            for shard, machine in self.transactions.served().items()
            if isinstance(machine, TransactionMachine)
        }

    async def _name_writer(self, topic_id: str, partition: int, found: WriterId | None) -> NameWriterResponse:
        return await self.node.client.name_writer(
            NameWriterRequest(
                broker_id=self.settings.coordinator_id,
                broker_epoch=self.session.broker_epoch,
                topic_id=topic_id,
                partition=partition,
                found=found,
            )
        )

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """HeartbeatListener."""
        self.news.on_heartbeat(response, sent_ms=sent_ms, now_ms=now_ms)
        self.news_of_transactions.on_heartbeat(response)

    async def _on_registered(self, response: RegisterResponse) -> None:
        self.view.cluster_id = response.cluster_id

    async def _apply(self, batch: UpdateBatch) -> Sequence[ApplyFailure]:
        self.view.apply(batch, now_ms=self.node.clock.mono_ms())
        if batch.full or batch.users:
            self.server.look_after_connections()  # those of former users end before this counts as applied
        has_new_topics = self._known_topics.take(batch) is not None
        topics = self._known_topics.now
        if topics is not None and (has_new_topics or batch.full or batch.group_configs):
            groups = self.view.group_configs.values()
            self.shards.tell(TopicsKnown(topics, {group.group_id: group.configs for group in groups}))
        for shards in self._topics:
            shards.on_view_changed()
        self.markers.on_view_changed()
        if self.session.wants_shutdown and not self._owned():
            self._has_no_shard.set()
        return ()

    # Life

    async def run(
        self, *, task_status: trio.TaskStatus[CoordinatorProcess] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled or told to shut down. Raise RegistrationRefused, WentBack."""
        try:
            async with trio.open_nursery() as nursery:
                self.node.start(nursery)
                nursery.start_soon(self.groups.run)
                task_status.started(self)
        finally:
            self.targets.close()
            self.links.close()
            await self.node.close()

    async def shut_down(self) -> bool:
        """Give the shards away and stop. Cancel `run` afterwards. Return False if they were not given away in
        time."""
        await self.node.has_begun.wait()
        deadline_ms = self.settings.config.number("controlled.shutdown.timeout.ms")
        self.session.begin_shutdown()
        is_in_time = True
        if self.session.broker_epoch >= 0:
            _log.info("shutting_down shards=%d", self._owned())
            with self.node.ports.clock.timeout_ms(deadline_ms) as scope:
                await self.session.may_shut_down.wait()
                if self._owned():
                    await self._has_no_shard.wait()
            is_in_time = not scope.cancelled_caught
            if not is_in_time:
                _log.warning("leaving_without_leave waited_ms=%d shards=%d", deadline_ms, self._owned())
        for shards in self._topics:
            shards.stop()
        self.server.stop_serving()
        _log.info("stopped")
        return is_in_time

    # Metrics

    def _collect(self) -> Iterator[Metric]:
        yield from collect_node_counters(self.counters, now_us=self.node.ports.clock.mono_us())
        yield gauge("springtide_connections", "Connections open", self.server.connection_count)
        yield from collect_quotas(self.node.quotas)
        yield from collect_shards(self._topics)
        yield from collect_groups(self.groups.seen)
        yield from self.markers.collect()
        stores = [machine.registry.store for machine in self._transaction_machines().values()]
        ids, partitions = sum(len(one.transactions) for one in stores), sum(one.partitions for one in stores)
        yield gauge("springtide_transactional_ids", "Transactional ids of the shards that are served", ids)
        yield gauge(
            "springtide_transaction_partitions", "Partitions in the transactions that are open", partitions
        )


async def listen(settings: CoordinatorSettings, ports: NodePorts) -> CoordinatorProcess:
    """Bind the listeners and put the coordinator together. Raise OSError, TlsFilesInvalid."""
    return CoordinatorProcess(settings, ports, bound=await bind(settings, ports.net))
