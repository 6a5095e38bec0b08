"""Figures of a benchmark."""

from __future__ import annotations

from bench.figures import (
    Figures,
)

FIGURES = Figures(
    mb_per_s=2.0,
    operations_per_s=500.0,
    records_per_s=2500.0,
    p50_ms=1.0,
    p99_ms=9.0,
    broker_cpu_s_per_gb=250.0,
    broker_cpu_s_per_million=1000.0,
    broker_rss_mb=50.0,
    broker_cores=0.5,
    load_cores=0.25,
    other_cores=0.5,
)
