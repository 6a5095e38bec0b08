"""Bounds of the in-sync set, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import NO_EFFECTS, PROPOSAL_READY
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.isr import FollowerProgress, InSyncSet
from dataplane.core.leader import Leader
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrMember, IsrProposal, IsrProposalResult
from springtide.node.lease import NEVER_MS
from tests.kit.dataplane.replica import TOPIC_ID, Bench, endpoint, leader_of, log_of, partition_state


def in_sync_of(bench: Bench) -> InSyncSet:
    assert isinstance(bench.replica.role, Leader)
    return bench.replica.role.in_sync


def due(bench: Bench) -> tuple[int, ...] | None:
    proposal = due_proposal(bench)
    return None if proposal is None else tuple(member.broker_id for member in proposal.isr)


def due_proposal(bench: Bench) -> IsrProposal | None:
    return leader_of(bench).due_proposal(bench.now_ms)


def refuse(bench: Bench, *, id_: int, **state: object) -> None:
    bench.replica.on_proposal_result(
        IsrProposalResult(
            topic_id=TOPIC_ID,
            partition=0,
            proposal_id=id_,
            error=ControllerError.INELIGIBLE_REPLICA,
            state=partition_state(**state) if state else None,
        ),
        now_ms=bench.now_ms,
    )


def test_a_refusal_that_comes_after_its_leader_has_gone_changes_nothing() -> None:
    bench = Bench(2)
    bench.apply()
    refuse(bench, id_=1)
    assert bench.replica.state == partition_state()


# One follower.


def asks(one: FollowerProgress, fetch_offset: int, *, at_ms: int, contact: Contact | None = None) -> None:
    fetch = ReplicaFetch(
        2,
        BrokerEpoch(20),
        FetchPosition(fetch_offset, LeaderEpoch(1), LeaderEpoch(1), 0),
        1 << 20,
        contact=contact,
    )
    one.on_fetch(fetch, leader_end_offset=10, now_ms=at_ms)


def test_of_an_earlier_incarnation_nothing_is_known_but_how_long_its_replica_lags() -> None:
    one = FollowerProgress(2)
    asks(one, 10, at_ms=100, contact=Contact())
    one.forget(broker_epoch=BrokerEpoch(30))
    assert one.last_heard_ms == NEVER_MS
    asks(one, 10, at_ms=50, contact=Contact())
    fresh = FollowerProgress(2, broker_epoch=BrokerEpoch(30), last_caught_up_ms=50)
    one.forget(broker_epoch=BrokerEpoch(30))
    for name in ("broker_epoch", "log_end_offset", "log_start_offset", "last_fetch_ms", "contact"):
        assert getattr(one, name) == getattr(fresh, name), name
    assert one.last_fetch_end_offset == fresh.last_fetch_end_offset


def test_a_session_that_has_not_asked_yet_does_not_hide_the_fetch_that_came() -> None:
    one = FollowerProgress(2)
    asks(one, 0, at_ms=100, contact=Contact())
    assert one.last_heard_ms == 100


def test_who_asks_from_an_earlier_offset_does_not_ask_for_the_same_again() -> None:
    one = FollowerProgress(2)
    for offset, repeats in ((5, 0), (5, 1), (4, 0), (4, 1)):
        asks(one, offset, at_ms=100)
        assert one.repeats == repeats


def test_the_time_that_a_new_member_gets_is_not_taken_back_by_the_next_record() -> None:
    one = FollowerProgress(2, last_caught_up_ms=500)
    one.last_fetch_ms = 100
    one.on_leader_append()
    assert one.last_caught_up_ms == 500


# Joining.


@pytest.mark.parametrize(
    ("log_end", "high_watermark", "joins"), [(2, 2, True), (2, 1, True), (1, 1, False), (2, 3, False)]
)
def test_who_joins_has_the_start_of_the_epoch_and_all_below_the_high_watermark(
    log_end: int, high_watermark: int, joins: bool
) -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=2, isr=(1, 2))
    bench.fetch(3, log_end)
    follower = in_sync_of(bench).follower(3)
    assert follower is not None
    assert in_sync_of(bench).may_join(follower, high_watermark=high_watermark) == joins


@pytest.mark.parametrize(
    ("log_start", "deleted", "joins"), [(-1, 0, True), (-1, 1, False), (0, 1, False), (1, 1, True)]
)
def test_who_joins_has_stored_what_clients_deleted(log_start: int, deleted: int, joins: bool) -> None:
    """-1: it told no log start; where nothing is deleted, it needs none."""
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0, log_start_offset=log_start)
    in_sync = in_sync_of(bench)
    in_sync.deleted_offset = deleted
    follower = in_sync.follower(3)
    assert follower is not None
    assert in_sync.may_join(follower, high_watermark=0) == joins


def test_a_follower_that_was_registered_anew_since_it_asked_does_not_join() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    bench.brokers[3] = endpoint(3, 31)
    assert due(bench) is None


def test_the_high_watermark_does_not_wait_for_an_outsider_that_has_not_asked_since_it_restarted() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    bench.brokers[3] = endpoint(3, 31)
    leader_of(bench).on_broker_changed(3, now_ms=bench.now_ms)
    bench.append()
    bench.fetch(2, 1)
    assert bench.high_watermark == 1


# Proposals.


def test_a_member_of_a_broker_that_nobody_knows_is_proposed_without_an_epoch() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    del bench.brokers[2]
    bench.fetch(3, 0)
    proposal = due_proposal(bench)
    assert proposal is not None
    assert proposal.isr[1] == IsrMember(broker_id=2, broker_epoch=BrokerEpoch(-1))


def test_a_proposal_rests_after_each_time_it_was_sent() -> None:
    bench = Bench(proposal_retry_ms=100)
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    assert due(bench) is not None
    assert bench.tick(100) == (PROPOSAL_READY,)
    assert due(bench) is not None
    assert bench.tick(99) == NO_EFFECTS
    assert due(bench) is None


def test_a_partition_of_which_a_proposal_is_unanswered_is_not_whole() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(replicas=(1, 2), isr=(1, 2))
    bench.append()
    bench.now_ms += 101
    assert due(bench) == (1,)
    bench.fetch(2, 1)
    assert not in_sync_of(bench).is_whole_at(1)


def test_after_a_refusal_of_several_they_are_asked_for_one_by_one_until_all_of_one_are_in() -> None:
    bench = Bench()
    bench.apply(replicas=(1, 2, 3, 4, 5), isr=(1, 2))
    bench.brokers[5] = endpoint(5, 50)
    for follower in (3, 4, 5):
        bench.fetch(follower, 0)
    assert due(bench) == (1, 2, 3, 4, 5)
    refuse(bench, id_=1, replicas=(1, 2, 3, 4, 5), isr=(1, 2), partition_epoch=2)
    assert due(bench) == (1, 2, 3)
    bench.apply(replicas=(1, 2, 3, 4, 5), isr=(1, 2), partition_epoch=3)
    assert due(bench) == (1, 2, 3), "a state without the one says nothing of it"
    bench.apply(replicas=(1, 2, 3, 4, 5), isr=(1, 2, 3), partition_epoch=4)
    assert due(bench) == (1, 2, 3, 4, 5)


def test_a_refusal_of_another_proposal_or_of_none_lets_nobody_rest() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    refuse(bench, id_=1)
    assert due(bench) == (1, 2, 3)
    refuse(bench, id_=7, isr=(1, 2), partition_epoch=2)
    assert due(bench) == (1, 2, 3)


def test_a_removal_that_was_refused_is_asked_for_again() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply()
    bench.append()
    bench.now_ms += 101
    assert due(bench) == (1,)
    refuse(bench, id_=1, partition_epoch=2)
    assert due(bench) == (1,)


# The lag report.


def test_the_lag_of_each_follower_is_told_in_records_and_time() -> None:
    bench = Bench()
    bench.apply()
    bench.fetch(2, 0)
    bench.append()
    bench.append()
    bench.fetch(2, 1)
    bench.fetch(3, 2)
    lags = in_sync_of(bench).lags(
        now_ms=bench.now_ms + 7, leader_end_offset=2, remaining_bytes=lambda _offset: 7
    )
    assert [(lag.lag_records, lag.lag_ms) for lag in lags] == [(1, 7), (0, 0)]
