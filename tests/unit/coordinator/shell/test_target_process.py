"""The process in which large targets are made."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
import trio
import trio.lowlevel

from coordinator.core.groups.consumer.assigning import AskedMember, TargetQuestion
from coordinator.shell import target_process
from coordinator.shell.target_process import TargetProcess
from springtide.node.clock import MachineClock
from springtide.node.threads import TrioThreads

TOPIC = UUID(int=7)
HELD = {TOPIC: (1, 2)}
QUESTION = TargetQuestion(
    "g", 2, "uniform", [TOPIC], [0, 3], [AskedMember("a", None, (0,), {}), AskedMember("b", None, (0,), HELD)]
)
ANSWER = [[0], None]


def run(story: Callable[[TargetProcess], Awaitable[None]]) -> None:
    async def with_process() -> None:
        process = TargetProcess(TrioThreads(), MachineClock())
        try:
            await story(process)
        finally:
            process.close()

    trio.run(with_process)


def children() -> set[int]:
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(child) for each in lists for child in each.read_text().split()}


def test_it_answers_and_a_process_that_is_killed_has_lost_one_answer_and_no_other() -> None:
    before = children()

    async def story(process: TargetProcess) -> None:
        assert await process.answer(QUESTION) == ANSWER
        (child,) = children() - before
        os.kill(child, signal.SIGKILL)
        assert await process.answer(QUESTION) is None
        assert await process.answer(QUESTION) == ANSWER

    run(story)


def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()

    async def story(process: TargetProcess) -> None:
        assert await process.answer(QUESTION) == ANSWER
        (child,) = children() - before
        os.kill(child, signal.SIGSTOP)
        monkeypatch.setattr(target_process, "ANSWER_MS_MAX", 50)
        assert await process.answer(QUESTION) is None

    run(story)


def test_an_answer_that_is_not_waited_for_any_more_holds_nothing_up() -> None:
    async def story(process: TargetProcess) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(process.answer, QUESTION))
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert await process.answer(QUESTION) == ANSWER

    run(story)
