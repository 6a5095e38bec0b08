"""InitProducerId: who owns a transactional id from now on (KIP-98, KIP-360).

A producer without an id takes the transactional id over: what is open is aborted first, and each take-over
bumps the epoch, which fences all before it. A producer that tells its id and epoch asks for another epoch
after an error of its own; it gets one only as long as it is the owner. Where the answer was lost it asks
again with what it had before, `last_producer_epoch`, and is told the same.

Kafka aborts what is open for any producer that tells the right id, even under an epoch that was fenced long
ago. Here such a one is refused.
"""

from __future__ import annotations

from coordinator.core.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
    TransactionState,
)
from coordinator.core.transactions.options import STRING_BYTES_MAX
from coordinator.core.transactions.registry import Prepared, TransactionRegistry, TransactionTurn
from coordinator.core.transactions.requests import InitProducer, InitProducerReply, NeedsProducerId
from coordinator.core.transactions.state import (
    EPOCH_MAX,
    PREPARED,
    fenced,
    initialized,
    is_exhausted,
    new_transaction,
    next_owner,
)
from springtide.wire.errors import ErrorCode


def init_producer(registry: TransactionRegistry, turn: TransactionTurn, request: InitProducer) -> None:
    error = _check(registry, request)
    stored = registry.store.latest(request.transactional_id)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, InitProducerReply(error))
    elif registry.store.is_under_way(request.transactional_id):
        turn.reply(request.token, InitProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
    elif stored is None:
        _create(registry, turn, request)
    elif not _may_own(stored, request):
        turn.reply(request.token, InitProducerReply(ErrorCode.PRODUCER_FENCED))
    elif stored.state in PREPARED:
        turn.reply(request.token, InitProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
    elif stored.state is TransactionState.ONGOING:
        end = fenced(stored, wall_ms=turn.wall_ms, is_for_owner=_tells_owner(request))
        turn.write(request.transactional_id, end)
        turn.work = Prepared((request.transactional_id,))
        turn.reply(request.token, InitProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
    else:
        _hand_over(registry, turn, request, stored)


def _check(registry: TransactionRegistry, request: InitProducer) -> ErrorCode:
    if not 0 < len(request.transactional_id.encode()) <= STRING_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.timeout_ms <= registry.options.timeout_ms_max:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _create(registry: TransactionRegistry, turn: TransactionTurn, request: InitProducer) -> None:
    """Give a new id, also to a producer that had one before the transactional id expired."""
    if len(registry.store.transactions) >= registry.options.ids_max:
        turn.reply(request.token, InitProducerReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    elif request.fresh_producer_id is None:
        turn.reply(request.token, NeedsProducerId())
    else:
        created = new_transaction(request.fresh_producer_id, request.timeout_ms, turn.wall_ms)
        _write(registry, turn, request, created)


def _tells_owner(request: InitProducer) -> bool:
    return request.producer_id != NO_PRODUCER_ID


def _may_own(stored: StoredTransaction, request: InitProducer) -> bool:
    """Return whether the producer may be the owner, or takes the id over."""
    if not _tells_owner(request):
        return True
    told = (request.producer_id, request.producer_epoch)
    if told == (stored.producer_id, stored.producer_epoch):
        return True
    if stored.state in PREPARED and told == next_owner(stored):
        return True
    if stored.state is TransactionState.ONGOING or request.producer_epoch != stored.last_producer_epoch:
        return False
    # What it had before. Of another id it was the last one: a fresh id took over.
    is_of_previous = request.producer_id == stored.previous_producer_id
    return request.producer_id == stored.producer_id or (
        is_of_previous and is_exhausted(request.producer_epoch)
    )


def _hand_over(
    registry: TransactionRegistry, turn: TransactionTurn, request: InitProducer, stored: StoredTransaction
) -> None:
    """Give the next epoch, or a fresh id where there is none; the same again to an owner that asks again."""
    producer_id, epoch = stored.producer_id, stored.producer_epoch
    last_epoch = request.producer_epoch if _tells_owner(request) else NO_PRODUCER_EPOCH
    is_again = _tells_owner(request) and (request.producer_id, request.producer_epoch) != (producer_id, epoch)
    if is_exhausted(epoch) and not (is_again and epoch < EPOCH_MAX):
        if request.fresh_producer_id is None:
            turn.reply(request.token, NeedsProducerId())
            return
        producer_id, epoch = request.fresh_producer_id, 0
    elif not is_again:
        epoch += 1
    owned = initialized(
        stored,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=request.timeout_ms,
        wall_ms=turn.wall_ms,
    )
    _write(registry, turn, request, owned)


def _write(
    registry: TransactionRegistry, turn: TransactionTurn, request: InitProducer, owned: StoredTransaction
) -> None:
    registry.note_client(request.transactional_id, request.client)
    turn.write(request.transactional_id, owned)
    turn.reply(request.token, InitProducerReply(ErrorCode.NONE, owned.producer_id, owned.producer_epoch))
