"""Heartbeat: a member says that it lives, and hears whether a rebalance has begun.

While the shard opens, every member is told that all is well, as in Kafka: its session begins again with the
opening, and another answer would make it look for the coordinator that it has found.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from coordinator.core.groups.requests import MemberHeartbeat, MemberHeartbeatReply
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode


@cache
def _body(api_version: int, error: ErrorCode) -> bytes:
    """Return an answer without a wait: there are few of them, and nearly all requests of idle groups get
    one."""
    fields = {"error_code": error}
    return codec.encode(codec.build(codec.response_type(ApiKey.HEARTBEAT, api_version), fields))


def handle(context: CoordinatorContext, request: Request) -> None:
    message = cast(Any, request.decode())

    def make(token: int) -> MemberHeartbeat:
        return MemberHeartbeat(
            token=token,
            group_id=message.group_id,
            generation_id=message.generation_id,
            member_id=message.member_id,
            instance_id=getattr(message, "group_instance_id", None),
        )

    def answer(reply: MemberHeartbeatReply) -> None:
        if request.account is None:
            request.note_errors((reply.error,))
            request.reply_chunks([_body(request.api_version, reply.error)])
        else:
            request.reply({"error_code": reply.error})

    ask_group(context, request, message, make, answer, while_opening=ErrorCode.NONE)
