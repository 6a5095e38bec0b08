"""Throttles of moves: where they stand, who is told, and that they end with what they were set for."""

from __future__ import annotations

import pytest

from controller.core.events import (
    AlterReassignments,
    BrokersConfigured,
    ClusterConfigured,
    ConfigureBrokers,
    ConfigureCluster,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
)
from controller.core.options import ControllerOptions
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.partition_state import MoveThrottle
from springtide.contract.throttles import FOLLOWER_RATE, LEADER_RATE, effective_rate, is_learner
from springtide.contract.updates import PollRequest, UpdateBatch
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.images import build_update

RATE = 5_000_000


def cluster_of_four() -> Cluster:
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False), brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    return cluster


def move(
    cluster: Cluster,
    *replicas: int,
    rate: int | None = RATE,
    operation_id: str | None = "move-7",
    request_id: str | None = None,
) -> PartitionResult:
    event = AlterReassignments(
        wall_ms=0,
        actor="ann",
        operation_id=operation_id,
        request_id=request_id,
        targets=(ReassignmentTarget(topic_id=topic_id(), partition=0, replicas=replicas),),
        throttled_rate=rate,
    )
    (result,) = cluster.ask(event, ReassignmentsAltered).results
    return result


def configure(cluster: Cluster, *broker_ids: int, dry_run: bool = False, **configs: str | None) -> object:
    names = {"follower": FOLLOWER_RATE, "leader": LEADER_RATE}
    event = ConfigureBrokers(
        wall_ms=0,
        actor="ann",
        broker_ids=broker_ids,
        configs={names.get(name, name): value for name, value in configs.items()},
        dry_run=dry_run,
    )
    return cluster.step(event).reply


def told(cluster: Cluster, since: int, broker_id: int = 4) -> UpdateBatch:
    """What a broker is told that has applied everything up to `since`."""
    request = PollRequest(
        broker_id=broker_id,
        broker_epoch=cluster.broker(broker_id).broker_epoch,
        applied_controller_epoch=ControllerEpoch(cluster.controller_epoch),
        applied_sequence=since,
    )
    batch = build_update(cluster.image, request, controller_epoch=cluster.controller_epoch)
    assert batch is not None
    return batch


def test_a_move_carries_its_rate_in_its_row_and_brokers_are_told() -> None:
    cluster = cluster_of_four()
    since = cluster.image.sequence
    move(cluster, 1, 2, 4)
    assert cluster.partition().throttle == MoveThrottle(rate=RATE, operation="move-7")
    (sent,) = told(cluster, since).partitions
    assert sent.throttle == MoveThrottle(rate=RATE, operation="move-7")
    cluster.fail_over()
    assert cluster.partition().throttle == MoveThrottle(rate=RATE, operation="move-7")


def test_a_rate_goes_in_the_write_that_completes_the_move() -> None:
    cluster = cluster_of_four()
    move(cluster, 1, 2, 4)
    cluster.propose(1, 2, 3, 4)
    state = cluster.partition()
    assert (state.replicas, state.is_reassigning, state.throttle) == ((1, 2, 4), False, None)


def test_a_rate_goes_when_the_move_is_cancelled() -> None:
    cluster = cluster_of_four()
    move(cluster, 1, 2, 4)
    cluster.cancel()
    state = cluster.partition()
    assert (state.replicas, state.throttle) == ((1, 2, 3), None)


def test_a_rate_survives_what_else_happens_to_the_partition() -> None:
    cluster = cluster_of_four()
    move(cluster, 1, 2, 4)
    cluster.propose(1, 2)  # 3 lags
    cluster.kill(1)  # another leader
    assert cluster.partition().throttle == MoveThrottle(rate=RATE, operation="move-7")


def test_the_same_targets_at_another_rate_change_the_rate_alone() -> None:
    cluster = cluster_of_four()
    move(cluster, 1, 2, 4)
    before = cluster.partition()
    assert move(cluster, 1, 2, 4).state == before, "as it was asked: nothing is written"
    assert not cluster.last.records
    faster = move(cluster, 1, 2, 4, rate=2 * RATE).state
    assert faster is not None
    assert faster.throttle == MoveThrottle(rate=2 * RATE, operation="move-7")
    assert (faster.replicas, faster.leader_epoch) == (before.replicas, before.leader_epoch)
    assert faster.partition_epoch == before.partition_epoch + 1
    move(cluster, 1, 2, 4, rate=None)
    assert cluster.partition().throttle is None
    assert cluster.partition().is_reassigning


def test_what_completes_at_once_leaves_no_rate() -> None:
    cluster = cluster_of_four()
    move(cluster, 3, 2, 1)
    assert (cluster.partition().replicas, cluster.partition().throttle) == ((3, 2, 1), None)
    assert move(cluster, 3, 2, 1).refusal is None
    assert cluster.partition().throttle is None


def test_without_an_operation_a_rate_is_the_requests_or_the_partitions() -> None:
    cluster = cluster_of_four()
    move(cluster, 1, 2, 4, operation_id=None, request_id="r" * 100)
    throttle = cluster.partition().throttle
    assert throttle is not None
    assert throttle.operation == "r" * 64, "a row's length is bounded"
    move(cluster, 1, 2, 4, operation_id=None)
    throttle = cluster.partition().throttle
    assert throttle is not None
    assert throttle.operation == f"{topic_id()}-0"


@pytest.mark.parametrize("rate", [0, -1, 2**63])
def test_a_rate_that_moves_nothing_is_refused(rate: int) -> None:
    cluster = cluster_of_four()
    refusal = move(cluster, 1, 2, 4, rate=rate).refusal
    assert refusal is not None
    assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, "throttled_rate")
    assert not cluster.partition().is_reassigning


def test_brokers_rates_stand_in_their_rows_reach_everybody_and_outlive_their_processes() -> None:
    cluster = cluster_of_four()
    since = cluster.image.sequence
    reply = configure(cluster, 4, 3, follower="1000", leader="2000")
    assert isinstance(reply, BrokersConfigured)
    assert [b.broker_id for b in reply.brokers] == [4, 3]
    assert cluster.broker(4).configs == {FOLLOWER_RATE: "1000", LEADER_RATE: "2000"}
    assert {b.broker_id: b.configs for b in told(cluster, since, broker_id=1).brokers} == {
        3: cluster.broker(3).configs,
        4: cluster.broker(4).configs,
    }
    cluster.kill(4)
    cluster.restart(4)
    cluster.fail_over()
    assert cluster.broker(4).configs == {FOLLOWER_RATE: "1000", LEADER_RATE: "2000"}
    configure(cluster, 4, leader=None)
    assert cluster.broker(4).configs == {FOLLOWER_RATE: "1000"}


def test_brokers_settings_are_checked_and_set_for_all_or_none() -> None:
    cluster = cluster_of_four()
    unknown = configure(cluster, 1, 9, follower="1000")
    assert isinstance(unknown, Refusal)
    assert unknown.code is RefusalCode.UNKNOWN_BROKER
    for name, value, code in (
        ("follower", "0", RefusalCode.INVALID_CONFIG),
        ("follower", "fast", RefusalCode.INVALID_CONFIG),
        ("retention.ms", "5", RefusalCode.UNKNOWN_CONFIG),
        ("folower", None, RefusalCode.UNKNOWN_CONFIG),
    ):
        refused = configure(cluster, 1, dry_run=False, **{name: value})
        assert isinstance(refused, Refusal), name
        assert refused.code is code
    rehearsed = configure(cluster, 1, dry_run=True, follower="1000")
    assert isinstance(rehearsed, BrokersConfigured)
    assert rehearsed.brokers[0].configs == {FOLLOWER_RATE: "1000"}
    assert cluster.broker(1).configs == {}


def test_the_clusters_rate_holds_where_a_broker_has_none_of_its_own() -> None:
    cluster = cluster_of_four()
    event = ConfigureCluster(wall_ms=0, actor="ann", configs={FOLLOWER_RATE: "700"})
    assert cluster.ask(event, ClusterConfigured).configs == {FOLLOWER_RATE: "700"}
    configure(cluster, 4, follower="900")
    rates = [effective_rate(FOLLOWER_RATE, cluster.broker(b).configs, cluster.image.configs) for b in (1, 4)]
    assert rates == [700, 900]
    assert effective_rate(LEADER_RATE, cluster.broker(4).configs, cluster.image.configs) is None
    for unreadable in ("", "0", "-5", "1e6", "many"):
        assert effective_rate(LEADER_RATE, {LEADER_RATE: unreadable}, {}) is None


def test_only_a_replica_that_comes_and_is_not_in_sync_is_a_learner() -> None:
    cluster = cluster_of_four()
    cluster.propose(1, 2)
    assert not is_learner(cluster.partition(), 3), "behind, but it was a replica before"
    move(cluster, 1, 2, 3, 4)
    state = cluster.partition()
    assert [b for b in (1, 2, 3, 4) if is_learner(state, b)] == [4]
    cluster.propose(1, 2, 4)
    assert not is_learner(cluster.partition(), 4), "in sync, while the move still waits for 3"
    assert cluster.partition().is_reassigning
