"""The driver of a broker's core (core/broker.py, core/applying.py) over its log directory.

It gives the core what happened and carries out what that asks for: what can be done at once is
effect_runner.py's, what takes a thread is done here. A batch of the metadata stream waits for its threads,
and other events come in between; no effect of a replica does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import trio

from dataplane.core.applying import ENTRIES_PER_TURN, Answer, Applying, BatchEffect
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
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.results import ReplicaOptions
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.log_creator import LogCreator
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.lag_report import ProblemCode, ReplicaProblem
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.throttles import LEADER_RATE, effective_rate
from springtide.contract.updates import ApplyFailure, UpdateBatch
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.lease import Lease

_log = logging.getLogger(__name__)


class PartitionTable:
    """The core's home, and its table as handlers and fetchers read it."""

    def __init__(
        self,
        *,
        view: ClusterView,
        lease: Lease,
        clock: Clock,
        effects: EffectRunner,
        store: DataDirectory,
        options_for: Callable[[str], ReplicaOptions],
        on_configs: Callable[[HostedPartition], None],
    ) -> None:
        self._view = view
        self._lease = lease
        self._clock = clock
        self._effects = effects
        self._broker = effects.broker
        self._store = store
        self._options_for = options_for
        self._on_configs = on_configs
        self.served_learners = effects.served_learners
        self.creator = LogCreator(store, effects, home=self, clock=clock, discard=self._delete)
        self._hosted = self._broker.partitions
        self._clients_wait = trio.Event()
        #: Of the last batch that is wholly applied.
        self.broker_epoch_max = -1

    # Looking up

    def get(self, topic_id: str, partition: int) -> HostedPartition | None:
        return self._hosted.get((topic_id, partition))

    def get_by_name(self, topic: str, partition: int) -> HostedPartition | None:
        return self._broker.by_name.get((topic, partition))

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(list(self._hosted.values()))

    def __len__(self) -> int:
        return len(self._hosted)

    def note_read(self, hosted: HostedPartition, size_bytes: int) -> None:
        """Count what a consumer got; the next report tells of it."""
        hosted.bytes_out += size_bytes
        self._broker.note_news(hosted)

    # The core's home

    def aside_epoch(self, key: PartitionKey) -> int | None:
        aside = self._store.log_dir.quarantined.takeable(key)
        return None if aside is None else aside.leader_epoch

    def host(self, state: PartitionState) -> HostedPartition:
        key = (state.topic_id, state.partition)
        log = self._store.log_dir.logs[key]
        replica = Replica(
            broker_id=self._broker.broker_id,
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
        self._on_configs(hosted)
        return hosted

    # The metadata stream

    def add_found_log(self, log: PartitionLog) -> None:
        """Add a log that was on disk when the process started, recovered and open."""
        self._broker.found[(log.partition.topic_id, log.partition.partition)] = None

    def add_problem(self, problem: ReplicaProblem) -> None:
        """Add a problem that was found at start to the first report."""
        if problem.code == ProblemCode.LOG_MISSING:
            self._broker.known_lost.add((problem.topic_id, problem.partition))
        self._broker.reports.note_problem(problem)
        self._effects.wake_report()

    async def apply(self, batch: UpdateBatch) -> list[ApplyFailure]:
        """Apply one batch whose controller epoch and broker epoch the caller has checked. A session that ends
        meanwhile does not interrupt it: otherwise a log could be neither in the table nor in quarantine.
        """
        with trio.CancelScope(shield=True):
            failures = await self._apply(batch)
        return failures  # noqa: RET504 - to mypy a scope may swallow what was raised within it

    async def _apply(self, batch: UpdateBatch) -> list[ApplyFailure]:
        view = self._view
        before, topics_before, configs_before = dict(view.brokers), view.topics, view.cluster_configs
        view.apply(batch, now_ms=self._clock.mono_ms())
        me = view.brokers.get(self._broker.broker_id)
        rate = effective_rate(LEADER_RATE, {} if me is None else me.configs, view.cluster_configs)
        self.served_learners.set_rate(rate, now_ms=self._clock.mono_ms())
        self._effects.fetching.on_rates_changed()  # before any learner begins
        applying = Applying(
            self._broker,
            self,
            batch,
            topics_before=topics_before,
            changed_brokers=[
                broker_id
                for broker_id in sorted({*before, *view.brokers})
                if before.get(broker_id) != view.brokers.get(broker_id)
            ],
            is_all_configured=view.cluster_configs != configs_before,
        )
        answer: Answer = None
        while (effect := applying.advance(answer, now_ms=self._clock.mono_ms())) is not None:
            answer = await self._carry_out(effect)
        epochs = (broker.broker_epoch for broker in view.brokers.values())
        self.broker_epoch_max = max(epochs, default=-1)
        return applying.failures

    async def _carry_out(self, effect: BatchEffect[HostedPartition]) -> Answer:
        match effect:
            case Configure(hosted=hosted):
                hosted.replica.options = self._options_for(hosted.topic_id)
                self._on_configs(hosted)
            case LogsWanted():
                self.creator.wake()
            case Rest():
                await self._rest()
            case Settle():
                self._effects.carry_out(())
                await self.creator.settle()
            case TakeUp(key=key):
                try:
                    return await self._store.take_up_log(key) is not None
                except LogError as error:
                    return error
            case SetAside():
                await self._set_aside(effect)
            case KeepLog(key=key, high_watermark=high_watermark):
                self._keep(self._store.log_dir.logs[key], high_watermark)
            case DeleteLog():
                return await self._delete(effect)
            case _:
                self._effects.step(effect)
        return None

    async def take_turn(self, number: int) -> None:
        """Let other tasks have theirs after every ENTRIES_PER_TURN partitions."""
        if number % ENTRIES_PER_TURN == 0:
            await self._rest()

    async def _rest(self) -> None:
        self._effects.carry_out(())
        await trio.lowlevel.checkpoint()

    async def _set_aside(self, effect: SetAside) -> None:
        log, known = self._store.log_dir.logs[effect.key], effect.known
        of = log.partition
        if effect.why is WhyAside.NOT_MENTIONED and known is None:
            _log.warning(
                "log_unknown_to_controller topic=%s partition=%d topic_id=%s",
                of.topic,
                of.partition,
                of.topic_id,
            )
        elif effect.why is WhyAside.NOT_MENTIONED:
            _log.warning("replica_unknown_to_controller topic=%s partition=%d", of.topic, of.partition)
        if known is None:
            known = LastKnown(self._store.log_dir.stored_high_watermark(effect.key), None, None)
        try:
            await self._store.quarantine_log(
                log,
                effect.why.value,
                high_watermark=known.high_watermark,
                state=known.state,
                topic_state=known.topic_state,
            )
        except LogError as error:
            _note_left_behind(log, error)

    def _keep(self, log: PartitionLog, high_watermark: int) -> None:
        of = log.partition
        _log.info("log_kept topic=%s partition=%d topic_id=%s", of.topic, of.partition, of.topic_id)
        self._store.keep_log(log, high_watermark)

    async def _delete(self, effect: DeleteLog) -> LogError | None:
        log = self._store.log_dir.logs[effect.key]
        if effect.why is WhyDeleted.TOPIC_DELETED and effect.had_replica:
            of = log.partition
            _log.info("log_deleted topic=%s partition=%d topic_id=%s", of.topic, of.partition, of.topic_id)
        try:
            await self._store.delete_log(log)
        except LogError as error:
            if effect.why is WhyDeleted.MOVED_AWAY:
                return error
            _note_left_behind(log, error)
        return None

    # Time

    def note_waiters(self, hosted: HostedPartition) -> None:
        """Note that a client waits in this partition, so that it is ticked often."""
        if not self._broker.waiting:
            self._clients_wait.set()
        self._broker.waiting[hosted.key] = hosted

    async def until_clients_wait(self) -> None:
        """Wait until a client waits in a partition; return at once if one does."""
        if not self._broker.waiting:
            self._clients_wait = trio.Event()
            await self._clients_wait.wait()

    def tick_waiting(self) -> None:
        self._effects.carry_out(self._broker.on_tick_of_waiting(now_ms=self._clock.mono_ms()))

    def tick(self) -> None:
        self._effects.carry_out(self._broker.on_tick(now_ms=self._clock.mono_ms()))

    def on_storage_failure(self, is_affected: Callable[[HostedPartition], bool], detail: str) -> None:
        """Take the replicas of a failed directory offline."""
        failed = [hosted for hosted in self if is_affected(hosted)]
        self._effects.carry_out(self._broker.on_log_failed(failed, detail))


def _note_left_behind(log: PartitionLog, error: LogError) -> None:
    """Log that files stay on a disk that failed. The replica is removed here all the same; the next process,
    on a working disk, sets aside the logs that no state mentions.
    """
    _log.error("log_left_behind directory=%s cause=%s", log.directory, error)
