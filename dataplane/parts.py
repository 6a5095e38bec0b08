"""The parts of a broker, in two groups: the replicas that it holds, and the upkeep of their logs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from dataplane.core.broker import Broker
from dataplane.core.fetch_session import FetchSessions
from dataplane.core.fetches import Evaluate, Respond
from dataplane.core.leader import Leader
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.compactor import Compactor
from dataplane.shell.config import BrokerConfig
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetches import Fetches
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.maintenance import Maintenance
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.partition_metrics import collect_partitions
from dataplane.shell.partition_reports import PartitionReports
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.produces import Produces
from dataplane.shell.replica_fetcher import ReplicaFetchers
from dataplane.shell.scrubber import Scrubber
from dataplane.shell.topic_configs import TopicConfigs
from dataplane.storage.disk import Disk
from dataplane.storage.log_dir import LogDir
from springtide.node.node import ServingNode
from springtide.node.status import gauge

SESSION_ID_BITS = 31


class Replicas:
    """The replicas of a broker, on its disk and in its table; the requests that wait for them; the fetchers
    that fill those that follow.

    core: the node's view was made with its creations. evaluate, respond: the Fetch handler's.
    on_storage_error: takes the detail of a trouble with the disk.
    """

    def __init__(
        self,
        node: ServingNode,
        config: BrokerConfig,
        counters: BrokerCounters,
        *,
        core: Broker[HostedPartition],
        disk: Disk,
        log_dir: LogDir,
        evaluate: Evaluate,
        respond: Respond,
        on_storage_error: Callable[[str], None],
    ) -> None:
        self.configs = TopicConfigs(config, node.view)
        self.produces = Produces(counters)
        self.directory = DataDirectory(
            broker_id=node.node_id,
            disk=disk,
            log_dir=log_dir,
            settings_for=self.configs.topic_settings,
            clock=node.clock,
            threads=node.ports.threads,
            spawn=node.spawn,
            on_storage_error=on_storage_error,
        )
        self.fetches = Fetches(
            sessions=FetchSessions(
                _session_ids(node.ports.rng),
                sessions_max=config.number("max.incremental.fetch.session.cache.slots"),
            ),
            evaluate=evaluate,
            respond=respond,
            clock=node.clock,
            holds_lease=node.lease.is_held,
        )
        self.effects = EffectRunner(
            broker=core,
            produces=self.produces,
            fetches=self.fetches,
            store=self.directory,
            counters=counters,
            clock=node.clock,
            wake_report=node.wake_report,
            end_turn=node.end_turn,
        )
        self.table = PartitionTable(
            view=node.view,
            lease=node.lease,
            clock=node.clock,
            effects=self.effects,
            store=self.directory,
            options_for=self.configs.replica_options,
            on_configs=self.configs.configure,
        )
        self.reports = PartitionReports(
            table=self.table,
            effects=self.effects,
            view=node.view,
            store=self.directory,
        )
        self.fetchers = ReplicaFetchers(
            broker_id=node.node_id,
            broker_epoch=node.epoch,
            effects=self.effects,
            view=node.view,
            net=node.net,
            poller=node.poller,
            clock=node.clock,
            rng=node.ports.rng,
            config=config,
            counters=counters,
        )

    def leader_count(self) -> int:
        return sum(isinstance(hosted.replica.role, Leader) for hosted in self.table)

    def collect(self, *, parked: int, now_ms: int) -> Iterator[Metric]:
        """parked: batches that wait for a transaction's coordinator. now_ms: monotonic."""
        yield from collect_partitions(list(self.table), now_ms=now_ms)
        yield gauge(
            "springtide_learners_throttled",
            "Replicas being added that wait for their turn under a throttled rate",
            self.fetchers.turns.throttle.waiting,
        )
        yield gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait",
            self.produces.waiting + self.fetches.parked + parked,
        )


class Upkeep:
    """The work on logs that no request waits for: flushes and retention, checks of stored bytes,
    compaction."""

    def __init__(
        self,
        node: ServingNode,
        replicas: Replicas,
        config: BrokerConfig,
        compaction: CompactionProcess | None,
    ) -> None:
        self.maintenance = Maintenance(
            table=replicas.table,
            effects=replicas.effects,
            directory=replicas.directory,
            config=config,
            settings_for=replicas.configs.topic_settings,
            clock=node.clock,
            threads=node.ports.threads,
        )
        self.scrubber = Scrubber(
            table=replicas.table,
            effects=replicas.effects,
            directory=replicas.directory,
            view=node.view,
            config=config,
            net=node.net,
            clock=node.clock,
            threads=node.ports.threads,
            broker_id=node.node_id,
            broker_epoch=node.epoch,
        )
        self.compactor = Compactor(
            table=replicas.table,
            effects=replicas.effects,
            config=config,
            clock=node.clock,
            threads=node.ports.threads,
            process=compaction,
            on_log_error=self.maintenance.on_log_error,
            on_suspect=self.scrubber.check_soon,
        )


def _session_ids(rng: random.Random) -> Iterator[int]:
    """Hard to guess, positive, 31 bits."""
    while True:
        session_id = rng.getrandbits(SESSION_ID_BITS)
        if session_id:
            yield session_id
