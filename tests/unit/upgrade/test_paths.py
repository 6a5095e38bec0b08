"""Walks are drawn from their seeds, and each ends with seven processes of this release."""

from __future__ import annotations

import pytest

from tests.upgrade.paths import PROCESSES, Release, Walk, draw_walk, draw_walks

SEEDS = range(20)


def releases(walk: Walk) -> list[set[str]]:
    """Return which processes run this release before the first phase and after each."""
    runs: set[str] = set()
    after = [set(runs)]
    for phase in walk.phases:
        for step in phase.steps:
            was = step.process in runs
            if step.release is Release.THIS:
                runs.add(step.process)
            else:
                runs.discard(step.process)
            assert step.is_kill or was != (step.release is Release.THIS), "a stop rolls a process"
        after.append(set(runs))
    return after


@pytest.mark.parametrize("rolled", range(8))
def test_so_many_processes_go_there_and_back_and_then_all_go(rolled: int) -> None:
    for seed in SEEDS:
        before, there, back, on = releases(draw_walk(seed, rolled))
        assert (before, len(there), back, on) == (set(), rolled, set(), set(PROCESSES))


def test_a_seed_draws_the_same_walk_each_time_and_another_seed_another() -> None:
    assert draw_walk(1, 5) == draw_walk(1, 5)
    assert draw_walk(1, 5).phases != draw_walk(2, 5).phases


def test_eight_walks_roll_each_number_of_processes_once_and_three_are_three_of_them() -> None:
    assert [walk.rolled for walk in draw_walks(7, 8)] == list(range(8))
    few = [walk.rolled for walk in draw_walks(7, 3)]
    assert len(set(few)) == 3
    assert {tuple(walk.rolled for walk in draw_walks(seed, 3)) for seed in SEEDS} > {tuple(few)}
    assert len({(walk.seed, walk.rolled) for walk in draw_walks(7, 16)}) == 16


def test_some_step_of_the_walks_overlaps_with_a_kill() -> None:
    """Else nothing would ever be struck while it comes back."""
    steps = [step for seed in SEEDS for phase in draw_walk(seed, 7).phases for step in phase.steps]
    assert any(not step.waits for step in steps)
    assert any(step.is_kill for step in steps)
    assert any(not step.is_kill for step in steps)
