"""Which fault comes next, when, and for how long: all of it from the seed.

Kinds are drawn from a bag that holds each kind once and is filled again when it is empty, so that a run of
any length spreads over all of them. Whom a fault strikes depends on who leads at that moment, so two runs of
one seed share their faults and their order, and not their every victim.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from localcluster.cluster import WaitedTooLong
from tests.faults.nemesis.arena import Arena, Ongoing
from tests.faults.nemesis.kinds import Kind

ONGOING_MAX = 2
PAUSE_SECONDS = (0.5, 4.0)
"""Between the starts of two faults, beside what striking takes."""
POLL_SECONDS = 0.05
BACK_SECONDS_MAX = 90.0
AGAIN_SECONDS = 1.0
"""When nobody may be struck now."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that is over."""

    kind: str
    note: str
    struck_ns: int
    healed_ns: int


class Bag:
    """Every kind once, in an order by chance, then again. One that can't strike now stays in; when only such
    are left, the others go on without them."""

    def __init__(self, kinds: Sequence[Kind], rng: random.Random) -> None:
        self._kinds = kinds
        self._rng = rng
        self._left: list[Kind] = []

    def strike(self, arena: Arena) -> tuple[Kind, Ongoing] | None:
        """The first kind in the bag that finds somebody to strike; None when none does."""
        if not self._left:
            drawn = self._rng.sample(list(self._kinds), len(self._kinds))
            self._left = sorted(drawn, key=lambda kind: not kind.is_first)
        drawn = [kind for kind in self._kinds if kind not in self._left]
        for kind in [*self._left, *self._rng.sample(drawn, len(drawn))]:
            fault = kind.strike(arena)
            if fault is not None:
                if kind in self._left:
                    self._left.remove(kind)
                return kind, fault
        return None


@dataclass(slots=True)
class Nemesis:
    """Strikes and heals in one thread, until the time is over; then heals everything.

    check: called all the time; what it raises ends the run.
    """

    arena: Arena
    kinds: Sequence[Kind]
    tell: Tell
    check: Callable[[], None]
    clock_ns: Callable[[], int] = time.monotonic_ns
    done: list[Done] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        bag = Bag(self.kinds, self.arena.rng)
        until = time.monotonic() + seconds
        strike_at = time.monotonic()
        while (now := time.monotonic()) < until:
            self.check()
            if self._mend(now):
                continue
            if now >= strike_at and len(self.arena.ongoing) < ONGOING_MAX:
                strike_at = self._strike(bag)
            else:
                time.sleep(POLL_SECONDS)
        while self.arena.ongoing:
            self.check()
            if not self._mend(math.inf):
                time.sleep(POLL_SECONDS)

    def _strike(self, bag: Bag) -> float:
        """Strikes if it can; when to strike next."""
        struck_ns = self.clock_ns()
        struck = bag.strike(self.arena)
        if struck is None:
            return time.monotonic() + AGAIN_SECONDS
        kind, fault = struck
        seconds = kind.draw_seconds(self.arena.rng)
        fault.struck_ns = struck_ns
        fault.heal_due = time.monotonic() + seconds
        self.arena.add(fault)
        self.tell(f"{fault.note} for {seconds:g} s")
        return time.monotonic() + self.arena.rng.uniform(*PAUSE_SECONDS)

    def _mend(self, now: float) -> bool:
        """Heals what is due, and lets go of what is back; whether it did anything.

        Raises:
            WaitedTooLong, ProcessFailed: a victim did not come back.
        """
        for fault in list(self.arena.ongoing):
            if fault.healed_ns is None:
                if fault.heal_due <= now:
                    # Before what it starts: the time to start counts as recovery.
                    healed_ns = self.clock_ns()
                    fault.heal()
                    fault.healed_ns = healed_ns
                    return True
            elif all(self.arena.is_back(victim) for victim in fault.victims):
                self.arena.remove(fault)
                self.done.append(Done(fault.kind, fault.note, fault.struck_ns, fault.healed_ns))
                self.tell(f"    healed: {fault.note}")
                return True
            elif (self.clock_ns() - fault.healed_ns) / 1e9 > BACK_SECONDS_MAX:
                raise WaitedTooLong(f"after {BACK_SECONDS_MAX:g} s not back: {fault.note}")
        return False
