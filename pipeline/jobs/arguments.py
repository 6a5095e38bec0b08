"""Command line arguments that more than one job takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.client.values import TopicPartition
from pipeline.jobs.tasks import JobEngine
from pipeline.source.options import SourceOptions, parse_options

if TYPE_CHECKING:
    from pipeline.jobs.context import Context


def positive(text: str) -> int:
    """A number of records and the like, for argparse's `type`."""
    value = int(text)
    if not 0 < value < 2**63:
        raise argparse.ArgumentTypeError("must be a positive whole number")
    return value


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add `--engine`, for a job whose tasks run by `Context.run_tasks`."""
    parser.add_argument(
        "--engine",
        choices=[each.value for each in JobEngine],
        default=JobEngine.AUTO.value,
        help="where tasks run: local is this process, and auto takes it for a few megabytes unless --master, "
        "--remote or spark-submit names a Spark (%(default)s)",
    )


def shown_spans(spans: Iterable[tuple[TopicPartition, int, int]]) -> list[dict[str, Any]]:
    """Return partitions with their start and end offsets, as `--dry-run` prints them in JSON."""
    return [
        {"topic": where.topic, "partition": where.partition, "startOffset": start, "endOffset": end}
        for where, start, end in spans
    ]


def source_options(options: argparse.Namespace, context: Context, **more: str | None) -> SourceOptions:
    """Return the source's options for the topics and the range of offsets that were asked for, with the job's
    own client. Raises InvalidOption, InvalidClientOption, UsageError."""
    given = {
        "kafka.bootstrap.servers": context.bootstrap,
        "subscribe": ",".join(options.topics) or None,
        "startingOffsets": options.starting_offsets,
        "startingTimestamp": options.starting_timestamp,
        "endingOffsets": options.ending_offsets,
        **more,
    }
    parsed = parse_options(
        {name: value for name, value in given.items() if value is not None}, is_streaming=False
    )
    return replace(parsed, client=context.client_config)
