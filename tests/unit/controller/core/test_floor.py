"""A log that is shorter than what the controller heard to be committed is not elected (3.8, how a broker
returns)."""

from __future__ import annotations

import pytest

from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import ElectUnclean, LeadersElected
from controller.core.floor import Floors
from controller.core.image import ClusterImage
from controller.core.loss import LogEnds
from controller.core.records import Cause
from springtide.contract.partition_state import NO_LEADER
from tests.kit.controller.core_cluster import (
    Cluster,
    changed,
    hear,
    log_end,
    seats,
    tell,
    topic_id,
    way_out,
)


def short(broker_id: int) -> AlarmKey:
    return AlarmKey(code=AlarmCode.LOG_SHORT, topic_id=topic_id(), partition=0, broker_id=broker_id)


def all_stopped(*, high_watermark: int) -> Cluster:
    """All three were killed, broker 1 first: 2 and 3 hold everything, and stand in the ELR."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    if high_watermark:
        hear(cluster, high_watermark)
    cluster.kill(1, 2, 3)
    assert seats(cluster.partition()) == (NO_LEADER, (), (2, 3))
    return cluster


def elect(cluster: Cluster, broker_id: int) -> None:
    """An operator chooses."""
    event = ElectUnclean(
        wall_ms=0,
        actor="ann",
        topic_id=topic_id(),
        partition=0,
        broker_id=broker_id,
        partition_epoch=cluster.partition().partition_epoch,
    )
    cluster.ask(event, LeadersElected)


def test_where_nothing_was_heard_a_member_of_the_elr_leads_when_it_is_back() -> None:
    cluster = all_stopped(high_watermark=0)
    cluster.restart(2)
    assert cluster.partition().leader == 2


def test_where_nothing_was_heard_the_longest_of_those_that_live_leads() -> None:
    """An older copy lies over the log of broker 2, and nothing shows it: the controller failed over."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(2)
    cluster.restart(2)
    for isr in ((1, 2, 3), (1,)):  # 2 and 3 lag then
        assert cluster.propose(*isr).error.value == "none"
    assert seats(cluster.partition()) == (1, (1,), (2, 3))
    cluster.fail_over()
    cluster.kill(1)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 2, 367, (0, 0))
    tell(cluster, 3, 743, (0, 0))
    assert cluster.partition().leader == 3


def told_and_gone() -> Cluster:
    """Broker 3 told of a longer log than 2, and died before 2 told."""
    cluster = all_stopped(high_watermark=300)
    for broker_id in (2, 3):
        cluster.restart(broker_id)
    tell(cluster, 3, 743, (0, 0))
    cluster.kill(3)
    tell(cluster, 2, 367, (0, 0))
    return cluster


def test_a_longer_log_that_was_told_of_counts_although_its_broker_died() -> None:
    cluster = told_and_gone()
    assert seats(cluster.partition()) == (NO_LEADER, (), (2, 3))
    said = way_out(cluster)
    assert said is not None and said.startswith("bring back broker 3 with its disk")
    assert (
        "broker 2 lacks nothing that is known to be committed; it lacks 376 records that others reported"
        in said
    )
    assert "springtide elect-leader orders-0 0 --election-type unclean" in said
    (alarm,) = (a for a in cluster.machine.alarms() if a.key.code is AlarmCode.PARTITION_LEADERLESS)
    assert "preview-loss orders-0 0` names the way out" in alarm.detail
    cluster.restart(3, "c")
    tell(cluster, 3, 743, (0, 0))
    assert cluster.partition().leader == 3


def test_an_operator_who_chooses_the_shorter_log_lifts_it() -> None:
    cluster = told_and_gone()
    elect(cluster, 2)
    assert cluster.records[-1].change.cause is Cause.UNCLEAN_LEADER_ELECTED
    assert cluster.partition().leader == 2


def test_an_opt_in_to_unclean_elections_waits_for_nobody_that_is_gone_and_for_those_that_live() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"unclean.leader.election.enable": "true"})
    hear(cluster, 300)
    cluster.kill(1, 2, 3)
    assert seats(cluster.partition()) == (NO_LEADER, (), (2, 3))
    cluster.restart(2)
    assert cluster.partition().leader == NO_LEADER, "it may be whole, and has not told yet"
    cluster.restart(3)
    tell(cluster, 3, 743, (0, 0))
    cluster.kill(3)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 2, 367, (0, 0))
    assert cluster.records[-1].change.cause is Cause.UNCLEAN_LEADER_ELECTED
    assert cluster.partition().leader == 2


def test_where_something_was_committed_it_leads_once_it_has_told_of_a_log_that_reaches_it() -> None:
    cluster = all_stopped(high_watermark=7)
    cluster.restart(2)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 2, 7, (0, 0))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_what_was_told_before_the_broker_is_trusted_counts_when_it_is() -> None:
    cluster = all_stopped(high_watermark=7)
    cluster.register(2, "b", last_shutdown=cluster.broker(2).last_shutdown.PROCESS_CRASH)
    tell(cluster, 2, 9, (0, 0))
    assert cluster.partition().leader == NO_LEADER
    cluster.heartbeat(2)
    assert cluster.partition().leader == 2


def test_a_log_that_falls_short_loses_its_seat_with_an_alarm_and_the_next_one_leads() -> None:
    cluster = all_stopped(high_watermark=7)
    cluster.restart(2)
    tell(cluster, 2, 0)
    assert seats(cluster.partition()) == (NO_LEADER, (), (3,))
    assert cluster.partition().last_known_elr == (2,)
    (alarm,) = (alarm for alarm in cluster.machine.alarms() if alarm.key == short(2))
    assert "ends at 0, but 7 is known to be committed" in alarm.detail
    cluster.fail_over()  # the next controller has heard of nothing
    cluster.heartbeat(2)
    assert cluster.partition().leader == NO_LEADER
    cluster.restart(3)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 3, 7, (0, 0))
    assert cluster.partition().leader == 3


def test_the_last_one_that_falls_short_leaves_the_partition_to_a_person() -> None:
    cluster = all_stopped(high_watermark=7)
    for broker_id in (2, 3):
        cluster.restart(broker_id)
        tell(cluster, broker_id, 6, (0, 0))
    assert seats(cluster.partition()) == (NO_LEADER, (), ())
    assert {short(2), short(3)} <= {alarm.key for alarm in cluster.machine.alarms()}


def test_what_another_replica_knows_to_be_committed_counts_like_a_leaders_word() -> None:
    cluster = all_stopped(high_watermark=0)
    cluster.register(1, "b")
    tell(cluster, 1, 5, (0, 0), high_watermark=5)
    cluster.restart(2)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 2, 4, (0, 0))
    assert seats(cluster.partition()) == (NO_LEADER, (), (3,))


def test_a_member_that_never_stopped_tells_before_it_takes_over_too() -> None:
    """It costs a report: the ELR leads only where the minimum was lost before."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    hear(cluster, 7)
    cluster.kill(3)
    assert cluster.propose(1).error.value == "none"  # 2 lags, and stays eligible
    assert seats(cluster.partition()) == (1, (1,), (2,))
    cluster.kill(1)
    assert cluster.partition().leader == NO_LEADER
    tell(cluster, 2, 8, (0, 0))
    assert cluster.partition().leader == 2


def test_an_unclean_election_voids_what_was_heard_before_it() -> None:
    cluster = all_stopped(high_watermark=7)
    cluster.restart(1)
    elect(cluster, 1)
    assert cluster.records[-1].change.cause is Cause.UNCLEAN_LEADER_ELECTED
    hear(cluster, 2)
    cluster.kill(1)
    cluster.restart(1, "c")
    tell(cluster, 1, 2, (0, 0), (cluster.partition().unclean_leader_epoch, 2))
    assert cluster.partition().leader == 1
    assert cluster.partition().high_watermark_floor == 0


def test_the_next_controller_knows_by_the_row_what_was_committed() -> None:
    """Broker 3 was the last in sync; an older copy is put over its log, and the controller goes."""
    cluster = Cluster()
    cluster.create((3,))
    assert cluster.partition().high_watermark_floor == 0
    hear(cluster, 743)
    cluster.kill(3)
    assert seats(cluster.partition()) == (NO_LEADER, (), (3,))
    cluster.fail_over()
    cluster.fail_over()
    cluster.restart(3)
    tell(cluster, 3, 367, (0, 0))
    assert seats(cluster.partition()) == (NO_LEADER, (), ())
    assert short(3) in {alarm.key for alarm in cluster.machine.alarms()}


def test_the_row_says_nothing_of_it_while_no_member_of_the_elr_may_have_to_lead() -> None:
    cluster = all_stopped(high_watermark=7)
    assert cluster.partition().high_watermark_floor == 7
    for broker_id in (2, 3):
        cluster.restart(broker_id)
        tell(cluster, broker_id, 7, (0, 0))
    assert cluster.partition().high_watermark_floor == 7
    assert cluster.partition().leader == 2
    assert cluster.propose(2, 3).error.value == "none"
    assert (cluster.partition().elr, cluster.partition().high_watermark_floor) == ((), 0)


def test_of_several_live_members_of_the_elr_each_tells_and_the_longest_leads() -> None:
    """One of the two logs is an older copy, and reaches the last that the controller has heard of."""
    for is_gone in (False, True):
        cluster = all_stopped(high_watermark=300)
        for broker_id in (2, 3):
            cluster.restart(broker_id)
        tell(cluster, 2, 367, (0, 0))
        assert cluster.partition().leader == NO_LEADER, "3 may have more"
        if is_gone:
            cluster.kill(3)
            assert cluster.partition().leader == 2, "3 has told of nothing"
        else:
            tell(cluster, 3, 743, (0, 0))
            assert cluster.partition().leader == 3


# The rule alone.


@pytest.mark.parametrize(
    ("live", "told", "floor", "out", "expected"),
    [
        ((2,), {}, 0, None, ((), False)),  # nothing to compare it with
        ((), {}, 1, None, ((2, 3), False)),
        ((2,), {}, 1, None, ((2, 3), True)),
        ((2, 3), {2: 5}, 0, None, ((2, 3), True)),
        ((2,), {3: 5}, 0, None, ((2, 3), True)),
        ((2,), {2: 5, 3: 9}, 0, None, ((2,), False)),
        ((2, 3), {2: 5, 3: 9}, 0, 3, ((3,), False)),  # the longer one loses its seat
        ((2, 3), {2: 5}, 0, 3, ((3,), True)),  # and needs not tell for that
    ],
)
def test_who_may_not_lead_and_whether_a_live_one_has_yet_to_tell(
    live: tuple[int, ...],
    told: dict[int, int],
    floor: int,
    out: int | None,
    expected: tuple[tuple[int, ...], bool],
) -> None:
    cluster = all_stopped(high_watermark=7)
    for broker_id in live:
        cluster.restart(broker_id)
    state = changed(cluster.partition(), high_watermark_floor=floor)
    log_ends = LogEnds()
    for broker_id, end in told.items():
        said = log_end(end, (0, 0), leader_epoch=state.leader_epoch)
        assert log_ends.note(cluster.image, broker_id, cluster.broker(broker_id).broker_epoch, said)
    floors = Floors(log_ends)
    unproven, awaits = floors.unproven(cluster.image, state, out=out), floors.awaits(cluster.image, state)
    assert (unproven, awaits) == expected


def test_a_replica_counts_that_knows_of_the_last_unclean_election_while_its_partition_is_there() -> None:
    cluster = all_stopped(high_watermark=0)
    state = changed(cluster.partition(), unclean_leader_epoch=3)
    floors = Floors(LogEnds())
    for latest_epoch, high_watermark, known in ((2, 9, 0), (3, 7, 7), (4, 8, 8)):
        floors.note_log_end(state, log_end(9, (latest_epoch, 0), high_watermark=high_watermark))
        assert floors.of(state) == known
    floors.forget(cluster.image)
    assert floors.of(state) == 8
    floors.forget(ClusterImage())
    assert floors.of(state) == 0
