"""The end of a micro-batch, on the driver: is everything still there, and was it the same as before?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.client.client import Client
from pipeline.client.values import EpochEnd, TopicPartition
from pipeline.sink.commit_check import Question, SeenWhole, lost, questions
from pipeline.sink.errors import DeliveryFailed
from pipeline.sink.state import SinkState
from pipeline.sink.steps import Delivered

VERSION = 1


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task's successful attempt tells the driver. Pickles."""

    task_index: int
    delivered: Mapping[TopicPartition, Delivered] = field(default_factory=dict)


def check_stored(client: Client, reports: Iterable[TaskReport]) -> None:
    """Raises DeliveryFailed if records that tasks saw committed are gone, ClientError if nobody can say."""
    asked = questions(
        (where, SeenWhole(delivered.leader_epoch, delivered.high_watermark))
        for report in reports
        for where, delivered in report.delivered.items()
    )
    gone = lost(asked, _epoch_ends(client, asked))
    if gone:
        first = gone[0]
        raise DeliveryFailed(
            f"an unclean election took records of this micro-batch before its commit: {first.partition} was "
            f"committed up to offset {first.high_watermark} under leader epoch {first.leader_epoch}, and is "
            f"not any more ({len(gone)} partitions). Run again, it will fill in what is missing"
        )


def _epoch_ends(
    client: Client, asked: Sequence[Question[TopicPartition]]
) -> dict[Question[TopicPartition], EpochEnd]:
    """A partition that was seen under several leaders is asked as many times."""
    ends: dict[Question[TopicPartition], EpochEnd] = {}
    left = list(asked)
    while left:
        round_of = {question.partition: question for question in reversed(left)}
        answers = client.epoch_ends({where: question.leader_epoch for where, question in round_of.items()})
        ends.update({question: answers[where] for where, question in round_of.items()})
        left = [question for question in left if question not in ends]
    return ends


def commit_summary(batch_id: int, reports: Iterable[TaskReport]) -> bytes:
    """How many records each task stored where, in an order that every run has."""
    reports = sorted(reports, key=lambda report: report.task_index)
    return json.dumps(
        {
            "version": VERSION,
            "batchId": batch_id,
            "tasks": len(reports),
            "stored": [
                [report.task_index, where.topic, where.partition, report.delivered[where].records]
                for report in reports
                for where in sorted(report.delivered)
            ],
        },
        separators=(",", ":"),
    ).encode()


def commit_micro_batch(
    client: Client, state: SinkState | None, batch_id: int, reports: Sequence[TaskReport]
) -> None:
    """Raises DeliveryFailed, SinkStateError or ClientError: the micro-batch is not committed then."""
    check_stored(client, reports)
    if state is not None:
        state.record_commit(batch_id, commit_summary(batch_id, reports))
        state.forget_before(batch_id)
