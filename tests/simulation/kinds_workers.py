"""Hosts with several workers, each a broker of the cluster: one process dies, or the machine with all of them
(I38, a host has one replica of a partition)."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import DOWN_MS, back_after, draw_ms, is_fit
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster


def _workers(cluster: Cluster, host: int) -> list[BrokerNode]:
    return [node for node in cluster.brokers.values() if cluster.owner_of(node.broker_id) == host]


def _draw_host(cluster: Cluster, random: Random) -> Arguments | None:
    up = Counter(cluster.owner_of(b) for b, node in cluster.brokers.items() if is_fit(node))
    hosts = sorted(host for host, count in up.items() if count > 1)
    if not hosts:
        return None
    return {"host": random.choice(hosts), "for_ms": draw_ms(random, DOWN_MS)}


@kind(_draw_host, weight=2, needs="workers", family="workers")
def kill_host(cluster: Cluster, *, host: int, for_ms: int) -> bool:
    """All workers of a host die in one moment, and are started again in one moment."""
    struck = [node for node in _workers(cluster, host) if node.is_up]
    for node in struck:
        node.crash()
        back_after(cluster, node, for_ms)
    return bool(struck)


@kind(_draw_host, needs="workers", family="workers")
def kill_worker(cluster: Cluster, *, host: int, for_ms: int) -> bool:
    """One worker of a host dies, the one that leads most, and the others go on."""
    struck = [node for node in _workers(cluster, host) if node.is_up]
    if not struck:
        return False
    states = [cluster.truth(key) for key in cluster.keys]
    leads = Counter(state.leader for state in states if state is not None)
    node = max(struck, key=lambda worker: (leads[worker.broker_id], worker.broker_id))
    node.crash()
    back_after(cluster, node, for_ms)
    return True
