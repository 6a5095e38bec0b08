"""OffsetCommit: a member, or a client without a group's generation, commits offsets.

From v10 on topics are named by id. Before, the offset is kept with the id that the name has now, so that
a topic that is created under it later does not inherit the offset.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import repeat
from typing import Any, cast

from coordinator.core.groups.requests import CommitOffsets, OffsetsReply, OffsetToCommit
from coordinator.handlers.asking import MILLISECOND, ask_group
from coordinator.handlers.context import CoordinatorContext
from coordinator.handlers.topics import NamedPartitions
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode

GROUP_ID_NOT_FOUND_SINCE = 9
"""Clients before it know ILLEGAL_GENERATION for a generation of a group that is gone."""


def handle(context: CoordinatorContext, request: Request) -> None:
    message = cast(Any, request.decode())
    named = NamedPartitions(context.view, request, message.topics)
    retention: timedelta | None = getattr(message, "retention_time", None)  # v2-4
    if retention is not None and retention < timedelta():
        retention = None

    def make(token: int) -> CommitOffsets:
        return CommitOffsets(
            token=token,
            group_id=message.group_id,
            generation_id=message.generation_id_or_member_epoch,
            member_id=message.member_id,
            instance_id=getattr(message, "group_instance_id", None),
            retention_ms=None if retention is None else retention // MILLISECOND,
            offsets=tuple(
                OffsetToCommit(
                    place,
                    entry.committed_offset,
                    getattr(entry, "committed_leader_epoch", -1),
                    entry.committed_metadata,
                )
                for place, entry in named.known
            ),
        )

    def answer(reply: OffsetsReply) -> None:
        error = reply.error
        if error is ErrorCode.GROUP_ID_NOT_FOUND and request.api_version < GROUP_ID_NOT_FOUND_SINCE:
            error = ErrorCode.ILLEGAL_GENERATION
        is_whole = error is not ErrorCode.NONE
        errors = repeat(error) if is_whole else (of_partition for _, of_partition in reply.partitions)
        request.reply({"topics": named.answer(errors)})

    ask_group(context, request, message, make, answer)
