"""The time of day in which an operation begins moves."""

from __future__ import annotations

import datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given

from controller.operations.hours import DailyWindow

NIGHT = DailyWindow(start_minute=22 * 60, end_minute=6 * 60, offset_minutes=60)
NOON = DailyWindow(start_minute=11 * 60 + 30, end_minute=12 * 60, offset_minutes=-(3 * 60 + 30))


def at(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        (NIGHT, "2026-11-21T21:59:59.999+01:00", False),
        (NIGHT, "2026-11-21T22:00:00+01:00", True),
        (NIGHT, "2026-11-21T23:59:00+00:00", True),
        (NIGHT, "2026-11-22T05:59:59.999+01:00", True),
        (NIGHT, "2026-11-22T06:00:00+01:00", False),
        (NOON, "2026-11-21T15:00:00Z", True),
        (NOON, "2026-11-21T15:30:00Z", False),
        (NOON, "2026-11-21T14:59:00Z", False),
    ],
)
def test_it_is_open_from_its_start_up_to_its_end_in_its_zone(
    window: DailyWindow, moment: str, is_open: bool
) -> None:
    assert window.is_open(at(moment)) is is_open


@given(st.integers(0, 1_439), st.integers(0, 1_439), st.integers(-14 * 60, 14 * 60), st.integers(0, 2**41))
def test_of_each_day_it_is_open_for_its_length_and_the_next_day_again(
    start: int, end: int, offset: int, now_ms: int
) -> None:
    window = DailyWindow(start_minute=start, end_minute=end, offset_minutes=offset)
    minutes = range(now_ms, now_ms + 24 * 3_600_000, 60_000)
    assert sum(window.is_open(moment) for moment in minutes) == (end - start) % 1_440
    assert window.is_open(now_ms) is window.is_open(now_ms + 24 * 3_600_000)


def test_it_says_when_it_is_open() -> None:
    assert str(NIGHT) == "between 22:00 and 06:00 UTC+01:00"
    assert str(NOON) == "between 11:30 and 12:00 UTC-03:30"
    assert str(DailyWindow(start_minute=0, end_minute=61)) == "between 00:00 and 01:01 UTC"
