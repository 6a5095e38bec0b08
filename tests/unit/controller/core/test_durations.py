"""Durations with units become milliseconds, and are told with units again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.durations import in_words, milliseconds

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("7 d", 7 * DAY),
        ("7d", 7 * DAY),
        (" 7 D ", 7 * DAY),
        ("1 h 30 m", HOUR + 30 * 60_000),
        ("1h30min", HOUR + 30 * 60_000),
        ("2 w 1 d", 15 * DAY),
        ("90s", 90_000),
        ("1 s 5 ms", 1_005),
        ("0 s", 0),
    ],
)
def test_a_number_with_a_unit_is_so_many_milliseconds(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(
    "text", ["", "7", "-1", "d", "7 x", "7 days", "30 m 1 h", "1 h 1 h", "7 d 5", "1.5 h", "7 d,", "7 dd"]
)
def test_what_is_not_one_is_left_to_others(text: str) -> None:
    assert milliseconds(text) is None


def test_a_duration_is_told_exactly_and_only_where_units_help() -> None:
    assert in_words(604_800_000) == "7 d"
    assert in_words(DAY + 1) == "1 d 1 ms"
    assert in_words(HOUR + 30 * 60_000) == "1 h 30 min"
    assert (in_words(999), in_words(-1), in_words(0), in_words(2**63 - 1)) == (None,) * 4


@given(st.integers(min_value=1_000, max_value=100_000 * DAY))
def test_what_is_told_is_taken_again(ms: int) -> None:
    words = in_words(ms)
    assert words is not None
    assert milliseconds(words) == ms
