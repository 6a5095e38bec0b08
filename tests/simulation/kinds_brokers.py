"""Faults of broker processes and their disks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster

#: Restarts: at once, after a while, after the controller's grace.
DOWN_MS = ((20, 200), (200, 2_000), (4_000, 12_000))
#: Pauses: unnoticed, shorter than the lease, longer than the grace.
PAUSED_MS = ((50, 900), (1_000, 5_000), (6_500, 10_000))


def draw_ms(random: Random, ranges: tuple[tuple[int, int], ...]) -> int:
    return random.randint(*random.choice(ranges))


def any_broker(cluster: Cluster, random: Random) -> BrokerNode | None:
    up = [b for b in cluster.brokers.values() if b.is_up and not b.is_paused]
    return random.choice(up) if up else None


def any_leader(cluster: Cluster, random: Random) -> BrokerNode | None:
    """The leader of some partition, if it can be struck."""
    state = cluster.truth(random.choice(cluster.keys))
    broker = None if state is None else cluster.brokers.get(state.leader)
    return broker if broker is not None and broker.is_up and not broker.is_paused else None


def draw_down(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, DOWN_MS)}


def draw_leader_down(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_leader(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, DOWN_MS)}


def draw_loss(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    if broker is None or not cluster.budget.may_lose(broker):
        return None
    return {
        "broker": broker.broker_id,
        "for_ms": draw_ms(random, DOWN_MS),
        "salt": random.getrandbits(32),
    }


def draw_pause(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, PAUSED_MS)}


def draw_leader_pause(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_leader(cluster, random)
    return None if broker is None else {"broker": broker.broker_id, "for_ms": draw_ms(random, PAUSED_MS)}


def draw_stop(cluster: Cluster, random: Random) -> Arguments | None:
    broker = any_broker(cluster, random)
    if broker is None or broker.wants_shutdown:
        return None
    return {"broker": broker.broker_id, "for_ms": random.randint(3_000, 9_000)}


def back_after(cluster: Cluster, broker: BrokerNode, for_ms: int) -> None:
    """Start `broker` again, unless somebody else has."""
    life = broker.life

    def restart() -> None:
        if not broker.is_up and broker.life == life:
            broker.start()

    cluster.ongoing.begin(nodes=(broker.name,), for_ms=for_ms, end=restart)


def _kill(cluster: Cluster, broker_id: int, for_ms: int) -> bool:
    broker = cluster.brokers[broker_id]
    if not broker.is_up:
        return False
    broker.crash()
    back_after(cluster, broker, for_ms)
    return True


@kind(draw_down, weight=2)
def kill_broker(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """SIGKILL: the disk keeps all that was written."""
    return _kill(cluster, broker, for_ms)


@kind(draw_leader_down)
def kill_leader(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    return _kill(cluster, broker, for_ms)


@kind(draw_loss)
def power_cut(cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False) -> bool:
    """The machine dies; of what was not flushed a prefix chosen by `salt` survives."""
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash(machine=Random(salt))
    back_after(cluster, node, for_ms)
    return True


@kind(draw_loss)
def replace_disk(cluster: Cluster, *, broker: int, for_ms: int, salt: int, over_budget: bool = False) -> bool:
    """S1: the broker comes back with an empty disk."""
    del salt
    node = cluster.brokers[broker]
    if not node.is_up or not cluster.budget.spend(node, over_budget=over_budget):
        return False
    node.crash()
    node.replace_disk()
    back_after(cluster, node, for_ms)
    return True


@kind(draw_stop)
def stop_broker(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """SIGTERM: a controlled shutdown; back `for_ms` later, killed if it has not stopped by then (S27)."""
    node = cluster.brokers[broker]
    if not node.is_up or node.wants_shutdown:
        return False
    node.wants_shutdown = True
    cluster.events.note(f"{node.name} is asked to stop")
    life = node.life

    def back() -> None:
        if node.life != life:
            return
        if node.is_up:
            node.crash()
        node.start()

    cluster.ongoing.begin(nodes=(node.name,), for_ms=for_ms, end=back)
    return True


def _pause(cluster: Cluster, broker_id: int, for_ms: int) -> bool:
    broker = cluster.brokers[broker_id]
    if not broker.is_up or broker.is_paused:
        return False
    broker.pause()
    cluster.events.note(f"{broker.name} is paused")
    life = broker.life

    def resume() -> None:
        if broker.is_up and broker.is_paused and broker.life == life:
            cluster.events.note(f"{broker.name} goes on")
            broker.resume()

    cluster.ongoing.begin(nodes=(broker.name,), for_ms=for_ms, end=resume)
    return True


@kind(draw_pause)
def pause_broker(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """SIGSTOP: deliveries and timers wait, the world goes on (S35)."""
    return _pause(cluster, broker, for_ms)


@kind(draw_leader_pause)
def pause_leader(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    return _pause(cluster, broker, for_ms)
