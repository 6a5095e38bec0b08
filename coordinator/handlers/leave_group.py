"""LeaveGroup: a member leaves, or, from v3 on, an operator removes several at once (KIP-345)."""

from __future__ import annotations

from coordinator.core.groups.requests import LeaveGroup, LeaveGroupReply, Leaver
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)

SEVERAL_SINCE = 3


def handle(context: CoordinatorContext, request: Request, message: LeaveGroupRequest) -> None:
    has_several = request.api_version >= SEVERAL_SINCE
    if has_several:
        leavers = tuple(Leaver(one.member_id, one.group_instance_id) for one in message.members)
    else:
        leavers = (Leaver(message.member_id),)

    def make(token: int) -> LeaveGroup:
        return LeaveGroup(token=token, group_id=message.group_id, leavers=leavers)

    def answer(reply: LeaveGroupReply) -> None:
        error = reply.error
        if not has_several and error is ErrorCode.NONE:
            ((_, error),) = reply.errors
        members = tuple(
            LeaveGroupMemberResponse(
                member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=of_member
            )
            for leaver, of_member in reply.errors
        )
        request.reply(LeaveGroupResponse(error_code=error, members=members))

    ask_group(context, request, message, make, answer)
