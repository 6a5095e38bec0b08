"""Bounds of the controller's rules, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import AlarmCode, Note
from controller.core.election import can_lead_preferred
from controller.core.events import (
    Heartbeat,
    MemberRemoved,
    MetadataRecovered,
    RecoverMetadata,
    RemoveMember,
    Report,
)
from controller.core.isr import advance, check_proposal, is_eligible_member
from controller.core.records import Cause
from controller.core.recovery import PRODUCER_IDS_MARGIN, states_by_partition
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import Holdings
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState
from springtide.contract.session import Heard, HeartbeatRequest, HeartbeatResponse, ShutdownKind, Witness
from springtide.contract.updates import ApplyFailure
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster, changed, seats, topic_id


def created() -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    return cluster


def holding(cluster: Cluster, *states: PartitionState) -> Holdings:
    witness = Witness(cluster_id=CLUSTER_ID, controller_epoch=ControllerEpoch(9), lineage="lost", records=500)
    identity = msgspec.structs.replace(cluster.request(1), cluster_id=CLUSTER_ID, witness=witness)
    return Holdings(
        identity=identity,
        has_view=True,
        broker_ids=(1, 2, 3),
        broker_epoch_max=BrokerEpoch(70),
        topics=(),
        states=states,
        logs=(),
    )


def test_of_two_states_that_a_broker_holds_of_a_partition_the_later_one_counts() -> None:
    """A partition was set aside, and came again: in whichever order both are told."""
    cluster = created()
    old = cluster.partition()
    new = msgspec.structs.replace(old, partition_epoch=old.partition_epoch + 1, isr=(1,))
    for told in ((old, new), (new, old)):
        assert states_by_partition({1: holding(cluster, *told)}) == {(old.topic_id, 0): {1: new}}


def test_recovered_rows_hand_out_no_producer_id_that_the_lost_ones_may_have_handed_out() -> None:
    cluster = created()
    held = holding(cluster, cluster.partition())
    report = LagReport(
        broker_id=1, broker_epoch=BrokerEpoch(60), witness=held.identity.witness, holdings=held
    )
    before = cluster.image.next_producer_id
    cluster.step(Report(wall_ms=0, request=report))
    cluster.ask(RecoverMetadata(wall_ms=0, actor="ann", gone_brokers=(2, 3)), MetadataRecovered)
    assert cluster.image.next_producer_id == before + PRODUCER_IDS_MARGIN


@pytest.mark.parametrize(("leader_epochs", "partition_epochs"), [(1, 0), (0, 1), (1, -1)])
def test_a_leader_that_knows_more_than_this_controller_is_not_fenced(
    leader_epochs: int, partition_epochs: int
) -> None:
    """KAFKA-14154."""
    cluster = created()
    state = cluster.partition()
    proposal = msgspec.structs.replace(
        cluster.proposal(1, 2, 3),
        leader_epoch=state.leader_epoch + leader_epochs,
        partition_epoch=state.partition_epoch + partition_epochs,
    )
    assert check_proposal(cluster.image, state, 1, proposal) is ControllerError.NOT_CONTROLLER


def test_a_proposal_with_a_word_of_a_later_release_is_refused() -> None:
    cluster = created()
    proposal = msgspec.structs.replace(cluster.proposal(1, 2, 3), recovery=LeaderRecovery.UNKNOWN)
    error = check_proposal(cluster.image, cluster.partition(), 1, proposal)
    assert error is ControllerError.INVALID_REQUEST


def test_a_broker_that_nobody_registered_is_no_member() -> None:
    cluster = created()
    state = cluster.partition()
    assert not is_eligible_member(cluster.image, state, 9, BrokerEpoch(1))
    broker = cluster.broker(2)
    assert is_eligible_member(cluster.image, state, 2, broker.broker_epoch)
    for unfit in ({"fenced": True}, {"admitted": False}):
        cluster.image.brokers[2] = msgspec.structs.replace(broker, **unfit)
        assert not is_eligible_member(cluster.image, state, 2, broker.broker_epoch)


@pytest.mark.parametrize(
    ("changes", "may_join"),
    [({}, True), ({"admitted": False}, False), ({"shutting_down": True}, False)],
)
def test_a_leader_that_shuts_down_waits_for_no_broker_that_can_not_join(
    changes: dict[str, bool], may_join: bool
) -> None:
    cluster = created()
    cluster.image.brokers[2] = msgspec.structs.replace(cluster.broker(2), **changes)
    sessions = cluster.machine._sessions
    assert sessions._may_join_an_isr(cluster.image, 2, cluster.now_ms) == may_join
    assert not sessions._may_join_an_isr(cluster.image, 9, cluster.now_ms)


@pytest.mark.parametrize(
    ("changes", "may_lead"),
    [
        ({}, True),
        ({"adding_replicas": (4,)}, False),
        ({"removing_replicas": (3,)}, False),
        ({"leader": 1}, False),
        ({"isr": (2, 3)}, False),
    ],
)
def test_leaders_are_sent_home_only_where_no_replica_is_on_its_way(
    changes: dict[str, object], may_lead: bool
) -> None:
    cluster = created()
    state = msgspec.structs.replace(cluster.partition(), leader=2)
    assert state.preferred_leader == 1
    assert can_lead_preferred(cluster.image, msgspec.structs.replace(state, **changes)) == may_lead
    cluster.image.brokers[1] = msgspec.structs.replace(cluster.broker(1), shutting_down=True)
    assert not can_lead_preferred(cluster.image, state)


def test_a_new_replica_that_can_not_vouch_for_its_log_is_new_no_more() -> None:
    state = msgspec.structs.replace(created().partition(), new_replicas=(2, 3))
    after = advance(state, isr=(1, 3), leader=1, excluded=2)
    assert after is not None
    assert (after.new_replicas, after.isr) == ((3,), (1, 3))


# Elections.


def test_a_shutdown_gives_a_seat_up_at_once_where_the_minimum_stays_though_another_might_join() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3, 4), configs={"min.insync.replicas": "2"})
    cluster.propose(1, 2, 3)
    cluster.heartbeat(1, wants_shutdown=True)
    assert seats(cluster.partition()) == (2, (2, 3), ())


def test_a_follower_that_shuts_down_and_has_to_wait_moves_no_leader() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3, 4), configs={"min.insync.replicas": "3"})
    cluster.propose(1, 2, 3)
    before = cluster.image.partitions[topic_id(), 0] = changed(cluster.partition(), leader=3)
    cluster.heartbeat(2, wants_shutdown=True)
    assert cluster.partition() == before


def test_the_last_leader_in_sync_does_not_stop_while_another_may_join() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.propose(1)
    cluster.heartbeat(1, wants_shutdown=True)
    cluster.beat_all()
    assert not cluster.heartbeat(1, wants_shutdown=True).may_shut_down
    cluster.kill(2)
    cluster.kill(3)
    cluster.pass_ms(cluster.options.grace_ms + 1)
    cluster.heartbeat(1)
    assert cluster.heartbeat(1, wants_shutdown=True).may_shut_down, "nobody can"


@pytest.mark.parametrize("code", ["log_missing", "storage_error"])
@pytest.mark.parametrize(
    ("setting", "dead", "leader"),
    [("true", (), 2), ("true", (2,), 3), ("true", (2, 3), NO_LEADER), ("false", (), NO_LEADER)],
)
def test_where_the_last_log_in_sync_is_gone_only_a_topic_that_opted_in_goes_on_and_with_another(
    code: str, setting: str, dead: tuple[int, ...], leader: int
) -> None:
    """The broker whose log is gone had the last seat, and would be the first choice: told to lead, it would
    say so again, be chosen again, and so on without an end."""
    cluster = Cluster()
    configs = {"unclean.leader.election.enable": setting, "min.insync.replicas": "1"}
    cluster.create((1, 2, 3), configs=configs)
    cluster.propose(1)
    cluster.kill(*dead)
    gone = ApplyFailure(
        topic_id=topic_id(),
        partition=0,
        partition_epoch=cluster.partition().partition_epoch,
        code=code,
        detail="no such directory",
    )
    cluster.applied(1, gone)
    assert cluster.partition().leader == leader


def test_an_in_sync_set_of_the_same_size_with_another_member_is_an_expansion() -> None:
    cluster = created()
    cluster.propose(1, 2)
    cluster.propose(1, 3)
    (record,) = cluster.last.records
    assert record.change.cause is Cause.ISR_EXPANDED


def test_who_is_in_sync_again_is_not_among_those_whose_seat_was_taken() -> None:
    state = changed(created().partition(), isr=(1,), last_known_elr=(2, 3), min_insync_replicas=3)
    after = advance(state, isr=(1, 2), leader=1)
    assert after is not None
    assert (after.elr, after.last_known_elr) == ((), (3,))


# Sessions.


def alarms(cluster: Cluster) -> list[tuple[AlarmCode, int | None]]:
    return [(alarm.key.code, alarm.key.broker_id) for alarm in cluster.machine.alarms()]


def test_a_restart_that_proves_its_logs_raises_no_alarm() -> None:
    cluster = created()
    assert cluster.register(1, "b", last_shutdown=ShutdownKind.CLEAN).error is ControllerError.NONE
    assert seats(cluster.partition()) == (2, (2, 3), ())
    assert AlarmCode.LOGS_UNPROVEN not in [code for code, _ in alarms(cluster)]


def test_a_double_is_no_alarm_any_more_once_it_is_the_only_one() -> None:
    cluster = Cluster()
    cluster.register(1, "b")
    cluster.now_ms += cluster.options.grace_ms // 2
    cluster.heartbeat(1)
    cluster.now_ms += cluster.options.grace_ms // 2 + 1
    cluster.register(1, "b")
    assert (AlarmCode.DUPLICATE_BROKER, 1) in alarms(cluster)
    cluster.kill(1)
    assert cluster.register(1, "b").error is ControllerError.NONE
    assert (AlarmCode.DUPLICATE_BROKER, 1) not in alarms(cluster)


def test_a_controller_that_takes_over_alarms_brokers_that_are_fenced_and_no_others() -> None:
    cluster = Cluster()
    cluster.register(4)  # waits to be admitted
    cluster.heartbeat(3, wants_shutdown=True)
    cluster.kill(2)
    cluster.kill(3)
    cluster.fail_over()
    fenced = [broker_id for code, broker_id in alarms(cluster) if code is AlarmCode.BROKER_FENCED]
    assert fenced == [2]


def test_a_fencing_is_a_line_in_the_log_with_how_much_it_concerns() -> None:
    cluster = created()
    cluster.create((3, 1), number=1)
    cluster.kill(1)
    (note,) = [effect for effect in cluster.effects if isinstance(effect, Note)]
    assert note.fields == {"broker": 1, "partitions": 2}
    assert "refuses connections" in note.detail


def test_when_silence_matters_is_counted_anew_without_a_broker_that_was_removed() -> None:
    cluster = Cluster()
    cluster.kill(3)
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=3), MemberRemoved)
    silent_ms = cluster.options.probe_after_ms
    assert cluster.machine.next_deadline_ms() == cluster.now_ms + silent_ms + 1


@pytest.mark.parametrize(
    ("count", "answered", "is_outdated"),
    [
        (-1, 0, False),  # a broker that does not count
        (0, 5, True),
        (4, 5, True),
        (5, 5, False),
        (5, 4, True),
        (5, None, False),
        (0, None, True),
        (6, None, False),
    ],
)
def test_a_heartbeat_is_held_against_what_was_heard_before(
    count: int, answered: int | None, is_outdated: bool
) -> None:
    sessions = Cluster().machine._sessions
    sessions._by_id[1].on_heard(5, 5)
    assert sessions.is_outdated(1, count, answered) is is_outdated


def test_the_first_heartbeat_that_counts_knows_of_no_answer_that_was_forgotten() -> None:
    sessions = Cluster().machine._sessions
    sessions._by_id[1].on_heard(0, 5)
    assert sessions.is_outdated(1, 0, 4)


def test_others_are_told_of_a_first_heartbeat_and_strangers_say_nothing() -> None:
    cluster = Cluster()
    first, stranger = (
        HeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=cluster.broker(broker_id).broker_epoch,
            incarnation_id=cluster.broker(broker_id).incarnation_id,
            count=0,
            others=others,
        )
        for broker_id, others in (
            (1, ()),
            (2, (Heard(broker_id=9, broker_epoch=BrokerEpoch(1), count=1, answered=1),)),
        )
    )
    for request in (first, stranger):
        event = Heartbeat(wall_ms=0, request=request, received_ms=cluster.now_ms)
        told = cluster.ask(event, HeartbeatResponse)
    assert [(heard.broker_id, heard.count) for heard in told.others] == [(1, 0)]
