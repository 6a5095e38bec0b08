"""One simulated broker: its real core, and a real lease, between an in-memory disk and a lossy network.

It drives the cores as the process's shell does: how a batch is applied, which logs are made, what a report
holds, what it says to controllers and what their answers mean, what a fetch asks for and when it is answered
is decided there. The rest of the shell it has in the smallest form: when it beats, polls and fetches, whom it
asks, and where a throttled learner waits. Only what a disk keeps
survives a crash: logs (cut back to what was flushed when the machine dies), the high-watermark checkpoint,
and the directory's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from dataplane.core.applying import Answer, Applying, BatchEffect
from dataplane.core.broker import (
    Broker,
    Configure,
    DeleteLog,
    Forgotten,
    LastKnown,
    LogsWanted,
    NotApplied,
    OfReplica,
    ReportSoon,
    Rest,
    SetAside,
    Settle,
    Step,
    TakeUp,
    WhyAside,
    WhyDeleted,
)
from dataplane.core.creations import PendingCreations
from dataplane.core.effects import (
    NO_EFFECTS,
    BackOff,
    CheckAtRest,
    CompleteDeletion,
    CompleteProduce,
    CopyDivergent,
    DataAppended,
    Effect,
    Effects,
    HighWatermarkMoved,
    LeadershipChanged,
    LogStartMoved,
    MendLog,
    ProposalReady,
    Remark,
    RemarkKind,
    ReportProblem,
    StartFetching,
    StopFetching,
    Vouch,
)
from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowedPartition,
    FollowerRequest,
    FollowerSession,
    SessionRequest,
)
from dataplane.core.fetches import Fetch, FetchedAnswer, WaitingFetches
from dataplane.core.hosted import Hosted
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.results import (
    LATEST_TIMESTAMP,
    DeletionResult,
    FetchResult,
    LeaderAnswer,
    OffsetResult,
    ReplicaOptions,
)
from dataplane.core.throttle import LearnerThrottle
from dataplane.storage.retention import UNLIMITED, SegmentView, segments_to_delete
from dataplane.storage.seal import Seal
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import HeldLog, Holdings, SetAsideLog
from springtide.contract.lag_report import LagReportResponse, ReplicaProblem
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.session import (
    UNANSWERED_INCARNATIONS_MAX,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
    Witness,
)
from springtide.contract.throttles import is_learner
from springtide.contract.updates import UpdateBatch
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.controller_client import seen_after
from springtide.node.core.session import Meaning, MemberSession, WentBackProof
from springtide.node.lease import Lease
from springtide.wire import produced_records
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.record_batch import decode_header
from springtide.wire.records import DECOMPRESSED_BYTES_MAX
from tests.kit.memory.log import MemoryLog
from tests.simulation.clients import (
    READ_BYTES_MAX,
    DeleteCall,
    MendCall,
    ProduceAnswer,
    ProduceCall,
    ReadAnswer,
    ReadCall,
)
from tests.simulation.clock import NodeClock, timekeeper
from tests.simulation.compaction import Compacting
from tests.simulation.disk import Disk
from tests.simulation.events import Events, Timer
from tests.simulation.network import Network
from tests.simulation.scrubbing import PASS_MS, Scrubbing
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

FETCH_SLACK_MS = 600
#: The bytes of so many partitions fit into one answer.
FETCHED_AT_ONCE_MAX = 4
RESTART_MS = 1_000
"""How soon a supervisor starts a process again that ended."""
THROTTLE_WINDOW_MS = 1_000
PRODUCE_WAIT_MS = 3_000
#: Logs are made a few at a time, mostly at once; now and then the disk has something else to do first.
CREATIONS_AT_ONCE = 4
CREATION_MS, SLOW_CREATION_MS = (2, 30), (300, 3_000)
SLOW_CREATION_RATE = 0.05
#: Lags told of in one report, and others of each kind.
LAGS_TOLD_MAX, TOLD_MAX = 100, 20
RETENTION_LOOK_MS = 1_000
HUNG_LOOK_MS = 50
BATCHES_EXPIRED_MAX = 8


class FetchCall(NamedTuple):
    """What a follower sends its leader."""

    broker_id: int
    broker_epoch: int
    asked: FollowerRequest
    marks: Mapping[PartitionKey, LogMark]


class FetchAnswer(dict[PartitionKey, LeaderAnswer]):
    """error: of the whole; then there are no partitions."""

    def __init__(
        self,
        error: ErrorCode,
        session_id: int = NO_SESSION,
        partitions: Mapping[PartitionKey, LeaderAnswer] = MappingProxyType({}),
    ) -> None:
        super().__init__(partitions)
        self.error = error
        self.session_id = session_id


class NodeFetches(WaitingFetches):
    """The fetches that wait at a node in one life, on its clock."""

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(
            sessions=FetchSessions(count(1 + 1_000_000 * node.life)),
            evaluate=node.evaluate,
            respond=_respond,
            holds_lease=lambda _: True,  # only consumers ask, and none has a session here
        )
        self._node = node
        self._timer_ms: int | None = None

    def note(self, what: Callable[[PartitionKey], None], key: PartitionKey) -> None:
        """At the end of this turn, look again at every fetch that waits for this partition."""
        if not self.has_news:
            self._node._after(0, lambda: self.answer_woken(now_ms=self._node.now_ms))
        what(key)

    def _arm(self, fetch: Fetch) -> None:
        super()._arm(fetch)
        self._ring_at(fetch.deadline_ms)

    def _ring_at(self, deadline_ms: int) -> None:
        if self._timer_ms is None or deadline_ms < self._timer_ms:
            self._timer_ms = deadline_ms
            self._node._after(max(0, deadline_ms - self._node.now_ms), partial(self._ring, deadline_ms))

    def _ring(self, deadline_ms: int) -> None:
        if self._timer_ms == deadline_ms:
            self._timer_ms = None
            wait_ms = self.end_waits(now_ms=self._node.now_ms)
            if wait_ms is not None:
                self._ring_at(self._node.now_ms + wait_ms)


class Following:
    """A follower's end of all that it fetches from one leader."""

    def __init__(self) -> None:
        self.session = FollowerSession()
        self.positions: dict[PartitionKey, FetchPosition] = {}

    def place(self, positions: dict[PartitionKey, FetchPosition]) -> None:
        for key in [key for key in self.positions if key not in positions]:
            self.leave(key)
        for key, position in positions.items():
            self.session.set_position(key, position)
        self.positions = positions

    def leave(self, key: PartitionKey) -> None:
        if self.positions.pop(key, None) is not None:
            self.session.remove(key)


class Replicas(Mapping[PartitionKey, Replica]):
    """The replicas of a broker's table, by key."""

    __slots__ = ("_partitions",)

    def __init__(self, broker: Broker[Hosted]) -> None:
        self._partitions = broker.partitions

    def __getitem__(self, key: PartitionKey) -> Replica:
        return self._partitions[key].replica

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


class WatchedBroker(Broker[Hosted]):
    """Looks at each state before its replica is told."""

    __slots__ = ("_node",)

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(node.broker_id)
        self._node = node

    def enter(self, hosted: Hosted, state: PartitionState, *, now_ms: int) -> list[Step[Hosted]]:
        self._node.cluster.marks.on_state(self._node, hosted.replica, state)
        return super().enter(hosted, state, now_ms=now_ms)


@dataclass(slots=True)
class BrokerNode:
    broker_id: int
    events: Events
    network: Network
    random: Random
    cluster: Cluster
    controllers: tuple[str, ...]
    options: ReplicaOptions
    disk: Disk
    life: int = 0
    is_up: bool = False
    is_paused: bool = False
    parked: list[Callable[[], None]] = field(default_factory=list)
    # Of one life:
    session: MemberSession = field(init=False)
    #: What the process runs too, its replicas, and the batch that waits for logs that were given up.
    core: Broker[Hosted] = field(init=False)
    view: ClusterView = field(init=False)
    replicas: Replicas = field(init=False)
    applying: tuple[UpdateBatch, Applying[Hosted]] | None = None
    states: dict[PartitionKey, PartitionState] = field(default_factory=dict)
    fetching: dict[PartitionKey, int] = field(default_factory=dict)
    backing_off: set[PartitionKey] = field(default_factory=set)
    fetch_tasks: set[int] = field(default_factory=set)
    #: Of the registration, and where the logs ended in the last round of sealing.
    chain_epoch: int = -1
    seen_ends: dict[PartitionKey, int] = field(default_factory=dict)
    controller: int = 0
    reporting: bool = False
    report_soon: bool = False
    incarnation: str = ""
    problems_seen: list[ReplicaProblem] = field(default_factory=list)
    fetches: NodeFetches = field(init=False)
    #: The session of each follower's connection; the other end of this broker's own, by leader.
    connections: dict[int, FetchSession] = field(default_factory=dict)
    leaders: dict[int, Following] = field(default_factory=dict)
    #: Its host was put back to an earlier moment, and it has not found that out (3.10, a host that goes
    #: back).
    is_resumed: bool = False
    #: When it sent the last heartbeat that was acknowledged, by no clock of its own.
    heard_ms: int = -(2**60)
    directory_failed: bool = False
    #: Produce calls that wait in a replica: by when each has to be answered.
    owed: dict[int, int] = field(default_factory=dict)
    produce_count: int = 0
    #: Faults that hold its metadata stream back, each by so many milliseconds.
    poll_delays_ms: list[int] = field(default_factory=list)
    #: Learners whose operation has a rate, and the leader epochs in which they need no turn any more.
    throttle: LearnerThrottle = field(init=False)
    caught_up: dict[PartitionKey, int] = field(default_factory=dict)
    in_hand: tuple[PartitionKey, ...] = ()
    scrubbing: Scrubbing = field(init=False)
    clock: NodeClock = field(init=False)

    #: The process's, of one life.
    time: BrokerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = NodeClock(self.events)
        self.time = timekeeper(self.clock)
        self.throttle = self._new_throttle()
        self._begin_session(ShutdownKind.FIRST_START)
        self.fetches = NodeFetches(self)
        self.forget_replicas()

    @property
    def broker_epoch(self) -> int:
        return self.session.broker_epoch

    @property
    def lease(self) -> Lease:
        return self.session.lease

    def forget_replicas(self) -> None:
        """Nothing of a table is in memory."""
        self.core = WatchedBroker(self)
        self.replicas = Replicas(self.core)
        self.view = ClusterView()
        self.applying = None

    @property
    def creations(self) -> PendingCreations:
        return self.core.creations

    def _new_throttle(self) -> LearnerThrottle:
        options = self.cluster.options
        window_ms = max(THROTTLE_WINDOW_MS, 2 * options.fetch_wait_ms)
        return LearnerThrottle(grant_bytes_max=options.fetch_bytes_max, window_ms=window_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.mono_ms

    @property
    def name(self) -> str:
        return f"broker-{self.broker_id}"

    @property
    def is_disk_failing(self) -> bool:
        return self.disk.failing is not None

    @property
    def wants_shutdown(self) -> bool:
        return self.session.wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        self.session.wants_shutdown = is_wanted

    @property
    def is_rotten(self) -> bool:
        """Whether its disk holds something else than was written, found or not."""
        return any(log.at_rest for log in self.disk.logs.values())

    # --- life -------------------------------------------------------------------------------------------

    def begin_life(self) -> None:
        """Nothing of an earlier life is in memory."""
        self.life += 1
        self.is_up = True
        self.is_paused = False
        self.time = timekeeper(self.clock)
        self._begin_session(ShutdownKind.FIRST_START)
        self.forget_replicas()
        self.states = {}
        self.fetching = {}
        self.backing_off = set()
        self.throttle = self._new_throttle()
        self.caught_up = {}
        self.fetch_tasks = set()
        self.chain_epoch = -1
        self.seen_ends = {}
        self.fetches = NodeFetches(self)
        self.connections = {}
        self.leaders = {}
        self.heard_ms = -(2**60)
        self.owed = {}
        self.directory_failed = False
        self.reporting = self.report_soon = False
        self.is_resumed = False

    def start(self) -> None:
        self.begin_life()
        self.incarnation = f"{self.name}#{self.life}"
        kind = self.disk.shutdown_kind()
        unanswered = self.disk.unanswered
        self.cluster.marks.on_start(self, kind)
        self.disk.clean_marker = None  # the first act of start-up
        self.disk.unanswered = (*unanswered, self.incarnation)[-UNANSWERED_INCARNATIONS_MAX:]
        for log in self.disk.logs.values():
            log.recover(is_clean=kind is ShutdownKind.CLEAN)
        kind = self._held_against_high_watermarks(kind)
        self.core.found = dict.fromkeys(self.disk.logs)
        self.scrubbing = Scrubbing(self)
        self.network.listen(self.name, self._on_request)
        self.events.note(f"{self.name} starts ({kind.value})")
        self._begin_session(kind, unanswered)
        self._register()
        self.start_timers()

    def start_timers(self) -> None:
        self._after(self.cluster.options.checkpoint_ms, self._checkpoint)
        self._after(self.cluster.options.flush_ms * self.random.random(), self._flush)
        self._after(PASS_MS, self.scrubbing.scrub)
        self._after(self.cluster.options.tick_ms, self._tick)
        self._after(self.cluster.options.flush_ms, self._seal_idle)
        if self.cluster.options.compacted:
            Compacting(self)
        if self.cluster.options.retention_ms:
            self._after(RETENTION_LOOK_MS, self._apply_retention)

    def _held_against_high_watermarks(self, kind: ShutdownKind) -> ShutdownKind:
        """A log that ends below what this disk says was committed refutes that only a process stopped: it is
        set aside, and all seats go (5.4, recovery). After a machine crash it has lost what may be lost."""
        disk = self.disk
        short = [
            key for key, log in disk.logs.items() if log.log_end_offset < disk.high_watermarks.get(key, 0)
        ]
        for key in short:
            if kind.is_intact:
                self.core.known_lost.add(key)
                disk.quarantined[key] = disk.logs.pop(key)
                del disk.high_watermarks[key]
                self.events.note(f"{self.name} sets {key[0][:4]}-{key[1]} aside: it is too short")
            else:
                disk.high_watermarks[key] = disk.logs[key].log_end_offset
        if not short or not kind.is_intact:
            return kind
        disk.has_mount_mark = False
        return ShutdownKind.MACHINE_CRASH

    @staticmethod
    def life_of(incarnation: str) -> int:
        return int(incarnation.rpartition("#")[2])

    def crash(self, *, machine: Random | None = None, reboots: bool = True, torn_bytes: int = 0) -> None:
        """The process ends without a word. machine: what was not flushed goes too, by these choices; without
        `reboots` the machine runs on, and only its volume was away (S41, a volume that was away). torn_bytes:
        it died in an append, and so many bytes of that batch are there (S11, killed in an append)."""
        self.cluster.marks.on_crash(self)
        if self.is_resumed:
            self.vouch_for_nothing()  # that nobody could find out before it died is a gap (section 10)
        self.is_up = False
        self.is_paused = False
        self.parked.clear()
        self.forget_replicas()
        self.network.close(self.name)
        for key, log in self.disk.logs.items():  # lowered before each cut
            stored = self.disk.high_watermarks.get(key, 0)
            self.disk.high_watermarks[key] = min(stored, log.log_end_offset)
        if self.in_hand:
            self.cluster.marks.reached("creation.cut.short")
            for key in self.in_hand[: self.random.randrange(len(self.in_hand) + 1)]:
                self.disk.logs[key] = MemoryLog()  # it was there, and nobody was told
                self.cluster.logs_made.add((self.broker_id, key))
            self.in_hand = ()
        if machine is not None:
            self.disk.boot_id += reboots
            self.disk.has_mount_mark = False
            for _, log in sorted(self.disk.logs.items()):
                log.crash(machine)
                self.cluster.marks.on_power_cut(log)
        if torn_bytes:
            for log in self.disk.logs.values():
                log.die_in_append(bytes(torn_bytes) if not log.batches else log.batches[-1].data[:torn_bytes])
        how = "is killed" if machine is None else "loses power" if reboots else "loses its volume"
        self.events.note(f"{self.name} {how}")
        self.cluster.on_process_down(self.name, self.broker_id, self.broker_epoch)

    def replace_disk(self) -> None:
        assert not self.is_up
        self.disk = Disk(f"{self.disk.directory_id}'", boot_id=self.disk.boot_id)
        self.cluster.oracle.on_log_replaced(self.broker_id)
        self.events.note(f"{self.name} gets an empty disk")

    def copy_disk(self) -> Disk:
        return self.disk.copy()

    def restore_disk(
        self, copy: Disk, *, reboots: bool = True, in_place: bool = False, is_forged: bool = False
    ) -> None:
        """An earlier copy of its disk; in another boot of the machine, or attached to the one that runs.
        in_place: it is copied over the files that are there, and the mount stays. is_forged: the fresh mark
        stays as well, as if the copy were made after the last one, and its broker claims a process crash."""
        assert not self.is_up
        before, self.disk = self.disk, copy.copy()
        self.disk.boot_id = before.boot_id + reboots
        if in_place:
            self.disk.has_mount_mark = before.has_mount_mark
            self.disk.is_written_over = not is_forged
            self.disk.is_forged = is_forged
            self.disk.logs = before.logs | self.disk.logs  # none goes
        self.cluster.oracle.on_log_replaced(self.broker_id)
        self.events.note(f"{self.name} gets an older copy of its disk")

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        parked, self.parked = self.parked, []
        for call in parked:
            call()

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        return partial(self._run_in_life, self.life, call)

    def _run_in_life(self, life: int, call: Callable[[], None]) -> None:
        """Run `call` only in that life, and not while paused. No closure that knows itself: there are so many
        of these that the cycles would cost a third of the run in collecting them."""
        if not self.is_up or self.life != life:
            return
        if self.is_paused:
            self.parked.append(partial(self._run_in_life, life, call))
            return
        call()

    def _after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        return self.events.after(self.clock.true_ms(delay_ms), self._guarded(call))

    def _call(
        self,
        target: str,
        request: Any,
        on_reply: Callable[[Any], None],
        on_timeout: Callable[[], None],
        timeout_ms: float = 1_000,
    ) -> None:
        """A reply, or the timeout, is heard in this life only."""
        life = self.life

        def replied(reply: Any) -> None:
            self._run_in_life(life, partial(on_reply, reply))

        self.network.call(
            self.name,
            target,
            request,
            replied,
            timeout_ms=self.clock.true_ms(timeout_ms),
            on_timeout=self._guarded(on_timeout),
        )

    # --- controller session -----------------------------------------------------------------------------

    def _leave_controller(self, name: str) -> None:
        """Try the next one; unless that has been done since `name` was asked, or one that answers would be
        left because of an earlier question to another."""
        if self._controller == name:
            self.controller = (self.controller + 1) % len(self.controllers)

    @property
    def _controller(self) -> str:
        return self.controllers[self.controller]

    @property
    def witness(self) -> Witness | None:
        seen = self.disk.seen
        if self.disk.cluster_id is None or seen.controller_epoch < 0:
            return None
        return Witness(cluster_id=self.disk.cluster_id, **seen._asdict())

    def _hear(self, answer: RegisterResponse | HeartbeatResponse | UpdateBatch) -> bool:
        """False: of a controller that is not to be believed."""
        seen = seen_after(self.disk.seen, answer)
        if seen is not None:
            self.disk.seen = seen
        return seen is not None

    def _begin_session(self, kind: ShutdownKind, unanswered: tuple[str, ...] = ()) -> None:
        identity = RegisterRequest(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation,
            host=f"host-{self.broker_id}",
            port=9092,
            log_dir_ids=(self.disk.directory_id,),
            last_shutdown=kind,
            previous_broker_epoch=self.disk.broker_epoch,
            unanswered_incarnation_ids=unanswered,
            worker_of=self.cluster.options.members[self.broker_id],
        )
        self.session = MemberSession(identity, cluster_id=self.disk.cluster_id, lease=Lease())

    def set_aside(self) -> tuple[SetAsideLog, ...]:
        return tuple(self.disk.notes.values())

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        states = [r.state for _, r in sorted(self.replicas.items()) if r.state is not None]
        states += self.creations.wanted.values()
        return Holdings(
            identity=identity,
            has_view=has_view,
            broker_epoch_max=max((e.broker_epoch for e in self.view.brokers.values()), default=-1),
            broker_ids=tuple(self.view.brokers),
            topics=tuple(self.view.topics.values()),
            states=tuple(states),
            logs=tuple(
                HeldLog(
                    topic_id=key[0],
                    topic=self.view.topics[key[0]].topic if key[0] in self.view.topics else key[0],
                    partition=key[1],
                    leader_epoch=LeaderEpoch(log.epochs.latest),
                    log_end_offset=log.log_end_offset,
                )
                for key, log in sorted(self.disk.logs.items())
            ),
            set_aside=self.set_aside(),
        )

    def _tell_holdings(self) -> None:
        report = self.session.holdings(self, self.witness, now_ms=self.now_ms)
        if report is not None:
            self._call(self._controller, report, lambda _: None, lambda: None)

    def _register(self) -> None:
        request = self.session.registration(
            self.witness, keeps_its_logs=self.disk.shutdown_kind() is ShutdownKind.PROCESS_CRASH
        )
        controller, is_first = self._controller, not self.session.is_registered

        def again() -> None:
            self._leave_controller(controller)
            self._after(100 + 200 * self.random.random(), self._register)

        def answered(response: RegisterResponse) -> None:
            meaning = self.session.on_registered(response) if self._hear(response) else Meaning.REFUSED
            if meaning is Meaning.TELL_HOLDINGS:
                self._tell_holdings()
            if meaning is not Meaning.DONE:
                again()
                return
            self.cluster.marks.on_registered(first=is_first)
            self.lease.on_controller_epoch(response.controller_epoch)
            disk = self.disk
            disk.cluster_id = response.cluster_id
            disk.broker_epoch = response.broker_epoch
            self.chain_epoch = response.chain_epoch
            disk.last_boot_id = disk.boot_id
            disk.has_mount_mark = True
            disk.is_written_over = False
            disk.unanswered = ()
            self.events.note(f"{self.name} registered, broker epoch {self.broker_epoch}")
            if is_first:
                self._heartbeat()
                self._poll()
                self._report_periodically()

        self._call(controller, request, answered, again)

    def _heartbeat(self) -> None:
        session = self.session
        sent_ms, true_sent_ms = self.now_ms, self.events.now_ms
        known_under = self.cluster.who_knows_later(self) if self.is_resumed else None
        if self.is_resumed and known_under is None:
            self.cluster.marks.reached("host.cannot.find.out")
            self._end_unproven("can no longer find out that it went back (G6)")
            return
        offline = (self.disk.directory_id,) if self.directory_failed else ()
        request = session.heartbeat(self.witness, clock_leap=self.time.leap(), offline=offline)
        self.cluster.marks.on_clocks(request.clock_leap)
        controller = self._controller

        def answered(response: HeartbeatResponse) -> None:
            if not self._hear(response):
                self._leave_controller(controller)
                return
            meaning = session.on_heartbeat(request, response, sent_ms=sent_ms, now_ms=self.now_ms)
            self.cluster.marks.on_heartbeat(response.error)
            match meaning:
                case WentBackProof(text=proof):
                    self.cluster.marks.reached("host.finds.out")
                    self._end_unproven(f"finds out that it went back: {proof}")
                case Meaning.TELL_HOLDINGS:
                    self._tell_holdings()
                case Meaning.DISOWNED:
                    self._register()
                case Meaning.REFUSED:
                    self._leave_controller(controller)
                case Meaning.DONE:
                    self.heard_ms = max(self.heard_ms, true_sent_ms)
                    self.time.on_heartbeat(response, sent_ms=sent_ms)
                    self.cluster.oracle.check_leap_is_told(self, response.wall_ms, sent_ms)
                    if response.controller_epoch == known_under:
                        self.is_resumed = False  # it could have been found out, and was believed
                    if session.may_shut_down:
                        self._finish_shutdown()

        def lost() -> None:
            self._leave_controller(controller)

        self._call(controller, request, answered, lost, timeout_ms=900)
        interval_ms = self.cluster.options.heartbeat_interval_ms
        self._after(interval_ms * (0.9 + 0.2 * self.random.random()), self._heartbeat)

    def vouch_for_nothing(self) -> None:
        self.disk.has_mount_mark = False
        self.disk.unanswered = ()

    def _end_unproven(self, why: str) -> None:
        """It was put back: it vouches for nothing and ends, and is started again."""
        self.cluster.events.note(f"{self.name} {why}")
        self.vouch_for_nothing()
        self.crash()
        life = self.life

        def restart() -> None:
            if not self.is_up and self.life == life:
                self.start()

        self.events.after(RESTART_MS, restart)

    def _finish_shutdown(self) -> None:
        try:
            for key, log in self.disk.logs.items():
                log.flush()
                replica = self.replicas.get(key)
                if replica is not None:
                    self.disk.high_watermarks[key] = replica.high_watermark
        except LogError:  # what could not be flushed is not vouched for
            self.crash()
            return
        self.disk.clean_marker = self.broker_epoch
        self.crash()

    def _poll(self) -> None:
        request = self.session.poll(self.witness)

        def answered(batch: UpdateBatch) -> None:
            meaning = self.session.on_batch(batch) if self._hear(batch) else Meaning.REFUSED
            if batch.error is ControllerError.NONE:
                self.cluster.marks.on_update(self, batch)
            if meaning is Meaning.IGNORED or (meaning is Meaning.APPLY and self._apply(batch)):
                self._after(0.1, self._poll)
            elif meaning is not Meaning.APPLY:
                self._after(50, self._poll)

        def lost() -> None:
            self._after(20, self._poll)

        self.cluster.on_poll_sent(self.broker_id, self._controller)
        timeout_ms = self.cluster.options.poll_wait_ms + 500
        if self.poll_delays_ms:  # it hears of things late, and then of several at once
            self._after(
                max(self.poll_delays_ms),
                lambda: self._call(self._controller, request, answered, lost, timeout_ms=timeout_ms),
            )
            return
        self._call(self._controller, request, answered, lost, timeout_ms=timeout_ms)

    def _apply(self, batch: UpdateBatch) -> bool:
        """Return whether the batch is applied. False: it waits for logs."""
        view = self.view
        before, topics = dict(view.brokers), view.topics
        view.apply(batch, now_ms=self.now_ms)
        for state in batch.partitions:
            key = (state.topic_id, state.partition)
            known = self.states.get(key)
            if known is None or state.partition_epoch > known.partition_epoch:
                self.states[key] = state
            if key in self.creations.wanted and self.broker_id in state.replicas:
                self.cluster.marks.reached("creation.overtaken.by.a.newer.state")
        changed = [b for b in sorted({*before, *view.brokers}) if before.get(b) != view.brokers.get(b)]
        walk = Applying(self.core, self, batch, topics_before=topics, changed_brokers=changed)
        self.applying = (batch, walk)
        return self._go_on()

    def _go_on(self) -> bool:
        """Go on with the batch that is being applied; false: until a log is gone that was given up."""
        assert self.applying is not None
        batch, walk = self.applying
        answer: Answer = None
        while (effect := walk.advance(answer, now_ms=self.now_ms)) is not None:
            if isinstance(effect, Settle) and self.creations.must_settle:
                self.cluster.marks.reached("creation.given.up.in.hand")
                return False
            answer = self._work(effect)
        self.applying = None
        if self.session.on_applied(batch, walk.failures):
            seen = self.disk.seen
            self.disk.seen = seen._replace(records=max(seen.records, batch.records))
            self.cluster.on_applied(self)
        return True

    def _work(self, effect: BatchEffect[Hosted]) -> Answer:
        """The disk's part of a batch, which takes no time here."""
        disk = self.disk
        match effect:
            case LogsWanted():
                if not self.in_hand:
                    self._make_logs()
            case TakeUp(key=key):
                disk.take_up(key)
                self.events.note(f"{self.name} takes {key[0][:4]}-{key[1]} up again")
                return True
            case SetAside(key=key, why=why, known=known):
                if known is None:
                    known = LastKnown(disk.high_watermarks.get(key, 0), None, None)
                disk.set_aside(key, known)
                because = "nobody knows it" if why is WhyAside.NOT_MENTIONED else "it is no replica any more"
                self.events.note(f"{self.name} sets {key[0][:4]}-{key[1]} aside: {because}")
            case DeleteLog(key=key, why=why):
                del disk.logs[key]
                if why is WhyDeleted.MOVED_AWAY:
                    self.cluster.oracle.on_log_replaced(self.broker_id)
                    self.events.note(f"{self.name} deletes {key[0][:4]}-{key[1]}: it was moved away")
            case Configure() | Rest() | Settle():
                pass
            case _:
                self._carry_out((effect,))
        return None

    def aside_epoch(self, key: PartitionKey) -> int | None:
        note = self.disk.notes.get(key)
        return None if note is None or self.disk.failing is not None else note.leader_epoch

    def host(self, state: PartitionState, *, checkpointed: int | None = None) -> Hosted:
        key = (state.topic_id, state.partition)
        replica = Replica(
            broker_id=self.broker_id,
            topic_id=state.topic_id,
            partition=state.partition,
            log=self.disk.logs[key],
            lease=self.lease,
            brokers=self.view.brokers,
            options=self.options,
            checkpointed=self.disk.high_watermarks.get(key, 0) if checkpointed is None else checkpointed,
        )
        return Hosted(topic=state.topic, topic_id=state.topic_id, partition=state.partition, replica=replica)

    def _make_logs(self) -> None:
        """A thread's work: the next few, while everything else goes on."""
        states = self.creations.begin(count_max=CREATIONS_AT_ONCE)
        self.in_hand = tuple((state.topic_id, state.partition) for state in states)
        if self.in_hand:
            is_slow = self.random.random() < SLOW_CREATION_RATE
            self._after(self.random.uniform(*(SLOW_CREATION_MS if is_slow else CREATION_MS)), self._made)

    def _made(self) -> None:
        if self.disk.hung:
            self._after(CREATION_MS[1], self._made)
            return
        keys, self.in_hand = self.in_hand, ()
        for key in keys:
            self.disk.notes.pop(key, None)  # outdated
            log = self.disk.logs[key] = MemoryLog()
            log.failing = self.disk.failing
            steps = self.core.on_made(key, self, now_ms=self.now_ms)
            if isinstance(steps, DeleteLog):
                self._work(steps)
            else:
                self.cluster.logs_made.add((self.broker_id, key))
                self._carry_out(steps)
        if self.applying is not None and self._go_on():
            self._after(0.1, self._poll)
        if not self.in_hand:
            self._make_logs()

    def _classify(self, key: PartitionKey, replica: Replica) -> None:
        """Whether its fetches wait for their turn: a learner's do until it has reached the high watermark."""
        state = replica.state
        if (
            state is not None
            and state.throttle is not None
            and is_learner(state, self.broker_id)
            and self.caught_up.get(key) != state.leader_epoch
        ):
            self.throttle.add(key, state.throttle, self.now_ms)
        else:
            self.throttle.remove(key, self.now_ms)

    def _report_periodically(self) -> None:
        self._report()
        report_ms = self.cluster.options.report_ms
        self._after(report_ms * (1 + 0.2 * self.random.random()), self._report_periodically)

    def _report(self) -> None:
        if self.reporting:
            self.report_soon = True
            return
        now_ms = self.now_ms
        reports = self.core.reports
        if self.cluster.options.family != "metadata":
            reports.take_set_aside()  # so that what all other seeds draw stays as it is
        report = self.session.report(reports, self, self.witness, count_max=TOLD_MAX, now_ms=now_ms)
        if report is None:
            return
        for proposal in report.proposals:
            self.cluster.oracle.on_replica_touched(self, (proposal.topic_id, proposal.partition))
        # They go along with other news: no simulated operator looks at them.
        report = structs.replace(report, lags=tuple(reports.changed_lags(now_ms, count_max=LAGS_TOLD_MAX)))
        self.reporting = True

        def done() -> None:
            self.reporting = False
            if self.report_soon:
                self.report_soon = False
                self._after(1, self._report)

        def answered(response: LagReportResponse) -> None:
            _, has_more = self.session.on_report(report, reports, response)
            self.report_soon = self.report_soon or has_more
            for result in response.results:
                if (replica := self.replicas.get((result.topic_id, result.partition))) is not None:
                    self.cluster.marks.on_proposal_result(replica, result)
            self._carry_out(self.core.on_proposal_results(response.results, now_ms=self.now_ms))
            done()

        def lost() -> None:
            self.cluster.marks.reached("report.unanswered")
            self.session.on_report_lost(report, reports)
            done()

        self._call(self._controller, report, answered, lost)

    # --- effects ----------------------------------------------------------------------------------------

    def _carry_out(self, steps: Iterable[Step[Hosted]]) -> None:
        for step in steps:
            match step:
                case OfReplica(hosted=hosted, effects=effects):
                    for effect in effects:
                        self._run_one(hosted, effect)
                    if not hosted.is_forgotten:
                        self._classify(hosted.key, hosted.replica)
                    self.cluster.oracle.on_replica_touched(self, hosted.key)
                case Forgotten(hosted=hosted):
                    self.fetches.note(self.fetches.on_leadership_changed, hosted.key)
                case ReportSoon():
                    self._after(1, self._report)
                case NotApplied(state=state, code="log_missing"):
                    key = (state.topic_id, state.partition)
                    if (self.broker_id, key) not in self.cluster.logs_made:
                        raise Violation("I11", f"{self.name} never had a log of {key}, and calls it lost")
                case _:
                    pass

    def _run(self, key: PartitionKey, effects: Effects) -> None:
        if effects:
            self.core.note_news(self.core.partitions[key])
        for effect in effects:
            self._run_one(self.core.partitions[key], effect)

    def _run_one(self, hosted: Hosted, effect: Effect) -> None:
        key, replica = hosted.key, hosted.replica
        match effect:
            case CompleteProduce(waiters=waiters, error=error):
                self.cluster.marks.on_completed(error)
                for waiter in waiters:
                    assert callable(waiter)
                    waiter(error)
            case CompleteDeletion(waiters=waiters, result=result):
                for waiter in waiters:
                    assert callable(waiter)
                    waiter(result)
            case LogStartMoved():
                self._after(self.random.randint(1, 30), partial(self._store_log_start, key))
                self.fetches.note(self.fetches.on_high_watermark_moved, key)
            case StartFetching(leader_id=leader_id):
                self.fetching[key] = leader_id
                self._leave_leaders(key, but=leader_id)
                if leader_id not in self.fetch_tasks:
                    self.fetch_tasks.add(leader_id)
                    self._after(1, lambda: self._fetch(leader_id))
            case StopFetching():
                self.fetching.pop(key, None)
                self._leave_leaders(key)
                self.throttle.remove(key, self.now_ms)
            case BackOff(delay_ms=delay_ms):
                self.backing_off.add(key)
                self._leave_leaders(key)
                self._after(delay_ms, lambda: self.backing_off.discard(key))
            case CopyDivergent():
                self._copy_divergent(key, effect)
            case Vouch():
                self._after(self.random.randint(1, 30), partial(self._vouch, key))
            case ProposalReady():
                self.core.reports.note_proposal(key)
                self._after(1, self._report)
            case ReportProblem(problem=problem):
                self.core.reports.note_problem(problem)
                self.problems_seen.append(problem)
                if problem.code == "went_back" and problem.broker_id < 0:
                    self.vouch_for_nothing()
                self.cluster.marks.on_problem(problem.code)
                self.events.note(
                    f"{self.name} {key[0][:4]}-{key[1]} problem {problem.code}: {problem.detail}"
                )
                if problem.code == "storage_error" and self.disk.failing is not None:
                    self._after(0, self._on_directory_failed)
            case MendLog():
                self._after(1, lambda: self.scrubbing.mend(key, effect))
            case CheckAtRest():
                self._after(1, lambda: self.scrubbing.check(key))
            case HighWatermarkMoved():
                self.cluster.marks.on_commit(self, replica)
                self.cluster.oracle.on_high_watermark_moved(self, key)
                self.fetches.note(self.fetches.on_high_watermark_moved, key)
            case Remark(kind=RemarkKind.BEGINS_ANEW_FOR_ROT):
                self.cluster.marks.reached("rot.begins.a.log.anew")
            case Remark(kind=RemarkKind.BEGUN_ANEW_FOR_A_ROUND, text=text):
                self.cluster.marks.reached("round.begins.a.log.anew")
                self.events.note(f"{self.name} {key[0][:4]}-{key[1]} {text}")
            case DataAppended():
                self.fetches.note(self.fetches.on_data_appended, key)
            case LeadershipChanged():
                self.fetches.note(self.fetches.on_leadership_changed, key)
                if isinstance(replica.role, Leader):
                    self.cluster.oracle.on_leadership_began(self, key)
                self.events.note(
                    f"{self.name} {key[0][:4]}-{key[1]} {replica.role.name} epoch {replica.leader_epoch}"
                )
            case _:
                pass

    def _copy_divergent(self, key: PartitionKey, effect: CopyDivergent) -> None:
        """A thread's work: what it copies is what the log holds now, and a failing disk makes no copy."""
        could_read = self.disk.failing is None
        if could_read:
            self.disk.asides += 1
            self.cluster.marks.reached("truncation.with.suffix.aside")
            self.cluster.history.divergent_copied(self.name, key, self.disk.logs[key], effect)
        self._after(
            5 + 20 * self.random.random(),
            lambda: self._divergent_copied(key, effect.hold_id, could_read=could_read),
        )

    def _divergent_copied(self, key: PartitionKey, hold_id: int, *, could_read: bool) -> None:
        replica = self.replicas.get(key)
        if replica is not None:
            error = None if could_read and self.disk.failing is None else "the disk fails"
            follower = replica.following
            effects: Effects = NO_EFFECTS
            if follower is not None:
                effects = follower.on_divergent_copied(hold_id, error=error, now_ms=self.now_ms)
            self.cluster.marks.on_divergent_copied(effects)
            self._run(key, effects)
            self.cluster.oracle.on_replica_touched(self, key)

    def _vouch(self, key: PartitionKey) -> None:
        """The seal's removal is durable."""
        replica = self.replicas.get(key)
        log = self.disk.logs.get(key)
        if replica is None or log is None or replica.log is not log or self.disk.failing is not None:
            return
        log.open_seal()
        self.cluster.marks.reached("seal.opened")
        self._run(key, replica.role.on_vouched(now_ms=self.now_ms))
        self.cluster.oracle.on_replica_touched(self, key)

    def _store_log_start(self, key: PartitionKey) -> None:
        """A thread's work."""
        replica = self.replicas.get(key)
        log = self.disk.logs.get(key)
        if replica is None or log is None or replica.log is not log or self.disk.failing is not None:
            return
        if self.disk.hung:
            self._after(HUNG_LOOK_MS, partial(self._store_log_start, key))
            return
        offset = log.log_start_offset
        log.store_log_start(offset)
        self._run(key, replica.role.on_log_start_stored(offset, now_ms=self.now_ms))

    def _seal_idle(self) -> None:
        """See dataplane/shell/seals.py: what was not written to since the last round, and has a seat."""
        seen, self.seen_ends = self.seen_ends, {}
        for key, replica in sorted(self.replicas.items()):
            log, state = self.disk.logs.get(key), replica.state
            if log is None or state is None or self.disk.failing is not None or self.disk.hung:
                continue
            self.seen_ends[key] = log.log_end_offset
            if (
                seen.get(key) == log.log_end_offset
                and not log.is_sealed
                and self.chain_epoch >= 0
                and (self.broker_id in state.isr or self.broker_id in state.elr)
            ):
                log.begin_seal(self.chain_epoch)
                self._after(self.random.randint(1, 30), partial(self._store_seal, key, log, log.seal))
        self._after(self.cluster.options.flush_ms, self._seal_idle)

    def _store_seal(self, key: PartitionKey, log: MemoryLog, seal: Seal | None) -> None:
        if log.seal is seal and self.disk.failing is None and self.disk.logs.get(key) is log:
            log.store_seal()
            self.cluster.marks.reached("seal.stored")

    def _tick(self) -> None:
        now_ms = self.now_ms
        for key, replica in sorted(self.replicas.items()):
            self.cluster.marks.on_tick(self, replica)
            self.cluster.oracle.on_replica_touched(self, key)
        self._carry_out(self.core.on_tick(now_ms=now_ms))
        self._check_owed(now_ms)
        self._after(self.cluster.options.tick_ms, self._tick)

    def _on_directory_failed(self) -> None:
        """The first failed write ends the directory for this process's life: all its replicas go offline, and
        the heartbeats say so (S28)."""
        if self.directory_failed:
            return
        self.directory_failed = True
        self.events.note(f"{self.name} gives its directory up")
        for key, replica in sorted(self.replicas.items()):
            self._run(key, replica.go_offline("the directory has failed"))
            self.cluster.oracle.on_replica_touched(self, key)

    def _checkpoint(self) -> None:
        for key, replica in self.replicas.items():
            self.disk.high_watermarks[key] = replica.high_watermark
            log = self.disk.logs.get(key)
            if log is not None and self.disk.failing is None:
                log.store_log_start(log.log_start_offset)
        self._after(self.cluster.options.checkpoint_ms, self._checkpoint)

    def _flush(self) -> None:
        for _, log in sorted(self.disk.logs.items()):
            if self.random.random() < 0.5 and not self.disk.hung and self.disk.failing is None:
                log.flush()
        self._after(self.cluster.options.flush_ms, self._flush)

    def _apply_retention(self) -> None:
        """As the shell does, with a batch a segment, a few at a look."""
        expiry_ms = self.time.expiry_ms()
        for key, replica in sorted(self.replicas.items()):
            log = self.disk.logs[key]
            if not replica.role.may_serve(self.now_ms) or not log.batches:
                continue
            segments = [
                SegmentView(header.base_offset, header.next_offset, len(data), header.max_timestamp)
                for header, data in log.batches[:BATCHES_EXPIRED_MAX]
            ]
            count = segments_to_delete(
                segments,
                expiry_ms=expiry_ms,
                retention_ms=self.cluster.options.retention_ms,
                retention_bytes=UNLIMITED,
                high_watermark=replica.high_watermark,
            )
            if count:
                self.cluster.oracle.on_expired(self, key, segments[:count])
        self._after(RETENTION_LOOK_MS, self._apply_retention)

    # --- replication ------------------------------------------------------------------------------------

    def _fetch(self, leader_id: int) -> None:
        """One fetch to one leader, for all partitions followed there; then the next."""
        positions: dict[PartitionKey, FetchPosition] = {}
        self.throttle.admit(self.now_ms)
        for key in sorted(key for key, leader in self.fetching.items() if leader == leader_id):
            position = None if key in self.backing_off else self.replicas[key].next_fetch()
            if position is not None and key in self.throttle:
                position = self._when_its_turn_comes(key, position)
            elif key in self.throttle:
                self.throttle.release(key, self.now_ms)
            if position is not None:
                positions[key] = position
        if leader_id not in self.fetching.values():
            self.fetch_tasks.discard(leader_id)
            return

        def again(delay_ms: float) -> None:
            self._after(delay_ms, lambda: self._fetch(leader_id))

        following = self.leaders.setdefault(leader_id, Following())
        following.place(positions)
        if not positions:
            again(30 + self.cluster.options.fetch_wait_ms / 5)
            return

        def lost() -> None:
            following.session.on_failure()
            begin_anew()

        def begin_anew() -> None:
            for key in positions:
                if key in self.throttle:
                    self.throttle.release(key, self.now_ms)
            again(20)

        def answered(answer: FetchAnswer) -> None:
            if not following.session.on_answer(answer.error, session_id=answer.session_id):
                begin_anew()
                return
            got = False
            for key, fetched in answer.items():
                replica, position = self.replicas.get(key), following.session.asked(key)
                if replica is None or position is None:
                    continue
                if key in self.throttle:
                    self.throttle.settle(key, len(fetched.records), self.now_ms)
                got = got or len(fetched.records) > 0
                self.cluster.marks.on_fetched(replica, position)
                effects: Effects = NO_EFFECTS
                if (follower := replica.following) is not None:
                    effects = follower.on_fetched(
                        fetched, asked=position, now_ms=self.now_ms, wall_ms=self.time.wall_ms()
                    )
                if fetched.diverging is not None:
                    self.cluster.marks.on_diverged(effects)
                self._run(key, effects)
                if key in self.throttle and 0 <= fetched.high_watermark <= replica.log.log_end_offset:
                    self.caught_up[key] = position.leader_epoch
                    self._classify(key, replica)
                self.cluster.oracle.on_replica_touched(self, key)
            if got or wait_ms:
                self._fetch(leader_id)
            else:
                again(15 + 30 * self.random.random())

        wait_ms = self.cluster.options.fetch_wait_ms
        asked = following.session.build()
        marks = {
            key: mark
            for key in asked.unproven
            if (follower := self.replicas[key].following) is not None
            and (mark := follower.log_mark()) is not None
        }
        request = FetchCall(self.broker_id, self.broker_epoch, asked, marks)
        self._call(
            f"broker-{leader_id}",
            request,
            answered,
            lost,
            timeout_ms=wait_ms + FETCH_SLACK_MS,
        )

    def _leave_leaders(self, key: PartitionKey, *, but: int | None = None) -> None:
        for leader_id, following in self.leaders.items():
            if leader_id != but:
                following.leave(key)

    def _when_its_turn_comes(self, key: PartitionKey, position: FetchPosition) -> FetchPosition | None:
        size_bytes = self.throttle.ask(key, self.now_ms)
        if not size_bytes:
            self.cluster.marks.reached("move.throttled")
            return None
        return position._replace(max_bytes=size_bytes)

    def _on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        self._run_in_life(self.life, partial(self._dispatch, request, answer))

    def _dispatch(self, request: Any, answer: Callable[[Any], None]) -> None:
        match request:
            case FetchCall():
                self._on_fetch(request, answer)
            case ProduceCall():
                self._produce(request, answer)
            case MendCall(broker_id=broker_id, key=key, position=position):
                max_bytes = min(position.max_bytes, self.cluster.options.fetch_bytes_max)
                fetch = ReplicaFetch(broker_id, request.broker_epoch, position, max_bytes)
                answer(_answer_of(self._serve(key, fetch)))
            case ReadCall() | DeleteCall() if self.is_resumed:
                pass  # it would be as old as its snapshot, until somebody finds out (3.10)
            case ReadCall():
                answer(self._read(request))
            case DeleteCall():
                self._delete(request, answer)
            case _:
                raise AssertionError(request)

    def _on_fetch(self, call: FetchCall, answer: Callable[[FetchAnswer], None]) -> None:
        """As dataplane/handlers/fetch.py does."""
        asked, sessions = call.asked, self.fetches.sessions
        self.fetches.answer_woken(now_ms=self.now_ms)  # of the event before, which a request finds ended
        earlier = self.connections.get(call.broker_id)
        if earlier is not None and asked.session_epoch == INITIAL_EPOCH:  # it comes over a new connection
            if isinstance(earlier.parked, Fetch):
                self.fetches.drop(earlier.parked)
            sessions.close(earlier)
        opened = sessions.open(
            SessionRequest(
                session_id=asked.session_id,
                session_epoch=asked.session_epoch,
                replica_id=call.broker_id,
                broker_epoch=call.broker_epoch,
                partitions=[
                    AskedPartition(key, position, call.marks.get(key)) for key, position in asked.partitions
                ],
                forgotten=asked.forgotten,
            ),
            now_ms=self.now_ms,
        )
        if isinstance(opened, ErrorCode):
            answer(FetchAnswer(opened))
            return
        self.connections[call.broker_id] = opened
        for key in asked.forgotten:
            if key in self.replicas and (leader := self.replicas[key].leading) is not None:
                leader.on_replica_gone(call.broker_id, opened.contact)
        wait_ms = 0 if asked.has_more else self.cluster.options.fetch_wait_ms
        self.fetches.take(
            Fetch(
                session=opened,
                min_bytes=1,
                max_bytes=FETCHED_AT_ONCE_MAX * self.cluster.options.fetch_bytes_max,
                deadline_ms=self.now_ms + wait_ms,
                context=answer,
                is_gone=lambda: False,
            ),
            now_ms=self.now_ms,
        )

    def evaluate(
        self,
        session: FetchSession,
        followed: FollowedPartition,
        max_bytes: int,
        at_least_one: bool,
        now_ms: int,
    ) -> FetchResult:
        """Return what a follower is told of one partition. Its news wait for this turn's end."""
        fetch = ReplicaFetch(
            session.replica_id,
            session.broker_epoch,
            followed.position,
            min(max_bytes, self.cluster.options.fetch_bytes_max),
            at_least_one,
            session.contact,
            followed.take_mark(),
        )
        return self._serve(followed.key, fetch)

    def _read(self, request: ReadCall) -> ReadAnswer:
        """A consumer's fetch, or its question for the end."""
        replica = self.replicas.get(request.key)
        if replica is None:
            return ReadAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, ())
        self.cluster.oracle.on_replica_touched(self, request.key)
        if request.offset is None:
            found = replica.role.list_offset(
                LATEST_TIMESTAMP, leader_epoch=request.leader_epoch, now_ms=self.now_ms
            )
            assert isinstance(found, OffsetResult)
            return ReadAnswer(found.error, found.offset, ())
        position = FetchPosition(request.offset, request.last_fetched_epoch, request.leader_epoch)
        fetch = ConsumerFetch(position, READ_BYTES_MAX, is_debugging=request.is_debugging)
        result, effects = replica.role.on_consumer_fetch(fetch, now_ms=self.now_ms)
        self.cluster.marks.on_read(replica, result, is_debugging=request.is_debugging)
        self._run(request.key, effects)
        parts = () if result.records is None else result.records.parts
        return ReadAnswer(
            result.error,
            result.high_watermark,
            tuple(bytes(part) for part in parts if isinstance(part, memoryview)),
            result.log_start_offset,
            result.diverging,
            0 if result.compacted is None else result.compacted.tombstone_floor,
        )

    def _delete(self, request: DeleteCall, answer: Callable[[DeletionResult], None]) -> None:
        """A client's DeleteRecords."""
        replica = self.replicas.get(request.key)
        if replica is None:
            answer(DeletionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        high_watermark = replica.high_watermark
        result, effects = replica.role.delete_records(
            request.before_offset,
            waiter=answer,
            expires_ms=self.now_ms + PRODUCE_WAIT_MS,
            now_ms=self.now_ms,
        )
        if result.error is ErrorCode.NONE:
            self.cluster.oracle.on_deletion_begun(
                request.key, high_watermark if request.before_offset < 0 else request.before_offset
            )
        if not result.is_waiting:
            answer(result)
        self._run(request.key, effects)
        self.cluster.oracle.on_replica_touched(self, request.key)

    def _serve(self, key: PartitionKey, fetch: ReplicaFetch) -> FetchResult:
        replica = self.replicas.get(key)
        if replica is None:
            self.cluster.marks.reached("fetch.of.an.unknown.partition")
            return FetchResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        result, effects = replica.role.on_replica_fetch(fetch, now_ms=self.now_ms)
        position, replica_id = fetch.position, fetch.replica_id
        self.cluster.marks.on_fetch_served(replica, replica_id, position, result, effects)
        if result.error is ErrorCode.NONE and result.diverging is None and not result.producers:
            self.cluster.oracle.on_fetch_served(self, key, replica_id, fetch.broker_epoch, position)
        self._run(key, effects)
        self.cluster.oracle.on_replica_touched(self, key)
        return result

    def _produce(self, request: ProduceCall, answer: Callable[[Any], None]) -> None:
        replica = self.replicas.get(request.key)
        if replica is None:
            answer(ProduceAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            return
        now_ms = self.now_ms
        base_offset = -1

        state = replica.state
        holder = None if state is None else self.cluster.oracle.holders.get(state.topic)

        def complete(error: ErrorCode) -> None:
            self.owed.pop(waiter_id, None)
            self.cluster.oracle.check_name(state, error, holder)
            answer(ProduceAnswer(error, base_offset))

        self.produce_count += 1
        waiter_id = self.produce_count
        checked = produced_records.check_produced_records(
            memoryview(request.batch),
            decode_header(request.batch),
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
        )
        assert checked.error is ErrorCode.NONE, checked
        end_offset = replica.log.log_end_offset
        result, effects = replica.role.append(
            checked.header,
            checked.batch,
            acks=request.acks,
            waiter=complete,
            expires_ms=now_ms + PRODUCE_WAIT_MS,
            now_ms=now_ms,
            wall_ms=self.time.wall_ms(),
        )
        base_offset = result.base_offset
        self.cluster.marks.on_produced(replica, result, end_offset)
        if result.is_waiting:
            self.owed[waiter_id] = now_ms + PRODUCE_WAIT_MS
        elif self.is_resumed and result.error in _FORGOT_ITS_PRODUCER:
            pass  # it has forgotten what came before: an error, fatal to a client, and no lie
        else:
            self.cluster.oracle.check_name(state, result.error, holder)
            answer(ProduceAnswer(result.error, result.base_offset))
        self._run(request.key, effects)
        self.cluster.oracle.on_replica_touched(self, request.key)

    def _check_owed(self, now_ms: int) -> None:
        """L1 (no waiter hangs): what is owed to producers is answered when its time is up, whatever has
        become of the replica. After a pause the tick that answers comes first."""
        for due_ms in self.owed.values():
            if now_ms > due_ms + 2 * self.cluster.options.tick_ms:
                raise Violation("L1", f"{self.name} still owes a producer an answer")
            return  # the others were promised later


_FORGOT_ITS_PRODUCER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


def _respond(fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]) -> None:
    assert callable(fetch.context)
    told = {answer.followed.key: _answer_of(answer.result) for answer in answers}
    fetch.context(FetchAnswer(ErrorCode.NONE, session.session_id, told))


def _answer_of(result: FetchResult) -> LeaderAnswer:
    parts = () if result.records is None else result.records.parts
    return LeaderAnswer(
        error=result.error,
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        diverging=result.diverging,
        records=b"".join(parts) if parts else b"",  # type: ignore[arg-type]  # none lies in a file
        compacted=result.compacted,
        producers=result.producers,
    )
