"""What the shell's tests build over and over: a virtual clock, listeners by address, records, engines."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager

import anyio

from controller.core.events import AdmitBrokers, BrokerApplied, Heartbeat, RegisterMember, Report
from controller.core.options import ControllerOptions
from controller.core.records import (
    BrokerRegistration,
    Cause,
    Change,
    ClusterRecord,
    MemberRecord,
    PartitionRecord,
    TopicRecord,
)
from controller.shell.clock import Ids
from controller.shell.driver import Outbox
from controller.shell.engine import Engine
from controller.shell.leadership import ClaimRow, Term
from controller.shell.listeners import ListenerAnswer
from controller.shell.meta import Create, Meta
from controller.shell.metadata_store import ClusterStore, cluster_creation
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.lag_report import CreatedLogs, LagReport
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.preflight import (
    ClockFigures,
    DiskFigures,
    PeerReach,
    PreflightReport,
    PreflightResponse,
    ReachFailure,
)
from springtide.contract.session import (
    DiskSpace,
    HeartbeatRequest,
    HeartbeatResponse,
    ProcessLoad,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
    Witness,
)
from springtide.levels import SUPPORTED, UNTOLD, Level
from tests.kit.clocks import WALL_START_MS, VirtualClock
from tests.kit.memory.zookeeper import MemoryMeta

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
CHANGE = Change(cause=Cause.TOPIC_CREATED, at_ms=WALL_START_MS)
GOOD_CLOCK = ClockFigures(ahead_ms=1, error_ms=1)
GOOD_DISK = DiskFigures(free_bytes=2**40, flush_us=200, flush_us_max=300)


class AddressBook:
    """Listeners by (host, port): an address that is not listed does not answer."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], ListenerAnswer] = {}
        self.asked: list[tuple[str, int]] = []
        self._closed: dict[tuple[str, int], anyio.Event] = {}

    def open(self, host: str, port: int) -> None:
        self.answers[(host, port)] = ListenerAnswer.ACCEPTED
        self._closed[(host, port)] = anyio.Event()

    def end_connections(self, host: str, port: int) -> None:
        self._closed[(host, port)].set()
        self._closed[(host, port)] = anyio.Event()

    def kill(self, host: str, port: int) -> None:
        self.answers[(host, port)] = ListenerAnswer.REFUSED
        self._closed[(host, port)].set()

    async def ask(self, host: str, port: int) -> ListenerAnswer:
        self.asked.append((host, port))
        await anyio.sleep(0.001)
        return self.answers.get((host, port), ListenerAnswer.SILENT)

    async def hold(self, host: str, port: int, *, on_accepted: Callable[[], None]) -> bool:
        if await self.ask(host, port) is not ListenerAnswer.ACCEPTED:
            return False
        on_accepted()
        await self._closed[(host, port)].wait()
        return True


def seeded_ids(seed: int = 1) -> Ids:
    return Ids(random.Random(seed).randbytes)


def partition_state(
    partition: int,
    *,
    partition_epoch: int = 0,
    leader: int = 1,
    topic_id: str = TOPIC_ID,
    topic: str = "orders",
) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        replicas=(1, 2, 3),
        leader=leader,
        leader_epoch=LeaderEpoch(partition_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=(1, 2, 3),
        min_insync_replicas=2,
    )


def partition_record(partition: int, *, partition_epoch: int = 0, **fields: object) -> PartitionRecord:
    state = partition_state(partition, partition_epoch=partition_epoch, **fields)  # type: ignore[arg-type]
    return PartitionRecord(state=state, change=CHANGE)


def topic_record(partitions: int, *, topic_id: str = TOPIC_ID, deleting: bool = False) -> TopicRecord:
    state = TopicState(
        topic_id=topic_id, topic="orders", partitions=partitions, replication_factor=3, deleting=deleting
    )
    return TopicRecord(state=state, change=CHANGE)


def broker_record(broker_id: int, *, broker_epoch: int = 1) -> MemberRecord:
    registration = BrokerRegistration(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(broker_epoch),
        incarnation_id=f"incarnation-{broker_id}",
        host="127.0.0.1",
        port=9000 + broker_id,
    )
    return MemberRecord(registration=registration, change=CHANGE)


async def begin_term(meta: MemoryMeta, clock: VirtualClock) -> Term:
    """A term without an election: the epoch's znode is set as an election would."""
    epoch = 1
    node = await meta.get("/controller_epoch")
    if node is None:
        await meta.start_write([Create("/controller_epoch", b'{"controller_epoch":1}')]).outcome()
        await meta.start_write([Create("/clusters", b"")]).outcome()
    else:
        epoch = node.version + 1
    node = await meta.get("/controller_epoch")
    assert node is not None
    claim = ClaimRow(
        controller_id="c1", url="http://127.0.0.1:1", controller_epoch=ControllerEpoch(epoch), claim_id="x"
    )
    term = Term(
        claim=claim,
        epoch_version=node.version,
        session_id=meta.session.session_id,
        session_timeout_ms=4_000,
        clock=clock,
    )
    term.prove(clock.now_mono_ms())
    return term


async def make_cluster(meta: Meta, term: Term, *, cluster: str = "prod", level: Level = UNTOLD) -> None:
    operations = cluster_creation(
        cluster,
        ClusterRecord(cluster_id="CCCCCCCCCCCCCCCCCCCCCC", change=CHANGE),
        term=term,
        write_id="first",
        level=level,
    )
    await meta.start_write(operations).outcome()


async def load_store(
    meta: Meta, clock: VirtualClock, *, cluster: str = "prod", seed: int = 1
) -> ClusterStore:
    store = ClusterStore(meta=meta, clock=clock, ids=seeded_ids(seed), cluster=cluster)
    assert await store.load()
    return store


def make_engine(
    meta: Meta,
    clock: VirtualClock,
    *,
    name: str = "c1",
    listeners: AddressBook | None = None,
    outbox: Outbox | None = None,
    options: ControllerOptions | None = None,
) -> Engine:
    return Engine(
        meta=meta,
        clock=clock,
        random_bytes=random.Random(name).randbytes,
        listeners=listeners if listeners is not None else AddressBook(),
        url=f"http://{name}:8080",
        options=options if options is not None else ControllerOptions(),
        controller_id=name,
        outbox=outbox,
    )


@asynccontextmanager
async def running(*engines: Engine) -> AsyncIterator[None]:
    """Runs the engines; the first is active before the others start."""
    async with anyio.create_task_group() as tasks:
        for engine in engines:
            await tasks.start(engine.run)
            await until_active(engines)
        yield
        tasks.cancel_scope.cancel()


async def until_active(engines: Iterable[Engine]) -> Engine:
    """Virtual time passes until one is active."""
    with anyio.fail_after(60):
        while True:
            for engine in engines:
                if engine.role == "active":
                    return engine
            await anyio.sleep(0.005)


class Broker:
    """A broker's side of the conversation with an engine, without HTTP."""

    def __init__(
        self, engine: Engine, broker_id: int, *, cluster: str = "prod", incarnation: str = "a"
    ) -> None:
        self.engine = engine
        self.cluster = cluster
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.witness: Witness | None = None
        self.disk: DiskSpace | None = None
        self.load: ProcessLoad | None = None
        self.missing_topics: tuple[MissingTopic, ...] = ()
        self.request = RegisterRequest(
            broker_id=broker_id,
            incarnation_id=f"{broker_id}-{incarnation}",
            host="127.0.0.1",
            port=9000 + broker_id,
            log_dir_ids=(f"dir-{broker_id}",),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=SUPPORTED,
        )

    def wall_ms(self) -> int:
        return self.engine.clock.now_wall_ms()

    async def register(self) -> RegisterResponse:
        reply = await self.engine.submit(
            self.cluster, RegisterMember(request=self.request, wall_ms=self.wall_ms())
        )
        assert isinstance(reply, RegisterResponse)
        self.broker_epoch = reply.broker_epoch
        return reply

    async def heartbeat(self) -> HeartbeatResponse:
        request = HeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=BrokerEpoch(self.broker_epoch),
            incarnation_id=self.request.incarnation_id,
            witness=self.witness,
            disk=self.disk,
            load=self.load,
            missing_topics=self.missing_topics,
        )
        event = Heartbeat(
            request=request, received_ms=self.engine.clock.now_mono_ms(), wall_ms=self.wall_ms()
        )
        reply = await self.engine.submit(self.cluster, event)
        assert isinstance(reply, HeartbeatResponse)
        return reply

    async def report_preflight(
        self,
        *,
        unreachable: Collection[int] = (),
        clock: ClockFigures = GOOD_CLOCK,
        disk: DiskFigures = GOOD_DISK,
    ) -> PreflightResponse:
        """Report what the broker found that is asked to try listeners before others, or it, are added."""
        preflights = self.engine.drivers.of(self.cluster).preflights
        peers = tuple(
            PeerReach(
                broker_id=target.broker_id,
                broker_epoch=target.broker_epoch,
                failure=ReachFailure.LISTENER_UNREACHABLE if target.broker_id in unreachable else None,
                detail="Connection refused" if target.broker_id in unreachable else "",
            )
            for target in preflights.targets(self.broker_id) or ()
        )
        report = PreflightReport(
            broker_id=self.broker_id,
            broker_epoch=BrokerEpoch(self.broker_epoch),
            peers=peers,
            clock=clock,
            disk=disk,
        )
        error = await preflights.take(report)
        return PreflightResponse(error=error, controller_epoch=self.engine.controller_epoch)

    async def apply(self) -> None:
        """Tells that everything published has been applied, and that its new logs are made."""
        image = self.engine.cluster(self.cluster).image
        created = tuple(
            CreatedLogs(topic_id=topic_id, partitions=(partition,))
            for topic_id, partition in image.unconfirmed_new
        )
        report = LagReport(
            broker_id=self.broker_id, broker_epoch=BrokerEpoch(self.broker_epoch), created=created
        )
        await self.engine.submit(self.cluster, Report(request=report, wall_ms=self.wall_ms()))
        await self.engine.submit(
            self.cluster,
            BrokerApplied(
                broker_id=self.broker_id,
                broker_epoch=BrokerEpoch(self.broker_epoch),
                controller_epoch=self.engine.controller_epoch,
                sequence=image.sequence,
                wall_ms=self.wall_ms(),
            ),
        )


async def form_cluster(engine: Engine, *, brokers: int = 3, cluster: str = "prod") -> list[Broker]:
    """A cluster with so many active brokers."""
    await engine.create_cluster(cluster, configs={}, actor="operator")
    formed = [Broker(engine, broker_id, cluster=cluster) for broker_id in range(1, brokers + 1)]
    for broker in formed:
        await broker.register()
    await engine.submit(
        cluster,
        AdmitBrokers(
            broker_ids=tuple(broker.broker_id for broker in formed),
            actor="operator",
            wall_ms=engine.clock.now_wall_ms(),
        ),
    )
    for broker in formed:
        await broker.heartbeat()
        await broker.apply()
        await broker.heartbeat()
    return formed
