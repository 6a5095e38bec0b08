"""Strikes of several steps: what chance alone puts together once in thousands of seeds.

Each is the core of a scenario of docs/replication.md section 7, struck into whatever a seed happens to be
doing. Its steps that end (cuts, outages) are faults like any other; its later steps fall away when all is
healed before their time.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from springtide.contract.partition_state import PartitionState
from tests.simulation.kinds_brokers import back_after, is_fit
from tests.simulation.kinds_network import cut_pairs
from tests.simulation.schedule import Arguments, kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


def _healthy(cluster: Cluster, random: Random, *, members: int) -> PartitionState | None:
    """A partition that is led, with so many fit members in sync."""
    found = [
        state
        for key in cluster.keys
        if (state := cluster.truth(key)) is not None
        and is_fit(cluster.brokers.get(state.leader))
        and sum(is_fit(cluster.brokers.get(b)) for b in state.isr) >= members
    ]
    return random.choice(found) if found else None


def _draw_promise(cluster: Cluster, random: Random) -> Arguments | None:
    state = _healthy(cluster, random, members=2)
    if state is None:
        return None
    follower = random.choice([b for b in state.isr if b != state.leader])
    lag_ms = cluster.options.lag_ms_max
    return {
        "leader": state.leader,
        "follower": follower,
        "starve_ms": lag_ms + random.choice((400, 900)),
        "promise_ms": random.choice((60, 150, 300)),
        "for_ms": 2 * lag_ms + random.choice((1_000, 2_500)),
    }


@kind(_draw_promise)
def forsake_promise(
    cluster: Cluster, *, leader: int, follower: int, starve_ms: int, promise_ms: int, for_ms: int
) -> bool:
    """S6 (the answer to an accepted proposal is lost): a follower falls out of the ISR and comes back while
    its leader hears no answer; as soon as it was asked for, it is gone again. The controller counts it in, so
    the leader has to wait for it."""
    one, other = cluster.brokers[leader], cluster.brokers[follower]
    if not is_fit(one) or not is_fit(other):
        return False
    between = [(one.name, other.name), (other.name, one.name)]
    cut_pairs(cluster, between, starve_ms)
    answers = [(controller.name, one.name) for controller in cluster.controllers]
    cluster.ongoing.later(starve_ms - 30, partial(cut_pairs, cluster, answers, for_ms))
    cluster.ongoing.later(starve_ms + promise_ms, partial(cut_pairs, cluster, between, for_ms))
    cluster.events.note(f"{other.name} will be promised a seat by {one.name} and leave")
    return True


def _draw_tail(cluster: Cluster, random: Random) -> Arguments | None:
    state = _healthy(cluster, random, members=3)
    if state is None or len(state.isr) - 1 < state.min_insync_replicas:
        return None
    return {
        "leader": state.leader,
        "outsider": random.choice([b for b in state.isr if b != state.leader]),
        "tail_ms": random.choice((400, 700, 1_200)),
        "behind_ms": random.choice((10, 30, 60)),
        "for_ms": random.choice((500, 3_000, 9_000)),
    }


@kind(_draw_tail)
def kill_leader_of_tail(
    cluster: Cluster, *, leader: int, outsider: int, tail_ms: int, behind_ms: int, for_ms: int
) -> bool:
    """S5 (a new leader's high watermark lags): a follower starts anew and keeps up with a leader that has not
    heard of its new incarnation, so that nobody waits for it. It falls a little behind, and the leader dies:
    it must not join at the next leader's old high watermark."""
    one, other = cluster.brokers[leader], cluster.brokers[outsider]
    if not is_fit(one) or not is_fit(other):
        return False
    delay_ms = 4 * tail_ms
    one.poll_delays_ms.append(delay_ms)
    cluster.ongoing.begin(
        nodes=(one.name,), for_ms=2 * tail_ms, end=lambda: one.poll_delays_ms.remove(delay_ms)
    )
    other.crash()
    back_after(cluster, other, 20)
    behind = [(one.name, other.name)]
    cluster.ongoing.later(tail_ms, partial(cut_pairs, cluster, behind, behind_ms + 200))
    life = one.life

    def kill() -> None:
        if one.life == life and is_fit(one):
            one.crash()
            back_after(cluster, one, for_ms)

    cluster.ongoing.later(tail_ms + behind_ms, kill)
    return True
