"""ListTransactions: the transactional ids of the shards that this process owns, for brokers, which ask each
coordinator (KIP-664, 994, 1152). Others are told none here, and all by a broker, as with groups
(list_groups.py)."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.transactions.requests import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsReply,
)
from coordinator.handlers.asking import ask_shards
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import asks_coordinators
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)


def handle(context: CoordinatorContext, request: Request, message: ListTransactionsRequest) -> None:
    if not asks_coordinators(request):
        request.reply(ListTransactionsResponse())
        return

    def make(token: int) -> ListTransactions:
        return ListTransactions(
            token=token,
            states=message.state_filters,
            producer_ids=message.producer_id_filters,
            duration_ms=message.duration_filter,
            pattern=message.transactional_id_pattern,
        )

    def done(replies: Mapping[int, ListTransactionsReply | ErrorCode]) -> None:
        found: list[ListedTransaction] = []
        unknown: tuple[str, ...] = ()
        for reply in replies.values():
            error = reply if isinstance(reply, ErrorCode) else reply.error
            if error is ErrorCode.NOT_COORDINATOR:
                continue
            if isinstance(reply, ErrorCode) or error is not ErrorCode.NONE:
                request.reply(ListTransactionsResponse(error_code=error))  # a part must not be taken for all
                return
            found += reply.transactions
            unknown = reply.unknown_states
        request.reply(
            ListTransactionsResponse(
                unknown_state_filters=unknown,
                transaction_states=tuple(
                    ListTransactionsTransactionState(
                        transactional_id=one.transactional_id,
                        producer_id=one.producer_id,
                        transaction_state=one.state,
                    )
                    for one in found
                    if request.may(
                        Operation.DESCRIBE,
                        ResourceType.TRANSACTIONAL_ID,
                        one.transactional_id,
                        is_filter=True,
                    )
                ),
            )
        )

    ask_shards(context.transactions, dict.fromkeys(context.transactions.owned(), make), done)
