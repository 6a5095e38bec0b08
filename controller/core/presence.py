"""The silence of brokers' and coordinators' processes, as this controller counts it.

Silence counts from when a heartbeat *arrived*; a new controller treats members that are not fenced as heard
from when it took over, and one that was held or had no authority takes that time off every silence (2.10, the
controller's authority; S18, a successor right after heartbeats). Nothing here weighs on durability: fencing
early is always safe, and late costs only time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar

from controller.core.alarms import AlarmBook
from controller.core.draft import Draft
from controller.core.events import Process
from controller.core.image import ClusterImage, check_member
from controller.core.options import ControllerOptions
from controller.core.records import Cause, Member, MemberKind
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import BrokerStatus, HeartbeatRequest, RegisterResponse
from springtide.levels import LevelRange

HEARD_MAX = 16
"""The number of a broker's last heartbeats that are held against what others tell of it later."""


class Session:
    """The controller's knowledge of one member's present incarnation, for this controller's life only.

    last_seen_ms: when its last heartbeat arrived; None: over (never heard from, or proven dead).
    required_sequence: how far it must have applied before it is trusted.
    is_proven_dead: its listener refused a connection, and nothing was heard since.
    """

    def __init__(self, *, last_seen_ms: int | None, required_sequence: int) -> None:
        self.last_seen_ms = last_seen_ms
        self.required_sequence = required_sequence
        self.is_proven_dead = False
        self.probed_at_ms: int | None = None
        self.refused_since_ms: int | None = None
        self.shutdown_since_ms: int | None = None
        self.drained_sequence = -1
        #: The highest count of a heartbeat heard, by this controller or one before it; and of one that the
        #: broker knew to be answered.
        self.heard_count = -1
        self.heard_answered = -1
        #: What others were told of it belongs to another history than what it says.
        self.has_gone_back = False
        self._heard: deque[tuple[int, int]] = deque(maxlen=HEARD_MAX)

    def on_told(self, count: int, answered: int) -> None:
        """Note what another broker tells. A later heartbeat does not know of fewer answers."""
        if any(own_count >= count and own < answered for own_count, own in self._heard):
            self.has_gone_back = True
        self._raise(count, answered)

    def on_heard(self, count: int, answered: int) -> None:
        self._heard.append((count, answered))
        self._raise(count, answered)

    def _raise(self, count: int, answered: int) -> None:
        self.heard_count = max(self.heard_count, count)
        self.heard_answered = max(self.heard_answered, answered)


class Presence(ABC):
    """The sessions of one kind of members under one controller epoch.

    applied: how far each member's present incarnation has applied this controller's stream.
    KIND: theirs. FENCED: why one is fenced that was silent for the grace. DIED: one whose process has ended.
    """

    KIND: ClassVar[MemberKind]
    FENCED: ClassVar[Cause]
    DIED: ClassVar[Cause]

    def __init__(
        self,
        image: ClusterImage,
        alarms: AlarmBook,
        *,
        options: ControllerOptions,
        controller_epoch: ControllerEpoch,
        now_ms: int,
    ) -> None:
        self._image = image
        self._members = image.members_of(self.KIND)
        self._alarms = alarms
        self._options = options
        self.controller_epoch = controller_epoch
        self.applied: dict[int, int] = {}
        #: The levels that each member's process can run at, as it has told this controller.
        self.levels: dict[int, LevelRange] = {}
        self._by_id = {
            # A fenced member holds no lease that matters: it is believed when it is heard.
            member_id: Session(
                last_seen_ms=None if member.fenced else now_ms, required_sequence=image.sequence
            )
            for member_id, member in self._members.items()
        }
        self._deadline_ms: int | None = None
        self._is_stale = True
        #: A client of a member has asked for transactions, while their topic was not there.
        self.wants_transactions = False

    @abstractmethod
    def fence(self, draft: Draft, member_id: int, cause: Cause, reason: str) -> bool:
        """Stop trusting a member. Return False if it was fenced already."""

    def check(self, member_id: int, epoch: BrokerEpoch) -> ControllerError:
        """Return what is wrong with a request of a member that has this epoch."""
        return check_member(self._members.get(member_id), epoch)

    def is_outdated(self, member_id: int, count: int, answered: int | None = None) -> bool:
        """Return whether the heartbeat was sent before one that was heard (it is late, or its process went
        back), or was sent after it by a process that has forgotten an answer (it went back). answered: None
        if not told."""
        session = self._by_id.get(member_id)
        return session is not None and (
            session.has_gone_back
            or 0 <= count < session.heard_count
            or (answered is not None and count >= 0 and answered < session.heard_answered)
        )

    def is_valid(self, member_id: int, now_ms: int) -> bool:
        """Return whether this member's process must be presumed to be running."""
        session = self._by_id.get(member_id)
        return (
            session is not None
            and session.last_seen_ms is not None
            and now_ms - session.last_seen_ms <= self._options.grace_ms
        )

    def is_proven_dead(self, member_id: int) -> bool:
        """Return whether this member's process is known to have ended. A controller that took over does not
        know it before it has probed."""
        session = self._by_id.get(member_id)
        return session is not None and session.is_proven_dead

    def levels_of(self, member_id: int) -> LevelRange | None:
        """Return the levels that a member can run at, as it has told this controller or, by its row, one
        before it; None if they are not known."""
        told = self.levels.get(member_id)
        if told is None:
            row = self._members[member_id].levels
            return row if isinstance(row, LevelRange) else None
        return told

    def processes(self, now_ms: int) -> list[Process]:
        """Return the members' processes, by id."""
        return [
            Process(
                kind=member.kind.value,
                process_id=str(member_id),
                name=member.name,
                version=member.version,
                levels=self.levels_of(member_id),
                is_running=not member.fenced or self.is_valid(member_id, now_ms),
                is_active=member.status is BrokerStatus.ACTIVE,
            )
            for member_id, member in sorted(self._members.items())
        ]

    def _refuse(self, error: ControllerError, detail: str) -> RegisterResponse:
        return RegisterResponse(
            error=error,
            detail=detail,
            controller_epoch=self.controller_epoch,
            retry_after_ms=self._options.registration_retry_ms,
        )

    def _refuse_duplicate(self, draft: Draft, before: Member, now_ms: int) -> RegisterResponse:
        """Refuse a process whose id another one holds, and ask whether that one has ended."""
        self._probe(draft, before, self._by_id[before.member_id], now_ms)
        return self._refuse(
            ControllerError.DUPLICATE_BROKER_REGISTRATION,
            f"another process holds {before.kind} id {before.member_id}: {before.host}:{before.port}",
        )

    def _accept(self, member: Member, *, chain_epoch: BrokerEpoch = NO_BROKER_EPOCH) -> RegisterResponse:
        return RegisterResponse(
            cluster_id=self._image.cluster_id,
            controller_epoch=self.controller_epoch,
            broker_epoch=member.epoch,
            status=member.status,
            heartbeat_interval_ms=self._options.heartbeat_interval_ms,
            lease_ms=self._options.lease_ms,
            retry_after_ms=self._options.registration_retry_ms,
            chain_epoch=chain_epoch,
            level=self._image.level,
        )

    def require_applied(self, member_id: int, sequence: int) -> None:
        self._by_id[member_id].required_sequence = sequence

    def forgive_silence(self, deaf_ms: int, now_ms: int) -> None:
        """Silence is counted only while the controller listens (2.10, the controller's authority). Fencing
        later costs only time: a broker's lease ends by its own clock."""
        self._is_stale = True
        for session in self._by_id.values():
            if session.last_seen_ms is not None:
                session.last_seen_ms = min(session.last_seen_ms + deaf_ms, now_ms)

    def _hear(self, request: HeartbeatRequest, *, received_ms: int, now_ms: int) -> None:
        """Note that a member is there, how far it has applied, and at which levels it can run."""
        if request.levels != LevelRange():
            self.levels[request.broker_id] = request.levels
        else:  # of release 0.1, unless it has registered here
            self.levels.setdefault(request.broker_id, request.levels)
        self.wants_transactions |= request.wants_transactions
        self._see(request.broker_id, min(received_ms, now_ms))
        self.record_applied(
            request.broker_id,
            controller_epoch=request.applied_controller_epoch,
            sequence=request.applied_sequence,
        )

    def _see(self, member_id: int, seen_ms: int) -> None:
        session = self._by_id[member_id]
        if session.last_seen_ms is None:
            self._is_stale = True
            session.last_seen_ms = seen_ms
        session.last_seen_ms = max(session.last_seen_ms, seen_ms)
        session.is_proven_dead = False

    def record_applied(self, member_id: int, *, controller_epoch: ControllerEpoch, sequence: int) -> None:
        """Note a position that the member claims. One from another controller epoch, from
        before its registration or from the future says nothing about this stream."""
        if (
            controller_epoch != self.controller_epoch
            or not self._image.registered_sequences[member_id] <= sequence <= self._image.sequence
            or sequence <= self.applied.get(member_id, -1)
        ):
            return
        self.applied[member_id] = sequence

    def _is_ready(self, member_id: int, now_ms: int) -> bool:
        """Return whether a member may be trusted again: it is admitted, heard from, and has applied all that
        it must."""
        member = self._members[member_id]
        return (
            member.admitted
            and member.fenced
            and self.is_valid(member_id, now_ms)
            and self.applied.get(member_id, -1) >= self._by_id[member_id].required_sequence
        )

    @abstractmethod
    def unfence_if_ready(self, draft: Draft, member_id: int, now_ms: int) -> None:
        """Trust a member that is ready."""

    def on_proven_dead(self, draft: Draft, member_id: int, epoch: BrokerEpoch) -> bool:
        if self.check(member_id, epoch) is not ControllerError.NONE:
            return False  # about an incarnation that is gone
        self._by_id[member_id].last_seen_ms = None
        self._by_id[member_id].is_proven_dead = True
        self._is_stale = True
        return self.fence(draft, member_id, self.DIED, "refuses connections: its process is dead")

    def on_tick(self, draft: Draft, now_ms: int) -> None:
        """Fence who was silent for the grace, longest silence first, each seeing the effect of the one before
        (S36, two expire in one tick)."""
        for last_seen_ms, member_id in self._silent(draft, now_ms):
            self.fence(draft, member_id, self.FENCED, f"was silent for {now_ms - last_seen_ms} ms")

    def forget(self, draft: Draft, member_id: int) -> None:
        del self._by_id[member_id]
        self.levels.pop(member_id, None)
        self.applied.pop(member_id, None)
        self._alarms.clear_broker(draft, member_id)
        self._is_stale = True

    def not_applied(self, sequence: int, now_ms: int) -> list[int]:
        """Return the members that may still act by what was true before `sequence`, ascending. One that
        registered later began with what was true then."""
        return [
            member_id
            for member_id, session in sorted(self._by_id.items())
            if (row := self._members.get(member_id)) is not None
            and row.admitted
            and self._image.registered_sequences[member_id] <= sequence
            and self.applied.get(member_id, -1) < sequence
            and not self._has_ended(session, now_ms)
        ]

    def behind(self, sequence: int) -> list[int]:
        """Return the members that clients are sent to and that have not applied `sequence` yet, ascending."""
        return [
            member_id
            for member_id in sorted(self._by_id)
            if (row := self._members.get(member_id)) is not None
            and not row.fenced
            and self.applied.get(member_id, -1) < sequence
        ]

    def _has_ended(self, session: Session, now_ms: int) -> bool:
        """Return whether a member does nothing more: its process is proven dead, or it is silent.

        One that is fenced may go on: its lease ends by itself before the grace is over, and those who vouch
        for it do so for a lease time after another leads (2.9, leases)."""
        over_ms = self._options.grace_ms + self._options.lease_ms
        return session.last_seen_ms is None or now_ms - session.last_seen_ms > over_ms

    def _silent(self, draft: Draft, now_ms: int) -> list[tuple[int, int]]:
        """Return (last seen, id) of the members that were silent for the grace, longest silence first; ask
        for a probe of those that are late."""
        self._is_stale = True
        silent: list[tuple[int, int]] = []
        for member_id, session in self._by_id.items():
            member = self._members[member_id]
            if member.fenced or session.last_seen_ms is None:
                continue
            late_ms = now_ms - session.last_seen_ms
            if late_ms > self._options.grace_ms:
                silent.append((session.last_seen_ms, member_id))
            elif late_ms > self._options.probe_after_ms:
                self._probe(draft, member, session, now_ms)
        return sorted(silent)

    def _probe(self, draft: Draft, member: Member, session: Session, now_ms: int) -> None:
        if (
            session.probed_at_ms is not None
            and now_ms - session.probed_at_ms < self._options.probe_interval_ms
        ):
            return
        session.probed_at_ms = now_ms
        draft.effects.append(member.probe)

    def next_deadline_ms(self) -> int | None:
        """Return when silence has an effect. Heartbeats only postpone that, so the answer is kept until a
        tick or a change of trust: it may be early, never late."""
        if self._is_stale:
            self._deadline_ms = min(
                (
                    self._deadline_of(session, session.last_seen_ms)
                    for member_id, session in self._by_id.items()
                    if session.last_seen_ms is not None and not self._members[member_id].fenced
                ),
                default=None,
            )
            self._is_stale = False
        return self._deadline_ms

    def _deadline_of(self, session: Session, last_seen_ms: int) -> int:
        probe_ms = last_seen_ms + self._options.probe_after_ms + 1
        if session.probed_at_ms is not None:
            probe_ms = max(probe_ms, session.probed_at_ms + self._options.probe_interval_ms)
        return min(probe_ms, last_seen_ms + self._options.grace_ms + 1)
