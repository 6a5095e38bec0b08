"""Cordoned, draining and demoted brokers, and leaders that many partitions get back at once."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.events import (
    BrokersConfigured,
    BrokersMaintained,
    ConfigureBrokers,
    CreateTopic,
    ElectPreferred,
    ElectPreferredLeaders,
    LeadersElected,
    MaintainBrokers,
    PreferredLeadersElected,
    Refusal,
    RefusalCode,
    TopicCreated,
)
from controller.core.image import ClusterImage
from controller.core.options import ControllerOptions
from controller.core.records import Cause, MemberRecord, PartitionRecord
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import Cluster, seats, topic_id


def maintain(cluster: Cluster, *broker_ids: int, dry_run: bool = False, **states: Any) -> BrokersMaintained:
    event = MaintainBrokers(wall_ms=3, actor="ann", broker_ids=broker_ids, dry_run=dry_run, **states)
    return cluster.ask(event, BrokersMaintained)


def creation(number: int, **fields: object) -> CreateTopic:
    return CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(number), topic=f"placed-{number}", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["cordoned", "draining"])
def test_a_cordoned_or_draining_broker_keeps_what_it_has_and_gets_nothing_new(state: str) -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    before = cluster.partition()
    reply = maintain(cluster, 1, **{state: True})
    assert [getattr(b, state) for b in reply.brokers] == [True]
    assert cluster.partition() == before
    placed = cluster.ask(creation(1, partitions=6, replication_factor=3), TopicCreated)
    assert {b for p in placed.partitions for b in p.replicas} == {2, 3, 4}
    refused = cluster.ask(creation(2, partitions=1, replication_factor=4), Refusal)
    assert (refused.code, refused.limit) == (RefusalCode.REPLICATION_FACTOR_TOO_LARGE, 3)
    assert refused.facts["cordoned_brokers"] == 1
    refused = cluster.ask(creation(3, assignments=((2, 1),)), Refusal)
    assert (refused.code, refused.field) == (RefusalCode.INELIGIBLE_BROKER, "assignments.0")
    result = cluster.reassign(1, 3, 4)
    assert result.refusal is None, "it holds the replica already"
    moved = cluster.reassign(1, 2, 3, number=1)
    assert moved.refusal is not None
    assert moved.refusal.code is RefusalCode.INELIGIBLE_BROKER
    maintain(cluster, 1, **{state: False})
    assert cluster.reassign(1, 2, 3, number=1).refusal is None


def is_drained(image: ClusterImage, broker_id: int) -> bool:
    return image.brokers[broker_id].draining and not image.replicas_of.get(broker_id)


def test_a_draining_broker_is_drained_when_it_holds_nothing_not_even_what_is_to_go() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    maintain(cluster, 3, draining=True)
    assert not is_drained(cluster.image, 3)
    cluster.reassign(1, 2, 4)
    assert not is_drained(cluster.image, 3)
    cluster.propose(1, 2, 3, 4)
    assert is_drained(cluster.image, 3)
    maintain(cluster, 3, draining=False)
    assert not is_drained(cluster.image, 3)


def test_what_was_set_on_a_broker_outlives_its_process_and_its_controller() -> None:
    cluster = Cluster()
    maintain(cluster, 2, cordoned=True, demoted=True)
    cluster.fail_over()
    cluster.kill(2)
    cluster.restart(2)
    broker = cluster.broker(2)
    assert (broker.cordoned, broker.draining, broker.demoted) == (True, False, True)
    assert list(cluster.image.demoted) == [2]


def test_a_demoted_broker_hands_its_leaderships_over_and_stays_in_sync() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1), (1, 3, 2))
    dry = maintain(cluster, 1, demoted=True, dry_run=True)
    assert not cluster.last.records
    assert (dry.leaders_moved, dry.dry_run) == (2, True)
    reply = maintain(cluster, 1, demoted=True)
    assert (reply.leaders_moved, reply.brokers) == (dry.leaders_moved, dry.brokers)
    assert [type(r) for r in cluster.last.records] == [MemberRecord, PartitionRecord, PartitionRecord]
    assert {r.change.cause for r in cluster.last.records} == {
        Cause.BROKER_MAINTENANCE,
        Cause.LEADER_DEMOTED,
    }
    assert [cluster.partition(n).leader for n in range(3)] == [2, 2, 3]
    assert all(cluster.partition(n).isr == cluster.partition(n).replicas for n in range(3))
    cluster.create((1, 3), number=1)
    assert cluster.partition(number=1).leader == 3, "nor does it lead what is made now"


def test_brokers_that_are_demoted_together_do_not_hand_over_to_each_other() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 1, 3))
    cluster.create((1, 2), number=1)
    assert maintain(cluster, 1, 2, demoted=True, dry_run=True).leaders_moved == 2
    assert maintain(cluster, 1, 2, demoted=True).leaders_moved == 2
    assert [cluster.partition(n).leader for n in range(2)] == [3, 3]
    assert cluster.partition(number=1).leader == 1


def test_a_plan_to_demote_counts_on_nobody_who_is_demoted_or_may_not_lead() -> None:
    cluster = Cluster()
    cluster.create((1, 2), (1, 3))
    maintain(cluster, 2, demoted=True)
    assert maintain(cluster, 1, demoted=True, dry_run=True).leaders_moved == 1
    alone = Cluster(brokers=(1,))
    alone.create((1,))
    alone.heartbeat(1, wants_shutdown=True)
    assert maintain(alone, 1, demoted=True, dry_run=True).leaders_moved == 0


def test_the_same_setting_again_writes_nothing() -> None:
    cluster = Cluster()
    for records in (1, 0):
        cluster.ask(
            ConfigureBrokers(
                wall_ms=0,
                actor="ann",
                broker_ids=(1,),
                configs={"leader.replication.throttled.rate": "1000"},
            ),
            BrokersConfigured,
        )
        assert len(cluster.last.records) == records


def test_a_demoted_broker_leads_when_nobody_else_may_and_gives_up_when_somebody_may() -> None:
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    maintain(cluster, 2, demoted=True)
    cluster.kill(1)
    assert cluster.partition().leader == 3, "not broker 2, which comes first"
    cluster.kill(3)
    assert seats(cluster.partition()) == (2, (2,), ())
    cluster.restart(3)
    cluster.propose(2, 3)
    assert cluster.partition().leader == 2
    cluster.pass_ms(cluster.options.preferred_leader_interval_ms)
    assert seats(cluster.partition()) == (3, (2, 3), ())


def test_a_demoted_broker_is_not_led_back_to_and_is_once_it_is_taken_back() -> None:
    cluster = Cluster(ControllerOptions(preferred_leader_delay_ms=1_000))
    cluster.create((1, 2, 3))
    maintain(cluster, 1, demoted=True)
    for _ in range(5):
        cluster.beat_all()
        cluster.pass_ms(1_000)
    assert cluster.partition().leader == 2
    asked = ElectPreferred(wall_ms=0, actor="ann", topic_id=topic_id(), partition=0)
    assert "demoted" in cluster.ask(asked, Refusal).detail
    maintain(cluster, 1, demoted=False)
    assert cluster.ask(asked, LeadersElected).partitions[0].leader == 1


def test_a_reassigned_partition_is_not_led_by_a_demoted_target_if_another_may() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    maintain(cluster, 4, demoted=True)
    cluster.reassign(4, 2, 3)
    cluster.propose(1, 2, 3, 4)
    assert seats(cluster.partition()) == (2, (4, 2, 3), ())


def test_a_successor_at_shutdown_is_not_a_demoted_one_if_another_may() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    maintain(cluster, 2, demoted=True)
    cluster.heartbeat(1, wants_shutdown=True)
    assert cluster.partition().leader == 3


def test_maintenance_of_an_unknown_broker_changes_none_and_repeating_it_writes_nothing() -> None:
    cluster = Cluster()
    refused = cluster.ask(MaintainBrokers(wall_ms=0, actor="ann", broker_ids=(1, 9), cordoned=True), Refusal)
    assert (refused.code, refused.field) == (RefusalCode.UNKNOWN_BROKER, "broker_ids")
    assert not cluster.broker(1).cordoned
    maintain(cluster, 1, cordoned=True)
    assert len(cluster.last.records) == 1
    maintain(cluster, 1, cordoned=True)
    assert cluster.last.records == ()


def test_many_partitions_get_their_preferred_leaders_back_each_with_its_own_result() -> None:
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False))
    cluster.create((1, 2, 3), (2, 1, 3), (1, 3, 2), (1, 2, 3))
    cluster.kill(1)
    cluster.restart(1, last_shutdown=ShutdownKind.CLEAN)
    for number in (0, 2):
        state = cluster.partition(number)
        cluster.propose(*state.replicas, base=state)
    keys = tuple((topic_id(), n) for n in (0, 1, 2, 3, 9))
    event = ElectPreferredLeaders(wall_ms=0, actor="ann", operation_id="op", partitions=keys)
    results = cluster.ask(event, PreferredLeadersElected).results
    assert [None if r.refusal is None else r.refusal.code for r in results] == [
        None,
        RefusalCode.ELECTION_NOT_NEEDED,
        None,
        RefusalCode.INELIGIBLE_BROKER,
        RefusalCode.UNKNOWN_PARTITION,
    ]
    assert [None if r.state is None else r.state.leader for r in results] == [1, 2, 1, 2, None]
    assert [r.change.operation_id for r in cluster.last.records] == ["op", "op"]
