"""Deleted topics that are kept for a time, and restored (4.12, kept topics)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.draft import Draft
from controller.core.effects import AlarmCode
from controller.core.events import (
    BringBackTopics,
    ConfigureCluster,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    PurgeTopic,
    Refusal,
    RefusalCode,
    RemoveMember,
    Report,
    RestoreTopic,
    Tick,
    TopicConfigured,
    TopicDeletionStarted,
    TopicsBroughtBack,
)
from controller.core.floor import Floors
from controller.core.kept_topics import forget_seats
from controller.core.loss import LogEnds
from controller.core.records import Cause, Change
from controller.core.stream import build_range, plan_update
from springtide.contract.epochs import ControllerEpoch, LeaderEpoch
from springtide.contract.lag_report import LagReport, PartitionLag
from springtide.contract.partition_state import NO_LEADER, KeptTopic, PartitionState, TopicState
from springtide.contract.session import DiskSpace, ShutdownKind
from springtide.contract.updates import PollRequest, UpdateBatch
from springtide.levels import NEWEST, SUPPORTED, UNTOLD, Level
from tests.kit.controller.core_cluster import Cluster, topic_id

KEY = (topic_id(), 0)
HOUR_MS = 3_600_000
RETENTION: dict[str, Any] = {"deleted.topic.retention.ms": str(HOUR_MS)}


def cluster(*replicas: tuple[int, ...], level: Level = NEWEST) -> Cluster:
    """A cluster with a topic whose deletion is kept for an hour."""
    made = Cluster()
    made.levels = dict.fromkeys((1, 2, 3), SUPPORTED)
    made.finalize(level)
    made.create(*(replicas or ((1, 2, 3),)), configs=RETENTION if level else {})
    for broker_id in (1, 2, 3):
        made.created(broker_id)
    made.beat_all()
    return made


def delete(made: Cluster, *, stopped: tuple[int, ...] = (1, 2, 3)) -> TopicDeletionStarted:
    event = DeleteTopic(wall_ms=1_000, actor="ann", topic="orders-0")
    started = made.ask(event, TopicDeletionStarted)
    for broker_id in stopped:
        made.applied(broker_id)
    return started


def restore(made: Cluster, *, name: str | None = None, dry_run: bool = False) -> TopicsBroughtBack:
    event = RestoreTopic(wall_ms=2_000, actor="bob", topic_id=topic_id(), topic=name, dry_run=dry_run)
    return made.ask(event, TopicsBroughtBack)


def refused(made: Cluster, event: RestoreTopic | PurgeTopic | RemoveMember) -> Refusal:
    sequence = made.image.sequence
    refusal = made.ask(event, Refusal)
    assert made.image.sequence == sequence
    return refusal


def restoring(name: str | None = None) -> RestoreTopic:
    return RestoreTopic(wall_ms=2_000, actor="bob", topic_id=topic_id(), topic=name)


def state(made: Cluster) -> PartitionState:
    return made.image.partitions[KEY]


def topic(made: Cluster) -> TopicState:
    return made.image.topics[topic_id()]


def update(made: Cluster, broker_id: int, *, since: int = -1) -> UpdateBatch:
    """What a broker is told that has applied everything up to `since`; -1: nothing."""
    request = PollRequest(
        broker_id=broker_id,
        broker_epoch=made.broker(broker_id).broker_epoch,
        applied_controller_epoch=ControllerEpoch(made.controller_epoch if since >= 0 else -1),
        applied_sequence=since,
    )
    epoch = ControllerEpoch(made.controller_epoch)
    planned = plan_update(made.image, request, controller_epoch=epoch)
    assert planned is not None
    return build_range(made.image, planned, controller_epoch=epoch)


def remove_time(made: Cluster) -> None:
    """Broker 3 dies, and so much time passes that it may be removed."""
    made.kill(3)
    for _ in range(20):
        made.pass_ms(3_000)
        made.beat_all()


def kept(made: Cluster) -> KeptTopic:
    found = topic(made).kept
    assert found
    return found


def test_a_deleted_topic_with_a_retention_is_kept_and_its_name_is_free_at_once() -> None:
    made = cluster()
    started = delete(made)
    assert started.state.kept == kept(made)
    assert kept(made) == KeptTopic(
        deleted_at_ms=1_000, deleted_by="ann", until_ms=1_000 + HOUR_MS, bytes_by_broker={1: 0, 2: 0, 3: 0}
    )
    assert topic(made).deleting and topic(made).name_is_free
    assert made.image.kept and not made.image.ending and not made.image.held_names
    assert made.image.leader_of[1] == {} and KEY not in made.image.leaderless
    assert made.image.topic_named("orders-0") is None


def test_brokers_are_told_to_keep_the_logs_and_never_to_delete_them() -> None:
    made = cluster()
    before = made.image.sequence
    delete(made)
    for batch in (update(made, 1, since=before), update(made, 1)):
        assert batch.kept_topics == (topic_id(),)
        assert batch.deleted_topics == () and batch.partitions == () and batch.topics == ()


def test_without_a_retention_the_row_and_the_batch_are_those_of_a_release_without_it() -> None:
    made = Cluster()
    made.create((1, 2, 3))
    before = made.image.sequence
    delete(made)
    assert not made.image.topics, "deleted by all, and gone"
    batch = update(made, 1, since=before)
    assert batch.deleted_topics == (topic_id(),) and not batch.kept_topics


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_setting_of_a_later_level_is_refused_until_the_upgrade_is_finalized(dry_run: bool) -> None:
    made = cluster(level=UNTOLD)
    assert made.image.level == UNTOLD
    events = (
        ConfigureCluster(wall_ms=0, actor="ann", configs=RETENTION, dry_run=dry_run),
        ConfigureTopic(wall_ms=0, actor="ann", topic="orders-0", configs=RETENTION, dry_run=dry_run),
        CreateTopic(
            wall_ms=0, actor="ann", topic_id=topic_id(4), topic="late", configs=RETENTION, dry_run=dry_run
        ),
    )
    for event in events:
        refusal = made.ask(event, Refusal)
        assert refusal.code is RefusalCode.INVALID_CONFIG
        assert "springtide upgrade finalize" in (refusal.hint or "")


def test_the_clusters_setting_holds_for_topics_without_their_own() -> None:
    made = cluster()
    for name, value in (("deleted.topic.retention.ms", None), ("retention.ms", "5000")):
        event = ConfigureTopic(wall_ms=0, actor="ann", topic="orders-0", configs={name: value})
        made.ask(event, TopicConfigured)
    made.step(ConfigureCluster(wall_ms=0, actor="ann", configs={"deleted.topic.retention.ms": "7000"}))
    delete(made)
    assert kept(made).until_ms == 8_000


def test_a_restored_topic_has_its_id_settings_and_seats_under_the_next_epochs() -> None:
    made = cluster()
    was = state(made)
    delete(made)
    made.pass_ms(5_000)
    made.beat_all()
    reply = restore(made)
    assert not reply.undecided and [s.replicas for s in reply.partitions] == [(1, 2, 3)]
    assert topic(made) == TopicState(
        topic_id=topic_id(), topic="orders-0", partitions=1, replication_factor=3, configs=RETENTION
    )
    now = state(made)
    assert now.isr == (1, 2, 3) and now.leader == 1 and not now.elr
    assert now.leader_epoch > was.leader_epoch and now.partition_epoch > was.partition_epoch
    assert not made.image.deletions and not made.image.kept and not made.image.ending
    assert made.image.topic_ids == {"orders-0": topic_id()} and KEY in made.image.leader_of[1]
    batch = update(made, 2)
    assert not batch.kept_topics and batch.partitions == (now,)


def test_a_dry_run_says_the_same_and_writes_nothing() -> None:
    made = cluster()
    delete(made)
    sequence = made.image.sequence
    would = restore(made, dry_run=True)
    purge = PurgeTopic(wall_ms=0, actor="ann", topic_id=topic_id(), dry_run=True)
    assert made.ask(purge, TopicDeletionStarted).waiting_for == (1, 2, 3)
    assert made.image.sequence == sequence
    done = restore(made)
    assert (would.topics, would.partitions) == (done.topics, done.partitions)


def test_a_controller_that_takes_over_keeps_and_restores_the_topic() -> None:
    made = cluster()
    delete(made)
    made.fail_over()
    assert made.image.kept and update(made, 1).kept_topics == (topic_id(),)
    made.beat_all()
    restore(made)
    made.fail_over()
    assert topic(made).deleting is False and state(made).leader == 1


def test_the_deletion_ends_while_the_topic_is_kept_if_its_time_is_over() -> None:
    made = cluster()
    delete(made)
    made.step(Tick(wall_ms=9 * HOUR_MS, expired_ms=None))
    made.step(Tick(wall_ms=9 * HOUR_MS, expired_ms=kept(made).until_ms - 1))
    assert made.image.kept, "no clock that is not vouched for ends it"
    before = made.image.sequence
    made.step(Tick(wall_ms=0, expired_ms=kept(made).until_ms))
    assert not made.image.kept and made.image.ending
    assert made.records[-1].change.cause is Cause.TOPIC_EXPIRED
    batch = update(made, 3, since=before)
    assert batch.deleted_topics == (topic_id(),) and not batch.kept_topics
    for broker_id in (1, 2):
        made.applied(broker_id)
    assert made.image.topics, "broker 3 has not confirmed"
    made.applied(3)
    assert not made.image.topics and not made.image.partitions and not made.image.deletions


def test_a_purge_frees_the_room_now() -> None:
    made = cluster()
    delete(made)
    made.ask(PurgeTopic(wall_ms=0, actor="ann", topic_id=topic_id()), TopicDeletionStarted)
    assert refused(made, restoring()).code is RefusalCode.UNKNOWN_TOPIC
    assert "being deleted" in refused(made, restoring()).detail
    for broker_id in (1, 2, 3):
        made.applied(broker_id)
    assert not made.image.topics


def test_a_broker_that_is_away_is_told_of_the_purge_when_it_returns() -> None:
    made = cluster()
    made.kill(3)
    delete(made, stopped=(1, 2))
    made.step(Tick(wall_ms=0, expired_ms=2 * HOUR_MS))
    made.applied(1)
    made.applied(2)
    assert made.image.topics, "broker 3 may have its log"
    made.register(3, "b", last_shutdown=ShutdownKind.PROCESS_CRASH)
    assert update(made, 3).deleted_topics == (topic_id(),)
    made.heartbeat(3)
    assert not made.image.topics


def test_a_topic_is_not_restored_before_its_leaders_have_stopped() -> None:
    made = cluster()
    delete(made, stopped=(1,))
    refusal = refused(made, restoring())
    assert refusal.code is RefusalCode.TOPIC_ALREADY_EXISTS and "being deleted" in refusal.detail
    assert "restore it when" in (refusal.hint or "")
    for broker_id in (2, 3):
        made.applied(broker_id)
    restore(made)


def test_a_name_that_another_topic_has_is_refused_and_another_name_is_taken() -> None:
    made = cluster()
    delete(made)
    event = CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(9), topic="orders-0", partitions=1)
    made.step(event)
    refusal = refused(made, restoring())
    assert refusal.code is RefusalCode.TOPIC_ALREADY_EXISTS and refusal.field == "name"
    assert "another name" in (refusal.hint or "")
    assert refused(made, restoring("or/ders")).code is RefusalCode.INVALID_TOPIC_NAME
    assert refused(made, restoring("__consumer_offsets")).code is RefusalCode.RESERVED_TOPIC
    restore(made, name="orders-restored")
    assert state(made).topic == "orders-restored"
    assert made.image.topic_ids == {"orders-0": topic_id(9), "orders-restored": topic_id()}


def test_an_unknown_or_living_topic_is_not_restored() -> None:
    made = cluster()
    assert refused(made, restoring()).code is RefusalCode.UNKNOWN_TOPIC
    purge = PurgeTopic(wall_ms=0, actor="ann", topic_id=topic_id(7))
    assert refused(made, purge).code is RefusalCode.UNKNOWN_TOPIC


def test_logs_of_a_kept_topic_are_not_brought_back_as_if_they_were_set_aside() -> None:
    made = cluster()
    delete(made)
    refusal = made.ask(BringBackTopics(wall_ms=0, actor="ann", topic_ids=(topic_id(),)), Refusal)
    assert "springtide topics restore" in refusal.detail


def test_a_broker_that_cannot_vouch_for_its_logs_loses_the_seats_that_it_kept() -> None:
    made = cluster()
    delete(made)
    made.kill(1, 2)
    made.register(1, "b", last_shutdown=ShutdownKind.MACHINE_CRASH)
    made.register(2, "b", last_shutdown=ShutdownKind.PROCESS_CRASH)
    made.heartbeat(1)
    made.heartbeat(2)
    restore(made)
    assert state(made).isr == (2, 3) and state(made).leader == 2


def test_a_topic_whose_every_replica_lost_power_is_undecided_and_comes_back_without_a_leader() -> None:
    made = cluster()
    delete(made)
    for broker_id in (1, 2, 3):
        made.kill(broker_id)
        made.register(broker_id, "b", last_shutdown=ShutdownKind.MACHINE_CRASH)
        made.heartbeat(broker_id)
    assert restore(made).undecided == (KEY,)
    assert state(made).leader == NO_LEADER and KEY in made.image.leaderless


def test_a_broker_whose_last_directory_failed_loses_the_seats_that_it_kept() -> None:
    made = cluster()
    delete(made)
    made.heartbeat(2, offline=("dir-2",), failure="EIO")
    restore(made)
    assert state(made).isr == (1, 3)


def test_a_member_that_is_away_keeps_its_seat_until_the_restore_and_then_its_place() -> None:
    made = cluster()
    delete(made)
    made.kill(2, 3)
    restore(made)
    assert (state(made).leader, state(made).isr, state(made).elr) == (1, (1,), (2, 3))
    made.restart(2)
    assert state(made).elr == (2, 3)


def test_a_restored_topic_whose_members_are_all_away_waits_for_them() -> None:
    made = cluster()
    delete(made)
    made.kill(1, 2, 3)
    assert not restore(made).undecided
    assert state(made).leader == NO_LEADER and state(made).elr == (1, 2, 3)
    made.restart(2)
    assert state(made).leader == 2


def test_a_removed_broker_is_no_replica_of_what_is_restored() -> None:
    made = cluster()
    delete(made)
    remove_time(made)
    made.step(RemoveMember(wall_ms=0, actor="ann", member_id=3))
    assert 3 not in made.image.brokers
    restore(made)
    assert state(made).replicas == (1, 2) and state(made).isr == (1, 2)


def test_a_removed_broker_that_returns_has_no_seat_in_what_is_kept() -> None:
    made = cluster()
    delete(made)
    remove_time(made)
    made.step(RemoveMember(wall_ms=0, actor="ann", member_id=3))
    made.register(3, "z")
    restore(made)
    assert 3 not in state(made).isr and state(made).replicas == (1, 2, 3)


def test_the_last_broker_with_a_whole_copy_is_not_removed() -> None:
    made = cluster((3,))
    delete(made)
    remove_time(made)
    removal = RemoveMember(wall_ms=0, actor="ann", member_id=3)
    refusal = refused(made, removal)
    assert refusal.code is RefusalCode.BROKER_IN_USE and "springtide topics purge" in (refusal.hint or "")
    made.ask(PurgeTopic(wall_ms=0, actor="ann", topic_id=topic_id()), TopicDeletionStarted)
    made.step(removal)
    assert 3 not in made.image.brokers and not made.image.topics


def test_the_alarm_about_a_full_disk_names_what_is_kept_and_the_call_that_frees_it() -> None:
    made = cluster()
    lag = PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=LeaderEpoch(state(made).leader_epoch),
        log_start_offset=0,
        log_end_offset=9,
        high_watermark=9,
        size_bytes=7 << 20,
    )
    epoch = made.broker(1).broker_epoch
    made.step(Report(wall_ms=0, request=LagReport(broker_id=1, broker_epoch=epoch, lags=(lag,))))
    delete(made)
    assert kept(made).size_bytes == 3 * (7 << 20)
    short = DiskSpace(free_bytes=1, total_bytes=1 << 30, reserve_bytes=1 << 20, is_short=True)
    made.heartbeat(2, disk=short)
    (alarm,) = [a for a in made.machine.alarms() if a.key.code is AlarmCode.DISK_BELOW_RESERVE]
    assert "7 MiB of it are logs of deleted topics" in alarm.detail
    assert "springtide topics purge" in alarm.detail


def test_a_topic_that_a_recovery_finds_kept_has_no_seats_and_its_time_begins_anew() -> None:
    made = cluster()
    delete(made)
    draft = Draft(made.image, wall_ms=5 * HOUR_MS, floors=Floors(LogEnds()))
    change = Change(cause=Cause.METADATA_RECOVERED, at_ms=0)
    forget_seats(draft, list(made.image.kept), epoch_min=500, change=change)
    assert state(made).isr == () and state(made).elr == () and state(made).leader_epoch == 500
    assert kept(made).until_ms == 6 * HOUR_MS


def test_a_refusal_for_too_many_topics_says_which_are_only_kept() -> None:
    made = cluster()
    delete(made)
    made.machine.options = msgspec.structs.replace(made.options, topics_max=1)
    event = CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(9), topic="late", partitions=1)
    refusal = made.ask(event, Refusal)
    assert refusal.code is RefusalCode.INVALID_PARTITIONS
    assert "springtide topics purge" in (refusal.hint or "")
