"""Reads load history with Spark: each partition's load as one number for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.plan.history import LoadHistory
from pipeline.plan.report import HistoryRead
from pipeline.plan.request import PartitionRates
from pipeline.plan.samples import moment
from pipeline.plan.spark_windows import (
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    consumed_intervals,
    partition_intervals,
    partition_loads,
    window_rates,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_loads(
    spark: SparkSession,
    history: LoadHistory,
    *,
    cluster: str,
    last_s: float,
    window_s: int,
    gap_s_max: float,
    statistic: str,
) -> tuple[HistoryRead, dict[tuple[str, int], PartitionRates]]:
    """Read the `last_s` seconds before the newest sample. statistic: avg, p95 or max. There are no rates if
    no two samples can be compared."""
    samples = _table(spark, history, "partitions", PARTITION_COLUMNS, cluster)
    moments = samples.select(F.unix_millis("sampled_at").alias("ms")).distinct()
    taken = sorted(row["ms"] for row in moments.collect())
    if not taken:
        return HistoryRead(0, None, None, window_s, statistic), {}
    first_ms = taken[-1] - int(last_s * 1000)
    taken = [ms for ms in taken if ms >= first_ms]
    read = HistoryRead(len(taken), _shown(taken[0]), _shown(taken[-1]), window_s, statistic)
    is_within = F.col("sampled_at") >= F.timestamp_millis(F.lit(first_ms))
    samples = samples.where(is_within)
    if history.has("topics"):
        topics = _table(spark, history, "topics", TOPIC_COLUMNS, cluster).where(is_within)
    else:
        topics = spark.createDataFrame([], TOPIC_COLUMNS)
    rates = window_rates(
        partition_intervals(samples, gap_s_max=gap_s_max),
        consumed_intervals(topics, gap_s_max=gap_s_max),
        window_s=window_s,
    )
    loads = partition_loads(rates).select(
        "topic_id",
        "partition",
        F.col(f"in_rate_{statistic}").alias("bytes_in"),
        F.col(f"out_rate_{statistic}").alias("bytes_out"),
    )
    return read, {
        (row["topic_id"], row["partition"]): PartitionRates(float(row["bytes_in"]), float(row["bytes_out"]))
        for row in loads.collect()
    }


def _shown(ms: int) -> str:
    return moment(ms).isoformat(timespec="seconds")


def _table(spark: SparkSession, history: LoadHistory, name: str, columns: str, cluster: str) -> DataFrame:
    return spark.read.schema(columns).parquet(history.table(name)).where(F.col("cluster") == cluster)
