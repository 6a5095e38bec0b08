from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm, Note, ProbeBroker
from controller.core.events import (
    AdmitBrokers,
    AppliedReply,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    BrokersAdmitted,
    Heartbeat,
    MemberRemoved,
    Refusal,
    RegisterMember,
    RemoveMember,
    Tick,
)
from controller.core.options import ControllerOptions
from controller.core.records import Cause, MemberRecord, PartitionRecord
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import NO_LEADER
from springtide.contract.session import (
    BrokerStatus,
    ClockLeap,
    Heard,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster, seats, topic_id
from tests.kit.controller.script import Scripted

CLEAN, CRASH = ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH
POWER_CUT, FIRST = ShutdownKind.MACHINE_CRASH, ShutdownKind.FIRST_START
DAY_MS = 86_400_000


def alarm_keys(cluster: Cluster) -> set[AlarmKey]:
    return {alarm.key for alarm in cluster.machine.alarms()}


def fenced_alarm(broker_id: int) -> AlarmKey:
    return AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=broker_id)


# --- silence ---


def test_silence_that_the_controller_could_not_have_heard_is_taken_off() -> None:
    cluster = Cluster()
    cluster.now_ms += cluster.options.grace_ms + 1
    cluster.machine.forgive_silence(2_000, cluster.now_ms)
    cluster.step(Tick(wall_ms=0))
    assert not any(broker.fenced for broker in cluster.image.brokers.values())
    cluster.now_ms += 2_000
    cluster.step(Tick(wall_ms=0))
    assert all(broker.fenced for broker in cluster.image.brokers.values())


# --- from unknown to active ------------------------------------------------------------------------


def test_a_broker_waits_until_admitted_and_is_trusted_once_it_has_applied_its_admission() -> None:
    cluster = Cluster(brokers=())
    response = cluster.register(7)
    assert response == RegisterResponse(
        cluster_id=CLUSTER_ID,
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        status=BrokerStatus.WAITING,
        retry_after_ms=cluster.options.registration_retry_ms,
        chain_epoch=BrokerEpoch(1),
    )
    assert cluster.heartbeat(7).status is BrokerStatus.WAITING
    cluster.ask(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(7,)), BrokersAdmitted)
    admitted_at = cluster.image.sequence
    assert cluster.heartbeat(7, applied=admitted_at - 1).status is BrokerStatus.FENCED
    assert cluster.heartbeat(7, applied=admitted_at).status is BrokerStatus.ACTIVE


def test_admission_names_who_acted_and_refuses_brokers_that_never_registered() -> None:
    cluster = Cluster(brokers=())
    cluster.register(7)
    refusal = cluster.ask(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(7, 8)), Refusal)
    assert (refusal.code, refusal.facts["waiting_brokers"]) == ("unknown_broker", 1)
    assert cluster.last.records == ()
    step = cluster.step(
        AdmitBrokers(wall_ms=5, actor="ann", reason="growth", request_id="r1", broker_ids=(7,))
    )
    (record,) = step.records
    assert (record.change.cause, record.change.actor, record.change.reason) == (
        Cause.BROKER_ADMITTED,
        "ann",
        "growth",
    )
    again = cluster.step(AdmitBrokers(wall_ms=5, actor="ann", broker_ids=(7,)))
    assert again.records == ()


def test_a_position_of_another_controller_epoch_unfences_nobody() -> None:
    cluster = Cluster(brokers=())
    cluster.register(7)
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(7,)))
    cluster.controller_epoch += 1
    assert cluster.heartbeat(7).status is BrokerStatus.FENCED


@pytest.mark.parametrize("sequence", [-1, 10**9])
def test_a_position_from_before_the_registration_or_from_the_future_proves_nothing(sequence: int) -> None:
    cluster = Cluster(brokers=())
    cluster.register(7)
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(7,)))
    assert cluster.heartbeat(7, applied=sequence).status is BrokerStatus.FENCED


# --- registration: I8 (broker epochs fence incarnations), I11 (unproven logs lose their seats first),
#     S37 (a second process under one id) ----------------------------------------------------------


def test_a_second_live_process_is_refused_and_the_holder_probed_at_a_bounded_rate() -> None:
    cluster = Cluster()
    response = cluster.register(1, "b", last_shutdown=CRASH)
    assert (response.error, response.broker_epoch) == ("duplicate_broker_registration", -1)
    assert cluster.last.records == ()
    assert cluster.last.effects == (
        ProbeBroker(broker_id=1, broker_epoch=BrokerEpoch(1), host="store1", port=9092),
    )
    cluster.now_ms += cluster.options.probe_interval_ms - 1
    cluster.register(1, "b", last_shutdown=CRASH)
    assert cluster.last.effects == ()
    cluster.now_ms += 1
    cluster.register(1, "b", last_shutdown=CRASH)
    assert len(cluster.last.effects) == 1


def test_a_double_that_insists_while_the_holder_lives_is_alarmed() -> None:
    cluster = Cluster()
    key = AlarmKey(code=AlarmCode.DUPLICATE_BROKER, broker_id=1)
    for passed_ms in (0, cluster.options.grace_ms // 2, cluster.options.grace_ms // 2, 1):
        assert key not in alarm_keys(cluster)
        cluster.now_ms += passed_ms
        cluster.heartbeat(1)
        cluster.register(1, "b")
    assert key in alarm_keys(cluster)
    cluster.kill(1)
    cluster.register(1, "b")
    assert key not in alarm_keys(cluster)


@pytest.mark.parametrize("incarnation", ["A", "b"])  # the first one is "a"
def test_the_second_process_is_accepted_once_the_first_is_proven_dead(incarnation: str) -> None:
    cluster = Cluster()
    assert cluster.register(1, incarnation, last_shutdown=CRASH).error == "duplicate_broker_registration"
    cluster.kill(1)
    assert cluster.register(1, incarnation, last_shutdown=CRASH).broker_epoch == 4


def test_the_second_process_is_accepted_once_the_first_was_silent_for_the_grace() -> None:
    cluster = Cluster()
    cluster.now_ms += cluster.options.grace_ms
    assert cluster.register(1, "b", last_shutdown=CRASH).error == "duplicate_broker_registration"
    cluster.now_ms += 1
    assert cluster.register(1, "b", last_shutdown=CRASH).broker_epoch == 4


def test_a_clean_marker_of_the_registered_epoch_proves_that_its_writer_is_gone() -> None:
    cluster = Cluster()
    assert cluster.register(1, "b", last_shutdown=CLEAN).broker_epoch == 4
    assert cluster.register(2, "b", last_shutdown=CLEAN, previous_broker_epoch=1).error == (
        "duplicate_broker_registration"
    )


def test_the_same_incarnation_registers_again_with_the_same_broker_epoch() -> None:
    cluster = Cluster()
    again = cluster.register(1)
    assert (again.error, again.broker_epoch, again.status) == ("none", 1, BrokerStatus.ACTIVE)
    assert cluster.last.records == ()
    moved = cluster.register(1, host="elsewhere")
    assert (moved.broker_epoch, cluster.broker(1).host) == (1, "elsewhere")


def test_a_registration_of_the_same_incarnation_is_a_sign_of_life() -> None:
    cluster = Cluster()
    cluster.now_ms += cluster.options.grace_ms
    cluster.register(1)
    cluster.pass_ms(1)
    assert [cluster.broker(b).fenced for b in (1, 2, 3)] == [False, True, True]


def test_a_directory_of_another_cluster_or_of_another_broker_is_refused() -> None:
    cluster = Cluster()
    request = cluster.request(9)
    foreign = RegisterMember(wall_ms=0, request=type(request)(**{**fields(request), "cluster_id": "other"}))
    assert cluster.ask(foreign, RegisterResponse).error == "inconsistent_cluster_id"
    assert cluster.register(9, dirs=("dir-1",)).error == "inconsistent_cluster_id"


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_id": -1},
        {"port": 0},
        {"port": 65_536},
        {"host": ""},
        {"host": "h" * 256},
        {"incarnation_id": ""},
        {"log_dir_ids": ()},
        {"log_dir_ids": ("a", "a")},
        {"log_dir_ids": ("a",), "offline_log_dir_ids": ("a",)},
        {"log_dir_ids": tuple(str(i) for i in range(65))},
        {"version": "v" * 256},
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    cluster = Cluster(brokers=())
    request = cluster.request(1)
    bad = RegisterMember(wall_ms=0, request=type(request)(**{**fields(request), **wrong}))
    assert cluster.ask(bad, RegisterResponse).error == "invalid_request"
    assert cluster.last.records == ()


def fields(request: RegisterRequest) -> dict[str, Any]:
    return msgspec.structs.asdict(request)


@pytest.mark.parametrize("kind", [CRASH, CLEAN])
def test_an_intact_incarnation_keeps_its_elr_seat_but_not_its_isr_seat(kind: ShutdownKind) -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.kill(1)
    assert seats(cluster.partition()) == (2, (2,), (1,))
    before = cluster.partition()
    cluster.register(1, "b", last_shutdown=kind)
    assert cluster.partition() == before
    assert [type(r) for r in cluster.last.records] == [MemberRecord]


@pytest.mark.parametrize(
    ("unanswered", "keeps_its_seat"), [(("1-b",), True), (("1-x", "1-b"), True), ((), False)]
)
def test_an_incarnation_that_died_before_it_learnt_its_epoch_costs_its_successor_nothing(
    unanswered: tuple[str, ...], keeps_its_seat: bool
) -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.kill(1)
    epoch_on_disk = cluster.broker(1).broker_epoch
    cluster.register(1, "b", last_shutdown=CRASH)  # its answer never arrives
    cluster.kill(1)
    cluster.register(1, "c", last_shutdown=CRASH, previous_broker_epoch=epoch_on_disk, unanswered=unanswered)
    assert (1 in cluster.partition().elr) is keeps_its_seat


def test_a_fast_restart_of_a_follower_never_goes_on_sitting_in_the_isr() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    before = cluster.partition()
    cluster.register(3, "b", last_shutdown=CLEAN)
    after = cluster.partition()
    assert seats(after) == (1, (1, 2), ())
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    assert [(type(r), r.change.cause) for r in cluster.last.records] == [
        (MemberRecord, Cause.BROKER_RESTARTED),
        (PartitionRecord, Cause.BROKER_RESTARTED),
        (MemberRecord, Cause.BROKER_REGISTERED),
    ]


def test_a_process_crash_of_the_last_member_leads_again_from_the_elr_in_a_new_leader_epoch(
    cluster: Scripted,
) -> None:
    cluster.play("create 1; kill 1")
    assert seats(cluster.partition()) == (NO_LEADER, (), (1,))
    cluster.play("restart 1 process_crash")
    assert seats(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().leader_epoch == 2


UNPROVEN = [
    ("power cut", {"last_shutdown": POWER_CUT}),
    ("empty disk", {"last_shutdown": FIRST, "previous_broker_epoch": -1, "dirs": ("new-disk",)}),
    ("replaced disk", {"last_shutdown": CLEAN, "dirs": ("new-disk",)}),
    ("an older incarnation's marker", {"last_shutdown": CLEAN, "previous_broker_epoch": 0}),
    ("an older incarnation's crash", {"last_shutdown": CRASH, "previous_broker_epoch": 0}),
]


@pytest.mark.parametrize(("story", "claim"), UNPROVEN, ids=[s for s, _ in UNPROVEN])
def test_an_incarnation_that_proves_nothing_loses_every_seat_before_its_registration_is_written(
    story: str, claim: dict[str, object]
) -> None:
    cluster = Cluster()
    cluster.create_each((1, 2, 3), (1,), (2, 1))
    cluster.kill(1)
    assert cluster.partition(number=1).elr == (1,)
    cluster.register(1, "b", **claim)
    for number in range(3):
        state = cluster.partition(number=number)
        assert 1 not in (*state.isr, *state.elr, state.leader), story
    assert cluster.partition(number=1).last_known_elr == (1,)
    assert cluster.partition(number=1).last_known_leader == 1
    records = cluster.last.records
    assert isinstance(records[-1], MemberRecord)
    assert records[-1].registration.epoch == 4
    assert all(r.change.cause is Cause.UNCLEAN_RESTART for r in records[:-1])
    cluster.heartbeat(1)
    assert cluster.partition(number=1).leader == NO_LEADER
    (verdict,) = cluster.machine.explain((topic_id(1), 0))
    assert (verdict.standing, verdict.could_lead, verdict.broker_status) == ("excluded", False, "active")


def test_a_broker_that_restarts_unproven_before_anyone_noticed_is_excluded_all_the_same() -> None:
    """S3 (an expansion for a dead incarnation), S11 (killed in an append): exclusion is part of registration
    and never relies on fencing having happened."""
    cluster = Cluster()
    cluster.create_each((1, 2, 3), (1,))
    cluster.now_ms += cluster.options.grace_ms + 1  # silent, but no tick has come yet
    cluster.register(1, "b", last_shutdown=POWER_CUT)
    assert 1 not in (*cluster.partition(number=0).isr, *cluster.partition(number=0).elr)
    assert seats(cluster.partition(number=1)) == (NO_LEADER, (), ())


def test_that_seats_were_taken_is_an_alarm_until_the_broker_is_in_sync_again() -> None:
    """How much its logs lack is not known: that is more than a line in a log file."""
    cluster = Cluster()
    cluster.create_each((1, 2, 3), (2, 1, 3))
    cluster.now_ms += cluster.options.grace_ms + 1
    cluster.register(1, "b", last_shutdown=POWER_CUT)
    unproven = AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=1)
    (alarm,) = (alarm for alarm in cluster.machine.alarms() if alarm.key == unproven)
    assert "last stop: machine_crash): its seats in 2 partitions" in alarm.detail
    cluster.heartbeat(1)
    for number in range(2):
        assert unproven in [alarm.key for alarm in cluster.machine.alarms()]
        assert cluster.propose(2, 3, 1, base=cluster.partition(number=number)).error is ControllerError.NONE
    assert unproven not in [alarm.key for alarm in cluster.machine.alarms()]
    assert ClearAlarm(key=unproven) in cluster.last.effects


@pytest.mark.parametrize(("replicas", "last_shutdown"), [((2, 3), POWER_CUT), ((1, 2, 3), CRASH)])
def test_where_no_seat_was_taken_for_want_of_proof_there_is_no_such_alarm(
    replicas: tuple[int, ...], last_shutdown: ShutdownKind
) -> None:
    cluster = Cluster()
    cluster.create(replicas)
    cluster.now_ms += cluster.options.grace_ms + 1
    cluster.register(1, "b", last_shutdown=last_shutdown)
    assert AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=1) not in alarm_keys(cluster)


def test_a_controller_that_dies_within_a_registration_leaves_what_a_repetition_finishes() -> None:
    cluster = Cluster()
    cluster.create_each((1, 2, 3), (1, 2), (1,))
    cluster.now_ms += cluster.options.grace_ms + 1
    before = len(cluster.records)
    epoch = cluster.broker(1).broker_epoch
    cluster.register(1, "b", last_shutdown=POWER_CUT)
    everything = list(cluster.records)
    for cut in range(before, len(everything)):
        cluster.records = everything[:cut]
        cluster.fail_over()
        assert cluster.broker(1).broker_epoch == epoch
        cluster.kill(1)
        response = cluster.register(1, "b", last_shutdown=POWER_CUT, previous_broker_epoch=epoch)
        assert response.broker_epoch == 4
        for number in range(3):
            assert 1 not in (*cluster.partition(number=number).isr, *cluster.partition(number=number).elr)


def test_a_directory_that_had_failed_proves_nothing_by_working_again() -> None:
    cluster = Cluster(brokers=())
    cluster.register(1, dirs=("x", "y"))
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)))
    cluster.heartbeat(1)
    cluster.create((1,))
    cluster.heartbeat(1, offline=("y",))
    cluster.kill(1)
    cluster.register(1, "b", last_shutdown=CRASH, dirs=("x", "y"))
    assert seats(cluster.partition()) == (NO_LEADER, (), ())


def test_the_directories_that_were_left_vouch_for_the_seats_on_them() -> None:
    cluster = Cluster(brokers=())
    cluster.register(1, dirs=("x", "y"))
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)))
    cluster.heartbeat(1)
    cluster.create((1,))
    cluster.heartbeat(1, offline=("y",))
    cluster.kill(1)
    cluster.register(1, "b", last_shutdown=CRASH, dirs=("x",))
    assert seats(cluster.partition()) == (NO_LEADER, (), (1,))


def test_a_broker_epoch_is_never_reused_even_after_its_holder_was_forgotten() -> None:
    cluster = Cluster()
    cluster.kill(3)
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=3), MemberRemoved)
    cluster.pass_ms(1)
    assert not alarm_keys(cluster)
    cluster.fail_over()
    assert cluster.register(3, "c").broker_epoch == 4


def test_a_broker_may_be_removed_while_it_loses_its_seats() -> None:
    cluster = Cluster(msgspec.structs.replace(ControllerOptions(), vacated_per_step_max=1))
    cluster.create((2, 1), (2, 1), (2, 1))
    cluster.kill(1)
    cluster.delete()
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=1), MemberRemoved)
    assert cluster.pass_ms(1).records == ()


# --- heartbeats, silence, death --------------------------------------------------------------------


def test_heartbeats_of_strangers_and_of_earlier_incarnations_renew_nothing() -> None:
    cluster = Cluster()
    good = cluster.heartbeat(1)
    assert (good.error, good.status, good.may_shut_down) == ("none", BrokerStatus.ACTIVE, False)
    request = cluster.request(1)
    for broker_id, epoch, incarnation, error in [
        (9, 1, "9-a", "broker_not_registered"),
        (1, 0, request.incarnation_id, "stale_broker_epoch"),
        (1, 1, "1-z", "stale_broker_epoch"),
    ]:
        beat = HeartbeatRequest(
            broker_id=broker_id, broker_epoch=BrokerEpoch(epoch), incarnation_id=incarnation
        )
        event = Heartbeat(wall_ms=0, request=beat, received_ms=cluster.now_ms)
        assert cluster.ask(event, HeartbeatResponse).error == error


def test_silence_is_counted_from_when_a_heartbeat_arrived_not_from_when_it_was_handled() -> None:
    cluster = Cluster()
    arrived = cluster.now_ms
    cluster.now_ms += 3_000
    beat = HeartbeatRequest(broker_id=1, broker_epoch=BrokerEpoch(1), incarnation_id="1-a")
    cluster.step(Heartbeat(wall_ms=0, request=beat, received_ms=arrived))
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    cluster.now_ms = arrived + cluster.options.grace_ms
    cluster.step(Tick(wall_ms=0))
    assert not cluster.broker(1).fenced
    cluster.pass_ms(1)
    assert cluster.broker(1).fenced
    assert not cluster.broker(2).fenced


@pytest.mark.parametrize("off_ms", [-5_000, 5_000])
def test_a_heartbeat_that_is_dated_in_the_past_or_in_the_future_moves_nothing(off_ms: int) -> None:
    cluster = Cluster()
    beat = HeartbeatRequest(broker_id=1, broker_epoch=BrokerEpoch(1), incarnation_id="1-a")
    cluster.step(Heartbeat(wall_ms=0, request=beat, received_ms=cluster.now_ms + off_ms))
    cluster.pass_ms(cluster.options.grace_ms)
    assert not cluster.broker(1).fenced
    cluster.pass_ms(1)
    assert cluster.broker(1).fenced


def test_a_late_broker_is_probed_again_and_again_at_a_bounded_rate_until_it_speaks() -> None:
    cluster = Cluster(brokers=(1,))
    start = cluster.now_ms
    probes = []
    while cluster.now_ms < start + 3_000:
        deadline = cluster.machine.next_deadline_ms()
        assert deadline is not None
        assert deadline > cluster.now_ms
        cluster.now_ms = deadline
        if any(isinstance(e, ProbeBroker) for e in cluster.step(Tick(wall_ms=0)).effects):
            probes.append(cluster.now_ms - start)
    assert probes == list(range(1_001, 3_002, 250))
    cluster.heartbeat(1)
    assert cluster.pass_ms(1).effects == ()


def test_proven_death_fences_at_once_and_stale_proof_does_nothing() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    stale = BrokerProvenDead(wall_ms=0, broker_id=1, broker_epoch=BrokerEpoch(0))
    assert cluster.ask(stale, BrokerFenceReply) == BrokerFenceReply(fenced=False)
    proof = BrokerProvenDead(wall_ms=0, broker_id=1, broker_epoch=BrokerEpoch(1))
    assert cluster.ask(proof, BrokerFenceReply) == BrokerFenceReply(fenced=True)
    assert seats(cluster.partition()) == (2, (2, 3), ())
    assert cluster.ask(proof, BrokerFenceReply) == BrokerFenceReply(fenced=False)
    assert {r.change.cause for r in cluster.records[-2:]} == {Cause.BROKER_DIED}


def test_a_fenced_broker_that_speaks_again_is_trusted_only_after_applying_its_own_fencing() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    before = cluster.image.sequence
    cluster.kill(1)
    assert cluster.heartbeat(1, applied=before).status is BrokerStatus.FENCED
    assert cluster.heartbeat(1).status is BrokerStatus.ACTIVE
    assert seats(cluster.partition()) == (2, (2, 3), ())


def test_a_position_alone_without_a_heartbeat_does_not_revive_a_dead_broker() -> None:
    cluster = Cluster()
    cluster.kill(1)
    cluster.applied(1)
    assert cluster.broker(1).status is BrokerStatus.FENCED


def test_two_brokers_that_expire_in_one_tick_leave_no_dead_leader() -> None:
    """S36, with 500 partitions."""
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create(*[((1, 2, 3), (2, 1, 4))[i % 2] for i in range(500)])
    cluster.now_ms += 5_000
    cluster.heartbeat(3)
    cluster.heartbeat(4)
    cluster.pass_ms(1_001)
    leaders = {cluster.partition(i).leader for i in range(500)}
    assert leaders == {3, 4}
    assert all(set(cluster.partition(i).isr) <= {3, 4} for i in range(500))


def test_a_fenced_broker_is_alarmed_until_it_is_trusted_again() -> None:
    cluster = Cluster()
    key = AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=1)
    cluster.kill(1)
    assert key in [e.key for e in cluster.last.effects if isinstance(e, Alarm)]
    assert [a.key for a in cluster.machine.alarms()] == [key]
    cluster.restart(1)
    assert ClearAlarm(key=key) in cluster.last.effects
    assert cluster.machine.alarms() == ()


def test_who_stopped_on_purpose_or_was_never_admitted_is_no_alarm_but_fencing_is_a_line_in_the_log() -> None:
    cluster = Cluster()
    cluster.register(9)
    cluster.heartbeat(2, wants_shutdown=True)
    cluster.kill(2)
    (note,) = (effect for effect in cluster.last.effects if isinstance(effect, Note))
    assert (note.code, note.fields) == ("broker_died", {"broker": 2, "partitions": 0})
    cluster.kill(3)
    assert alarm_keys(cluster) == {fenced_alarm(3)}
    cluster.fail_over()
    assert alarm_keys(cluster) == {fenced_alarm(3)}


# --- takeover: 2.10 (the controller's authority), S18 (a successor right after heartbeats) ---------


def test_a_new_controller_waits_a_whole_grace_before_it_fences_by_silence(cluster: Scripted) -> None:
    cluster.play(f"wait 100000; fail-over; pass {cluster.options.grace_ms}")
    assert not any(cluster.broker(b).fenced for b in (1, 2, 3))
    cluster.play("pass 1")
    assert all(cluster.broker(b).fenced for b in (1, 2, 3))


def test_a_new_controller_believes_proven_death_at_once(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; fail-over; kill 1")
    assert cluster.partition().leader == 2


def test_an_active_broker_stays_active_and_a_fenced_one_fenced_across_a_takeover(cluster: Scripted) -> None:
    cluster.play("kill 3; fail-over")
    assert [cluster.broker(b).status for b in (1, 2, 3)] == ["active", "active", "fenced"]
    assert [cluster.play(script) for script in ("beat 3 -1", "beat 3")] == ["fenced", "active"]


def test_a_new_controller_finishes_a_fencing_that_its_predecessor_began() -> None:
    cluster = Cluster()
    cluster.create_each((1, 2, 3), (2, 1, 3), (3, 1), (1,))
    before = len(cluster.records)
    cluster.kill(1)
    everything = list(cluster.records)
    assert len(everything) == before + 5
    whole = [seats(cluster.partition(number=i)) for i in range(4)]
    for cut in range(before + 1, len(everything) + 1):
        step = cluster.fail_over(everything[:cut])
        assert [seats(cluster.partition(number=i)) for i in range(4)] == whole
        assert len(step.records) == len(everything) - cut
        if step.records:  # the fenced broker must apply these, too
            assert cluster.heartbeat(1, applied=cluster.image.sequence - 1).status is BrokerStatus.FENCED
        assert cluster.heartbeat(1).status is BrokerStatus.ACTIVE


# --- disks -----------------------------------------------------------------------------------------


def test_a_broker_whose_last_directory_fails_loses_every_seat_and_stays_fenced() -> None:
    cluster = Cluster()
    cluster.create_each((1, 2), (1,))
    response = cluster.heartbeat(1, offline=("dir-1",), failure="No space left on device")
    assert response.status is BrokerStatus.FENCED
    (alarm,) = (one for one in cluster.machine.alarms() if one.key.code is AlarmCode.LOG_DIRS_OFFLINE)
    assert alarm.detail.startswith("broker 1: log directories offline: dir-1 (No space left on device): its")
    assert alarm.follows == {AlarmCode.BROKER_FENCED: 1, AlarmCode.PARTITION_BELOW_MIN_ISR: 1}
    assert seats(cluster.partition(number=0)) == (2, (2,), ())
    assert seats(cluster.partition(number=1)) == (NO_LEADER, (), ())
    assert cluster.partition(number=1).last_known_elr == (1,)
    assert cluster.heartbeat(1, offline=("dir-1",)).status is BrokerStatus.FENCED


def test_a_fenced_broker_whose_last_directory_fails_loses_what_it_would_have_returned_to() -> None:
    cluster = Cluster()
    cluster.create((1,))
    cluster.kill(1)
    assert cluster.partition().elr == (1,)
    cluster.heartbeat(1, applied=-1, offline=("dir-1",))
    assert (cluster.partition().elr, cluster.partition().last_known_elr) == ((), (1,))


def test_one_failed_directory_of_two_is_alarmed_and_takes_no_seat_by_itself() -> None:
    cluster = Cluster(brokers=())
    cluster.register(1, dirs=("x", "y"))
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)))
    cluster.heartbeat(1)
    cluster.create((1,))
    assert cluster.heartbeat(1, offline=("y",)).status is BrokerStatus.ACTIVE
    assert cluster.partition().leader == 1
    assert [a.key.code for a in cluster.machine.alarms()] == [AlarmCode.LOG_DIRS_OFFLINE]
    assert cluster.heartbeat(1, offline=("y",)) == cluster.heartbeat(1, offline=("y",))
    assert cluster.last.records == ()
    cluster.kill(1)
    cluster.register(1, "b", dirs=("x", "y"))
    assert AlarmCode.LOG_DIRS_OFFLINE not in [key.code for key in alarm_keys(cluster)]


def test_a_leap_of_a_brokers_clocks_is_an_alarm_in_words_that_stay_and_ends_with_it() -> None:
    cluster = Cluster()
    leap = ClockLeap(ahead_of_controller_ms=DAY_MS + 60_000, ahead_of_elapsed_ms=-(8 * DAY_MS + 3_600_000))
    cluster.heartbeat(1, clock_leap=leap)
    key = AlarmKey(code=AlarmCode.CLOCK_LEAP, broker_id=1)
    alarm = Alarm(
        key=key,
        detail=(
            "broker 1's wall clock is 1 d 0 h 1 min ahead of the controller's and 8 d 1 h 0 min behind the "
            "time that has passed since clocks agreed: one of them is wrong. Until they agree that broker "
            "deletes nothing by time and forgets no idle producer; "
            "is NTP running on it and on the controllers?"
        ),
    )
    assert cluster.last.effects == (alarm,)
    cluster.heartbeat(
        1,
        clock_leap=ClockLeap(
            ahead_of_controller_ms=DAY_MS + 70_000, ahead_of_elapsed_ms=leap.ahead_of_elapsed_ms
        ),
    )
    assert (cluster.last.effects, cluster.machine.alarms()) == ((), (alarm,))
    cluster.heartbeat(1)
    assert (cluster.last.effects, cluster.machine.alarms()) == ((ClearAlarm(key=key),), ())


def test_a_broker_whose_clock_never_agreed_says_so_of_the_controllers_alone() -> None:
    cluster = Cluster()
    cluster.heartbeat(2, clock_leap=ClockLeap(ahead_of_controller_ms=-DAY_MS))
    (alarm,) = cluster.machine.alarms()
    assert alarm.detail.startswith(
        "broker 2's wall clock is 1 d 0 h 0 min behind the controller's: one of them is wrong."
    )


def test_a_certificate_that_ends_within_two_weeks_is_an_alarm_until_it_is_renewed() -> None:
    cluster = Cluster()
    cluster.heartbeat(1, certificate_ends_ms=14 * DAY_MS + 1)
    assert cluster.machine.alarms() == ()
    for ends_ms, code, words in (
        (14 * DAY_MS, AlarmCode.CERTIFICATE_EXPIRES, "broker 1 ends at 1970-01-15"),
        (0, AlarmCode.CERTIFICATE_EXPIRED, "broker 1 has ended at 1970-01-01T00:00:00Z: new connections"),
        (DAY_MS, AlarmCode.CERTIFICATE_EXPIRES, "broker 1 ends at 1970-01-02"),
    ):
        cluster.heartbeat(1, certificate_ends_ms=ends_ms)
        (alarm,) = cluster.machine.alarms()
        assert alarm.key == AlarmKey(code=code, broker_id=1)
        assert words in alarm.detail
    cluster.heartbeat(1, certificate_ends_ms=0)
    cluster.heartbeat(1, certificate_ends_ms=300 * DAY_MS)
    assert cluster.machine.alarms() == (), "renewed"
    cluster.heartbeat(1, certificate_ends_ms=0)
    cluster.heartbeat(1)
    assert cluster.machine.alarms() == (), "it has none any more"


# --- 3.7 (controlled shutdown), S27 (a successor dies at the hand-over) ---------------------------


def test_shutdown_moves_leadership_leaves_the_isr_and_waits_until_every_other_broker_knows(
    cluster: Scripted,
) -> None:
    assert cluster.play("create 1,2,3 2,1,3; stop 1") == "shutting_down"
    assert [seats(cluster.partition(number)) for number in range(2)] == [(2, (2, 3), ())] * 2
    assert [cluster.play(script) for script in ("stop 1", "beat 2; stop 1")] == ["shutting_down"] * 2
    assert cluster.play("beat 3; stop 1") == "may stop"
    assert "shutdown_below_min_isr" not in [getattr(e, "code", "") for e in cluster.effects]


def test_a_broker_that_holds_nothing_may_stop_at_once(cluster: Scripted) -> None:
    cluster.register(9)
    cluster.play("kill 3")
    for broker_id in (9, 3):
        assert cluster.play(f"stop {broker_id}") == "may stop"
        assert cluster.last.records == ()


def test_shutdown_waits_for_what_concerned_it_and_for_the_broker_itself_before_its_deadline() -> None:
    cluster = Cluster()
    cluster.kill(1)
    assert not cluster.heartbeat(3, wants_shutdown=True).may_shut_down
    sequence = cluster.image.sequence
    cluster.heartbeat(2, applied=sequence - 1)
    assert not cluster.heartbeat(3, applied=sequence, wants_shutdown=True).may_shut_down
    cluster.heartbeat(2, applied=sequence)
    cluster.heartbeat(2, applied=sequence - 1)  # late, and a position never goes back
    cluster.create((2,))
    assert cluster.heartbeat(3, wants_shutdown=True).may_shut_down
    cluster.fail_over()
    late = cluster.image.sequence - 1
    cluster.heartbeat(2)
    assert not cluster.heartbeat(3, applied=late, wants_shutdown=True).may_shut_down
    for _ in range(cluster.options.shutdown_wait_ms_max // 2_000):
        cluster.now_ms += 2_000
        cluster.heartbeat(2)
        assert not cluster.heartbeat(3, applied=late, wants_shutdown=True).may_shut_down
    cluster.now_ms += 1
    assert cluster.heartbeat(3, applied=late, wants_shutdown=True).may_shut_down


def test_shutdown_waits_for_brokers_to_apply_what_changed_last_but_not_for_dead_ones(
    cluster: Scripted,
) -> None:
    assert cluster.play("create 1,2,3; stop 1; beat 2; kill 3; beat 2; stop 1") == "may stop"


def test_shutdown_does_not_take_the_isr_below_its_minimum_while_someone_may_still_join(
    cluster: Scripted,
) -> None:
    assert cluster.play("create 1,2,3; isr 1,2; stop 1; beat all; stop 1") == "shutting_down"
    assert seats(cluster.partition()) == (2, (1, 2), ())
    cluster.play("isr 2,1,3; stop 1")
    assert seats(cluster.partition()) == (2, (2, 3), ())
    assert cluster.play("beat all; stop 1") == "may stop"


@pytest.mark.parametrize(
    ("of_the_third", "isr"),
    [
        pytest.param("isr 1,2", (1, 2), id="lives"),
        pytest.param("isr 1,2; wait 6001; beat 2", (1, 2), id="is silent, and not fenced yet"),
        pytest.param("kill 3; beat 3 -1", (1, 2), id="is back, and is not trusted yet"),
        pytest.param("kill 3", (2,), id="is dead"),
        pytest.param("stop 3", (2,), id="stops"),
    ],
)
def test_shutdown_waits_for_another_replica_only_if_it_may_join(
    cluster: Scripted, of_the_third: str, isr: tuple[int, ...]
) -> None:
    cluster.play(f"create 1,2,3; {of_the_third}; stop 1")
    assert cluster.partition().isr == isr


def test_after_its_deadline_a_shutdown_goes_below_the_minimum_into_the_elr_and_says_so(
    cluster: Scripted,
) -> None:
    wait = f"wait {cluster.options.shutdown_wait_ms_max}"
    cluster.play(f"create 1,2,3; isr 1,2; stop 1; {wait}; beat all; stop 1")
    assert cluster.partition().isr == (1, 2)
    assert cluster.play("wait 1; beat all; stop 1") == "shutting_down"  # the others have yet to apply it
    assert seats(cluster.partition()) == (2, (2,), (1,))
    assert "shutdown_below_min_isr" in [getattr(e, "code", "") for e in cluster.effects]
    assert AlarmCode.PARTITION_BELOW_MIN_ISR in [a.key.code for a in cluster.machine.alarms()]
    assert cluster.play("beat all; stop 1") == "may stop"


def test_the_last_in_sync_member_may_stop_when_nobody_can_join_and_keeps_its_seat(cluster: Scripted) -> None:
    assert cluster.play("create 1; stop 1; beat all; stop 1") == "may stop"
    assert seats(cluster.partition()) == (1, (1,), ())
    cluster.play("kill 1")
    assert seats(cluster.partition()) == (NO_LEADER, (), (1,))
    cluster.play("restart 1 clean")
    assert seats(cluster.partition()) == (1, (1,), ())


def test_the_last_in_sync_leader_lets_others_in_before_it_goes(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; isr 1; stop 1")
    assert seats(cluster.partition()) == (1, (1,), (2, 3))
    cluster.play("isr 1,2,3; stop 1")
    assert seats(cluster.partition()) == (2, (2, 3), ())


def test_the_last_in_sync_leader_goes_at_its_deadline_if_nobody_came(cluster: Scripted) -> None:
    wait = f"wait {cluster.options.shutdown_wait_ms_max}"
    assert cluster.play(f"create 1,2,3; isr 1; stop 1; beat all; {wait}; stop 1") == "shutting_down"
    assert cluster.play("wait 1; stop 1") == "may stop"
    assert seats(cluster.partition()) == (1, (1,), (2, 3))


def test_a_whole_cluster_can_be_stopped_without_waiting_for_deadlines(cluster: Scripted) -> None:
    cluster.play("create 1,2,3 2,3,1 3,1,2; stop 1,2,3; stop 1,2,3")
    assert [cluster.play(f"stop {broker_id}") for broker_id in (1, 2, 3)] == ["may stop"] * 3
    for number in range(3):
        state = cluster.partition(number)
        assert state.isr == (3,)
        assert 2 in state.elr


def test_a_broker_that_is_shutting_down_is_elected_nowhere_and_joins_no_isr(cluster: Scripted) -> None:
    assert cluster.play("create 1,2,3; stop 3; isr 1,2,3") == "ineligible_replica"
    assert cluster.partition().isr == (1, 2)
    cluster.play("kill 1,2")
    assert cluster.partition().leader == NO_LEADER


# --- a machine that was put back to an earlier moment (3.10, a host that goes back) ----------------


def beat(cluster: Cluster, count: int, *, broker_id: int = 1, **told: Any) -> HeartbeatResponse:
    broker = cluster.broker(broker_id)
    request = HeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        count=count,
        **told,
    )
    reply = cluster.step(Heartbeat(wall_ms=0, request=request, received_ms=cluster.now_ms)).reply
    assert isinstance(reply, HeartbeatResponse)
    return reply


def test_s53_a_broker_that_has_sent_fewer_heartbeats_than_were_heard_is_refused_and_told() -> None:
    cluster = Cluster()
    assert [beat(cluster, count).heard_count for count in (7, 8)] == [7, 8]
    cluster.now_ms += cluster.options.grace_ms
    refused = beat(cluster, 3)
    assert (refused.error, refused.heard_count) == (ControllerError.STALE_BROKER_EPOCH, 8)
    cluster.now_ms += 1
    cluster.step(Tick(wall_ms=0))
    assert cluster.broker(1).fenced  # nothing was renewed by it


def test_s67_a_later_heartbeat_that_has_forgotten_an_answer_is_refused_and_told() -> None:
    cluster = Cluster()
    beat(cluster, 8, answered=7)
    refused = beat(cluster, 9, answered=5)
    assert (refused.error, refused.heard_count) == (ControllerError.STALE_BROKER_EPOCH, 8)
    assert refused.heard_answered == 7
    assert beat(cluster, 9, answered=7).error is ControllerError.NONE


def test_s67_the_next_controller_learns_from_others_what_this_one_had_heard() -> None:
    cluster = Cluster()
    beat(cluster, 8, answered=7)
    told = beat(cluster, 3, broker_id=2, answered=2)
    epoch = cluster.broker(1).broker_epoch
    assert told.others == (Heard(broker_id=1, broker_epoch=epoch, count=8, answered=7),)
    cluster.fail_over()
    assert beat(cluster, 4).error is ControllerError.NONE  # nobody has told it yet
    beat(cluster, 4, broker_id=2, answered=3, others=told.others)
    assert beat(cluster, 5).heard_count == 8
    # What is told of another incarnation says nothing of this one.
    cluster.fail_over()
    (of_another,) = told.others
    others = tuple(msgspec.structs.replace(of_another, broker_epoch=epoch + step) for step in (-1, 1))
    gone = Heard(broker_id=99, broker_epoch=epoch, count=8, answered=7)
    beat(cluster, 5, broker_id=2, others=(*others, gone))
    assert beat(cluster, 4).error is ControllerError.NONE


def test_s67_a_count_that_has_caught_up_is_held_against_what_others_tell_later() -> None:
    cluster = Cluster()
    beat(cluster, 8, answered=7)
    told = beat(cluster, 3, broker_id=2, answered=2)
    cluster.fail_over()
    assert beat(cluster, 12, answered=4).error is ControllerError.NONE  # nobody has told it yet
    beat(cluster, 4, broker_id=2, answered=3, others=told.others)
    refused = beat(cluster, 13, answered=12)
    assert (refused.error, refused.has_gone_back) == (ControllerError.STALE_BROKER_EPOCH, True)


@pytest.mark.parametrize(
    ("count", "answered", "has_gone_back"),
    [(12, 5, True), (13, 5, False), (12, 4, False), (11, 4, False), (11, 9, True)],
)
def test_s67_of_two_heartbeats_the_later_one_knows_of_as_many_answers(
    count: int, answered: int, has_gone_back: bool
) -> None:
    cluster = Cluster()
    beat(cluster, 12, answered=4)
    heard = Heard(broker_id=1, broker_epoch=cluster.broker(1).broker_epoch, count=count, answered=answered)
    beat(cluster, 1, broker_id=2, others=(heard,))
    assert beat(cluster, 11, answered=11).error is ControllerError.STALE_BROKER_EPOCH
    assert beat(cluster, 14, answered=11).has_gone_back is has_gone_back


def test_a_repeated_heartbeat_is_none_that_has_gone_back_nor_is_one_without_a_number() -> None:
    cluster = Cluster()
    for count in (0, 0, 8, 8, -1):
        assert beat(cluster, count, answered=count).error is ControllerError.NONE
    for count in (7, 0):
        assert beat(cluster, count, answered=8).error is ControllerError.STALE_BROKER_EPOCH
    # A position has the number of the last heartbeat before it.
    for count, error in ((8, ControllerError.NONE), (7, ControllerError.OUTCOME_UNKNOWN)):
        position = BrokerApplied(
            wall_ms=0,
            broker_id=1,
            broker_epoch=BrokerEpoch(1),
            controller_epoch=ControllerEpoch(1),
            sequence=1,
            heartbeat_count=count,
        )
        assert cluster.ask(position, AppliedReply).error is error
    first = Cluster()
    beat(first, 0, answered=5)
    assert beat(first, 0, answered=4).error is ControllerError.STALE_BROKER_EPOCH
    assert [each.count for each in beat(first, 1, broker_id=2).others] == [0]


def test_s67_each_broker_is_told_of_the_few_that_follow_it() -> None:
    cluster = Cluster(brokers=range(1, 7))
    for broker_id in range(1, 7):
        beat(cluster, 10 + broker_id, broker_id=broker_id)
    assert [each.broker_id for each in beat(cluster, 20, broker_id=5).others] == [6, 1, 2]


def test_s68_a_broker_that_has_asked_to_stop_and_does_not_remember_it_is_told() -> None:
    cluster = Cluster()
    assert not beat(cluster, 1).has_asked_to_stop
    beat(cluster, 2, wants_shutdown=True)
    assert beat(cluster, 3).has_asked_to_stop
    cluster.kill(1)
    assert cluster.heartbeat(1).status is not BrokerStatus.ACTIVE
    assert cluster.broker(1).fenced
