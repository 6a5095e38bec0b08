"""The moves between states: those of Kafka 4.4, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.core.transaction_records import StoredTransaction, TransactionState
from coordinator.core.transactions.state import (
    EPOCH_MAX,
    completed,
    fenced,
    initialized,
    is_idle,
    prepared,
    with_partitions,
)
from tests.kit.coordinator.transaction_desk import P0

S = TransactionState

#: TransactionState.validPreviousStates of Kafka 4.4, without PrepareEpochFence. Dead is a tombstone.
KAFKAS = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
}
DEADS = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}

MOVES: dict[S, Callable[[StoredTransaction], StoredTransaction]] = {
    S.EMPTY: lambda stored: initialized(
        stored, producer_id=1, producer_epoch=3, last_producer_epoch=-1, timeout_ms=5, wall_ms=9
    ),
    S.ONGOING: lambda stored: with_partitions(stored, [P0], version=2, wall_ms=9),
    S.PREPARE_COMMIT: lambda stored: prepared(stored, is_commit=True, version=2, wall_ms=9),
    S.PREPARE_ABORT: lambda stored: prepared(stored, is_commit=False, version=2, wall_ms=9),
    S.COMPLETE_COMMIT: lambda stored: completed(stored, 9),
    S.COMPLETE_ABORT: lambda stored: completed(stored, 9),
}


def stored_in(state: S, epoch: int = 2) -> StoredTransaction:
    return StoredTransaction(producer_id=1, producer_epoch=epoch, timeout_ms=5, state=state, updated_ms=1)


@pytest.mark.parametrize("before", list(S))
@pytest.mark.parametrize("after", list(S))
def test_only_legal_moves_are_made(before: S, after: S) -> None:
    if before in KAFKAS[after]:
        moved = MOVES[after](stored_in(before))
        assert (moved.state, moved.updated_ms, moved.previous_producer_id) == (after, 9, 1)
    elif after in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT) and before in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
        assert MOVES[after](stored_in(before)).state is not after
    else:
        with pytest.raises(AssertionError):
            MOVES[after](stored_in(before))


@pytest.mark.parametrize("before", list(S))
def test_only_an_open_transaction_is_fenced(before: S) -> None:
    if before is S.ONGOING:
        assert fenced(stored_in(before), wall_ms=9).state is S.PREPARE_ABORT
    else:
        with pytest.raises(AssertionError):
            fenced(stored_in(before), wall_ms=9)


def test_what_may_expire_is_what_kafka_lets_die() -> None:
    assert {state for state in S if is_idle(stored_in(state))} == DEADS


@pytest.mark.parametrize("epoch", [0, 5, EPOCH_MAX - 2, EPOCH_MAX - 1, EPOCH_MAX])
def test_a_fence_is_one_bump_and_never_beyond_the_last_epoch(epoch: int) -> None:
    fence = fenced(stored_in(S.ONGOING, epoch), wall_ms=9)
    assert fence.producer_epoch == min(epoch + 1, EPOCH_MAX)
    end = completed(fence, 9)
    assert (end.producer_id, end.producer_epoch) == (1, fence.producer_epoch)


def test_states_have_kafkas_names_and_numbers() -> None:
    assert {state.title: state.value for state in S} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
    }
