"""EndTxn, under both versions, and what follows a decision: markers, and the record that they are written.

What a producer asks for at which epoch, against what is stored:

                      version 1: its epoch    version 2: its epoch             version 2: the one before
                      commit    abort         commit    abort                  commit    abort
    EMPTY             STATE     STATE         STATE     bump                   FENCED    FENCED
    ONGOING           decide    decide        decide    decide                 FENCED    FENCED
    PREPARE_COMMIT    WAIT      STATE         WAIT      WAIT                   WAIT      STATE
    PREPARE_ABORT     STATE     WAIT          WAIT      WAIT                   FENCED    WAIT
    COMPLETE_COMMIT   NONE      STATE         STATE     bump                   NONE      STATE
    COMPLETE_ABORT    STATE     NONE          STATE     bump                   FENCED    NONE

STATE: INVALID_TXN_STATE; WAIT: CONCURRENT_TRANSACTIONS; FENCED: PRODUCER_FENCED. Another epoch is fenced,
another producer id is INVALID_PRODUCER_ID_MAPPING. Under version 2 the epoch before is a request that comes
again, since each end bumps; after the last epoch it is that of the id before. A commit that comes after an
abort was not answered otherwise before: the coordinator aborted (KAFKA-20785). While a record of the id is
under way, or the next transaction is held for the markers of this one, all are told to wait.

Under version 1 a request that the network has held back, and that the client has asked again by another
connection, may come when the next transaction is open (KAFKA-17754). Clients have one connection to their
coordinator at a time, so what comes by an earlier one than the transaction's partitions did is of an earlier
transaction: it decides nothing, and its connection is closed. A client that did mean it asks again.

An abort of nothing (bump) is decided and complete at once: no partition needs a marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.transaction_records import NO_PRODUCER_ID, StoredTransaction, TransactionState
from coordinator.core.transactions.partitions import add_held
from coordinator.core.transactions.registry import Completed, Prepared, TransactionRegistry, TransactionTurn
from coordinator.core.transactions.requests import (
    EndTransaction,
    EndTransactionReply,
    LeftConnection,
    MarkersReply,
    MarkersWritten,
    NeedsProducerId,
)
from coordinator.core.transactions.state import (
    BUMPS_AT_END,
    EPOCH_MAX,
    PREPARED,
    completed,
    is_exhausted,
    is_idle,
    next_owner,
    prepared,
)
from springtide.wire.errors import ErrorCode

_COMMITS = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})


def end_transaction(registry: TransactionRegistry, turn: TransactionTurn, request: EndTransaction) -> None:
    store, transactional_id = registry.store, request.transactional_id
    stored = store.latest(transactional_id)
    if store.is_under_way(transactional_id) or transactional_id in registry.held:
        _answer(turn, request, ErrorCode.CONCURRENT_TRANSACTIONS)
    elif stored is None:
        _answer(turn, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    else:
        bumps = request.version >= BUMPS_AT_END
        error = _check_bumping(stored, request) if bumps else _check_first(stored, request)
        if error is None and not bumps and registry.has_left(transactional_id, request.client):
            turn.reply(request.token, LeftConnection())
        elif error is None:
            registry.note_client(transactional_id, request.client)
            _decide(turn, request, stored)
        else:
            owner = (stored.producer_id, stored.producer_epoch) if bumps and not error else None
            _answer(turn, request, error, owner)


def _check_first(stored: StoredTransaction, request: EndTransaction) -> ErrorCode | None:
    """Return what version 1 is told, None to decide."""
    if request.producer_id != stored.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != stored.producer_epoch or request.producer_epoch == EPOCH_MAX:
        return ErrorCode.PRODUCER_FENCED
    if stored.state is TransactionState.ONGOING:
        return None
    if stored.state is TransactionState.EMPTY or (stored.state in _COMMITS) != request.is_commit:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if stored.state in PREPARED else ErrorCode.NONE


def _check_bumping(stored: StoredTransaction, request: EndTransaction) -> ErrorCode | None:
    """Return what version 2 is told, None to decide."""
    told = (request.producer_id, request.producer_epoch)
    if _comes_again(stored, told):
        return _check_again(stored, request)
    if stored.state in PREPARED and told in (
        (stored.producer_id, stored.producer_epoch),
        next_owner(stored),
    ):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if request.producer_id != stored.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != stored.producer_epoch or request.producer_epoch == EPOCH_MAX:
        return ErrorCode.PRODUCER_FENCED
    if is_idle(stored) and request.is_commit:
        return ErrorCode.INVALID_TXN_STATE
    return None


def _comes_again(stored: StoredTransaction, told: tuple[int, int]) -> bool:
    """Return whether the end that is stored was asked for under this producer id and epoch, or comes in the
    place of one that was."""
    if stored.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    if stored.version < BUMPS_AT_END:  # no end has bumped: the epoch before was another owner's
        return False
    if stored.producer_epoch == 0:
        return is_idle(stored) and told == (stored.previous_producer_id, EPOCH_MAX - 1)
    return told == (stored.producer_id, stored.producer_epoch - 1)


def _check_again(stored: StoredTransaction, request: EndTransaction) -> ErrorCode:
    is_commit = stored.state in _COMMITS
    is_spent = next_owner(stored)[1] == EPOCH_MAX
    if is_spent or (request.is_commit and not is_commit):
        return ErrorCode.PRODUCER_FENCED
    if request.is_commit != is_commit:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if stored.state in PREPARED else ErrorCode.NONE


def _decide(turn: TransactionTurn, request: EndTransaction, stored: StoredTransaction) -> None:
    bumps = request.version >= BUMPS_AT_END
    needs_id = bumps and is_exhausted(stored.producer_epoch)
    if needs_id and request.fresh_producer_id is None:
        turn.reply(request.token, NeedsProducerId())
        return
    fresh_id = request.fresh_producer_id if needs_id else None
    end = prepared(
        stored,
        is_commit=request.is_commit,
        version=request.version,
        next_producer_id=NO_PRODUCER_ID if fresh_id is None else fresh_id,
        wall_ms=turn.wall_ms,
    )
    turn.write(request.transactional_id, end)
    if end.partitions:
        turn.work = Prepared((request.transactional_id,))
    else:
        turn.write(request.transactional_id, completed(end, turn.wall_ms))
    _answer(turn, request, ErrorCode.NONE, next_owner(end) if bumps else None)


def _answer(
    turn: TransactionTurn, request: EndTransaction, error: ErrorCode, owner: tuple[int, int] | None = None
) -> None:
    turn.reply(request.token, EndTransactionReply(error, *(owner or ())))


def follow_decisions(
    registry: TransactionRegistry, turn: TransactionTurn, transactional_ids: Iterable[str]
) -> None:
    """Let the markers of those ids be due whose end is decided by a committed record. A transaction without
    partitions needs none."""
    without: list[str] = []
    for transactional_id in transactional_ids:
        stored = registry.store.committed(transactional_id)
        if stored is None or stored.state not in PREPARED or transactional_id in registry.markers.left:
            continue
        if stored.partitions:
            registry.order_markers(transactional_id, stored)
        else:
            without.append(transactional_id)
    complete(registry, turn, without)


def markers_written(registry: TransactionRegistry, turn: TransactionTurn, request: MarkersWritten) -> None:
    """Strike partitions off; write the end when it was the last. The record is answered once it is
    committed."""
    end = (request.producer_id, request.producer_epoch)
    left = registry.markers.strike(request.transactional_id, end, request.partitions)
    if left == 0:
        complete(registry, turn, (request.transactional_id,))
        turn.waits = True
    turn.reply(request.token, MarkersReply(max(0, left)))


def complete(registry: TransactionRegistry, turn: TransactionTurn, transactional_ids: Iterable[str]) -> None:
    """Record that all partitions have their markers, where that is not being written; let the next
    transaction begin."""
    written: list[str] = []
    for transactional_id in transactional_ids:
        stored = registry.store.latest(transactional_id)
        if stored is not None and stored.state in PREPARED:
            end = completed(stored, turn.wall_ms)
            turn.write(transactional_id, end)
            written.append(transactional_id)
            add_held(registry, turn, transactional_id, end)
    if written:
        turn.work = Completed(tuple(written))


def on_completed(registry: TransactionRegistry, work: Completed) -> None:
    for transactional_id in work.transactional_ids:
        registry.markers.remove(transactional_id)
