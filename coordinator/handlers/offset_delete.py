"""OffsetDelete: an operator deletes offsets of topics that a group's members do not subscribe (KIP-496)."""

from __future__ import annotations

from coordinator.core.groups.requests import DeleteOffsets, OffsetsReply
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import NamedPartitions, TopicName
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation
from springtide.wire.messages import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: CoordinatorContext, request: Request, message: OffsetDeleteRequest) -> None:
    topics = [(TopicName(topic.name), topic.partitions) for topic in message.topics]
    named = NamedPartitions(context.view, request, topics)

    def make(token: int) -> DeleteOffsets:
        places = tuple(place for place, _ in named.known)
        return DeleteOffsets(token=token, group_id=message.group_id, places=places)

    def answer(reply: OffsetsReply) -> None:
        if reply.error:
            request.reply(OffsetDeleteResponse(error_code=reply.error))
            return
        answered = zip(message.topics, named.answer(error for _, error in reply.partitions), strict=True)
        request.reply(
            OffsetDeleteResponse(
                topics=tuple(
                    OffsetDeleteResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            OffsetDeleteResponsePartition(partition_index=number, error_code=error)
                            for number, error in partitions
                        ),
                    )
                    for topic, partitions in answered
                )
            )
        )

    ask_group(context, request, message, make, answer, operation=Operation.DELETE)
