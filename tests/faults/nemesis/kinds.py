"""What happens to processes: the kinds of fault, each a function that strikes and says how it is undone.

A kind gets the arena and strikes whom it may, or returns None when nobody may be struck now. What it returns
holds until its `heal` is called. The network's kinds are in kinds_network.py, the disks' in kinds_disk.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.nemesis.arena import COPIES, Arena, Ongoing, number_of

HOUR_SECONDS = 3600
CLOCK_SHIFTS_SECONDS = (HOUR_SECONDS, -60, -HOUR_SECONDS, 1)
MOVED_AT_ONCE = 3

Strike = Callable[[Arena], Ongoing | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """seconds: how long it holds, at least and at most. is_first: it strikes before all others, since a run
    without it tries nothing."""

    name: str
    strike: Strike
    seconds: tuple[float, float]
    is_first: bool = False

    def draw_seconds(self, rng: random.Random) -> float:
        return round(rng.uniform(*self.seconds), 1)


def start(arena: Arena, host: str) -> None:
    """Starts the host's process again, without waiting."""
    arena.cluster.process_on(host).start()


def down(arena: Arena, kind: str, host: str | None, *, gently: bool = False) -> Ongoing | None:
    """Ends the host's process, until it is started again."""
    if host is None:
        return None
    process = arena.cluster.process_on(host)
    if gently:
        process.stop()
    else:
        process.kill()
    return Ongoing(kind, (host,), f"{kind} {host}", lambda: start(arena, host))


def paused(arena: Arena, kind: str, host: str | None) -> Ongoing | None:
    """SIGSTOP, until SIGCONT: it keeps its connections, and believes what it believed."""
    if host is None:
        return None
    process = arena.cluster.process_on(host)
    process.pause()
    return Ongoing(kind, (host,), f"{kind} {host}", process.resume)


# --- brokers ----------------------------------------------------------------------------------------------


def kill_leader(arena: Arena) -> Ongoing | None:
    return down(arena, "kill-leader", arena.pick_leader())


def kill_broker(arena: Arena) -> Ongoing | None:
    return down(arena, "kill-broker", arena.pick(arena.brokers))


def kill_all_brokers(arena: Arena) -> Ongoing | None:
    """All at once, as by a bad deployment. No disk is touched: everything acknowledged is in page caches."""
    if arena.ongoing:
        return None
    for host in arena.brokers:
        arena.cluster.process_on(host).kill()

    def heal() -> None:
        for host in arena.brokers:
            start(arena, host)

    return Ongoing("kill-all-brokers", tuple(arena.brokers), "kill-all-brokers", heal)


def stop_broker(arena: Arena) -> Ongoing | None:
    """SIGTERM: a controlled shutdown."""
    return down(arena, "stop-broker", arena.pick(arena.brokers), gently=True)


def pause_leader(arena: Arena) -> Ongoing | None:
    """Long enough, sometimes, that another leads when it wakes up."""
    return paused(arena, "pause-leader", arena.pick_leader())


def jump_clock(arena: Arena) -> Ongoing | None:
    """A broker's wall clock is wrong, until it is set right again."""
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    seconds = arena.rng.choice(CLOCK_SHIFTS_SECONDS)
    machine = arena.cluster.hosts[host]
    machine.shift_clock(seconds)
    return Ongoing("jump-clock", (host,), f"jump-clock {host} {seconds:+d} s", lambda: machine.shift_clock(0))


def move_replicas(arena: Arena) -> Ongoing | None:
    """Partitions go to other brokers while all else goes on. It ends by itself, when all are in sync."""
    views = arena.views() or []
    moved = [
        view.partition
        for view in arena.rng.sample(views, min(MOVED_AT_ONCE, len(views)))
        if arena.assign(view, arena.rng.sample(sorted(arena.cluster.brokers), COPIES))
    ]
    if not moved:
        return None
    return Ongoing("move-replicas", (), f"move-replicas of {', '.join(map(str, moved))}", lambda: None)


# --- controllers and ZooKeeper ----------------------------------------------------------------------------


def _active_controller(arena: Arena) -> str | None:
    """The active one when it is known and may be harmed, else any."""
    active = [
        host
        for host in arena.controllers
        if (arena.cluster.controllers[number_of(host)].readiness() or {}).get("role") == "active"
    ]
    return arena.pick(active or arena.controllers)


def kill_controller(arena: Arena) -> Ongoing | None:
    return down(arena, "kill-controller", _active_controller(arena))


def pause_controller(arena: Arena) -> Ongoing | None:
    """It wakes up as one who believes that it is active."""
    return paused(arena, "pause-controller", _active_controller(arena))


def kill_zookeeper(arena: Arena) -> Ongoing | None:
    return down(arena, "kill-zookeeper", arena.pick(arena.zookeepers))


def pause_zookeeper(arena: Arena) -> Ongoing | None:
    return paused(arena, "pause-zookeeper", arena.pick(arena.zookeepers))


PROCESS_KINDS = (
    Kind("kill-leader", kill_leader, (1, 6)),
    Kind("kill-broker", kill_broker, (0.5, 8)),
    Kind("kill-all-brokers", kill_all_brokers, (0.2, 1)),
    Kind("stop-broker", stop_broker, (1, 5)),
    Kind("pause-leader", pause_leader, (2, 14)),
    Kind("jump-clock", jump_clock, (3, 8)),
    Kind("move-replicas", move_replicas, (1, 4)),
    Kind("kill-controller", kill_controller, (1, 6)),
    Kind("pause-controller", pause_controller, (4, 12)),
    Kind("kill-zookeeper", kill_zookeeper, (1, 6)),
    Kind("pause-zookeeper", pause_zookeeper, (2, 8)),
)
