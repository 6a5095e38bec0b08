"""One attempt of one task of a round: reads its pieces and delivers them, once. Without Spark, in executors.

To the sink a round is a micro-batch: the task's producer id follows from the run's id and the task's index,
the producer epoch is the round's number, and openings are in the checkpoint. sink/delivery.py says why each
record is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.clock import wall_ms
from pipeline.errors import ReplayError
from pipeline.records.encode import BatchOptions, RecordTooLarge
from pipeline.replay.lake import Lake, lake_rows
from pipeline.replay.log import Log, log_rows
from pipeline.replay.paced_client import PacedClient
from pipeline.replay.pacing import NO_LIMIT, SendRates
from pipeline.replay.plan import FilePiece, Piece, ReplayRange, ReplaySettings
from pipeline.sink.commit import TaskReport
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.identity import derive_identity
from pipeline.sink.opening import Fingerprint, TopicOpening, fingerprint_of
from pipeline.sink.state import SinkState
from pipeline.sink.target import propose_opening
from pipeline.sink.task import TaskSettings, TaskWriter
from springtide.wire.compression import Compression


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """Everything that a worker needs; it pickles. client: for the target cluster. state: the sink's
    directory, which driver and workers share. rates: this task's."""

    settings: ReplaySettings
    source: Lake | Log
    client: ClientConfig
    state: Path
    round: int
    index: int
    pieces: tuple[Piece, ...]
    compression: Compression = Compression.NONE
    rates: SendRates = NO_LIMIT
    delivery: DeliveryOptions = field(default_factory=DeliveryOptions)


def client_of(task: ReplayTask) -> Client:
    return PacedClient(task.client, task.rates) if task.rates.is_limited else Client(task.client)


def run_task(task: ReplayTask, make_client: Callable[[ReplayTask], Client] = client_of) -> TaskReport:
    """Run the task. Raises ReplayError, or what the sink and client raise; another attempt continues from
    what is stored."""
    settings = task.settings
    state = SinkState(task.state)
    with make_client(task) as client:
        opening = state.opening(task.round, settings.topic, lambda: propose(client, task))
        opening.check(fingerprint_of_round(settings, task.round))
        if opening.is_of_another(settings.topic_id):
            raise target_made_again(settings.topic)
        writer = TaskWriter(
            client,
            TaskSettings(
                identity=derive_identity(settings.run_id, batch_id=task.round, task_index=task.index),
                task_index=task.index,
                topic=settings.topic,
                batches=BatchOptions(
                    compression=task.compression,
                    batch_bytes_max=settings.batch_bytes,
                    records_max=settings.batch_records,
                ),
                delivery=task.delivery,
                now_ms=wall_ms,
            ),
            lambda _: opening,
        )
        try:
            for rows in task_rows(task, now_ms=opening.opened_ms):
                writer.add(rows)
            return TaskReport(task.index, dict(writer.finish()), writer.topic_ids())
        except RecordTooLarge as error:
            raise ReplayError(
                f"{error}",
                "Begin again, with another --checkpoint and a larger --batch-bytes; the topic's "
                "max.message.bytes must allow it.",
            ) from error


def propose(client: Client, task: ReplayTask) -> TopicOpening:
    """Return the target's opening, with the partitions that it had when the replay was planned: with more, a
    key would go to another partition in the middle. Raises ReplayError, InvalidRows, ClientError."""
    settings = task.settings
    opening = propose_opening(
        client,
        settings.topic,
        batch_id=task.round,
        fingerprint=fingerprint_of_round(settings, task.round),
    )
    count = settings.partition_count
    if opening.partition_count < count:
        raise ReplayError(
            f"{settings.topic} has {opening.partition_count} partitions, and had {count} when the replay was "
            "planned: it is another topic now",
            "Begin again, with another --checkpoint.",
        )
    return replace(
        opening,
        start_offsets=opening.start_offsets[:count],
        leader_epochs=opening.leader_epochs[:count],
    )


def target_made_again(topic: str) -> ReplayError:
    return ReplayError(
        f"topic {topic} was deleted and created again since the replay was planned",
        "What was replayed is gone with it. Begin again, with another --checkpoint.",
    )


def fingerprint_of_round(settings: ReplaySettings, number: int) -> Fingerprint:
    """Return what attempts of a round must agree in, beside their plan."""
    return fingerprint_of(
        {
            **settings.identity(),
            "run": settings.run_id,
            "round": str(number),
            "batchBytes": str(settings.batch_bytes),
            "batchRecords": str(settings.batch_records),
        }
    )


def task_rows(task: ReplayTask, *, now_ms: int) -> Iterator[pa.RecordBatch]:
    """Return the task's rows, the same in every attempt."""
    match task.source:
        case Lake() as lake:
            files = [piece for piece in task.pieces if isinstance(piece, FilePiece)]
            return lake_rows(lake, files, task.settings, now_ms=now_ms)
        case Log() as log:
            ranges = [piece for piece in task.pieces if isinstance(piece, ReplayRange)]
            return log_rows(log, ranges, task.settings, now_ms=now_ms)
