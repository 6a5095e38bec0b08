"""Where the effects of a broker leave: each entry that is no request's is a turn of its own, to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import trio

from dataplane.core.effects import CopyDivergent, LogStartMoved
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import LagReportResponse
from springtide.node.node import ServingNode
from tests.kit.dataplane.node import Node, state
from tests.kit.memory.disk import MemoryDisk


def test_each_entry_ends_its_turn() -> None:
    """An answer that it completed would else wait for the next request of any client."""

    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(), full=True)
        node.produce(3)
        hosted = node.hosted()
        aside = CopyDivergent(1, 0, 1, LeaderEpoch(1), 0, 0)

        entries: dict[str, Callable[[], Any]] = {
            "tick": node.table.tick,
            "tick of those that wait": node.table.tick_waiting,
            "report answered": lambda: node.reports.on_report_answered(LagReportResponse(), 0),
            "retention": lambda: node.effects.tell_log_start(hosted),
            "log start stored": lambda: node.effects.run(hosted, (LogStartMoved(),)),
            "written aside": lambda: node.effects.run(hosted, (aside,)),
            "directory failed": lambda: node.table.on_storage_failure(lambda _: True, "it failed"),
        }
        for name, enter in entries.items():
            before = node.turns
            enter()
            await node.work()
            assert node.turns > before, name

    trio.run(test)


def test_a_request_does_not_end_the_turn_that_the_server_ends() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(), full=True)
        before = node.turns
        node.produce(3)
        assert node.turns == before

    trio.run(test)


def test_a_task_of_the_broker_ends_a_turn() -> None:
    told: list[str] = []
    started: list[Callable[[], Awaitable[None]]] = []
    node: Any = SimpleNamespace(
        _nursery=SimpleNamespace(start_soon=started.append), end_turn=lambda: told.append("turn")
    )

    async def work() -> None:
        told.append("work")

    ServingNode.spawn(node, work)
    trio.run(started[0])
    assert told == ["work", "turn"]
