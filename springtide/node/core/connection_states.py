"""What a connection is doing, as data: its phase, how its answers leave, and why it is not read. Pure.

    ConnectionPhase: NEW --first bytes--> OPEN --end--> ENDING --answers sent--> CLOSED, and CLOSED from each
    Sending:         FREE <--> BLOCKED: the kernel takes no more
                     FREE or BLOCKED --> FROM_DISK --> IN_THREAD --> FROM_DISK --> FREE

The two are independent: a closed connection's thread may still use the socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class ConnectionPhase(Enum):
    """The life of a connection."""

    NEW = "new"
    """Nothing was read; where the listener has TLS, its handshake runs."""
    OPEN = "open"
    ENDING = "ending"
    """It is closed as soon as what waits is sent; nothing is read."""
    CLOSED = "closed"


class Sending(Enum):
    """How the answers of a connection leave."""

    FREE = "free"
    """They are sent as they are completed."""
    BLOCKED = "blocked"
    """They wait until the socket can be written."""
    FROM_DISK = "from disk"
    """They wait for a task, which reads or sends a range of a file that is not in memory."""
    IN_THREAD = "in thread"
    """A thread of that task is using the socket. Its descriptor must not be closed under it, since the number
    may be another connection's a moment later."""


State = TypeVar("State", ConnectionPhase, Sending)

NEXT: Final[Mapping[ConnectionPhase | Sending, frozenset[ConnectionPhase | Sending]]] = {
    ConnectionPhase.NEW: frozenset({ConnectionPhase.OPEN, ConnectionPhase.CLOSED}),
    ConnectionPhase.OPEN: frozenset({ConnectionPhase.ENDING, ConnectionPhase.CLOSED}),
    ConnectionPhase.ENDING: frozenset({ConnectionPhase.CLOSED}),
    ConnectionPhase.CLOSED: frozenset(),
    Sending.FREE: frozenset({Sending.BLOCKED, Sending.FROM_DISK}),
    Sending.BLOCKED: frozenset({Sending.FREE, Sending.FROM_DISK}),
    Sending.FROM_DISK: frozenset({Sending.IN_THREAD, Sending.FREE}),
    Sending.IN_THREAD: frozenset({Sending.FROM_DISK}),
}
"""The states that may follow each state."""


def follow(state: State, after: State) -> State:
    """Return `after`, the state that follows `state`."""
    assert after in NEXT[state], f"{state} is not followed by {after}"
    return after


class PauseReason(Enum):
    """A reason for which a connection is not read, and none of its requests is started."""

    BOUND = "at a bound"
    """Of its own or of all connections, when its turn ended; it is looked at again as answers leave."""
    HELD = "held"
    """Its client logs in, or it is ending."""
    MUTED = "muted"
    """Its client is above a quota, and waits."""
    TURNED_AWAY = "turned away"
    """Its address connects too often: it is closed when its time is over."""


class Pauses(set[PauseReason]):
    """The reasons that hold now. A connection is read while there is none."""

    __slots__ = ()

    def lift(self, reason: PauseReason) -> None:
        """End a reason. BOUND stands for it until the connection is found to be below its bounds, which may
        have been reached meanwhile."""
        if reason in self:
            self.remove(reason)
            self.add(PauseReason.BOUND)

    @property
    def may_end(self) -> bool:
        """Return whether the connection is read again once it is below all bounds."""
        return len(self) == 1 and PauseReason.BOUND in self
