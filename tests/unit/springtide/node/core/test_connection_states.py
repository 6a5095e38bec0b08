"""The phases of a connection, and the reasons for which it is not read."""

from __future__ import annotations

from itertools import combinations

import pytest

from springtide.node.core.connection_states import NEXT, ConnectionPhase, PauseReason, Pauses, Sending, follow

OTHERS = sorted(set(PauseReason) - {PauseReason.BOUND}, key=list(PauseReason).index)


def test_each_state_has_its_successors_and_they_are_of_its_own_kind() -> None:
    assert NEXT.keys() == {*ConnectionPhase, *Sending}
    assert all(type(after) is type(state) for state, afters in NEXT.items() for after in afters)


def test_a_connection_can_be_closed_at_any_time_and_stays_so() -> None:
    assert all(
        follow(phase, ConnectionPhase.CLOSED) is ConnectionPhase.CLOSED
        for phase in ConnectionPhase
        if phase is not ConnectionPhase.CLOSED
    )
    for phase in ConnectionPhase:
        with pytest.raises(AssertionError):
            follow(ConnectionPhase.CLOSED, phase)


def test_a_connection_that_ends_starts_nothing_again() -> None:
    for phase in (ConnectionPhase.NEW, ConnectionPhase.OPEN, ConnectionPhase.ENDING):
        with pytest.raises(AssertionError):
            follow(ConnectionPhase.ENDING, phase)


def test_a_thread_gives_the_socket_back_to_the_task_that_started_it() -> None:
    assert NEXT[Sending.IN_THREAD] == {Sending.FROM_DISK}
    assert {state for state, afters in NEXT.items() if Sending.IN_THREAD in afters} == {Sending.FROM_DISK}
    assert Sending.BLOCKED not in NEXT[Sending.FROM_DISK], "the task ends first"


@pytest.mark.parametrize("held", [held for count in range(4) for held in combinations(OTHERS, count)])
def test_a_connection_is_read_again_after_the_last_reason_and_a_look_at_its_bounds(
    held: tuple[PauseReason, ...],
) -> None:
    pauses = Pauses(held)
    for reason in held:
        assert pauses and not pauses.may_end
        pauses.lift(reason)
    assert pauses.may_end == bool(held)
    assert pauses == ({PauseReason.BOUND} if held else set())


def test_the_end_of_a_reason_that_did_not_hold_pauses_nothing() -> None:
    pauses = Pauses()
    pauses.lift(PauseReason.HELD)
    assert not pauses
