"""A replay from its files to a cluster in memory: killed anywhere, started again, each record once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from pipeline.client.client import Deadline
from pipeline.client.config import ClientConfig
from pipeline.client.values import TopicPartition
from pipeline.errors import DeliveryFailed, ReplayError
from pipeline.records.decode import decode_records
from pipeline.replay.lake import Lake, find_parquet
from pipeline.replay.plan import Partitioning, ReplayPlan, ReplaySettings, plan_rounds
from pipeline.replay.replayer import Means, ReplayProgress, run_rounds, tasks_of
from pipeline.replay.run_state import RunState, check_same
from pipeline.replay.task import ReplayTask, run_task
from pipeline.sink.commit import TaskReport
from springtide.wire.compression import Compression
from tests.kit.pipeline.memory_cluster import MemoryClient, MemoryCluster
from tests.pipeline_sim.partition import SimulatedPartition

TOPIC = "orders"
PARTITIONS = 3


class Killed(Exception):
    """The process is gone."""


class ReplayClient(MemoryClient):
    """With what else a replay uses of a client. It is killed after `requests_left` produce requests."""

    def __init__(self, cluster: MemoryCluster, requests_left: int | None = None) -> None:
        super().__init__(cluster)
        self._requests_left = requests_left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def now_ms(self) -> int:
        return self.cluster.now_ms

    def deadline(self, budget_ms: int) -> Deadline:
        return Deadline(self, budget_ms)  # type: ignore[arg-type]

    def produce_once(self, batches: Any, topic_ids: Any = MappingProxyType({})) -> Any:
        if self._requests_left is not None:
            if self._requests_left == 0:
                raise Killed
            self._requests_left -= 1
        return super().produce_once(batches, topic_ids)


class Replay:
    """A lake of files, a plan for it and a cluster to replay it to."""

    def __init__(self, path: Path, *, files: int = 4, rows: int = 100, partitioning: Partitioning) -> None:
        self.cluster = MemoryCluster.of(TOPIC, PARTITIONS)
        lake = path / "lake"
        lake.mkdir()
        self.expected: dict[int, list[str]] = {}
        for number in range(files):
            values = [f"{number}:{row}" * 9 for row in range(rows)]
            partition = number % PARTITIONS
            table = pa.table(
                {"value": values, "key": values, "partition": pa.array([partition] * rows, pa.int32())}
            )
            pq.write_table(table, lake / f"{number}.parquet", row_group_size=17)
            self.expected.setdefault(partition, []).extend(values)
        self.lake = Lake.at(str(lake))
        self.checkpoint = path / "checkpoint"
        settings = ReplaySettings(
            run_id="run-1",
            source=str(lake),
            topic=TOPIC,
            topic_id="",
            partition_count=PARTITIONS,
            partitioning=partitioning,
            batch_bytes=2_048,
        )
        found = find_parquet(self.lake)
        self.plan = ReplayPlan(settings, plan_rounds(found.streams, tasks=2, records_per_task=rows))
        self.seen: list[ReplayProgress] = []

    def run(
        self,
        *,
        requests_left: Callable[[ReplayTask], int | None] = lambda _: None,
        plan: ReplayPlan | None = None,
        means: dict[str, Any] | None = None,
    ) -> ReplayProgress:
        """One driver, from its start to its end."""

        def run_tasks(tasks: Sequence[ReplayTask]) -> list[TaskReport]:
            return [
                run_task(task, lambda task: ReplayClient(self.cluster, requests_left(task)))  # type: ignore[arg-type,return-value]
                for task in tasks
            ]

        state = RunState(str(self.checkpoint))
        return run_rounds(
            state.keep(plan or self.plan),
            state,
            ReplayClient(self.cluster),  # type: ignore[arg-type]
            Means(self.lake, ClientConfig(bootstrap=(("memory", 1),)), **(means or {})),
            run_tasks,
            on_progress=self.seen.append,
        )

    def stored(self) -> dict[int, list[str]]:
        return {
            where.partition: [
                value.decode()
                for batch in decode_records(data, topic=TOPIC, partition=where.partition)
                for value in batch.column("value").to_pylist()
            ]
            for where, data in self.cluster.stored().items()
        }


@pytest.fixture(params=Partitioning)
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Replay:
    return Replay(tmp_path, partitioning=request.param)


def check_stored_once(replay: Replay) -> None:
    stored = replay.stored()
    assert sorted(v for each in stored.values() for v in each) == sorted(
        v for each in replay.expected.values() for v in each
    )
    if replay.plan.settings.partitioning is Partitioning.KEEP:
        for partition, values in replay.expected.items():
            assert sorted(stored[partition]) == sorted(values)


def in_order(replay: Replay) -> bool:
    """Whether the rows of each file stand in each partition in the file's order."""
    place = {value: at for values in replay.expected.values() for at, value in enumerate(values)}
    return all(
        [place[value] for value in values if value.split(":")[0] == number]
        == sorted(place[value] for value in values if value.split(":")[0] == number)
        for values in replay.stored().values()
        for number in {value.split(":")[0] for value in values}
    )


def test_all_is_stored_once_and_a_second_run_adds_nothing(replay: Replay) -> None:
    done = replay.run()
    assert done == ReplayProgress(2, 400, 400)
    check_stored_once(replay)
    assert in_order(replay)
    requests = len(replay.cluster.sent)
    assert replay.run() == done
    assert len(replay.cluster.sent) == requests, "nothing is even sent"


def test_killed_at_any_request_it_goes_on_and_stores_each_record_once(tmp_path: Path) -> None:
    for seed in range(12):
        dice = random.Random(seed)
        here = tmp_path / str(seed)
        here.mkdir()
        replay = Replay(here, partitioning=dice.choice(list(Partitioning)))
        drivers = 0
        while True:
            drivers += 1
            limit = dice.randrange(8)
            replay.cluster.lose_answers = dice.randrange(2)
            with contextlib.suppress(Killed):
                replay.run(requests_left=lambda _, limit=limit: limit)  # type: ignore[misc]
                break
            assert drivers < 60, "it does not get on"
        check_stored_once(replay)
        assert in_order(replay), seed


def test_a_driver_that_dies_before_its_commit_leaves_nothing_twice(replay: Replay) -> None:
    state = RunState(str(replay.checkpoint))
    plan = state.keep(replay.plan)
    means = Means(replay.lake, ClientConfig(bootstrap=(("memory", 1),)))
    for task in tasks_of(plan, 0, state, means):
        run_task(task, lambda _: ReplayClient(replay.cluster))  # type: ignore[arg-type,return-value]
    assert replay.run() == ReplayProgress(2, 400, 400)
    check_stored_once(replay)


def test_an_attempt_of_an_earlier_round_adds_nothing(replay: Replay) -> None:
    state = RunState(str(replay.checkpoint))
    zombie = tasks_of(
        state.keep(replay.plan), 0, state, Means(replay.lake, ClientConfig(bootstrap=(("m", 1),)))
    )
    replay.run()
    for task in zombie:
        # Fenced where a later round wrote; where none did, all of it is there.
        with contextlib.suppress(DeliveryFailed):
            run_task(task, lambda _: ReplayClient(replay.cluster))  # type: ignore[arg-type,return-value]
    check_stored_once(replay)


def test_another_codec_or_another_rate_does_not_make_it_another_replay(replay: Replay) -> None:
    with contextlib.suppress(Killed):
        replay.run(requests_left=lambda _: 2, means={"compression": Compression.ZSTD})
    replay.run(means={"compression": Compression.LZ4})
    check_stored_once(replay)


def test_a_target_that_grows_meanwhile_gets_keys_where_they_began_to_go(tmp_path: Path) -> None:
    replay = Replay(tmp_path, partitioning=Partitioning.MURMUR2)
    with pytest.raises(Killed):
        replay.run(requests_left=lambda task: None if task.round == 0 else 0)
    replay.cluster.partitions[TopicPartition(TOPIC, PARTITIONS)] = SimulatedPartition(is_wide=True)
    replay.run()
    check_stored_once(replay)
    assert replay.stored()[PARTITIONS] == []


def test_a_target_that_is_another_topic_by_now_is_refused(replay: Replay) -> None:
    with contextlib.suppress(Killed):
        replay.run(requests_left=lambda _: 1)
    del replay.cluster.partitions[TopicPartition(TOPIC, PARTITIONS - 1)]
    with pytest.raises(ReplayError, match="deleted and created again"):
        replay.run()


def test_the_plan_that_was_first_holds(replay: Replay) -> None:
    with contextlib.suppress(Killed):
        replay.run(requests_left=lambda _: 1)
    other = replace(replay.plan, settings=structs.replace(replay.plan.settings, run_id="run-2"), rounds=())
    assert replay.run(plan=other) == ReplayProgress(2, 400, 400)
    check_stored_once(replay)


def test_a_checkpoint_of_another_replay_is_refused(replay: Replay) -> None:
    wanted = structs.replace(replay.plan.settings, topic="payments", from_ms=7)
    with pytest.raises(
        ReplayError, match="TOPIC was orders, now payments; --starting-timestamp was -1, now 7"
    ):
        check_same(replay.plan, wanted.identity(), replay.checkpoint)
    check_same(replay.plan, structs.replace(replay.plan.settings, run_id="x").identity(), replay.checkpoint)


def test_a_checkpoint_that_lost_files_is_not_guessed_at(replay: Replay) -> None:
    replay.run()
    (replay.checkpoint / "springtide-sink" / "0" / "committed.json").unlink()
    with pytest.raises(ReplayError, match="not of all before them"):
        replay.run()


def test_a_checkpoint_must_be_where_files_can_be_created_atomically() -> None:
    with pytest.raises(ReplayError, match="not on a mounted file system"):
        RunState("s3://bucket/checkpoint")


def test_progress_counts_what_earlier_runs_did(replay: Replay) -> None:
    with contextlib.suppress(Killed):
        replay.run(requests_left=lambda task: None if task.round == 0 else 0)
    assert replay.seen[-1] == ReplayProgress(1, 200, 200)
    replay.seen.clear()
    replay.run()
    assert replay.seen == [ReplayProgress(1, 200, 200), ReplayProgress(2, 400, 400)]


def test_a_target_made_again_before_the_last_round_gets_nothing_of_it(replay: Replay) -> None:
    """The round opened the new topic, and the replay was done with all earlier rounds gone."""
    old, new = str(UUID(int=7)), str(UUID(int=8))
    replay.cluster.ids[TOPIC] = old
    plan = replay.plan
    plan = replace(plan, settings=structs.replace(plan.settings, topic_id=old))
    last = len(plan.rounds) - 1

    def again(task: ReplayTask) -> None:
        if task.round == last and replay.cluster.ids[TOPIC] == old:
            replay.cluster.make_again(TOPIC, new)

    with pytest.raises(ReplayError, match="deleted and created again since the replay was planned"):
        replay.run(plan=plan, requests_left=again)
    assert set(replay.cluster.stored().values()) == {b""}
