"""Replicas move: grow first, shrink last, and at each step no fewer in sync than the minimum."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.alarms import replica_alarm
from controller.core.assignment import Obstacle, completed, first_leader, grown, rolled_back
from controller.core.effects import AlarmCode, ClearAlarm
from controller.core.events import (
    AlterReassignments,
    ClusterConfigured,
    ConfigureCluster,
    ConfigureTopic,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
    TopicConfigured,
)
from controller.core.image import ClusterImage
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord, TopicRecord
from springtide.contract.epochs import ControllerEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import NO_LEADER, PartitionState
from springtide.contract.session import ShutdownKind
from springtide.contract.updates import ApplyFailure, PollRequest
from tests.kit.controller.core_cluster import Cluster, changed, seats, topic_id
from tests.kit.controller.images import build_update


def cluster_of(*replicas: int, minimum: str | None = "2", brokers: int = 5) -> Cluster:
    """One partition on `replicas`, of so many brokers. minimum: the topic's own; None: it has none."""
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False), brokers=tuple(range(1, brokers + 1)))
    cluster.create(replicas, configs={} if minimum is None else {"min.insync.replicas": minimum})
    return cluster


def refusal_of(result: PartitionResult) -> Refusal:
    assert result.refusal is not None
    return result.refusal


def cause_of(cluster: Cluster) -> Cause:
    records = [r for r in cluster.last.records if isinstance(r, PartitionRecord)]
    return records[-1].change.cause


# --- growing --------------------------------------------------------------------------------


def test_a_partition_grows_first_and_what_goes_stays_until_the_end() -> None:
    cluster = cluster_of(1, 2, 3)
    before = cluster.partition()
    result = cluster.reassign(4, 2, 5)
    after = cluster.partition()
    assert result.state == after
    assert after == changed(
        before,
        replicas=(4, 2, 5, 1, 3),
        adding_replicas=(4, 5),
        removing_replicas=(1, 3),
        original_replicas=(1, 2, 3),
        new_replicas=(2, 1, 3),
        isr=(2, 1, 3),
        partition_epoch=before.partition_epoch + 1,
    )
    assert (after.target_replicas, after.replication_factor) == ((4, 2, 5), 3)
    assert cause_of(cluster) is Cause.REASSIGNMENT_STARTED
    assert list(cluster.image.reassigning) == [(topic_id(), 0)]


def test_it_is_complete_in_the_write_that_adds_the_last_target() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    growing = cluster.partition()
    result = cluster.propose(1, 2, 3, 4)
    after = cluster.partition()
    assert [type(r) for r in cluster.last.records] == [PartitionRecord]
    assert cause_of(cluster) is Cause.REASSIGNMENT_COMPLETED
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 4), (1, 2, 4), 1)
    assert not after.is_reassigning
    assert after.partition_epoch == growing.partition_epoch + 1
    assert after.leader_epoch == growing.leader_epoch + 1, "S26: a replica was dropped"
    assert (result.error, result.state) == (ControllerError.NONE, after)
    assert not cluster.image.reassigning
    assert (topic_id(), 0) not in cluster.image.replicas_of[3]


def test_a_leader_that_goes_hands_over_in_the_same_write_and_is_told() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 2, 3)
    result = cluster.propose(1, 2, 3, 4)
    after = cluster.partition()
    assert (after.leader, after.isr, after.replicas) == (4, (4, 2, 3), (4, 2, 3))
    assert (result.error, result.state) == (ControllerError.NEW_LEADER_ELECTED, after)


def test_all_targets_must_be_in_sync_not_just_enough_of_them() -> None:
    """KAFKA-15665"""
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 4, 5)
    cluster.propose(1, 2, 3, 4)
    assert cluster.partition().is_reassigning
    assert cluster.partition().isr == (1, 4, 2, 3)
    cluster.propose(1, 2, 3, 4, 5)
    assert cluster.partition().replicas == cluster.partition().isr == (1, 4, 5)


def waits_for_a_leader() -> Cluster:
    """Broker 2 is the target and shuts down, in sync as yet because broker 3 may still join."""
    cluster = cluster_of(1, 2, 3, minimum=None)
    cluster.propose(1, 2)
    assert not cluster.heartbeat(2, wants_shutdown=True).may_shut_down
    cluster.reassign(2)
    state = cluster.partition()
    assert (state.replicas, state.leader, state.isr) == ((2, 1, 3), 1, (2, 1))
    assert state.is_reassigning
    return cluster


def test_a_target_that_may_not_lead_does_not_take_over_and_the_move_waits() -> None:
    cluster = waits_for_a_leader()
    cluster.restart(2, last_shutdown=ShutdownKind.CLEAN)
    assert seats(cluster.partition()) == (1, (1,), (2,))
    cluster.propose(2, 1)
    assert (cluster.partition().replicas, *seats(cluster.partition())) == ((2,), 2, (2,), ())


def test_a_partition_without_a_leader_drops_nobody_until_it_has_one() -> None:
    cluster = waits_for_a_leader()
    cluster.kill(1)
    state = cluster.partition()
    assert (state.leader, state.isr, state.replicas) == (NO_LEADER, (2,), (2, 1, 3))
    cluster.restart(2, last_shutdown=ShutdownKind.CLEAN)
    # Elected from the ELR, and complete in the same step.
    assert (cluster.partition().replicas, *seats(cluster.partition())) == ((2,), 2, (2,), ())
    assert cause_of(cluster) is Cause.REASSIGNMENT_COMPLETED


def test_fewer_replicas_go_at_once_when_the_rest_is_in_sync_and_else_when_it_is() -> None:
    cluster = cluster_of(1, 2, 3)
    assert cluster.reassign(2, 3).state == cluster.partition()
    after = cluster.partition()
    assert (after.replicas, after.leader, after.isr) == ((2, 3), 2, (2, 3))
    assert cause_of(cluster) is Cause.REASSIGNMENT_COMPLETED

    cluster = cluster_of(1, 2, 3)
    cluster.propose(1, 2)
    cluster.reassign(1, 3)
    assert cluster.partition().is_reassigning
    cluster.propose(1, 2, 3)
    assert (cluster.partition().replicas, cluster.partition().isr) == ((1, 3), (1, 3))


def test_another_order_is_there_at_once_whoever_is_in_sync() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.propose(1, 2)
    before = cluster.partition()
    cluster.reassign(3, 2, 1)
    after = cluster.partition()
    assert (after.replicas, after.isr, after.leader) == ((3, 2, 1), (2, 1), 1)
    assert (after.leader_epoch, after.is_reassigning) == (before.leader_epoch, False)


def test_asking_for_what_is_there_or_on_its_way_writes_nothing() -> None:
    cluster = cluster_of(1, 2, 3)
    assert cluster.reassign(1, 2, 3).refusal is None
    assert cluster.last.records == ()
    cluster.reassign(1, 2, 4)
    growing = cluster.partition()
    assert cluster.reassign(1, 2, 4).state == growing
    assert cluster.last.records == ()


def test_the_minimum_and_the_topics_factor_follow_the_number_of_replicas() -> None:
    """4.2 (reassignment), 2.6 (the minimum): without a configured minimum it is a majority of the replicas
    that there are."""
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False), brokers=(1, 2, 3, 4, 5))
    cluster.create((1, 2, 3))
    assert cluster.partition().min_insync_replicas == 2
    cluster.reassign(1, 2, 3, 4, 5)
    assert cluster.partition().min_insync_replicas == 2, "until it is complete"
    cluster.propose(1, 2, 3, 4, 5)
    assert cluster.partition().min_insync_replicas == 3
    assert [type(r) for r in cluster.last.records] == [PartitionRecord, TopicRecord]
    assert cluster.image.topics[topic_id()].replication_factor == 5
    cluster.reassign(2)
    assert cluster.partition().min_insync_replicas == 1
    assert cluster.image.topics[topic_id()].replication_factor == 1


def test_no_partition_shrinks_below_the_minimum_that_its_topic_sets() -> None:
    cluster = cluster_of(1, 2, 3, minimum="3")
    for dry_run in (True, False):
        refusal = refusal_of(cluster.reassign(1, 2, dry_run=dry_run))
        assert (refusal.code, refusal.field) == (RefusalCode.INVALID_REPLICATION_FACTOR, "replicas")
        assert refusal.limit == 3
        assert refusal.detail == ("2 replicas are fewer than the topic's own min.insync.replicas, 3")
    assert cluster.last.records == ()
    assert cluster.reassign(1, 2, 4).refusal is None, "as many replicas as before"
    assert cluster.cancel().refusal is None


def test_a_move_on_its_way_to_more_replicas_is_not_bent_to_fewer_than_the_minimum() -> None:
    cluster = cluster_of(1, 2, minimum="2")
    cluster.reassign(1, 2, 3)
    configs: dict[str, str | None] = {"min.insync.replicas": "3"}
    cluster.ask(ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs=configs), TopicConfigured)
    refusal = refusal_of(cluster.reassign(1, 4))
    assert refusal.code is RefusalCode.INVALID_REPLICATION_FACTOR
    assert cluster.cancel().refusal is None, "back is always a way"
    assert cluster.partition().min_insync_replicas == 2


def test_a_default_above_the_replicas_that_are_to_remain_keeps_no_partition_from_shrinking() -> None:
    cluster = cluster_of(1, 2, 3, minimum=None)
    configs: dict[str, str | None] = {"min.insync.replicas": "3"}
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs=configs), ClusterConfigured)
    assert cluster.partition().min_insync_replicas == 3
    assert cluster.reassign(1, 2).refusal is None
    assert cluster.partition().min_insync_replicas == 2


def test_a_topics_factor_that_a_crash_left_behind_is_set_right_by_the_next_controller() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2)
    assert isinstance(cluster.records[-1], TopicRecord)
    cluster.fail_over(cluster.records[:-1])
    assert cluster.image.topics[topic_id()].replication_factor == 2


# --- another wish, and none at all ------------------------------------------------------------------------


def test_another_target_drops_the_learners_it_does_not_need_and_grows_on_in_one_write() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    growing = cluster.partition()
    cluster.reassign(1, 2, 5)
    after = cluster.partition()
    assert len(cluster.last.records) == 1
    assert after.replicas == (1, 2, 5, 3)
    assert (after.adding_replicas, after.removing_replicas) == ((5,), (3,))
    assert after.original_replicas == (1, 2, 3)
    assert after.leader_epoch == growing.leader_epoch + 1, "broker 4 was dropped"
    assert (topic_id(), 0) not in cluster.image.replicas_of[4]


def test_another_target_that_needs_the_same_learners_keeps_the_leader_epoch() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    growing = cluster.partition()
    cluster.reassign(4, 5, 1)
    after = cluster.partition()
    assert (after.replicas, after.original_replicas) == ((4, 5, 1, 2, 3), (1, 2, 3))
    assert after.leader_epoch == growing.leader_epoch


def test_the_original_assignment_as_a_target_is_the_end_of_the_move_in_the_order_given() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    cluster.reassign(2, 1, 3)
    after = cluster.partition()
    assert (after.replicas, after.is_reassigning) == ((2, 1, 3), False)


def test_a_cancelled_move_goes_back_to_the_order_that_was() -> None:
    cluster = cluster_of(1, 2, 3)
    before = cluster.partition()
    cluster.reassign(5, 3, 4)
    cluster.propose(1, 2, 3, 4)
    growing = cluster.partition()
    assert growing.isr == (3, 4, 1, 2)
    result = cluster.cancel()
    after = cluster.partition()
    assert result.state == after
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert (after.adding_replicas, after.removing_replicas, after.original_replicas) == ((), (), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert cause_of(cluster) is Cause.REASSIGNMENT_CANCELLED


def test_a_cancelled_move_takes_the_lead_from_a_learner_that_had_got_it() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 2, 5)
    cluster.propose(1, 2, 3, 4)
    cluster.kill(1)
    assert cluster.partition().leader == 4
    cluster.cancel()
    assert seats(cluster.partition()) == (2, (2, 3), ())


def test_a_cancellation_is_refused_while_the_learners_hold_the_minimum_up() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 5, 1)
    cluster.propose(1, 2, 3, 4)
    cluster.kill(2)
    cluster.kill(3)
    before = cluster.partition()
    assert before.isr == (4, 1)
    refusal = refusal_of(cluster.cancel())
    assert (refusal.code, refusal.limit) == (RefusalCode.REASSIGNMENT_NOT_SAFE, 2)
    assert "[1] are in sync" in refusal.detail
    assert cluster.partition() == before
    assert cluster.last.records == ()
    cluster.restart(2)
    cluster.propose(4, 1, 2)
    assert cluster.cancel().refusal is None
    assert seats(cluster.partition()) == (1, (1, 2), ())


def test_a_cancellation_that_takes_nobodys_seat_needs_no_minimum() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    cluster.kill(2)
    cluster.kill(3)
    assert cluster.partition().isr == (1,)
    assert cluster.cancel().refusal is None
    assert cluster.partition().replicas == (1, 2, 3)
    assert seats(cluster.partition()) == (1, (1,), (3,))


def test_there_is_nothing_to_cancel() -> None:
    assert refusal_of(cluster_of(1, 2, 3).cancel()).code is RefusalCode.NO_REASSIGNMENT_IN_PROGRESS


# --- what may be asked --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((), RefusalCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 1), RefusalCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 9), RefusalCode.UNKNOWN_BROKER),
        ((1, 2, 6), RefusalCode.UNKNOWN_BROKER),
        ((1, 2, 5), RefusalCode.INELIGIBLE_BROKER),
    ],
)
def test_an_impossible_assignment_is_refused(replicas: tuple[int, ...], code: RefusalCode) -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.register(6)  # waits to be admitted
    cluster.kill(5)
    before = cluster.partition()
    assert refusal_of(cluster.reassign(*replicas)).code is code
    assert cluster.partition() == before


def test_a_replica_that_is_down_may_stay_but_not_come() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.kill(3)
    assert cluster.reassign(1, 3, 4).refusal is None
    assert cluster.partition().removing_replicas == (2,)


def test_no_more_brokers_hold_a_partition_at_once_than_its_row_has_room_for() -> None:
    cluster = Cluster(ControllerOptions(replication_factor_max=3), brokers=(1, 2, 3, 4))
    cluster.create((1, 2))
    assert refusal_of(cluster.reassign(3, 4)).limit == 3
    assert cluster.reassign(1, 4).refusal is None


def test_of_several_targets_each_has_its_own_result() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), (2, 3, 1))

    def target(partition: int, *replicas: int, epoch: PartitionEpoch | None = None) -> ReassignmentTarget:
        return ReassignmentTarget(
            topic_id=topic_id(), partition=partition, replicas=replicas, partition_epoch=epoch
        )

    targets = (
        target(0, 1, 2, 4),
        target(7, 1),
        target(1, 2, 3, 4, epoch=PartitionEpoch(99)),
        target(0, 1, 2, 3),
    )
    event = AlterReassignments(wall_ms=5, actor="ann", operation_id="op-1", targets=targets)
    results = cluster.ask(event, ReassignmentsAltered).results
    assert [None if r.refusal is None else r.refusal.code for r in results] == [
        None,
        RefusalCode.UNKNOWN_PARTITION,
        RefusalCode.PARTITION_CHANGED,
        RefusalCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    (record,) = cluster.last.records
    assert (record.change.actor, record.change.operation_id) == ("ann", "op-1")
    assert results[2].state == cluster.partition(1)
    fitting = msgspec.structs.replace(event, targets=(target(1, 2, 3, 4, epoch=PartitionEpoch(0)),))
    assert cluster.ask(fitting, ReassignmentsAltered).results[0].refusal is None


def test_a_dry_run_answers_the_same_and_writes_nothing() -> None:
    cluster = cluster_of(1, 2, 3)
    dry = cluster.reassign(1, 2, 4, dry_run=True)
    assert cluster.last.records == ()
    assert cluster.reassign(1, 2, 4) == dry
    dry = cluster.cancel(dry_run=True)
    assert cluster.last.records == ()
    assert cluster.cancel() == dry


def test_a_topic_that_is_being_deleted_moves_no_more() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    cluster.delete()
    assert not cluster.image.reassigning
    assert refusal_of(cluster.reassign(1, 2, 5)).code is RefusalCode.UNKNOWN_PARTITION
    assert cluster.image.deletions[topic_id()].brokers == (1, 2, 3, 4)


# --- failures on the way --------------------------------------------------------------------------------


def test_the_next_controller_goes_on_from_the_row_alone() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 2, 5)
    growing = cluster.partition()
    cluster.fail_over()
    assert cluster.partition() == growing
    cluster.beat_all()
    cluster.propose(1, 2, 3, 4, 5)
    assert cluster.partition().replicas == (4, 2, 5)
    cluster.fail_over()
    assert cluster.last.records == ()


@pytest.mark.parametrize("cancels", [False, True])
def test_a_leader_that_dies_on_the_way_is_replaced_and_the_move_goes_on(cancels: bool) -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 5, 1)
    cluster.propose(1, 2, 3, 4)
    cluster.kill(1)
    assert seats(cluster.partition()) == (4, (4, 2, 3), ())
    cluster.restart(1)
    if cancels:
        cluster.cancel()
        assert cluster.partition().replicas == (1, 2, 3)
    else:
        cluster.propose(4, 5, 1, 2, 3)
        assert seats(cluster.partition()) == (4, (4, 5, 1), ())


def test_a_learner_has_no_seat_to_lose_or_to_be_elected_from() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 2, 3)
    for broker_id in (1, 2, 3):
        cluster.kill(broker_id)
    assert cluster.partition().leader == NO_LEADER
    cluster.kill(4)
    cluster.restart(4)
    assert cluster.partition().leader == NO_LEADER


def test_an_unclean_election_takes_a_learner_last() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    cluster.reassign(4, 1, 2)
    cluster.propose(1)
    cluster.kill(1)
    after = cluster.partition()
    assert (after.leader, after.unclean_leader_epoch) == (2, after.leader_epoch)


def test_nobody_is_alarmed_about_a_replica_that_was_moved_away() -> None:
    """L7 (alarms clear): the broker that could not keep it will never be in sync again, and need not be."""
    cluster = cluster_of(1, 2, 3)
    failure = ApplyFailure(
        topic_id=topic_id(), partition=0, partition_epoch=PartitionEpoch(0), code="storage_error"
    )
    cluster.applied(3, failure)
    assert [alarm.key.broker_id for alarm in cluster.machine.alarms()] == [3]
    cluster.reassign(1, 2)
    assert cluster.machine.alarms() == ()
    assert ClearAlarm(key=replica_alarm(AlarmCode.STORAGE_ERROR, (topic_id(), 0), 3)) in cluster.last.effects


def test_a_dropped_replica_is_told_so_and_a_learner_may_make_its_log() -> None:
    """I22 (deletion needs evidence), 3.8 (how a broker returns): the state without it is the evidence; one
    that stands in no set may create its log."""
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    growing = cluster.partition()
    assert 4 not in (*growing.isr, *growing.elr, growing.leader)
    position = cluster.image.sequence
    cluster.propose(1, 2, 3, 4)
    batch = build_update(
        cluster.image,
        PollRequest(
            broker_id=3,
            broker_epoch=cluster.broker(3).broker_epoch,
            applied_controller_epoch=ControllerEpoch(1),
            applied_sequence=position,
        ),
        controller_epoch=1,
    )
    assert batch is not None
    assert not batch.full
    assert batch.partitions == (cluster.partition(),)
    assert 3 not in batch.partitions[0].replicas


def test_the_old_leaders_proposals_are_stale_after_a_cancellation() -> None:
    """S26 (removed and added again): what it saw of the learner in the old leader epoch is worth nothing in
    the new one."""
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(1, 2, 4)
    late = cluster.proposal(1, 2, 3, 4)
    cluster.cancel()
    cluster.reassign(1, 2, 4)
    assert cluster.send(late, sender=1).error is ControllerError.FENCED_LEADER_EPOCH
    assert cluster.partition().isr == (1, 2, 3)


# --- the functions alone ---


def growing(**fields: object) -> tuple[ClusterImage, PartitionState]:
    """1, 2, 3 become 4, 2, 3; two must be in sync."""
    cluster = cluster_of(1, 2, 3)
    cluster.reassign(4, 2, 3)
    return cluster.image, changed(cluster.partition(), **fields)


def test_the_minimum_in_sync_outlives_every_change_of_targets_or_the_change_has_to_wait() -> None:
    image, state = growing(isr=(1, 4), leader=1)
    assert isinstance(grown(image, state, (1, 2, 5)), Obstacle)
    image, state = growing(isr=(1,), elr=(4,), leader=1)
    assert isinstance(rolled_back(image, state), Obstacle), "4 may hold what 1 lacks"
    image, state = growing(isr=(4, 1, 2), leader=4)
    assert not isinstance(rolled_back(image, state), Obstacle)
    image.brokers.update({b: msgspec.structs.replace(image.brokers[b], fenced=True) for b in (1, 2)})
    assert isinstance(rolled_back(image, state), Obstacle), "nobody could lead"


def test_what_is_taken_back_without_a_leader_keeps_what_is_known_of_its_logs() -> None:
    image, state = growing(isr=(), elr=(1,), last_known_elr=(4, 2), leader=NO_LEADER)
    after = rolled_back(image, state)
    assert isinstance(after, PartitionState)
    assert (*seats(after), after.last_known_elr) == (NO_LEADER, (), (1,), (2,))


def test_a_lower_minimum_at_the_end_makes_what_was_known_of_others_void() -> None:
    cluster = cluster_of(1, 2, 3, 4, 5, minimum=None)
    state = cluster.partition()
    assert completed(cluster.image, state) is None, "nothing moves"
    state = changed(
        state,
        replicas=(2, 1, 3, 4, 5),
        original_replicas=(1, 2, 3, 4, 5),
        removing_replicas=(1, 3, 4, 5),
        isr=(2,),
        leader=2,
        last_known_elr=(2,),
    )
    after = completed(cluster.image, state)
    assert after is not None
    assert (after.replicas, after.min_insync_replicas, after.last_known_elr) == ((2,), 1, ())


def test_of_demoted_brokers_alone_the_first_leads() -> None:
    assert first_leader((3, 2, 1), {1, 2}, {1, 2}) == 2
