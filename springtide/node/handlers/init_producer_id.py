"""InitProducerId for idempotent producers: a fresh id with epoch 0 (KIP-98).

A producer that names its old id asks for the same (KIP-360): without a transactional id nothing ties it
to the old one. One with a transactional id is sent to its coordinator.

A client that may write to any topic may do so idempotently (KIP-679).
"""

from __future__ import annotations

from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.transaction_refusals import refuse, refuse_on_broker
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import InitProducerIdRequest, InitProducerIdResponse


def handle(context: NodeContext, request: Request, message: InitProducerIdRequest) -> None:
    if message.transactional_id is not None:
        if request.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id):
            refuse_on_broker(context, request, message)
        else:
            refuse(request, message, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return

    if not (
        request.may_any(Operation.WRITE, ResourceType.TOPIC)
        or request.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    ):
        _reply(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
        return

    def on_producer_id(producer_id: int | None) -> None:
        if producer_id is None:  # Kafka's answer while its block of ids is on the way
            _reply(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        else:
            _reply(request, ErrorCode.NONE, producer_id)

    context.producer_ids.take(on_producer_id)


def _reply(request: Request, error: ErrorCode, producer_id: int) -> None:
    request.reply(
        InitProducerIdResponse(
            error_code=error,
            producer_id=producer_id,
            producer_epoch=0 if error is ErrorCode.NONE else -1,
        )
    )
