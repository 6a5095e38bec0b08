"""The answer of each API of transactions where the whole request is refused, in every version's shape.

Where an answer has no place for one error, each thing that the request names has it. Brokers hold no
transactions: they refuse what changes one. Below the level that has transactions so does every node; clients
do not come so far, because no coordinator is named to them (find_coordinator).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from springtide.levels import TRANSACTIONS
from springtide.node.handlers.context import NodeContext, Request, check_level
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import ResponseMessage
from springtide.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersWritableTxnMarkerPartitionResult,
    WriteTxnMarkersWritableTxnMarkerResult,
    WriteTxnMarkersWritableTxnMarkerTopicResult,
)

TransactionRequest: TypeAlias = (
    AddOffsetsToTxnRequest
    | AddPartitionsToTxnRequest
    | DescribeTransactionsRequest
    | EndTxnRequest
    | InitProducerIdRequest
    | ListTransactionsRequest
    | TxnOffsetCommitRequest
    | WriteTxnMarkersRequest
)

SEVERAL_SINCE = 4
"""The first version of AddPartitionsToTxn that has several transactions, and is for members only."""


def refuse(request: Request, message: TransactionRequest, error: ErrorCode) -> None:
    """Answer an API of transactions with an error."""
    request.reply(refusal(message, error, request.api_version))


def refuse_on_broker(context: NodeContext, request: Request, message: TransactionRequest) -> None:
    """Send the client to the coordinator, as a Kafka broker does when it is not the coordinator."""
    refuse(request, message, check_level(context, TRANSACTIONS) or ErrorCode.NOT_COORDINATOR)


def refusal(message: TransactionRequest, error: ErrorCode, version: int) -> ResponseMessage:
    """Return the answer to the message that has this error only."""
    match message:
        case InitProducerIdRequest():
            return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
        case AddPartitionsToTxnRequest() if version >= SEVERAL_SINCE:
            return AddPartitionsToTxnResponse(
                error_code=error,
                results_by_transaction=tuple(
                    AddPartitionsToTxnResult(
                        transactional_id=one.transactional_id, topic_results=_not_added(one.topics, error)
                    )
                    for one in message.transactions
                ),
            )
        case AddPartitionsToTxnRequest():
            topics = _not_added(message.v3_and_below_topics, error)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=error)
        case EndTxnRequest():
            return EndTxnResponse(error_code=error)
        case WriteTxnMarkersRequest():
            return WriteTxnMarkersResponse(
                markers=tuple(
                    WriteTxnMarkersWritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=tuple(
                            WriteTxnMarkersWritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=tuple(
                                    WriteTxnMarkersWritableTxnMarkerPartitionResult(
                                        partition_index=number, error_code=error
                                    )
                                    for number in topic.partition_indexes
                                ),
                            )
                            for topic in marker.topics
                        ),
                    )
                    for marker in message.markers
                )
            )
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse(
                topics=tuple(
                    TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            TxnOffsetCommitResponsePartition(
                                partition_index=one.partition_index, error_code=error
                            )
                            for one in topic.partitions
                        ),
                    )
                    for topic in message.topics
                )
            )
        case DescribeTransactionsRequest():
            return DescribeTransactionsResponse(
                transaction_states=tuple(
                    not_described(transactional_id, error) for transactional_id in message.transactional_ids
                )
            )
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=error)


def not_described(transactional_id: str, error: ErrorCode) -> DescribeTransactionsTransactionState:
    """Return a transactional id of which nothing is told."""
    return DescribeTransactionsTransactionState(transactional_id=transactional_id, error_code=error)


def _not_added(
    topics: Iterable[AddPartitionsToTxnTopic], error: ErrorCode
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                for number in topic.partitions
            ),
        )
        for topic in topics
    )
