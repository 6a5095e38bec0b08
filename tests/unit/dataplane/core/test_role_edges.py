"""Bounds of what all roles of a replica share, each found by a mutant that no other test noticed
(tests/mutation)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import NO_EFFECTS, STOP_FETCHING, Remark, StartFetching
from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.leader_epochs import EpochStart, LeaderEpochs
from dataplane.core.purgatory import NEVER_EXPIRES_MS, Purgatory
from dataplane.core.results import EpochEndResult, OffsetResult, TimestampLookup
from dataplane.core.role import ReplicaRole, check_epoch_start, check_position
from dataplane.core.watermarks import StoredLogStart
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from tests.kit.dataplane.replica import TOPIC_ID, Bench, log_of, partition_state


def test_a_replica_that_knows_no_state_yet_has_nothing_to_do_and_answers_nobody() -> None:
    bench = Bench()
    role = bench.replica.role
    assert type(role) is ReplicaRole
    assert bench.replica.leader_epoch == -1
    assert role.is_at_rest is True
    assert (bench.replica.leading, bench.replica.maximal_isr) == (None, ())
    assert role.may_serve(0) is False
    assert role.on_vouched(now_ms=0) == NO_EFFECTS
    assert (bench.replica.following, bench.replica.next_fetch()) == (None, None)
    error = role.refusal
    assert error is not ErrorCode.NONE
    asked = role.offset_for_leader_epoch(current_leader_epoch=-1, leader_epoch=LeaderEpoch(0), now_ms=0)
    assert asked == EpochEndResult(error)
    assert role.list_offset(0, leader_epoch=LeaderEpoch(-1), now_ms=0) == OffsetResult(error)
    lookup = TimestampLookup(0, LeaderEpoch(1), 0)
    assert role.on_looked_up(lookup, None, now_ms=0) == (OffsetResult(error), NO_EFFECTS)


def test_what_was_stored_is_known_to_a_replica_without_a_role_too() -> None:
    bench = Bench(log=log_of(1, 1))
    bench.log.advance_log_start(1)
    assert bench.stored(1) == NO_EFFECTS
    assert bench.replica.log_start.offset == 1


def test_an_offline_replica_says_nothing_of_its_bytes() -> None:
    bench = Bench()
    bench.apply()
    bench.replica.go_offline("disk")
    assert bench.replica.on_rotten() == NO_EFFECTS
    assert bench.replica.on_mended() == NO_EFFECTS


# States.


@pytest.mark.parametrize("leader", [1, 3])
def test_who_follows_may_have_records_of_a_later_leader_epoch(leader: int) -> None:
    """Whether they are cut is the leader's answer."""
    bench = Bench(2, log=log_of(5))
    for _ in range(2):
        assert StartFetching(leader, LeaderEpoch(1)) in bench.apply(leader=leader)


def test_an_offline_replica_that_is_elected_into_the_past_stays_offline() -> None:
    bench = Bench(log=log_of(5))
    bench.replica.go_offline("disk")
    for effects in (NO_EFFECTS, (STOP_FETCHING,)):  # the second time the state is known
        assert bench.apply() == effects
    assert bench.replica.role.refusal is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_state_that_goes_back_to_an_earlier_leader_epoch_is_a_warning() -> None:
    bench = Bench()
    bench.apply(leader_epoch=3)
    (remark,) = bench.apply(leader_epoch=2, partition_epoch=2)
    assert isinstance(remark, Remark)
    assert remark.is_warning


def test_each_leader_epoch_and_each_leader_is_followed_anew() -> None:
    bench = Bench(3)
    bench.apply(leader=1)
    first = bench.replica.role
    bench.apply(leader=1, partition_epoch=2)
    assert bench.replica.role is first
    assert StartFetching(1, LeaderEpoch(2)) in bench.apply(leader=1, leader_epoch=2, partition_epoch=3)
    second = bench.replica.role
    assert second is not first
    assert StartFetching(2, LeaderEpoch(3)) in bench.apply(leader=2, leader_epoch=3, partition_epoch=4)
    assert bench.replica.role is not second


def test_the_first_state_may_come_with_an_answer() -> None:
    for before, partition_epoch in ((False, 1), (True, 2)):
        bench = Bench()
        if before:
            bench.apply()
        state = partition_state(partition_epoch=partition_epoch)
        bench.replica.on_proposal_result(
            IsrProposalResult(
                topic_id=TOPIC_ID, partition=0, proposal_id=1, error=ControllerError.NONE, state=state
            ),
            now_ms=0,
        )
        assert bench.replica.state == state


def test_a_replica_that_is_assigned_within_a_leader_epoch_follows() -> None:
    bench = Bench(4)
    bench.apply()
    assert not bench.replica.role.is_assigned
    assert StartFetching(1, LeaderEpoch(1)) in bench.apply(replicas=(1, 2, 3, 4), partition_epoch=2)


def test_an_answer_to_a_proposal_that_comes_to_a_follower_changes_nothing() -> None:
    bench = Bench(2)
    bench.apply()
    result = IsrProposalResult(
        topic_id=TOPIC_ID, partition=0, proposal_id=1, error=ControllerError.NONE, state=None
    )
    assert bench.replica.on_proposal_result(result, now_ms=0) == NO_EFFECTS


# Where logs part.


def test_who_is_beyond_the_end_in_the_newest_epoch_diverges() -> None:
    refusal = check_position(log_of(1, 1), 5, LeaderEpoch(1))
    assert refusal is not None
    assert refusal.diverging == EpochEnd(1, 2)


@pytest.mark.parametrize(
    ("at_least_one", "max_bytes", "fetch_offset", "found_no_room"),
    [(False, 1, 0, True), (False, 1 << 20, 0, False), (False, 1, 2, False), (True, 1, 0, False)],
)
def test_a_consumer_is_told_that_there_was_no_room_only_where_there_was_something(
    at_least_one: bool, max_bytes: int, fetch_offset: int, found_no_room: bool
) -> None:
    bench = Bench(log=log_of(1, 1), high_watermark=2)
    bench.apply()
    fetch = ConsumerFetch(
        FetchPosition(fetch_offset, LeaderEpoch(-1), LeaderEpoch(-1)), max_bytes, at_least_one
    )
    result, _ = bench.replica.role.on_consumer_fetch(fetch, now_ms=bench.now_ms)
    assert (result.error, result.found_no_room) == (ErrorCode.NONE, found_no_room)


@pytest.mark.parametrize(("fetch_offset", "end"), [(1, EpochEnd(1, 2)), (2, None), (3, None)])
def test_who_ends_before_its_newest_epoch_began_here_cuts_that_epoch(
    fetch_offset: int, end: EpochEnd | None
) -> None:
    refusal = check_epoch_start(log_of(1, 1, 2), fetch_offset, LeaderEpoch(2))
    assert (None if refusal is None else refusal.diverging) == end


def test_who_has_no_epoch_before_its_newest_is_not_asked_to_cut_it() -> None:
    for last_fetched_epoch in (-1, 0):
        assert check_epoch_start(log_of(0, start=3), 1, LeaderEpoch(last_fetched_epoch)) is None


# Waiting, and the stored log start.


def test_when_nobody_waits_any_more_nothing_expires() -> None:
    for is_taken in (False, True):
        purgatory = Purgatory()
        purgatory.add("one", required_offset=1, leader_epoch=LeaderEpoch(1), expires_ms=10)
        if is_taken:
            assert purgatory.take_all() == ("one",)
        else:
            assert purgatory.complete_to(1, leader_epoch=LeaderEpoch(1), epochs=LeaderEpochs()) == (
                ("one",),
                (),
            )
        assert purgatory.next_expiry_ms == NEVER_EXPIRES_MS


def test_a_record_of_an_epoch_before_is_not_the_waiters() -> None:
    purgatory = Purgatory()
    purgatory.add("lost", required_offset=1, leader_epoch=LeaderEpoch(2), expires_ms=10)
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(3, 1)])
    assert purgatory.complete_to(1, leader_epoch=LeaderEpoch(3), epochs=epochs) == ((), ("lost",))


def test_a_log_start_that_went_back_is_told_at_once_and_asked_for_again_when_it_moves() -> None:
    log = log_of(1, 1, 1, 1)
    stored = StoredLogStart(log)
    log.advance_log_start(3)
    assert stored.must_store()
    stored.on_stored(3)
    log.restart_at(1)
    assert stored.offset == 1
    assert not stored.must_store()
    log.restart_at(2)
    assert not stored.must_store(), "as high a one was asked for"
