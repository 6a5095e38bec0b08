"""Produce requests that wait for their partitions to commit.

A request is answered when the last of its partitions is; each partition's append hands the replica a waiter,
and gets it back with the final error. Timeouts, lost leadership and a shrunken in-sync set all come back the
same way, so nothing here looks at a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from dataplane.core.results import AppendResult
from dataplane.shell.metrics import BrokerCounters
from springtide.wire.errors import ErrorCode


class ProduceWaiter(Protocol):
    """One partition's part of a request: what the replica keeps. `result` is the append's own answer, set
    before anything can complete it."""

    result: AppendResult

    def settle(self, result: AppendResult) -> None:
        """The final word. Called once."""


class WaitingProduce:
    """A request of several partitions: what each was answered so far, in the order it asked."""

    __slots__ = ("_finish", "_pending", "results")

    def __init__(self, count: int, finish: Callable[[list[AppendResult]], None]) -> None:
        self.results: list[AppendResult | None] = [None] * count
        self._pending = count
        self._finish = finish

    def settle(self, index: int, result: AppendResult) -> None:
        assert self.results[index] is None, "a partition is answered once"
        self.results[index] = result
        self._pending -= 1
        if self._pending == 0:
            self._finish([result for result in self.results if result is not None])


class PartitionOfProduce:
    """A ProduceWaiter of a request with several partitions."""

    __slots__ = ("_index", "_produce", "result")

    def __init__(self, produce: WaitingProduce, index: int) -> None:
        self._produce = produce
        self._index = index
        self.result: AppendResult

    def settle(self, result: AppendResult) -> None:
        self._produce.settle(self._index, result)


class Produces:
    """All waiting Produce requests of a broker."""

    __slots__ = ("_counters", "waiting")

    def __init__(self, counters: BrokerCounters) -> None:
        self._counters = counters
        #: Partitions of requests that wait: the purgatory's size.
        self.waiting = 0

    def on_appended(self, waiter: ProduceWaiter, result: AppendResult) -> None:
        """The append's own answer; final unless it says that it waits."""
        if result.is_waiting:
            waiter.result = result
            self.waiting += 1
            return
        if result.error is not ErrorCode.NONE:
            self._counters.failed_produce_requests += 1
        waiter.settle(result)

    def on_complete(self, waiters: Iterable[object], error: ErrorCode) -> None:
        """The replica's word on partitions that waited."""
        for waiter in waiters:
            self.waiting -= 1
            result: AppendResult = waiter.result  # type: ignore[attr-defined]
            if error is not ErrorCode.NONE:
                self._counters.failed_produce_requests += 1
                result = AppendResult(error=error, log_start_offset=result.log_start_offset)
            waiter.settle(result)  # type: ignore[attr-defined]
