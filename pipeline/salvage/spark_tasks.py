"""The tasks of salvage, which read copies and logs as identity rows, or append missing records.

Records never reach the JVM: identity rows are small, and a merging task gives what it reads to the sink
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import types

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import PartitionRange
from pipeline.clock import wall_ms
from pipeline.errors import CopyUnreadable, LogCutAgain
from pipeline.records.encode import BatchOptions
from pipeline.records.headers import DamagedBatch
from pipeline.salvage.copies import CopyPiece
from pipeline.salvage.identity import IDENTITY_SCHEMA, RecordsPlace, TimeWindow, identity_rows
from pipeline.salvage.merge_plan import ONLY_BATCH, TargetPlan
from pipeline.salvage.merge_rows import merge_rows
from pipeline.salvage.reading import CopyReader
from pipeline.sink.commit import TaskReport
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.identity import derive_identity
from pipeline.sink.opening import TopicOpening
from pipeline.sink.task import TaskSettings, TaskWriter

_TYPES: dict[pa.DataType, types.DataType] = {
    pa.int32(): types.IntegerType(),
    pa.int64(): types.LongType(),
    pa.bool_(): types.BooleanType(),
    pa.binary(): types.BinaryType(),
}
IDENTITIES = types.StructType(
    [types.StructField(field.name, _TYPES[field.type]) for field in IDENTITY_SCHEMA]
)


class CutTask(NamedTuple):
    """Pieces of copies, to be read as identity rows."""

    client: ClientConfig
    pieces: tuple[CopyPiece, ...]
    keyed: frozenset[int]
    """Targets whose keys are compared."""


class LivePiece(NamedTuple):
    """A range of the log in which a target's records are looked for."""

    target: int
    range: PartitionRange
    with_keys: bool
    window: TimeWindow | None


class LogTask(NamedTuple):
    """Pieces of the logs of topics with these ids, by name."""

    client: ClientConfig
    pieces: tuple[LivePiece, ...]
    topic_ids: Mapping[str, str]


class MergeTask(NamedTuple):
    """`number`: the task's place in the plan, and part of its producer id."""

    client: ClientConfig
    number: int
    sink_id: str
    target: TargetPlan
    opening: TopicOpening
    batch_bytes: int


def cut_rows(task: CutTask) -> Iterator[pa.RecordBatch]:
    """Yield the identity rows of pieces of copies. Raises CopyUnreadable, ClientError."""
    reader = CopyReader(task.client)
    for piece in task.pieces:
        place = RecordsPlace(piece.target, piece.copy, piece.copy_first, piece.high_watermark)
        reached = piece.start_offset
        for read in reader.read(
            piece.broker_id,
            piece.name,
            piece.partition,
            start_offset=piece.start_offset,
            end_offset=piece.end_offset,
        ):
            try:
                yield from identity_rows(
                    read.records,
                    place,
                    first_offset=reached,
                    end_offset=piece.end_offset,
                    with_keys=piece.target in task.keyed,
                )
            except DamagedBatch as error:
                raise CopyUnreadable(
                    f"the copy {piece.name} of broker {piece.broker_id} is damaged: {error}"
                ) from error
            reached = read.next_offset


def log_rows(task: LogTask) -> Iterator[pa.RecordBatch]:
    """Yield the identity rows of ranges of logs. Raises LogCutAgain, DamagedBatch, ClientError."""
    pieces = {piece.range.where: piece for piece in task.pieces}
    with (
        Client(task.client) as client,
        client.fetch([piece.range for piece in task.pieces], topic_ids=task.topic_ids) as stream,
    ):
        try:
            for fetched in stream:
                piece = pieces[fetched.where]
                if len(fetched.records):
                    yield from identity_rows(
                        fetched.records,
                        RecordsPlace(piece.target),
                        first_offset=fetched.start_offset,
                        end_offset=piece.range.end_offset,
                        with_keys=piece.with_keys,
                        window=piece.window,
                    )
        except OffsetsGone as error:
            raise LogCutAgain(
                f"{error}. The log was cut or trimmed while it was read", "Run it again."
            ) from error


def merge(task: MergeTask) -> TaskReport:
    """Append one partition's missing records. Raises DeliveryFailed, CopyUnreadable, ClientError; another
    attempt continues from what is stored."""
    settings = TaskSettings(
        identity=derive_identity(task.sink_id, batch_id=ONLY_BATCH, task_index=task.number),
        task_index=task.number,
        topic=None,
        batches=BatchOptions(batch_bytes_max=task.batch_bytes),
        delivery=DeliveryOptions(),
        now_ms=wall_ms,
    )
    with Client(task.client) as client:
        writer = TaskWriter(client, settings, lambda topic: task.opening)
        for rows in merge_rows(CopyReader(task.client), task.target):
            writer.add(rows)
        return TaskReport(task.number, dict(writer.finish()), writer.topic_ids())
