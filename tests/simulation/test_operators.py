"""What operators do is struck like any fault. Seeds that are made of little else must hold all the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from controller.core.events import AlterAcls, AlterQuotas, AlterUsers, UserToAlter
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import QuotaEntity
from springtide.security.acls.model import AclFilter
from tests.kit.controller.security import SHA_256, of_topic
from tests.simulation import kinds_operators
from tests.simulation.cluster import Cluster
from tests.simulation.events import keyed_random
from tests.simulation.options import ClusterOptions, draw_options
from tests.simulation.run import Verdict, run_seed
from tests.simulation.schedule import KINDS, Strike

OPERATORS = (
    "move_replicas",
    "change_move",
    "change_move",
    "set_minimum",
    "add_partition",
    "maintain_broker",
    "send_leaders_home",
    "kill_leader",
    "kill_broker",
    "kill_controller",
)
FAULTS_MS = 8_000
SEEDS = range(6)


def options_of(seed: int) -> ClusterOptions:
    return dataclasses.replace(
        draw_options(seed),
        brokers=5,
        controllers=2,
        partitions=2,
        replication_factor=3,
        min_insync_replicas=2,
        pace_ms=60,
        topics_max=0,
        faults_ms=FAULTS_MS,
        over_budget=False,
    )


def strikes_of(seed: int, options: ClusterOptions) -> tuple[Strike, ...]:
    """Something each 250 ms, drawn for the cluster as it is at its start."""
    random = keyed_random(seed, "operators at work")
    cluster = Cluster(seed, options)
    cluster.start()
    cluster.run_until(10_000, lambda: cluster.acked > 0)
    began_ms = cluster.events.now_ms
    strikes = []
    for number in range(FAULTS_MS // 250):
        chosen = KINDS[random.choice(OPERATORS)]
        arguments = chosen.draw(cluster, random)
        if arguments is not None:
            strikes.append(Strike(began_ms + 250 * number, chosen.name, arguments))
    return tuple(strikes)


def played(seed: int) -> Verdict:
    options = options_of(seed)
    return run_seed(seed, options=options, strikes=strikes_of(seed, options))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_while_operators_move_what_breaks(seed: int) -> None:
    verdict = played(seed)
    assert verdict.failure is None, verdict.report()
    assert verdict.acked > 0
    moves = [line for line in verdict.faults if line in ("move_replicas", "change_move")]
    assert moves


def test_the_kinds_ask_for_no_less_than_the_promise_rests_on() -> None:
    options = options_of(1)
    cluster = Cluster(1, options)
    random = keyed_random(1, "draws")
    for name in ("move_replicas", "change_move"):
        for _ in range(100):
            drawn = KINDS[name].draw(cluster, random)
            assert drawn is not None
            for replicas in (drawn["replicas"], drawn.get("then")):
                assert replicas is None or len(set(replicas)) == len(replicas) >= 2
    for _ in range(20):
        drawn = KINDS["set_minimum"].draw(cluster, random)
        assert drawn is not None
        assert drawn["minimum"] in (2, 3)


def test_operators_are_heard_only_while_a_controller_leads() -> None:
    cluster = Cluster(1, options_of(1))
    topic, partition = cluster.keys[0]
    assert not kinds_operators.move_replicas(cluster, topic=topic, partition=partition, replicas=[1, 2])


def test_what_is_stored_of_clients_outlives_the_controller() -> None:
    cluster = Cluster(1, options_of(1))
    cluster.start()
    cluster.run_until(10_000, lambda: cluster.acked > 0)
    first, kept = cluster.active_controller(), of_topic("a", "ALLOW alice@* READ")
    assert first is not None
    by: dict[str, Any] = {"wall_ms": cluster.events.now_ms, "actor": "ann"}
    gone = of_topic("b", "ALLOW alice@* READ").bindings
    alice = UserToAlter(user="alice", upsertions=(SHA_256,))
    quotas = QuotasToAlter(entity=QuotaEntity(user="alice"), quotas={"request_percentage": 5.0})
    for event in (
        AlterAcls(**by, added=kept.bindings + gone),
        AlterAcls(**by, removed=(AclFilter(resource_name="b"),)),
        AlterUsers(**by, users=(alice,)),
        AlterQuotas(**by, changes=(quotas,)),
    ):
        assert kinds_operators.ask(cluster, event)
    assert cluster.run_until(by["wall_ms"] + 5_000, lambda: bool(first.published.quotas))
    first.crash()
    cluster.zookeeper.expire(first.session)
    cluster.run_until(by["wall_ms"] + 30_000, lambda: cluster.active_controller() not in (None, first))
    second = cluster.active_controller()
    assert second is not None
    assert list(second.published.acls.values()) == [kept]
    assert list(second.published.users) == ["alice"]
    assert [one.quotas for one in second.published.quotas.values()] == [{"request_percentage": 5.0}]
