from __future__ import annotations

from springtide.contract.preflight import ClockFigures
from springtide.node.core.clock_comparison import READINGS_MAX, ClockComparison


def test_nothing_is_known_before_a_reading() -> None:
    assert ClockComparison().figures is None


def test_the_controller_read_its_clock_in_the_middle_give_or_take_half_the_round_trip() -> None:
    clocks = ClockComparison()
    # Ours says 10 000 when the answer comes, 40 ms after the question: the middle was at 9 980.
    clocks.on_reading(12_000, wall_ms=10_000, round_trip_ms=40)
    assert clocks.figures == ClockFigures(ahead_ms=2_020, error_ms=20)
    # Wherever in between it read its clock, the truth is within the error.
    for one_way_ms in (0, 13, 40):
        true_ahead_ms = 12_000 - (10_000 - 40 + one_way_ms)
        assert abs(true_ahead_ms - 2_020) <= 20


def test_the_shortest_round_trip_counts_and_of_equals_the_latest() -> None:
    clocks = ClockComparison()
    clocks.on_reading(5_000, wall_ms=0, round_trip_ms=2)
    clocks.on_reading(0, wall_ms=0, round_trip_ms=500)
    assert clocks.figures == ClockFigures(ahead_ms=5_001, error_ms=1)
    clocks.on_reading(7, wall_ms=0, round_trip_ms=1)  # 1 ms is rounded up: as good as the first
    assert clocks.figures == ClockFigures(ahead_ms=8, error_ms=1)


def test_an_old_reading_is_forgotten() -> None:
    clocks = ClockComparison()
    clocks.on_reading(5_000, wall_ms=0, round_trip_ms=0)
    for _ in range(READINGS_MAX):
        clocks.on_reading(100, wall_ms=0, round_trip_ms=100)
    assert clocks.figures == ClockFigures(ahead_ms=150, error_ms=50)


def test_a_clock_that_went_back_between_is_no_negative_round_trip() -> None:
    clocks = ClockComparison()
    clocks.on_reading(100, wall_ms=100, round_trip_ms=-5)
    assert clocks.figures == ClockFigures(ahead_ms=0, error_ms=0)
