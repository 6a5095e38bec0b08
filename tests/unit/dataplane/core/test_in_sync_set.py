"""Promises, proposals, and what ends them."""

from __future__ import annotations

import msgspec
import pytest

from dataplane.core.effects import (
    HIGH_WATERMARK_MOVED,
    NO_EFFECTS,
    PROPOSAL_READY,
    CompleteProduce,
    Effects,
)
from dataplane.core.fetch_session import Contact
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import (
    FollowerLag,
    IsrMember,
    IsrProposal,
    IsrProposalResult,
    PartitionLag,
)
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import TOPIC_ID, Bench, endpoint, leader_of, log_of, partition_state


def proposal(*isr: int, id_: int = 1, partition_epoch: int = 1, leader_epoch: int = 1) -> IsrProposal:
    return IsrProposal(
        topic_id=TOPIC_ID,
        partition=0,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        proposal_id=id_,
        isr=tuple(IsrMember(broker_id=b, broker_epoch=BrokerEpoch(10 * b)) for b in isr),
    )


def answer(
    bench: Bench,
    error: ControllerError = ControllerError.NONE,
    *,
    id_: int = 1,
    state: PartitionState | None = None,
) -> Effects:
    return bench.replica.on_proposal_result(
        IsrProposalResult(topic_id=TOPIC_ID, partition=0, proposal_id=id_, error=error, state=state),
        now_ms=bench.now_ms,
    )


def due(bench: Bench) -> IsrProposal | None:
    return leader_of(bench).due_proposal(bench.now_ms)


def promising() -> Bench:
    """ISR {1, 2}, min 2; +3 is proposed; the records 0 and 1 are at 1 and 2 only."""
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(2, 0)
    assert bench.fetch(3, 0)[1] == (PROPOSAL_READY,)
    assert due(bench) == proposal(1, 2, 3)
    bench.append("a", records=2)
    bench.fetch(2, 2)
    return bench


def test_i2_s6_a_joining_follower_is_waited_for_from_the_moment_its_proposal_is_built() -> None:
    bench = promising()
    assert bench.replica.maximal_isr == (1, 2, 3)
    assert bench.high_watermark == 0
    bench.tick(60_000)  # even when it has lagged for ever: the controller may have it in its ISR
    assert bench.high_watermark == 0


@pytest.mark.parametrize(
    "error",
    [
        ControllerError.FENCED_LEADER_EPOCH,
        ControllerError.INVALID_UPDATE_VERSION,
        ControllerError.UNKNOWN_TOPIC_ID,
        ControllerError.INVALID_REQUEST,
        ControllerError.NEW_LEADER_ELECTED,
        ControllerError.NOT_CONTROLLER,
        ControllerError.OUTCOME_UNKNOWN,
        ControllerError.STALE_BROKER_EPOCH,
        ControllerError.INELIGIBLE_REPLICA,
        ControllerError.OPERATION_NOT_ATTEMPTED,
    ],
)
def test_i6_no_error_by_itself_ends_a_promise(error: ControllerError) -> None:
    bench = promising()
    assert answer(bench, error) == NO_EFFECTS
    assert bench.replica.maximal_isr == (1, 2, 3)


def test_i6_a_refusal_ends_the_promise_by_the_newer_state_it_brings() -> None:
    """A late copy of the refused request is stale then, and can't be accepted behind the leader's back."""
    bench = promising()
    bench.brokers[3] = endpoint(3, 30, active=False)
    refused = partition_state(partition_epoch=2, isr=(1, 2))
    effects = answer(bench, ControllerError.INELIGIBLE_REPLICA, state=refused)
    assert CompleteProduce(("a",), ErrorCode.NONE) in effects
    assert bench.replica.maximal_isr == (1, 2)


@pytest.mark.parametrize(
    "error", [ControllerError.INELIGIBLE_REPLICA, ControllerError.INVALID_UPDATE_VERSION]
)
def test_only_who_was_called_ineligible_is_not_proposed_again_at_once(error: ControllerError) -> None:
    bench = promising()
    answer(bench, error, state=partition_state(partition_epoch=2, isr=(1, 2)))
    assert (due(bench) is None) is (error is ControllerError.INELIGIBLE_REPLICA)


def test_an_unanswered_proposal_is_sent_again_unchanged_for_ever() -> None:
    bench = promising()
    assert due(bench) is None
    for _ in range(5):
        bench.now_ms += 1_000
        bench.fetch(2, 2)
        assert due(bench) == proposal(1, 2, 3)


def test_the_answer_commits_the_state_it_brings() -> None:
    bench = promising()
    answer(bench, state=partition_state(partition_epoch=2))
    assert bench.replica.state == partition_state(partition_epoch=2)
    assert due(bench) is None
    assert bench.replica.maximal_isr == (1, 2, 3)


def test_s20_a_late_answer_does_not_roll_back_a_newer_push() -> None:
    bench = promising()
    bench.apply(partition_epoch=3, isr=(1, 3))
    answer(bench, state=partition_state(partition_epoch=2))
    assert bench.replica.state == partition_state(partition_epoch=3, isr=(1, 3))
    assert bench.replica.maximal_isr == (1, 3)


def test_s39_a_late_push_does_not_cancel_a_proposal_built_on_it() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2), replicas=(1, 2, 3, 4), partition_epoch=7)
    bench.fetch(3, 0)
    assert due(bench) == proposal(1, 2, 3, partition_epoch=7)
    after = partition_state(replicas=(1, 2, 3, 4), partition_epoch=8)
    answer(bench, state=after)
    bench.fetch(4, 0)
    assert due(bench) == proposal(1, 2, 3, 4, id_=2, partition_epoch=8)
    bench.replica.on_partition_state(after, now_ms=bench.now_ms)  # the push of what the answer said already
    assert bench.replica.maximal_isr == (1, 2, 3, 4)
    bench.append("a")
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert bench.high_watermark == 0


def test_s19_who_loses_the_race_adopts_the_winner_s_state() -> None:
    """A shrink of 3 races the controller's fencing of 2, both from partition epoch 1."""
    bench = Bench(lag_ms_max=100)
    bench.apply()
    bench.append()
    bench.fetch(2, 1)
    bench.now_ms += 101
    assert due(bench) == proposal(1, 2)
    answer(
        bench,
        ControllerError.INVALID_UPDATE_VERSION,
        state=partition_state(partition_epoch=2, isr=(1, 3), min_insync_replicas=2),
    )
    assert bench.replica.maximal_isr == (1, 3)
    assert bench.high_watermark == 0


def test_answers_and_pushes_in_any_order_end_in_the_same_state() -> None:
    first, second = partition_state(partition_epoch=2), partition_state(partition_epoch=3, isr=(1, 3))
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        bench = promising()
        for step in order * 2:
            match step:
                case 0:
                    answer(bench, state=first)
                case 1:
                    bench.replica.on_partition_state(first, now_ms=bench.now_ms)
                case _:
                    bench.replica.on_partition_state(second, now_ms=bench.now_ms)
            assert bench.high_watermark == 0
            assert 3 in bench.replica.maximal_isr
        assert bench.replica.state == second
        assert bench.replica.maximal_isr == (1, 3)


# Joining.


def test_i9_s5_a_follower_joins_at_the_start_of_the_leader_epoch_not_at_the_high_watermark() -> None:
    bench = Bench(2, log=log_of(*[0] * 10), high_watermark=5)
    bench.apply(leader=2, isr=(1, 2))  # 1 is a member that says nothing: the high watermark stays at 5
    assert bench.high_watermark == 5
    assert bench.fetch(3, 6, last_fetched_epoch=0)[1] == NO_EFFECTS
    assert due(bench) is None
    assert bench.fetch(3, 10, last_fetched_epoch=0)[1] == (PROPOSAL_READY,)
    assert due(bench) == proposal(1, 2, 3)


@pytest.mark.parametrize("registered", [endpoint(3, 30, active=False), None])
def test_i9_an_inactive_or_unknown_broker_is_not_proposed(registered: object) -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    if registered is None:
        del bench.brokers[3]
    else:
        bench.brokers[3] = endpoint(3, 30, active=False)
    assert bench.fetch(3, 0)[1] == NO_EFFECTS
    assert due(bench) is None


def test_i8_s3_a_fetch_of_an_incarnation_that_is_not_registered_yet_qualifies_nobody() -> None:
    """KAFKA-15221: never qualify on one incarnation's fetch and send another one's epoch."""
    bench = Bench()
    bench.apply(isr=(1, 2))
    assert bench.fetch(3, 0, broker_epoch=31)[1] == NO_EFFECTS
    assert due(bench) is None
    bench.brokers[3] = endpoint(3, 31)
    assert leader_of(bench).on_broker_changed(3, now_ms=bench.now_ms) == (PROPOSAL_READY,)
    joining = due(bench)
    assert joining is not None
    assert joining.isr[-1] == IsrMember(broker_id=3, broker_epoch=BrokerEpoch(31))


def test_a_follower_that_is_shutting_down_is_not_asked_for() -> None:
    """It still follows, and may be as far as anyone; each refusal would cost a write."""
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.brokers[3] = msgspec.structs.replace(endpoint(3, 30), may_join=False)
    bench.fetch(3, 0)
    assert due(bench) is None


def test_an_ineligible_follower_rests_and_does_not_keep_others_out() -> None:
    bench = Bench(refused_retry_ms=500)
    bench.apply(isr=(1, 2), replicas=(1, 2, 3, 4))
    bench.fetch(3, 0)
    bench.fetch(4, 0)

    def refuse(id_: int) -> None:
        state = partition_state(isr=(1, 2), replicas=(1, 2, 3, 4), partition_epoch=id_ + 1)
        answer(bench, ControllerError.INELIGIBLE_REPLICA, id_=id_, state=state)

    assert due(bench) == proposal(1, 2, 3, 4, partition_epoch=1)
    refuse(1)
    assert due(bench) == proposal(1, 2, 3, id_=2, partition_epoch=2)
    refuse(2)
    assert due(bench) == proposal(1, 2, 4, id_=3, partition_epoch=3)
    refuse(3)
    assert due(bench) is None
    bench.now_ms += 500
    assert due(bench) == proposal(1, 2, 3, id_=4, partition_epoch=4)


def test_an_uncleanly_elected_leader_confirms_its_log_before_anyone_joins() -> None:
    """KIP-704."""
    bench = Bench()
    effects = bench.apply(isr=(1,), recovery=LeaderRecovery.RECOVERING, unclean_leader_epoch=1)
    assert PROPOSAL_READY in effects
    bench.fetch(2, 0)
    assert due(bench) == proposal(1)
    bench.apply(isr=(1,), partition_epoch=2, unclean_leader_epoch=1)
    assert due(bench) == proposal(1, 2, id_=2, partition_epoch=2)


# Lagging.


def test_a_member_that_lags_is_proposed_out_and_waited_for_until_that_is_persisted() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply()
    bench.append("a")
    bench.fetch(2, 1)
    assert bench.tick(100) == NO_EFFECTS
    assert bench.tick(1) == (PROPOSAL_READY,)
    assert due(bench) == proposal(1, 2)
    bench.fetch(2, 1)
    assert bench.high_watermark == 0
    effects = answer(bench, state=partition_state(partition_epoch=2, isr=(1, 2)))
    assert effects == (HIGH_WATERMARK_MOVED, CompleteProduce(("a",), ErrorCode.NONE))


def test_a_steady_trickle_of_writes_does_not_evict() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(replicas=(1, 2), isr=(1, 2))
    bench.fetch(2, 0)
    for n in range(20):  # always one record behind
        bench.append()
        bench.now_ms += 60
        bench.fetch(2, n)
        assert due(bench) is None


def test_a_follower_at_the_leaders_end_is_in_sync_however_long_ago_it_fetched() -> None:
    """KAFKA-7152."""
    bench = Bench(lag_ms_max=100)
    bench.apply(replicas=(1, 2), isr=(1, 2))
    bench.fetch(2, 0)
    assert bench.tick(1_000_000) == NO_EFFECTS


def test_an_idle_follower_in_a_live_session_is_not_evicted_by_the_first_record_after_a_pause() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(replicas=(1, 2), isr=(1, 2))
    contact = Contact()
    bench.fetch(2, 0, contact=contact)
    bench.now_ms += 1_000_000
    contact.last_fetch_ms = bench.now_ms - 40
    bench.append()
    assert bench.tick(60) == NO_EFFECTS
    assert bench.tick(1) == (PROPOSAL_READY,)


def test_removals_go_before_additions() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(isr=(1, 2))
    bench.fetch(2, 0)
    bench.append()
    bench.now_ms += 101
    bench.fetch(3, 1)
    assert due(bench) == proposal(1)
    bench.apply(partition_epoch=2, isr=(1,), elr=(2,))
    bench.fetch(3, 1)
    assert due(bench) == proposal(1, 3, id_=2, partition_epoch=2)


def test_the_lag_report_says_what_the_leader_knows() -> None:
    bench = Bench()
    bench.apply()
    bench.fetch(2, 0)
    bench.append()
    bench.now_ms += 7
    size = bench.log.size_bytes
    assert leader_of(bench).lag(bench.now_ms) == PartitionLag(
        topic_id=TOPIC_ID,
        partition=0,
        leader_epoch=LeaderEpoch(1),
        log_start_offset=0,
        log_end_offset=1,
        high_watermark=0,
        size_bytes=size,
        followers=(
            FollowerLag(broker_id=2, log_end_offset=0, lag_records=1, lag_ms=7),
            FollowerLag(broker_id=3, log_end_offset=-1, lag_records=-1, lag_ms=7),
        ),
    )
