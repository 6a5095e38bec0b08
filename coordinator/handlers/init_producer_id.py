"""InitProducerId: a producer id for an idempotent producer, or the present owner's id and epoch of a
transactional id, whose owner before it is fenced (KIP-98, KIP-360)."""

from __future__ import annotations

from coordinator.core.transactions.requests import InitProducer, InitProducerReply
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.transactions import ask_with_id, check_id, client_of, fenced_as
from springtide.node.handlers import init_producer_id
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE = 4


def handle(context: CoordinatorContext, request: Request, message: InitProducerIdRequest) -> None:
    transactional_id = message.transactional_id
    if transactional_id is None:
        init_producer_id.handle(context, request, message)
        return

    def make(token: int, fresh_producer_id: int | None) -> InitProducer:
        return InitProducer(
            token=token,
            transactional_id=transactional_id,
            timeout_ms=message.transaction_timeout_ms,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            fresh_producer_id=fresh_producer_id,
            client=client_of(request),
        )

    def answer(reply: InitProducerReply | ErrorCode) -> None:
        told = InitProducerReply(reply) if isinstance(reply, ErrorCode) else reply
        request.reply(
            InitProducerIdResponse(
                error_code=fenced_as(told.error, request, since=FENCED_SINCE),
                producer_id=told.producer_id,
                producer_epoch=told.producer_epoch,
            )
        )

    if error := check_id(context, request, transactional_id):
        answer(error)
    else:
        ask_with_id(context, transactional_id, make, answer)
