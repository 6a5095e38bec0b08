"""A model of ZooKeeper as the controller uses it: versions, atomic multis, sessions, lost answers.

Writes are totally ordered. A multi checks versions and applies all or nothing. A session expires by the
*server's* time, so that a controller which was paused or cut off may believe for a while that it still leads
(S16, a paused controller). The answer of an applied write can be lost (S17, a write's answer was lost): the
caller then knows nothing until it reads back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from tests.simulation.events import Events


class Outcome(Enum):
    APPLIED = "applied"
    BAD_VERSION = "bad_version"
    SESSION_EXPIRED = "session_expired"
    UNKNOWN = "unknown"


class Stored(NamedTuple):
    """A value with the bytes that stand for it, where processes of two releases read them."""

    value: Any
    data: bytes


@dataclass(slots=True)
class Znode:
    value: Any
    version: int
    data: bytes = b""


@dataclass(slots=True)
class Session:
    name: str
    last_heard_ms: int
    expired: bool = False


@dataclass(slots=True)
class ZooKeeperOptions:
    session_timeout_ms: int = 4000
    latency_ms: tuple[float, float] = (0.5, 4.0)
    lost_answer_rate: float = 0.0


@dataclass(slots=True)
class ModelZooKeeper:
    """Keys to versioned values, one `leader` ephemeral, and the controller epoch under its own key."""

    events: Events
    random: Random
    options: ZooKeeperOptions
    nodes: dict[str, Znode] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    leader: str | None = None
    on_write: Callable[[str, int], None] | None = None
    outages: int = 0
    #: Whether a session's client reaches the servers; and by how much watches are late.
    is_reachable: Callable[[str], bool] | None = None
    watch_delays_ms: list[int] = field(default_factory=list)
    leaderless_since_ms: int = 0
    #: How often what it holds was put back to what it once held.
    times_back: int = 0
    #: It was, and nobody has recovered what it lost.
    is_back: bool = False
    #: How often it was.
    histories: int = 0
    _losses: list[float] = field(default_factory=list)

    @property
    def available(self) -> bool:
        return not self.outages

    def go_down(self) -> None:
        self.outages += 1

    def come_back(self) -> None:
        """End one outage; it answers again when all have ended."""
        self.outages -= 1

    def lose_answers(self, rate: float) -> None:
        self._losses.append(rate)
        self.options.lost_answer_rate = max(self._losses)

    def answer_again(self, rate: float) -> None:
        self._losses.remove(rate)
        self.options.lost_answer_rate = max(self._losses, default=0.0)

    def connect(self, session: str) -> None:
        self.sessions[session] = Session(session, self.events.now_ms)

    def expire_due(self) -> None:
        for session in self.sessions.values():
            silent_ms = self.events.now_ms - session.last_heard_ms
            if not session.expired and self.available and silent_ms > self.options.session_timeout_ms:
                self.expire(session.name)

    def expire(self, name: str) -> None:
        session = self.sessions.get(name)
        if session is not None:
            session.expired = True
        if self.leader == name:
            self.leader = None
            self.leaderless_since_ms = self.events.now_ms

    def copy(self) -> dict[str, Znode]:
        """What a backup would hold."""
        return {key: Znode(node.value, node.version, node.data) for key, node in self.nodes.items()}

    def put_back(self, copy: dict[str, Znode]) -> None:
        """Everything since is gone, and so are all sessions."""
        lost = copy["head"].value != self.nodes["head"].value
        self.is_back = self.is_back or lost or copy["controller_epoch"] != self.nodes["controller_epoch"]
        self.times_back += 1
        self.nodes = {key: Znode(node.value, node.version, node.data) for key, node in copy.items()}
        for name in list(self.sessions):
            self.expire(name)

    def reaches(self, session: str) -> bool:
        """Whether what this session's client asks is answered, be it with "expired"."""
        return self.available and (self.is_reachable is None or self.is_reachable(session))

    def is_alive(self, name: str) -> bool:
        """A request of this session arrived: it is alive unless the server has already expired it."""
        session = self.sessions.get(name)
        if session is None or session.expired or not self.reaches(name):
            return False
        session.last_heard_ms = self.events.now_ms
        return True

    def nobody_leads(self) -> bool:
        """What the watch on the leader's node has told by now."""
        if self.leader is not None:
            return False
        return self.events.now_ms - self.leaderless_since_ms >= max(self.watch_delays_ms, default=0)

    def claim_leadership(self, name: str) -> int | None:
        """Become leader and bump the controller epoch in one multi; None when another leads."""
        if not self.is_alive(name) or self.leader not in (None, name):
            return None
        self.leader = name
        node = self.nodes.setdefault("controller_epoch", Znode(0, 0))
        node.value += 1
        node.version += 1
        return int(node.value)

    def read_all(self) -> dict[str, Any]:
        return {key: node.value for key, node in self.nodes.items()}

    def multi(
        self,
        session: str,
        controller_epoch: int,
        writes: list[tuple[str, Any | None]],
        done: Callable[[Outcome], None],
    ) -> None:
        """Check the controller epoch, then set (or, with None, delete) each key; answer after a while."""
        low, high = self.options.latency_ms

        def apply() -> None:
            if self.available and not self.reaches(session):
                self.events.after(self.options.session_timeout_ms / 2, lambda: done(Outcome.UNKNOWN))
                return
            if not self.is_alive(session):
                self.events.after(self.random.uniform(low, high), lambda: done(Outcome.SESSION_EXPIRED))
                return
            if int(self.nodes["controller_epoch"].value) != controller_epoch:
                outcome = Outcome.BAD_VERSION
            else:
                for key, value in writes:
                    if value is None:
                        self.nodes.pop(key, None)
                    else:
                        node = self.nodes.setdefault(key, Znode(None, -1))
                        node.value, node.data = value if isinstance(value, Stored) else (value, b"")
                        node.version += 1
                if any(key == "head" and not self.nodes["head"].value[1] for key, _ in writes):
                    self.is_back = False
                    self.histories += 1
                outcome = Outcome.APPLIED
                if self.on_write is not None:
                    self.on_write(session, controller_epoch)
            lost = self.random.random() < self.options.lost_answer_rate
            answer = Outcome.UNKNOWN if lost else outcome
            self.events.after(self.random.uniform(low, high), lambda: done(answer))

        self.events.after(self.random.uniform(low, high), apply)
