"""The state that a shard's records make: transactional ids, each latest and committed."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.machine import ShardRecord
from coordinator.core.transaction_records import (
    NewerTransactionRecord,
    StoredTransaction,
    UnreadableTransactionRecord,
    decode_key,
    decode_transaction,
)
from coordinator.core.transactions.state import is_open
from coordinator.core.views import TwoViews


class TransactionStore:
    """The replayed state of a shard. partitions: how many are in transactions, in the latest view."""

    __slots__ = ("_open", "partitions", "transactions")

    def __init__(self) -> None:
        self.transactions: TwoViews[str, StoredTransaction] = TwoViews()
        self.partitions = 0
        #: Ids with an open transaction in either view; a superset, from which `open_ids` takes what is gone.
        self._open: dict[str, None] = {}

    def latest(self, transactional_id: str) -> StoredTransaction | None:
        return self.transactions.latest(transactional_id)

    def committed(self, transactional_id: str) -> StoredTransaction | None:
        return self.transactions.committed(transactional_id)

    def is_under_way(self, transactional_id: str) -> bool:
        """Return whether a record of the id is not committed yet."""
        return not self.transactions.is_settled(transactional_id)

    def apply(self, record: ShardRecord, offset: int) -> None:
        """Apply a record to the latest view. Raise UnreadableTransactionRecord for one that Kafka could not
        read. A tombstone of an unknown type takes only away what is not here."""
        try:
            transactional_id = decode_key(record.key)
        except NewerTransactionRecord as error:
            if record.value is None:
                return
            raise NewerTransactionRecord(f"the record at offset {offset}: {error}") from error
        stored = None
        if record.value is not None:
            try:
                stored = decode_transaction(record.value)
            except UnreadableTransactionRecord as error:
                raise type(error)(f"transactional id {transactional_id[:200]!r}: {error}") from error
        self.partitions += _partitions(stored) - _partitions(self.latest(transactional_id))
        self.transactions.set(transactional_id, stored, offset)
        if is_open(stored):
            self._open[transactional_id] = None

    def commit(self, offset: int) -> None:
        self.transactions.commit(offset)

    def undo(self, offset: int) -> None:
        self.transactions.undo(offset)
        self.partitions = sum(_partitions(self.latest(transactional_id)) for transactional_id in self._open)

    def open_ids(self) -> Iterator[str]:
        """Yield the ids with a transaction that is open or ends, in either view."""
        for transactional_id in list(self._open):
            if is_open(self.latest(transactional_id)) or is_open(self.committed(transactional_id)):
                yield transactional_id
            else:
                del self._open[transactional_id]


def _partitions(stored: StoredTransaction | None) -> int:
    return 0 if stored is None else len(stored.partitions)
