"""One cluster's single writer: event -> step -> persist -> publish -> reply.

    submit --step (at once, on the speculative image)--> waiting to be persisted --write--> published,
    answered

Events are stepped the moment they arrive, even while a large write is on its way: a heartbeat therefore
counts when it is received, however long the queue (KAFKA-15019). What steps want persisted collects meanwhile
and goes out together with the next write. Replies wait until everything that was decided before them is
persisted and published, for they may speak of it; only a heartbeat or a poll that changed nothing, from a
broker whose row is the same in both images, goes on at once: a poll is told of what is published alone, part
by part, and would else get the first part of a large election and wait for the last.

Readers see the published image only. A write that fails ends the term: the speculative image is then ahead
of the truth, and is dropped with everything else that this driver holds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, assert_never

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from controller.audit.change import AuditedChange
from controller.core.effects import (
    Alarm,
    AlarmCode,
    AlarmKey,
    ClearAlarm,
    Effect,
    MoreAlarms,
    Note,
    ProbeBroker,
)
from controller.core.events import (
    AppliedReply,
    BrokerApplied,
    BrokerProvenDead,
    Event,
    Heartbeat,
    MetadataRecovered,
    OperatorEvent,
    RecoverMetadata,
    Reply,
    Report,
    Tick,
)
from controller.core.in_force import Awaited
from controller.core.machine import ClusterMachine, Step
from controller.core.options import ControllerOptions
from controller.core.reassignment_progress import ReassignmentProgress
from controller.core.records import Cause, Record
from controller.shell.leadership import Resigned, Term
from controller.shell.listeners import ListenerAnswer, Listeners, is_proven_dead
from controller.shell.metadata_store import ClusterStore, Conflict, Fenced
from controller.shell.outcomes import MetadataWentBack, NotActive, NotInForce, OutcomeUnknown, Overloaded
from controller.shell.preflights import Preflights
from controller.shell.published import PersistedChange, Published, observe, render
from controller.shell.reported import Reported
from controller.shell.timekeeper import Timekeeper
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import HeartbeatResponse
from springtide.log_lines import current_ids, ids_in_log

log = logging.getLogger(__name__)

#: Records decided but not persisted. More would only hide that ZooKeeper is too slow; brokers ask again.
UNPERSISTED_RECORDS_MAX: Final = 400_000
UNPERSISTED_EVENTS_MAX: Final = 20_000
#: Records that wait to be persisted while time still passes for the machine.
TICKED_RECORDS_MAX: Final = 4_000
#: The machine hears of time so often at least: with many records waiting all the time, a broker dies too.
TICK_LATE_MS: Final = 500
#: Changes rendered for the audit before other tasks get a turn.
AUDIT_SLICE: Final = 250
#: The machine hears at least as often how far this controller's clocks disagree.
CLOCKS_TOLD_MS: Final = 5_000
#: A tick that leaves its deadline in the past must not spin.
TICK_PAUSE_MIN_MS: Final = 5
#: After a session's connection closed, its listener is asked again for so long: a dying process closes its
#: connections one by one, and not necessarily the listener first.
PROBE_PAUSES_MS: Final = (0, 2, 5, 10, 20, 50, 100)
#: When the listener of a broker that has begun to poll is tried, until it accepts.
REACH_PAUSES_MS: Final = (0, 20, 100, 500, 2_000, 10_000)
#: Alarms of one kind, raised by one event, that get a log line each.
ALARM_LINES_PER_STEP_MAX: Final = 5
#: What goes on until a person ends it; other alarms end by themselves, or lose nothing meanwhile.
ALARMS_THAT_NEED_A_PERSON: Final = frozenset(
    {
        AlarmCode.METADATA_WENT_BACK,
        AlarmCode.PARTITION_LEADERLESS,
        AlarmCode.PARTITION_BELOW_MIN_ISR,
        AlarmCode.LOG_MISSING,
        AlarmCode.LOG_SHORT,
        AlarmCode.STORAGE_ERROR,
        AlarmCode.LOG_DIRS_OFFLINE,
        AlarmCode.DUPLICATE_BROKER,
        AlarmCode.COORDINATOR_TOPIC_BLOCKED,
    }
)
#: Changes that wait to be rendered for the audit.
AUDIT_FEED_MAX: Final = 400_000
#: For how long, at most, history of more changes than these lets what is being decided go first: it takes
#: several times the work, and brokers wait for their new leaders. What a person has changed is told at once.
AUDIT_WAIT_MS_MAX: Final = 2_000
AUDITED_AT_ONCE_MAX: Final = 200
#: For how long an answer waits until what it forbids is in force everywhere. A member that falls silent holds
#: it up for the grace and a lease time, 11 s; clients wait for 30 s.
IN_FORCE_MS_MAX: Final = 15_000
#: The pauses between two looks whether it is, and their share of the time waited: an answer comes later by no
#: more than that.
IN_FORCE_LOOK_SHARE: Final = 8
IN_FORCE_LOOK_MS_MIN: Final = 1
IN_FORCE_LOOK_MS_MAX: Final = 100
#: Partitions of which brokers are told in a millisecond, about, when a controller takes over.
TOLD_PER_MS: Final = 50


class Outbox(Protocol):
    """The part of the audit that a driver calls. Neither call blocks or raises."""

    def record_changes(self, changes: Sequence[AuditedChange], /) -> None: ...
    def backfill(self, cluster: str, /) -> None: ...


class _Waiting:
    """A step whose records wait to be persisted, or whose reply waits for those before it."""

    __slots__ = ("_done", "error", "ids", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.ids = current_ids()
        self.error: Exception | None = None
        self._done = anyio.Event()

    def release(self, error: Exception | None = None) -> None:
        self.error = error
        self._done.set()

    async def reply(self) -> Reply | None:
        await self._done.wait()
        if self.error is not None:
            raise self.error
        return self.step.reply


class ClusterDriver:
    """Drives one cluster's machine during one term. `run` does the work; `submit` is called by requests.

    Args:
        store: loaded; owned from now on.
        published: made of the store's records.
        deaf_ms: for how long heartbeats were not counted, of this process's life (loop_watch.py).
    """

    def __init__(
        self,
        *,
        store: ClusterStore,
        published: Published,
        term: Term,
        clock: Timekeeper,
        listeners: Listeners,
        options: ControllerOptions,
        outbox: Outbox | None,
        deaf_ms: Callable[[], int],
    ) -> None:
        self.cluster = store.cluster
        self.published = published
        self.reported = Reported(published)
        # When this controller took the cluster over, or created it; monotonic.
        self._taken_over_ms = clock.now_mono_ms()
        self.persisted_records = 0
        self.unclean_elections = 0
        self.persist_ms_last = 0
        #: Names of webhooks that take no messages, for the next tick; None: each does.
        self.webhooks_fail: str | None = None
        #: What was found before brokers are admitted.
        self.preflights = Preflights(published, clock=clock, listeners=listeners, limits=options.preflight)
        self._store = store
        self._term = term
        self._clock = clock
        self._listeners = listeners
        self._options = options
        self._outbox = outbox
        self._count_deaf_ms = deaf_ms
        self._deaf_ms = 0
        self._machine: ClusterMachine | None = None
        self._waiting: list[_Waiting] = []
        self._waiting_records = 0
        self._is_persisting = False
        self._work = anyio.Event()
        self._deadline_moved = anyio.Event()
        self._armed_ms: int | None = None
        self._published_more = anyio.Event()
        self._probing: dict[tuple[int, int], None] = {}
        # Broker epochs, by broker id, that have polled in this term, and those whose listener accepted us.
        self._heard: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._audit_feed: deque[PersistedChange] = deque()
        self._audit_work = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._has_stopped = False

    # -- building --

    async def build(self) -> None:
        """Make the image that decides. Separate from `run`, so that it is done before any broker is told
        that the cluster is here."""
        orphans = self._store.orphans()
        if orphans:
            log.info("orphan_topics_removed cluster=%s topics=%d", self.cluster, len(orphans))
            await self._persist_or_resign(orphans)
        speculative = self.published.image.copy()
        self._machine = ClusterMachine(
            speculative,
            controller_epoch=self._term.controller_epoch,
            options=self._options,
            now_ms=self._clock.now_mono_ms(),
            terms=self._store.terms_with(self._term),
        )
        self._deaf_ms = self._count_deaf_ms()
        for image in (speculative, self.published.image):
            image.records_before = self._store.record_number - image.sequence
        self.reported.await_reports()
        self._taken_over_ms = self._clock.now_mono_ms()

    @property
    def machine(self) -> ClusterMachine:
        assert self._machine is not None, "build() comes first"
        return self._machine

    # -- asking --

    async def submit(self, event: Event) -> Reply | None:
        """Step the event and return its reply once everything it rests on is persisted.

        Raises:
            NotActive: no authority; nothing was done.
            Overloaded: nothing was done.
            OutcomeUnknown: the term ended while the write was on its way.
            MetadataWentBack: to an operator's event; nothing was done.
            NotInForce: it was done, but some may still act by the rule before.
        """
        if not self._term.has_authority:
            raise NotActive(None)
        if self._waiting_records >= UNPERSISTED_RECORDS_MAX or len(self._waiting) >= UNPERSISTED_EVENTS_MAX:
            raise Overloaded
        if self.machine.went_back is None and self.machine.evidence(event) is not None:
            # To a controller that was replaced, everything newer looks like a ZooKeeper that went back.
            await self._term.proven_after(self._clock.now_mono_ms())
            if not self._term.has_authority:
                raise NotActive(None)
        is_recovery = isinstance(event, RecoverMetadata)
        if self.machine.went_back is not None and isinstance(event, OperatorEvent) and not is_recovery:
            raise MetadataWentBack(self.cluster, self.machine.went_back)
        with ids_in_log(operation_id=event.operation_id if isinstance(event, OperatorEvent) else None):
            return await self._take(event)

    async def _take(self, event: Event) -> Reply | None:
        """Step the event, and wait until what it rests on is persisted."""
        step = self._step(event)
        if isinstance(step.reply, MetadataRecovered) and step.records:
            self._store.begin_history(step.reply.records_min)
        match event:
            case Report():
                self.reported.take_report(event, self._clock.now_mono_ms())
            case BrokerApplied():
                self._note_heard(event)
            case Heartbeat() if isinstance(step.reply, HeartbeatResponse):
                self.reported.take_heartbeat(event, step.reply.error)
            case _:
                pass
        if not step.records and (self._is_settled or self._may_answer_now(event, step)):
            self._carry_out(step.effects)
            reply = step.reply
        else:
            waiting = _Waiting(step)
            self._enqueue(waiting)
            reply = await waiting.reply()
        if step.awaited is not None:
            await self._until_in_force(step.awaited)
        return reply

    async def serving(self, topic_ids: Sequence[str], wait_ms: int) -> None:
        """Wait until the partitions of these topics, as they are published, have leaders and every live
        member knows them (2.12, answers). Raise NotInForce after `wait_ms`, or if the term ends before."""
        sequence = self.published.image.sequence
        await self._until_none(lambda: self.machine.not_serving(topic_ids, sequence), wait_ms)

    async def _until_in_force(self, awaited: Awaited) -> None:
        """Wait until no member acts by the rule before a change (2.12, answers). Raise NotInForce."""
        await self._until_none(
            lambda: self.machine.not_in_force(awaited, self._clock.now_mono_ms()), IN_FORCE_MS_MAX
        )

    async def _until_none(self, members_late: Callable[[], tuple[int, ...]], wait_ms: int) -> None:
        late: tuple[int, ...] = ()
        since_ms = self._clock.now_mono_ms()
        with self._clock.timeout_ms(wait_ms):
            while not self._has_stopped:
                late = members_late()
                if not late:
                    return
                pause_ms = (self._clock.now_mono_ms() - since_ms) // IN_FORCE_LOOK_SHARE
                await self._clock.sleep_ms(min(max(IN_FORCE_LOOK_MS_MIN, pause_ms), IN_FORCE_LOOK_MS_MAX))
        log.warning(
            "change_not_in_force cluster=%s members=%s", self.cluster, ",".join(map(str, late)) or "unknown"
        )
        raise NotInForce(late)

    async def settled(self) -> None:
        """Wait until everything that was decided is published. A halted machine stays so: it decides no
        more."""
        while not self._is_settled:
            await self._clock.sleep_ms(TICK_PAUSE_MIN_MS)

    @property
    def _is_settled(self) -> bool:
        """Return whether all that was decided is published."""
        return not self._waiting and not self._is_persisting

    def _may_answer_now(self, event: Event, step: Step) -> bool:
        match event, step.reply:
            case Heartbeat(request=request), HeartbeatResponse(error=ControllerError.NONE):
                broker_id, may_wait = request.broker_id, request.wants_shutdown
            case BrokerApplied(broker_id=broker_id), AppliedReply(error=ControllerError.NONE):
                may_wait = False
            case _:
                return False
        row = self.published.image.member(broker_id)
        return not may_wait and row is not None and self.machine.image.member(broker_id) == row

    def _step(self, event: Event) -> Step:
        now_ms = self._clock.now_mono_ms()
        deaf_ms, self._deaf_ms = self._deaf_ms, self._count_deaf_ms()
        self.machine.forgive_silence(self._deaf_ms - deaf_ms, now_ms)
        try:
            step = self.machine.step(event, now_ms)
        except Exception as error:
            # A fault of ours. What the machine holds now is not known; what ZooKeeper holds is whole.
            log.exception("step_failed cluster=%s step=%s", self.cluster, type(event).__name__)
            self._term.resign(f"the machine of cluster {self.cluster!r} failed")
            raise NotActive(None) from error
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None and (self._armed_ms is None or deadline_ms < self._armed_ms):
            self._deadline_moved.set()
        return step

    def _enqueue(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._waiting_records += len(waiting.step.records)
        self._work.set()

    # -- the loop --

    async def run(self) -> None:
        """Run until cancelled. Raise Resigned when a write shows that the term is over."""
        resigned: Resigned | None = None
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._tick)
                if self._outbox is not None:
                    tasks.start_soon(self._back_fill, self._outbox)
                    tasks.start_soon(self._feed_audit, self._outbox)
                try:
                    await self._persist_for_ever()
                except Resigned as error:
                    resigned = error
                    tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._has_stopped = True
            self._fail_waiting(self._waiting)
            self._waiting = []
            self._published_more.set()
        if resigned is not None:
            raise resigned

    async def _persist_for_ever(self) -> None:
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            batch, self._waiting = self._waiting, []
            self._waiting_records = 0
            self._is_persisting = True
            try:
                records = [record for waiting in batch for record in waiting.step.records]
                if records:
                    await self._persist_and_publish(records)
            except BaseException:
                self._fail_waiting(batch)
                raise
            self._is_persisting = False
            for waiting in batch:
                with ids_in_log(**waiting.ids):
                    self._carry_out(waiting.step.effects)
                waiting.release()

    def _fail_waiting(self, batch: Iterable[_Waiting]) -> None:
        for waiting in batch:
            waiting.release(OutcomeUnknown() if waiting.step.records else NotActive(None))

    async def _persist_and_publish(self, records: list[Record]) -> None:
        """Publish each part of a split batch as soon as it stands: it is a prefix, so a broker that reads
        meanwhile sees nothing but an earlier moment, and brokers need not wait for the rest."""
        first = self._store.record_number
        done = 0
        started_ms = self._clock.now_mono_ms()

        def publish(until: int) -> None:
            nonlocal done
            for index in range(done, until):
                self._publish(records[index], first + index + 1)
            done = until
            self._published_more.set()
            self._published_more = anyio.Event()
            self._audit_work.set()

        await self._persist_or_resign(records, on_persisted=publish)
        assert done == len(records), "everything persisted is published"
        self.persist_ms_last = self._clock.now_mono_ms() - started_ms

    def _publish(self, record: Record, number: int) -> None:
        self.persisted_records += 1
        if record.change.cause is Cause.UNCLEAN_LEADER_ELECTED:
            self.unclean_elections += 1
        if self._outbox is not None:
            change = observe(self.published, record, number)
            if change is not None:
                self._audit_feed.append(change)
        self.reported.forget(record)
        self.published.replay(record, number)

    async def _persist_or_resign(
        self, records: Sequence[Record], *, on_persisted: Callable[[int], None] | None = None
    ) -> None:
        try:
            await self._store.persist(records, self._term, on_persisted=on_persisted)
        except Fenced as error:
            raise self._resigned(f"another controller took over: {error}") from error
        except Conflict as error:
            log.error("metadata_conflict cluster=%s detail=%s", self.cluster, str(error))
            raise self._resigned(f"ZooKeeper holds something unexpected: {error}") from error

    def _resigned(self, reason: str) -> Resigned:
        """End the term before a request that waits here learns that it is over."""
        self._term.resign(reason)
        return Resigned(reason)

    async def _tick(self) -> None:
        """Feed time to the machine: once at the start, then whenever it asked to be woken."""
        try:
            await self._tick_for_ever()
        except NotActive:
            log.info("ticking_ends cluster=%s", self.cluster)

    async def _tick_for_ever(self) -> None:
        self._tick_once()
        ticked_ms = looked_ms = self._clock.now_mono_ms()
        while True:
            self._deadline_moved = anyio.Event()
            self._armed_ms = self.machine.next_deadline_ms()
            due_ms = looked_ms + CLOCKS_TOLD_MS if self._armed_ms is None else self._armed_ms
            wait_ms = min(due_ms, looked_ms + CLOCKS_TOLD_MS) - self._clock.now_mono_ms()
            if wait_ms > 0:
                with self._clock.timeout_ms(wait_ms):
                    await self._deadline_moved.wait()
                continue
            looked_ms = self._clock.now_mono_ms()
            # Without authority heartbeats are not counted, so no broker may be judged by them either. What
            # would wait behind so much anyway is not to hold the loop up now: a dead broker's seats, of which
            # each tick takes some, while its leaderships are on their way.
            is_room = self._waiting_records < TICKED_RECORDS_MAX or looked_ms - ticked_ms >= TICK_LATE_MS
            if self._term.has_authority and is_room:
                ticked_ms = looked_ms
                self._tick_once()
                self.reported.sample(now_ms=looked_ms, wall_ms=self._clock.now_wall_ms())
            await self._clock.sleep_ms(TICK_PAUSE_MIN_MS)

    def _tick_once(self) -> None:
        is_missing = self.machine.missing_topics
        step = self._step(
            Tick(
                wall_ms=self._clock.now_wall_ms(),
                clock_leap=self._clock.leap(),
                webhooks_fail=self.webhooks_fail,
                fresh_id=self._store.new_id() if is_missing else None,
                expired_ms=self._clock.expiry_ms(),
            )
        )
        if step.records or step.effects:
            self._enqueue(_Waiting(step))

    # -- effects --

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        alarms: dict[tuple[AlarmCode, bool], int] = {}
        for effect in effects:
            match effect:
                case ProbeBroker():
                    self._start_probe(effect, pauses_ms=(0,))
                case Alarm(key=key, detail=detail):
                    if self._may_log_alarm(alarms, key.code, is_cleared=False):
                        self._log_about(
                            _alarm_level(key.code), "alarm", code=key.code, **_named(key), detail=detail
                        )
                case ClearAlarm(key=key):
                    if self._may_log_alarm(alarms, key.code, is_cleared=True):
                        self._log_about(logging.INFO, "alarm_cleared", code=key.code, **_named(key))
                case MoreAlarms(code=code, is_cleared=is_cleared, count=count):
                    self._log_alarms(code, is_cleared=is_cleared, besides=count)
                case Note(code=code, detail=detail, fields=fields):
                    self._log_about(logging.INFO, code, **dict(sorted(fields.items())), detail=detail)
                case _:
                    assert_never(effect)
        for (code, is_cleared), count in alarms.items():
            if count > ALARM_LINES_PER_STEP_MAX:
                self._log_alarms(code, is_cleared=is_cleared, count=count)

    @staticmethod
    def _may_log_alarm(
        counts: dict[tuple[AlarmCode, bool], int], code: AlarmCode, *, is_cleared: bool
    ) -> bool:
        """One report may tell of thousands of replicas: the log gets the first few and their number, REST has
        them all."""
        counts[code, is_cleared] = counts.get((code, is_cleared), 0) + 1
        return counts[code, is_cleared] <= ALARM_LINES_PER_STEP_MAX

    def _log_alarms(self, code: AlarmCode, *, is_cleared: bool, **how_many: int) -> None:
        if is_cleared:
            self._log_about(logging.INFO, "alarms_cleared", code=code, **how_many)
        else:
            self._log_about(_alarm_level(code), "alarms", code=code, **how_many)

    def _log_about(self, level: int, event: str, **fields: str | int) -> None:
        """Log an effect. Its names are the core's own words, never a client's."""
        names = "".join(f" {name}=%s" for name in fields)
        log.log(level, f"{event} cluster=%s{names}", self.cluster, *fields.values())

    def on_session_closed(self, broker_id: int, broker_epoch: BrokerEpoch) -> None:
        """The broker's open poll ended on its side: it stopped waiting, or it is dead. Its listener knows."""
        row = self.published.image.member(broker_id)
        if row is not None and row.epoch == broker_epoch and not row.fenced:
            self._start_probe(row.probe, pauses_ms=PROBE_PAUSES_MS)

    def _note_heard(self, event: BrokerApplied) -> None:
        """A broker polls. The first time, try its listener too: only where a connection was once accepted
        does a later refusal speak against a broker that we hear from. An address that the controller can't
        reach (a broker that advertises localhost, a firewall that rejects) refuses for ever, even if the
        process lives there."""
        row = self.published.image.member(event.broker_id)
        if (
            row is None
            or row.epoch != event.broker_epoch
            or self._heard.get(event.broker_id) == event.broker_epoch
        ):
            return
        self._heard[event.broker_id] = event.broker_epoch
        if self._tasks is not None:
            self._tasks.start_soon(self._reach, row.probe)

    async def _reach(self, probe: ProbeBroker) -> None:
        """More than once: a broker polls when it is registered, and opens its listener a moment later."""
        answer = ListenerAnswer.SILENT
        for pause_ms in REACH_PAUSES_MS:
            await self._clock.sleep_ms(pause_ms)
            answer = await self._listeners.ask(probe.host, probe.port)
            if answer is ListenerAnswer.ACCEPTED:
                self._reached[probe.broker_id] = probe.broker_epoch
                return
        log.warning(
            "broker_out_of_reach cluster=%s broker_id=%d address=%s answer=%s consequence=%s",
            self.cluster,
            probe.broker_id,
            f"{probe.host}:{probe.port}",
            answer.value,
            "its death will be noticed by its silence only",
        )

    def _start_probe(self, probe: ProbeBroker, *, pauses_ms: tuple[int, ...]) -> None:
        key = (probe.broker_id, probe.broker_epoch)
        if self._tasks is not None and key not in self._probing and self._would_a_refusal_tell(probe):
            self._probing[key] = None
            self._tasks.start_soon(self._probe, probe, pauses_ms)

    def _would_a_refusal_tell(self, probe: ProbeBroker) -> bool:
        was_heard = self._heard.get(probe.broker_id) == probe.broker_epoch
        return not was_heard or self._reached.get(probe.broker_id) == probe.broker_epoch

    async def _probe(self, probe: ProbeBroker, pauses_ms: tuple[int, ...]) -> None:
        try:
            for pause_ms in pauses_ms:
                if pause_ms:
                    await self._clock.sleep_ms(pause_ms)
                if await is_proven_dead(self._listeners, self._clock, host=probe.host, port=probe.port):
                    break
            else:
                return
            await self._report_death(probe)
        except (NotActive, Overloaded, OutcomeUnknown) as error:
            log.warning("death_not_reported cluster=%s reason=%s", self.cluster, str(error))
        finally:
            self._probing.pop((probe.broker_id, probe.broker_epoch), None)

    async def _report_death(self, probe: ProbeBroker) -> None:
        row = self.published.image.brokers.get(probe.broker_id)
        log.log(
            logging.INFO if row is not None and row.shutting_down else logging.WARNING,
            "broker_proven_dead cluster=%s broker_id=%d broker_epoch=%d",
            self.cluster,
            probe.broker_id,
            probe.broker_epoch,
        )
        await self.submit(
            BrokerProvenDead(
                broker_id=probe.broker_id,
                broker_epoch=probe.broker_epoch,
                wall_ms=self._clock.now_wall_ms(),
            )
        )

    async def notice_death(self, member_id: int) -> None:
        """Ask the listener of a broker or coordinator now, and take its refusal for its death: an operator
        who stopped a process knows it before its silence tells. Raises as `submit`."""
        row = self.published.image.member(member_id)
        if row is None or not self._would_a_refusal_tell(row.probe):
            return
        if await is_proven_dead(self._listeners, self._clock, host=row.probe.host, port=row.probe.port):
            await self._report_death(row.probe)

    # -- reading --

    async def published_beyond(self, sequence: int) -> None:
        """Wait until the published image is past `sequence`. Raise NotActive when the driver stops."""
        while self.published.image.sequence <= sequence:
            if self._has_stopped:
                raise NotActive(None)
            await self._published_more.wait()

    def reassignments(self) -> tuple[ReassignmentProgress, ...]:
        """Return every running reassignment: how far, and what holds it up."""
        return self.machine.reassignments(self._clock.now_mono_ms())

    def now_ms(self) -> int:
        """Return the time of the clock by which reports are taken in (monotonic)."""
        return self._clock.now_mono_ms()

    def served_for_ms(self) -> int:
        """Return the time since this controller took the cluster over or created it."""
        return self._clock.now_mono_ms() - self._taken_over_ms

    # -- audit --

    async def _back_fill(self, outbox: Outbox) -> None:
        """Have history compared with what was taken over, once brokers were told: that is a list of all."""
        await self._clock.sleep_ms(len(self.published.image.partitions) // TOLD_PER_MS)
        outbox.backfill(self.cluster)

    async def _feed_audit(self, outbox: Outbox) -> None:
        """Render changes for the audit in slices, behind the replies: no request waits for history."""
        while True:
            if not self._audit_feed:
                self._audit_work = anyio.Event()
                await self._audit_work.wait()
                if len(self._audit_feed) > AUDITED_AT_ONCE_MAX:
                    with self._clock.timeout_ms(AUDIT_WAIT_MS_MAX):
                        await self.settled()
            if len(self._audit_feed) > AUDIT_FEED_MAX:
                self._audit_feed.clear()
                log.warning("audit_feed_overflow cluster=%s", self.cluster)
                outbox.backfill(self.cluster)
            rendered: list[AuditedChange] = []
            while self._audit_feed and len(rendered) < AUDIT_SLICE:
                change = self._audit_feed.popleft()
                rendered += render(change, cluster=self.cluster, controller_epoch=self._term.controller_epoch)
            outbox.record_changes(rendered)
            await anyio.lowlevel.checkpoint()


def _alarm_level(code: AlarmCode) -> int:
    return logging.ERROR if code in ALARMS_THAT_NEED_A_PERSON else logging.WARNING


def _named(key: AlarmKey) -> dict[str, str | int]:
    parts = (("topic_id", key.topic_id), ("partition", key.partition), ("broker_id", key.broker_id))
    return {name: value for name, value in parts if value is not None}
