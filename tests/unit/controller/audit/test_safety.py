"""The worst slack of partitions over a time, and the minute in which it lay."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from controller.audit.safety import (
    MINUTE_MS,
    SHOWN_MAX,
    AuditedState,
    History,
    MeasuredSafety,
    Meter,
    worst_minute,
)

T = 1_700_000_040_000
assert T % MINUTE_MS == 0


def state(
    at_ms: int, in_sync: int | None, *, minimum: int = 2, leader: bool = True, row: int = 1
) -> AuditedState:
    return AuditedState(
        at_ms=at_ms,
        audit_id=row,
        cause="isr_shrunk",
        in_sync=in_sync,
        min_insync_replicas=minimum,
        has_leader=leader,
    )


def history(*seen: AuditedState, partition: int = 0, is_whole: bool = True) -> History:
    return History(topic="orders", topic_id="T", partition=partition, seen=seen, is_whole=is_whole)


def measure(histories: Iterable[History], *, begin_ms: int, end_ms: int) -> MeasuredSafety:
    meter = Meter(begin_ms=begin_ms, end_ms=end_ms)
    for one in histories:
        meter.add(one)
    return meter.finish()


def test_a_partition_that_nothing_happened_to_keeps_its_slack() -> None:
    found = measure([history(state(T - 9, 3))], begin_ms=T, end_ms=T + 90_000)
    assert found.worst is not None
    assert (found.worst.slack, found.worst.partitions) == (1, 1)
    assert (found.worst.minute_ms, found.worst.partition_ms) == (T, MINUTE_MS)
    assert (found.below.partitions, found.leaderless.partitions, found.holes_total) == (0, 0, 0)


def test_the_worst_state_is_named_with_its_minute_its_time_and_its_row() -> None:
    quiet = history(state(T, 3), partition=1)
    fell = history(state(T, 3, row=1), state(T + 70_000, 1, row=2), state(T + 75_000, 2, row=3), partition=2)
    found = measure([quiet, fell], begin_ms=T, end_ms=T + 200_000)
    assert found.worst is not None
    assert (found.worst.slack, found.worst.partitions) == (-1, 1)
    assert (found.worst.minute_ms, found.worst.partition_ms) == (T + MINUTE_MS, 5_000)
    (shown,) = found.worst.first
    assert (shown.partition, shown.audit_id, shown.in_sync) == (2, 2, 1)
    assert (shown.from_ms, shown.until_ms) == (T + 70_000, T + 75_000)
    assert (found.below.partitions, found.below.ms_max, found.began_below) == (1, 5_000, 0)


def test_a_state_of_no_length_counts_as_worst_all_the_same() -> None:
    fell = history(state(T, 3), state(T + 5, 1), state(T + 5, 3))
    found = measure([fell], begin_ms=T, end_ms=T + 10)
    assert found.worst is not None
    assert (found.worst.slack, found.worst.minute_ms, found.worst.partition_ms) == (-1, T, 0)
    assert (found.below.partitions, found.below.ms_max) == (1, 0)


def test_a_partition_that_was_below_from_the_beginning_is_told_apart() -> None:
    already = history(state(T - 1_000, 1), state(T + 100, 3), partition=0)
    later = history(state(T - 1_000, 3), state(T + 100, 1), partition=1)
    found = measure([already, later], begin_ms=T, end_ms=T + 1_000)
    assert (found.below.partitions, found.began_below) == (2, 1)
    assert found.below.ms_max == 900


def test_time_without_a_leader_is_told_apart_from_slack() -> None:
    found = measure(
        [history(state(T, 2), state(T + 100, 2, leader=False), state(T + 400, 2))],
        begin_ms=T,
        end_ms=T + 1_000,
    )
    assert (found.leaderless.partitions, found.leaderless.ms_max) == (1, 300)
    assert found.below.partitions == 0


def test_a_partition_counts_from_when_it_was_made_until_it_is_gone() -> None:
    found = measure([history(state(T + 100, 2), state(T + 300, None))], begin_ms=T, end_ms=T + 1_000)
    assert found.worst is not None
    assert (found.worst.slack, found.worst.partition_ms) == (0, 200)
    (shown,) = found.worst.first
    assert (shown.from_ms, shown.until_ms) == (T + 100, T + 300)


def test_a_clock_that_went_back_makes_no_time_negative() -> None:
    jumped = history(state(T, 3), state(T + 500, 2), state(T + 100, 1), state(T + 700, 3))
    found = measure([jumped], begin_ms=T, end_ms=T + 1_000)
    assert found.worst is not None
    (shown,) = found.worst.first
    assert (shown.slack, shown.from_ms, shown.until_ms) == (-1, T + 500, T + 700)


def test_what_lies_after_the_end_is_cut_off() -> None:
    found = measure([history(state(T, 3), state(T + 500, 2))], begin_ms=T, end_ms=T + 500)
    assert found.worst is not None
    assert (found.worst.slack, found.worst.partition_ms) == (0, 0)


def test_holes_and_partitions_without_a_row_are_counted() -> None:
    histories = [history(state(T, 3), partition=0, is_whole=False), history(partition=1)]
    found = measure(histories, begin_ms=T, end_ms=T + 10)
    assert (found.partitions, found.holes_total, found.holes) == (1, 2, (("orders", 0), ("orders", 1)))


def test_a_receipt_names_few_and_counts_all() -> None:
    histories = [history(state(T, 1), partition=number) for number in range(SHOWN_MAX + 5)]
    found = measure(histories, begin_ms=T, end_ms=T + 10)
    assert found.worst is not None
    assert (found.worst.partitions, len(found.worst.first)) == (SHOWN_MAX + 5, SHOWN_MAX)
    assert (found.below.partitions, len(found.below.first)) == (SHOWN_MAX + 5, SHOWN_MAX)


def test_nothing_to_measure_has_no_worst() -> None:
    found = measure([], begin_ms=T, end_ms=T)
    assert (found.worst, found.partitions, found.states) == (None, 0, 0)


@pytest.mark.parametrize("seed", range(200))
def test_the_worst_minute_is_the_one_that_counting_each_millisecond_finds(seed: int) -> None:
    """Minutes of ten units, so that every unit can be counted."""
    rng = random.Random(seed)
    unit = MINUTE_MS // 10
    stretches = []
    for _ in range(rng.randint(1, 6)):
        begin = rng.randint(0, 60)
        stretches.append((T + begin * unit, T + (begin + rng.choice([0, 1, 3, 12, 30])) * unit))
    spent: dict[int, int] = {}
    for begin_ms, end_ms in stretches:
        spent.setdefault(begin_ms - begin_ms % MINUTE_MS, 0)
        for at_ms in range(begin_ms, end_ms, unit):
            minute = at_ms - at_ms % MINUTE_MS
            spent[minute] = spent.get(minute, 0) + unit
    most = max(spent.values())
    assert worst_minute(stretches) == (min(m for m, ms in spent.items() if ms == most), most)
