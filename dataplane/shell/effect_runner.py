"""The hands that carry out what replicas decide.

Effects are carried out on the loop without an await, in the order the replica gave them. What takes a thread
is started here, and its end given back to the replica, unless the table has forgotten it meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol, assert_never, cast

from dataplane.core.broker import (
    Broker,
    BrokerChanged,
    Forgotten,
    NotApplied,
    OfReplica,
    ReportSoon,
    Step,
)
from dataplane.core.effects import (
    NO_EFFECTS,
    BackOff,
    CheckAtRest,
    CompleteDeletion,
    CompleteProduce,
    CopyDivergent,
    DataAppended,
    Effects,
    HighWatermarkMoved,
    LeadershipChanged,
    LogStartMoved,
    MendLog,
    PersistEpochs,
    ProposalReady,
    Remark,
    ReportProblem,
    StartFetching,
    StopFetching,
    Vouch,
)
from dataplane.core.results import DeletionResult
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.fetches import Fetches
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.produces import Produces
from dataplane.shell.served_learners import ServedLearners
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import ProblemCode
from springtide.contract.partition_state import PartitionKey
from springtide.node.clock import Clock

_log = logging.getLogger(__name__)

DeletionWaiter = Callable[[DeletionResult], None]
"""The waiter of a deletion: takes the final result."""


class ReplicaFetching(Protocol):
    """The replica fetchers."""

    def follow(self, hosted: HostedPartition, *, leader_id: int, leader_epoch: LeaderEpoch) -> None: ...

    def unfollow(self, key: PartitionKey) -> None: ...

    def back_off(self, key: PartitionKey, delay_ms: int) -> None: ...

    def on_broker_changed(self, broker_id: int) -> None: ...

    def on_rates_changed(self) -> None:
        """Note that throttled rates may have changed: they come with the view of the cluster."""

    def on_room_changed(self) -> None:
        """Note that the log directory has no room for records any more, or has it again."""


class Scrubbing(Protocol):
    """The scrubber, which reads stored bytes again."""

    def check_soon(self, hosted: HostedPartition, offset: int) -> None: ...

    def mend(self, hosted: HostedPartition, effect: MendLog) -> None: ...


class EffectRunner:
    """Carries out what the core decides: `run` within a turn of the server, `carry_out` as a turn of its own.

    `fetching` and `scrubbing` are connected before a partition is hosted: they need this and the table.
    wake_report: asks for a report to the controller soon."""

    fetching: ReplicaFetching

    def __init__(
        self,
        *,
        broker: Broker[HostedPartition],
        produces: Produces,
        fetches: Fetches,
        store: DataDirectory,
        counters: BrokerCounters,
        clock: Clock,
        wake_report: Callable[[], None],
        end_turn: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.served_learners = ServedLearners()
        self.wake_report = wake_report
        self._produces = produces
        self._fetches = fetches
        self._store = store
        self._counters = counters
        self._clock = clock
        self._end_turn = end_turn
        self.scrubbing: Scrubbing | None = None

    def connect(self, *, fetching: ReplicaFetching, scrubbing: Scrubbing | None = None) -> None:
        self.fetching = fetching
        self.scrubbing = scrubbing

    def tell_log_start(self, hosted: HostedPartition) -> None:
        """Retention has moved the leader's log start: followers and consumers of an idle partition learn it,
        too."""
        self.broker.note_news(hosted)
        self._fetches.on_high_watermark_moved(hosted.key)
        self.carry_out(())

    def carry_out(self, steps: Iterable[Step[HostedPartition]]) -> None:
        """Carry out what an entry of the broker asked for, in order, and end the turn."""
        for step in steps:
            self.step(step)
        self._end_turn()

    def run_alone(self, hosted: HostedPartition, effects: Effects) -> None:
        """Carry out what a replica asked for, in order, as a turn of its own."""
        self.carry_out(self.broker.of_replica(hosted, effects))

    def step(self, step: Step[HostedPartition]) -> None:
        """Carry out one step of a turn that goes on."""
        match step:
            case OfReplica(hosted=hosted, effects=effects, isr_change=isr_change):
                self._run(hosted, effects)
                self.served_learners.note(hosted.key, hosted.replica)
                self._counters.isr_expands += isr_change > 0
                self._counters.isr_shrinks += isr_change < 0
            case Forgotten(hosted=hosted):
                self.fetching.unfollow(hosted.key)
                self._fetches.on_leadership_changed(hosted.key)
                self.served_learners.forget(hosted.key)
            case BrokerChanged(broker_id=broker_id):
                self.fetching.on_broker_changed(broker_id)
            case ReportSoon():
                self.wake_report()
            case NotApplied(state=state, code=code, detail=detail):
                _log.error(
                    "state_not_applied topic=%s partition=%d code=%s detail=%s",
                    state.topic,
                    state.partition,
                    code,
                    detail,
                )
            case _:
                assert_never(step)

    def run(self, hosted: HostedPartition, effects: Effects) -> None:
        """Carry out what a replica asked for, in order, within a turn of the server."""
        if effects:
            self.broker.note_news(hosted)
            self._run(hosted, effects)

    def _run(self, hosted: HostedPartition, effects: Effects) -> None:
        fetches, fetching = self._fetches, self.fetching
        for effect in effects:
            match effect:
                case CompleteProduce(waiters=waiters, error=error):
                    self._produces.on_complete(waiters, error)
                case CompleteDeletion(waiters=waiters, result=result):
                    for waiter in waiters:
                        cast(DeletionWaiter, waiter)(result)
                case LogStartMoved():
                    self._store_log_start(hosted)
                    fetches.on_high_watermark_moved(hosted.key)
                case DataAppended():
                    fetches.on_data_appended(hosted.key)
                case HighWatermarkMoved():
                    fetches.on_high_watermark_moved(hosted.key)
                    if not hosted.is_high_watermark_stored:
                        self._store.is_first_high_watermark_due = True
                case LeadershipChanged():
                    fetches.on_leadership_changed(hosted.key)
                case ProposalReady():
                    self.broker.reports.note_proposal(hosted.key)
                    self.wake_report()
                case StartFetching(leader_id=leader_id, leader_epoch=leader_epoch):
                    fetching.follow(hosted, leader_id=leader_id, leader_epoch=leader_epoch)
                case StopFetching():
                    fetching.unfollow(hosted.key)
                case BackOff(delay_ms=delay_ms):
                    fetching.back_off(hosted.key, delay_ms)
                case CopyDivergent():
                    self._copy_divergent(hosted, effect)
                case MendLog():
                    if self.scrubbing is not None:
                        self.scrubbing.mend(hosted, effect)
                case CheckAtRest(first_offset=offset):
                    if self.scrubbing is not None:
                        self.scrubbing.check_soon(hosted, offset)
                case PersistEpochs():
                    self._store.start_persist_epochs(hosted)
                case Vouch():
                    self._vouch(hosted)
                case ReportProblem(problem=problem):
                    self.broker.reports.note_problem(problem)
                    self.wake_report()
                    if self._store.failure is not None:
                        self._store.met_failure.set()
                    if problem.code == ProblemCode.WENT_BACK and problem.broker_id < 0:
                        self._store.start_disowning()
                case Remark(text=text, is_warning=is_warning):
                    level = logging.WARNING if is_warning else logging.INFO
                    _log.log(
                        level,
                        "replica_remark topic=%s partition=%d detail=%s",
                        hosted.topic,
                        hosted.partition,
                        text,
                    )
                case _:
                    assert_never(effect)

    def _copy_divergent(self, hosted: HostedPartition, effect: CopyDivergent) -> None:
        def done(error: str | None) -> None:
            if hosted.is_forgotten:
                return
            now_ms = self._clock.mono_ms()
            follower = hosted.replica.following
            effects = NO_EFFECTS
            if follower is not None:
                effects = follower.on_divergent_copied(effect.hold_id, error=error, now_ms=now_ms)
            self.run_alone(hosted, effects)

        self._store.start_copying(hosted, effect, done)

    def _store_log_start(self, hosted: HostedPartition) -> None:
        def done(offset: int) -> None:
            if not hosted.is_forgotten:
                now_ms = self._clock.mono_ms()
                self.run_alone(hosted, hosted.replica.role.on_log_start_stored(offset, now_ms=now_ms))

        self._store.start_storing_log_start(hosted, done)

    def _vouch(self, hosted: HostedPartition) -> None:
        def done() -> None:
            if not hosted.is_forgotten:
                self.run_alone(hosted, hosted.replica.role.on_vouched(now_ms=self._clock.mono_ms()))

        self._store.start_vouching(hosted, done)
