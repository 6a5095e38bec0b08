"""What a task does: fetches its ranges, decodes them, writes Parquet. Runs in executors, without Spark.

Rows never leave the worker: what goes back is a line about each range.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.client.client import READ_COMMITTED, READ_UNCOMMITTED, Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import FetchedRecords, PartitionRange
from pipeline.files import Disk
from pipeline.land.documents import LandedFile, Plan, TableSettings
from pipeline.land.errors import LandError
from pipeline.land.parquet_files import FileSettings, RangeFiles
from pipeline.land.planning import ALLOW_LOSS
from pipeline.records.decode import RECORD_COLUMNS, decode_records
from pipeline.records.headers import DamagedBatch


class TaskSettings(NamedTuple):
    """The same for every task of a batch. Pickles."""

    client: ClientConfig
    files: FileSettings
    read_committed: bool = False
    allow_loss: bool = False
    replica_id: int | None = None


class RangeReport(NamedTuple):
    """What became of one range."""

    range: PartitionRange
    records: int
    skipped: int
    files: tuple[LandedFile, ...]


def task_settings(
    plan: Plan,
    settings: TableSettings,
    *,
    root: Path,
    client: ClientConfig,
    allow_loss: bool = False,
    replica_id: int | None = None,
) -> TaskSettings:
    """How the tasks of a plan are to be done."""
    files = FileSettings(
        root,
        plan.batch,
        plan.topic_ids,
        settings.partition_by,
        plan.compression,
        plan.compression_level,
    )
    return TaskSettings(client, files, plan.read_committed, allow_loss, replica_id)


def land_ranges(
    settings: TaskSettings, ranges: Sequence[PartitionRange], disk: Disk | None = None
) -> list[RangeReport]:
    """Raises LandError, or the client's errors. Whatever it raises, no file has a name that is not whole."""
    files = RangeFiles(settings.files, disk)
    try:
        skipped = _read(settings, ranges, files)
        landed = files.finish()
    except OffsetsGone as error:
        raise LandError(f"records are lost: {error}", ALLOW_LOSS) from error
    finally:
        files.abandon()
    return [
        RangeReport(
            one, sum(file.records for file in landed.get(one, ())), skipped.get(one, 0), landed.get(one, ())
        )
        for one in ranges
    ]


def _read(
    settings: TaskSettings, ranges: Sequence[PartitionRange], files: RangeFiles
) -> dict[PartitionRange, int]:
    """Gives `files` all rows; returns how many offsets of each range were gone."""
    bounds = {one.where: one for one in ranges}
    with (
        Client(settings.client) as client,
        client.fetch(
            ranges,
            isolation_level=READ_COMMITTED if settings.read_committed else READ_UNCOMMITTED,
            replica_id=settings.replica_id,
            skip_gone=settings.allow_loss,
        ) as stream,
    ):
        for fetched in stream:
            _add(settings, fetched, bounds[fetched.where], files)
        return {bounds[where]: count for where, count in stream.skipped.items()}


def _add(settings: TaskSettings, fetched: FetchedRecords, one: PartitionRange, files: RangeFiles) -> None:
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
            f"`pipeline verify {one.topic}` tells which replicas are damaged.",
        ) from error


# --- reports on their way to the driver
# ------------------------------------------------------------------------------


def encode_reports(reports: Sequence[RangeReport]) -> str:
    return json.dumps(
        [[list(one.range), one.records, one.skipped, [list(file) for file in one.files]] for one in reports],
        separators=(",", ":"),
    )


def decode_reports(encoded: str) -> list[RangeReport]:
    """What `encode_reports` made, in this release."""
    return [
        RangeReport(PartitionRange(*told), records, skipped, tuple(LandedFile(*file) for file in files))
        for told, records, skipped, files in json.loads(encoded)
    ]
