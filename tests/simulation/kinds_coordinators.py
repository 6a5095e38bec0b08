"""Faults of coordinators: they are drawn only where a cluster has some."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.kinds_brokers import DOWN_MS, PAUSED_MS, back_down_or_not, draw_ms
from tests.simulation.kinds_network import CUT_MS
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.coordinator_node import CoordinatorNode

#: While the shard may be on its way, and long after.
MAINTAINED_MS = ((50, 600), (1_000, 8_000))

STOPPED_MS = ((1_000, 4_000), (5_000, 15_000))

coordinator_kind = partial(kind, needs="coordinators")


def _node(cluster: Cluster, name: str) -> CoordinatorNode:
    assert cluster.shards is not None
    return next(node for node in cluster.shards.nodes if node.name == name)


def _any_node(cluster: Cluster, random: Random) -> CoordinatorNode | None:
    """Rather the owner."""
    assert cluster.shards is not None
    up = [node for node in cluster.shards.nodes if node.is_up and not node.is_paused]
    shard = cluster.shards.shard
    owner = [node for node in up if shard is not None and node.coordinator_id == shard.owner]
    return random.choice(owner if owner and random.random() < 0.6 else up) if up else None


def _draw_for(ranges_ms: tuple[tuple[int, int], ...], cluster: Cluster, random: Random) -> Arguments | None:
    node = _any_node(cluster, random)
    return None if node is None else {"coordinator": node.name, "for_ms": draw_ms(random, ranges_ms)}


@coordinator_kind(partial(_draw_for, DOWN_MS), weight=2)
def kill_coordinator(cluster: Cluster, *, coordinator: str, for_ms: int) -> bool:
    node = _node(cluster, coordinator)
    if not node.is_up:
        return False
    node.crash()
    back_down_or_not(cluster, node, for_ms, nodes=())
    return True


@coordinator_kind(partial(_draw_for, STOPPED_MS), weight=2)
def stop_coordinator(cluster: Cluster, *, coordinator: str, for_ms: int) -> bool:
    """SIGTERM: it gives the shard away and ends."""
    node = _node(cluster, coordinator)
    #: The session's in the simulation of the cores, whose machines may be of the last release.
    stops: Any = getattr(node, "session", node)
    if not node.is_up or stops.wants_shutdown:
        return False
    stops.wants_shutdown = True
    cluster.events.note(f"{node.name} is asked to stop")
    back_down_or_not(cluster, node, for_ms, nodes=())
    return True


@coordinator_kind(partial(_draw_for, PAUSED_MS), weight=2)
def pause_coordinator(cluster: Cluster, *, coordinator: str, for_ms: int) -> bool:
    """It wakes up with appends of long ago in its hands."""
    node = _node(cluster, coordinator)
    if not node.is_up or node.is_paused:
        return False
    node.pause()
    life = node.life

    def go_on() -> None:
        if node.is_paused and node.life == life:
            node.resume()

    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=go_on)
    return True


def _draw_cut(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = _draw_for(CUT_MS, cluster, random)
    if drawn is None:
        return None
    others = [
        [c.name for c in cluster.controllers],
        [random.choice(list(cluster.brokers.values())).name],
        [b.name for b in cluster.brokers.values()],
    ]
    return drawn | {"others": random.choice(others), "ways": random.choice(["both", "to", "from"])}


@coordinator_kind(_draw_cut, weight=2)
def cut_coordinator(cluster: Cluster, *, coordinator: str, others: list[str], ways: str, for_ms: int) -> bool:
    """From the controllers, from one broker or from all; ways: "both", "to" or "from" them."""
    pairs = [(coordinator, other) for other in others] if ways != "from" else []
    pairs += [(other, coordinator) for other in others] if ways != "to" else []
    for source, target in pairs:
        cluster.network.cut(source, target)
        cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=partial(cluster.network.mend, source, target))
    return True


def _draw_maintenance(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = _draw_for(MAINTAINED_MS, cluster, random)
    if drawn is None:
        return None
    draining, demoted = random.choice(((True, False), (True, False), (False, True), (True, True)))
    return drawn | {"draining": draining, "demoted": demoted}


@coordinator_kind(_draw_maintenance, weight=3)
def maintain_coordinator(
    cluster: Cluster, *, coordinator: str, draining: bool, demoted: bool, for_ms: int
) -> bool:
    """It gives the shard away, as soon as another is level; perhaps it may have it back before that."""
    shards, node = cluster.shards, _node(cluster, coordinator)
    assert shards is not None
    if node.coordinator_id in shards.wanted:
        return False
    shards.wanted[node.coordinator_id] = (draining, demoted)
    shards.look_after()

    def end() -> None:
        del shards.wanted[node.coordinator_id]
        shards.look_after()

    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=end)
    return True


@coordinator_kind(partial(_draw_for, DOWN_MS))
def forget_coordinator(cluster: Cluster, *, coordinator: str, for_ms: int) -> bool:
    """It is stopped and removed, if the controller knows in time that it is dead; then somebody starts it
    once more, and it is admitted like a new one."""
    shards, node = cluster.shards, _node(cluster, coordinator)
    assert shards is not None
    if not kill_coordinator(cluster, coordinator=coordinator, for_ms=for_ms):
        return False
    shards.unwanted.add(node.coordinator_id)
    end = partial(shards.unwanted.discard, node.coordinator_id)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=end)
    return True
