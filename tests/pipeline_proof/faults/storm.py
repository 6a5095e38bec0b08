"""The weather of one run: which requests are lost, and which of them something strikes at.

Strikes are carried out in the thread of the gate that has the request, so that they come at the moment
that the schedule names and not some time later; what needs longer than that is left to the run.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

from tests.pipeline_proof.faults.gate import Fate, Moment, Weather
from tests.pipeline_proof.faults.schedule import Kind, Schedule, Strike

OnStrike = Callable[[Strike, int, int], None]
"""Of the strike, the broker's id and the sender's port."""


class Storm(Weather):
    """Clear until `begin`, and after `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_on = False
        self._rng = random.Random(0)
        self._schedule: Schedule | None = None
        self._on_strike: OnStrike = lambda strike, broker_id, source_port: None
        self._due: list[Strike] = []
        self._aimed: dict[int, Strike] = {}
        """By the port of the sender of the request that the strike is bound to."""
        self._alarms: list[tuple[int, Callable[[], None]]] = []
        self._zombies: list[Callable[[], set[int]]] = []
        self._is_zombie: dict[int, bool] = {}
        """By port, asked once for each."""
        self.requests = 0
        self.zombie_requests = 0
        self.fates: Counter[Fate] = Counter()

    def begin(self, schedule: Schedule, on_strike: OnStrike) -> None:
        with self._lock:
            self._rng = random.Random(schedule.seed)
            self._schedule = schedule
            self.late_seconds = schedule.late_seconds
            self._on_strike = on_strike
            self._due = [each for each in schedule.strikes if each.kind is not Kind.KILL_DRIVER_AT_COMMIT]
            self._aimed = {}
            self._alarms = []
            self._zombies = []
            self._is_zombie = {}
            self.requests = self.zombie_requests = 0
            self.fates = Counter()
            self._is_on = True

    def end(self) -> None:
        with self._lock:
            self._is_on = False

    def at_request(self, number: int, action: Callable[[], None]) -> None:
        """`action` is called when the run has made so many requests, zombies' left out."""
        with self._lock:
            self._alarms.append((number, action))

    def watch_zombie(self, ports: Callable[[], set[int]]) -> None:
        """Requests from `ports()` are a zombie's, also from those that it will have later: counted apart, and
        nothing strikes at them."""
        with self._lock:
            self._zombies.append(ports)
            self._is_zombie = {}

    # From the gates' threads.

    def fate(self, *, broker_id: int, source_port: int, request: bytes) -> Fate:
        alarms: list[Callable[[], None]] = []
        with self._lock:
            if not self._is_on or self._schedule is None:
                return Fate.PASS
            if source_port not in self._is_zombie:
                self._is_zombie[source_port] = any(source_port in ports() for ports in self._zombies)
            if self._is_zombie[source_port]:
                self.zombie_requests += 1
                return Fate.PASS
            self.requests += 1
            alarms = [action for number, action in self._alarms if number <= self.requests]
            self._alarms = [alarm for alarm in self._alarms if alarm[0] > self.requests]
            chosen = self._draw(self._schedule, source_port)
            self.fates[chosen] += 1
        for action in alarms:
            action()
        return chosen

    def _draw(self, schedule: Schedule, source_port: int) -> Fate:
        if self._due and self._due[0].at <= self.requests:
            self._aimed[source_port] = self._due.pop(0)
            return Fate.PASS
        drawn = self._rng.random()
        for chance, fate in (
            (schedule.lose, Fate.LOSE),
            (schedule.lose_answer, Fate.LOSE_ANSWER),
            (schedule.late, Fate.LATE),
        ):
            if drawn < chance:
                return fate
            drawn -= chance
        return Fate.PASS

    def at(self, moment: Moment, *, broker_id: int, source_port: int) -> None:
        with self._lock:
            strike = self._aimed.get(source_port)
            if not self._is_on or strike is None or strike.moment is not moment:
                return
            del self._aimed[source_port]
            on_strike = self._on_strike
        on_strike(strike, broker_id, source_port)
