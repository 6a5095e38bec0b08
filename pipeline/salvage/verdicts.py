"""What became of each record that was cut off: present in the log, superseded, repeated or missing.

Transforms of identity rows (identity.py) with Spark: rows are small, and joins spread over the executors.
All is within a target, a partition. A record here is an entry of some leader's log: leader epoch and offset
tell it, so that copies of one entry on several brokers are one record.

1. A record that the log holds with the same producer id, epoch and sequence (and contents) is present.
2. Others are compared by contents and timestamp: of those that one leader appended, as many are present as
   the log holds and rule 1 has not used, the first ones first. So retries count that came under another
   identity: those of plain producers, of producers that began a new epoch after an error (KIP-360), and
   records that an earlier run has merged.
3. What the log kept of the same leader's epoch is no retry, and neither is what stood there before: a record
   counts for rule 2 if it was appended under a later leader, or stands at or after the cut.
4. Of contents that several leaders lost, as many are missing as one of them alone lost: the same record, sent
   again and lost again. The last place counts; the others are repeated.
5. With keys (a topic that is read as a table), a missing record is superseded if a later leader appended a
   record of the same key: merging it would bring an old value back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.salvage.report import MISSING, PRESENT, REPEATED, SUPERSEDED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ENTRY = ("target", "leader_epoch", "offset")
_SAME = ("target", "content", "timestamp")
_LEADER = ("target", "leader_epoch", "content", "timestamp")
_PRODUCER = ("producer_id", "producer_epoch", "sequence")


def hits_of(cut: DataFrame, live: DataFrame) -> DataFrame:
    """Of the log's records those that have the contents and timestamp of one that was cut off."""
    return live.join(cut.select(*_SAME).distinct(), list(_SAME), "left_semi").select(
        *_ENTRY, "content", "timestamp", *_PRODUCER
    )


def latest_keys_of(live: DataFrame) -> DataFrame:
    """target, key, key_epoch: the last leader epoch under which the log got a record of the key. What was
    merged does not count: it is older than its place tells."""
    keyed = live.where(sf.col("key").isNotNull() & ~sf.col("is_marked"))
    return keyed.groupBy("target", "key").agg(sf.max("leader_epoch").alias("key_epoch"))


def verdicts(cut: DataFrame, hits: DataFrame, latest_keys: DataFrame | None = None) -> DataFrame:
    """A row for each entry that was cut off: target, copy, leader_epoch, offset, timestamp, is_committed
    (as far as any replica that lost it knew), verdict. `cut`: IDENTITY_SCHEMA; `hits`: hits_of;
    `latest_keys`: where records can be superseded."""
    judged = _exact(_entries(cut), hits)
    judged = judged.join(_left_over(judged, hits), list(_LEADER), "left")
    rest = Window.partitionBy(*_LEADER, "is_exact").orderBy("offset")
    lacking = sf.row_number().over(rest) - sf.coalesce(sf.col("left_over"), sf.lit(0))
    judged = judged.withColumn("lacking", sf.when(~sf.col("is_exact"), lacking).otherwise(0))
    twins = Window.partitionBy(*_SAME, "lacking").orderBy(sf.desc("leader_epoch"), sf.desc("offset"))
    judged = judged.withColumn("turn", sf.row_number().over(twins))
    is_superseded: Column = sf.lit(False)
    if latest_keys is not None:
        judged = judged.join(latest_keys, ["target", "key"], "left")
        is_superseded = sf.coalesce(sf.col("key_epoch") > sf.col("leader_epoch"), sf.lit(False))
    verdict = (
        sf.when(sf.col("lacking") <= 0, PRESENT)
        .when(sf.col("turn") > 1, REPEATED)
        .when(is_superseded, SUPERSEDED)
        .otherwise(MISSING)
    )
    return judged.select(
        "target", "copy", "leader_epoch", "offset", "timestamp", "is_committed", verdict.alias("verdict")
    )


def runs_of(judged: DataFrame) -> DataFrame:
    """The missing ones as runs of neighbours: target, copy, leader_epoch, is_committed, first_offset,
    last_offset (inclusive), in the order in which leaders appended them."""
    missing = judged.where(sf.col("verdict") == MISSING)
    unit = ("target", "copy", "leader_epoch", "is_committed")
    place = sf.row_number().over(Window.partitionBy(*unit).orderBy("offset"))
    return (
        missing.withColumn("island", sf.col("offset") - place)
        .groupBy(*unit, "island")
        .agg(sf.min("offset").alias("first_offset"), sf.max("offset").alias("last_offset"))
        .drop("island")
        .orderBy("target", "leader_epoch", "first_offset")
    )


def _entries(cut: DataFrame) -> DataFrame:
    """One row an entry, of the first copy that has it."""
    told = [name for name in cut.columns if name not in (*_ENTRY, "is_committed", "copy_first")]
    first = sf.min(sf.struct("copy", *[name for name in told if name != "copy"]))
    return (
        cut.groupBy(*_ENTRY)
        .agg(
            first.alias("one"),
            sf.max("is_committed").alias("is_committed"),
            sf.min("copy_first").alias("copy_first"),
        )
        .select(*_ENTRY, "one.*", "is_committed", "copy_first")
    )


def _exact(entries: DataFrame, hits: DataFrame) -> DataFrame:
    """With `is_exact`: rule 1."""
    sent = hits.where(sf.col("producer_id") >= 0).select(*_SAME, *_PRODUCER).distinct()
    found = entries.join(sent.withColumn("found", sf.lit(True)), [*_SAME, *_PRODUCER], "left")
    return found.withColumn("is_exact", sf.coalesce(sf.col("found"), sf.lit(False))).drop("found")


def _left_over(judged: DataFrame, hits: DataFrame) -> DataFrame:
    """_LEADER and `left_over`: how many of the log's records rule 1 leaves for rule 2, by rule 3."""
    groups = judged.groupBy(*_LEADER).agg(sf.min("copy_first").alias("cut_at"))
    used = judged.where("is_exact").select(*_LEADER, *_PRODUCER)
    logged = hits.select(
        *_SAME, *_PRODUCER, sf.col("leader_epoch").alias("log_epoch"), sf.col("offset").alias("log_offset")
    )
    is_later = sf.col("log_epoch") > sf.col("leader_epoch")
    is_after = (sf.col("log_epoch") < sf.col("leader_epoch")) & (sf.col("log_offset") >= sf.col("cut_at"))
    return (
        groups.join(logged, list(_SAME))
        .where(is_later | is_after)
        .join(used, [*_LEADER, *_PRODUCER], "left_anti")
        .groupBy(*_LEADER)
        .agg(sf.count(sf.lit(1)).alias("left_over"))
    )
