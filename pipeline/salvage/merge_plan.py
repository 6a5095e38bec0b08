"""The plan of a merge: the records that it appends, fixed before the first one is written. Pure.

An interrupted merge must continue with the same records in the same order, although the log has changed: the
plan is written down first, and the next run follows it. Records of a partition are appended in the order in
which their leaders had appended them. The sink's id is a hash of what is appended, so brokers take two merges
of the same findings for one (pipeline/sink/identity.py). The plan holds the topics' openings too, so only the
driver needs the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Annotated, NamedTuple

import msgspec

from pipeline.client.values import TopicPartition
from pipeline.errors import PlanInvalid, SinkStateError
from pipeline.salvage.copies import check_topics, parse_name
from pipeline.sink.opening import Fingerprint, TopicOpening, decode_opening, encode_opening, fingerprint_of
from pipeline.stored import Int32, Int64, check_version

VERSION = 1
ONLY_BATCH = 0
"""A merge is a stream of one micro-batch to the sink."""
BYTES_MAX = 256 * 1024 * 1024
RUNS_MAX = 1_000_000
GAP_MAX = 10_000
"""Runs of a copy that are no farther apart are read as one span; records between them are dropped."""


class RecordRun(NamedTuple):
    """Neighbouring records of a copy, from `first_offset` to `last_offset`, both inclusive."""

    broker_id: Int32
    name: str
    leader_epoch: Int32
    first_offset: Int64
    last_offset: Int64

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1


class TargetPlan(NamedTuple):
    """The runs of records to append to one partition, in this order."""

    where: TopicPartition
    runs: tuple[RecordRun, ...]

    @property
    def records(self) -> int:
        return sum(run.records for run in self.runs)


class MergePlan(NamedTuple):
    """`targets` in the order of tasks: task n writes targets[n] only. `openings`: the topics before the
    merge, by name."""

    targets: tuple[TargetPlan, ...]
    batch_bytes: int
    openings: Mapping[str, TopicOpening]

    @property
    def records(self) -> int:
        return sum(target.records for target in self.targets)

    @property
    def sink_id(self) -> str:
        return f"salvage-{hashlib.sha256(_body(self)).hexdigest()[:32]}"


class Span(NamedTuple):
    """Records that are read together: the runs in [start_offset, end_offset) of one copy."""

    broker_id: int
    name: str
    start_offset: int
    end_offset: int
    runs: tuple[RecordRun, ...]


def fingerprint(batch_bytes: int) -> Fingerprint:
    """Return the sink's fingerprint, the same for every attempt of a merge."""
    return fingerprint_of({"job": "salvage", "batchBytes": str(batch_bytes)})


def make_plan(
    runs: Iterable[tuple[TopicPartition, RecordRun]], openings: Iterable[TopicOpening], *, batch_bytes: int
) -> MergePlan:
    """Make a plan of runs in any order (runs of one leader epoch don't overlap) and an opening for each
    topic. Raises LogCutAgain if a topic that was opened is not the one of which brokers have copies."""
    openings = list(openings)
    now = {opening.topic: opening.topic_id for opening in openings}
    by_target: dict[TopicPartition, list[RecordRun]] = {}
    for where, run in runs:
        told = parse_name(run.name)
        check_topics({} if told is None else {where.topic: told.topic_id}, now)
        by_target.setdefault(where, []).append(run)
    return MergePlan(
        tuple(TargetPlan(where, tuple(sorted(by_target[where], key=_order))) for where in sorted(by_target)),
        batch_bytes,
        {opening.topic: opening for opening in openings},
    )


def spans(runs: Sequence[RecordRun], *, gap_max: int = GAP_MAX) -> Iterator[Span]:
    """Yield all runs in their order; neighbours of one copy and leader epoch together."""
    for (broker_id, name, _), group in groupby(
        runs, key=lambda run: (run.broker_id, run.name, run.leader_epoch)
    ):
        held: list[RecordRun] = []
        for run in group:
            if held and run.first_offset - held[-1].last_offset > gap_max:
                yield _span(broker_id, name, held)
                held = []
            held.append(run)
        yield _span(broker_id, name, held)


class _TargetDocument(msgspec.Struct):
    topic: Annotated[str, msgspec.Meta(min_length=1)]
    partition: Int32
    runs: Annotated[tuple[RecordRun, ...], msgspec.Meta(min_length=1)]


class _Body(msgspec.Struct, rename="camel"):
    batch_bytes: Int32
    targets: tuple[_TargetDocument, ...]


class _PlanDocument(msgspec.Struct, rename="camel"):
    sink_id: str
    plan: _Body
    openings: dict[str, msgspec.Raw]


def encode_plan(plan: MergePlan) -> bytes:
    openings = {topic: json.loads(encode_opening(one)) for topic, one in sorted(plan.openings.items())}
    return json.dumps(
        {
            "version": VERSION,
            "sinkId": plan.sink_id,
            "plan": json.loads(_body(plan)),
            "openings": openings,
        }
    ).encode()


def decode_plan(encoded: bytes) -> MergePlan:
    """Return what `encode_plan` encoded. Raises PlanInvalid."""
    try:
        check_version(encoded, VERSION)
        document = msgspec.json.decode(encoded, type=_PlanDocument)
        targets = tuple(map(_target, document.plan.targets))
        if [target.where for target in targets] != sorted({target.where for target in targets}):
            raise ValueError("partitions are out of order")
        if sum(len(target.runs) for target in targets) > RUNS_MAX:
            raise ValueError(f"more than {RUNS_MAX} runs")
        plan = MergePlan(targets, document.plan.batch_bytes, _openings(targets, document.openings))
        if plan.sink_id != document.sink_id:
            raise ValueError("it is not what was written")
    except (ValueError, KeyError, RecursionError, SinkStateError) as error:
        raise PlanInvalid(f"no plan of a merge: {error!r}") from error
    return plan


def _order(run: RecordRun) -> tuple[int, int]:
    return run.leader_epoch, run.first_offset


def _span(broker_id: int, name: str, held: list[RecordRun]) -> Span:
    return Span(broker_id, name, held[0].first_offset, held[-1].last_offset + 1, tuple(held))


def _body(plan: MergePlan) -> bytes:
    return json.dumps(
        {
            "batchBytes": plan.batch_bytes,
            "targets": [
                {
                    "topic": target.where.topic,
                    "partition": target.where.partition,
                    "runs": [list(run) for run in target.runs],
                }
                for target in plan.targets
            ],
        },
        separators=(",", ":"),
        sort_keys=True,
    ).encode()


def _target(given: _TargetDocument) -> TargetPlan:
    where = TopicPartition(given.topic, given.partition)
    for run in given.runs:
        told = parse_name(run.name)
        if told is None or told.partition != where.partition:
            raise ValueError(f"{run.name!r} is no copy of {where}")
        if not told.first_offset <= run.first_offset <= run.last_offset < told.next_offset:
            raise ValueError(f"{run.name} has no offsets {run.first_offset} to {run.last_offset}")
    for one, following in pairwise(given.runs):
        if (one.leader_epoch, one.last_offset) >= _order(following):
            raise ValueError(f"runs of {where} are out of order")
    return TargetPlan(where, given.runs)


def _openings(targets: Sequence[TargetPlan], encoded: Mapping[str, msgspec.Raw]) -> dict[str, TopicOpening]:
    opened: dict[str, TopicOpening] = {}
    for topic, partition in (target.where for target in targets):
        if topic not in opened:
            opened[topic] = decode_opening(bytes(encoded[topic]), topic=topic, batch_id=ONLY_BATCH)
        if partition >= opened[topic].partition_count:
            raise ValueError(
                f"{topic} had {opened[topic].partition_count} partitions, and {partition} is to be merged"
            )
    return opened
