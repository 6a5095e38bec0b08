"""A task: fetches its ranges, decodes them, writes Parquet. Runs in executors, without Spark.

Rows never leave the worker: a task returns a report about each range.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.client.client import READ_COMMITTED, READ_UNCOMMITTED, Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import FetchedRecords, PartitionRange
from pipeline.errors import LandError
from pipeline.files import SharedDisk
from pipeline.land.documents import LandedFile, LandPlan, TableSettings
from pipeline.land.parquet_files import FileSettings, RangeFiles
from pipeline.land.planning import ALLOW_LOSS
from pipeline.land.table import LandTable
from pipeline.records.decode import RECORD_COLUMNS, decode_records
from pipeline.records.headers import DamagedBatch


class LandTaskSettings(NamedTuple):
    """The same for every task of a batch. Pickles."""

    client: ClientConfig
    files: FileSettings
    read_committed: bool = False
    allow_loss: bool = False


class LandReport(NamedTuple):
    """A task's report about one range."""

    range: PartitionRange
    records: int
    skipped: int
    files: tuple[LandedFile, ...]


def task_settings(
    plan: LandPlan,
    settings: TableSettings,
    *,
    root: Path,
    client: ClientConfig,
    allow_loss: bool = False,
) -> LandTaskSettings:
    files = FileSettings(
        root,
        plan.batch,
        plan.topic_ids,
        settings.partition_by,
        plan.compression,
        plan.compression_level,
    )
    return LandTaskSettings(client, files, plan.read_committed, allow_loss)


def land_ranges(
    settings: LandTaskSettings, ranges: Sequence[PartitionRange], disk: SharedDisk | None = None
) -> list[LandReport]:
    """Land the ranges of one task. Raises LandError, or the client's errors; a file that has its name is
    whole even then."""
    table = LandTable(settings.files.root, disk)
    if not table.is_planned(settings.files.batch):
        raise LandError(
            f"batch {settings.files.batch} is not planned in {table.root}, as one of Spark's workers sees it",
            "The table must be on a path that driver and executors share.",
        )
    files = RangeFiles(settings.files, disk)
    try:
        skipped = _read(settings, ranges, files)
        landed = files.finish()
    except OffsetsGone as error:
        raise LandError(f"records are lost: {error}", ALLOW_LOSS) from error
    finally:
        files.abandon()
    return [
        LandReport(
            one, sum(file.records for file in landed.get(one, ())), skipped.get(one, 0), landed.get(one, ())
        )
        for one in ranges
    ]


def _read(
    settings: LandTaskSettings, ranges: Sequence[PartitionRange], files: RangeFiles
) -> dict[PartitionRange, int]:
    """Give `files` all rows; return how many offsets of each range were gone."""
    bounds = {one.where: one for one in ranges}
    with (
        Client(settings.client) as client,
        client.fetch(
            ranges,
            isolation_level=READ_COMMITTED if settings.read_committed else READ_UNCOMMITTED,
            skip_gone=settings.allow_loss,
            topic_ids=settings.files.topic_ids,
        ) as stream,
    ):
        for fetched in stream:
            _add(settings, fetched, bounds[fetched.where], files)
        return {bounds[where]: count for where, count in stream.skipped.items()}


def _add(settings: LandTaskSettings, fetched: FetchedRecords, one: PartitionRange, files: RangeFiles) -> None:
    if not len(fetched.records):
        return
    try:
        for rows in decode_records(
            fetched.records,
            topic=one.topic,
            partition=one.partition,
            columns=RECORD_COLUMNS,
            first_offset=fetched.start_offset,
            end_offset=one.end_offset,
            aborted=fetched.aborted if settings.read_committed else (),
        ):
            files.add(one, rows)
    except DamagedBatch as error:
        raise LandError(
            f"{one.where}, fetched from offset {fetched.start_offset}: {error}",
            f"`pipeline verify {one.topic}` names the damaged replicas.",
        ) from error
