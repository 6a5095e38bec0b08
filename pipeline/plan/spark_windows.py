"""From samples to each partition's load: DataFrames in, DataFrames out.

    samples --neighbours in time--> intervals --by window--> rates --over all windows--> loads

An interval is what happened to a partition between two samples. It is left out if the samples lie too far
apart, if an offset went back (an unclean election cut the log), and if a report is missing. Records are
counted by offsets. Bytes are the log's growth; if retention or compaction removed records meanwhile, they are
the new records times the log's average size.

Brokers count what consumers read for each topic, not for each partition. It is shared out over the partitions
that the broker led, in proportion to the bytes written to them in that window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The used columns of samples.PARTITIONS and samples.TOPICS, as DDL for Spark.
PARTITION_COLUMNS: Final = (
    "sampled_at TIMESTAMP, cluster STRING, topic STRING, topic_id STRING, partition INT, leader INT, "
    "log_start_offset BIGINT, log_end_offset BIGINT, size_bytes BIGINT, lag_records_max BIGINT, "
    "lag_ms_max BIGINT"
)
TOPIC_COLUMNS: Final = (
    "sampled_at TIMESTAMP, cluster STRING, broker_id INT, topic STRING, bytes_in BIGINT, bytes_out BIGINT"
)
QUANTILE: Final = 0.95
_PARTITION: Final = ("topic_id", "partition")


def _seconds(moment: Column) -> Column:
    return F.unix_millis(moment) / 1000.0


def partition_intervals(samples: DataFrame, *, gap_s_max: float) -> DataFrame:
    """Return topic_id, partition, topic, leader, ended_at, seconds, records_in, bytes_in."""
    by_time = Window.partitionBy(*_PARTITION).orderBy("sampled_at")
    known = samples.dropDuplicates([*_PARTITION, "sampled_at"]).where(
        "log_end_offset IS NOT NULL AND log_start_offset IS NOT NULL AND size_bytes IS NOT NULL"
    )
    before = known.select(
        "*",
        F.lag("sampled_at").over(by_time).alias("before_at"),
        F.lag("log_start_offset").over(by_time).alias("before_start"),
        F.lag("log_end_offset").over(by_time).alias("before_end"),
        F.lag("size_bytes").over(by_time).alias("before_size"),
    )
    seconds = _seconds(F.col("sampled_at")) - _seconds(F.col("before_at"))
    records = F.col("log_end_offset") - F.col("before_end")
    held = F.col("log_end_offset") - F.col("log_start_offset")
    is_growth = (F.col("log_start_offset") == F.col("before_start")) & (
        F.col("size_bytes") >= F.col("before_size")
    )
    size = F.col("size_bytes")
    return (
        before.select(
            "topic_id",
            "partition",
            "topic",
            "leader",
            F.col("sampled_at").alias("ended_at"),
            seconds.alias("seconds"),
            records.alias("records_in"),
            F.when(records == 0, F.lit(0.0))
            .when(is_growth, (size - F.col("before_size")).cast("double"))
            .when(held > 0, records * size / held)
            .alias("bytes_in"),
        )
        .where((F.col("seconds") > 0) & (F.col("seconds") <= gap_s_max))
        .where((F.col("records_in") >= 0) & F.col("bytes_in").isNotNull())
    )


def consumed_intervals(samples: DataFrame, *, gap_s_max: float) -> DataFrame:
    """Return broker_id, topic, ended_at, seconds, bytes_out. A counter that went back began again at 0: its
    broker restarted."""
    by_time = Window.partitionBy("broker_id", "topic").orderBy("sampled_at")
    before = samples.dropDuplicates(["broker_id", "topic", "sampled_at"]).select(
        "*",
        F.lag("sampled_at").over(by_time).alias("before_at"),
        F.lag("bytes_out").over(by_time).alias("before_out"),
    )
    more = F.col("bytes_out") - F.col("before_out")
    return before.select(
        "broker_id",
        "topic",
        F.col("sampled_at").alias("ended_at"),
        (_seconds(F.col("sampled_at")) - _seconds(F.col("before_at"))).alias("seconds"),
        F.when(more >= 0, more).otherwise(F.col("bytes_out")).cast("double").alias("bytes_out"),
    ).where((F.col("seconds") > 0) & (F.col("seconds") <= gap_s_max))


def window_rates(intervals: DataFrame, consumed: DataFrame, *, window_s: int) -> DataFrame:
    """Return topic_id, partition, window_at, seconds, in_rate, out_rate; rates in bytes a second. An interval
    counts in the window in which it ended."""
    window = (F.floor(_seconds(F.col("ended_at")) / window_s) * window_s).alias("window_at")
    led = (
        intervals.groupBy(*_PARTITION, "topic", "leader", window)
        .agg(F.sum("seconds").alias("seconds"), F.sum("bytes_in").alias("bytes_in"))
        .alias("led")
    )
    out = (
        consumed.groupBy(F.col("broker_id").alias("leader"), "topic", window)
        .agg((F.sum("bytes_out") / F.sum("seconds")).alias("out_rate"))
        .alias("out")
    )
    together = Window.partitionBy("leader", "topic", "window_at")
    all_in = F.sum("bytes_in").over(together)
    share = F.when(all_in > 0, F.col("bytes_in") / all_in).otherwise(1.0 / F.count("*").over(together))
    shared = (
        led.withColumn("share", share)
        .join(out, ["leader", "topic", "window_at"], "left")
        .withColumn("out_rate", F.coalesce(F.col("out_rate"), F.lit(0.0)) * F.col("share"))
    )
    return shared.groupBy(*_PARTITION, "window_at").agg(
        F.sum("seconds").alias("seconds"),
        (F.sum("bytes_in") / F.sum("seconds")).alias("in_rate"),
        (F.sum(F.col("out_rate") * F.col("seconds")) / F.sum("seconds")).alias("out_rate"),
    )


def partition_loads(rates: DataFrame) -> DataFrame:
    """Return topic_id, partition, windows, and for in_rate and out_rate: _avg over time, _max and _p95 over
    windows."""

    def statistics(name: str) -> list[Column]:
        return [
            (F.sum(F.col(name) * F.col("seconds")) / F.sum("seconds")).alias(f"{name}_avg"),
            F.max(name).alias(f"{name}_max"),
            F.percentile(F.col(name), F.lit(QUANTILE)).alias(f"{name}_p95"),
        ]

    return rates.groupBy(*_PARTITION).agg(
        F.count("*").alias("windows"), *statistics("in_rate"), *statistics("out_rate")
    )
