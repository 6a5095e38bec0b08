"""The states of a transactional id, and the moves between them.

                        +------------------- begin -----------------+
                        |                                           |
    (new) --init--> EMPTY --begin--> ONGOING --prepare--> PREPARE_COMMIT --complete--> COMPLETE_COMMIT
                     ^ |             |  ^ |                                                 |
                     | |             +--+ +--prepare, fence--> PREPARE_ABORT --complete--> COMPLETE_ABORT
                     | |              add                         ^                         |
                     | +------------- an empty abort (version 2) -+-------------------------+
                     +------------------------------ init ----------------------------------+

    An id that is EMPTY or complete for long enough expires: a tombstone.

The rules:

1. (decided) After a Prepare record the outcome of the transaction is what the record says, for ever.
2. (owned) Producer id and epoch never repeat for another owner: the epoch rises by one, or a fresh id begins
   at 0. Under version 2 each end is such a bump.
3. (spared) Clients get epochs up to EPOCH_MAX - 1. The last one is the coordinator's: with it an owner can
   always be fenced.

Functions take a stored transaction and return the next one; an illegal move is a bug of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    StoredTransaction,
    TransactionPartition,
    TransactionState,
)

EPOCH_MAX: Final = 2**15 - 1
FIRST_VERSION: Final = 1
BUMPS_AT_END: Final = 2
"""The `transaction.version` since which each end bumps the epoch (KIP-890, part 2)."""

_IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_OPEN = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})

#: The states that each may follow. A new id is EMPTY; a tombstone may follow the idle ones.
PREDECESSORS: Final = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}


def is_idle(stored: StoredTransaction) -> bool:
    """Return whether no transaction is open or ends."""
    return stored.state in _IDLE


def is_open(stored: StoredTransaction | None) -> bool:
    """Return whether a transaction is open or ends."""
    return stored is not None and stored.state in _OPEN


def is_exhausted(epoch: int) -> bool:
    """Return whether clients get no epoch after this one."""
    return epoch >= EPOCH_MAX - 1


def new_transaction(producer_id: int, timeout_ms: int, wall_ms: int) -> StoredTransaction:
    """Return the first record of an id. It names its own producer id as the one before, as Kafka's does."""
    return StoredTransaction(
        producer_id=producer_id,
        producer_epoch=0,
        previous_producer_id=producer_id,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        updated_ms=wall_ms,
    )


def initialized(
    stored: StoredTransaction,
    *,
    producer_id: int,
    producer_epoch: int,
    last_producer_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> StoredTransaction:
    """Give the id to an owner, under this producer id and epoch. One that asks again, since the answer was
    lost, may do so again."""
    is_again = (producer_id, producer_epoch) == (stored.producer_id, stored.producer_epoch)
    return _moved(
        stored,
        TransactionState.EMPTY,
        wall_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        started_ms=NO_TIME,
        previous_producer_id=stored.previous_producer_id if is_again else stored.producer_id,
    )


def with_partitions(
    stored: StoredTransaction, partitions: Iterable[TransactionPartition], *, version: int, wall_ms: int
) -> StoredTransaction:
    """Add partitions; the first ones begin a transaction."""
    is_begun = stored.state is TransactionState.ONGOING
    return _moved(
        stored,
        TransactionState.ONGOING,
        wall_ms,
        partitions=stored.partitions.union(partitions),
        started_ms=stored.started_ms if is_begun else wall_ms,
        version=version,
    )


def prepared(
    stored: StoredTransaction,
    *,
    is_commit: bool,
    version: int,
    wall_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> StoredTransaction:
    """Decide the end that the owner asks for. Under version 2 the markers have the next epoch, which the
    owner goes on with, or else begins next_producer_id."""
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    bumps = version >= BUMPS_AT_END
    return _moved(
        stored,
        state,
        wall_ms,
        producer_epoch=stored.producer_epoch + bumps,
        last_producer_epoch=stored.producer_epoch if bumps else stored.last_producer_epoch,
        next_producer_id=next_producer_id,
        started_ms=stored.started_ms if stored.state is TransactionState.ONGOING else wall_ms,
        version=version,
    )


def fenced(stored: StoredTransaction, *, wall_ms: int, is_for_owner: bool = False) -> StoredTransaction:
    """Decide that an open transaction is aborted by the coordinator, and fence its owner with one bump
    (KAFKA-19367). is_for_owner: the owner itself asked, by InitProducerId, and will ask again.

    EPOCH_MAX stays as it is: an older Kafka may have left a transaction open with it (KAFKA-20090). Only
    version 1 takes its markers then, because they have no higher epoch.
    """
    assert stored.state is TransactionState.ONGOING
    is_at_end = stored.producer_epoch >= EPOCH_MAX
    return _moved(
        stored,
        TransactionState.PREPARE_ABORT,
        wall_ms,
        producer_epoch=min(stored.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=stored.producer_epoch if is_for_owner else NO_PRODUCER_EPOCH,
        version=FIRST_VERSION if is_at_end else BUMPS_AT_END,
    )


def completed(stored: StoredTransaction, wall_ms: int) -> StoredTransaction:
    """Return what is on record once all partitions have their markers."""
    is_commit = stored.state is TransactionState.PREPARE_COMMIT
    owner = next_owner(stored)
    return _moved(
        stored,
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        wall_ms,
        producer_id=owner[0],
        producer_epoch=owner[1],
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def next_owner(stored: StoredTransaction) -> tuple[int, int]:
    """Return the producer id and epoch of the transaction after this one, in a Prepare state: those that
    EndTxn 5 answers (KAFKA-18660)."""
    if stored.next_producer_id != NO_PRODUCER_ID:
        return stored.next_producer_id, 0
    return stored.producer_id, stored.producer_epoch


def _moved(
    stored: StoredTransaction, state: TransactionState, wall_ms: int, **changes: Any
) -> StoredTransaction:
    assert stored.state in PREDECESSORS[state], (stored.state, state)
    changes.setdefault("previous_producer_id", stored.producer_id)
    return replace(stored, state=state, next_producer_epoch=NO_PRODUCER_EPOCH, updated_ms=wall_ms, **changes)
