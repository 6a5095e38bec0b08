"""The coordinator topic of the simulated cluster: its coordinators, its clients, the operator who looks after
it, and what its log must say.

The log is judged as it is committed, batch by batch:

I27   a writer's batches begin with its opening and follow each other without a gap, and none of a lower
      writer follows one of a higher; no two runtimes serve under one writer
I28   each client's increments are there once and in order; one that is answered is committed, one that was
      refused never is
I31   what a coordinator shows is what a replay of the log up to the same offset gives, as it was before any
      round of compaction; a key may differ only while a round took its record because of a newer one that
      the coordinator has not read yet
13.8  a read tells no less than what a client was told a lease before it was asked
13.5  an owner that is alive gives its shard to a standby that has told that it is level, and to nobody else
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from controller.core.events import AdmitCoordinators, MaintainCoordinators, RemoveMember
from controller.core.records import MemberKind
from controller.core.shards import COORDINATOR_TOPICS
from coordinator.core.opening import OPENING_KEY
from coordinator.core.replay import NO_WRITER
from coordinator.core.shard import ShardPhase
from dataplane.core.compaction.rounds import decode_round
from dataplane.core.log_port import LogPort
from springtide.contract.partition_state import NO_COORDINATOR, PartitionKey, Shard, TopicState, WriterId
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.record_batch import BatchHeader, iter_headers
from springtide.wire.records import Record, iter_records
from tests.kit.coordinator.counter import (
    CELLS,
    COUNTER,
    CounterMachine,
    Increment,
    client_key,
    decode_last,
)
from tests.simulation.controller_node import FIRST_COORDINATOR_ID
from tests.simulation.coordinator_node import (
    BATCH_BYTES_MAX,
    SHARDS_SIMULATED,
    TICK_MS_MAX,
    CoordinatorNode,
)
from tests.simulation.counter_clients import CounterClient, Question
from tests.simulation.shard_seat import ShardSeat
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from coordinator.core.shard import ShardRuntime
    from dataplane.core.replica import Replica
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster

ACTOR = "operator"
LOOK_MS = 500
CLIENTS = 2
READ_BYTES_MAX = 1 << 20
#: What a lease may last by a clock that is slow.
CLOCK_SLACK = 1.1

State = dict[bytes, bytes]


class Shards:
    """The shard, its coordinators and its clients. key: None until the controller has made the topic.
    wanted: (draining, demoted) of coordinators that are to be so now. unwanted: ids of those to be removed.
    snapshots: what a replay of the committed log gives, by the offset up to which it goes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key: PartitionKey | None = None
        #: Of the topics of coordinators, by name.
        self.topic_ids: dict[str, str] = {}
        ids = range(FIRST_COORDINATOR_ID, FIRST_COORDINATOR_ID + cluster.options.coordinators)
        self.nodes = [CoordinatorNode(coordinator_id, cluster, self) for coordinator_id in ids]
        self.wanted: dict[int, tuple[bool, bool]] = {}
        self.unwanted: set[int] = set()
        self._is_looked_after = False
        self.clients = [CounterClient(self, n) for n in range(CLIENTS)]
        self.answered = 0
        self.refused: set[tuple[str, int]] = set()
        self.end_offset = 0
        self.state: dict[bytes, bytes] = {}
        self.snapshots: dict[int, dict[bytes, bytes]] = {0: {}}
        #: When the counter was told to a client that counted, and what it was then; both rise.
        self._counted: list[tuple[float, int]] = [(0.0, 0)]
        self._writer: WriterId = NO_WRITER
        self._next_sequence = 0
        self._cut: tuple[int, int] | None = None
        #: Where the records of each key stand; how many rounds there are, and up to where the last goes.
        self._written: defaultdict[bytes, list[int]] = defaultdict(list)
        self._rounds = self._rounds_end = 0
        self._serving: dict[WriterId, ShardRuntime] = {}

    @property
    def is_conceded(self) -> bool:
        """The operator chose a log by hand: what was answered may be gone."""
        return self.key is not None and self.key in self.cluster.oracle.conceded

    @property
    def keys(self) -> list[PartitionKey]:
        return [(topic_id, n) for topic_id in self.topic_ids.values() for n in range(SHARDS_SIMULATED)]

    @property
    def shard(self) -> Shard | None:
        """What ZooKeeper holds; None: nothing."""
        state = None if self.key is None else self.cluster.truth(self.key)
        return None if state is None else state.shard

    # --- coordinators -----------------------------------------------------------------------------------

    @property
    def wants_transactions(self) -> bool:
        """Return whether clients ask coordinators for transactions."""
        return False

    def seats_of(self, node: CoordinatorNode) -> dict[str, ShardSeat]:
        """Return what a coordinator runs: the shard that counts."""
        tick_ms = min(2 * self.cluster.options.pace_ms, TICK_MS_MAX)
        seat = ShardSeat(
            node,
            partial(CounterMachine, tick_ms=tick_ms),
            batch_bytes_max=BATCH_BYTES_MAX,
            on_step=lambda _: self.check(node),
        )
        return {GROUPS_TOPIC: seat}

    def take(self, node: CoordinatorNode, request: Any, answer: Callable[[Any], None]) -> None:
        """A request comes to a coordinator."""
        node.seat.take(request, answer)

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def is_there(self) -> bool:
        """Return whether the controller has made the topic. From the first time on that this is asked, once
        all brokers are active, an operator looks after the coordinators."""
        if not self._is_looked_after:
            self._is_looked_after = True
            self._look()
        return self.key is not None

    def on_topic(self, topic: TopicState) -> None:
        """The controller publishes a topic."""
        if topic.topic in COORDINATOR_TOPICS and not topic.deleting and topic.topic not in self.topic_ids:
            self.topic_ids[topic.topic] = topic.topic_id
            self._exist([key for key in self.keys if key[0] == topic.topic_id])
        if topic.topic == GROUPS_TOPIC and self.key is None:
            self.key = (topic.topic_id, 0)
            for client in self.clients:
                client.go_on()

    def _exist(self, keys: list[PartitionKey]) -> None:
        self.cluster.keys += keys
        self.cluster.living.update(keys)

    def _look(self) -> None:
        self.look_after()
        self.cluster.events.after(LOOK_MS, self._look)

    def look_after(self) -> None:
        """The operator has coordinators that wait admitted, and the others as they are wanted to be."""
        controller = self.cluster.active_controller()
        if controller is None:
            return
        wall_ms = self.cluster.events.now_ms
        for coordinator_id, row in sorted(controller.published.coordinators.items()):
            draining, demoted = self.wanted.get(coordinator_id, (False, False))
            event: AdmitCoordinators | MaintainCoordinators | RemoveMember
            if coordinator_id in self.unwanted:
                event = RemoveMember(
                    wall_ms=wall_ms, actor=ACTOR, kind=MemberKind.COORDINATOR, member_id=coordinator_id
                )
            elif not row.admitted:
                event = AdmitCoordinators(wall_ms=wall_ms, actor=ACTOR, coordinator_ids=(coordinator_id,))
            elif (row.draining, row.demoted) != (draining, demoted):
                event = MaintainCoordinators(
                    wall_ms=wall_ms,
                    actor=ACTOR,
                    coordinator_ids=(coordinator_id,),
                    draining=draining,
                    demoted=demoted,
                )
            else:
                continue
            controller.submit(event, lambda reply: None)  # what became of it, the next look shows

    def on_moved(self, before: Shard, after: Shard, *, is_owner_alive: bool) -> None:
        """13.5: a controller decides that the shard is another's from now on."""
        self.cluster.events.note(f"the shard goes from {before.owner} to {after.owner}")
        if not is_owner_alive:
            if NO_COORDINATOR not in (before.owner, after.owner):
                self.cluster.marks.reached("shard.taken.from.the.dead")
            return
        heir = next((n for n in self.nodes if n.coordinator_id == after.owner), None)
        if after.owner != before.standby or heir is None or after.opener_epoch not in heir.told_level:
            raise Violation("13.5", f"the shard goes from {before} to {after}, who is not level")
        self.cluster.marks.reached("shard.moved.once.level")

    def stop_clients(self) -> None:
        for client in self.clients:
            client.stopped = True

    def start_again(self) -> None:
        for client in self.clients:
            client.stopped = False
            if client.is_resting:
                client.go_on()

    @property
    def serving(self) -> list[CoordinatorNode]:
        return [n for n in self.nodes if _phase_of(n) is ShardPhase.SERVING]

    def missing(self) -> tuple[str, str] | None:
        """L1 of the shard: its owner serves it, and owes nobody an answer; and a standby is level with it."""
        waiting = [client.name for client in self.clients if client.is_open]
        if waiting:
            return "L1", f"{waiting[0]} waits for the shard"
        shard = self.shard
        serving = [node.coordinator_id for node in self.serving]
        if shard is None or serving != [shard.owner]:
            return "L1", f"{serving} serve the shard {shard}"
        if any(node.is_busy for node in self.serving):
            return "L1", "the shard still writes"
        states = [self.cluster.truth(key) for key in self.keys]
        owners = [state.shard.owner for state in states if state is not None and state.shard is not None]
        if len(set(owners)) < SHARDS_SIMULATED:
            return "13.5", f"shards are not spread: {owners}"
        if not any(node.is_level for node in self.nodes):
            return "13.5", f"no standby is level with the shard {shard}"
        return None

    # --- judging ----------------------------------------------------------------------------------------

    def keeps(self, key: PartitionKey) -> bool:
        """Return whether the bytes of a partition's batches are needed to judge it."""
        return False

    def judges(self, key: PartitionKey) -> bool:
        """Return whether the checker of histories leaves the partition to this judge."""
        return key == self.key

    def on_replica_touched(self, broker: BrokerNode, key: PartitionKey, replica: Replica) -> None:
        pass

    def on_high_watermark(self, key: PartitionKey, log: LogPort, end_offset: int) -> None:
        """More of a partition is committed."""
        if key == self.key:
            self.on_committed(log, end_offset)

    def on_committed(self, log: LogPort, end_offset: int) -> None:
        """The log is committed up to this offset."""
        assert self.key is not None
        cut = self.cluster.oracle.conceded.get(self.key)
        if cut != self._cut:  # the operator chose a log that went on differently: judge it from its beginning
            self._cut = cut
            self.end_offset, self.state, self.snapshots = 0, {}, {0: {}}
            self._writer, self._next_sequence = NO_WRITER, 0
            self._written.clear()
            self._rounds = self._rounds_end = 0
        for header, batch in self._committed(log, end_offset):
            records = list(iter_records(batch))
            if header.is_control:
                self._rounds += 1
                self._rounds_end = max(self._rounds_end, decode_round(records[0].value).end_offset)
            else:
                self._check_writer(header)
                if header.base_sequence == 0 and records[0].key != OPENING_KEY:
                    raise Violation("I27", f"the shard's writer {self._writer} begins with {records[0]}")
                self._apply([record for record in records if record.key != OPENING_KEY])
            self.end_offset = header.next_offset
            self.snapshots[self.end_offset] = dict(self.state)

    def _committed(self, log: LogPort, end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches that were committed since this was asked last, as they were written."""
        if self.cluster.options.compacted:
            assert self.key is not None
            ghost = self.cluster.oracle.ghosts[self.key]
            first = ghost.from_offset(self.end_offset)
            for header, data in zip(ghost.headers[first:], ghost.data[first:], strict=True):
                yield header, memoryview(data)
            return
        while self.end_offset < end_offset:
            piece = log.read(self.end_offset, max_bytes=READ_BYTES_MAX, end_offset=end_offset)
            for part in piece.parts:
                assert isinstance(part, memoryview)
                for place, header in iter_headers(part):
                    yield header, part[place : place + header.size_bytes]

    def _check_writer(self, header: BatchHeader) -> None:
        writer = WriterId(header.producer_id, header.producer_epoch)
        if writer < self._writer:
            raise Violation("I27", f"a batch of {writer} follows one of {self._writer}")
        expected = self._next_sequence if writer == self._writer else 0
        if header.base_sequence != expected:
            raise Violation("I27", f"{writer}: sequence {header.base_sequence} where {expected} comes next")
        self._writer, self._next_sequence = writer, header.last_sequence + 1

    def _apply(self, records: Sequence[Record]) -> None:
        before = dict(self.state)
        for record in records:
            assert record.key is not None
            if self.cluster.options.compacted:
                self._written[record.key].append(record.offset)
            if record.value is None:
                self.state.pop(record.key, None)
            else:
                self.state[record.key] = record.value
        if self.is_conceded:
            return
        for client in self.clients:
            key = client_key(client.name)
            was, last = decode_last(before.get(key)), decode_last(self.state.get(key))
            if last != was and last.number != was.number + 1:
                raise Violation("I28", f"{client.name}: increment {last} follows {was}")
            if (client.name, last.operation) in self.refused and last != was:
                raise Violation("I28", f"{client.name}: {last} was refused, and is there")
        total = sum(decode_last(self.state.get(client_key(client.name))).number for client in self.clients)
        if total != int(self.state.get(COUNTER, b"0")):
            raise Violation("I28", f"{total} increments, but the counter says {self.state.get(COUNTER)!r}")
        cells = [int(self.state.get(cell, b"0")) for cell in CELLS]
        if cells != sorted(cells, reverse=True) or cells[0] - cells[-1] > 1:
            raise Violation("I28", f"a part of a step that is no legal state: {cells}")

    def check_answer(self, client: CounterClient, request: Question, value: int, asked_ms: float) -> None:
        """I28: what is answered is committed. 13.8: and no former owner's."""
        if self.is_conceded:
            return
        if value > int(self.state.get(COUNTER, b"0")):
            raise Violation("I28", f"{client.name} was told {value}, and only {self.state} is committed")
        if isinstance(request, Increment):
            last = decode_last(self.state.get(client_key(client.name)))
            if last.number < request.number:
                raise Violation("I28", f"{client.name}: {request} is answered, and {last} is committed")
            if value > self._counted[-1][1]:
                self._counted.append((self.cluster.events.now_ms, value))
            return
        since_ms = asked_ms - CLOCK_SLACK * self.cluster.options.lease_ms
        known = self._counted[max(0, bisect_right(self._counted, since_ms, key=itemgetter(0)) - 1)][1]
        if value < known:
            raise Violation(
                "13.8", f"{client.name} was told {value}, and another was told {known} long before"
            )

    def check(self, node: CoordinatorNode) -> None:
        """I27 and I31 of what this coordinator holds now."""
        runtime, phase = node.runtime, _phase_of(node)
        if runtime is None or phase is None or phase is ShardPhase.CLOSED or self.is_conceded:
            return
        machine = node.machine
        shown, offset = dict(machine.state.committed_items()), machine.committed_offset
        is_own = phase in (ShardPhase.SERVING, ShardPhase.FINISHING)
        expected = self._replayed(shown, offset, is_own=is_own)
        if expected is None or (shown != expected and not self._is_due_to_rounds(shown, expected, offset)):
            raise Violation(
                "I31", f"{node.name} ({phase.name}) shows {shown} at {offset}, a replay {expected}"
            )
        writer = runtime.writer
        if writer is None or phase is not ShardPhase.SERVING:
            return
        if self._serving.setdefault(writer.writer, runtime) is not runtime:
            raise Violation("I27", f"{node.name} serves under {writer.writer}, and so did another")
        if writer.is_empty and dict(machine.state.latest_items()) != expected:
            latest = dict(machine.state.latest_items())
            raise Violation("I31", f"{node.name} decides by {latest}, a replay gives {expected}")

    def _replayed(self, shown: State, offset: int, *, is_own: bool) -> State | None:
        """What a replay gives up to this offset. is_own: it is the writer's own, who does not know how many
        rounds stand between its batches, so that the log may be ahead of it by so many offsets."""
        places = range(offset, offset + 1 + self._rounds * is_own)
        found = [state for place in places if (state := self.snapshots.get(place)) is not None]
        return next((state for state in found if state == shown), found[0] if found else None)

    def _is_due_to_rounds(self, shown: State, expected: State, offset: int) -> bool:
        """Whether of each key that differs a newer record stands from `offset` on, which a round may have
        kept instead of what was there."""
        if offset >= self._rounds_end:
            return False
        self.cluster.marks.reached("shard.read.across.a.round")
        differing = {key for key in shown.keys() | expected.keys() if shown.get(key) != expected.get(key)}
        return all(
            (place := bisect_left(written := self._written[key], offset)) < len(written)
            and written[place] < self._rounds_end
            for key in differing
        )

    def check_end(self) -> None:
        """What serves at the end is the log, whatever happened to it; but not of a log that an operator chose
        although it lacks what newer records had replaced."""
        if self.key in self.cluster.oracle.torn:
            return
        if not any(dict(node.machine.state.latest_items()) == self.state for node in self.serving):
            raise Violation("I31", f"nobody serves {self.state}")


def _phase_of(node: CoordinatorNode) -> ShardPhase | None:
    """The phase of its runtime, if it has one; by name, for its process may be of another release."""
    return None if node.runtime is None else ShardPhase[node.runtime.phase.name]
