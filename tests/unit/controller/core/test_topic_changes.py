"""More partitions, other settings, and a minimum in sync that follows them."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.events import (
    AddPartitions,
    ClusterConfigured,
    ConfigureCluster,
    ConfigureTopic,
    PartitionsAdded,
    Refusal,
    RefusalCode,
    TopicConfigured,
)
from controller.core.minimum import below_minimum, changed_minimums, own_minimum, with_minimum
from controller.core.options import ControllerOptions
from controller.core.records import Cause, ClusterRecord, PartitionRecord, TopicRecord
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.updates import PollRequest
from tests.kit.controller.core_cluster import Cluster, changed, seats, topic_id
from tests.kit.controller.images import build_update


def configure(cluster: Cluster, number: int = 0, *, dry_run: bool = False, **configs: str | None) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    event = ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(number), configs=named, dry_run=dry_run)
    cluster.ask(event, TopicConfigured)


def add(cluster: Cluster, partitions: int, **fields: object) -> AddPartitions:
    return AddPartitions(wall_ms=0, actor="ann", topic_id=topic_id(), partitions=partitions, **fields)  # type: ignore[arg-type]


# --- the minimum --------------------------------------------------------------------------------------------


def test_s12_a_lower_minimum_clears_the_elr_in_the_same_record() -> None:
    """ISR {1}, ELR {2}: from now on broker 1 may commit alone, so broker 2 is eligible no more."""
    cluster = Cluster(brokers=(1, 2))
    cluster.create((1, 2), configs={"min.insync.replicas": "2"})
    cluster.kill(2)
    before = cluster.partition()
    assert seats(before) == (1, (1,), (2,))
    configure(cluster, min_insync_replicas="1")
    assert [type(r) for r in cluster.last.records] == [TopicRecord, PartitionRecord]
    assert cluster.last.records[-1].change.cause is Cause.TOPIC_CONFIGURED
    assert cluster.partition() == changed(
        before, min_insync_replicas=1, elr=(), partition_epoch=before.partition_epoch + 1
    )
    configure(cluster, min_insync_replicas="2")
    assert seats(cluster.partition()) == (1, (1,), ()), "broker 2 stays behind"
    cluster.kill(1)
    cluster.restart(2)
    assert cluster.partition().leader == -1


def test_a_minimum_that_is_not_reached_yet_leaves_the_elr_as_it_is() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "3"})
    cluster.kill(2)
    cluster.kill(3)
    configure(cluster, min_insync_replicas="2")
    assert seats(cluster.partition()) == (1, (1,), (2, 3))


def test_after_a_higher_minimum_whoever_leaves_stays_eligible() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    configure(cluster, min_insync_replicas="3")
    cluster.kill(3)
    assert seats(cluster.partition()) == (1, (1, 2), (3,))


def test_what_is_known_of_others_stays_until_the_minimum_is_reached() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    state = changed(cluster.partition(), isr=(1,), last_known_elr=(2,))
    assert [with_minimum(state, minimum).last_known_elr for minimum in (1, 2)] == [(), (2,)]
    topic = cluster.image.topics[topic_id()]
    assert own_minimum(topic) == 0
    other = msgspec.structs.replace(topic, configs={"min.insync.replicas": "1"})
    assert len(list(changed_minimums(cluster.image, [other]))) == 1
    assert not list(changed_minimums(cluster.image, [msgspec.structs.replace(other, deleting=True)]))


def test_a_partition_with_fewer_replicas_than_its_minimum_may_keep_as_many() -> None:
    assert below_minimum(before=1, after=1, minimum=2) is None
    assert below_minimum(before=2, after=1, minimum=2) is not None


@pytest.mark.parametrize(("configured", "minimum"), [("3", 3), ("1", 1), (None, 2)])
def test_the_minimum_is_what_the_topic_sets_and_without_a_setting_a_majority(
    configured: str | None, minimum: int
) -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    configure(cluster, min_insync_replicas=configured)
    assert cluster.partition().min_insync_replicas == minimum


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_minimum_above_the_replication_factor_is_refused(dry_run: bool) -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3))
    configs = {"min.insync.replicas": "4", "retention.ms": "5"}
    event = ConfigureTopic(wall_ms=0, actor="ann", topic="orders-0", configs=dict(configs), dry_run=dry_run)
    assert cluster.ask(event, Refusal) == Refusal(
        code=RefusalCode.INVALID_CONFIG,
        field="configs.min.insync.replicas",
        limit=3,
        detail="min.insync.replicas must be at most the replication factor, 3, not 4",
        hint="lower it, or give the topic more replicas",
    )
    assert cluster.last.records == ()
    assert cluster.image.topics[topic_id()].configs == {}


def test_a_topic_whose_minimum_is_too_high_already_can_be_changed_otherwise() -> None:
    """Releases before this rule accepted such topics, and cancelling a growth makes one."""
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2), configs={"min.insync.replicas": "2"})
    cluster.reassign(1, 2, 3)
    configure(cluster, min_insync_replicas="3")
    cluster.cancel()
    assert cluster.partition().min_insync_replicas == 2
    configure(cluster, retention_ms="5")
    assert cluster.image.topics[topic_id()].configs == {"min.insync.replicas": "3", "retention.ms": "5"}
    configure(cluster, min_insync_replicas=None)
    assert cluster.partition().min_insync_replicas == 2


def test_a_cluster_wide_minimum_above_the_factor_is_capped() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2))
    cluster.ask(
        ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "5"}), ClusterConfigured
    )
    assert cluster.image.configs == {"min.insync.replicas": "5"}
    assert cluster.partition().min_insync_replicas == 2


def test_a_cluster_wide_minimum_counts_for_every_topic_that_has_none_of_its_own() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), (2, 3, 1))
    cluster.create((1, 2, 3), number=1, configs={"min.insync.replicas": "2"})
    cluster.ask(
        ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "1"}), ClusterConfigured
    )
    assert [type(r) for r in cluster.last.records] == [ClusterRecord, PartitionRecord, PartitionRecord]
    minimums = [s.min_insync_replicas for s in cluster.image.partitions.values()]
    assert minimums == [1, 1, 2]


def test_a_controller_that_takes_over_lets_partitions_follow_a_setting_that_was_written() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), (2, 3, 1))
    configure(cluster, min_insync_replicas="1")
    step = cluster.fail_over(cluster.records[:-1])
    (record,) = step.records
    assert isinstance(record, PartitionRecord)
    assert (record.state.partition, record.change.cause) == (1, Cause.TAKEOVER_REPAIR)
    assert cluster.partition(1).min_insync_replicas == 1


def test_while_replicas_move_the_cap_is_what_there_was() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2), configs={"min.insync.replicas": "1"})
    cluster.reassign(1, 2, 3)
    configure(cluster, min_insync_replicas="3")
    assert cluster.partition().min_insync_replicas == 2
    cluster.propose(1, 2, 3)
    assert cluster.partition().min_insync_replicas == 3


# --- settings -----------------------------------------------------------------------------------------------


def test_settings_are_set_and_unset_by_name_and_the_others_stay() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"retention.ms": "5", "segment.ms": "7"})
    configure(cluster, retention_ms=None, segment_bytes="1024")
    (record,) = cluster.last.records
    assert isinstance(record, TopicRecord)
    assert cluster.image.topics[topic_id()].configs == {"segment.bytes": "1024", "segment.ms": "7"}
    configure(cluster, segment_ms="7")
    assert cluster.last.records == ()


@pytest.mark.parametrize(
    ("configs", "code", "field"),
    [
        ({"retention.sm": "5"}, RefusalCode.UNKNOWN_CONFIG, "configs.retention.sm"),
        ({"retention.sm": None}, RefusalCode.UNKNOWN_CONFIG, "configs.retention.sm"),
        ({"retention.ms": "5 days"}, RefusalCode.INVALID_CONFIG, "configs.retention.ms"),
    ],
)
def test_an_unknown_or_impossible_setting_changes_nothing(
    configs: dict[str, str | None], code: RefusalCode, field: str
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    event = ConfigureTopic(
        wall_ms=0, actor="ann", topic_id=topic_id(), configs={"segment.ms": "9", **configs}
    )
    refusal = cluster.ask(event, Refusal)
    assert (refusal.code, refusal.field) == (code, field)
    assert cluster.last.records == ()


def test_a_dry_run_says_which_partitions_would_change_and_writes_nothing() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1))
    event = ConfigureTopic(
        wall_ms=0, actor="ann", topic="orders-0", configs={"min.insync.replicas": "1"}, dry_run=True
    )
    dry = cluster.ask(event, TopicConfigured)
    assert cluster.last.records == ()
    wet = cluster.ask(
        ConfigureTopic(wall_ms=0, actor="ann", topic="orders-0", configs=event.configs), TopicConfigured
    )
    assert (wet.state, wet.partitions) == (dry.state, dry.partitions)
    assert len(wet.partitions) == 2


def test_a_topic_that_is_not_there_or_going_is_not_changed() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    for event in (
        ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs={}),
        add(cluster, 2),
    ):
        assert cluster.ask(event, Refusal).code is RefusalCode.UNKNOWN_TOPIC


# --- partitions ---------------------------------------------------------------------------------------------


def test_added_partitions_are_written_before_the_topic_that_announces_them() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    position = cluster.image.sequence
    reply = cluster.ask(add(cluster, 3), PartitionsAdded)
    assert [type(r) for r in cluster.last.records] == [PartitionRecord, PartitionRecord, TopicRecord]
    assert {r.change.cause for r in cluster.last.records} == {Cause.PARTITIONS_ADDED}
    assert [p.partition for p in reply.partitions] == [1, 2]
    assert all(len(set(p.replicas)) == 3 and p.new_replicas == p.replicas for p in reply.partitions)
    assert {p.min_insync_replicas for p in reply.partitions} == {1}
    assert cluster.image.topics[topic_id()].partitions == 3
    batch = build_update(
        cluster.image,
        PollRequest(
            broker_id=4,
            broker_epoch=cluster.broker(4).broker_epoch,
            applied_controller_epoch=ControllerEpoch(1),
            applied_sequence=position,
        ),
        controller_epoch=1,
    )
    assert batch is not None
    assert sorted(s.partition for s in batch.partitions) == [0, 1, 2]


def test_added_partitions_go_where_they_are_told() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2))
    cluster.kill(3)
    reply = cluster.ask(add(cluster, 3, assignments=((3, 4), (2, 1))), PartitionsAdded)
    assert [(p.replicas, p.leader, p.isr) for p in reply.partitions] == [
        ((3, 4), 4, (4,)),
        ((2, 1), 2, (2, 1)),
    ]


@pytest.mark.parametrize(
    ("partitions", "assignments", "code", "limit"),
    [
        (1, None, RefusalCode.INVALID_PARTITIONS, 2),
        (0, None, RefusalCode.INVALID_PARTITIONS, 2),
        (6, None, RefusalCode.INVALID_PARTITIONS, 5),
        (3, ((1, 2),), RefusalCode.INVALID_REPLICA_ASSIGNMENT, 2),
        (2, ((1, 2, 3),), RefusalCode.INVALID_REPLICA_ASSIGNMENT, None),
        (2, ((1, 1),), RefusalCode.INVALID_REPLICA_ASSIGNMENT, None),
        (2, ((1, 9),), RefusalCode.UNKNOWN_BROKER, None),
        (2, ((3, 3),), RefusalCode.INVALID_REPLICA_ASSIGNMENT, None),
    ],
)
def test_an_impossible_addition_is_refused(
    partitions: int,
    assignments: tuple[tuple[int, ...], ...] | None,
    code: RefusalCode,
    limit: int | None,
) -> None:
    cluster = Cluster(ControllerOptions(partitions_per_topic_max=5))
    cluster.create((1, 2))
    refusal = cluster.ask(add(cluster, partitions, assignments=assignments), Refusal)
    assert (refusal.code, refusal.limit) == (code, limit)
    assert cluster.last.records == ()


def test_an_addition_needs_as_many_brokers_as_replicas_one_of_them_live() -> None:
    cluster = Cluster(brokers=(1, 2))
    cluster.create((1, 2))
    cluster.kill(2)
    assert cluster.ask(add(cluster, 2), Refusal).code is RefusalCode.REPLICATION_FACTOR_TOO_LARGE
    cluster.kill(1)
    refusal = cluster.ask(add(cluster, 2, assignments=((1, 2),)), Refusal)
    assert (refusal.code, refusal.field) == (RefusalCode.NO_LIVE_REPLICA, "assignments.0")


def test_the_cluster_holds_no_more_partitions_than_its_bound() -> None:
    cluster = Cluster(ControllerOptions(partitions_per_cluster_max=4))
    cluster.create((1, 2))
    cluster.create((1, 2), (2, 3), number=1)
    assert cluster.ask(add(cluster, 3), Refusal).limit == 2
    assert cluster.ask(add(cluster, 2), PartitionsAdded).state.partitions == 2


def test_partitions_that_were_written_and_not_announced_are_announced_by_the_next_controller() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3))
    cluster.ask(add(cluster, 4), PartitionsAdded)
    step = cluster.fail_over(cluster.records[:-2])  # two of three, and not the topic
    assert cluster.image.topics[topic_id()].partitions == 3
    assert [type(r) for r in step.records] == [TopicRecord]
    cluster.beat_all()
    assert cluster.ask(add(cluster, 4), PartitionsAdded).partitions[0].partition == 3
    assert cluster.fail_over().records == ()


def test_a_dry_addition_answers_the_same() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    dry = cluster.ask(add(cluster, 2, dry_run=True), PartitionsAdded)
    assert cluster.last.records == ()
    wet = cluster.ask(add(cluster, 2), PartitionsAdded)
    assert (wet.state, wet.partitions) == (dry.state, dry.partitions)
