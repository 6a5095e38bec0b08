"""Faults between nodes."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.kinds_brokers import any_leader, draw_ms
from tests.simulation.network import NetworkOptions
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

CUT_MS = ((100, 1_000), (2_000, 5_000), (7_000, 12_000))

Pair = tuple[str, str]


def cut_pairs(cluster: Cluster, pairs: list[Pair], for_ms: int) -> bool:
    """Each link ends by itself when a core of nodes is healed; all at once otherwise."""
    for source, target in pairs:
        cluster.network.cut(source, target)
        cluster.ongoing.begin(
            nodes=(source, target),
            for_ms=for_ms,
            end=partial(cluster.network.mend, source, target),
        )
    cluster.events.note(f"cut {pairs}")
    return True


def _draw_pair(cluster: Cluster, random: Random) -> Arguments | None:
    one, other = random.sample(cluster.node_names, 2)
    return {"source": one, "target": other, "for_ms": draw_ms(random, CUT_MS)}


@kind(_draw_pair)
def cut_both_ways(cluster: Cluster, *, source: str, target: str, for_ms: int) -> bool:
    return cut_pairs(cluster, [(source, target), (target, source)], for_ms)


@kind(_draw_pair)
def cut_one_way(cluster: Cluster, *, source: str, target: str, for_ms: int) -> bool:
    """Nothing from `source` reaches `target`; the other way is open."""
    return cut_pairs(cluster, [(source, target)], for_ms)


def _draw_isolation(cluster: Cluster, random: Random) -> Arguments | None:
    leader = any_leader(cluster, random)
    if leader is None:
        return None
    ways = random.choice(["both", "to", "from"])
    return {"broker": leader.broker_id, "ways": ways, "for_ms": draw_ms(random, CUT_MS)}


def _isolate(cluster: Cluster, broker: int, others: list[str], ways: str, for_ms: int) -> bool:
    name = cluster.brokers[broker].name
    pairs: list[Pair] = []
    if ways != "from":
        pairs += [(name, other) for other in others]
    if ways != "to":
        pairs += [(other, name) for other in others]
    return bool(pairs) and cut_pairs(cluster, pairs, for_ms)


@kind(_draw_isolation)
def isolate_from_controllers(cluster: Cluster, *, broker: int, ways: str, for_ms: int) -> bool:
    """S13 (cut off from the controllers), S15 (a one-way link to the controllers): a leader is cut off from
    the controllers only. ways: "both", "to" or "from" them."""
    return _isolate(cluster, broker, [c.name for c in cluster.controllers], ways, for_ms)


@kind(_draw_isolation)
def isolate_from_brokers(cluster: Cluster, *, broker: int, ways: str, for_ms: int) -> bool:
    """S14 and 2013: a leader is cut off from its followers, but not from the controllers."""
    others = [b.name for b in cluster.brokers.values() if b.broker_id != broker]
    return _isolate(cluster, broker, others, ways, for_ms)


def _draw_deafness(cluster: Cluster, random: Random) -> Arguments | None:
    """A leader that has outsiders: it may be about to ask for one."""
    waiting = [
        state.leader
        for key in cluster.keys
        if (state := cluster.truth(key)) is not None
        and state.leader in cluster.brokers
        and len(state.isr) < len(state.replicas)
    ]
    leader = any_leader(cluster, random) if not waiting else cluster.brokers[random.choice(waiting)]
    if leader is None or not leader.is_up:
        return None
    return {"broker": leader.broker_id, "for_ms": random.randint(300, 5_000)}


@kind(_draw_deafness, weight=2)
def deafen_leader(cluster: Cluster, *, broker: int, for_ms: int) -> bool:
    """S6 (the answer to an accepted proposal is lost): what a leader asks of the controllers arrives, and
    what they answer is lost."""
    return _isolate(cluster, broker, [c.name for c in cluster.controllers], "from", for_ms)


def _draw_starving(cluster: Cluster, random: Random) -> Arguments | None:
    """A follower in sync, cut off from its leader until it lags."""
    key = random.choice(cluster.keys)
    state = cluster.truth(key)
    if state is None or len(state.isr) < 2 or state.leader not in cluster.brokers:
        return None
    follower = random.choice([b for b in state.isr if b != state.leader] or [state.leader])
    if follower == state.leader:
        return None
    low = cluster.options.lag_ms_max
    return {"broker": follower, "leader": state.leader, "for_ms": random.randint(low, 2 * low + 1_500)}


@kind(_draw_starving, weight=2)
def starve_follower(cluster: Cluster, *, broker: int, leader: int, for_ms: int) -> bool:
    """Shrinks the ISR, and lets the same incarnation come back to it."""
    one, other = cluster.brokers[broker].name, cluster.brokers[leader].name
    return cut_pairs(cluster, [(one, other), (other, one)], for_ms)


def _draw_weather(cluster: Cluster, random: Random) -> Arguments | None:
    return {
        "delay_ms_max": random.choice([2.0, 20.0, 80.0]),
        "slow_rate": random.choice([0.0, 0.05, 0.2]),
        "slow_ms": random.choice([400, 2_000, 6_000]),
        "loss_rate": random.choice([0.0, 0.05, 0.2]),
        "duplicate_rate": random.choice([0.0, 0.1]),
        "for_ms": random.randint(1_000, 6_000),
    }


@kind(_draw_weather)
def bad_network(
    cluster: Cluster,
    *,
    delay_ms_max: float,
    slow_rate: float,
    slow_ms: float,
    loss_rate: float,
    duplicate_rate: float,
    for_ms: int,
) -> bool:
    """Messages are lost, doubled, late, some by up to `slow_ms`, and overtake each other (S4, a late fetch of
    a dead incarnation; S32, late and doubled updates)."""
    weather = NetworkOptions(
        delay_ms=(0.05, delay_ms_max),
        slow_rate=slow_rate,
        slow_delay_ms=slow_ms,
        loss_rate=loss_rate,
        duplicate_rate=duplicate_rate,
    )
    cluster.network.worsen(weather)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: cluster.network.calm(weather))
    return True
