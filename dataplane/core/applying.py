"""One batch of the metadata stream on its way through the table of a broker: pure.

Topic deletions come first, then each partition's state, and at the end what follows for leaders from brokers
that came, went or restarted. One bad entry fails alone and is reported; the others are applied, and the batch
counts as applied when every entry's effects are complete (2.8 (applying batches), I25 (applied is said
afterwards)). Only logs that are still to be made come later: each is told of by name when it is there. A
replica is never created where one should have been (LOG_MISSING), and a log is never deleted without the
topic's id among the deleted ones (I21 (topic ids decide), I22 (deletion needs evidence)): what a FULL state
does not mention is set aside in quarantine. The logs of a deleted topic that is kept stay where they are,
without replicas, like those that were found at the start (4.12, kept topics). A replica whose log lies there
whole begins with that one (11.5, logs that were set aside).

The batch is a walk that stops where the driver has to do something: `advance` gives the next effect, and
takes the answer to the one before. Nothing else of this broker waits meanwhile, so other entries come in
between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Final, Generic

from dataplane.core.broker import (
    LOGS_WANTED,
    REPORT_SOON,
    REST,
    SETTLE,
    BatchStep,
    Broker,
    BrokerChanged,
    Configure,
    DeleteLog,
    Home,
    KeepLog,
    LastKnown,
    NotApplied,
    Rest,
    SetAside,
    Step,
    TakeUp,
    WhyAside,
    WhyDeleted,
)
from dataplane.core.creations import has_seat, may_create
from dataplane.core.hosted import H
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.role import Offline
from springtide.contract.lag_report import ProblemCode
from springtide.contract.partition_state import LeaderRecovery, PartitionKey, PartitionState, TopicState
from springtide.contract.updates import AHEAD, ApplyFailure, UpdateBatch

ENTRIES_PER_TURN: Final = 64
"""Partitions worked on before other tasks of the loop get their turn."""

BatchEffect = Step[H] | BatchStep[H]

Answer = bool | LogError | None
"""What a batch is answered to its last effect; None to those that ask for none."""


class Applying(Generic[H]):
    """topics_before: before this batch. changed_brokers: those that it changed. is_all_configured: it changed
    the cluster's settings. failures: complete once `advance` has returned None."""

    def __init__(
        self,
        broker: Broker[H],
        home: Home[H],
        batch: UpdateBatch,
        *,
        topics_before: Mapping[str, TopicState],
        changed_brokers: Sequence[int],
        is_all_configured: bool = False,
    ) -> None:
        self.failures: list[ApplyFailure] = []
        self._broker = broker
        self._home = home
        self._batch = batch
        self._topics_before = topics_before
        self._changed_brokers = changed_brokers
        self._is_all_configured = is_all_configured or batch.full
        self._now_ms = 0
        self._walk: Generator[BatchEffect[H], Answer, None] | None = None

    def advance(self, answer: Answer = None, *, now_ms: int) -> BatchEffect[H] | None:
        """Return what the driver has to do next; None: the batch is applied. answer: to the last effect."""
        self._now_ms = now_ms
        try:
            if self._walk is None:
                self._walk = self._apply()
                return next(self._walk)
            if isinstance(answer, LogError):
                return self._walk.throw(answer)
            return self._walk.send(answer)
        except StopIteration:
            return None

    def _apply(self) -> Generator[BatchEffect[H], Answer, None]:
        broker, batch = self._broker, self._batch
        for topic_id in batch.deleted_topics:
            yield from self._delete_topic(topic_id)
        for topic_id in batch.kept_topics or ():
            yield from self._keep_topic(topic_id)
        if batch.full:
            broker.reports.on_full_state_begins()
        for number, state in enumerate(batch.partitions, start=1):
            failure = yield from self._apply_state(state)
            if failure is not None:
                self.failures.append(failure)
            yield from _rest_after(number)
        if batch.full:
            yield from self._set_aside_unmentioned()
            broker.reports.note_set_aside()
            yield REPORT_SOON
            broker.reports.on_full_state()
        changed = {topic.topic_id for topic in batch.topics}
        if self._is_all_configured or changed:
            configured = [
                hosted
                for hosted in broker.partitions.values()
                if self._is_all_configured or hosted.topic_id in changed
            ]
            for number, hosted in enumerate(configured, start=1):
                yield Configure(hosted)
                yield from _rest_after(number)
        if self._changed_brokers:
            for broker_id in self._changed_brokers:
                yield BrokerChanged(broker_id)
            for number, hosted in enumerate(list(broker.partitions.values()), start=1):
                yield from broker.on_broker_changed(hosted, self._changed_brokers, now_ms=self._now_ms)
                yield from _rest_after(number)
        yield SETTLE

    def _apply_state(self, state: PartitionState) -> Generator[BatchEffect[H], Answer, ApplyFailure | None]:
        """Apply one entry; any error in it is this entry's failure alone."""
        broker, key = self._broker, (state.topic_id, state.partition)
        is_replica = broker.broker_id in state.replicas
        hosted = broker.partitions.get(key)
        if state.recovery is LeaderRecovery.UNKNOWN:
            detail = "the state is of a later release, and has a word that this one does not know"
            return (yield from _failure(state, "other", detail))
        try:
            if hosted is None:
                if not is_replica:
                    broker.creations.give_up(key)
                    yield from self._leave_found_log(key)
                    return None
                if key in broker.found:
                    del broker.found[key]
                elif not (yield from self._take_up(state)):
                    return (yield from self._want_log(state))
                hosted = broker.host(state, self._home)
            held = hosted.replica.state
            if held is not None and is_behind(state, held):
                return ahead(held)
            yield from broker.enter(hosted, state, now_ms=self._now_ms)
            if not is_replica and _is_applied(hosted.replica, state):
                # The controller has completed a reassignment: positive evidence that this copy may go (4.2,
                # reassignment).
                yield from broker.forget(hosted)
                yield DeleteLog(key, WhyDeleted.MOVED_AWAY, had_replica=True)
            elif isinstance(hosted.replica.role, Offline):
                return (yield from _failure(state, "storage_error", "the log directory has failed"))
        except LogError as error:
            return (yield from _failure(state, "storage_error", str(error)))
        return None

    def _take_up(self, state: PartitionState) -> Generator[BatchEffect[H], Answer, bool]:
        """Take up the log that this broker has set aside, rather than a new one. If the replica has a seat,
        the state must be newer than all that the log knew: the controller that gave the seat then knows of it
        (11.5, logs that were set aside).
        """
        broker, key = self._broker, (state.topic_id, state.partition)
        aside_epoch = self._home.aside_epoch(key)
        if aside_epoch is None:
            return False
        if has_seat(state, broker.broker_id) and state.leader_epoch <= aside_epoch:
            return False
        broker.creations.give_up(key)
        yield SETTLE
        if self._home.aside_epoch(key) is None:
            return False  # the log that was being made until now had replaced it
        is_there = yield TakeUp(key)
        broker.reports.note_set_aside()
        yield REPORT_SOON
        return is_there is True

    def _want_log(self, state: PartitionState) -> Generator[BatchEffect[H], Answer, ApplyFailure | None]:
        """Have a log made where that is allowed (3.8 (how a broker returns), 4.3 (learners)). A log that was
        found damaged just now is not new, even if the controller had no time to note that.
        """
        broker, key = self._broker, (state.topic_id, state.partition)
        if may_create(state, broker.broker_id, is_known_lost=key in broker.known_lost):
            broker.creations.want(state)
            yield LOGS_WANTED
            return None
        broker.creations.give_up(key)
        detail = "in ISR or ELR, not new, and no log on this broker: its disk was wiped or lost"
        yield from broker.report(state, ProblemCode.LOG_MISSING, detail)
        return failure_of(state, "log_missing", detail)

    def _leave_found_log(self, key: PartitionKey) -> Generator[BatchEffect[H], Answer, None]:
        if key in self._broker.found:
            del self._broker.found[key]
            # Removed while this broker was away. The topic lives, so there is no evidence that these bytes
            # may go.
            yield SetAside(key, WhyAside.REMOVED_MEANWHILE)
            self._broker.reports.note_set_aside()
            yield REPORT_SOON

    def _delete_topic(self, topic_id: str) -> Generator[BatchEffect[H], Answer, None]:
        """Delete the topic's logs by id only (I21, topic ids decide): a topic of the same name created since
        is another one.
        """
        broker = self._broker
        doomed = [hosted for key, hosted in broker.partitions.items() if key[0] == topic_id]
        for number, hosted in enumerate(doomed, start=1):
            yield from broker.forget(hosted)
            yield DeleteLog(hosted.key, WhyDeleted.TOPIC_DELETED, had_replica=True)
            yield from _rest_after(number)
        for key in [key for key in broker.found if key[0] == topic_id]:
            del broker.found[key]
            yield DeleteLog(key, WhyDeleted.TOPIC_DELETED)
        for key in [key for key in broker.creations.wanted if key[0] == topic_id]:
            broker.creations.give_up(key)

    def _keep_topic(self, topic_id: str) -> Generator[BatchEffect[H], Answer, None]:
        """End the replicas of a deleted topic, and leave their logs where they are."""
        broker = self._broker
        ended = [hosted for key, hosted in broker.partitions.items() if key[0] == topic_id]
        for number, hosted in enumerate(ended, start=1):
            steps = broker.forget(hosted)
            broker.found[hosted.key] = None  # at once: it is in one of the two tables whatever happens
            yield from steps
            yield KeepLog(hosted.key, hosted.replica.high_watermark)
            yield from _rest_after(number)
        for key in [key for key in broker.creations.wanted if key[0] == topic_id]:
            broker.creations.give_up(key)

    def _set_aside_unmentioned(self) -> Generator[BatchEffect[H], Answer, None]:
        """Set aside what a FULL state does not mention; never delete it (I22, deletion needs positive
        evidence). A FULL state is everything there is.
        """
        broker = self._broker
        mentioned = {(state.topic_id, state.partition) for state in self._batch.partitions}
        kept = set(self._batch.kept_topics or ())
        for key in [key for key in broker.found if key not in mentioned and key[0] not in kept]:
            del broker.found[key]
            yield SetAside(key, WhyAside.NOT_MENTIONED)
        for key in [key for key in broker.creations.wanted if key not in mentioned]:
            broker.creations.give_up(key)
        for hosted in [hosted for key, hosted in broker.partitions.items() if key not in mentioned]:
            replica = hosted.replica
            known = LastKnown(replica.high_watermark, replica.state, self._topics_before.get(hosted.topic_id))
            yield from broker.forget(hosted)
            yield SetAside(hosted.key, WhyAside.NOT_MENTIONED, known)


def _rest_after(number: int) -> Iterable[Rest]:
    """Let other tasks have their turn after every ENTRIES_PER_TURN partitions."""
    return () if number % ENTRIES_PER_TURN else (REST,)


def _failure(state: PartitionState, code: str, detail: str) -> Generator[NotApplied, Answer, ApplyFailure]:
    yield NotApplied(state, code, detail)
    return failure_of(state, code, detail)


def failure_of(state: PartitionState, code: str, detail: str) -> ApplyFailure:
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
