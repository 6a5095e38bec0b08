"""OffsetCommit: a member, or a client without a group's generation, commits offsets.

From v10 on topics are named by id. Before, the offset is kept with the id that the name has now, so that
a topic that is created under it later does not inherit the offset.
"""

from __future__ import annotations

from itertools import repeat

from coordinator.core.groups.requests import CommitOffsets, OffsetsReply, OffsetToCommit
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import TOPIC_ID_SINCE, NamedPartitions, TopicName
from springtide.contract.epochs import LeaderEpoch
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

MEMBER_EPOCHS_SINCE = 9
"""Clients before it know ILLEGAL_GENERATION for a generation of a group that is gone, and no epochs of
members (KIP-848)."""


def handle(context: CoordinatorContext, request: Request, message: OffsetCommitRequest) -> None:
    by_id = request.api_version >= TOPIC_ID_SINCE
    topics = [
        (TopicName(None if by_id else topic.name, topic.topic_id), topic.partitions)
        for topic in message.topics
    ]
    knows_epochs = request.api_version >= MEMBER_EPOCHS_SINCE
    named = NamedPartitions(context.view, request, topics)
    retention_ms = message.retention_time_ms  # v2-4

    def make(token: int) -> CommitOffsets:
        return CommitOffsets(
            token=token,
            group_id=message.group_id,
            generation_id=message.generation_id_or_member_epoch,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            retention_ms=None if retention_ms < 0 else retention_ms,
            knows_epochs=knows_epochs,
            offsets=tuple(
                OffsetToCommit(
                    place,
                    entry.committed_offset,
                    LeaderEpoch(entry.committed_leader_epoch),
                    entry.committed_metadata,
                )
                for place, entry in named.known
            ),
        )

    def answer(reply: OffsetsReply) -> None:
        error = reply.error
        if error is ErrorCode.GROUP_ID_NOT_FOUND and not knows_epochs:
            error = ErrorCode.ILLEGAL_GENERATION
        is_whole = error is not ErrorCode.NONE
        errors = repeat(error) if is_whole else (of_partition for _, of_partition in reply.partitions)
        answered = zip(message.topics, named.answer(errors), strict=True)
        request.reply(
            OffsetCommitResponse(
                topics=tuple(
                    OffsetCommitResponseTopic(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            OffsetCommitResponsePartition(partition_index=number, error_code=of_partition)
                            for number, of_partition in partitions
                        ),
                    )
                    for topic, partitions in answered
                )
            )
        )

    ask_group(context, request, message, make, answer)
