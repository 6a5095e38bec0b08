"""`pipeline replay`: what its command line says, and how it reports."""

from __future__ import annotations

import argparse
import math
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.clock import wall_ms
from pipeline.errors import DeliveryFailed, InvalidRows, JobError, ReplayError, SinkStateError
from pipeline.jobs.arguments import add_engine
from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.jobs.sizes import log_bytes
from pipeline.records.encode import BATCH_BYTES_LIMIT, BATCH_BYTES_MAX, RECORDS_MAX
from pipeline.replay.lake import Found, Lake, find_landed, find_parquet, is_landed
from pipeline.replay.log import Log, cluster_id, find_log, is_log, parse_log
from pipeline.replay.pacing import SendRates
from pipeline.replay.plan import (
    NO_TIME,
    RECORDS_PER_TASK,
    TASKS_DEFAULT,
    Partitioning,
    ReplayPlan,
    ReplayRange,
    ReplaySettings,
    Timestamps,
    plan_rounds,
    records_of,
)
from pipeline.replay.replayer import Means, ReplayProgress, run_rounds, target_of
from pipeline.replay.rows import NO_PARTITION_ADVICE
from pipeline.replay.run_state import RunState, check_same, rounds_left
from pipeline.replay.task import ReplayTask, run_task
from pipeline.sink.commit import TaskReport
from pipeline.sink.options import BATCH_BYTES_MIN, RETRY_BUDGET_MS
from pipeline.sink.target import id_of
from springtide.cli.call import UsageError
from springtide.wire.compression import Compression

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

RECORD_BYTES_GUESS = 1024
"""Size of a record that is not known beforehand."""
TASKS_UNKNOWN = 2
"""Tasks that share a rate, where Spark Connect does not tell how many run at once."""
_AMOUNT = re.compile(r"(\d{1,15})\s*(k|M|G|)\Z")
_TIMES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}

DESCRIPTION = """\
Writes what a lake or another cluster holds to a topic, each record once, however often it is killed and run
again.

SRC is a table of `pipeline land` (read by its manifests), a folder or file of Parquet with the columns value,
and if there are any key, headers, timestamp and partition; or kafka://HOST:PORT,.../TOPIC, whose records up
to now are copied. Keys, headers, timestamps and partitions are kept. Records of one partition keep their
order; of plain Parquet, those of one file.

--checkpoint is a path that all of Spark's hosts share. The first run writes its plan there, every later one
goes on with it, and when all is done one more adds nothing.

A topic whose retention goes by time deletes old records as they come: raise its retention.ms first, or say
--timestamps now.
"""
EXAMPLES = (
    "pipeline replay /lake orders-again --checkpoint /shared/replays/7 --bootstrap-server store1:9092",
    "pipeline replay /lake orders --source-topic orders --starting-timestamp 1795305600000 --dry-run",
    "pipeline replay s3://exports/customers customers --partitioning murmur2 --checkpoint /shared/replays/8",
    "pipeline replay kafka://old1:9092,old2:9092/orders orders --checkpoint /shared/replays/9 "
    "--bytes-per-second 20M",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="a lake, or kafka://HOST:PORT,.../TOPIC")
    parser.add_argument("topic", metavar="TOPIC", help="the topic that is written to; it must exist")
    parser.add_argument("--checkpoint", metavar="DIR", help="where the plan and its progress are kept")
    parser.add_argument("--source-topic", metavar="NAME", help="of a table that holds several")
    parser.add_argument(
        "--source-command-config", metavar="FILE", help="the --command-config of kafka://'s cluster (none)"
    )
    span = parser.add_argument_group("which records")
    span.add_argument(
        "--starting-timestamp",
        type=_timestamp,
        default=NO_TIME,
        metavar="MS",
        help="those of this time and later",
    )
    span.add_argument(
        "--ending-timestamp", type=_timestamp, default=NO_TIME, metavar="MS", help="those before this time"
    )
    to = parser.add_argument_group("how they are stored")
    to.add_argument(
        "--partitioning",
        choices=[each.value for each in Partitioning],
        help="keep each record's partition (the default where the source has it), or place it by its key "
        "as Kafka's producers do",
    )
    to.add_argument(
        "--timestamps",
        choices=[each.value for each in Timestamps],
        default=Timestamps.KEEP.value,
        help="keep them, or say now (%(default)s)",
    )
    to.add_argument(
        "--compression",
        choices=[each.name.lower() for each in Compression],
        default=Compression.LZ4.name.lower(),
        help="(%(default)s)",
    )
    to.add_argument(
        "--batch-bytes",
        type=_amount,
        default=BATCH_BYTES_MAX,
        metavar="N",
        help="largest record batch, not above the topic's max.message.bytes (%(default)s)",
    )
    pace = parser.add_argument_group("how fast")
    pace.add_argument(
        "--records-per-second",
        type=_amount,
        metavar="N",
        help="at most this many to each broker: 500, 20k, 1M",
    )
    pace.add_argument(
        "--bytes-per-second", type=_amount, metavar="N", help="the same of bytes as they are sent, compressed"
    )
    pace.add_argument(
        "--tasks",
        type=_amount,
        metavar="N",
        help=f"tasks of a round ({TASKS_DEFAULT}; with a rate, as many as run at once: each has its share)",
    )
    pace.add_argument(
        "--records-per-task",
        type=_amount,
        default=RECORDS_PER_TASK,
        metavar="N",
        help="about how many a task takes in one round: what is read again after a failure (%(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be replayed; write nothing")
    add_engine(parser)


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    try:
        with ExitStack() as stack:
            return _Run(options, context, stack).outcome()
    except (SinkStateError, DeliveryFailed, InvalidRows) as error:
        raise JobError(
            str(error), "Start the replay again: it continues with the round that failed."
        ) from error


class _Run:
    def __init__(self, options: argparse.Namespace, context: Context, stack: ExitStack) -> None:
        if options.checkpoint is None and not options.dry_run:
            raise UsageError("--checkpoint DIR is needed: the replay's plan and progress are kept there")
        if NO_TIME != options.ending_timestamp <= options.starting_timestamp:
            raise UsageError("--ending-timestamp must be later than --starting-timestamp")
        if not BATCH_BYTES_MIN <= options.batch_bytes <= BATCH_BYTES_LIMIT:
            raise UsageError(f"--batch-bytes must be {BATCH_BYTES_MIN} to {BATCH_BYTES_LIMIT}")
        self._options = options
        self._context = context
        self._config: ClientConfig = replace(context.client_config, retry_budget_ms=RETRY_BUDGET_MS)
        self._client = stack.enter_context(Client(self._config))
        self._source = self._open_source(stack)
        self._state = RunState(options.checkpoint) if options.checkpoint is not None else None
        self._rates = SendRates(options.records_per_second, options.bytes_per_second)

    def _open_source(self, stack: ExitStack) -> Lake | Log:
        options = self._options
        if not is_log(options.source):
            return Lake.at(options.source)
        if options.source_topic is not None:
            raise UsageError(
                "--source-topic is for tables of `pipeline land`: kafka:// names the topic itself"
            )
        try:
            log = parse_log(
                options.source,
                lambda servers: self._context.client_of(servers, options.source_command_config),
            )
        except ReplayError as error:
            raise UsageError(error.whole) from error
        self._source_client = stack.enter_context(Client(log.client))
        self._source_cluster = cluster_id(self._source_client)
        if log.topic == options.topic and self._source_cluster == cluster_id(self._client):
            raise UsageError(f"{log.topic} would be appended to itself")
        return log

    def outcome(self) -> JobOutcome:
        plan = self._plan()
        if self._options.dry_run:
            return self._told(plan, self._done(plan), seconds=0.0, before=None)
        assert self._state is not None
        plan = self._state.keep(plan)
        self._check(plan)
        before = self._done(plan)
        began = time.monotonic()
        done = run_rounds(
            plan,
            self._state,
            self._client,
            Means(self._source, self._config, Compression[self._options.compression.upper()], self._rates),
            partial(self._run_tasks, plan),
            on_progress=lambda progress: self._show(plan, before, progress, time.monotonic() - began),
        )
        return self._told(plan, done, seconds=time.monotonic() - began, before=before)

    def _run_tasks(self, plan: ReplayPlan, tasks: Sequence[ReplayTask]) -> Sequence[TaskReport]:
        number = tasks[0].round if tasks else 0
        before = sum(records_of(done) for done in plan.rounds[:number])
        now = records_of(plan.rounds[number])

        def shown(done: int, total: int) -> None:
            self._context.progress(
                before + now * done // total,
                plan.records,
                f"round {number + 1} of {len(plan.rounds)}, {done} of {total} tasks",
            )

        return self._context.run_tasks(run_task, tasks, size=lambda: self._size(tasks), shown=shown)

    def _size(self, tasks: Sequence[ReplayTask]) -> int | None:
        """Return about how many bytes the tasks read; None if that is unknown, and where a rate is shared by
        tasks that run at once."""
        if self._rates.is_limited:
            return None
        pieces = [piece for task in tasks for piece in task.pieces]
        if isinstance(self._source, Log):
            ranges = [piece.range for piece in pieces if isinstance(piece, ReplayRange)]
            return log_bytes(self._source_client, ranges)
        return sum(piece.records for piece in pieces) * RECORD_BYTES_GUESS

    def _plan(self) -> ReplayPlan:
        """Return the checkpoint's plan, or a new one."""
        kept = self._state.plan() if self._state is not None else None
        if kept is not None:
            self._check(kept)
            return kept
        options = self._options
        partitions, topic_id = target_of(self._client, options.topic)
        source_id = id_of(self._source_client, self._source.topic) if isinstance(self._source, Log) else ""
        found = self._find()
        settings = structs.replace(
            self._wanted(self._partitioning(found, len(partitions))),
            run_id=f"replay-{uuid.uuid4()}",
            topic_id=topic_id,
            source_topic_id=source_id,
            partition_count=len(partitions),
            planned_ms=wall_ms(),
        )
        tasks = min(options.tasks or self._tasks(), max(len(found.streams), 1))
        rounds = plan_rounds(found.streams, tasks=tasks, records_per_task=options.records_per_task)
        return ReplayPlan(
            structs.replace(settings, batch_records=self._batch_records(found, tasks, len(partitions))),
            rounds,
        )

    def _check(self, kept: ReplayPlan) -> None:
        assert self._state is not None
        given = self._options.partitioning
        partitioning = kept.settings.partitioning if given is None else Partitioning(given)
        check_same(kept, self._wanted(partitioning).identity(), self._state.root)

    def _wanted(self, partitioning: Partitioning) -> ReplaySettings:
        options, source = self._options, self._source
        told = (
            f"kafka://{self._source_cluster}/{source.topic}" if isinstance(source, Log) else source.location
        )
        return ReplaySettings(
            run_id="",
            source=told,
            source_topic=options.source_topic or "",
            topic=options.topic,
            topic_id="",
            partition_count=0,
            partitioning=partitioning,
            timestamps=Timestamps(options.timestamps),
            from_ms=options.starting_timestamp,
            until_ms=options.ending_timestamp,
            batch_bytes=options.batch_bytes,
        )

    def _find(self) -> Found:
        options, source = self._options, self._source
        from_ms, until_ms = options.starting_timestamp, options.ending_timestamp
        if isinstance(source, Log):
            return find_log(self._source_client, source.topic, from_ms=from_ms)
        if is_landed(source):
            return find_landed(source, options.source_topic, from_ms=from_ms, until_ms=until_ms)
        if options.source_topic is not None:
            raise UsageError(
                f"--source-topic is for tables of `pipeline land`, and {source.location} is not one"
            )
        return find_parquet(source)

    def _partitioning(self, found: Found, partition_count: int) -> Partitioning:
        given = self._options.partitioning
        if given is None:
            wanted = Partitioning.KEEP if found.has_partitions else Partitioning.MURMUR2
        else:
            wanted = Partitioning(given)
        if wanted is Partitioning.MURMUR2:
            return wanted
        if not found.has_partitions:
            raise ReplayError("the source does not have its records' partitions", NO_PARTITION_ADVICE)
        if found.partition_max >= partition_count:
            raise ReplayError(
                f"the source has a partition {found.partition_max}, and {self._options.topic} only "
                f"{partition_count} partitions",
                "Add partitions to the topic, or say --partitioning murmur2: records go where keys belong.",
            )
        return wanted

    def _tasks(self) -> int:
        if not self._rates.is_limited or self._options.dry_run:
            return TASKS_DEFAULT
        return self._context.parallelism or TASKS_UNKNOWN

    def _batch_records(self, found: Found, tasks: int, partition_count: int) -> int:
        """Return a batch's records, so that one request brings a broker about a second's worth."""
        share = self._rates.shared(tasks)
        brokers = max(1, len(self._client.known_metadata().brokers))
        together = max(1, math.ceil(partition_count / brokers))
        limits = [float(RECORDS_MAX)]
        if share.records is not None:
            limits.append(share.records / together)
        if share.bytes is not None:
            size = found.bytes / found.records if found.bytes else RECORD_BYTES_GUESS
            limits.append(share.bytes / together / max(size, 1.0))
        return max(1, int(min(limits)))

    def _done(self, plan: ReplayPlan) -> ReplayProgress:
        committed = self._state.committed() if self._state is not None else {}
        rounds_left(plan, committed)
        return ReplayProgress(len(committed), sum(committed.values()), 0)

    def _show(self, plan: ReplayPlan, before: ReplayProgress, now: ReplayProgress, seconds: float) -> None:
        rate = (now.records - before.records) / seconds if seconds > 0 else 0.0
        self._context.progress(
            now.planned_done,
            plan.records,
            f"round {now.rounds_done} of {len(plan.rounds)}, {now.records} records, {rate:.0f} a second",
        )

    def _told(
        self, plan: ReplayPlan, done: ReplayProgress, *, seconds: float, before: ReplayProgress | None
    ) -> JobOutcome:
        settings = plan.settings
        is_dry = before is None
        stored_now = 0 if before is None else done.records - before.records
        result: dict[str, Any] = {
            "run_id": settings.run_id,
            "source": settings.source,
            "topic": settings.topic,
            "partitioning": settings.partitioning.value,
            "timestamps": settings.timestamps.value,
            "dry_run": is_dry,
            "rounds": len(plan.rounds),
            "rounds_done": done.rounds_done,
            "tasks": plan.tasks,
            "records_planned": plan.records,
            "records_stored": done.records,
            "records_stored_now": stored_now,
            "seconds": round(seconds, 3),
        }
        what = f"{settings.source} to {settings.topic}, partitions by {settings.partitioning.value}"
        if is_dry:
            lines = (
                f"would replay {what}",
                f"up to {plan.records} records in {len(plan.rounds)} rounds of up to {plan.tasks} tasks; "
                f"{done.rounds_done} rounds are done",
            )
        else:
            rate = f", {stored_now / seconds:.0f} a second" if seconds > 0 and stored_now else ""
            lines = (
                f"replayed {what}",
                f"{done.records} records are stored, {stored_now} of them by this run{rate}",
            )
        return JobOutcome(JobExit.DONE, result, lines)


def _timestamp(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"must be milliseconds since 1970: {text!r}")
    return int(text)


def _amount(text: str) -> int:
    found = _AMOUNT.match(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"must be a number like 500, 20k or 1M: {text!r}")
    return int(found[1]) * _TIMES[found[2]]
