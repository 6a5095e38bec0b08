"""What a merge appends, fixed before its first record is written. Pure.

A merge that was interrupted must go on with the same records in the same order, whatever the log looks like
by then: so the plan is written down first, and whoever runs the merge again goes by it. Records of a
partition are appended in the order in which their leaders had appended them. The sink's name is a hash of
what is appended, so that two merges of the same findings are one to the brokers
(pipeline/sink/identity.py). The plan holds the topics' openings too: only the driver needs the place where
it is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.salvage.copies import OFFSET_MAX, parse_name
from pipeline.salvage.errors import PlanInvalid
from pipeline.sink.errors import SinkStateError
from pipeline.sink.fingerprint import Fingerprint, fingerprint_of
from pipeline.sink.opening import TopicOpening, decode_opening, encode_opening

VERSION = 1
ONLY_BATCH = 0
"""A merge is a stream of one micro-batch to the sink."""
BYTES_MAX = 256 * 1024 * 1024
RUNS_MAX = 1_000_000
GAP_MAX = 10_000
"""Runs of a copy that are no farther apart are read as one span, and what is between them dropped."""


class Run(NamedTuple):
    """Neighbouring records of a copy, from `first_offset` to `last_offset`, both inclusive."""

    broker_id: int
    name: str
    leader_epoch: int
    first_offset: int
    last_offset: int

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1


class TargetPlan(NamedTuple):
    """What one partition gets, in this order."""

    where: TopicPartition
    runs: tuple[Run, ...]

    @property
    def records(self) -> int:
        return sum(run.records for run in self.runs)


class MergePlan(NamedTuple):
    """`targets` in the order of tasks: task n writes targets[n] and nothing else. `openings`: the topics as
    they were before anything was merged, by name."""

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
    """What is read at once: the runs' records in [start_offset, end_offset) of one copy."""

    broker_id: int
    name: str
    start_offset: int
    end_offset: int
    runs: tuple[Run, ...]


def fingerprint(batch_bytes: int) -> Fingerprint:
    """What every attempt of a merge has in common with the others, as the sink wants it."""
    return fingerprint_of({"job": "salvage", "batchBytes": str(batch_bytes)})


def make_plan(
    runs: Iterable[tuple[TopicPartition, Run]], openings: Iterable[TopicOpening], *, batch_bytes: int
) -> MergePlan:
    """Runs in any order; none overlaps another one of the same leader epoch. An opening for each topic."""
    by_target: dict[TopicPartition, list[Run]] = {}
    for where, run in runs:
        by_target.setdefault(where, []).append(run)
    return MergePlan(
        tuple(TargetPlan(where, tuple(sorted(by_target[where], key=_order))) for where in sorted(by_target)),
        batch_bytes,
        {opening.topic: opening for opening in openings},
    )


def spans(runs: Sequence[Run], *, gap_max: int = GAP_MAX) -> Iterator[Span]:
    """All runs in their order; neighbours of one copy and leader epoch together."""
    for (broker_id, name, _), group in groupby(
        runs, key=lambda run: (run.broker_id, run.name, run.leader_epoch)
    ):
        held: list[Run] = []
        for run in group:
            if held and run.first_offset - held[-1].last_offset > gap_max:
                yield _span(broker_id, name, held)
                held = []
            held.append(run)
        yield _span(broker_id, name, held)


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
    """What `encode_plan` wrote. Raises PlanInvalid."""
    try:
        document = json.loads(encoded)
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}")
        plan = _plan(document["plan"], document["openings"])
        if plan.sink_id != document["sinkId"]:
            raise ValueError("it is not what was written")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SinkStateError) as error:
        raise PlanInvalid(f"no plan of a merge: {error!r}") from error
    return plan


def _order(run: Run) -> tuple[int, int]:
    return run.leader_epoch, run.first_offset


def _span(broker_id: int, name: str, held: list[Run]) -> Span:
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


def _plan(body: Mapping[str, Any], openings: Mapping[str, Any]) -> MergePlan:
    targets = tuple(_target(each) for each in body["targets"])
    if [target.where for target in targets] != sorted({target.where for target in targets}):
        raise ValueError("partitions are out of order")
    if sum(len(target.runs) for target in targets) > RUNS_MAX:
        raise ValueError(f"more than {RUNS_MAX} runs")
    opened: dict[str, TopicOpening] = {}
    for topic, partition in (target.where for target in targets):
        if topic not in opened:
            encoded = json.dumps(openings[topic]).encode()
            opened[topic] = decode_opening(encoded, topic=topic, batch_id=ONLY_BATCH)
        if partition >= opened[topic].partition_count:
            raise ValueError(
                f"{topic} had {opened[topic].partition_count} partitions, and {partition} is to be merged"
            )
    return MergePlan(targets, _whole(body["batchBytes"], 2**31 - 1), opened)


def _target(each: Mapping[str, Any]) -> TargetPlan:
    topic = each["topic"]
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"topic {topic!r}")
    where = TopicPartition(topic, _whole(each["partition"], 2**31 - 1))
    runs = tuple(_run(values, where) for values in each["runs"])
    if not runs:
        raise ValueError(f"nothing for {where}")
    for one, following in pairwise(runs):
        if (one.leader_epoch, one.last_offset) >= _order(following):
            raise ValueError(f"runs of {where} are out of order")
    return TargetPlan(where, runs)


def _run(values: Sequence[Any], where: TopicPartition) -> Run:
    broker_id, name, leader_epoch, first_offset, last_offset = values
    told = parse_name(name)
    if told is None or told.partition != where.partition:
        raise ValueError(f"{name!r} is no copy of {where}")
    run = Run(
        _whole(broker_id, 2**31 - 1),
        name,
        _whole(leader_epoch, 2**31 - 1),
        _whole(first_offset, OFFSET_MAX),
        _whole(last_offset, OFFSET_MAX),
    )
    if not told.first_offset <= run.first_offset <= run.last_offset < told.next_offset:
        raise ValueError(f"{name} has no offsets {run.first_offset} to {run.last_offset}")
    return run


def _whole(value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not within 0 and {most}")
    return value
