"""A replica moves at its rate between real brokers, and nobody else is slowed by it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from controller.contract.throttles import FOLLOWER_RATE, LEADER_RATE
from controller.core.events import (
    AlterReassignments,
    BrokersConfigured,
    ConfigureBrokers,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from tests.integration.dataplane.clients import produce, read
from tests.integration.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

RATE = 300_000
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
            if bound == "follower":
                set_rate(cluster, 3, FOLLOWER_RATE, RATE)
            elif bound == "leader":
                set_rate(cluster, 1, LEADER_RATE, RATE)
            counters = cluster.brokers[3].broker.counters
            started = trio.current_time()
            move(cluster, topic_id, (1, 3), RATE if bound == "operation" else None)
            await trio.sleep(0.7)
            learned, elapsed = counters.reassignment_bytes_in, trio.current_time() - started
            assert 0 < learned <= RATE * (elapsed + 1) + 100_000
            assert cluster.controller.state(topic_id).is_reassigning

            await produce(cluster.bootstrap(), "orders", MORE, acks="all", **BATCHES)
            ends = {b: running.broker.table.get(topic_id, 0) for b, running in cluster.brokers.items()}
            held = {b: hosted.log.log_end_offset for b, hosted in ends.items() if hosted is not None}
            assert held[2] == 200, "acknowledged by both that are in sync"
            assert held[3] < 150, "which did not wait for the third"

            (progress,) = cluster.controller.machine.reassignments(0)
            learner = progress.targets[1]
            assert learner.throttled_rate == RATE
            assert learner.copied_bytes is not None and learner.remaining_bytes is not None

            await cluster.wait_isr(topic_id, 1, 3)
            state = cluster.controller.state(topic_id)
            assert (state.replicas, state.is_reassigning, state.throttle) == ((1, 3), False, None)
            copied, elapsed = counters.reassignment_bytes_in, trio.current_time() - started
            assert copied > 1_900_000
            assert elapsed > (1_900_000 - RATE) / RATE - 0.5, "a second's worth may come at once"
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
            move(cluster, topic_id, (1, 3), 1_000)
            await trio.sleep(0.5)
            assert cluster.controller.state(topic_id).is_reassigning
            before = trio.current_time()
            move(cluster, topic_id, (1, 3), None)
            await cluster.wait_isr(topic_id, 1, 3)
            assert trio.current_time() - before < 5.0

    trio.run(run)
