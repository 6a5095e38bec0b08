"""A replica moves at its rate between real brokers, and nobody else is slowed by it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from controller.core.events import (
    AlterReassignments,
    BrokersConfigured,
    ConfigureBrokers,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.core.reassignment_progress import TargetProgress
from springtide.contract.throttles import FOLLOWER_RATE, LEADER_RATE
from tests.kit.dataplane.clients_in_threads import produce, read
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

SLOW = 30_000
"""At this rate the copy takes a minute: longer than the producers beside it."""
RATE = 600_000
BATCHES = {"batch.num.messages": 5, "enable.idempotence": True}
"""A batch is sent whole, so large ones would make the rate hard to see."""
VALUES = [random.Random(number).randbytes(10_000) for number in range(150)]
MORE = [random.Random(number).randbytes(10_000) for number in range(150, 200)]


def move(cluster: ClusterInProcess, topic_id: str, replicas: tuple[int, ...], rate: int | None) -> None:
    event = AlterReassignments(
        wall_ms=0,
        actor="test",
        operation_id="move",
        targets=(ReassignmentTarget(topic_id=topic_id, partition=0, replicas=replicas),),
        throttled_rate=rate,
    )
    reply = cluster.controller.submit(event)
    assert isinstance(reply, ReassignmentsAltered)
    assert reply.results[0].refusal is None


def set_rate(cluster: ClusterInProcess, broker_id: int, name: str, rate: int | None) -> None:
    configs = {name: None if rate is None else str(rate)}
    event = ConfigureBrokers(wall_ms=0, actor="test", broker_ids=(broker_id,), configs=configs)
    assert isinstance(cluster.controller.submit(event), BrokersConfigured)


@pytest.mark.parametrize("bound", ["operation", "follower", "leader"])
def test_a_move_keeps_to_its_rate_and_producers_do_not_feel_it(tmp_path: Path, bound: str) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "2"})
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all", **BATCHES)

            def limit(rate: int) -> None:
                if bound == "follower":
                    set_rate(cluster, 3, FOLLOWER_RATE, rate)
                elif bound == "leader":
                    set_rate(cluster, 1, LEADER_RATE, rate)
                else:
                    move(cluster, topic_id, (1, 3), rate)

            counters = cluster.brokers[3].broker.counters
            started = trio.current_time()
            limit(SLOW)
            if bound != "operation":
                move(cluster, topic_id, (1, 3), None)
            await cluster.controller.wait_for(lambda: counters.reassignment_bytes_in > 0, "it begins")

            await produce(cluster.bootstrap(), "orders", MORE, acks="all", **BATCHES)
            ends = {b: running.broker.table.get(topic_id, 0) for b, running in cluster.brokers.items()}
            held = {b: hosted.log.log_end_offset for b, hosted in ends.items() if hosted is not None}
            assert held[2] == 200, "acknowledged by both that are in sync"
            learned, elapsed = counters.reassignment_bytes_in, trio.current_time() - started
            assert learned <= SLOW * (elapsed + 1) + 100_000
            assert held[3] < 200, "which did not wait for the third"
            assert cluster.controller.state(topic_id).is_reassigning

            def learner() -> TargetProgress:
                (progress,) = cluster.controller.machine.reassignments(0)
                return progress.targets[1]

            await cluster.controller.wait_for(
                lambda: learner().copied_bytes is not None, "the leader reports"
            )
            assert learner().throttled_rate == SLOW
            assert learner().remaining_bytes is not None

            started, rest = trio.current_time(), 1_900_000 - counters.reassignment_bytes_in
            limit(RATE)
            await cluster.wait_isr(topic_id, 1, 3)
            state = cluster.controller.state(topic_id)
            assert (state.replicas, state.is_reassigning, state.throttle) == ((1, 3), False, None)
            copied, elapsed = counters.reassignment_bytes_in, trio.current_time() - started
            assert copied > 1_900_000
            assert elapsed > (rest - RATE) / RATE - 0.5, "a second's worth may come at once"
            sent = cluster.brokers[1].broker.counters
            assert sent.reassignment_bytes_out == copied
            assert await read(cluster.bootstrap(), "orders", 200) == VALUES + MORE

    trio.run(run)


def test_lifting_the_rate_lets_the_move_end_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "2"})
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all", **BATCHES)
            counters = cluster.brokers[3].broker.counters
            move(cluster, topic_id, (1, 3), 1_000)  # for half an hour
            await cluster.controller.wait_for(lambda: counters.reassignment_bytes_in > 0, "it begins")
            assert cluster.controller.state(topic_id).is_reassigning
            move(cluster, topic_id, (1, 3), None)
            await cluster.wait_isr(topic_id, 1, 3)

    trio.run(run)
