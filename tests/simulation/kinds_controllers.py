"""Faults of controllers and of ZooKeeper."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode


def _named(cluster: Cluster, name: str) -> ControllerNode:
    return next(c for c in cluster.controllers if c.name == name)


def _draw_controller(cluster: Cluster, random: Random) -> Arguments | None:
    up = [c for c in cluster.controllers if c.is_up and not c.is_paused]
    if not up:
        return None
    return {"controller": random.choice(up).name, "for_ms": random.randint(100, 9_000)}


@kind(_draw_controller)
def kill_controller(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    node = _named(cluster, controller)
    if not node.is_up:
        return False
    node.crash()
    cluster.events.note(f"{node.name} is killed")

    def restart() -> None:
        if not node.is_up:
            node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=restart)
    return True


@kind(_draw_controller)
def pause_controller(cluster: Cluster, *, controller: str, for_ms: int) -> bool:
    """S16: it wakes up after its successor took over."""
    node = _named(cluster, controller)
    if not node.is_up or node.is_paused:
        return False
    node.pause()
    cluster.events.note(f"{node.name} is paused")

    def resume() -> None:
        if node.is_up and node.is_paused:
            cluster.events.note(f"{node.name} goes on")
            node.resume()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=resume)
    return True


def _draw_nothing(cluster: Cluster, random: Random) -> Arguments | None:
    return {} if cluster.zookeeper.leader is not None else None


@kind(_draw_nothing)
def expire_session(cluster: Cluster) -> bool:
    """ZooKeeper ends the session of whoever leads."""
    leader = cluster.zookeeper.leader
    if leader is None:
        return False
    cluster.zookeeper.expire(leader)
    cluster.events.note(f"session {leader} expires")
    return True


def _draw_lost_answers(cluster: Cluster, random: Random) -> Arguments | None:
    return {"rate": 0.3, "for_ms": random.randint(500, 4_000)}


@kind(_draw_lost_answers)
def lose_zookeeper_answers(cluster: Cluster, *, rate: float, for_ms: int) -> bool:
    """S17: a write is applied, and its answer is lost."""
    cluster.zookeeper.lose_answers(rate)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: cluster.zookeeper.answer_again(rate))
    return True


def _draw_outage(cluster: Cluster, random: Random) -> Arguments | None:
    return {"for_ms": random.randint(200, 8_000)}


@kind(_draw_outage)
def zookeeper_outage(cluster: Cluster, *, for_ms: int) -> bool:
    cluster.zookeeper.go_down()
    cluster.events.note("ZooKeeper is out")
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=cluster.zookeeper.come_back)
    return True
