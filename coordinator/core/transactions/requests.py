"""The requests about transactions, and the answers. Values only; handlers map them to the wire.

token: names the request; its RequestReply carries it. `error` of a reply is NONE where the request succeeded.
Handlers tell old versions INVALID_PRODUCER_EPOCH in the place of PRODUCER_FENCED, as Kafka does.

A machine draws no numbers, so a fresh producer id comes with the request where one is needed: a request
without (fresh_producer_id None) may be answered with NeedsProducerId, and is then asked again with one.

AddOffsetsToTxn is AddToTransaction with the partition of `__consumer_offsets` that holds the group.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from coordinator.core.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionPartition,
)
from springtide.wire.errors import ErrorCode


class NeedsProducerId(Struct, frozen=True):
    """The answer to InitProducer or EndTransaction: ask again with a fresh_producer_id. Nothing was done."""


# --- of producers ----------------------------------------------------------------------------------


class ProducerClient(NamedTuple):
    """Who asks for a producer, as people are told: the client's id, cut off, and its address. connection: the
    number of its connection, in the order in which this process took them; 0: not known."""

    client_id: str
    host: str
    connection: int = 0


class LeftConnection(Struct, frozen=True):
    """The answer to EndTransaction that comes by a connection which its producer has left: it is closed."""


NO_CLIENT = ProducerClient("", "")


class InitProducer(Struct, frozen=True, kw_only=True):
    """producer_id, producer_epoch: what the producer has, from version 3 on (KIP-360); NO_PRODUCER_ID and
    NO_PRODUCER_EPOCH if it has none yet, or is of another process."""

    token: int
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    fresh_producer_id: int | None = None
    client: ProducerClient = NO_CLIENT


class InitProducerReply(Struct, frozen=True):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddToTransaction(Struct, frozen=True, kw_only=True):
    """Add partitions to the transaction, beginning one if none is open.

    version: `transaction.version` of the producer: 2 where a partition's leader or a group's coordinator asks
    (Produce 12, TxnOffsetCommit 5), 1 where the producer does.
    client: NO_CLIENT where no producer asks.
    """

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TransactionPartition, ...]
    version: int = 1
    client: ProducerClient = NO_CLIENT


class VerifyPartitions(Struct, frozen=True, kw_only=True):
    """Ask whether partitions are in the open transaction of this producer and epoch (KIP-890, verify_only).
    One that is not: TRANSACTION_ABORTABLE."""

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TransactionPartition, ...]


class PartitionsReply(Struct, frozen=True):
    """The answer to AddToTransaction and VerifyPartitions. errors: one for each partition, in the request's
    order; those of AddToTransaction are all the same."""

    errors: tuple[tuple[TransactionPartition, ErrorCode], ...]


class EndTransaction(Struct, frozen=True, kw_only=True):
    """version: 2 for EndTxn 5 and later: the epoch is bumped, and the reply has what to go on with."""

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    version: int
    fresh_producer_id: int | None = None
    client: ProducerClient = NO_CLIENT


class EndTransactionReply(Struct, frozen=True):
    """producer_id, producer_epoch: of the next transaction; told under version 2 alone."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


# --- of the shell ----------------------------------------------------------------------------------


class MarkersWritten(Struct, frozen=True, kw_only=True):
    """Markers of a MarkerOrder are written, or their partitions are gone for good. producer_epoch: the
    order's. Partitions that are not due any more are passed over."""

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TransactionPartition, ...]


class MarkersReply(Struct, frozen=True):
    """left: partitions whose markers are still due. With 0 the end of the transaction is on record."""

    left: int


# --- of operators ----------------------------------------------------------------------------------


class DescribeTransactions(Struct, frozen=True, kw_only=True):
    token: int
    transactional_ids: tuple[str, ...]


class DescribedTransaction(Struct, frozen=True, kw_only=True):
    """state: Kafka's name. started_ms: NO_TIME where no transaction has begun. client: NO_CLIENT where it is
    not known."""

    error: ErrorCode
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    started_ms: int = NO_TIME
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: tuple[TransactionPartition, ...] = ()
    client: ProducerClient = NO_CLIENT


class DescribeTransactionsReply(Struct, frozen=True):
    """In the order of the request."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactions(Struct, frozen=True, kw_only=True):
    """states: Kafka's names; producer_ids; empty asks for all. duration_ms: open for longer; negative asks
    for all. pattern: of the whole transactional id (id_patterns.py); None and empty ask for all."""

    token: int
    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(Struct, frozen=True):
    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsReply(Struct, frozen=True):
    """error: INVALID_REGULAR_EXPRESSION for a pattern that is not understood. unknown_states: states of the
    request that there are not."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()


Request = (
    InitProducer
    | AddToTransaction
    | VerifyPartitions
    | EndTransaction
    | MarkersWritten
    | DescribeTransactions
    | ListTransactions
)
