"""TxnOffsetCommit: a producer commits offsets of the group that it consumes with, in its transaction.

The first commit of a transaction is verified with the transaction's coordinator (KIP-890). A producer of
version 2 has not announced the group: the question adds the group's partition to its transaction.

What clients do not know they are told in the words that they do: one that asks too early tries again.
"""

from __future__ import annotations

from itertools import repeat

from coordinator.core.groups.requests import (
    CommitPendingOffsets,
    MustVerify,
    OffsetsGuard,
    OffsetsReply,
    OffsetToCommit,
)
from coordinator.core.offsets_question import OffsetsQuestion
from coordinator.handlers.asking import TOLD, shard_in
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import NamedPartitions, TopicName
from coordinator.handlers.transactions import check_id
from springtide.contract.epochs import LeaderEpoch
from springtide.node.handlers.context import Request
from springtide.node.handlers.transaction_refusals import refuse
from springtide.node.sharding import GROUPS_TOPIC, may_be_hashed
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_SINCE = 2
"""Clients before it give up on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-9656)."""
ABORTABLE_SINCE = 4
ADDS_GROUP_SINCE = 5

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_NOT_OPEN = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})


def handle(context: CoordinatorContext, request: Request, message: TxnOffsetCommitRequest) -> None:
    error = _check(context, request, message)
    if error is not ErrorCode.NONE:
        refuse(request, message, error)
        return
    topics = [(TopicName(topic.name), topic.partitions) for topic in message.topics]
    named = NamedPartitions(context.view, request, topics)
    shard = shard_in(context, GROUPS_TOPIC, message.group_id)
    offsets = tuple(
        OffsetToCommit(
            place, entry.committed_offset, LeaderEpoch(entry.committed_leader_epoch), entry.committed_metadata
        )
        for place, entry in named.known
    )

    def submit(guard: OffsetsGuard | None) -> None:
        def make(token: int) -> CommitPendingOffsets:
            return CommitPendingOffsets(
                token=token,
                group_id=message.group_id,
                producer_id=message.producer_id,
                producer_epoch=message.producer_epoch,
                offsets=offsets,
                generation_id=message.generation_id,
                member_id=message.member_id,
                instance_id=message.group_instance_id,
                guard=guard,
            )

        context.shards.submit(shard, make, answered)

    def answered(reply: object) -> None:
        if isinstance(reply, MustVerify):
            verify(reply.guard)
        elif isinstance(reply, OffsetsReply):
            answer(reply.error, reply)
        else:
            assert isinstance(reply, ErrorCode)
            answer(TOLD.get(reply, reply), OffsetsReply(reply))

    def verify(guard: OffsetsGuard) -> None:
        question = OffsetsQuestion(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            shard,
            is_verify_only=request.api_version < ADDS_GROUP_SINCE,
        )

        def verified(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                submit(guard)
            else:
                answer(error, OffsetsReply(error))

        context.transaction_link.ask(question, verified)

    def answer(error: ErrorCode, reply: OffsetsReply) -> None:
        told = _told(error, request.api_version)
        errors = repeat(told) if error else (of_partition for _, of_partition in reply.partitions)
        answered = zip(message.topics, named.answer(errors), strict=True)
        request.reply(
            TxnOffsetCommitResponse(
                topics=tuple(
                    TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            TxnOffsetCommitResponsePartition(partition_index=number, error_code=of_partition)
                            for number, of_partition in partitions
                        ),
                    )
                    for topic, partitions in answered
                )
            )
        )

    submit(None)


def _check(context: CoordinatorContext, request: Request, message: TxnOffsetCommitRequest) -> ErrorCode:
    error = check_id(context, request, message.transactional_id)
    if error is not ErrorCode.NONE:
        return error
    if not request.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if may_be_hashed([message.group_id]) else ErrorCode.INVALID_GROUP_ID


def _told(error: ErrorCode, version: int) -> ErrorCode:
    """Return what a client of the version is told."""
    if error in _FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error in _NOT_OPEN:
        is_known = version >= ABORTABLE_SINCE
        return ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.STALE_MEMBER_EPOCH:  # of a `consumer` group, as Kafka tells it
        return ErrorCode.ILLEGAL_GENERATION
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:  # its last transaction is ending: not every client waits
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
