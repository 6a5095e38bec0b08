"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader can find where its history parts
(KIP-101).

Replicas and clients that may describe the topic are told.
"""

from __future__ import annotations

from dataplane.core.results import EpochEndResult
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.list_offsets import error_of_unhosted
from springtide.contract.epochs import LeaderEpoch
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochOffsetForLeaderPartition,
    OffsetForLeaderEpochOffsetForLeaderTopicResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

_DENIED = EpochEndResult(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def handle(context: BrokerContext, request: Request, message: OffsetForLeaderEpochRequest) -> None:
    request.reply(
        OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderEpochOffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        _epoch_end(context, topic.topic, partition, request.now_ms)
                        if may_describe
                        else _told(partition.partition, _DENIED)
                        for partition in topic.partitions
                    ),
                )
                for topic in message.topics
                for may_describe in (_may_describe(request, topic.topic),)
            )
        )
    )


def _may_describe(request: Request, topic: str) -> bool:
    acts_for_cluster = request.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, is_filter=True)
    return acts_for_cluster or request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _epoch_end(
    context: BrokerContext, topic: str, asked: OffsetForLeaderEpochOffsetForLeaderPartition, now_ms: int
) -> OffsetForLeaderEpochEpochEndOffset:
    hosted = context.table.get_by_name(topic, asked.partition)
    if hosted is None:
        result = EpochEndResult(error=error_of_unhosted(context, topic, asked.partition))
    else:
        result = hosted.replica.role.offset_for_leader_epoch(
            current_leader_epoch=asked.current_leader_epoch,
            leader_epoch=LeaderEpoch(asked.leader_epoch),
            now_ms=now_ms,
        )
    return _told(asked.partition, result)


def _told(partition: int, result: EpochEndResult) -> OffsetForLeaderEpochEpochEndOffset:
    return OffsetForLeaderEpochEpochEndOffset(
        partition=partition,
        error_code=result.error,
        leader_epoch=result.leader_epoch,
        end_offset=result.end_offset,
    )
