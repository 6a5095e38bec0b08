"""One simulated controller: the real machine between a model of ZooKeeper and a lossy network.

The driver here has the production driver's shape: drain what has queued, step each event, persist all
records in one multi that checks the controller epoch, and only then replay them onto the published image,
answer, and let polls see them. A write whose answer was lost is read back before anything else is decided
(S17, a write's answer was lost). A controller that can't tell, or is told that its epoch is over, throws its
machine away and starts from ZooKeeper alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from controller.core.effects import ProbeBroker
from controller.core.events import (
    BrokerApplied,
    BrokerProvenDead,
    Event,
    Heartbeat,
    MetadataRecovered,
    NameWriter,
    RegisterMember,
    Report,
    Tick,
)
from controller.core.image import ClusterImage
from controller.core.in_force import Awaited
from controller.core.machine import ClusterMachine, Step
from controller.core.names import name_of
from controller.core.options import ControllerOptions
from controller.core.records import (
    AclsRecord,
    Cause,
    ClusterRecord,
    GroupRecord,
    LevelRecord,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    SecurityRecord,
    TopicRecord,
    UpgradeRecord,
    UserRecord,
)
from controller.core.witnesses import TermStart
from controller.shell.levels import UnsupportedLevel, check_level
from controller.shell.loop_watch import LoopWatch
from controller.shell.rows import TERMS_MAX
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.partition_state import PartitionState, Shard
from springtide.contract.session import (
    WORKER_ID_STEP,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from springtide.contract.updates import NameWriterRequest, NameWriterResponse, PollRequest, UpdateBatch
from tests.kit.controller.images import build_update
from tests.simulation.events import Events, Timer
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.violation import Violation
from tests.simulation.zookeeper import ModelZooKeeper, Outcome

if TYPE_CHECKING:
    from tests.simulation.sightings import Sightings

CLUSTER = "prod"
#: Below are the ids of brokers, and from a million on those of their further workers.
FIRST_COORDINATOR_ID = 1_001
#: How often a node shows its watch that it runs.
BEAT_MS = 200
#: The pause between two looks whether a change is in force.
IN_FORCE_LOOK_MS = 5
_Removal = RemoveMemberRecord | RemoveTopicRecord
Replies = list[tuple[Callable[[Any], None], Any]]


def is_coordinator(member_id: int) -> bool:
    return FIRST_COORDINATOR_ID <= member_id < WORKER_ID_STEP


def process_name(member_id: int) -> str:
    return f"{'coordinator' if is_coordinator(member_id) else 'broker'}-{member_id}"


def row_key(record: Record) -> str:
    match record:
        case ClusterRecord():
            return "cluster"
        case ProducerIdsRecord():
            return "producer_ids"
        case LevelRecord():
            return "level"
        case UpgradeRecord():
            return "upgrade"
        case MemberRecord(registration=member):
            return f"{member.kind}/{member.member_id}"
        case RemoveMemberRecord():
            return f"{record.kind}/{record.member_id}"
        case TopicRecord():
            return f"topic/{record.state.topic_id}"
        case RemoveTopicRecord():
            return f"topic/{record.topic_id}"
        case PartitionRecord():
            return f"partition/{record.state.topic_id}/{record.state.partition}"
        case AclsRecord() | UserRecord() | QuotasRecord() | GroupRecord():
            return f"security/{type(record).__name__}/{name_of(record)}"
        case _:
            assert_never(record)


def image_from(rows: dict[str, Any]) -> ClusterImage:
    """What a controller that takes over knows: ZooKeeper's rows, nothing else."""
    image = ClusterImage()
    rank = {
        "cluster": 0,
        "level": 1,
        "upgrade": 1,
        "producer_ids": 1,
        "broker": 2,
        "coordinator": 2,
        "security": 2,
        "partition": 3,
        "topic": 4,
    }
    records = [(key, value) for key, value in rows.items() if isinstance(value, Record)]
    for _, record in sorted(records, key=lambda row: (rank[row[0].split("/")[0]], row[0])):
        image.replay(record)
    return image


@dataclass(slots=True)
class Pending:
    """waits: its answer is withheld until what it forbids is in force (2.12, answers)."""

    event: Event
    answer: Callable[[Any], None]
    waits: bool = False


@dataclass(slots=True, eq=False)
class WaitingPoll:
    request: PollRequest
    answer: Callable[[Any], None]
    timer: Timer


@dataclass(eq=False)
class ControllerNode(Process):
    name: str
    events: Events
    network: Network
    zookeeper: ModelZooKeeper
    options: ControllerOptions
    new_topic_id: Callable[[], str]
    on_published: Callable[[ControllerNode, Record], None]
    on_went_back: Callable[[ControllerNode], None]
    on_taken_over: Callable[[ControllerNode], None]
    #: A shard goes to another owner; whether the one before it is alive.
    on_shard_moved: Callable[[Shard, PartitionState, bool], None]
    marks: Sightings
    poll_wait_ms: int = 1_000
    records_per_write: int = 1_000
    is_held: bool = False
    controller_epoch: int = -1
    lineage: str = ""
    terms: tuple[TermStart, ...] = ()
    #: Persisted in the cluster's life, as far as this controller has decided.
    records: int = 0
    machine: ClusterMachine | None = None
    published: ClusterImage = field(default_factory=ClusterImage)
    queue: deque[Pending] = field(default_factory=deque)
    persisting: bool = False
    polls: list[WaitingPoll] = field(default_factory=list)
    write_count: int = 0
    elections: int = 0
    tick_timer: Timer | None = None
    watch: LoopWatch = field(init=False)
    deaf_ms: int = 0
    beat_ms: int = 0
    #: For how long this term has listened: its loop ran, and it had authority.
    listened_ms: int = 0
    #: By broker id and epoch: `listened_ms` when it registered, or its last heartbeat was to be counted.
    heard_at: dict[tuple[int, int], int] = field(default_factory=dict)
    #: The members, by id and epoch, of which this term has heard that they want to stop.
    leaving: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(self.name, self.events, self.network)
        self.watch = LoopWatch(lambda: self.clock.mono_ms, is_heard=self.is_authoritative)

    # --- life -------------------------------------------------------------------------------------------

    @property
    def session(self) -> str:
        return f"{self.name}#{self.life}"

    def start(self) -> None:
        self.begin_life()
        self.zookeeper.connect(self.session)
        self.network.listen(self.name, self._on_request)
        self._keep_session(self.life)
        self._beat()

    def crash(self) -> None:
        """SIGKILL: nothing is said, nothing in memory survives; the session ends when the server says so."""
        self.is_held = False
        self.end_life()
        self._forget()

    def hold(self) -> None:
        """The loop is held by work: as a pause, but for the session, which threads keep alive."""
        self.is_paused = self.is_held = True
        self._ping(self.life)

    def _ping(self, life: int) -> None:
        if self.is_held and self.life == life:
            self.zookeeper.is_alive(self.session)
            pause_ms = self.zookeeper.options.session_timeout_ms / 12
            self.events.after(pause_ms, partial(self._ping, life))

    def resume(self) -> None:
        self.marks.on_controller_resumes(self)
        self.is_held = False
        super().resume()

    def _forget(self) -> None:
        self.machine = None
        self.controller_epoch = -1
        self.queue.clear()
        self.listened_ms = 0
        self.heard_at.clear()
        self.leaving.clear()
        self.persisting = False
        for poll in self.polls:
            poll.timer.cancel()
        self.polls.clear()
        if self.tick_timer is not None:
            self.tick_timer.cancel()
            self.tick_timer = None

    def _keep_session(self, life: int) -> None:
        """Ping ZooKeeper; try to lead when nobody does; learn of an expired session."""
        alive = self.zookeeper.is_alive(self.session)
        if not alive and self.zookeeper.reaches(self.session):
            if self.machine is not None:
                self.events.note(f"{self.name} resigns: session lost")
                self.marks.on_session_lost(self)
            self._forget()
            self.life += 1
            self.zookeeper.connect(self.session)
            self._beat()
        elif alive and self.machine is None and self.zookeeper.nobody_leads():
            self._take_over()
        pause_ms = self.zookeeper.options.session_timeout_ms / 12
        self.events.after(pause_ms, self.guarded(lambda: self._keep_session(self.life)))

    def _may_stand(self) -> bool:
        """Return whether this release can run at the cluster's level, which is the first that it reads."""
        node = self.zookeeper.nodes.get("level")
        if node is None:
            return True
        try:
            check_level(CLUSTER, node.data or msgspec.json.encode(node.value))
        except UnsupportedLevel:
            self.marks.reached("controller.does.not.stand")
            return False
        return True

    def _take_over(self) -> None:
        if not self._may_stand():
            return
        epoch = self.zookeeper.claim_leadership(self.session)
        if epoch is None:
            return
        self.elections += 1
        self.marks.on_takeover(self)
        self.controller_epoch = epoch
        rows = self.zookeeper.read_all()
        self.lineage = f"{self.session}@{self.events.now_ms}"
        self.records, terms = rows.get("head", (0, ()))
        mine = TermStart(controller_epoch=ControllerEpoch(epoch), lineage=self.lineage, records=self.records)
        self.terms = (*terms[1 - TERMS_MAX :], mine)
        self.published = image_from(rows)
        self.deaf_ms = self.watch.deaf_ms()
        image = image_from(rows)
        self.published.records_before = image.records_before = self.records - image.sequence
        self.machine = ClusterMachine(
            image,
            controller_epoch=ControllerEpoch(epoch),
            options=self.options,
            now_ms=self.clock.mono_ms,
            terms=self.terms,
        )
        self.on_taken_over(self)
        self.events.note(f"{self.name} leads, controller epoch {epoch}")
        self._submit_tick()

    # --- driver -----------------------------------------------------------------------------------------

    def submit(self, event: Event, answer: Callable[[Any], None], *, waits: bool = False) -> None:
        self.queue.append(Pending(event, answer, waits))
        self._drain()

    def _answer_in_force(
        self, machine: ClusterMachine, awaited: Awaited, answer: Callable[[Any], None], reply: Any
    ) -> None:
        """Answer once nobody acts by the rule before; never, if another controller leads by then."""
        if self.machine is not machine:
            return
        if machine.not_in_force(awaited, self.clock.mono_ms):
            again = partial(self._answer_in_force, machine, awaited, answer, reply)
            self.after(IN_FORCE_LOOK_MS, again)
        else:
            answer(reply)

    def _submit_tick(self) -> None:
        is_missing = self.machine is not None and self.machine.missing_topics
        fresh_id = self.new_topic_id() if is_missing else None
        tick = Tick(wall_ms=self.clock.wall_ms, fresh_id=fresh_id, expired_ms=int(self.events.now_ms))
        self.submit(tick, lambda _: None)

    def _beat(self) -> None:
        self.watch.beat(0)
        elapsed_ms, self.beat_ms = self.clock.mono_ms - self.beat_ms, self.clock.mono_ms
        if elapsed_ms <= 2 * BEAT_MS and self.is_authoritative():
            self.listened_ms += elapsed_ms
        self.after(BEAT_MS, self._beat)

    def _step(self, machine: ClusterMachine, event: Event) -> Step:
        deaf_ms, self.deaf_ms = self.deaf_ms, self.watch.deaf_ms()
        machine.forgive_silence(self.deaf_ms - deaf_ms, self.clock.mono_ms)
        image = machine.image
        epochs = {broker_id: row.broker_epoch for broker_id, row in image.brokers.items()}
        shards = {key: image.partitions[key].shard for key in image.shards}
        step = machine.step(event, self.clock.mono_ms)
        if isinstance(event, Heartbeat) and event.request.wants_shutdown:
            self.leaving.add((event.request.broker_id, event.request.broker_epoch))
        for record in step.records:
            match record:
                case MemberRecord(registration=member, change=change):
                    if change.cause is Cause.BROKER_FENCED:
                        self._check_silence(member.member_id, epochs[member.member_id])
                    elif change.cause is Cause.COORDINATOR_FENCED and isinstance(event, Tick):
                        self._check_silence(member.member_id, member.epoch)
                    elif change.cause is Cause.COORDINATOR_UNFENCED:
                        self._check_stays(member.member_id, member.epoch)
                    elif change.cause in (Cause.BROKER_REGISTERED, Cause.COORDINATOR_REGISTERED):
                        self.heard_at[member.member_id, member.epoch] = self.listened_ms
                case PartitionRecord(state=state, change=change) if change.cause is Cause.SHARD_ASSIGNED:
                    before = shards.get((state.topic_id, state.partition))
                    assert state.shard is not None
                    if before is not None and before.owner != state.shard.owner:
                        owner = image.coordinators.get(before.owner)
                        self.on_shard_moved(before, state, owner is not None and owner.is_active)
        return step

    def _check_stays(self, coordinator_id: int, coordinator_epoch: int) -> None:
        """A coordinator is trusted again: it must not be about to end, or its shards go to it and are served
        by none."""
        if (coordinator_id, coordinator_epoch) in self.leaving:
            raise Violation("13.5", f"{self.name} trusts {process_name(coordinator_id)}, which wants to stop")

    def _check_silence(self, broker_id: int, broker_epoch: int) -> None:
        """A broker or a coordinator is fenced for silence: this controller must have listened in vain, by its
        own account for the whole grace. That account may lack what two or three holds begin and end with."""
        listened_ms = self.listened_ms - self.heard_at.get((broker_id, broker_epoch), 0)
        if listened_ms <= self.options.grace_ms // 2:
            name = process_name(broker_id)
            raise Violation("2.10", f"{self.name} fences {name}, and has listened for {listened_ms} ms")

    def _drain(self) -> None:
        machine = self.machine
        if machine is None or self.persisting or not self.queue:
            return
        # In production heartbeats are stepped during a write, before the tick that judges by them.
        self.queue = deque(sorted(self.queue, key=lambda pending: isinstance(pending.event, Tick)))
        records: list[Record] = []
        replies: Replies = []
        probes: list[ProbeBroker] = []
        recovered: MetadataRecovered | None = None
        while self.queue:
            pending = self.queue.popleft()
            knew = machine.went_back
            step = self._step(machine, pending.event)
            if machine.went_back is not None and knew is None:
                self.events.note(f"{self.name} halts: {machine.went_back}")
                if isinstance(pending.event, NameWriter):
                    self.marks.reached("shard.tells.that.metadata.went.back")
                self.on_went_back(self)
            if isinstance(step.reply, MetadataRecovered) and step.records:
                recovered = step.reply
                self.records = max(self.records, recovered.records_min)
            records.extend(step.records)
            answer = pending.answer
            if pending.waits and step.awaited is not None:
                answer = partial(self._answer_in_force, machine, step.awaited, answer)
            replies.append((answer, step.reply))
            probes.extend(effect for effect in step.effects if isinstance(effect, ProbeBroker))
        self._arm_tick(machine)
        if not records:
            self._publish(records, replies, probes)
            return
        self.persisting = True
        self._persist(records, replies, probes, recovered)

    def _persist(
        self,
        records: list[Record],
        replies: Replies,
        probes: list[ProbeBroker],
        recovered: MetadataRecovered | None,
    ) -> None:
        """In multis of at most so many records; each is published as soon as it stands, as the store does
        with what is too large for one (4.7 rests on it). Replies wait for all of them."""
        now, rest = records[: self.records_per_write], records[self.records_per_write :]
        self.write_count += 1
        write_id = f"{self.session}/{self.write_count}"
        writes: list[tuple[str, Any | None]] = []
        for record in now:
            key = row_key(record)
            is_removal = isinstance(record, _Removal) or (
                isinstance(record, SecurityRecord) and record.is_removal
            )
            writes.append((key, None if is_removal else record))
            if isinstance(record, RemoveTopicRecord):
                prefix = f"partition/{record.topic_id}/"
                writes.extend((k, None) for k in list(self.zookeeper.nodes) if k.startswith(prefix))
        self.records += len(now)
        # The old terms go with the last part: half a recovery must be seen to be one.
        writes.append(("head", (self.records, () if recovered and not rest else self.terms)))
        writes.append(("write_id", write_id))
        life = self.life

        def finished(outcome: Outcome) -> None:
            match outcome:
                case Outcome.APPLIED if rest:
                    self.marks.reached("controller.write.in.parts")
                    self._publish(now, [], [])
                    self._persist(rest, replies, probes, recovered)
                case Outcome.APPLIED:
                    self.persisting = False
                    self._publish(now, replies, probes)
                    if recovered is not None:
                        self._begin_anew(recovered)
                    self._drain()
                case Outcome.UNKNOWN:
                    # Read back before deciding anything: whoever wrote last left its write id.
                    if not self.zookeeper.reaches(self.session):
                        self.after(100, lambda: finished(Outcome.UNKNOWN))
                        return
                    applied = self.zookeeper.nodes.get("write_id")
                    known = applied is not None and applied.value == write_id
                    self.marks.on_read_back(known=known)
                    self.after(2, lambda: finished(Outcome.APPLIED if known else Outcome.BAD_VERSION))
                case Outcome.BAD_VERSION | Outcome.SESSION_EXPIRED:
                    self.events.note(f"{self.name} resigns: {outcome.value}")
                    self._forget()
                    if self.zookeeper.leader == self.session:
                        self.zookeeper.expire(self.session)
                case _:
                    assert_never(outcome)

        epoch = self.controller_epoch

        def answered(outcome: Outcome) -> None:
            self.marks.on_written(outcome)
            self.run_in_life(life, lambda: finished(outcome) if self.controller_epoch == epoch else None)

        self.zookeeper.multi(self.session, epoch, writes, answered)

    def _begin_anew(self, recovered: MetadataRecovered) -> None:
        """The next term's controller epoch is above all that were heard."""
        if self.zookeeper.leader == self.session:
            node = self.zookeeper.nodes["controller_epoch"]
            node.value = max(node.value, recovered.controller_epoch_min)
            self.zookeeper.expire(self.session)
        self._forget()

    def _publish(
        self,
        records: list[Record],
        replies: Replies,
        probes: list[ProbeBroker],
    ) -> None:
        for record in records:
            self.published.replay(record)
            self.on_published(self, record)
        for answer, reply in replies:
            answer(reply)
        for probe in probes:
            self._probe(probe)
        if records:
            waiting, self.polls = self.polls, []
            for poll in waiting:
                poll.timer.cancel()
                self._answer_poll(poll.request, poll.answer)

    def _probe(self, probe: ProbeBroker) -> None:
        """Connect to the listener: refused proves the process dead; a cut or a pause proves nothing."""

        def arrive() -> None:
            name = process_name(probe.broker_id)
            cut = {(self.name, name), (name, self.name)} & self.network.cuts.keys()
            is_listening = self.network.is_listening(name)
            self.marks.on_probed(is_cut=bool(cut), is_listening=is_listening)
            if not cut and not is_listening:
                died = BrokerProvenDead(
                    wall_ms=self.clock.wall_ms, broker_id=probe.broker_id, broker_epoch=probe.broker_epoch
                )
                self.submit(died, lambda _: None)

        self.after(1, arrive)

    def on_session_closed(self, broker_id: int, broker_epoch: int, host: str, port: int) -> None:
        """A process's long poll lost its connection: worth a probe (never a proof by itself)."""
        self._probe(
            ProbeBroker(broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch), host=host, port=port)
        )

    def _arm_tick(self, machine: ClusterMachine) -> None:
        if self.tick_timer is not None:
            self.tick_timer.cancel()
            self.tick_timer = None
        deadline_ms = machine.next_deadline_ms()
        if deadline_ms is not None:
            delay_ms = max(1, deadline_ms - self.clock.mono_ms)
            self.tick_timer = self.after(delay_ms, self._submit_tick)

    # --- requests of brokers and coordinators ---------------------------------------------------------------

    def is_authoritative(self) -> bool:
        """Leading, and provably so: our own session was heard of recently enough (2.10, the controller's
        authority)."""
        session = self.zookeeper.sessions.get(self.session)
        if self.machine is None or session is None:
            return False
        silent_ms = self.events.now_ms - session.last_heard_ms
        return silent_ms < self.zookeeper.options.session_timeout_ms * 2 // 3

    def _on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        def signed(reply: Any) -> None:
            answer(msgspec.structs.replace(reply, lineage=self.lineage) if self.machine else reply)

        self.run_in_life(self.life, lambda: self._dispatch(request, signed))

    def _dispatch(self, request: Any, answer: Callable[[Any], None]) -> None:
        wall_ms = self.clock.wall_ms
        kind = MemberKind.COORDINATOR if is_coordinator(request.broker_id) else MemberKind.BROKER
        if not self.is_authoritative():
            self.marks.on_silence(self)
            answer(refuse(request))
            return
        match request:
            case RegisterRequest():
                self._take(RegisterMember(wall_ms=wall_ms, request=request, kind=kind), request, answer)
            case NameWriterRequest():
                self._take(NameWriter(wall_ms=wall_ms, request=request), request, answer)
            case HeartbeatRequest():
                machine = self.machine
                # A process that went back is no sign of life (3.10, a host that goes back).
                if machine is not None and not machine._sessions.is_outdated(
                    request.broker_id, request.count, request.answered
                ):
                    self.heard_at[request.broker_id, request.broker_epoch] = self.listened_ms
                beat = Heartbeat(
                    wall_ms=wall_ms,
                    request=request,
                    # As the shell does: when it is read, which a loop that is held does later.
                    received_ms=self.clock.mono_ms,
                    kind=kind,
                )
                self._take(beat, request, lambda reply: answer(self._with_time(reply)))
            case LagReport():
                self._take(Report(wall_ms=wall_ms, request=request), request, answer)
            case PollRequest():
                applied = BrokerApplied(
                    wall_ms=wall_ms,
                    broker_id=request.broker_id,
                    broker_epoch=request.broker_epoch,
                    controller_epoch=request.applied_controller_epoch,
                    sequence=request.applied_sequence,
                    failures=request.failures,
                    heartbeat_count=request.heartbeat_count,
                    witness=request.witness,
                    kind=kind,
                )

                def go_on(reply: Any) -> None:
                    if isinstance(reply, UpdateBatch):
                        answer(reply)
                    else:
                        self._on_applied(request, answer, reply.error)

                self._take(applied, request, go_on)
            case _:
                raise AssertionError(request)

    def _take(self, event: Event, request: Any, answer: Callable[[Any], None]) -> None:
        """To a controller that was replaced, everything newer looks like a ZooKeeper that went back: it looks
        whether its claim still stands before it believes that."""
        machine = self.machine
        assert machine is not None
        if machine.went_back is None and machine.evidence(event) is not None:
            epoch = self.zookeeper.nodes["controller_epoch"].value
            is_current = self.zookeeper.leader == self.session and epoch == self.controller_epoch
            if not is_current or not self.zookeeper.reaches(self.session):
                answer(refuse(request))
                return
        self.submit(event, answer)

    def _with_time(self, reply: HeartbeatResponse) -> HeartbeatResponse:
        return msgspec.structs.replace(reply, wall_ms=self.clock.wall_ms)

    def _on_applied(
        self, request: PollRequest, answer: Callable[[Any], None], error: ControllerError
    ) -> None:
        if error is not ControllerError.NONE:
            answer(UpdateBatch(error=error, controller_epoch=ControllerEpoch(self.controller_epoch)))
            return
        self._answer_poll(request, answer)

    def _answer_poll(self, request: PollRequest, answer: Callable[[Any], None]) -> None:
        if self.machine is None or self.machine.went_back is not None:
            answer(refuse(request))
            return
        batch = build_update(self.published, request, controller_epoch=self.controller_epoch)
        if batch is not None:
            answer(batch)
            return
        waiting: list[WaitingPoll] = []

        def expire() -> None:
            if waiting[0] not in self.polls:
                return  # answered after a pause in which its time ran out
            self.polls.remove(waiting[0])
            answer(
                UpdateBatch(
                    controller_epoch=ControllerEpoch(self.controller_epoch),
                    broker_epoch=request.broker_epoch,
                    sequence=request.applied_sequence,
                )
            )

        poll = WaitingPoll(request, answer, self.after(self.poll_wait_ms, expire))
        waiting.append(poll)
        self.polls.append(poll)


def refuse(request: Any) -> Any:
    error = ControllerError.NOT_CONTROLLER
    match request:
        case RegisterRequest():
            return RegisterResponse(error=error)
        case HeartbeatRequest():
            return HeartbeatResponse(error=error)
        case LagReport():
            return LagReportResponse(error=error)
        case PollRequest():
            return UpdateBatch(error=error)
        case NameWriterRequest():
            return NameWriterResponse(error=error)
        case _:
            raise AssertionError(request)
