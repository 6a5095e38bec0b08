"""A whole cluster in one trio run: machines, the network between them, ZooKeeper, SQL, and clients."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import sqlalchemy as sa
import trio

from controller.core.records import MemberKind
from controller.database.sql import create_sql_engine
from controller.database.tables import metadata as sql_tables
from controller.shell.published import Published
from controller.shell.rows import member_path, read_member
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.node.sharding import GROUPS_TOPIC
from tests.fullstack.broker_node import PORT as KAFKA_PORT
from tests.fullstack.broker_node import BrokerNode
from tests.fullstack.clients import ClientHost
from tests.fullstack.controller_node import ControllerNode
from tests.fullstack.coordinator_node import CoordinatorNode
from tests.fullstack.failure import Failure
from tests.fullstack.groups import Groups
from tests.fullstack.net import Network
from tests.fullstack.node import Node
from tests.fullstack.operator import Operator
from tests.fullstack.options import Options
from tests.fullstack.shards import Shards
from tests.fullstack.topic_of_many_partitions import Crowd
from tests.fullstack.topics_made_again import Remaker
from tests.fullstack.world import World
from tests.fullstack.zookeeper import ZooKeeperHost
from tests.kit.controller.sql import run_in_place
from tests.simulation.budget import LossBudget
from tests.simulation.ongoing import OngoingFaults

T = TypeVar("T")


#: What the controller deletes by time, and by nothing else. (Operators delete plans.)
DELETED_BY_TIME = ("audit", "audit_outcomes", "idempotency_keys")


def watch_deletions(sql: sa.Engine) -> None:
    with sql.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE deleted (what TEXT)")
        for table in DELETED_BY_TIME:
            connection.exec_driver_sql(
                f"CREATE TRIGGER {table}_is_deleted AFTER DELETE ON {table} "
                f"BEGIN INSERT INTO deleted VALUES ('{table}'); END"
            )


def deletions(sql: sa.Engine) -> dict[str, int]:
    """How many rows of which table have been deleted."""
    with sql.connect() as connection:
        rows = connection.exec_driver_sql("SELECT what, count(*) FROM deleted GROUP BY what")
        return {str(row[0]): int(row[1]) for row in rows}


class Cluster:
    """`run` keeps it going; everything else may be called while it does."""

    name = "prod"
    topic = "orders"

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.network = Network(world)
        #: For delays that belong to no part of the system.
        self.chance = world.random("cluster")
        self.zookeeper = ZooKeeperHost(self)
        self.events = world
        self.seed = world.seed
        self._registered_lives: dict[int, int] = {}
        self.budget = LossBudget(self)  # type: ignore[arg-type] # it asks both kinds of cluster the same
        self.ongoing = OngoingFaults(world)  # type: ignore[arg-type] # the world has the same timers
        self.sql = create_sql_engine("sqlite://")
        sql_tables.create_all(self.sql)
        watch_deletions(self.sql)
        self.controllers = [ControllerNode(self, number) for number in range(options.controllers)]
        members = {broker_id: BrokerNode(self, broker_id) for broker_id in range(1, options.brokers + 1)}
        #: Runs like the others, and waits to be added.
        self.spare = BrokerNode(self, options.brokers + 1) if options.spare else None
        self.brokers = members | ({} if self.spare is None else {self.spare.broker_id: self.spare})
        self.clients = ClientHost(world, self.network)
        self.clients.bootstrap = [(broker.machine.address, KAFKA_PORT) for broker in members.values()]
        self.operator = Operator(self.clients, self.name, self.controller_urls)
        #: When the run has taken too long.
        self.limit = trio.CancelScope()
        #: For how long everything has stood still, all in all.
        self.suspended_ms = 0
        self._suspended_until_ms = 0
        self.crowd = Crowd(self)
        self.remaker = Remaker(self)
        #: None where the cluster has no coordinators.
        self.shards = Shards(self) if options.coordinators else None
        self.groups = Groups(self) if options.coordinators else None
        self._nursery: trio.Nursery | None = None
        self._failures: list[str] = []
        self._keys: dict[str, list[PartitionKey]] = {}

    @property
    def controller_urls(self) -> list[str]:
        return [controller.url for controller in self.controllers]

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.nodes]

    @property
    def nodes(self) -> list[Node]:
        return [*self.brokers.values(), *self.controllers, *self.coordinators]

    @property
    def coordinators(self) -> list[CoordinatorNode]:
        return [] if self.shards is None else self.shards.nodes

    async def run_sql(self, work: Callable[[], T], *, exclusive: bool) -> T:
        return await run_in_place(work, exclusive=exclusive)

    # Standing still

    @property
    def is_suspended(self) -> bool:
        """Whether nothing at all goes on."""
        return self.world.now_ms < self._suspended_until_ms

    def suspend(self, for_ms: int) -> None:
        """Note that everything stands still for so long: whoever counts the time of a run leaves that out."""
        self._suspended_until_ms = self.world.now_ms + for_ms
        self.suspended_ms += for_ms
        self.limit.deadline += for_ms / 1000

    # Tasks

    def spawn(self, task: Callable[..., Awaitable[Any]], *arguments: object) -> None:
        assert self._nursery is not None, "not running"
        self._nursery.start_soon(task, *arguments)

    def fail(self, what: str, error: BaseException | None = None) -> None:
        """Ends the run."""
        if error is not None:
            what += ": " + "".join(traceback.format_exception(error)[-40:])
        self.world.note(f"FAILED: {what}")
        self._failures.append(what)
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    async def run(self, story: Callable[[Cluster], Awaitable[None]]) -> None:
        """Runs the story to its end, over running machines. Raises Failure."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.world.clock.watch_timers)
            await story(self)
            self._kill_all()
            nursery.cancel_scope.cancel()
        self._nursery = None
        self.sql.dispose()
        if self._failures:
            raise Failure(self._failures[0])

    def _kill_all(self) -> None:
        for node in self.nodes:
            node.crash()

    # What stories wait for

    async def until(self, condition: Callable[[], bool], *, ms: int, what: str) -> None:
        """Raises Failure when it takes longer."""
        due_ms = self.world.now_ms + ms
        while not condition():
            if self.world.now_ms >= due_ms:
                raise Failure(f"after {ms} ms still not: {what}")
            await trio.sleep(0.01)

    async def form(self) -> None:
        """Starts everything, as an operator would, and returns when every broker but the spare one
        is active."""
        for controller in self.controllers:
            controller.start()
        for broker in self.brokers.values():
            broker.start()
        members = {i: broker for i, broker in self.brokers.items() if broker is not self.spare}
        specs = {i: f"{broker.machine.address}:{KAFKA_PORT}" for i, broker in members.items()}
        await self.operator.form(specs, {})
        await self.until(
            lambda: all(b.broker is not None and b.broker.is_ready() for b in members.values()),
            ms=20_000,
            what="every broker is active",
        )
        shards = self.shards
        if shards is not None:
            shards.start()
            await self.until(
                lambda: shards.missing() is None, ms=20_000, what="each shard has an owner and a standby"
            )

    # The truth

    def active_controller(self) -> ControllerNode | None:
        for controller in self.controllers:
            engine = controller.engine
            if engine is not None and controller.is_up and engine.role == "active":
                return controller
        return None

    def published(self) -> Published | None:
        """As the active controller has it; None while there is none."""
        active = self.active_controller()
        if active is None or active.engine is None or self.name not in active.engine.clusters():
            return None
        return active.engine.cluster(self.name).published

    def truth(self, key: PartitionKey) -> PartitionState | None:
        published = self.published()
        return None if published is None else published.image.partitions.get(key)

    @property
    def keys(self) -> list[PartitionKey]:
        """Of the topics that last, as last seen: the clients', the coordinators', and those that are made
        again."""
        again = [key for topic in self.remaker.topics for key in self._keys_of(topic)]
        return [*self.data_keys, *self._keys_of(GROUPS_TOPIC), *again]

    @property
    def data_keys(self) -> list[PartitionKey]:
        """Of the clients' topic that lasts, as last seen."""
        return self._keys_of(self.topic)

    def _keys_of(self, topic: str) -> list[PartitionKey]:
        published = self.published()
        if published is not None:
            partitions = published.image.partitions.items()
            found = sorted(key for key, state in partitions if state.topic == topic)
            self._keys[topic] = found or self._keys.get(topic, [])
        return self._keys.get(topic, [])

    @property
    def kept_keys(self) -> tuple[PartitionKey, ...]:
        """No topic is kept here."""
        return ()

    def registered_epoch(self, broker_id: int) -> int:
        """As ZooKeeper has it, whether a controller is active or not; -1: it is no member."""
        path = member_path(self.name, MemberKind.BROKER, broker_id)
        node = self.zookeeper.server.nodes.get(path)
        if node is None:
            return -1
        return read_member(path, node.data, MemberKind.BROKER)[0].registration.epoch

    def registered_life(self, broker_id: int) -> int:
        """Of the life whose registration ZooKeeper has, as far as it was seen to have its answer; -1: of
        none. May be an earlier one than is true: of a life that nobody asked about while it ran."""
        epoch = self.registered_epoch(broker_id)
        node = self.brokers[broker_id]
        if epoch >= 0 and node.broker_epoch == epoch:
            self._registered_lives[broker_id] = node.life
        return -1 if epoch < 0 else self._registered_lives.get(broker_id, -1)
