"""Bounds of a replica's rules, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import (
    HIGH_WATERMARK_MOVED,
    NO_EFFECTS,
    PROPOSAL_READY,
    STOP_FETCHING,
    CompleteProduce,
    CopyDivergent,
    Effects,
    ReportProblem,
    StartFetching,
)
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.leader_epochs import (
    CorruptEpochCheckpoint,
    EpochStart,
    LeaderEpochs,
    decode_leader_epochs,
)
from dataplane.core.log_port import LogError
from dataplane.core.producer_state import ProducerStates, decode_producer_states
from dataplane.core.purgatory import NEVER_EXPIRES_MS, Purgatory
from dataplane.core.results import EpochEndResult, LeaderAnswer
from dataplane.core.role import Offline
from dataplane.core.watermarks import StoredLogStart
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.replica import (
    TOPIC_ID,
    Bench,
    as_follower,
    batch_of,
    held_lease,
    leader_of,
    leading,
    log_of,
    partition_state,
)
from tests.kit.memory.log import MemoryLog

# Producers.


def test_the_producer_with_id_0_is_one_like_all_others() -> None:
    bench = leading()
    zero = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    assert bench.append(**zero)[0].base_offset == 0
    assert bench.append(**zero)[0].base_offset == 0
    assert bench.log.log_end_offset == 1


def test_a_duplicate_with_acks_one_is_answered_at_once() -> None:
    bench = leading()
    batch = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    bench.append(acks=1, **batch)
    result, _ = bench.append(acks=1, **batch)
    assert (result.error, result.base_offset, result.is_waiting) == (ErrorCode.NONE, 0, False)
    assert bench.append(acks=-1, **batch)[0].is_waiting


def test_what_a_log_knows_of_forgotten_producers_comes_with_the_rest_of_its_state() -> None:
    forgetful = ProducerStates()
    header = decode_header(batch_of(producer_id=7, producer_epoch=0, base_sequence=0))
    forgetful.update(header, now_ms=0)
    forgetful.expire(now_ms=10, expiration_ms=1)
    states = ProducerStates()
    states.replace_with(forgetful)
    later = decode_header(batch_of(producer_id=7, producer_epoch=0, base_sequence=5))
    assert states.check(later) is ErrorCode.NONE


def test_a_cut_at_the_end_of_a_producers_last_batch_does_not_concern_it() -> None:
    states = ProducerStates()
    states.update(
        decode_header(batch_of(base_offset=4, producer_id=7, producer_epoch=0, base_sequence=0)), now_ms=0
    )
    for each in (states, decode_producer_states(states.encode())):
        assert each.end_offset == 5
        assert [each.has_batch_at_or_beyond(offset) for offset in (4, 5, 6)] == [True, False, False]


# Waiters.


def test_the_next_expiry_is_that_of_the_waiters_that_are_left() -> None:
    purgatory = Purgatory()
    for expires_ms in (5, 9, 7):
        purgatory.add(
            expires_ms, required_offset=expires_ms, leader_epoch=LeaderEpoch(1), expires_ms=expires_ms
        )
    assert purgatory.expire(4) == ()
    assert purgatory.expire(5) == (5,)
    assert purgatory.next_expiry_ms == 7
    assert purgatory.expire(9) == (7, 9)
    assert purgatory.next_expiry_ms == NEVER_EXPIRES_MS


def test_a_waiter_whose_record_was_overwritten_is_told_even_where_nobody_else_waits() -> None:
    bench = leading(leader_epoch=3)
    leader_of(bench)._purgatory.add("old", required_offset=1, leader_epoch=LeaderEpoch(1), expires_ms=10**9)
    bench.append(acks=1)
    bench.fetch(2, 1)
    assert bench.fetch(3, 1)[1] == (
        HIGH_WATERMARK_MOVED,
        CompleteProduce(("old",), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )


# Whom a leader answers.


def test_where_an_epoch_ends_is_told_to_who_names_no_leader_epoch_and_not_without_a_lease() -> None:
    bench = Bench(log=log_of(1, 1), lease=held_lease(lease_ms=2_000))
    bench.apply(leader_epoch=3)

    def asked() -> EpochEndResult:
        return bench.replica.role.offset_for_leader_epoch(
            current_leader_epoch=-1, leader_epoch=LeaderEpoch(1), now_ms=bench.now_ms
        )

    assert asked() == EpochEndResult(ErrorCode.NONE, LeaderEpoch(1), 2)
    bench.now_ms += 10_000
    assert asked() == EpochEndResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(
    ("at_least_one", "max_bytes", "fetch_offset", "found_no_room"),
    [(False, 1, 0, True), (False, 1 << 20, 0, False), (False, 1, 2, False), (True, 1, 0, False)],
)
def test_a_follower_is_told_that_there_was_no_room_only_where_there_was_something(
    at_least_one: bool, max_bytes: int, fetch_offset: int, found_no_room: bool
) -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=1)
    position = FetchPosition(fetch_offset, LeaderEpoch(1 if fetch_offset else -1), LeaderEpoch(1))
    fetch = ReplicaFetch(2, BrokerEpoch(20), position, max_bytes, at_least_one)
    result, _ = bench.replica.role.on_replica_fetch(fetch, now_ms=bench.now_ms)
    assert (result.error, result.found_no_room) == (ErrorCode.NONE, found_no_room)


def test_a_replica_that_the_leader_does_not_know_may_go_too() -> None:
    bench = leading()
    contact = Contact()
    bench.fetch(2, 0, contact=contact)
    for gone in (9, 2):
        leader_of(bench).on_replica_gone(gone, contact)
    follower = leader_of(bench).in_sync.follower(2)
    assert follower is not None
    assert follower.contact is None


def test_deleting_what_is_deleted_already_is_answered_at_once() -> None:
    bench = leading(replicas=(1,), isr=(1,), min_insync_replicas=1)
    bench.append(records=3)
    assert bench.delete(0)[0].error is ErrorCode.NONE
    assert not bench.delete(0)[0].is_waiting
    assert bench.delete(-2)[0].error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_that_can_not_prove_what_is_committed_says_so_only_of_what_may_be() -> None:
    bench = Bench(log=log_of(1, 1), high_watermark=0)
    bench.apply(leader_epoch=5)
    errors = [bench.delete(offset)[0].error for offset in (-1, 1, -2)]
    unknown = ErrorCode.LEADER_NOT_AVAILABLE
    assert errors == [unknown, unknown, ErrorCode.OFFSET_OUT_OF_RANGE]


# The in-sync set.


def test_of_a_follower_that_was_never_heard_no_lag_is_known() -> None:
    bench = leading(isr=(1,))
    (lag, _) = leader_of(bench).in_sync.lags(
        now_ms=bench.now_ms, leader_end_offset=3, remaining_bytes=lambda _offset: 7
    )
    assert (lag.lag_records, lag.lag_ms, lag.remaining_bytes) == (-1, -1, -1)


def accepted(bench: Bench, state: PartitionState, *, id_: int = 1) -> Effects:
    return bench.replica.on_proposal_result(
        IsrProposalResult(
            topic_id=TOPIC_ID, partition=0, proposal_id=id_, error=ControllerError.NONE, state=state
        ),
        now_ms=bench.now_ms,
    )


def test_a_promise_ends_when_the_controller_has_the_state_as_proposed_already() -> None:
    recovering = {"isr": (1,), "recovery": LeaderRecovery.RECOVERING, "unclean_leader_epoch": 1}
    for state, id_, ends in (
        (partition_state(**recovering), 1, True),
        (partition_state(**recovering), 7, False),
        (partition_state(partition_epoch=0, **recovering), 1, False),
    ):
        bench = leading(**recovering)
        in_sync = leader_of(bench).in_sync
        assert leader_of(bench).due_proposal(bench.now_ms) is not None
        accepted(bench, state, id_=id_)
        assert (in_sync.pending is None) == ends


def test_a_proposal_is_sent_again_when_it_has_rested_and_not_before() -> None:
    bench = Bench(proposal_retry_ms=100)
    bench.apply(isr=(1, 2))
    assert bench.fetch(3, 0)[1] == (PROPOSAL_READY,)
    assert leader_of(bench).due_proposal(bench.now_ms) is not None
    assert bench.tick(99) == NO_EFFECTS
    assert bench.tick(1) == (PROPOSAL_READY,)


def test_fewer_members_than_the_minimum_vouch_for_no_leader() -> None:
    for minimum, stands in ((1, True), (2, True), (3, False)):
        bench = leading(isr=(1, 2), min_insync_replicas=minimum)
        bench.follow(2, 0)
        in_sync = leader_of(bench).in_sync
        assert in_sync.stands_in_for_the_lease(now_ms=bench.now_ms, lease_ms=100) == stands


def test_a_partition_with_somebody_outside_its_in_sync_set_is_not_whole() -> None:
    bench = leading()
    for follower in (2, 3):
        bench.fetch(follower, 0)
    assert leader_of(bench).in_sync.is_whole_at(0)
    assert not leader_of(bench).in_sync.is_whole_at(1)
    bench.apply(partition_epoch=2, isr=(1, 2))
    assert not leader_of(bench).in_sync.is_whole_at(0)
    alone = {"replicas": (1,), "isr": (1,), "unclean_leader_epoch": 1}
    for recovery, is_whole in ((LeaderRecovery.RECOVERED, True), (LeaderRecovery.RECOVERING, False)):
        assert leader_of(leading(**alone, recovery=recovery)).in_sync.is_whole_at(0) == is_whole


# Followers.


def following(log: MemoryLog, **state: object) -> Bench:
    bench = Bench(2, log=log, high_watermark=log.log_start_offset)
    bench.apply(**{"leader_epoch": 5, **state})
    return bench


def out_of_range(bench: Bench, leader_start_offset: int) -> Effects:
    return bench.fetched(
        LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=leader_start_offset)
    )


def test_a_mark_lets_only_an_empty_log_that_is_ahead_begin_anew() -> None:
    full = following(log_of(1, 1, start=4), unclean_leader_epoch=5)
    assert out_of_range(full, 2)[0] == STOP_FETCHING
    assert (full.log.log_start_offset, full.log.log_end_offset) == (4, 6)
    assert full.replica.next_fetch() is None
    full = following(log_of(1, 1, start=4), unclean_leader_epoch=5)
    assert not any(isinstance(effect, CopyDivergent) for effect in out_of_range(full, 2)), (
        "nothing is to be cut"
    )
    empty = following(log_of(start=4))
    out_of_range(empty, 2)
    assert (empty.log.log_start_offset, empty.replica.next_fetch()) == (4, None)
    marked = following(log_of(start=4), unclean_leader_epoch=5)
    out_of_range(marked, 2)
    assert marked.log.log_start_offset == 2


def test_a_batch_that_ends_where_the_log_begins_is_none_of_it() -> None:
    bench = following(log_of(start=2))
    before = batch_of([b"v"] * 2, base_offset=0, leader_epoch=2)
    bench.fetched(LeaderAnswer(records=before, high_watermark=2))
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 2)


def test_that_what_was_refused_came_whole_is_told_of_the_first_offset_too() -> None:
    bench = following(log_of())
    whole = batch_of(base_offset=0, leader_epoch=1)
    codes = [
        effect.problem.code
        for records in (whole[:-1] + b"?", whole)
        for effect in bench.fetched(LeaderAnswer(high_watermark=1, records=records))
        if isinstance(effect, ReportProblem)
    ]
    assert codes == ["batch_refused", "batch_taken"]


def test_a_replica_that_is_offline_follows_what_is_decided_of_it() -> None:
    bench = leading()
    bench.replica.go_offline("disk")
    bench.apply(partition_epoch=7, isr=(2, 3), leader=2, leader_epoch=2)
    assert bench.replica.state is not None
    assert (bench.replica.state.partition_epoch, bench.replica.state.isr) == (7, (2, 3))


def test_a_copy_that_failed_is_not_asked_for_again_before_its_time_by_a_state_that_comes_twice() -> None:
    bench = following(log_of(1, 2, 2))
    stop, hold = bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 1)))
    assert stop == STOP_FETCHING
    assert isinstance(hold, CopyDivergent)
    assert hold in bench.apply(leader_epoch=5)
    as_follower(bench.replica).on_divergent_copied(hold.hold_id, error="full", now_ms=bench.now_ms)
    assert hold not in bench.apply(leader_epoch=5)
    as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=bench.now_ms)
    assert hold not in bench.apply(leader_epoch=5)
    assert StartFetching(1, LeaderEpoch(5)) in bench.apply(leader_epoch=5)
    _, next_hold = bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 0)))
    assert next_hold in bench.apply(leader_epoch=5)


def test_a_state_that_finds_the_disk_broken_is_known_afterwards() -> None:
    class Broken(MemoryLog):
        def begin_leader_epoch(self, leader_epoch: int) -> None:
            raise LogError("broken")

    bench = Bench(log=Broken())
    bench.apply()
    assert isinstance(bench.replica.role, Offline)
    assert bench.replica.state == partition_state()


# Values.


def test_a_later_store_of_an_earlier_log_start_takes_nothing_back() -> None:
    log = log_of(1, 1, 1, 1)
    stored = StoredLogStart(log)
    log.advance_log_start(3)
    for offset in (3, 2):
        stored.on_stored(offset)
    assert stored.offset == 3


def test_an_empty_history_is_read_again_and_one_with_another_digit_is_not() -> None:
    assert decode_leader_epochs(LeaderEpochs().encode()).entries == ()
    encoded = LeaderEpochs((EpochStart(1, 0), EpochStart(2, 5))).encode()
    with pytest.raises(CorruptEpochCheckpoint):
        decode_leader_epochs(encoded[:-2] + b"6\n")


def test_a_history_that_lost_its_beginning_is_another_version() -> None:
    epochs = LeaderEpochs((EpochStart(1, 0), EpochStart(2, 5), EpochStart(4, 9)))
    version = epochs.version
    epochs.truncate_from_start(6)
    assert epochs.version != version
