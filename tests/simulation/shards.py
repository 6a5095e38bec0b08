"""One shard in the simulated cluster: its topic, its coordinators, its clients, and what its log must say.

The log is judged as it is committed, batch by batch:

I27  a writer's batches begin with its opening and follow each other without a gap, and none of a lower writer
follows
     one of a higher; no two runtimes serve under one writer
I28  each client's increments are there once and in order; one that is answered is committed, one that was
refused
     never is
I31  what a coordinator shows is what a replay of the log up to the same offset gives
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from controller.contract.partition_state import PartitionKey, WriterId
from controller.core.events import CreateTopic, TopicCreated
from coordinator.core.opening import OPENING_KEY
from coordinator.core.replay import NO_WRITER
from coordinator.core.shard import ShardPhase
from dataplane.core.log_port import LogPort
from springtide.wire.record_batch import BatchHeader, iter_headers
from springtide.wire.records import iter_records
from tests.kit.coordinator.counter import CELLS, COUNTER, Increment, client_key, decode_last
from tests.simulation.coordinator_node import CoordinatorNode
from tests.simulation.counter_clients import CounterClient, Question
from tests.simulation.shard_authority import AUTHORITY, ShardAuthority
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from coordinator.core.shard import ShardRuntime
    from tests.simulation.cluster import Cluster

TOPIC = "shards"
TOPIC_ID = base64.urlsafe_b64encode(bytes(range(100, 116))).decode().rstrip("=")
CLIENTS = 2
READ_BYTES_MAX = 1 << 20


class Shards:
    """The shard, its coordinators and its clients. snapshots: what a replay of the committed log gives, by
    the offset up to which it goes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key: PartitionKey = (TOPIC_ID, 0)
        self.authority = ShardAuthority(cluster)
        self.nodes = [CoordinatorNode(1001 + n, cluster, self) for n in range(cluster.options.coordinators)]
        self.clients = [CounterClient(self, n) for n in range(CLIENTS)]
        self.answered = 0
        self.refused: set[tuple[str, int]] = set()
        self.end_offset = 0
        self.state: dict[bytes, bytes] = {}
        self.snapshots: dict[int, dict[bytes, bytes]] = {0: {}}
        self._writer: WriterId = NO_WRITER
        self._next_sequence = 0
        self._cut: tuple[int, int] | None = None
        self._serving: dict[WriterId, ShardRuntime] = {}

    @property
    def is_conceded(self) -> bool:
        """The operator chose a log by hand: what was answered may be gone."""
        return self.key in self.cluster.oracle.conceded

    # --- life -------------------------------------------------------------------------------------------

    def create(self) -> None:
        """The topic; asked of the controller before the one that the run waits for."""
        cluster = self.cluster
        controller = cluster.active_controller()
        if controller is None or self.key in cluster.living:
            return
        options = cluster.options

        def created(reply: Any) -> None:
            if isinstance(reply, TopicCreated) and self.key not in cluster.living:
                cluster.keys.append(self.key)
                cluster.living.add(self.key)
                self._start()

        event = CreateTopic(
            wall_ms=cluster.events.now_ms,
            actor="operator",
            topic_id=TOPIC_ID,
            topic=TOPIC,
            partitions=1,
            replication_factor=options.replication_factor,
            configs=options.topic_configs,
        )
        controller.submit(event, created)

    def _start(self) -> None:
        self.cluster.network.listen(AUTHORITY, self.authority.on_request)
        for node in self.nodes:
            node.start()
        for client in self.clients:
            client.go_on()

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
        return [n for n in self.nodes if n.runtime is not None and n.runtime.phase is ShardPhase.SERVING]

    def missing(self) -> tuple[str, str] | None:
        """L1 of the shard: it is served, and owes nobody an answer."""
        waiting = [client.name for client in self.clients if client.is_open]
        if waiting:
            return "L1", f"{waiting[0]} waits for the shard"
        if not self.serving:
            return "L1", "nobody serves the shard"
        return ("L1", "the shard still writes") if any(node.is_busy for node in self.serving) else None

    # --- judging ----------------------------------------------------------------------------------------

    def on_committed(self, log: LogPort, end_offset: int) -> None:
        """The log is committed up to this offset."""
        cut = self.cluster.oracle.conceded.get(self.key)
        if cut != self._cut:  # the operator chose a log that went on differently: judge it from its beginning
            self._cut = cut
            self.end_offset, self.state, self.snapshots = 0, {}, {0: {}}
            self._writer, self._next_sequence = NO_WRITER, 0
        while self.end_offset < end_offset:
            piece = log.read(self.end_offset, max_bytes=READ_BYTES_MAX, end_offset=end_offset)
            for part in piece.parts:
                assert isinstance(part, memoryview)
                for place, header in iter_headers(part):
                    records = list(iter_records(part[place : place + header.size_bytes]))
                    self._check_writer(header)
                    if header.base_sequence == 0 and records[0].key != OPENING_KEY:
                        raise Violation("I27", f"the shard's writer {self._writer} begins with {records[0]}")
                    self._apply({r.key: r.value for r in records if r.key != OPENING_KEY})
                    self.end_offset = header.next_offset
                    self.snapshots[self.end_offset] = dict(self.state)

    def _check_writer(self, header: BatchHeader) -> None:
        writer = WriterId(header.producer_id, header.producer_epoch)
        if writer < self._writer:
            raise Violation("I27", f"a batch of {writer} follows one of {self._writer}")
        expected = self._next_sequence if writer == self._writer else 0
        if header.base_sequence != expected:
            raise Violation("I27", f"{writer}: sequence {header.base_sequence} where {expected} comes next")
        self._writer, self._next_sequence = writer, header.last_sequence + 1

    def _apply(self, changes: dict[bytes | None, bytes | None]) -> None:
        before = dict(self.state)
        self.state.update({key: value for key, value in changes.items() if key and value is not None})
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

    def check_answer(self, client: CounterClient, request: Question, value: int) -> None:
        """I28: what is answered is committed."""
        if self.is_conceded:
            return
        if value > int(self.state.get(COUNTER, b"0")):
            raise Violation("I28", f"{client.name} was told {value}, and only {self.state} is committed")
        if isinstance(request, Increment):
            last = decode_last(self.state.get(client_key(client.name)))
            if last.number < request.number:
                raise Violation("I28", f"{client.name}: {request} is answered, and {last} is committed")

    def check(self, node: CoordinatorNode) -> None:
        """I27 and I31 of what this coordinator holds now."""
        runtime = node.runtime
        if runtime is None or runtime.phase is ShardPhase.CLOSED or self.is_conceded:
            return
        machine = node.machine
        expected = self.snapshots.get(machine.committed_offset)
        if expected is None or dict(machine.state.committed_items()) != expected:
            raise Violation(
                "I31",
                f"{node.name} ({runtime.phase.name}) shows {dict(machine.state.committed_items())} at "
                f"{machine.committed_offset}, a replay {expected}",
            )
        writer = runtime.writer
        if writer is None or runtime.phase is not ShardPhase.SERVING:
            return
        if self._serving.setdefault(writer.writer, runtime) is not runtime:
            raise Violation("I27", f"{node.name} serves under {writer.writer}, and so did another")
        if writer.is_empty and dict(machine.state.latest_items()) != expected:
            latest = dict(machine.state.latest_items())
            raise Violation("I31", f"{node.name} decides by {latest}, a replay gives {expected}")

    def check_end(self) -> None:
        """What serves at the end is the log, whatever happened to it."""
        if not any(dict(node.machine.state.latest_items()) == self.state for node in self.serving):
            raise Violation("I31", f"nobody serves {self.state}")
