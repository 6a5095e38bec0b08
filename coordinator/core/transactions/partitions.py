"""Which partitions a transaction writes to: added before their first record, or asked for by their leaders
(KIP-890).

Several leaders may add partitions of one transaction at once, so an addition does not wait for another that
is being written: the log keeps their order, and each is answered once it is committed. The same holds for the
first one of a transaction while the end of the one before is being recorded.
"""

from __future__ import annotations

from coordinator.core.transaction_records import (
    StoredTransaction,
    TransactionState,
    encode_transaction,
)
from coordinator.core.transactions.options import TRANSACTION_BYTES_MAX
from coordinator.core.transactions.registry import TransactionRegistry, TransactionTurn
from coordinator.core.transactions.requests import AddToTransaction, PartitionsReply, VerifyPartitions
from coordinator.core.transactions.state import BUMPS_AT_END, EPOCH_MAX, PREPARED, next_owner, with_partitions
from springtide.wire.errors import ErrorCode


def add_partitions(registry: TransactionRegistry, turn: TransactionTurn, request: AddToTransaction) -> None:
    store, transactional_id = registry.store, request.transactional_id
    stored = store.latest(transactional_id)
    error = check_owner(stored, request)
    if stored is None or error is not ErrorCode.NONE:
        if store.is_under_way(transactional_id):  # what the refusal goes by may be taken back
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            turn.reads = True
        _answer(turn, request, error)
        return
    is_begun = stored.state is TransactionState.ONGOING
    if stored.partitions.issuperset(request.partitions):
        turn.waits = True
    else:
        added = with_partitions(stored, request.partitions, version=request.version, wall_ms=turn.wall_ms)
        error = _check_room(registry, stored, added)
        if error is ErrorCode.NONE:
            registry.note_client(transactional_id, request.client)
            turn.write(transactional_id, added)
            if not is_begun:
                registry.deadlines[transactional_id] = turn.now_ms + stored.timeout_ms
    _answer(turn, request, error)


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
    turn.reads = True
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
