"""A run from one seed: a streaming query of the source, while the topic that it reads is made again.

Spark's side is here: the offset log, the commit log, drivers that die and come back, as a running query or as
one `availableNow` run after another; a micro-batch that was written down is run again from its offsets. Rows
count when their micro-batch is committed. The planner and its questions are the source's own.

Strikes stop after a while, the query comes to its end, and the rows are judged. What was read of each log is
its first records, each once and in order. With `failOnDataLoss` every record acknowledged since the query
began is read, or the query has ended with an error, and no error without a reason. Without it the last topic
is read to its end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pipeline.client.client import Client
from pipeline.client.errors import OffsetsGone, RetriesExhausted
from pipeline.client.values import TopicPartition
from pipeline.errors import DataLossError, InvalidOption
from pipeline.source.cluster import SourceCluster
from pipeline.source.offset_json import Offsets, offsets_from_json, offsets_to_json, topic_ids_from_json
from pipeline.source.offsets import is_unresolved
from pipeline.source.options import SourceOptions, parse_options
from pipeline.source.start_state import Pinned, StartState
from pipeline.source.stream_planner import StreamPlanner, plan_between
from tests.pipeline_sim.source_world import TOPIC, DriverDied, Row, World, WorldClient

TURNS_FAULTY = (2, 6, 40)
"""Drivers until strikes stop. After few of them one strike alone decides what becomes of the rows."""
TURNS_CALM = 200
"""Drivers until a query must have come to its end."""


@dataclass(frozen=True, slots=True)
class SourcePlant:
    """What a planted bug replaces."""

    start_knows_topics: bool = True
    offsets_know_topics: bool = True
    plans_know_topics: bool = True
    tasks_know_topics: bool = True
    ids_before_ends: bool = True


@dataclass(slots=True)
class SourceVerdict:
    """`failure`: what is wrong; "" if nothing is. `loss`: the error that the query ended with."""

    failure: str = ""
    loss: str = ""
    rows: int = 0
    marks: Counter[str] = field(default_factory=Counter)


class MemoryState(StartState):
    """The option startState, in memory."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self._pinned: Pinned | None = None
        self._kept: dict[TopicPartition, int] = {}

    def pinned(self) -> Pinned | None:
        return self._pinned

    def pin(self, offsets: Offsets, topic_ids: Mapping[str, str]) -> Pinned:
        self._pinned = self._pinned or Pinned(dict(offsets), dict(topic_ids))
        return self._pinned

    def epochs(self) -> dict[TopicPartition, int]:
        return dict(self._kept)

    def remember(self, epochs: Mapping[TopicPartition, int]) -> None:
        self._kept = {where: epoch for where, epoch in epochs.items() if epoch >= 0}


class SourceSimulation:
    def __init__(self, seed: int, plant: SourcePlant) -> None:
        self.rng = random.Random(seed)
        self.plant = plant
        self.world = World(self.rng)
        self.options = self._options()
        self.state = MemoryState() if self.rng.random() < 0.4 else None
        self.is_available_now = self.rng.random() < 0.4
        self.offset_log: list[Any] = []
        self.commits = 0
        self.rows: list[Row] = []
        self.first_id = ""
        """Of the topic in which the query begins."""
        self.verdict = SourceVerdict(marks=self.world.marks)

    def _options(self) -> SourceOptions:
        given = {"kafka.bootstrap.servers": "memory:1", "subscribe": TOPIC, "startingOffsets": "earliest"}
        if self.rng.random() < 0.5:
            given["failOnDataLoss"] = "false"
        if self.rng.random() < 0.4:
            given["maxOffsetsPerTrigger"] = str(self.rng.randint(1, 20))
        return parse_options(given, is_streaming=True)

    def run(self) -> SourceVerdict:
        turns, faulty = 0, self.rng.choice(TURNS_FAULTY)
        is_over = False
        while not is_over:
            turns += 1
            if turns == faulty:
                self.world.be_calm()
            if turns > faulty + TURNS_CALM:
                self.verdict.failure = "the query does not come to its end"
                return self.verdict
            try:
                is_over = self.one_driver() and self.world.is_calm
            except (DriverDied, RetriesExhausted, InvalidOption) as error:
                self.verdict.marks[type(error).__name__] += 1
            except (DataLossError, OffsetsGone) as error:
                self.verdict.loss = str(error)
                break
        self.judge()
        return self.verdict

    # Spark.

    def one_driver(self) -> bool:
        """Run the query until its driver dies, or it has nothing to do; return whether it has read all."""
        client = WorldClient(self.world)
        cluster = SourceCluster(self.options, _as_client(client))
        planner = StreamPlanner(self.options, cluster, client.now_ms, self.state)
        if self.is_available_now:
            planner.freeze()
        if self.commits < len(self.offset_log):
            self.verdict.marks["run again"] += 1
            self.micro_batch(planner, self.offset_log[self.commits])
        while True:
            start = self.start(planner)
            planned = planner.next_end(start, is_limited=True)
            end = self.as_planned(client, planned)
            if is_unresolved(start):
                self.first_id = topic_ids_from_json(planned)[TOPIC]
                if not self.plant.start_knows_topics:
                    end = offsets_to_json(offsets_from_json(end))
            if end == start:
                return True
            self.world.happen()
            self.offset_log.append(end)
            self.micro_batch(planner, end)

    def as_planned(self, client: WorldClient, end: object) -> Any:
        """Return the end as Spark keeps it, which is as JSON."""
        told = json.loads(json.dumps(end))
        if not self.plant.offsets_know_topics:
            return offsets_to_json(offsets_from_json(told))
        if not self.plant.ids_before_ends:
            ids = SourceCluster(self.options, _as_client(client))
            ids.metadata()
            return offsets_to_json(offsets_from_json(told), ids.topic_ids())
        return told

    def start(self, planner: StreamPlanner) -> Any:
        return self.offset_log[self.commits - 1] if self.commits else planner.initial()

    def micro_batch(self, planner: StreamPlanner, end: Any) -> None:
        ids = topic_ids_from_json(end) if self.plant.tasks_know_topics else {}
        skip_gone = not self.options.fail_on_data_loss
        rows: list[Row] = []
        start = self.start(planner)
        if not self.plant.plans_know_topics and not is_unresolved(start):
            start = offsets_to_json(offsets_from_json(start))
        for task in plan_between(self.options, start, end):
            for one in task:
                rows += self.world.read(one, ids.get(one.topic, ""), skip_gone=skip_gone)
        self.world.happen()
        self.rows += rows
        self.commits += 1
        self.verdict.marks["micro-batches"] += 1

    # What is judged.

    def judge(self) -> None:
        verdict, world = self.verdict, self.world
        verdict.rows = len(self.rows)
        read: dict[tuple[int, int], list[int]] = {}
        for number, p, offset in self.rows:
            read.setdefault((number, p), []).append(offset)
        for log, offsets in sorted(read.items()):
            if offsets != list(range(len(offsets))):
                verdict.failure = f"of the log {log} these were read: {offsets}"
        if verdict.loss:
            if len(world.topics) == 1 and not world.is_deleted:
                verdict.failure = f"an error without a reason: {verdict.loss}"
            if not self.options.fail_on_data_loss:
                verdict.failure = f"losses are accepted, but: {verdict.loss}"
            return
        first = [topic.topic_id for topic in world.topics].index(self.first_id)
        owed = world.topics[first:] if self.options.fail_on_data_loss else world.topics[-1:]
        for topic in owed:
            for p, end in enumerate(topic.ends):
                if (count := len(read.get((topic.number, p), []))) != end:
                    verdict.failure = (
                        f"{count} of {end} records of {topic.number, p} were read, without an error"
                    )


def _as_client(client: WorldClient) -> Client:
    """The part of a client that the source's questions use."""
    return cast("Client", client)


def run_source_seed(seed: int, *, plant: SourcePlant | None = None) -> SourceVerdict:
    return SourceSimulation(seed, plant or SourcePlant()).run()
