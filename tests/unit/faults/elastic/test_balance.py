from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.elastic.balance import (
    copies,
    could_be_more_even,
    least_to_empty,
    least_to_spread,
)

SIZES = {0: 10, 1: 20, 2: 40}


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
