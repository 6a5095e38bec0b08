"""Which partitions a transaction writes to: added before their first record, or asked for by their leaders
(KIP-890).

Several leaders may add partitions of one transaction at once, so an addition does not wait for another that
is being written: the log keeps their order, and each is answered once it is committed. The same holds for the
first one of a transaction while the end of the one before is being recorded.

A producer goes on as soon as the end is decided, and its markers take a moment more. An addition that comes
meanwhile is held for them, and written beside the record of the end: one that is told to wait comes back
after 20 ms, from most clients.
"""

from __future__ import annotations

from coordinator.core.transaction_records import (
    StoredTransaction,
    TransactionState,
    encode_transaction,
)
from coordinator.core.transactions.options import HELD_MS_MAX, TRANSACTION_BYTES_MAX
from coordinator.core.transactions.registry import HeldTimer, TransactionRegistry, TransactionTurn
from coordinator.core.transactions.requests import AddToTransaction, PartitionsReply, VerifyPartitions
from coordinator.core.transactions.state import BUMPS_AT_END, EPOCH_MAX, PREPARED, next_owner, with_partitions
from springtide.wire.errors import ErrorCode


def add_partitions(registry: TransactionRegistry, turn: TransactionTurn, request: AddToTransaction) -> None:
    store, transactional_id = registry.store, request.transactional_id
    stored = store.latest(transactional_id)
    error = check_owner(stored, request)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:
        _hold(registry, turn, request)
    elif stored is None or error is not ErrorCode.NONE:
        if store.is_under_way(transactional_id):  # what the refusal goes by may be taken back
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        _answer(turn, request, error)
    else:
        _add(registry, turn, request, stored)


def _hold(registry: TransactionRegistry, turn: TransactionTurn, request: AddToTransaction) -> None:
    held = registry.held.setdefault(request.transactional_id, [])
    held.append(request)
    if len(held) == 1:
        turn.timers[HeldTimer(request.transactional_id)] = turn.now_ms + HELD_MS_MAX[request.version]


def add_held(
    registry: TransactionRegistry, turn: TransactionTurn, transactional_id: str, stored: StoredTransaction
) -> None:
    """Answer the additions that were held for this end, whose record is being written."""
    held = registry.held.pop(transactional_id, None)
    if held is None:
        return
    turn.timers[HeldTimer(transactional_id)] = None
    for request in held:
        error = check_owner(stored, request)
        if error is ErrorCode.NONE:
            stored = _add(registry, turn, request, stored)
        else:
            _answer(turn, request, error)


def on_held_timer(registry: TransactionRegistry, turn: TransactionTurn, transactional_id: str) -> None:
    for request in registry.held.pop(transactional_id, ()):
        _answer(turn, request, ErrorCode.CONCURRENT_TRANSACTIONS)


def _add(
    registry: TransactionRegistry, turn: TransactionTurn, request: AddToTransaction, stored: StoredTransaction
) -> StoredTransaction:
    """Return the transaction with the partitions, or as it was if they are in, or have no room."""
    error = ErrorCode.NONE
    if stored.partitions.issuperset(request.partitions):
        turn.waits = True
    else:
        added = with_partitions(stored, request.partitions, version=request.version, wall_ms=turn.wall_ms)
        error = _check_room(registry, stored, added)
        if error is ErrorCode.NONE:
            if not registry.has_left(request.transactional_id, request.client):
                registry.note_client(request.transactional_id, request.client)
            turn.write(request.transactional_id, added)
            if stored.state is not TransactionState.ONGOING:
                registry.deadlines[request.transactional_id] = turn.now_ms + stored.timeout_ms
            stored = added
    _answer(turn, request, error)
    return stored


def check_owner(stored: StoredTransaction | None, request: AddToTransaction | VerifyPartitions) -> ErrorCode:
    """Return whether the producer may write in a transaction now. One that goes on after an end that is
    decided is told to wait, not fenced (KAFKA-18464, KAFKA-18660)."""
    if stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    told = (request.producer_id, request.producer_epoch)
    if stored.state in PREPARED and told in (
        (stored.producer_id, stored.producer_epoch),
        next_owner(stored),
    ):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if request.producer_id != stored.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != stored.producer_epoch or request.producer_epoch == EPOCH_MAX:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _check_room(
    registry: TransactionRegistry, stored: StoredTransaction, added: StoredTransaction
) -> ErrorCode:
    """Return whether the partitions fit into a record, and into the memory of the shard."""
    more = len(added.partitions) - len(stored.partitions)
    if registry.store.partitions + more > registry.options.partitions_max:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if len(encode_transaction(added)) > TRANSACTION_BYTES_MAX:
        is_told = added.version >= BUMPS_AT_END
        return ErrorCode.TRANSACTION_ABORTABLE if is_told else ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def verify_partitions(
    registry: TransactionRegistry, turn: TransactionTurn, request: VerifyPartitions
) -> None:
    """Answer from what is committed. What ends the transaction meanwhile is the leader's to see: a marker
    makes its verification stale."""
    stored = registry.store.committed(request.transactional_id)
    error = check_owner(stored, request)
    if stored is None or error is not ErrorCode.NONE:
        _answer(turn, request, error)
        return
    errors = tuple(
        (place, ErrorCode.NONE if place in stored.partitions else ErrorCode.TRANSACTION_ABORTABLE)
        for place in request.partitions
    )
    turn.reply(request.token, PartitionsReply(errors))


def _answer(turn: TransactionTurn, request: AddToTransaction | VerifyPartitions, error: ErrorCode) -> None:
    turn.reply(request.token, PartitionsReply(tuple((place, error) for place in request.partitions)))
