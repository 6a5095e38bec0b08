"""The sink as Spark calls it: what is pickled to the tasks, what they do, and the commit on the driver.

Spark's commit coordinator acts after a Python task's write, so attempts that lose have written too. `commit`
is called before Spark writes its own commit log: a micro-batch may be committed here and run again, which
must change nothing.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pipeline.client.client import Client
from pipeline.clock import wall_ms
from pipeline.errors import InvalidOption, InvalidRows, SinkStateError
from pipeline.sink.columns import check_columns, usable_rows
from pipeline.sink.commit import TaskReport, commit_micro_batch
from pipeline.sink.identity import derive_identity
from pipeline.sink.opening import Fingerprint, TopicOpening, fingerprint_of
from pipeline.sink.options import DeliveryMode, SinkOptions, parse_sink_options
from pipeline.sink.placement import RowPlacement
from pipeline.sink.plain_task import PlainTaskWriter
from pipeline.sink.state import SinkState, state_directory
from pipeline.sink.target import id_of, known_partitions, propose_again, propose_opening, propose_openings
from pipeline.sink.task import TaskSettings, TaskWriter
from pipeline.worker_process import calm_the_collector

_log = logging.getLogger(__name__)

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
ONLY_BATCH = 0
"""A batch job is a stream of one micro-batch."""


class TaskDone(WriterCommitMessage):
    """A task's report on its way to the driver; None under at-least-once."""

    def __init__(self, report: TaskReport | None) -> None:
        self.report = report


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Settings that all tasks of a job or query have in common; it pickles. openings: those of a batch job
    without a checkpoint, made on the driver, since no file is shared: of its topic, or of all."""

    options: SinkOptions
    column_types: tuple[tuple[str, str], ...]
    openings: tuple[TopicOpening, ...] = ()

    def state(self) -> SinkState | None:
        location = self.options.checkpoint_location
        if location is None or self.options.mode is not DeliveryMode.EXACTLY_ONCE:
            return None
        return SinkState(state_directory(location))

    def fingerprint(self, sink_id: str) -> Fingerprint:
        return fingerprint_of(
            {
                "sinkId": sink_id,
                "topic": self.options.topic or "",
                "batchBytes": str(self.options.batches.batch_bytes_max),
                "columns": ",".join(f"{name}:{kind}" for name, kind in self.column_types),
            }
        )


def stream_writer(given: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    """Return the writer of a query. Raises InvalidOption, InvalidRows, SinkStateError."""
    plan = _plan(given, schema)
    if plan.options.mode is DeliveryMode.EXACTLY_ONCE and plan.options.checkpoint_location is None:
        raise InvalidOption("a streaming write needs its option 'checkpointLocation'")
    plan.state()
    return StreamWriter(plan)


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer of a batch job. Raises InvalidOption, InvalidRows, SinkStateError, ClientError."""
    if overwrite:
        raise InvalidOption("a log can't be overwritten: use mode('append')")
    plan = _plan(given, schema)
    options = plan.options
    if options.mode is not DeliveryMode.EXACTLY_ONCE:
        return BatchWriter(plan, sink_id="")
    if options.checkpoint_location is not None:
        plan.state()
        return BatchWriter(plan, sink_id=options.given_sink_id or f"run-{uuid.uuid4()}")
    if options.given_sink_id is not None:
        raise InvalidOption(
            "with 'sinkId' a batch job can be repeated, and needs 'checkpointLocation' to remember how it "
            "began"
        )
    sink_id = f"run-{uuid.uuid4()}"
    fingerprint = plan.fingerprint(sink_id)
    with Client(options.client) as client:
        if options.topic is None:  # rows name their topics, so it may be any
            openings = propose_openings(client, batch_id=ONLY_BATCH, fingerprint=fingerprint)
        else:
            openings = (propose_opening(client, options.topic, batch_id=ONLY_BATCH, fingerprint=fingerprint),)
    return BatchWriter(replace(plan, openings=openings), sink_id=sink_id)


def _plan(given: Mapping[str, str], schema: StructType) -> SinkPlan:
    options = parse_sink_options(given)
    types = {each.name: each.dataType.simpleString() for each in schema.fields}
    check_columns(types, has_topic_option=options.topic is not None)
    return SinkPlan(options, tuple(types.items()))


class StreamWriter(DataSourceStreamArrowWriter):
    """One per query run; pickled to its tasks."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        batch_id, query_id = task.getLocalProperty(BATCH_ID), task.getLocalProperty(QUERY_ID)
        if batch_id is None or query_id is None:
            raise SinkStateError("Spark does not give the task its micro-batch and query")
        sink_id = self._plan.options.given_sink_id or query_id
        return write_rows(self._plan, iterator, sink_id, int(batch_id), task.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_messages(self._plan, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the next run continues from what is stored."""


class BatchWriter(DataSourceArrowWriter):
    """One per job; pickled to its tasks."""

    def __init__(self, plan: SinkPlan, *, sink_id: str) -> None:
        self._plan = plan
        self._sink_id = sink_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        return write_rows(self._plan, iterator, self._sink_id, ONLY_BATCH, task.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_messages(self._plan, messages, ONLY_BATCH)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: a log can't be undone."""


def write_rows(
    plan: SinkPlan, iterator: Iterator[pa.RecordBatch], sink_id: str, batch_id: int, task_index: int
) -> TaskDone:
    """Run one attempt of a task, from its first row to its report."""
    calm_the_collector()
    options = plan.options
    with Client(options.client) as client:
        if options.mode is DeliveryMode.AT_LEAST_ONCE:
            placement = RowPlacement(
                topic=options.topic,
                task_index=task_index,
                partition_count=lambda topic: len(known_partitions(client, topic)),
            )
            plain = PlainTaskWriter(client, placement=placement, batches=options.batches, now_ms=wall_ms)
            for rows in iterator:
                plain.add(usable_rows(rows))
            plain.finish()
            return TaskDone(None)
        fingerprint = plan.fingerprint(sink_id)
        openings = {opening.topic: opening for opening in plan.openings}
        state = plan.state()

        def open_topic(topic: str) -> TopicOpening:
            if state is None:
                if topic not in openings:
                    raise InvalidRows(
                        f"topic {topic!r} can't be written to: when the job began, there was no such topic, "
                        "or partitions of it had no leader"
                    )
                return openings[topic]
            opening = state.opening(
                batch_id,
                topic,
                lambda: propose_opening(client, topic, batch_id=batch_id, fingerprint=fingerprint),
            )
            opening.check(fingerprint)
            if opening.is_of_another(topic_id := id_of(client, topic)):
                _log.warning(
                    "target_made_again topic=%s micro_batch=%d consequence=%s",
                    topic,
                    batch_id,
                    "the micro-batch is written whole to the new topic; earlier ones are gone with the old",
                )
                again = partial(
                    propose_again,
                    client,
                    topic,
                    topic_id=topic_id,
                    instead_of=opening,
                    fingerprint=fingerprint,
                )
                opening = state.opening(batch_id, topic, again, topic_id=topic_id)
                opening.check(fingerprint)
            return opening

        settings = TaskSettings(
            identity=derive_identity(sink_id, batch_id=batch_id, task_index=task_index),
            task_index=task_index,
            topic=options.topic,
            batches=options.batches,
            delivery=options.delivery,
            now_ms=wall_ms,
        )
        writer = TaskWriter(client, settings, open_topic)
        for rows in iterator:
            writer.add(usable_rows(rows))
        return TaskDone(TaskReport(task_index, dict(writer.finish()), writer.topic_ids()))


def commit_messages(plan: SinkPlan, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
    """Commit the tasks' reports; under at-least-once there are none."""
    calm_the_collector()
    if plan.options.mode is DeliveryMode.AT_LEAST_ONCE:
        return
    reports = []
    for message in messages:
        assert isinstance(message, TaskDone) and message.report is not None, (
            "Spark commits whole batches only"
        )
        reports.append(message.report)
    with Client(plan.options.client) as client:
        commit_micro_batch(client, plan.state(), batch_id, reports)
