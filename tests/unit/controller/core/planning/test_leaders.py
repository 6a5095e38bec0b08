"""Preferred leaders: as even as the replicas allow, and successors that differ."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.leaders import balance_leaders, spread_succession
from controller.core.planning.plan import MoveReason
from tests.kit.controller.planning_board import alone


def everyone(count: int) -> Freedom:
    return Freedom(frozenset(range(count)), frozenset(range(count)))


def squares(leaders: Sequence[int]) -> int:
    return sum(count**2 for count in Counter(leaders).values())


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 6))
def test_leaders_are_as_even_as_any_choice_among_the_replicas(data: st.DataObject, count: int) -> None:
    """Of those that may be given: some partitions are locked, others not asked for; some brokers neither give
    nor receive. Replicas only change their order."""
    ids = range(count)
    drawn = st.permutations(ids).flatmap(lambda all_: st.integers(1, min(count, 3)).map(lambda n: all_[:n]))
    parts = data.draw(st.lists(drawn.map(tuple), min_size=1, max_size=7))
    board = alone(count, *parts)
    locked = data.draw(st.lists(st.sampled_from([False] * 4 + [True]), min_size=7, max_size=7))
    board = msgspec.structs.replace(
        board,
        partitions=tuple(
            msgspec.structs.replace(p, is_reassigning=locked[n]) for n, p in enumerate(board.partitions)
        ),
    )
    layout = Layout(board)
    asked = [n for n in range(len(parts)) if data.draw(st.integers(0, 5)) > 0]
    free = frozenset(
        data.draw(st.sets(st.sampled_from(ids), min_size=1)) if data.draw(st.booleans()) else ids
    )
    balance_leaders(layout, Freedom(free, free), asked, Effort(10_000))
    choices = [
        [b for b in p if b == p[0] or b in free] if n in asked and not locked[n] and p[0] in free else [p[0]]
        for n, p in enumerate(parts)
    ]
    assert all(now[0] in choices[n] for n, now in enumerate(layout.replicas))
    assert [sorted(now) for now in layout.replicas] == [sorted(p) for p in parts]
    least = min(squares(chosen) for chosen in itertools.product(*choices))
    assert squares([now[0] for now in layout.replicas]) == least
    assert set(layout.touched) == {n for n, now in enumerate(layout.replicas) if tuple(now) != parts[n]}


@pytest.mark.parametrize(
    ("donors", "receivers", "leaders"),
    [
        ({0}, {1}, [1, 0, 0]),
        ({0}, {2}, [0, 0, 0]),
        ({0, 1}, {2}, [0, 0, 0]),
        (set(), {1}, [0, 0, 0]),
        ({0, 1, 2}, set(), [0, 0, 0]),
    ],
)
def test_leaderships_go_from_donors_to_receivers_only(
    donors: set[int], receivers: set[int], leaders: list[int]
) -> None:
    layout = Layout(alone(3, (0, 1), (0, 1), (0, 1)))
    balance_leaders(layout, Freedom(frozenset(donors), frozenset(receivers)), range(3), Effort(100))
    assert [replicas[0] for replicas in layout.replicas] == leaders


def test_leaderships_go_over_a_third_broker_from_one_that_only_gives() -> None:
    layout = Layout(alone(3, (0, 1), (0, 1), (1, 2)))
    balance_leaders(layout, Freedom(frozenset({0}), frozenset({1, 2})), range(3), Effort(100))
    assert sorted(replicas[0] for replicas in layout.replicas) == [0, 1, 2]
    stairs = Layout(alone(4, *[(0, 1)] * 4, *[(1, 2)] * 3, *[(2, 3)] * 2, (3,)))
    balance_leaders(stairs, everyone(4), range(10), Effort(1_000))
    assert sorted(Counter(replicas[0] for replicas in stairs.replicas).values()) == [2, 2, 3, 3]


def test_partitions_that_change_anyway_give_their_leadership_first() -> None:
    layout = Layout(alone(3, (0, 1), (0, 2)))
    layout.move(1, 2, 1, MoveReason.BALANCE)
    balance_leaders(layout, everyone(3), range(2), Effort(100))
    assert layout.replicas == [[0, 1], [1, 0]]


def test_a_search_that_may_not_look_changes_nothing() -> None:
    layout = Layout(alone(3, *[(0, 1, 2)] * 3))
    balance_leaders(layout, everyone(3), range(3), Effort(0))
    assert layout.touched == {}


@pytest.mark.parametrize(
    ("found", "changing", "seconds"),
    [
        # Those that a dead leader leaves behind go to all others alike.
        ([(0, 1, 2, 3)] * 6, 6, [2, 3, 2, 3, 1, 1]),
        # Only partitions that change are ordered anew; others, and those of other leaders, are counted.
        ([(0, 1, 2)] * 4, 1, [2, 1, 1, 1]),
        ([(0, 1, 2), (3, 1, 2), (3, 1, 2)], 1, [1, 1, 1]),
        ([(0, 1, 2), (0, 1), (0, 2), (0, 1)], 1, [2, 1, 2, 1]),
        ([(0, 1), (0, 1)], 2, [1, 1]),
        # What the second round makes better: the first comes before the second has left its place.
        ([(0, 1, 2), (0, 2, 3), (4, 1, 2), (0, 1), (0, 1), (0, 2)], 3, [2, 3, 1, 1, 1, 2]),
        (
            [(0, 1, 2, 3), (0, 3, 4), *[(0, 1)] * 5, *[(0, 2)] * 2, (0, 3)],
            2,
            [3, 4, *[1] * 5, *[2] * 2, 3],
        ),
    ],
)
def test_second_stands_the_one_that_succeeds_this_leader_least_often(
    found: list[tuple[int, ...]], changing: int, seconds: list[int]
) -> None:
    """The first so many come from a broker that is emptied; others have changed their order and back."""
    layout = Layout(alone(6, *((5, *one[1:]) if n < changing else one for n, one in enumerate(found))))
    for number, (leader, *_) in enumerate(found):
        if number < changing:
            layout.move(number, 5, leader, MoveReason.DRAIN)
        else:
            layout.lead(number, leader, MoveReason.LEADER_BALANCE)
    spread_succession(layout)
    assert [replicas[1] for replicas in layout.replicas] == seconds
