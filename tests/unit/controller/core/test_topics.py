from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.core.events import (
    ClusterConfigured,
    ConfigureCluster,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    MemberRemoved,
    Refusal,
    RefusalCode,
    RemoveMember,
    TopicConfigured,
    TopicCreated,
    TopicDeletionStarted,
)
from controller.core.options import ControllerOptions
from controller.core.records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from controller.core.settings_table import TOPIC_SETTINGS
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from tests.kit.controller.core_cluster import Cluster, topic_id


def creation(name: str = "orders", number: int = 0, **fields: object) -> CreateTopic:
    return CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(number), topic=name, **fields)  # type: ignore[arg-type]


# --- creation -----------------------------------------------------------------------------------------------


def test_a_topic_is_created_whole_and_announced_last() -> None:
    cluster = Cluster()
    reply = cluster.ask(creation(partitions=2, replication_factor=3), TopicCreated)
    assert reply.state == TopicState(topic_id=topic_id(), topic="orders", partitions=2, replication_factor=3)
    assert reply.partitions[0] == PartitionState(
        topic_id=topic_id(),
        topic="orders",
        partition=0,
        replicas=(1, 3, 2),
        new_replicas=(1, 3, 2),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(1, 3, 2),
        min_insync_replicas=2,
    )
    assert [type(r) for r in cluster.last.records] == [PartitionRecord, PartitionRecord, TopicRecord]
    assert {r.change.actor for r in cluster.last.records} == {"ann"}
    assert cluster.image.topic_named("orders") == reply.state


def test_a_dry_run_answers_the_same_and_writes_nothing() -> None:
    cluster = Cluster()
    dry = cluster.ask(creation(partitions=5, replication_factor=2, dry_run=True), TopicCreated)
    assert cluster.last.records == ()
    real = cluster.ask(creation(partitions=5, replication_factor=2), TopicCreated)
    assert (dry.state, dry.partitions) == (real.state, real.partitions)


def test_only_live_replicas_are_in_sync_at_first() -> None:
    cluster = Cluster()
    cluster.kill(1)
    state = cluster.create((1, 2, 3)).partitions[0]
    assert (state.leader, state.isr, state.elr) == (2, (2, 3), ())
    refusal = cluster.ask(creation(assignments=((1,),), number=5), Refusal)
    assert refusal.code is RefusalCode.NO_LIVE_REPLICA


@pytest.mark.parametrize(("factor", "minimum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_the_minimum_in_sync_is_a_majority_unless_somebody_set_it(factor: int, minimum: int) -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4, 5))
    reply = cluster.ask(creation(replication_factor=factor), TopicCreated)
    assert reply.partitions[0].min_insync_replicas == minimum
    override = {"min.insync.replicas": str(factor)}
    reply = cluster.ask(creation("o2", 1, replication_factor=factor, configs=override), TopicCreated)
    assert reply.partitions[0].min_insync_replicas == factor
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "1"}))
    reply = cluster.ask(creation("o3", 2, replication_factor=factor), TopicCreated)
    assert reply.partitions[0].min_insync_replicas == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"replication_factor": 2},
        {"assignments": ((1, 2), (2, 3))},
        {"replication_factor": 2, "dry_run": True},
    ],
)
def test_a_topic_with_a_minimum_above_its_replication_factor_is_not_created(asked: dict[str, Any]) -> None:
    cluster = Cluster()
    refusal = cluster.ask(creation(configs={"min.insync.replicas": "3"}, **asked), Refusal)
    assert (refusal.code, refusal.limit) == (RefusalCode.INVALID_CONFIG, 2)
    assert refusal.field == "configs.min.insync.replicas"
    assert cluster.last.records == ()
    assert cluster.image.topics == {}


def test_a_default_minimum_above_the_replication_factor_is_capped_for_a_new_topic() -> None:
    cluster = Cluster()
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "3"}))
    reply = cluster.ask(creation(replication_factor=2), TopicCreated)
    assert reply.partitions[0].min_insync_replicas == 2


def test_what_is_left_out_follows_the_clusters_defaults() -> None:
    cluster = Cluster()
    reply = cluster.ask(creation(), TopicCreated)
    assert (reply.state.partitions, reply.state.replication_factor) == (1, 3)
    configs = {"num.partitions": "4", "default.replication.factor": "2"}
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs=dict(configs)))
    reply = cluster.ask(creation("o2", 1, partitions=-1, replication_factor=-1), TopicCreated)
    assert (reply.state.partitions, reply.state.replication_factor) == (4, 2)


def test_one_partition_topics_take_turns_in_leading_and_succeeding() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    states = [
        cluster.ask(creation(f"t{i}", i, replication_factor=3), TopicCreated).partitions[0] for i in range(36)
    ]
    assert Counter(s.leader for s in states) == dict.fromkeys((1, 2, 3, 4), 9)
    for leader in (1, 2, 3, 4):
        successors = Counter(s.replicas[1] for s in states if s.leader == leader)
        assert sorted(successors.values()) == [3, 3, 3]


NAMES = [
    ("", RefusalCode.INVALID_TOPIC_NAME),
    (".", RefusalCode.INVALID_TOPIC_NAME),
    ("..", RefusalCode.INVALID_TOPIC_NAME),
    ("a" * 250, RefusalCode.INVALID_TOPIC_NAME),
    ("a/b", RefusalCode.INVALID_TOPIC_NAME),
    ("né", RefusalCode.INVALID_TOPIC_NAME),
    ("a b", RefusalCode.INVALID_TOPIC_NAME),
    ("my.topic", RefusalCode.TOPIC_ALREADY_EXISTS),
    ("my_topic", RefusalCode.TOPIC_NAME_COLLISION),
]


@pytest.mark.parametrize(("name", "code"), NAMES)
def test_topic_names_follow_kafkas_rules(name: str, code: RefusalCode) -> None:
    cluster = Cluster()
    cluster.ask(creation("my.topic"), TopicCreated)
    refusal = cluster.ask(creation(name, 1), Refusal)
    assert (refusal.code, refusal.field) == (code, "topic")


def test_a_name_of_the_greatest_length_is_fine() -> None:
    Cluster().ask(creation("a" * 249), TopicCreated)


BAD: list[tuple[dict[str, object], RefusalCode, str, int | None]] = [
    ({"partitions": 0}, RefusalCode.INVALID_PARTITIONS, "partitions", 1),
    ({"partitions": 101}, RefusalCode.INVALID_PARTITIONS, "partitions", 100),
    ({"partitions": 2**62}, RefusalCode.INVALID_PARTITIONS, "partitions", 100),
    ({"replication_factor": 0}, RefusalCode.INVALID_REPLICATION_FACTOR, "replication_factor", 1),
    ({"replication_factor": 4}, RefusalCode.REPLICATION_FACTOR_TOO_LARGE, "replication_factor", 3),
    ({"replication_factor": 101}, RefusalCode.INVALID_REPLICATION_FACTOR, "replication_factor", 100),
    ({"topic_id": "short"}, RefusalCode.INVALID_TOPIC_ID, "topic_id", None),
    ({"assignments": ()}, RefusalCode.INVALID_REPLICA_ASSIGNMENT, "assignments", None),
    ({"assignments": ((),)}, RefusalCode.INVALID_REPLICA_ASSIGNMENT, "assignments", None),
    ({"assignments": ((1, 1),)}, RefusalCode.INVALID_REPLICA_ASSIGNMENT, "assignments.0", None),
    ({"assignments": ((1, 2), (3,))}, RefusalCode.INVALID_REPLICA_ASSIGNMENT, "assignments.1", None),
    ({"assignments": ((1, 9),)}, RefusalCode.UNKNOWN_BROKER, "assignments.0", None),
    ({"assignments": ((1,),), "partitions": 2}, RefusalCode.INVALID_REPLICA_ASSIGNMENT, "partitions", None),
    (
        {"assignments": ((1,),), "replication_factor": 2},
        RefusalCode.INVALID_REPLICA_ASSIGNMENT,
        "replication_factor",
        None,
    ),
    ({"assignments": ((1,),) * 101}, RefusalCode.INVALID_PARTITIONS, "partitions", 100),
]


@pytest.mark.parametrize(("fields", "code", "field", "limit"), BAD)
def test_an_impossible_topic_is_refused_with_the_field_and_the_limit(
    fields: dict[str, object], code: RefusalCode, field: str, limit: int | None
) -> None:
    cluster = Cluster(ControllerOptions(partitions_per_topic_max=100))
    given = {"topic_id": topic_id(), **fields}
    event = CreateTopic(wall_ms=0, actor="ann", topic="orders", **given)  # type: ignore[arg-type]
    refusal = cluster.ask(event, Refusal)
    assert (refusal.code, refusal.field, refusal.limit) == (code, field, limit)
    assert cluster.last.records == ()


def test_a_factor_beyond_the_live_brokers_says_where_the_others_are() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.kill(1)
    cluster.heartbeat(2, wants_shutdown=True)
    cluster.register(5)
    refusal = cluster.ask(creation(replication_factor=3), Refusal)
    assert (refusal.code, refusal.limit) == (RefusalCode.REPLICATION_FACTOR_TOO_LARGE, 2)
    assert refusal.facts == {
        "eligible_brokers": 2,
        "cordoned_brokers": 0,
        "fenced_brokers": 1,
        "shutting_down_brokers": 1,
        "waiting_brokers": 1,
    }


CONFIGS = [
    ("retention.ms", "-1", None),
    ("retention.ms", "-2", RefusalCode.INVALID_CONFIG),
    ("retention.ms", "1 hour", RefusalCode.INVALID_CONFIG),
    ("retention.ms", "", RefusalCode.INVALID_CONFIG),
    ("retention.ms", "9" * 400, RefusalCode.INVALID_CONFIG),
    ("retention.ms", "١٢", RefusalCode.INVALID_CONFIG),
    ("retention.bytes", "9223372036854775807", None),
    ("retention.bytes", "9223372036854775808", RefusalCode.INVALID_CONFIG),
    ("segment.bytes", "13", RefusalCode.INVALID_CONFIG),
    ("segment.ms", "0", RefusalCode.INVALID_CONFIG),
    ("min.insync.replicas", "0", RefusalCode.INVALID_CONFIG),
    ("cleanup.policy", "delete", None),
    ("cleanup.policy", "compact", None),
    ("cleanup.policy", "compact,delete", None),
    ("cleanup.policy", "none", RefusalCode.INVALID_CONFIG),
    ("cleanup.policy", "compact,", RefusalCode.INVALID_CONFIG),
    ("compression.type", "producer", None),
    ("compression.type", "zstd", None),
    ("compression.type", "br", RefusalCode.INVALID_CONFIG),
    ("message.timestamp.type", "LogAppendTime", None),
    ("message.timestamp.type", "logappendtime", RefusalCode.INVALID_CONFIG),
    ("unclean.leader.election.enable", "yes", RefusalCode.INVALID_CONFIG),
    ("flush.messages", "1", None),
    ("flush.ms", "0", None),
    ("max.message.bytes", "1048576", None),
    ("retention.hours", "1", RefusalCode.UNKNOWN_CONFIG),
]


@pytest.mark.parametrize(("name", "value", "code"), CONFIGS)
def test_settings_are_known_by_name_and_checked_by_type_and_range(
    name: str, value: str, code: RefusalCode | None
) -> None:
    cluster = Cluster()
    reply = cluster.step(creation(configs={name: value})).reply
    if code is None:
        assert isinstance(reply, TopicCreated)
        assert reply.state.configs == {name: value}
    else:
        assert isinstance(reply, Refusal)
        assert (reply.code, reply.field) == (code, f"configs.{name}")


def test_a_topics_lags_of_compaction_are_held_against_each_other_and_the_clusters() -> None:
    cluster = Cluster()
    cluster.step(
        ConfigureCluster(wall_ms=0, actor="ann", configs={"log.cleaner.min.compaction.lag.ms": "50"})
    )
    refusal = cluster.ask(creation(configs={"max.compaction.lag.ms": "49"}), Refusal)
    assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, "configs.max.compaction.lag.ms")
    cluster.ask(creation(configs={"max.compaction.lag.ms": "50"}), TopicCreated)
    less: dict[str, str | None] = {"max.compaction.lag.ms": "7"}
    change = ConfigureTopic(wall_ms=0, actor="ann", topic="orders", configs=less)
    assert cluster.ask(change, Refusal).code is RefusalCode.INVALID_CONFIG
    both = ConfigureTopic(
        wall_ms=0, actor="ann", topic="orders", configs={**less, "min.compaction.lag.ms": "0"}
    )
    assert cluster.ask(both, TopicConfigured).state.configs["max.compaction.lag.ms"] == "7"


def test_every_default_passes_its_own_check() -> None:
    defaults = {n: s.default for n, s in TOPIC_SETTINGS.items() if s.default is not None}
    cluster = Cluster()
    cluster.finalize()
    cluster.ask(creation(configs=defaults), TopicCreated)


# --- 4.6 (deletion), S24 (deleted and made again) -------------------------------------------------


def test_a_deleted_topic_leaves_a_tombstone_until_every_replica_has_confirmed() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (1, 2, 3))
    reply = cluster.ask(DeleteTopic(wall_ms=0, actor="ann", topic="orders-0"), TopicDeletionStarted)
    assert (reply.waiting_for, reply.state.deleting) == ((1, 2, 3), True)
    assert [type(r) for r in cluster.last.records] == [TopicRecord]
    cluster.applied(1)
    cluster.heartbeat(2)
    assert topic_id() in cluster.image.topics
    cluster.applied(3)
    assert [type(r) for r in cluster.last.records] == [RemoveTopicRecord]
    assert topic_id() not in cluster.image.topics
    assert cluster.image.partitions == {}


def test_a_tombstone_outlives_a_dead_broker_and_goes_when_it_confirms_after_a_takeover() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(3)
    cluster.delete()
    cluster.beat_all()
    cluster.fail_over()
    cluster.beat_all()
    assert topic_id() in cluster.image.deletions
    cluster.restart(3)
    assert topic_id() not in cluster.image.topics


def test_a_removed_broker_need_not_confirm() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(3)
    in_use = cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=3), Refusal)
    assert (in_use.code, in_use.facts) == (RefusalCode.BROKER_IN_USE, {"replicas": 1})
    cluster.delete()
    cluster.beat_all()
    assert topic_id() in cluster.image.deletions
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=3), MemberRemoved)
    assert topic_id() not in cluster.image.topics
    assert 3 not in cluster.image.brokers


def test_nothing_happens_to_the_partitions_of_a_topic_that_is_being_deleted() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    proposal = cluster.proposal(1, 2)
    cluster.delete()
    assert cluster.send(proposal, sender=1).error == "unknown_topic_id"
    before = cluster.partition()
    cluster.kill(1, 2, 3)
    cluster.restart(2)
    assert cluster.partition() == before
    assert [a.key.code for a in cluster.machine.alarms()] == ["broker_fenced", "broker_fenced"]


def test_an_id_is_never_used_twice_while_its_tombstone_stands() -> None:
    cluster = Cluster()
    cluster.create((1,))
    cluster.delete()
    assert cluster.ask(creation("other", 0), Refusal).code is RefusalCode.INVALID_TOPIC_ID


@pytest.mark.parametrize(
    "fields",
    [{"topic": "nope"}, {"topic_id": topic_id(7)}, {"topic": "orders-1", "topic_id": topic_id(0)}, {}],
)
def test_deleting_what_is_not_there_is_refused(fields: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.create((1,))
    refusal = cluster.ask(DeleteTopic(wall_ms=0, actor="ann", **fields), Refusal)  # type: ignore[arg-type]
    assert refusal.code is RefusalCode.UNKNOWN_TOPIC


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_guarded_topic_is_not_deleted_until_the_guard_is_off(dry_run: bool) -> None:
    cluster = Cluster()
    cluster.ask(creation(configs={"deletion.protected": "TRUE"}), TopicCreated)
    gone = DeleteTopic(wall_ms=0, actor="ann", topic="orders", dry_run=dry_run)
    refusal = cluster.ask(gone, Refusal)
    assert (refusal.code, cluster.last.records) == (RefusalCode.DELETION_PROTECTED, ())
    assert "deletion.protected=true" in refusal.detail
    off: dict[str, str | None] = {"deletion.protected": "false"}
    cluster.ask(ConfigureTopic(wall_ms=0, actor="ann", topic="orders", configs=off), TopicConfigured)
    assert cluster.ask(gone, TopicDeletionStarted).state.topic == "orders"


def test_a_dry_deletion_says_who_would_have_to_confirm() -> None:
    cluster = Cluster()
    cluster.create((2, 1))
    reply = cluster.ask(
        DeleteTopic(wall_ms=0, actor="ann", topic="orders-0", dry_run=True), TopicDeletionStarted
    )
    assert (reply.waiting_for, cluster.last.records) == ((1, 2), ())


def test_partitions_whose_topic_was_never_announced_are_removed_by_the_next_controller() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1))
    step = cluster.fail_over(cluster.records[:-1])
    assert [type(r) for r in step.records] == [RemoveTopicRecord]
    assert cluster.image.partitions == {}
    assert cluster.image.replicas_of == {1: {}, 2: {}, 3: {}}


# --- cluster settings ---------------------------------------------------------------------------------------


def test_cluster_settings_are_set_unset_and_checked() -> None:
    cluster = Cluster()

    def configure(**configs: str | None) -> ConfigureCluster:
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        return ConfigureCluster(wall_ms=0, actor="ann", configs=dotted)

    reply = cluster.ask(configure(num_partitions="6", log_retention_ms="1000"), ClusterConfigured)
    assert reply.configs == {"log.retention.ms": "1000", "num.partitions": "6"}
    reply = cluster.ask(configure(num_partitions=None), ClusterConfigured)
    assert cluster.image.configs == reply.configs == {"log.retention.ms": "1000"}
    cluster.step(configure(log_retention_ms="1000"))
    assert cluster.last.records == ()
    assert cluster.ask(configure(num_partitions="0"), Refusal).code is RefusalCode.INVALID_CONFIG
    assert cluster.ask(configure(no_such=None), Refusal).code is RefusalCode.UNKNOWN_CONFIG
