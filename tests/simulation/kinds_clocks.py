"""Wall clocks that leap: one at a time, of a broker or of a controller, ahead or back, and set right again.

How old records get (options.RETENTION_MS) no run reaches, so whatever is deleted by time was deleted on that
clock's word (I36, no clock destroys alone). Two clocks that are wrong by the same in one moment are what
nothing in a cluster refutes.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from springtide.contract.partition_state import NO_LEADER
from tests.simulation.clock import NodeClock
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode

HOUR_MS = 60 * 60 * 1000
LEAPS_MS = tuple(sign * hours * HOUR_MS for hours in (6, 26, 8 * 24, 400 * 24) for sign in (1, -1))
#: A clock that is off by more may take records with it.
WRONG_MS_MIN = 3 * HOUR_MS


def _is_another_wrong(cluster: Cluster, clock: NodeClock) -> bool:
    nodes: list[BrokerNode | ControllerNode] = [*cluster.brokers.values(), *cluster.controllers]
    return any(abs(n.clock.wall_offset_ms) > WRONG_MS_MIN for n in nodes if n.clock is not clock)


def _leap(cluster: Cluster, node: BrokerNode | ControllerNode, ahead_ms: int, for_ms: int) -> bool:
    clock = node.clock
    if abs(clock.wall_offset_ms) > WRONG_MS_MIN or _is_another_wrong(cluster, clock):
        return False
    before_ms, clock.wall_offset_ms = clock.wall_offset_ms, ahead_ms

    def end() -> None:
        clock.wall_offset_ms = before_ms
        cluster.events.note(f"{node.name}'s wall clock is right again")

    cluster.events.note(f"{node.name}'s wall clock leaps by {ahead_ms} ms")
    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=end)
    return True


def _draw_leap(random: Random) -> Arguments:
    return {"ahead_ms": random.choice(LEAPS_MS), "for_ms": random.randint(1_000, 10_000)}


def _draw_leader(cluster: Cluster, random: Random) -> Arguments | None:
    """Mostly one that leads: nobody else deletes."""
    states = [cluster.truth(key) for key in cluster.keys]
    leaders = sorted({s.leader for s in states if s is not None and s.leader != NO_LEADER})
    broker = random.choice(leaders if leaders and random.random() < 0.8 else sorted(cluster.brokers))
    return {"broker": broker, **_draw_leap(random)}


@kind(_draw_leader, family="clocks")
def leap_clock(cluster: Cluster, *, broker: int, ahead_ms: int, for_ms: int) -> bool:
    """S49 (a leader's clock leaps): a broker's wall clock is set wrong, by hours to a year, and right again
    seconds later."""
    return _leap(cluster, cluster.brokers[broker], ahead_ms, for_ms)


def _draw_controller(cluster: Cluster, random: Random) -> Arguments | None:
    active = cluster.active_controller()
    if active is None or random.random() < 0.2:
        active = random.choice(cluster.controllers)
    return {"controller": active.name, **_draw_leap(random)}


@kind(_draw_controller, family="clocks")
def leap_controller_clock(cluster: Cluster, *, controller: str, ahead_ms: int, for_ms: int) -> bool:
    """S50 (the controller's clock leaps): the clock that all brokers are told of is set wrong, and right
    again."""
    node = next(c for c in cluster.controllers if c.name == controller)
    return _leap(cluster, node, ahead_ms, for_ms)


def _draw_start(cluster: Cluster, random: Random) -> Arguments | None:
    """Long enough to be in sync again, and to lead."""
    drawn = _draw_leader(cluster, random)
    return drawn and {**drawn, "for_ms": random.randint(3_000, 40_000)}


@kind(_draw_start, family="clocks")
def start_with_wrong_clock(cluster: Cluster, *, broker: int, ahead_ms: int, for_ms: int) -> bool:
    """S51 (started with a wrong clock): a process begins with a clock that was never right in its life, until
    somebody sets it."""
    node = cluster.brokers[broker]
    if not node.is_up or node.is_paused or not _leap(cluster, node, ahead_ms, for_ms):
        return False
    node.crash()
    node.start()
    return True
