"""Bounds of elections and of in-sync sets, each found by a mutant that no other test noticed
(tests/mutation)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.draft import Draft
from controller.core.election import drain, hand_over_demoted, settle, vacate_seats
from controller.core.floor import Floors
from controller.core.isr import advance, is_eligible_member
from controller.core.loss import LogEnds
from controller.core.records import Cause, Change, PartitionRecord
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionKey, PartitionState
from springtide.contract.updates import ApplyFailure
from tests.kit.controller.core_cluster import Cluster, changed, seats, topic_id

FIRST: PartitionKey = (topic_id(), 0)
OPTED_IN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
CHANGE = Change(cause=Cause.TAKEOVER_REPAIR, at_ms=0)


def with_state(*replicas: int, minimum: int = 2, **fields: object) -> Cluster:
    """A cluster whose partition came to stand so, by whatever way."""
    cluster = Cluster(brokers=sorted(replicas))
    cluster.create(replicas, configs={"min.insync.replicas": str(minimum)})
    cluster.image.partitions[FIRST] = changed(cluster.partition(), **fields)
    return cluster


def draft_of(cluster: Cluster) -> Draft:
    return Draft(cluster.image, wall_ms=0, floors=Floors(LogEnds()))


def set_broker(cluster: Cluster, broker_id: int, **fields: object) -> None:
    cluster.image.brokers[broker_id] = msgspec.structs.replace(cluster.broker(broker_id), **fields)


def log_missing(cluster: Cluster, broker_id: int) -> None:
    state = cluster.partition()
    failure = ApplyFailure(
        topic_id=topic_id(), partition=0, partition_epoch=state.partition_epoch, code="log_missing"
    )
    cluster.applied(broker_id, failure)


# In-sync sets.


@pytest.mark.parametrize("before", [(1, 2), (1,)])
def test_a_set_that_names_a_member_twice_is_never_taken_for_the_one_that_stands(
    before: tuple[int, ...],
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.propose(*before)
    assert cluster.propose(1, 1).error == "invalid_request"


def test_no_broker_joins_under_an_epoch_that_was_never_given() -> None:
    cluster = with_state(1, 2, 3, isr=(1, 3))
    epoch = cluster.broker(2).broker_epoch
    joins = [
        is_eligible_member(cluster.image, cluster.partition(), 2, BrokerEpoch(epoch + more))
        for more in (-1, 0, 1)
    ]
    assert joins == [False, True, False]


def test_who_joins_as_another_loses_its_seat_is_not_remembered_as_one_that_lost_it() -> None:
    state = with_state(1, 2, 3, minimum=3, isr=(1, 2), last_known_elr=(3,)).partition()
    after = advance(state, isr=(1, 3), leader=1, excluded=2)
    assert after is not None
    assert (after.elr, after.last_known_elr) == ((), (2,))


# Lost logs.


def test_who_is_excluded_is_not_elected_from_the_elr_that_it_leaves() -> None:
    state = with_state(1, 2, 3, leader=NO_LEADER, isr=(), elr=(2, 3)).partition()
    after = settle(state, live=(1, 2, 3), eligible=(1, 2, 3), excluded=2)
    assert after is not None
    assert seats(after) == (3, (3,), ())


def test_a_leader_whose_log_is_lost_is_succeeded_in_the_next_leader_epoch() -> None:
    cluster = Cluster()
    cluster.create((3, 1, 2))
    log_missing(cluster, 3)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 1)


def test_a_follower_that_lost_its_log_makes_nobody_lead_uncleanly() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs=OPTED_IN)
    log_missing(cluster, 3)
    state = cluster.partition()
    assert (state.leader, state.recovery) == (1, LeaderRecovery.RECOVERED)


# Elections.


def test_a_topic_that_opted_in_is_led_cleanly_by_the_member_that_returns() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs=OPTED_IN)
    cluster.propose(1)
    cluster.kill(2, 3, 1)
    assert seats(cluster.partition()) == (NO_LEADER, (), (1,))
    cluster.restart(1)
    assert seats(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().recovery is LeaderRecovery.RECOVERED


@pytest.mark.parametrize(
    ("setting", "fenced", "elr", "leader"),
    [
        ("true", (1, 2), (2,), 3),
        ("false", (1, 2), (2,), NO_LEADER),
        ("true", (1, 2, 3), (2,), NO_LEADER),
        ("true", (1, 2), (2, 3), NO_LEADER),  # broker 3 is waited for as well
    ],
)
def test_a_fenced_broker_that_was_waited_for_changes_only_what_is_led_from_then_on(
    setting: str, fenced: tuple[int, ...], elr: tuple[int, ...], leader: int
) -> None:
    """Broker 2 keeps its seat: it may hold all. What changes is who is waited for."""
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={**OPTED_IN, "unclean.leader.election.enable": setting})
    cluster.image.partitions[FIRST] = changed(
        cluster.partition(), leader=NO_LEADER, isr=(), elr=elr, min_insync_replicas=2, high_watermark_floor=5
    )
    for broker_id in fenced:
        set_broker(cluster, broker_id, fenced=True)
    found = vacate_seats(draft_of(cluster), 2, CHANGE, excluded=False, keys=[FIRST])
    assert (found, cluster.partition().leader) == ([] if leader == NO_LEADER else [FIRST], leader)


@pytest.mark.parametrize("configs", [{}, OPTED_IN])
def test_a_new_controller_elects_who_returned_before_its_predecessor_had_written_it(
    configs: dict[str, str],
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs=configs)
    cluster.propose(1)
    cluster.kill(2, 3, 1)
    cluster.restart(1)
    assert isinstance(cluster.records[-1], PartitionRecord)
    cluster.fail_over(cluster.records[:-1])
    assert (cluster.partition().leader, cluster.partition().recovery) == (1, LeaderRecovery.RECOVERED)


def test_a_new_controller_elects_uncleanly_what_its_predecessor_was_about_to() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs=OPTED_IN)
    cluster.propose(1)
    cluster.kill(1)
    (*_, gone, elected) = cluster.records
    assert isinstance(gone, PartitionRecord)
    assert isinstance(elected, PartitionRecord)
    assert (gone.state.leader, elected.state.leader) == (NO_LEADER, 2)
    cluster.fail_over(cluster.records[:-1])
    assert (cluster.partition().leader, cluster.partition().recovery) == (2, LeaderRecovery.RECOVERING)


def test_a_demoted_leader_that_shuts_down_leads_on_where_nobody_can_take_over() -> None:
    cluster = with_state(1, 2, 3, isr=(1,), elr=(2,))
    set_broker(cluster, 1, demoted=True, shutting_down=True)
    assert hand_over_demoted(draft_of(cluster), 1, CHANGE) == 0
    assert cluster.partition().leader == 1


# A controlled shutdown: (the broker, how the partition stands, those that cannot lead, that may return)
# -> (partitions that wait, that fall below their minimum, how the partition stands then).

Shutdown = tuple[
    int, dict[str, object], tuple[int, ...], tuple[int, ...], tuple[int, int, tuple[object, ...]]
]
SHUTDOWNS: dict[str, Shutdown] = {
    "at the minimum the seat is given up, and nothing waits": (
        1,
        {"isr": (1, 2, 3)},
        (),
        (4,),
        (0, 0, (2, (2, 3), ())),
    ),
    "a seat in the ELR is kept, and nothing waits for it": (
        2,
        {"isr": (1,), "elr": (2,)},
        (),
        (3, 4),
        (0, 0, (1, (1,), (2,))),
    ),
    "nobody may return: it leaves the rest below the minimum": (
        1,
        {"isr": (1, 2)},
        (),
        (),
        (0, 1, (2, (2,), (1,))),
    ),
    "who is in sync already is no hope": (1, {"isr": (1, 2)}, (), (1, 2), (0, 1, (2, (2,), (1,)))),
    "another may return: only the leadership goes": (1, {"isr": (1, 2)}, (), (3,), (1, 0, (2, (1, 2), ()))),
    "the last that can lead waits for another": (1, {"isr": (1, 2)}, (2,), (3,), (1, 0, (1, (1, 2), ()))),
    "the last that can lead stays without hope": (1, {"isr": (1, 2)}, (2,), (), (0, 0, (1, (1, 2), ()))),
    "a follower leaves a leader that shuts down too": (
        2,
        {"isr": (1, 2)},
        (1,),
        (),
        (0, 1, (1, (1,), (2,))),
    ),
    "a follower below its leader, too": (
        1,
        {"isr": (1, 2), "leader": 2},
        (2,),
        (),
        (0, 1, (2, (2,), (1,))),
    ),
    "a follower that waits moves no leader": (
        4,
        {"isr": (1, 3, 4), "leader": 3, "min_insync_replicas": 3},
        (),
        (2,),
        (1, 0, (3, (1, 3, 4), ())),
    ),
}


@pytest.mark.parametrize("case", SHUTDOWNS.values(), ids=SHUTDOWNS)
def test_what_a_shutdown_leaves_waiting_and_below_the_minimum(case: Shutdown) -> None:
    broker_id, fields, unfit, returning, expected = case
    cluster = with_state(1, 2, 3, 4)
    cluster.image.partitions[FIRST] = changed(cluster.partition(), **fields)
    for other in unfit:
        set_broker(cluster, other, shutting_down=True)
    left = drain(draft_of(cluster), broker_id, may_return=returning.__contains__, force=False)
    assert (left.waiting, left.below_min, seats(cluster.partition())) == expected


def test_a_fenced_member_whose_seat_is_still_to_be_taken_does_not_count_for_the_minimum() -> None:
    """Seats of a dead broker are taken in slices."""
    cluster = with_state(1, 2, 3, isr=(1, 2, 3))
    set_broker(cluster, 3, fenced=True)
    left = drain(draft_of(cluster), 1, may_return=lambda _: True, force=False)
    assert left.below_min == 1
    state: PartitionState = cluster.partition()
    assert seats(state) == (2, (2,), (1, 3))
