"""AddPartitionsToTxn: partitions become part of a transaction, or are verified to be (KIP-890).

Up to version 3 a producer announces the partitions that it is about to write to. From version 4 on leaders of
partitions and coordinators of groups ask, for many producers at once: only members of the cluster may.

Of one transaction all partitions are added or none: beside one that can't be, the others are
OPERATION_NOT_ATTEMPTED. Coordinator topics are no part of a transaction, but for a group's offsets, which
its coordinator adds: no leader writes markers to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.requests import AddToTransaction, PartitionsReply, VerifyPartitions
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.transactions import ask_transaction, check_id, client_of, fenced_as
from springtide.levels import TRANSACTIONS
from springtide.node.handlers.context import Request, check_level
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC, may_be_hashed
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2
OF_MEMBERS_SINCE = 4

_Errors = dict[TransactionPartition, ErrorCode]


def handle(context: CoordinatorContext, request: Request, message: AddPartitionsToTxnRequest) -> None:
    if request.api_version >= OF_MEMBERS_SINCE:
        _of_members(context, request, message.transactions)
    else:
        _of_producer(context, request, message)


def _of_producer(context: CoordinatorContext, request: Request, message: AddPartitionsToTxnRequest) -> None:
    transactional_id, topics = message.v3_and_below_transactional_id, message.v3_and_below_topics
    places = _places(topics)
    error = check_id(context, request, transactional_id)
    refused = dict.fromkeys(places, error) if error else _refused(context, request, places)

    def answer(reply: PartitionsReply | ErrorCode) -> None:
        errors = _errors(places, refused, reply)
        told = {place: fenced_as(error, request, since=FENCED_SINCE) for place, error in errors.items()}
        request.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, told)))

    if refused or not places:
        answer(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return
    ask_transaction(
        context,
        transactional_id,
        lambda token: AddToTransaction(
            token=token,
            transactional_id=transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            partitions=places,
            client=client_of(request),
        ),
        answer,
    )


def _of_members(
    context: CoordinatorContext, request: Request, transactions: Sequence[AddPartitionsToTxnTransaction]
) -> None:
    if not request.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        request.reply(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if error := check_level(context, TRANSACTIONS):
        request.reply(AddPartitionsToTxnResponse(error_code=error))
        return
    if not may_be_hashed(one.transactional_id for one in transactions):
        request.reply(AddPartitionsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    answers: dict[int, AddPartitionsToTxnResult] = {}

    def answered(index: int, refused: _Errors, reply: PartitionsReply | ErrorCode) -> None:
        one = transactions[index]
        errors = _errors(_places(one.topics), refused, reply)
        answers[index] = AddPartitionsToTxnResult(
            transactional_id=one.transactional_id, topic_results=_results(one.topics, errors)
        )
        if len(answers) == len(transactions):
            results = tuple(answers[place] for place in range(len(transactions)))
            request.reply(AddPartitionsToTxnResponse(results_by_transaction=results))

    for index, one in enumerate(transactions):
        places = _places(one.topics)
        refused = {} if one.verify_only else _refused(context, None, places)
        answer = partial(answered, index, refused)
        if refused or not places:
            answer(ErrorCode.OPERATION_NOT_ATTEMPTED)
        else:
            ask_transaction(context, one.transactional_id, partial(_ask, one, places), answer)
    if not transactions:
        request.reply(AddPartitionsToTxnResponse())


def _ask(
    asked: AddPartitionsToTxnTransaction, places: tuple[TransactionPartition, ...], token: int
) -> AddToTransaction | VerifyPartitions:
    if asked.verify_only:
        return VerifyPartitions(
            token=token,
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            partitions=places,
        )
    return AddToTransaction(
        token=token,
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        partitions=places,
        version=2,
    )


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> tuple[TransactionPartition, ...]:
    return tuple(
        dict.fromkeys(
            TransactionPartition(topic.name, number) for topic in topics for number in topic.partitions
        )
    )


def _refused(
    context: CoordinatorContext, producer: Request | None, places: Sequence[TransactionPartition]
) -> _Errors:
    """Return the errors of partitions that can't be added. producer: the request of a producer, whose rights
    count; None: a member asks."""
    view = context.view
    errors: _Errors = {}
    for place in places:
        topic = view.topic_by_name(place.topic)
        if producer is not None and not producer.may(Operation.WRITE, ResourceType.TOPIC, place.topic):
            errors[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif place.topic == TRANSACTIONS_TOPIC or (producer is not None and place.topic == GROUPS_TOPIC):
            errors[place] = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif topic is None or topic.deleting or view.state(topic.topic_id, place.partition) is None:
            errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _errors(
    places: Sequence[TransactionPartition], refused: _Errors, reply: PartitionsReply | ErrorCode
) -> _Errors:
    """Return the error of each partition. reply: also the one of all that are not refused."""
    if isinstance(reply, ErrorCode):
        return dict.fromkeys(places, reply) | refused
    return dict(reply.errors)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: _Errors
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=errors[TransactionPartition(topic.name, number)],
                )
                for number in topic.partitions
            ),
        )
        for topic in topics
    )
