"""The simulated cluster and the oracle that watches it.

The oracle keeps what no part of the system has: the *ghost*, every batch that some leader's high watermark
ever covered, by offset. After each step it compares the replicas that were touched with it. A violation is
an exception that names the invariant; the seed that found it replays to the same step.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from controller.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from controller.core.events import AdmitBrokers, BrokersAdmitted, CreateTopic, TopicCreated
from controller.core.options import ControllerOptions
from controller.core.records import Cause, Change, ClusterRecord, PartitionRecord, Record
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.replica import ReplicaOptions, Role
from dataplane.wire.errors import ErrorCode
from dataplane.wire.record_batch import BatchHeader, decode_header, iter_headers
from dataplane.wire.records import NewRecord, encode_batch
from tests.simulation.broker_node import BrokerNode, Disk, ProduceAnswer, ProduceCall
from tests.simulation.budget import LossBudget
from tests.simulation.controller_node import ControllerNode, row_key
from tests.simulation.events import Events, keyed_random
from tests.simulation.history import HistoryRecorder, OpenSend
from tests.simulation.memory_log import MemoryLog
from tests.simulation.network import Network, NetworkOptions
from tests.simulation.ongoing import OngoingFaults
from tests.simulation.zookeeper import ModelZooKeeper, Znode, ZooKeeperOptions

TOPIC_ID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")

STOP_ASKED_MS = 20


class Violation(AssertionError):
    """An invariant does not hold. `rule` is its number."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


class Content(NamedTuple):
    """What a batch is, wherever it stands. A CRC alone is not enough: among some hundred thousand batches of
    a sweep two different ones had the same (seed 300)."""

    producer_id: int
    base_sequence: int
    crc: int


class Committed(NamedTuple):
    """One batch below some leader's high watermark. Its offsets never hold anything else again (I13)."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    content: Content


def content_of(header: BatchHeader) -> Content:
    return Content(header.producer_id, header.base_sequence, header.crc)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Drawn per seed; printed when it fails."""

    brokers: int = 3
    controllers: int = 1
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    producers: int = 2
    lag_ms_max: int = 2_000


@dataclass(slots=True)
class Ghost:
    batches: list[Committed] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def from_offset(self, offset: int) -> int:
        """Index of the first batch at or beyond `offset`."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].base_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


@dataclass(slots=True)
class Producer:
    """An idempotent producer with one batch in flight a partition: retries until it is acknowledged."""

    producer_id: int
    key: PartitionKey
    random: Random
    sequence: int = 0
    batch: bytes | None = None
    attempts: int = 0
    send: OpenSend | None = None
    acked: list[tuple[int, Content]] = field(default_factory=list)  # (base offset, what)
    stopped: bool = False
    #: Highest leader epoch that metadata ever told: older metadata is ignored, as clients do since KIP-320.
    leader_epoch: int = -1


class Cluster:
    """Nodes, network, ZooKeeper, producers, ghost."""

    def __init__(self, seed: int, options: ClusterOptions) -> None:
        self.seed = seed
        self.options = options
        self.events = Events()
        self.history = HistoryRecorder(self.events)
        self.network = Network(self.events, keyed_random(seed, "network"), NetworkOptions())
        self.zookeeper = ModelZooKeeper(self.events, keyed_random(seed, "zookeeper"), ZooKeeperOptions())
        change = Change(cause=Cause.CLUSTER_CREATED, at_ms=0)
        cluster = ClusterRecord(cluster_id=TOPIC_ID, change=change)
        self.zookeeper.nodes[row_key(cluster)] = Znode(cluster, 0)
        self.zookeeper.on_write = self._on_zookeeper_write
        controllers = tuple(f"controller-{n}" for n in range(options.controllers))
        self.controllers = [
            ControllerNode(
                name,
                self.events,
                self.network,
                self.zookeeper,
                ControllerOptions(),
                self._is_broker_listening,
                self._on_published,
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
                ReplicaOptions(lag_ms_max=options.lag_ms_max, proposal_retry_ms=300, refused_retry_ms=300),
                Disk(f"dir-{n}"),
            )
            for n in range(1, options.brokers + 1)
        }
        self.keys: list[PartitionKey] = [(TOPIC_ID, n) for n in range(options.partitions)]
        self.ghosts: dict[PartitionKey, Ghost] = {key: Ghost() for key in self.keys}
        self.producers = [
            Producer(1000 + n, key, keyed_random(seed, "producer", n))
            for n, key in enumerate(self.keys * options.producers)
        ]
        self.ongoing = OngoingFaults(self.events)
        self.budget = LossBudget(self)
        self.polling: dict[int, str] = {}
        self._verified: dict[tuple[int, PartitionKey], int] = {}
        self._evidence: dict[tuple[int, int, PartitionKey, int], dict[int, int]] = {}
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._partition_epochs: dict[PartitionKey, int] = {}
        self.isr_changes = 0
        self.leader_changes = 0
        self.acked = 0
        self.topic_created = False

    # --- setting up -------------------------------------------------------------------------------------

    def start(self) -> None:
        for controller in self.controllers:
            controller.start()
        for broker in self.brokers.values():
            broker.start()
        self._set_up()

    @property
    def node_names(self) -> list[str]:
        return [b.name for b in self.brokers.values()] + [c.name for c in self.controllers]

    def heal(self) -> None:
        """End every fault; what is down comes back."""
        self.ongoing.end_all()
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
            waiting = tuple(b for b, r in image.brokers.items() if not r.admitted)
            active = sum(r.is_eligible for r in image.brokers.values())
            if waiting:
                controller.submit(
                    AdmitBrokers(wall_ms=self.events.now_ms, actor="operator", broker_ids=waiting),
                    lambda reply: self._expect(reply, BrokersAdmitted),
                )
            elif active == len(self.brokers):
                event = CreateTopic(
                    wall_ms=self.events.now_ms,
                    actor="operator",
                    topic_id=TOPIC_ID,
                    topic="orders",
                    partitions=self.options.partitions,
                    replication_factor=self.options.replication_factor,
                    configs={"min.insync.replicas": str(self.options.min_insync_replicas)},
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
            for producer in self.producers:
                self._produce(producer)

    # --- truth ------------------------------------------------------------------------------------------

    def truth(self, key: PartitionKey) -> PartitionState | None:
        node = self.zookeeper.nodes.get(f"partition/{key[0]}/{key[1]}")
        if node is None:
            return None
        assert isinstance(node.value, PartitionRecord)
        return node.value.state

    def registered_epoch(self, broker_id: int) -> int:
        node = self.zookeeper.nodes.get(f"broker/{broker_id}")
        return -1 if node is None else int(node.value.registration.broker_epoch)

    def _is_broker_listening(self, broker_id: int) -> bool:
        return self.network.is_listening(f"broker-{broker_id}")

    # --- what happens -----------------------------------------------------------------------------------

    def on_poll_sent(self, broker: BrokerNode, controller: str) -> None:
        self.polling[broker.broker_id] = controller

    def on_broker_down(self, broker: BrokerNode) -> None:
        """The kernel closes the session connection; its controller learns of it, unless it is cut off."""
        name = self.polling.pop(broker.broker_id, None)
        controller = next((c for c in self.controllers if c.name == name), None)
        epoch = broker.broker_epoch
        if controller is None or (broker.name, controller.name) in self.network.cuts:
            return

        def closed() -> None:
            if controller.is_up and not controller.is_paused:
                controller.on_session_closed(broker.broker_id, epoch, f"host-{broker.broker_id}", 9092)

        self.events.after(0.5, closed)

    def on_applied(self, broker: BrokerNode) -> None:
        for key in self.keys:
            self.on_replica_touched(broker, key)

    def on_fetch_served(
        self,
        leader: BrokerNode,
        key: PartitionKey,
        replica_id: int,
        broker_epoch: int,
        position: FetchPosition,
    ) -> None:
        replica = leader.replicas[key]
        if replica.leader_epoch != position.leader_epoch:
            raise Violation("I7", f"{key} served epoch {position.leader_epoch} in {replica.leader_epoch}")
        if broker_epoch < leader.endpoints[replica_id].broker_epoch:
            raise Violation("I8", f"{key} served an earlier incarnation of broker {replica_id}")
        seen = self._evidence.setdefault((leader.broker_id, leader.life, key, replica.leader_epoch), {})
        seen[replica_id] = max(seen.get(replica_id, -1), position.fetch_offset)

    def on_high_watermark_moved(self, broker: BrokerNode, key: PartitionKey) -> None:
        replica = broker.replicas[key]
        state = replica.state
        if replica.role is not Role.LEADER or state is None:
            return
        high_watermark = replica.high_watermark
        if len(state.isr) < state.min_insync_replicas:
            raise Violation("I3", f"{key} high watermark moved with ISR {state.isr}")
        evidence = self._evidence.get((broker.broker_id, broker.life, key, replica.leader_epoch), {})
        for member in replica.maximal_isr:
            if member != broker.broker_id and evidence.get(member, -1) < high_watermark:
                raise Violation(
                    "I3",
                    f"{key} high watermark {high_watermark} on broker {broker.broker_id} in leader epoch "
                    f"{replica.leader_epoch}, but broker {member} fetched only {evidence.get(member)}",
                )
        self._extend_ghost(replica.log, key, high_watermark)
        self._check_candidates(key)

    def _extend_ghost(self, log: Any, key: PartitionKey, high_watermark: int) -> None:
        ghost = self.ghosts[key]
        if ghost.end_offset < high_watermark:
            for committed in batches_of(log, ghost.end_offset, high_watermark):
                ghost.batches.append(committed)

    def _on_zookeeper_write(self, session: str, controller_epoch: int) -> None:
        if controller_epoch != self.zookeeper.nodes["controller_epoch"].value:
            raise Violation("I5", f"{session} wrote under controller epoch {controller_epoch}")
        for key in self.keys:
            state = self.truth(key)
            if state is None:
                continue
            before = self._partition_epochs.get(key, -1)
            if state.partition_epoch < before:
                raise Violation("I6", f"{key} partition epoch went from {before} to {state.partition_epoch}")
            if state.partition_epoch > before:
                self._partition_epochs[key] = state.partition_epoch
                self.isr_changes += 1
                if state.leader != NO_LEADER:
                    other = self._leaders.setdefault((key, state.leader_epoch), state.leader)
                    if other != state.leader:
                        raise Violation(
                            "I7", f"{key} leader epoch {state.leader_epoch}: {other} and {state.leader}"
                        )
                self._check_candidates(key)
                self._check_quorum_superset(key)

    def _on_published(self, controller: ControllerNode, record: Record) -> None:
        if isinstance(record, PartitionRecord):
            state = record.state
            if record.change.cause in (Cause.LEADER_ELECTED, Cause.BROKER_DIED, Cause.BROKER_FENCED):
                self.leader_changes += 1
            self.events.note(
                f"{controller.name} {record.change.cause} {state.partition} leader {state.leader} "
                f"le {state.leader_epoch} pe {state.partition_epoch} isr {state.isr} elr {state.elr}"
            )

    # --- checks -----------------------------------------------------------------------------------------

    def on_replica_touched(self, broker: BrokerNode, key: PartitionKey) -> None:
        replica = broker.replicas.get(key)
        if replica is None:
            return
        log = replica.log
        if not log.log_start_offset <= replica.high_watermark <= log.log_end_offset:
            raise Violation(
                "I26",
                f"{key} on broker {broker.broker_id}: {log.log_start_offset} <= {replica.high_watermark}"
                f" <= {log.log_end_offset} does not hold",
            )
        self._check_matching(broker.broker_id, log, key, min(replica.high_watermark, log.log_end_offset))
        self._check_quorum_superset(key)

    def _check_matching(self, broker_id: int, log: Any, key: PartitionKey, end_offset: int) -> None:
        """I13 through the ghost: below its high watermark every replica holds exactly what was committed."""
        ghost = self.ghosts[key]
        verified = min(self._verified.get((broker_id, key), 0), log.log_end_offset)
        end_offset = min(end_offset, ghost.end_offset)
        if verified >= end_offset:
            self._verified[(broker_id, key)] = verified
            return
        index = ghost.from_offset(verified)
        for committed in batches_of(log, verified, end_offset):
            if index >= len(ghost.batches) or ghost.batches[index] != committed:
                expected = ghost.batches[index] if index < len(ghost.batches) else None
                raise Violation(
                    "I13", f"{key} on broker {broker_id}: {committed}, where {expected} was committed"
                )
            index += 1
        self._verified[(broker_id, key)] = end_offset

    def _check_candidates(self, key: PartitionKey) -> None:
        """I1: whoever may be elected and is up holds every committed record."""
        state = self.truth(key)
        ghost = self.ghosts[key]
        if state is None or not ghost.batches:
            return
        for broker_id in (*state.isr, *state.elr):
            broker = self.brokers[broker_id]
            if not broker.is_up or broker.broker_epoch != self.registered_epoch(broker_id):
                continue
            log = broker.disk.logs.get(key)
            end_offset = 0 if log is None else log.log_end_offset
            if end_offset < ghost.end_offset:
                raise Violation(
                    "I1",
                    f"{key} broker {broker_id} is in isr {state.isr} elr {state.elr} with log end "
                    f"{end_offset}, but {ghost.end_offset} was committed",
                )
            self._check_matching(broker_id, log, key, ghost.end_offset)

    def _check_quorum_superset(self, key: PartitionKey) -> None:
        """I2: the leader may be stricter than the controller, never laxer."""
        state = self.truth(key)
        if state is None or state.leader == NO_LEADER:
            return
        replica = self.brokers[state.leader].replicas.get(key)
        if replica is None or replica.role is not Role.LEADER or replica.leader_epoch != state.leader_epoch:
            return
        held = replica.state
        assert held is not None
        if len(held.isr) < held.min_insync_replicas:
            return
        missing = [b for b in (*state.isr, *state.elr) if b not in replica.maximal_isr]
        if missing:
            raise Violation(
                "I2",
                f"{key} leader {state.leader} does not wait for {missing}: maximal {replica.maximal_isr}, "
                f"controller isr {state.isr} elr {state.elr}",
            )

    # --- producers --------------------------------------------------------------------------------------

    def _produce(self, producer: Producer) -> None:
        if producer.stopped and producer.batch is None:
            return
        if producer.batch is None:
            count = 1 + producer.random.randrange(3)
            values = [f"{producer.producer_id}/{producer.sequence + i}".encode() for i in range(count)]
            producer.batch = encode_batch(
                [NewRecord(timestamp=0, key=None, value=value) for value in values],
                producer_id=producer.producer_id,
                producer_epoch=0,
                base_sequence=producer.sequence,
            )
            producer.send = self.history.begin_send(
                f"producer-{producer.producer_id}", producer.key, producer.batch
            )
        leader = self._leader_as_known(producer)
        if leader is None:
            self.events.after(60, lambda: self._produce(producer))
            return
        producer.attempts += 1
        call = ProduceCall(producer.key, producer.batch, acks=-1)

        def answered(answer: ProduceAnswer) -> None:
            self._on_produced(producer, answer)

        def lost() -> None:
            assert producer.send is not None
            producer.send.unanswered()
            self.events.after(30, lambda: self._produce(producer))

        self.network.call("client", f"broker-{leader}", call, answered, timeout_ms=1_500, on_timeout=lost)

    def _leader_as_known(self, producer: Producer) -> int | None:
        """Metadata from a random broker that is up: perhaps stale, as a client's is."""
        up = [b for b in self.brokers.values() if b.is_up and not b.is_paused and producer.key in b.states]
        if not up:
            return None
        state = producer.random.choice(up).states[producer.key]
        if state.leader == NO_LEADER or state.leader_epoch < producer.leader_epoch:
            return None
        producer.leader_epoch = state.leader_epoch
        return state.leader

    def _on_produced(self, producer: Producer, answer: ProduceAnswer) -> None:
        assert producer.batch is not None and producer.send is not None
        producer.send.answered(answer.error, answer.base_offset)
        match answer.error:
            case ErrorCode.NONE:
                header = decode_header(producer.batch)
                content = content_of(header)
                self._check_ack(producer, content, answer.base_offset)
                self.acked += header.record_count
                producer.acked.append((answer.base_offset, content))
                producer.sequence += header.record_count
                producer.batch = None
                self.events.after(5 + 60 * producer.random.random(), lambda: self._produce(producer))
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode.INVALID_PRODUCER_EPOCH:
                raise Violation("I23", f"producer {producer.producer_id} was told {answer.error.name}")
            case _:
                self.events.after(20 + 60 * producer.random.random(), lambda: self._produce(producer))

    def _check_ack(self, producer: Producer, content: Content, base_offset: int) -> None:
        ghost = self.ghosts[producer.key]
        if base_offset < 0:
            known = any(committed.content == content for committed in ghost.batches)
        else:
            index = ghost.from_offset(base_offset)
            known = (
                index < len(ghost.batches)
                and ghost.batches[index].base_offset == base_offset
                and ghost.batches[index].content == content
            )
        if not known:
            raise Violation("I4", f"{producer.key} acknowledged offset {base_offset}, which is not committed")

    # --- the end ----------------------------------------------------------------------------------------

    def is_settled(self) -> str | None:
        """None when every partition is led, in sync and read to its end; otherwise what is missing."""
        for key in self.keys:
            state = self.truth(key)
            if state is None:
                return f"{key} does not exist"
            if state.leader == NO_LEADER:
                return f"{key} has no leader: isr {state.isr} elr {state.elr}"
            if set(state.isr) != set(state.replicas):
                return f"{key} isr {state.isr} of {state.replicas}, leader {state.leader}"
            leader = self.brokers[state.leader].replicas.get(key)
            if leader is None or leader.role is not Role.LEADER:
                return f"{key} broker {state.leader} does not lead yet"
            if leader.high_watermark != leader.log.log_end_offset:
                return f"{key} high watermark {leader.high_watermark} of {leader.log.log_end_offset}"
        busy = [p.producer_id for p in self.producers if p.batch is not None]
        return f"producers {busy} wait" if busy else None

    def check_end(self) -> None:
        """Everything acknowledged is in every replica, once, in each producer's order (I13, I23, I24)."""
        for key in self.keys:
            ghost = self.ghosts[key]
            contents = [committed.content for committed in ghost.batches]
            if len(contents) != len(set(contents)):
                raise Violation("I23", f"{key} holds a batch twice")
            for producer in (p for p in self.producers if p.key == key):
                where = {content: position for position, content in enumerate(contents)}
                positions = [where[content] for _, content in producer.acked if content in where]
                if len(positions) != len(producer.acked):
                    raise Violation("I24", f"{key} lost an acknowledged batch of {producer.producer_id}")
                if positions != sorted(positions):
                    raise Violation("I24", f"{key} reordered producer {producer.producer_id}")
            state = self.truth(key)
            assert state is not None
            for broker_id in state.replicas:
                log = self.brokers[broker_id].disk.logs[key]
                if [c.content for c in batches_of(log, 0, log.log_end_offset)] != contents:
                    raise Violation("I13", f"{key} broker {broker_id} differs at the end")

    def run_until(self, until_ms: int, stop: Callable[[], bool] | None = None) -> bool:
        """Let it go on to that time, or until `stop` says so, which is asked every STOP_ASKED_MS."""
        while True:
            pause_ms = until_ms if stop is None else min(until_ms, self.events.now_ms + STOP_ASKED_MS)
            while self.events.step(pause_ms):
                pass
            if stop is not None and stop():
                return True
            if pause_ms >= until_ms:
                return False


def batches_of(log: MemoryLog, offset: int, end_offset: int) -> list[Committed]:
    """Whole batches of a log in [offset, end_offset)."""
    found: list[Committed] = []
    while offset < end_offset:
        piece = log.read(offset, max_bytes=1 << 20, end_offset=end_offset)
        if not piece.size_bytes:
            break
        for part in piece.parts:
            assert isinstance(part, memoryview)
            for _, header in iter_headers(part):
                found.append(
                    Committed(header.base_offset, header.next_offset, header.leader_epoch, content_of(header))
                )
        offset = piece.next_offset
    return found
