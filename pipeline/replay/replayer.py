"""A replay, round by round: runs what is left of its plan, and commits each round before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidRows, ReplayError
from pipeline.replay.lake import Lake
from pipeline.replay.log import Log
from pipeline.replay.pacing import NO_LIMIT, SendRates
from pipeline.replay.plan import ReplayPlan, ReplaySettings, records_of
from pipeline.replay.run_state import RunState, rounds_left
from pipeline.replay.task import ReplayTask, target_made_again
from pipeline.sink.commit import TaskReport, check_stored, commit_summary
from pipeline.sink.target import known_partitions
from springtide.wire.compression import Compression

RunTasks = Callable[[Sequence[ReplayTask]], Sequence[TaskReport]]


@dataclass(frozen=True, slots=True)
class Means:
    """Settings that each run may choose: they do not change which records are stored, or where. rates: to
    each broker, from all tasks together."""

    source: Lake | Log
    client: ClientConfig
    compression: Compression = Compression.NONE
    rates: SendRates = NO_LIMIT


class ReplayProgress(NamedTuple):
    """records: stored by committed rounds, earlier runs' included."""

    rounds_done: int
    records: int
    planned_done: int


def run_rounds(
    plan: ReplayPlan,
    state: RunState,
    client: Client,
    means: Means,
    run_tasks: RunTasks,
    *,
    on_progress: Callable[[ReplayProgress], None],
) -> ReplayProgress:
    """Run the rounds that are left. Raises ReplayError, DeliveryFailed, SinkStateError, ClientError, or what
    `run_tasks` raises; the next run continues where this one ended."""
    committed = state.committed()
    left = rounds_left(plan, committed)
    done = ReplayProgress(
        len(committed),
        sum(committed.values()),
        sum(records_of(plan.rounds[number]) for number in committed),
    )
    on_progress(done)
    for number in left:
        check_target(client, plan.settings)
        tasks = tasks_of(plan, number, state, means)
        reports = run_tasks(tasks)
        if sorted(report.task_index for report in reports) != [task.index for task in tasks]:
            raise ReplayError(
                f"round {number}: {len(tasks)} tasks were started and {len(reports)} reported",
                "Start the replay again: it continues with this round.",
            )
        check_stored(client, reports)
        state.sink.record_commit(number, commit_summary(number, reports))
        stored = sum(each.records for report in reports for each in report.delivered.values())
        done = ReplayProgress(
            number + 1, done.records + stored, done.planned_done + records_of(plan.rounds[number])
        )
        on_progress(done)
    return done


def tasks_of(plan: ReplayPlan, number: int, state: RunState, means: Means) -> list[ReplayTask]:
    """Return the tasks of a round that have pieces."""
    busy = [(index, pieces) for index, pieces in enumerate(plan.rounds[number]) if pieces]
    return [
        ReplayTask(
            settings=plan.settings,
            source=means.source,
            client=means.client,
            state=state.sink_directory,
            round=number,
            index=index,
            pieces=pieces,
            compression=means.compression,
            rates=means.rates.shared(len(busy)),
        )
        for index, pieces in busy
    ]


def target_of(client: Client, topic: str) -> tuple[list[TopicPartition], str]:
    """Return a topic's partitions and id. Raises ReplayError if it can't be written to, ClientError."""
    try:
        partitions = known_partitions(client, topic)
    except InvalidRows as error:
        raise ReplayError(
            str(error), f"Create it: springtide topics create {topic} --partitions N ..."
        ) from error
    return partitions, client.known_metadata().topics[topic].topic_id


def check_target(client: Client, settings: ReplaySettings) -> None:
    """Raise ReplayError if the topic is not the one that the replay was planned for."""
    partitions, topic_id = target_of(client, settings.topic)
    if topic_id != settings.topic_id or len(partitions) < settings.partition_count:
        raise target_made_again(settings.topic)
