"""Coordinators' sessions, and operators' requests about coordinators.

    (not known) --register--> waiting --admitted--> fenced --applied its admission--> active
        active --silence for the grace, proven death, wants to stop--> fenced

They are brokers' sessions (sessions.py) without a disk: a coordinator vouches for nothing, so a new
incarnation has nothing to prove, and ending one costs its shards' clients a moment. A coordinator that does
not know that it was replaced is fenced by the logs that it writes to (13.2, the fence).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.alarms import AlarmBook, utc_text
from controller.core.authorizer import check_admission
from controller.core.draft import Draft, actor_of
from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import (
    AdmitCoordinators,
    CoordinatorsChanged,
    MaintainCoordinators,
    MemberRemoved,
    OperatorEvent,
    Refusal,
    RefusalCode,
    RemoveMember,
)
from controller.core.image import ClusterImage
from controller.core.operators import remove_members
from controller.core.options import ControllerOptions
from controller.core.presence import Presence, Session
from controller.core.records import (
    Cause,
    Change,
    CoordinatorRegistration,
    LevelRecord,
    MemberKind,
    MemberRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from controller.core.registration import check_node, levels_in_row
from controller.core.shards import SERVED, assign_shards, ordinary_topics
from controller.core.topics import operator_change
from controller.core.transaction_watch import TransactionWatch
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupNews
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import HeartbeatRequest, HeartbeatResponse, RegisterRequest, RegisterResponse

_NO_COORDINATOR = AlarmKey(code=AlarmCode.NO_COORDINATOR)
_GROUP_ALARMS = {
    "lag_grows": AlarmCode.GROUP_LAG_GROWS,
    "unsettled": AlarmCode.GROUP_UNSETTLED,
    "offsets_pending": AlarmCode.GROUP_OFFSETS_PENDING,
    "not_assigned": AlarmCode.GROUP_NOT_ASSIGNED,
}
"""What coordinators' codes are alarmed as; those that this controller does not know are left out."""
_WAITS_FOR_LEADERS = (
    "its end is decided, and a marker of it is not written yet; are all of its partitions' leaders there?"
)
_WAITS_FOR = {
    "Ongoing": "its coordinator should have ended it; `springtide transactions abort` does it now, and says "
    "with --dry-run what that frees"
}
"""By the state of a transaction that lingers."""
_TOPIC_BLOCKED = AlarmKey(code=AlarmCode.COORDINATOR_TOPIC_BLOCKED)


class CoordinatorSessions(Presence):
    """All coordinators' sessions of one cluster under one controller epoch."""

    KIND = MemberKind.COORDINATOR
    FENCED = DIED = Cause.COORDINATOR_FENCED

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
        #: Shards that each standby says it is level with, and has said so since it was named.
        self._level: dict[int, frozenset[PartitionKey]] = {}
        #: Sequence up to which a standby must have applied to be believed: since the shard's last assignment.
        self._assigned: dict[PartitionKey, int] = {}
        self.transactions = TransactionWatch(alarms)
        #: What each coordinator last told of its groups and transactions.
        self._troubles: dict[int, dict[AlarmKey, str]] = {}
        #: Something other than a record may have changed who should have a shard.
        self._has_news = True

    def on_register(self, draft: Draft, request: RegisterRequest, now_ms: int) -> RegisterResponse:
        image = draft.image
        error, detail = check_node(image, request)
        coordinator_id = request.broker_id
        if error is ControllerError.NONE and coordinator_id in image.brokers:
            error, detail = ControllerError.INVALID_REQUEST, f"{coordinator_id} is the id of a broker"
        before = image.coordinators.get(coordinator_id)
        is_same = before is not None and before.incarnation_id == request.incarnation_id
        if error is not ControllerError.NONE:
            return self._refuse(error, detail)
        if before is not None and not is_same and self.is_valid(coordinator_id, now_ms):
            return self._refuse_duplicate(draft, before, now_ms)
        registration = CoordinatorRegistration(
            coordinator_id=coordinator_id,
            coordinator_epoch=BrokerEpoch(
                before.coordinator_epoch if before and is_same else image.last_broker_epoch + 1
            ),
            incarnation_id=request.incarnation_id,
            host=request.host,
            port=request.port,
            listeners=request.listeners,
            rack=request.rack,
            admitted=before is not None and before.admitted,
            fenced=not is_same or before is None or before.fenced,
            draining=before is not None and before.draining,
            demoted=before is not None and before.demoted,
            registered_at_ms=before.registered_at_ms if before and is_same else draft.wall_ms,
            version=request.version,
            levels=levels_in_row(image.level, request.levels),
        )
        if registration != before:
            change = draft.change(Cause.COORDINATOR_REGISTERED, actor=actor_of(coordinator_id, self.KIND))
            draft.write_member(registration, change)
        if not is_same:
            self.applied.pop(coordinator_id, None)
            self._level.pop(coordinator_id, None)
            self._by_id[coordinator_id] = Session(last_seen_ms=now_ms, required_sequence=image.sequence)
        self.levels[coordinator_id] = request.levels
        self._see(coordinator_id, now_ms)
        return self._accept(registration)

    def on_heartbeat(
        self, draft: Draft, request: HeartbeatRequest, *, received_ms: int, now_ms: int
    ) -> HeartbeatResponse:
        image, coordinator_id = draft.image, request.broker_id
        error = self.check(coordinator_id, request.broker_epoch)
        if error is not ControllerError.NONE:
            return HeartbeatResponse(error=error, controller_epoch=self.controller_epoch)
        self._hear(request, received_ms=received_ms, now_ms=now_ms)
        level = self._level_of(image, request)
        if level != self._level.get(coordinator_id, frozenset()):
            self._level[coordinator_id] = level
            self._has_news = True
        self._note_troubles(draft, coordinator_id, {**_troubles_of(request.groups), **_lingering(request)})
        if request.transactions is not None:
            self.transactions.on_news(draft, coordinator_id, request.transactions, now_ms)
        self._alarms.on_certificate(
            draft, image.coordinators[coordinator_id].name, coordinator_id, request.certificate_ends_ms
        )
        if request.wants_shutdown:
            session = self._by_id[coordinator_id]
            if session.shutdown_since_ms is None:
                session.shutdown_since_ms = now_ms
            self.fence(draft, coordinator_id, self.FENCED, "wants to stop")
        else:
            self.unfence_if_ready(draft, coordinator_id, now_ms)
        return HeartbeatResponse(
            controller_epoch=self.controller_epoch,
            status=image.coordinators[coordinator_id].status,
            lease_ms=self._options.lease_ms,
            sequence=image.sequence,
            may_shut_down=request.wants_shutdown,
            suspects=self.transactions.suspects(image, coordinator_id, now_ms),
        )

    def _note_troubles(self, draft: Draft, coordinator_id: int, now: dict[AlarmKey, str]) -> None:
        """Raise what a coordinator tells of groups and transactions, and clear what it tells no more, unless
        another one does."""
        before = self._troubles.pop(coordinator_id, {})
        if now:
            self._troubles[coordinator_id] = now
        for key in before:
            if not any(key in troubles for troubles in self._troubles.values()):
                self._alarms.clear_alarm(draft, key)
        for key, detail in now.items():
            self._alarms.raise_alarm(draft, key, detail)

    def _level_of(self, image: ClusterImage, request: HeartbeatRequest) -> frozenset[PartitionKey]:
        """Return the shards that are said to be level by one that knows how they are assigned now."""
        if request.applied_controller_epoch != self.controller_epoch:
            return frozenset()
        told = ((level.topic_id, number) for level in request.level for number in level.partitions)
        return frozenset(
            key
            for key in told
            if key in image.shards and request.applied_sequence >= self._assigned.get(key, 0)
        )

    def unfence_if_ready(self, draft: Draft, coordinator_id: int, now_ms: int) -> None:
        """Trust a coordinator that is ready, unless it has asked to stop: it goes on to apply batches."""
        is_stopping = self._by_id[coordinator_id].shutdown_since_ms is not None
        if not is_stopping and self._is_ready(coordinator_id, now_ms):
            unfenced = msgspec.structs.replace(draft.image.coordinators[coordinator_id], fenced=False)
            change = draft.change(Cause.COORDINATOR_UNFENCED)
            draft.write_member(unfenced, change)
            self._is_stale = True

    def fence(self, draft: Draft, coordinator_id: int, cause: Cause, reason: str) -> bool:
        coordinator = draft.image.coordinators[coordinator_id]
        if coordinator.fenced:
            return False
        fenced = msgspec.structs.replace(coordinator, fenced=True)
        change = draft.change(cause, reason=reason)
        draft.write_member(fenced, change)
        draft.note(cause.value, f"{coordinator.name} {reason}", coordinator=coordinator_id)
        self._note_troubles(draft, coordinator_id, {})
        # To be trusted again it has to have seen this: its shards are gone.
        self._by_id[coordinator_id].required_sequence = draft.image.sequence
        self._is_stale = True
        return True

    def probe_fenced(self, draft: Draft, now_ms: int) -> None:
        """Ask for a probe of each that is fenced and not known to have ended: an answer waits for it."""
        for coordinator_id, coordinator in draft.image.coordinators.items():
            session = self._by_id[coordinator_id]
            if coordinator.fenced and coordinator.admitted and not session.is_proven_dead:
                self._probe(draft, coordinator, session, now_ms)

    def on_tick(self, draft: Draft, now_ms: int) -> None:
        super().on_tick(draft, now_ms)
        self.transactions.on_tick(draft)

    def _has_ended(self, session: Session, now_ms: int) -> bool:
        """Return whether its process is proven dead. Silence proves nothing: a coordinator has no lease, so
        that groups go on without a controller."""
        return session.is_proven_dead

    def follow_up(self, draft: Draft) -> None:
        """Give each shard to its owner after this step, and tell if there can be none, or no coordinator can
        have any."""
        image = draft.image
        if not self._has_news and not any(map(_may_move_a_shard, draft.records)):
            return
        self._has_news = False
        self._tell_of_ordinary_topics(draft)
        if not image.shards:
            return
        moved = assign_shards(draft, lambda standby, key: key in self._level.get(standby, ()))
        if moved:
            self._assigned.update(dict.fromkeys(moved, image.sequence))
            self._level = {standby: level.difference(moved) for standby, level in self._level.items()}
        if any(coordinator.is_active for coordinator in image.coordinators.values()):
            self._alarms.clear_alarm(draft, _NO_COORDINATOR)
        else:
            ids = ", ".join(map(str, sorted(image.coordinators))) or "none"
            self._alarms.raise_alarm(
                draft,
                _NO_COORDINATOR,
                "no coordinator is alive and admitted: client groups can neither commit offsets nor "
                f"rebalance (registered: {ids})",
            )

    def _tell_of_ordinary_topics(self, draft: Draft) -> None:
        image = draft.image
        names = ordinary_topics(image)
        if names and any(coordinator.admitted for coordinator in image.coordinators.values()):
            self._alarms.raise_alarm(
                draft,
                _TOPIC_BLOCKED,
                f"{', '.join(names)} is an ordinary topic, older than the reservation of its name for "
                f"coordinators: no {' and no '.join(SERVED[name] for name in names)} can be served. Copy "
                "what is still needed of it to another topic, "
                f"then `springtide topics delete {names[0]}`: the coordinators' own is created by itself",
            )
        else:
            self._alarms.clear_alarm(draft, _TOPIC_BLOCKED)

    def forget(self, draft: Draft, coordinator_id: int) -> None:
        super().forget(draft, coordinator_id)
        self._level.pop(coordinator_id, None)


def _troubles_of(groups: GroupNews | None) -> dict[AlarmKey, str]:
    return {
        AlarmKey(code=_GROUP_ALARMS[one.code], group_id=one.group_id): one.detail
        for one in (groups.troubles if groups is not None else ())
        if one.code in _GROUP_ALARMS
    }


def _lingering(request: HeartbeatRequest) -> dict[AlarmKey, str]:
    told = request.transactions.lingering if request.transactions is not None else ()
    return {
        AlarmKey(code=AlarmCode.TRANSACTION_LINGERS, transactional_id=one.transactional_id): (
            f"transaction {one.transactional_id!r} (producer {one.producer_id}, epoch {one.producer_epoch}"
            f"{f', client {one.client_id!r} at {one.client_host}' if one.client_host else ''}) "
            f"began at {utc_text(one.since_ms)} with a timeout of {one.timeout_ms / 1000:g} s, and is "
            f"{one.state} in {one.partitions} partitions: {_WAITS_FOR.get(one.state, _WAITS_FOR_LEADERS)}"
        )
        for one in told
    }


def _may_move_a_shard(record: Record) -> bool:
    """Return whether a shard may have to go to another coordinator after the record."""
    match record:
        case MemberRecord(registration=member):
            return member.kind is MemberKind.COORDINATOR
        case RemoveMemberRecord(kind=kind):
            return kind is MemberKind.COORDINATOR
        case _:
            return isinstance(record, LevelRecord | RemoveTopicRecord | TopicRecord)


# --- operators ----------------------------------------------------------------------------------------------


def admit_coordinators(
    draft: Draft, sessions: CoordinatorSessions, event: AdmitCoordinators
) -> CoordinatorsChanged | Refusal:
    """Waiting coordinators may serve shards from now on. They are trusted once they have applied this."""
    image = draft.image
    named = (image.coordinators[one] for one in event.coordinator_ids if one in image.coordinators)
    refusal = check_admission(image, named)
    if refusal is not None:
        return refusal
    change = operator_change(event, Cause.COORDINATOR_ADMITTED)
    found = _change(draft, event, event.coordinator_ids, change, admitted=True)
    if isinstance(found, CoordinatorsChanged) and not event.dry_run:
        for coordinator in found.coordinators:
            if coordinator.fenced:
                sessions.require_applied(coordinator.coordinator_id, draft.image.sequence)
    return found


def maintain_coordinators(draft: Draft, event: MaintainCoordinators) -> CoordinatorsChanged | Refusal:
    wanted = {"draining": event.draining, "demoted": event.demoted}
    fields = {name: value for name, value in wanted.items() if value is not None}
    change = operator_change(event, Cause.COORDINATOR_MAINTENANCE)
    return _change(draft, event, event.coordinator_ids, change, **fields)


def remove_coordinator(
    draft: Draft, sessions: CoordinatorSessions, event: RemoveMember, now_ms: int
) -> MemberRemoved | Refusal:
    refusal = check_coordinators(draft.image, [event.member_id])
    if refusal is not None:
        return refusal
    return remove_members(draft, sessions, event, [draft.image.coordinators[event.member_id]], now_ms)


def check_coordinators(image: ClusterImage, coordinator_ids: Sequence[int]) -> Refusal | None:
    for coordinator_id in coordinator_ids:
        if coordinator_id not in image.coordinators:
            return Refusal(
                code=RefusalCode.UNKNOWN_COORDINATOR,
                field="coordinator_ids",
                detail=f"coordinator {coordinator_id} has not registered",
                hint="start it and let it reach this controller",
            )
    return None


def _change(
    draft: Draft, event: OperatorEvent, coordinator_ids: Sequence[int], change: Change, **fields: bool
) -> CoordinatorsChanged | Refusal:
    image = draft.image
    refusal = check_coordinators(image, coordinator_ids)
    if refusal is not None:
        return refusal
    changed = []
    for coordinator_id in dict.fromkeys(coordinator_ids):
        before = image.coordinators[coordinator_id]
        after = msgspec.structs.replace(before, **fields)
        if after != before and not event.dry_run:
            draft.write_member(after, change)
        changed.append(after)
    return CoordinatorsChanged(coordinators=tuple(changed), dry_run=event.dry_run)
