"""The verdict on each record that was cut off: present in the log, superseded, repeated or missing.

Transforms of identity rows (identity.py) with Spark: rows are small, and joins spread over the executors.
Each partition (`target`) is judged alone. A record is an entry of some leader's log, named by leader epoch
and offset: copies of one entry on several brokers are one record.

1. (identity) A record that the log holds with the same producer id, epoch, sequence and contents is present.
2. (contents) Other records are compared by contents and timestamp. Of those that one leader appended, the
   first ones are present, as many as the log holds beside those of rule 1. This finds retries under another
   identity: of plain producers, of producers that began a new epoch after an error (KIP-360), and records
   that an earlier run merged.
3. (later) A record of the log counts for rule 2 if a later leader appended it, or if it stands at or after
   the cut. An entry that the log kept of the same leader epoch is no retry, nor is an entry before the cut.
4. (lost twice) If several leaders lost the same contents, it is the same record, sent and lost again: as many
   are missing as one leader alone lost. The last place counts; the others are repeated.
5. (keys) In a topic that is read as a table, a missing record is superseded if a later leader appended a
   record of its key: merging it would bring an old value back. So is one after which a record of its key was
   cut off that is present or was known to be committed: once that one is merged, compaction takes the older
   one from the log, where it must not count as missing.
6. (transactions) A record of a transaction is missing only if that was committed. What tells is the next
   marker of its producer, in a copy or in the log; without one, or before an abort, the record is uncommitted
   and is never merged: nothing says that the rest of its transaction came to be. In the log a record of an
   aborted transaction is not there for rule 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.salvage.identity import TransactionPart
from pipeline.salvage.report import MISSING, PRESENT, REPEATED, SUPERSEDED, UNCOMMITTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ENTRY = ("target", "leader_epoch", "offset")
_SAME = ("target", "content", "timestamp")
_LEADER = ("target", "leader_epoch", "content", "timestamp")
_PRODUCER = ("producer_id", "producer_epoch", "sequence")
_MARK = (*_ENTRY, "producer_id", "transaction")


def hits_of(cut: DataFrame, live: DataFrame) -> DataFrame:
    """Return the log's records that have the contents and timestamp of a record that was cut off, and its
    markers of transactions."""
    wanted = cut.select(*_SAME).distinct().withColumn("is_hit", sf.lit(True))
    found = live.join(wanted, list(_SAME), "left").where(sf.col("is_hit") | _is_marker())
    return found.select(*_ENTRY, "content", "timestamp", *_PRODUCER, "transaction")


def latest_keys_of(live: DataFrame) -> DataFrame:
    """Return target, key, key_epoch: the last leader epoch under which the log got a record of the key.
    Merged records don't count: they are older than their place; nor do those of aborted transactions."""
    markers = live.where(_is_marker()).select(*_MARK)
    live = _with_outcome(live.where(~_is_marker()), markers).where(_is_not_aborted())
    keyed = live.where(sf.col("key").isNotNull() & ~sf.col("is_marked"))
    return keyed.groupBy("target", "key").agg(sf.max("leader_epoch").alias("key_epoch"))


def verdicts(cut: DataFrame, hits: DataFrame, latest_keys: DataFrame | None = None) -> DataFrame:
    """Return a row for each entry that was cut off: target, copy, leader_epoch, offset, timestamp,
    is_committed (known to a replica that lost it), verdict. `cut`: IDENTITY_SCHEMA; `hits`: hits_of;
    `latest_keys`: for rule 5 (keys)."""
    markers = cut.where(_is_marker()).select(*_MARK).union(hits.where(_is_marker()).select(*_MARK))
    hits = _with_outcome(hits.where(~_is_marker()), markers)
    hits = hits.where(_is_not_aborted())
    judged = _with_outcome(_exact(_entries(cut.where(~_is_marker())), hits), markers)
    is_uncommitted = (sf.col("transaction") == TransactionPart.RECORD) & ~sf.coalesce(
        sf.col("outcome") == TransactionPart.COMMIT, sf.lit(False)
    )
    judged = judged.join(_left_over(judged, hits), list(_LEADER), "left")
    rest = Window.partitionBy(*_LEADER, "is_exact").orderBy("offset")
    lacking = sf.row_number().over(rest) - sf.coalesce(sf.col("left_over"), sf.lit(0))
    judged = judged.withColumn("lacking", sf.when(~sf.col("is_exact"), lacking).otherwise(0))
    twins = Window.partitionBy(*_SAME, "lacking").orderBy(sf.desc("leader_epoch"), sf.desc("offset"))
    judged = judged.withColumn("turn", sf.row_number().over(twins))
    is_superseded: Column = sf.lit(False)
    if latest_keys is not None:
        judged = judged.join(latest_keys, ["target", "key"], "left")
        later = (
            Window.partitionBy("target", "key").orderBy(*_ENTRY[1:]).rowsBetween(1, Window.unboundedFollowing)
        )
        is_valid = (sf.col("lacking") <= 0) | (sf.col("is_committed") & ~is_uncommitted)
        has_later = sf.col("key").isNotNull() & sf.coalesce(sf.max(is_valid).over(later), sf.lit(False))
        judged = judged.withColumn("has_later", has_later)
        is_superseded = sf.col("has_later") | sf.coalesce(
            sf.col("key_epoch") > sf.col("leader_epoch"), sf.lit(False)
        )
    verdict = (
        sf.when(sf.col("lacking") <= 0, PRESENT)
        .when(sf.col("turn") > 1, REPEATED)
        .when(is_uncommitted, UNCOMMITTED)
        .when(is_superseded, SUPERSEDED)
        .otherwise(MISSING)
    )
    return judged.select(
        "target", "copy", "leader_epoch", "offset", "timestamp", "is_committed", verdict.alias("verdict")
    )


def runs_of(judged: DataFrame) -> DataFrame:
    """Return missing entries as runs of neighbours: target, copy, leader_epoch, is_committed, first_offset,
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


def _is_marker() -> Column:
    return sf.col("transaction") > TransactionPart.RECORD


def _is_not_aborted() -> Column:
    return sf.coalesce(sf.col("outcome") != TransactionPart.ABORT, sf.lit(True))


def _with_outcome(rows: DataFrame, markers: DataFrame) -> DataFrame:
    """Add `outcome`: the next marker of a transactional record's producer, in the order in which leaders
    appended; null without one."""
    records = rows.where(sf.col("transaction") == TransactionPart.RECORD).select(*_MARK).distinct()
    following = (
        Window.partitionBy("target", "producer_id")
        .orderBy("leader_epoch", "offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    marker = sf.when(_is_marker(), sf.col("transaction"))
    told = (
        records.union(markers.distinct())
        .withColumn("outcome", sf.first(marker, ignorenulls=True).over(following))
        .where(~_is_marker())
        .select(*_ENTRY, "outcome")
    )
    return rows.join(told, list(_ENTRY), "left")


def _entries(cut: DataFrame) -> DataFrame:
    """Return one row for each entry, of the first copy that has it."""
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
    """Add `is_exact`: rule 1 (identity)."""
    sent = hits.where(sf.col("producer_id") >= 0).select(*_SAME, *_PRODUCER).distinct()
    found = entries.join(sent.withColumn("found", sf.lit(True)), [*_SAME, *_PRODUCER], "left")
    return found.withColumn("is_exact", sf.coalesce(sf.col("found"), sf.lit(False))).drop("found")


def _left_over(judged: DataFrame, hits: DataFrame) -> DataFrame:
    """Return _LEADER and `left_over`: how many of the log's records rule 1 (identity) leaves for rule 2
    (contents), by rule 3 (later)."""
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
