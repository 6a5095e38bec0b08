"""A Delta table over the landed files: no file is written again or copied, `_delta_log/` stands beside them.

The manifests decide what has landed. Each Delta commit adds the files of some batches and notes the last one
in Delta's `txn` action (an application's id and version). The next run adds what an interrupted run did not,
and no batch is added twice: Delta takes one of two commits of an application that know the same version.

The Delta log can't replace the manifests: deltalake does not sync to the disk, so a power cut may take back
landed batches; Spark reads Delta only with jars that PySpark does not bring (delta-spark 4.4 is for PySpark
up to 4.2); and the log has no place for a plan.

Delta's VACUUM after OPTIMIZE deletes files that manifests list: don't use them on this table.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.clock import wall_ms
from pipeline.errors import LandError
from pipeline.land.documents import LandedFile, Manifest
from pipeline.land.layout import folder_values
from pipeline.land.reading import table_schema
from pipeline.land.table import LandTable

APPLICATION = "springtide-land"
FILES_PER_COMMIT = 10_000
ATTEMPTS = 5
_DATE_END_MS = 253_402_300_800_000
"""The year 10000, which Delta's statistics can't hold."""


class DeltaCommit(NamedTuple):
    """Files to add, and the batch they reach."""

    files: tuple[LandedFile, ...]
    last_batch: int


def check_delta() -> Any:
    """The module `deltalake`. Raises LandError if it is not installed."""
    try:
        return import_module("deltalake")
    except ImportError as error:
        raise LandError(
            f"--delta needs the package deltalake: {error}", "pip install 'springtide[delta]'"
        ) from error


def catch_up(table: LandTable) -> int:
    """Add every landed batch that the Delta table lacks; make the Delta table if there is none. Return how
    many files were added. Raises LandError."""
    deltalake = check_delta()
    settings = table.settings()
    assert settings is not None, "something was landed"
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            return _catch_up(deltalake, table, settings.partition_by)
        except deltalake.exceptions.CommitFailedError as error:
            failure = error  # another driver was first: what it added is seen when the log is opened again
        except (deltalake.exceptions.DeltaError, OSError, pa.ArrowException) as error:
            failure = error
            break
    raise LandError(
        f"the Delta log of {table.root} can't be written: {failure}",
        "What landed is safe; the next run with --delta adds it.",
    ) from failure


def _catch_up(deltalake: Any, table: LandTable, partition_by: Sequence[str]) -> int:
    location = str(table.root)
    schema = table_schema(partition_by)
    deltalake.DeltaTable.create(location, schema, mode="ignore", partition_by=list(partition_by) or None)
    log = deltalake.DeltaTable(location)
    reached = log.transaction_version(APPLICATION)
    if reached is None and log.file_uris():
        raise LandError(
            f"{location} is a Delta table that another application writes to",
            "Land to another place, or without --delta.",
        )
    added = 0
    for commit in commits(table.manifests(0 if reached is None else reached + 1)):
        _add(deltalake, log, schema, partition_by, commit)
        added += len(commit.files)
    return added


def commits(manifests: Iterator[Manifest]) -> Iterator[DeltaCommit]:
    """Yield commits of whole batches, each of FILES_PER_COMMIT files or a few more; none without files."""
    held: list[LandedFile] = []
    last = -1
    for manifest in manifests:
        held += manifest.files
        last = manifest.batch
        if len(held) >= FILES_PER_COMMIT:
            yield DeltaCommit(tuple(held), last)
            held = []
    if held:
        yield DeltaCommit(tuple(held), last)


def _add(
    deltalake: Any, log: Any, schema: pa.Schema, partition_by: Sequence[str], commit: DeltaCommit
) -> None:
    transaction = import_module("deltalake.transaction")
    modified_ms = wall_ms()
    actions = [
        transaction.AddAction(
            file.path,
            file.bytes,
            folder_values(file.path),
            modified_ms,
            True,
            statistics(file),
        )
        for file in commit.files
    ]
    properties = deltalake.CommitProperties(
        app_transactions=[deltalake.Transaction(APPLICATION, commit.last_batch)]
    )
    log.create_write_transaction(
        actions, "append", schema, list(partition_by) or None, commit_properties=properties
    )
    log.update_incremental()


def statistics(file: LandedFile) -> str:
    """Return the statistics by which readers skip files. Delta's milliseconds are exact here."""
    least: dict[str, Any] = {"offset": file.min_offset}
    most: dict[str, Any] = {"offset": file.max_offset}
    if file.min_timestamp_ms >= 0 and file.max_timestamp_ms < _DATE_END_MS:
        least["timestamp"], most["timestamp"] = _iso(file.min_timestamp_ms), _iso(file.max_timestamp_ms)
    return json.dumps(
        {
            "numRecords": file.records,
            "minValues": least,
            "maxValues": most,
            "nullCount": dict.fromkeys(least, 0),
        },
        separators=(",", ":"),
    )


def _iso(time_ms: int) -> str:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=time_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
