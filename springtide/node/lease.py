"""The broker's lease: how long it may act as a leader without hearing from the controller again.

    never held / ended --acknowledged heartbeat--> granted, unconfirmed --applied what the ack named--> held
          ^                                                                                               |
          +--- deadline passed, fenced, or disowned by the controller ------------------------------------+

Counted from the *send* time of the last acknowledged heartbeat, and tested where it is used, not by a timer
(PacificA section 4.2, Pegasus). The controller counts its grace from the *receive* time, so it acts later.
A lease that ended once counts again only when the broker has applied the metadata stream up to the head that
the first acknowledgement after it named: what happened in the silence is then known (docs/replication.md
2.9).

A lease only makes an old leader stop answering; no decision about what is committed may rest on it. All times
are milliseconds of one monotonic clock that counts suspended time (CLOCK_BOOTTIME).
"""

from __future__ import annotations

from springtide.contract.epochs import ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import BrokerStatus, HeartbeatResponse

NEVER_MS = -(2**62)

_LEADS = frozenset({BrokerStatus.ACTIVE, BrokerStatus.SHUTTING_DOWN})
DISOWNED = frozenset({ControllerError.STALE_BROKER_EPOCH, ControllerError.BROKER_NOT_REGISTERED})
"""A controller that answers so does not know this incarnation."""


class Lease:
    """One per broker process and incarnation, shared by all its replicas, written only by the controller
    session."""

    __slots__ = (
        "_applied",
        "_awaited",
        "_granted_until_ms",
        "_held_until_ms",
        "_named",
        "controller_epoch",
        "is_revoked",
        "lease_ms",
    )

    def __init__(self) -> None:
        #: Length of the lease as last granted; also for how long a follower vouches when it has lapsed.
        self.lease_ms = 0
        #: The controller said that this broker may not lead (or has not said yet that it may): unlike after
        #: mere silence, nothing stands in for the lease.
        self.is_revoked = True
        #: Highest controller epoch seen anywhere; a lower one is a replaced controller's (S16, a paused
        #: controller wakes).
        self.controller_epoch = -1
        self._granted_until_ms = NEVER_MS
        self._held_until_ms = NEVER_MS
        #: Position in the metadata stream that has to be applied before the lease counts again.
        self._awaited: tuple[int, int] | None = None
        self._applied = (-1, -1)
        #: The head of the metadata stream that the last acknowledgement named.
        self._named = (-1, -1)

    def is_held(self, now_ms: int) -> bool:
        """Return whether the controller may not yet replace this leader. Test it at every ack, high-watermark
        move and read."""
        return now_ms < self._held_until_ms

    def is_current(self, now_ms: int) -> bool:
        """Return whether it is held, and all is applied that the controller had published when it answered
        the last heartbeat: what this process does not know yet is then younger than a lease."""
        return now_ms < self._held_until_ms and self._applied >= self._named

    @property
    def held_until_ms(self) -> int:
        """Return when it ends unless renewed; NEVER_MS while it does not count."""
        return self._held_until_ms

    def on_heartbeat_acked(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """Take in a heartbeat's answer. `sent_ms`: read before the heartbeat was written. A status that only
        a later release knows renews a lease, and begins none."""
        if response.error in DISOWNED:
            self._end()
            return
        if response.error is not ControllerError.NONE or response.controller_epoch < self.controller_epoch:
            return
        self.controller_epoch = response.controller_epoch
        if response.status not in _LEADS and (self.is_revoked or response.status is not BrokerStatus.UNKNOWN):
            self._end()
            return
        self.lease_ms = response.lease_ms
        self._named = max(self._named, (response.controller_epoch, response.sequence))
        self._granted_until_ms = max(self._granted_until_ms, sent_ms + response.lease_ms)
        if now_ms >= self._held_until_ms:
            self._held_until_ms = NEVER_MS
            if self._awaited is None or self._awaited[0] < response.controller_epoch:
                self._awaited = (response.controller_epoch, response.sequence)
        self._confirm()

    def on_controller_epoch(self, controller_epoch: ControllerEpoch) -> bool:
        """Take in the controller epoch of a batch or answer; return False if it is from a replaced controller
        and must be ignored."""
        if controller_epoch < self.controller_epoch:
            return False
        self.controller_epoch = controller_epoch
        return True

    def on_applied(self, *, controller_epoch: ControllerEpoch, sequence: int) -> None:
        """Note that the metadata stream is completely applied up to here (I25, applied is said
        afterwards)."""
        self._applied = max(self._applied, (controller_epoch, sequence))
        self._confirm()

    def _confirm(self) -> None:
        if self._awaited is not None and self._applied < self._awaited:
            return
        self._awaited = None
        self._held_until_ms = self._granted_until_ms
        if self._granted_until_ms != NEVER_MS:
            self.is_revoked = False

    def _end(self) -> None:
        self._granted_until_ms = NEVER_MS
        self._held_until_ms = NEVER_MS
        self._awaited = None
        self.is_revoked = True
