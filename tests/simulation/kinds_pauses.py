"""Processes that stand still for long, up to an hour: SIGSTOP, a suspended machine, a hypervisor that takes
its time (S52, a node stands still). What was sent to them meanwhile lies in their sockets and is read in
order when they go on."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import any_leader, draw_ms, is_fit
from tests.simulation.kinds_controllers import ZOOKEEPER
from tests.simulation.options import LONG
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode

#: Around lease and grace; well beyond them; and, where a run takes a quarter of an hour, up to an hour.
STANDSTILL_MS = ((2_000, 8_000), (8_000, 20_000))
LONG_STANDSTILL_MS = (*STANDSTILL_MS, (60_000, 600_000), (600_000, 3_600_000))


def _draw_standstill(cluster: Cluster, random: Random) -> Arguments | None:
    is_long = cluster.options.faults_ms >= LONG.faults_ms[0]
    return draw_standstill(cluster, random, LONG_STANDSTILL_MS if is_long else STANDSTILL_MS)


def draw_standstill(cluster: Cluster, random: Random, ranges_ms: tuple[tuple[int, int], ...]) -> Arguments:
    """One leader, or one to three of all there are, ZooKeeper among them."""
    fit = [b.name for b in cluster.brokers.values() if is_fit(b)]
    fit += [c.name for c in cluster.controllers if c.is_up and not c.is_paused]
    fit.append(ZOOKEEPER)
    leader = any_leader(cluster, random)
    if leader is not None and random.random() < 0.5:
        chosen = [leader.name]
    else:
        chosen = sorted(random.sample(fit, min(len(fit), random.choice((1, 1, 2, 3)))))
    return {"nodes": chosen, "for_ms": draw_ms(random, ranges_ms)}


@kind(_draw_standstill, weight=2, family="pauses")
def stand_still(cluster: Cluster, *, nodes: list[str], for_ms: int) -> bool:
    """All of them stop in one moment and go on in another."""
    processes = {node.name: node for node in cluster.nodes}
    struck = [p for name in nodes if (p := processes.get(name)) and p.is_up and not p.is_paused]
    with_zookeeper = ZOOKEEPER in nodes
    if not struck and not with_zookeeper:
        return False
    for process in struck:
        process.pause()
        go_on = partial(_go_on, cluster, process, process.life)
        cluster.ongoing.begin(nodes=(process.name,), for_ms=for_ms, end=go_on)
    if with_zookeeper:
        cluster.zookeeper.go_down()
        cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=cluster.zookeeper.come_back)
    cluster.events.note(f"{', '.join(nodes)} stand still")
    return True


def _go_on(cluster: Cluster, process: BrokerNode | ControllerNode, life: int) -> None:
    if process.is_up and process.is_paused and process.life == life:
        cluster.events.note(f"{process.name} goes on")
        process.resume()
