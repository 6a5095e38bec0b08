"""Strikes and heals members, coordinators, brokers and controllers, in an order drawn from a seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from localcluster.cluster import ControllerProcess, LocalCluster, NodeProcess
from localcluster.processes import SupervisedProcess
from tests.checker.group_judge import Span

STRIKES_MAX = 2
"""At one time, and never two of one role."""
PAUSE_SECONDS = (0.5, 3.0)
"""Between two strikes."""
DOWN_SECONDS = (0.5, 4.0)
STOOD_SECONDS = {
    "member": (1.0, 12.0),
    "coordinator": (1.0, 15.0),
    "broker": (1.0, 8.0),
    "controller": (1.0, 8.0),
}
"""A member's session is six seconds."""
POLL_SECONDS = 0.05


class Member(Protocol):
    """A client's process that may be struck. start_again: whether it had given up by itself, and does now."""

    @property
    def name(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def start_again(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Strike:
    role: str
    note: str
    heal_at: float
    heal: Callable[[], None]


@dataclass(slots=True)
class Storm:
    cluster: LocalCluster
    members: Sequence[Member]
    tell: Callable[[str], None]
    rng: random.Random
    faults: Counter[str] = field(default_factory=Counter)
    coordinators_stood: list[Span] = field(default_factory=list)
    _bag: list[tuple[str, bool]] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Strike until the time is over, then heal all."""
        ends_at = time.monotonic() + seconds
        under_way: list[Strike] = []
        next_at = 0.0
        while (now := time.monotonic()) < ends_at:
            under_way = self._heal(under_way, now)
            for member in self.members:
                if member.start_again():
                    self.faults["member gave up by itself"] += 1
                    self.tell(f"{member.name} gave up by a fault of its own, and is started again")
            if now >= next_at and len(under_way) < STRIKES_MAX:
                struck = self._strike({each.role for each in under_way}, now)
                under_way.append(struck)
                self.tell(struck.note)
                next_at = now + self.rng.uniform(*PAUSE_SECONDS)
            time.sleep(POLL_SECONDS)
        for each in under_way:
            each.heal()

    def _heal(self, under_way: Sequence[Strike], now: float) -> list[Strike]:
        for each in under_way:
            if each.heal_at <= now:
                each.heal()
        return [each for each in under_way if each.heal_at > now]

    def _strike(self, struck: set[str], now: float) -> Strike:
        kinds = [(role, is_kill) for role in STOOD_SECONDS for is_kill in (True, False)]
        if not any(role not in struck for role, _ in self._bag):
            self._bag += self.rng.sample(kinds, len(kinds))
        kind = next(each for each in self._bag if each[0] not in struck)
        self._bag.remove(kind)
        role, is_kill = kind
        victim = self._victim(role)
        verb = "killed" if is_kill else "paused"
        self.faults[f"{role} {verb}"] += 1
        seconds = self.rng.uniform(*(DOWN_SECONDS if is_kill else STOOD_SECONDS[role]))
        if is_kill:
            victim.kill()
        else:
            victim.pause()
        heal = victim.start if is_kill else victim.resume
        if role == "coordinator" and not is_kill:
            heal = partial(self._resume_coordinator, victim, time.monotonic_ns())
        return Strike(role, f"{victim.name} {verb} for {seconds:.1f} s", now + seconds, heal)

    def _resume_coordinator(self, victim: Member | SupervisedProcess, since_ns: int) -> None:
        victim.resume()
        self.coordinators_stood.append(Span(since_ns, time.monotonic_ns()))

    def _victim(self, role: str) -> Member | SupervisedProcess:
        if role == "member":
            return self.rng.choice(self.members)
        of_role: Mapping[int, NodeProcess | ControllerProcess]
        match role:
            case "coordinator":
                of_role = self.cluster.coordinators
            case "broker":
                of_role = self.cluster.brokers
            case _:
                of_role = self.cluster.controllers
        return of_role[self.rng.choice(sorted(of_role))].process
