"""AddOffsetsToTxn: a producer of version 1 announces that its transaction commits offsets of a group."""

from __future__ import annotations

from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.requests import AddToTransaction, PartitionsReply
from coordinator.handlers.asking import NO_SHARD, shard_in
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.transactions import ask_transaction, check_id, client_of, fenced_as
from springtide.node.handlers.context import Request
from springtide.node.sharding import GROUPS_TOPIC, may_be_hashed
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


def handle(context: CoordinatorContext, request: Request, message: AddOffsetsToTxnRequest) -> None:

    def answer(reply: PartitionsReply | ErrorCode) -> None:
        error = reply if isinstance(reply, ErrorCode) else reply.errors[0][1]
        request.reply(AddOffsetsToTxnResponse(error_code=fenced_as(error, request, since=FENCED_SINCE)))

    error = check_id(context, request, message.transactional_id)
    if error is not ErrorCode.NONE:
        answer(error)
    elif not request.may(Operation.READ, ResourceType.GROUP, message.group_id):
        answer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not may_be_hashed([message.group_id]):
        answer(ErrorCode.INVALID_GROUP_ID)
    elif (shard := shard_in(context, GROUPS_TOPIC, message.group_id)) == NO_SHARD:
        answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        ask_transaction(
            context,
            message.transactional_id,
            lambda token: AddToTransaction(
                token=token,
                transactional_id=message.transactional_id,
                producer_id=message.producer_id,
                producer_epoch=message.producer_epoch,
                partitions=(TransactionPartition(GROUPS_TOPIC, shard),),
                client=client_of(request),
            ),
            answer,
        )
