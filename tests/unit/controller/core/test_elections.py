from __future__ import annotations

import itertools
from collections import Counter
from unittest.mock import patch

import pytest

from controller.core import alarms as alarms_module
from controller.core import election as election_module
from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm, MoreAlarms, Note
from controller.core.election import SLICE, seats_in_order
from controller.core.events import (
    AllocateProducerIds,
    ConfigureTopic,
    LeadersElected,
    Refusal,
    RefusalCode,
    Report,
)
from controller.core.machine import CONFIRM_REST_MS, CONFIRMATIONS_MAX
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord
from controller.shell.rows import PARTITIONS_PER_CHUNK
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import (
    FollowerLag,
    IsrProposal,
    LagReport,
    LagReportResponse,
    PartitionLag,
)
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery
from springtide.contract.session import ShutdownKind
from springtide.contract.updates import ApplyFailure, ProducerIdsRequest, ProducerIdsResponse
from tests.kit.controller.core_cluster import Cluster, changed, seats, topic_id
from tests.kit.controller.script import Scripted

RECOVERING, RECOVERED = LeaderRecovery.RECOVERING, LeaderRecovery.RECOVERED


# --- what a leader may propose: 2.4, in its order --------------------------------------------------


def test_a_report_of_an_unknown_broker_or_an_earlier_incarnation_is_not_read(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    proposal = cluster.proposal(1, 2)
    for broker_id, epoch, error in [(9, 1, "broker_not_registered"), (1, 0, "stale_broker_epoch")]:
        report = LagReport(broker_id=broker_id, broker_epoch=BrokerEpoch(epoch), proposals=(proposal,))
        response = cluster.ask(Report(wall_ms=0, request=report), LagReportResponse)
        assert (response.error, response.results) == (error, ())
    assert cluster.last.records == ()


PROPOSALS: list[tuple[str, dict[str, object], int, str]] = [
    ("unknown topic", {"topic_id": topic_id(9)}, 1, "unknown_topic_id"),
    ("unknown partition", {"partition": 9}, 1, "unknown_topic_or_partition"),
    ("an earlier leader epoch", {"leader_epoch": -1}, 1, "fenced_leader_epoch"),
    ("an earlier leader epoch, even from a stranger", {"leader_epoch": -1}, 2, "fenced_leader_epoch"),
    ("not the leader", {}, 2, "invalid_request"),
    ("an earlier partition epoch", {"partition_epoch": 0}, 1, "invalid_update_version"),
]


@pytest.mark.parametrize(("story", "wrong", "sender", "error"), PROPOSALS, ids=[p[0] for p in PROPOSALS])
def test_a_bad_proposal_gets_its_own_error_with_the_state_and_changes_nothing(
    story: str, wrong: dict[str, object], sender: int, error: str
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.propose(1, 2)
    before = cluster.partition()
    good = cluster.proposal(1)
    values = {name: getattr(good, name) for name in good.__struct_fields__}
    result = cluster.send(IsrProposal(**{**values, **wrong}), sender=sender)
    assert result.error == error, story
    assert result.state == (None if "unknown" in error else before)
    assert cluster.last.records == ()


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 1), (1, 4)])
def test_a_proposed_isr_holds_the_leader_once_and_only_replicas(isr: tuple[int, ...]) -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    assert cluster.propose(*isr).error == "invalid_request"


def test_a_repeated_proposal_whose_answer_was_lost_succeeds_with_the_present_epoch(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    base = cluster.partition()
    first, again = (cluster.propose(1, 2, base=base) for _ in range(2))
    assert again == first
    assert (again.error, again.state) == ("none", cluster.partition())


def test_of_a_shrink_and_a_fencing_from_one_base_the_later_is_told_the_newer_state(cluster: Scripted) -> None:
    """S19."""
    cluster.play("create 1,2,3")
    base = cluster.partition()
    cluster.play("kill 2")
    result = cluster.propose(1, 2, base=base)
    assert (result.error, result.state) == ("invalid_update_version", cluster.partition())


def test_an_expansion_names_the_incarnation_that_fetched(cluster: Scripted) -> None:
    """S3 (an expansion for a dead incarnation): broker 2 lost its disk between the fetch and the proposal."""
    cluster.play("create 1,2,3; isr 1,3")
    old_epoch = cluster.broker(2).broker_epoch
    cluster.play("kill 2; restart 2 first_start")
    for epoch in (old_epoch, -1):
        assert cluster.propose(1, 2, 3, epochs={2: epoch}).error == "ineligible_replica"
    assert cluster.play("isr 1,2,3") == "none"
    assert cluster.partition().isr == (1, 2, 3)


def test_a_late_copy_of_a_refused_expansion_is_never_accepted_after_all(cluster: Scripted) -> None:
    """I2 (the leader is never laxer): the leader has stopped waiting for broker 2 by then."""
    cluster.play("create 1,2,3; isr 1,3")
    cluster.heartbeat(2, wants_shutdown=True)
    base = cluster.partition()
    refused = cluster.propose(1, 2, 3)
    assert refused.error == "ineligible_replica"
    assert refused.state == changed(base, partition_epoch=base.partition_epoch + 1)
    cluster.play("restart 2 clean")
    assert cluster.propose(1, 2, 3, base=base).error == "invalid_update_version"


def test_a_fenced_or_unadmitted_broker_joins_no_isr(cluster: Scripted) -> None:
    assert cluster.play("create 1,2,3; kill 2; isr 1,2,3") == "ineligible_replica"


def test_members_that_stay_may_be_named_without_an_epoch_but_not_with_a_wrong_one(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    assert cluster.propose(1, 2, epochs={2: 99}).error == "ineligible_replica"
    assert cluster.propose(1, 2, epochs={1: -1, 2: -1}).error == "none"


def test_the_isr_is_kept_in_assignment_order_whatever_order_was_proposed(cluster: Scripted) -> None:
    cluster.play("create 3,1,2; isr 3; isr 2,3,1")
    assert cluster.partition().isr == (3, 1, 2)


def test_a_shrink_keeps_the_leader_epoch_and_says_who_asked(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    before = cluster.partition()
    cluster.play("isr 1,3")
    assert cluster.partition() == changed(before, isr=(1, 3), partition_epoch=1)
    (record,) = cluster.last.records
    assert (record.change.cause, record.change.actor) == (Cause.ISR_SHRUNK, "broker:1")


# --- ELR: 3.2 (election from the ELR), I12 (the ELR changes only with the ISR) ---------------------


def test_who_leaves_an_isr_that_falls_below_its_minimum_stays_eligible_and_nobody_else(
    cluster: Scripted,
) -> None:
    cluster.play("create 1,2,3; isr 1,3; isr 1")
    assert seats(cluster.partition()) == (1, (1,), (3,))
    cluster.play("isr 1,2")
    assert seats(cluster.partition()) == (1, (1, 2), ())


def test_when_the_isr_is_gone_an_eligible_replica_leads_alone(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; isr 1,2; isr 1; kill 1")
    assert seats(cluster.partition()) == (2, (2,), (1,))


def test_a_dead_eligible_replica_is_not_elected_and_a_behind_one_never(cluster: Scripted) -> None:
    """S38 (the only candidate is dead): the candidate must be live, and broker 3 never was one."""
    cluster.play("create 1,2,3; isr 1,2; kill 2; kill 1")
    assert seats(cluster.partition()) == (NO_LEADER, (), (1, 2))
    cluster.play("restart 2")
    assert seats(cluster.partition()) == (2, (2,), (1,))


def test_everyone_down_keeps_both_sets_and_says_replica_by_replica_why(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; isr 1,2; kill 1; kill 2")
    verdicts = cluster.machine.explain((topic_id(), 0))
    assert [(v.broker_id, v.standing, v.broker_status, v.could_lead) for v in verdicts] == [
        (1, "eligible", "fenced", True),
        (2, "eligible", "fenced", True),
        (3, "behind", "active", False),
    ]
    key = AlarmKey(code=AlarmCode.PARTITION_LEADERLESS, topic_id=topic_id(), partition=0)
    (detail,) = [e.detail for e in cluster.last.effects if isinstance(e, Alarm) and e.key == key]
    assert all(f"broker {b}" in detail for b in (1, 2, 3))
    assert "springtide" not in detail  # waiting is enough
    cluster.play("restart 1")
    assert ClearAlarm(key=key) in cluster.last.effects
    assert cluster.machine.explain((topic_id(), 0)) == ()


def test_a_partition_that_nobody_may_lead_says_how_an_operator_goes_on(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; kill 1,2,3")
    cluster.play("restart 1 machine_crash; restart 2 machine_crash; restart 3 machine_crash")
    state = cluster.partition()
    assert seats(state) == (NO_LEADER, (), ())
    (alarm,) = [a for a in cluster.machine.alarms() if a.key.code is AlarmCode.PARTITION_LEADERLESS]
    told = Counter(a.key.code for a in cluster.machine.alarms())
    assert cluster.machine.alarm_counts() == {code: told[code] for code in AlarmCode}
    cluster.play("preferred")
    refusal = cluster.last.reply
    assert isinstance(refusal, Refusal)
    name = f"{state.topic} 0"
    for said in (alarm.detail, refusal.hint or ""):
        assert f"`springtide partitions preview-loss {name}`" in said
        assert f"`springtide elect-leader {name} --election-type unclean" in said
        assert f"--partition-epoch {state.partition_epoch} " in said


@pytest.mark.parametrize("minimum", ["1", "2", "3"])
def test_an_isr_at_or_above_its_minimum_has_no_elr(minimum: str) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"min.insync.replicas": minimum})
    for broker_id in (3, 2, 1):
        cluster.kill(broker_id)
        state = cluster.partition()
        assert (len(state.isr) >= int(minimum)) <= (state.elr == ())
        assert set(state.isr).isdisjoint(state.elr)
    assert cluster.partition().elr == (1, 2, 3)[: int(minimum)]


def test_clean_election_follows_assignment_order_and_raises_the_leader_epoch(cluster: Scripted) -> None:
    cluster.play("create 2,3,1; kill 2")
    state = cluster.partition()
    assert (seats(state), state.leader_epoch, state.partition_epoch) == ((3, (3, 1), ()), 1, 1)


# --- unclean: 3.5 (unclean election), I15 (no cut below the high watermark) ------------------------


LEADERLESS = "create 1,2,3; isr 1,2; kill 2; kill 1"


def test_an_operator_may_choose_a_live_replica_which_then_leads_alone_under_a_mark(cluster: Scripted) -> None:
    cluster.play(LEADERLESS)
    before = cluster.partition()
    dry = cluster.ask(cluster.unclean(dry_run=True), LeadersElected)
    assert (cluster.last.records, cluster.partition()) == ((), before)
    real = cluster.ask(cluster.unclean(), LeadersElected)
    assert real.partitions == dry.partitions == (cluster.partition(),)
    epoch = before.leader_epoch + 1
    assert cluster.partition() == changed(
        before,
        leader=3,
        leader_epoch=epoch,
        partition_epoch=before.partition_epoch + 1,
        isr=(3,),
        elr=(),
        last_known_leader=NO_LEADER,
        recovery=RECOVERING,
        unclean_leader_epoch=epoch,
        new_replicas=(1, 2),
    )
    (record,) = cluster.last.records
    assert (record.change.actor, record.change.reason) == ("ann", "lost store1")


@pytest.mark.parametrize(
    ("broker_id", "wrong", "code"),
    [
        (3, {"partition_epoch": 0}, RefusalCode.PARTITION_CHANGED),
        (1, {}, RefusalCode.INELIGIBLE_BROKER),
        (9, {}, RefusalCode.INELIGIBLE_BROKER),
    ],
)
def test_an_unclean_election_on_old_knowledge_or_of_a_dead_broker_is_refused(
    broker_id: int, wrong: dict[str, object], code: RefusalCode
) -> None:
    cluster = Scripted()
    cluster.play(LEADERLESS)
    assert cluster.ask(cluster.unclean(broker_id, **wrong), Refusal).code is code
    assert cluster.last.records == ()


def test_an_unclean_election_is_refused_while_there_is_a_leader(cluster: Scripted) -> None:
    assert cluster.play("create 1,2,3; unclean 3") == RefusalCode.ELECTION_NOT_NEEDED


def test_a_recovering_leader_admits_nobody_until_it_has_confirmed_its_log(cluster: Scripted) -> None:
    assert cluster.play(f"{LEADERLESS}; unclean 3; restart 1; isr 3,1 recovering") == "invalid_request"
    assert cluster.play("isr 3 recovered") == "none"
    assert cluster.partition().recovery is RECOVERED
    assert cluster.play("isr 3 recovering") == "invalid_request"
    assert cluster.play("isr 3,1") == "none"
    assert seats(cluster.partition()) == (3, (1, 3), ())


def test_a_recovering_leader_that_dies_returns_recovering(cluster: Scripted) -> None:
    cluster.play(f"{LEADERLESS}; unclean 3")
    mark = cluster.partition().unclean_leader_epoch
    cluster.play("kill 3; restart 3")
    state = cluster.partition()
    assert (seats(state), state.recovery, state.unclean_leader_epoch) == ((3, (3,), ()), RECOVERING, mark)


@pytest.mark.parametrize(("setting", "leader"), [("false", NO_LEADER), ("true", 3)])
def test_only_a_topic_that_opted_in_elects_uncleanly_by_itself(
    cluster: Scripted, setting: str, leader: int
) -> None:
    cluster.play(f"create 1,2,3 unclean.leader.election.enable={setting}; isr 1,2; kill 2; kill 1")
    state = cluster.partition()
    assert state.leader == leader
    assert (state.recovery is RECOVERING) == (leader == 3)


def test_an_opted_in_partition_with_nobody_live_waits_for_the_first_to_return(cluster: Scripted) -> None:
    cluster.play("create 1,2,3 unclean.leader.election.enable=true; isr 1,2; kill 3,2,1")
    assert cluster.partition().leader == NO_LEADER
    cluster.play("restart 3")
    assert (cluster.partition().leader, cluster.partition().recovery) == (3, RECOVERING)


@pytest.mark.parametrize("controller", ["", "fail-over"])
def test_no_leader_is_elected_uncleanly_once_the_topic_has_opted_out(
    cluster: Scripted, controller: str
) -> None:
    """2.12 (what an answer means): it is in force when it is stored, for the controller alone elects, and its
    successor reads it in the rows."""
    cluster.play("create 1,2,3 unclean.leader.election.enable=true; isr 1,2; kill 2")
    opt_out: dict[str, str | None] = {"unclean.leader.election.enable": "false"}
    cluster.step(ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs=opt_out))
    cluster.play(f"{controller}; kill 1; run 20000")
    state = cluster.partition()
    assert (seats(state), state.recovery) == ((NO_LEADER, (), (1, 2)), RECOVERED)


def test_an_unclean_election_prefers_who_held_a_seat_but_could_not_prove_its_log(cluster: Scripted) -> None:
    """KIP-966: after a power cut that log may lack a tail; the log of 3, who was behind, lacks more."""
    cluster.play("""
        create 2,3,1 unclean.leader.election.enable=true
        isr 2,1
        kill 1; restart 1 machine_crash
        kill 2
    """)
    assert (cluster.partition().leader, cluster.partition().recovery) == (1, RECOVERING)


def test_with_a_minimum_of_one_an_isolated_leader_shrinks_to_itself_and_is_replaced_uncleanly(
    cluster: Scripted,
) -> None:
    """The settings of 2013: what it acknowledged alone is lost, and the record that loses it says so."""
    cluster.play("create 1,2,3 min.insync.replicas=1 unclean.leader.election.enable=true; isr 1")
    assert seats(cluster.partition()) == (1, (1,), ())
    cluster.play(f"pass {cluster.options.grace_ms - 1}; beat 2,3; pass 2")  # 1 is fenced for its silence
    state = cluster.partition()
    assert seats(state) == (2, (2,), ())
    assert (state.recovery, state.unclean_leader_epoch) == (RECOVERING, state.leader_epoch)
    change = cluster.last.records[-1].change
    assert (change.cause, change.reason) == (
        Cause.UNCLEAN_LEADER_ELECTED,
        "unclean.leader.election.enable is true",
    )
    told = [effect.code for effect in cluster.last.effects if isinstance(effect, Note)]
    assert told.count("unclean_leader_elected") == 1


# --- lost logs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("has_log", "new_replicas"), [(True, (1, 2)), (False, (1, 2, 3))])
def test_who_loses_its_seat_is_new_no_more_if_it_had_made_its_log(
    cluster: Scripted, has_log: bool, new_replicas: tuple[int, ...]
) -> None:
    """Its ELR seat says that it holds every committed record. Back without a log it must not begin an empty
    one under that seat, as it may while the round that confirms new replicas has yet to come. What it has
    applied is no word about its log: creations lag behind positions (2.8, applying batches)."""
    cluster.play(f"create 1,2,3 min.insync.replicas=3; beat 3; {'created 3' * has_log}; kill 3")
    state = cluster.partition()
    assert (seats(state), state.new_replicas) == ((1, (1, 2), (3,)), new_replicas)


def missing(cluster: Cluster, code: str = "log_missing") -> ApplyFailure:
    return ApplyFailure(
        topic_id=topic_id(),
        partition=0,
        partition_epoch=PartitionEpoch(cluster.partition().partition_epoch),
        code=code,
        detail="no such directory",
    )


def test_a_leader_begins_anew_when_a_follower_lost_its_log(cluster: Scripted) -> None:
    """It would else remember how far that follower had come, and ask for it again at once."""
    cluster.play("create 1,2,3")
    cluster.applied(3, missing(cluster))
    state = cluster.partition()
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2))


@pytest.mark.parametrize("code", ["log_missing", "storage_error"])
def test_a_replica_whose_log_is_gone_leaves_isr_and_elr_and_may_come_back_as_a_learner(
    cluster: Scripted, code: str
) -> None:
    cluster.play("create 1,2,3")
    cluster.applied(1, missing(cluster, code))
    state = cluster.partition()
    assert seats(state) == (2, (2, 3), ())
    assert (state.leader_epoch, state.partition_epoch) == (1, 1)
    key = AlarmKey(code=AlarmCode(code), topic_id=topic_id(), partition=0, broker_id=1)
    assert key in [a.key for a in cluster.machine.alarms()]
    cluster.play("isr 1,2,3")
    assert ClearAlarm(key=key) in cluster.last.effects


def test_a_late_copy_of_a_failure_does_not_take_the_seat_of_a_recovered_replica(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    old = missing(cluster)
    cluster.applied(3, old)
    cluster.play("isr 1,2,3")
    cluster.applied(3, old)
    assert cluster.partition().isr == (1, 2, 3)


def test_a_broker_is_not_elected_in_the_step_in_which_it_says_that_its_log_is_gone(cluster: Scripted) -> None:
    cluster.play("create 1; kill 1")
    cluster.register(1, "b", last_shutdown=ShutdownKind.PROCESS_CRASH)
    # A heartbeat that arrived before the broker had applied anything does not unfence it.
    cluster.heartbeat(1, applied=-1)
    cluster.applied(1, missing(cluster))
    assert seats(cluster.partition()) == (NO_LEADER, (), ())
    assert cluster.partition().last_known_elr == (1,)


def test_quarantine_is_alarmed_and_takes_no_seat_and_a_divergent_suffix_is_noted(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; isr 1,2; reports 3 quarantined divergent")
    assert cluster.last.records == ()
    assert [a.key.code for a in cluster.machine.alarms()] == [AlarmCode.REPLICA_QUARANTINED]
    assert [e.code for e in cluster.last.effects if isinstance(e, Note)] == ["replica_divergent"]


def test_a_problem_of_an_earlier_leader_epoch_is_history(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; kill 1")
    cluster.reports(3, "log_missing", leader_epoch=0)
    assert cluster.last.records == ()


# --- rotten replicas (5.7, scrubbing) --------------------------------------------------------------


def rot_alarms(cluster: Cluster) -> list[int | None]:
    return [a.key.broker_id for a in cluster.machine.alarms() if a.key.code is AlarmCode.REPLICA_ROTTEN]


def test_a_rotten_leader_gives_its_seat_to_one_that_is_whole_until_it_is_in_sync_again(
    cluster: Scripted,
) -> None:
    cluster.play("create 1,2,3; reports 1 rotten")
    assert (seats(cluster.partition()), rot_alarms(cluster)) == ((2, (2, 3), ()), [1])
    cluster.play("isr 1,2,3")
    assert rot_alarms(cluster) == []


def test_a_rotten_follower_loses_its_seat_and_the_leader_forgets_how_far_it_was(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; reports 3 rotten")
    state = cluster.partition()
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2))


def test_a_rotten_replica_without_a_seat_is_forgotten_by_its_leader(cluster: Scripted) -> None:
    """Else the leader might propose it, by what it said before, while it begins anew."""
    cluster.play("create 1,2,3; kill 3; restart 3")
    before = cluster.partition()
    cluster.play("reports 3 rotten")
    after = cluster.partition()
    assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch + 1, before.isr)
    cluster.play("kill 1,2")
    without_leader = cluster.partition()
    assert without_leader.leader == NO_LEADER
    cluster.play("reports 3 rotten")
    assert cluster.partition() == without_leader


def test_rot_is_the_word_of_one_process_and_the_next_tells_it_again_if_it_is_so(cluster: Scripted) -> None:
    """A new disk has another log, which may get into the ISR and lead at once."""
    told = []
    for script in ("create 1,2,3; reports 1 rotten", "kill 1", "restart 1", "reports 1 rotten"):
        cluster.play(script)
        told.append(rot_alarms(cluster))
    assert told == [[1], [1], [], [1]]


def test_a_rotten_replica_that_nobody_can_stand_in_for_keeps_its_seat_and_is_alarmed(
    cluster: Scripted,
) -> None:
    """Then another is back, and the rotten one says again what it said."""
    cluster.play("create 1,2,3; kill 2,3")
    before = cluster.partition()
    cluster.play("reports 1 rotten")
    assert (cluster.partition(), rot_alarms(cluster)) == (before, [1])
    cluster.play("restart 2; isr 1,2")
    assert rot_alarms(cluster) == [1]
    cluster.play("reports 1 rotten")
    assert seats(cluster.partition())[0] == 2
    assert 1 not in (*cluster.partition().isr, *cluster.partition().elr)


def test_a_follower_that_is_sent_whole_batches_again_is_no_alarm_any_more(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; reports 2 batch_refused")
    assert [a.key.code for a in cluster.machine.alarms()] == [AlarmCode.BATCH_REFUSED]
    cluster.play("reports 2 batch_taken")
    assert cluster.machine.alarms() == ()


def test_what_is_mended_is_no_alarm_any_more(cluster: Scripted) -> None:
    cluster.play("create 1; reports 1 rotten")
    assert rot_alarms(cluster) == [1]
    cluster.play("reports 1 mended")
    assert rot_alarms(cluster) == []


def test_s54_what_a_leader_tells_of_a_follower_that_went_back_takes_its_seat(cluster: Scripted) -> None:
    cluster.play("create 1,2,3")
    cluster.reports(2, "went_back", broker_id=3)  # not the leader
    assert cluster.partition().isr == (1, 2, 3)
    cluster.reports(1, "went_back", broker_id=3)
    state = cluster.partition()
    assert (seats(state), state.leader_epoch) == ((1, (1, 2), ()), 1)
    cluster.reports(1, "went_back", broker_id=3)  # it has no seat, but may have been promised one
    assert (cluster.partition().isr, cluster.partition().leader_epoch) == ((1, 2), 2)


def test_s55_a_leader_that_went_back_is_succeeded(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; reports 1 went_back")
    assert seats(cluster.partition()) == (2, (2, 3), ())


# --- new replicas ----------------------------------------------------------------------------------


def test_new_replicas_are_confirmed_in_one_record_once_every_live_one_has_told_of_its_log(
    cluster: Scripted,
) -> None:
    cluster.play("create 1,2,3")
    created = cluster.partition()
    assert created.new_replicas == (1, 2, 3)
    cluster.play("created 1,2")
    cluster.applied(3)  # which is no word about its log
    cluster.play("pass 1000")
    assert cluster.partition() == created
    cluster.play("created 3; pass 1000")
    assert cluster.partition() == changed(created, new_replicas=(), partition_epoch=1)
    cluster.play("beat 1,2,3; pass 1000")
    assert cluster.last.records == ()


def test_of_very_many_new_replicas_the_rest_is_confirmed_soon() -> None:
    """A round is bounded, so that heartbeats are answered; the next comes after a rest, not after the time
    for which reports are collected."""
    cluster = Cluster()
    count = 2 * CONFIRMATIONS_MAX + 1
    cluster.create(*[(1, 2, 3)] * count)
    for broker_id in (1, 2, 3):
        cluster.created(broker_id, *range(count))
    confirmed = [len(cluster.pass_ms(1_000).records)]
    for _ in range(2):
        deadline_ms = cluster.machine.next_deadline_ms()
        assert deadline_ms is not None and cluster.now_ms < deadline_ms <= cluster.now_ms + CONFIRM_REST_MS
        confirmed.append(len(cluster.pass_ms(CONFIRM_REST_MS).records))
    assert confirmed == [CONFIRMATIONS_MAX, CONFIRMATIONS_MAX, 1]
    assert not cluster.image.unconfirmed_new
    assert not any(cluster.machine._sessions.created.values())


def test_a_dead_new_replica_does_not_hold_up_the_others(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; kill 3; created 1,2; pass 1000")
    assert cluster.partition().new_replicas == (3,)
    cluster.play("restart 3; created 3; pass 1000")
    assert cluster.partition().new_replicas == ()


def test_s56_a_position_before_the_announcement_says_nothing_of_logs(cluster: Scripted) -> None:
    """Partitions are written, and published, before the row that announces their topic. A broker that polls
    in between is answered with nothing, and has then applied a position beyond their records."""
    cluster.play("create 1,2,3 2,3,1 3,1,2")
    for broker_id in (1, 2, 3):
        cluster.applied(broker_id, sequence=cluster.image.sequence - 1)
    cluster.play("pass 1000; fail-over; pass 1000")
    assert [cluster.partition(n).new_replicas for n in range(3)] == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]


def test_s56_a_controller_that_took_over_has_heard_of_no_log(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; created 1,2,3; fail-over; beat 1,2,3; pass 1000")
    assert cluster.partition().new_replicas == (1, 2, 3)
    cluster.play("created 1,2,3; pass 1000")
    assert cluster.partition().new_replicas == ()


def test_i8_what_an_earlier_incarnation_told_of_its_logs_counts_for_nothing(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; kill 3")
    epoch = cluster.broker(3).broker_epoch
    cluster.play("restart 3; created 1,2")
    cluster.created(3, epoch=epoch)
    cluster.play("pass 1000")
    assert cluster.partition().new_replicas == (1, 2, 3)


def test_logs_are_confirmed_partition_by_partition(cluster: Scripted) -> None:
    cluster.play("create 1,2 2,1; created 1; created 2 1; pass 1000")
    assert [cluster.partition(n).new_replicas for n in range(2)] == [(1, 2), ()]


def test_who_joins_an_isr_is_new_no_more(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; kill 3; restart 3; isr 1,2,3")
    assert cluster.partition().new_replicas == (1, 2)


def test_who_joins_an_isr_before_it_tells_of_its_log_does_not_hold_up_the_others(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; isr 1,2; created 1,2; pass 1000")
    assert cluster.partition().new_replicas == (1, 2, 3)
    cluster.play("isr 1,2,3; created 3; pass 1000")
    assert cluster.partition().new_replicas == ()


def test_a_new_replica_that_restarts_and_says_no_more_does_not_hold_up_the_others(cluster: Scripted) -> None:
    cluster.play("create 1,2,3; created 1,2; pass 1000")
    assert cluster.partition().new_replicas == (1, 2, 3)
    epoch = cluster.broker(3).broker_epoch
    registered = cluster.register(3, "b", last_shutdown=ShutdownKind.CLEAN, previous_broker_epoch=epoch)
    assert registered.error == "none"
    cluster.play("pass 1000")
    assert cluster.partition().new_replicas == (3,)


# --- 3.6 (preferred leaders) ----------------------------------------------------------------------


#: Broker 1 died, came back, and is in sync again; broker 2 leads its partition.
DISPLACED = "create 1,2,3; kill 1; restart 1; isr 1,2,3; reports 2"


def test_a_preferred_leader_returns_after_its_delay_and_not_before(cluster: Scripted) -> None:
    cluster.play(f"{DISPLACED}; run 5000")
    assert cluster.partition().leader == 2
    cluster.play("run 1500")
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 2)


def test_preferred_leaders_return_a_bounded_number_at_a_time() -> None:
    cluster = Scripted(ControllerOptions(preferred_leader_moves_max=3))
    cluster.play(f"create {'1,2,3 ' * 8}; kill 1; restart 1")
    for number in range(8):
        cluster.propose(1, 2, 3, base=cluster.partition(number))
    cluster.play("reports 2; run 6500")
    counts = []
    for _ in range(3):
        counts.append(sum(cluster.partition(n).leader == 1 for n in range(8)))
        cluster.play("run 1000")
    assert counts == [3, 6, 8]


def test_leaders_stay_where_they_are_when_the_operator_wants_that() -> None:
    cluster = Scripted(ControllerOptions(auto_leader_rebalance=False))
    cluster.play(f"{DISPLACED}; run 10000")
    assert cluster.partition().leader == 2


def test_a_preferred_replica_that_lags_does_not_return_yet(cluster: Scripted) -> None:
    cluster.play(DISPLACED)
    lag = PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=LeaderEpoch(1),
        log_start_offset=0,
        log_end_offset=9_000,
        high_watermark=10,
        size_bytes=1,
        followers=(FollowerLag(broker_id=1, log_end_offset=10, lag_records=8_990, lag_ms=9),),
    )
    cluster.step(Report(wall_ms=0, request=LagReport(broker_id=2, broker_epoch=BrokerEpoch(2), lags=(lag,))))
    cluster.play("run 10000")
    assert cluster.partition().leader == 2


def test_a_preferred_election_by_hand_needs_no_delay_and_a_replica_in_sync(cluster: Scripted) -> None:
    cluster.play(f"{DISPLACED}; preferred")
    assert cluster.partition().leader == 1
    assert cluster.play("preferred") == RefusalCode.ELECTION_NOT_NEEDED
    assert cluster.play("kill 1; preferred") == RefusalCode.INELIGIBLE_BROKER


# --- producer ids: 6.8 (blocks of ids) -------------------------------------------------------------


def test_producer_id_blocks_never_overlap_not_even_across_controllers() -> None:
    """KAFKA-15552: there new controllers gave a block once more, and two producers had one id."""
    cluster = Cluster()
    event = AllocateProducerIds(
        wall_ms=0, request=ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1))
    )
    blocks = []
    for _ in range(3):
        reply = cluster.ask(event, ProducerIdsResponse)
        blocks.append((reply.first_producer_id, reply.count))
        cluster.fail_over()
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = AllocateProducerIds(
        wall_ms=0, request=ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(9))
    )
    assert cluster.ask(stale, ProducerIdsResponse).error is ControllerError.STALE_BROKER_EPOCH


# --- the work of one step --------------------------------------------------------------------------

MANY = 60


def _alarms_in(cluster: Cluster, code: AlarmCode) -> tuple[int, int]:
    """Those that the last step raised in words, and those it only counted."""
    raised = [e for e in cluster.last.effects if isinstance(e, Alarm) and e.key.code is code]
    more = [e.count for e in cluster.last.effects if isinstance(e, MoreAlarms) and e.code is code]
    return len(raised), sum(more)


def test_a_step_that_makes_many_partitions_leaderless_puts_a_few_alarms_into_words() -> None:
    cluster = Cluster()
    cluster.create(*((1, 2, 3),) * MANY)
    with patch.object(alarms_module, "describe", wraps=alarms_module.describe) as describe:
        cluster.kill(1, 2, 3)
    few = alarms_module.ALARMS_TOLD_PER_STEP_MAX
    assert _alarms_in(cluster, AlarmCode.PARTITION_LEADERLESS) == (few, MANY - few)
    assert describe.call_count <= 3 * few  # below the minimum twice, leaderless once
    assert cluster.machine.alarm_counts()[AlarmCode.PARTITION_LEADERLESS] == MANY
    cluster.restart(3)
    cleared = [e for e in cluster.last.effects if isinstance(e, ClearAlarm) and e.key.partition is not None]
    assert len(cleared) == few
    assert MoreAlarms(code=AlarmCode.PARTITION_LEADERLESS, is_cleared=True, count=MANY - few) in (
        cluster.last.effects
    )


def test_a_takeover_looks_once_at_a_partition_whose_seats_its_predecessor_has_settled() -> None:
    cluster = Cluster()
    cluster.create(*((1, 2, 3),) * MANY)
    cluster.kill(1, 2, 3)
    with (
        patch.object(alarms_module, "describe", wraps=alarms_module.describe) as describe,
        patch.object(election_module, "settle", wraps=election_module.settle) as settle,
    ):
        cluster.fail_over()
    assert settle.call_count == MANY
    assert describe.call_count <= 2 * alarms_module.ALARMS_TOLD_PER_STEP_MAX
    assert cluster.machine.alarm_counts()[AlarmCode.PARTITION_LEADERLESS] == MANY


def test_a_dead_brokers_partitions_move_at_once_and_its_other_seats_in_slices() -> None:
    cluster = Cluster(options=ControllerOptions(vacated_per_step_max=2))
    cluster.create((2, 1, 3), (1, 2, 3), (2, 1, 3), (1, 3, 2), (3, 1, 2), (1, 2, 3), (2, 3, 1))
    step = cluster.kill(1)
    moved = [record.state.partition for record in step.records if isinstance(record, PartitionRecord)]
    assert moved == [1, 3, 5], "what it led, and nothing else"
    assert seats(cluster.partition(1))[0] == 2
    for left in ((0, 2), (4, 6)):
        assert cluster.machine.next_deadline_ms() == 0
        cluster.heartbeat(1)
        assert cluster.broker(1).fenced, "not trusted again before it has lost its seats"
        step = cluster.pass_ms(1)
        slice_of = [record.state for record in step.records if isinstance(record, PartitionRecord)]
        assert tuple(state.partition for state in slice_of) == left
        assert all(1 not in state.isr for state in slice_of)
    assert cluster.machine.next_deadline_ms() != 0


def test_another_incarnation_loses_every_seat_before_it_is_registered() -> None:
    cluster = Cluster(options=ControllerOptions(vacated_per_step_max=1))
    cluster.create((2, 1, 3), (2, 3, 1), (3, 1, 2))
    cluster.kill(1)
    cluster.restart(1)
    assert all(1 not in state.isr for state in cluster.image.partitions.values())
    assert cluster.machine.next_deadline_ms() != 0


def test_partitions_that_were_there_get_a_leader_before_those_that_are_being_created() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (1, 2, 3), (1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.created(broker_id, 1, epoch=None)
    cluster.pass_ms(2_000)
    assert list(cluster.image.unconfirmed_new) == [(topic_id(), 0), (topic_id(), 2)]
    step = cluster.kill(1)
    moved = [record.state.partition for record in step.records if isinstance(record, PartitionRecord)]
    assert moved == [1, 0, 2]


def test_a_dead_brokers_partitions_come_by_slices_of_which_none_comes_twice() -> None:
    """A slice is stored as a whole: what comes back to it later writes it again."""
    cluster = Cluster()
    for number, count in enumerate((250, 20, 130)):
        cluster.create(*[(1, 2, 3)] * count, number=number)
    found = [(key[1] // SLICE, key[0]) for key in seats_in_order(cluster.image, 1)]
    slices = [one for one, _ in itertools.groupby(found)]
    assert len(found) == 400
    assert slices == sorted(set(slices))
    assert SLICE == PARTITIONS_PER_CHUNK
