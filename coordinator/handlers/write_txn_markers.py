"""WriteTxnMarkers: a transaction ends, and with it what it has pending in the shards of groups that are here.

A marker is answered once what it changes is committed and read (KAFKA-17507). Its sender tries again on every
error, so shards' errors go back as they are.
"""

from __future__ import annotations

from functools import partial

from coordinator.core.groups.requests import EndPendingOffsets, PendingOffsetsEnded
from coordinator.handlers.context import CoordinatorContext
from springtide.levels import TRANSACTIONS
from springtide.node.handlers.context import Request, check_level
from springtide.node.handlers.transaction_refusals import refuse
from springtide.node.sharding import GROUPS_TOPIC
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from springtide.wire.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersWritableTxnMarker,
    WriteTxnMarkersWritableTxnMarkerPartitionResult,
    WriteTxnMarkersWritableTxnMarkerResult,
    WriteTxnMarkersWritableTxnMarkerTopicResult,
)

_Place = tuple[int, str, int]
"""A marker's place in the request, and a partition."""


def handle(context: CoordinatorContext, request: Request, message: WriteTxnMarkersRequest) -> None:
    if not (
        request.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, is_filter=True)
        or request.may(Operation.ALTER, ResourceType.CLUSTER)
    ):
        refuse(request, message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    if error := check_level(context, TRANSACTIONS):
        refuse(request, message, error)
        return
    asked = dict.fromkeys(
        (index, topic.name, partition)
        for index, marker in enumerate(message.markers)
        for topic in marker.topics
        for partition in topic.partition_indexes
    )
    errors: dict[_Place, ErrorCode] = {}

    def answered(place: _Place, reply: object) -> None:
        if isinstance(reply, PendingOffsetsEnded):
            reply = reply.error
        assert isinstance(reply, ErrorCode)
        errors[place] = reply
        if len(errors) == len(asked):
            request.reply(_response(message, errors))

    for place in asked:
        index, topic, partition = place
        if topic == GROUPS_TOPIC:
            make = partial(_request, message.markers[index])
            context.shards.submit(partition, make, partial(answered, place))
        else:
            answered(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not asked:
        request.reply(_response(message, errors))


def _request(marker: WriteTxnMarkersWritableTxnMarker, token: int) -> EndPendingOffsets:
    return EndPendingOffsets(
        token=token,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        outcome=Outcome.COMMIT if marker.transaction_result else Outcome.ABORT,
        transaction_version=marker.transaction_version,
        attempt=marker.attempt,
    )


def _response(message: WriteTxnMarkersRequest, errors: dict[_Place, ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WriteTxnMarkersWritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WriteTxnMarkersWritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WriteTxnMarkersWritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=errors[index, topic.name, number]
                            )
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for index, marker in enumerate(message.markers)
        )
    )
