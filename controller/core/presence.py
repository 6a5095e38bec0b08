"""The silence of brokers' and coordinators' processes, as this controller counts it.

Silence counts from when a heartbeat *arrived*; a new controller treats members that are not fenced as heard
from when it took over, and one that was held or had no authority takes that time off every silence (2.10, the
controller's authority; S18, a successor right after heartbeats). Nothing here weighs on durability: fencing
early is always safe, and late costs only time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from controller.core.draft import Draft
from controller.core.effects import ProbeBroker
from controller.core.image import ClusterImage
from controller.core.options import ControllerOptions
from springtide.contract.errors import ControllerError
from springtide.contract.session import BrokerStatus, RegisterResponse

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


class Member(Protocol):
    """A registration, as far as its process's silence is concerned."""

    @property
    def fenced(self) -> bool: ...

    @property
    def probe(self) -> ProbeBroker: ...


class Presence:
    """The sessions of one kind of members under one controller epoch.

    applied: how far each member's present incarnation has applied this controller's stream.
    """

    def __init__(
        self,
        members: Mapping[int, Member],
        *,
        sequence: int,
        options: ControllerOptions,
        controller_epoch: int,
        now_ms: int,
    ) -> None:
        self._options = options
        self.controller_epoch = controller_epoch
        self.applied: dict[int, int] = {}
        self._by_id = {
            # A fenced member holds no lease that matters: it is believed when it is heard.
            member_id: Session(last_seen_ms=None if member.fenced else now_ms, required_sequence=sequence)
            for member_id, member in members.items()
        }
        self._deadline_ms: int | None = None
        self._is_stale = True

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

    def _refuse(self, error: ControllerError, detail: str) -> RegisterResponse:
        return RegisterResponse(
            error=error,
            detail=detail,
            controller_epoch=self.controller_epoch,
            retry_after_ms=self._options.registration_retry_ms,
        )

    def _accept(
        self, image: ClusterImage, epoch: int, status: BrokerStatus, *, chain_epoch: int = -1
    ) -> RegisterResponse:
        """Answer a registration. epoch: the member's own."""
        return RegisterResponse(
            cluster_id=image.cluster_id,
            controller_epoch=self.controller_epoch,
            broker_epoch=epoch,
            status=status,
            heartbeat_interval_ms=self._options.heartbeat_interval_ms,
            lease_ms=self._options.lease_ms,
            retry_after_ms=self._options.registration_retry_ms,
            chain_epoch=chain_epoch,
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

    def _see(self, member_id: int, seen_ms: int) -> None:
        session = self._by_id[member_id]
        if session.last_seen_ms is None:
            self._is_stale = True
            session.last_seen_ms = seen_ms
        session.last_seen_ms = max(session.last_seen_ms, seen_ms)
        session.is_proven_dead = False

    def record_applied(
        self, image: ClusterImage, member_id: int, *, controller_epoch: int, sequence: int
    ) -> None:
        """Note a position that the member claims. One from another controller epoch, from
        before its registration or from the future says nothing about this stream."""
        if (
            controller_epoch != self.controller_epoch
            or not image.registered_sequences[member_id] <= sequence <= image.sequence
            or sequence <= self.applied.get(member_id, -1)
        ):
            return
        self.applied[member_id] = sequence

    def not_applied(self, image: ClusterImage, sequence: int, now_ms: int) -> list[int]:
        """Return the members that may still act by what was true before `sequence`, ascending. One that
        registered later began with what was true then."""
        return [
            member_id
            for member_id, session in sorted(self._by_id.items())
            if (row := image.member(member_id)) is not None
            and row.admitted
            and image.registered_sequences[member_id] <= sequence
            and self.applied.get(member_id, -1) < sequence
            and not self._has_ended(session, now_ms)
        ]

    def behind(self, image: ClusterImage, sequence: int) -> list[int]:
        """Return the members that clients are sent to and that have not applied `sequence` yet, ascending."""
        return [
            member_id
            for member_id in sorted(self._by_id)
            if (row := image.member(member_id)) is not None
            and not row.fenced
            and self.applied.get(member_id, -1) < sequence
        ]

    def _has_ended(self, session: Session, now_ms: int) -> bool:
        """Return whether a member does nothing more: its process is proven dead, or it is silent.

        One that is fenced may go on: its lease ends by itself before the grace is over, and those who vouch
        for it do so for a lease time after another leads (2.9, leases)."""
        over_ms = self._options.grace_ms + self._options.lease_ms
        return session.last_seen_ms is None or now_ms - session.last_seen_ms > over_ms

    def _silent(self, draft: Draft, members: Mapping[int, Member], now_ms: int) -> list[tuple[int, int]]:
        """Return (last seen, id) of the members that were silent for the grace, longest silence first; ask
        for a probe of those that are late."""
        self._is_stale = True
        silent: list[tuple[int, int]] = []
        for member_id, session in self._by_id.items():
            member = members[member_id]
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

    def _next_deadline_ms(self, members: Mapping[int, Member]) -> int | None:
        """Return when silence has an effect. Heartbeats only postpone that, so the answer is kept until a
        tick or a change of trust: it may be early, never late."""
        if self._is_stale:
            self._deadline_ms = min(
                (
                    self._deadline_of(session, session.last_seen_ms)
                    for member_id, session in self._by_id.items()
                    if session.last_seen_ms is not None and not members[member_id].fenced
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
