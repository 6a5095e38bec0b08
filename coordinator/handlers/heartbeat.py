"""Heartbeat: a member says that it lives, and hears whether a rebalance has begun.

While the shard opens, every member is told that all is well, as in Kafka: its session begins again with the
opening, and another answer would make it look for the coordinator that it has found.
"""

from __future__ import annotations

from functools import cache

from coordinator.core.groups.requests import MemberHeartbeat, MemberHeartbeatReply
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import HeartbeatRequest, HeartbeatResponse
from springtide.wire.typed import write_message


@cache
def _body(api_version: int, error: ErrorCode) -> bytes:
    """Return an answer without a wait: there are few of them, and nearly all requests of idle groups get
    one."""
    return write_message(HeartbeatResponse(error_code=error), api_version)


def handle(context: CoordinatorContext, request: Request, message: HeartbeatRequest) -> None:

    def make(token: int) -> MemberHeartbeat:
        return MemberHeartbeat(
            token=token,
            group_id=message.group_id,
            generation_id=message.generation_id,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
        )

    def answer(reply: MemberHeartbeatReply) -> None:
        if request.account is None:
            request.note_errors((reply.error,))
            request.reply_chunks([_body(request.api_version, reply.error)])
        else:
            request.reply(HeartbeatResponse(error_code=reply.error))

    ask_group(context, request, message, make, answer, while_opening=ErrorCode.NONE)
