"""Where the marks of marks.py are reached: looks at what nodes do, and changes nothing.

Each method is called from one place of a node or of the cluster, with what happens there. It reads values and
counts; it draws nothing and notes nothing, so that a run without it has the same digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.records import Cause, PartitionRecord
from dataplane.core.effects import PROPOSAL_READY, Effects
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from dataplane.core.replica import Replica
from dataplane.core.results import AppendResult, FetchResult
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.contract.session import ClockLeap, ShutdownKind
from springtide.contract.updates import UpdateBatch
from springtide.wire.errors import ErrorCode
from tests.kit.memory.log import MemoryLog
from tests.simulation.marks import Marks
from tests.simulation.zookeeper import Outcome

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode

_BY_CAUSE = {
    Cause.SEALED_LEADER_ELECTED: "election.of.a.sealed.log",
    Cause.ISR_SHRUNK: "isr.shrunk",
    Cause.ISR_EXPANDED: "isr.expanded",
    Cause.PREFERRED_LEADER_ELECTED: "election.of.preferred.leader",
    Cause.CONTROLLED_SHUTDOWN: "election.for.controlled.shutdown",
    Cause.UNCLEAN_RESTART: "unclean.restart",
    Cause.LOG_MISSING: "log.lost",
    Cause.REPLICA_ROTTEN: "rot.took.a.seat",
    Cause.REASSIGNMENT_CANCELLED: "move.called.off",
}

_BY_PROPOSAL_ERROR = {
    ControllerError.NONE: "proposal.accepted",
    ControllerError.INVALID_UPDATE_VERSION: "proposal.outdated",
    ControllerError.INELIGIBLE_REPLICA: "proposal.ineligible",
    ControllerError.FENCED_LEADER_EPOCH: "proposal.fenced",
}

_BY_FETCH_ERROR = {
    ErrorCode.FENCED_LEADER_EPOCH: "fetch.fenced.by.leader.epoch",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "fetch.ahead.of.the.leader's.state",
    ErrorCode.STALE_BROKER_EPOCH: "fetch.by.an.earlier.incarnation",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "fetch.from.no.leader",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "fetch.of.an.unknown.partition",
}

_BY_READ_ERROR = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "read.refused.by.follower",
    ErrorCode.OFFSET_NOT_AVAILABLE: "read.ahead.of.follower",
    ErrorCode.FENCED_LEADER_EPOCH: "read.fenced.by.follower",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "read.ahead.of.the.follower's.state",
}

_BY_COMPLETION = {
    ErrorCode.REQUEST_TIMED_OUT: "produce.timed.out",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "produce.overtaken.by.new.leader",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "produce.below.minimum.after.append",
}

_BY_PROBLEM = {
    "storage_error": "storage.error",
    "divergent": "divergence.reported",
    "batch_refused": "rot.refused.by.a.follower",
}

_BY_START = {
    ShutdownKind.CLEAN: "start.after.clean.shutdown",
    ShutdownKind.PROCESS_CRASH: "start.after.kill",
    ShutdownKind.MACHINE_CRASH: "start.after.power.cut",
}


def has_promise(replica: Replica) -> bool:
    """Whether it leads and waits for someone whom the controller has not confirmed."""
    state = replica.state
    return state is not None and len(replica.maximal_isr) > len(state.isr)


class Sightings(Marks):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._published: dict[PartitionKey, PartitionState] = {}
        self._asked: dict[object, tuple[int, bool]] = {}

    # --- controllers ------------------------------------------------------------------------------------

    def on_published(self, record: PartitionRecord) -> None:
        after, cause = record.state, record.change.cause
        key = (after.topic_id, after.partition)
        before = self._published.get(key)
        self._published[key] = after
        if (mark := _BY_CAUSE.get(cause)) is not None:
            self.reached(mark)
        if before is None:
            return
        if len(after.isr) == 1 < len(before.isr):
            self.reached("isr.single")
        if len(after.isr) < after.min_insync_replicas <= len(before.isr):
            self.reached("isr.below.minimum")
        if after.elr and not before.elr:
            self.reached("elr.filled")
        if before.elr and not after.elr:
            self.reached("elr.emptied")
        if cause is Cause.UNCLEAN_RESTART and set(before.elr) - {*after.elr, *after.isr}:
            self.reached("elr.dropped.after.unclean.restart")
        if after.leader == NO_LEADER and before.leader != NO_LEADER:
            self.reached("leaderless")
            if after.elr:
                self.reached("leaderless.with.elr")
        if after.leader_epoch > before.leader_epoch and after.leader != NO_LEADER:
            self._on_elected(key, before, after, cause)

    def _on_elected(
        self, key: PartitionKey, before: PartitionState, after: PartitionState, cause: Cause
    ) -> None:
        if after.leader == before.leader:
            self.reached("leader.epoch.raised.for.the.same.leader")
            return
        if after.leader in before.isr:
            self.reached("election.from.isr")
        elif after.leader in before.elr:
            self.reached("election.from.elr")
        if cause is Cause.BROKER_DIED:
            self.reached("election.after.proof.of.death")
        elif cause is Cause.BROKER_FENCED:
            self.reached("election.after.silence")
        old = self._cluster.brokers.get(before.leader)
        replica = None if old is None else old.replicas.get(key)
        if replica is not None:
            if has_promise(replica):
                self.reached("election.while.a.promise.is.pending")
            if replica.has_waiters:
                self.reached("election.while.producers.wait")

    def on_takeover(self, controller: ControllerNode) -> None:
        self.reached("controller.takes.over")
        others = [other for other in self._cluster.controllers if other is not controller]
        if any(other.elections for other in others):
            self.reached("controller.takes.over.from.another")
        if any(other.machine is not None for other in others):
            self.reached("controllers.two.believe.to.lead")

    def on_silence(self, controller: ControllerNode) -> None:
        """It does not answer, for it can't prove that it leads."""
        if controller.machine is not None:
            self.reached("controller.silent.without.proof")

    def on_written(self, outcome: Outcome) -> None:
        if outcome is Outcome.BAD_VERSION:
            self.reached("controller.write.refused.by.epoch")
        elif outcome is Outcome.SESSION_EXPIRED:
            self.reached("controller.write.of.an.expired.session")

    def on_read_back(self, *, known: bool) -> None:
        """A lost answer was looked up."""
        self.reached("controller.lost.answer.was.applied" if known else "controller.lost.answer.was.not")

    def on_session_lost(self, controller: ControllerNode) -> None:
        if controller.persisting:
            self.reached("controller.resigns.mid.write")

    def on_controller_resumes(self, controller: ControllerNode) -> None:
        session = self._cluster.zookeeper.sessions.get(controller.session)
        if controller.machine is not None and session is not None and session.expired:
            self.reached("session.expired.while.paused")

    def on_probed(self, *, is_cut: bool, is_listening: bool) -> None:
        if is_cut:
            self.reached("probe.is.cut.off")
        else:
            self.reached("probe.finds.it.alive" if is_listening else "probe.proves.death")

    # --- brokers: lives and sessions --------------------------------------------------------------------

    def on_start(self, broker: BrokerNode, kind: ShutdownKind) -> None:
        if (mark := _BY_START.get(kind)) is not None:
            self.reached(mark)
        elif broker.life > 1 and not broker.disk.logs:
            self.reached("start.with.empty.disk")
        if broker.disk.unanswered:
            self.reached("start.after.an.unanswered.registration")

    def on_crash(self, broker: BrokerNode) -> None:
        """Before anything of it is gone."""
        if broker.is_paused:
            self.reached("crash.while.paused")
        for replica in broker.replicas.values():
            if isinstance(replica.role, Leader):
                self.reached("crash.of.a.leader")
                if has_promise(replica):
                    self.reached("promise.pending.at.crash")
            elif isinstance(replica.role, Follower) and replica.next_fetch() is None:
                self.reached("crash.while.writing.aside")

    def on_power_cut(self, log: MemoryLog) -> None:
        """After it has lost what it lost."""
        if log.has_lost_its_tail:
            self.reached("power.cut.takes.a.tail")

    def on_registered(self, *, first: bool) -> None:
        if not first:
            self.reached("registered.again.in.one.life")

    def on_heartbeat(self, error: ControllerError) -> None:
        if error is ControllerError.STALE_BROKER_EPOCH:
            self.reached("heartbeat.of.an.earlier.epoch")

    def on_clocks(self, leap: ClockLeap | None) -> None:
        if leap is not None:
            self.reached("clock.leap.told")

    def on_tick(self, broker: BrokerNode, replica: Replica) -> None:
        if isinstance(replica.role, Leader) and not broker.lease.is_held(broker.now_ms):
            self.reached("lease.lost.by.a.leader")
            if replica.role.may_serve(broker.now_ms):
                self.reached("lease.stood.in.for")

    def on_problem(self, code: str) -> None:
        if (mark := _BY_PROBLEM.get(code)) is not None:
            self.reached(mark)

    # --- brokers: metadata and proposals ----------------------------------------------------------------

    def on_update(self, broker: BrokerNode, batch: UpdateBatch) -> None:
        if batch.broker_epoch != broker.broker_epoch:
            self.reached("update.of.another.incarnation")
        elif batch.controller_epoch < broker.lease.controller_epoch:
            self.reached("update.of.an.earlier.controller")
        elif batch.full:
            self.reached("update.full")
        elif (batch.controller_epoch, batch.sequence) < broker.session.applied:
            self.reached("update.out.of.order")

    def on_state(self, broker: BrokerNode, replica: Replica, state: PartitionState) -> None:
        """Before the replica is told."""
        held = replica.state
        if held is None:
            return
        if state.partition_epoch <= held.partition_epoch:
            self.reached("state.repeated")
            return
        if state.partition_epoch > held.partition_epoch + 1:
            self.reached("state.coalesced")
        if state.leader_epoch > held.leader_epoch:
            leads = state.leader == broker.broker_id
            if isinstance(replica.role, Leader):
                self.reached("leader.leads.on.in.a.new.epoch" if leads else "leader.becomes.follower")
            elif leads:
                self.reached("follower.becomes.leader")

    def on_proposal_result(self, replica: Replica, result: IsrProposalResult) -> None:
        if (mark := _BY_PROPOSAL_ERROR.get(result.error)) is not None:
            self.reached(mark)
        if not isinstance(replica.role, Leader):
            self.reached("proposal.answered.after.the.leadership")

    # --- brokers: replication ---------------------------------------------------------------------------

    def on_fetch_served(
        self,
        replica: Replica,
        replica_id: int,
        position: FetchPosition,
        result: FetchResult,
        effects: Effects,
    ) -> None:
        if result.error is not ErrorCode.NONE:
            if (mark := _BY_FETCH_ERROR.get(result.error)) is not None:
                self.reached(mark)
        elif result.diverging is not None:
            self.reached("fetch.diverges")
        elif (
            isinstance(replica.role, Leader)
            and position.fetch_offset == replica.role.in_sync.epoch_start_offset
        ):
            state = replica.state
            if state is not None and replica_id not in state.isr:
                self.reached("fetch.by.outsider.at.epoch.start")
            if PROPOSAL_READY in effects:
                self.reached("join.asked.at.epoch.start")

    def on_read(self, replica: Replica, result: FetchResult, *, is_debugging: bool) -> None:
        """A consumer's fetch, answered. Of leaders it says nothing."""
        if not isinstance(replica.role, Follower):
            return
        if result.error is ErrorCode.NONE:
            self.reached("read.by.debugging" if is_debugging else "read.from.follower")
        elif (mark := _BY_READ_ERROR.get(result.error)) is not None:
            self.reached(mark)

    def on_fetched(self, replica: Replica, position: FetchPosition) -> None:
        """An answer to this request arrived; before the replica is told."""
        if position.leader_epoch != replica.leader_epoch:
            self.reached("fetched.in.an.earlier.epoch")
        elif isinstance(replica.role, Follower) and position.fetch_offset != replica.log.log_end_offset:
            self.reached("fetched.twice")

    def on_diverged(self, effects: Effects) -> None:
        """After the replica was told. Nothing to do for anyone: epochs without records were cut."""
        if not effects:
            self.reached("truncation.without.suffix")

    def on_completed(self, error: ErrorCode) -> None:
        """Producers that waited are answered."""
        if (mark := _BY_COMPLETION.get(error)) is not None:
            self.reached(mark)

    def on_divergent_copied(self, effects: Effects) -> None:
        if not effects:
            self.reached("truncation.called.off")

    def on_commit(self, broker: BrokerNode, replica: Replica) -> None:
        state = replica.state
        if not isinstance(replica.role, Leader) or state is None:
            return
        if len(state.isr) == 1:
            self.reached("commit.alone")
        elif len(state.isr) == state.min_insync_replicas < len(state.replicas):
            self.reached("commit.at.minimum.isr")
        if len(replica.maximal_isr) > len(state.isr):
            self.reached("commit.with.a.promise.pending")
        if replica.high_watermark <= replica.role.in_sync.epoch_start_offset:
            self.reached("commit.of.an.earlier.epoch's.records")
        if not broker.lease.is_held(broker.now_ms):
            self.reached("commit.without.lease")

    # --- brokers and clients: producing -----------------------------------------------------------------

    def on_produced(self, replica: Replica, result: AppendResult, log_end_before: int) -> None:
        if result.error is ErrorCode.NOT_ENOUGH_REPLICAS:
            self.reached("produce.refused.below.minimum")
        elif result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leads = isinstance(replica.role, Leader)
            self.reached("produce.refused.without.lease" if leads else "produce.refused.by.follower")
        elif result.error is ErrorCode.NONE and result.base_offset < log_end_before:
            self.reached("duplicate.waits.for.commit" if result.is_waiting else "duplicate.answered.from.log")

    def on_asked(self, sending: object, leader: int) -> None:
        """A client sends a batch to this leader, for the first time or again."""
        first, _ = self._asked.get(sending, (leader, False))
        self._asked[sending] = (first, first != leader)

    def on_acked(self, sending: object, *, lost: bool) -> None:
        """lost: an earlier attempt had no answer."""
        _, moved = self._asked.pop(sending, (0, False))
        if moved:
            self.reached("retry.acknowledged.by.another.leader")
        if lost:
            self.reached("acknowledged.after.a.lost.answer")
