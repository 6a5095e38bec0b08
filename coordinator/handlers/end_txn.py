"""EndTxn: a producer commits or aborts its transaction. From version 5 on each end gives it another epoch
(KIP-890)."""

from __future__ import annotations

import logging

from coordinator.core.transactions.requests import EndTransaction, EndTransactionReply, LeftConnection
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.transactions import ask_with_id, check_id, client_of, fenced_as
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import EndTxnRequest, EndTxnResponse

_log = logging.getLogger(__name__)

FENCED_SINCE = 2
BUMPS_SINCE = 5


def handle(context: CoordinatorContext, request: Request, message: EndTxnRequest) -> None:

    def make(token: int, fresh_producer_id: int | None) -> EndTransaction:
        return EndTransaction(
            token=token,
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            is_commit=message.committed,
            version=2 if request.api_version >= BUMPS_SINCE else 1,
            fresh_producer_id=fresh_producer_id,
            client=client_of(request),
        )

    def answer(reply: EndTransactionReply | LeftConnection | ErrorCode) -> None:
        if isinstance(reply, LeftConnection):
            told_of = (message.transactional_id, request.answer.connection.peer)
            _log.warning("late_end_turned_away transactional_id=%r peer=%s", *told_of)
            request.turn_away()
            return
        told = EndTransactionReply(reply) if isinstance(reply, ErrorCode) else reply
        request.reply(
            EndTxnResponse(
                error_code=fenced_as(told.error, request, since=FENCED_SINCE),
                producer_id=told.producer_id,
                producer_epoch=told.producer_epoch,
            )
        )

    if error := check_id(context, request, message.transactional_id):
        answer(error)
    else:
        ask_with_id(context, message.transactional_id, make, answer)
