"""ListTransactions at brokers, which hold none: one tells all.

Tools list transactions at every node that they know, so the first of the brokers tells those of all
coordinators, and no other tells any, as it is with groups (groups.py). For all else clients have to find the
coordinator (springtide/node/handlers/transaction_refusals.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from dataplane.handlers.context import BrokerContext
from dataplane.handlers.groups import is_first
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import asks_coordinators
from springtide.node.handlers.transaction_refusals import refuse
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import ListTransactionsRequest, ListTransactionsResponse


def list_transactions(context: BrokerContext, request: Request, message: ListTransactionsRequest) -> None:
    """Tell all transactions if this is the first broker that the client is told of, or else none."""
    view = context.view
    if not context.is_view_complete():
        refuse(request, message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    is_none = view.topic_by_name(TRANSACTIONS_TOPIC) is None
    if is_none or asks_coordinators(request) or not is_first(context, request):
        request.reply(ListTransactionsResponse())
        return

    def done(answers: Sequence[ListTransactionsResponse | None]) -> None:
        errors = [
            ErrorCode.COORDINATOR_NOT_AVAILABLE if answer is None else answer.error_code for answer in answers
        ] or [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        if error := next(filter(None, errors), None):
            refuse(request, message, error)  # a part must not be taken for all
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


def _may_describe(request: Request, transactional_id: str) -> bool:
    return request.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, is_filter=True)
