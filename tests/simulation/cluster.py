"""The simulated cluster: nodes, network, ZooKeeper, disks and clients around one heap of events.

What must hold in it is the oracle's business (oracle.py); what strikes it, the schedule's (schedule.py).
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from controller.core.events import AdmitBrokers, BrokersAdmitted, CreateTopic, TopicCreated
from controller.core.options import ControllerOptions
from controller.core.records import (
    Cause,
    Change,
    ClusterRecord,
    LevelRecord,
    MemberKind,
    PartitionRecord,
    Record,
    RemoveMemberRecord,
    TopicRecord,
    partition_key,
)
from dataplane.core.results import ReplicaOptions
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState, Shard
from springtide.levels import NEWEST, UNTOLD
from tests.simulation.broker_node import BrokerNode
from tests.simulation.budget import LossBudget
from tests.simulation.clients import Clients, Consumer, Producer
from tests.simulation.compaction import compaction_options
from tests.simulation.controller_node import ControllerNode, row_key
from tests.simulation.coordinator_node import SHARDS_SIMULATED
from tests.simulation.disk import Disk
from tests.simulation.events import Events, keyed_random
from tests.simulation.history import HistoryRecorder
from tests.simulation.network import Network, NetworkOptions
from tests.simulation.ongoing import OngoingFaults
from tests.simulation.operators import Operator
from tests.simulation.options import ClusterOptions
from tests.simulation.oracle import Committed, Content, Ghost, Oracle, content_of
from tests.simulation.releases.mixed import LAST_LEVEL, Mixed
from tests.simulation.shards import Shards
from tests.simulation.sightings import Sightings
from tests.simulation.transaction_shards import TransactionShards
from tests.simulation.violation import Violation
from tests.simulation.zookeeper import ModelZooKeeper, Znode, ZooKeeperOptions

__all__ = [
    "Cluster",
    "ClusterOptions",
    "Committed",
    "Content",
    "Ghost",
    "Producer",
    "Violation",
    "content_of",
]

TOPIC_ID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
STOP_ASKED_MS = 20
#: Producers without idempotence have ids from here on, for the eye only.
PLAIN_ID = 3_000


class Cluster:
    """Nodes, network, ZooKeeper, clients, oracle. keys: of the partitions that exist; living: the same, to
    ask quickly."""

    def __init__(self, seed: int, options: ClusterOptions) -> None:
        self.seed = seed
        self.options = options
        self.events = Events()
        self.history = HistoryRecorder(self.events)
        self.marks = Sightings(self)
        self.network = Network(self.events, keyed_random(seed, "network"), NetworkOptions())
        self.zookeeper = ModelZooKeeper(
            self.events,
            keyed_random(seed, "zookeeper"),
            ZooKeeperOptions(session_timeout_ms=options.session_timeout_ms),
        )
        self.oracle = Oracle(self)
        change = Change(cause=Cause.CLUSTER_CREATED, at_ms=0)
        cluster = ClusterRecord(cluster_id=TOPIC_ID, change=change)
        rows: list[Record] = [cluster]
        level = (
            LAST_LEVEL if options.mixed else NEWEST
        )  # as a cluster that the last release made, or this one
        if level > UNTOLD:
            rows.append(LevelRecord(level=level, change=change))
        self.zookeeper.nodes |= {row_key(row): Znode(row, 0) for row in rows}
        self.zookeeper.is_reachable = self._reaches_zookeeper
        self.zookeeper.on_write = self.oracle.on_zookeeper_write
        controllers = tuple(f"controller-{n}" for n in range(options.controllers))
        controller_options = ControllerOptions(
            vacated_per_step_max=1,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            lease_ms=options.lease_ms,
            grace_ms=options.grace_ms,
            probe_after_ms=2 * options.heartbeat_interval_ms,
            preferred_leader_delay_ms=options.preferred_leader_delay_ms,
            shards=SHARDS_SIMULATED,
        )
        self._topic_ids = keyed_random(seed, "topic ids")
        self.controllers = [
            ControllerNode(
                name,
                self.events,
                self.network,
                self.zookeeper,
                controller_options,
                self._new_topic_id,
                self._on_published,
                self._on_went_back,
                self._on_taken_over,
                self._on_shard_moved,
                self.marks,
                poll_wait_ms=options.poll_wait_ms,
                records_per_write=options.records_per_write,
            )
            for name in controllers
        ]
        self.brokers = {
            n: BrokerNode(
                n,
                self.events,
                self.network,
                keyed_random(seed, "broker", n),
                self,
                controllers,
                ReplicaOptions(
                    lag_ms_max=options.lag_ms_max,
                    proposal_retry_ms=options.proposal_retry_ms,
                    refused_retry_ms=300,
                    compaction=compaction_options(options),
                ),
                Disk(f"dir-{n}"),
            )
            for n in options.members
        }
        self.keys: list[PartitionKey] = [(TOPIC_ID, n) for n in range(options.partitions)]
        self.living: set[PartitionKey] = set(self.keys)
        self.is_recovery_watched = False
        #: Partitions of which a recovery proved no replica whole: the operator chooses.
        self.undecided: dict[PartitionKey, None] = {}
        self._paths: dict[PartitionKey, str] = {}
        self._broker_paths = {n: f"broker/{n}" for n in self.brokers}
        self.clients = Clients(self)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        for key in self.keys:
            self.add_clients(key)
        new_shards = TransactionShards if options.transactions else Shards
        self.shards = new_shards(self) if options.coordinators else None
        self.operator = Operator(self)
        self.mixed = Mixed(self) if options.mixed else None
        self.ongoing = OngoingFaults(self.events)
        self.budget = LossBudget(self)
        self.polling: dict[int, str] = {}
        #: Who has ever made which log.
        self.logs_made: set[tuple[int, PartitionKey]] = set()
        self.leader_changes = 0
        self.topic_created = False

    @property
    def kept_keys(self) -> list[PartitionKey]:
        return self.operator.kept_keys()

    @property
    def ghosts(self) -> defaultdict[PartitionKey, Ghost]:
        return self.oracle.ghosts

    @property
    def isr_changes(self) -> int:
        return self.oracle.isr_changes

    @property
    def acked(self) -> int:
        """Records acknowledged to producers that asked for acks=all."""
        return self.clients.acked

    # --- setting up -------------------------------------------------------------------------------------

    def start(self) -> None:
        for controller in self.controllers:
            controller.start()
        for broker in self.brokers.values():
            broker.start()
        if self.shards is not None:
            self.shards.start()
        self._set_up()

    def add_clients(self, key: PartitionKey) -> list[Producer]:
        """Those of one partition, silent as yet."""
        options = self.options
        added = [self.add_producer(key) for _ in range(options.producers)]
        for n in range(options.plain_producers):
            number = PLAIN_ID + len(self.producers)
            random = keyed_random(self.seed, "producer", number)
            acks = 1 if (n + key[1]) % 2 == 0 else -1
            added.append(Producer(number, key, random, acks=acks, is_idempotent=False))
            self.producers.append(added[-1])
        for _ in range(options.consumers):
            number = len(self.consumers)
            consumer = Consumer(number, key, keyed_random(self.seed, "consumer", number))
            self.history.assigned(f"consumer-{number}", key, from_offset=0)
            self.consumers.append(consumer)
        return added

    def add_producer(self, key: PartitionKey) -> Producer:
        """Add an idempotent one."""
        number = 1000 + len(self.producers)
        random = keyed_random(self.seed, "producer", number)
        self.producers.append(Producer(number, key, random, in_flight_max=self.options.in_flight_max))
        return self.producers[-1]

    def start_clients(self, key: PartitionKey) -> None:
        for producer in self.producers:
            if producer.key == key:
                self.clients.produce(producer)
        for consumer in self.consumers:
            if consumer.key == key:
                self.clients.consume(consumer)

    def stop_clients(self) -> None:
        """Producers finish what they have begun; the operator rests."""
        self.operator.stopped = True
        if self.shards is not None:
            self.shards.stop_clients()
        for producer in self.producers:
            producer.stopped = True

    def start_again(self) -> None:
        """Producers of the partitions that exist go on."""
        if self.shards is not None:
            self.shards.start_again()
        for producer in self.producers:
            if producer.stopped and not producer.is_over and producer.key in self.living:
                producer.stopped = False
                self.clients.produce(producer)

    def who_knows_later(self, broker: BrokerNode) -> int | None:
        """The controller epoch of the active controller if it knows of a later heartbeat of this process than
        it remembers (3.10, a host that goes back); -1 if only a broker knows that would tell the next one;
        None if nobody does, or if what was told of it is true of it again (G6)."""
        sent, answered = broker.session.heartbeats.sent, broker.session.heartbeats.answered
        heard_here: Collection[tuple[int, int]] = ()
        controller = self.active_controller()
        machine = None if controller is None else controller.machine
        registered = None if machine is None else machine.image.brokers.get(broker.broker_id)
        if machine is not None and registered is not None:
            session = machine._sessions._by_id[broker.broker_id]
            heard_here = session._heard
            if registered.broker_epoch != broker.broker_epoch or (
                session.has_gone_back
                or session.heard_count > sent + 1
                or session.heard_answered > answered
                or (registered.shutting_down and not broker.session.wants_shutdown)
            ):
                return machine.controller_epoch
        is_witnessed = any(
            heard.broker_epoch == broker.broker_epoch
            and (
                heard.count > sent + 1
                or heard.answered > answered
                or any(count >= heard.count and own < heard.answered for count, own in heard_here)
            )
            for other in self.brokers.values()
            if other.is_up and not other.is_paused and other is not broker
            for heard in other.session.heartbeats.others
            if heard.broker_id == broker.broker_id
        )
        return -1 if is_witnessed else None

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.nodes]

    @property
    def nodes(self) -> list[BrokerNode | ControllerNode]:
        return [*self.brokers.values(), *self.controllers]

    def owner_of(self, broker: int) -> int:
        """The id by which operators know a broker, or the one that it is a worker of."""
        owner = self.options.members[broker]
        return broker if owner is None else owner

    def node(self, name: str) -> BrokerNode | ControllerNode:
        return next(node for node in self.nodes if node.name == name)

    def heal(self) -> None:
        """End every fault; what is down comes back, and wall clocks are set right."""
        self.ongoing.end_all()
        for node in self.nodes:
            node.clock.wall_offset_ms = 0
        self.events.note("all healed")

    def active_controller(self) -> ControllerNode | None:
        for controller in self.controllers:
            if controller.machine is not None and not controller.is_paused and controller.is_authoritative():
                return controller
        return None

    def _set_up(self) -> None:
        """The operator: admits the brokers once they wait, then creates the topic; tries until it is done."""
        controller = self.active_controller()
        if controller is not None:
            image = controller.published
            waiting = tuple({r.owner_id: None for r in image.brokers.values() if not r.admitted})
            active = sum(r.is_eligible for r in image.brokers.values())
            if waiting:
                controller.submit(
                    AdmitBrokers(wall_ms=self.events.now_ms, actor="operator", broker_ids=waiting),
                    lambda reply: self._expect(reply, BrokersAdmitted),
                )
            elif active == len(self.brokers) and (self.shards is None or self.shards.is_there()):
                event = CreateTopic(
                    wall_ms=self.events.now_ms,
                    actor="operator",
                    topic_id=TOPIC_ID,
                    topic="orders",
                    partitions=self.options.partitions,
                    replication_factor=self.options.replication_factor,
                    configs=self.options.topic_configs,
                )
                controller.submit(event, self._on_topic_created)
        if not self.topic_created:
            self.events.after(100, self._set_up)

    @staticmethod
    def _expect(reply: Any, kind: type) -> None:
        if not isinstance(reply, kind):
            raise AssertionError(reply)

    def _on_topic_created(self, reply: Any) -> None:
        if not isinstance(reply, TopicCreated):
            if self.topic_created:
                return
            raise AssertionError(reply)
        if not self.topic_created:
            self.topic_created = True
            for key in self.keys:
                self.start_clients(key)
            self.operator.start()

    # --- truth ------------------------------------------------------------------------------------------

    def truth(self, key: PartitionKey) -> PartitionState | None:
        """What ZooKeeper holds."""
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = f"partition/{key[0]}/{key[1]}"
        node = self.zookeeper.nodes.get(path)
        if node is None:
            return None
        state: PartitionState = node.value.state
        return state

    def registered_epoch(self, broker_id: int) -> int:
        node = self.zookeeper.nodes.get(self._broker_paths[broker_id])
        return -1 if node is None else int(node.value.registration.broker_epoch)

    def registered_life(self, broker_id: int) -> int:
        """Of the life whose registration ZooKeeper has; -1: of none."""
        node = self.zookeeper.nodes.get(self._broker_paths[broker_id])
        return -1 if node is None else self.brokers[broker_id].life_of(node.value.registration.incarnation_id)

    def _reaches_zookeeper(self, session: str) -> bool:
        return (session.split("#", maxsplit=1)[0], "zookeeper") not in self.network.cuts

    # --- what happens -----------------------------------------------------------------------------------

    def on_poll_sent(self, member_id: int, controller: str) -> None:
        self.polling[member_id] = controller

    def on_process_down(self, name: str, member_id: int, member_epoch: int) -> None:
        """The kernel closes the session connection; its controller learns of it, unless it is cut off."""
        polled = self.polling.pop(member_id, None)
        controller = next((c for c in self.controllers if c.name == polled), None)
        if controller is None or (name, controller.name) in self.network.cuts:
            return

        def closed() -> None:
            if controller.is_up and not controller.is_paused:
                controller.on_session_closed(member_id, member_epoch, f"host-{member_id}", 9092)

        self.events.after(0.5, closed)

    def on_applied(self, broker: BrokerNode) -> None:
        for key in broker.replicas:
            self.oracle.on_replica_touched(broker, key)

    def _on_published(self, controller: ControllerNode, record: Record) -> None:
        if isinstance(record, PartitionRecord):
            state = record.state
            self.marks.on_published(record)
            if record.change.cause in _ELECTIONS:
                self.leader_changes += 1
            self.events.note(
                f"{controller.name} {record.change.cause} {state.topic_id[:4]}-{state.partition} leader "
                f"{state.leader} le {state.leader_epoch} pe {state.partition_epoch} isr {state.isr} "
                f"elr {state.elr}" + (f" shard {state.shard}" if state.shard else "")
            )
        elif isinstance(record, TopicRecord):
            if not record.state.deleting:
                self.oracle.holders[record.state.topic] = record.state.topic_id
            if self.shards is not None:
                self.shards.on_topic(record.state)
        elif isinstance(record, RemoveMemberRecord) and record.kind is MemberKind.COORDINATOR:
            self.marks.reached("coordinator.forgotten")

    def _on_taken_over(self, controller: ControllerNode) -> None:
        """Note which topics have their names: the controller before may have died between writing a creation
        and publishing it."""
        for topic in controller.published.topics.values():
            if not topic.deleting:
                self.oracle.holders[topic.topic] = topic.topic_id

    def _on_went_back(self, controller: ControllerNode) -> None:
        if not self.zookeeper.times_back:
            assert controller.machine is not None
            raise Violation("went back", f"ZooKeeper did not: {controller.machine.went_back}")

    def _on_shard_moved(self, before: Shard, after: PartitionState, is_owner_alive: bool) -> None:
        if self.shards is not None and partition_key(after) == self.shards.key and after.shard is not None:
            self.shards.on_moved(before, after.shard, is_owner_alive=is_owner_alive)

    def _new_topic_id(self) -> str:
        return base64.urlsafe_b64encode(self._topic_ids.randbytes(16)).decode().rstrip("=")

    # --- for tests that play by hand --------------------------------------------------------------------

    def _produce(self, producer: Producer) -> None:
        self.clients.produce(producer)

    def _check_ack(self, producer: Producer, content: Content, base_offset: int) -> None:
        self.oracle.check_ack(producer.key, content, base_offset)

    # --- the end ----------------------------------------------------------------------------------------

    def is_settled(self) -> str | None:
        """None when every partition is led, in sync and read to its end; otherwise what is missing."""
        if self.zookeeper.is_back:
            return "ZooKeeper went back, and nobody has recovered what it lost"
        for key in self.keys:
            state = self.truth(key)
            if state is None:
                return f"{key} does not exist"
            if state.leader == NO_LEADER:
                return f"{key} has no leader: isr {state.isr} elr {state.elr}"
            if set(state.isr) != set(state.replicas):
                return f"{key} isr {state.isr} of {state.replicas}, leader {state.leader}"
            leader = self.brokers[state.leader].replicas.get(key)
            if leader is None or leader.leading is None:
                return f"{key} broker {state.leader} does not lead yet"
            if leader.high_watermark != leader.log.log_end_offset:
                return f"{key} high watermark {leader.high_watermark} of {leader.log.log_end_offset}"
        busy = [p.producer_id for p in self.producers if p.in_flight and p.key in self.living]
        return f"producers {busy} wait" if busy else None

    def check_end(self) -> None:
        self.oracle.check_end()
        if self.shards is not None:
            self.shards.check_end()
        if self.mixed is not None:
            self.mixed.check_end()

    def run_until(self, until_ms: int, stop: Callable[[], bool] | None = None) -> bool:
        """Let it go on to that time, or until `stop` says so, which is asked every STOP_ASKED_MS."""
        while True:
            pause_ms = until_ms if stop is None else min(until_ms, self.events.now_ms + STOP_ASKED_MS)
            self.events.run(pause_ms)
            if stop is not None and stop():
                return True
            if pause_ms >= until_ms:
                return False

    def dismantle(self) -> None:
        """After the last look at it: let go of what is bulky, so that its memory does not wait for the
        collector of cycles, which would visit every batch and operation first."""
        self.events.clear()
        for broker in self.brokers.values():
            broker.disk.logs.clear()
            broker.forget_replicas()
        self.ghosts.clear()
        self.producers.clear()
        self.history.operations.clear()


_ELECTIONS = frozenset(
    {Cause.LEADER_ELECTED, Cause.SEALED_LEADER_ELECTED, Cause.BROKER_DIED, Cause.BROKER_FENCED}
)
