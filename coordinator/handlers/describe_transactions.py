"""DescribeTransactions: the state of transactional ids and the partitions of their transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.transactions.requests import DescribedTransaction, DescribeTransactions
from coordinator.handlers.asking import TRANSACTIONS, ask_named
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)


def handle(context: CoordinatorContext, request: Request, message: DescribeTransactionsRequest) -> None:
    asked = tuple(dict.fromkeys(message.transactional_ids))

    def done(found: Sequence[DescribedTransaction | ErrorCode]) -> None:
        states = tuple(
            DescribeTransactionsTransactionState(error_code=one, transactional_id=transactional_id)
            if isinstance(one, ErrorCode)
            else _described(request, one)
            for transactional_id, one in zip(asked, found, strict=True)
        )
        request.reply(DescribeTransactionsResponse(transaction_states=states))

    ask_named(
        context,
        request,
        asked,
        kind=TRANSACTIONS,
        name_of=str,
        make=lambda token, of_shard: DescribeTransactions(token=token, transactional_ids=of_shard),
        entries=lambda reply: reply.transactions,
        done=done,
    )


def _described(request: Request, one: DescribedTransaction) -> DescribeTransactionsTransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in one.partitions:
        topics.setdefault(topic, []).append(partition)
    return DescribeTransactionsTransactionState(
        error_code=one.error,
        transactional_id=one.transactional_id,
        transaction_state=one.state,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.started_ms,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        client_id=one.client.client_id,
        client_host=one.client.host,
        topics=tuple(
            DescribeTransactionsTopicData(topic=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
            if request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, is_filter=True)
        ),
    )
