"""Bounds of a leader's rules, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import CompactionOptions, Dirt, Round
from dataplane.core.effects import (
    NO_EFFECTS,
    PROPOSAL_READY,
    CompleteProduce,
    Effects,
    ReportProblem,
)
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.producer_state import decode_told_states
from dataplane.core.results import OffsetResult, TimestampLookup
from dataplane.core.role import Offline
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.replica import (
    TOPIC_ID,
    Bench,
    batch_of,
    held_lease,
    leader_of,
    leading,
    log_of,
    partition_state,
)

# Commit.


def test_an_outsider_that_has_more_than_a_member_commits_nothing_for_it() -> None:
    bench = leading(isr=(1, 2))
    bench.append(records=1)
    bench.append(records=1)
    bench.fetch(3, 2)
    bench.fetch(2, 1)
    assert bench.high_watermark == 1


def test_the_high_watermark_waits_for_an_idle_outsider_that_had_all_when_it_was_heard_last() -> None:
    """With its session alive; not for one that was behind when the record was written."""
    for behind, high_watermark in ((0, 0), (1, 2)):
        bench = Bench(lag_ms_max=100)
        bench.apply(isr=(1, 2))
        contact = Contact()
        bench.fetch(3, 0, contact=contact)
        for _ in range(behind):
            bench.append()
        bench.now_ms += 1_000
        contact.last_fetch_ms = bench.now_ms
        bench.append()
        bench.fetch(2, behind + 1)
        assert bench.high_watermark == high_watermark


def test_a_member_that_was_behind_already_is_not_caught_up_by_the_next_record() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(replicas=(1, 2), isr=(1, 2))
    contact = Contact()
    bench.fetch(2, 0, contact=contact)
    bench.append()
    bench.now_ms += 1_000
    contact.last_fetch_ms = bench.now_ms
    bench.append()
    assert bench.tick() == (PROPOSAL_READY,)


def test_a_wait_ends_also_where_nobody_looked_just_at_its_time() -> None:
    bench = leading()
    bench.append("late", timeout_ms=100)
    assert bench.tick(99) == NO_EFFECTS
    assert CompleteProduce(("late",), ErrorCode.REQUEST_TIMED_OUT) in bench.tick(50)


def test_what_was_refused_of_the_producer_with_id_0_is_noted_as_of_others() -> None:
    bench = leading()

    def answered(sequence: int) -> ErrorCode:
        return bench.append(producer_id=0, producer_epoch=0, base_sequence=sequence)[0].error

    again = ErrorCode.NOT_ENOUGH_REPLICAS
    assert answered(8) is again
    bench.apply(isr=(1,), elr=(2, 3), partition_epoch=7)
    assert answered(7) is again
    bench.apply(partition_epoch=8)
    assert [answered(n) for n in (8, 7, 8)] == [again, ErrorCode.NONE, ErrorCode.NONE]


# What followers ask.


def test_a_fetch_that_names_no_broker_epoch_is_stale_also_where_the_broker_is_unknown() -> None:
    bench = leading()
    del bench.brokers[2]
    assert bench.fetch(2, 0, broker_epoch=-1)[0].error is ErrorCode.STALE_BROKER_EPOCH
    assert bench.fetch(2, 0, broker_epoch=0)[0].error is ErrorCode.NONE


def test_only_this_leader_epoch_shows_that_the_leader_went_back() -> None:
    """A follower whose last batch is of a later epoch than the leader's has followed another leader."""
    for last_fetched_epoch, error in (
        (2, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        bench = leading()
        bench.append()
        result, effects = bench.fetch(2, 5, last_fetched_epoch=last_fetched_epoch)
        assert result.error is error
        assert any(isinstance(effect, ReportProblem) for effect in effects) == (last_fetched_epoch == 1)


def test_a_leader_that_can_not_read_what_it_compares_goes_offline() -> None:
    bench = leading()
    bench.append()
    bench.log.failing = "broken"
    result, effects = bench.fetch(2, 1, mark=LogMark(1, -1, ((0, 1),)))
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert effects
    assert isinstance(bench.replica.role, Offline)


@pytest.mark.parametrize(
    ("at_least_one", "room", "is_told"),
    [(False, -1, False), (False, 0, True), (False, 1, True), (True, -1, True)],
)
def test_producers_are_told_where_there_is_room_for_them_or_nothing_else_is_told(
    at_least_one: bool, room: int, is_told: bool
) -> None:
    """room: beyond what they take."""
    bench = leading()
    bench.append(producer_id=7, producer_epoch=0, base_sequence=0)
    size = len(bench.log.producers.below(1).encode())
    position = FetchPosition(1, LeaderEpoch(1), LeaderEpoch(1), wants_producers=True)
    fetch = ReplicaFetch(2, BrokerEpoch(20), position, max_bytes=size + room, at_least_one=at_least_one)
    result, effects = bench.replica.role.on_replica_fetch(fetch, now_ms=bench.now_ms)
    assert effects == NO_EFFECTS
    assert bench.high_watermark == 0, "who only asks for producers has not copied anything"
    assert result.records is not None
    assert (result.error, result.records.size_bytes) == (ErrorCode.NONE, 0)
    assert (result.found_no_room, bool(result.producers)) == (not is_told, is_told)
    if is_told:
        told = decode_told_states(result.producers, log_offset=1)
        assert [producer.producer_id for producer in told.active_producers()] == [7]


def test_the_end_of_an_earlier_session_says_nothing_of_the_present_one() -> None:
    bench = leading()
    before, present = Contact(), Contact()
    bench.fetch(2, 0, contact=before)
    bench.fetch(2, 0, contact=present)
    leader_of(bench).on_replica_gone(2, before)
    follower = leader_of(bench).in_sync.follower(2)
    assert follower is not None
    assert follower.contact is present


def test_of_a_fetch_that_goes_back_it_is_told_where_the_follower_may_be_elected() -> None:
    for elr, is_told in (((3,), True), ((), False)):
        bench = leading(isr=(1, 2), elr=elr)
        bench.append()
        bench.fetch(3, 1)
        _, effects = bench.fetch(3, 0)
        assert any(isinstance(effect, ReportProblem) for effect in effects) == is_told


def test_a_lookup_that_ends_after_the_lease_is_not_answered() -> None:
    bench = Bench(lease=held_lease(lease_ms=2_000))
    bench.apply()
    lookup = bench.replica.role.list_offset(0, leader_epoch=LeaderEpoch(-1), now_ms=bench.now_ms)
    assert isinstance(lookup, TimestampLookup)
    for after_ms, error in ((0, ErrorCode.NONE), (5_000, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        answered, _ = bench.replica.role.on_looked_up(lookup, None, now_ms=bench.now_ms + after_ms)
        assert answered == OffsetResult(error)


def test_that_a_timestamp_was_not_found_is_not_said_before_all_that_is_committed_is_known() -> None:
    bench = Bench(log=log_of(1, 1), high_watermark=1)
    bench.apply(leader_epoch=2)
    lookup = bench.replica.role.list_offset(2**50, leader_epoch=LeaderEpoch(-1), now_ms=bench.now_ms)
    assert isinstance(lookup, TimestampLookup)
    answered, _ = bench.replica.role.on_looked_up(lookup, None, now_ms=bench.now_ms)
    assert answered == OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)


def crcs_of(bench: Bench) -> list[tuple[int, int]]:
    return [(header.base_offset, header.crc) for header, _ in bench.log.batches]


@pytest.mark.parametrize("log_start_offset", [0, 1])
def test_a_follower_with_a_batch_where_this_log_has_a_longer_one_parts_from_it_there(
    log_start_offset: int,
) -> None:
    """Also where everything before it is deleted."""
    bench = Bench(log=log_of(1))
    longer = batch_of([b"v"] * 2, base_offset=1, leader_epoch=1)
    bench.log.append((decode_header(longer),), (longer,), now_ms=1)
    bench.apply(leader_epoch=2)
    mark = LogMark(1, -1, (*crcs_of(bench)[:1], (1, 7)))
    bench.log.advance_log_start(log_start_offset)
    assert bench.fetch(2, 2, last_fetched_epoch=1, mark=mark)[0].diverging == EpochEnd(1, 1)


def test_what_is_compared_begins_where_the_mark_begins_and_where_all_is_as_it_was_written() -> None:
    for compacted_to, other, end in (
        (0, (), None),
        (1, (1,), EpochEnd(1, 1)),
        (2, (1,), None),
        (2, (2,), EpochEnd(1, 2)),
        (3, (1, 2), None),
    ):
        bench = Bench(log=log_of(1, 1, 1))
        bench.apply(leader_epoch=2)
        if compacted_to:
            placed = PlacedRound(compacted_to, Round(compacted_to, 0, 0, 0))
            bench.log.rounds.on_pass(placed, reaches=compacted_to)
        theirs = [(base, 7 if base in other else crc) for base, crc in crcs_of(bench)]
        mark = LogMark(1, -1, tuple(theirs[1:]))
        assert bench.fetch(2, 3, mark=mark)[0].diverging == end, (compacted_to, other)


# Deletion.


def test_a_later_deletion_below_an_earlier_one_takes_nothing_back() -> None:
    """I37: a replica without the higher start may still not join."""
    bench = leading(isr=(1, 2))
    bench.append(records=1)
    bench.append(records=1)
    bench.fetch(2, 2)
    bench.delete(2)
    bench.delete(1)
    bench.fetch(3, 2, log_start_offset=1)
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    bench.fetch(3, 2, log_start_offset=2)
    assert leader_of(bench).due_proposal(bench.now_ms) is not None


# Proposals.


def test_a_fetch_asks_for_an_outsider_only_where_it_could_be_proposed_now() -> None:
    def asked(fetches: tuple[int, ...] = (3,), *, is_pending: bool = False, after_ms: int = 0) -> bool:
        bench = Bench(lease=held_lease(lease_ms=2_000))
        bench.apply(replicas=(1, 2, 3, 4), isr=(1, 2))
        if is_pending:
            bench.fetch(4, 0)
            assert leader_of(bench).due_proposal(bench.now_ms) is not None
        bench.now_ms += after_ms
        for follower in fetches:
            _, effects = bench.fetch(follower, 0)
        return PROPOSAL_READY in effects

    assert asked()
    assert not asked(is_pending=True)
    assert not asked((3, 2)), "a member"
    assert not asked(after_ms=5_000), "no lease"


def test_an_outsider_that_lags_is_not_asked_for() -> None:
    bench = leading(isr=(1, 2))
    bench.fetch(3, 0)
    bench.append()
    bench.now_ms += 1_000_000
    assert PROPOSAL_READY not in bench.fetch(3, 0)[1]


def test_a_follower_that_catches_up_before_the_report_is_put_together_keeps_its_seat() -> None:
    bench = leading()
    for follower in (2, 3):
        bench.fetch(follower, 0)
    bench.append()
    bench.fetch(2, 1)
    assert PROPOSAL_READY in bench.tick(20_000)
    bench.fetch(3, 1)
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    assert leader_of(bench).in_sync.pending is None


def test_without_a_lease_a_promise_is_sent_again_and_none_is_made() -> None:
    for is_pending in (True, False):
        bench = Bench(lease=held_lease(lease_ms=2_000), proposal_retry_ms=100)
        bench.apply(isr=(1, 2))
        bench.fetch(3, 0)
        if is_pending:
            assert leader_of(bench).due_proposal(bench.now_ms) is not None
        assert bench.tick(5_000) == ((PROPOSAL_READY,) if is_pending else NO_EFFECTS)
        assert (leader_of(bench).due_proposal(bench.now_ms) is not None) == is_pending


@pytest.mark.parametrize(
    ("error", "id_", "changes", "ends"),
    [
        (ControllerError.NONE, 1, {}, True),
        (ControllerError.NONE, 7, {}, False),
        (ControllerError.NONE, 1, {"partition_epoch": 0}, False),
        (ControllerError.NONE, 1, {"leader_epoch": 0}, False),
        (ControllerError.NONE, 1, None, False),
        (ControllerError.INVALID_REQUEST, 1, {}, False),
    ],
)
def test_a_promise_that_ended_lets_the_next_be_made_at_once_and_what_ends_none_does_nothing(
    error: ControllerError, id_: int, changes: dict[str, object] | None, ends: bool
) -> None:
    """The leader asks to confirm its log, and the controller finds the state so already. A long time has
    passed: who is not heard asks again by the clock, not by an answer that settles nothing."""
    recovering = {"isr": (1,), "recovery": LeaderRecovery.RECOVERING, "unclean_leader_epoch": 1}
    bench = leading(**recovering)
    assert leader_of(bench).due_proposal(bench.now_ms) is not None
    bench.now_ms += 1_000_000
    state = None if changes is None else partition_state(**{**recovering, **changes})
    assert settled(bench, state, error=error, id_=id_) == ((PROPOSAL_READY,) if ends else NO_EFFECTS)
    assert (leader_of(bench).in_sync.pending is None) == ends


def settled(bench: Bench, state: PartitionState | None, *, error: ControllerError, id_: int) -> Effects:
    result = IsrProposalResult(topic_id=TOPIC_ID, partition=0, proposal_id=id_, error=error, state=state)
    return bench.replica.on_proposal_result(result, now_ms=bench.now_ms)


def test_an_answer_to_nothing_settles_nothing() -> None:
    bench = leading()
    for state in (None, partition_state()):
        assert settled(bench, state, error=ControllerError.NONE, id_=1) == NO_EFFECTS


def test_an_answer_with_another_in_sync_set_ends_no_promise() -> None:
    bench = leading(isr=(1, 2))
    bench.fetch(3, 0)
    assert leader_of(bench).due_proposal(bench.now_ms) is not None
    settled(bench, partition_state(isr=(1, 2)), error=ControllerError.NONE, id_=1)
    assert leader_of(bench).in_sync.maximal_isr == (1, 2, 3)


# At rest.


def test_a_leader_rests_when_all_is_everywhere_and_committed_and_nobody_waits() -> None:
    bench = leading()
    for follower in (2, 3):
        bench.fetch(follower, 0)
    role = bench.replica.role
    assert role.is_at_rest is True
    bench.append(acks=1)
    assert role.is_at_rest is False
    bench.fetch(2, 1)
    assert role.is_at_rest is False
    bench.fetch(3, 1)
    assert role.is_at_rest is True
    bench.delete(1)
    assert role.is_at_rest is False, "a deletion waits for the followers' log start"


def test_a_leader_with_somebody_outside_its_in_sync_set_does_not_rest() -> None:
    assert not leading(isr=(1, 2)).replica.role.is_at_rest


def test_a_leader_without_its_lease_that_can_not_commit_what_all_have_does_not_rest() -> None:
    bench = Bench(lease=held_lease(lease_ms=2_000))
    bench.apply()
    bench.append(acks=1)
    bench.now_ms += 5_000
    for follower in (2, 3):
        bench.fetch(follower, 1)
    assert bench.high_watermark == 0
    assert not bench.replica.role.is_at_rest


# Rounds of compaction.

OPTIONS = CompactionOptions(0.5, 0, 2**63 - 1, delete_retention_ms=100)


def compacting(**options: Any) -> Bench:
    bench = Bench(log=log_of(1, 1, 1, 1), high_watermark=4, compaction=OPTIONS, **options)
    bench.apply(leader_epoch=2)
    return bench


def decide(bench: Bench) -> Effects:
    dirt = Dirt(end_offset=3, clean_bytes=0, dirty_bytes=300, oldest_dirty_ms=1)
    return leader_of(bench).decide_round(dirt, agreed_ms=1_000, now_ms=bench.now_ms, wall_ms=1_000)


def test_a_leader_that_may_not_serve_decides_no_round() -> None:
    bench = compacting(lease=held_lease(lease_ms=2_000))
    bench.now_ms += 5_000
    assert decide(bench) == NO_EFFECTS
    assert bench.log.log_end_offset == 4


def test_a_leader_that_can_not_write_its_round_goes_offline() -> None:
    bench = compacting()
    bench.log.failing = "broken"
    assert decide(bench)
    assert isinstance(bench.replica.role, Offline)
