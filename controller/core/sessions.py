"""Brokers' sessions: who is registered, heard from, trusted, on its way out.

    (not known) --register--> waiting --admitted--> fenced --applied all it must--> active
        active --silence for the grace, or proven death--> fenced
        active --wants shutdown--> shutting down --leads nothing, applied everywhere--> may stop

A new incarnation takes its id only when the old one's session is over (S37, a second process under one id),
or when its disk proves the old one finished: a clean marker is written last of all. What it can't vouch for
is taken away in records that precede the one with its new broker epoch (I11, unproven logs lose their seats
first).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from controller.core.alarms import AlarmBook
from controller.core.disk_watch import DiskWatch
from controller.core.draft import Draft, actor_of
from controller.core.durations import told
from controller.core.effects import AlarmCode, AlarmKey
from controller.core.election import drain, elect_leaderless, seats_in_order, vacate_seats
from controller.core.image import ClusterImage
from controller.core.kept_topics import vacate_kept_seats
from controller.core.options import ControllerOptions
from controller.core.presence import Presence, Session
from controller.core.records import BrokerRegistration, Cause, Change, MemberKind
from controller.core.registration import (
    check_registration,
    continues_chain,
    has_usable_dir,
    levels_in_row,
    proves_end,
    vouches_for_seats,
)
from controller.core.workers import workers_of
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import CreatedLogs
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import (
    Heard,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    owner_of,
)

WITNESSED_MAX = 3
"""The number of other brokers of which each broker is told how many heartbeats were heard."""


class Sessions(Presence):
    """All sessions of one cluster under one controller epoch.

    created: per broker, the partitions that it is new for and whose log its present incarnation has told of.
    has_news: such a log was told of, or who has to tell has changed, since the machine last took note.

    A fenced broker loses what it leads at once, and its other seats in slices, one a tick: each is a promise
    less, but a step for thousands of them would hold every other broker's heartbeat up. Until it has lost
    them all it is not trusted again; a successor of this controller finishes the rest (2.10, the controller's
    authority), and so does the registration of another incarnation.
    """

    KIND, FENCED, DIED = MemberKind.BROKER, Cause.BROKER_FENCED, Cause.BROKER_DIED

    def __init__(
        self,
        image: ClusterImage,
        alarms: AlarmBook,
        *,
        options: ControllerOptions,
        controller_epoch: ControllerEpoch,
        now_ms: int,
    ) -> None:
        super().__init__(image, alarms, options=options, controller_epoch=controller_epoch, now_ms=now_ms)
        self._disks = DiskWatch(alarms)
        self.full_disks = self._disks.full_disks
        self.created: dict[int, dict[PartitionKey, None]] = {}
        self.has_news = False
        #: Seats that fenced brokers still have to lose, and why.
        self._vacating: dict[int, tuple[Change, list[PartitionKey]]] = {}
        #: Brokers that were stopped in order, and since when each is away, as far as this controller knows;
        #: None until the next tick.
        self._stopped_since_ms: dict[int, int | None] = {}

    def on_takeover(self, draft: Draft) -> None:
        """Note that seats were repaired: a fenced broker must apply that too before it is trusted."""
        for broker_id, broker in draft.image.brokers.items():
            self._by_id[broker_id].required_sequence = draft.image.sequence
            if broker.admitted and broker.fenced:
                if broker.shutting_down:
                    self._stopped_since_ms[broker_id] = None
                else:
                    self._raise_fenced(draft, broker_id, "was fenced when this controller took over")

    # --- registration -----------------------------------------------------------------------------------

    def on_register(self, draft: Draft, request: RegisterRequest, now_ms: int) -> RegisterResponse:
        image = draft.image
        error, detail = check_registration(image, request, self._options)
        if error is not ControllerError.NONE:
            return self._refuse(error, detail)
        before = image.brokers.get(request.broker_id)
        if before is not None and before.incarnation_id == request.incarnation_id:
            return self._on_same_incarnation(draft, before, request, now_ms)
        if (
            before is not None
            and self.is_valid(request.broker_id, now_ms)
            and not proves_end(before, request)
        ):
            return self._refuse_second(draft, before, request, now_ms)
        if before is not None:
            self._end_incarnation(draft, before, request)
        is_continued = before is not None and continues_chain(before, request)
        workers = workers_of(image, owner_of(request.broker_id, request.worker_of))
        # What operators set on a broker holds for a worker that comes later.
        like = before or next(iter(workers), None)
        assigned = None if like is None else like.assigned_rack
        registration = BrokerRegistration(
            broker_id=request.broker_id,
            broker_epoch=BrokerEpoch(image.last_broker_epoch + 1),
            incarnation_id=request.incarnation_id,
            host=request.host,
            port=request.port,
            listeners=request.listeners,
            rack=request.rack if assigned is None else assigned,
            log_dir_ids=request.log_dir_ids,
            offline_log_dir_ids=request.offline_log_dir_ids,
            admitted=any(worker.admitted for worker in workers),
            cordoned=like is not None and like.cordoned,
            draining=like is not None and like.draining,
            demoted=like is not None and like.demoted,
            configs={} if like is None else like.configs,
            assigned_rack=assigned,
            own_rack=None if assigned is None else request.rack,
            labels={} if like is None else like.labels,
            last_shutdown=request.last_shutdown.judged,
            registered_at_ms=draft.wall_ms,
            version=request.version,
            chain_epoch=BrokerEpoch(
                before.chain_epoch if before and is_continued else image.last_broker_epoch + 1
            ),
            worker_of=request.worker_of,
            levels=levels_in_row(image.level, request.levels),
        )
        draft.write_member(
            registration,
            draft.change(
                Cause.BROKER_REGISTERED,
                actor=actor_of(request.broker_id),
                reason=f"last stop: {request.last_shutdown.value}",
            ),
        )
        self.applied.pop(request.broker_id, None)
        self.created.pop(request.broker_id, None)
        self.levels[request.broker_id] = request.levels
        self._by_id[request.broker_id] = Session(last_seen_ms=now_ms, required_sequence=image.sequence)
        self._is_stale = True
        self._alarms.clear_alarm(draft, _broker_alarm(AlarmCode.DUPLICATE_BROKER, request.broker_id))
        self._alarms.clear_rot(draft, request.broker_id)
        self._alarm_offline_dirs(draft, registration, "")
        return self._accept(registration, chain_epoch=registration.chain_epoch)

    def _on_same_incarnation(
        self, draft: Draft, before: BrokerRegistration, request: RegisterRequest, now_ms: int
    ) -> RegisterResponse:
        """The answer was lost, or the broker found a new controller: the same broker epoch (KAFKA-16952)."""
        is_assigned = before.assigned_rack is not None
        registration = msgspec.structs.replace(
            before,
            host=request.host,
            port=request.port,
            listeners=request.listeners,
            rack=before.rack if is_assigned else request.rack,
            own_rack=request.rack if is_assigned else None,
            version=request.version,
            worker_of=request.worker_of,
            levels=levels_in_row(draft.image.level, request.levels),
        )
        if registration != before:
            draft.write_member(
                registration, draft.change(Cause.BROKER_REGISTERED, actor=actor_of(before.broker_id))
            )
        self.levels[before.broker_id] = request.levels
        self._see(before.broker_id, now_ms)
        self._is_stale = True
        return self._accept(registration, chain_epoch=registration.chain_epoch)

    def _end_incarnation(self, draft: Draft, before: BrokerRegistration, request: RegisterRequest) -> None:
        """Take away everything that the old incarnation held, before the new one gets an epoch. Each record
        may be the last that is persisted: a repeated registration then finds the old epoch and finishes the
        job."""
        vouched = vouches_for_seats(before, request)
        cause = Cause.BROKER_RESTARTED if vouched else Cause.UNCLEAN_RESTART
        change = draft.change(
            cause,
            actor=actor_of(before.broker_id),
            reason=f"{before.name} restarted, last stop: {request.last_shutdown.value}",
        )
        if not before.fenced:
            draft.write_member(msgspec.structs.replace(before, fenced=True), change)
        self._vacating.pop(before.broker_id, None)
        self._stopped_since_ms.pop(before.broker_id, None)
        created = self.created.get(before.broker_id, ())
        keys = vacate_seats(draft, before.broker_id, change, excluded=not vouched, created=created)
        if not vouched:
            vacate_kept_seats(draft, before.broker_id, change)
        if not vouched and keys:
            self._alarms.raise_unproven(
                draft,
                before.broker_id,
                keys,
                f"{before.name} can't prove that its logs are whole (last stop: "
                f"{request.last_shutdown.value}): its seats in {len(keys)} partitions were taken away. What "
                "they lack is not known; each is whole again once it is in sync",
            )

    def _refuse_second(
        self, draft: Draft, before: BrokerRegistration, request: RegisterRequest, now_ms: int
    ) -> RegisterResponse:
        session = self._by_id[before.broker_id]
        if session.refused_since_ms is None:
            session.refused_since_ms = now_ms
        elif now_ms - session.refused_since_ms > self._options.grace_ms:
            self._alarms.raise_alarm(
                draft,
                _broker_alarm(AlarmCode.DUPLICATE_BROKER, before.broker_id),
                f"broker id {before.broker_id} is held by {before.host}:{before.port} "
                f"and claimed by {request.host}:{request.port}",
            )
        return self._refuse_duplicate(draft, before, now_ms)

    # --- heartbeats, positions --------------------------------------------------------------------------

    def _note_others(self, image: ClusterImage, others: Iterable[Heard]) -> None:
        """Note what the controller before this one told a broker of others."""
        for heard in others:
            broker = image.brokers.get(heard.broker_id)
            if broker is not None and broker.broker_epoch == heard.broker_epoch:
                self._by_id[heard.broker_id].on_told(heard.count, heard.answered)

    def _others(self, image: ClusterImage, broker_id: int) -> tuple[Heard, ...]:
        """Return what was heard of the brokers that follow this one in a ring of ids, so that each is known
        to a few."""
        ids = sorted(self._by_id)
        after = bisect_right(ids, broker_id)
        ring = [other for other in (*ids[after:], *ids[:after]) if other != broker_id]
        return tuple(
            Heard(
                broker_id=other,
                broker_epoch=image.brokers[other].broker_epoch,
                count=session.heard_count,
                answered=session.heard_answered,
            )
            for other in ring[:WITNESSED_MAX]
            if (session := self._by_id[other]).heard_count >= 0
        )

    def on_heartbeat(
        self, draft: Draft, request: HeartbeatRequest, *, received_ms: int, now_ms: int
    ) -> HeartbeatResponse:
        image = draft.image
        broker_id = request.broker_id
        error = self.check(broker_id, request.broker_epoch)
        if error is ControllerError.NONE and (
            image.brokers[broker_id].incarnation_id != request.incarnation_id
        ):
            error = ControllerError.STALE_BROKER_EPOCH
        if error is not ControllerError.NONE:
            return HeartbeatResponse(error=error, controller_epoch=self.controller_epoch)
        session = self._by_id[broker_id]
        self._note_others(image, request.others)
        if self.is_outdated(broker_id, request.count, request.answered):
            # It is late, and its sender waits no more; or its process went back, and learns so (3.10, a host
            # that goes back).
            return HeartbeatResponse(
                error=ControllerError.STALE_BROKER_EPOCH,
                controller_epoch=self.controller_epoch,
                heard_count=session.heard_count,
                heard_answered=session.heard_answered,
                has_gone_back=session.has_gone_back,
            )
        session.on_heard(request.count, request.answered)
        self._hear(request, received_ms=received_ms, now_ms=now_ms)
        self._take_offline_dirs(draft, broker_id, request.offline_log_dir_ids, request.log_dir_failure)
        self._alarms.on_clocks(draft, broker_id, request.clock_leap)
        self._alarms.on_certificate(
            draft, image.brokers[broker_id].name, broker_id, request.certificate_ends_ms
        )
        self._disks.see(draft, broker_id, request.disk, now_ms)
        may_shut_down = False
        if request.wants_shutdown:
            may_shut_down = self._on_wants_shutdown(draft, broker_id, now_ms)
        else:
            self.unfence_if_ready(draft, broker_id, now_ms)
        return HeartbeatResponse(
            controller_epoch=self.controller_epoch,
            status=image.brokers[broker_id].status,
            lease_ms=self._options.lease_ms,
            sequence=image.sequence,
            may_shut_down=may_shut_down,
            remaining_leaderships=len(image.leader_of.get(broker_id, {})),
            heard_count=session.heard_count,
            heard_answered=session.heard_answered,
            has_asked_to_stop=image.brokers[broker_id].shutting_down,
            others=self._others(image, broker_id),
        )

    def record_created(self, image: ClusterImage, broker_id: int, created: Iterable[CreatedLogs]) -> None:
        """Note the logs that a broker has made, as its own word about each; a position says nothing of them:
        partitions come before the row that announces them (4.7, creation), and creations lag behind (2.8,
        applying batches)."""
        known = self.created.setdefault(broker_id, {})
        for logs in created:
            for partition in logs.partitions:
                key = (logs.topic_id, partition)
                if key in image.unconfirmed_new and broker_id in image.partitions[key].new_replicas:
                    known[key] = None
                    self.has_news = True

    def forget_confirmed(self, image: ClusterImage) -> None:
        """Forget partitions without new replicas: they never get any again."""
        for broker_id, keys in self.created.items():
            self.created[broker_id] = {key: None for key in keys if key in image.unconfirmed_new}

    def unfence_if_ready(self, draft: Draft, broker_id: int, now_ms: int) -> None:
        """Trust a broker that is ready, and has a disk."""
        broker = draft.image.brokers[broker_id]
        if (
            not self._is_ready(broker_id, now_ms)
            or broker.shutting_down
            or broker_id in self._vacating
            or not has_usable_dir(broker)
        ):
            return
        unfenced = msgspec.structs.replace(broker, fenced=False, epoch_before_recovery=-1)
        draft.write_member(unfenced, draft.change(Cause.BROKER_UNFENCED))
        self._is_stale = True
        self._stopped_since_ms.pop(broker_id, None)
        for code in (AlarmCode.BROKER_FENCED, AlarmCode.BROKER_STOPPED):
            self._alarms.clear_alarm(draft, _broker_alarm(code, broker_id))
        elect_leaderless(draft, broker_id)

    # --- fencing ----------------------------------------------------------------------------------------

    def fence(
        self, draft: Draft, broker_id: int, cause: Cause, reason: str, *, excluded: bool = False
    ) -> bool:
        """Stop trusting a broker: its row first, so that a successor of this controller can finish the rest.
        Return False if it was fenced already."""
        image = draft.image
        broker = image.brokers[broker_id]
        if broker.fenced and not excluded:
            return False
        change = draft.change(cause, reason=reason)
        if not broker.fenced:
            draft.write_member(msgspec.structs.replace(broker, fenced=True), change)
            if broker.admitted and not broker.shutting_down:
                self._raise_fenced(draft, broker_id, reason)
            elif broker.admitted:
                self._stopped_since_ms[broker_id] = None
        seats = seats_in_order(image, broker_id)
        draft.note(cause.value, f"{broker.name} {reason}", broker=broker_id, partitions=len(seats))
        if excluded:
            created = self.created.get(broker_id, ())
            vacate_seats(draft, broker_id, change, excluded=True, created=created)
            vacate_kept_seats(draft, broker_id, change)
            self._vacating.pop(broker_id, None)
            self._by_id[broker_id].required_sequence = image.sequence
        else:
            self._vacating[broker_id] = (change, seats)
            self._vacate_some(draft, broker_id, at_least=len(image.leader_of.get(broker_id, {})))
        self._is_stale = True
        return True

    def _vacate_some(self, draft: Draft, broker_id: int, *, at_least: int = 0) -> None:
        change, seats = self._vacating[broker_id]
        count = max(at_least, self._options.vacated_per_step_max)
        created = self.created.get(broker_id, ())
        vacate_seats(draft, broker_id, change, excluded=False, created=created, keys=seats[:count])
        del seats[:count]
        if not seats:
            del self._vacating[broker_id]
        self._by_id[broker_id].required_sequence = draft.image.sequence

    def probe(self, draft: Draft, broker_id: int, now_ms: int) -> None:
        """Ask for a probe of the broker's listener: a refusal proves that its process has ended."""
        self._probe(draft, draft.image.brokers[broker_id], self._by_id[broker_id], now_ms)

    def on_tick(self, draft: Draft, now_ms: int) -> None:
        for broker_id in list(self._vacating):
            self._vacate_some(draft, broker_id)
        super().on_tick(draft, now_ms)
        self._alarm_stopped(draft, now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when `on_tick` has something to do; it may be early, never late."""
        if self._vacating:
            return 0
        found = [
            0 if since_ms is None else since_ms + self._options.stopped_alarm_ms
            for since_ms in self._stopped_since_ms.values()
        ]
        silent_ms = super().next_deadline_ms()
        return min(found if silent_ms is None else [silent_ms, *found], default=None)

    # --- stopped in order -------------------------------------------------------------------------------

    def _alarm_stopped(self, draft: Draft, now_ms: int) -> None:
        """Raise the alarm of brokers that have been away for longer than a restart takes: an operator who
        stopped one by mistake, or forgot it, is told by nothing else."""
        for broker_id, known_ms in list(self._stopped_since_ms.items()):
            since_ms = self._stopped_since_ms[broker_id] = now_ms if known_ms is None else known_ms
            if now_ms - since_ms < self._options.stopped_alarm_ms:
                continue
            del self._stopped_since_ms[broker_id]
            self._tell_stopped(draft, broker_id)

    def on_maintained(self, draft: Draft, broker_ids: Iterable[int]) -> None:
        """Tell anew of those that stay away: what an operator asks for meanwhile is maintenance, too."""
        for broker_id in broker_ids:
            if self._alarms.is_up(_broker_alarm(AlarmCode.BROKER_STOPPED, broker_id)):
                self._tell_stopped(draft, broker_id)

    def _tell_stopped(self, draft: Draft, broker_id: int) -> None:
        broker = draft.image.brokers[broker_id]
        grace = told(self._options.stopped_alarm_ms)
        away = f"{broker.name} was stopped in order and has been away for more than {grace}"
        if broker.draining:
            why = "it is being drained, as was asked; remove it when it holds nothing any more"
        elif broker.demoted:
            why = "it is in maintenance, as was asked (demoted); its replicas are out of sync meanwhile"
        else:
            why = "its replicas are out of sync; start it, or drain and remove it"
        self._alarms.raise_alarm(draft, _broker_alarm(AlarmCode.BROKER_STOPPED, broker_id), f"{away}: {why}")

    # --- disks ------------------------------------------------------------------------------------------

    def _take_offline_dirs(self, draft: Draft, broker_id: int, offline: tuple[str, ...], why: str) -> None:
        """A directory that failed stays failed for this incarnation. The contract does not say which
        partition lives where: when the last usable directory fails, every seat is lost; before that, the
        broker names each lost partition itself (`storage_error`)."""
        before = draft.image.brokers[broker_id]
        failed = tuple(d for d in before.log_dir_ids if d in offline and d not in before.offline_log_dir_ids)
        if not failed:
            return
        registration = msgspec.structs.replace(
            before, offline_log_dir_ids=before.offline_log_dir_ids + failed
        )
        draft.write_member(registration, draft.change(Cause.LOG_DIRS_OFFLINE, actor=actor_of(broker_id)))
        self._alarm_offline_dirs(draft, registration, why)
        if not has_usable_dir(registration):
            self.fence(draft, broker_id, Cause.LOG_DIRS_OFFLINE, "lost its last log directory", excluded=True)

    def _alarm_offline_dirs(self, draft: Draft, registration: BrokerRegistration, why: str) -> None:
        key = _broker_alarm(AlarmCode.LOG_DIRS_OFFLINE, registration.broker_id)
        if registration.offline_log_dir_ids:
            names = ", ".join(registration.offline_log_dir_ids)
            detail = f"{registration.name}: log directories offline: {names}" + (f" ({why})" if why else "")
            todo = "Mend or replace the disk, or make room on it, and start the broker again"
            self._alarms.raise_alarm(draft, key, f"{detail}: its replicas are out of use. {todo}")
        else:
            self._alarms.clear_alarm(draft, key)

    # --- controlled shutdown ----------------------------------------------------------------------------

    def _on_wants_shutdown(self, draft: Draft, broker_id: int, now_ms: int) -> bool:
        """Take one step of 3.7 (controlled shutdown); return whether the broker may stop. It may stop once it
        has nothing left that another broker could take, and every other active broker has applied that; after
        `shutdown_wait_ms_max` it no longer waits for others to catch up."""
        image = draft.image
        session = self._by_id[broker_id]
        broker = image.brokers[broker_id]
        if not broker.admitted or broker.fenced:
            return True  # holds nothing
        if not broker.shutting_down:
            draft.write_member(
                msgspec.structs.replace(broker, shutting_down=True),
                draft.change(Cause.CONTROLLED_SHUTDOWN, actor=actor_of(broker_id)),
            )
        if session.shutdown_since_ms is None:
            session.shutdown_since_ms = now_ms
            session.drained_sequence = image.sequence
        overdue = now_ms - session.shutdown_since_ms > self._options.shutdown_wait_ms_max
        sequence = image.sequence
        left = drain(
            draft, broker_id, may_return=lambda b: self._may_join_an_isr(image, b, now_ms), force=overdue
        )
        if image.sequence > sequence:
            session.drained_sequence = image.sequence
        if left.below_min:
            draft.note(
                "shutdown_below_min_isr",
                f"{broker.name} leaves {left.below_min} partitions below their minimum in sync",
                broker=broker_id,
                partitions=left.below_min,
            )
        if left.waiting and not overdue:
            return False
        return all(
            self.applied.get(other, -1) >= session.drained_sequence
            for other, registration in image.brokers.items()
            if registration.is_eligible or (other == broker_id and not overdue)
        )

    def _may_join_an_isr(self, image: ClusterImage, broker_id: int, now_ms: int) -> bool:
        broker = image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.admitted
            and not broker.shutting_down
            and (not broker.fenced or self.is_valid(broker_id, now_ms))
        )

    # --- membership -------------------------------------------------------------------------------------

    def forget(self, draft: Draft, broker_id: int) -> None:
        super().forget(draft, broker_id)
        self._vacating.pop(broker_id, None)
        self._stopped_since_ms.pop(broker_id, None)
        self._disks.forget(broker_id)
        self.created.pop(broker_id, None)

    def _raise_fenced(self, draft: Draft, broker_id: int, reason: str) -> None:
        self._alarms.raise_alarm(
            draft,
            _broker_alarm(AlarmCode.BROKER_FENCED, broker_id),
            f"{draft.image.brokers[broker_id].name} {reason}",
        )


def _broker_alarm(code: AlarmCode, broker_id: int) -> AlarmKey:
    return AlarmKey(code=code, broker_id=broker_id)
