"""How long a broker's loop is held when it has many partitions, in calls of functions and not in time.

The longest step of a task must not grow with the table: what concerns every partition is done in slices, what
time moves is looked for only where something happened.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable
from types import FrameType

import pytest
import trio

from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import FetchPosition
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from tests.kit.dataplane.node import TOPIC_ID, Node, endpoint, state
from tests.kit.memory.disk import MemoryDisk

PARTITIONS = 1_000
CALLS_MAX = 12_000
"""Of one step: a slice of 64 partitions takes some thousand, the whole table up to a hundred thousand."""
CALLS_TO_BEGIN_MAX = 20_000
"""Of the step in which 64 logs that were made begin."""
CALLS_AT_REST_MAX = 3_000
"""Of one tick with its report, when nothing has happened."""


class LongestStep(trio.abc.Instrument):
    """Counts the calls of Python functions between two turns of other tasks. The garbage of earlier tests is
    collected before: its finalizers would count as well."""

    def __init__(self) -> None:
        self.calls_max = 0
        self._calls = 0

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        self._calls += event == "call"

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._calls = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.calls_max = max(self.calls_max, self._calls)

    def __enter__(self) -> LongestStep:
        gc.collect()
        gc.disable()
        trio.lowlevel.add_instrument(self)
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()
        self.calls_max = max(self.calls_max, self._calls)
        trio.lowlevel.remove_instrument(self)


def led(number: int, *, epoch: int = 1, **changes: object) -> PartitionState:
    """Alternately led and followed by broker 1."""
    return state(
        partition=number,
        replicas=(1, 2),
        new_replicas=(1, 2),
        isr=(1, 2),
        leader=1 + number % 2,
        leader_epoch=epoch,
        partition_epoch=epoch,
        **changes,
    )


TOPIC = TopicState(topic_id=TOPIC_ID, topic="orders", partitions=PARTITIONS, replication_factor=2)
BROKERS = (endpoint(1), endpoint(2))


async def create(node: Node) -> None:
    await node.apply(*map(led, range(PARTITIONS)), topics=(TOPIC,), brokers=BROKERS, full=True)


async def take_over(node: Node) -> None:
    """As after the death of broker 2."""
    await node.apply(*(led(number, epoch=2) for number in range(PARTITIONS)), brokers=BROKERS)


async def hear_of_a_full_state(node: Node) -> None:
    await create(node)


async def change_the_configuration(node: Node) -> None:
    await node.apply(brokers=BROKERS, cluster_configs={"retention.ms": "1000"})


async def hear_of_a_new_incarnation(node: Node) -> None:
    await node.apply(brokers=(endpoint(1), endpoint(2, broker_epoch=99)))


async def delete(node: Node) -> None:
    await node.apply(brokers=BROKERS, deleted_topics=(TOPIC_ID,))


async def expire_and_retain(node: Node) -> None:
    await node.maintenance.apply_retention()
    await node.maintenance.flush_due()
    await node.maintenance.expire_producers()


@pytest.mark.parametrize(
    "work",
    [
        take_over,
        hear_of_a_full_state,
        change_the_configuration,
        hear_of_a_new_incarnation,
        delete,
        expire_and_retain,
    ],
)
def test_work_on_all_partitions_lets_other_tasks_have_their_turn(
    work: Callable[[Node], Awaitable[None]],
) -> None:
    async def main() -> None:
        node = Node(MemoryDisk())
        with LongestStep() as made:
            await create(node)
        assert len(node.table) == PARTITIONS
        with LongestStep() as done:
            await work(node)
        assert 0 < made.calls_max < CALLS_TO_BEGIN_MAX
        assert 0 < done.calls_max < CALLS_MAX

    trio.run(main)


def test_partitions_at_rest_cost_no_tick_and_no_report() -> None:
    async def main() -> None:
        node = Node(MemoryDisk())
        await create(node)

        async def tick() -> int:
            with LongestStep() as step:
                node.table.tick()
                reported = node.reports.untold.changed_lags(node.clock.mono_ms(), count_max=PARTITIONS)
                await trio.lowlevel.checkpoint()
            assert step.calls_max > 0
            return -1 if reported else step.calls_max

        for number in range(PARTITIONS):
            hosted = node.table.get(TOPIC_ID, number)
            assert hosted is not None
            fetch = ReplicaFetch(
                2, BrokerEpoch(10), FetchPosition(0, LeaderEpoch(-1), LeaderEpoch(1)), max_bytes=1
            )
            _, effects = hosted.replica.role.on_replica_fetch(fetch, now_ms=node.clock.mono_ms())
            node.effects.run(hosted, effects)
        await tick()
        await tick()
        assert 0 < await tick() < CALLS_AT_REST_MAX

    trio.run(main)
