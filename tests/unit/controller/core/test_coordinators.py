"""Coordinators: registered, admitted, heard from, given shards; and the topic that holds these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.effects import AlarmCode, AlarmKey, ProbeBroker
from controller.core.events import (
    AddPartitions,
    AdmitCoordinators,
    AllocateProducerIds,
    AlterReassignments,
    BrokerFenceReply,
    BrokerProvenDead,
    ConfigureCluster,
    ConfigureTopic,
    CoordinatorsChanged,
    CreateTopic,
    DeleteTopic,
    Heartbeat,
    MaintainCoordinators,
    MemberRemoved,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
    RemoveMember,
    Tick,
    TopicConfigured,
    TopicDeletionStarted,
)
from controller.core.records import Cause, MemberKind, MemberRecord, PartitionRecord, Record, TopicRecord
from controller.core.shards import PINNED, SHARDS
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupNews, GroupTrouble
from springtide.contract.partition_state import NO_COORDINATOR, NO_EPOCH, WRITER_IDS, Shard, WriterId
from springtide.contract.session import BrokerStatus, HeartbeatRequest
from springtide.contract.transactions import LingeringTransaction, TransactionNews
from springtide.contract.updates import PollRequest, ProducerIdsRequest, ProducerIdsResponse
from springtide.levels import TRANSACTIONS, Level
from tests.kit.controller.coordinator_cluster import OFFSETS_ID, TRANSACTIONS_ID, CoordinatorCluster
from tests.kit.controller.images import build_update

OFFSETS = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
NOBODY = AlarmKey(code=AlarmCode.NO_COORDINATOR)
BLOCKED = AlarmKey(code=AlarmCode.COORDINATOR_TOPIC_BLOCKED)


def alarms(cluster: CoordinatorCluster) -> list[AlarmKey]:
    return [alarm.key for alarm in cluster.machine.alarms()]


# --- sessions ---


def test_a_coordinator_waits_until_admitted_and_is_active_once_it_has_applied_that() -> None:
    cluster = CoordinatorCluster()
    response = cluster.register_coordinator(1001)
    assert (response.status, response.broker_epoch) == (BrokerStatus.WAITING, 4)
    assert cluster.beat(1001).status is BrokerStatus.WAITING
    reply = cluster.ask(
        AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,)), CoordinatorsChanged
    )
    assert [c.status for c in reply.coordinators] == [BrokerStatus.FENCED]
    assert cluster.beat(1001).status is BrokerStatus.ACTIVE
    unknown = cluster.ask(AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1002,)), Refusal)
    assert unknown.code is RefusalCode.UNKNOWN_COORDINATOR


def test_the_same_incarnation_keeps_its_epoch_and_another_is_refused_while_the_first_lives() -> None:
    cluster = CoordinatorCluster(1001)
    epoch = cluster.image.coordinators[1001].coordinator_epoch
    assert cluster.register_coordinator(1001).broker_epoch == epoch
    assert cluster.image.coordinators[1001].is_active
    second = cluster.register_coordinator(1001, "b")
    assert second.error is ControllerError.DUPLICATE_BROKER_REGISTRATION
    assert any(isinstance(e, ProbeBroker) and e.broker_id == 1001 for e in cluster.last.effects)
    dead = BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=epoch)
    assert cluster.ask(dead, BrokerFenceReply).fenced
    assert cluster.register_coordinator(1001, "b").broker_epoch > epoch
    assert not cluster.ask(dead, BrokerFenceReply).fenced  # about the one before
    assert cluster.beat(1001).status is BrokerStatus.ACTIVE  # admitted for good


def test_ids_of_brokers_and_coordinators_never_collide() -> None:
    cluster = CoordinatorCluster(1001)
    refused = cluster.register_coordinator(2)
    assert (refused.error, refused.detail) == (ControllerError.INVALID_REQUEST, "2 is the id of a broker")
    refused = cluster.register(1001)
    assert (refused.error, refused.detail) == (
        ControllerError.INVALID_REQUEST,
        "1001 is the id of a coordinator",
    )


def test_a_silent_coordinator_is_fenced_and_a_new_controller_waits_a_whole_grace() -> None:
    cluster = CoordinatorCluster(1001)
    cluster.fail_over()
    cluster.pass_ms(cluster.options.grace_ms)
    assert cluster.image.coordinators[1001].is_active
    cluster.machine.forgive_silence(500, cluster.now_ms)
    cluster.pass_ms(500)
    assert cluster.image.coordinators[1001].is_active
    cluster.pass_ms(1)
    assert cluster.image.coordinators[1001].status is BrokerStatus.FENCED
    assert cluster.beat(1001).status is BrokerStatus.ACTIVE


def test_one_that_wants_to_stop_gives_its_shards_up_and_may() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    assert cluster.beat(1001, wants_shutdown=True).may_shut_down
    assert cluster.owned == {1002: SHARDS}


def test_one_gets_producer_ids_as_brokers_do() -> None:
    cluster = CoordinatorCluster(1001)
    epoch = cluster.image.coordinators[1001].coordinator_epoch

    def ids(broker_id: int, broker_epoch: int) -> ProducerIdsResponse:
        request = ProducerIdsRequest(broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch))
        return cluster.ask(AllocateProducerIds(wall_ms=0, request=request), ProducerIdsResponse)

    assert [ids(1001, epoch).first_producer_id, ids(1, 1).first_producer_id] == [0, 1000]
    assert ids(1001, epoch - 1).error is ControllerError.STALE_BROKER_EPOCH


def test_only_one_that_is_down_is_removed_and_its_epoch_is_not_used_again() -> None:
    cluster = CoordinatorCluster(1001)
    remove = RemoveMember(wall_ms=0, actor="ann", kind=MemberKind.COORDINATOR, member_id=1001)
    assert cluster.ask(remove, Refusal).code is RefusalCode.COORDINATOR_IN_USE
    epoch = cluster.image.coordinators[1001].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=epoch))
    cluster.ask(remove, MemberRemoved)
    assert not cluster.image.coordinators
    assert cluster.ask(remove, Refusal).code is RefusalCode.UNKNOWN_COORDINATOR
    cluster.fail_over()
    assert cluster.register_coordinator(1001).broker_epoch > epoch


def test_a_dry_run_writes_nothing() -> None:
    cluster = CoordinatorCluster(1001)
    event = MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), draining=True, dry_run=True)
    reply = cluster.ask(event, CoordinatorsChanged)
    assert reply.coordinators[0].draining
    assert cluster.last.records == ()


def test_coordinators_are_told_of_in_the_stream_and_poll_it() -> None:
    cluster = CoordinatorCluster(1001)
    coordinator = cluster.image.coordinators[1001]
    poll = PollRequest(broker_id=1001, broker_epoch=coordinator.coordinator_epoch)
    update = build_update(cluster.image, poll, controller_epoch=1)
    assert update is not None
    assert update.full
    (told,) = update.coordinators
    assert (told.broker_id, told.host, told.active) == (1001, "desk1001", True)
    assert [b.broker_id for b in update.brokers] == [1, 2, 3]
    sequence = cluster.image.sequence
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=coordinator.coordinator_epoch))
    poll = PollRequest(
        broker_id=1,
        broker_epoch=BrokerEpoch(1),
        applied_controller_epoch=ControllerEpoch(1),
        applied_sequence=sequence,
    )
    update = build_update(cluster.image, poll, controller_epoch=1)
    assert update is not None
    assert [c.active for c in update.coordinators] == [False]
    cluster.step(RemoveMember(wall_ms=0, actor="ann", kind=MemberKind.COORDINATOR, member_id=1001))
    update = build_update(cluster.image, poll, controller_epoch=1)
    assert update is not None
    assert update.removed_coordinators == (1001,)
    stale = PollRequest(broker_id=1001, broker_epoch=BrokerEpoch(1))
    assert build_update(cluster.image, stale, controller_epoch=1).error is (  # type: ignore[union-attr]
        ControllerError.BROKER_NOT_REGISTERED
    )


# --- the topic ---


def test_the_topic_is_created_when_the_first_coordinator_is_active() -> None:
    cluster = CoordinatorCluster()
    assert OFFSETS not in cluster.image.topic_ids
    cluster.join(1001)
    topic = cluster.image.topic_named(OFFSETS)
    assert topic is not None
    assert (topic.partitions, topic.replication_factor, topic.configs) == (SHARDS, 3, PINNED)
    assert cluster.shard_state().min_insync_replicas == 2
    change = next(r.change for r in cluster.records if getattr(r, "state", None) == topic)
    assert (change.cause, change.actor) == (Cause.TOPIC_CREATED, "controller")
    cluster.step(Tick(wall_ms=0, fresh_id="another-0000000000id00"))
    assert cluster.last.records == ()


def test_the_topic_of_transactions_is_created_when_a_client_asks_at_a_level_that_has_them() -> None:
    cluster = CoordinatorCluster(1001)
    cluster.finalize()
    cluster.step(Tick(wall_ms=0, fresh_id=TRANSACTIONS_ID))
    assert TRANSACTIONS_ID not in cluster.image.topics
    cluster = CoordinatorCluster(1001)
    ask_for_transactions(cluster)
    for level in (TRANSACTIONS.since - 1, TRANSACTIONS.since):
        cluster.finalize(Level(level))
        cluster.step(Tick(wall_ms=0, fresh_id=TRANSACTIONS_ID))
        assert (TRANSACTIONS_ID in cluster.image.topics) == (level == TRANSACTIONS.since)
    topic = cluster.image.topics[TRANSACTIONS_ID]
    assert (topic.topic, topic.partitions, topic.configs) == (TRANSACTIONS_TOPIC, SHARDS, PINNED)
    state = cluster.image.partitions[TRANSACTIONS_ID, 0]
    assert state.shard is not None
    assert state.shard.owner == 1001
    cluster.step(Tick(wall_ms=0, fresh_id="another-0000000000id00"))
    assert cluster.last.records == ()


def ask_for_transactions(cluster: CoordinatorCluster) -> None:
    """A client asks the first coordinator."""
    row = cluster.image.coordinators[1001]
    request = HeartbeatRequest(
        broker_id=1001,
        broker_epoch=row.coordinator_epoch,
        incarnation_id=row.incarnation_id,
        wants_transactions=True,
    )
    received_ms = cluster.now_ms
    kind = MemberKind.COORDINATOR
    cluster.step(Heartbeat(wall_ms=0, request=request, received_ms=received_ms, kind=kind))


def test_one_coordinator_topic_is_created_with_each_tick() -> None:
    cluster = CoordinatorCluster()
    cluster.finalize()
    cluster.join(1001)
    ask_for_transactions(cluster)
    assert [topic.topic for topic in cluster.image.topics.values()] == [OFFSETS]
    cluster.step(Tick(wall_ms=0, fresh_id=TRANSACTIONS_ID))
    assert [topic.topic for topic in cluster.image.topics.values()] == [OFFSETS, TRANSACTIONS_TOPIC]


def test_each_topics_shards_are_spread_evenly_when_another_coordinator_comes() -> None:
    cluster = CoordinatorCluster()
    cluster.finalize()
    cluster.join(1001, 1002)
    ask_for_transactions(cluster)
    cluster.step(Tick(wall_ms=0, fresh_id=TRANSACTIONS_ID))
    cluster.join(1003)
    for _ in range(3):
        for coordinator_id in (1001, 1002, 1003):
            cluster.beat(coordinator_id, level=True)
            cluster.beat(coordinator_id, level=True, topic_id=TRANSACTIONS_ID)
    for topic_id in (OFFSETS_ID, TRANSACTIONS_ID):
        owned = Counter(
            state.shard.owner for state in cluster.image.partitions_of(topic_id) if state.shard is not None
        )
        assert sorted(owned.values()) == [16, 17, 17]


@pytest.mark.parametrize(
    ("brokers", "factor", "minimum"), [((1,), 1, 1), ((1, 2), 2, 2), ((1, 2, 3, 4), 3, 2)]
)
def test_a_small_cluster_has_as_many_replicas_as_it_has_members(
    brokers: tuple[int, ...], factor: int, minimum: int
) -> None:
    cluster = CoordinatorCluster(1001, brokers=brokers)
    state = cluster.shard_state()
    assert (len(state.replicas), state.min_insync_replicas) == (factor, minimum)


def test_three_members_of_which_one_is_down_are_waited_for() -> None:
    cluster = CoordinatorCluster()
    cluster.kill(3)
    cluster.join(1001)
    assert OFFSETS not in cluster.image.topic_ids
    cluster.restart(3)
    cluster.step(Tick(wall_ms=0, fresh_id=OFFSETS_ID))
    assert len(cluster.shard_state().replicas) == 3


def test_its_minimum_in_sync_is_a_majority_whatever_the_clusters_default() -> None:
    cluster = CoordinatorCluster()
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "1"}))
    cluster.join(1001)
    assert cluster.shard_state().min_insync_replicas == 2
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs={"min.insync.replicas": "3"}))
    cluster.fail_over()
    assert cluster.shard_state().min_insync_replicas == 2


@pytest.mark.parametrize(
    "event",
    [
        DeleteTopic(wall_ms=0, actor="ann", topic=OFFSETS),
        AddPartitions(wall_ms=0, actor="ann", topic=OFFSETS, partitions=60),
        ConfigureTopic(wall_ms=0, actor="ann", topic=OFFSETS, configs={"retention.ms": "1"}),
        ConfigureTopic(wall_ms=0, actor="ann", topic=OFFSETS, configs={"min.insync.replicas": "1"}),
        ConfigureTopic(wall_ms=0, actor="ann", topic=OFFSETS, configs={"max.message.bytes": None}),
        CreateTopic(wall_ms=0, actor="ann", topic=OFFSETS, topic_id="x" * 22, partitions=1),
        CreateTopic(wall_ms=0, actor="ann", topic=TRANSACTIONS_TOPIC, topic_id="x" * 22, partitions=1),
    ],
)
def test_operators_do_not_change_what_it_rests_on(event: DeleteTopic | CreateTopic) -> None:
    cluster = CoordinatorCluster(1001)
    refusal = cluster.ask(event, Refusal)
    assert refusal.code is RefusalCode.RESERVED_TOPIC
    assert cluster.last.records == ()


def test_its_other_settings_can_be_changed() -> None:
    cluster = CoordinatorCluster(1001)
    event = ConfigureTopic(wall_ms=0, actor="ann", topic=OFFSETS, configs={"flush.messages": "1"})
    assert cluster.ask(event, TopicConfigured).state.configs == {**PINNED, "flush.messages": "1"}


def test_a_coordinator_is_refused_as_a_replica_by_what_it_is() -> None:
    cluster = CoordinatorCluster(1001)
    assigned = CreateTopic(
        wall_ms=0, actor="ann", topic="orders", topic_id="x" * 22, assignments=((1, 1001),)
    )
    refusal = cluster.ask(assigned, Refusal)
    assert refusal.detail == "partition 0: 1001 is a coordinator: it has no disk and holds no replicas"
    target = ReassignmentTarget(topic_id=OFFSETS_ID, partition=0, replicas=(1, 2, 1001))
    moved = AlterReassignments(wall_ms=0, actor="ann", targets=(target,))
    (result,) = cluster.ask(moved, ReassignmentsAltered).results
    assert result.refusal is not None
    assert result.refusal.detail == "1001 is a coordinator: it has no disk and holds no replicas"


def test_an_ordinary_topic_of_that_name_is_an_alarm_until_it_is_deleted() -> None:
    cluster = CoordinatorCluster()
    cluster.create((1, 2, 3))
    cluster.records = [_named_as_reserved(record) for record in cluster.records]
    cluster.fail_over()
    assert BLOCKED not in alarms(cluster), "nobody needs the name yet"
    cluster.join(1001)
    (alarm,) = (alarm for alarm in cluster.machine.alarms() if alarm.key == BLOCKED)
    assert f"`springtide topics delete {OFFSETS}`" in alarm.detail
    cluster.fail_over()
    assert BLOCKED in alarms(cluster)
    cluster.beat(1001)
    assert not cluster.shards
    cluster.ask(DeleteTopic(wall_ms=0, actor="ann", topic=OFFSETS), TopicDeletionStarted)
    assert BLOCKED not in alarms(cluster)
    cluster.step(Tick(wall_ms=0, fresh_id=OFFSETS_ID))
    assert not cluster.shards, "the name is not free before its leaders have stopped"
    cluster.beat_all()
    cluster.step(Tick(wall_ms=0, fresh_id=OFFSETS_ID))
    assert cluster.owned == {1001: SHARDS}


def test_an_ordinary_topic_is_in_the_way_of_transactions_from_their_level_on() -> None:
    cluster = CoordinatorCluster()
    cluster.create((1, 2, 3))
    cluster.records = [_named_as_reserved(record, TRANSACTIONS_TOPIC) for record in cluster.records]
    cluster.fail_over()
    cluster.join(1001)
    assert BLOCKED not in alarms(cluster)
    cluster.finalize()
    cluster.fail_over()
    cluster.beat(1001)
    (alarm,) = (alarm for alarm in cluster.machine.alarms() if alarm.key == BLOCKED)
    assert "no transactions can be served" in alarm.detail


def _named_as_reserved(record: Record, name: str = OFFSETS) -> Record:
    """The row as an older controller wrote it for a topic that a user called so."""
    if not isinstance(record, PartitionRecord | TopicRecord):
        return record
    return msgspec.structs.replace(record, state=msgspec.structs.replace(record.state, topic=name))


# --- shards ---


def test_shards_are_spread_evenly_and_each_has_a_standby_that_is_not_its_owner() -> None:
    cluster = CoordinatorCluster()
    cluster.join(1001, 1002, 1003)
    assert sorted(cluster.owned.values()) == [16, 17, 17]
    assert all(shard.owner != shard.standby != NO_COORDINATOR for shard in cluster.shards.values())
    assert max(cluster.followed.values()) - min(cluster.followed.values()) <= 2


def test_one_coordinator_has_all_shards_and_no_standby() -> None:
    cluster = CoordinatorCluster(1001)
    assert cluster.owned == {1001: SHARDS}
    assert cluster.followed == {NO_COORDINATOR: SHARDS}


def test_one_that_joins_gets_its_share_once_it_is_level_and_nothing_else_moves() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    cluster.beat_coordinators(level=True)
    before = {key: shard.owner for key, shard in cluster.shards.items()}
    assert cluster.owned == {1001: 25, 1002: 25}
    cluster.join(1003)
    cluster.beat_coordinators()
    assert cluster.owned == {1001: 25, 1002: 25}  # 1003 follows what it is to have, and is not level yet
    assert cluster.followed[1003] >= 16
    cluster.beat_coordinators(level=True)
    assert sorted(cluster.owned.values()) == [16, 17, 17]
    moved = {key for key, shard in cluster.shards.items() if shard.owner != before[key]}
    assert {cluster.shards[key].owner for key in moved} == {1003}
    assert len(moved) == cluster.owned[1003]
    records = len(cluster.records)
    cluster.beat_coordinators(level=True)
    assert len(cluster.records) == records  # at rest


def test_a_dead_owners_shards_go_to_their_standbys_at_once() -> None:
    cluster = CoordinatorCluster(1001, 1002, 1003)
    cluster.beat_coordinators(level=True)
    before = cluster.shards
    epoch = cluster.image.coordinators[1001].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=epoch))
    for key, shard in cluster.shards.items():
        assert shard.owner == (before[key].standby if before[key].owner == 1001 else before[key].owner)
        assert shard.standby not in (1001, shard.owner)
    assert {r.change.cause for r in cluster.last.records} == {Cause.COORDINATOR_FENCED, Cause.SHARD_ASSIGNED}


def test_a_drained_coordinator_is_emptied_as_others_become_level() -> None:
    cluster = CoordinatorCluster()
    cluster.join(1001, 1002)
    cluster.step(MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), draining=True))
    assert cluster.owned == {1001: 25, 1002: 25}
    assert set(cluster.followed) <= {1002, NO_COORDINATOR}
    mine = [key[1] for key, shard in cluster.shards.items() if shard.owner == 1001]
    cluster.beat(1002, level=mine[:5])
    assert cluster.owned == {1001: 20, 1002: 30}
    cluster.beat_coordinators(level=True)
    assert cluster.owned == {1002: SHARDS}
    assert cluster.followed == {NO_COORDINATOR: SHARDS}
    cluster.step(MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), draining=False))
    cluster.beat_coordinators(level=True)
    assert cluster.owned == {1001: 25, 1002: 25}


def drain(cluster: CoordinatorCluster, coordinator_id: int, is_draining: bool) -> None:
    cluster.step(
        MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(coordinator_id,), draining=is_draining)
    )


def owners_of(records: Iterable[Record]) -> dict[int, list[int]]:
    """Return each shard's owners, one after the other."""
    found: dict[int, list[int]] = {}
    for record in records:
        if isinstance(record, PartitionRecord) and record.state.shard is not None:
            owners = found.setdefault(record.state.partition, [])
            if owners[-1:] != [record.state.shard.owner]:
                owners.append(record.state.shard.owner)
    return found


def roll(cluster: CoordinatorCluster, *coordinator_ids: int) -> None:
    """Drain each and take it back, with time in between."""
    for coordinator_id in coordinator_ids:
        for is_draining in (True, False):
            drain(cluster, coordinator_id, is_draining)
            for _ in range(4):
                cluster.beat_coordinators(level=True)


def test_a_drain_moves_each_shard_of_the_drained_coordinator_once_and_no_other() -> None:
    cluster = CoordinatorCluster()
    cluster.join(1001, 1002, 1003)
    roll(cluster, 1001, 1002)
    before, records = cluster.shards, len(cluster.records)
    drain(cluster, 1003, True)
    for _ in range(4):
        cluster.beat_coordinators(level=True)
    assert cluster.owned == {1001: 25, 1002: 25}
    for number, owners in owners_of(cluster.records[records:]).items():
        first = before[OFFSETS_ID, number].owner
        assert len({first, *owners}) == (2 if first == 1003 else 1)
        assert owners.count(first) <= 1, "it does not come back"


def test_the_standbys_of_an_owner_are_spread_so_that_its_death_leaves_no_other_with_too_many() -> None:
    cluster = CoordinatorCluster()
    cluster.join(1001, 1002, 1003)
    roll(cluster, 1001, 1002, 1003)
    before = cluster.owned
    epoch = cluster.image.coordinators[1001].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=epoch))
    assert cluster.owned == {1002: 25, 1003: 25}, before
    owned = {key: shard.owner for key, shard in cluster.shards.items()}
    cluster.beat_coordinators(level=True)
    assert owned == {key: shard.owner for key, shard in cluster.shards.items()}, "nor does any move again"


def test_a_demoted_coordinator_owns_nothing_while_another_can_and_goes_on_following() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    cluster.step(MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), demoted=True))
    cluster.beat_coordinators(level=True)
    assert (cluster.owned, cluster.followed) == ({1002: SHARDS}, {1001: SHARDS})
    epoch = cluster.image.coordinators[1002].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1002, broker_epoch=epoch))
    assert cluster.owned == {1001: SHARDS}


def test_a_coordinator_that_was_level_before_it_was_named_standby_says_so_again_first() -> None:
    """Between, it may have forgotten what it followed."""
    cluster = CoordinatorCluster(1001, 1002)
    cluster.beat_coordinators(level=True)
    mine = {key for key, shard in cluster.shards.items() if shard.owner == 1001}
    for coordinator_id in (1001, 1002):
        cluster.beat(coordinator_id, level=range(SHARDS))
    cluster.step(MaintainCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), demoted=True))
    assert cluster.owned == {1002: SHARDS}
    sequence = cluster.image.sequence
    for coordinator_id in (1001, 1002):
        demoted = MaintainCoordinators(
            wall_ms=0, actor="ann", coordinator_ids=(coordinator_id,), demoted=coordinator_id == 1002
        )
        cluster.step(demoted)
    assert {cluster.shards[key].owner for key in mine} == {1002}
    cluster.beat(1001, level=range(SHARDS), applied=sequence - 1)  # before it heard that it is the standby
    assert {cluster.shards[key].owner for key in mine} == {1002}
    cluster.beat(1001, level=range(SHARDS))
    assert cluster.owned == {1001: SHARDS}


def test_what_a_standby_says_is_heard_although_it_said_the_same_before_it_was_named() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    cluster.beat(1002, level=range(SHARDS))
    assert cluster.owned == {1001: 25, 1002: 25}
    epoch = cluster.image.coordinators[1002].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1002, broker_epoch=epoch))
    cluster.beat(1002, level=range(SHARDS))
    assert (cluster.owned, cluster.followed) == ({1001: SHARDS}, {1002: SHARDS})
    cluster.beat(1002, level=range(SHARDS))
    assert cluster.owned == {1001: 25, 1002: 25}


def test_no_coordinator_alive_is_an_alarm_and_no_owner() -> None:
    cluster = CoordinatorCluster(1001)
    assert NOBODY not in alarms(cluster)
    epoch = cluster.image.coordinators[1001].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=epoch))
    assert cluster.owned == {NO_COORDINATOR: SHARDS}
    assert NOBODY in alarms(cluster)
    cluster.fail_over()
    assert NOBODY in alarms(cluster)
    cluster.register_coordinator(1001, "b")
    cluster.beat(1001)
    assert NOBODY not in alarms(cluster)
    assert cluster.owned == {1001: SHARDS}


_steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "die", "drain", "demote", "back", "level", "fail over"]),
        st.integers(1001, 1004),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(_steps)
def test_whatever_happens_every_shard_is_served_and_in_the_end_evenly(steps: list[tuple[str, int]]) -> None:
    cluster = CoordinatorCluster(1001)
    incarnations = 0
    for step, coordinator_id in steps:
        coordinator = cluster.image.coordinators.get(coordinator_id)
        if step == "fail over":
            cluster.fail_over()
        elif step == "join" or coordinator is None:
            if coordinator is None:
                cluster.join(coordinator_id)
            elif coordinator.fenced:
                incarnations += 1
                cluster.register_coordinator(coordinator_id, f"i{incarnations}")
                cluster.beat(coordinator_id)
        elif step == "die":
            epoch = coordinator.coordinator_epoch
            cluster.step(BrokerProvenDead(wall_ms=0, broker_id=coordinator_id, broker_epoch=epoch))
        elif step == "level":
            if coordinator.is_active:
                cluster.beat(coordinator_id, level=True)
        else:
            cluster.step(
                MaintainCoordinators(
                    wall_ms=0,
                    actor="ann",
                    coordinator_ids=(coordinator_id,),
                    draining={"drain": True, "back": False}.get(step),
                    demoted={"demote": True, "back": False}.get(step),
                )
            )
        check_served(cluster)
    cluster.beat_coordinators(level=True)
    active = {c for c, known in cluster.image.coordinators.items() if known.is_active}
    willing = {c for c in active if not cluster.image.coordinators[c].draining}
    owners = {c for c in willing if not cluster.image.coordinators[c].demoted} or willing
    if owners:
        assert set(cluster.owned) == owners
        assert max(cluster.owned.values()) - min(cluster.owned.values()) <= 1
    records = len(cluster.records)
    cluster.beat_coordinators(level=True)
    assert len(cluster.records) == records


def check_served(cluster: CoordinatorCluster) -> None:
    active = {c for c, known in cluster.image.coordinators.items() if known.is_active}
    for shard in cluster.shards.values():
        assert shard.owner in (active or {NO_COORDINATOR})
        assert shard.standby != shard.owner or shard.owner == NO_COORDINATOR
        assert shard.standby in {*active, NO_COORDINATOR}


# --- writers ---


def test_i27_each_request_of_the_owner_names_a_writer_above_all_before() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    shard = cluster.shards[OFFSETS_ID, 0]
    first = cluster.name_writer(shard.owner)
    second = cluster.name_writer(shard.owner)
    assert first.writer is not None
    assert second.writer is not None
    assert shard.writer < first.writer < second.writer
    assert {first.writer.producer_id, second.writer.producer_id} <= set(
        range(WRITER_IDS.start, WRITER_IDS.stop)[:99]
    )
    (record,) = cluster.last.records
    assert isinstance(record, PartitionRecord)
    assert record.state.shard == Shard(owner=shard.owner, standby=shard.standby, writer=second.writer)
    assert (record.change.cause, record.change.actor) == (Cause.WRITER_NAMED, f"coordinator:{shard.owner}")
    other = cluster.name_writer(shard.standby)
    assert (other.error, other.writer) == (ControllerError.NOT_COORDINATOR, None)


def test_i27_a_new_owner_gets_its_writer_with_the_shard() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    for state in cluster.image.partitions.values():
        if state.shard is not None:
            assert state.shard.opener_epoch == cluster.image.coordinators[state.shard.owner].coordinator_epoch
    before = cluster.shards[OFFSETS_ID, 0]
    epoch = cluster.image.coordinators[before.owner].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=before.owner, broker_epoch=epoch))
    state = cluster.shard_state()
    assert state.shard is not None
    assert state.shard.owner == before.standby
    assert state.shard.writer == WriterId(WRITER_IDS.start + state.partition_epoch) > before.writer
    assert state.shard.opener_epoch == cluster.image.coordinators[before.standby].coordinator_epoch
    cluster.register_coordinator(before.owner, "anew")
    cluster.beat(before.owner)
    followed = cluster.shards[OFFSETS_ID, 0]
    assert (followed.owner, followed.standby) == (before.standby, before.owner)
    assert followed.writer == state.shard.writer, "a standby needs none"
    named = cluster.name_writer(followed.owner).writer
    assert cluster.shards[OFFSETS_ID, 0].writer == named
    assert cluster.shards[OFFSETS_ID, 0].opener_epoch == NO_EPOCH


def test_i27_an_election_or_a_new_owner_never_brings_a_writer_back() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    seen: list[WriterId] = []
    for _ in range(3):
        shard = cluster.shards[OFFSETS_ID, 0]
        writer = cluster.name_writer(shard.owner).writer
        assert writer is not None
        seen.append(writer)
        cluster.kill(cluster.shard_state().leader)
        epoch = cluster.image.coordinators[shard.owner].coordinator_epoch
        cluster.step(BrokerProvenDead(wall_ms=0, broker_id=shard.owner, broker_epoch=epoch))
        cluster.fail_over()
        cluster.register_coordinator(shard.owner, f"i{len(seen)}")
        cluster.beat(shard.owner)
    assert seen == sorted(set(seen))


def test_a_stale_coordinator_is_named_no_writer() -> None:
    cluster = CoordinatorCluster(1001)
    request_epoch = cluster.image.coordinators[1001].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=request_epoch))
    assert cluster.name_writer(1001).error is ControllerError.NOT_COORDINATOR
    assert cluster.name_writer(1001, 99).error is ControllerError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_writer_in_a_log_that_can_not_have_been_named_proves_that_zookeeper_went_back() -> None:
    cluster = CoordinatorCluster(1001)
    newest = WriterId(WRITER_IDS.start + cluster.shard_state().partition_epoch)
    assert cluster.name_writer(1001, found=newest).error is ControllerError.NONE
    beyond = WriterId(WRITER_IDS.start + cluster.shard_state().partition_epoch + 1)
    assert cluster.name_writer(1001, found=beyond).error is ControllerError.METADATA_WENT_BACK
    assert cluster.machine.went_back is not None
    assert "found writer" in cluster.machine.went_back
    assert AlarmKey(code=AlarmCode.METADATA_WENT_BACK) in alarms(cluster)


def test_rows_of_coordinators_and_shards_outlive_the_controller() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    before = (cluster.image.coordinators, cluster.shards)
    cluster.fail_over()
    assert (cluster.image.coordinators, cluster.shards) == before
    assert not any(isinstance(r, MemberRecord | PartitionRecord) for r in cluster.last.records)


# --- their groups ---


def test_a_group_is_an_alarm_as_long_as_a_coordinator_tells_of_it() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    lags, restless, pending, unassigned = (
        GroupTrouble(group_id="billing", code=code, detail=f"billing: {code}")
        for code in ("lag_grows", "unsettled", "offsets_pending", "not_assigned")
    )
    unknown = GroupTrouble(group_id="billing", code="of a later release", detail="?")

    def told(coordinator_id: int, *troubles: GroupTrouble) -> list[tuple[AlarmCode, str | None, str]]:
        cluster.beat(coordinator_id, groups=GroupNews(troubles=troubles) if troubles else None)
        return [(alarm.key.code, alarm.key.group_id, alarm.detail) for alarm in cluster.machine.alarms()]

    growing = (AlarmCode.GROUP_LAG_GROWS, "billing", "billing: lag_grows")
    unsettled = (AlarmCode.GROUP_UNSETTLED, "billing", "billing: unsettled")
    assert told(1001, lags, restless, unknown) == [unsettled, growing]
    assert told(1002) == [unsettled, growing]
    assert [code for code, _, _ in told(1001, pending, unassigned)] == [
        AlarmCode.GROUP_OFFSETS_PENDING,
        AlarmCode.GROUP_NOT_ASSIGNED,
    ]
    assert told(1001, lags) == [growing]
    assert not cluster.last.records, "nothing is stored of it"
    assert told(1002, lags) == told(1001) == [growing], "the shard is at another coordinator now"
    epoch = cluster.image.coordinators[1002].coordinator_epoch
    cluster.step(BrokerProvenDead(wall_ms=0, broker_id=1002, broker_epoch=epoch))
    assert told(1001) == [], "no one tells of it any more"


def test_a_transaction_lingers_as_long_as_its_coordinator_tells_so() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    one = LingeringTransaction(
        transactional_id="pay-1",
        producer_id=7,
        producer_epoch=3,
        state="Ongoing",
        since_ms=1_700_000_000_000,
        timeout_ms=60_000,
        partitions=2,
    )
    known = msgspec.structs.replace(one, client_id="pay\nments", client_host="10.0.0.7")
    decided = msgspec.structs.replace(one, state="PrepareAbort")

    def told(coordinator_id: int, *lingering: LingeringTransaction) -> list[tuple[str | None, str]]:
        news = TransactionNews(lingering=lingering) if lingering else None
        cluster.beat(coordinator_id, transactions=news)
        return [(alarm.key.transactional_id, alarm.detail) for alarm in cluster.machine.alarms()]

    began = "transaction 'pay-1' (producer 7, epoch 3) began at 2023-11-14T22:13:20Z with a timeout of 60 s,"
    assert told(1001, one) == [
        (
            "pay-1",
            f"{began} and is Ongoing in 2 partitions: its coordinator should have ended it; "
            "`springtide transactions abort` does it now, and says with --dry-run what that frees",
        )
    ]
    ((_, of_known),) = told(1001, known)
    assert "(producer 7, epoch 3, client 'pay\\nments' at 10.0.0.7) began" in of_known
    assert told(1001, decided) == [
        (
            "pay-1",
            f"{began} and is PrepareAbort in 2 partitions: its end is decided, and a marker of it is not "
            "written yet; are all of its partitions' leaders there?",
        )
    ]
    assert len(told(1002, decided)) == len(told(1001)) == 1, "the shard is at another coordinator now"
    assert told(1002) == []
