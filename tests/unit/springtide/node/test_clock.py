"""The beats of work that a process does often and on its own."""

from __future__ import annotations

from springtide.node.clock import BEAT_MS_MAX, last_beat, ms_to_beat


def test_beats_of_different_work_fall_together() -> None:
    began_ms = 1_234_467
    due = {interval_ms: began_ms + ms_to_beat(began_ms, interval_ms) for interval_ms in (250, 500, 1_000)}
    assert due == {250: 1_234_750, 500: 1_235_000, 1_000: 1_235_000}


def test_the_next_beat_is_half_an_interval_away_or_more() -> None:
    assert [ms_to_beat(10_000 + past_ms, 500) for past_ms in (0, 1, 250, 251, 499)] == [
        500,
        499,
        250,
        749,
        501,
    ]


def test_what_must_not_come_late_comes_at_the_last_beat_before() -> None:
    assert [last_beat(10_000 + past_ms, 500) for past_ms in (0, 1, 499, 500)] == [
        10_000,
        10_000,
        10_000,
        10_500,
    ]


def test_rare_work_keeps_its_own_times() -> None:
    assert ms_to_beat(10_123, BEAT_MS_MAX + 1) == BEAT_MS_MAX + 1
    assert last_beat(10_123, BEAT_MS_MAX + 1) == 10_123
    assert last_beat(10_123, 0) == 10_123
