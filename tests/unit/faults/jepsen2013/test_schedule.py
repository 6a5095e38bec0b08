"""The schedule is the published one: who writes what where and when, and when the network is cut."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.jepsen2013.schedule import (
    BROKERS,
    PARTITIONS,
    TOTAL,
    WRITERS,
    Plan,
    assignments,
    choose_victim,
    integer_of,
    is_writer,
    partition_of,
    writer_name,
)


@pytest.mark.parametrize(
    ("rate", "seconds", "first_cut", "second_cut", "lag_ms"),
    [(2, 100, 10, 50, 10_000), (5, 40, 10, 20, 5_000), (10, 20, 5, 10, 2_500)],
)
def test_the_cuts_come_after_a_quarter_and_half_of_the_time(
    rate: float, seconds: float, first_cut: float, second_cut: float, lag_ms: int
) -> None:
    plan = Plan(rate=rate)
    assert (plan.seconds, plan.first_cut_seconds, plan.second_cut_seconds) == (seconds, first_cut, second_cut)
    assert plan.lag_ms_max == lag_ms


@pytest.mark.parametrize("rate", [0.5, 2, 5, 10])
def test_the_isr_can_shrink_and_a_request_run_out_between_the_cuts(rate: float) -> None:
    plan = Plan(rate=rate)
    between_ms = (plan.second_cut_seconds - plan.first_cut_seconds) * 1000
    assert plan.lag_ms_max * 1.5 < between_ms
    assert plan.request_timeout_ms <= between_ms


@pytest.mark.parametrize("rate", [0, -1, 10.5])
def test_a_rate_at_which_the_schedule_makes_no_sense_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Plan(rate=rate)


def test_each_integer_is_dealt_once_round_robin() -> None:
    plan = Plan()
    dealt = [integer for writer in range(1, WRITERS + 1) for integer in plan.integers(writer)]
    assert sorted(dealt) == list(range(TOTAL))
    assert [plan.integers(writer)[0] for writer in range(1, WRITERS + 1)] == [0, 1, 2, 3, 4]


def test_a_writers_number_tells_its_integer() -> None:
    for writer in range(1, WRITERS + 1):
        for number, integer in enumerate(Plan().integers(writer)):
            assert integer_of(writer_name(writer), number) == integer
    assert is_writer(writer_name(3))
    assert not is_writer("probe")


def test_integers_are_due_at_a_fixed_rate_and_the_last_before_the_end() -> None:
    plan = Plan(rate=5)
    assert [plan.due_seconds(integer) for integer in (0, 4, 5, 999)] == [0, 0, 0.2, 39.8]


def test_every_writer_visits_every_partition_and_no_two_meet() -> None:
    for step in range(TOTAL // WRITERS):
        assert len({partition_of(step * WRITERS + writer) for writer in range(WRITERS)}) == PARTITIONS
    for writer in range(1, WRITERS + 1):
        visits = Counter(map(partition_of, Plan().integers(writer)))
        assert set(visits.values()) == {TOTAL // WRITERS // PARTITIONS}


@pytest.mark.parametrize("led_by_one", range(1, PARTITIONS))
def test_the_first_broker_is_preferred_where_asked_and_all_brokers_have_all(led_by_one: int) -> None:
    brokers = list(range(1, BROKERS + 1))
    placed = assignments(brokers, led_by_one=led_by_one)
    assert len(placed) == PARTITIONS
    assert all(sorted(replicas) == brokers for replicas in placed)
    preferred = Counter(replicas[0] for replicas in placed)
    assert preferred[1] == led_by_one
    assert len(preferred) == 1 + PARTITIONS - led_by_one
    seconds = {replicas[1] for replicas in placed if replicas[0] == 1}
    assert len(seconds) == min(led_by_one, BROKERS - 1)


def test_the_victim_leads_most_and_of_several_is_the_first() -> None:
    assert choose_victim({0: 3, 1: 1, 2: 3, 3: None, 4: 2}) == 3
    assert choose_victim({0: 5, 1: 2, 2: None}) == 2
    with pytest.raises(ValueError, match="leader"):
        choose_victim({0: None})
