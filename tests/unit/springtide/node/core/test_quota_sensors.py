"""Rates over a window, the waits that they make, token buckets, and what is forgotten."""

from __future__ import annotations

from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.node.core import quota_sensors as sensors
from springtide.node.core.quota_limits import Key
from springtide.node.core.quota_sensors import (
    DELAY_MS_MAX,
    IDLE_MS_MAX,
    MutationBucket,
    SampledSum,
    SampleWindow,
    Sensors,
    Usage,
)

WINDOW = SampleWindow()

windows = st.builds(SampleWindow, st.integers(1, 20), st.integers(1, 5_000))
#: (milliseconds since the one before, amount)
uses = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 1_000_000)), min_size=1, max_size=60)


@given(windows, st.integers(0, 10**9), uses)
def test_a_sampled_sum_is_what_its_samples_hold(
    window: SampleWindow, now_ms: int, used: list[tuple[int, int]]
) -> None:
    sampled = SampledSum(window)
    entries = []
    for pause_ms, amount in used:
        now_ms += pause_ms
        sampled.add(amount, now_ms)
        entries.append((now_ms // window.sample_ms, amount))
        newest = now_ms // window.sample_ms
        held = sum(amount for number, amount in entries if newest - number < window.samples)
        assert sampled.total(now_ms) == held


@given(windows, st.integers(0, 10**9), uses, st.floats(0.01, 1e9))
def test_use_over_the_window_made_longer_by_the_wait_is_what_the_limit_allows(
    window: SampleWindow, now_ms: int, used: list[tuple[int, int]], limit: float
) -> None:
    usage, sampled = Usage(window), SampledSum(window)
    for pause_ms, amount in used:
        now_ms += pause_ms
        usage.add(amount, now_ms)
        sampled.add(amount, now_ms)
        total, delay_ms = sampled.total(now_ms), usage.delay_ms(limit, now_ms)
        seconds = (window.length_ms(now_ms) + delay_ms) / 1_000
        assert delay_ms == DELAY_MS_MAX or total <= limit * seconds * (1 + 1e-9)
        if delay_ms:
            assert total > limit * (seconds - 0.001) * (1 - 1e-9)
            assert usage.rate(now_ms) > limit


@pytest.mark.parametrize("limit", [1_000, 1_000_000])
@pytest.mark.parametrize("seconds_of_quota", [0.02, 0.5, 3])
def test_a_client_that_waits_as_told_uses_about_its_quota(limit: float, seconds_of_quota: float) -> None:
    usage = Usage(WINDOW)
    now_ms, used = 0, 0.0
    while now_ms < 120_000:
        usage.add(limit * seconds_of_quota, now_ms)
        used += limit * seconds_of_quota
        now_ms += max(1, usage.delay_ms(limit, now_ms))
    assert isclose(used * 1_000 / now_ms, limit, rel_tol=0.2)


def test_the_delay_is_the_excess_over_the_limit_in_windows() -> None:
    usage = Usage(WINDOW)
    usage.add(10_000, 5_500)
    assert usage.delay_ms(1_000, 5_500) == 0
    usage.add(5_000, 5_500)
    assert usage.rate(5_500) == 15_000 / 10.5
    assert usage.delay_ms(1_000, 5_500) == 4_500
    assert usage.delay_ms(1e-300, 5_500) == DELAY_MS_MAX
    assert usage.delay_ms(inf, 5_500) == 0
    assert usage.delay_ms(1_000, 5_500 + 11_000) == 0


def test_the_told_throttle_time_is_the_mean_of_the_window() -> None:
    usage = Usage(WINDOW)
    assert usage.throttle_time_ms(0) == 0
    usage.on_throttled(100, 0)
    usage.on_throttled(300, 5_000)
    assert usage.throttle_time_ms(6_000) == 200
    assert usage.throttle_time_ms(12_000) == 300


def test_a_bucket_allows_a_burst_and_then_what_the_limit_brings() -> None:
    bucket = MutationBucket(WINDOW)
    assert bucket.tokens(2, 1_000) == 22
    bucket.take(100, 2, 1_000)
    assert bucket.delay_ms(2, 1_000) == 39_000
    assert bucket.tokens(2, 40_000) == 0
    assert bucket.delay_ms(2, 40_000) == 0
    assert bucket.tokens(2, 1_000_000) == 22
    bucket.take(5, 1e-300, 1_000_000)
    assert bucket.delay_ms(1e-300, 1_000_000) == DELAY_MS_MAX


def sensor_of_each() -> Sensors[list[int]]:
    return Sensors(list)


def key(number: int) -> Key:
    return (f"user {number}", None)


def test_a_sensor_that_was_idle_for_an_hour_is_forgotten() -> None:
    known = sensor_of_each()
    first = known.of(key(1), 0)
    known.of(key(2), 1_000)
    assert known.of(key(1), 2_000) is first
    known.of(key(3), 1_000 + IDLE_MS_MAX)
    assert [key for key, _ in known.newest(10)] == [key(3), key(1)]
    known.forget_idle(1_000 + 2 * IDLE_MS_MAX)
    assert len(known) == 0


def test_there_is_a_most_of_sensors_and_the_one_idle_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "ENTITIES_MAX", 3)
    known = sensor_of_each()
    for number in (1, 2, 3, 1, 4):
        known.of(key(number), 0)
    assert [key for key, _ in known.newest(2)] == [key(4), key(1)]
    assert len(known) == 3
