"""Operators who carry out plans: their strikes alone must lose nothing, end, and be felt."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from controller.core.events import AlterReassignments, ReassignmentTarget
from tests.simulation import kinds_operators, kinds_plans
from tests.simulation.cluster import Cluster
from tests.simulation.options import ClusterOptions, draw_options
from tests.simulation.run import run_seed
from tests.simulation.schedule import KINDS, Strike

PLANS = [kind for kind in KINDS.values() if kind.needs == "plans"]


def options_of(seed: int, **others: object) -> ClusterOptions:
    """Those of a seed that carries out plans, with a broker to spare."""
    drawn = draw_options(seed)
    return dataclasses.replace(
        drawn,
        brokers=5,
        controllers=2,
        partitions=2,
        replication_factor=3,
        min_insync_replicas=2,
        pace_ms=60,
        strike_pace_ms=200,
        ongoing_max=6,
        over_budget=False,
        plans=True,
        **others,  # type: ignore[arg-type]
    )


def begun(options: ClusterOptions) -> Cluster:
    cluster = Cluster(1, options)
    cluster.start()
    assert cluster.run_until(20_000, lambda: cluster.acked > 0)
    return cluster


@pytest.mark.parametrize("seed", [0, 1, 4, 6, 17])  # each draws a plan within its eight seconds
def test_nothing_is_lost_while_operators_carry_out_plans(seed: int) -> None:
    verdict = run_seed(seed, options=options_of(seed, topics_max=2, faults_ms=8_000))
    assert verdict.failure is None, verdict.report()
    assert {kind.name for kind in PLANS} & set(verdict.faults)


def test_only_seeds_with_plans_draw_their_kinds() -> None:
    names = {kind.name for kind in PLANS}
    seed = next(seed for seed in range(100) if not draw_options(seed).plans)
    assert not names & set(run_seed(seed, faults_ms=2_000).faults)


def test_a_throttled_learner_takes_as_long_as_its_rate_says() -> None:
    """And one that is not throttled does not."""
    rate = 2_000
    cluster = begun(options_of(1, topics_max=0))
    cluster.run_until(cluster.events.now_ms + 10_000)
    for producer in cluster.producers:
        producer.stopped = True
    cluster.run_until(cluster.events.now_ms + 1_000)
    took_ms: dict[int | None, int] = {}
    for key, throttled in zip(cluster.keys, (rate, None), strict=True):
        state = cluster.truth(key)
        assert state is not None
        newcomer = next(b for b in cluster.brokers if b not in state.replicas)
        target = ReassignmentTarget(
            topic_id=key[0], partition=key[1], replicas=(*state.replicas[:-1], newcomer)
        )
        event = AlterReassignments(wall_ms=0, actor="operator", targets=(target,), throttled_rate=throttled)
        assert kinds_operators.ask(cluster, event)
        began_ms = cluster.events.now_ms
        size_bytes = sum(len(batch.data) for batch in cluster.brokers[state.leader].disk.logs[key].batches)

        def is_there(key: tuple[str, int] = key, newcomer: int = newcomer) -> bool:
            found = cluster.truth(key)
            return found is not None and newcomer in found.isr and not found.is_reassigning

        assert cluster.run_until(began_ms + 120_000, is_there)
        took_ms[throttled] = cluster.events.now_ms - began_ms
        assert size_bytes > 3 * rate
    least_ms = (size_bytes - rate) * 1_000 // rate // 2  # full at first, and logs differ a little in size
    assert took_ms[rate] > least_ms > took_ms[None]


def test_a_retired_broker_is_forgotten_and_taken_in_again() -> None:
    cluster = begun(options_of(1, topics_max=0))
    before = cluster.registered_epoch(1)
    moves = [
        (*key, [b for b in (*state.replicas, *cluster.brokers) if b != 1][:3])
        for key in cluster.keys
        if (state := cluster.truth(key)) is not None and 1 in state.replicas
    ]
    moves = [(topic, partition, sorted(set(replicas))) for topic, partition, replicas in moves]
    strike = {"broker": 1, "moves": moves, "after_ms": 3_000, "for_ms": 2_000}
    assert kinds_plans.retire_broker(cluster, **strike)
    assert cluster.run_until(cluster.events.now_ms + 6_000, lambda: cluster.registered_epoch(1) < 0)

    def is_back() -> bool:
        node = cluster.zookeeper.nodes.get("broker/1")
        return node is not None and node.value.registration.is_eligible

    assert cluster.run_until(cluster.events.now_ms + 10_000, is_back)
    assert cluster.registered_epoch(1) > before
    assert not cluster.brokers[1].replicas


def test_plans_are_values_that_can_be_played_again() -> None:
    seed = next(
        seed for seed in range(200) if draw_options(seed).plans and not draw_options(seed).over_budget
    )
    first = run_seed(seed, faults_ms=5_000)
    again = run_seed(seed, faults_ms=5_000, strikes=tuple(map(_through_json, first.strikes)))
    assert again.digest == first.digest


def _through_json(strike: Strike) -> Strike:
    return msgspec.json.decode(msgspec.json.encode(strike), type=Strike)
