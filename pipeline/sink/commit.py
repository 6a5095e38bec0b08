"""The commit of a micro-batch, on the driver: everything must still be there, and be the same as before.

Spark does not run a finished task again, and an unclean election may cut the log between its end and the
commit. So the commit asks each partition's leader where the epochs end in which tasks saw their records
committed (OffsetForLeaderEpoch, as KIP-320 does), and fails if one ends below that, or if the topic is
another one by its id. The micro-batch is then run again and stores what is missing. Records that are lost
after the commit are for `pipeline salvage`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pipeline.client.client import Client, Deadline
from pipeline.client.values import UNKNOWN_TOPIC, TopicPartition
from pipeline.errors import DeliveryFailed
from pipeline.sink.opening import WHAT_IS_GONE, made_again
from pipeline.sink.state import SinkState
from pipeline.sink.steps import Delivered
from springtide.wire.fetch_response import EpochEnd

VERSION = 1
P = TypeVar("P")


class SeenWhole(NamedTuple):
    """The log was committed up to `high_watermark` (exclusive) under `leader_epoch`."""

    leader_epoch: int
    high_watermark: int


class Question(NamedTuple, Generic[P]):
    """A question to `partition`'s leader: the end of `leader_epoch`, below `high_watermark` after a loss."""

    partition: P
    leader_epoch: int
    high_watermark: int

    def is_lost(self, end: EpochEnd) -> bool:
        """Return whether the leader's answer shows a loss. A leader that does not know the epoch (-1, -1) has
        lost it."""
        return end.leader_epoch < 0 or end.end_offset < self.high_watermark


def questions(seen: Iterable[tuple[P, SeenWhole]]) -> list[Question[P]]:
    """Return one question for each partition and leader epoch, with the highest high watermark."""
    highest: dict[tuple[P, int], int] = {}
    for partition, whole in seen:
        key = partition, whole.leader_epoch
        highest[key] = max(highest.get(key, 0), whole.high_watermark)
    return [Question(partition, epoch, mark) for (partition, epoch), mark in highest.items()]


def lost(asked: Iterable[Question[P]], ends: Mapping[Question[P], EpochEnd]) -> list[Question[P]]:
    """Return the questions whose answers show a loss; each needs its answer."""
    return [question for question in asked if question.is_lost(ends[question])]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of a task's successful attempt. Pickles."""

    task_index: int
    delivered: Mapping[TopicPartition, Delivered] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of the topics that were written to, "" where it is not known."""


def check_stored(client: Client, reports: Iterable[TaskReport]) -> None:
    """Raise DeliveryFailed if records that tasks saw committed are gone, or their topic is; ClientError if
    leaders don't answer."""
    reports = list(reports)
    asked = questions(
        (where, SeenWhole(delivered.leader_epoch, delivered.high_watermark))
        for report in reports
        for where, delivered in report.delivered.items()
    )
    gone = lost(asked, _epoch_ends(client, asked))
    _check_topics(client, reports)  # last: ids are never used again, so those answers were of these topics
    if gone:
        first = gone[0]
        raise DeliveryFailed(
            f"an unclean election took records of this micro-batch before its commit: {first.partition} was "
            f"committed up to offset {first.high_watermark} under leader epoch {first.leader_epoch}, and is "
            f"not any more ({len(gone)} partitions). Run again, it will fill in what is missing"
        )


def _check_topics(client: Client, reports: Iterable[TaskReport]) -> None:
    """Raise DeliveryFailed if a topic is not the one that a task wrote to: leader epochs and offsets of the
    new one may look as if nothing was lost."""
    opened = sorted({(topic, one) for report in reports for topic, one in report.topic_ids.items() if one})
    if not opened:
        return
    names = sorted({topic for topic, _ in opened})
    deadline: Deadline | None = None
    while True:
        now = client.metadata(names).topics
        check_topics(opened, {topic: told.topic_id for topic, told in now.items()})
        unknown = [topic for topic in names if topic not in now or now[topic].error in UNKNOWN_TOPIC]
        if not unknown:
            return
        deadline = deadline or client.deadline(client.config.unknown_topic_budget_ms)
        if not deadline.pause(f"a broker does not know topic {unknown[0]!r} that was written to"):
            raise DeliveryFailed(f"topic {unknown[0]!r} was deleted while it was written to", WHAT_IS_GONE)


def check_topics(opened: Iterable[tuple[str, str]], now: Mapping[str, str]) -> None:
    """Raise DeliveryFailed if one of the topics that were opened, by name and id, has another id now, or two
    of the name were. An id that is not known is empty."""
    first: dict[str, str] = {}
    for topic, topic_id in opened:
        found = now.get(topic, "") or first.setdefault(topic, topic_id)
        if found != topic_id:
            raise made_again(topic, topic_id, found)


def _epoch_ends(
    client: Client, asked: Sequence[Question[TopicPartition]]
) -> dict[Question[TopicPartition], EpochEnd]:
    """Ask each question; a partition that was seen under several leaders is asked several times."""
    ends: dict[Question[TopicPartition], EpochEnd] = {}
    left = list(asked)
    while left:
        round_of = {question.partition: question for question in reversed(left)}
        answers = client.epoch_ends({where: question.leader_epoch for where, question in round_of.items()})
        ends.update({question: answers[where] for where, question in round_of.items()})
        left = [question for question in left if question not in ends]
    return ends


def commit_summary(batch_id: int, reports: Iterable[TaskReport]) -> bytes:
    """Return how many records each task stored in each partition, in the same order in every run."""
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
    """Commit, or raise DeliveryFailed, SinkStateError or ClientError."""
    check_stored(client, reports)
    if state is not None:
        state.record_commit(batch_id, commit_summary(batch_id, reports))
        state.forget_before(batch_id)
