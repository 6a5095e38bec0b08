"""What a broker answers about transactions: it tells all, and sends clients to coordinators for the rest.

Transactions live at coordinators. Tools list them at every node that they know, so the first of the brokers
tells those of all coordinators, and no other tells any, as it is with groups (groups.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from dataplane.handlers.context import BrokerContext
from dataplane.handlers.groups import is_first
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import asks_coordinators
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import ResponseMessage
from springtide.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TransactionRequest = (
    AddOffsetsToTxnRequest
    | AddPartitionsToTxnRequest
    | DescribeTransactionsRequest
    | EndTxnRequest
    | TxnOffsetCommitRequest
)

_ELSEWHERE = ErrorCode.NOT_COORDINATOR


def list_transactions(context: BrokerContext, request: Request, message: ListTransactionsRequest) -> None:
    """Tell all transactions if this is the first broker that the client is told of, or else none."""
    view = context.view
    if not context.is_view_complete():
        request.reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    is_none = view.topic_by_name(TRANSACTIONS_TOPIC) is None
    if is_none or asks_coordinators(request) or not is_first(context, request):
        request.reply(ListTransactionsResponse())
        return

    def done(answers: Sequence[ListTransactionsResponse | None]) -> None:
        absent = ErrorCode.COORDINATOR_NOT_AVAILABLE
        errors = [absent if answer is None else answer.error_code for answer in answers] or [absent]
        if error := next(filter(None, errors), None):
            request.reply(ListTransactionsResponse(error_code=error))  # a part must not be taken for all
            return
        whole = [answer for answer in answers if answer is not None]
        # One whose shard moves meanwhile may be told by both coordinators.
        told = {one.transactional_id: one for answer in whole for one in answer.transaction_states}
        unknown = {name: None for answer in whole for name in answer.unknown_state_filters}
        request.reply(
            ListTransactionsResponse(
                unknown_state_filters=tuple(unknown),
                transaction_states=tuple(one for name, one in told.items() if _may_describe(request, name)),
            )
        )

    coordinators = [one for _, one in sorted(view.coordinators.items()) if one.active]
    calls = [(one, message) for one in coordinators]
    context.coordinator_calls.start(ListTransactionsResponse, request.api_version, calls, done)


def refuse(_context: BrokerContext, request: Request, message: TransactionRequest) -> None:
    """Send the client to the coordinator, as a Kafka broker does when it is not the coordinator."""
    request.reply(_refusal(message))


def _may_describe(request: Request, transactional_id: str) -> bool:
    return request.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, is_filter=True)


def _refusal(message: TransactionRequest) -> ResponseMessage:
    match message:
        case AddPartitionsToTxnRequest():
            return AddPartitionsToTxnResponse(
                error_code=_ELSEWHERE,
                results_by_topic_v3_and_below=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(
                                partition_index=partition, partition_error_code=_ELSEWHERE
                            )
                            for partition in topic.partitions
                        ),
                    )
                    for topic in message.v3_and_below_topics
                ),
            )
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=_ELSEWHERE)
        case EndTxnRequest():
            return EndTxnResponse(error_code=_ELSEWHERE)
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse(
                topics=tuple(
                    TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            TxnOffsetCommitResponsePartition(
                                partition_index=one.partition_index, error_code=_ELSEWHERE
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
                    DescribeTransactionsTransactionState(transactional_id=one, error_code=_ELSEWHERE)
                    for one in message.transactional_ids
                )
            )
