"""From what a load measured to the figures of a row: percentiles, rates, medians over rounds, ratios.

Pure: values in, values out. A ratio is written so that above 1 always means that the first side is better,
whether more is better (throughput) or less is (latency, CPU, memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

BYTES_PER_MB = 1_000_000
BYTES_PER_GB = 1_000_000_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one load saw between the end of its warm-up and its end. Times in seconds."""

    elapsed_s: float
    operations: int
    """Requests that were answered, or records where a client library makes the requests."""
    records: int
    bytes: int
    """Of record batches as they are on the wire; with librdkafka, of values. 0 where nothing is asked."""
    p50_ms: float | None
    p99_ms: float | None
    broker_cpu_s: float
    """User and system time of all broker processes together."""
    broker_rss_bytes: int
    """Resident memory of the largest broker, with its workers, at the end."""
    load_cpu_s: float
    """User and system time of the load generator."""
    machine_busy_s: float
    """All processor time of the machine that was not idle, also that of other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One side's row."""

    mb_per_s: float
    operations_per_s: float
    records_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    broker_cpu_s_per_gb: float | None
    broker_cpu_s_per_million: float
    """Per million operations, which is microseconds an operation."""
    broker_rss_mb: float
    broker_cores: float
    """Processor time of the brokers per second of time."""
    load_cores: float
    other_cores: float
    """Of everything else on the machine, the kernel's own work included: what disturbed the measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Our side against the other; above 1 means that ours is better; None if there is nothing to compare."""

    throughput: float | None
    p50: float | None
    p99: float | None
    cpu: float | None
    memory: float | None


def percentile(ascending: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile: a value that was really seen. `ascending` is sorted and not empty."""
    assert ascending, "no values"
    assert 0 < fraction <= 1, "a fraction, not a per cent"
    rank = -int(-fraction * len(ascending) // 1)  # rounds up
    return ascending[rank - 1]


def latency_percentiles_ms(latencies_s: list[float]) -> tuple[float | None, float | None]:
    """(p50, p99) in milliseconds; None for both if nothing was measured. Sorts the list in place."""
    if not latencies_s:
        return None, None
    latencies_s.sort()
    return percentile(latencies_s, 0.50) * 1000, percentile(latencies_s, 0.99) * 1000


def figures_of(measured: Measurement) -> Figures:
    """Rates and costs. A load that moved nothing in its time is a failed run, not a row."""
    assert measured.elapsed_s > 0
    assert measured.operations > 0, "the load did nothing"
    elapsed_s = measured.elapsed_s
    other_s = measured.machine_busy_s - measured.broker_cpu_s - measured.load_cpu_s
    return Figures(
        mb_per_s=measured.bytes / elapsed_s / BYTES_PER_MB,
        operations_per_s=measured.operations / elapsed_s,
        records_per_s=measured.records / elapsed_s,
        p50_ms=measured.p50_ms,
        p99_ms=measured.p99_ms,
        broker_cpu_s_per_gb=quotient(measured.broker_cpu_s * BYTES_PER_GB, measured.bytes),
        broker_cpu_s_per_million=measured.broker_cpu_s / measured.operations * MILLION,
        broker_rss_mb=measured.broker_rss_bytes / BYTES_PER_MB,
        broker_cores=measured.broker_cpu_s / elapsed_s,
        load_cores=measured.load_cpu_s / elapsed_s,
        other_cores=max(0.0, other_s / elapsed_s),
    )


def median_figures(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure by itself over the rounds of one side."""
    assert rounds, "no rounds"
    medians: dict[str, Any] = {}
    for field in fields(Figures):
        values = [value for one in rounds if (value := getattr(one, field.name)) is not None]
        medians[field.name] = median(values) if values else None
    return Figures(**medians)


def compare(ours: Figures, theirs: Figures, *, throughput: str = "mb_per_s") -> Ratios:
    """throughput: the figure that it is compared by."""
    return Ratios(
        throughput=quotient(getattr(ours, throughput), getattr(theirs, throughput)),
        p50=quotient(theirs.p50_ms, ours.p50_ms),
        p99=quotient(theirs.p99_ms, ours.p99_ms),
        cpu=quotient(theirs.broker_cpu_s_per_million, ours.broker_cpu_s_per_million),
        memory=quotient(theirs.broker_rss_mb, ours.broker_rss_mb),
    )


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """None where a side has no figure, or measured nothing that the clock could see."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator
