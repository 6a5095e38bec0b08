"""The machine of a shard of `__transaction_state` (coordinator/core/machine.py says what a machine is)."""

from __future__ import annotations

from collections.abc import Hashable

from coordinator.core.machine import ShardRecord, StepOutcome
from coordinator.core.transactions.markers import MarkerBook
from coordinator.core.transactions.options import TransactionOptions
from springtide.wire.errors import ErrorCode


class TransactionMachine:
    """Transactional ids. Events are the requests and TimerDue. markers: what the shell takes after each
    step."""

    __slots__ = ("markers", "options")

    def __init__(self, options: TransactionOptions) -> None:
        self.options = options
        self.markers = MarkerBook()

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        raise NotImplementedError

    def apply(self, record: ShardRecord, offset: int) -> None:
        raise NotImplementedError

    def committed(self, offset: int) -> None:
        pass

    def undo(self, offset: int) -> None:
        pass

    def written(self, work: Hashable, now_ms: int, wall_ms: int) -> StepOutcome:
        return StepOutcome()

    def refused(self, work: Hashable, error: ErrorCode, now_ms: int, wall_ms: int) -> StepOutcome:
        return StepOutcome()

    def opened(self, now_ms: int, wall_ms: int) -> StepOutcome:
        return StepOutcome()

    def closed(self) -> tuple[int, ...]:
        return ()
