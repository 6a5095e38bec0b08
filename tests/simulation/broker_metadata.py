"""How a simulated broker applies the metadata stream, and makes logs: dataplane/core/applying.py, over a disk
that takes time for new logs only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.core.applying import Answer, Applying, BatchEffect
from dataplane.core.broker import (
    Configure,
    DeleteLog,
    KeepLog,
    LastKnown,
    LogsWanted,
    Rest,
    SetAside,
    Settle,
    TakeUp,
    WhyAside,
    WhyDeleted,
)
from dataplane.core.hosted import Hosted
from dataplane.core.replica import Replica
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.updates import UpdateBatch
from tests.kit.memory.log import MemoryLog

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

#: Logs are made a few at a time, mostly at once; now and then the disk has something else to do first.
CREATIONS_AT_ONCE = 4
CREATION_MS, SLOW_CREATION_MS = (2, 30), (300, 3_000)
SLOW_CREATION_RATE = 0.05


class BrokerMetadata:
    """Of one life. in_hand: the logs that a thread makes now."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.applying: tuple[UpdateBatch, Applying[Hosted]] | None = None
        self.in_hand: tuple[PartitionKey, ...] = ()

    def apply(self, batch: UpdateBatch) -> bool:
        """Return whether the batch is applied. False: it waits for logs."""
        node = self.node
        view = node.view
        before, topics = dict(view.brokers), view.topics
        view.apply(batch, now_ms=node.now_ms)
        for state in batch.partitions:
            key = (state.topic_id, state.partition)
            known = node.states.get(key)
            if known is None or state.partition_epoch > known.partition_epoch:
                node.states[key] = state
            if key in node.creations.wanted and node.broker_id in state.replicas:
                node.cluster.marks.reached("creation.overtaken.by.a.newer.state")
        changed = [b for b in sorted({*before, *view.brokers}) if before.get(b) != view.brokers.get(b)]
        walk = Applying(node.core, self, batch, topics_before=topics, changed_brokers=changed)
        self.applying = (batch, walk)
        return self._go_on()

    def _go_on(self) -> bool:
        """Go on with the batch that is being applied; false: until a log is gone that was given up."""
        node = self.node
        assert self.applying is not None
        batch, walk = self.applying
        answer: Answer = None
        while (effect := walk.advance(answer, now_ms=node.now_ms)) is not None:
            if isinstance(effect, Settle) and node.creations.must_settle:
                node.cluster.marks.reached("creation.given.up.in.hand")
                return False
            answer = self._work(effect)
        self.applying = None
        if node.session.on_applied(batch, walk.failures):
            seen = node.disk.seen
            node.disk.seen = seen._replace(
                records=max(seen.records, batch.records), level=max(seen.level, batch.level)
            )
            node.cluster.on_applied(node)
        return True

    def _work(self, effect: BatchEffect[Hosted]) -> Answer:
        """The disk's part of a batch, which takes no time here."""
        node = self.node
        disk = node.disk
        match effect:
            case LogsWanted():
                if not self.in_hand:
                    self._make_logs()
            case TakeUp(key=key):
                disk.take_up(key)
                node.events.note(f"{node.name} takes {key[0][:4]}-{key[1]} up again")
                return True
            case SetAside(key=key, why=why, known=known):
                if known is None:
                    known = LastKnown(disk.high_watermarks.get(key, 0), None, None)
                disk.set_aside(key, known)
                because = "nobody knows it" if why is WhyAside.NOT_MENTIONED else "it is no replica any more"
                node.events.note(f"{node.name} sets {key[0][:4]}-{key[1]} aside: {because}")
            case KeepLog(key=key, high_watermark=high_watermark):
                disk.high_watermarks[key] = high_watermark
            case DeleteLog(key=key, why=why):
                del disk.logs[key]
                if why is WhyDeleted.MOVED_AWAY:
                    node.cluster.oracle.on_log_replaced(node.broker_id)
                    node.events.note(f"{node.name} deletes {key[0][:4]}-{key[1]}: it was moved away")
            case Configure() | Rest() | Settle():
                pass
            case _:
                node.carry_out((effect,))
        return None

    def aside_epoch(self, key: PartitionKey) -> int | None:
        node = self.node
        note = node.disk.notes.get(key)
        return None if note is None or node.disk.failing is not None else note.leader_epoch

    def _make_logs(self) -> None:
        """A thread's work: the next few, while everything else goes on."""
        node = self.node
        states = node.creations.begin(count_max=CREATIONS_AT_ONCE)
        self.in_hand = tuple((state.topic_id, state.partition) for state in states)
        if self.in_hand:
            is_slow = node.random.random() < SLOW_CREATION_RATE
            node.after(node.random.uniform(*(SLOW_CREATION_MS if is_slow else CREATION_MS)), self._made)

    def _made(self) -> None:
        node = self.node
        if node.disk.hung:
            node.after(CREATION_MS[1], self._made)
            return
        keys, self.in_hand = self.in_hand, ()
        for key in keys:
            node.disk.notes.pop(key, None)  # outdated
            log = node.disk.logs[key] = MemoryLog()
            log.failing = node.disk.failing
            steps = node.core.on_made(key, self, now_ms=node.now_ms)
            if isinstance(steps, DeleteLog):
                self._work(steps)
            else:
                node.cluster.logs_made.add((node.broker_id, key))
                node.carry_out(steps)
        if self.applying is not None and self._go_on():
            node.after(0.1, node.link.poll)
        if not self.in_hand:
            self._make_logs()

    def host(self, state: PartitionState, *, checkpointed: int | None = None) -> Hosted:
        node, key = self.node, (state.topic_id, state.partition)
        replica = Replica(
            broker_id=node.broker_id,
            topic_id=state.topic_id,
            partition=state.partition,
            log=node.disk.logs[key],
            lease=node.lease,
            brokers=node.view.brokers,
            options=node.options,
            checkpointed=node.disk.high_watermarks.get(key, 0) if checkpointed is None else checkpointed,
        )
        return Hosted(topic=state.topic, topic_id=state.topic_id, partition=state.partition, replica=replica)
