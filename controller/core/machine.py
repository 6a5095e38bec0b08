"""One cluster's controller: every decision, one event at a time.

`step` turns an event into records to persist, effects to carry out and a reply to release, in that order. It
replays its own records onto the machine's image before it returns, so the next event is judged by their
outcome although they are not durable yet; if they never become so, the whole machine is dropped and built
again from what is. The machine draws nothing: time and identifiers come with the events, and the same events
give the same records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from controller.core.acls import alter_acls
from controller.core.alarms import (
    PROBLEM_ALARMS,
    AlarmBook,
    ReplicaVerdict,
    explain_replicas,
    replica_alarm,
)
from controller.core.configs import is_leader_rebalance_enabled
from controller.core.coordinators import (
    CoordinatorSessions,
    admit_coordinators,
    maintain_coordinators,
    remove_coordinator,
)
from controller.core.deletions import Deletions, delete_topic
from controller.core.draft import Draft, actor_of
from controller.core.effects import Alarm, AlarmCode, AlarmKey, Effect
from controller.core.election import (
    begin_anew,
    can_lead_preferred,
    elect_preferred,
    elect_told,
    eligible_ids,
    hand_over_demoted,
    repair,
    vacate_seat,
)
from controller.core.events import (
    AddPartitions,
    AdmitBrokers,
    AdmitCoordinators,
    AllocateProducerIds,
    AlterAcls,
    AlterQuotas,
    AlterReassignments,
    AlterUsers,
    AppliedReply,
    BringBackTopics,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    BrokersMaintained,
    ConfigureBrokers,
    ConfigureCluster,
    ConfigureGroup,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    DescribeBroker,
    ElectPreferred,
    ElectPreferredLeaders,
    ElectUnclean,
    Event,
    FinalizeUpgrade,
    Heartbeat,
    MaintainBrokers,
    MaintainCoordinators,
    NameWriter,
    Process,
    PurgeTopic,
    RecoverMetadata,
    Refusal,
    RefusalCode,
    RegisterMember,
    RemoveMember,
    Reply,
    Report,
    RestoreTopic,
    Tick,
)
from controller.core.floor import Floors
from controller.core.group_configs import configure_group
from controller.core.image import ClusterImage, check_member
from controller.core.in_force import Awaited, concerns_coordinators, may_forbid
from controller.core.isr import advance, on_proposal
from controller.core.kept_topics import expire_kept, purge_topic, restore_topic
from controller.core.loss import LogEnds, LossPreview, preview_loss
from controller.core.maintenance import configure_brokers, describe_broker, maintain_brokers
from controller.core.minimum import follow_minimum
from controller.core.operators import (
    admit_brokers,
    elect_by_operator,
    elect_preferred_leaders,
    remove_broker,
)
from controller.core.options import ControllerOptions
from controller.core.quotas import alter_quotas
from controller.core.reassignment import alter_reassignments, follow_up, resume
from controller.core.reassignment_progress import (
    AdvanceBook,
    ReassignmentProgress,
    behind_throttle,
    reassignment_progress,
)
from controller.core.records import (
    Cause,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
)
from controller.core.recovery import HeardBook, recover
from controller.core.sessions import Sessions
from controller.core.set_aside import SetAsideBook, bring_back
from controller.core.settings_table import INT64_MAX
from controller.core.shards import missing_topics, name_writer
from controller.core.topic_changes import add_partitions, announce_added, configure_topic
from controller.core.topics import (
    configure_cluster,
    create_coordinator_topic,
    create_topic,
    remove_orphans,
)
from controller.core.transaction_watch import Hanging
from controller.core.upgrade import finalize, watch_pending
from controller.core.users import alter_users
from controller.core.ways_out import QuarantinedReplicas, way_out_of_quarantine, way_out_without_leader
from controller.core.witnesses import HINT, TermStart, evidence_in, evidence_in_rows, reply_of_halted
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import (
    LagReport,
    LagReportResponse,
    PartitionLag,
    ProblemCode,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.contract.updates import AHEAD, ApplyFailure, ProducerIdsRequest, ProducerIdsResponse
from springtide.levels import LevelRange

#: Partitions whose new replicas are confirmed per tick; the rest follows at the next, after so long.
CONFIRMATIONS_MAX = 2_000
CONFIRM_REST_MS = 100


class Step(NamedTuple):
    """The outcome of one event. records: to be persisted in this order; already replayed on the machine's
    image. effects: to be carried out after that. reply: to be released after that (None for Tick). awaited:
    what an operator's answer waits for besides (in_force.py); None: nothing."""

    records: tuple[Record, ...]
    effects: tuple[Effect, ...]
    reply: Reply | None
    awaited: Awaited | None = None


class ClusterMachine:
    """Every decision about one cluster, for the life of one controller epoch.

    image: the speculative image; the machine owns it. lags: the latest report of each partition's leader.
    terms: those that wrote the image's rows, ascending, the present one last.
    set_aside: what brokers have in quarantine.
    went_back: the evidence that ZooKeeper lost some of them; the machine decides nothing from then on, and
        only a new one, under another term, may.
    The first step, on any event, also finishes what a predecessor left undone: submit a Tick at once.
    """

    def __init__(
        self,
        image: ClusterImage,
        *,
        controller_epoch: ControllerEpoch,
        options: ControllerOptions,
        now_ms: int,
        terms: tuple[TermStart, ...] = (),
    ) -> None:
        self.image = image
        self.terms = terms or (TermStart(controller_epoch=controller_epoch),)
        self.went_back: str | None = None
        self.set_aside = SetAsideBook()
        self._heard = HeardBook()
        self.controller_epoch = controller_epoch
        self.options = options
        self.lags: dict[PartitionKey, PartitionLag] = {}
        self._advances = AdvanceBook()
        self._log_ends = LogEnds()
        self._floors = Floors(self._log_ends)
        self._quarantined = QuarantinedReplicas()
        self._alarms = AlarmBook(alarms_max=options.alarms_max)
        self._sessions = Sessions(
            image, self._alarms, options=options, controller_epoch=controller_epoch, now_ms=now_ms
        )
        self._coordinators = CoordinatorSessions(
            image, self._alarms, options=options, controller_epoch=controller_epoch, now_ms=now_ms
        )
        self._deletions = Deletions(options)
        self._has_taken_over = False
        #: Where something was forbidden last. What a predecessor forbade lies before the start.
        self._forbidden_at = image.sequence
        self._confirm_at_ms: int | None = None
        self._preferred_at_ms: int | None = None
        self._preferred_since_ms: dict[PartitionKey, int] = {}

    def step(self, event: Event, now_ms: int) -> Step:
        is_watched = may_forbid(event)
        draft = Draft(
            self.image,
            wall_ms=event.wall_ms,
            floors=self._floors,
            is_watched=is_watched,
            full_disks=self._sessions.full_disks,
        )
        if self.went_back is None:
            self.went_back = self.evidence(event)
            if self.went_back is not None:
                draft.effects.append(_went_back_alarm(self.went_back))
        if self.went_back is not None:
            self._heard.note(self.image, event, now_ms)
            if isinstance(event, RecoverMetadata):
                recovered = recover(draft, self._heard, event, now_ms)
                return Step(tuple(draft.records), tuple(draft.effects), recovered)
            reply = reply_of_halted(event, evidence=self.went_back, controller_epoch=self.controller_epoch)
            return Step((), tuple(draft.effects), reply)
        if not self._has_taken_over:
            self._take_over(draft)
        reply = self._dispatch(draft, event, now_ms)
        if isinstance(event, Report | Heartbeat | BrokerApplied):
            self._elect_told(draft, event)
        follow_up(draft, draft.records)
        if self.image.ending:
            self._finish_deletions(draft, now_ms)
        self._coordinators.follow_up(draft)
        self._alarms.refresh(draft, draft.records)
        self._schedule(draft.records, now_ms)
        awaited = self._awaited(draft, event, reply, now_ms) if is_watched else None
        return Step(tuple(draft.records), tuple(draft.effects), reply, awaited)

    def _awaited(self, draft: Draft, event: Event, reply: Reply | None, now_ms: int) -> Awaited | None:
        if draft.forbids:
            self._forbidden_at = self.image.sequence
        if isinstance(reply, Refusal) or getattr(event, "dry_run", False):
            return None
        if draft.records and not draft.forbids:
            return None
        if concerns_coordinators(event):
            self._coordinators.probe_fenced(draft, now_ms)
        return Awaited(self._forbidden_at, concerns_coordinators(event))

    def not_in_force(self, awaited: Awaited, now_ms: int) -> tuple[int, ...]:
        """Return the brokers and coordinators that may still act by the rule before the change; if there is
        none, it is in force."""
        late = self._sessions.not_applied(awaited.sequence, now_ms)
        if awaited.by_coordinators:
            late += self._coordinators.not_applied(awaited.sequence, now_ms)
        return tuple(late)

    def not_serving(self, topic_ids: Iterable[str], sequence: int) -> tuple[int, ...]:
        """Return the live brokers and coordinators that would still answer a client that these topics, or
        some of their partitions, are not there or have no leader. sequence: of the change that made them.

        A live broker must have applied it and have told of each log that it is to make, as leader or as
        follower: a follower whose log is missing names no leader. One that is fenced holds nothing up."""
        image, created = self.image, self._sessions.created
        late = {*self._sessions.behind(sequence), *self._coordinators.behind(sequence)}
        for topic_id in topic_ids:
            for state in image.partitions_of(topic_id) if topic_id in image.topics else ():
                late.update(
                    broker_id
                    for broker_id in state.new_replicas
                    if (broker := image.brokers.get(broker_id)) is not None
                    and not broker.fenced
                    and (topic_id, state.partition) not in created.get(broker_id, ())
                )
        return tuple(sorted(late))

    def forgive_silence(self, deaf_ms: int, now_ms: int) -> None:
        """Count the silence of the last `deaf_ms` against no broker: since the last step, heartbeats were not
        counted for so long. Call it before the step that would judge by it."""
        if deaf_ms > 0:
            self._sessions.forgive_silence(deaf_ms, now_ms)
            self._coordinators.forgive_silence(deaf_ms, now_ms)

    def evidence(self, event: Event) -> str | None:
        """Return why the event shows that ZooKeeper went back, or None. Ask before `step`, which halts by it:
        what is evidence under a standing term is only news under a term that has ended."""
        in_rows = None if self._has_taken_over else evidence_in_rows(self.terms)
        return in_rows or evidence_in(self.image, self.terms, event)

    def _dispatch(self, draft: Draft, event: Event, now_ms: int) -> Reply | None:
        match event:
            case Heartbeat():
                return self._sessions_of(event.kind).on_heartbeat(
                    draft, event.request, received_ms=event.received_ms, now_ms=now_ms
                )
            case BrokerApplied():
                return self._on_applied(draft, event, now_ms)
            case Report():
                return self._on_report(draft, event.request, now_ms)
            case RegisterMember():
                return self._sessions_of(event.kind).on_register(draft, event.request, now_ms)
            case NameWriter():
                return name_writer(draft, event.request, controller_epoch=self.controller_epoch)
            case BrokerProvenDead():
                sessions = self._sessions_of(self._kind_of(event.broker_id))
                return BrokerFenceReply(
                    fenced=sessions.on_proven_dead(draft, event.broker_id, event.broker_epoch)
                )
            case Tick():
                self._on_tick(draft, event, now_ms)
                return None
            case AllocateProducerIds():
                return self._on_allocate_producer_ids(draft, event.request)
            case AdmitBrokers():
                return admit_brokers(draft, self._sessions, event)
            case RemoveMember(kind=MemberKind.COORDINATOR):
                return remove_coordinator(draft, self._coordinators, event, now_ms)
            case RemoveMember():
                return remove_broker(draft, self._sessions, event, now_ms)
            case CreateTopic():
                return create_topic(draft, event, self.options)
            case AddPartitions():
                return add_partitions(draft, event, self.options)
            case ConfigureTopic():
                return configure_topic(draft, event)
            case DeleteTopic():
                return delete_topic(draft, event, self.lags)
            case RestoreTopic():
                return restore_topic(draft, event)
            case PurgeTopic():
                return purge_topic(draft, event)
            case ConfigureCluster():
                return configure_cluster(draft, event)
            case ElectPreferred() | ElectUnclean():
                loss = self.loss_preview((event.topic_id, event.partition))
                return elect_by_operator(draft, event, loss)
            case ElectPreferredLeaders():
                return elect_preferred_leaders(draft, event)
            case MaintainBrokers():
                maintained = maintain_brokers(draft, event)
                if isinstance(maintained, BrokersMaintained) and not event.dry_run:
                    self._sessions.on_maintained(draft, [b.broker_id for b in maintained.brokers])
                return maintained
            case DescribeBroker():
                return describe_broker(draft, event)
            case ConfigureBrokers():
                return configure_brokers(draft, event)
            case ConfigureGroup():
                return configure_group(draft, event)
            case AdmitCoordinators():
                return admit_coordinators(draft, self._coordinators, event)
            case MaintainCoordinators():
                return maintain_coordinators(draft, event)
            case RecoverMetadata():
                return Refusal(
                    code=RefusalCode.RECOVERY_NOT_NEEDED, detail="nothing shows that ZooKeeper lost anything"
                )
            case FinalizeUpgrade():
                return finalize(draft, event, self.processes(now_ms))
            case BringBackTopics():
                return bring_back(draft, self.set_aside, event)
            case AlterReassignments():
                return alter_reassignments(draft, event, self.options)
            case AlterAcls():
                return alter_acls(draft, event)
            case AlterUsers():
                return alter_users(draft, event)
            case AlterQuotas():
                return alter_quotas(draft, event)
            case _:
                assert_never(event)

    def _take_over(self, draft: Draft) -> None:
        self._has_taken_over = True
        remove_orphans(draft)
        announce_added(draft)
        repair(draft)
        resume(draft)
        follow_minimum(draft, self.image.topics.values(), draft.change(Cause.TAKEOVER_REPAIR))
        self._forbidden_at = self.image.sequence
        self._sessions.on_takeover(draft)
        self._alarms.refresh_all(draft)

    def _finish_deletions(self, draft: Draft, now_ms: int) -> None:
        if self._deletions.follow_up(draft, self._sessions, now_ms):
            self.lags = {key: lag for key, lag in self.lags.items() if key in self.image.partitions}
            self._floors.forget(self.image)
            self._quarantined.forget(self.image)

    def _elect_told(self, draft: Draft, event: Report | Heartbeat | BrokerApplied) -> None:
        keys: Iterable[PartitionKey]
        if isinstance(event, Report):
            keys = [(log_end.topic_id, log_end.partition) for log_end in event.request.log_ends]
        else:
            keys = self._log_ends.keys if draft.records else ()
        elect_told(draft, keys, self._log_ends)

    def _kind_of(self, member_id: int) -> MemberKind:
        is_coordinator = member_id in self.image.coordinators  # no broker has its id
        return MemberKind.COORDINATOR if is_coordinator else MemberKind.BROKER

    def _sessions_of(self, kind: MemberKind) -> Sessions | CoordinatorSessions:
        return self._coordinators if kind is MemberKind.COORDINATOR else self._sessions

    # --- what brokers say -------------------------------------------------------------------------------

    def _on_applied(self, draft: Draft, event: BrokerApplied, now_ms: int) -> AppliedReply:
        sessions = self._sessions_of(event.kind)
        error = sessions.check(event.broker_id, event.broker_epoch)
        if error is not ControllerError.NONE:
            return AppliedReply(error=error)
        if sessions.is_outdated(event.broker_id, event.heartbeat_count):
            # It learns nothing, least of all that it leads, before it has learnt that it went back (3.10, a
            # host that goes back).
            return AppliedReply(error=ControllerError.OUTCOME_UNKNOWN)
        # Failures first: a broker must not regain its seats in the step that learns what it lost.
        for failure in event.failures:
            self._on_apply_failure(draft, event.broker_id, failure)
        sessions.record_applied(
            event.broker_id, controller_epoch=event.controller_epoch, sequence=event.sequence
        )
        sessions.unfence_if_ready(draft, event.broker_id, now_ms)
        return AppliedReply()

    def _on_apply_failure(self, draft: Draft, broker_id: int, failure: ApplyFailure) -> None:
        key = (failure.topic_id, failure.partition)
        state = self.image.partitions.get(key)
        # Only about the state as it stands: a late copy must not take the seat of a replica that has
        # recovered since. A broker that still fails says so again, about the newer state. One that holds what
        # stands there already, because the answer to its proposal came before the batch, is in no trouble.
        if failure.code != AHEAD and state is not None and state.partition_epoch == failure.partition_epoch:
            self._on_replica_trouble(draft, broker_id, key, ProblemCode(failure.code), failure.detail)

    def _on_report(self, draft: Draft, report: LagReport, now_ms: int) -> LagReportResponse:
        error = self._sessions.check(report.broker_id, report.broker_epoch)
        if error is not ControllerError.NONE:
            return LagReportResponse(error=error, controller_epoch=self.controller_epoch)
        for problem in report.problems:
            self._on_problem(draft, report.broker_id, problem)
        if report.set_aside is not None:
            self.set_aside.note(draft, self._alarms, report.broker_id, report.set_aside)
        self._sessions.record_created(self.image, report.broker_id, report.created)
        for log_end in report.log_ends:
            self._on_log_end(draft, report, log_end)
        for lag in report.lags:
            key = (lag.topic_id, lag.partition)
            state = self.image.partitions.get(key)
            if state and (state.leader, state.leader_epoch) == (report.broker_id, lag.leader_epoch):
                self.lags[key] = lag
                self._floors.note_lag(state, lag)
                self._coordinators.transactions.on_report(draft, lag)
                if key in self.image.reassigning:
                    self._advances.note(self.image, lag, now_ms)
                    self._watch_throttles(draft, lag)
        return LagReportResponse(
            controller_epoch=self.controller_epoch,
            results=tuple(on_proposal(draft, report.broker_id, proposal) for proposal in report.proposals),
        )

    def _on_log_end(self, draft: Draft, report: LagReport, log_end: ReplicaLogEnd) -> None:
        """Note how far a log goes. A replica that lacks what was committed loses its seat before the next
        election."""
        key = (log_end.topic_id, log_end.partition)
        if not self._log_ends.note(self.image, report.broker_id, report.broker_epoch, log_end):
            return
        state = self.image.partitions[key]
        self._floors.note_log_end(state, log_end)
        for broker_id, log_end_offset in self._floors.short(self.image, state).items():
            detail = (
                f"{state.topic}-{state.partition} on broker {broker_id} ends at {log_end_offset}, but "
                f"{self._floors.of(state)} is known to be committed: it may not lead"
            )
            self._alarms.raise_alarm(draft, replica_alarm(AlarmCode.LOG_SHORT, key, broker_id), detail)
            change = draft.change(Cause.LOG_SHORT, actor=actor_of(broker_id), reason=detail)
            vacate_seat(draft, key, broker_id, change)

    def _watch_throttles(self, draft: Draft, lag: PartitionLag) -> None:
        key = (lag.topic_id, lag.partition)
        found = behind_throttle(self.image, self._advances, lag, behind_ms=self.options.throttle_behind_ms)
        for broker_id, rate in found.items():
            alarm = replica_alarm(AlarmCode.THROTTLED_BELOW_PRODUCE_RATE, key, broker_id)
            if rate is None:
                self._alarms.clear_alarm(draft, alarm)
            else:
                topic = self.image.partitions[key].topic
                self._alarms.raise_alarm(
                    draft,
                    alarm,
                    f"{topic}-{lag.partition}: broker {broker_id} may copy {rate} bytes/s and falls behind "
                    "what is produced: raise the rate, or the move never ends",
                )

    def _on_problem(self, draft: Draft, broker_id: int, problem: ReplicaProblem) -> None:
        key = (problem.topic_id, problem.partition)
        state = self.image.partitions.get(key)
        if state is None or problem.leader_epoch not in (-1, state.leader_epoch):
            return
        if problem.broker_id not in (-1, broker_id):
            if broker_id != state.leader:
                return
            broker_id = problem.broker_id  # a leader tells of its follower
        if problem.code == ProblemCode.DIVERGENT:
            draft.note(
                "replica_divergent",
                f"broker {broker_id} wrote aside what it cut from {state.topic}-{state.partition}: "
                f"{problem.detail[:500]}",
                topic=state.topic,
                partition=state.partition,
                broker=broker_id,
                first_offset=problem.first_offset,
                next_offset=problem.next_offset,
                high_watermark=problem.high_watermark,
            )
            return
        if problem.code == ProblemCode.BATCH_TAKEN:
            self._alarms.clear_alarm(draft, replica_alarm(AlarmCode.BATCH_REFUSED, key, broker_id))
            return
        if problem.code == ProblemCode.MENDED:
            self._alarms.clear_alarm(draft, replica_alarm(AlarmCode.REPLICA_ROTTEN, key, broker_id))
            draft.note(
                "replica_mended", f"{state.topic}-{state.partition} on broker {broker_id} is whole again"
            )
            return
        detail = problem.detail
        if problem.code == ProblemCode.QUARANTINED and broker_id in state.replicas:
            self._quarantined.note(state, broker_id, problem)
            detail = (
                f"{detail[:300]}; `springtide partitions preview-loss {state.topic} {state.partition}` names "
                "the way out"
            )
        self._on_replica_trouble(draft, broker_id, key, problem.code, detail)

    def _on_replica_trouble(
        self, draft: Draft, broker_id: int, key: PartitionKey, code: ProblemCode, detail: str
    ) -> None:
        """A replica whose log is gone leaves ISR and ELR and starts again as a learner: its next state has
        it outside both, where it may create an empty log (3.8, how a broker returns). One in quarantine keeps
        its seat if it has one: it refused to lose records, so its log may be the better one; that is for a
        person to judge. A rotten one gives its seat up, to be mended, as long as another may lead (5.7,
        scrubbing); where it has none, its leader must not ask for it by what it said before."""
        state = self.image.partitions[key]
        topic = self.image.topics.get(key[0])
        if topic is None or topic.deleting or broker_id not in state.replicas:
            return
        detail = detail[:500]
        alarm = PROBLEM_ALARMS.get(code, AlarmCode.REPLICA_PROBLEM)
        if alarm is AlarmCode.LOG_SHORT and broker_id in state.isr:
            return  # told late: what was missing has been copied since
        name = f"{state.topic}-{state.partition}"
        self._alarms.raise_alarm(
            draft,
            replica_alarm(alarm, key, broker_id),
            f"{name} on broker {broker_id}: {code}: {detail}",
        )
        if alarm in (AlarmCode.LOG_MISSING, AlarmCode.STORAGE_ERROR):
            cause = Cause.LOG_MISSING if alarm is AlarmCode.LOG_MISSING else Cause.STORAGE_ERROR
            change = draft.change(cause, actor=actor_of(broker_id), reason=detail or None)
            vacate_seat(draft, key, broker_id, change, has_log=False)
        elif alarm is AlarmCode.REPLICA_ROTTEN:
            change = draft.change(Cause.REPLICA_ROTTEN, actor=actor_of(broker_id), reason=detail or None)
            if broker_id in (state.leader, *state.isr, *state.elr):
                vacate_seat(draft, key, broker_id, change, only_if_led=True)
            elif state.leader != NO_LEADER:
                begin_anew(draft, key, change)  # the leader remembers how far it was, as vacate_seat says
        elif code == ProblemCode.WENT_BACK:
            change = draft.change(Cause.LOG_MISSING, actor=actor_of(broker_id), reason=detail or None)
            if not vacate_seat(draft, key, broker_id, change):
                begin_anew(draft, key, change)  # it may have been promised a seat

    def _on_allocate_producer_ids(self, draft: Draft, request: ProducerIdsRequest) -> ProducerIdsResponse:
        actor = actor_of(request.broker_id, self._kind_of(request.broker_id))
        error = check_member(self.image.member(request.broker_id), request.broker_epoch)
        first = self.image.next_producer_id
        count = min(self.options.producer_id_block_size, INT64_MAX - first)
        if error is ControllerError.NONE and count < 1:
            error = ControllerError.INVALID_REQUEST  # 9e18 ids later
        if error is not ControllerError.NONE:
            return ProducerIdsResponse(error=error, controller_epoch=self.controller_epoch)
        draft.write(
            ProducerIdsRecord(
                next_producer_id=first + count,
                change=draft.change(Cause.PRODUCER_IDS_ALLOCATED, actor=actor),
            )
        )
        return ProducerIdsResponse(
            controller_epoch=self.controller_epoch, first_producer_id=first, count=count
        )

    @property
    def missing_topics(self) -> list[str]:
        """Return the coordinator topics that the next tick with a fresh id creates, one a tick."""
        is_wanted = self._sessions.wants_transactions or self._coordinators.wants_transactions
        return missing_topics(self.image, wants_transactions=is_wanted)

    # --- time -------------------------------------------------------------------------------------------

    def _on_tick(self, draft: Draft, event: Tick, now_ms: int) -> None:
        self._alarms.on_clocks(draft, None, event.clock_leap)
        self._alarms.on_webhooks(draft, event.webhooks_fail)
        if event.expired_ms is not None and self.image.kept:
            expire_kept(draft, event.expired_ms)
        self._sessions.on_tick(draft, now_ms)
        self._coordinators.on_tick(draft, now_ms)
        if event.fresh_id is not None:
            for topic in self.missing_topics[:1]:  # the next with the next tick
                create_coordinator_topic(draft, topic, event.fresh_id, self.options)
        watch_pending(draft, self._alarms, self._levels)
        if self._confirm_at_ms is not None and now_ms >= self._confirm_at_ms:
            self._confirm_at_ms = None
            self._sessions.has_news = False
            self._confirm_new_replicas(draft, now_ms)
        if self._preferred_at_ms is not None and now_ms >= self._preferred_at_ms:
            self._preferred_at_ms = None
            for broker_id in list(self.image.demoted):
                hand_over_demoted(draft, broker_id, draft.change(Cause.LEADER_DEMOTED))
            if self._is_rebalancing:
                self._return_to_preferred(draft, now_ms)

    def _confirm_new_replicas(self, draft: Draft, now_ms: int) -> None:
        """Clear `new_replicas` of those that have told of their log: one that is missing later counts as
        lost, not as new. It changes what brokers may do, so it takes a partition epoch like
        any other change (I6, partition epochs order everything); to be cheap it waits until every live one
        has confirmed, which makes one record in a partition's life, and members that join an ISR sooner are
        cleared in that record (isr.py)."""
        eligible = eligible_ids(self.image)
        created = self._sessions.created
        change = draft.change(Cause.REPLICAS_CREATED)
        confirmed: list[PartitionState] = []
        for key in self.image.unconfirmed_new:
            state = self.image.partitions[key]
            live = [b for b in state.new_replicas if b in eligible]
            if not live or any(key not in created.get(b, ()) for b in live):
                continue
            after = advance(state, isr=state.isr, leader=state.leader, confirmed=live)
            assert after is not None
            confirmed.append(after)
            if len(confirmed) >= CONFIRMATIONS_MAX:
                self._sessions.has_news = True  # for the rest
                self._confirm_at_ms = now_ms + CONFIRM_REST_MS
                break
        for after in confirmed:
            draft.write_partition(after, change)
        if not self._sessions.has_news:
            self._sessions.forget_confirmed(self.image)

    def _return_to_preferred(self, draft: Draft, now_ms: int) -> None:
        """3.6 (preferred leaders): a preferred replica that has been in sync and eligible for the delay leads
        again, a bounded number per round."""
        since = self._preferred_since_ms
        image = self.image
        ready = eligible_ids(image)  # Most of the many partitions that a dead broker led wait for it alone.
        self._preferred_since_ms = {
            key: since.get(key, now_ms)
            for key in image.not_preferred
            if image.partitions[key].replicas[0] in ready and can_lead_preferred(image, image.partitions[key])
        }
        moves = 0
        change = draft.change(Cause.PREFERRED_LEADER_ELECTED)
        for key, since_ms in self._preferred_since_ms.items():
            if moves >= self.options.preferred_leader_moves_max:
                return
            ripe = now_ms - since_ms >= self.options.preferred_leader_delay_ms
            if ripe and self._is_preferred_near(key):
                elect_preferred(draft, key, change)
                moves += 1

    def _is_preferred_near(self, key: PartitionKey) -> bool:
        """Return whether the preferred leader is near, by the leader's last report in this leader epoch;
        True without a report: being in sync must do."""
        state = self.image.partitions[key]
        lag = self.lags.get(key)
        if lag is None or lag.leader_epoch != state.leader_epoch:
            return True
        return all(
            follower.lag_records <= self.options.preferred_leader_lag_records_max
            for follower in lag.followers
            if follower.broker_id == state.preferred_leader
        )

    def _schedule(self, records: Iterable[Record], now_ms: int) -> None:
        """Set the rounds that have become necessary: confirmation once logs were told of, or those that it
        waited for need not be waited for any more, so that one round serves many; the return of leaders while
        any is away from its place."""
        if self.image.unconfirmed_new and any(map(_may_end_a_wait, records)):
            self._sessions.has_news = True
        if self._confirm_at_ms is None and self._sessions.has_news and self.image.unconfirmed_new:
            self._confirm_at_ms = now_ms + self.options.new_replica_confirm_ms
        is_wanted = self.image.not_preferred and self._is_rebalancing
        if self._preferred_at_ms is None and (is_wanted or self._has_demoted_leader):
            self._preferred_at_ms = now_ms + self.options.preferred_leader_interval_ms

    @property
    def _has_demoted_leader(self) -> bool:
        return any(self.image.leader_of.get(broker_id) for broker_id in self.image.demoted)

    @property
    def _is_rebalancing(self) -> bool:
        return self.options.auto_leader_rebalance and is_leader_rebalance_enabled(self.image.configs)

    def next_deadline_ms(self) -> int | None:
        """Return when to submit the next Tick, on the clock of `now_ms`. May be early, never late."""
        if self.went_back is not None:
            return None
        deadlines = (
            self._sessions.next_deadline_ms(),
            self._coordinators.next_deadline_ms(),
            self._deletions.next_deadline_ms(),
            self._confirm_at_ms,
            self._preferred_at_ms,
        )
        return min((d for d in deadlines if d is not None), default=None)

    # --- for readers ------------------------------------------------------------------------------------

    def alarms(self) -> tuple[Alarm, ...]:
        """Return everything an operator should know now, most severe first."""
        halted = () if self.went_back is None else (_went_back_alarm(self.went_back),)
        return halted + self._alarms.alarms(self.image)

    def first_alarms(self, each_max: int) -> tuple[Alarm, ...]:
        """Return the first few of `alarms` of each code, in no order."""
        halted = () if self.went_back is None else (_went_back_alarm(self.went_back),)
        return halted + self._alarms.first_alarms(self.image, each_max)

    def alarm_counts(self) -> dict[AlarmCode, int]:
        """Return how many of `alarms` there are of each code."""
        counts = self._alarms.counts()
        counts[AlarmCode.METADATA_WENT_BACK] += self.went_back is not None
        return counts

    def explain(self, key: PartitionKey) -> tuple[ReplicaVerdict, ...]:
        """Return why a partition has no leader, replica by replica; empty if it has one, or is not known."""
        state = self.image.partitions.get(key)
        return () if state is None else explain_replicas(self.image, state)

    def loss_preview(self, key: PartitionKey) -> LossPreview | None:
        """Return what each choice of a leader would lose; None if the partition has one, or is not known."""
        state = self.image.partitions.get(key)
        if state is None:
            return None
        told = self._log_ends.of(self.image, state)
        return preview_loss(self.image, state, told, self.lags.get(key), floor=self._floors.of(state))

    def way_out(self, key: PartitionKey, preview: LossPreview | None) -> str | None:
        """Return what a person can do for records that no leader has; None if a leader has all, as far as is
        known, or the partition is not known. preview: what `loss_preview` has just returned."""
        state = self.image.partitions.get(key)
        if state is None:
            return None
        if preview is None:
            return way_out_of_quarantine(state, self._quarantined.of(state), self.lags.get(key))
        return way_out_without_leader(self.image, state, preview, self.set_aside.told)

    def hanging_transactions(self) -> list[Hanging]:
        return self._coordinators.transactions.hanging()

    def processes(self, now_ms: int) -> tuple[Process, ...]:
        """Return the brokers' and coordinators' processes."""
        return (*self._sessions.processes(now_ms), *self._coordinators.processes(now_ms))

    def _levels(self) -> dict[int, LevelRange | None]:
        return {
            member_id: self._sessions_of(kind).levels_of(member_id)
            for kind in MemberKind
            for member_id in self.image.members_of(kind)
        }

    def reassignments(self, now_ms: int) -> tuple[ReassignmentProgress, ...]:
        """Return every running reassignment: how far it is, and what holds it up."""
        return tuple(
            reassignment_progress(
                self.image,
                self.lags,
                self._advances,
                key,
                now_ms=now_ms,
                stall_ms=self.options.reassignment_stall_ms,
                behind_ms=self.options.throttle_behind_ms,
            )
            for key in sorted(self.image.reassigning)
        )


def _may_end_a_wait(record: Record) -> bool:
    """Return whether the record changes who must tell of a log before all are confirmed: with a broker's
    standing, and with the partition: a new replica that joins an ISR has nothing left to tell."""
    if isinstance(record, PartitionRecord):
        return bool(record.state.new_replicas) and record.state.partition_epoch > 0
    return isinstance(record, MemberRecord) and record.registration.kind is MemberKind.BROKER


def _went_back_alarm(evidence: str) -> Alarm:
    detail = f"metadata went back: {evidence}. Nothing is decided for this cluster; {HINT}"
    return Alarm(key=AlarmKey(code=AlarmCode.METADATA_WENT_BACK), detail=detail)
