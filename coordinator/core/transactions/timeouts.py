"""Transactions that are open for longer than their timeout are aborted, and their producers fenced.

A transaction's time runs on the monotonic clock of the process that began it. One that another process began
has the rest of its time by the wall clock; if that differs between the two, it is longer or shorter once.
"""

from __future__ import annotations

from coordinator.core.transaction_records import TransactionState
from coordinator.core.transactions.options import ENDS_PER_STEP
from coordinator.core.transactions.registry import (
    Prepared,
    TimeoutTimer,
    TransactionRegistry,
    TransactionTurn,
)
from coordinator.core.transactions.state import fenced


def begin_timeouts(registry: TransactionRegistry, turn: TransactionTurn) -> None:
    """Let the time of the transactions that are open go on in this process."""
    for transactional_id in registry.store.open_ids():
        stored = registry.store.latest(transactional_id)
        if stored is not None and stored.state is TransactionState.ONGOING:
            elapsed_ms = max(0, turn.wall_ms - stored.started_ms)
            registry.deadlines[transactional_id] = turn.now_ms + max(0, stored.timeout_ms - elapsed_ms)
    turn.timers[TimeoutTimer()] = turn.now_ms + registry.options.timeout_check_ms


def on_timeout_timer(registry: TransactionRegistry, turn: TransactionTurn) -> None:
    """Abort what is overdue, a part at a time. What is refused is found again with the next look."""
    store = registry.store
    ended: list[str] = []
    due = [key for key, at_ms in registry.deadlines.items() if at_ms <= turn.now_ms]
    for transactional_id in due:
        stored = store.latest(transactional_id)
        if store.is_under_way(transactional_id):
            continue
        if stored is None or stored.state is not TransactionState.ONGOING:
            del registry.deadlines[transactional_id]
        elif len(ended) < ENDS_PER_STEP:
            ended.append(transactional_id)
            turn.write(transactional_id, fenced(stored, wall_ms=turn.wall_ms))
    if ended:
        turn.work = Prepared(tuple(ended))
    is_more = len(ended) == ENDS_PER_STEP
    turn.timers[TimeoutTimer()] = turn.now_ms + (0 if is_more else registry.options.timeout_check_ms)
