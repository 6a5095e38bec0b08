"""Upgrades and the way back, process by process or all at once (docs/upgrades.md): a process ends, by itself
or killed, and is started again as the other release, on the same disk."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.kinds_brokers import DOWN_MS, back_down_or_not, draw_ms
from tests.simulation.releases.translation import Release
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: So many at most in one moment, unless all do.
RESTARTED_MAX = 3


def _draw_restarts(cluster: Cluster, random: Random) -> Arguments | None:
    mixed = cluster.mixed
    if mixed is None or (mixed.is_by_halves and not mixed.is_final):
        return None
    release = random.choice((Release.THIS, Release.THIS, Release.LAST))
    if mixed.goes_on:
        release = Release.THIS
    others = [
        node.name
        for node in mixed.nodes
        if mixed.wanted[node.name] is not release and mixed.may_become(node, release)
    ]
    if not others:
        return None
    if mixed.is_final and release is Release.LAST:  # will one of them stand?
        controllers = [node.name for node in cluster.controllers if node.name in others]
        others = controllers or others
    chosen = random.sample(others, min(len(others), random.randint(1, RESTARTED_MAX)))
    return {"names": sorted(chosen), "release": release.name, "for_ms": draw_ms(random, DOWN_MS)}


@kind(_draw_restarts, weight=4, needs="mixed", family="mixed")
def restart_as(cluster: Cluster, *, names: list[str], release: str, for_ms: int) -> bool:
    """These processes are killed, and come back as the other release."""
    return _restart(cluster, names, release, for_ms)


def _draw_all(cluster: Cluster, random: Random) -> Arguments | None:
    mixed = cluster.mixed
    if mixed is None:
        return None
    wanted = [mixed.wanted[node.name] for node in mixed.nodes]
    is_back = wanted.count(Release.THIS) * 2 > len(wanted)
    if is_back and (mixed.is_final or mixed.goes_on):
        return None
    release = Release.LAST if is_back else Release.THIS
    return {"release": release.name, "for_ms": draw_ms(random, DOWN_MS[:2])}


@kind(_draw_all, needs="mixed", family="mixed")
def restart_all_as(cluster: Cluster, *, release: str, for_ms: int) -> bool:
    """Every process is killed in one moment, and all come back as one release."""
    names = [] if cluster.mixed is None else [node.name for node in cluster.mixed.nodes]
    return _restart(cluster, names, release, for_ms)


def _draw_stops(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = _draw_restarts(cluster, random)
    if drawn is None:
        return None
    fit = {
        b.name: b for b in cluster.brokers.values() if b.is_up and not b.is_paused and not b.wants_shutdown
    }
    names = [name for name in drawn["names"] if name in fit]
    return (
        {"broker": fit[names[0]].broker_id, "release": drawn["release"], "for_ms": 4_000} if names else None
    )


@kind(_draw_stops, weight=2, needs="mixed", family="mixed")
def stop_and_start_as(cluster: Cluster, *, broker: int, release: str, for_ms: int) -> bool:
    """A broker is asked to stop, hands its leaderships over, and comes back as the other release."""
    node = cluster.brokers[broker]
    if cluster.mixed is None or not node.is_up or node.wants_shutdown:
        return False
    cluster.mixed.wanted[node.name] = Release[release]
    node.wants_shutdown = True
    back_down_or_not(cluster, node, for_ms, nodes=(node.name,))
    return True


def _restart(cluster: Cluster, names: list[str], release: str, for_ms: int) -> bool:
    mixed = cluster.mixed
    if mixed is None:
        return False
    nodes: list[Any] = [node for node in mixed.nodes if node.name in names]
    nodes = [node for node in nodes if mixed.may_become(node, Release[release])]
    for node in nodes:
        mixed.wanted[node.name] = Release[release]
    for node in nodes:
        if not node.is_up:
            continue  # whoever ended it starts it again
        node.crash()
        life = node.life

        def restart(node: Any = node, life: int = life) -> None:
            if not node.is_up and node.life == life:
                node.start()

        # No core is drawn of coordinators: what strikes them ends with the other faults.
        is_drawn = node in cluster.nodes
        cluster.ongoing.begin(nodes=(node.name,) if is_drawn else (), for_ms=for_ms, end=restart)
    return bool(nodes)
