"""The table of this broker's replicas; the hands that carry out what they decide are effect_runner.py's.

It applies the metadata stream entry by entry: topic deletions, then each partition's state, and at the
end what follows for leaders from brokers that came, went or restarted. One bad entry fails alone and is
reported; the others are applied, and the batch counts as applied when every entry's effects are complete
(2.8 (applying batches), I25 (applied is said afterwards)). Only logs that are still to be made come later
(log_creator.py): each is told of by name when it is there. A replica is never created where one should have
been (LOG_MISSING), and a log is never deleted without the topic's id among the deleted ones (I21 (topic ids
decide), I22 (deletion needs evidence)): what a FULL state does not mention is set aside in quarantine. A
replica whose log lies there whole begins with that one (11.5, logs that were set aside).

Everything here runs on the loop without an await, except opening and deleting logs, which is done in threads
around it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import trio

from dataplane.core.creations import PendingCreations, has_seat, may_create
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.results import ReplicaOptions
from dataplane.core.role import Offline
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetches import Fetches
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.log_creator import LogCreator
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.lag_report import (
    ReplicaProblem,
)
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.throttles import LEADER_RATE, effective_rate
from springtide.contract.updates import AHEAD, ApplyFailure, BrokerEndpoint, UpdateBatch
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.lease import Lease

_log = logging.getLogger(__name__)

ENTRIES_PER_TURN: Final = 64
"""Partitions worked on before other tasks of the loop get their turn."""
TICKS_PER_ROUND: Final = 30
"""Ticks in which each replica is looked at once, even if it is at rest: a round is half of
replica.lag.time.max.ms, as in Kafka."""


class PartitionTable:
    def __init__(
        self,
        *,
        broker_id: int,
        view: ClusterView,
        lease: Lease,
        clock: Clock,
        effects: EffectRunner,
        store: DataDirectory,
        options_for: Callable[[str], ReplicaOptions],
        on_configs: Callable[[HostedPartition], None],
        pending: PendingCreations,
        fetches: Fetches,
        end_turn: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._lease = lease
        self._clock = clock
        self._effects = effects
        self._broker = effects.broker
        self._untold = effects.broker.reports
        self._store = store
        self._options_for = options_for
        self._on_configs = on_configs
        self.served_learners = effects.served_learners
        self.creator = LogCreator(
            store, pending, on_made=self._on_made, on_failed=self._on_not_made, discard=self._discard
        )
        self._hosted = effects.broker.partitions
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        #: Found on disk at start, not yet claimed by a state.
        self.found: dict[PartitionKey, PartitionLog] = {}
        #: Found damaged at start and set aside.
        self._set_aside: set[PartitionKey] = set()
        self._with_waiters: dict[PartitionKey, HostedPartition] = {}
        self._clients_wait = trio.Event()
        self._round: list[HostedPartition] = []
        #: Of the last batch that is wholly applied.
        self.broker_epoch_max = -1
        self._fetches = fetches
        self._end_turn = end_turn

    # Looking up

    def get(self, topic_id: str, partition: int) -> HostedPartition | None:
        return self._hosted.get((topic_id, partition))

    def get_by_name(self, topic: str, partition: int) -> HostedPartition | None:
        return self._by_name.get((topic, partition))

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(list(self._hosted.values()))

    def __len__(self) -> int:
        return len(self._hosted)

    # The metadata stream

    def add_found_log(self, log: PartitionLog) -> None:
        """Add a log that was on disk when the process started, recovered and open."""
        self.found[(log.partition.topic_id, log.partition.partition)] = log

    def add_problem(self, problem: ReplicaProblem) -> None:
        """Add a problem that was found at start to the first report."""
        if problem.code == "log_missing":
            self._set_aside.add((problem.topic_id, problem.partition))
        self._note_problem(problem)

    def _note_problem(self, problem: ReplicaProblem) -> None:
        self._untold.note_problem(problem)
        self._effects.wake_report()

    def _note_set_aside(self) -> None:
        self._untold.note_set_aside()
        self._effects.wake_report()

    async def apply(self, batch: UpdateBatch) -> list[ApplyFailure]:
        """Apply one batch whose controller epoch and broker epoch the caller has checked. A session that ends
        meanwhile does not interrupt it: otherwise a log could be neither in the table nor in quarantine.
        """
        with trio.CancelScope(shield=True):
            failures = await self._apply(batch)
        return failures  # noqa: RET504 - to mypy a scope may swallow what was raised within it

    async def _apply(self, batch: UpdateBatch) -> list[ApplyFailure]:
        before, topics_before = dict(self._view.brokers), self._view.topics
        configs_before = self._view.cluster_configs
        self._view.apply(batch, now_ms=self._clock.mono_ms())
        me = self._view.brokers.get(self._broker_id)
        rate = effective_rate(LEADER_RATE, {} if me is None else me.configs, self._view.cluster_configs)
        self.served_learners.set_rate(rate, now_ms=self._clock.mono_ms())
        self._effects.fetching.on_rates_changed()  # before any learner begins
        failures: list[ApplyFailure] = []
        for topic_id in batch.deleted_topics:
            await self._delete_topic(topic_id)
        if batch.full:
            self._untold.on_full_state_begins()
        for number, state in enumerate(batch.partitions, start=1):
            failure = await self._apply_state(state)
            if failure is not None:
                failures.append(failure)
            await self.take_turn(number)
        if batch.full:
            await self._quarantine_unmentioned(batch, topics_before)
            self._note_set_aside()
            self._untold.on_full_state()
        if batch.full or self._view.cluster_configs != configs_before:
            await self._configure(self)
        elif batch.topics:
            changed = {topic.topic_id for topic in batch.topics}
            await self._configure(hosted for hosted in self if hosted.topic_id in changed)
        await self._tell_broker_changes(before)
        self._end_turn()
        await self.creator.settle()
        epochs = (broker.broker_epoch for broker in self._view.brokers.values())
        self.broker_epoch_max = max(epochs, default=-1)
        return failures

    async def take_turn(self, number: int) -> None:
        """Let other tasks have theirs after every ENTRIES_PER_TURN partitions."""
        if number % ENTRIES_PER_TURN == 0:
            self._end_turn()
            await trio.lowlevel.checkpoint()

    async def _configure(self, changed: Iterable[HostedPartition]) -> None:
        for number, hosted in enumerate(changed, start=1):
            hosted.replica.options = self._options_for(hosted.topic_id)
            self._on_configs(hosted)
            await self.take_turn(number)

    async def _apply_state(self, state: PartitionState) -> ApplyFailure | None:
        """Apply one entry; any error in it is this entry's failure alone."""
        key = (state.topic_id, state.partition)
        hosted = self._hosted.get(key)
        try:
            if hosted is None:
                if self._broker_id not in state.replicas:
                    self.creator.pending.give_up(key)
                    return await self._leave_found_log(state)
                log = self.found.pop(key, None)
                if log is None:
                    log = await self._take_up(state)
                if log is None:
                    return self._want_log(state)
                hosted = self._host(state, log)
            held = hosted.replica.state
            if held is not None and is_behind(state, held):
                return ahead(held)
            self._enter(hosted, state)
            if self._broker_id not in state.replicas and _is_applied(hosted.replica, state):
                # The controller has completed a reassignment: positive evidence that this copy may go (4.2,
                # reassignment).
                self._forget(hosted)
                await self._store.delete_log(hosted.log)
            elif isinstance(hosted.replica.role, Offline):
                return _failure(state, "storage_error", "the log directory has failed")
        except LogError as error:
            return _failure(state, "storage_error", str(error))
        return None

    def _enter(self, hosted: HostedPartition, state: PartitionState) -> None:
        """Give the replica this state, if it is newer than its own."""
        now_ms = self._clock.mono_ms()
        self._effects.run(hosted, hosted.replica.on_partition_state(state, now_ms=now_ms))
        self._broker.note_news(hosted)
        self.served_learners.note(hosted.key, hosted.replica)
        if self._untold.on_applied(hosted, state):
            self._effects.wake_report()

    async def _take_up(self, state: PartitionState) -> PartitionLog | None:
        """Return the log that this broker has set aside, rather than a new one. If the replica has a seat,
        the state must be newer than all that the log knew: the controller that gave the seat then knows of it
        (11.5, logs that were set aside).
        """
        key = (state.topic_id, state.partition)
        aside = self._store.log_dir.quarantined.takeable(key)
        if aside is None:
            return None
        if has_seat(state, self._broker_id) and state.leader_epoch <= aside.leader_epoch:
            return None
        self.creator.pending.give_up(key)
        await self.creator.settle()
        log = await self._store.take_up_log(key)
        self._note_set_aside()
        return log

    def _want_log(self, state: PartitionState) -> ApplyFailure | None:
        """Have a log made where that is allowed (3.8 (how a broker returns), 4.3 (learners)). A log that was
        found damaged just now is not new, even if the controller had no time to note that.
        """
        key = (state.topic_id, state.partition)
        if may_create(state, self._broker_id, is_known_lost=key in self._set_aside):
            self.creator.want(state)
            return None
        self.creator.pending.give_up(key)
        detail = "in ISR or ELR, not new, and no log on this broker: its disk was wiped or lost"
        self._report_about(state, "log_missing", detail)
        return _failure(state, "log_missing", detail)

    def _on_made(self, state: PartitionState, log: PartitionLog) -> None:
        try:
            hosted = self._host(state, log)
            self._enter(hosted, state)
        except LogError as error:
            self._on_not_made(state, error)
        self._end_turn()

    def _on_not_made(self, state: PartitionState, error: LogError) -> None:
        _failure(state, "storage_error", str(error))
        self._report_about(state, "storage_error", str(error))

    def _report_about(self, state: PartitionState, code: str, detail: str) -> None:
        self._note_problem(
            ReplicaProblem(
                topic_id=state.topic_id,
                partition=state.partition,
                code=code,
                detail=detail,
                leader_epoch=state.leader_epoch,
            )
        )

    def _host(self, state: PartitionState, log: PartitionLog) -> HostedPartition:
        key = (state.topic_id, state.partition)
        replica = Replica(
            broker_id=self._broker_id,
            topic_id=state.topic_id,
            partition=state.partition,
            log=log,
            lease=self._lease,
            brokers=self._view.brokers,
            options=self._options_for(state.topic_id),
            checkpointed=self._store.log_dir.stored_high_watermark(key),
        )
        hosted = HostedPartition(
            topic=state.topic, topic_id=state.topic_id, partition=state.partition, replica=replica, log=log
        )
        if replica.high_watermark > 0:
            self._store.is_first_high_watermark_due = True
        self._hosted[key] = hosted
        self._by_name[(state.topic, state.partition)] = hosted
        self._on_configs(hosted)
        return hosted

    async def _leave_found_log(self, state: PartitionState) -> ApplyFailure | None:
        log = self.found.pop((state.topic_id, state.partition), None)
        if log is not None:
            # Removed while this broker was away. The topic lives, so there is no evidence that these bytes
            # may go.
            await self._quarantine(log, "this broker is no replica any more")
            self._note_set_aside()
        return None

    async def _delete_topic(self, topic_id: str) -> None:
        """Delete the topic's logs by id only (I21, topic ids decide): a topic of the same name created since
        is another one.
        """
        doomed = [hosted for hosted in self if hosted.topic_id == topic_id]
        for number, hosted in enumerate(doomed, start=1):
            _log.info(
                "log_deleted topic=%s partition=%d topic_id=%s", hosted.topic, hosted.partition, topic_id
            )
            self._forget(hosted)
            await self._discard(hosted.log)
            await self.take_turn(number)
        for key in [key for key in self.found if key[0] == topic_id]:
            await self._discard(self.found.pop(key))
        pending = self.creator.pending
        for key in [key for key in pending.wanted if key[0] == topic_id]:
            pending.give_up(key)

    async def _discard(self, log: PartitionLog) -> None:
        try:
            await self._store.delete_log(log)
        except LogError as error:
            self._note_left_behind(log, error)

    async def _quarantine(
        self,
        log: PartitionLog,
        reason: str,
        *,
        high_watermark: int | None = None,
        state: PartitionState | None = None,
        topic_state: TopicState | None = None,
    ) -> None:
        partition = log.partition
        if high_watermark is None:
            high_watermark = self._store.log_dir.stored_high_watermark(
                (partition.topic_id, partition.partition)
            )
        try:
            await self._store.quarantine_log(
                log, reason, high_watermark=high_watermark, state=state, topic_state=topic_state
            )
        except LogError as error:
            self._note_left_behind(log, error)

    @staticmethod
    def _note_left_behind(log: PartitionLog, error: LogError) -> None:
        """Log that files stay on a disk that failed. The replica is removed here all the same; the next
        process, on a working disk, sets aside the logs that no state mentions.
        """
        _log.error("log_left_behind directory=%s cause=%s", log.directory, error)

    def _forget(self, hosted: HostedPartition) -> None:
        self._effects.run(hosted, hosted.replica.on_deleted())
        self._effects.fetching.unfollow(hosted.key)
        self._fetches.on_leadership_changed(hosted.key)
        self._broker.forget(hosted)
        name = (hosted.topic, hosted.partition)
        if self._by_name.get(name) is hosted:
            del self._by_name[name]
        self._with_waiters.pop(hosted.key, None)
        self.served_learners.forget(hosted.key)

    async def _quarantine_unmentioned(
        self, batch: UpdateBatch, topics_before: Mapping[str, TopicState]
    ) -> None:
        """Set aside what a FULL state does not mention; never delete it (I22, deletion needs positive
        evidence). A FULL state is everything there is.
        """
        mentioned = {(state.topic_id, state.partition) for state in batch.partitions}
        for key in [key for key in self.found if key not in mentioned]:
            log = self.found.pop(key)
            topic = log.partition.topic
            _log.warning("log_unknown_to_controller topic=%s partition=%d topic_id=%s", topic, key[1], key[0])
            await self._quarantine(log, "not in the controller's full state")
        for key in [key for key in self.creator.pending.wanted if key not in mentioned]:
            self.creator.pending.give_up(key)
        for hosted in [hosted for hosted in self if hosted.key not in mentioned]:
            _log.warning(
                "replica_unknown_to_controller topic=%s partition=%d", hosted.topic, hosted.partition
            )
            state, high_watermark = hosted.replica.state, hosted.replica.high_watermark
            self._forget(hosted)
            await self._quarantine(
                hosted.log,
                "not in the controller's full state",
                high_watermark=high_watermark,
                state=state,
                topic_state=topics_before.get(hosted.topic_id),
            )

    async def _tell_broker_changes(self, before: dict[int, BrokerEndpoint]) -> None:
        changed = [
            broker_id
            for broker_id in sorted({*before, *self._view.brokers})
            if before.get(broker_id) != self._view.brokers.get(broker_id)
        ]
        if not changed:
            return
        now_ms = self._clock.mono_ms()
        for broker_id in changed:
            self._effects.fetching.on_broker_changed(broker_id)
        for number, hosted in enumerate(self, start=1):
            if hosted.replica.leading is not None:
                for broker_id in changed:
                    if (leader := hosted.replica.leading) is not None:
                        self._effects.run(hosted, leader.on_broker_changed(broker_id, now_ms=now_ms))
                self._broker.note_news(hosted)
            await self.take_turn(number)

    # Time

    def note_waiters(self, hosted: HostedPartition) -> None:
        """Note that a client waits in this partition, so that it is ticked often."""
        if not self._with_waiters:
            self._clients_wait.set()
        self._with_waiters[hosted.key] = hosted

    async def until_clients_wait(self) -> None:
        """Wait until a client waits in a partition; return at once if one does."""
        if not self._with_waiters:
            self._clients_wait = trio.Event()
            await self._clients_wait.wait()

    def tick_waiting(self) -> None:
        """Tick the replicas in which clients wait. Called every ~100 ms while there are some."""
        now_ms = self._clock.mono_ms()
        for hosted in list(self._with_waiters.values()):
            self._effects.run(hosted, hosted.replica.role.on_tick(now_ms))
            if not hosted.replica.has_waiters:
                self._with_waiters.pop(hosted.key, None)

    def tick(self) -> None:
        """Tick the replicas that are not at rest, and a part of all. Called every ~500 ms."""
        now_ms = self._clock.mono_ms()
        if not self._round:
            self._round = list(self._hosted.values())
        count = -(-len(self._hosted) // TICKS_PER_ROUND)
        for hosted in self._round[-count:]:
            if self._hosted.get(hosted.key) is hosted:
                self._broker.note_news(hosted)
        del self._round[-count:]
        for key, hosted in list(self._broker.restless.items()):
            self._effects.run(hosted, hosted.replica.role.on_tick(now_ms))
            if hosted.replica.role.is_at_rest:
                self._broker.restless.pop(key, None)

    def on_storage_failure(self, is_affected: Callable[[HostedPartition], bool], detail: str) -> None:
        """Take the replicas of a failed directory offline at once (S28, EIO or full disk). The failure
        happened outside their own calls.
        """
        for hosted in self:
            if is_affected(hosted):
                self._effects.run(hosted, hosted.replica.go_offline(detail))
        self._end_turn()


def _failure(state: PartitionState, code: str, detail: str) -> ApplyFailure:
    _log.error(
        "state_not_applied topic=%s partition=%d code=%s detail=%s",
        state.topic,
        state.partition,
        code,
        detail,
    )
    return ApplyFailure(
        topic_id=state.topic_id,
        partition=state.partition,
        partition_epoch=state.partition_epoch,
        code=code,
        detail=detail,
    )


def is_behind(state: PartitionState, held: PartitionState) -> bool:
    """Return whether a batch brings less than is held: the answer to a proposal overtook it, or the
    controller forgot what it had decided. Only the controller knows which.
    """
    return state.partition_epoch < held.partition_epoch or state.leader_epoch < held.leader_epoch


def ahead(held: PartitionState) -> ApplyFailure:
    return ApplyFailure(
        topic_id=held.topic_id,
        partition=held.partition,
        partition_epoch=held.partition_epoch,
        leader_epoch=held.leader_epoch,
        code=AHEAD,
    )


def _is_applied(replica: Replica, state: PartitionState) -> bool:
    return replica.state is not None and replica.state.partition_epoch == state.partition_epoch
