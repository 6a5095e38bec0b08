"""The process in which targets of large groups are made: tenths of a second of work, in which the loop serves
all other groups.

One question at a time. A process that ends, or takes too long, has given no answer; what then happens is the
group's decision (core/groups/consumer/targets.py). It is started with the first question, and stays.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import BinaryIO

import msgspec
import trio

from coordinator.core.groups.consumer.assigning import Answer, TargetQuestion
from coordinator.core.groups.consumer.targets import answer_to
from springtide.node.child_process import ChildEnded, ChildProcess, run_child
from springtide.node.clock import Clock
from springtide.node.threads import Threads

_log = logging.getLogger(__name__)

NICE = 1
ANSWER_MS_MAX = 60_000
"""Groups with a million partitions take seconds."""


class TargetProcess:
    """The coordinator's side."""

    def __init__(self, threads: Threads, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._limiter = trio.CapacityLimiter(1)
        self._turn = trio.Lock()
        self._is_asking = False
        self._child = ChildProcess(__name__)

    async def answer(self, question: TargetQuestion) -> Answer | None:
        """Return the target, None if the process gave none."""
        async with self._turn, trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            try:
                return await self._threads.run(partial(self._ask, question), limiter=self._limiter)
            except ChildEnded as error:
                group_id, epoch = question.group_id, question.epoch
                _log.warning("target_lost group=%s epoch=%d cause=%s", group_id, epoch, error)
                return None
            finally:
                self._is_asking = False
                nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        """End the process if it takes too long, or if the answer is not waited for any more."""
        try:
            self._is_asking = True
            await self._clock.sleep_ms(ANSWER_MS_MAX)
        finally:
            if self._is_asking:
                self._child.kill()

    def _ask(self, question: TargetQuestion) -> Answer:
        try:
            return msgspec.json.decode(self._child.ask(msgspec.json.encode(question)), type=Answer)
        except ChildEnded:
            self._child.close()
            raise

    def close(self) -> None:
        """End the process. No answer is waited for."""
        self._child.close()


# The process


def main() -> None:
    run_child(NICE, _serve)


def _serve(asked: BinaryIO, told: BinaryIO) -> None:
    while line := asked.readline():
        told.write(msgspec.json.encode(answer_to(msgspec.json.decode(line, type=TargetQuestion))) + b"\n")
        told.flush()


if __name__ == "__main__":
    main()
