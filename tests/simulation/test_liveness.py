"""The liveness phase finds what is missing; the loss phase excuses what stops, and nothing that lies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import run
from tests.simulation.cluster import Cluster, ClusterOptions
from tests.simulation.events import keyed_random
from tests.simulation.liveness import (
    can_serve,
    depended_on,
    draw_core,
    heal_core,
    missing_at_end,
    missing_in_core,
)
from tests.simulation.losses import PATIENCE_MS, concede
from tests.simulation.options import draw_options
from tests.simulation.run import run_seed
from tests.simulation.schedule import Strike, apply
from tests.simulation.violation import Violation


def running(**options: Any) -> Cluster:
    cluster = Cluster(1, ClusterOptions(partitions=1, **options))
    cluster.start()
    cluster.run_until(5_000)
    assert cluster.acked > 0
    return cluster


def test_a_core_can_do_without_the_rest() -> None:
    cluster = running(brokers=4, controllers=2)
    random = keyed_random(5, "core")
    core = draw_core(cluster, random)
    assert 0 < len(core) < 6
    heal_core(cluster, core, random)
    acked = cluster.acked
    cluster.run_until(20_000)
    cluster.stop_clients()
    cluster.run_until(40_000, lambda: missing_in_core(cluster, core) is None)
    assert missing_in_core(cluster, core) is None
    assert cluster.acked > acked
    assert missing_at_end(cluster) is not None  # the others are away
    cluster.heal()
    cluster.run_until(100_000, lambda: missing_at_end(cluster) is None)
    assert missing_at_end(cluster) is None


def test_fewer_replicas_than_the_minimum_are_no_core() -> None:
    cluster = running()
    assert can_serve(cluster, {1, 2})
    assert not can_serve(cluster, {1})


def test_a_follower_that_nobody_fetches_for_is_missed() -> None:
    cluster = running()
    cluster.stop_clients()
    cluster.run_until(10_000)
    assert missing_at_end(cluster) is None
    follower = next(b for b in cluster.brokers.values() if b.following.leaders)
    for key in cluster.keys:
        follower.following.unfollow(key, follower.now_ms)
    found = missing_at_end(cluster)
    assert found is not None and found[0] == "L6"


def lose_everything(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        strike = Strike(
            cluster.events.now_ms,
            "replace_disk" if broker > 1 else "power_cut",
            {"broker": broker, "for_ms": 300, "salt": broker, "over_budget": True},
        )
        assert apply(cluster, strike)


def test_a_partition_that_lost_every_whole_replica_stops_until_an_operator_chooses() -> None:
    cluster = running()
    lose_everything(cluster)
    assert cluster.budget.is_exceeded
    cluster.run_until(15_000)
    key = cluster.keys[0]
    state = cluster.truth(key)
    assert state is not None and (state.leader, state.isr, state.elr) == (-1, (), ())
    acked = cluster.acked
    concede(cluster)
    state = cluster.truth(key)
    assert state is not None and state.leader == 1 and state.unclean_leader_epoch >= 0
    cluster.run_until(cluster.events.now_ms + 10_000)
    cluster.stop_clients()
    cluster.run_until(cluster.events.now_ms + 10_000)
    assert missing_at_end(cluster) is None
    cluster.check_end()
    assert cluster.acked >= acked


def test_an_unclean_election_that_nobody_asked_for_is_a_violation() -> None:
    cluster = running()
    lose_everything(cluster)
    cluster.run_until(15_000)
    cluster.oracle.concede = lambda key: None  # type: ignore[method-assign]
    with pytest.raises(Violation, match="I10"):
        concede(cluster)


def test_within_the_budget_the_same_strikes_are_skipped() -> None:
    cluster = running()
    strikes = [
        Strike(0, "power_cut", {"broker": n, "for_ms": 300, "salt": n, "over_budget": False})
        for n in cluster.brokers
    ]
    assert [apply(cluster, strike) for strike in strikes] == [True, False, False]


def test_a_disk_that_fails_counts_until_it_works_again_whatever_its_broker_registers() -> None:
    cluster = running()
    failing = {"broker": 1, "for_ms": 60_000, "salt": 0}
    assert apply(cluster, Strike(0, "fail_disk", failing))
    cluster.stop_clients()
    broker = cluster.brokers[1]
    broker.crash()
    broker.start()
    epoch = cluster.registered_epoch(1)
    cluster.run_until(cluster.events.now_ms + 10_000)
    assert cluster.registered_epoch(1) > epoch
    assert cluster.budget.unknown == {1}
    cluster.heal()
    cluster.run_until(cluster.events.now_ms + 5_000)
    assert cluster.budget.unknown == set()


def test_a_loss_is_not_known_from_a_registration_that_was_sent_before_it() -> None:
    cluster = running()
    broker = cluster.brokers[1]
    epoch = cluster.registered_epoch(1)
    broker.crash()
    cluster.run_until(cluster.events.now_ms + 8_000)
    broker.start()
    assert apply(
        cluster, Strike(0, "power_cut", {"broker": 1, "for_ms": 2_000, "salt": 0, "over_budget": False})
    )
    assert cluster.run_until(cluster.events.now_ms + 1_500, lambda: cluster.registered_epoch(1) > epoch)
    assert cluster.budget.unknown == {1}
    assert not cluster.budget.may_lose(cluster.brokers[2])
    # Until then it is refused (S37, a second process under one id).
    cluster.run_until(cluster.events.now_ms + cluster.options.grace_ms + 1_000)
    assert cluster.budget.unknown == set()


def test_what_a_controller_and_an_operator_take_first_is_not_counted_against_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "LIVENESS_MS_MAX", PATIENCE_MS - 2_000)
    loss = {"for_ms": 300, "salt": 1, "over_budget": True}
    strikes = [Strike(2_500, "replace_disk", {"broker": broker, **loss}) for broker in (1, 2, 3)]
    verdict = run_seed(1, options=ClusterOptions(partitions=1), strikes=strikes, faults_ms=3_000)
    assert len(verdict.strikes) == 3
    assert verdict.failure is None, verdict.report()


def test_who_has_sent_again_what_it_had_lost_can_be_found_out_by_nobody() -> None:
    """What others were told of it is true of it again, so the strike has to end it (G6)."""
    cluster = running()
    broker = cluster.brokers[2]
    (told,) = {
        heard
        for other in (1, 3)
        for heard in cluster.brokers[other].session.heartbeats.others
        if heard.broker_id == 2
    }
    controller = cluster.active_controller()
    assert controller is not None and controller.machine is not None
    broker.session.heartbeats.sent, broker.session.heartbeats.answered = told.count - 1, told.answered - 1
    assert cluster.who_knows_later(broker) == controller.controller_epoch
    controller.crash()
    assert cluster.who_knows_later(broker) == -1, "it has forgotten an answer"
    broker.session.heartbeats.answered = told.answered
    assert cluster.who_knows_later(broker) is None
    broker.session.heartbeats.sent = told.count - 2
    assert cluster.who_knows_later(broker) == -1, "it has sent less than was heard of it"


def test_a_core_grows_by_the_broker_that_holds_the_last_seat() -> None:
    """A controller that takes over gives everybody the same grace, and fences the last one last."""
    cluster = running(min_insync_replicas=1)
    assert depended_on(cluster, {"broker-1"}) == frozenset()
    for broker_id in (2, 1):
        cluster.brokers[broker_id].crash()
        cluster.run_until(cluster.events.now_ms + 8_000)
    key = cluster.keys[0]
    state = cluster.truth(key)
    assert state is not None and state.isr == (3,)
    assert depended_on(cluster, {"broker-1", "broker-2"}) == {"broker-3"}
    assert depended_on(cluster, {"broker-3"}) == frozenset()


def test_a_core_with_fewer_replicas_than_a_minimum_grows_by_the_others() -> None:
    cluster = running()
    assert depended_on(cluster, {"broker-1"}) == {"broker-2", "broker-3"}


def test_a_seed_that_goes_over_its_budget_loses_nothing_silently() -> None:
    seed = next(n for n in range(100) if draw_options(n).over_budget and draw_options(n).brokers > 2)
    verdict = run_seed(seed, faults_ms=8_000)
    assert verdict.failure is None, verdict.report()
