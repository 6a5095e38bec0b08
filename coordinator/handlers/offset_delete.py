"""OffsetDelete: an operator deletes offsets of topics that a group's members do not subscribe (KIP-496)."""

from __future__ import annotations

from typing import Any, cast

from coordinator.core.groups.requests import DeleteOffsets, OffsetsReply
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import NamedPartitions
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation


def handle(context: CoordinatorContext, request: Request) -> None:
    message = cast(Any, request.decode())
    named = NamedPartitions(context.view, request, message.topics)

    def make(token: int) -> DeleteOffsets:
        places = tuple(place for place, _ in named.known)
        return DeleteOffsets(token=token, group_id=message.group_id, places=places)

    def answer(reply: OffsetsReply) -> None:
        topics = [] if reply.error else named.answer(error for _, error in reply.partitions)
        request.reply({"error_code": reply.error, "topics": topics})

    ask_group(context, request, message, make, answer, operation=Operation.DELETE)
