"""A process's session with its controllers, as decisions: what it says, and what an answer means. Pure.

    register --accepted--> beat | poll and apply | report --disowned--> register again

The process (controller_session.py) and the simulated brokers each drive one. A driver sends what
`registration`, `heartbeat`, `poll`, `report` and `holdings` return, whenever it is due, and hands each answer
to the `on_` method of that name, which says what is to be done for it. Which controller is asked, and whether
its answer is to be believed, the driver knows (controller_client.seen_after).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final, Protocol

import msgspec

from springtide.contract.epochs import NO_BROKER_EPOCH, NO_CONTROLLER_EPOCH, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import Holdings, SetAsideLog
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrProposal,
    LagReport,
    LagReportResponse,
    PartitionLag,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.session import (
    BrokerStatus,
    ClockLeap,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
    Witness,
)
from springtide.contract.updates import ApplyFailure, PollRequest, UpdateBatch
from springtide.levels import UNTOLD, Level, LevelRange
from springtide.node.core.heartbeats import Heartbeats
from springtide.node.lease import DISOWNED, Lease

HOLDINGS_INTERVAL_MS: Final = 2_000


class Meaning(Enum):
    """What to do about an answer.

    DONE: continue; it was taken in. IGNORED: continue; it is outdated. REFUSED: ask again later. DISOWNED:
    register again, because the controller does not know this incarnation. TELL_HOLDINGS: send `holdings`
    (ZooKeeper went back), and ask again later. ANOTHER_CLUSTERS, UNSUPPORTED_LEVEL: end; no controller will
    accept this process as it is. APPLY: apply the batch, then call `on_applied`."""

    DONE = auto()
    REFUSED = auto()
    DISOWNED = auto()
    TELL_HOLDINGS = auto()
    ANOTHER_CLUSTERS = auto()
    UNSUPPORTED_LEVEL = auto()
    APPLY = auto()
    IGNORED = auto()


class WentBackProof(msgspec.Struct, frozen=True):
    """This process was put back to an earlier moment of its life (3.10, a host that goes back): it must vouch
    for nothing, and end. text: for an operator."""

    text: str


class UntoldNews(Protocol):
    """What a report may hold. A method that notes what was told returns whether there is more of it."""

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]: ...

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]: ...

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]: ...

    def on_log_ends_told(self, log_ends: Iterable[ReplicaLogEnd]) -> bool: ...

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]: ...

    def on_creations_told(self, created: Iterable[CreatedLogs]) -> bool: ...

    def unreported_problems(self) -> Sequence[ReplicaProblem]: ...

    def on_problems_reported(self, problems: Iterable[ReplicaProblem]) -> None: ...

    def take_set_aside(self) -> bool:
        """Return whether the logs in quarantine are to be told; they count as told unless `note_set_aside`
        follows."""

    def note_set_aside(self) -> None: ...


class StoredLogs(Protocol):
    """What lies on this broker's disk."""

    def set_aside(self) -> tuple[SetAsideLog, ...]: ...

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings: ...


class MemberSession:
    """identity: a registration as of this process's start. lease: this session alone writes it. applied: the
    position in the metadata stream up to which this process has completely applied it (I25, applied is said
    afterwards). wants_shutdown: set it to ask for leave to stop. may_shut_down: it was given: the controller
    has taken every leadership from this broker, and all brokers know it. level: the cluster's, by the latest
    answer that this process took in; ask `levels.allows` before something new is written."""

    __slots__ = (
        "_holdings_told_ms",
        "applied",
        "broker_epoch",
        "cluster_id",
        "failures",
        "has_full_state",
        "heartbeat_interval_ms",
        "heartbeats",
        "identity",
        "is_registered",
        "lease",
        "level",
        "may_shut_down",
        "remaining_leaderships",
        "status",
        "wants_shutdown",
    )

    def __init__(self, identity: RegisterRequest, *, cluster_id: str | None, lease: Lease) -> None:
        self.identity = identity
        self.cluster_id = cluster_id
        self.lease = lease
        self.broker_epoch = NO_BROKER_EPOCH
        self.status = BrokerStatus.WAITING
        self.heartbeats = Heartbeats()
        self.heartbeat_interval_ms = 500
        self.applied: tuple[ControllerEpoch, int] = (NO_CONTROLLER_EPOCH, -1)
        self.failures: tuple[ApplyFailure, ...] = ()
        self.has_full_state = False
        self.is_registered = False
        self.level = UNTOLD
        self.wants_shutdown = False
        self.may_shut_down = False
        self.remaining_leaderships = 0
        self._holdings_told_ms = -HOLDINGS_INTERVAL_MS

    # Registration

    def registration(
        self, witness: Witness | None, *, offline: tuple[str, ...] = (), keeps_its_logs: bool = True
    ) -> RegisterRequest:
        """Return a registration. keeps_its_logs: false once this process has found out that its disk is not
        what it was."""
        identity = self.identity
        request = msgspec.structs.replace(
            identity,
            log_dir_ids=tuple(each for each in identity.log_dir_ids if each not in offline),
            offline_log_dir_ids=offline,
            cluster_id=self.cluster_id,
            witness=witness,
        )
        if not self.is_registered:
            return request
        # A process that was registered before has kept its logs: only the controller forgot it. But one that
        # has found out that its host went back (3.10) can say that of none.
        return msgspec.structs.replace(
            request,
            last_shutdown=ShutdownKind.PROCESS_CRASH if keeps_its_logs else ShutdownKind.MACHINE_CRASH,
            previous_broker_epoch=self.broker_epoch,
            unanswered_incarnation_ids=(),
        )

    def on_registered(self, response: RegisterResponse) -> Meaning:
        """Take in the answer to a registration. Once it is DONE all is applied from the FULL state on."""
        match response.error:
            case ControllerError.NONE:
                pass
            case ControllerError.METADATA_WENT_BACK:
                return Meaning.TELL_HOLDINGS
            case ControllerError.INCONSISTENT_CLUSTER_ID:
                return Meaning.ANOTHER_CLUSTERS
            case ControllerError.UNSUPPORTED_LEVEL:
                return Meaning.UNSUPPORTED_LEVEL
            case _:
                return Meaning.REFUSED
        self._see_level(response.level)
        self.cluster_id = response.cluster_id or self.cluster_id
        self.broker_epoch = response.broker_epoch
        self._on_status(response.status)
        self.heartbeat_interval_ms = max(1, response.heartbeat_interval_ms)
        self.applied = (NO_CONTROLLER_EPOCH, -1)
        self.failures = ()
        self.is_registered = True
        return Meaning.DONE

    # Heartbeats

    def heartbeat(
        self,
        witness: Witness | None,
        *,
        clock_leap: ClockLeap | None = None,
        offline: tuple[str, ...] = (),
    ) -> HeartbeatRequest:
        """Return the next heartbeat, numbered."""
        return HeartbeatRequest(
            broker_id=self.identity.broker_id,
            broker_epoch=self.broker_epoch,
            incarnation_id=self.identity.incarnation_id,
            applied_controller_epoch=self.applied[0],
            applied_sequence=self.applied[1],
            offline_log_dir_ids=offline,
            wants_shutdown=self.wants_shutdown,
            clock_leap=clock_leap,
            witness=witness,
            count=self.heartbeats.next(),
            answered=self.heartbeats.answered,
            others=self.heartbeats.others,
            levels=self.identity.levels,
        )

    def on_heartbeat(
        self, asked: HeartbeatRequest, response: HeartbeatResponse, *, sent_ms: int, now_ms: int
    ) -> Meaning | WentBackProof:
        """Take in the answer to a heartbeat. sent_ms: read before it was written, from which the lease counts
        (I25, docs/replication.md 2.9, leases)."""
        proof = self.heartbeats.proof(response, wants_shutdown=self.wants_shutdown)
        if proof is not None:
            return WentBackProof(proof)
        if asked.count < response.heard_count:
            return Meaning.IGNORED  # a later one has arrived since
        self.lease.on_heartbeat_acked(response, sent_ms=sent_ms, now_ms=now_ms)
        if response.error is not ControllerError.NONE:
            return _refusal(response.error)
        self.heartbeats.on_answer(asked.count, response)
        self._on_status(response.status)
        self.remaining_leaderships = response.remaining_leaderships
        self.may_shut_down = self.may_shut_down or (self.wants_shutdown and response.may_shut_down)
        return Meaning.DONE

    def _on_status(self, status: BrokerStatus) -> None:
        if status is not BrokerStatus.UNKNOWN:
            self.status = status

    # The metadata stream

    def poll(self, witness: Witness | None) -> PollRequest:
        return PollRequest(
            heartbeat_count=self.heartbeats.sent,
            broker_id=self.identity.broker_id,
            broker_epoch=self.broker_epoch,
            applied_controller_epoch=self.applied[0],
            applied_sequence=self.applied[1],
            failures=self.failures,
            witness=witness,
        )

    def on_batch(self, batch: UpdateBatch) -> Meaning:
        """Look at the answer to a poll."""
        if batch.error is not ControllerError.NONE:
            return _refusal(batch.error)
        if batch.broker_epoch != self.broker_epoch:
            return Meaning.IGNORED  # for an incarnation before this one (I8, broker epochs fence)
        if batch.sequence < 0 or not self.lease.on_controller_epoch(batch.controller_epoch):
            return Meaning.IGNORED
        if not self._can_run_at(batch.level):
            return Meaning.DISOWNED  # The answer to the next registration says why.
        self._see_level(batch.level)
        if (batch.controller_epoch, batch.sequence) <= self.applied and not batch.full:
            self.failures = ()  # nothing new within the wait; the failures were delivered
            return Meaning.IGNORED
        return Meaning.APPLY

    def _can_run_at(self, level: Level) -> bool:
        """Return whether this process may go on. One that tells no levels knows none."""
        return self.identity.levels == LevelRange() or self.identity.levels.has(level)

    def _see_level(self, level: Level) -> None:
        """Note the cluster's level; it never falls, and an answer may be late."""
        self.level = max(self.level, level)

    def on_applied(self, batch: UpdateBatch, failures: Sequence[ApplyFailure]) -> bool:
        """Note that the effects of the batch are complete: only then does it count as applied (I25, applied
        is said afterwards). False: this process has been registered anew meanwhile."""
        if batch.broker_epoch != self.broker_epoch:
            return False
        self.failures = tuple(failures)
        self.applied = (batch.controller_epoch, batch.sequence)
        self.has_full_state = self.has_full_state or batch.full
        self.lease.on_applied(controller_epoch=batch.controller_epoch, sequence=batch.sequence)
        return True

    # Reports

    def report(
        self,
        untold: UntoldNews,
        stored: StoredLogs,
        witness: Witness | None,
        *,
        lags: Sequence[PartitionLag] = (),
        count_max: int,
        now_ms: int,
    ) -> LagReport | None:
        """Return what there is to tell, or None: at most `count_max` of each kind; the rest follows in the
        next. Hand it to `on_report` with its answer, or to `on_report_lost`."""
        proposals = tuple(untold.due_proposals(now_ms))
        problems = tuple(untold.unreported_problems())
        log_ends = tuple(untold.untold_log_ends(count_max=count_max))
        created = tuple(untold.untold_creations(count_max=count_max))
        set_aside = stored.set_aside() if untold.take_set_aside() else None
        if not (lags or proposals or problems or log_ends or created) and set_aside is None:
            return None
        return LagReport(
            broker_id=self.identity.broker_id,
            broker_epoch=self.broker_epoch,
            proposals=proposals,
            lags=tuple(lags),
            problems=problems,
            log_ends=log_ends,
            witness=witness,
            created=created,
            set_aside=set_aside,
        )

    def on_report(
        self, told: LagReport, untold: UntoldNews, response: LagReportResponse
    ) -> tuple[Meaning, bool]:
        """Note what the controller has heard. The second: whether there is more to tell soon."""
        if response.error is not ControllerError.NONE:
            self.on_report_lost(told, untold)
            return _refusal(response.error), False
        untold.on_problems_reported(told.problems)
        has_more = untold.on_log_ends_told(told.log_ends)
        if response.controller_epoch >= self.applied[0]:  # not one that was replaced meanwhile
            has_more = untold.on_creations_told(told.created) or has_more
        return Meaning.DONE, has_more

    def on_report_lost(self, told: LagReport, untold: UntoldNews) -> None:
        """Note that the report has told nothing. Whether it arrived is not known; the replicas ask again with
        the same proposal ids."""
        if told.set_aside is not None:
            untold.note_set_aside()

    def holdings(
        self, stored: StoredLogs, witness: Witness | None, *, offline: tuple[str, ...] = (), now_ms: int
    ) -> LagReport | None:
        """Return all that this broker holds, from which an operator's recovery rebuilds what ZooKeeper lost;
        None if it was told a moment ago. It is repeated, because another controller may be active meanwhile.
        """
        if now_ms - self._holdings_told_ms < HOLDINGS_INTERVAL_MS:
            return None
        self._holdings_told_ms = now_ms
        # The last shutdown as the disk told it at the start: the controller has forgotten this process.
        identity = msgspec.structs.replace(
            self.registration(witness, offline=offline), last_shutdown=self.identity.last_shutdown
        )
        return LagReport(
            broker_id=self.identity.broker_id,
            broker_epoch=self.broker_epoch,
            witness=witness,
            holdings=stored.holdings(identity, has_view=self.has_full_state),
        )


def _refusal(error: ControllerError) -> Meaning:
    if error in DISOWNED:
        return Meaning.DISOWNED
    return Meaning.TELL_HOLDINGS if error is ControllerError.METADATA_WENT_BACK else Meaning.REFUSED
