"""The process in which large targets are made."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from coordinator.core.groups.consumer.assigning import Question, Subscriber
from coordinator.shell import target_process
from coordinator.shell.target_process import TargetProcess
from springtide.node.clock import MachineClock
from springtide.node.threads import TrioThreads

QUESTION = Question("g", 2, "uniform", [0, 3], [Subscriber(name, None, (0,), []) for name in "ab"])


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
        assert await process.answer(QUESTION) == [[0, 2], [1]]
        (child,) = children() - before
        os.kill(child, signal.SIGKILL)
        assert await process.answer(QUESTION) is None
        assert await process.answer(QUESTION) == [[0, 2], [1]]

    run(story)


def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()

    async def story(process: TargetProcess) -> None:
        assert await process.answer(QUESTION) == [[0, 2], [1]]
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
        assert await process.answer(QUESTION) == [[0, 2], [1]]

    run(story)
