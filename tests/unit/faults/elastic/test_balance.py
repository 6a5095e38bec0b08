from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.elastic.balance import (
    Load,
    copies,
    could_be_more_even,
    draw,
    least_to_empty,
    least_to_spread,
    loads,
)

BEFORE = {0: [1, 2], 1: [2, 1], 2: [1, 2]}
SIZES = {0: 10, 1: 20, 2: 40}


def test_what_each_broker_carries() -> None:
    found = loads(BEFORE, {0: 1, 1: 2, 2: 1}, SIZES, [1, 2, 3])
    assert found == {1: Load(3, 2, 70), 2: Load(3, 1, 70), 3: Load(0, 0, 0)}


def test_a_replica_that_comes_is_a_copy_and_another_order_is_none() -> None:
    assert copies(BEFORE, {0: [2, 3], 1: [1, 2], 2: [2, 1]}) == [(0, 3)]


def test_each_of_the_full_brokers_gives_its_smallest() -> None:
    before = {0: [1], 1: [1], 2: [1], 3: [2], 4: [2], 5: [2]}
    sizes = {0: 10, 1: 20, 2: 40, 3: 50, 4: 60, 5: 70}
    # Two each: both give one. The third could have had two of 10 and 20.
    assert least_to_spread(before, sizes, [1, 2, 3]) == 60


def test_who_may_keep_one_more_is_whoever_saves_most() -> None:
    before = {0: [1], 1: [1], 2: [2], 3: [2]}
    # One each and one to spare: 1 would give 10 bytes, 2 would give 30.
    assert least_to_spread(before, {0: 10, 1: 20, 2: 30, 3: 40}, [1, 2, 3]) == 10


def test_a_broker_receives_each_partition_once() -> None:
    # Three that hold all; one joins and must get two replicas, of different partitions.
    before = {0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3]}
    assert least_to_spread(before, SIZES, [1, 2, 3, 4]) == 30


def test_a_replica_that_came_to_the_fuller_broker_is_named() -> None:
    before = {0: [1], 1: [1], 2: [1]}
    assert could_be_more_even(before, {0: [2], 1: [2], 2: [3]}, [2, 3]) == []
    assert len(could_be_more_even(before, {0: [2], 1: [2], 2: [2]}, [2, 3])) == 3
    # What has no other place is nobody's fault: 3 has a replica already.
    assert could_be_more_even({0: [1, 3]}, {0: [2, 3]}, [2, 3]) == []


def test_all_that_a_leaving_broker_holds_is_copied() -> None:
    assert least_to_empty({0: [1, 2], 1: [2, 3]}, SIZES, [1]) == 10


@given(
    st.lists(
        st.tuples(st.sampled_from(list(itertools.combinations(range(1, 4), 2))), st.integers(0, 9)),
        min_size=1,
        max_size=4,
    )
)
def test_no_even_assignment_copies_less_than_the_bound(partitions: list[tuple[tuple[int, int], int]]) -> None:
    brokers = [1, 2, 3, 4]
    before = {number: list(replicas) for number, (replicas, _) in enumerate(partitions)}
    sizes = {number: size for number, (_, size) in enumerate(partitions)}
    pairs = list(itertools.combinations(brokers, 2))
    best = None
    for chosen in itertools.product(pairs, repeat=len(partitions)):
        counts = [sum(broker in pair for pair in chosen) for broker in brokers]
        if max(counts) - min(counts) <= 1:
            cost = sum(sizes[number] for number, _ in copies(before, dict(enumerate(chosen))))
            best = cost if best is None else min(best, cost)
    assert best is not None
    assert least_to_spread(before, sizes, brokers) <= best


def test_bars_are_as_long_as_the_numbers_are_large() -> None:
    lines = draw({1: Load(6, 2, 0), 2: Load(3, 1, 1024 * 1024)}, {2: Load(4, 4, 0), 3: Load(0, 0, 0)})
    bars = [line.count("█") for line in lines]
    assert [bars[1], bars[2]] == [30, 15]
    assert bars[6] == 20
    assert lines[3].split() == ["broker", "3", "-"]
    assert lines[5].split() == ["broker", "1", "-"]
    assert lines[2].split()[-3:] == ["3", "1", "1.0"]
