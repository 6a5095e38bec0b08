"""Bounds of what the machine makes of events, each found by a mutant that no other test noticed
(tests/mutation)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import AlarmCode, Note
from controller.core.events import (
    AllocateProducerIds,
    AppliedReply,
    BrokerApplied,
    ClusterConfigured,
    ConfigureCluster,
    ConfigureTopic,
)
from controller.core.records import PartitionRecord
from controller.core.settings_table import INT64_MAX
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import FollowerLag, PartitionLag, ProblemCode, ReplicaProblem
from springtide.contract.updates import ApplyFailure, ProducerIdsRequest, ProducerIdsResponse
from tests.kit.controller.core_cluster import Cluster, report, seats, topic_id

KEY = (topic_id(), 0)


def created(*, configs: dict[str, str] | None = None) -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs=configs)
    return cluster


def failure(cluster: Cluster, code: str, detail: str = "", *, later: int = 0) -> ApplyFailure:
    epoch = cluster.partition().partition_epoch + later
    return ApplyFailure(
        topic_id=topic_id(), partition=0, partition_epoch=PartitionEpoch(epoch), code=code, detail=detail
    )


def problem(code: str, *, number: int = 0, broker_id: int = -1, detail: str = "") -> ReplicaProblem:
    return ReplicaProblem(
        topic_id=topic_id(number), partition=0, code=ProblemCode(code), detail=detail, broker_id=broker_id
    )


def lag(cluster: Cluster, *followers: tuple[int, int], later: int = 0) -> PartitionLag:
    """followers: their ids and how many records they lack."""
    return PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=LeaderEpoch(cluster.partition().leader_epoch + later),
        log_start_offset=0,
        log_end_offset=9,
        high_watermark=9,
        size_bytes=1,
        followers=tuple(
            FollowerLag(broker_id=broker_id, log_end_offset=0, lag_records=records, lag_ms=0)
            for broker_id, records in followers
        ),
    )


# What brokers say.


def test_an_applied_position_of_another_incarnation_or_of_a_host_that_went_back_is_refused() -> None:
    cluster = created()
    cluster.machine._sessions._by_id[1].on_heard(5, 5)
    for epoch, count, error in [
        (cluster.broker(1).broker_epoch - 1, -1, ControllerError.STALE_BROKER_EPOCH),
        (cluster.broker(1).broker_epoch, 4, ControllerError.OUTCOME_UNKNOWN),
    ]:
        event = BrokerApplied(
            wall_ms=0,
            broker_id=1,
            broker_epoch=BrokerEpoch(epoch),
            controller_epoch=ControllerEpoch(cluster.controller_epoch),
            sequence=cluster.image.sequence,
            failures=(failure(cluster, "log_missing"),),
            heartbeat_count=count,
        )
        assert cluster.ask(event, AppliedReply).error is error
        assert cluster.last.records == ()


@pytest.mark.parametrize("later", [-1, 1])
def test_a_failure_about_another_state_takes_no_seat(later: int) -> None:
    cluster = created()
    cluster.propose(1, 2, 3)
    before = cluster.partition()
    cluster.applied(2, failure(cluster, "log_missing", later=later))
    assert cluster.partition() == before


@pytest.mark.parametrize(
    ("leader", "sender", "later", "is_heard"),
    [(2, 2, 0, True), (2, 1, 0, False), (2, 3, 0, False), (2, 2, -1, False), (2, 2, 1, False)],
)
def test_lags_are_heard_of_the_leader_in_its_leader_epoch_alone(
    leader: int, sender: int, later: int, is_heard: bool
) -> None:
    cluster = Cluster()
    cluster.create((leader, 1, 3))
    report(cluster, sender, lags=(lag(cluster, later=later),))
    assert (KEY in cluster.machine.lags) is is_heard


@pytest.mark.parametrize("code", ["log_missing", "storage_error", "rotten", "went_back"])
@pytest.mark.parametrize("detail", ["", "no such directory", "x" * 600])
def test_a_seat_that_trouble_takes_is_recorded_with_its_cause_and_what_was_told(
    code: str, detail: str
) -> None:
    cluster = created()
    report(cluster, 2, problems=(problem(code, detail=detail),))
    (record,) = cluster.last.records
    assert isinstance(record, PartitionRecord)
    assert record.change.cause.value == {"rotten": "replica_rotten", "went_back": "log_missing"}.get(
        code, code
    )
    assert record.change.reason == (detail[:500] or None)
    assert seats(cluster.partition()) == (1, (1, 3), ())


def test_only_quarantine_names_a_way_out_and_only_replicas_are_heard_of_it() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    report(cluster, 4, problems=(problem("quarantined"),))
    report(cluster, 2, problems=(problem("batch_refused", detail="why"),))
    assert cluster.machine._quarantined._told == {}
    (alarm,) = cluster.machine.alarms()
    assert (alarm.key.code, alarm.detail) == (
        AlarmCode.BATCH_REFUSED,
        "orders-0-0 on broker 2: batch_refused: why",
    )


def test_a_replica_that_is_whole_again_is_a_line_in_the_log() -> None:
    cluster = created()
    cluster.effects.clear()
    report(cluster, 2, problems=(problem("mended"),))
    assert [effect.code for effect in cluster.effects if isinstance(effect, Note)] == ["replica_mended"]


def test_a_broker_is_trusted_by_its_applied_position_before_its_next_heartbeat() -> None:
    cluster = created()
    cluster.kill(3)
    cluster.register(3, "b")
    assert cluster.broker(3).fenced
    cluster.applied(3)
    assert not cluster.broker(3).fenced


def test_a_log_that_is_short_is_no_alarm_once_its_replica_is_in_sync() -> None:
    cluster = created()
    cluster.propose(1, 2)
    found = []
    for broker_id in (2, 3):
        report(cluster, broker_id, problems=(problem("log_short"),))
        found.append([alarm.key.broker_id for alarm in cluster.machine.alarms()])
    assert found == [[], [3]]


def test_trouble_of_a_topic_that_is_gone_or_going_is_nothing() -> None:
    cluster = created()
    unknown = topic_id(9)
    report(cluster, 2, problems=(problem("log_missing", number=9),))
    report(cluster, 1, lags=(msgspec.structs.replace(lag(cluster), topic_id=unknown),))
    cluster.applied(2, msgspec.structs.replace(failure(cluster, "log_missing"), topic_id=unknown))
    assert cluster.machine.lags == {}
    cluster.delete()
    before = cluster.partition()
    report(cluster, 2, problems=(problem("log_missing"),))
    assert (cluster.partition(), cluster.machine.alarms()) == (before, ())


def test_what_was_heard_of_a_topic_is_forgotten_with_it() -> None:
    cluster = created()
    report(cluster, 1, lags=(lag(cluster),))
    report(cluster, 2, problems=(problem("quarantined"),))
    machine = cluster.machine
    assert [*machine.lags, *machine._floors._highest, *machine._quarantined._told] == [KEY] * 3
    cluster.delete()
    for broker_id in (1, 2, 3):
        cluster.applied(broker_id)
    assert KEY not in cluster.image.partitions
    assert (machine.lags, machine._floors._highest, machine._quarantined._told) == ({}, {}, {})


def test_producer_ids_end_where_64_bits_do() -> None:
    cluster = Cluster()
    epoch = cluster.broker(1).broker_epoch
    answers = []
    for first, broker_epoch in [
        (INT64_MAX - 5, epoch),
        (INT64_MAX - 1, epoch),
        (INT64_MAX, epoch),
        (INT64_MAX, epoch - 1),
    ]:
        cluster.image.next_producer_id = first
        request = ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(broker_epoch))
        reply = cluster.ask(AllocateProducerIds(wall_ms=0, request=request), ProducerIdsResponse)
        answers.append((reply.error.value, reply.count))
    assert answers == [("none", 5), ("none", 1), ("invalid_request", 0), ("stale_broker_epoch", 0)]


# Takeovers and rounds.


def test_what_a_takeover_forbids_is_waited_for_when_it_is_asked_for_again() -> None:
    """The predecessor stored the topic's minimum, and died before it had stored that of the partition."""
    cluster = created(configs={"min.insync.replicas": "1"})
    event = ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs={"min.insync.replicas": "2"})
    cluster.step(event)
    assert isinstance(cluster.records[-1], PartitionRecord)
    cluster.fail_over(cluster.records[:-1])
    assert cluster.partition().min_insync_replicas == 2
    step = cluster.step(event)
    assert step.awaited is not None
    assert (step.records, step.awaited.sequence) == ((), cluster.image.sequence)
    assert cluster.step(msgspec.structs.replace(event, dry_run=True)).awaited is None


def test_new_replicas_are_confirmed_once_reports_were_collected_and_then_no_tick_is_due() -> None:
    cluster = created()
    for broker_id in (1, 2, 3):
        cluster.created(broker_id)
    written = [len(cluster.pass_ms(ms).records) for ms in (cluster.options.new_replica_confirm_ms - 1, 1)]
    due_ms = cluster.machine.next_deadline_ms()
    assert due_ms is not None and due_ms > cluster.now_ms
    assert written == [0, 1]


def test_a_dead_replica_without_a_seat_does_not_hold_up_the_others_that_are_new() -> None:
    cluster = created()
    cluster.propose(1, 2)
    for broker_id in (1, 2):
        cluster.created(broker_id)
    cluster.pass_ms(1_000)
    assert cluster.partition().new_replicas == (1, 2, 3)
    cluster.kill(3)
    cluster.pass_ms(1_000)
    assert cluster.partition().new_replicas == (3,)


def test_a_new_replica_that_is_moved_away_does_not_hold_up_the_others() -> None:
    cluster = created(configs={"min.insync.replicas": "1"})
    for broker_id in (1, 2):
        cluster.created(broker_id)
    cluster.pass_ms(1_000)
    assert cluster.reassign(1, 2).refusal is None
    assert (cluster.partition().replicas, cluster.partition().partition_epoch) == ((1, 2), 1)
    cluster.pass_ms(1_000)
    assert cluster.partition().new_replicas == ()


def test_one_millisecond_without_ears_is_held_against_nobody() -> None:
    cluster = Cluster()
    cluster.now_ms += cluster.options.grace_ms + 1
    cluster.machine.forgive_silence(1, cluster.now_ms)
    cluster.pass_ms(0)
    assert not any(broker.fenced for broker in cluster.image.brokers.values())


def displaced(*replicas: int, leader: int = 2) -> Cluster:
    """The preferred leader came back and is in sync again; another leads the partition."""
    replicas = replicas or (1, 2, 3)
    cluster, at = Cluster(), replicas.index(leader)
    cluster.create(replicas)
    cluster.kill(*replicas[:at])
    cluster.restart(replicas[0])
    cluster.propose(replicas[0], *replicas[at:])
    assert cluster.partition().leader == leader
    return cluster


def run(cluster: Cluster, ms: int = 8_000) -> int:
    for _ in range(ms // 1_000):
        cluster.now_ms += 1_000
        cluster.beat_all()
        cluster.pass_ms(0)
    return cluster.partition().leader


def test_a_preferred_leader_returns_without_the_second_replica() -> None:
    assert run(displaced(leader=3)) == 1


@pytest.mark.parametrize("replicas", [(1, 2, 3), (3, 2, 1)])
@pytest.mark.parametrize(("more", "returns"), [(0, True), (1, False)])
def test_how_far_a_preferred_leader_may_be_behind_and_others_do_not_matter(
    replicas: tuple[int, ...], more: int, returns: bool
) -> None:
    cluster = displaced(*replicas)
    bound = cluster.options.preferred_leader_lag_records_max
    report(cluster, 2, lags=(lag(cluster, (replicas[0], bound + more), (replicas[2], 10 * bound)),))
    assert run(cluster) == (replicas[0] if returns else 2)


def test_what_a_leader_before_this_one_told_keeps_nobody_away() -> None:
    cluster = displaced()
    far = 10 * cluster.options.preferred_leader_lag_records_max
    cluster.machine.lags[KEY] = lag(cluster, (1, far), later=-1)
    assert run(cluster) == 1


def test_leaders_stay_where_they_are_when_the_cluster_is_configured_so() -> None:
    cluster = displaced()
    configs: dict[str, str | None] = {"auto.leader.rebalance.enable": "false"}
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs=configs), ClusterConfigured)
    assert run(cluster) == 2


def test_metadata_that_went_back_counts_among_the_alarms() -> None:
    cluster = Cluster()
    counts = [cluster.machine.alarm_counts()[AlarmCode.METADATA_WENT_BACK]]
    cluster.machine.went_back = "a broker epoch that was never given"
    assert [*counts, cluster.machine.alarm_counts()[AlarmCode.METADATA_WENT_BACK]] == [0, 1]
