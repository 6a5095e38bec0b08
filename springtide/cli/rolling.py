"""Which process of a cluster is restarted next, and when, in a rolling restart. Pure.

    look --> something is not as it should be --> wait; without any improvement for `patience`: stop
         --> all is well --> the process that was restarted last is back: note it
                         --> restart the next; none is left: the end

Standby controllers come first, so that the active one hands over to a controller that was restarted; then
brokers, then coordinators, each by id. All is well while every process serves and every partition has all of
its replicas in sync. Only then is a process stopped: the next one never goes while the last one's partitions
have a replica less (strimzi-kafka-operator issue 3749).

What is left to do is found in what the controllers say at each look. A roll that stopped, or whose command
was interrupted, goes on where it was when it is started again with the version that all are to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from springtide.cli.amounts import duration

KINDS: Final = ("controller", "broker", "coordinator")
#: States in which nothing is missing. One that waits to be added has no part in the cluster yet.
UP: Final = ("active", "standby", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledProcess:
    """A process as the controllers tell of it. name: its id; of a controller, where it is asked. host: where
    it runs, as others reach it. run: names this run of it, None: not told. state: a word of UP, or what is
    the matter."""

    kind: str
    name: str
    host: str
    state: str
    run: str | None = None
    version: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A cluster at one moment. lag_records: that followers have yet to copy. is_lost: its ZooKeeper has lost
    what it once held, so that what is told of partitions is not the truth."""

    processes: tuple[RolledProcess, ...]
    leaderless: int = 0
    under_min_isr: int = 0
    under_replicated: int = 0
    lag_records: int = 0
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart this process now, then call `on_restarted`."""

    process: RolledProcess


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again later. why: what is waited for."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """It can't go on. why: what is the matter, and what to do."""

    why: str


@dataclass(frozen=True, slots=True)
class AllDone:
    """All are restarted, and all is well."""


Step = Restart | Wait | Stop | AllDone


def in_order(processes: Iterable[RolledProcess]) -> list[RolledProcess]:
    """Return the processes in the order in which they are restarted."""
    return sorted(
        processes,
        key=lambda one: (
            KINDS.index(one.kind),
            one.kind == "controller" and one.state == "active",
            (0, int(one.name), "") if one.name.isdecimal() else (1, 0, one.name),
        ),
    )


def to_restart(sight: Sight, version: str | None) -> list[RolledProcess]:
    """Return the processes that are to be restarted, in order: all, or those that don't run this version."""
    return in_order(one for one in sight.processes if version is None or one.version != version)


def not_well(sight: Sight) -> str | None:
    """Return the first thing that forbids to stop a process now, or None."""
    if sight.is_lost:
        return "ZooKeeper has lost what it once held: see springtide clusters alarms"
    if not any(one.kind == "controller" and one.state == "active" for one in sight.processes):
        return "no controller is active"
    down = [f"{one.title} is {one.state}" for one in sight.processes if one.state not in UP]
    if down:
        return _first_of(down)
    counts = (
        (sight.leaderless, "without a leader"),
        (sight.under_min_isr, "below their minimum of replicas in sync"),
        (sight.under_replicated, "with a replica that is not in sync"),
    )
    for count, what in counts:
        if count:
            lag = f", {sight.lag_records:,} records to copy" if sight.lag_records else ""
            return f"{count:,} partition{'s' if count > 1 else ''} {what}{lag}"
    return None


def _first_of(texts: list[str]) -> str:
    return texts[0] + (f", and {len(texts) - 1} more" if len(texts) > 1 else "")


def _health(sight: Sight | None) -> tuple[int, ...]:
    """Return numbers that grow, the first ones before the others, while things get better."""
    if sight is None:
        return (-1,)
    is_led = any(one.kind == "controller" and one.state == "active" for one in sight.processes)
    down = sum(one.state not in UP for one in sight.processes)
    partitions = (sight.leaderless, sight.under_min_isr, sight.under_replicated, sight.lag_records)
    return (int(is_led), -down, *(-count for count in partitions))


@dataclass(slots=True)
class Roll:
    """A rolling restart. version: that all are to run in the end; None: each is restarted once. patience_s:
    how long it waits while nothing gets better. Times are seconds of a monotonic clock.

    done: the processes that were restarted and came back, with the times when they were restarted.
    """

    version: str | None
    patience_s: float
    done: dict[tuple[str, str], float] = field(default_factory=dict)
    #: What was restarted and is not back.
    _awaited: RolledProcess | None = None
    _restarted_at: float = 0.0
    #: When things got better for the last time, and how they were then.
    _better_at: float | None = None
    _best: tuple[int, ...] = ()

    def left(self, sight: Sight) -> list[RolledProcess]:
        """Return the processes that are to be restarted from here on, in order."""
        return [one for one in to_restart(sight, self.version) if one.key not in self.done]

    def step(self, sight: Sight | None, now: float) -> Step:
        """Return what to do. sight: None: no active controller answers."""
        why = "no active controller answers" if sight is None else self._not_back(sight) or not_well(sight)
        if why is None and sight is not None:
            return self._on_well(sight, now)
        health = _health(sight)
        if self._better_at is None or health > self._best:
            self._better_at, self._best = now, health
        if now - self._better_at < self.patience_s:
            return Wait(why or "")
        return Stop("\n".join(self._why_stopped(why or "")))

    def _on_well(self, sight: Sight, now: float) -> Step:
        self._better_at = None
        if self._awaited is not None:
            back = next(one for one in sight.processes if self._is_awaited(one))
            if self.version is not None and back.version != self.version:
                return Stop(
                    f"{back.title} came back with version {back.version or 'unknown'}, not {self.version}: "
                    "install that version where it runs, or change its image, and run this command again"
                )
            self.done[self._awaited.key] = now - self._restarted_at
            self._awaited = None
        left = self.left(sight)
        return Restart(left[0]) if left else AllDone()

    def _is_awaited(self, process: RolledProcess) -> bool:
        return self._awaited is not None and process.key == self._awaited.key

    def _not_back(self, sight: Sight) -> str | None:
        """Return what is the matter with the process that was restarted last, or None."""
        if self._awaited is None:
            return None
        back = next((one for one in sight.processes if self._is_awaited(one)), None)
        if back is None:
            return f"{self._awaited.title} is not known any more"
        if back.state not in UP:
            return f"{back.title} is {back.state}"
        if back.run is not None and back.run == self._awaited.run:
            return f"{back.title} still runs as before it was restarted"
        return None

    def on_restarted(self, process: RolledProcess, began: float) -> None:
        """Note that the command that restarts the process ended well. began: when it was started."""
        self._awaited, self._restarted_at, self._better_at = process, began, None

    def _why_stopped(self, why: str) -> Iterator[str]:
        yield f"nothing got better for {self.patience_s:g} s: {why}"
        if self._awaited is not None:
            yield f"  {self._awaited.title} was restarted last: its log says what it waits for"
        yield "  nothing else was stopped. When all is well again, run this command again"
        if self.version is None and self.done:
            yield "  to leave out those that are done, name the version with --to VERSION"


def pace(seconds: Iterable[float], left: int) -> str:
    """Return the rate so far and the time left, in words; empty before the first."""
    took = list(seconds)
    if not took:
        return ""
    each_ms = 1_000 * sum(took) / len(took)
    rate = f"{duration(round(each_ms))} each"
    return f"{rate}, about {duration(round(each_ms * left))} left" if left else rate
