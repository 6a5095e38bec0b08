"""What processes of the simulation say to each other about transactions, beside requests of machines."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.core.groups.requests import CommitPendingOffsets
from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.requests import AddToTransaction, VerifyPartitions
from dataplane.core.transactions import MarkerToWrite
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode


class MarkerCall(NamedTuple):
    """A coordinator has a leader end a transaction -> ErrorCode."""

    key: PartitionKey
    marker: MarkerToWrite


class TxnCommitCall(NamedTuple):
    """TxnOffsetCommit -> OffsetsReply or ErrorCode."""

    transactional_id: str
    version: int
    request: CommitPendingOffsets


#: After these a client, and a coordinator, asks again.
PASSING = frozenset(
    {
        None,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)

BUMPS_AT_END = 2


def question_of(
    transactional_id: str,
    owner: tuple[int, int],
    partitions: tuple[TransactionPartition, ...],
    *,
    version: int,
) -> AddToTransaction | VerifyPartitions:
    """Return what a leader or a group's coordinator asks (KIP-890)."""
    if version >= BUMPS_AT_END:
        return AddToTransaction(
            token=0,
            transactional_id=transactional_id,
            producer_id=owner[0],
            producer_epoch=owner[1],
            partitions=partitions,
            version=version,
        )
    return VerifyPartitions(
        token=0,
        transactional_id=transactional_id,
        producer_id=owner[0],
        producer_epoch=owner[1],
        partitions=partitions,
    )
