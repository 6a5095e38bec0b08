"""Brokers and coordinators in one trio process, over loopback sockets and real files, under the real core of
the controller.

What is left out is ZooKeeper and HTTP: an httpx transport hands each request to a ClusterMachine and
waits on its image for polls, as the controller's shell does. So everything between a client's socket and the
controller's decision runs as it does in production, and a test needs no JVM.
"""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx
import msgspec
import trio

from controller.core.effects import ProbeBroker
from controller.core.events import (
    AdmitBrokers,
    AdmitCoordinators,
    AllocateProducerIds,
    AppliedReply,
    BrokerApplied,
    BrokerProvenDead,
    ConfigureCluster,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    Event,
    Heartbeat,
    NameWriter,
    RegisterMember,
    Report,
    Tick,
    TopicCreated,
)
from controller.core.image import ClusterImage
from controller.core.machine import ClusterMachine
from controller.core.options import ControllerOptions
from controller.core.records import Cause, Change, LevelRecord, MemberKind
from coordinator.config import CoordinatorConfig
from coordinator.process import CoordinatorProcess, CoordinatorSettings
from coordinator.process import listen as listen_as_coordinator
from dataplane.broker import BrokerSettings, Ports, StorageBroker, listen
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.config import BrokerConfig
from dataplane.shell.data_directory import read_seen
from dataplane.shell.log_loading import load_logs
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.tail_cache import TailBudget
from springtide.contract.administration import AdminOutcome, AdminRequest, AdminResponse, DeleteRecordsCall
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import BrokerStatus, HeartbeatRequest, RegisterRequest
from springtide.contract.updates import NameWriterRequest, PollRequest, ProducerIdsRequest
from springtide.levels import NEWEST, Level
from springtide.node.clock import MachineClock
from springtide.node.config import NodeConfig
from springtide.node.listeners import HostPort, ListenersSettings, metrics_listener, parse_listeners
from springtide.node.settings import NodePorts
from springtide.node.sharding import GROUPS_TOPIC
from tests.kit.controller.images import build_update

CLUSTER = "prod"
BOOT_ID = "the-boot-of-this-test"
TICK_MS = 50
WAIT_S = 60.0


class CoreController(httpx.AsyncBaseTransport):
    """The endpoints of brokers and coordinators over a ClusterMachine. level: the cluster's."""

    def __init__(self, options: ControllerOptions | None = None, *, level: Level = NEWEST) -> None:
        self._clock = MachineClock()
        self._rng = random.Random(1)
        self.image = ClusterImage()
        self.image.replay(LevelRecord(level=level, change=Change(cause=Cause.CLUSTER_CREATED, at_ms=0)))
        self.machine = ClusterMachine(
            self.image,
            controller_epoch=ControllerEpoch(1),
            options=options or ControllerOptions(new_replica_confirm_ms=50),
            now_ms=self._clock.mono_ms(),
        )
        self._changed = trio.Event()
        #: Requests get no answer at all while this is set: the controller is down.
        self.is_down = False
        self.probes: list[ProbeBroker] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._tick()
        self.submit(
            ConfigureCluster(
                wall_ms=0, actor="test", configs={"default.replication.factor": "1", "num.partitions": "1"}
            )
        )
        task_status.started()
        while True:
            await trio.sleep(TICK_MS / 1000)
            if not self.is_down:
                self._tick()
            for probe in self.probes:
                await self._probe(probe)
            self.probes = []

    def _tick(self) -> None:
        self.submit(Tick(wall_ms=self._clock.wall_ms(), fresh_id=self._fresh_id()))

    def _fresh_id(self) -> str:
        return base64.urlsafe_b64encode(self._rng.randbytes(16)).decode().rstrip("=")

    async def _probe(self, probe: ProbeBroker) -> None:
        try:
            (await trio.open_tcp_stream(probe.host, probe.port)).socket.close()
        except OSError:
            self.submit(
                BrokerProvenDead(
                    wall_ms=self._clock.wall_ms(), broker_id=probe.broker_id, broker_epoch=probe.broker_epoch
                )
            )

    def submit(self, event: Event) -> Any:
        step = self.machine.step(event, self._clock.mono_ms())
        self.probes += [effect for effect in step.effects if isinstance(effect, ProbeBroker)]
        if step.records:
            changed, self._changed = self._changed, trio.Event()
            changed.set()
        return step.reply

    # Operators

    def configure(self, configs: dict[str, str]) -> None:
        """Changes the cluster's settings."""
        self.submit(ConfigureCluster(wall_ms=0, actor="test", configs=dict(configs)))

    def admit(self, *broker_ids: int) -> None:
        self.submit(AdmitBrokers(wall_ms=0, actor="test", broker_ids=broker_ids))

    def admit_coordinators(self, *coordinator_ids: int) -> None:
        self.submit(AdmitCoordinators(wall_ms=0, actor="test", coordinator_ids=coordinator_ids))

    def create_topic(
        self, name: str, assignments: tuple[tuple[int, ...], ...], configs: dict[str, str] | None = None
    ) -> str:
        topic_id = self._fresh_id()
        reply = self.submit(
            CreateTopic(
                wall_ms=0,
                actor="test",
                topic_id=topic_id,
                topic=name,
                assignments=assignments,
                configs=configs or {},
            )
        )
        assert isinstance(reply, TopicCreated), reply
        return topic_id

    def configure_topic(self, name: str, configs: dict[str, str | None]) -> None:
        self.submit(ConfigureTopic(wall_ms=0, actor="test", topic=name, configs=configs))

    def delete_topic(self, name: str) -> None:
        self.submit(DeleteTopic(wall_ms=0, actor="test", topic=name))

    def state(self, topic_id: str, partition: int = 0) -> PartitionState:
        return self.image.partitions[(topic_id, partition)]

    async def wait_for(self, condition: Any, what: str) -> None:
        """Wait until the image satisfies `condition`."""
        with trio.move_on_after(WAIT_S):
            while not condition():  # noqa: ASYNC110 - what it watches has no event of its own
                await trio.sleep(0.01)
        assert condition(), what

    # httpx

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        verb = request.url.path.rpartition(":")[2]
        if self.is_down:
            raise httpx.ConnectError("the controller is down", request=request)
        is_coordinator = "/coordinators/" in request.url.path
        kind = MemberKind.COORDINATOR if is_coordinator else MemberKind.BROKER
        answer = await self._answer(verb, body, kind=kind)
        if self.is_down:
            raise httpx.ReadError("the controller went down", request=request)
        return httpx.Response(200, content=msgspec.json.encode(answer))

    async def _answer(self, verb: str, body: bytes, *, kind: MemberKind) -> Any:
        wall_ms = self._clock.wall_ms()
        match verb:
            case "register":
                request = msgspec.json.decode(body, type=RegisterRequest)
                return self.submit(RegisterMember(wall_ms=wall_ms, request=request, kind=kind))
            case "heartbeat":
                beat = msgspec.json.decode(body, type=HeartbeatRequest)
                reply = self.submit(
                    Heartbeat(
                        wall_ms=wall_ms,
                        request=beat,
                        received_ms=self._clock.mono_ms(),
                        kind=kind,
                    )
                )
                return msgspec.structs.replace(reply, wall_ms=wall_ms)
            case "name-writer":
                writer = msgspec.json.decode(body, type=NameWriterRequest)
                return self.submit(NameWriter(wall_ms=wall_ms, request=writer))
            case "report":
                report = msgspec.json.decode(body, type=LagReport)
                return self.submit(Report(wall_ms=wall_ms, request=report))
            case "allocate-producer-ids":
                ids = msgspec.json.decode(body, type=ProducerIdsRequest)
                return self.submit(AllocateProducerIds(wall_ms=wall_ms, request=ids))
            case "poll":
                poll = msgspec.json.decode(body, type=PollRequest)
                return await self._poll(poll, kind=kind)
            case "administer":
                call = msgspec.json.decode(body, type=AdminRequest).call
                assert isinstance(call, DeleteRecordsCall), call  # the one that brokers carry out themselves
                return AdminResponse(outcomes=tuple(AdminOutcome() for _ in call.topics))
            case _:
                raise AssertionError(verb)

    async def _poll(self, poll: PollRequest, *, kind: MemberKind) -> Any:
        reply = self.submit(
            BrokerApplied(
                wall_ms=self._clock.wall_ms(),
                broker_id=poll.broker_id,
                broker_epoch=poll.broker_epoch,
                controller_epoch=poll.applied_controller_epoch,
                sequence=poll.applied_sequence,
                failures=poll.failures,
                kind=kind,
            )
        )
        assert isinstance(reply, AppliedReply)
        with trio.move_on_after(poll.wait_ms_max / 1000):
            while True:
                changed = self._changed
                update = build_update(self.image, poll, controller_epoch=1)
                if update is not None:
                    return update
                await changed.wait()
        return msgspec.json.decode(
            msgspec.json.encode(
                {
                    "error": ControllerError.NONE,
                    "controller_epoch": 1,
                    "broker_epoch": poll.broker_epoch,
                    "sequence": poll.applied_sequence,
                }
            )
        )


P = TypeVar("P", bound=StorageBroker | CoordinatorProcess)


class Running(Generic[P]):
    """One process that runs, and how to stop it in each way."""

    def __init__(self, process: P) -> None:
        self.process = process
        self._scope = trio.CancelScope()
        self._done = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            with self._scope:
                await self.process.run(task_status=task_status)
        finally:
            self._done.set()

    @property
    def port(self) -> int:
        return self.process.node.listeners.inter_broker.port

    async def kill(self) -> None:
        """Kill the broker as SIGKILL does: nothing is flushed or said; what was written stays in the page
        cache."""
        await self._end()

    async def stop(self) -> bool:
        """Stop the broker as SIGTERM does."""
        is_clean = await self.process.shut_down()
        await self._end()
        return is_clean

    async def _end(self) -> None:
        self._scope.cancel()
        await self._done.wait()


class RunningBroker(Running[StorageBroker]):
    """One broker and its directory."""

    def __init__(self, broker: StorageBroker, log_dir: LogDir) -> None:
        super().__init__(broker)
        self.broker = broker
        self.log_dir = log_dir

    async def kill(self) -> None:
        await super().kill()
        self.log_dir.abandon()


class RunningCoordinator(Running[CoordinatorProcess]):
    """One coordinator. Its end as a process closes the connections that no task was using."""

    async def _end(self) -> None:
        await super()._end()
        self.process.shards.stop()
        self.process.transactions.stop()
        self.process.links.close()


class ClusterInProcess:
    """Starts brokers and coordinators; each keeps its port, and a broker its directory, over its lives."""

    def __init__(self, root: Path, nursery: trio.Nursery, controller: CoreController) -> None:
        self._root = root
        self._nursery = nursery
        self._ports: dict[int, int] = {}
        self._processes = count(1)
        self.controller = controller
        self.brokers: dict[int, RunningBroker] = {}
        self.coordinators: dict[int, RunningCoordinator] = {}
        #: A broker's disk, where it is not the plain one.
        self.disks: dict[int, Disk] = {}
        #: How much of the logs' ends each broker keeps in memory; None: as much as in production.
        self.tail_bytes_max: int | None = None

    def data_dir(self, broker_id: int) -> Path:
        return self._root / f"broker-{broker_id}"

    async def open(
        self, broker_id: int, *, boot_id: str = BOOT_ID, configs: dict[str, str] | None = None
    ) -> tuple[StorageBroker, LogDir]:
        """A broker that does not run yet."""
        disk = self.disks.get(broker_id, PosixDisk())
        tail_budget = None if self.tail_bytes_max is None else TailBudget(self.tail_bytes_max)
        clock = MachineClock()
        data_dir = str(self.data_dir(broker_id))
        log_dir = open_log_dir(
            disk,
            data_dir,
            broker_id=broker_id,
            new_dir_id=random.randbytes(8).hex(),
            boot_id=boot_id,
            tail_budget=tail_budget,
        )
        problems = load_logs(log_dir, wall_ms=clock.wall_ms)
        config = BrokerConfig.parse((configs or {}).items())
        settings = BrokerSettings(
            cluster=CLUSTER,
            broker_id=broker_id,
            listeners=self._listeners(broker_id, config),
            controllers=("http://controller.invalid",),
            metrics=metrics_listener(config, HostPort("127.0.0.1", 0)),
            config=config,
            version="test",
        )
        # Each process draws from another stream: its incarnation id must be its own.
        rng = random.Random(f"broker {broker_id}, process {next(self._processes)}")
        ports = Ports(
            clock=clock,
            disk=disk,
            rng=rng,
            controller_transport=self.controller,
            compaction=CompactionProcess() if type(disk) is PosixDisk else None,
        )
        return await listen(settings, ports, log_dir, problems, read_seen(disk, data_dir)), log_dir

    def _listeners(self, node_id: int, config: NodeConfig) -> ListenersSettings:
        return parse_listeners(config) or ListenersSettings.one("127.0.0.1", self._ports.get(node_id, 0))

    async def start(
        self, broker_id: int, *, boot_id: str = BOOT_ID, configs: dict[str, str] | None = None
    ) -> RunningBroker:
        running = RunningBroker(*await self.open(broker_id, boot_id=boot_id, configs=configs))
        await self._nursery.start(running.run)
        self._ports[broker_id] = running.port
        self.brokers[broker_id] = running
        return running

    async def start_coordinator(
        self, coordinator_id: int, *, configs: dict[str, str] | None = None
    ) -> RunningCoordinator:
        config = CoordinatorConfig.parse((configs or {}).items())
        settings = CoordinatorSettings(
            cluster=CLUSTER,
            coordinator_id=coordinator_id,
            listeners=self._listeners(coordinator_id, config),
            controllers=("http://controller.invalid",),
            metrics=metrics_listener(config, HostPort("127.0.0.1", 0)),
            config=config,
            version="test",
        )
        rng = random.Random(f"coordinator {coordinator_id}, process {next(self._processes)}")
        ports = NodePorts(rng=rng, controller_transport=self.controller)
        running = RunningCoordinator(await listen_as_coordinator(settings, ports))
        await self._nursery.start(running.run)
        self._ports[coordinator_id] = running.port
        self.coordinators[coordinator_id] = running
        return running

    async def form_coordinators(self, *coordinator_ids: int, configs: dict[str, str] | None = None) -> None:
        """Start them, admit them, and wait until all shards of groups have owners."""
        for coordinator_id in coordinator_ids:
            await self.start_coordinator(coordinator_id, configs=configs)
        image = self.controller.image
        await self.controller.wait_for(
            lambda: all(each in image.coordinators for each in coordinator_ids), "coordinators register"
        )
        self.controller.admit_coordinators(*coordinator_ids)
        await self.controller.wait_for(
            lambda: {owner for _, owner in self.shard_owners()} == {*coordinator_ids},
            "shards have owners",
        )

    def shard_owners(self, topic: str = GROUPS_TOPIC) -> list[tuple[int, int]]:
        """Return (shard, owner) of all shards of a coordinator topic."""
        states = map(self.controller.image.partitions.__getitem__, sorted(self.controller.image.shards))
        return [(one.partition, one.shard.owner) for one in states if one.topic == topic and one.shard]

    async def form(self, *broker_ids: int, configs: dict[str, str] | None = None) -> None:
        """Start them, admit them, and wait until all are active."""
        for broker_id in broker_ids:
            await self.start(broker_id, configs=configs)
        image = self.controller.image
        await self.controller.wait_for(
            lambda: all(broker_id in image.brokers for broker_id in broker_ids), "brokers register"
        )
        self.controller.admit(*broker_ids)
        await self.wait_active(*broker_ids)

    async def wait_active(self, *broker_ids: int) -> None:
        await self.controller.wait_for(
            lambda: all(
                self.brokers[broker_id].broker.session.status is BrokerStatus.ACTIVE
                for broker_id in broker_ids
            ),
            "brokers become active",
        )

    async def wait_isr(self, topic_id: str, *broker_ids: int, partition: int = 0) -> None:
        await self.controller.wait_for(
            lambda: sorted(self.controller.state(topic_id, partition).isr) == sorted(broker_ids),
            f"the ISR becomes {broker_ids}, is {self.controller.state(topic_id, partition)}",
        )

    def bootstrap(self, listener: str = "") -> str:
        """Return the addresses of the brokers' listeners of this name; "": of those that brokers use."""
        ports = [
            running.process.node.listeners.named[listener].port if listener else running.port
            for running in self.brokers.values()
        ]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    async def stop_all(self) -> None:
        for coordinator in self.coordinators.values():
            await coordinator.kill()
        for running in list(self.brokers.values()):
            await running.kill()
        self.brokers = {}
        self.coordinators = {}


@asynccontextmanager
async def cluster_in_process(
    root: Path, *, options: ControllerOptions | None = None, level: Level = NEWEST
) -> AsyncIterator[ClusterInProcess]:
    controller = CoreController(options, level=level)
    async with trio.open_nursery() as nursery:
        await nursery.start(controller.run)
        cluster = ClusterInProcess(root, nursery, controller)
        try:
            yield cluster
        finally:
            with trio.CancelScope(shield=True):
                await cluster.stop_all()
            nursery.cancel_scope.cancel()
