"""Faults of volumes, which can go and come back, or lose something, while their machine runs on."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import back_after, draw_loss
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster

SHORT_LIFE_MS = 300


def _draw_reattach(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = draw_loss(cluster, random)
    return None if drawn is None else drawn | {"short_lives": random.choice((0, 1, 1, 2))}


@kind(_draw_reattach, weight=2, family="disk")
def reattach_disk(
    cluster: Cluster,
    *,
    broker: int,
    for_ms: int,
    salt: int,
    short_lives: int = 0,
    over_budget: bool = False,
) -> bool:
    """S41 (a volume that was away): the process is killed, and its volume detached without a flush and
    attached again: `salt` chooses what is left of it, under the same boot id. S43: the first `short_lives`
    processes that meet it die before a controller has heard of them."""
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash(machine=Random(salt), reboots=False)
    if short_lives:
        _live_shortly(cluster, node, for_ms, short_lives)
    else:
        back_after(cluster, node, for_ms)
    return True


def _draw_cut(cluster: Cluster, random: Random) -> Arguments | None:
    drawn = draw_loss(cluster, random)
    if drawn is None:
        return None
    node = cluster.brokers[drawn["broker"]]
    numbers = [number for number, key in enumerate(cluster.keys) if node.disk.high_watermarks.get(key, 0)]
    return drawn | {"partition": random.choice(numbers)} if numbers else None


@kind(_draw_cut, family="disk")
def cut_log(
    cluster: Cluster, *, broker: int, partition: int, for_ms: int, salt: int, over_budget: bool = False
) -> bool:
    """S44 (a log below its stored high watermark): the process is killed, and before it is started again one
    of its logs is cut below the high watermark that it had stored. Boot and mount are the same: nothing but
    the log itself says so."""
    node, key = cluster.brokers[broker], cluster.keys[partition]
    log, high_watermark = node.disk.logs.get(key), node.disk.high_watermarks.get(key, 0)
    if not node.is_up or log is None or log.log_start_offset >= min(high_watermark, log.log_end_offset):
        return False
    if not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash()
    log.lose_end(Random(salt).randrange(log.log_start_offset, min(high_watermark, log.log_end_offset)))
    cluster.oracle.on_log_replaced(broker)
    back_after(cluster, node, for_ms)
    return True


def _live_shortly(cluster: Cluster, node: BrokerNode, for_ms: int, lives: int) -> None:
    """Start `node` after `for_ms` where no controller hears it, kill it, and so on; the last one stays."""
    life = node.life
    controllers = [controller.name for controller in cluster.controllers]

    def start() -> None:
        if node.is_up or node.life != life:
            return
        for controller in controllers:
            cluster.network.cut(node.name, controller)
        node.start()
        cluster.ongoing.begin(nodes=(node.name,), for_ms=SHORT_LIFE_MS, end=end)

    def end() -> None:
        for controller in controllers:
            cluster.network.mend(node.name, controller)
        if not node.is_up or node.life != life + 1:
            return
        node.crash()
        if lives > 1:
            _live_shortly(cluster, node, 0, lives - 1)
        else:
            node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=start)
