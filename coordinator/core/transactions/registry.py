"""What a shard of transactions keeps beside its records, and what one step collects."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from coordinator.core.machine import RequestReply, ShardRecord, StepOutcome, Timer
from coordinator.core.transaction_records import (
    StoredTransaction,
    TransactionPartition,
    TransactionState,
    encode_key,
    encode_transaction,
)
from coordinator.core.transactions.markers import MarkerBook, MarkerOrder
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.requests import NO_CLIENT, AddToTransaction, ProducerClient
from coordinator.core.transactions.state import PREPARED
from coordinator.core.transactions.store import TransactionStore


@dataclass(frozen=True, slots=True)
class TimeoutTimer:
    """The next look for transactions that are open for too long."""


@dataclass(frozen=True, slots=True)
class IdExpiryTimer:
    """The next look for expired transactional ids."""


@dataclass(frozen=True, slots=True)
class HeldTimer:
    """The additions of an id that are held have waited long enough."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The work of a batch that decides ends."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """The work of a batch that holds ends of transactions whose partitions have their markers."""

    transactional_ids: tuple[str, ...]


class TransactionTurn:
    """What one step collects, and when. now_ms, wall_ms: see Machine. waits: see StepOutcome."""

    __slots__ = ("now_ms", "records", "replies", "timers", "waits", "wall_ms", "work")

    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.records: list[ShardRecord] = []
        self.replies: list[RequestReply] = []
        self.timers: dict[Hashable, int | None] = {}
        self.work: Prepared | Completed | None = None
        self.waits = False

    def reply(self, token: int, message: object) -> None:
        self.replies.append(RequestReply(token, message))

    def write(self, transactional_id: str, stored: StoredTransaction | None) -> None:
        """Write an id's record, or with None its tombstone."""
        value = None if stored is None else encode_transaction(stored)
        self.records.append(ShardRecord(encode_key(transactional_id), value))

    def outcome(self) -> StepOutcome:
        return StepOutcome(
            records=tuple(self.records),
            replies=tuple(self.replies),
            timers=tuple(Timer(key, at_ms) for key, at_ms in self.timers.items()),
            work=self.work,
            waits=self.waits,
        )


class TransactionRegistry:
    """The transactional ids of a shard. All but the store is memory of this process.

    deadlines: when transactions that are open have lasted too long, monotonic: a wall clock that is set must
        not abort them. Entries of others go with the next look.
    clients: by transactional id, who asked last for its producer and was heard, since this process has it.
    held: additions by id, which wait for the markers of the transaction before.
    unchecked: the ids that the present look for expired ones has not come to.
    """

    __slots__ = ("clients", "deadlines", "held", "markers", "options", "store", "unchecked")

    def __init__(self, options: TransactionOptions) -> None:
        self.options = options
        self.store = TransactionStore()
        self.markers = MarkerBook()
        self.deadlines: dict[str, int] = {}
        self.clients: dict[str, ProducerClient] = {}
        self.held: dict[str, list[AddToTransaction]] = {}
        self.unchecked: list[str] = []

    def order_markers(self, transactional_id: str, stored: StoredTransaction) -> None:
        """Let the markers of a decided end be due."""
        self.markers.add(
            MarkerOrder(
                transactional_id=transactional_id,
                producer_id=stored.producer_id,
                producer_epoch=stored.producer_epoch,
                is_commit=stored.state is TransactionState.PREPARE_COMMIT,
                version=stored.version,
                partitions=tuple(sorted(stored.partitions)),
            )
        )

    def note_client(self, transactional_id: str, client: ProducerClient) -> None:
        if client not in (NO_CLIENT, self.clients.get(transactional_id)):
            self.clients[transactional_id] = client

    def has_left(self, transactional_id: str, client: ProducerClient) -> bool:
        """Return whether the producer has come by a later connection since it sent by this one."""
        return 0 < client.connection < self.clients.get(transactional_id, NO_CLIENT).connection

    def unmarked(self, transactional_id: str, stored: StoredTransaction) -> tuple[TransactionPartition, ...]:
        """Return the partitions of a transaction; while it ends, those that wait for a marker."""
        end = (stored.producer_id, stored.producer_epoch)
        found = self.markers.left.get(transactional_id)
        is_ending = stored.state in PREPARED and found is not None and found[:2] == end
        return tuple(sorted(found[2] if found is not None and is_ending else stored.partitions))
