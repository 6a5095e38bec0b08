"""Filters narrow what is fetched, and never leave out a row that they allow."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.source.pushdown import Bounds, Comparison, Span, bounds_of, narrow, since

RANGES = [PartitionRange("a", 0, 0, 50), PartitionRange("a", 1, 10, 20), PartitionRange("b", 0, 5, 9)]
NOON = datetime.datetime(2026, 11, 22, 12, 0, 0, 1_500, tzinfo=datetime.UTC)

OPERATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column in value,
}
NUMBERS = st.integers(-5, 60)
COMPARISONS = st.one_of(
    st.builds(
        Comparison,
        st.sampled_from(["partition", "offset", "OFFSET", "value"]),
        st.sampled_from(["=", "<", "<=", ">", ">="]),
        NUMBERS,
    ),
    st.builds(
        Comparison,
        st.sampled_from(["partition", "offset"]),
        st.just("in"),
        st.lists(st.one_of(NUMBERS, st.none()), max_size=4).map(tuple),
    ),
    st.builds(Comparison, st.just("topic"), st.sampled_from(["=", "<", ">="]), st.sampled_from("abc")),
    st.builds(Comparison, st.just("topic"), st.just("in"), st.lists(st.sampled_from("abc")).map(tuple)),
)


def allows(comparison: Comparison, row: dict[str, Any]) -> bool:
    column = comparison.column.lower()
    return column == "value" or OPERATIONS[comparison.operator](row[column], comparison.value)


@given(st.lists(COMPARISONS, max_size=4))
def test_no_row_that_filters_allow_is_left_out_and_nothing_is_added(comparisons: list[Comparison]) -> None:
    kept = {
        (one.topic, one.partition, offset)
        for one in narrow(RANGES, bounds_of(comparisons))
        for offset in range(one.start_offset, one.end_offset)
    }
    every = {
        (one.topic, one.partition, offset)
        for one in RANGES
        for offset in range(one.start_offset, one.end_offset)
    }
    allowed = {
        (topic, partition, offset)
        for topic, partition, offset in every
        if all(
            allows(each, {"topic": topic, "partition": partition, "offset": offset}) for each in comparisons
        )
    }
    assert allowed <= kept <= every


@pytest.mark.parametrize(
    ("comparisons", "left"),
    [
        (
            [Comparison("offset", ">=", 15), Comparison("offset", "<", 18)],
            [("a", 0, 15, 18), ("a", 1, 15, 18)],
        ),
        ([Comparison("partition", "=", 1)], [("a", 1, 10, 20)]),
        ([Comparison("topic", "in", ("b", "c"))], [("b", 0, 5, 9)]),
        ([Comparison("offset", "in", (7, 12, None))], [("a", 0, 7, 13), ("a", 1, 10, 13), ("b", 0, 7, 9)]),
        ([Comparison("topic", "=", "a"), Comparison("topic", "=", "b")], []),
        ([Comparison("partition", "in", ())], []),
        ([Comparison("offset", ">", 2**63 - 1)], []),
    ],
)
def test_ranges_are_narrowed(comparisons: list[Comparison], left: list[tuple[str, int, int, int]]) -> None:
    assert narrow(RANGES, bounds_of(comparisons)) == [PartitionRange(*each) for each in left]


@pytest.mark.parametrize(
    "comparison",
    [
        Comparison("value", "=", b"x"),
        Comparison("partition", "=", "1"),
        Comparison("offset", "<", 7.5),
        Comparison("offset", "=", True),
        Comparison("offset", "in", (1, "2")),
        Comparison("topic", "<", "b"),
        Comparison("topic", "=", 5),
        Comparison("timestamp", "<", NOON),
        Comparison("timestamp", ">", NOON.replace(tzinfo=None)),
        Comparison("timestamp", ">", NOON.date()),
    ],
)
def test_what_says_nothing_about_offsets_narrows_nothing(comparison: Comparison) -> None:
    assert bounds_of([comparison]) == Bounds()


def test_a_time_is_where_its_first_record_is() -> None:
    at_noon = bounds_of(
        [Comparison("timestamp", ">=", NOON), Comparison("timestamp", ">", NOON.replace(hour=1))]
    )
    assert at_noon.timestamp_ms == int(NOON.timestamp() * 1000)
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    assert bounds_of([Comparison("timestamp", "=", NOON.astimezone(berlin))]) == at_noon
    found = {TopicPartition("a", 0): 30, TopicPartition("a", 1): 20, TopicPartition("b", 0): -1}
    answers = {where: FoundOffset(offset) for where, offset in found.items()}
    assert since(RANGES, answers) == [PartitionRange("a", 0, 30, 50)]
    assert since(RANGES[:1], {TopicPartition("a", 0): FoundOffset(-5)}) == []


def test_spans_hold_their_ends() -> None:
    assert Span(1, 2).holds(1)
    assert Span(1, 2).holds(2)
    assert not Span(1, 2).holds(3)
