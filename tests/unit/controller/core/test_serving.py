"""For whom the answer to a creation waits (docs/replication.md 2.12, answers)."""

from __future__ import annotations

from springtide.contract.lag_report import CreatedLogs
from tests.kit.controller.coordinator_cluster import CoordinatorCluster
from tests.kit.controller.core_cluster import Cluster, report, topic_id


def late(cluster: Cluster, sequence: int) -> tuple[int, ...]:
    return cluster.machine.not_serving([topic_id()], sequence)


def test_every_live_broker_must_have_heard_of_the_topic_and_have_made_its_logs() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2), (2, 3))
    made_at = cluster.image.sequence
    found = [late(cluster, made_at)]
    for broker_id in (1, 2, 3, 4):
        cluster.applied(broker_id)
    found.append(late(cluster, made_at))
    cluster.created(1, 0)
    cluster.created(2, 0)  # and not yet partition 1, which it leads
    cluster.created(3, 1)
    found.append(late(cluster, made_at))
    cluster.created(2, 1)
    assert [*found, late(cluster, made_at)] == [(1, 2, 3, 4), (1, 2, 3), (2,), ()]


def test_a_broker_that_has_made_its_logs_and_not_heard_of_the_change_is_waited_for() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    made_at = cluster.image.sequence
    for broker_id in (1, 2, 3):
        cluster.created(broker_id)
    cluster.applied(1, sequence=made_at - 1)
    cluster.applied(2)
    cluster.applied(3)
    assert late(cluster, made_at) == (1,)


def test_a_dead_broker_holds_no_answer_up() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    made_at = cluster.image.sequence
    for broker_id in (1, 2):
        cluster.applied(broker_id)
        cluster.created(broker_id)
    assert late(cluster, made_at) == (3,)
    cluster.kill(3)
    assert late(cluster, made_at) == ()


def test_a_topic_that_is_gone_meanwhile_is_not_waited_for() -> None:
    cluster = Cluster()
    for broker_id in (1, 2, 3):
        cluster.applied(broker_id)
    assert late(cluster, cluster.image.sequence) == ()


def test_coordinators_answer_clients_too() -> None:
    cluster = CoordinatorCluster(101, 102)
    cluster.create((1, 2, 3))
    made_at = cluster.image.sequence
    for broker_id in (1, 2, 3):
        cluster.applied(broker_id)
        cluster.created(broker_id)
    cluster.beat(101)
    assert late(cluster, made_at) == (102,)


def test_what_an_earlier_process_made_or_what_is_said_of_an_unknown_topic_is_no_log_of_this_one() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.created(broker_id)
    cluster.propose(1, 3)
    cluster.kill(2)
    cluster.restart(2)
    cluster.beat_all()
    report(cluster, 2, created=(CreatedLogs(topic_id=topic_id(7), partitions=(0,)),))
    assert late(cluster, cluster.image.sequence) == (2,)
    cluster.created(2)
    assert late(cluster, cluster.image.sequence) == ()
