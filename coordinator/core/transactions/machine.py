"""The machine of a shard of `__transaction_state` (coordinator/core/machine.py says what a machine is)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from coordinator.core.machine import ShardRecord, StepOutcome, TimerDue
from coordinator.core.transactions.admin import describe_transactions, list_transactions
from coordinator.core.transactions.ends import (
    complete,
    end_transaction,
    follow_decisions,
    markers_written,
    on_completed,
)
from coordinator.core.transactions.expiry import on_expiry_timer
from coordinator.core.transactions.init import init_producer
from coordinator.core.transactions.markers import MarkerBook
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.partitions import add_partitions, on_held_timer, verify_partitions
from coordinator.core.transactions.registry import (
    Completed,
    HeldTimer,
    IdExpiryTimer,
    Prepared,
    TimeoutTimer,
    TransactionRegistry,
    TransactionTurn,
)
from coordinator.core.transactions.requests import (
    AddToTransaction,
    DescribeTransactions,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    VerifyPartitions,
)
from coordinator.core.transactions.timeouts import begin_timeouts, on_timeout_timer
from springtide.wire.errors import ErrorCode

_ON_REQUEST: dict[type, Callable[[TransactionRegistry, TransactionTurn, Any], None]] = {
    InitProducer: init_producer,
    AddToTransaction: add_partitions,
    VerifyPartitions: verify_partitions,
    EndTransaction: end_transaction,
    MarkersWritten: markers_written,
    DescribeTransactions: describe_transactions,
    ListTransactions: list_transactions,
}


class TransactionMachine:
    """Transactional ids. Events are the requests and TimerDue. markers: what the shell takes after each
    step."""

    __slots__ = ("registry",)

    def __init__(self, options: TransactionOptions) -> None:
        self.registry = TransactionRegistry(options)

    @property
    def markers(self) -> MarkerBook:
        return self.registry.markers

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = TransactionTurn(now_ms, wall_ms)
        match event:
            case TimerDue(key=TimeoutTimer()):
                on_timeout_timer(self.registry, turn)
            case TimerDue(key=HeldTimer(transactional_id)):
                on_held_timer(self.registry, turn, transactional_id)
            case TimerDue(key=IdExpiryTimer(), expiry_ms=expiry_ms):
                on_expiry_timer(self.registry, turn, expiry_ms)
            case _:
                _ON_REQUEST[type(event)](self.registry, turn, event)
        return turn.outcome()

    def apply(self, record: ShardRecord, offset: int) -> None:
        self.registry.store.apply(record, offset)

    def committed(self, offset: int) -> None:
        self.registry.store.commit(offset)

    def undo(self, offset: int) -> None:
        self.registry.store.undo(offset)

    def written(self, work: Hashable, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = TransactionTurn(now_ms, wall_ms)
        match work:
            case Prepared(transactional_ids):
                follow_decisions(self.registry, turn, transactional_ids)
            case Completed():
                on_completed(self.registry, work)
        return turn.outcome()

    def refused(self, work: Hashable, error: ErrorCode, now_ms: int, wall_ms: int) -> StepOutcome:
        """Write ends again whose markers are written: none is sent a second time. Of many decisions the first
        ones may have been in a batch of their own, which is committed."""
        turn = TransactionTurn(now_ms, wall_ms)
        match work:
            case Prepared(transactional_ids):
                follow_decisions(self.registry, turn, transactional_ids)
            case Completed(transactional_ids):
                complete(self.registry, turn, transactional_ids)
        return turn.outcome()

    def opened(self, now_ms: int, wall_ms: int) -> StepOutcome:
        """Let markers of all decided ends be due, and time go on."""
        registry, turn = self.registry, TransactionTurn(now_ms, wall_ms)
        follow_decisions(registry, turn, sorted(registry.store.open_ids()))
        begin_timeouts(registry, turn)
        turn.timers[IdExpiryTimer()] = now_ms + registry.options.expiration_check_ms
        return turn.outcome()

    def closed(self) -> tuple[int, ...]:
        return tuple(request.token for held in self.registry.held.values() for request in held)
