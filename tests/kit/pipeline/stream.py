"""Logs of a cluster as a stream reads them, and Spark's side of a query."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import InvalidOption
from pipeline.source.offset_json import Offsets, TopicIds
from pipeline.source.offsets import fill_latest, questions, resolve, unfilled
from pipeline.source.options import parse_options
from pipeline.source.positions import LogEnd, Position
from pipeline.source.stream_planner import StreamPlanner, plan_between
from springtide.wire.fetch_response import EpochEnd


class Logs:
    """The logs of a cluster: where they begin and end, and in which leader epoch."""

    def __init__(self, ends: Offsets) -> None:
        self.begins: Offsets = dict.fromkeys(ends, 0)
        self.now = dict(ends)
        self.epochs = dict.fromkeys(ends, 4)
        self.epoch_end: dict[TopicPartition, EpochEnd] = {}
        self.epochs_asked: list[dict[TopicPartition, int]] = []
        self.now_ms = 1_000
        self.ids: TopicIds = {}

    def topic_ids(self) -> TopicIds:
        return dict(self.ids)

    def make_again(self, topic: str, ends: Offsets, topic_id: str) -> None:
        """Delete a topic and create it again, as a cluster does: in the first leader epoch."""
        for where in [one for one in self.now if one.topic == topic]:
            del self.now[where], self.begins[where], self.epochs[where]
        self.now |= ends
        self.begins |= dict.fromkeys(ends, 0)
        self.epochs |= dict.fromkeys(ends, 4)
        self.ids[topic] = topic_id

    def partitions(
        self,
        *,
        must_exist: bool,
        known: Collection[TopicPartition] = (),
        known_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> list[TopicPartition]:
        if must_exist and not self.now:
            raise InvalidOption("no topic")
        return sorted(self.now)

    def ends(self, partitions: list[TopicPartition], edge: LogEnd) -> dict[TopicPartition, FoundOffset]:
        held = self.now if edge is LogEnd.LATEST else self.begins
        return {where: FoundOffset(held[where], -1, self.epochs.get(where, -1)) for where in partitions}

    def resolve(
        self, position: Position, partitions: list[TopicPartition], *, latest: Offsets | None = None
    ) -> Offsets:
        ends = {**self.now, **(latest or {})}

        def find(asked: dict[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
            held = {-1: ends, -2: self.begins}
            return {where: FoundOffset(held[mark][where]) for where, mark in asked.items()}

        offsets = resolve(position, partitions, find(questions(position, partitions)))
        return fill_latest(offsets, find(unfilled(offsets)))

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self.epochs_asked.append(epochs)
        return {where: self.epoch_end.get(where, EpochEnd(epoch, 0)) for where, epoch in epochs.items()}

    def clock_ms(self) -> int:
        return self.now_ms


class Query:
    """Spark's side: keeps the checkpoint, asks for the next end, plans."""

    def __init__(self, logs: Logs, **options: str) -> None:
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
        self.options = parse_options(given, is_streaming=True)
        self.logs = logs
        self.checkpoint: str | None = None
        self.restart()

    def restart(self) -> None:
        self.planner = StreamPlanner(self.options, self.logs, self.logs.clock_ms)

    def trigger(self, *, is_limited: bool = True) -> list[PartitionRange]:
        """One micro-batch, through JSON as Spark has it."""
        start: Any = json.loads(self.checkpoint) if self.checkpoint else self.planner.initial()
        end = json.loads(json.dumps(self.planner.next_end(start, is_limited=is_limited)))
        self.checkpoint = json.dumps(end)
        return [one for task in plan_between(self.options, start, end) for one in task]
