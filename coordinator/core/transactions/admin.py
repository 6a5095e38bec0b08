"""Requests of operators: describe and list transactions. What is committed is told."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.transaction_records import StoredTransaction, TransactionState
from coordinator.core.transactions.id_patterns import UnknownPattern, compile_pattern
from coordinator.core.transactions.registry import TransactionRegistry, TransactionTurn
from coordinator.core.transactions.requests import (
    NO_CLIENT,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsReply,
    ListedTransaction,
    ListTransactions,
    ListTransactionsReply,
)
from coordinator.core.transactions.state import is_open
from springtide.wire.errors import ErrorCode

_STATES = {state.title for state in TransactionState} | {"Dead", "PrepareEpochFence"}
"""All that Kafka knows; no transaction is listed in the last two."""


def describe_transactions(
    registry: TransactionRegistry, turn: TransactionTurn, request: DescribeTransactions
) -> None:
    described = tuple(_describe(registry, asked) for asked in request.transactional_ids)
    turn.reply(request.token, DescribeTransactionsReply(described))


def _describe(registry: TransactionRegistry, transactional_id: str) -> DescribedTransaction:
    stored = registry.store.committed(transactional_id)
    if not transactional_id or stored is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(error=error, transactional_id=transactional_id)
    return DescribedTransaction(
        error=ErrorCode.NONE,
        transactional_id=transactional_id,
        state=stored.state.title,
        timeout_ms=stored.timeout_ms,
        started_ms=stored.started_ms,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        partitions=registry.unmarked(transactional_id, stored),
        client=registry.clients.get(transactional_id, NO_CLIENT),
    )


def list_transactions(
    registry: TransactionRegistry, turn: TransactionTurn, request: ListTransactions
) -> None:
    unknown = tuple(state for state in request.states if state not in _STATES)
    try:
        matches = compile_pattern(request.pattern) if request.pattern else None
    except UnknownPattern:
        turn.reply(request.token, ListTransactionsReply(ErrorCode.INVALID_REGULAR_EXPRESSION, unknown))
        return
    is_asked = _filter(request, turn.wall_ms)
    listed = tuple(
        ListedTransaction(transactional_id, stored.producer_id, stored.state.title)
        for transactional_id, stored in registry.store.transactions.committed_items()
        if is_asked(stored) and (matches is None or matches(transactional_id))
    )
    turn.reply(request.token, ListTransactionsReply(ErrorCode.NONE, unknown, listed))


def _filter(request: ListTransactions, wall_ms: int) -> Callable[[StoredTransaction], bool]:
    states, producer_ids = frozenset(request.states), frozenset(request.producer_ids)

    def is_asked(stored: StoredTransaction) -> bool:
        if states and stored.state.title not in states:
            return False
        if producer_ids and stored.producer_id not in producer_ids:
            return False
        if request.duration_ms < 0:
            return True
        return is_open(stored) and wall_ms - stored.started_ms > request.duration_ms

    return is_asked
