"""What a scenario is written in: a cluster whose faults are called by hand, at moments that are waited for.

A script waits for a state (`until`), not for a time; it strikes (`cut`, `kill`, `hold` messages back); and it
says which moment the scenario is about (`reached`). One whose moment does not come has tested nothing, and
fails with NotReached, which is never taken for the discovery of a bug. The oracle of cluster.py watches all
along, and `finish` heals, waits until all is in order again, and compares every log.

The cluster's own producers are silent until `traffic`; `send` writes one batch to one broker, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.core.events import ElectPreferred
from dataplane.core.leader import Leader
from dataplane.core.replica import Replica
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.contract.updates import PollRequest
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.broker_node import BrokerNode
from tests.simulation.broker_requests import FetchCall
from tests.simulation.clients import ProduceAnswer, ProduceCall
from tests.simulation.cluster import Cluster, ClusterOptions, Content, Producer, Violation, content_of
from tests.simulation.controller_node import ControllerNode
from tests.simulation.events import MS, keyed_random
from tests.simulation.network import Message
from tests.simulation.zookeeper import ModelZooKeeper, Outcome

WAIT_MS_MAX = 20_000
RECOVERY_MS_MAX = 60_000
CLIENT = "client"

Node = BrokerNode | ControllerNode | str
Chosen = Callable[[Any], bool]


class NotReached(Exception):
    """The moment that the scenario is about did not come: nothing was tested."""


def name_of(node: Node) -> str:
    return node if isinstance(node, str) else node.name


@dataclass(slots=True)
class Held:
    """Messages that have set out and not arrived, in that order. More join until it is let go."""

    choose: Callable[[Message], bool]
    messages: list[tuple[Message, Callable[[], None]]] = field(default_factory=list)
    is_over: bool = False

    def __len__(self) -> int:
        return len(self.messages)

    def intercept(self, message: Message, arrive: Callable[[], None]) -> bool:
        if self.is_over or not self.choose(message):
            return False
        self.messages.append((message, arrive))
        return True

    def release(self, *, copies: int = 1) -> None:
        """Let them all arrive now, and hold no more."""
        self.is_over = True
        messages, self.messages = self.messages, []
        for _, arrive in messages:
            for _ in range(copies):
                arrive()

    def drop(self) -> None:
        self.is_over = True
        self.messages.clear()


class HeldWrites:
    """Stands before the model of ZooKeeper for one controller, and keeps its writes until `release`."""

    def __init__(self, zookeeper: ModelZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._writes: list[tuple[Any, ...]] = []
        self._is_over = False
        self.outcomes: list[Outcome] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zookeeper, name)

    def __len__(self) -> int:
        return len(self._writes)

    def multi(self, *write: Any) -> None:
        if self._is_over:
            self._zookeeper.multi(*write)
        else:
            self._writes.append(write)

    def release(self) -> None:
        """Let them arrive now. `outcomes`: what ZooKeeper makes of them, when it has."""
        self._is_over = True
        for *write, done in self._writes:

            def answered(outcome: Outcome, done: Callable[[Outcome], None] = done) -> None:
                self.outcomes.append(outcome)
                done(outcome)

            session, controller_epoch, writes = write
            self._zookeeper.multi(session, controller_epoch, writes, answered)


@dataclass(slots=True)
class Write:
    """One batch of the script's own, and what became of it. answer: None while, or when, there is none."""

    producer: Producer
    batch: bytes
    content: Content
    answers: list[ProduceAnswer] = field(default_factory=list)

    @property
    def answer(self) -> ProduceAnswer | None:
        return self.answers[-1] if self.answers else None

    @property
    def is_acked(self) -> bool:
        return any(answer.error is ErrorCode.NONE for answer in self.answers)


class Script:
    """One run of one scenario. `a`, `b`, `c`: the brokers of partition 0 in assignment order, so that `a` is
    its first and its preferred leader."""

    def __init__(self, seed: int, **options: Any) -> None:
        given = {"partitions": 1, "producers": 1, "lag_ms_max": 600, **options}
        self.cluster = Cluster(seed, ClusterOptions(**given))
        self.events = self.cluster.events
        self.network = self.cluster.network
        self.random = keyed_random(seed, "script")
        self.moments: list[str] = []
        self._held: list[Held] = []
        self._cuts: list[tuple[str, str]] = []
        self._producers = 0

    # --- beginning and end ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Everything is up, in sync, and written to; then the producers fall silent."""
        cluster = self.cluster
        cluster.start()
        self._expire_sessions()
        self.must("L1", "records are acknowledged", lambda: cluster.acked >= 5)
        self.must("L4", "the replicas are known to exist", lambda: not self.state.new_replicas)
        self.quiet()

    def finish(self) -> None:
        """Heal everything; then all must come into order again, under traffic and after it."""
        self.heal()
        self.traffic()
        self.run_for(1_000)
        for producer in self.cluster.producers:
            producer.stopped = True
        if self.cluster.shards is not None:
            self.cluster.shards.stop_clients()
        try:
            self.until("all is in order", lambda: self.cluster.is_settled() is None, RECOVERY_MS_MAX)
        except NotReached:
            missing = self.cluster.is_settled()
            raise Violation("L2", f"{RECOVERY_MS_MAX} ms after the scenario: {missing}") from None
        self.run_for(3_000)
        self.cluster.check_end()

    def heal(self) -> None:
        for held in self._held:
            held.release()
        self.mend()
        nodes: list[BrokerNode | ControllerNode] = [*self.cluster.controllers, *self.cluster.brokers.values()]
        for node in nodes:
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()

    def _expire_sessions(self) -> None:
        self.cluster.zookeeper.expire_due()
        self.events.after(100, self._expire_sessions)

    # --- who is who -------------------------------------------------------------------------------------

    @property
    def key(self) -> PartitionKey:
        return self.cluster.keys[0]

    @property
    def state(self) -> PartitionState:
        """The partition's state in ZooKeeper."""
        state = self.cluster.truth(self.key)
        assert state is not None
        return state

    @property
    def a(self) -> BrokerNode:
        return self.cluster.brokers[self.state.replicas[0]]

    @property
    def b(self) -> BrokerNode:
        return self.cluster.brokers[self.state.replicas[1]]

    @property
    def c(self) -> BrokerNode:
        return self.cluster.brokers[self.state.replicas[2]]

    @property
    def controller(self) -> ControllerNode:
        controller = self.cluster.active_controller()
        if controller is None:
            raise NotReached("no controller leads")
        return controller

    def replica(self, broker: BrokerNode) -> Replica:
        replica = broker.replicas.get(self.key)
        if replica is None:
            raise NotReached(f"{broker.name} has no replica")
        return replica

    def log_end(self, broker: BrokerNode) -> int:
        return broker.disk.logs[self.key].log_end_offset

    def log_end_or_0(self, broker: BrokerNode) -> int:
        log = broker.disk.logs.get(self.key)
        return 0 if log is None else log.log_end_offset

    @property
    def committed(self) -> int:
        """The ghost's end: one past the last offset that any leader's high watermark ever covered."""
        return self.cluster.ghosts[self.key].end_offset

    def leads(self, broker: BrokerNode) -> bool:
        """In ZooKeeper and in its own eyes."""
        replica = broker.replicas.get(self.key)
        return (
            self.state.leader == broker.broker_id
            and replica is not None
            and isinstance(replica.role, Leader)
            and replica.leader_epoch == self.state.leader_epoch
        )

    def in_isr(self, *brokers: BrokerNode) -> bool:
        """Whether the ISR in ZooKeeper is exactly these."""
        return set(self.state.isr) == {broker.broker_id for broker in brokers}

    # --- time -------------------------------------------------------------------------------------------

    def run_for(self, ms: float) -> None:
        until_ns = self.events.now_ns + int(ms * MS)
        while self.events.step(until_ns // MS):
            pass

    def until(self, what: str, is_so: Callable[[], object], within_ms: int = WAIT_MS_MAX) -> None:
        """Go on event by event until it is so."""
        deadline_ms = self.events.now_ms + within_ms
        while not is_so():
            if not self.events.step(deadline_ms):
                raise NotReached(f"not within {within_ms} ms: {what}")

    def must(self, rule: str, what: str, is_so: Callable[[], object], within_ms: int = WAIT_MS_MAX) -> None:
        """Go on until it is so; a violation of `rule` if it never is."""
        try:
            self.until(what, is_so, within_ms)
        except NotReached as missed:
            raise Violation(rule, str(missed)) from None

    def reached(self, moment: str, is_so: bool) -> None:
        """The moment that the scenario is about, now."""
        if not is_so:
            raise NotReached(moment)
        self.moments.append(moment)
        self.events.note(f"reached: {moment}")

    def expect(self, rule: str, what: str, is_so: bool) -> None:
        """An outcome that the oracle does not look at: a violation of `rule` otherwise."""
        if not is_so:
            raise Violation(rule, what)

    # --- strikes ----------------------------------------------------------------------------------------

    def cut(self, source: Node, target: Node, *, one_way: bool = False) -> None:
        one, other = name_of(source), name_of(target)
        for pair in [(one, other)] if one_way else [(one, other), (other, one)]:
            self.network.cut(*pair)
            self._cuts.append(pair)
        self.events.note(f"cut {one} {'->' if one_way else '<->'} {other}")

    def isolate(self, broker: BrokerNode) -> None:
        """From brokers and controllers alike; clients still reach it."""
        self.cut_off(broker, *self.cluster.brokers.values(), *self.cluster.controllers)

    def cut_off(self, node: Node, *others: Node) -> None:
        for other in others:
            if name_of(other) != name_of(node):
                self.cut(node, other)

    def mend(self, *nodes: Node) -> None:
        """Every cut that one of these has a part in; all cuts when none is named."""
        names = {name_of(node) for node in nodes}
        for pair in list(self._cuts):
            if not names or names & set(pair):
                self.network.mend(*pair)
                self._cuts.remove(pair)

    def kill(self, broker: BrokerNode) -> None:
        broker.crash()

    def restart(self, broker: BrokerNode) -> None:
        """Start it; this incarnation must come in sync."""
        broker.start()
        self.must(
            "L2",
            f"{broker.name} is in sync again",
            lambda: (
                broker.session.is_registered
                and broker.broker_id in self.state.isr
                and self.key in broker.replicas
            ),
        )

    def expire_together(self, *brokers: BrokerNode) -> None:
        """These fall silent, and a controller that takes over, and so has heard of nobody, fences all of them
        in one look."""
        first = self.controller
        for broker in brokers:
            broker.pause()
        first.crash()
        other = next(c for c in self.cluster.controllers if c is not first)
        self.until("the other has taken over", lambda: other.machine is not None)
        epoch = self.state.partition_epoch
        self.until("it has looked", lambda: self.state.partition_epoch > epoch)
        fenced = {n for n, r in other.machine.image.brokers.items() if r.fenced} if other.machine else set()
        self.reached("both are fenced by the same write", fenced == {b.broker_id for b in brokers})

    def power_cut(self, broker: BrokerNode, *, batches_kept: int = 0, torn_bytes: int = 0) -> None:
        """The machine dies: of the batches that were not flushed so many remain, and a piece of the next."""
        broker.crash()
        broker.disk.boot_id += 1
        log = broker.disk.logs[self.key]
        log.lose_unflushed(batches_kept=batches_kept, torn_bytes=torn_bytes)
        self.events.note(f"{broker.name} has lost power")

    def hold(
        self,
        kind: type | tuple[type, ...],
        *,
        source: Node | None = None,
        target: Node | None = None,
        reply: bool = False,
        choose: Chosen = lambda content: True,
    ) -> Held:
        """Keep back what sets out from now on: requests of that kind, or (`reply`) answers, whose kind is
        `kind` too; fetch answers are of kind dict."""

        def is_chosen(message: Message) -> bool:
            return (
                message.is_reply is reply
                and isinstance(message.content, kind)
                and (source is None or message.source == name_of(source))
                and (target is None or message.target == name_of(target))
                and choose(message.content)
            )

        held = Held(is_chosen)
        self._held.append(held)
        self.network.interceptors.append(held.intercept)
        return held

    def hold_fetches(self, follower: BrokerNode, leader: BrokerNode) -> Held:
        return self.hold(FetchCall, source=follower, target=leader)

    def hold_fetch_answers(self, leader: BrokerNode, follower: BrokerNode) -> Held:
        return self.hold(dict, source=leader, target=follower, reply=True)

    def hold_proposals(self, leader: BrokerNode) -> Held:
        """Reports that carry a proposal."""
        return self.hold(LagReport, source=leader, choose=lambda report: bool(report.proposals))

    def blind(self, broker: BrokerNode) -> Held:
        """It learns nothing of the metadata stream while its heartbeats go on."""
        return self.hold(PollRequest, source=broker)

    def watch(self, kind: type, *, source: Node | None = None, reply: bool = False) -> list[Any]:
        """What of that kind sets out from now on, held or not."""
        seen: list[Any] = []

        def look(message: Message, arrive: Callable[[], None]) -> bool:
            if (
                message.is_reply is reply
                and isinstance(message.content, kind)
                and (source is None or message.source == name_of(source))
            ):
                seen.append(message.content)
            return False

        self.network.interceptors.insert(0, look)
        return seen

    def double(self, kinds: tuple[type, ...], *, low_ms: int, high_ms: int) -> list[tuple[Any, int]]:
        """Requests of these kinds arrive as ever, and again after so long. Returns each second arrival, when
        it happens, with the partition epoch of that time."""
        late: list[tuple[Any, int]] = []

        def again(content: Any, arrive: Callable[[], None]) -> None:
            late.append((content, self.state.partition_epoch))
            arrive()

        def intercept(message: Message, arrive: Callable[[], None]) -> bool:
            if not message.is_reply and isinstance(message.content, kinds):
                delay_ms = low_ms + (high_ms - low_ms) * self.random.random()
                self.events.after(delay_ms, lambda: again(message.content, arrive))
            return False

        self.network.interceptors.append(intercept)
        return late

    def hold_writes(self, controller: ControllerNode) -> HeldWrites:
        """Its writes set out for ZooKeeper and do not arrive."""
        held = HeldWrites(self.cluster.zookeeper)
        controller.zookeeper = held  # type: ignore[assignment]
        return held

    # --- operators and producers ------------------------------------------------------------------------

    def submit(self, event: Any) -> Any:
        """An operator's request to the active controller, and its reply."""
        replies: list[Any] = []
        self.controller.submit(event, replies.append)
        self.until("the operator is answered", lambda: bool(replies))
        return replies[0]

    def elect_preferred(self) -> None:
        self.submit(
            ElectPreferred(
                wall_ms=self.events.now_ms, actor="operator", topic_id=self.key[0], partition=self.key[1]
            )
        )

    def traffic(self) -> None:
        for producer in self.cluster.producers:
            if producer.producer_id < 5_000 and producer.stopped:
                was_idle = producer.batch is None
                producer.stopped = False
                if was_idle:
                    self.cluster._produce(producer)

    def quiet(self) -> None:
        """The producers finish what they have begun and fall silent."""
        for producer in self.cluster.producers:
            producer.stopped = True
        self.must("L2", "all is in order", lambda: self.cluster.is_settled() is None)
        self.run_for(200)  # followers learn the high watermark

    def producer(self) -> Producer:
        """An idempotent producer of the script's own; what it is told is acknowledged is checked at the end
        like everything else."""
        self._producers += 1
        producer = Producer(
            4_999 + self._producers,
            self.key,
            keyed_random(self.cluster.seed, "scripted", self._producers),
            stopped=True,
        )
        self.cluster.producers.append(producer)
        return producer

    def send(self, producer: Producer, to: BrokerNode, *, records: int = 1) -> Write:
        """The producer's next batch, once, without waiting for the answer."""
        values = [f"{producer.producer_id}/{producer.sequence + i}".encode() for i in range(records)]
        batch = encode_batch(
            [NewRecord(timestamp=0, key=None, value=value) for value in values],
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=producer.sequence,
        )
        producer.sequence += records
        write = Write(producer, batch, content_of(decode_header(batch)))
        self.resend(write, to)
        return write

    def resend(self, write: Write, to: BrokerNode) -> None:
        def answered(answer: ProduceAnswer) -> None:
            write.answers.append(answer)
            if answer.error is ErrorCode.NONE:
                self._on_acked(write, answer)

        call = ProduceCall(write.producer.key, write.batch, acks=-1)
        self.network.call(CLIENT, to.name, call, answered, timeout_ms=30_000, on_timeout=lambda: None)

    def _on_acked(self, write: Write, answer: ProduceAnswer) -> None:
        producer = write.producer
        self.cluster._check_ack(producer, write.content, answer.base_offset)
        if all(content != write.content for _, content in producer.acked):
            producer.acked.append((answer.base_offset, write.content))
            producer.acked.sort(key=lambda each: each[1].base_sequence)

    def append(self, producer: Producer, to: BrokerNode, *, records: int = 1) -> Write:
        """The producer's next batch, sent until it stands in that leader's log."""
        end = self.log_end(to)
        write = self.send(producer, to, records=records)
        for _ in range(100):
            self.until("written or refused", lambda: self.log_end(to) > end or bool(write.answers))
            if self.log_end(to) > end:
                return write
            write.answers.clear()
            self.run_for(50)
            self.resend(write, to)
        raise NotReached(f"{to.name} appends")

    def retry(self, write: Write, to: BrokerNode) -> None:
        """Send it again until it is acknowledged, as a client would."""
        for _ in range(100):
            count = len(write.answers)
            self.resend(write, to)
            self.until("the retry is answered", lambda: len(write.answers) > count)  # noqa: B023
            if write.answer is not None and write.answer.error is ErrorCode.NONE:
                return
            self.run_for(50)
        raise NotReached(f"the retry is acknowledged: {write.answer}")

    def write_acked(self, producer: Producer, to: BrokerNode, *, records: int = 1) -> Write:
        write = self.send(producer, to, records=records)
        self.until("the write is answered", lambda: bool(write.answers))
        if not write.is_acked:
            self.retry(write, to)
        return write

    def delete(self, leader: BrokerNode, before_offset: int) -> None:
        """Delete records by a client's request, until every replica that is up begins there."""
        self.cluster.clients.delete(self.key, leader.broker_id, before_offset)
        up = [broker for broker in self.cluster.brokers.values() if self.key in broker.replicas]
        self.until(
            "the records are deleted",
            lambda: all(self.replica(broker).log.log_start_offset == before_offset for broker in up),
        )


__all__ = [
    "NO_LEADER",
    "ControllerError",
    "Held",
    "NotReached",
    "Script",
    "Write",
]
