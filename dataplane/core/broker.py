"""A broker between its replicas and the world: the table of replicas, and what follows from events. Pure.

The process, the simulation and the tests' small cluster each drive one of these. An entry says what happened,
and gives the driver what it has to do for it, in order. Most entries return a list, which the driver carries
out at once, without an await. A batch of the metadata stream (`apply`) has work for the disk in the middle:
its effects come one by one, and those that say so are answered (applying.py).

What a replica is asked on the hot path (an append, a fetch) it is asked directly: its effects are carried out
the same way, and come back here as notes (`note_news`, `reports`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final, Generic, Protocol

import msgspec

from dataplane.core.creations import PendingCreations
from dataplane.core.effects import Effects
from dataplane.core.hosted import H, H_co
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.reports import Reports
from springtide.contract.lag_report import IsrProposalResult, ProblemCode, ReplicaProblem
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState

TICKS_PER_ROUND: Final = 30
"""Ticks in which each replica is looked at once, even if it is at rest: a round is half of
replica.lag.time.max.ms, as in Kafka."""


class OfReplica(msgspec.Struct, Generic[H], frozen=True):
    """Carry out what a replica asks for, in order. Its state may be another one than before. isr_change:
    members that its in-sync set has gained; below 0: lost."""

    hosted: H
    effects: Effects
    isr_change: int = 0


class Forgotten(msgspec.Struct, Generic[H], frozen=True):
    """The replica is not in the table any more: fetch it from no leader, and answer the fetches that wait for
    it."""

    hosted: H


class BrokerChanged(msgspec.Struct, frozen=True):
    """Tell the fetchers that this broker came, went or restarted."""

    broker_id: int


class ReportSoon(msgspec.Struct, frozen=True):
    """Send a report to the controller soon."""


class NotApplied(msgspec.Struct, frozen=True):
    """Put into the log file that a state has no effect here."""

    state: PartitionState
    code: str
    detail: str


Step = OfReplica[H] | Forgotten[H] | BrokerChanged | ReportSoon | NotApplied
"""What is carried out at once, without an await."""


class Configure(msgspec.Struct, Generic[H], frozen=True):
    """Give the replica and its log the topic's settings, which may have changed."""

    hosted: H


class LogsWanted(msgspec.Struct, frozen=True):
    """Have the logs made that `creations` holds, beside all other work."""


class Rest(msgspec.Struct, frozen=True):
    """Let answers leave that are complete, and other tasks run."""


class Settle(msgspec.Struct, frozen=True):
    """Go on when no log is being made any more that was given up."""


class TakeUp(msgspec.Struct, frozen=True):
    """Bring the log back that lies in quarantine. Answer: whether it is there, or the LogError."""

    key: PartitionKey


class LastKnown(msgspec.Struct, frozen=True):
    """What is known of a log that had a replica in the table until it was set aside."""

    high_watermark: int
    state: PartitionState | None
    topic_state: TopicState | None


class WhyAside(Enum):
    NOT_MENTIONED = "not in the controller's full state"
    REMOVED_MEANWHILE = "this broker is no replica any more"


class SetAside(msgspec.Struct, frozen=True):
    """Move the log to quarantine, with what is known of it. If that fails, the files stay where they are, and
    the log file says so: the next process sets them aside. known: None of a log without a replica."""

    key: PartitionKey
    why: WhyAside
    known: LastKnown | None = None


class KeepLog(msgspec.Struct, frozen=True):
    """Make a log durable whose replica has ended and which stays where it is, and remember its high
    watermark."""

    key: PartitionKey
    high_watermark: int


class WhyDeleted(Enum):
    TOPIC_DELETED = auto()
    MOVED_AWAY = auto()
    GIVEN_UP = auto()


class DeleteLog(msgspec.Struct, frozen=True):
    """Delete the log: there is positive evidence (I22, deletion needs evidence). MOVED_AWAY: answer with the
    LogError if it fails; else the files stay, and the log file says so. had_replica: until now."""

    key: PartitionKey
    why: WhyDeleted
    had_replica: bool = False


BatchStep = Configure[H] | LogsWanted | Rest | Settle | TakeUp | SetAside | KeepLog | DeleteLog
"""What a batch asks for besides. The driver may wait for threads, and answers."""

REPORT_SOON = ReportSoon()
LOGS_WANTED = LogsWanted()
REST = Rest()
SETTLE = Settle()


class Home(Protocol[H_co]):
    """What the driver answers at once, from memory."""

    def aside_epoch(self, key: PartitionKey) -> int | None:
        """Return the leader epoch of the log in quarantine that may be taken up, or None."""

    def host(self, state: PartitionState) -> H_co:
        """Return a new entry for the table: a replica over the log that is there for it. Raises LogError."""


class Broker(Generic[H]):
    """partitions: the table, in the order in which replicas came. restless: those to which something has
    happened, until they are at rest. found: logs without a replica, until a state names them: those that were
    there at the start, and those of deleted topics that are kept. known_lost: replicas whose log was found
    damaged at the start. creations: logs that are to be made. by_name: the table, by topic and partition.
    waiting: those in which clients wait."""

    __slots__ = (
        "_round",
        "broker_id",
        "by_name",
        "creations",
        "found",
        "known_lost",
        "partitions",
        "reports",
        "restless",
        "waiting",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.partitions: dict[PartitionKey, H] = {}
        self.by_name: dict[tuple[str, int], H] = {}
        self.restless: dict[PartitionKey, H] = {}
        self.waiting: dict[PartitionKey, H] = {}
        self._round: list[H] = []
        self.found: dict[PartitionKey, None] = {}
        self.known_lost: set[PartitionKey] = set()
        self.creations = PendingCreations()
        self.reports: Reports[H] = Reports(broker_id, self.partitions)

    def note_news(self, hosted: H) -> None:
        """Note that something has happened to this replica."""
        self.restless[hosted.key] = hosted
        self.reports.note_news(hosted)

    # The table

    def host(self, state: PartitionState, home: Home[H]) -> H:
        """Begin with a replica, whose log is there. Raises LogError."""
        hosted = home.host(state)
        self.partitions[hosted.key] = self.by_name[(hosted.topic, hosted.partition)] = hosted
        return hosted

    def enter(self, hosted: H, state: PartitionState, *, now_ms: int) -> list[Step[H]]:
        """Give the replica this state, if it is newer than its own."""
        steps: list[Step[H]] = [OfReplica(hosted, hosted.replica.on_partition_state(state, now_ms=now_ms))]
        self.note_news(hosted)
        if self.reports.on_applied(hosted, state):
            steps.append(REPORT_SOON)
        return steps

    def forget(self, hosted: H) -> list[Step[H]]:
        """Take the replica out of the table."""
        steps: list[Step[H]] = [OfReplica(hosted, hosted.replica.on_deleted()), Forgotten(hosted)]
        del self.partitions[hosted.key]
        hosted.is_forgotten = True
        name = (hosted.topic, hosted.partition)
        if self.by_name.get(name) is hosted:  # else a topic of the same name has come since
            del self.by_name[name]
        self.restless.pop(hosted.key, None)
        self.waiting.pop(hosted.key, None)
        self.reports.forget(hosted.key)
        return steps

    def close(self) -> dict[PartitionKey, int]:
        """Let go of every replica, for a stop: what still comes back from threads is dropped. Return the high
        watermarks to store."""
        for hosted in self.partitions.values():
            hosted.is_forgotten = True
        return {key: hosted.replica.high_watermark for key, hosted in self.partitions.items()}

    def report(self, state: PartitionState, code: ProblemCode, detail: str) -> list[Step[H]]:
        """Tell the controller why this state has no effect here."""
        self.reports.note_problem(
            ReplicaProblem(
                topic_id=state.topic_id,
                partition=state.partition,
                code=code,
                detail=detail,
                leader_epoch=state.leader_epoch,
            )
        )
        return [NotApplied(state, code, detail), REPORT_SOON]

    # What happens

    def on_made(self, key: PartitionKey, home: Home[H], *, now_ms: int) -> list[Step[H]] | DeleteLog:
        """Begin with the log that was made, under the latest state that was told of it. It goes again if it
        was given up meanwhile."""
        state = self.creations.end(key)
        if state is None:
            return DeleteLog(key, WhyDeleted.GIVEN_UP)
        try:
            return self.enter(self.host(state, home), state, now_ms=now_ms)
        except LogError as error:
            return self.report(state, ProblemCode.STORAGE_ERROR, str(error))

    def on_not_made(self, keys: Iterable[PartitionKey], error: LogError) -> list[Step[H]]:
        """Tell the controller of the logs that could not be made, and are still wanted."""
        states = [state for key in keys if (state := self.creations.end(key)) is not None]
        return [
            step for state in states for step in self.report(state, ProblemCode.STORAGE_ERROR, str(error))
        ]

    def on_proposal_results(self, results: Iterable[IsrProposalResult], *, now_ms: int) -> list[Step[H]]:
        """Give leaders the controller's answers to their proposals."""
        steps: list[Step[H]] = []
        for result in results:
            hosted = self.partitions.get((result.topic_id, result.partition))
            if hosted is not None:
                before = _isr_size(hosted.replica)
                effects = hosted.replica.on_proposal_result(result, now_ms=now_ms)
                if effects:
                    self.note_news(hosted)
                steps.append(OfReplica(hosted, effects, _isr_size(hosted.replica) - before))
        return steps

    def on_broker_changed(self, hosted: H, changed: Iterable[int], *, now_ms: int) -> list[Step[H]]:
        """Tell a leader which brokers came, went or restarted."""
        steps: list[Step[H]] = []
        if isinstance(hosted.replica.role, Leader):
            for broker_id in changed:
                effects = hosted.replica.role.on_broker_changed(broker_id, now_ms=now_ms)
                steps += self.of_replica(hosted, effects)
            self.note_news(hosted)
        return steps

    def on_log_failed(self, failed: Iterable[H], detail: str) -> list[Step[H]]:
        """Take these replicas offline at once (S28, EIO or full disk). The failure happened outside their own
        calls."""
        return [
            step for hosted in failed for step in self.of_replica(hosted, hosted.replica.go_offline(detail))
        ]

    def on_tick(self, *, now_ms: int) -> list[Step[H]]:
        """Tick the replicas that are not at rest, and a part of all. Called every ~500 ms."""
        if not self._round:
            self._round = list(self.partitions.values())
        count = -(-len(self.partitions) // TICKS_PER_ROUND)
        for hosted in self._round[-count:]:
            if self.partitions.get(hosted.key) is hosted:
                self.note_news(hosted)
        del self._round[-count:]
        steps: list[Step[H]] = []
        for key, hosted in list(self.restless.items()):
            steps += self.of_replica(hosted, hosted.replica.role.on_tick(now_ms))
            if hosted.replica.role.is_at_rest:
                self.restless.pop(key, None)
        return steps

    def on_tick_of_waiting(self, *, now_ms: int) -> list[Step[H]]:
        """Tick the replicas in which clients wait. Called every ~100 ms while there are some."""
        steps: list[Step[H]] = []
        for key, hosted in list(self.waiting.items()):
            steps += self.of_replica(hosted, hosted.replica.role.on_tick(now_ms))
            if not hosted.replica.has_waiters:
                del self.waiting[key]
        return steps

    def of_replica(self, hosted: H, effects: Effects) -> Sequence[Step[H]]:
        """Pass on what a replica asked for when it was called directly."""
        if not effects:
            return ()
        self.note_news(hosted)
        return (OfReplica(hosted, effects),)


def _isr_size(replica: Replica) -> int:
    return 0 if replica.state is None else len(replica.state.isr)
