"""Positions resolved, offsets compared, tasks planned, rates limited: all with values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.values import EARLIEST, LATEST, FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import DataLossError, InvalidOption
from pipeline.source.offset_json import Offsets, offsets_from_json
from pipeline.source.offsets import (
    backlog,
    check_order,
    check_within,
    clamp,
    fill_latest,
    is_unresolved,
    questions,
    raise_losses,
    ranges_between,
    resolve,
    unfilled,
    unresolved_start,
)
from pipeline.source.planning import TASKS_MAX, PlanOptions, TriggerClock, limit_rate, plan_tasks
from pipeline.source.positions import AtOffsets, AtTimestamps, LogEnd, Position

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def found(**offsets: int) -> dict[TopicPartition, FoundOffset]:
    return {TopicPartition("t", int(name[1:])): FoundOffset(offset) for name, offset in offsets.items()}


# --- resolving ------------------------------------------------------------------------------------------


def test_ends_of_logs_are_asked_for() -> None:
    assert questions(LogEnd.EARLIEST, [T1, T0]) == {T0: EARLIEST, T1: EARLIEST}
    assert resolve(LogEnd.LATEST, [T0, T1], found(t0=5, t1=0)) == {T0: 5, T1: 0}


def test_given_offsets_are_taken_and_marks_are_asked_for() -> None:
    position = AtOffsets("startingOffsets", {T0: 7, T1: LATEST, T2: EARLIEST})
    assert questions(position, [T0, T1, T2]) == {T1: LATEST, T2: EARLIEST}
    assert resolve(position, [T0, T1, T2], found(t1=50, t2=3)) == {T0: 7, T1: 50, T2: 3}


@pytest.mark.parametrize(
    "position", [AtOffsets("o", {T0: 1, T2: 2}), AtTimestamps("o", {T0: 1, T2: 2}, or_latest=True)]
)
def test_maps_must_name_exactly_the_partitions(position: Position) -> None:
    with pytest.raises(InvalidOption, match=r"option 'o' must name exactly.*missing: t-1; not read: t-2"):
        questions(position, [T0, T1])


def test_a_timestamp_that_finds_nothing_is_an_error_or_the_end() -> None:
    strict = AtTimestamps("startingTimestamp", 99, or_latest=False)
    assert questions(strict, [T0, T1]) == {T0: 99, T1: 99}
    with pytest.raises(InvalidOption, match=r"startingTimestamp.*t-1 has no record.*Strategy"):
        resolve(strict, [T0, T1], found(t0=5, t1=-1))
    lenient = AtTimestamps("startingTimestamp", {T0: 1, T1: 2}, or_latest=True)
    assert questions(lenient, [T0, T1]) == {T0: 1, T1: 2}
    offsets = resolve(lenient, [T0, T1], found(t0=5, t1=-1))
    assert unfilled(offsets) == {T1: LATEST}
    assert fill_latest(offsets, found(t1=8)) == {T0: 5, T1: 8}


def test_offsets_that_a_log_does_not_hold_are_told_and_clamped() -> None:
    offsets, earliest, latest = {T0: 3, T1: 5, T2: 99}, {T0: 4, T1: 0, T2: 0}, {T0: 9, T1: 5, T2: 9}
    told = check_within("startingOffsets", offsets, earliest=earliest, latest=latest)
    assert [line.split(":")[1].strip()[:3] for line in told] == ["t-0", "t-2"]
    assert clamp(offsets, earliest=earliest, latest=latest) == {T0: 4, T1: 5, T2: 9}


def test_an_unresolved_start_is_no_offset() -> None:
    for position in (LogEnd.LATEST, AtTimestamps("startingTimestamp", 5, or_latest=True), AtOffsets("o", {})):
        start = unresolved_start(position)
        assert is_unresolved(start)
        with pytest.raises(InvalidOption):
            offsets_from_json(start)
    assert not is_unresolved({"startingFrom": {"0": 5}})
    assert not is_unresolved({})


# --- ranges ---------------------------------------------------------------------------------------------


def test_ranges_go_from_start_to_end() -> None:
    ranges = ranges_between({T0: 5, T1: 7}, {T0: 9, T1: 7})
    assert ranges.ranges == (PartitionRange("t", 0, 5, 9),)
    assert ranges.losses == ()


def test_a_partition_that_appeared_is_read_from_its_first_record() -> None:
    assert ranges_between({T0: 5}, {T0: 5, T1: 3}).ranges == (PartitionRange("t", 1, 0, 3),)


def test_what_went_away_or_back_is_a_loss() -> None:
    ranges = ranges_between({T0: 5, T1: 7}, {T1: 6, T2: 1})
    assert ranges.ranges == (PartitionRange("t", 2, 0, 1),)
    assert ranges.losses == (
        "t-0 is gone; it was read up to offset 4",
        "t-1 was read up to offset 6, and its log ends at offset 5 now",
    )
    with pytest.raises(DataLossError, match=r"t-0 is gone.*ends at offset 5 now"):
        raise_losses(ranges.losses)
    raise_losses(())


def test_a_batch_query_that_begins_after_its_end_is_an_option_that_is_wrong() -> None:
    check_order({T0: 5, T1: 0}, {T0: 5, T1: 3})
    with pytest.raises(InvalidOption, match=r"begins after its end: t-0 from 6 to 5; t-2 from 1 to 0\."):
        check_order({T0: 6, T1: 0, T2: 1}, {T0: 5, T1: 3, T2: 0})


def test_backlog_counts_what_is_behind() -> None:
    assert backlog({T0: 5, T1: 9}, {T0: 9, T1: 9, T2: 2}) == {T0: 4, T2: 2}


# --- tasks ----------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 5_000), min_size=1, max_size=30)
OPTIONS = st.builds(
    PlanOptions,
    st.none() | st.integers(1, 60),
    st.none() | st.integers(50, 2_000),
    st.none() | st.integers(1, 10_000),
)


def ranges_of(sizes: list[int]) -> list[PartitionRange]:
    return [PartitionRange("t", number, number * 7, number * 7 + size) for number, size in enumerate(sizes)]


def sizes_of(tasks: list[tuple[PartitionRange, ...]]) -> list[list[int]]:
    return [[one.end_offset - one.start_offset for one in task] for task in tasks]


@settings(deadline=None)
@given(SIZES, OPTIONS)
def test_tasks_hold_every_offset_once_and_no_partition_twice(sizes: list[int], options: PlanOptions) -> None:
    ranges = ranges_of(sizes)
    tasks = plan_tasks(ranges, options)
    assert plan_tasks(list(ranges), options) == tasks
    joined: dict[TopicPartition, PartitionRange] = {}
    for task in tasks:
        assert task
        assert len({one.where for one in task}) == len(task)
        for one in task:
            assert one.start_offset < one.end_offset
            before = joined.get(one.where)
            if before is not None:
                assert before.end_offset == one.start_offset
                one = one._replace(start_offset=before.start_offset)  # noqa: PLW2901
            joined[one.where] = one
    assert sorted(joined.values()) == ranges


@settings(deadline=None)
@given(SIZES, OPTIONS)
def test_tasks_keep_the_limits(sizes: list[int], options: PlanOptions) -> None:
    tasks = plan_tasks(ranges_of(sizes), options)
    if options.min_partitions is not None:
        assert len(tasks) >= min(options.min_partitions, sum(sizes))
    if options.max_records_per_partition is not None:
        assert max(map(sum, sizes_of(tasks))) <= options.max_records_per_partition
    if options.coalesce_records is not None:
        for task in sizes_of(tasks):
            assert len(task) == 1 or sum(task) <= options.coalesce_records


def test_without_limits_a_partition_is_a_task() -> None:
    assert sizes_of(plan_tasks(ranges_of([5, 1, 9]), PlanOptions())) == [[5], [1], [9]]


def test_large_ranges_are_split_in_proportion() -> None:
    tasks = plan_tasks(ranges_of([6_000, 2_000, 100]), PlanOptions(min_partitions=8))
    assert sizes_of(tasks) == [[1_200]] * 5 + [[1_000]] * 2 + [[100]]


def test_small_ranges_are_packed() -> None:
    tasks = plan_tasks(ranges_of([100] * 1_000), PlanOptions(coalesce_records=10_000))
    assert [len(task) for task in tasks] == [100] * 10
    tasks = plan_tasks(ranges_of([9_000, 900, 200, 50_000, 5]), PlanOptions(coalesce_records=10_000))
    assert sizes_of(tasks) == [[9_000, 900], [200], [50_000], [5]]


def test_thousands_of_small_ranges_leave_no_slot_idle() -> None:
    tasks = plan_tasks(ranges_of([1] * 8_001), PlanOptions(coalesce_records=10_000))
    assert [len(task) for task in tasks] == [2_000, 2_000, 2_000, 2_000, 1]


def test_nothing_to_read_is_no_task() -> None:
    assert plan_tasks([], PlanOptions(min_partitions=5)) == []


def test_more_tasks_than_anybody_wants_are_refused() -> None:
    with pytest.raises(ValueError, match="maxRecordsPerPartition"):
        plan_tasks([PartitionRange("t", 0, 0, TASKS_MAX + 1)], PlanOptions(max_records_per_partition=1))


# --- rates ----------------------------------------------------------------------------------------------


def test_a_rate_is_shared_out_by_backlog() -> None:
    start, latest = {T0: 0, T1: 100, T2: 7}, {T0: 900, T1: 200, T2: 7}
    assert limit_rate(start, latest, max_offsets=100) == {T0: 90, T1: 110, T2: 7}
    assert limit_rate(start, latest, max_offsets=1_000) == latest


def test_everybody_behind_gets_at_least_one() -> None:
    start, latest = {T0: 0, T1: 0}, {T0: 10**12, T1: 1}
    assert limit_rate(start, latest, max_offsets=10) == {T0: 9, T1: 1}
    assert limit_rate(start, latest, max_offsets=1) == {T0: 1, T1: 1}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.integers(1, 10**6),
)
def test_a_limited_end_lies_between_and_goes_on(pairs: list[tuple[int, int]], max_offsets: int) -> None:
    start: Offsets = {TopicPartition("t", n): first for n, (first, _) in enumerate(pairs)}
    latest: Offsets = {TopicPartition("t", n): first + more for n, (first, more) in enumerate(pairs)}
    end = limit_rate(start, latest, max_offsets=max_offsets)
    behind = backlog(start, latest)
    assert end.keys() == latest.keys()
    assert all(start[where] <= end[where] <= latest[where] for where in end)
    assert all(end[where] > start[where] for where in behind)
    taken = sum(end[where] - start[where] for where in end)
    assert taken <= max_offsets + len(behind)


def test_a_minimum_is_waited_for_but_not_forever() -> None:
    def waits(clock: TriggerClock, latest: int, now_ms: int) -> bool:
        return clock.should_wait({T0: 100}, {T0: latest}, now_ms=now_ms, min_offsets=10, max_delay_ms=1_000)

    assert not waits(TriggerClock(), 101, 0)
    clock = TriggerClock(last_taken_ms=5_000)
    assert waits(clock, 109, 5_999)
    assert not waits(clock, 110, 5_001)
    assert not waits(clock, 101, 6_000)
