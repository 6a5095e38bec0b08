"""JoinGroup: a client becomes a member of a group, or stays one, in a new generation, for which the answer
waits (KIP-345, 394, 559, 814)."""

from __future__ import annotations

from coordinator.core.groups.requests import JoinGroup, JoinGroupReply, JoinProtocol
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

REBALANCE_TIMEOUT_SINCE = 1
"""Before it the session's timeout is that of a rebalance, too."""
MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
MEMBER_NAME_CHARS_MAX = 255
"""Of a client id or instance id in the member id: thousands of ids may be given out and wait for a join."""


def handle(context: CoordinatorContext, request: Request, message: JoinGroupRequest) -> None:
    connection = request.answer.connection
    client_id = connection.client_id or ""
    instance_id = message.group_instance_id
    name = (client_id if instance_id is None else instance_id)[:MEMBER_NAME_CHARS_MAX]

    def make(token: int) -> JoinGroup:
        return JoinGroup(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            new_member_id=f"{name}-{context.new_member_suffix()}",
            instance_id=instance_id,
            client_id=client_id,
            client_host=f"/{connection.peer}",  # as Java writes an address
            session_timeout_ms=message.session_timeout_ms,
            rebalance_timeout_ms=message.rebalance_timeout_ms
            if request.api_version >= REBALANCE_TIMEOUT_SINCE
            else message.session_timeout_ms,
            protocol_type=message.protocol_type,
            protocols=tuple(JoinProtocol(own.name, own.metadata) for own in message.protocols),
            requires_member_id=request.api_version >= MEMBER_ID_REQUIRED_SINCE,
            may_skip_assignment=request.api_version >= SKIP_ASSIGNMENT_SINCE,
        )

    ask_group(context, request, message, make, lambda reply: _answer(request, reply))


def _answer(request: Request, reply: JoinGroupReply) -> None:
    if reply.error is not ErrorCode.NONE:
        request.reply(JoinGroupResponse(error_code=reply.error, member_id=reply.member_id))
        return
    request.reply(
        JoinGroupResponse(
            member_id=reply.member_id,
            generation_id=reply.generation_id,
            protocol_type=reply.protocol_type,
            protocol_name=reply.protocol,
            leader=reply.leader,
            skip_assignment=reply.skip_assignment,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=member.metadata,
                )
                for member in reply.members
            ),
        )
    )
