"""A broker's table of partitions over a real log directory, with clocks that a test moves by hand.

Everything below the table is what a broker runs: replicas, logs, the directory's protocol. Only the disk is
in memory (it can fail and crash), and fetchers are replaced by a list of what they were told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from dataplane.core.broker import Broker
from dataplane.core.fetch_session import FetchSessions
from dataplane.core.results import AppendResult, FetchResult
from dataplane.shell.config import BrokerConfig, TopicSettings
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner, ReplicaFetching, Scrubbing
from dataplane.shell.fetches import Fetches
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.log_loading import load_logs
from dataplane.shell.maintenance import Maintenance
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.partition_reports import PartitionReports
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.produces import Produces
from dataplane.storage.disk import Disk
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.lease import Lease
from springtide.node.threads import TrioThreads
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.clocks import WALL_START_MS, ManualClock

T = TypeVar("T")

PATH = "/data"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBA"
SMALL_SEGMENTS = {"log.segment.bytes": "1024", "log.index.interval.bytes": "100"}


class InlineThreads:
    """Threads that take no time: a clock that jumps when all wait would not wait for a real one."""

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        await trio.lowlevel.checkpoint()
        return work()


class RecordedFetching:
    """Records what the fetchers are told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def follow(self, hosted: HostedPartition, *, leader_id: int, leader_epoch: int) -> None:
        self.told.append(("follow", hosted.key, leader_id, leader_epoch))

    def unfollow(self, key: tuple[str, int]) -> None:
        self.told.append(("unfollow", key))

    def back_off(self, key: tuple[str, int], delay_ms: int) -> None:
        self.told.append(("back_off", key, delay_ms))

    def on_broker_changed(self, broker_id: int) -> None:
        self.told.append(("changed", broker_id))

    def on_rates_changed(self) -> None:
        pass

    def on_room_changed(self) -> None:
        self.told.append(("room",))


def held_lease(now_ms: int) -> Lease:
    lease = Lease()
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=1)
    lease.on_heartbeat_acked(
        HeartbeatResponse(
            controller_epoch=ControllerEpoch(1), status=BrokerStatus.ACTIVE, lease_ms=2**40, sequence=1
        ),
        sent_ms=now_ms,
        now_ms=now_ms,
    )
    assert lease.is_held(now_ms)
    return lease


def state(**changes: Any) -> PartitionState:
    """orders-0, led by broker 1 alone, which may create it; changed as told."""
    fields: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "topic": "orders",
        "partition": 0,
        "replicas": (1,),
        "new_replicas": (1,),
        "leader": 1,
        "leader_epoch": 1,
        "partition_epoch": 1,
        "isr": (1,),
        "min_insync_replicas": 1,
    }
    return PartitionState(**{**fields, **changes})


def endpoint(
    broker_id: int, broker_epoch: int = 10, *, active: bool = True, port: int = 9092
) -> BrokerEndpoint:
    return BrokerEndpoint(
        broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch), host="h", port=port, active=active
    )


def batch_of(
    count: int = 1, *, size: int = 100, base_offset: int = 0, leader_epoch: int = -1, ahead_ms: int = 0
) -> bytes:
    return encode_batch(
        [NewRecord(None, b"v" * size, WALL_START_MS + ahead_ms) for _ in range(count)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


class Node:
    """Broker 1, from its opened directory up to its table. Make it, and what it does, inside trio."""

    def __init__(
        self,
        disk: Disk,
        *,
        configs: dict[str, str] | None = None,
        clock: Any = None,
        path: str = PATH,
        lease: Lease | None = None,
    ) -> None:
        self.disk = disk
        self.clock = clock or ManualClock()
        self.timekeeper = BrokerClock(self.clock)
        self.hear_controller()
        self.config: BrokerConfig = BrokerConfig.parse((configs or {}).items())
        self.log_dir: LogDir = open_log_dir(disk, path, broker_id=1, new_dir_id="dir-1", boot_id="boot")
        self.problems = load_logs(self.log_dir, wall_ms=self.clock.wall_ms)
        self.log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
        self.counters = BrokerCounters()
        self.core: Broker[HostedPartition] = Broker(1)
        self.view = ClusterView(unmade=self.core.creations.wanted)
        self.produces = Produces(self.counters)
        self.spawned: list[Callable[[], Awaitable[None]]] = []
        self.directory = DataDirectory(
            broker_id=1,
            disk=disk,
            log_dir=self.log_dir,
            settings_for=self.settings_for,
            clock=self.clock,
            threads=TrioThreads(),
            spawn=self.spawned.append,
            on_storage_error=self._on_storage_error,
        )
        self.turns = 0
        self.lease = lease or held_lease(self.clock.mono_ms())
        self.fetches = Fetches(
            sessions=FetchSessions(iter(range(1, 100))),
            evaluate=lambda *_: FetchResult(error=0),  # type: ignore[arg-type]
            respond=lambda *_: None,
            clock=self.clock,
            holds_lease=self.lease.is_held,
        )
        self.effects = EffectRunner(
            broker=self.core,
            produces=self.produces,
            fetches=self.fetches,
            store=self.directory,
            counters=self.counters,
            clock=self.clock,
            wake_report=self._wake_report,
            end_turn=self._end_turn,
        )
        self.table = PartitionTable(
            view=self.view,
            lease=self.lease,
            clock=self.clock,
            effects=self.effects,
            store=self.directory,
            options_for=lambda topic_id: self.config.replica_options(self.settings_for(topic_id)),
            on_configs=self._configure,
        )
        self.reports = PartitionReports(
            table=self.table,
            effects=self.effects,
            view=self.view,
            store=self.directory,
        )
        self.fetching = RecordedFetching()
        self.reports_wanted = 0
        self.connect(self.fetching)
        for log in self.log_dir.logs.values():
            self.table.add_found_log(log)
        for problem in self.problems:
            self.table.add_problem(problem)
        self.maintenance = Maintenance(
            table=self.table,
            effects=self.effects,
            directory=self.directory,
            config=self.config,
            settings_for=self.settings_for,
            clock=self.timekeeper,
            threads=TrioThreads(),
        )

    def hear_controller(self, *, ahead_ms: int = 0) -> None:
        """Let the controller answer a heartbeat. ahead_ms: of its clock, ahead of one that was never set."""
        now_ms = self.clock.mono_ms()
        response = HeartbeatResponse(wall_ms=WALL_START_MS + now_ms + ahead_ms)
        self.timekeeper.on_heartbeat(response, sent_ms=now_ms)

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass on every clock."""
        self.clock.now_ms += duration_ms
        self.hear_controller()

    def connect(self, fetching: ReplicaFetching, scrubbing: Scrubbing | None = None) -> None:
        self.effects.connect(fetching=fetching, scrubbing=scrubbing)

    def settings_for(self, topic_id: str) -> TopicSettings:
        topic = self.view.topic_by_id(topic_id)
        return self.config.topic_settings({} if topic is None else topic.configs)

    def _configure(self, hosted: HostedPartition) -> None:
        hosted.log.options = self.settings_for(hosted.topic_id).log

    def _on_storage_error(self, detail: str) -> None:
        self.maintenance.on_storage_error(detail)

    def _end_turn(self) -> None:
        self.turns += 1

    def _wake_report(self) -> None:
        self.reports_wanted += 1

    async def apply(self, *states: PartitionState, **fields: Any) -> list[Any]:
        """A batch of these entries; what failed of it."""
        brokers = fields.pop("brokers", (endpoint(1), endpoint(2), endpoint(3)))
        failures = await self.table.apply(
            UpdateBatch(
                controller_epoch=ControllerEpoch(1), sequence=1, brokers=brokers, partitions=states, **fields
            )
        )
        while await self.table.creator.make_next():
            pass
        await self.work()
        return failures

    async def work(self) -> None:
        """Run what was handed to the background."""
        while self.spawned:
            await self.spawned.pop(0)()

    def hosted(self, topic_id: str = TOPIC_ID) -> HostedPartition:
        found = self.table.get(topic_id, 0)
        assert found is not None
        return found

    def log(self, topic_id: str = TOPIC_ID) -> PartitionLog:
        return self.hosted(topic_id).log

    def produce(
        self,
        count: int = 1,
        *,
        size: int = 100,
        topic_id: str = TOPIC_ID,
        acks: int = -1,
        ahead_ms: int = 0,
    ) -> AppendResult:
        """`count` batches of one record, dated so far ahead; the last answer."""
        hosted = self.hosted(topic_id)
        result = AppendResult(error=0)  # type: ignore[arg-type]
        for _ in range(count):
            data = batch_of(size=size, ahead_ms=ahead_ms)
            result, effects = hosted.replica.role.append(
                decode_header(data),
                memoryview(data),
                acks=acks,
                waiter=Waiter(),
                expires_ms=2**60,
                now_ms=self.clock.mono_ms(),
                wall_ms=self.timekeeper.wall_ms(),
            )
            self.effects.run(hosted, effects)
        return result

    def log_files(self, topic_id: str = TOPIC_ID) -> list[str]:
        return [name for name in self.disk.listdir(self.log(topic_id).directory) if ".log" in name]


class Waiter:
    """A produce that waits. `settled` is its final answer."""

    def __init__(self) -> None:
        self.result = AppendResult(error=0)  # type: ignore[arg-type]
        self.settled: AppendResult | None = None

    def settle(self, result: AppendResult) -> None:
        self.settled = result
