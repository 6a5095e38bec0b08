"""Percentiles, rates, medians and ratios."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bench.figures import (
    Measurement,
    Ratios,
    compare,
    figures_of,
    percentile,
)
from tests.kit.bench import FIGURES

MEASURED = Measurement(
    elapsed_s=2.0,
    operations=1000,
    records=5000,
    bytes=4_000_000,
    p50_ms=1.0,
    p99_ms=9.0,
    broker_cpu_s=1.0,
    broker_rss_bytes=50_000_000,
    load_cpu_s=0.5,
    machine_busy_s=2.5,
)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_was_really_seen_and_enough_values_do_not_exceed_it(
    values: list[float], fraction: float
) -> None:
    values.sort()
    found = percentile(values, fraction)
    assert found in values
    assert sum(value <= found for value in values) >= fraction * len(values) - 1e-9


def test_figures_are_rates_and_costs_of_what_was_measured() -> None:
    assert figures_of(MEASURED) == FIGURES


def test_every_ratio_is_above_one_where_our_side_is_better() -> None:
    theirs = replace(
        FIGURES, mb_per_s=1.0, p50_ms=4.0, p99_ms=90.0, broker_cpu_s_per_million=3000.0, broker_rss_mb=300.0
    )
    assert compare(FIGURES, theirs) == Ratios(throughput=2.0, p50=4.0, p99=10.0, cpu=3.0, memory=6.0)
    assert compare(theirs, FIGURES).throughput == 0.5


def test_there_is_no_ratio_without_figures_on_both_sides() -> None:
    silent = replace(FIGURES, p50_ms=None, broker_cpu_s_per_million=0.0)
    ratios = compare(silent, FIGURES)
    assert (ratios.p50, ratios.cpu) == (None, None)
    assert compare(FIGURES, silent).p50 is None
