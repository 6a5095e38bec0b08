"""Faults of coordinators: they are drawn only where a cluster has some."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import DOWN_MS, PAUSED_MS, draw_ms
from tests.simulation.kinds_network import CUT_MS
from tests.simulation.schedule import Arguments, kind
from tests.simulation.shard_authority import AUTHORITY

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.coordinator_node import CoordinatorNode

coordinator_kind = partial(kind, needs="coordinators")


def _node(cluster: Cluster, name: str) -> CoordinatorNode:
    assert cluster.shards is not None
    return next(node for node in cluster.shards.nodes if node.name == name)


def _any_node(cluster: Cluster, random: Random) -> CoordinatorNode | None:
    """Rather the owner."""
    assert cluster.shards is not None
    up = [node for node in cluster.shards.nodes if node.is_up and not node.is_paused]
    owner = [node for node in up if node.name == cluster.shards.authority.row.owner]
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
    life = node.life

    def restart() -> None:
        if not node.is_up and node.life == life:
            node.start()

    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=restart)
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
        [AUTHORITY],
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


def _draw_given(cluster: Cluster, random: Random) -> Arguments | None:
    assert cluster.shards is not None
    return {"coordinator": random.choice(cluster.shards.nodes).name}


@coordinator_kind(_draw_given, weight=2)
def give_shard(cluster: Cluster, *, coordinator: str) -> bool:
    """The controller gives the shard to another coordinator, and perhaps back before anybody has heard of
    it."""
    assert cluster.shards is not None
    if cluster.shards.authority.row.owner == coordinator:
        return False
    cluster.shards.authority.give(coordinator)
    return True
